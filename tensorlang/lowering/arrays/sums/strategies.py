"""Sums, taken apart step by step: by the first of `STRATEGIES`, at the end of this module, that applies.

What remains in the end is a loop where an access mixes several indices, and a product otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, IndexArray
from tensorlang.language.grammar import Add, Bracket, Const, Mul, Sum, bracket
from tensorlang.language.predicates import (
    FALSE,
    Equal,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
    lookups,
    negation,
    substitute,
)
from tensorlang.lowering.arrays.accesses import REVERSED
from tensorlang.lowering.arrays.brackets import bound_on, bounded_index, guarded, of_one_index, solved
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import ALL, Node, Subscript
from tensorlang.lowering.arrays.membership import without_implied
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.band_product import BAND_PRODUCT
from tensorlang.lowering.arrays.sums.block import BLOCKS
from tensorlang.lowering.arrays.sums.chunked import CHUNKS
from tensorlang.lowering.arrays.sums.correlation import CORRELATION
from tensorlang.lowering.arrays.sums.data_diagonals import DATA_DIAGONALS, FEW_POINTS
from tensorlang.lowering.arrays.sums.decays_in_order import DECAYS_IN_ORDER
from tensorlang.lowering.arrays.sums.diagonal import STACK
from tensorlang.lowering.arrays.sums.einsum import REDUCE
from tensorlang.lowering.arrays.sums.expand import EXPAND
from tensorlang.lowering.arrays.sums.factor import FACTOR, MOST_CASES, NEST, SEPARATE, has_shared_cases
from tensorlang.lowering.arrays.sums.loop import LOOP, expanded, function_of
from tensorlang.lowering.arrays.sums.numbered import NUMBERED
from tensorlang.lowering.arrays.sums.prefix_sum import BY_VALUE, COUNT, PREFIX_SUM
from tensorlang.lowering.arrays.sums.running_in_groups import RUNNING_IN_GROUPS
from tensorlang.lowering.arrays.sums.segment_sum import GROUP, SEGMENT_SUM, SHARED_SEGMENTS
from tensorlang.lowering.arrays.sums.sparse import ENUMERATE
from tensorlang.lowering.arrays.sums.strategy import NOT_A_SUM, Strategy, WhyNot, by_first
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.sums.window import WINDOW
from tensorlang.lowering.arrays.undecided import undecided_conditions
from tensorlang.lowering.arrays.values import TRUE, Value, aligned, apply, integer, literal, plus, times, union
from tensorlang.lowering.plan.asked_first import is_of_step
from tensorlang.recursion import Deep, call
from tensorlang.simplification.thin import leaves_few


def total(ctx: Context, scope: Scope, e: Bracket | Sum) -> Deep[Value]:
    """The array of a sum, or of a sum under a bracket, whose condition becomes one of the sum's."""
    c = _gathered(ctx, Summation(scope, {}, (), e))
    return contract(ctx, replace(c, parts=(*c.parts, *of_one_index(ctx, scope, c.ranges, c.parts))))


def contract(ctx: Context, c: Summation) -> Deep[Value]:
    """The array of `c`, over those axes of its scope on which it depends."""
    memo = c.scope.memo
    if c.key not in memo:
        outer, ctx.multiplied = ctx.multiplied, False
        way = _strict if c.selects is None and _must_select(ctx, c) else _contract
        memo[c.key] = yield from call(way(ctx, c))
        if ctx.multiplied:
            ctx.multiplying.add((id(c.scope), c.key))
        ctx.multiplied |= outer
    ctx.multiplied |= (id(c.scope), c.key) in ctx.multiplying
    return memo[c.key]


def _must_select(ctx: Context, c: Summation) -> bool:
    """Whether hidden terms must have no influence: in strict code, and always where conditions on values hide them."""
    if ctx.strict or not ctx.conditions:
        return ctx.strict
    return any(lookup.array in ctx.conditions for q in _gathered(ctx, c).parts for lookup in lookups(q))


def _strict(ctx: Context, c: Summation) -> Deep[Value]:
    """`c` so that hidden values have no influence, whatever they are.

    The fastest ways to compute a sum multiply hidden values by zero, which is wrong where they are nan or inf. But then
    the sum is nan or inf, too, which costs little to detect. Only then is it computed by ways that select.
    """
    v = yield from call(contract(ctx, replace(c, selects=False)))
    if not ctx.multiplied or v.number is not None:
        ctx.multiplied = False
        return v
    scope = c.scope
    v = ctx.short(v, scope.block)
    target, ctx.target = ctx.target, None
    block = ctx.new_block()
    inner = ctx.scope(scope, block=block, fixed=block if scope.fixed is scope.block else scope.fixed)
    w = yield from call(contract(ctx, replace(c, scope=inner, selects=True)))
    ctx.target, ctx.multiplied = target, False
    axes = union([v, w], scope.order)
    given = expanded(ctx, scope, v, axes)
    w = replace(w, node=expanded(ctx, inner, w, axes), axes=axes)
    scope.block.note("the same sum without what is hidden, if the first turns out nan or inf")
    selected = function_of(ctx, scope.block, block, [], w, "selected")
    return Value(apply("_if_finite", given, selected), axes, v.depth + 1)


