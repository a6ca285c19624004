"""Products that are taken apart so that a better way applies: to the sum of what depends on what is summed, and to each
term of a factor, as of Toeplitz plus rank one plus band.

    gen i. sum j. [j <= i] * a[i] * x[j]  =  gen i. a[i] * sum j. [j <= i] * x[j]
    sum i, j. [j <= i] * a[i] * x[j]      =  sum i. a[i] * S[i]                      where S[i] = sum j. [j <= i] * x[j]
    sum s. (e0 + [p] * e1) * x            =  sum s. e0 * x + sum s. [p] * e1 * x

In the third, all together would be a loop, since an access mixes a summed index with another one: the last resort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce as fold

from tensorlang.language.affine import Atom, Index
from tensorlang.language.grammar import Add, Bracket, Expr, Mul, number
from tensorlang.language.predicates import Predicate, free_atoms
from tensorlang.lower.arrays.context import Context
from tensorlang.lower.arrays.sums.band_product import BAND_PRODUCT
from tensorlang.lower.arrays.sums.correlation import CORRELATION
from tensorlang.lower.arrays.sums.loop import LOOP
from tensorlang.lower.arrays.sums.prefix_sum import BY_VALUE, COUNT, PREFIX_SUM, tabulated
from tensorlang.lower.arrays.sums.segment_sum import GROUP, SHARED_SEGMENTS
from tensorlang.lower.arrays.sums.strategy import DECIDED, NOT_A_SUM, Strategy, WhyNot
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.arrays.sums.window import WINDOW
from tensorlang.lower.arrays.values import Value, literal, plus, times
from tensorlang.lower.plan.dependence import factors, is_finite
from tensorlang.recursion import Deep, call

_MOST = 8
"""Terms that are taken apart."""


@dataclass(frozen=True)
class _Term:
    sign: int
    parts: tuple[Predicate, ...]
    factors: tuple[Expr, ...]

    def times(self, others: Sequence[Expr], c: Summation) -> Summation:
        """The sum of this term's share of the product."""
        return replace(c, parts=(*c.parts, *self.parts), body=fold(Mul, [*self.factors, *others]))


def _product_of_terms(ctx: Context, c: Summation) -> list[tuple[int, Summation]] | WhyNot:
    if c.whole or not c.summed:
        return DECIDED if c.whole else NOT_A_SUM
    if LOOP.applies(ctx, c) is not None:
        return WhyNot("with no index fixed, every access is a slice")
    body = factors(c.body)
    for k, e in enumerate(body):
        terms = _terms(e)
        if len(body) > 1 and 1 < len(terms) <= _MOST:
            found = [(t.sign, t.times([*body[:k], *body[k + 1 :]], c)) for t in terms]
            if any(_is_simpler(ctx, one) for _, one in found):
                return found
    return WhyNot("no factor is a sum of terms of which one is computed in a better way by itself")


def _is_simpler(ctx: Context, c: Summation) -> bool:
    """Whether `c` is no loop."""
    return LOOP.applies(ctx, c) is not None or any(
        way.applies(ctx, c) is None for way in (CORRELATION, BAND_PRODUCT, PREFIX_SUM)
    )


def _terms(e: Expr) -> list[_Term]:
    """The terms of a sum, each with the conditions that hide it."""
    found: list[_Term] = []
    stack: list[tuple[int, tuple[Predicate, ...], Expr]] = [(1, (), e)]
    while stack:
        sign, parts, part = stack.pop()
        while isinstance(part, Bracket):
            parts, part = (*parts, part.pred), part.body
        if isinstance(part, Add):
            stack += [(sign * part.sign, parts, part.right), (sign, parts, part.left)]
        else:
            found.append(_Term(sign, parts, tuple(factors(part))))
    return found


def _expanded(ctx: Context, c: Summation, found: list[tuple[int, Summation]]) -> Deep[Value]:
    total = literal(Fraction(0))
    for sign, term in found:
        v: Value = yield from call(ctx.contract(term))
        total = plus(total, v, sign, c.scope.order)
    return total


@dataclass(frozen=True)
class _Factored:
    """Factors that depend on nothing that is summed over, and the sum of the others."""

    outside: tuple[Expr, ...]
    inside: Summation


