"""Programs from JAX functions, read off their jaxprs.

values, axes   abstract values of variables: expressions, indices, conditions at a place
builder        the program in the making: statements, parameters, questions about predicates
rules/         one rule for each primitive, a module for each family
demand         statements restricted to where they are read
importer       equations to a program; imported: `tl.from_jax`
"""
