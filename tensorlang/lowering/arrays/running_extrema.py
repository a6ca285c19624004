"""Running extrema: an extremum whose only tie to axes of the result is where it ends, or where it starts.

    gen i. max j where j <= a(i). e(j)  =  gen i. M[a(i)]            where M[k] = max j where j <= k. e(j)

which compares each e(j) a few times, and not once for each i. The limit a(i) may be an element of an index array.
"""

from __future__ import annotations

from tensorlang.language.affine import Affine, atom_affine, constant
from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.predicates import TRUE, NonNegative, Predicate, at_most, conjuncts
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Name
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.sums.prefix_sum import read_nearest
from tensorlang.lowering.arrays.sums.strategy import WhyNot
from tensorlang.lowering.arrays.values import Value, apply, cast, integer, where
from tensorlang.recursion import Deep, call

_PARTS = {
    (Extremum, 1): "_running_greatest",
    (Extremum, -1): "_running_least",
    (Choice, 1): "_running_first_greatest",
    (Choice, -1): "_running_first_least",
}


def limit(ctx: Context, scope: Scope, e: Extremum | Choice, p: Predicate) -> Affine | WhyNot:
    """The value that `p` says is not negative, if that alone ties the index of `e` to axes of the result."""
    found = [q for q in conjuncts(p) if q is not TRUE]
    a = found[0].value if len(found) == 1 and isinstance(found[0], NonNegative) else None
    if a is None or abs(a.coefficient(e.index)) != 1 or any(e.index in atom_affine(x).free for x in a.lookups):
        return WhyNot("there is not just one comparison with the index")
    used, outer = ctx.free_indices.free(e.body, scope.env), scope.axes(a)
    if not outer or e.index not in used or any(i in used for i in outer) or any(i in scope.loops for i in a.free):
        return WhyNot("the comparison is not all that ties the index to some axis of the result")
    return a


def running(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, a: Affine) -> Deep[Value]:
    """`e` over the values of its index, in the range `r`, where `a` is not negative: read from a running extremum."""
    j, outer = e.index, scope.axes(a)
    backwards = a.coefficient(j) > 0
    end = atom_affine(j) - a if backwards else atom_affine(j) + a
    domain = {i: s for i, s in scope.domain.items() if i not in outer} | {j: r}
    inner = ctx.scope(scope, domain=domain, masks=scope.masks_without(outer))
    v = yield from call(ctx.value(e.body, inner))
    axes = tuple(i for i in inner.order if i in v.axes or i is j)
    values = expanded(ctx, inner, v, axes)
    values = cast(values) if v.weak else values
    part = _PARTS[type(e), e.sign]
    node = apply(part, values, integer(axes.index(j)), Name(str(backwards)))
    lengths = {i: domain[i].extent for i in axes}
    if not ctx.integers.is_nonnegative(r.extent - 1, _nonempty(scope, end)):
        # rows must have something to read, even if it is hidden
        lengths[j] = ctx.integers.greatest(f"{j.name}_size", [constant(1), r.extent], scope.block, [])
        node = apply("_over", node, *(ctx.shape((ZERO, n)) for n in lengths.values()))
    name = ctx.named_array(Value(node), scope.block, "running")
    held = Held(name, tuple(lengths.values()))
    found = read_nearest(ctx, scope, held, axes, j, end - r.start)
    some = at_most(end, r.last) if backwards else at_most(r.start, end)
    if isinstance(e, Choice) or _always(ctx, scope, some):
        return found
    return where(mask(ctx, scope, some), found, scope.order, Name("jnp.nan"))


def _always(ctx: Context, scope: Scope, q: Predicate) -> bool:
    if not isinstance(q, NonNegative):
        return q is TRUE
    return ctx.integers.is_nonnegative(scope.bounds(q.value)[0], _nonempty(scope, q.value))


def _nonempty(scope: Scope, a: Affine) -> list[Affine]:
    """Values that are not negative where each index of `a` has a value."""
    return [r.extent - 1 for i in a.indices if (r := scope.range_of(i)) is not None]
