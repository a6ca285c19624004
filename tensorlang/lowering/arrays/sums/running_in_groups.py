"""Running sums in groups: a sum whose ties to axes of the result are the group that it is over, and where it ends.

    gen i. sum j. [y[j] = a[i] and c(j) <= b(i)] * e(j)

A table has a sum for each group. The e(j) are added to these in the order of c(j), and the sum of the group a[i] is
read after all terms with c(j) at most b(i). Where j and i run over the same range, and c(j) <= b(i) says that j <= i,
or j < i, or the reverse, they are in that order. Elsewhere they are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.language.predicates import NonNegative, free_atoms
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO
from tensorlang.lowering.arrays.ir import Name, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.groups import Group, groups, sides
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.sums.segment_sum import at_points
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class Ties:
    """The terms over `j` with rank(j) <= limit that are in the `group` asked for at `axes`, or in any if it is None."""

    j: Index
    group: Group | None
    axes: Axes
    rank: Affine
    limit: Affine


@dataclass(frozen=True)
class InOrder(Ties):
    """Ties, with the sum `inside` of the terms for each j."""

    inside: Summation


def in_groups(ctx: Context, c: Summation) -> InOrder | WhyNot:
    """The group and the order that tie `c` to axes of the result."""
    if c.whole:
        return DECIDED
    found = next((found for group in groups(c) if (found := _in_order(ctx, c, group)) is not None), None)
    return found or WhyNot("no group and one comparison are all that ties the sum to some axis of the result")


def in_order(ctx: Context, c: Summation) -> InOrder | WhyNot:
    """The order that alone ties `c` to axes of the result."""
    return _in_order(ctx, c, None) or WhyNot("no comparison is all that ties the sum to some axis of the result")


def _in_order(ctx: Context, c: Summation, group: Group | None) -> InOrder | None:
    for q in c.parts:
        compared = sides(c, q.value) if isinstance(q, NonNegative) else None
        if compared is None or (group is not None and compared[0] is not group.j):
            continue
        j, own, limit = compared
        axes = axes_asked(c, limit, group)
        parts = tuple(p for p in c.parts if p is not q and (group is None or p is not group.part))
        others = ctx.free_indices.free(c.body, c.scope.env).union(*map(free_atoms, parts))
        if not any(i in others for i in axes):
            return InOrder(j, group, axes, -own, limit, _inside(ctx, replace(c, parts=parts), j, axes))
    return None


def axes_asked(c: Summation, limit: Affine, group: Group | None) -> Axes:
    """The axes on which the limit and the group of the terms to sum depend."""
    both = {*c.scope.axes(limit), *(() if group is None else c.scope.axes(atom_affine(group.asked)))}
    return tuple(i for i in c.scope.order if i in both)


def _inside(ctx: Context, c: Summation, j: Index, axes: Axes) -> Summation:
    """`c` for each value of the summed index `j`, which becomes an axis in place of `axes`."""
    domain = {j: c.summed[j]} | {i: r for i, r in c.scope.domain.items() if i not in axes}
    scope = ctx.scope(c.scope, domain=domain, masks=c.scope.masks_without(axes))
    return replace(c, scope=scope, summed=c.without(j))


def _running(ctx: Context, c: Summation, found: InOrder) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    if v.number == 0:
        return v
    rest = tuple(i for i in v.axes if i is not found.j)
    values = whole(ctx, found.inside.scope, v, (found.j, *rest))
    node = apply_in_order(ctx, c, found, ("_running_in_groups", "_running_up_to"), [values])
    return Value(node, (*found.axes, *rest), v.depth + 1)


def apply_in_order(
    ctx: Context, c: Summation, found: InOrder, names: tuple[str, str], values: Sequence[Node], *further: Node
) -> Node:
    """The first of the operations `names`, if each sum ends at its place; else the second one, up to a limit."""
    inner, step = found.inside.scope, _in_step(c, found)
    if step is not None:
        at, _, wanted, _, size, *_ = places_in_order(ctx, c, inner, found)
        flags = (Name(str(step.constant < 0)), Name(str(found.rank.coefficient(found.j) < 0)))
        return apply(names[0], *values, at, wanted, size, *flags, *further)
    return apply(names[1], *values, *places_in_order(ctx, c, inner, found), *further)


def places_in_order(ctx: Context, c: Summation, inner: Scope, found: Ties) -> list[Node]:
    """The groups and ranks of the terms, in the scope `inner`, and the groups and limits that are asked for; the number
    of possible groups, and the bounds of the ranks."""
    j, axes, group = found.j, found.axes, found.group
    own, asked = (ZERO, ZERO) if group is None else (atom_affine(group.own), atom_affine(group.asked))
    at, wanted = at_points(ctx, inner, own, (j,)), at_points(ctx, c.scope, asked, axes)
    rank = at_points(ctx, inner, found.rank, (j,))
    limit = at_points(ctx, c.scope, found.limit, axes)
    size = integer(1) if group is None else _number_of(ctx, group)
    return [at, rank, wanted, limit, size, *ctx.integers.nodes(inner.bounds(found.rank))]


def _number_of(ctx: Context, group: Group) -> Node:
    """The number of groups that there may be."""
    sizes = dict.fromkeys((group.own.array.size, group.asked.array.size))
    return apply("greatest", *ctx.integers.nodes(sizes)) if len(sizes) > 1 else ctx.integers.node(*sizes)


def _in_step(c: Summation, found: InOrder) -> Affine | None:
    """0 if each sum ends with the term at the place of its result, -1 if it ends before that; None if it is neither."""
    j = found.j
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
    in_groups,
    _running,
)
