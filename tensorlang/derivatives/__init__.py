"""Figures 13 to 17: the total derivative, and the adjoint by rewriting inner products.

    tidy SSA, parameters  --total-->    SSA of the total derivative                      Figure 13
                          --adjoint-->  SSA of the adjoint, and the steps that made it   Figures 14 to 16
    steps  --derivation-->  Derivation  --ledger-->  what each step costs                Figure 17
                                        --transcript-->  text

Both take SSA that `simplification` has tidied, and give SSA that it has yet to simplify: `tensorlang.pipeline` composes
them. Start at `adjoint`, with the figures of the paper beside it; `derivation` has the rules and the steps as values.

Which module has which law
    6.1 to 6.13     the differential of each kind of statement    total.py
    6.14 to 6.29    the order of the steps, and each rule         adjoint.py; RULES in derivation.py has their texts
    6.30 to 6.34    the extended cost, before and after a step    ledger.py
    6.R0, 6.R1      recurrences, which are not in the paper       recurrence.py
    6.A             calls of functions with declared adjoints     declared.py

What is decided for recurrences
    which values of its steps are stored, and which recomputed    recurrence_stores.py
    where cotangents of its states are not 0                      recurrence_supports.py, which proves guesses of
                                                                  supports.py

`touch` counts points of statements, which bounds what runs; only tests use it.
"""
