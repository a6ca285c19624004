"""Running sums in groups: a sum whose ties to axes of the result are the group that it is over, and where it ends.

    gen i. sum j. [y[j] = a[i] and c(j) <= b(i)] * e(j)

A table has a sum for each group. The e(j) are added to these in the order of c(j), and between them what the table has
for a[i] is read after all those that are at most b(i). Where j and i run over the same range and c(j) <= b(i) says
that j <= i, or j < i, or the reverse, they are in that order. Elsewhere they are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, constant, total
from tensorlang.language.predicates import Equal, NonNegative, Predicate, free_atoms
from tensorlang.lower.arrays.accesses import positions
from tensorlang.lower.arrays.context import Context
from tensorlang.lower.arrays.integers import ZERO
from tensorlang.lower.arrays.ir import Name
from tensorlang.lower.arrays.sums.loop import whole
from tensorlang.lower.arrays.sums.segment_sum import at_points
from tensorlang.lower.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.arrays.values import Axes, Value, apply
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _InGroups:
    """The sum over `j` of `inside`, where `own` at j is what `asked` is at `axes`, and rank(j) <= limit(axes)."""

    j: Index
    axes: Axes
    own: Lookup
    asked: Lookup
    rank: Affine
    limit: Affine
    inside: Summation


def _in_groups(ctx: Context, c: Summation) -> _InGroups | WhyNot:
    if c.whole:
        return DECIDED
    for q in c.parts:
        sides = _sides(c, q)
        if isinstance(q, NonNegative) and sides is not None:
            rank, limit, j = -sides[0], sides[1], sides[2]
            for r in c.parts:
                group = _group(c, r, j)
                found = group and _found(ctx, c, (q, r), j, group, rank, limit)
                if found:
                    return found
    return WhyNot("no group and one comparison are all that ties the sum to some axis of the result")


def _sides(c: Summation, q: Predicate) -> tuple[Affine, Affine, Index] | None:
    """What `q` compares: the part that depends on a summed index alone, that on axes of the result, and that index."""
    if not isinstance(q, NonNegative | Equal):
        return None
    a = q.value if isinstance(q, NonNegative) else q.difference
    inside = [x for x in a.atoms if not c.summed.keys().isdisjoint(atom_affine(x).free)]
    indices = {i for x in inside for i in atom_affine(x).free if not isinstance(i, Size)}
    own = total((atom_affine(x), a.coefficient(x)) for x in inside)
    if len(indices) != 1 or not c.scope.axes(a) or not c.scope.loops.keys().isdisjoint(a.free):
        return None
    (j,) = indices
    return (own, a - own, j) if isinstance(j, Index) else None


def _group(c: Summation, q: Predicate, j: Index) -> tuple[Lookup, Lookup] | None:
    """The element at `j` and that at axes of the result that `q` says are equal."""
    sides = _sides(c, q)
    if not isinstance(q, Equal) or sides is None or sides[2] is not j or sides[0] + sides[1] is not q.difference:
        return None
    lookups = [next((x for x in a.atoms if isinstance(x, Lookup)), None) for a in sides[:2]]
    own, asked = lookups
    if own is None or asked is None or q.difference not in _differences(own, asked):
        return None
    return own, asked


def _differences(own: Lookup, asked: Lookup) -> tuple[Affine, Affine]:
    a = atom_affine(own) - atom_affine(asked)
    return a, -a


def _found(
    ctx: Context,
    c: Summation,
    said: tuple[Predicate, Predicate],
    j: Index,
    group: tuple[Lookup, Lookup],
    rank: Affine,
    limit: Affine,
) -> _InGroups | None:
    own, asked = group
    axes = tuple(i for i in c.scope.domain if i in limit.free or i in atom_affine(asked).free)
    parts = tuple(p for p in c.parts if p not in said)
    others = ctx.free_indices.free(c.body, c.scope.env).union(*map(free_atoms, parts))
    if any(i in others for i in axes):
        return None
    domain = {j: c.summed[j]} | {i: r for i, r in c.scope.domain.items() if i not in axes}
    scope = ctx.scope(c.scope, domain=domain, masks=c.scope.masks_without(axes))
    inside = replace(c, scope=scope, summed=c.without(j), parts=parts)
    return _InGroups(j, axes, own, asked, rank, limit, inside)


def _running(ctx: Context, c: Summation, found: _InGroups) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    if v.number == 0:
        return v
    j, inner = found.j, found.inside.scope
    rest = tuple(i for i in v.axes if i is not j)
    values = whole(ctx, inner, v, (j, *rest))
    own, asked = (
        at_points(ctx, scope, atom_affine(x), axes)
        for scope, axes, x in ((inner, (j,), found.own), (c.scope, found.axes, found.asked))
    )
    size = ctx.integers.node(found.own.array.size)
    if found.asked.array.size is not found.own.array.size:
        size = apply("greatest", size, ctx.integers.node(found.asked.array.size))
    step = _in_step(c, found)
    if step is not None:
        flags = (Name(str(step.constant < 0)), Name(str(found.rank.coefficient(j) < 0)))
        node = apply("_running_in_groups", values, own, asked, size, *flags)
    else:
        rank = positions(ctx, inner, found.rank, (j,))
        limit = at_points(ctx, c.scope, found.limit, found.axes)
        bounds = ctx.integers.nodes(inner.bounds(found.rank))
        node = apply("_running_up_to", values, own, rank, asked, limit, size, *bounds)
    return Value(node, (*found.axes, *rest), v.depth + 1)


def _in_step(c: Summation, found: _InGroups) -> Affine | None:
    """0 if the sum ends with what is at the same place as its element of the result, -1 if it ends before."""
    j = found.j
    if len(found.axes) != 1 or found.rank not in (atom_affine(j), -atom_affine(j)):
        return None
    (i,) = found.axes
    if c.scope.domain[i] != c.summed[j]:
        return None
    at: dict[Atom, Affine] = {j: atom_affine(i)}
    step = found.limit - found.rank.substitute(at)
    return step if step in (ZERO, constant(-1)) else None


GROUPS = Strategy(
    "running sums in groups",
    "gen i. sum j. [y[j] = a[i] and c(j) <= b(i)] * e(j): in the order of c(j) each is added to the sum of its group, "
    "which is read after b(i)",
    _in_groups,
    _running,
)
