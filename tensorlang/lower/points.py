"""Data relations given by their points, as index arrays.

A relation R(n, m) with a number `count` of points is a list of them, without repetitions, in lexicographic order: one
index array for each argument. Then

    sum i, j. [R(i, j)] * e   =   sum p:count. [i := R0[p], j := R1[p]] e

and R(R0[p], R1[p]) is true. The list ordered by other arguments first is wanted where sums over it leave these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.predicates import Exists, NonNegative, Or, Predicate, Related, Relation, lookups
from tensorlang.lower.scope import Context, Held, Scope

Order = tuple[int, ...]
"""The arguments by which points are ordered, the most significant first."""


@dataclass(frozen=True)
class Listing:
    """The points in one order: a column for each argument, and where each point is in the basic order."""

    columns: tuple[IndexArray, ...]
    at: IndexArray | None


@dataclass(frozen=True, eq=False)
class Points:
    """The points of `relation`: how many there are, and the orders in which the generated code has them."""

    relation: Relation
    name: str
    count: Affine
    listings: dict[Order, Listing] = field(default_factory=dict)
    places: dict[IndexArray, tuple[Order, int]] = field(default_factory=dict)

    @property
    def basic(self) -> Order:
        """The order of the arguments themselves."""
        return tuple(range(len(self.relation.sizes)))

    def listing(self, ctx: Context, order: Order) -> Listing:
        """The points in that order, as index arrays that the code of `ctx` has by name."""
        if order not in self.listings:
            prefix = self.name if order == self.basic else f"{self.name}_by{order[0]}"
            columns = tuple(self._array(ctx, f"{prefix}_{k}", size) for k, size in enumerate(self.relation.sizes))
            at = None if order == self.basic else self._array(ctx, f"{prefix}_at", self.count)
            self.places.update({column: (order, k) for k, column in enumerate(columns)})
            self.listings[order] = Listing(columns, at)
        return self.listings[order]

    def _array(self, ctx: Context, wanted: str, size: Affine) -> IndexArray:
        name = ctx.names.lasting(wanted)
        array = IndexArray(name, (self.count,), size)
        ctx.held[array, ()] = Held(name, array.sizes)
        return array

    def columns(self, ctx: Context) -> str:
        """The columns in the basic order, a tuple of arrays."""
        names = [ctx.held[column, ()].name for column in self.listing(ctx, self.basic).columns]
        return f"({', '.join(names)}{',' * (len(names) == 1)})"

    def matched(self, arguments: Sequence[Affine]) -> Affine | None:
        """Which point of the basic order has these arguments, if they are the columns of one."""
        found = self._entry(arguments[0])
        if found is None or any(self._entry(a) != (found[0], k, found[2]) for k, a in enumerate(arguments)):
            return None
        order, _, at = found
        listing = self.listings[order]
        return at[0] if listing.at is None else atom_affine(Lookup(listing.at, at))

    def _entry(self, a: Affine) -> tuple[Order, int, tuple[Affine, ...]] | None:
        """The order, the column and the place of an affine expression that is an element of a column."""
        if a.constant or len(a.terms) != 1:
            return None
        (atom, k), *_ = a.terms
        if k != 1 or not isinstance(atom, Lookup) or atom.array not in self.places:
            return None
        return *self.places[atom.array], atom.at

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
            if entry is None or entry[1] != k:
                return False
            found.add((entry[0], entry[2]))
        return len(found) == 1


def unresolved(ctx: Context, scope: Scope, parts: Sequence[Predicate]) -> tuple[Predicate, ...]:
    """Those of `parts` that what is known of data leaves open: elements of index arrays are in their range, and where
    a point of a relation is, that is true. Where none of an index array's elements is in its range, `parts` that
    compare them are false, which is added to what is left."""
    left = [q for q in parts if not _is_certain(ctx, q)]
    for q in parts:
        if not isinstance(q, Or):
            left += [some for some in has_elements(ctx, scope, lookups(q)) if some not in left]
    return tuple(left)


def has_elements(ctx: Context, scope: Scope, found: Sequence[Lookup]) -> list[NonNegative]:
    """What must hold of sizes, and is not known to, for what was looked up to be there."""
    arrays = dict.fromkeys(lookup.array for lookup in found if lookup.array in ctx.uncertain)
    return [q for q in (NonNegative(array.size - 1) for array in arrays) if q not in scope.masks]


def _is_certain(ctx: Context, q: Predicate) -> bool:
    if isinstance(q, NonNegative):
        known: dict[Atom, Affine] = {}
        for atom, k in q.value.terms:
            if isinstance(atom, Lookup):
                known[atom] = constant(0) if k > 0 else atom.array.size - 1
        return bool(known) and ctx.integers.is_nonnegative(q.value.substitute(known))
    bound: dict[Index, Affine] = {}
    while isinstance(q, Exists):
        bound[q.index] = q.size
        q = q.body
    if not isinstance(q, Related) or q.relation not in ctx.sparse:
        return False
    return ctx.sparse[q.relation].is_certain(bound, q.arguments)
