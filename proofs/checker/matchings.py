"""Ways to pair the factors of two products that read the same.

Few pairings of long products can be right: those in which each index of the first product stands for one index
expression of the second. They are found one factor at a time, always taking next a factor most of whose indices are
known, so that a wrong pair is noticed at once. In short products all pairings are tried, since an index may stand for
two expressions that are equal for a reason that is not considered here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, permutations
from math import factorial, prod

from .linear import isolated
from .predicates import moved
from .semantics import names_in
from .trees import Affine

Atom = tuple[str, tuple[Affine, ...]]
"""The key that is read, and the places."""
Matching = list[tuple[tuple[Affine, ...], tuple[Affine, ...]]]
"""The places of each factor of the first product, and those of its partner."""

_ALL = 120
"""Up to this number, all pairings are tried."""
_TRIED = 3_000
"""The most pairs of factors that are looked at."""


def matchings(first: Sequence[Atom], second: Sequence[Atom], unknown: Collection[str]) -> Iterator[Matching]:
    """The ways to pair the factors of two products that read the same, where the names `unknown` in the first stand for
    something: the pairings that give each name one meaning, and if there are none, all pairings if these are few."""
    found = False
    for pairs in _agreeing(first, second, unknown):
        found = True
        yield pairs
    if not found and _many(first, second) <= _ALL:
        yield from _all(first, second)


def _many(first: Sequence[Atom], second: Sequence[Atom]) -> int:
    keys = [key for key, _ in first]
    distinct = [len({places for key, places in second if key == wanted}) for wanted in set(keys)]
    return prod(factorial(min(n, 6)) for n in distinct)


def _all(first: Sequence[Atom], second: Sequence[Atom]) -> Iterator[Matching]:
    """All ways, functions and parameters one after the other."""
    mine, theirs = _by_key(first), _by_key(second)
    keys = list(mine)

    def extend(k: int) -> Iterator[Matching]:
        if k == len(keys):
            yield []
            return
        others = theirs[keys[k]]
        for order in permutations(others) if len(set(others)) > 1 else [others]:
            pairs = list(zip(mine[keys[k]], order, strict=True))
            yield from ([*pairs, *rest] for rest in extend(k + 1))

    return islice(extend(0), _ALL)


def _by_key(product: Sequence[Atom]) -> dict[str, list[tuple[Affine, ...]]]:
    found: dict[str, list[tuple[Affine, ...]]] = {}
    for key, places in product:
        found.setdefault(key, []).append(places)
    return found


def _agreeing(first: Sequence[Atom], second: Sequence[Atom], unknown: Collection[str]) -> Iterator[Matching]:
    """The pairings in which each unknown name stands for one thing, as far as single places show."""
    order = _in_order(first, second, unknown)
    left = {key: list(places) for key, places in _by_key(second).items()}
    tried = 0

    def extend(k: int, known: Mapping[str, Affine]) -> Iterator[Matching]:
        nonlocal tried
        if k == len(order):
            yield []
            return
        key, places = order[k]
        for other in dict.fromkeys(left[key]):
            tried += 1
            if tried > _TRIED:
                return
            more = _meaning(places, other, known, unknown)
            if more is not None:
                left[key].remove(other)
                for rest in extend(k + 1, more):
                    yield [(places, other), *rest]
                left[key].append(other)

    return extend(0, {})


def _in_order(first: Sequence[Atom], second: Sequence[Atom], unknown: Collection[str]) -> list[Atom]:
    """The factors of the first product, each time taking next one with the fewest unknown names, and few partners."""
    partners = {key: len(set(places)) for key, places in _by_key(second).items()}
    names = {atom: frozenset(x for a in atom[1] for x in names_in(a) if x in unknown) for atom in first}
    waiting, known, found = list(first), set[str](), []
    while waiting:
        best = min(waiting, key=lambda atom: (len(names[atom] - known) > 0, not names[atom] & known, partners[atom[0]]))
        waiting.remove(best)
        known |= names[best]
        found.append(best)
    return found


def _meaning(
    places: Sequence[Affine], other: Sequence[Affine], known: Mapping[str, Affine], unknown: Collection[str]
) -> Mapping[str, Affine] | None:
    """The meaning of names if these places are the others; None if that is plainly impossible."""
    if len(places) != len(other):
        return None
    for a, b in zip(places, other, strict=True):
        here = moved(a, known)
        open_ = [x for x in names_in(a) if x in unknown and x not in known]
        if not open_:
            if here != b:
                return None
        elif len(open_) == 1:
            value = isolated(here - b, open_[0])
            if value is not None:
                known = {**known, open_[0]: value}
    return known
