"""How the arrays that a kernel reads and writes lie, and in which blocks they come.

An array has at least two dimensions, the last two in registers. One of one dimension is a column if its places are
those of an array's rows, else a row. Each dimension is read in a way of its own (`How`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, constant, total
from tensorlang.language.grammar import Expr, Var
from tensorlang.language.predicates import And, Or, Predicate, Related, Relation
from tensorlang.lowering.kernels.ir import Kernel, Role, TileAxis
from tensorlang.lowering.kernels.roles import is_column, looked_up
from tensorlang.lowering.kernels.terms import conditions, reads

Array = Var | Relation | IndexArray


class How(Enum):
    """How a dimension is read."""

    ABSENT = "absent"
    """The array has no such dimension; there is one of length 1 in its stead."""
    NUMBER = "number"
    """At one place for each step of the grid."""
    TILE = "tile"
    """In the tiles of an axis."""
    WHOLE = "whole"
    """From end to end, or in the code at windows of it, or at single places."""


@dataclass(frozen=True)
class Dimension:
    """A dimension, read at the places `at`, which are from `low` on, `length` of them before tiles are filled up."""

    how: How
    at: Affine
    low: Affine
    length: Affine
    axis: TileAxis | None = None
    """The axis of values along it, if there is one."""


@dataclass(frozen=True)
class Operand:
    """An array as a kernel reads or writes it: the dimensions, those that are absent too."""

    array: Array
    dimensions: tuple[Dimension, ...]

    @property
    def axes(self) -> tuple[Index, ...]:
        """The axes of its values."""
        return tuple(d.axis.index for d in self.dimensions if d.axis is not None)


def operand(kernel: Kernel, array: Array, places: tuple[Affine, ...]) -> Operand:
    """How `kernel` has `array` at these places."""
    axes = {axis.index: axis for axis in kernel.axes}
    zero = constant(0)
    absent = Dimension(How.ABSENT, zero, zero, constant(1))
    found = [dimension(a, axes) for a in places]
    if places and is_column(places, patterns(kernel)):
        found.append(absent)
    missing = max(0, 2 - len(found))
    return Operand(array, (*(absent,) * missing, *found))


def patterns(kernel: Kernel) -> list[tuple[Affine, ...]]:
    """The places at which a kernel reads and writes arrays."""
    expressions = expressions_of(kernel)
    found = [places for _, places in reads(*expressions)]
    found += [tuple(Affine(((i, 1),), 0) for i in output.axes) for output in kernel.outputs]
    found += [x.at for x in lookups_of(kernel)]
    return [places for places in dict.fromkeys(found) if places]


def expressions_of(kernel: Kernel) -> list[Expr]:
    """The expressions of a kernel."""
    return [acc.value for acc in kernel.accumulators] + [output.value for output in kernel.outputs]


def lookups_of(kernel: Kernel) -> list[Lookup]:
    """The elements of index arrays that a kernel reads."""
    return looked_up(*expressions_of(kernel))


def relations_of(kernel: Kernel) -> list[Related]:
    """The relations that a kernel reads, as they occur in it."""
    return relations_in(*(acc.pred for acc in kernel.accumulators), *conditions(*expressions_of(kernel)))


def relations_in(*predicates: Predicate) -> list[Related]:
    """The relations in `predicates`, which have no quantifiers, as they occur there."""
    found: dict[Related, None] = {}
    stack = list(reversed(predicates))
    while stack:
        part = stack.pop()
        if isinstance(part, Related):
            found[part] = None
        elif isinstance(part, And | Or):
            stack += reversed(part.parts)
    return list(found)


def dimension(a: Affine, axes: dict[Index, TileAxis]) -> Dimension:
    """How the dimension that is read at `a` is read; of the axes in it one at most is an axis of values."""
    here = [axes[i] for i in a.indices]
    low = _end(a, axes, lowest=True)
    length = _end(a, axes, lowest=False) - low + 1
    inside = [axis for axis in here if not axis.is_number]
    if not inside:
        unrolled = any(axis.role is Role.UNROLLED for axis in here)
        return Dimension(How.WHOLE if unrolled else How.NUMBER, a, low, length)
    (axis,) = inside
    return Dimension(How.TILE if axis.is_tiled else How.WHOLE, a, low, length, axis)


def _end(a: Affine, axes: dict[Index, TileAxis], lowest: bool) -> Affine:
    """The lowest or highest place in the ranges of the axes."""
    parts = [(constant(1), a.constant)]
    for atom, k in a.terms:
        if isinstance(atom, Index):
            parts.append((axes[atom].extent - 1, 0 if (k > 0) is lowest else k))
        elif isinstance(atom, Size):
            parts.append((Affine(((atom, 1),), 0), k))
    return total(parts)
