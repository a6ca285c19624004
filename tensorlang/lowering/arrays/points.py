"""Data relations given by their points, as index arrays.

A relation R(n, m) with a number `count` of points is a list of them, without repetitions, in lexicographic order: one
index array for each argument. Then

    sum i, j. [R(i, j)] * e   =   sum p:count. [i := R0[p], j := R1[p]] e

and R(R0[p], R1[p]) is true. Where a sum over the list leaves arguments other than the first, the list is needed in
their order, too: as one more index array, of the places of its points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine
from tensorlang.language.predicates import Relation
from tensorlang.lowering.arrays.ir import Name, Tuple
from tensorlang.lowering.arrays.names import Names

Order = tuple[int, ...]
"""The arguments by which points are ordered, the most significant first."""


@dataclass(frozen=True, eq=False)
class RelationPoints:
    """The points of `relation`: how many there are, a column for each argument, and the further orders in which the
    generated code has them, by the names of their arrays."""

    relation: Relation
    name: str
    size: Size
    columns: tuple[IndexArray, ...]
    orders: dict[Order, str] = field(default_factory=dict)

    @staticmethod
    def of(names: Names, relation: Relation, name: str, count: Size) -> RelationPoints:
        """The points of `relation`, whose columns have names of their own."""
        own = [names.fresh_global(f"{name}_{k}") for k in range(len(relation.sizes))]
        columns = tuple(IndexArray(x, (atom_affine(count),), n) for x, n in zip(own, relation.sizes, strict=True))
        return RelationPoints(relation, name, count, columns)

    @property
    def count(self) -> Affine:
        """The number of points."""
        return atom_affine(self.size)

    def ordered(self, names: Names, first: Order) -> str | None:
        """The name of the points' order by the arguments `first`, and then the others; None if they are in it."""
        basic = tuple(range(len(self.columns)))
        order = (*first, *(k for k in basic if k not in first))
        if order == basic:
            return None
        if order not in self.orders:
            self.orders[order] = names.fresh_global(f"{self.name}_by{order[0]}")
        return self.orders[order]

    def columns_node(self) -> Tuple:
        """The columns, a tuple of arrays."""
        return Tuple(tuple(Name(column.name) for column in self.columns))

    def matched(self, arguments: Sequence[Affine]) -> Affine | None:
        """The number of the point that has these arguments, if they are the columns of one."""
        found = self._entry(arguments[0])
        if found is None or any(self._entry(a) != (k, found[1]) for k, a in enumerate(arguments)):
            return None
        return found[1][0]

    def _entry(self, a: Affine) -> tuple[int, tuple[Affine, ...]] | None:
        """The column and the place of an affine expression that is an element of a column."""
        if a.constant or len(a.terms) != 1:
            return None
        (atom, k), *_ = a.terms
        if k != 1 or not isinstance(atom, Lookup) or atom.array not in self.columns:
            return None
        return self.columns.index(atom.array), atom.at

    def is_certain(self, bound: dict[Index, Affine], arguments: Sequence[Affine]) -> bool:
        """Whether there is a point with these arguments, where the `bound` indices may have any value."""
        chosen = [i for a in arguments for i in bound if a is atom_affine(i)]
        if sorted(map(id, chosen)) != sorted(map(id, bound)):
            return False
        found = set()
        for k, a in enumerate(arguments):
            i = next((i for i in bound if a is atom_affine(i)), None)
            if i is not None:
                if bound[i] is not self.relation.sizes[k]:
                    return False
                continue
            entry = self._entry(a)
            if entry is None or entry[0] != k:
                return False
            found.add(entry[1])
        return len(found) == 1
