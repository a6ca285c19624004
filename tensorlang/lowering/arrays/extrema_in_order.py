"""Extrema in groups and in an order: those whose ties to axes of the result are the group, and where they end.

    gen i. max j where y[j] = a[i] and c(j) <= b(i). e(j)

A table has a greatest value for each group. The e(j) are compared with these in the order of c(j), and that of the
group a[i] is read after all terms with c(j) at most b(i). Without a group there is one for all.
"""

from __future__ import annotations

from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.predicates import conjunction, conjuncts
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.ir import Name, Node
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.sums.running_in_groups import InOrder, apply_in_order
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.undecided import undecided_conditions
from tensorlang.lowering.arrays.values import TRUE, Value, cast, negated
from tensorlang.recursion import Deep, call

_PARTS = {
    Extremum: ("_greatest_in_groups", "_greatest_up_to"),
    Choice: ("_first_greatest_in_groups", "_first_greatest_up_to"),
}


def over_order(ctx: Context, c: Summation, e: Extremum | Choice, found: InOrder, none: Node | None) -> Deep[Value]:
    """The array of `e`, which compares what `c` adds up. Where it is empty, an extremum is `none`, or anything if that
    is None, and a choice is 0."""
    inner = found.inside.scope
    condition = conjunction(undecided_conditions(ctx, inner, found.inside.parts))
    inner = ctx.scope(inner, masks=(*inner.masks, *conjuncts(condition)))
    v: Value = yield from call(ctx.value(e.body, inner))
    if e.sign < 0:
        v = negated(v)
    m = mask(ctx, inner, condition)
    rest = tuple(i for i in inner.order if i is not found.j and (i in v.axes or i in m.axes))
    axes = (found.j, *rest)
    values = expanded(ctx, inner, v, axes)
    if v.weak:
        values = cast(values)
    shown = TRUE if m.node == TRUE else expanded(ctx, inner, m, axes)
    start = ctx.integers.node(c.summed[found.j].start)
    last = start if isinstance(e, Choice) else Name("jnp.nan") if none is None else none
    node = apply_in_order(ctx, c, found, _PARTS[type(e)], [values, shown], last)
    result = Value(node, (*found.axes, *rest), v.depth + 1)
    return negated(result) if e.sign < 0 and isinstance(e, Extremum) else result
