"""The exact number of points of a domain at given sizes: a domain falls into parts that share no index, and in each
part one index after the other is given its values until only intervals are left."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

import islpy

from . import trees
from .budget import Budget, TooLarge, quota
from .charges import Charge, Domain
from .facts import parts_of
from .predicates import renamed, within
from .semantics import names_in
from .trees import Affine, All, Atom, Compare, Element, Exists, Holds, Pred, affine, number

_MOST_STEPS = 20_000
_MOST_LISTED = 200_000


class Counter:
    """Counts points at some sizes, in a limited number of steps; raises `TooLarge` beyond that. The data are plain:
    relations of all points or of none, and index arrays of zeros."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        budget: Budget,
        arrays: Collection[str] = (),
        relations: Mapping[str, tuple[Affine, ...]] | None = None,
        full: bool = True,
    ) -> None:
        self.sizes = {x: number(n) for x, n in sizes.items()}
        self.arrays = arrays
        self.relations = relations or {}
        self.full = full
        self.budget = budget
        self.steps = 0

    def total(self, charges: Sequence[Charge]) -> Fraction:
        """The sum of all charges."""
        return sum((weight * self.points(domain) for weight, domain in charges), Fraction(0))

    def points(self, d: Domain) -> int:
        """The points of a domain that depends on no other data."""
        return self._points(frozenset(d.dims), [self._plain(renamed(p, self.sizes)) for p in d.preds])

    def _plain(self, p: Pred) -> Pred:
        """`p` for such plain data."""
        match p:
            case Compare(equal, a):
                return Compare(equal, self._zeros(a))
            case Holds(relation, at):
                ranges = zip(at, self.relations[relation], strict=True)
                inside = All(tuple(within(self._zeros(a), n) for a, n in ranges))
                return renamed(inside, self.sizes) if self.full else trees.Any()
            case Exists(i, size, body):
                return Exists(i, self._zeros(size), self._plain(body))
            case All(parts):
                return All(tuple(map(self._plain, parts)))
        return trees.Any(tuple(map(self._plain, p.parts)))

    def _zeros(self, a: Affine) -> Affine:
        kept: list[tuple[Atom, int]] = [(atom, k) for atom, k in a.terms if isinstance(atom, str)]
        if any(isinstance(atom, Element) and atom.array not in self.arrays for atom, _ in a.terms):
            raise TooLarge("an index that is chosen")
        return affine(kept, a.constant)

    def _points(self, dims: frozenset[str], preds: Sequence[Pred]) -> int:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooLarge("too many points to be counted")
        if self.steps % 64 == 0:
            self.budget.spend()
        parts = parts_of(preds)
        if parts is None:
            return 0
        found = 1
        for own, mine in _apart(dims, parts):
            found *= self._part(own, mine)
            if not found:
                return 0
        return found

    def _part(self, dims: frozenset[str], preds: Sequence[Pred]) -> int:
        if not dims:
            return int(all(_holds(p) for p in preds))
        if not all(isinstance(p, Compare) for p in preds):
            return _listed(dims, preds)
        ranges = {x: _range(x, preds) for x in dims}
        if len(dims) == 1:
            ((lowest, highest),) = ranges.values()
            if lowest is None or highest is None:
                raise TooLarge("a range without end")
            return max(0, highest - lowest + 1)
        known = {x: (low, high) for x, (low, high) in ranges.items() if low is not None and high is not None}
        if not known:
            return _listed(dims, preds)
        x = min(known, key=lambda x: (known[x][1] - known[x][0], x))
        low, high = known[x]
        rest = dims - {x}
        return sum(self._points(rest, [renamed(p, {x: number(k)}) for p in preds]) for k in range(low, high + 1))


def _apart(dims: frozenset[str], preds: Sequence[Pred]) -> list[tuple[frozenset[str], list[Pred]]]:
    """Indices and predicates in parts that have no index in common."""
    found: list[tuple[frozenset[str], list[Pred]]] = [(frozenset([x]), []) for x in sorted(dims)]
    for p in preds:
        own = names_in(p) & dims
        joined = [part for part in found if part[0] & own]
        found = [part for part in found if not part[0] & own]
        found.append((own.union(*(xs for xs, _ in joined)), [p, *(q for _, qs in joined for q in qs)]))
    return found


def _range(x: str, preds: Sequence[Pred]) -> tuple[int | None, int | None]:
    """The least and the greatest x, by the predicates that compare only x."""
    lowest: int | None = None
    highest: int | None = None
    for p in preds:
        match p:
            case Compare(equal, Affine(((y, k),), c)) if y == x:
                above = -(c // k) if k > 0 else None
                below = (c // -k) if k < 0 else None
                if equal:
                    if c % k:
                        return 0, -1
                    above = below = -c // k
                lowest = above if lowest is None else lowest if above is None else max(lowest, above)
                highest = below if highest is None else highest if below is None else min(highest, below)
    return lowest, highest


def _holds(p: Pred) -> bool:
    return bool(_listed(frozenset(), [p]))


def _listed(dims: frozenset[str], preds: Sequence[Pred]) -> int:
    own = {x: f"x{k}" for k, x in enumerate(sorted(dims))}
    points = islpy.Set(f"{{ [{', '.join(own.values())}] : {_text(All(tuple(preds)), own)} }}")
    try:
        with quota():
            if not points.is_bounded():
                raise TooLarge("a range without end")
            space = 1
            for k in range(len(own)):
                low, high = points.dim_min_val(k), points.dim_max_val(k)
                if low.is_nan() or high.is_nan():
                    return 0
                space *= high.to_python() - low.to_python() + 1
            if space > _MOST_LISTED:
                raise TooLarge("too many points to be counted")
            return int(points.count_val().to_python())
    except islpy.Error:
        raise TooLarge("too many points to be counted") from None


def _text(p: Pred, names: Mapping[str, str]) -> str:
    match p:
        case Compare(equal, a):
            return f"{_affine(a, names)} {'=' if equal else '>='} 0"
        case All(parts):
            return " and ".join(f"({_text(part, names)})" for part in parts) or "0 = 0"
        case trees.Any(parts):
            return " or ".join(f"({_text(part, names)})" for part in parts) or "0 = 1"
        case Exists(i, size, body):
            own = f"e{len(names)}"
            inner = _text(body, {**names, i: own})
            return f"exists ({own} : 0 <= {own} < {_affine(size, names)} and ({inner}))"
    raise TooLarge("points that depend on data")


def _affine(a: Affine, names: Mapping[str, str]) -> str:
    terms = [f"{k} * {names[x]}" for x, k in a.terms if isinstance(x, str) and x in names]
    if len(terms) < len(a.terms):
        raise TooLarge("points that depend on data")
    return " + ".join([*terms, str(a.constant)])
