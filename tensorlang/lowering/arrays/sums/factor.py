"""Products that are taken apart so that the rest is summed once for many elements: a running sum, or one of segments.

    gen i. sum j. [j <= i] * a[i] * x[j]                =  gen i. a[i] * sum j. [j <= i] * x[j]
    gen i. sum j, k. [j <= i and i <= k] * x[j] * y[k]  =  gen i. (sum j. [j <= i] * x[j]) * (sum k. [i <= k] * y[k])
    sum i, j. [j <= i] * a[i] * x[j]                    =  sum i. a[i] * S[i]       where S[i] = sum j. [j <= i] * x[j]

Brackets on factors are conditions of the product. A factor that leaves a sum must be finite where what it reads is,
since it is multiplied by 0 where the sum has no terms.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold

from tensorlang.language.affine import Atom, Index
from tensorlang.language.grammar import Bracket, Const, Expr, Mul, number
from tensorlang.language.predicates import Or, Predicate, conjuncts, free_atoms, substitute
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.sums.chunked import CHUNKS
from tensorlang.lowering.arrays.sums.data_diagonals import are_shared
from tensorlang.lowering.arrays.sums.numbered import NUMBERED
from tensorlang.lowering.arrays.sums.prefix_sum import BY_VALUE, COUNT, PREFIX_SUM, tabulated
from tensorlang.lowering.arrays.sums.running_in_groups import RUNNING_IN_GROUPS, in_groups, in_order
from tensorlang.lowering.arrays.sums.segment_sum import GROUP, SHARED_SEGMENTS
from tensorlang.lowering.arrays.sums.strategy import DECIDED, NOT_A_SUM, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.sums.window import WINDOW
from tensorlang.lowering.arrays.undecided import exclude_one_another
from tensorlang.lowering.arrays.values import Value, times
from tensorlang.lowering.plan.dependence import is_finite, telling
from tensorlang.recursion import Deep, call

MOST_CASES = 4
"""Cases of a condition, in each of which a sum is computed by itself."""

_MOST = 8
"""The most factors; a longer product is not taken apart completely."""


@dataclass(frozen=True)
class _Product:
    """The conditions and factors of a sum of products, and the indices of each."""

    parts: dict[Predicate, frozenset[Atom]]
    factors: list[tuple[Expr, frozenset[Atom]]]

    def over(self, c: Summation, summed: Collection[Index]) -> Summation:
        """The sum over these indices of the factors and conditions that depend on them."""
        parts = tuple(q for q, indices in self.parts.items() if not indices.isdisjoint(summed))
        body = _product(e for e, indices in self.factors if not indices.isdisjoint(summed))
        return replace(c, summed={i: r for i, r in c.summed.items() if i in summed}, parts=parts, body=body)


def _taken_apart(ctx: Context, c: Summation, least: int) -> _Product | WhyNot:
    """The product that is summed over `least` indices or more, under conditions; or why it can't be taken apart."""
    if c.whole:
        return DECIDED
    if len(c.summed) < least:
        return NOT_A_SUM if least == 1 else WhyNot("fewer than two indices are summed over")
    if c.selects:
        return WhyNot("what is hidden must be selected, not multiplied by zero")
    parts, waiting = list(c.parts), [c.body]
    found: list[Expr] = []
    while waiting:
        e = waiting.pop()
        if isinstance(e, Bracket):
            parts += conjuncts(substitute(e.pred, c.scope.env))
            waiting.append(e.body)
        elif isinstance(e, Mul) and len(found) < _MOST:
            waiting += (e.right, e.left)
        else:
            found.append(e)
    if not parts:
        return WhyNot("there is no condition")
    free = ctx.free_indices.free
    return _Product(
        {q: free_atoms(q) for q in telling(parts, c.summed)}, [(e, frozenset(free(e, c.scope.env))) for e in found]
    )


def _product(several: Iterable[Expr]) -> Expr:
    found = list(several)
    return fold(Mul, found) if found else number(1)


def _is_shared(ctx: Context, c: Summation) -> bool:
    """Whether elements of `c` have terms in common that need be added up only once."""
    ways = (SHARED_SEGMENTS, NUMBERED, GROUP, COUNT, PREFIX_SUM, BY_VALUE, RUNNING_IN_GROUPS, WINDOW, CHUNKS)
    return any(way.applies(ctx, c) is None for way in ways) or any(
        isinstance(q, Or) and has_shared_cases(ctx, c, q) for q in c.parts
    )


def has_shared_cases(ctx: Context, c: Summation, q: Or) -> bool:
    """Whether `q`, a condition of `c`, is one of a few that exclude one another, under each of which the sum is a
    running one, or the number of its terms times one of them."""
    key = (id(c.scope), tuple(c.summed), frozenset(c.parts), c.body, q)
    if key not in ctx.shared_cases:
        ctx.shared_cases[key] = (
            len(q.parts) <= MOST_CASES
            and all(_is_running(ctx, replace(c, parts=_in_case(c, q, case))) for case in q.parts)
            and exclude_one_another(ctx, c.scope, q.parts)
        )
    return ctx.shared_cases[key]


def _in_case(c: Summation, q: Or, case: Predicate) -> tuple[Predicate, ...]:
    """The conditions of `c` where `case`, one of those of its condition `q`, holds."""
    return (*conjuncts(case), *(p for p in c.parts if p is not q))


