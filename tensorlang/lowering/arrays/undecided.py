"""Which conditions the known facts about data leave open."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    conjunction,
    lookups,
    substitute,
    within,
)
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.sets.solve import simplify_in

MOST_PARTS = 6
"""The most predicates that are checked for whether they exclude one another."""


def undecided_conditions(ctx: Context, scope: Scope, parts: Sequence[Predicate]) -> tuple[Predicate, ...]:
    """The conditions in `parts` that known facts about data leave open: elements of index arrays are in their range,
    and a relation holds at its points. Where the range of an index array is empty, `parts` that compare its elements
    are false: conditions that it is not empty are added."""
    left = [q for q in parts if not _is_certain(ctx, q)]
    for q in parts:
        if not isinstance(q, Or):
            left += [some for some in has_elements(ctx, scope, lookups(q)) if some not in left]
    return tuple(left)


def has_elements(ctx: Context, scope: Scope, found: Sequence[Lookup]) -> list[NonNegative]:
    """Conditions on sizes, not known to hold, without which the arrays that are looked up have empty ranges."""
    arrays = dict.fromkeys(lookup.array for lookup in found if lookup.array in ctx.possibly_empty)
    return [q for q in (NonNegative(array.size - 1) for array in arrays) if q not in scope.masks]


def known_quotients(ctx: Context, parts: Sequence[Predicate]) -> Predicate:
    """The bounds of the quotients that `parts` read."""
    read = [(x, ctx.divisors[x.array]) for q in parts for x in lookups(q) if x.array in ctx.divisors]
    return conjunction(within(x.at[0] - atom_affine(x) * c, constant(c)) for x, c in read)


def exclude_one_another(ctx: Context, scope: Scope, parts: Sequence[Predicate]) -> bool:
    """Whether no two of these few predicates hold at once."""
    ranges = {i: r.stop for i, r in scope.domain.items()}
    known = known_quotients(ctx, parts)
    pairs = combinations(parts, 2) if len(parts) <= MOST_PARTS else [(TRUE, TRUE)]
    return all(simplify_in(substitute(conjunction([known, *pair]), scope.env), ranges) is FALSE for pair in pairs)


def _is_certain(ctx: Context, q: Predicate) -> bool:
    if isinstance(q, NonNegative):
        known: dict[Atom, Affine] = {}
        for atom, k in q.value.terms:
            if isinstance(atom, Lookup):
                known[atom] = constant(0) if k > 0 else atom.array.size - 1
        return bool(known) and ctx.integers.is_nonnegative(q.value.substitute(known))
    bound: dict[Index, Affine] = {}
    while isinstance(q, Exists):
        bound[q.index] = q.size
        q = q.body
    if not isinstance(q, Related) or q.relation not in ctx.sparse:
        return False
    return ctx.sparse[q.relation].is_certain(bound, q.arguments)
