"""Windows whose ends come from data: the sum up to their end minus the sum before their start.

    sum j. [lo <= j and j <= hi] * e  =  [lo <= hi + 1] * (sum j. [j <= hi] * e - sum j. [j < lo] * e)

for any two comparisons A >= 0 and B >= 0 whose sum does not depend on what lies between: a summed index between
elements of index arrays, or an axis of the result between elements at the summed indices, as in the adjoint of the
first. Both sums on the right are running sums (`prefix_sum`), so the time is linear. As sums of floats they are
subtracted from one another: the error is that of the running sum, not of the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from tensorlang.language.affine import Affine
from tensorlang.language.predicates import NonNegative, Predicate, free_atoms
from tensorlang.lowering.arrays.brackets import guarded
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.numbered import NUMBERED
from tensorlang.lowering.arrays.sums.prefix_sum import BY_VALUE, PREFIX_SUM
from tensorlang.lowering.arrays.sums.running_in_groups import RUNNING_IN_GROUPS
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value, plus
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Window:
    """The sums up to the end and before the start, and the condition that the end is not before the start."""

    to_end: Summation
    before_start: Summation
    outer: Predicate | None


def _between(ctx: Context, c: Summation) -> _Window | WhyNot:
    if c.whole:
        return DECIDED
    if c.selects or ctx.strict:  # in strict code not even by rounding
        return WhyNot("a difference of sums is not free of what is hidden")
    for lower, upper in _pairs(c):
        window = _window(c, lower, upper)
        if window is not None and all(_is_running(ctx, s) for s in (window.to_end, window.before_start)):
            return window
    return WhyNot("no two comparisons bound one index by elements of index arrays")


def _pairs(c: Summation) -> Iterator[tuple[Affine, Affine]]:
    """Comparisons A >= 0 and B >= 0 in which an index has the coefficients 1 and -1."""
    values = [q.value for q in c.parts if isinstance(q, NonNegative)]
    for a, b in permutations(values, 2):
        if any(a.coefficient(i) == 1 and b.coefficient(i) == -1 for i in c.ranges):
            yield a, b


def _window(c: Summation, lower: Affine, upper: Affine) -> _Window | None:
    width = lower + upper
    rest = tuple(q for q in c.parts if q not in (NonNegative(lower), NonNegative(upper)))
    outer: Predicate | None = None
    if not (width.is_constant and width.constant >= -1):
        fits = NonNegative(width + 1)
        inside = free_atoms(fits)
        if not inside & c.summed.keys():
            outer = fits
        elif inside & c.scope.domain.keys():
            return None
        else:
            rest = (*rest, fits)
    to_end, before_start = (replace(c, parts=(*rest, NonNegative(bound))) for bound in (upper, -lower - 1))
    return _Window(to_end, before_start, outer)


def _is_running(ctx: Context, c: Summation) -> bool:
    return any(not isinstance(way.match(ctx, c), WhyNot) for way in (PREFIX_SUM, BY_VALUE, NUMBERED, RUNNING_IN_GROUPS))


def _difference(ctx: Context, c: Summation, found: _Window) -> Deep[Value]:
    def compute(scope: Scope) -> Deep[Value]:
        end: Value = yield from call(ctx.contract(replace(found.to_end, scope=scope)))
        start: Value = yield from call(ctx.contract(replace(found.before_start, scope=scope)))
        return plus(end, start, -1, scope.order)

    ctx.multiplied = True
    if found.outer is None:
        return (yield from call(compute(c.scope)))
    return (yield from call(guarded(ctx, c.scope, found.outer, c.body, compute)))


WINDOW = Strategy(
    "window",
    "sum j. [lo <= j and j <= hi] * e = [lo <= hi + 1] * (sum j. [j <= hi] * e - sum j. [j < lo] * e)",
    _between,
    _difference,
)