def _contract(ctx: Context, c: Summation) -> Deep[Value]:
    c = _gathered(ctx, c)
    if FALSE in c.parts:
        return literal(Fraction(0))
    about = bracket(conjunction(c.parts), c.body)
    ways = IN_STEPS if ctx.in_step else STRATEGIES
    v: Value = yield from call(by_first(ctx, (LOOP,) if c.loops else ways, c, c.summed, about))
    return v


def _gathered(ctx: Context, c: Summation) -> Summation:
    """The sums and brackets at the top of the body, moved into the sum itself (5.24')."""
    summed, parts, body = dict(c.summed), c.parts, c.body
    while isinstance(body, Bracket | Sum):
        if isinstance(body, Bracket):
            parts = (*parts, body.pred)
        else:
            summed[body.index] = ctx.integers.range_of(body.index, body.size, c.scope.fixed)
        body = body.body
    ranges = {**c.scope.domain, **summed}
    parts = without_implied(conjuncts(substitute(conjunction(parts), c.scope.env)), ranges)
    return replace(c, summed=summed, parts=undecided_conditions(ctx, c.scope, parts), body=body)


def _scale(ctx: Context, c: Summation) -> Mul | WhyNot:
    if not c.summed:
        return NOT_A_SUM
    if isinstance(c.body, Mul) and isinstance(c.body.left, Const):
        return c.body
    return WhyNot("the terms have no constant factor in front")


def _scaled(ctx: Context, c: Summation, product: Mul) -> Deep[Value]:
    assert isinstance(product.left, Const)
    v: Value = yield from call(contract(ctx, replace(c, body=product.right)))
    return times(literal(product.left.value), v, c.scope.order)


def _solution(ctx: Context, c: Summation) -> tuple[Equal, Index, Affine] | WhyNot:
    """An equality, the summed index that it determines, and the value of that."""
    for q in c.parts:
        if not isinstance(q, Equal):
            continue
        for s in c.summed:
            value = solved(q.difference, s) if abs(q.difference.coefficient(s)) == 1 else None
            if value is not None and s not in value.free:
                return q, s, value
    return WhyNot("no equality says what a summed index is")


def _eliminated(ctx: Context, c: Summation, found: tuple[Equal, Index, Affine]) -> Deep[Value]:
    q, s, value = found
    r = c.summed[s]
    inside = (at_most(r.start, value), at_most(value, r.last))
    parts = (*inside, *(p for p in c.parts if p is not q))
    inner = ctx.scope(c.scope, env=_with(c.scope, s, value))
    return contract(ctx, replace(c, scope=inner, summed=c.without(s), parts=parts))


def _either(ctx: Context, c: Summation) -> tuple[Or, list[Predicate]] | WhyNot:
    """A condition that leaves one point or another of an index, or all before or after one, and its cases, of which at
    most one holds."""
    for q in c.parts if c.summed else ():
        if not isinstance(q, Or) or len(q.parts) > MOST_CASES:
            continue
        known = not any(_may_be_missing(ctx, c, lookup.array) for lookup in lookups(q))
        determined = all(any(_is_solved(ctx, c, p) for p in conjuncts(part)) for part in q.parts)
        several = sorted(q.parts, key=lambda part: negation(part) is None)  # of these there is one at most, the last
        opposites = [negation(part) for part in several]
        if known and determined and None not in opposites[:-1]:
            others = [p for p in opposites if p is not None]
            return q, [conjunction([part, *others[:k]]) for k, part in enumerate(several)]
        if has_shared_cases(ctx, c, q):
            return q, [*q.parts]
    return WhyNot("no condition leaves one point or another of an index")


def _may_be_missing(ctx: Context, c: Summation, x: IndexArray) -> bool:
    """Whether `c` may have points though the range of `x` is empty."""
    extents = (r.extent for r in c.ranges.values())
    return x in ctx.possibly_empty and not any(ctx.integers.is_nonnegative(x.size - n) for n in extents)


