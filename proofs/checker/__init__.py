"""A checker of certificates that uses no code of the package that makes them; a wheel has it as `tensorlang_checker`.

From the bottom up: `budget` says how long anything may take, `trees` holds programs, `names` maps names to their
meaning at a place, `syntax` reads programs, `semantics` says what they mean and cost at given sizes, one element at a
time, `predicates` and `linear` rename and solve, `facts` decides by isl which implications hold for all sizes and data,
`points` compares sets by it, `kinds` checks types, scopes and bounds, `externals` reads what is assumed of external
functions, `normal` and `meaning` bring values to normal forms, `recurrences` compares states, `equal` compares two
programs by these normal forms, `gradient` derives the gradient of a program with recurrences, `charges` and `transport`
compare costs, `costs` uses them to show that an adjoint is cheap, `functions` knows derivatives, `scalar_code` reads
functions with loops that data end, `symbols` compares their values on all paths, `paths` derives their derivatives,
`running` runs them at numbers, `loops` says what was found about them, `statements` reads Figure 10, `replay` follows a
derivation, `extracted` asks the adjoint that is extracted from the Coq proofs, where that is built, `samples` looks for
counterexamples at small sizes, `formulas` reads costs, `report` says what was established, the weakest part first, and
`certificate` checks everything that a certificate says.

    python -m proofs.checker CERTIFICATE.json
"""
