"""Whole functions of arrays whose adjoints are declared, not derived.

external    a Python function of JAX arrays as a function of the language, with its types and its cost
adjoint     the adjoint that a user declares, of an external function or of a program
check       such an adjoint held against the function: exactly, or against differences
costs       declared costs, and what XLA's code does
"""
