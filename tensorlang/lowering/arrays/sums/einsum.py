"""Sums all of whose accesses are slices: an einsum of the factors, or the sum of an array along some axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce as fold
from string import ascii_letters

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Access, Expr, Mul
from tensorlang.language.predicates import Predicate, conjunction, free_atoms
from tensorlang.lowering.arrays.brackets import zero_outside
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.ir import EinsumSpec, Infix, Node
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.strategy import Strategy
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value, apply, integer, integers, literal, ordered, times, where
from tensorlang.lowering.plan.dependence import factors, is_finite, places, read_by, through
from tensorlang.recursion import Deep, call


def _reduced(ctx: Context, c: Summation, _: None) -> Deep[Value]:
    """The array of a sum.

    A product whose factors have different axes is an einsum, never multiplied out and added up. Only under a mask over
    all of its axes is it multiplied out, since the mask selects and has that size itself; unless the mask goes on one
    of the factors. A mask on one factor multiplies by zero what it hides of the others: strict code notes that, and
    where it has to select, it adds up such a product in a loop. A mask on every factor multiplies zero by zero.
    """
    scope, summed, body = c.scope, c.summed, c.body
    masks = (*scope.masks, *c.parts)
    guards = _guards(masks)
    needed = ctx.free_indices.free(body, scope.env).union(c.summed, through(guards, scope.env))
    inner = ctx.scope(scope, domain={i: r for i, r in c.ranges.items() if i in needed}, masks=masks)
    implied = zero_outside(ctx, scope.env, c.parts, body, ctx.strict and c.selects is not False)
    visible = [q for q in c.parts if q not in implied]
    ctx.multiplied |= not implied <= zero_outside(ctx, scope.env, c.parts, body, True)
    pieces = [body]
    if isinstance(body, Mul):
        if not ctx.free_indices.is_uniform(body, scope.env):
            pieces = factors(body)
        elif not visible and ctx.free_indices.free(body, scope.env) <= summed.keys():
            pieces = [body.left, body.right]
    whole = masked_factor(ctx, c) if visible and not c.selects else None
    values, everywhere = [], False  # whether all factors are 0 where masks hide them
    for piece in pieces:
        values.append(
            (yield from call(_selected(ctx, inner, visible, piece) if piece is whole else ctx.value(piece, inner)))
        )
    if visible and whole is None:
        hidden = [mask(ctx, inner, q) for q in visible]
        box = {i for v in (*values, *hidden) for i in v.axes}
        if any(len(v.axes) == len(box) for v in (*hidden, *values)):
            m = mask(ctx, inner, conjunction(visible))
            product = values[0]
            for v in values[1:]:
                product = ctx.short(times(product, v, inner.order), scope.block)
            return _total_or_zero(ctx, inner, where(m, product, inner.order), c)
        everywhere = all(set(v.axes) >= set(m.axes) for m in hidden for v in values)
        if c.selects and len(pieces) > 1 and not everywhere:
            # multiplied out it would be larger than all that it is made of
            some = next(s for s in summed if s in box)
            return (yield from call(ctx.contract(replace(c, loops=frozenset({some}), whole=False))))
        for m in hidden:
            values = _masked(ctx, inner, m, values)
    ctx.multiplied |= bool(visible) and len(pieces) > 1 and not everywhere
    return _product(ctx, inner, values, c)


REDUCE = Strategy(
    "sum of a product",
    "sum s. e0 * e1 = einsum(e0, e1), and the sum along axes of what is no product of arrays with other axes",
    lambda ctx, c: None,
    _reduced,
)


def masked_factor(ctx: Context, c: Summation) -> Expr | None:
    """The factor that masks go on in an einsum: the only one with all axes of the sum and of its predicate, if it is
    stored and the others are finite.

    sum j. [j <= i] * a[i, j] * x[j]  =  sum j. ([j <= i] * a[i, j]) * x[j]
    """
    env = c.scope.env
    if not isinstance(c.body, Mul) or ctx.free_indices.is_uniform(c.body, env):
        return None
    parts = factors(c.body)
    box = ctx.free_indices.free(c.body, env) | through(_guards(c.parts), env)
    whole = [part for part in parts if ctx.free_indices.free(part, env) >= box]
    if len(whole) != 1 or not isinstance(whole[0], Access):
        return None
    return whole[0] if all(is_finite(part) for part in parts if part is not whole[0]) else None


def _selected(ctx: Context, inner: Scope, visible: Sequence[Predicate], read: Expr) -> Deep[Value]:
    """[visible] * read, its axes in the order in which it is stored."""
    first = [i for a in places(read) for i in a.substitute(inner.env).indices if i in inner.domain]
    stored = ctx.scope(inner, domain={i: inner.domain[i] for i in dict.fromkeys((*first, *inner.domain))})
    v: Value = yield from call(ctx.value(read, stored))
    m = mask(ctx, stored, conjunction(visible))
    return ctx.short(where(m, v, stored.order), inner.block)


def _guards(masks: Iterable[Predicate]) -> Iterator[Index]:
    return (i for q in masks for i in free_atoms(q) if isinstance(i, Index))


def _masked(ctx: Context, inner: Scope, m: Value, values: Sequence[Value]) -> list[Value]:
    """`values` with a mask on each that has all axes of the mask, or else on the one that has most of them."""
    fitting = [v for v in values if set(v.axes) >= set(m.axes)]
    if not fitting:
        fitting = [max(values, key=lambda v: len(set(v.axes) & set(m.axes)))]
    return [ctx.short(where(m, v, inner.order), inner.block) if v in fitting else v for v in values]


def _product(ctx: Context, inner: Scope, values: Sequence[Value], c: Summation) -> Value:
    """The sum of a product of arrays; factors without axes stay outside."""
    arrays = [v for v in values if v.axes]
    if len(arrays) > 1:
        result = ctx.short(_einsum(ctx, inner, arrays, c), inner.block)
    else:
        result = _total(ctx, inner, arrays[0] if arrays else literal(Fraction(1)), c)
    for v in values:
        if not v.axes:
            result = times(v, result, inner.order)
    over = [s for s in c.summed if any(s not in v.axes for v in values)]
    return _unless_empty(ctx, inner, result, over)


def _total_or_zero(ctx: Context, inner: Scope, v: Value, c: Summation) -> Value:
    return _unless_empty(ctx, inner, _total(ctx, inner, v, c), [s for s in c.summed if s not in v.axes])


def _unless_empty(ctx: Context, inner: Scope, v: Value, over: Iterable[Index]) -> Value:
    """`v`, but in strict code 0 if a range of `over` is empty: then the other factors don't count either."""
    extents = [inner.domain[s].extent for s in over] if ctx.strict else []
    several = dict.fromkeys(n for n in extents if not ctx.integers.is_nonnegative(n - 1))
    tests: list[Node] = [Infix(ctx.integers.node(n), ">", integer(0)) for n in several]
    if not tests or v.number is not None:
        return v
    every = fold(lambda left, right: Infix(left, "and", right), tests)
    return Value(apply("_if", every, v.node), v.axes, v.depth + 1, None, v.weak)


