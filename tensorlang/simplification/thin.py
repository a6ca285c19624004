"""Thin conditions: those that leave few values of some index, given the others; and unions of such conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensorlang.language.affine import Affine, Index, atom_affine, is_long, is_narrow
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    conjuncts,
    free_atoms,
    lookups,
)
from tensorlang.sets.eliminate import paired_bounds
from tensorlang.sets.solve import Ranges
from tensorlang.simplification.supports import common


def thin_unions(p: Predicate, ranges: Ranges) -> list[Predicate]:
    """The unions among the conjuncts of `p` that leave few points of the box of these ranges."""
    return [q for q in conjuncts(p) if isinstance(q, Or) and is_thin_union(p, q, ranges)]


def is_thin(p: Predicate, ranges: Ranges) -> bool:
    """Whether `p`, or each alternative of it, leaves few values of some index, given the others."""
    parts = conjuncts(p)
    shared = [r for q in parts if isinstance(q, Or) for r in conjuncts(common(q.parts))]
    return leaves_few([*parts, *shared], ranges, ranges) or bool(thin_unions(p, ranges))


def is_thin_union(p: Predicate, choice: Or, ranges: Ranges, is_summed: bool = False) -> bool:
    """Whether each alternative in `choice` leaves few values of some index, while the conditions common to them do not.

    If the common conditions did, a statement under the union would already be stored as one window; with `is_summed` it
    is not stored, and they are ignored. Points that data alone give, [j = a[i] or j = b[i]], don't count: they are
    separated when their sum is computed.
    """
    if all(isinstance(q, Equal) and q.difference.lookups for q in choice.parts):
        return False
    rest = [q for q in conjuncts(p) if isinstance(q, NonNegative)]
    if not all(isinstance(q, And | Equal | Exists | NonNegative | Related) for q in choice.parts):
        return False
    if not is_summed and leaves_few([*rest, *conjuncts(common(choice.parts))], indices_in(choice), ranges):
        return False
    return all(leaves_few([*rest, *conjuncts(q)], indices_in(q), ranges) for q in choice.parts)


def leaves_few(parts: Iterable[Predicate], among: Iterable[Index], ranges: Ranges) -> bool:
    """Whether the comparisons leave few values of one of the indices, given the others, or a relation does."""
    parts = list(parts)
    if any(isinstance(q, Related) and len(q.arguments) > 1 for q in parts):
        return True
    bounds = list(_bounds(_opened(parts)))
    for i in among:
        if i not in ranges or not is_long(ranges[i]):
            continue
        here = [*bounds, atom_affine(i), ranges[i] - 1 - atom_affine(i)]
        for low in here:
            k = low.coefficient(i)
            if k > 0 and any(
                is_narrow(low * -high.coefficient(i) + high * k, ranges[i] * (k * -high.coefficient(i)))
                for high in here
                if high.coefficient(i) < 0
            ):
                return True
    return False


def _opened(parts: Iterable[Predicate]) -> list[Predicate]:
    """The parts, and the bounds on indices that follow from quotients in them."""
    found = list(parts)
    bound = [q for q in found if isinstance(q, Exists) and not lookups(q)]
    return [*found, *(r for q in bound for r in conjuncts(paired_bounds(q)))]


def _bounds(parts: Iterable[Predicate]) -> Iterator[Affine]:
    """The values that the parts say are not negative."""
    for q in parts:
        if isinstance(q, NonNegative):
            yield q.value
        elif isinstance(q, Equal):
            yield from (q.difference, -q.difference)


def indices_in(p: Predicate) -> list[Index]:
    """The indices that are free in `p`."""
    return [i for i in free_atoms(p) if isinstance(i, Index)]
