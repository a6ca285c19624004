"""Where the outcome of a comparison or the place chosen by a selection is looked up, and matters.

    C = gen i, j. X[i, j] < 0;  .. [C[i, j] = 1 and i = j] * e             C[a, b] is asked where a = b
    K = gen i. argmax s. X[i, s];  .. [j = K[i] and i <= a[j]] * e         K[b] is asked where b <= a[j] for some j

It does not matter where the bracketed expression is 0 anyway.
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
from tensorlang.simplification.supports import Supports, common, where_read, with_supports


class Outcomes:
    """Where the outcomes of the comparisons and selections of `s` are looked up; `defined` are their index arrays."""

    def __init__(self, s: SSA, defined: Mapping[IndexArray, Defining]) -> None:
        self._defined = defined
        self._supports: Supports = with_supports(s)[1] if defined else {}
        self._asked: dict[IndexArray, list[Predicate]] = defaultdict(list)

    def asked(self, x: Defining) -> Predicate:
        """A condition that holds wherever the statements passed to `ask` so far look up the outcome of `x`."""
        return common(self._asked[x.array]) if self._asked[x.array] else TRUE

    def ask(self, x: Statement, where: Predicate) -> None:
        """Record the lookups of outcomes in `x`, which itself is read where `where` holds."""
        if not self._defined.keys().isdisjoint(looked_up(x)):
            for a, p in self._places(x, where):
                known = [q for q in conjuncts(p) if self._defined.keys().isdisjoint(b.array for b in lookups(q))]
                self._asked[a].append(conjunction(known))

    def _places(self, x: Statement, where: Predicate) -> Iterator[tuple[IndexArray, Predicate]]:
        """The outcomes that `x` looks up, each with a condition that holds of the places of the lookup."""
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
        """The outcomes that `parts` look up, each under the condition that the other parts and those `beside` hold."""
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
    """The condition that `parts` imply for the places at which `a` is looked up."""
    fresh = tuple(Index("i") for _ in a.at)
    at = (equal(atom_affine(i), k) for i, k in zip(fresh, a.at, strict=True))
    there = project(ranges, conjunction([*parts, *at]), dict(zip(fresh, a.array.sizes, strict=True)))
    return renamed(there, fresh, axes(0, len(fresh)))