def _is_solved(ctx: Context, c: Summation, p: Predicate) -> bool:
    """Whether `p` determines a summed index, or an axis by data, or asks a relation that is given by its points."""
    if not isinstance(p, Equal):
        return isinstance(p, Related) and p.relation in ctx.sparse
    indices = (*c.summed, *(c.scope.order if p.difference.lookups else ()))
    return any(abs(p.difference.coefficient(i)) == 1 and i not in solved(p.difference, i).free for i in indices)


def _by_cases(ctx: Context, c: Summation, found: tuple[Or, list[Predicate]]) -> Deep[Value]:
    q, cases = found
    total = literal(Fraction(0))
    for case in cases:
        parts = (*conjuncts(case), *(p for p in c.parts if p is not q))
        v: Value = yield from call(contract(ctx, replace(c, parts=parts)))
        total = plus(total, v, 1, c.scope.order)
    return total


def _with(scope: Scope, i: Index, value: Affine) -> dict[Atom, Affine]:
    return {k: a.substitute({i: value}) for k, a in scope.env.items()} | {i: value}


def _spread(ctx: Context, c: Summation, found: tuple[Equal, Index, Index]) -> Deep[Value]:
    """sum s. [k = c*s + d and p] * e: computed along s, and spread along k with zeros between."""
    q, s, k = found
    scope, value, target, r = c.scope, solved(q.difference, k), c.scope.domain[k], c.summed[s]
    if scope.is_static(value):
        starts: dict[Index, list[Affine]] = {}
        stops: dict[Index, list[Affine]] = {}
        for bound in (value - target.start, target.last - value):
            bound_on(ctx, scope, s, bound, starts, stops)
        r = ctx.integers.restricted(s, r, starts.get(s, []), stops.get(s, []), scope.fixed)
    domain = {(s if i is k else i): (r if i is k else other) for i, other in scope.domain.items()}
    inner = ctx.scope(scope, domain=domain, env=_with(scope, k, value))
    parts = tuple(p for p in c.parts if p is not q)
    v: Value = yield from call(contract(ctx, replace(c, scope=inner, summed=c.without(s), parts=parts)))
    if v.number == 0:
        return v
    if s not in v.axes:
        axes = union([v, Value(TRUE, (s,))], inner.order)
        v = Value(apply("broadcast_to", aligned(v, axes).node, ctx.extents(inner, axes)), axes, weak=v.weak)
    axis = v.axes.index(s)
    node = v.node if value.coefficient(s) > 0 else Subscript(v.node, (*(ALL,) * axis, REVERSED))
    axes = tuple(k if i is s else i for i in v.axes)
    return Value(_laid_out(ctx, scope, node, axis, value, s, r, target), axes, v.depth + 1, None, v.weak)


def _laid_out(ctx: Context, scope: Scope, x: Node, axis: int, value: Affine, s: Index, r: Range, target: Range) -> Node:
    """The array `x`, which runs over s, laid out at the positions `value` of the range `target`."""
    step = value.coefficient(s)
    first = value.substitute({s: r.start if step > 0 else r.last}) - target.start
    node, at = ctx.integers.node, integer(axis)
    if scope.is_static(first):
        return apply("_spread", x, at, node(first), integer(abs(step)), node(target.extent))
    # a loop moves it: laid out in all the room that it needs, of which each iteration takes a window
    low, high = scope.bounds(first)
    room = target.extent + high - low
    laid = apply("_spread", x, at, node(high), integer(abs(step)), node(room))
    return apply("dynamic_slice_in_dim", laid, node(high - first), node(target.extent), at)


def _stride(ctx: Context, c: Summation) -> tuple[Equal, Index, Index] | WhyNot:
    """An equality that gives an axis of the scope by one summed index."""
    for q in c.parts:
        if isinstance(q, Equal) and not q.difference.lookups:
            inside = [s for s in c.summed if q.difference.coefficient(s)]
            outside = c.scope.axes(q.difference)
            if len(inside) == len(outside) == 1 and abs(q.difference.coefficient(outside[0])) == 1:
                return q, inside[0], outside[0]
    return WhyNot("no equality says what an axis of the result is by a summed index")


def _bounded(ctx: Context, c: Summation) -> Summation | WhyNot:
    """`c` over the ranges that its conditions leave."""
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    rest = []
    for q in c.parts:
        bound = bounded_index(c.scope, c.ranges, q)
        if bound is not None and bound[0] in c.summed:
            bound_on(ctx, c.scope, *bound, starts, stops)
        else:
            rest.append(q)
    if len(rest) == len(c.parts):
        return WhyNot("no condition bounds one summed index by sizes alone")
    summed = {
        s: ctx.integers.restricted(s, r, starts.get(s, []), stops.get(s, []), c.scope.fixed)
        for s, r in c.summed.items()
    }
    return replace(c, summed=summed, parts=tuple(rest))


