"""Values in notebooks: every kind of value that a user gets, as HTML and typeset.

    html        escaping, tables, folds, and the stylesheet that all share
    programs    functions, normal forms, expressions, predicates, types
    results     costs, certificates, lowered code, errors
    stepper/    derivations to step through, live and on pages

Values know nothing of this. Importing the package registers what is here with `tensorlang.shown`.
"""

from tensorlang.notebook import stepper as stepper