def _is_running(ctx: Context, c: Summation) -> bool:
    """Whether `c` is a running sum, or the number of its terms times one of them, or so in each of its cases."""
    if not all(isinstance(way(ctx, c), WhyNot) for way in (in_groups, in_order)):
        return True
    if any(way.applies(ctx, c) is None for way in (COUNT, PREFIX_SUM, FACTOR)):
        return True
    return any(isinstance(p, Or) and has_shared_cases(ctx, c, p) for p in c.parts)


@dataclass(frozen=True)
class _Factored:
    """Factors that depend on nothing that is summed over, and the sum of the others."""

    outside: tuple[Expr, ...]
    inside: Summation


def _independent(ctx: Context, c: Summation) -> _Factored | WhyNot:
    p = _taken_apart(ctx, c, 1)
    if isinstance(p, WhyNot):
        return p
    outside = tuple(e for e, indices in p.factors if indices.isdisjoint(c.summed) and not isinstance(e, Const))
    if not outside:
        return WhyNot("each factor depends on what is summed over")
    inside = _product(e for e, _ in p.factors if e not in outside)
    rest = replace(c, parts=tuple(p.parts), body=inside)
    if not all(map(is_finite, outside)) or not (_is_shared(ctx, rest) or are_shared(ctx, rest)):
        return WhyNot("the sum of the other factors is neither a running sum nor one of segments")
    return _Factored(outside, rest)


def _times(ctx: Context, c: Summation, found: _Factored) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    ctx.multiplied = True
    for e in found.outside:
        factor: Value = yield from call(ctx.value(e, c.scope))
        v = times(v, factor, c.scope.order)
    return v


def _separate(ctx: Context, c: Summation) -> Sequence[Summation] | WhyNot:
    """Sums over groups of indices that no factor or condition connects."""
    p = _taken_apart(ctx, c, 2)
    if isinstance(p, WhyNot):
        return p
    groups: list[set[Index]] = [{i} for i in c.summed]
    for indices in (*p.parts.values(), *(indices for _, indices in p.factors)):
        touched = [g for g in groups if not indices.isdisjoint(g)]
        groups = [g for g in groups if g not in touched] + ([set().union(*touched)] if touched else [])
    if len(groups) == 1:
        return WhyNot("factors or conditions connect all indices that are summed over")
    first, *others = (p.over(c, g) for g in groups)
    outside = [e for e, indices in p.factors if indices.isdisjoint(c.summed)]
    alone = [q for q, indices in p.parts.items() if indices.isdisjoint(c.summed)]
    sums = [replace(first, parts=(*first.parts, *alone), body=_product([first.body, *outside])), *others]
    if not any(s.parts for s in others) or not all(is_finite(s.body) for s in sums):
        return WhyNot("at most one of the sums has a condition, or one may be infinite")
    return sums


def _multiplied(ctx: Context, c: Summation, found: Sequence[Summation]) -> Deep[Value]:
    product: Value | None = None
    for s in found:
        v: Value = yield from call(ctx.contract(s))
        product = v if product is None else times(product, v, c.scope.order)
    ctx.multiplied = True
    assert product is not None
    return product


@dataclass(frozen=True)
class _Nested:
    """A sum over some indices for each value of `kept`, and the factors and conditions that don't depend on those."""

    kept: Index
    inside: Summation
    outside: tuple[Expr, ...]
    parts: tuple[Predicate, ...]


def _nested(ctx: Context, c: Summation) -> _Nested | WhyNot:
    p = _taken_apart(ctx, c, 2)
    if isinstance(p, WhyNot):
        return p
    most = max(1, *(len(indices & c.ranges.keys()) for _, indices in p.factors))
    for i, r in c.summed.items():
        others = c.without(i)
        scope = ctx.scope(c.scope, domain={**c.scope.domain, i: r})
        inside = p.over(replace(c, scope=scope), others)
        outside = tuple(e for e, indices in p.factors if indices.isdisjoint(others))
        read = (indices for _, indices in p.factors if not indices.isdisjoint(others))
        axes = frozenset[Atom]().union(*read, *map(free_atoms, inside.parts)) & scope.domain.keys()
        if i not in axes or len(axes) > most or not all(map(is_finite, outside)):
            continue
        if _is_shared(ctx, inside) or are_shared(ctx, inside):
            return _Nested(i, inside, outside, tuple(q for q in p.parts if q not in inside.parts))
    return WhyNot("for no index are the sums over the others running sums, or sums of segments")


def _over_the_kept(ctx: Context, c: Summation, found: _Nested) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.inside))
    if v.number == 0:
        return v
    ctx.multiplied = True
    body = _product([*found.outside, tabulated(ctx, found.inside.scope, v, found.kept)])
    rest = replace(c, summed={found.kept: c.summed[found.kept]}, parts=found.parts, body=body)
    return (yield from call(ctx.contract(rest)))


FACTOR = Strategy(
    "factor",
    "gen i. sum j. [j <= i] * a[i] * x[j] = gen i. a[i] * sum j. [j <= i] * x[j], if that is a running sum",
    _independent,
    _times,
)
SEPARATE = Strategy(
    "separate",
    "sum j, k. [p and q] * x[j] * y[k] = (sum j. [p] * x[j]) * (sum k. [q] * y[k]), if k is not in p and j not in q",
    _separate,
    _multiplied,
)
NEST = Strategy(
    "nest",
    "sum i, j. [j <= i] * a[i] * x[j] = sum i. a[i] * S[i], where S[i] = sum j. [j <= i] * x[j] are running sums",
    _nested,
    _over_the_kept,
)
