"""Few diagonals that data give: a difference with an element in it that conditions leave few values.

    gen i. sum j. [0 <= j - y[i] + a < w] * e  =  gen i. sum j, d:w. [j - y[i] + a = d] * e

for a number w. So the sum is one over w values for each i; where y is read at the summed index, terms go to w places
each, and where both sides are elements, what is shared is added up once. In e an element of the difference is what the
others and d say it is, wherever they are in one access: of a band that lies by diagonals, that is d alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import NonNegative, equal
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lower.arrays.context import Context
from tensorlang.lower.arrays.integers import ZERO, Range
from tensorlang.lower.arrays.sums.segment_sum import SEGMENT_SUM, SHARED_SEGMENTS
from tensorlang.lower.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.arrays.values import Value
from tensorlang.lower.plan.dependence import places
from tensorlang.recursion import Deep


@dataclass(frozen=True)
class _Few:
    """The sum over one more index, and the way to compute it, with what that needs; any way if that is None."""

    c: Summation
    way: tuple[Strategy[Summation], Any] | None


def _few_values(ctx: Context, c: Summation) -> _Few | WhyNot:
    if c.whole:
        return DECIDED
    lengths = [r.extent.constant for r in c.ranges.values() if r.extent.is_constant]
    for width, parts in sorted(_bounded(c), key=lambda found: found[0]):
        if all(width < n for n in lengths) and (found := _of_each(ctx, c, width, parts)) is not None:
            return found
    return WhyNot("no difference of an element of an index array has a number of values")


def _bounded(c: Summation) -> Iterator[tuple[int, tuple[NonNegative, NonNegative]]]:
    """How many values conditions leave a difference that ties a summed index to an axis of the result, or to another
    summed index, by data."""
    for p, q in combinations([q for q in c.parts if isinstance(q, NonNegative)], 2):
        last, a = p.value + q.value, p.value
        if not last.is_constant or last.constant < 0 or not a.lookups or not c.scope.loops.keys().isdisjoint(a.free):
            continue
        summed = [s for s in c.summed if s in a.free]
        if len(summed) > 1 or (summed and c.scope.axes(a)):
            yield last.constant + 1, (p, q)


def _of_each(ctx: Context, c: Summation, width: int, bounds: tuple[NonNegative, NonNegative]) -> _Few | None:
    """`c` over the values, too, if that is a sum at fewer places."""
    d = Index("d")
    rest = bounds[0].value - atom_affine(d)
    parts = (equal(rest, ZERO), *(q for q in c.parts if q not in bounds))
    of_each = replace(c, summed={**c.summed, d: Range(ZERO, constant(width))}, parts=parts, body=_known(c, rest))
    if any(
        abs(rest.coefficient(s)) == 1 and s not in (rest - atom_affine(s) * rest.coefficient(s)).free for s in c.summed
    ):
        return _Few(of_each, None)
    for way in (SEGMENT_SUM, SHARED_SEGMENTS):
        found = way.match(ctx, of_each)
        if not isinstance(found, WhyNot):
            return _Few(of_each, (way, found))
    return None


def _over_few(ctx: Context, c: Summation, found: _Few) -> Deep[Value]:
    if found.way is None:
        return ctx.contract(found.c)
    way, match = found.way
    return way.rewrite(ctx, found.c, match)


def _known(c: Summation, a: Affine) -> Expr:
    """The body of `c` where `a`, a difference of elements alone, is 0."""
    if any(a.coefficient(i) for i in c.ranges):
        return c.body  # then this index is what the rest says
    x = next(x for x in a.lookups if abs(a.coefficient(x)) == 1)
    value: dict[Atom, Affine] = {x: (atom_affine(x) * a.coefficient(x) - a) * a.coefficient(x)}
    others = {y for y in a.lookups if y is not x}

    def at_both(e: Expr) -> Expr | None:
        return with_atoms(e, value) if _reads(e, x) and any(_reads(e, y) for y in others) else None

    return rewrite(with_atoms(c.body, c.scope.env), at_both)


def _reads(e: Expr, x: Lookup) -> bool:
    return any(x in a.lookups for a in places(e))


DATA_DIAGONALS = Strategy(
    "diagonals that data give",
    "gen i. sum j. [0 <= j - y[i] + a < w] * e = gen i. sum j, d:w. [j - y[i] + a = d] * e",
    _few_values,
    _over_few,
)
