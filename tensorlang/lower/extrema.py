"""The greatest and the least of values, and where they are first found.

The index is one more axis of the values, reduced at the end; what the predicate hides is beaten by everything. Where an
access such as x[2*i + j] mixes it with another, the values at each j are slices, of which a running extremum is taken.
Where an access mixes two axes, and one of them is short, there is an extremum for each of its places.
"""

from __future__ import annotations

from tensorlang.language.affine import Affine, Index
from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.predicates import Predicate, conjunction, conjuncts, substitute
from tensorlang.lower.brackets import bound_on, bounded_index
from tensorlang.lower.code import ATOM, SUM, Value, aligned, negated, union, where
from tensorlang.lower.diagonals import NARROW
from tensorlang.lower.integers import ZERO, Range
from tensorlang.lower.loops import expanded, function_of
from tensorlang.lower.masks import mask
from tensorlang.lower.points import unresolved
from tensorlang.lower.profile import accesses, places
from tensorlang.lower.scope import Context, Scope
from tensorlang.recursion import Deep


def extremum(ctx: Context, scope: Scope, e: Extremum | Choice) -> Deep[Value]:
    """The array of an extremum, or of the places where it is first attained.

    Where there is no point, which only data can bring about here, the extremum is nan, and the place is any.
    """
    v: Value
    short = _short_axis(scope, e)
    if short is not None:
        v = yield _stacked(ctx, scope, e, short)
        return v
    r, p = _restricted(ctx, scope, e)
    v = yield (_running if _is_mixed(scope, e) else _along_axis)(ctx, scope, e, r, p)
    if isinstance(e, Choice) and r.start is not ZERO:
        v = Value(f"{v.within(SUM)} + {ctx.integers.code(r.start)}", v.axes, SUM, v.depth + 1)
    return v


def _restricted(ctx: Context, scope: Scope, e: Extremum | Choice) -> tuple[Range, Predicate]:
    """The range that the predicate leaves of the index, and what else it says."""
    r = ctx.integers.range_of(e.index, e.size, scope.fixed)
    starts: dict[Index, list[Affine]] = {}
    stops: dict[Index, list[Affine]] = {}
    rest = []
    for q in unresolved(ctx, scope, conjuncts(substitute(e.pred, scope.env))):
        bound = bounded_index(scope, {**scope.domain, e.index: r}, q)
        if bound is not None and bound[0] is e.index:
            bound_on(ctx, scope, *bound, starts, stops)
        else:
            rest.append(q)
    r = ctx.integers.restricted(e.index, r, starts.get(e.index, []), stops.get(e.index, []), scope.fixed)
    return r, conjunction(rest)


def _is_mixed(scope: Scope, e: Extremum | Choice) -> bool:
    """Whether a position in the body is a combination of the index with an axis."""
    at = [a.substitute(scope.env) for read in accesses(e.body) for a in places(read)]
    return any(a.coefficient(e.index) and any(a.coefficient(i) for i in scope.domain) for a in at)


def _short_axis(scope: Scope, e: Extremum | Choice) -> Index | None:
    """A short axis that a position in the body mixes with another."""
    mixed = [scope.axes(a.substitute(scope.env)) for read in accesses(e.body) for a in places(read) if not a.lookups]
    for i in (i for axes in mixed if len(axes) > 1 for i in axes):
        extent = scope.domain[i].extent
        if extent.is_constant and extent.constant <= NARROW:
            return i
    return None


def _stacked(ctx: Context, scope: Scope, e: Extremum | Choice, i: Index) -> Deep[Value]:
    """The extrema at each place of axis `i`, one after the other."""
    name, r, block = ctx.loop_name(i), scope.domain[i], ctx.new_block()
    domain = {k: other for k, other in scope.domain.items() if k is not i}
    inner = ctx.scope(scope, domain=domain, loops={**scope.loops, i: r}, block=block)
    v = yield extremum(ctx, inner, e)
    term = function_of(ctx, scope.block, block, [name], v)
    dtype = "dtype" if isinstance(e, Extremum) else "jnp.int32"
    code = f"{ctx.helper('_stack_over')}([{ctx.range_code(r)}], {term}, {ctx.extents(inner, v.axes)}, {dtype})"
    return Value(code, (i, *v.axes), ATOM, 2)


def _along_axis(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate) -> Deep[Value]:
    inner = ctx.scope(scope, domain={**scope.domain, e.index: r}, masks=(*scope.masks, *conjuncts(p)))
    v = yield ctx.value(e.body, inner)
    m = mask(ctx, inner, p)
    axes = union([v, m, Value("", (e.index,))], inner.order)
    values = expanded(ctx, inner, v, axes) if m.code == "True" else aligned(v, axes).code
    if v.weak:
        values = f"jnp.asarray({values}, dtype)"
    hidden = "" if m.code == "True" else f"{expanded(ctx, inner, m, axes)}, "
    helper = ctx.helper(_NAMES[type(e), e.sign] + ("_where" if hidden else ""))
    kept = tuple(i for i in axes if i is not e.index)
    return Value(f"{helper}({values}, {hidden}{axes.index(e.index)})", kept, ATOM, v.depth + 1)


_NAMES = {
    (Extremum, 1): "_greatest",
    (Extremum, -1): "_least",
    (Choice, 1): "_first_greatest",
    (Choice, -1): "_first_least",
}


def _running(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate) -> Deep[Value]:
    """Over slices, one for each value of the index; the least of values is minus the greatest of minus these."""
    name = ctx.loop_name(e.index)
    block = ctx.new_block()
    inner = ctx.scope(scope, loops={**scope.loops, e.index: r}, masks=(*scope.masks, *conjuncts(p)), block=block)
    v = yield ctx.value(e.body, inner)
    if e.sign < 0:
        v = negated(v)
    if v.weak:
        v = Value(f"jnp.asarray({v.code}, dtype)", v.axes)
    v = where(mask(ctx, inner, p), v, inner.order, "-jnp.inf")
    term = function_of(ctx, scope.block, block, [name], v)
    helper = ctx.helper("_greatest_over" if isinstance(e, Extremum) else "_first_greatest_over")
    code = f"{helper}({ctx.range_code(r)}, {term}, {ctx.extents(inner, v.axes)}, dtype)"
    found = Value(code, v.axes, ATOM, 2)
    return negated(found) if e.sign < 0 and isinstance(e, Extremum) else found
