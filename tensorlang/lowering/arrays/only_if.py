"""What a step of a recurrence computes only if a condition holds that is one truth value for all of the step.

    fold t:T with s = x. gen i:n. s[i] + [t = 0] * sum j:n. W[i, j] * s[j]  ->  s + _only_if(t == 0, lambda: W @ s)

A mask would compute it at each time. Outside of steps there is nothing to gain: conditions on sizes are decided when
the program is traced. What is cheap is masked, with what reads it.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import Predicate
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.ir import OnlyIf
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import function_of
from tensorlang.lowering.arrays.values import Value, where
from tensorlang.lowering.plan.asked_first import is_of_step
from tensorlang.lowering.plan.dependence import is_costly
from tensorlang.recursion import Deep, call


def is_worth_asking(ctx: Context, scope: Scope, q: Predicate, e: Expr, summed: bool = False) -> bool:
    """Whether a step should ask `q` before it computes `e`, or a sum of it if `summed`."""
    return ctx.in_step and is_of_step(q) and (summed or is_costly(e, bool(ctx.free_indices.free(e, scope.env))))


def only_if(ctx: Context, scope: Scope, p: Predicate, compute: Callable[[Scope], Deep[Value]]) -> Deep[Value]:
    """The result of `compute`, for which a step calls a function only if `p` holds; else zeros."""
    block = ctx.new_block()
    target, ctx.target = ctx.target, None
    inner = ctx.scope(scope, block=block, fixed=block if scope.fixed is scope.block else scope.fixed)
    v = yield from call(compute(inner))
    ctx.target = target
    holds = mask(ctx, scope, p)
    if v.number is not None:
        return where(holds, v, scope.order)
    function = function_of(ctx, scope.block, block, [], v, "value")
    return Value(OnlyIf("_only_if", (holds.node, function), (), p), v.axes, v.depth + 1)
