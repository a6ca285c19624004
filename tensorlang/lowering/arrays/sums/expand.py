"""Products with a sum, multiplied out where a better way applies to a term: Toeplitz plus rank one plus band.

    sum s. (e0 + [p] * e1) * x  =  sum s. e0 * x + sum s. [p] * e1 * x

Together they would be a loop, the last resort, since an access mixes a summed index with another one; or they would
visit all pairs, where no term need do so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce as fold

from tensorlang.language.affine import Atom, is_long
from tensorlang.language.grammar import Add, Bracket, Expr, Mul
from tensorlang.language.predicates import Predicate, conjunction
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.sums.band_product import BAND_PRODUCT
from tensorlang.lowering.arrays.sums.correlation import CORRELATION
from tensorlang.lowering.arrays.sums.factor import FACTOR
from tensorlang.lowering.arrays.sums.loop import LOOP
from tensorlang.lowering.arrays.sums.prefix_sum import PREFIX_SUM
from tensorlang.lowering.arrays.sums.strategy import DECIDED, NOT_A_SUM, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value, literal, plus
from tensorlang.lowering.plan.dependence import factors
from tensorlang.recursion import Deep, call
from tensorlang.sets.solve import determines

_MOST = 8
"""The most terms that are taken apart."""


@dataclass(frozen=True)
class _Term:
    sign: int
    parts: tuple[Predicate, ...]
    factors: tuple[Expr, ...]

    def times(self, others: Sequence[Expr], c: Summation) -> Summation:
        """The sum of this term times the other factors."""
        return replace(c, parts=(*c.parts, *self.parts), body=fold(Mul, [*self.factors, *others]))


def _product_of_terms(ctx: Context, c: Summation) -> list[tuple[int, Summation]] | WhyNot:
    if c.whole or not c.summed:
        return DECIDED if c.whole else NOT_A_SUM
    is_loop = LOOP.applies(ctx, c) is None
    free = ctx.free_indices.free
    if not is_loop and (c.selects or c.parts or not _mixes(c, free(c.body, c.scope.env))):
        return WhyNot("with no index fixed, every access is a slice")
    body = factors(c.body)
    for k, e in enumerate(body):
        terms = _terms(e)
        if 1 < len(terms) <= _MOST:
            found = [(t.sign, t.times([*body[:k], *body[k + 1 :]], c)) for t in terms]
            if is_loop and any(_is_simpler(ctx, one) for _, one in found):
                return found
            if not is_loop and _mixes(c, free(e, c.scope.env)) and all(_is_thin(ctx, one) for _, one in found):
                return found
    return WhyNot("no factor is a sum of terms of which one is computed in a better way by itself")


def _is_simpler(ctx: Context, c: Summation) -> bool:
    """Whether `c` takes no loop, or there is a better way than that."""
    return LOOP.applies(ctx, c) is not None or any(
        way.applies(ctx, c) is None for way in (CORRELATION, BAND_PRODUCT, PREFIX_SUM)
    )


def _mixes(c: Summation, free: Collection[Atom]) -> bool:
    """Whether `free` has several long indices, a summed one among them."""
    long = [i for i, r in c.ranges.items() if is_long(r.extent) and i in free]
    return len(long) > 1 and any(i in c.summed for i in long)


def _is_thin(ctx: Context, c: Summation) -> bool:
    """Whether `c` is computed without visiting all pairs of a summed index and another one."""
    if determines(conjunction(c.parts), c.summed):
        return True
    if any(way.applies(ctx, c) is None for way in (CORRELATION, BAND_PRODUCT, FACTOR, PREFIX_SUM)):
        return True
    free = ctx.free_indices.free
    return not c.parts and not any(_mixes(c, free(e, c.scope.env)) for e in factors(c.body))


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


EXPAND = Strategy(
    "expand",
    "sum s. (e0 + [p] * e1) * x = sum s. e0 * x + sum s. [p] * e1 * x, if one needs no loop, or neither all pairs",
    _product_of_terms,
    _expanded,
)
