"""Running sums: a sum whose only tie to some axis of the result is where it ends, or where it starts.

    gen i. sum j. [j <= a(i)] * e(j)  =  gen i. S[a(i) + 1]            where S[k] = sum j < k. e(j)

which takes as many additions as there are j, and not as there are pairs of i and j. The limit a(i) may be an element of
an index array.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.predicates import NonNegative, Predicate, free_atoms, substitute
from tensorlang.lower.accesses import access, positions
from tensorlang.lower.code import ATOM, Value
from tensorlang.lower.scope import Context, Held, Scope
from tensorlang.lower.summation import Contract, Summation
from tensorlang.recursion import Deep


def running(ctx: Context, c: Summation, contract: Contract) -> Deep[Value | None]:
    """`c` as a running sum; None if it is none."""
    found = next((found for q in c.parts if (found := _limited(ctx, c, q)) is not None), None)
    if found is None or c.whole or c.loops:
        return None
    limit, j = found
    scope, r, outer = c.scope, c.summed[j], c.scope.axes(limit)
    domain = {i: s for i, s in scope.domain.items() if i not in outer} | {j: r}
    masks = tuple(p for p in scope.masks if free_atoms(substitute(p, scope.env)).isdisjoint(outer))
    inner = ctx.scope(scope, domain=domain, masks=masks)
    parts = tuple(p for p in c.parts if p is not NonNegative(limit))
    e: Value = yield contract(ctx, replace(c, scope=inner, summed=c.without(j), parts=parts))
    if e.number == 0:
        return e
    backwards = limit.coefficient(j) > 0
    at = atom_affine(j) - limit if backwards else limit + atom_affine(j) + 1
    axis = e.axes.index(j)
    scope.block.line(f"# a running sum over {j.name}{' from its end' if backwards else ''}")
    helper = "_running_in_order" if c.selects else "_running"
    ctx.multiplied |= not c.selects
    code = f"{ctx.helper(helper)}({e.code}, {axis}, {backwards})"
    sums = ctx.temporary(Value(code), scope.block, "sums").code
    return _read(ctx, scope, Held(sums, tuple(inner.domain[i].extent + (i is j) for i in e.axes)), e, j, at - r.start)


def _limited(ctx: Context, c: Summation, q: Predicate) -> tuple[Affine, Index] | None:
    """What `q` says is not negative, and a summed index that it compares with axes of the result on which nothing
    else depends."""
    if not isinstance(q, NonNegative) or any(i in c.scope.loops for i in q.value.free):
        return None
    if any(i in c.summed for lookup in q.value.lookups for i in atom_affine(lookup).free):
        return None
    inside, outside = [i for i in c.summed if q.value.coefficient(i)], c.scope.axes(q.value)
    used = ctx.profiles.free(c.body, c.scope.env)
    if len(inside) != 1 or abs(q.value.coefficient(inside[0])) != 1 or inside[0] not in used or not outside:
        return None
    others = used.union(*(free_atoms(p) for p in c.parts if p is not q))
    return None if any(i in others for i in outside) else (q.value, inside[0])


def _read(ctx: Context, scope: Scope, sums: Held, e: Value, j: Index, at: Affine) -> Value:
    """`sums`, which has the axes of `e`, with `at` in the place of `j`: nearest to it where that is outside."""
    axis = e.axes.index(j)
    last = sums.shape[axis] - 1
    low, high = scope.bounds(at)
    facts = [r.extent - 1 for i in at.indices if (r := scope.range_of(i)) is not None]
    if ctx.integers.is_nonnegative(low, facts) and ctx.integers.is_nonnegative(last - high, facts):
        places = [at if i is j else atom_affine(i) - scope.domain[i].start for i in e.axes]
        return access(ctx, scope, sums, tuple(places))
    outer = scope.axes(at)
    place = f"jnp.clip({positions(ctx, scope, at, outer)}, 0, {ctx.integers.code(last)})"
    axes = (*e.axes[:axis], *outer, *e.axes[axis + 1 :])
    return Value(f"jnp.take({sums.name}, {place}, {axis})", axes, ATOM, 2)
