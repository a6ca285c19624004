"""Conditions on data that are already among others, up to the names of the indices that `exists` binds.

    i = a[l] + 2*l and s = b[l, a[l]]   implies   exists k. i = a[k] + 2*k and s = b[k, i - 2*k]        with k = l

Conditions on data are matched syntactically, one equality at a time, which fixes the bound indices. So long chains of
conditions, each dependent on the one before it, are found in one another without questions to integer sets about all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations

from tensorlang.language.affine import Affine, Atom, Lookup, atom_affine, constant
from tensorlang.language.predicates import (
    Equal,
    Exists,
    Or,
    Predicate,
    Related,
    conjuncts,
    equal,
    free_atoms,
    substitute,
)
from tensorlang.sets.witness import opened, with_elements_known

_MOST_TRIES = 300
_MOST_ORDERS = 6

_Values = dict[Atom, Affine]


@dataclass(frozen=True)
class _Match:
    """Values of some of the unknown indices, and further values that must be 0."""

    values: _Values
    zeros: tuple[Affine, ...] = ()

    def and_then(self, other: _Match) -> _Match:
        """The two combined, if `other` was found after substituting the values of this one."""
        return _Match({**_at(self.values, other.values), **other.values}, self.zeros + other.zeros)


def instances_in(q: Exists, facts: Sequence[Predicate]) -> Iterator[list[Predicate]]:
    """Lists of comparisons and relations without bound indices, each of which implies `q` together with the `facts`.

    Conditions of `q` on data are matched with facts; they are left in a list only if other conditions have determined
    their indices.
    """
    sought, parts = opened(q, "any")
    if any(isinstance(part, Or) for part in parts):
        return
    known = list(dict.fromkeys([*facts, *with_elements_known(facts, whole=True)]))
    unknown = frozenset[Atom](sought)
    pending: list[tuple[list[Predicate], _Match]] = [(parts, _Match({}))]
    for _ in range(_MOST_TRIES):
        if not pending:
            return
        parts, match = pending.pop()
        for k, part in enumerate(parts):
            if _asks(part) and not unknown.isdisjoint(free_atoms(part)):
                found = [m for fact in known for m in _matches(part, fact, unknown)]
                if found:
                    others = [*parts[:k], *parts[k + 1 :]]
                    pending += [([substitute(r, m.values) for r in others], match.and_then(m)) for m in found]
                    break
        else:
            left = _settled(match, parts, unknown)
            if left is not None:
                yield left


def _asks(part: Predicate) -> bool:
    return isinstance(part, Related) or (isinstance(part, Equal) and bool(part.difference.lookups))


def _settled(match: _Match, parts: Sequence[Predicate], unknown: frozenset[Atom]) -> list[Predicate] | None:
    """The conditions left to show once equations have determined all unknowns; None if they do not."""
    parts = [*(equal(a.substitute(match.values), constant(0)) for a in match.zeros), *parts]
    while (found := next((v for part in parts if (v := _solution(part, unknown)) is not None), None)) is not None:
        parts = [substitute(part, found) for part in parts]
    left = [part for whole in parts for part in conjuncts(whole)]
    return None if any(not unknown.isdisjoint(free_atoms(part)) for part in left) else left


def _solution(part: Predicate, unknown: frozenset[Atom]) -> _Values | None:
    """The value that an equality gives for the only unknown in it; None otherwise."""
    if not isinstance(part, Equal):
        return None
    free = [i for i in part.difference.free if i in unknown]
    k = part.difference.coefficient(free[0]) if len(free) == 1 else 0
    if abs(k) != 1:
        return None
    value = atom_affine(free[0]) - part.difference * k
    return {free[0]: value} if free[0] not in value.free else None


def _matches(part: Predicate, fact: Predicate, unknown: frozenset[Atom]) -> Iterator[_Match]:
    """Values of unknowns for which `part` is the `fact`."""
    match part, fact:
        case Related(relation, at), Related(other, place) if relation is other:
            yield from _all_equal(list(zip(at, place, strict=True)), unknown)
        case Equal(a), Equal(b):
            yield from _equal(a, b, unknown)
            yield from _equal(a, -b, unknown)


def _equal(a: Affine, b: Affine, unknown: frozenset[Atom]) -> Iterator[_Match]:
    """Values of unknowns for which `a` is `b`, matching lookups one by one."""
    if a is b:
        yield _Match({})
        return
    if unknown.isdisjoint(a.free):
        return
    mine = [(x, k) for x, k in a.terms if isinstance(x, Lookup) and not unknown.isdisjoint(atom_affine(x).free)]
    theirs = [(x, k) for x, k in b.terms if isinstance(x, Lookup)]
    for chosen in islice(permutations(theirs, len(mine)), _MOST_ORDERS):
        if all(x.array is y.array and k == m for (x, k), (y, m) in zip(mine, chosen, strict=True)):
            rest = _without(a, mine) - _without(b, chosen)
            looked_up = [(x.at, y.at) for (x, _), (y, _) in zip(mine, chosen, strict=True)]
            places = [pair for at, place in looked_up for pair in zip(at, place, strict=True)]
            for found in _all_equal(places, unknown):
                yield from _with_zero(found, rest, unknown)


def _all_equal(pairs: Sequence[tuple[Affine, Affine]], unknown: frozenset[Atom]) -> Iterator[_Match]:
    """Values of unknowns for which the two of each pair are equal."""
    if not pairs:
        yield _Match({})
        return
    (a, b), *others = pairs
    for first in _equal(a, b, unknown):
        left = [(c.substitute(first.values), d) for c, d in others]
        for rest in _all_equal(left, unknown):
            yield first.and_then(rest)


def _with_zero(match: _Match, a: Affine, unknown: frozenset[Atom]) -> Iterator[_Match]:
    """`match` with the further condition that `a` is 0."""
    zero = equal(a.substitute(match.values), constant(0))
    solution = _solution(zero, unknown)
    if solution is not None:
        yield match.and_then(_Match(solution))
    elif not conjuncts(zero):
        yield match
    elif isinstance(zero, Equal) and not unknown.isdisjoint(zero.difference.free):
        yield _Match(match.values, (*match.zeros, zero.difference))


def _at(values: _Values, more: _Values) -> _Values:
    return {i: a.substitute(more) for i, a in values.items()} if more else values


def _without(a: Affine, terms: Collection[tuple[Lookup, int]]) -> Affine:
    return Affine(tuple(term for term in a.terms if term not in terms), a.constant)