def _einsum(ctx: Context, inner: Scope, arrays: Sequence[Value], c: Summation) -> Value:
    found = {i for v in arrays for i in v.axes}
    kept = tuple(i for i in inner.order if i in found and i not in c.summed)
    depth = 1 + max(v.depth for v in arrays)
    if len(arrays) == 2 and not kept and set(arrays[0].axes) == set(arrays[1].axes):
        left, right = arrays
        node = apply("vdot", left.node, ordered(right, left.axes).node)
    else:
        letters = _letters([i for i in inner.order if i in found])
        terms = ("".join(letters[i] for i in v.axes) for v in arrays)
        spec = EinsumSpec(tuple(terms), "".join(letters[i] for i in kept))
        node = apply("einsum", spec, *(v.node for v in arrays))
    return _repeated(ctx, inner, Value(node, kept, depth), [s for s in c.summed if s not in found])


def _letters(indices: Sequence[Index]) -> dict[Index, str]:
    """A letter for each index, its own name where it can be."""
    named = {i.name: i for i in reversed(indices) if len(i.name) == 1 and i.name in ascii_letters}
    free = (letter for letter in ascii_letters if letter not in named)
    return {i: i.name if named.get(i.name) is i else next(free) for i in indices}


def _total(ctx: Context, inner: Scope, v: Value, c: Summation) -> Value:
    """The sum of `v` over its summed axes, times the number of points of the summed indices that it lacks."""
    places = [k for k, i in enumerate(v.axes) if i in c.summed]
    kept = tuple(i for i in v.axes if i not in c.summed)
    result = v
    if places:
        axes = integer(places[0]) if len(places) == 1 else integers(places)
        if not kept:
            node = apply("sum", v.node)
        elif isinstance(c.body, Access) and read_by(c.body)[0] in ctx.parts:  # there is nothing to fuse a sum with
            node = apply("_times_ones", v.node, integers(places))
        elif places[0] == len(kept):
            node = apply("sum", v.node, axes)
        else:  # see the library for why these are not left to XLA's reductions
            node = apply("_sum_in_step" if ctx.in_step else "_sum", v.node, axes)
        result = Value(node, kept, v.depth + 1, None, v.weak)
    return _repeated(ctx, inner, result, [s for s in c.summed if s not in v.axes])


def _repeated(ctx: Context, inner: Scope, v: Value, missing: Sequence[Index]) -> Value:
    """`v` times the number of values of each index that it does not depend on."""
    for s in missing:
        count = inner.domain[s].extent
        if count.is_constant:
            v = times(literal(Fraction(count.constant)), v, inner.order)
        else:
            v = times(Value(ctx.integers.node(count), (), 1, None, True), v, inner.order)
    return v
