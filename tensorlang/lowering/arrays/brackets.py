"""Iverson brackets, which select: where one is false, nothing under it may be seen.

A condition on one index alone restricts that index's axis: the expression is computed on a shorter axis and placed
among zeros. An equality eliminates an axis of the expression. What remains is a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tensorlang.costs.bounds import holds_from_1_on
from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant, is_long
from tensorlang.language.grammar import Access, Const, Expr
from tensorlang.language.predicates import (
    FALSE,
    Equal,
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    substitute,
)
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import Range
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.only_if import is_worth_asking, only_if
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.band import banded
from tensorlang.lowering.arrays.undecided import undecided_conditions
from tensorlang.lowering.arrays.values import Value, apply, literal, where
from tensorlang.lowering.plan.dependence import factors, is_finite, is_number, read_by
from tensorlang.lowering.plan.guards import is_static
from tensorlang.recursion import Deep, call

Compute = Callable[[Scope], Deep[Value]]


def bracket(ctx: Context, scope: Scope, p: Predicate, e: Expr) -> Deep[Value]:
    """The array of [p] * e."""
    return guarded(ctx, scope, p, e, lambda inner: ctx.value(e, inner), summed=False)


def guarded(ctx: Context, scope: Scope, p: Predicate, e: Expr, compute: Compute, summed: bool = True) -> Deep[Value]:
    """[p] times the result of `compute` in the scope that it is given: the array of `e`, or of a sum if `summed`."""
    again = lambda inner: guarded(ctx, inner, p, e, compute, summed)
    v: Value | None = yield from call(banded(ctx, scope, p, e, again))
    if v is not None:
        return v
    plan = _plan(ctx, scope, p, e, summed)
    if FALSE in plan.masks:
        return literal(Fraction(0))
    inner = ctx.scope(scope, domain=plan.domain, env=plan.env, masks=(*scope.masks, *plan.masks, *plan.pinned))
    at_times = [q for q in plan.masks if is_worth_asking(ctx, inner, q, e, summed)]
    if at_times:
        v = yield from call(only_if(ctx, inner, conjunction(at_times), compute))
        plan.masks = [q for q in plan.masks if q not in at_times]
    else:
        v = yield from call(compute(inner))
    implied = zero_outside(ctx, inner.env, plan.masks, e)
    visible = [q for q in plan.masks if q not in implied]
    sizes = [q for q in visible if is_static(q) and not v.weak]
    hidden = [q for q in visible if q not in sizes]
    if hidden:
        v = where(mask(ctx, inner, conjunction(hidden)), v, inner.order)
    if sizes:
        v = Value(apply("_if", mask(ctx, inner, conjunction(sizes)).node, v.node), v.axes, v.depth + 1)
    return _placed(ctx, scope, plan, v)


@dataclass
class _Plan:
    """How [p] * e is computed.

    `domain` has the ranges as the `bounds` restrict them, without the indices that equalities eliminate; `masks` are
    the conjuncts that are left; `pinned` says that a pinned index is within its range.
    """

    domain: dict[Index, Range]
    env: dict[Atom, Affine]
    masks: list[Predicate] = field(default_factory=list)
    pinned: list[Predicate] = field(default_factory=list)
    eliminated: list[Predicate] = field(default_factory=list)
    bounds: dict[Index, list[Predicate]] = field(default_factory=dict)


def _plan(ctx: Context, scope: Scope, p: Predicate, e: Expr, summed: bool) -> _Plan:
    plan = _Plan(dict(scope.domain), dict(scope.env))
    waiting = undecided_conditions(ctx, scope, conjuncts(substitute(p, scope.env)))
    while (found := _determined(ctx, scope, plan, waiting, e)) is not None:
        q, i, value = found
        r = plan.domain.pop(i)
        inside = [at_most(r.start, value), at_most(value, r.last)]
        if not any(atom in plan.domain for atom in value.free):
            plan.pinned += inside
            inside = []
        plan.env = {k: a.substitute({i: value}) for k, a in plan.env.items()} | {i: value}
        plan.eliminated.append(q)
        waiting = conjuncts(substitute(conjunction([*(w for w in waiting if w is not q), *inside]), {i: value}))
    used = ctx.free_indices.free(e, plan.env)
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    simple = all(isinstance(part, Access | Const) for part in factors(e))
    padded = zero_outside(ctx, plan.env, waiting, e) if simple else set()
    for q in (*waiting, *of_one_index(ctx, scope, plan.domain, waiting)):
        bound = bounded_index(scope, plan.domain, q)
        zeros = q in padded and (not summed or (bound is not None and _leaves_out_few(*bound, plan.domain)))
        if bound is not None and bound[0] in used and not zeros:
            bound_on(ctx, scope, *bound, starts, stops)
            plan.bounds.setdefault(bound[0], []).append(q)
        elif q in waiting:
            plan.masks.append(q)
    for i in plan.bounds:
        r = plan.domain[i]
        plan.domain[i] = ctx.integers.restricted(i, r, starts.get(i, []), stops.get(i, []), scope.fixed)
    return plan


def _determined(
    ctx: Context, scope: Scope, plan: _Plan, parts: Sequence[Predicate], e: Expr
) -> tuple[Predicate, Index, Affine] | None:
    """An equality in `parts` that determines an axis of `e`, by sizes or by another axis; that axis, and its value."""
    used = ctx.free_indices.free(e, plan.env)
    for q in parts:
        if not isinstance(q, Equal) or any(i in scope.loops for i in q.difference.free):
            continue
        axes = [i for i in plan.domain if i in q.difference.free]
        if len(axes) <= 2 and all(i in used for i in axes):
            for i in axes:
                value = solved(q.difference, i) if abs(q.difference.coefficient(i)) == 1 else None
                if value is not None and i not in value.free:
                    return q, i, value
    return None


def solved(difference: Affine, i: Index) -> Affine:
    """The value of `i`, whose coefficient is 1 or -1, where the difference is 0."""
    c = difference.coefficient(i)
    return (difference - atom_affine(i) * c) * -c


def bounded_index(scope: Scope, domain: Mapping[Index, Range], q: Predicate) -> tuple[Index, Affine] | None:
    """If `q` says that a value is not negative: the only axis that occurs in the value, and the value."""
    if not isinstance(q, NonNegative) or not scope.is_static(q.value):
        return None
    axes = [i for i in domain if q.value.coefficient(i)]
    return (axes[0], q.value) if len(axes) == 1 else None


def of_one_index(
    ctx: Context, scope: Scope, ranges: Mapping[Index, Range], parts: Sequence[Predicate]
) -> list[Predicate]:
    """Bounds on single indices that follow from comparisons of several, if they leave out more than a fixed number of
    values: i + j < m implies i < m, which does not follow from a range of n."""
    found: dict[Predicate, None] = {}
    facts = [r.extent - 1 for r in ranges.values()]  # where there is no point, there is nothing to compute
    for a in (q.value for q in parts if isinstance(q, NonNegative) and scope.is_static(q.value)):
        inside = [i for i in ranges if a.coefficient(i)]
        for i in inside if len(inside) > 1 else ():
            bound = a.substitute({j: _most(a, j, ranges[j]) for j in inside if j is not i})
            least = bound.substitute({i: _most(-bound, i, ranges[i])})
            obvious = not is_long(-least) or holds_from_1_on(at_most(constant(0), least))
            obvious = obvious or not is_long(ranges[i].extent) or not all(isinstance(x, Size) for x in least.atoms)
            if not obvious and not ctx.integers.is_nonnegative(least, facts):
                found[at_most(constant(0), bound)] = None
    return [q for q in found if q not in parts]


def _most(a: Affine, i: Index, r: Range) -> Affine:
    """The value of `i` in the range at which `a` is greatest."""
    return r.last if a.coefficient(i) > 0 else r.start


def _leaves_out_few(i: Index, a: Affine, domain: Mapping[Index, Range]) -> bool:
    """Whether a >= 0, of `i` alone, holds for all except a few of its values, at which zeros may be computed."""
    c = a.coefficient(i)
    return not is_long(-a.substitute({i: domain[i].start if c > 0 else domain[i].last}))


def bound_on(
    ctx: Context,
    scope: Scope,
    i: Index,
    a: Affine,
    starts: dict[Index, list[Affine]],
    stops: dict[Index, list[Affine]],
) -> None:
    """Add to `starts` or `stops` the bound that a >= 0 puts on `i`, the only index in `a`."""
    c = a.coefficient(i)
    rest = a - atom_affine(i) * c
    if c > 0:  # i >= ceil(-rest / c)
        starts.setdefault(i, []).append(-ctx.integers.quotient(rest, c, f"{i.name}_shift", scope.fixed))
    else:  # i <= floor(rest / -c)
        stops.setdefault(i, []).append(ctx.integers.quotient(rest, -c, f"{i.name}_last", scope.fixed) + 1)


def zero_outside(
    ctx: Context, env: Mapping[Atom, Affine], masks: Sequence[Predicate], e: Expr, strict: bool | None = None
) -> set[Predicate]:
    """The `masks` that only keep reads of a factor of `e` within its array, outside of which it is zero, or within the
    part of a block that isn't zero.

    This is enough only if the other factors are finite: whatever the data if `strict`, by default as the code is.
    """
    found: set[Predicate] = set()
    if not any(isinstance(q, NonNegative) for q in masks):
        return found
    parts = factors(e)
    strict = ctx.strict if strict is None else strict
    finite = is_number if strict else is_finite
    uncertain = {part for part in parts if not finite(part)}
    for part in parts:
        if isinstance(part, Access) and uncertain <= {part}:
            array, places = ctx.seen_by(part)
            for a, size in zip(places, array.shape, strict=True):
                at = a.substitute(env)
                found |= {NonNegative(at), NonNegative(size - 1 - at)}
    if strict or not uncertain:
        found |= {q for q, needless in zero_in_blocks(ctx, env, parts, strict).items() if needless}
    return found.intersection(masks)


def zero_in_blocks(
    ctx: Context, env: Mapping[Atom, Affine], parts: Sequence[Expr], strict: bool
) -> dict[NonNegative, bool]:
    """Conditions without which a factor that is read in blocks of rows is zero; and whether masks for them are
    needless.

    A mask is needed if another factor with all of its indices might be infinite there, unless that is zero, too; if
    `strict`, for any other factor that might.
    """
    zero: dict[NonNegative, set[Expr]] = {}
    for part in parts:
        key, at = read_by(part) if isinstance(part, Access) else (None, ())
        block = ctx.parts.get(key) if key is not None else None
        if block is not None and at[block.dimension] is block.row:
            for q in block.cut.limits_at(a.substitute(env) for a in at):
                zero.setdefault(q, set()).add(part)
    needless = {}
    for q, there in zero.items():
        others = [other for other in parts if other not in there]
        infinite = any(ctx.free_indices.free(other, env).issuperset(q.value.indices) for other in others)
        needless[q] = not infinite and not (strict and not all(map(is_number, others)))
    return needless


def _placed(ctx: Context, scope: Scope, plan: _Plan, v: Value) -> Value:
    """`v`, an array over the plan's domain, among zeros over the scope's."""
    if v.number == 0:
        return v
    v = among_zeros(ctx, plan.domain, scope.domain, v)
    masks = [*plan.eliminated, *(q for i, bounds in plan.bounds.items() if i not in v.axes for q in bounds)]
    if masks:
        v = where(mask(ctx, scope, conjunction(masks)), ctx.short(v, scope.block), scope.order)
    return v


def among_zeros(ctx: Context, ranges: Mapping[Index, Range], outer: Mapping[Index, Range], v: Value) -> Value:
    """`v`, whose axes have these ranges, over the outer ranges, zero where it has no element."""
    if all(ranges[i] == outer[i] for i in v.axes):
        return v
    places = []
    for i in v.axes:
        first = ranges[i].start
        places.append(ctx.shape((outer[i].start - first, outer[i].stop - first)))
    return Value(apply("_over", v.node, *places), v.axes, v.depth + 1, None, v.weak)
