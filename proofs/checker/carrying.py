"""A search for the steps by which charges are carried into others; `transport` verifies each step."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, permutations, product

import islpy

from .budget import quota
from .charges import Charge, Domain, shifts, solved
from .facts import Facts, Hidden, is_index
from .predicates import moved, told
from .semantics import names_in
from .transport import Carried, Ledger, Map, Open, Piece, Split, Step, few_values, pieces_of, without_data, witnessed
from .trees import Exists, Pred, name, number

_SHIFTS = 8
_WAYS = 160
_ORDERS = 24
_CHOICES = 120
_WHOLE = ((operator.eq, True), (operator.lt, True))
_PARTS = ((operator.eq, False), (operator.lt, False), (operator.eq, False), (operator.gt, True))
"""How the number of indices of the low piece compares with that of the high one, and whether all of the low piece is
carried at once."""


def never_more(
    low: Iterable[Charge], high: Iterable[Charge], facts: Facts, known: Sequence[Carried] = ()
) -> list[Carried] | None:
    """Steps by which all of `low` is carried into `high`, the known ones first; None if none are found."""
    ways = _Ways(low, high, facts)
    for searches in (False, True) if known else (True,):
        for pieces, opens in ways:
            steps = _carried(pieces, opens, facts, known, searches)
            if steps is not None:
                return steps
    return None


class _Ways:
    """The pieces in the forms that are tried, each made when it is first asked for, and whether they are opened."""

    def __init__(self, low: Iterable[Charge], high: Iterable[Charge], facts: Facts) -> None:
        self.low, self.high, self.facts = tuple(low), tuple(high), facts
        self._made: list[tuple[list[Charge], bool]] = []
        self._more = self._make()

    def __iter__(self) -> Iterator[tuple[list[Charge], bool]]:
        yield from self._made
        for way in self._more:
            self._made.append(way)
            yield way

    def _make(self) -> Iterator[tuple[list[Charge], bool]]:
        for quotients in (True, False):
            pieces = pieces_of(self.low, self.high, self.facts, quotients)
            yield from ((pieces, opens) for opens in (False, True))
            if any(domain.has_data for _, domain in pieces):
                yield without_data(pieces, self.facts), False
                more = witnessed(pieces, self.facts)
                if more != pieces:
                    yield more, True


def _carried(
    pieces: Sequence[Charge], opens: bool, facts: Facts, known: Sequence[Carried], searches: bool
) -> list[Carried] | None:
    if all(weight < 0 for weight, _ in pieces):
        return []
    try:
        with quota():
            ledger = Ledger(facts, pieces)
            if ledger.is_too_large:
                return None
            ledger.follow(known)
            return ledger.steps if ledger.is_done or (searches and _Search(ledger).decide(opens)) else None
    except (islpy.Error, Hidden):
        return None


class _Search:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._ways: dict[int, list[Map]] = {}

    def decide(self, opens: bool) -> bool:
        """Whether everything low is carried. If `opens`, pieces with an `exists` are opened first, unless they are
        carried as they are. What is left is split by indices with few values."""
        while opens and not self._carried(_WHOLE):
            if not any([self.ledger.open(Open(low, which)) for low, which in self._existing()]):
                break
        while not self._carried((*_WHOLE, *_PARTS)):
            if not any([self.ledger.split(Split(low, which)) for low, which in self._of_few_values()]):
                return False
        return True

    def _existing(self) -> list[tuple[int, int]]:
        """The waiting pieces with an `exists` among their predicates, and the number of that predicate."""
        found = []
        for low, a in enumerate(self.ledger.low):
            preds = a.domain.preds if a.weight and a.domain is not None else ()
            found += [(low, k) for k, p in enumerate(preds) if isinstance(p, Exists)][:1]
        return found

    def _of_few_values(self) -> list[tuple[int, int]]:
        """The waiting pieces with an index of few values, and the number of that index."""
        found = []
        for low, a in enumerate(self.ledger.low):
            dims, preds = (a.domain.dims, a.domain.preds) if a.weight and a.domain is not None else ((), ())
            found += [(low, k) for k, x in enumerate(dims) if few_values(x, preds) is not None][:1]
        return found

    def _carried(self, phases: Sequence[tuple[Callable[[int, int], bool], bool]]) -> bool:
        for fits, whole in phases:
            waiting = sorted(range(len(self.ledger.low)), key=lambda k: -self.ledger.low[k].dims)
            while waiting:
                low = waiting.pop(0)
                a, many = self.ledger.low[low], len(self.ledger.low)
                ordered = sorted(enumerate(self.ledger.high), key=lambda pair: abs(pair[1].dims - a.dims))
                for high, h in ordered:
                    self.ledger.facts.budget.spend()
                    if not a.weight:
                        break
                    if h.weight and fits(a.dims, h.dims):
                        ways = (at for at in self.ways(a, h) if not whole or self.ledger.may_reach_all(a, h, at))
                        next((True for at in ways if self.ledger.carry(Step(low, high, at), whole)), None)
                waiting += range(many, len(self.ledger.low))
            if self.ledger.is_done:
                return True
        return False

    # ---- candidates

    def ways(self, a: Piece, h: Piece) -> Iterator[Map]:
        """Candidates for the indices of a in terms of those of h."""
        own = self.ledger.dims[: h.dims]
        if a.dims > h.dims:
            told_by = product([*map(name, own), number(0)], repeat=a.dims)
            yield from islice((at for at in told_by if set(map(name, own)) <= set(at)), _CHOICES)
            return
        if a.domain is None:
            yield from (tuple(map(name, chosen)) for chosen in islice(permutations(own, a.dims), _ORDERS))
            return
        for written, order in self._written(a.domain, h):
            names = {x: name(y) for x, y in zip(a.domain.dims, order, strict=False)}
            yield tuple(moved(e, names) for e in written)
        if a.dims == h.dims and h.domain is not None:
            names = {x: name(y) for x, y in zip(h.domain.dims, own, strict=True)}
            for x, value in islice(shifts(h.domain.dims, h.domain.preds), _SHIFTS):
                new = {y: moved(value if y == x else name(y), names) for y in h.domain.dims}
                yield from (tuple(new[y] for y in order) for order in islice(permutations(h.domain.dims), _ORDERS))

    def _written(self, d: Domain, h: Piece) -> Iterator[tuple[Map, Sequence[str]]]:
        """The indices of d in its own or other coordinates, and the order in which those of h replace them."""
        plain: Map = tuple(map(name, d.dims))
        likely = list(self._likely(d, h)) if len(d.dims) > 3 else []
        yield from ((plain, order) for order in likely)
        moves = [plain]
        for x, value in islice(shifts(d.dims, d.preds), _SHIFTS):
            moves.append(tuple(solved(x, value) if y == x else name(y) for y in d.dims))
        own = self.ledger.dims[: h.dims]
        orders = list(islice(_choices(own, len(d.dims)), _ORDERS if len(d.dims) == h.dims else _CHOICES))
        yield from islice(((move, order) for move in moves for order in orders), _WAYS * max(1, h.dims - len(d.dims)))

    def _likely(self, d: Domain, h: Piece) -> Iterator[Sequence[str]]:
        """Orders in which each index replaces one that is compared with the same."""
        if h.domain is None:
            return
        theirs: dict[object, list[str]] = {}
        for x, own in zip(h.domain.dims, self.ledger.dims, strict=False):
            theirs.setdefault(_profile(x, h.domain.preds), []).append(own)
        mine: dict[object, list[str]] = {}
        for x in d.dims:
            mine.setdefault(_profile(x, d.preds), []).append(x)
        if any(len(theirs.get(key, ())) < len(xs) for key, xs in mine.items()):
            return
        for chosen in islice(product(*(permutations(theirs[key], len(xs)) for key, xs in mine.items())), _ORDERS):
            names = {x: y for xs, ys in zip(mine.values(), chosen, strict=True) for x, y in zip(xs, ys, strict=True)}
            yield [names[x] for x in d.dims]


def _profile(x: str, preds: Iterable[Pred]) -> object:
    """The predicates on an index, with the names of other indices left out."""
    found = []
    for p in preds:
        if x in names_in(p):
            others = {y: name("$other") for y in names_in(p) if is_index(y)}
            found.append(repr(told(p, {**others, x: name("$own")})))
    return tuple(sorted(found))


def _choices(own: Sequence[str], few: int) -> Iterator[Sequence[str]]:
    """Ways to choose `few` of `own`, first those that keep the order."""
    yield from (way for way in permutations(own, few) if list(way) == sorted(way))
    yield from (way for way in permutations(own, few) if list(way) != sorted(way))
