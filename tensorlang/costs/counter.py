"""Counting the points of domains at given sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import TypeGuard

from tensorlang.costs.counting import number_of_points
from tensorlang.costs.domains import Domain, factors, place
from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, constant
from tensorlang.language.grid import Setting, count
from tensorlang.language.predicates import (
    FALSE,
    Equal,
    NonNegative,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    lookups,
    relations,
    substitute,
    within,
)
from tensorlang.sets.encode import TooHard
from tensorlang.sets.solve import solve

_LARGE = 1 << 12
"""In boxes of more points than this, points are not enumerated if there is another way."""
_MOST_ALTERNATIVES = 5


class Counter:
    """Counts the points of domains at given sizes and relations."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.values: dict[Atom, Affine] = {size: constant(n) for size, n in setting.sizes.items()}
        self.counted: dict[Domain, int] = {}

    def points(self, domain: Domain) -> int:
        """The number of points of `domain`. Raises `LimitError` if it can't be found within memory."""
        ranges = {i: size.substitute(self.values) for i, size in domain.binders}
        if any(size.constant <= 0 for size in ranges.values()):
            return 0
        p = substitute(domain.pred, self.values)
        # indices with one value are substituted together, since `solve` takes one after the other
        fixed: dict[Atom, Affine] = {}
        inside: list[Predicate] = []
        for i, a in map(_value, conjuncts(p)):
            if i is not None and i in ranges:
                fixed[i] = a
                inside.append(within(a, ranges.pop(i)))
        solution = solve(conjunction([substitute(p, fixed), *inside]), ranges, {})
        boxes = {i: ranges[i].constant for i in solution.free}
        parts: list[Predicate] = []
        # the range of a chosen element depends on sizes, and solving adds a condition that it is not empty
        for p in conjuncts(substitute(solution.rest, self.values)):
            truth = _truth(p, boxes, self.setting.sizes)
            if truth is False:
                return 0
            if truth is None:
                parts.append(p)
        result = 1
        for indices, group in factors(parts):
            if result:
                result *= self._count(tuple((i, boxes.pop(i)) for i in indices), group)
        return result * math.prod(boxes.values())

    def _count(self, ranges: tuple[tuple[Index, int], ...], parts: list[Predicate]) -> int:
        canonical = {i: place(k) for k, (i, _) in enumerate(ranges)}
        p = substitute(conjunction(parts), {i: atom_affine(j) for i, j in canonical.items()})
        key = Domain(tuple((canonical[i], constant(n)) for i, n in ranges), p)
        if key not in self.counted:
            self._need_elements(p)
            large = math.prod(n for _, n in ranges) > _LARGE
            closed = _in_closed_form(key) if large and not lookups(p) and not relations(p) else None
            if closed is None:
                union = next((q for q in conjuncts(p) if _is_short_union(q)), None) if large else None
                found = count(key.binders, p, self.setting) if union is None else self._of_union(key, union)
            self.counted[key] = found if closed is None else closed
        return self.counted[key]

    def _of_union(self, domain: Domain, union: Or) -> int:
        """The number of points of a domain with the condition `union`, by inclusion and exclusion: where several
        alternatives hold together, there are few points, or intervals of them."""
        rest = [q for q in conjuncts(domain.pred) if q is not union]
        ranges = tuple((i, n.constant) for i, n in domain.binders)
        total = 0
        for count_of in range(1, len(union.parts) + 1):
            for some in combinations(union.parts, count_of):
                total += (-1) ** (count_of + 1) * self._count(ranges, [conjunction([*rest, *some])])
        return total

    def _need_elements(self, p: Predicate) -> None:
        for lookup in lookups(p):
            if lookup.array not in self.setting.arrays:
                raise ArgumentError(
                    f"the cost depends on the elements of {lookup.array.name}",
                    hint="pass the index array by its name; for what an argmax or a condition on values chooses, the "
                    "arrays of all parameters, and where it is inside of a gen or sum, lift it out by let_lift",
                )


def _is_short_union(q: Predicate) -> TypeGuard[Or]:
    """Whether `q` is a disjunction of few alternatives that looks up elements of index arrays."""
    return isinstance(q, Or) and 1 < len(q.parts) <= _MOST_ALTERNATIVES and bool(lookups(q)) and not relations(q)


def _value(p: Predicate) -> tuple[Index | None, Affine]:
    """The index that `p` equates with a number, and the number; None for the index if `p` is no such equality."""
    match p:
        case Equal(Affine(((Index() as index, 1),), k)):
            return index, constant(-k)
    return None, constant(0)


def _truth(p: Predicate, boxes: Mapping[Index, int], sizes: Mapping[Size, int]) -> bool | None:
    """Whether a comparison is true, or false, in all of a box; None if neither."""
    if not isinstance(p, Equal | NonNegative):
        return False if p is FALSE else None
    a = p.difference if isinstance(p, Equal) else p.value
    if any(_count_of(atom, boxes, sizes) <= 0 for atom in a.lookups):
        return False  # a comparison with an element that can't exist is false
    some = any(isinstance(atom, Lookup) and atom.array.partial for atom in a.lookups)
    ends = [k * (_count_of(atom, boxes, sizes) - 1) for atom, k in a.terms]
    low = a.constant + sum(min(0, end) for end in ends)
    high = a.constant + sum(max(0, end) for end in ends)
    if isinstance(p, Equal):
        return False if low > 0 or high < 0 else True if low == high and not some else None
    return True if low >= 0 and not some else False if high < 0 else None


def _count_of(atom: Atom, boxes: Mapping[Index, int], sizes: Mapping[Size, int]) -> int:
    """The number of values of an index or element, which start at 0."""
    assert isinstance(atom, Index | Lookup), "sizes are known"
    return boxes[atom] if isinstance(atom, Index) else atom.array.size.value(sizes)  # type: ignore[arg-type]


def _in_closed_form(domain: Domain) -> int | None:
    """The number of points of a domain without data, without enumerating them; None if that is too hard."""
    try:
        found = number_of_points(dict(domain.binders), domain.pred)
    except TooHard:
        return None
    return int(sum(number.value({}) for _, number in found))
