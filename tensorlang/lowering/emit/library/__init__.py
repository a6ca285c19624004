"""Functions that generated code brings along, written here as they are to be read there.

A part imports only `jax`, calls only other parts and a few builtins (`namespace.py` lists them), and is copied, each
with those that it calls, in front of a program that uses it. Sizes are known when it is traced, so it may choose there
between ways to compute the same.
"""