def _outer(ctx: Context, c: Summation) -> Sequence[Predicate] | WhyNot:
    """The conditions in which no summed index occurs; there may be none if there is no sum left."""
    outer = [q for q in c.parts if c.summed.keys().isdisjoint(free_atoms(q))]
    return outer if outer or not c.summed else WhyNot("each condition has a summed index")


def _of_step(ctx: Context, c: Summation) -> Sequence[Predicate] | WhyNot:
    """The conditions that hold, or don't, for all of a step."""
    outer = [q for q in c.parts if is_of_step(q)] if c.summed else []
    return outer or WhyNot("no condition holds or doesn't for all of a step")


def _restricted(ctx: Context, c: Summation, shorter: Summation) -> Deep[Value]:
    return contract(ctx, shorter)


def _hoisted(ctx: Context, c: Summation, outer: Sequence[Predicate]) -> Deep[Value]:
    rest = replace(c, parts=tuple(q for q in c.parts if q not in outer))

    def compute(inner: Scope) -> Deep[Value]:
        return contract(ctx, replace(rest, scope=inner)) if c.summed else ctx.value(c.body, inner)

    return guarded(ctx, c.scope, conjunction(outer), c.body, compute, summed=bool(c.summed))


def _terms(ctx: Context, c: Summation) -> Add | WhyNot:
    if not isinstance(c.body, Add):
        return WhyNot("the body is no sum of terms")
    if not ctx.free_indices.is_uniform(c.body, c.scope.env) or _has_a_thin_term(c, c.body):
        return c.body
    return WhyNot("all terms have the same axes, and none is under a condition that leaves few of them")


def _has_a_thin_term(c: Summation, e: Add) -> bool:
    """Whether a term is under a condition that leaves few values of a summed index, given the axes."""
    ranges = {i: r.stop for i, r in c.ranges.items() if r.start is ZERO}
    terms = [t for t in (e.left, e.right) if isinstance(t, Bracket)]
    return any(
        leaves_few(conjuncts(substitute(t.pred, c.scope.env)), c.summed.keys() & ranges.keys(), ranges) for t in terms
    )


def _distributed(ctx: Context, c: Summation, terms: Add) -> Deep[Value]:
    left = yield from call(contract(ctx, replace(c, body=terms.left)))
    right = yield from call(contract(ctx, replace(c, body=terms.right)))
    return plus(left, right, terms.sign, c.scope.order)


STRATEGIES = (
    Strategy("scale", "sum s. [p] * c * e = c * sum s. [p] * e, for a number c", _scale, _scaled),
    ENUMERATE,
    GROUP,
    Strategy(
        "eliminate",
        "sum s:n. [s = a and p] * e = [0 <= a < n and [s := a] p] * [s := a] e",
        _solution,
        _eliminated,
    ),
    Strategy(
        "one point or another",
        "sum s. [s = a or s = b] * e = sum s. [s = a] * e + sum s. [s = b and s != a] * e",
        _either,
        _by_cases,
    ),
    SEPARATE,
    FEW_POINTS,
    SEGMENT_SUM,
    SHARED_SEGMENTS,
    NUMBERED,
    Strategy("spread", "sum s. [k = c*s + d and p] * e = e at s = (k - d)/c, with zeros between", _stride, _spread),
    Strategy("restrict", "sum s:n. [a <= s < b and p] * e = the sum over the shorter range", _bounded, _restricted),
    CORRELATION,
    BAND_PRODUCT,
    STACK,
    COUNT,
    FACTOR,
    PREFIX_SUM,
    BY_VALUE,
    RUNNING_IN_GROUPS,
    WINDOW,
    DATA_DIAGONALS,
    CHUNKS,
    DECAYS_IN_ORDER,
    NEST,
    BLOCKS,
    Strategy("hoist", "sum s. [p and q] * e = [p] * sum s. [q] * e, if s does not occur in p", _outer, _hoisted),
    Strategy(
        "distribute",
        "sum s. (e0 + e1) = sum s. e0 + sum s. e1, if e0 and e1 have other axes, or one of them is there for few s",
        _terms,
        _distributed,
    ),
    EXPAND,
    LOOP,
    REDUCE,
)
"""The ways to compute a sum, in the order in which they are tried. The last applies to every sum."""

IN_STEPS = (
    Strategy(
        "at some times",
        "sum s. [p and q] * e = [p] * sum s. [q] * e, computed only where p holds, if a step knows whether it does",
        _of_step,
        _hoisted,
    ),
    *STRATEGIES,
)
"""The same in the steps of recurrences."""
