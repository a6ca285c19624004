"""Programs from JAX functions, read off their jaxprs, and JAX's derivatives with parts of a function derived.

    flatten        a jaxpr without calls
    values, axes   abstract values of variables: expressions, indices, conditions at a place; their axes
    statements     the program in the making: its names, statements, and questions about predicates
    inputs         its parameters, and how each is made of what JAX computes; builder: its values
    origins        which arrays repeat the elements of others, all of which may be compared with all of another one
    rules/         one rule for each primitive, a module for each family; scalars: functions that they need
    importer       equations to a program; imported: `tl.from_jax`
    regions        which parts of a function become programs: those that pay; work: what JAX's gradients cost
    rewrite        the function with these parts replaced; explain: what becomes of a function
    lint, formats  which gradients do more work than they need, for people and machines

An integer or a condition is an index or a predicate as long as it depends on places alone. What depends on data,
JAX computes beforehand: an index array or a relation, without a derivative. Numbers are expressions, and each
operation on them is a statement, so no work is copied; moving elements makes none. Simplification does the rest.
"""
