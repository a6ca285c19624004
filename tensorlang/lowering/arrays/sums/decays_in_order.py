"""Sums of exponentials in groups and orders that data give, as softmax over all that come after a row in some ranking.

    gen i, b. sum j. [p(j) = q(i) and c(j) <= d(i)] * exp(x[i] - y[j]) * v[j, b]

Terms are sorted by p(j) and c(j). For a row, all that comes before its chunk is in one sum, which is kept times an
exponential so that nothing overflows, and what is in its chunk is added up by itself: for n terms in chunks of k that
takes n * k exponentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce as fold

from tensorlang.language.affine import Affine, Index
from tensorlang.language.grammar import Expr, Mul, bracket, number
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, free_atoms
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO
from tensorlang.lowering.arrays.ir import Name, Node
from tensorlang.lowering.arrays.sums.chunked import laid_out
from tensorlang.lowering.arrays.sums.groups import Group, groups, sides
from tensorlang.lowering.arrays.sums.running_in_groups import Ties, axes_asked, places_in_order
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value, apply, times
from tensorlang.lowering.plan.decays import pairs_of
from tensorlang.lowering.plan.dependence import factors
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Ordered:
    """exp(above - below) * value for each j that `ties` leave for a row; factors without j are `outside`."""

    ties: Ties
    above: Expr
    below: Expr
    value: Expr | None
    columns: tuple[Index, ...]
    outside: Expr | None


def _in_order(ctx: Context, c: Summation) -> _Ordered | WhyNot:
    if c.whole:
        return DECIDED
    for group in (*groups(c), None) if len(c.summed) == 1 and not c.selects else ():
        parts = [q for q in c.parts if group is None or q is not group.part]
        for q in (*parts, None) if group is not None else parts:
            compared = sides(c, q.value) if isinstance(q, NonNegative) else None
            if compared is None and group is not None and q is None:
                compared = group.j, ZERO, ZERO
            if compared is not None:
                found = _of_rows(ctx, c, group, compared, [p for p in parts if p is not q])
                if found is not None:
                    return found
    return WhyNot("no exponential of a difference is summed in a group, or up to a limit, that data give")


def _of_rows(
    ctx: Context,
    c: Summation,
    group: Group | None,
    compared: tuple[Index, Affine, Affine],
    others: Sequence[Predicate],
) -> _Ordered | None:
    j, own, limit = compared
    rows = axes_asked(c, limit, group)
    if len(rows) != 1 or (group is not None and group.j is not j):
        return None
    row = rows[0]

    def free(e: Expr) -> frozenset[Index]:
        return ctx.free_indices.free(e, c.scope.env)

    every = factors(c.body)
    pairs = pairs_of(every, row, j, free)
    if pairs is None or not pairs.is_exponential:
        return None
    if any(i is not j for q in others for i in free_atoms(q) if isinstance(i, Index)):
        return None
    ((_, above, below),) = pairs.exponents
    outside = [e for e in every if e not in pairs.factors and j not in free(e)]
    rest = [e for e in every if e not in (*pairs.factors, *outside)]
    read = frozenset[Index]().union(*map(free, rest)) - {j}
    if not free(above) <= {row} or not free(below) <= {j} or row in read or not read <= c.scope.domain.keys():
        return None
    if others:
        rest = [bracket(conjunction(others), fold(Mul, rest) if rest else number(1))]
    columns = tuple(i for i in c.scope.domain if i in read)
    value, beside = (fold(Mul, several) if several else None for several in (rest, outside))
    return _Ordered(Ties(j, group, (row,), -own, limit), above, below, value, columns, beside)


def _up_to_limits(ctx: Context, c: Summation, found: _Ordered) -> Deep[Value]:
    inner, ties = ctx.scope(c.scope, domain=c.ranges, masks=()), found.ties
    above = yield from call(laid_out(ctx, inner, found.above, ties.axes))
    below = yield from call(laid_out(ctx, inner, found.below, (ties.j,)))
    value: Node = Name("None")
    if found.value is not None:
        value = yield from call(laid_out(ctx, inner, found.value, (ties.j, *found.columns)))
    ctx.multiplied = True
    node = apply("_decaying_in_order", above, below, value, *places_in_order(ctx, c, inner, ties))
    v = Value(node, (*ties.axes, *found.columns), 1)
    if found.outside is None:
        return v
    return times((yield from call(ctx.value(found.outside, c.scope))), v, c.scope.order)


DECAYS_IN_ORDER = Strategy(
    "exponentials in order",
    "gen i. sum j. [p(j) = q(i) and c(j) <= d(i)] * exp(x[i] - y[j]) * v[j]: what is summed is sorted by p(j) and "
    "c(j), and kept in chunks",
    _in_order,
    _up_to_limits,
)
"""Sums of exponentials of differences in groups, and up to limits, that data give."""
