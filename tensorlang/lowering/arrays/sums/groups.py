"""Groups: a condition that compares an element at a summed index with one at axes of the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Index, Lookup, Size, atom_affine, total
from tensorlang.language.predicates import Equal, Predicate
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes


@dataclass(frozen=True)
class Group:
    """The condition `part`: the element `own` at the summed index `j` is the element `asked` at axes of the result."""

    part: Predicate
    j: Index
    own: Lookup
    asked: Lookup

    def axes(self, c: Summation) -> Axes:
        """The axes of the result at which it is `asked` for."""
        return c.scope.axes(atom_affine(self.asked))


def groups(c: Summation) -> Iterator[Group]:
    """The groups that conditions of `c` ask for."""
    for q in c.parts:
        found = sides(c, q.difference) if isinstance(q, Equal) else None
        if found is None:
            continue
        j, own, rest = found
        for x in own.lookups:
            for y in rest.lookups:
                if atom_affine(x) - atom_affine(y) in (own + rest, -(own + rest)):
                    yield Group(q, j, x, y)


def sides(c: Summation, a: Affine) -> tuple[Index, Affine, Affine] | None:
    """The only index on which the summed part of `a` depends, that part, and the rest of `a`, which depends on axes of
    the result; None if `a` is of another form."""
    if not c.scope.axes(a) or not c.scope.loops.keys().isdisjoint(a.free):
        return None
    inside = [x for x in a.atoms if not c.summed.keys().isdisjoint(atom_affine(x).free)]
    indices = [i for i in {i for x in inside for i in atom_affine(x).free} if not isinstance(i, Size)]
    if len(indices) != 1 or not isinstance(indices[0], Index):
        return None
    own = total((atom_affine(x), a.coefficient(x)) for x in inside)
    return indices[0], own, a - own
