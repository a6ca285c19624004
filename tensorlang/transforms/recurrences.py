"""Programs with recurrences, or calls of routines, under JAX: their derivative and adjoint, as programs.

The adjoint computes the program's value again, and stores what it needs of each step.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.derivatives.total import total_derivative
from tensorlang.language.affine import Affine, Size
from tensorlang.language.function import Function, Parameter, taken_names
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import SSA
from tensorlang.simplification import read_simplified, recalled, simplify_ssa
from tensorlang.transforms.flat import flat, like
from tensorlang.transforms.linear import FlatProgram, once, variable


@dataclass(frozen=True, eq=False, repr=False)
class Rates:
    """The derivative of `of` with respect to the parameters in the places `by`: an operation on all parameters, then on
    the differentials of these. It is derived only when it is run, since its transpose needs only the adjoint."""

    of: FlatProgram
    by: tuple[int, ...]
    differentials: tuple[Var, ...]

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Its name in compiled code."""
        return f"{self.of.name}_derivative"

    @property
    def params(self) -> tuple[Parameter, ...]:
        """Its parameters, in order."""
        return (*self.of.params, *self.differentials)

    @property
    def shapes(self) -> list[tuple[Affine, ...]]:
        """The shapes of its results."""
        return self.of.shapes

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that it must be given."""
        return self.of.sizes

    @property
    def program(self) -> FlatProgram:
        """The derivative as a program."""
        return _derived(self)

    @property
    def function(self) -> Function:
        """The derivative as a function."""
        return self.program.function


@once
def rates(op: FlatProgram, by: tuple[int, ...]) -> Rates:
    """The derivative with respect to the parameters in these places."""
    own = [variable(op.params[k]) for k in by]
    shapes = [shape(x.type)[0] for x in own]
    return Rates(op, by, like([f"d{x.name}" for x in own], shapes, taken_names(op.function)))


@once
def _derived(op: Rates) -> FlatProgram:
    return FlatProgram(_total(op.of.function, op.by))


@recalled
def _total(f: Function, by: tuple[int, ...]) -> Function:
    return flat(read_simplified(total_derivative(*_prepared(f, by))))


@once
def cotangents(op: FlatProgram, by: tuple[int, ...]) -> FlatProgram:
    """The adjoint for the parameters in these places: a program of all parameters, then of the results' cotangents."""
    return FlatProgram(_adjoint(op.function, by))


@recalled
def _adjoint(f: Function, by: tuple[int, ...]) -> Function:
    s, _ = adjoint_steps(*_prepared(f, by), f.type)
    return flat(read_simplified(s))


def _prepared(f: Function, by: tuple[int, ...]) -> tuple[SSA, tuple[Var, ...]]:
    variables = tuple(p for p in (f.params[k] for k in by) if isinstance(p, Var))
    return simplify_ssa(normal_ssa(f)), variables
