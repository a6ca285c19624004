"""Whether some charges never add up to more than others, for all sizes from 1 on and whatever the data.

Each low charge is carried into high ones by maps that send different points to different points; what a map does not
reach stays to be used. Nothing is counted, so no polynomial is needed, and every step holds at all sizes. The maps are
permutations and shifts of indices, and sections: into a domain of more indices, at the least point above each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice, permutations
from typing import Any

import islpy

from proofs.checker.budget import quota
from proofs.checker.charges import Charge, Domain, shifts
from proofs.checker.facts import Facts, Hidden, Question, places
from proofs.checker.predicates import renamed, told
from proofs.checker.semantics import names_in
from proofs.checker.trees import Compare, Pred, name

_PARAM = islpy.dim_type.param
_SET = islpy.dim_type.set
_MOST_DIMS = 6
_SHIFTS = 8
_VARIANTS = 160
_CHOICES = 120


def never_more(low: Iterable[Charge], high: Iterable[Charge], facts: Facts) -> bool:
    """Whether it is shown that `low` add up to no more than `high`."""
    written = _total(((weight, domain) for weight, domain in (*low, *((-w, d) for w, d in high))), _as_written)
    shorter = ((weight, domain.simplified(facts)) for weight, domain in written)
    pieces = _total(((weight, domain) for weight, domain in shorter if domain is not None), _text)
    if all(weight < 0 for weight, _ in pieces):
        return True
    if max((len(domain.dims) for _, domain in pieces), default=0) > _MOST_DIMS:
        return False
    try:
        with quota():
            return _Transport(facts, pieces).decide()
    except (islpy.Error, Hidden):
        return False


def _total(charges: Iterable[Charge], text: Callable[[Domain], object]) -> list[Charge]:
    """The charges of domains that read the same, added up."""
    found: dict[object, Charge] = {}
    for weight, domain in charges:
        key = text(domain)
        before, first = found.get(key, (Fraction(0), domain))
        found[key] = before + weight, first
    return [(weight, domain) for weight, domain in found.values() if weight]


def _as_written(d: Domain) -> object:
    """The same for domains that are the same but for the names of their indices."""
    names = {x: name(f"$d{k}") for k, x in enumerate(d.dims)}
    return len(d.dims), frozenset(told(p, names) for p in d.preds)


def _choices(many: int, few: int) -> Iterator[tuple[int, ...]]:
    """Ways to choose some of the first numbers, first those that keep their order."""
    yield from combinations(range(many), few)
    yield from (way for way in permutations(range(many), few) if list(way) != sorted(way))


def _text(d: Domain) -> object:
    """The same for domains that are the same but for the names and the order of their indices, if these are few."""
    orders = permutations(d.dims) if len(d.dims) <= 4 else [d.dims]
    texts = []
    for order in orders:
        names = {x: name(f"$d{k}") for k, x in enumerate(order)}
        texts.append(sorted(repr(told(p, names)) for p in d.preds))
    return len(d.dims), tuple(min(texts))


@dataclass(eq=False)
class _Piece:
    """So much at each point of a set, whose indices are the first of the common ones."""

    weight: Fraction
    dims: int
    points: Any
    domain: Domain | None


class _Transport:
    def __init__(self, facts: Facts, pieces: list[Charge]) -> None:
        self.facts = facts
        self.dims = [f"$d{k}" for k in range(max((len(domain.dims) for _, domain in pieces), default=0))]
        self.question = Question(facts)
        for x in self.dims:
            self.question.text([Compare(False, name(x))])
        self.low: list[_Piece] = []
        self.high: list[_Piece] = []
        self._variants: dict[int, list[Any]] = {}
        for _, domain in pieces:
            for order in islice(permutations(domain.dims), 24) if domain.has_data else [domain.dims]:
                self.question.text(self._placed(order, domain.preds))
        for weight, domain in pieces:
            points = self._points(domain.dims, domain.preds)
            if points.is_empty():
                continue
            side = self.low if weight > 0 else self.high
            side.append(_Piece(abs(weight), len(domain.dims), points, domain))

    def decide(self) -> bool:
        """Whether everything low is carried."""
        ways = (self._within, self._into_section, self._in_common, self._into_part, self._in_common, self._dropping)
        for way in ways:
            waiting = sorted(self.low, key=lambda a: -a.dims)
            while waiting:
                a = waiting.pop(0)
                for h in sorted(self.high, key=lambda h: abs(h.dims - a.dims)):
                    self.facts.budget.spend()
                    if not a.weight:
                        break
                    if h.weight:
                        waiting += way(a, h)
            self.low = [a for a in self.low if a.weight]
            self.high = [h for h in self.high if h.weight]
            if not self.low:
                return True
        return not self.low

    # ---- ways to carry a to h; each gives what of a is left, as pieces of its own

    def _within(self, a: _Piece, h: _Piece) -> list[_Piece]:
        if a.dims == h.dims:
            for mine, theirs in self._both(a, h):
                if mine.is_subset(theirs):
                    self._carry(a, h, theirs.subtract(mine))
                    break
        return []

    def _in_common(self, a: _Piece, h: _Piece) -> list[_Piece]:
        left: list[_Piece] = []
        if a.dims == h.dims:
            for mine in self._forms(a):
                both = mine.intersect(h.points)
                if not both.is_empty():
                    left += self._remaining(a, h, mine.subtract(both), a.dims)
                    self._carry(a, h, h.points.subtract(both))
                    break
        return left

    def _into_section(self, a: _Piece, h: _Piece) -> list[_Piece]:
        return self._section(a, h, whole=True)

    def _into_part(self, a: _Piece, h: _Piece) -> list[_Piece]:
        return self._section(a, h, whole=False)

    def _section(self, a: _Piece, h: _Piece, whole: bool) -> list[_Piece]:
        if a.dims >= h.dims or (h.domain is None and self._reads_data(h.points)):
            return []
        for mine in self._forms(a):
            for chosen in islice(_choices(h.dims, a.dims), _CHOICES):
                self.facts.budget.spend()
                others = [k for k in range(h.dims) if k not in chosen]
                if h.domain is not None and self._data_at(h.domain, others):
                    continue
                above = self._with_set_dims(h, others)
                base = self._renamed(mine, chosen)
                shadow = above.params()
                if whole and not base.is_subset(shadow):
                    continue
                reached = base.intersect(shadow)
                if reached.is_empty():
                    continue
                taken = above.intersect_params(reached).lexmin()
                left: list[_Piece] = []
                if not whole:
                    missed = self._renamed(base.subtract(reached), chosen, back=True)
                    left = self._remaining(a, h, missed, a.dims)
                self._carry(a, h, self._pinned(self._without_set_dims(above.subtract(taken), others), h.dims))
                return left
        return []

    def _dropping(self, a: _Piece, h: _Piece) -> list[_Piece]:
        """To where fewer indices are, if the others of a are determined by these."""
        for chosen in permutations(range(a.dims), h.dims) if a.dims > h.dims else ():
            self.facts.budget.spend()
            if (a.domain is not None and a.domain.has_data) or (a.domain is None and self._reads_data(a.points)):
                break
            above = self._with_set_dims(a, [k for k in range(a.dims) if k not in chosen])
            if above.lexmin().is_equal(above.lexmax()):
                mine = self._renamed(above.params(), chosen, back=True)
                if mine.is_subset(h.points):
                    self._carry(a, h, h.points.subtract(mine))
                    break
        return []

    # ---- pieces

    def _carry(self, a: _Piece, h: _Piece, rest: Any) -> None:
        """As much of a as h has goes there; `rest` of h stays."""
        weight = min(a.weight, h.weight)
        a.weight -= weight
        h.weight -= weight
        if not rest.is_empty():
            self.high.append(_Piece(weight, h.dims, rest, None))

    def _remaining(self, a: _Piece, h: _Piece, points: Any, dims: int) -> list[_Piece]:
        if points.is_empty():
            return []
        found = _Piece(min(a.weight, h.weight), dims, points, None)
        self.low.append(found)
        return [found]

    def _both(self, a: _Piece, h: _Piece) -> Iterator[tuple[Any, Any]]:
        for mine in self._forms(a):
            yield mine, h.points
        for theirs in islice(self._forms(h), 1, None):
            yield a.points, theirs

    def _forms(self, a: _Piece) -> Iterator[Any]:
        """The points of a in other coordinates, as they are first."""
        yield a.points
        if a.domain is None:
            return
        if id(a) not in self._variants:
            self._variants[id(a)] = []
            found = self._variants[id(a)]
            dims = a.domain.dims
            ways = [a.domain.preds, *islice(shifts(dims, a.domain.preds), _SHIFTS)]
            orders = list(islice(permutations(dims), 24))
            for k, (preds, order) in enumerate((preds, order) for preds in ways for order in orders):
                if 0 < k < _VARIANTS:
                    try:
                        found.append(self._points(order, preds))
                    except Hidden:
                        continue
        yield from self._variants[id(a)]

    def _points(self, dims: tuple[str, ...], preds: Iterable[Pred]) -> Any:
        return self.question.set(self.question.text(self._placed(dims, preds)))

    def _placed(self, dims: tuple[str, ...], preds: Iterable[Pred]) -> list[Pred]:
        """`preds` on `dims` as predicates on the common indices, of which the others are 0."""
        names = {x: name(y) for x, y in zip(dims, self.dims, strict=False)}
        return [*(renamed(p, names) for p in preds), *(Compare(True, name(x)) for x in self.dims[len(dims) :])]

    # ---- indices of sets

    def _own(self, k: int) -> str:
        return self.question.names[self.dims[k]]

    def _renamed(self, points: Any, chosen: tuple[int, ...], back: bool = False) -> Any:
        """`points` with the index chosen[k] in the place of k, and no other index; or back, with others 0."""
        pairs = [(c, k) if back else (k, c) for k, c in enumerate(chosen)]
        for k in range(len(self.dims)):
            at = points.find_dim_by_name(_PARAM, self._own(k))
            if at >= 0 and k not in [p for p, _ in pairs]:
                points = points.project_out(_PARAM, at, 1)
        for k, _ in pairs:
            at = points.find_dim_by_name(_PARAM, self._own(k))
            if at >= 0:
                points = points.set_dim_name(_PARAM, at, f"tmp{k}")
        for k, c in pairs:
            at = points.find_dim_by_name(_PARAM, f"tmp{k}")
            if at >= 0:
                points = points.set_dim_name(_PARAM, at, self._own(c))
        if back:
            points = self._pinned(points, len(chosen))
        return points

    def _pinned(self, points: Any, dims: int) -> Any:
        """`points` with 0 for the indices from `dims` on."""
        for k in range(dims, len(self.dims)):
            own = self._own(k)
            points = points.intersect(islpy.Set(f"[{own}] -> {{ : {own} = 0 }}"))
        return points

    def _with_set_dims(self, h: _Piece, others: list[int]) -> Any:
        points = h.points
        for k in range(h.dims, len(self.dims)):
            points = points.project_out(_PARAM, points.find_dim_by_name(_PARAM, self._own(k)), 1)
        for n, k in enumerate(others):
            points = points.move_dims(_SET, n, _PARAM, points.find_dim_by_name(_PARAM, self._own(k)), 1)
        return points

    def _without_set_dims(self, points: Any, others: list[int]) -> Any:
        for k in others:
            points = points.set_dim_name(_SET, 0, self._own(k))
            points = points.move_dims(_PARAM, points.dim(_PARAM), _SET, 0, 1)
        return points.params()

    # ---- data

    def _data_at(self, d: Domain, others: list[int]) -> bool:
        """Whether the points depend on data at places that these indices are in."""
        own = {d.dims[k] for k in others}
        return any(names_in_place(r) & own for p in d.preds for r in places(p))

    def _reads_data(self, points: Any) -> bool:
        return any(
            points.involves_dims(_PARAM, at, 1)
            for own in self.question.data.values()
            if (at := points.find_dim_by_name(_PARAM, own)) >= 0
        )


def names_in_place(r: Any) -> frozenset[str]:
    """The names at which data are read."""
    return frozenset().union(*map(names_in, r.at))
