"""Programs with recurrences under JAX: their derivative and their adjoint, as programs that are derived by our rules.

A program's value is computed again by its adjoint, which stores what it needs of each step.
"""

from __future__ import annotations

from tensorlang.derivative.adjoint import adjoint_steps
from tensorlang.derivative.total import total_derivative
from tensorlang.language.grammar import Var
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import SSA
from tensorlang.simplify import read_simplified, simplify_ssa
from tensorlang.transforms.flat import flat
from tensorlang.transforms.linear import Program, once


@once
def rates(op: Program, by: tuple[int, ...]) -> Program:
    """The derivative by the parameters in these places: a program of all parameters, then of their differentials."""
    return Program(flat(read_simplified(total_derivative(*_prepared(op, by)))))


@once
def cotangents(op: Program, by: tuple[int, ...]) -> Program:
    """The adjoint by the parameters in these places: a program of all parameters, then of the results' cotangents."""
    s, _ = adjoint_steps(*_prepared(op, by), op.function.type)
    return Program(flat(read_simplified(s)))


def _prepared(op: Program, by: tuple[int, ...]) -> tuple[SSA, tuple[Var, ...]]:
    variables = tuple(p for p in (op.params[k] for k in by) if isinstance(p, Var))
    return simplify_ssa(normal_ssa(op.function)), variables
