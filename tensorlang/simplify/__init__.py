"""Simplification of tensor SSA, and reading it back as a program."""
