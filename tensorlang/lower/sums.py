"""Sums: einsum for products, loops over few indices where an access mixes several, a reduction for the rest.

`contract` takes a sum apart step by step; each step is a law:

    sum s. [s = a and p] * e             =  [0 <= a < n and [s := a] p] * [s := a] e           if s's coefficient is 1
    sum s. [k = c*s + d and p] * e       =  e at s = (k - d)/c, zeros between
    sum s:n. [a <= s < b and p] * e      =  sum over the shorter range
    sum s. [p and q] * e                 =  [p] * sum s. [q] * e                               if s is not in p
    sum s. (e0 + e1)                     =  sum s. e0 + sum s. e1                              if they have other axes
    sum s. e(x[i + s])                   =  one slice of x for each s
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tensorlang.language.affine import Affine, Index
from tensorlang.language.grammar import Add, Bracket, Expr, Mul, Sum
from tensorlang.language.predicates import (
    FALSE,
    Equal,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
    substitute,
)
from tensorlang.lower.brackets import bound_on, bounded_index, guarded, solved, zero_outside
from tensorlang.lower.code import ATOM, SUM, Axes, Value, aligned, literal, ordered, plus, times, union, where
from tensorlang.lower.integers import Range
from tensorlang.lower.loops import iterated
from tensorlang.lower.masks import mask
from tensorlang.lower.profile import factors
from tensorlang.lower.scope import Context, Scope
from tensorlang.recursion import Deep

Summed = Mapping[Index, Range]
Parts = tuple[Predicate, ...]
ZERO, ONE = Fraction(0), Fraction(1)


def summation(ctx: Context, scope: Scope, e: Sum) -> Deep[Value]:
    """The array of a sum."""
    r = ctx.integers.range_of(e.index, e.size, scope.fixed)
    return contract(ctx, scope, {e.index: r}, (), e.body)


def contract(
    ctx: Context, scope: Scope, summed: Summed, parts: Parts, body: Expr, loops: frozenset[Index] = frozenset()
) -> Deep[Value]:
    """The sum over `summed` of the conjunction of `parts` times `body`; `loops` are indices to be iterated over."""
    key = ("sum", tuple(summed.items()), parts, body, loops)
    if key not in scope.memo:
        scope.memo[key] = yield _contract(ctx, scope, dict(summed), parts, body, loops)
    return scope.memo[key]


def _contract(
    ctx: Context, scope: Scope, summed: dict[Index, Range], parts: Parts, body: Expr, loops: frozenset[Index]
) -> Deep[Value]:
    v: Value | None
    while isinstance(body, Bracket | Sum):
        if isinstance(body, Bracket):
            parts = (*parts, body.pred)
        else:
            summed[body.index] = ctx.integers.range_of(body.index, body.size, scope.fixed)
        body = body.body
    parts = conjuncts(substitute(conjunction(parts), scope.env))
    if FALSE in parts:
        return literal(ZERO)
    for step in (_eliminated, _spread, _restricted):
        v = yield step(ctx, scope, summed, parts, body, loops)
        if v is not None:
            return v
    outer = [q for q in parts if not any(i in summed for i in free_atoms(q))]
    if outer or not summed:
        rest = tuple(q for q in parts if q not in outer)
        inside = lambda inner: contract(ctx, inner, summed, rest, body, loops) if summed else ctx.value(body, inner)
        v = yield guarded(ctx, scope, conjunction(outer), body, inside)
        return v
    uniform = ctx.profiles.is_uniform(body, scope.env)
    if isinstance(body, Add) and not uniform:
        left = yield contract(ctx, scope, summed, parts, body.left, loops)
        right = yield contract(ctx, scope, summed, parts, body.right, loops)
        return plus(left, right, body.sign, scope.order)
    v = yield iterated(ctx, scope, summed, parts, body, loops, contract)
    if v is not None:
        return v
    v = yield _reduced(ctx, scope, summed, parts, body, uniform)
    return v


def _eliminated(
    ctx: Context, scope: Scope, summed: dict[Index, Range], parts: Parts, body: Expr, loops: frozenset[Index]
) -> Deep[Value | None]:
    """sum s. [s = a and p] * e = [0 <= a < n and [s := a] p] * [s := a] e."""
    for q in parts:
        if not isinstance(q, Equal):
            continue
        for s, r in summed.items():
            if abs(q.difference.coefficient(s)) == 1:
                value = solved(q.difference, s)
                inner = ctx.scope(scope, env={k: a.substitute({s: value}) for k, a in scope.env.items()} | {s: value})
                inside = (at_most(r.start, value), at_most(value, r.last))
                rest = {i: other for i, other in summed.items() if i is not s}
                others = tuple(p for p in parts if p is not q)
                v: Value = yield contract(ctx, inner, rest, (*inside, *others), body, loops)
                return v
    return None


def _spread(
    ctx: Context, scope: Scope, summed: dict[Index, Range], parts: Parts, body: Expr, loops: frozenset[Index]
) -> Deep[Value | None]:
    """sum s. [k = c*s + d and p] * e: computed along s, and spread along k with zeros between."""
    found = _stride(scope, summed, parts)
    if found is None:
        return None
    q, s, k = found
    value, target = solved(q.difference, k), scope.domain[k]
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    for bound in (value - target.start, target.last - value):
        bound_on(ctx, scope, s, bound, starts, stops)
    r = ctx.integers.restricted(s, summed[s], starts.get(s, []), stops.get(s, []), scope.fixed)
    domain = {(s if i is k else i): (r if i is k else other) for i, other in scope.domain.items()}
    env = {i: a.substitute({k: value}) for i, a in scope.env.items()} | {k: value}
    inner = ctx.scope(scope, domain=domain, env=env)
    rest = {i: other for i, other in summed.items() if i is not s}
    v = yield contract(ctx, inner, rest, tuple(p for p in parts if p is not q), body, loops)
    if v.number == 0:
        return v
    if s not in v.axes:
        axes = union([v, Value("", (s,))], inner.order)
        v = Value(f"jnp.broadcast_to({aligned(v, axes).code}, {ctx.extents(inner, axes)})", axes, weak=v.weak)
    step, axis = value.coefficient(s), v.axes.index(s)
    first = value.substitute({s: r.start if step > 0 else r.last}) - target.start
    turned = v if step > 0 else Value(f"{v.within(ATOM)}[{':, ' * axis}::-1]", v.axes, weak=v.weak)
    code = ctx.integers.code
    return Value(
        f"{ctx.helper('_spread')}({turned.code}, {axis}, {code(first)}, {abs(step)}, {code(target.extent)})",
        tuple(k if i is s else i for i in v.axes),
        weak=v.weak,
    )


def _stride(scope: Scope, summed: Summed, parts: Parts) -> tuple[Equal, Index, Index] | None:
    for q in parts:
        if isinstance(q, Equal) and scope.is_static(q.difference):
            inside = [s for s in summed if q.difference.coefficient(s)]
            outside = [k for k in scope.domain if q.difference.coefficient(k)]
            if len(inside) == len(outside) == 1 and abs(q.difference.coefficient(outside[0])) == 1:
                return q, inside[0], outside[0]
    return None


def _restricted(
    ctx: Context, scope: Scope, summed: dict[Index, Range], parts: Parts, body: Expr, loops: frozenset[Index]
) -> Deep[Value | None]:
    """sum s:n. [a <= s < b and p] * e: the sum over the shorter range."""
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    rest = []
    for q in parts:
        bound = bounded_index(scope, {**scope.domain, **summed}, q)
        if bound is not None and bound[0] in summed:
            bound_on(ctx, scope, *bound, starts, stops)
        else:
            rest.append(q)
    if len(rest) == len(parts):
        return None
    ranges = {
        s: ctx.integers.restricted(s, r, starts.get(s, []), stops.get(s, []), scope.fixed) for s, r in summed.items()
    }
    v: Value = yield contract(ctx, scope, ranges, tuple(rest), body, loops)
    return v


def _reduced(ctx: Context, scope: Scope, summed: Summed, parts: Parts, body: Expr, uniform: bool) -> Deep[Value]:
    """A sum whose accesses are slices: an einsum of its factors, or the sum of an array along axes."""
    inner = ctx.scope(scope, domain={**scope.domain, **summed}, masks=(*scope.masks, *parts))
    implied = zero_outside(ctx, scope.env, parts, body)
    visible = [q for q in parts if q not in implied]
    pieces = [body] if uniform or not isinstance(body, Mul) else factors(body)
    whole = uniform and isinstance(body, Mul) and not visible
    if whole and ctx.profiles.free(body, scope.env) <= summed.keys():
        pieces = [body.left, body.right] if isinstance(body, Mul) else pieces
    values = []
    for piece in pieces:
        values.append((yield ctx.value(piece, inner)))
    if visible:
        m = mask(ctx, inner, conjunction(visible))
        box = {i for v in (*values, m) for i in v.axes}
        if len(box) == len(m.axes) or any(len(v.axes) == len(box) for v in values):
            product = values[0]
            for v in values[1:]:
                product = ctx.short(times(product, v, inner.order), scope.block)
            return _total(ctx, inner, where(m, product, inner.order), summed)
        for q in visible:
            values = _masked(ctx, inner, mask(ctx, inner, q), values)
    return _product_sum(ctx, inner, values, summed)


def _masked(ctx: Context, inner: Scope, m: Value, values: Sequence[Value]) -> list[Value]:
    """`values` with a mask on each that has all of its axes, or else on one."""
    fitting = [v for v in values if set(v.axes) >= set(m.axes)]
    if not fitting:
        fitting = [max(values, key=lambda v: len(set(v.axes) & set(m.axes)))]
    return [ctx.short(where(m, v, inner.order), inner.block) if v in fitting else v for v in values]


def _product_sum(ctx: Context, inner: Scope, values: Sequence[Value], summed: Summed) -> Value:
    """The sum of a product of arrays; what has no axes stays outside."""
    arrays = [v for v in values if v.axes]
    if len(arrays) <= 1:
        result = _total(ctx, inner, arrays[0], summed) if arrays else _total(ctx, inner, literal(ONE), summed)
    else:
        found = {i for v in arrays for i in v.axes}
        kept = tuple(i for i in inner.order if i in found and i not in summed)
        letters = _letters([i for i in inner.order if i in found])
        if len(arrays) == 2 and not kept and set(arrays[0].axes) == set(arrays[1].axes):
            left, right = arrays
            result = Value(f"jnp.vdot({left.code}, {ordered(right, left.axes).code})", ())
        else:
            spec = ",".join("".join(letters[i] for i in v.axes) for v in arrays)
            spec += "->" + "".join(letters[i] for i in kept)
            result = Value(f'jnp.einsum("{spec}", {", ".join(v.code for v in arrays)})', kept)
        result = _repeated(ctx, inner, result, [s for s in summed if s not in found])
        result = ctx.short(Value(result.code, result.axes, result.level, 1 + max(v.depth for v in arrays)), inner.block)
    for v in values:
        if not v.axes:
            result = times(v, result, inner.order)
    return result


def _total(ctx: Context, inner: Scope, v: Value, summed: Summed) -> Value:
    """The sum of `v` over those of its axes that are summed; it repeats over the others of `summed`."""
    places = [k for k, i in enumerate(v.axes) if i in summed]
    kept = tuple(i for i in v.axes if i not in summed)
    result = v
    if places:
        axes = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
        if not kept:
            code = f"jnp.sum({v.code})"
        elif places[0] == len(kept):
            code = f"jnp.sum({v.code}, {axes})"
        else:
            code = f"{ctx.helper('_sum')}({v.code}, {axes})"
        result = Value(code, kept, ATOM, v.depth + 1, None, v.weak)
    return _repeated(ctx, inner, result, [s for s in summed if s not in v.axes])


def _repeated(ctx: Context, inner: Scope, v: Value, missing: Sequence[Index]) -> Value:
    """`v` times the number of values of each index that it does not depend on."""
    for s in missing:
        count = inner.domain[s].extent
        if count.is_constant:
            v = times(literal(Fraction(count.constant)), v, inner.order)
        else:
            code = ctx.integers.code(count)
            v = times(Value(code, (), ATOM if code.isidentifier() else SUM, 1, None, True), v, inner.order)
    return v


def _letters(indices: Axes | Sequence[Index]) -> dict[Index, str]:
    """A letter for each index, its own name where it can be."""
    free = [c for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    letters: dict[Index, str] = {}
    for i in indices:
        if i.name in free:
            letters[i] = i.name
            free.remove(i.name)
    for i in indices:
        if i not in letters:
            letters[i] = free.pop(0)
    return letters
