"""Whole functions of arrays whose adjoints are declared, not derived.

external    a Python function of JAX arrays as a function of the language, with its types and its cost
adjoint     the adjoint that a user declares, for an external function or a program
check       such an adjoint compared with the function: exactly, or by finite differences
costs       declared costs, and counts of the operations of XLA's code
"""
