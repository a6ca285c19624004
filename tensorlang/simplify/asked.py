"""Where the outcome of a comparison is asked, or which place was chosen, and matters.

    C = gen i, j. X[i, j] < 0;  .. [C[i, j] = 1 and i = j] * e             C[a, b] is asked where a = b
    K = gen i. argmax s. X[i, s];  .. [j = K[i] and i <= a[j]] * e         K[b] is asked where b <= a[j] for some j

It doesn't matter where what is under the bracket is 0 anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tensorlang.language.affine import Index, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import TRUE, Exists, Predicate, conjunction, conjuncts, equal, lookups, substitute
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Comparison,
    Contraction,
    Defining,
    Map,
    Selection,
    Statement,
    looked_up,
    own_ranges,
)
from tensorlang.sets.solve import Ranges, project
from tensorlang.simplify.supports import Supports, common, where_read, with_supports


class Outcomes:
    """Where those of the comparisons and choices of `s` are asked, of which `defined` are the index arrays."""

    def __init__(self, s: SSA, defined: Mapping[IndexArray, Defining]) -> None:
        self._defined = defined
        self._supports: Supports = with_supports(s)[1] if defined else {}
        self._asked: dict[IndexArray, list[Predicate]] = defaultdict(list)

    def asked(self, x: Defining) -> Predicate:
        """What always holds where the outcome of `x` is asked, by all that did `ask` so far."""
        return common(self._asked[x.array]) if self._asked[x.array] else TRUE

    def ask(self, x: Statement, where: Predicate) -> None:
        """`x` asks the outcomes that it looks up, being read itself where `where` holds."""
        if not self._defined.keys().isdisjoint(looked_up(x)):
            for a, p in self._places(x, where):
                known = [q for q in conjuncts(p) if self._defined.keys().isdisjoint(b.array for b in lookups(q))]
                self._asked[a].append(conjunction(known))

    def _places(self, x: Statement, where: Predicate) -> Iterator[tuple[IndexArray, Predicate]]:
        """What `x` asks, and what holds of the places where it does."""
        match x:
            case Contraction():
                ranges, preds = {**x.pattern.outer, **x.pattern.inner}, where_read(x, self._supports)
            case Addition() | Map():
                ranges, preds = own_ranges(x), where_read(x, self._supports)
            case Comparison(_, _, guard, _, _):
                ranges, preds = own_ranges(x), (guard,)
            case Selection(_, _, guard, p, operand):
                ranges, preds = own_ranges(operand), (guard, conjunction([guard, p]))
            case _:
                yield from ((array, TRUE) for array in looked_up(x) if array in self._defined)
                return
        for p in preds:
            yield from self._looked_up(conjuncts(conjunction([p, where])), ranges)

    def _looked_up(
        self, parts: Sequence[Predicate], ranges: Ranges, beside: Sequence[Predicate] = ()
    ) -> Iterator[tuple[IndexArray, Predicate]]:
        """What `parts` ask, each where the others hold, and what is `beside` them."""
        for q in parts:
            others = [*beside, *(r for r in parts if r is not q)]
            if isinstance(q, Exists):
                k = Index(q.index.name)  # others may bind the same
                body = conjuncts(substitute(q.body, {q.index: atom_affine(k)}))
                yield from self._looked_up(body, {**ranges, k: q.size}, others)
                continue
            for a in (a for a in lookups(q) if a.array in self._defined):
                known = ranges.keys() >= set(atom_affine(a).indices)
                yield a.array, _place(a, others, ranges) if known else TRUE


def _place(a: Lookup, parts: Sequence[Predicate], ranges: Ranges) -> Predicate:
    """What `parts` say of the places at which `a` is looked up."""
    fresh = tuple(Index("i") for _ in a.at)
    at = (equal(atom_affine(i), k) for i, k in zip(fresh, a.at, strict=True))
    there = project(ranges, conjunction([*parts, *at]), dict(zip(fresh, a.array.sizes, strict=True)))
    return renamed(there, fresh, axes(0, len(fresh)))
