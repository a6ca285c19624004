"""Programs with recurrences under JAX: their derivative and their adjoint, as programs that are derived by our rules.

A program's value is computed again by its adjoint, which stores what it needs of each step.
"""

from __future__ import annotations

from tensorlang.pipeline import adjoint, derivative
from tensorlang.transforms.flat import flat
from tensorlang.transforms.linear import Program, once


@once
def rates(op: Program, by: tuple[int, ...]) -> Program:
    """The derivative by the parameters in these places: a program of all parameters, then of their differentials."""
    return Program(flat(derivative(op.function, tuple(op.params[k].name for k in by))))


@once
def cotangents(op: Program, by: tuple[int, ...]) -> Program:
    """The adjoint by the parameters in these places: a program of all parameters, then of the results' cotangents."""
    return Program(flat(adjoint(op.function, tuple(op.params[k].name for k in by))))
