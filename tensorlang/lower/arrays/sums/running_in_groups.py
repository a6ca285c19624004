"""Running sums in groups: a sum whose ties to axes of the result are the group that it is over, and where it ends.

    gen i. sum j. [y[j] = a[i] and c(j) <= b(i)] * e(j)

A table has a sum for each group. The e(j) are added to these in the order of c(j), and after all those that are at most
b(i) the sum of a[i] is read. Where j and i run over the same range, and c(j) <= b(i) says that j <= i, or j < i, or the
reverse, they are in that order. Elsewhere they are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, atom_affine, constant
from tensorlang.language.predicates import NonNegative, free_atoms
from tensorlang.lower.arrays.accesses import positions
from tensorlang.lower.arrays.context import Context
from tensorlang.lower.arrays.integers import ZERO
from tensorlang.lower.arrays.ir import Name, Node
from tensorlang.lower.arrays.sums.groups import Group, groups, sides
from tensorlang.lower.arrays.sums.loop import whole
from tensorlang.lower.arrays.sums.segment_sum import at_points
from tensorlang.lower.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.arrays.values import Axes, Value, apply
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Running:
    """The sum over j of `inside`, over those of the group that is asked for at `axes` for which rank(j) <= limit."""

    group: Group
    axes: Axes
    rank: Affine
    limit: Affine
    inside: Summation


def _in_groups(ctx: Context, c: Summation) -> _Running | WhyNot:
    if c.whole:
        return DECIDED
    for group in groups(c):
        for q in c.parts:
            compared = sides(c, q.value) if isinstance(q, NonNegative) else None
            if compared is None or compared[0] is not group.j:
                continue
            _, own, limit = compared
            axes = c.scope.axes(limit + atom_affine(group.asked))
            parts = tuple(p for p in c.parts if p not in (q, group.part))
            others = ctx.free_indices.free(c.body, c.scope.env).union(*map(free_atoms, parts))
            if not any(i in others for i in axes):
                return _Running(group, axes, -own, limit, _inside(ctx, replace(c, parts=parts), group, axes))
    return WhyNot("no group and one comparison are all that ties the sum to some axis of the result")


def _inside(ctx: Context, c: Summation, group: Group, axes: Axes) -> Summation:
    """`c` for each value of the index of the group, which stands in the place of `axes`."""
    domain = {group.j: c.summed[group.j]} | {i: r for i, r in c.scope.domain.items() if i not in axes}
    scope = ctx.scope(c.scope, domain=domain, masks=c.scope.masks_without(axes))
    return replace(c, scope=scope, summed=c.without(group.j))


def _running(ctx: Context, c: Summation, found: _Running) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    if v.number == 0:
        return v
    j, axes, inner = found.group.j, found.axes, found.inside.scope
    rest = tuple(i for i in v.axes if i is not j)
    values = whole(ctx, inner, v, (j, *rest))
    own = positions(ctx, inner, atom_affine(found.group.own), (j,))
    asked = at_points(ctx, c.scope, atom_affine(found.group.asked), axes)
    step = _in_step(c, found)
    if step is not None:
        flags = (Name(str(step.constant < 0)), Name(str(found.rank.coefficient(j) < 0)))
        node = apply("_running_in_groups", values, own, asked, _number_of(ctx, found.group), *flags)
    else:
        rank = positions(ctx, inner, found.rank, (j,))
        limit = at_points(ctx, c.scope, found.limit, axes)
        bounds = ctx.integers.nodes(inner.bounds(found.rank))
        node = apply("_running_up_to", values, own, rank, asked, limit, _number_of(ctx, found.group), *bounds)
    return Value(node, (*axes, *rest), v.depth + 1)


def _number_of(ctx: Context, group: Group) -> Node:
    """How many groups there may be."""
    sizes = dict.fromkeys((group.own.array.size, group.asked.array.size))
    return apply("greatest", *ctx.integers.nodes(sizes)) if len(sizes) > 1 else ctx.integers.node(*sizes)


def _in_step(c: Summation, found: _Running) -> Affine | None:
    """0 if the sum ends with what is at the same place as its element of the result, -1 if it ends before."""
    j = found.group.j
    if len(found.axes) != 1 or found.rank not in (atom_affine(j), -atom_affine(j)):
        return None
    (i,) = found.axes
    at: dict[Atom, Affine] = {j: atom_affine(i)}
    step = found.limit - found.rank.substitute(at)
    return step if c.scope.domain[i] == c.summed[j] and step in (ZERO, constant(-1)) else None


RUNNING_IN_GROUPS = Strategy(
    "running sums in groups",
    "gen i. sum j. [y[j] = a[i] and c(j) <= b(i)] * e(j): in the order of c(j) each is added to the sum of its group, "
    "which is read after b(i)",
    _in_groups,
    _running,
)
