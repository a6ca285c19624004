"""Programs from JAX functions, read off their jaxprs, and JAX's derivatives with parts of a function derived.

    flatten        a jaxpr without calls; fission: what no step needs is computed before or after a loop
    sizes, terms   sizes of JAX's arrays as affine expressions; sums, products and choices of expressions
    values, axes   abstract values of variables: expressions, indices, conditions at a place; their axes
    statements     the program in the making: its names, statements, and questions about predicates
    inputs         its parameters, and how each is made from values that JAX computes; builder: its values
    origins        which arrays repeat elements of others, for comparisons of all pairs of elements of two arrays
    rules/         one rule for each primitive, a module for each family; scalars: functions that they need
    importer       equations to a program; refusal: what is none, with the line; imported: `tl.from_jax`
    fitted         one program for all sizes, where JAX traces only at numbers
    regions        the parts of a function that become programs: those that pay; work: the cost of JAX's gradients;
                   price: the costs that are compared; dense: equations that have no cheaper gradient; carried:
                   states that XLA copies in each step
    rewrite        the function with these parts replaced; explain: a report on a function's parts
    lint, formats  the gradients that do more work than they need, for people and machines; hidden: numbers in place of
                   -inf, which make them do so

An integer or a condition is an index or a predicate as long as it depends on places alone. If it depends on data, JAX
computes it beforehand, as an index array or a relation without a derivative. Numbers are expressions, and each
operation on them is a statement, so no work is duplicated; moving elements needs no statement. Simplification does the
rest.
"""
