"""Reading arrays along lines, diagonals and those beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorlang.language.affine import Affine, Index
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.ir import Name
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.strategy import DECIDED, NOT_A_SUM, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value, apply, integers
from tensorlang.lowering.plan.dependence import accesses, places

NARROW = 32
"""A band of up to this many diagonals is computed one diagonal after the other."""


def diagonal(ctx: Context, scope: Scope, array: Held, places: Sequence[Affine]) -> Value | None:
    """The elements of `array` at `places` that depend on exactly one axis, and on no data; None for other places.

    Such elements lie at equal distances in memory.
    """
    axes = {i for a in places for i in scope.axes(a)}
    if len(axes) != 1 or any(a.lookups for a in places):
        return None
    (i,) = axes
    starts = ctx.shape(a.substitute({i: scope.domain[i].start}) for a in places)
    steps, count = integers(a.coefficient(i) for a in places), ctx.integers.node(scope.domain[i].extent)
    return Value(apply("_on_line", Name(array.name), starts, steps, count), (i,), 2)


def _short_axis(ctx: Context, c: Summation) -> Index | WhyNot:
    """A short axis of the result that a position mixes with another axis.

    The factor that is read there would have both axes, and be materialised before it is multiplied and added up.
    """
    if c.whole or not c.summed:
        return NOT_A_SUM if not c.summed else DECIDED
    mixed = [c.scope.axes(a.substitute(c.scope.env)) for e in accesses(c.body) for a in places(e)]
    for i in (i for axes in mixed if len(axes) > 1 for i in axes):
        extent = c.scope.domain[i].extent
        if extent.is_constant and extent.constant <= NARROW:
            return i
    return WhyNot(f"no access mixes an axis of the result of length at most {NARROW} with another one")


STACK = Strategy(
    "stack along a short axis",
    "gen i:k. sum s. e: for each i its own sum, one after the other, where an access mixes i with another axis",
    _short_axis,
    lambda ctx, c, i: ctx.contract(replace(c, loops=frozenset({i}))),
)