def _independent(ctx: Context, c: Summation) -> _Factored | WhyNot:
    if c.whole or not c.summed:
        return DECIDED if c.whole else NOT_A_SUM
    if c.selects:
        return WhyNot("what is hidden must be selected, not multiplied by zero")
    body = factors(c.body)
    outside = tuple(e for e in body if ctx.free_indices.free(e, c.scope.env).isdisjoint(c.summed))
    inside = [e for e in body if e not in outside]
    if not outside or not inside:
        return WhyNot("each factor depends on what is summed over, or none does")
    rest = replace(c, body=fold(Mul, inside))
    if not c.parts or not all(map(is_finite, outside)) or not _is_shared(ctx, rest):
        return WhyNot("the sum of the other factors is neither a running sum nor one of segments")
    return _Factored(outside, rest)


def _is_shared(ctx: Context, c: Summation) -> bool:
    """Whether elements of `c` have terms in common that need be added up only once."""
    return any(way.applies(ctx, c) is None for way in (SHARED_SEGMENTS, GROUP, COUNT, PREFIX_SUM, BY_VALUE, WINDOW))


def _times(ctx: Context, c: Summation, found: _Factored) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    ctx.multiplied = True
    for e in found.outside:
        factor: Value = yield from call(ctx.value(e, c.scope))
        v = times(v, factor, c.scope.order)
    return v


@dataclass(frozen=True)
class _Nested:
    """A sum over some indices for each value of `kept`, and the factors and conditions that don't depend on those."""

    kept: Index
    inside: Summation
    outside: tuple[Expr, ...]
    parts: tuple[Predicate, ...]


def _nested(ctx: Context, c: Summation) -> _Nested | WhyNot:
    if c.whole or len(c.summed) < 2:
        return DECIDED if c.whole else WhyNot("fewer than two indices are summed over")
    if c.selects:
        return WhyNot("what is hidden must be selected, not multiplied by zero")
    body = factors(c.body)
    free = [ctx.free_indices.free(e, c.scope.env) for e in body]
    most = max(len(axes & c.ranges.keys()) for axes in free)
    for i, r in c.summed.items():
        others = c.without(i)
        parts = tuple(q for q in c.parts if others.keys().isdisjoint(free_atoms(q)))
        outside = tuple(e for e, axes in zip(body, free, strict=True) if axes.isdisjoint(others))
        left = tuple(q for q in c.parts if q not in parts)
        read = [axes for e, axes in zip(body, free, strict=True) if e not in outside]
        axes = frozenset[Atom]().union(*read, *map(free_atoms, left)) & (c.scope.domain.keys() | {i})
        if i not in axes or len(axes) > most or not all(map(is_finite, outside)):
            continue
        inner = ctx.scope(c.scope, domain={**c.scope.domain, i: r})
        rest = fold(Mul, [e for e in body if e not in outside] or [number(1)])
        inside = replace(c, scope=inner, summed=others, parts=left, body=rest)
        if _is_shared(ctx, inside):
            return _Nested(i, inside, outside, parts)
    return WhyNot("for no index are the sums over the others running sums, or sums of segments")


def _over_the_kept(ctx: Context, c: Summation, found: _Nested) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    if v.number == 0:
        return v
    ctx.multiplied = True
    body = fold(Mul, [*found.outside, tabulated(ctx, found.inside.scope, v, found.kept)])
    rest = replace(c, summed={found.kept: c.summed[found.kept]}, parts=found.parts, body=body)
    return (yield from call(ctx.contract(rest)))


FACTOR = Strategy(
    "factor",
    "gen i. sum j. [j <= i] * a[i] * x[j] = gen i. a[i] * sum j. [j <= i] * x[j], if that is a running sum",
    _independent,
    _times,
)
NEST = Strategy(
    "nest",
    "sum i, j. [j <= i] * a[i] * x[j] = sum i. a[i] * S[i], where S[i] = sum j. [j <= i] * x[j] are running sums",
    _nested,
    _over_the_kept,
)
EXPAND = Strategy(
    "expand",
    "sum s. (e0 + [p] * e1) * x = sum s. e0 * x + sum s. [p] * e1 * x, if one of the two needs no loop",
    _product_of_terms,
    _expanded,
)
