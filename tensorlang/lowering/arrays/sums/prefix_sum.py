"""Running sums: a sum whose only tie to some axis of the result is where it ends, or where it starts.

    gen i. sum j. [j <= a(i)] * e(j)  =  gen i. S[a(i) + 1]            where S[k] = sum j < k. e(j)

which takes an addition for each j, and not for each pair of i and j. The limit a(i) may be an element of an index
array; and so may what is compared with it:

    gen i. sum j. [i <= y[j]] * e(j)  =  gen i. sum v. [i <= v] * T[v]    where T[v] = sum j. [y[j] = v] * e(j)

A term that does not depend on j at all occurs once for each j:

    gen i. sum j. [a(i) <= j and j <= b(i)] * e(i)  =  gen i. max(0, b(i) - a(i) + 1) * e(i)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from tensorlang.language import grammar
from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, total
from tensorlang.language.grammar import Expr, Var
from tensorlang.language.predicates import NonNegative, Predicate, equal, free_atoms
from tensorlang.language.types import R, array
from tensorlang.lowering.arrays.accesses import access, positions
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.ir import Infix, Name, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, cast, integer, times, where
from tensorlang.lowering.plan.dependence import is_finite, is_number
from tensorlang.recursion import Deep, call


def _ends(ctx: Context, c: Summation) -> tuple[Affine, Index] | WhyNot:
    """The value that is not negative by the only condition that ties a summed index to the result; and that index."""
    if c.whole:
        return DECIDED
    found = next((found for q in c.parts if (found := _limited(ctx, c, q)) is not None), None)
    return found or WhyNot("no comparison with a summed index is all that ties the sum to some axis of the result")


def _running(ctx: Context, c: Summation, found: tuple[Affine, Index]) -> Deep[Value]:
    """`c` as a running sum."""
    limit, j = found
    scope, r, outer = c.scope, c.summed[j], c.scope.axes(limit)
    domain = {i: s for i, s in scope.domain.items() if i not in outer} | {j: r}
    parts = tuple(p for p in c.parts if p is not NonNegative(limit))
    backwards = limit.coefficient(j) > 0
    at = atom_affine(j) - limit if backwards else limit + atom_affine(j) + 1
    inside = replace(c, scope=ctx.scope(scope, domain=domain, masks=scope.masks_without(outer)))
    inside = replace(inside, summed=c.without(j), parts=parts)
    key = ("running", backwards, tuple(domain.items()), inside.key)
    if key not in scope.memo:
        scope.memo[key] = yield from call(ctx.contract(inside))
    e = scope.memo[key]
    if e.number == 0:
        return e
    ctx.multiplied |= not c.selects
    if (*key, "sums") not in scope.memo:
        scope.memo[*key, "sums"] = _running_sums(ctx, scope, inside, e, j, backwards)
    sums = scope.memo[*key, "sums"].node
    assert isinstance(sums, Name)
    held = Held(sums.name, tuple(domain[i].extent + (i is j) for i in e.axes))
    return read_nearest(ctx, scope, held, e.axes, j, at - r.start)


def _running_sums(ctx: Context, scope: Scope, c: Summation, e: Value, j: Index, backwards: bool) -> Value:
    """The running sums along j of `e`, the terms of `c`, in an array that is named in `scope`."""
    scope.block.note(f"a running sum over {j.name}{' from its end' if backwards else ''}")
    part = "_running_in_order" if c.selects else "_running"
    node = apply(part, e.node, integer(e.axes.index(j)), Name(str(backwards)))
    return Value(Name(ctx.named_array(Value(node), scope.block, "sums")))


@dataclass(frozen=True)
class _Counted:
    """An index on which no term depends, and the comparisons that bound it."""

    j: Index
    bounds: tuple[Predicate, ...]
    values: tuple[Affine, ...]


def _same_terms(ctx: Context, c: Summation) -> _Counted | WhyNot:
    if c.whole:
        return DECIDED
    for j in c.summed:
        bounds = [q for q in c.parts if j in free_atoms(q)]
        values = [q.value for q in bounds if isinstance(q, NonNegative) and j not in _looked_up_at(q.value)]
        if not bounds or len(values) < len(bounds) or any(abs(a.coefficient(j)) != 1 for a in values):
            continue
        if j in ctx.free_indices.free(c.body, c.scope.env):
            continue
        if any(i in c.summed or i in c.scope.loops for a in values for i in a.free if i is not j):
            continue
        return _Counted(j, tuple(bounds), tuple(values))
    return WhyNot("no summed index is bounded by comparisons alone and occurs in no term")


def _counted(ctx: Context, c: Summation, found: _Counted) -> Deep[Value]:
    """`c` as the number of its terms times one of them."""
    j, r, values, own = found.j, c.summed[found.j], found.values, atom_affine(found.j)
    low = lambda a: c.scope.bounds(a)[0]
    starts = ctx.integers.undominated([r.start, *(own - a for a in values if a.coefficient(j) > 0)], 1, low)
    stops = ctx.integers.undominated([r.stop, *(a + own + 1 for a in values if a.coefficient(j) < 0)], -1, low)
    axes = tuple(i for i in c.scope.domain if any(i in a.free for a in values))
    count = Value(cast(_distance(ctx, c.scope, starts, stops, axes)), axes, 3)
    parts = tuple(q for q in c.parts if q not in found.bounds)
    v: Value = yield from call(ctx.contract(replace(c, summed=c.without(j), parts=parts)))
    count = ctx.short(count, c.scope.block)
    product = times(count, v, c.scope.order)
    if (is_number if ctx.strict else is_finite)(c.body):
        return product
    some = Value(Infix(count.node, ">", integer(0)), count.axes, count.depth + 1)
    return where(some, ctx.short(product, c.scope.block), c.scope.order)


def _looked_up_at(a: Affine) -> set[Atom]:
    return {i for lookup in a.lookups for i in atom_affine(lookup).free}


def _distance(ctx: Context, scope: Scope, starts: list[Affine], stops: list[Affine], axes: Axes) -> Node:
    """The number of integers from the greatest of `starts` to before the least of `stops`, at each place of `axes`."""
    if len(starts) == len(stops) == 1:
        found = positions(ctx, scope, stops[0] - starts[0], axes)
    else:
        start, stop = (
            reduce(lambda a, b: apply(name, a, b), [positions(ctx, scope, a, axes) for a in several])
            for name, several in (("maximum", starts), ("minimum", stops))
        )
        found = Infix(stop, "-", start)
    if all(ctx.integers.is_nonnegative(scope.bounds(b - a)[0]) for a in starts for b in stops):
        return found
    return apply("maximum", found, integer(0))


def _comparison(ctx: Context, c: Summation) -> NonNegative | WhyNot:
    if c.whole:
        return DECIDED
    found = next((q for q in c.parts if isinstance(q, NonNegative) and _is_compared(ctx, c, q)), None)
    return found or WhyNot("no comparison with an element of an index array is all that ties the sum to some axis")


def _by_value(ctx: Context, c: Summation, q: NonNegative) -> Deep[Value]:
    """`c`, summed first over the terms of each value of data."""
    scope, value = c.scope, Index("v")
    data = total((atom_affine(x), k) for x, k in q.value.terms if not c.summed.keys().isdisjoint(atom_affine(x).free))
    outer = scope.axes(q.value)
    r = ctx.integers.between(*ctx.scope(scope, domain=c.ranges).bounds(data), scope.fixed)
    domain = {i: s for i, s in scope.domain.items() if i not in outer} | {value: r}
    inner = ctx.scope(scope, domain=domain, masks=scope.masks_without(outer))
    parts = (*(p for p in c.parts if p is not q), equal(data, atom_affine(value)))
    v: Value = yield from call(ctx.contract(replace(c, scope=inner, parts=parts)))
    if v.number == 0:
        return v
    body = tabulated(ctx, inner, v, value)
    limit = NonNegative(q.value - data + atom_affine(value))
    return (yield from call(ctx.contract(Summation(scope, {value: r}, (limit,), body, selects=c.selects))))


def tabulated(ctx: Context, scope: Scope, v: Value, index: Index) -> Expr:
    """`v`, stored in an array that has at least the axis `index`, and read at the axes of `scope`."""
    axes = tuple(i for i in scope.domain if i in v.axes or i is index)
    sums = ctx.named_array(Value(expanded(ctx, scope, v, axes), axes), scope.block, "sums")
    table = Var(sums, array(tuple(scope.domain[i].extent for i in axes), R))
    ctx.held[table, ()] = Held(sums, tuple(scope.domain[i].extent for i in axes))
    return grammar.access(table, *(atom_affine(i) - scope.domain[i].start for i in axes))


def _is_compared(ctx: Context, c: Summation, q: NonNegative) -> bool:
    """Whether `q` compares elements at summed indices with axes of the result on which nothing else depends."""
    if any(i in c.scope.loops for i in q.value.free):
        return False
    inside = [x for x in q.value.atoms if not c.summed.keys().isdisjoint(atom_affine(x).free)]
    outer = c.scope.axes(q.value)
    if not outer or not any(isinstance(x, Lookup) for x in inside):
        return False
    if any(i in atom_affine(x).free for x in inside for i in outer):
        return False
    others = ctx.free_indices.free(c.body, c.scope.env).union(*(free_atoms(p) for p in c.parts if p is not q))
    return not any(i in others for i in outer)


def _limited(ctx: Context, c: Summation, q: Predicate) -> tuple[Affine, Index] | None:
    """The value that `q` says is not negative, and the summed index that it compares with axes of the result on which
    nothing else depends."""
    if not isinstance(q, NonNegative) or any(i in c.scope.loops for i in q.value.free):
        return None
    if any(i in c.summed for lookup in q.value.lookups for i in atom_affine(lookup).free):
        return None
    inside, outside = [i for i in c.summed if q.value.coefficient(i)], c.scope.axes(q.value)
    used = ctx.free_indices.free(c.body, c.scope.env)
    others = used.union(*(free_atoms(p) for p in c.parts if p is not q))
    if len(inside) != 1 or abs(q.value.coefficient(inside[0])) != 1 or inside[0] not in others or not outside:
        return None
    return None if any(i in others for i in outside) else (q.value, inside[0])


def read_nearest(ctx: Context, scope: Scope, sums: Held, axes: Axes, j: Index, at: Affine) -> Value:
    """`sums`, which has these axes, read with `at` in place of `j`, clipped to where there are elements."""
    axis = axes.index(j)
    last = sums.shape[axis] - 1
    low, high = scope.bounds(at)
    facts = [r.extent - 1 for i in at.indices if (r := scope.range_of(i)) is not None]
    if ctx.integers.is_nonnegative(low, facts) and ctx.integers.is_nonnegative(last - high, facts):
        places = [at if i is j else atom_affine(i) - scope.domain[i].start for i in axes]
        return access(ctx, scope, sums, tuple(places))
    outer = scope.axes(at)
    place = apply("clip", positions(ctx, scope, at, outer), integer(0), ctx.integers.node(last))
    taken = (*axes[:axis], *outer, *axes[axis + 1 :])
    return Value(apply("take", Name(sums.name), place, integer(axis)), taken, 2)


COUNT = Strategy(
    "count",
    "gen i. sum j. [a(i) <= j and j <= b(i)] * e(i) = gen i. max(0, b(i) - a(i) + 1) * e(i)",
    _same_terms,
    _counted,
)
PREFIX_SUM = Strategy(
    "prefix sum",
    "gen i. sum j. [j <= a(i)] * e(j) = gen i. S[a(i) + 1], where S[k] = sum j < k. e(j)",
    _ends,
    _running,
)
BY_VALUE = Strategy(
    "sums by value",
    "gen i. sum j. [i <= y[j]] * e(j) = gen i. sum v. [i <= v] * T[v], where T[v] = sum j. [y[j] = v] * e(j)",
    _comparison,
    _by_value,
)
