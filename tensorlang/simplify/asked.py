"""Where the outcome of a comparison is asked, and matters.

    C = gen i, j. X[i, j] < 0;  .. [C[i, j] = 1 and i = j] * e    C[a, b] is asked where a = b

It doesn't matter where what is under the bracket is 0 anyway. An outcome that is asked in other ways than by an
equality of its own is asked everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tensorlang.language.affine import Index, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import TRUE, Equal, Predicate, conjunction, conjuncts, equal, free_atoms, lookups
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Comparison,
    Contraction,
    Defining,
    Map,
    Statement,
    looked_up,
    own_ranges,
)
from tensorlang.sets.solve import Ranges, project
from tensorlang.simplify.supports import Supports, common, where_read, with_supports


class Outcomes:
    """Where those of the comparisons of `s` are asked, of which `defined` are the index arrays."""

    def __init__(self, s: SSA, defined: Mapping[IndexArray, Defining]) -> None:
        self._defined = defined
        self._compared = {array for array, x in defined.items() if isinstance(x, Comparison)}
        self._supports: Supports = with_supports(s)[1] if self._compared else {}
        self._asked: dict[IndexArray, list[Predicate]] = defaultdict(list)

    def asked(self, x: Comparison) -> Predicate:
        """What always holds where the outcome of `x` is asked, by all that did `ask` so far."""
        return common(self._asked[x.array]) if self._asked[x.array] else TRUE

    def ask(self, x: Statement, where: Predicate) -> None:
        """`x` asks the outcomes that it looks up, being read itself where `where` holds."""
        if not self._compared.isdisjoint(looked_up(x)):
            for a, p in self._places(x, where):
                known = [q for q in conjuncts(p) if self._defined.keys().isdisjoint(b.array for b in lookups(q))]
                self._asked[a].append(conjunction(known))

    def _places(self, x: Statement, where: Predicate) -> Iterator[tuple[IndexArray, Predicate]]:
        """The comparisons that `x` asks, and what holds of the places where it does."""
        if not isinstance(x, Addition | Map | Contraction):
            yield from ((array, TRUE) for array in looked_up(x) if array in self._compared)
            return
        ranges = {**x.pattern.outer, **x.pattern.inner} if isinstance(x, Contraction) else own_ranges(x)
        for p in where_read(x, self._supports):
            parts = conjuncts(conjunction([p, where]))
            for q in parts:
                found = [a for a in lookups(q) if a.array in self._compared]
                if len(found) == 1 and _is_alone(found[0], q, ranges):
                    yield found[0].array, _place(found[0], [r for r in parts if r is not q], ranges)
                else:
                    yield from ((a.array, TRUE) for a in found)


def _is_alone(a: Lookup, q: Predicate, ranges: Ranges) -> bool:
    """Whether `q` says what `a` is, of indices that it does not bind."""
    known = ranges.keys() >= {i for i in free_atoms(q) if isinstance(i, Index)}
    return known and isinstance(q, Equal) and q.difference.coefficient(a) != 0


def _place(a: Lookup, parts: list[Predicate], ranges: Ranges) -> Predicate:
    """What `parts` say of the places at which `a` is looked up."""
    fresh = tuple(Index("i") for _ in a.at)
    at = (equal(atom_affine(i), k) for i, k in zip(fresh, a.at, strict=True))
    there = project(ranges, conjunction([*parts, *at]), dict(zip(fresh, a.array.sizes, strict=True)))
    return renamed(there, fresh, axes(0, len(fresh)))
