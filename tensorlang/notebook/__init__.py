"""Values in notebooks: every kind of value that a user gets, as HTML and typeset.

    html        escaping, tables, folds, and the stylesheet that all share
    lattice     predicates as sets of points
    programs    functions, normal forms, statements, expressions, predicates, types
    source      Python in colours
    results     costs, certificates, rules and steps, lowered code, errors
    stepper     derivations to step through

Values know nothing about this. Importing the package registers its functions with `tensorlang.shown`.
"""

from tensorlang.notebook import programs, results, stepper

__all__ = ["programs", "results", "stepper"]
