"""Guesses at where the cotangents of a recurrence's states are not 0.

They are extrapolated from the first steps backwards: Q_0 is where cotangents of the last states are given, and Q_j is
Q_0 after j steps.

    Q_j = Q_{j+p} from some j on                  Q(t) = Q_j where n - t = j, or j + p, or j + 2 p, ..
    the bounds in Q_1, Q_2, Q_3 grow linearly     Q(t) = Q_1 with bounds moved on by n - t - 1 such increments

A guess may be wrong: it is accepted only if it fulfils the equations of `recurrence_supports`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tensorlang.language.affine import Affine, Index, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    exists,
    lookups,
    relations,
)
from tensorlang.sets.isl import gist, is_empty

Family = Mapping[int, Predicate]
"""For each state, where its cotangent is not 0: a predicate over its indices and a time."""

_STEPS = 7
_SETTLED = 3
_LARGEST = 24
"""The most conditions in a support: one that data determine gets more with each step, and gives no guess."""


def guesses(
    first: Family,
    step: Callable[[Family], Family],
    same: Callable[[Family, Family], bool],
    time: Index,
    size: Affine,
) -> Iterator[Family]:
    """Families that may be the supports for all times 0 <= `time` <= `size`, the likeliest first.

    `first` has the supports at the last time, `step` maps them to those at the time before, and `same` compares two.
    """
    yield dict.fromkeys(first, TRUE)
    gone = size - atom_affine(time)
    found = [first]
    for j in range(1, _STEPS + 1):
        there = at_most(constant(j), gone)
        found.append({k: _given(p, there) for k, p in step(found[-1]).items()})
        if any(_conditions(p) > _LARGEST for p in found[-1].values()):
            return
        if (j == _SETTLED and _has_more(found[-1], found[-2])) or (j == 2 and _grows(found)):
            return  # each step looks up further elements
        if j <= _SETTLED and not (j == 1 and _has_more(found[1], first)):  # else the next step is a better guess
            yield _periodic(found if j == 1 else [first, found[-1]], 1, 1, gone, size)
        for p in range(1, len(found)):
            if same(found[-1 - p], found[-1]):
                yield _periodic(found, len(found) - 1 - p, p, gone, size)
                return
        if j == _SETTLED and any(relations(p) for p in found[-1].values()):
            return  # compositions of relations only grow
    for start in (1, 0, 2, 3):
        grown = _grown(found[start : start + 3], gone - start)
        if grown is not None:
            begun = [(equal(gone, constant(j)), found[j]) for j in range(start)] + [
                (at_most(constant(start), gone), grown)
            ]
            yield _union(begun)


def _has_more(p: Family, q: Family) -> bool:
    """Whether the conditions of `p` look up more elements of index arrays than those of `q`."""
    return _elements(*p.values()) > _elements(*q.values())


def _grows(three: list[Family]) -> bool:
    """Whether some state's support looks up more and more elements from each of the three families to the next."""
    return any(_elements(three[0][k]) < _elements(three[1][k]) < _elements(three[2][k]) for k in three[0])


def _elements(*several: Predicate) -> int:
    return len({x for p in several for x in lookups(p)})


def _conditions(p: Predicate) -> int:
    """The number of conditions in `p`."""
    match p:
        case And(parts) | Or(parts):
            return sum(map(_conditions, parts))
        case Exists(_, _, body):
            return _conditions(body)
    return 1


def _given(p: Predicate, context: Predicate) -> Predicate:
    """`p`, simplified given that `context` holds."""
    if is_empty(conjunction([p, context])):
        return FALSE
    known = gist(p, context)
    return p if known is None else known


def _periodic(found: list[Family], start: int, period: int, gone: Affine, most: Affine) -> Family:
    """The j-th family at j steps from the end, with the `period` families from `start` on repeated; `gone` is the
    number of steps, and `most` the greatest that it may be."""
    parts = [(equal(gone, constant(j)), found[j]) for j in range(start)]
    if period == 1:
        return _union([*parts, (at_most(constant(start), gone), found[start])])
    for r in range(period):
        k = Index("k")
        again = equal(gone - start - r, atom_affine(k) * period)
        parts.append((exists([(k, most + 1)], again), found[start + r]))
    return _union(parts)


def _union(parts: list[tuple[Predicate, Family]]) -> Family:
    places = parts[0][1]
    return {k: disjunction(conjunction([p, family[k]]) for p, family in parts) for k in places}


def _grown(three: list[Family], steps: Affine) -> Family | None:
    """The first of three families extrapolated linearly by `steps`; None if their bounds don't grow linearly."""
    made: dict[int, Predicate] = {}
    for k in three[0]:
        p = _further(three[0][k], three[1][k], three[2][k], steps)
        if p is None:
            return None
        made[k] = p
    return made


def _further(p: Predicate, q: Predicate, r: Predicate, steps: Affine) -> Predicate | None:
    if p is q is r:
        return p
    match p, q, r:
        case (And(x), And(y), And(z)) | (Or(x), Or(y), Or(z)):
            if not len(x) == len(y) == len(z):
                return None
            parts = [_further(*each, steps) for each in zip(x, y, z, strict=True)]
            if any(part is None for part in parts):
                return None
            made = [part for part in parts if part is not None]
            return conjunction(made) if isinstance(p, And) else disjunction(made)
        case (NonNegative(a), NonNegative(b), NonNegative(c)):
            value = _even(a, b, c, steps)
            return None if value is None else at_most(constant(0), value)
        case (Equal(a), Equal(b), Equal(c)):
            value = _even(a, b, c, steps)
            return None if value is None else equal(value, constant(0))
        case (Exists(i, n, x), Exists(j, m, y), Exists(k, o, z)) if i is j is k and n is m is o:
            inner = _further(x, y, z, steps)
            return None if inner is None else exists([(i, n)], inner)
    return None


def _even(a: Affine, b: Affine, c: Affine, steps: Affine) -> Affine | None:
    """a + steps * (b - a), if b - a is a constant and equal to c - b; else None."""
    further = b - a
    return a + steps * further.constant if not further.terms and c - b is further else None
