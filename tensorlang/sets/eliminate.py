"""Eliminating an index that `exists` binds, exactly over the integers and without isl."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import gcd

from tensorlang.language.affine import Affine, Index, Lookup, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    less,
    substitute,
)

_MAX_PAIRS = 64


def eliminate(index: Index, size: Affine, parts: Sequence[Predicate]) -> list[Predicate] | None:
    """Conjuncts equivalent to the existence of an index, 0 <= index < size, with all of `parts`; None if none are
    found.

    An equality that determines the index (coefficient 1 or -1) is solved for it. Else the bounds of the index are
    paired (Fourier and Motzkin), which is exact if all lower or all upper ones have coefficient 1. That is impossible
    for an index at which an array is looked up.
    """
    i = atom_affine(index)
    parts = [*parts, at_most(constant(0), i), less(i, size)]
    for part in parts:
        if isinstance(part, Equal) and abs(k := part.difference.coefficient(index)) == 1:
            value = i - part.difference * k
            if index in value.indices:  # it is looked up at a place that it determines
                continue
            others = (other for other in parts if other is not part)
            return [*(substitute(other, {index: value}) for other in others), exists_at_all(value)]
    kept = [part for part in parts if index not in free_atoms(part)]
    bounds = [part for part in parts if index in free_atoms(part)]
    values = [part.value for part in bounds if isinstance(part, NonNegative)]
    if len(values) < len(bounds) or any(_looks_up(a, index) for a in values):
        return None
    lower = [a for a in values if a.coefficient(index) > 0]
    upper = [a for a in values if a.coefficient(index) < 0]
    if any(a.coefficient(index) > 1 for a in lower) and any(b.coefficient(index) < -1 for b in upper):
        return None
    if len(lower) * len(upper) > _MAX_PAIRS:
        return None
    pairs = [a * -b.coefficient(index) + b * a.coefficient(index) for a in lower for b in upper]
    return kept + [tightened(at_most(constant(0), pair)) for pair in pairs]


def exists_at_all(a: Affine) -> Predicate:
    """The condition that elements of partial index arrays in `a` have nonempty ranges."""
    sizes = dict.fromkeys(lookup.array.size for lookup in a.lookups if lookup.array.partial)
    return conjunction(less(constant(0), size) for size in sizes)


def tightened(p: Predicate) -> Predicate:
    """A comparison of integers in lowest terms: 2*i - 3 >= 0 is i - 2 >= 0, 2*i = 3 is false, and k >= 0 true."""
    if not isinstance(p, Equal | NonNegative):
        return p
    a = p.difference if isinstance(p, Equal) else p.value
    if (
        isinstance(p, NonNegative)
        and a.constant >= 0
        and all(k > 0 and isinstance(x, Lookup) and not x.at for x, k in a.terms)
    ):
        return TRUE
    d = gcd(*(k for _, k in a.terms))
    if isinstance(p, Equal) and a.constant % max(d, 1):
        return FALSE
    if d > 1:
        a = Affine(tuple((atom, k // d) for atom, k in a.terms), a.constant // d)
    return equal(a, constant(0)) if isinstance(p, Equal) else at_most(constant(0), a)


def length(p: Predicate) -> int:
    """The length of `p` for a reader: its comparisons and relations, and two more for each binder, for its range."""
    count = 0
    stack: list[Predicate] = [p]
    while stack:
        match stack.pop():
            case And(parts) | Or(parts):
                stack += parts
            case Exists(_, _, body):
                count += 2
                stack.append(body)
            case Equal() | NonNegative() | Related():
                count += 1
    return count


def _never_negative(p: Predicate) -> tuple[Affine, ...]:
    """The values that a comparison says are at least 0."""
    match p:
        case NonNegative(a):
            return (a,)
        case Equal(a):
            return (a, -a)
    return ()


def _looks_up(a: Affine, index: Index) -> bool:
    """Whether `a` looks up an element at a place that depends on the index."""
    return any(index in at.free for x in a.lookups for at in x.at)


def paired_bounds(p: Predicate) -> Predicate:
    """Comparisons that follow from pairs of comparisons under a quantifier, by eliminating the index that it binds.

    From exists q. 4*q <= i and j < 4*q + 4 it follows that j < i + 4.
    """
    found: list[Predicate] = []
    for q in conjuncts(p):
        if isinstance(q, Exists):
            values = [a for part in conjuncts(q.body) for a in _never_negative(part) if not _looks_up(a, q.index)]
            for a, b in permutations(values, 2):
                up, down = a.coefficient(q.index), -b.coefficient(q.index)
                if up > 0 and down > 0:
                    found.append(
                        tightened(at_most(constant(0), a * (down // gcd(up, down)) + b * (up // gcd(up, down))))
                    )
    return conjunction(found)
