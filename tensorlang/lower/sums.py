"""Sums, taken apart step by step. Each step is a law:

    sum s. [s = a and p] * e         =  [0 <= a < n and [s := a] p] * [s := a] e        if the coefficient of s is 1
    sum s. [k = c*s + d and p] * e   =  e at s = (k - d)/c, with zeros between
    sum s:n. [a <= s < b and p] * e  =  the sum over the shorter range
    sum s. [p and q] * e             =  [p] * sum s. [q] * e                            if s does not occur in p
    sum s. (e0 + e1)                 =  sum s. e0 + sum s. e1                           if e0 and e1 have other axes
    sum s. [p] * c * e               =  c * sum s. [p] * e                              for a number c

What remains is a loop where an access mixes several indices, and a product otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.grammar import Add, Bracket, Const, Mul, Sum
from tensorlang.language.predicates import (
    FALSE,
    Equal,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
    substitute,
)
from tensorlang.lower.blocks import blocked
from tensorlang.lower.brackets import bound_on, bounded_index, guarded, solved
from tensorlang.lower.code import ATOM, Value, aligned, literal, plus, times, union
from tensorlang.lower.correlations import correlated
from tensorlang.lower.diagonals import stacked
from tensorlang.lower.integers import Range
from tensorlang.lower.lookups import grouped, segmented, shared_segments
from tensorlang.lower.loops import expanded, function_of, iterated
from tensorlang.lower.membership import without_implied
from tensorlang.lower.points import unresolved
from tensorlang.lower.products import reduced
from tensorlang.lower.relations import enumerated
from tensorlang.lower.running import by_value, repeated, running
from tensorlang.lower.scope import Context, Scope
from tensorlang.lower.summation import Summation
from tensorlang.recursion import Deep


def total(ctx: Context, scope: Scope, e: Bracket | Sum) -> Deep[Value]:
    """The array of a sum, or of one under a bracket, which is part of what the sum is over."""
    return contract(ctx, Summation(scope, {}, (), e))


def contract(ctx: Context, c: Summation) -> Deep[Value]:
    """The array of `c`, over those axes of its scope on which it depends."""
    memo = c.scope.memo
    if c.key not in memo:
        outer, ctx.multiplied = ctx.multiplied, False
        memo[c.key] = yield (_strict(ctx, c) if ctx.strict and c.selects is None else _contract(ctx, c))
        if ctx.multiplied:
            ctx.multiplying.add((id(c.scope), c.key))
        ctx.multiplied |= outer
    ctx.multiplied |= (id(c.scope), c.key) in ctx.multiplying
    return memo[c.key]


def _strict(ctx: Context, c: Summation) -> Deep[Value]:
    """`c` so that what is hidden has no influence, whatever it is.

    The fastest ways to compute a sum multiply by zero what is hidden, which is wrong where that is nan or inf. But then
    the sum is, too, which costs little to find out. So it is only computed by ways that select if it turns out so.
    """
    v = yield contract(ctx, replace(c, selects=False))
    if not ctx.multiplied or v.number is not None:
        ctx.multiplied = False
        return v
    scope = c.scope
    v = ctx.short(v, scope.block)
    target, ctx.target = ctx.target, None
    block = ctx.new_block()
    inner = ctx.scope(scope, block=block, fixed=block if scope.fixed is scope.block else scope.fixed)
    w = yield contract(ctx, replace(c, scope=inner, selects=True))
    ctx.target, ctx.multiplied = target, False
    axes = union([v, w], scope.order)
    given = expanded(ctx, scope, v, axes)
    w = replace(w, code=expanded(ctx, inner, w, axes), axes=axes)
    scope.block.line("# the same sum without what is hidden, if the first turns out nan or inf")
    selected = function_of(ctx, scope.block, block, [], w, "selected")
    return Value(f"{ctx.helper('_if_finite')}({given}, {selected})", axes, ATOM, v.depth + 1)


def _contract(ctx: Context, c: Summation) -> Deep[Value]:
    c = _gathered(ctx, c)
    if FALSE in c.parts:
        return literal(Fraction(0))
    steps = (
        (_looped,)
        if c.loops
        else (
            _scaled,
            _enumerated,
            _grouped,
            _eliminated,
            _segmented,
            _shared_segments,
            _spread,
            _restricted,
            _correlated,
            _stacked,
            _repeated,
            _running,
            _by_value,
            _blocked,
            _hoisted,
            _distributed,
            _looped,
        )
    )
    for step in steps:
        v: Value | None = yield step(ctx, c)
        if v is not None:
            return v
    v = yield reduced(ctx, c, contract)
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
    return replace(c, summed=summed, parts=unresolved(ctx, c.scope, parts), body=body)


def _looped(ctx: Context, c: Summation) -> Deep[Value | None]:
    return iterated(ctx, c, contract)


def _scaled(ctx: Context, c: Summation) -> Deep[Value | None]:
    """sum s. [p] * c * e = c * sum s. [p] * e, for a number c."""
    if not c.summed or not isinstance(c.body, Mul) or not isinstance(c.body.left, Const):
        return None
    v: Value = yield contract(ctx, replace(c, body=c.body.right))
    return times(literal(c.body.left.value), v, c.scope.order)


def _enumerated(ctx: Context, c: Summation) -> Deep[Value | None]:
    return enumerated(ctx, c, contract)


def _grouped(ctx: Context, c: Summation) -> Deep[Value | None]:
    return grouped(ctx, c, contract)


def _segmented(ctx: Context, c: Summation) -> Deep[Value | None]:
    return segmented(ctx, c, contract)


def _shared_segments(ctx: Context, c: Summation) -> Deep[Value | None]:
    return shared_segments(ctx, c, contract)


def _correlated(ctx: Context, c: Summation) -> Deep[Value | None]:
    return correlated(ctx, c, contract)


def _running(ctx: Context, c: Summation) -> Deep[Value | None]:
    return running(ctx, c, contract)


def _repeated(ctx: Context, c: Summation) -> Deep[Value | None]:
    return repeated(ctx, c, contract)


def _by_value(ctx: Context, c: Summation) -> Deep[Value | None]:
    return by_value(ctx, c, contract)


def _stacked(ctx: Context, c: Summation) -> Deep[Value | None]:
    return stacked(ctx, c, contract)


def _blocked(ctx: Context, c: Summation) -> Deep[Value | None]:
    return blocked(ctx, c, contract)


def _eliminated(ctx: Context, c: Summation) -> Deep[Value | None]:
    """sum s. [s = a and p] * e = [0 <= a < n and [s := a] p] * [s := a] e."""
    for q in c.parts:
        if not isinstance(q, Equal):
            continue
        for s, r in c.summed.items():
            value = solved(q.difference, s) if abs(q.difference.coefficient(s)) == 1 else None
            if value is not None and s not in value.free:
                inside = (at_most(r.start, value), at_most(value, r.last))
                parts = (*inside, *(p for p in c.parts if p is not q))
                inner = ctx.scope(c.scope, env=_with(c.scope, s, value))
                v: Value = yield contract(ctx, replace(c, scope=inner, summed=c.without(s), parts=parts))
                return v
    return None


def _with(scope: Scope, i: Index, value: Affine) -> dict[Atom, Affine]:
    return {k: a.substitute({i: value}) for k, a in scope.env.items()} | {i: value}


def _spread(ctx: Context, c: Summation) -> Deep[Value | None]:
    """sum s. [k = c*s + d and p] * e: computed along s, and spread along k with zeros between."""
    found = _stride(c)
    if found is None:
        return None
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
    v: Value = yield contract(ctx, replace(c, scope=inner, summed=c.without(s), parts=parts))
    if v.number == 0:
        return v
    if s not in v.axes:
        axes = union([v, Value("", (s,))], inner.order)
        v = Value(f"jnp.broadcast_to({aligned(v, axes).code}, {ctx.extents(inner, axes)})", axes, weak=v.weak)
    axis = v.axes.index(s)
    code = v.code if value.coefficient(s) > 0 else f"{v.within(ATOM)}[{':, ' * axis}::-1]"
    axes = tuple(k if i is s else i for i in v.axes)
    return Value(_spread_code(ctx, scope, code, axis, value, s, r, target), axes, ATOM, v.depth + 1, None, v.weak)


def _spread_code(
    ctx: Context, scope: Scope, code: str, axis: int, value: Affine, s: Index, r: Range, target: Range
) -> str:
    """The array of that code, which runs over s, laid out at the positions `value` of the range `target`."""
    step = value.coefficient(s)
    first = value.substitute({s: r.start if step > 0 else r.last}) - target.start
    integers, helper = ctx.integers, ctx.helper("_spread")
    if scope.is_static(first):
        return f"{helper}({code}, {axis}, {integers.code(first)}, {abs(step)}, {integers.code(target.extent)})"
    # a loop moves it: laid out in all the room that it needs, of which each round takes its window
    low, high = scope.bounds(first)
    room = target.extent + high - low
    laid = f"{helper}({code}, {axis}, {integers.code(high)}, {abs(step)}, {integers.code(room)})"
    return f"lax.dynamic_slice_in_dim({laid}, {integers.code(high - first)}, {integers.code(target.extent)}, {axis})"


def _stride(c: Summation) -> tuple[Equal, Index, Index] | None:
    """An equality that gives an axis of the scope by one summed index."""
    for q in c.parts:
        if isinstance(q, Equal) and not q.difference.lookups:
            inside = [s for s in c.summed if q.difference.coefficient(s)]
            outside = c.scope.axes(q.difference)
            if len(inside) == len(outside) == 1 and abs(q.difference.coefficient(outside[0])) == 1:
                return q, inside[0], outside[0]
    return None


def _restricted(ctx: Context, c: Summation) -> Deep[Value | None]:
    """sum s:n. [a <= s < b and p] * e: the sum over the shorter range."""
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
        return None
    summed = {
        s: ctx.integers.restricted(s, r, starts.get(s, []), stops.get(s, []), c.scope.fixed)
        for s, r in c.summed.items()
    }
    v: Value = yield contract(ctx, replace(c, summed=summed, parts=tuple(rest)))
    return v


def _hoisted(ctx: Context, c: Summation) -> Deep[Value | None]:
    """sum s. [p and q] * e = [p] * sum s. [q] * e, if s does not occur in p; e itself if there is no sum left."""
    outer = [q for q in c.parts if c.summed.keys().isdisjoint(free_atoms(q))]
    if not outer and c.summed:
        return None
    rest = replace(c, parts=tuple(q for q in c.parts if q not in outer))

    def compute(inner: Scope) -> Deep[Value]:
        return contract(ctx, replace(rest, scope=inner)) if c.summed else ctx.value(c.body, inner)

    v: Value = yield guarded(ctx, c.scope, conjunction(outer), c.body, compute)
    return v


def _distributed(ctx: Context, c: Summation) -> Deep[Value | None]:
    """sum s. (e0 + e1) = sum s. e0 + sum s. e1, if e0 and e1 have other axes."""
    if not isinstance(c.body, Add) or ctx.profiles.is_uniform(c.body, c.scope.env):
        return None
    left = yield contract(ctx, replace(c, body=c.body.left))
    right = yield contract(ctx, replace(c, body=c.body.right))
    return plus(left, right, c.body.sign, c.scope.order)
