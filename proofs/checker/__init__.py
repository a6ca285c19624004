"""A checker of certificates that uses no code of the package that makes them; a wheel has it as `tensorlang_checker`.

From the bottom up: `budget` says how long anything may take, `trees` holds programs, `names` what names stand for at
a place, `syntax` reads programs, `semantics` says what they mean and cost at given sizes, one element at a time,
`predicates` and `linear` rename and solve, `facts` decides by isl what follows for all sizes and data, `points`
compares sets by it, `kinds` checks types, scopes and bounds, `externals` reads what is assumed of
external functions, `normal` and `meaning` bring values to normal forms,
`recurrences` tells states apart, `equal` compares two programs by these, `gradient` derives the gradient of a program
with recurrences, `charges` and `transport` compare costs, `costs` says by them that an adjoint is cheap, `functions`
knows derivatives, `scalar_code` reads functions with loops that data end, `symbols` compares values on all their
paths, `paths` derives their derivatives, `running` runs them at numbers, `loops` says what was found of them,
`statements` reads Figure 10, `replay` follows a derivation, `extracted` asks the adjoint that is extracted from the
Coq proofs, where that is built, `samples` looks for counterexamples at small sizes, `formulas` reads costs, `report`
says what was established, the weakest part first, and `certificate` checks all that a certificate says.

    python -m proofs.checker CERTIFICATE.json
"""
