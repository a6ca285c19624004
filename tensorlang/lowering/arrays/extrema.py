"""The greatest and the least of values, and where they are first found.

The index is one more axis of the values, reduced at the end; what the predicate hides loses to everything. Where an
access such as x[2*i + j] mixes it with another, the values at each j are slices, of which a running extremum is taken.
Where an access mixes two axes, and one of them is short, there is an extremum for each of its places. Within a window
that moves along with another axis, the index counts from where the window starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.predicates import TRUE as ALWAYS
from tensorlang.language.predicates import (
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    exists,
    substitute,
    within,
)
from tensorlang.lowering.arrays.accesses import positions
from tensorlang.lowering.arrays.brackets import bracket, guarded
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.extrema_at_few_points import (
    at_either,
    at_point,
    in_either,
    one_or_another,
    one_point,
    one_window_or_another,
)
from tensorlang.lowering.arrays.extrema_in_order import over_order
from tensorlang.lowering.arrays.extreme import NAN, Extreme, whole_ranges
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Infix, List, Name, Negative, Node, Tuple
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.membership import without_implied
from tensorlang.lowering.arrays.running_extrema import limit, running
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.segment_extrema import Segments, over_points, segments
from tensorlang.lowering.arrays.sums.diagonal import NARROW
from tensorlang.lowering.arrays.sums.loop import expanded, function_of
from tensorlang.lowering.arrays.sums.numbered import Several, several, with_numbers
from tensorlang.lowering.arrays.sums.row_blocks import Along, along, block_of, given, narrowed, taken
from tensorlang.lowering.arrays.sums.running_in_groups import InOrder, in_groups, in_order
from tensorlang.lowering.arrays.sums.segment_sum import SegmentedSum, of_segments, shared
from tensorlang.lowering.arrays.sums.strategy import Strategy, WhyNot, by_first
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import (
    DTYPE,
    TRUE,
    Value,
    aligned,
    apply,
    cast,
    dtype_of,
    infix,
    integer,
    negated,
    union,
    where,
)
from tensorlang.lowering.plan.dependence import accesses, places
from tensorlang.recursion import Deep, call
from tensorlang.sets.solve import project


def extremum(ctx: Context, scope: Scope, e: Extremum | Choice, none: Node | None = NAN) -> Deep[Value]:
    """The array of an extremum, or of the places where it is first attained.

    Where data leave no point, the result is `none`, or anything if that is None; a place is anything if it is nan, too.
    """
    return _computed(ctx, Extreme(ctx, scope, e, none))


def _computed(ctx: Context, c: Extreme) -> Deep[Value]:
    return by_first(ctx, STRATEGIES, c, {}, c.e)


def bracketed_extremum(ctx: Context, scope: Scope, p: Predicate, e: Extremum | Choice) -> Deep[Value]:
    """The array of [p] * e.

    Conditions in `p` that data leave a point, which keep the extremum from being empty, need no test before the points
    are compared:

        [exists j. q and r] * max j where q and r. e  =  max j where q and r. e, which is 0 where it is empty
    """
    parts = conjuncts(p)
    asked = without_implied((*parts, *conjuncts(e.pred)), {e.index: Range(ZERO, e.size)})
    left = [q for q in parts if q in asked]
    if len(left) == len(parts):
        return bracket(ctx, scope, p, e)
    return guarded(ctx, scope, conjunction(left), e, lambda inner: extremum(ctx, inner, e, integer(0)))


def _or_none(rewrite: Callable[[Context, Extreme, Any], Deep[Value]]) -> Callable[[Context, Extreme, Any], Deep[Value]]:
    """`rewrite`, whose result is nan or anything where there is no point, with the value that is wanted there."""

    def rewritten(ctx: Context, c: Extreme, found: Any) -> Deep[Value]:
        v = yield from call(rewrite(ctx, c, found))
        if c.none is None or c.none == NAN:
            return v
        some = mask(ctx, c.scope, exists([(c.e.index, c.e.size)], c.e.pred))
        return where(some, v, c.scope.order, c.none)

    return rewritten


def _window(ctx: Context, c: Extreme) -> tuple[Affine, Affine] | WhyNot:
    """The start of a narrow window to which conditions confine the index at each point of the axes, and its width."""
    s, (_, p) = c.e.index, c.left
    bounds = [q.value for q in conjuncts(p) if isinstance(q, NonNegative) and abs(q.value.coefficient(s)) == 1]
    bounds = [a for a in bounds if not any(s in atom_affine(x).free for x in a.lookups)]
    firsts = [atom_affine(s) - a for a in bounds if a.coefficient(s) > 0]
    ends = [atom_affine(s) + a + 1 for a in bounds if a.coefficient(s) < 0]
    found = [(first, end - first) for first in firsts for end in ends if c.scope.axes(first) or first.lookups]
    found = [(first, n) for first, n in found if c.scope.is_static(n) and not c.scope.axes(n)]
    narrow = [(first, n) for first, n in found if _is_narrow(ctx, c.scope, c.e.size, first, n)]
    if not narrow:
        return WhyNot("no conditions bound the index from both sides, nearer to one another than the ends of its range")
    return next((w for w in narrow if w[1].is_constant), narrow[0])


def _is_narrow(ctx: Context, scope: Scope, extent: Affine, first: Affine, width: Affine) -> bool:
    """Whether a window has no more places than the range of the index, up to a factor, whatever the sizes are."""
    if width.is_constant or extent.is_constant:
        return width.is_constant and not (extent.is_constant and width.constant * 2 > extent.constant)
    low, high = scope.bounds(first)  # what there is of a wider window moves as far as it starts
    return any(ctx.integers.is_nonnegative(extent - most) for most in (width, high - low))


def _through_window(ctx: Context, c: Extreme, found: tuple[Affine, Affine]) -> Deep[Value]:
    """The extremum over places in the window, whose slices lie side by side."""
    first, width = found
    e, d = c.e, Index("d")
    scope = ctx.scope(c.scope, env={**c.scope.env, e.index: first + atom_affine(d)})
    low, high = c.scope.bounds(first)
    somewhere = [at_most(-high, atom_affine(d)), at_most(low + atom_affine(d), e.size - 1)]
    inside = conjunction([e.pred, within(atom_affine(e.index), e.size), *somewhere])
    moved = Extreme(ctx, scope, type(e)(e.sign, d, width, inside, e.body), NAN)
    v = yield from call(by_first(ctx, [s for s in STRATEGIES if s.match is not _window], moved, {}, moved.e))
    if isinstance(e, Choice):
        start = Value(positions(ctx, c.scope, first, c.scope.axes(first)), c.scope.axes(first), 1)
        v = infix(v, "+", start, c.scope.order)
    return v


def _running_extremum(ctx: Context, c: Extreme, found: Affine) -> Deep[Value]:
    v = yield from call(running(ctx, c.scope, c.e, c.left[0], found))
    return _counted(ctx, v, c.e, c.left[0])


def _segments(ctx: Context, c: Extreme) -> Segments | WhyNot:
    found = segments(ctx, c.scope, c.e, *c.left)
    return found or WhyNot("neither a relation nor an element of an index array says which values belong to which axis")


def _in_segments(ctx: Context, c: Extreme, found: Segments) -> Deep[Value]:
    return over_points(ctx, c.scope, c.e, found, c.none)


def _as_sum(c: Extreme) -> Summation:
    """The sum of the values that are compared."""
    r, p = c.left
    return Summation(c.scope, {c.e.index: r}, conjuncts(p), c.e.body)


def _in_range(c: Extreme) -> Predicate:
    """That the index is in the range that its condition leaves."""
    r = c.left[0]
    return within(atom_affine(c.e.index) - r.start, r.extent)


def _shared_segments(ctx: Context, c: Extreme) -> SegmentedSum | WhyNot:
    return shared(ctx, _as_sum(c))


def _of_numbers(ctx: Context, c: Extreme, found: Several) -> Deep[Value]:
    e = c.e
    pred = conjunction([_in_range(c), *with_numbers(ctx, _as_sum(c), found)])
    return extremum(ctx, c.scope, type(e)(e.sign, e.index, e.size, pred, e.body), c.none)


def _once_each(ctx: Context, c: Extreme, found: SegmentedSum) -> Deep[Value]:
    e, inner = c.e, found.c
    of_each = type(e)(e.sign, e.index, e.size, conjunction([_in_range(c), *inner.parts]), inner.body)
    some = (
        project({e.index: e.size}, substitute(e.pred, c.scope.env), whole_ranges(c.scope)) is ALWAYS
    )  # of each its own
    v = yield from call(extremum(ctx, inner.scope, of_each, None if some else c.none))
    return of_segments(ctx, c.scope, found, v, "chosen" if isinstance(e, Choice) else "extrema")


def _in_group_and_order(ctx: Context, c: Extreme) -> InOrder | WhyNot:
    return in_groups(ctx, _as_sum(c))


def _in_an_order(ctx: Context, c: Extreme) -> InOrder | WhyNot:
    return in_order(ctx, _as_sum(c))


def _over_order(ctx: Context, c: Extreme, found: InOrder) -> Deep[Value]:
    return over_order(ctx, _as_sum(c), c.e, found, c.none)


def _mixing(ctx: Context, c: Extreme) -> Extreme | WhyNot:
    return c if _is_mixed(c.scope, c.e) else WhyNot("no access mixes the index with an axis of the result")


def _slice_by_slice(ctx: Context, c: Extreme, _: Extreme) -> Deep[Value]:
    v = yield from call(_running(ctx, c.scope, c.e, *c.left))
    return _counted(ctx, v, c.e, c.left[0])


def _cut_array(ctx: Context, c: Extreme) -> Along | WhyNot:
    found = along(ctx, c.scope, c.scope.domain, accesses(c.e.body))
    return found or WhyNot("no array that is stored in blocks of rows is read along its rows")


def _on_axis(ctx: Context, c: Extreme, _: None) -> Deep[Value]:
    v = yield from call(_along_axis(ctx, c.scope, c.e, *c.left))
    return _counted(ctx, v, c.e, c.left[0])


def _counted(ctx: Context, v: Value, e: Extremum | Choice, r: Range) -> Value:
    """`v`, the places in it shifted by the start of the range `r`, from which they are counted."""
    if isinstance(e, Choice) and r.start is not ZERO:
        v = Value(Infix(v.node, "+", ctx.integers.node(r.start)), v.axes, v.depth + 1)
    return v


def _by_blocks(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate, found: Along) -> Deep[Value]:
    """The extrema in the rows of arrays that are cut, block by block."""
    block, row = ctx.new_block(), found.row
    within = ctx.scope(scope, block=block, fixed=block)
    part, own, names = given(ctx, within, found, scope.domain[row])
    limits = [q for q in conjuncts(p) if isinstance(q, NonNegative) and set(q.value.free) == {row, e.index}]
    index = narrowed(ctx, within, {row: own, e.index: r}, row, limits)[e.index]
    inner = ctx.scope(within, domain={**scope.domain, row: own})
    v: Value = yield from call(_along_axis(ctx, inner, e, index, p))
    taken(ctx, found)
    v = _counted(ctx, v, e, index)
    axes = tuple(i for i in scope.domain if i in v.axes or i is row)
    block.give(expanded(ctx, inner, v, axes))
    name = block_of(ctx, scope, block, row, part, names, limits)
    shape, axis = ctx.extents(scope, axes), integer(axes.index(row))
    return Value(apply("_array_by_blocks", found.cuts(ctx), name, axis, shape, dtype_of(e)), axes, 2)


def _is_mixed(scope: Scope, e: Extremum | Choice) -> bool:
    """Whether a position in the body is a combination of the index with an axis."""
    at = [a.substitute(scope.env) for read in accesses(e.body) for a in places(read)]
    return any(a.coefficient(e.index) and any(a.coefficient(i) for i in scope.domain) for a in at)


def _short_axis(scope: Scope, e: Extremum | Choice) -> Index | WhyNot:
    """A short axis that a position in the body mixes with another."""
    mixed = [scope.axes(a.substitute(scope.env)) for read in accesses(e.body) for a in places(read) if not a.lookups]
    for i in (i for axes in mixed if len(axes) > 1 for i in axes):
        extent = scope.domain[i].extent
        if extent.is_constant and extent.constant <= NARROW:
            return i
    return WhyNot(f"no access mixes an axis of the result of length at most {NARROW} with another one")


def _stacked(ctx: Context, c: Extreme, i: Index) -> Deep[Value]:
    """The extrema at each place of axis `i`, one after the other."""
    scope, e = c.scope, c.e
    name, r, block = ctx.loop_name(i), scope.domain[i], ctx.new_block()
    domain = {k: other for k, other in scope.domain.items() if k is not i}
    inner = ctx.scope(scope, domain=domain, loops={**scope.loops, i: r}, block=block)
    v = yield from call(extremum(ctx, inner, e, c.none))
    term = function_of(ctx, scope.block, block, [name], v)
    node = apply("_stack_over", List((ctx.range(r),)), term, ctx.extents(inner, v.axes), dtype_of(e))
    return Value(node, (i, *v.axes), 2)


def _along_axis(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate) -> Deep[Value]:
    inner = ctx.scope(scope, domain={**scope.domain, e.index: r}, masks=(*scope.masks, *conjuncts(p)))
    v = yield from call(ctx.value(e.body, inner))
    m = mask(ctx, inner, p)
    axes = union([v, m, Value(TRUE, (e.index,))], inner.order)
    values = expanded(ctx, inner, v, axes) if m.node == TRUE else aligned(v, axes).node
    if v.weak:
        values = cast(values)
    hidden = [] if m.node == TRUE else [expanded(ctx, inner, m, axes)]
    part = _NAMES[type(e), e.sign] + ("_where" if hidden else "")
    kept = tuple(i for i in axes if i is not e.index)
    return Value(apply(part, values, *hidden, integer(axes.index(e.index))), kept, v.depth + 1)


_NAMES = {
    (Extremum, 1): "_greatest",
    (Extremum, -1): "_least",
    (Choice, 1): "_first_greatest",
    (Choice, -1): "_first_least",
}


def _running(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate) -> Deep[Value]:
    """The extremum over slices, one for each value of the index; the least is minus the greatest of negated values."""
    name = ctx.loop_name(e.index)
    block = ctx.new_block()
    inner = ctx.scope(scope, loops={**scope.loops, e.index: r}, masks=(*scope.masks, *conjuncts(p)), block=block)
    v = yield from call(ctx.value(e.body, inner))
    if e.sign < 0:
        v = negated(v)
    if v.weak:
        v = Value(cast(v.node), v.axes)
    m = mask(ctx, inner, p)
    if isinstance(e, Extremum):
        part, v = "_greatest_over", where(m, v, inner.order, Negative(Name("jnp.inf")))
    elif m.node == TRUE:
        part = "_first_greatest_over"
    else:  # hidden values are not found, even if all others are -inf
        part, axes = "_first_greatest_where_over", union([v, m], inner.order)
        v = Value(Tuple(tuple(aligned(x, axes).node for x in (v, m))), axes)
    term = function_of(ctx, scope.block, block, [name], v)
    found = Value(apply(part, ctx.range(r), term, ctx.extents(inner, v.axes), DTYPE), v.axes, 2)
    return negated(found) if e.sign < 0 and isinstance(e, Extremum) else found


STRATEGIES: tuple[Strategy[Extreme], ...] = (
    Strategy(
        "stack along a short axis",
        "gen i:k. max j. e: for each i its own extremum, where an access mixes i with another axis",
        lambda ctx, c: _short_axis(c.scope, c.e),
        _stacked,
    ),
    Strategy(
        "one point",
        "max j where j = a. e: the value of e at a, where a is in the range of j",
        one_point,
        _or_none(at_point),
    ),
    Strategy(
        "one point or another",
        "max j where j = a or j = b. e: the greater one of the values of e at those of a and b that are in the range",
        one_or_another,
        _or_none(at_either),
    ),
    Strategy(
        "one window or another",
        "max j where i - w < j <= i or j < 2. e: the greater one of max j where i - w < j <= i. e and max j where "
        "j < 2. e, of those that are of something",
        one_window_or_another,
        _or_none(lambda ctx, c, found: in_either(ctx, c, found, _computed)),
    ),
    Strategy(
        "segments", "gen i. max j where R(i, j). e: the greatest of the points of each i", _segments, _in_segments
    ),
    Strategy(
        "shared segments",
        "gen i. max j where b[j] = a[i]. e(j) = gen i. M[a[i]], where M[k] = max j where b[j] = k. e(j)",
        _shared_segments,
        _once_each,
    ),
    Strategy(
        "numbered pairs",
        "gen i. max j where y[j] = a[i] and z[j] = b[i]. e(j) = gen i. max j where N[j] = M[i]. e(j), "
        "where pairs that are the same have the same number",
        lambda ctx, c: several(ctx, _as_sum(c)),
        _of_numbers,
    ),
    Strategy(
        "running extrema in groups",
        "gen i. max j where y[j] = a[i] and c(j) <= b(i). e(j): in the order of c(j) each is compared with the "
        "greatest of its group, which is read after b(i)",
        _in_group_and_order,
        _over_order,
    ),
    Strategy(
        "window",
        "gen i. max j where i - w < j <= i. e: the greatest at j = i - w + 1 + d, over d below w",
        _window,
        _or_none(_through_window),
    ),
    Strategy(
        "running extremum",
        "gen i. max j where j <= a(i). e(j) = gen i. M[a(i)], where M[k] = max j where j <= k. e(j)",
        lambda ctx, c: limit(ctx, c.scope, c.e, c.left[1]),
        _or_none(_running_extremum),
    ),
    Strategy(
        "extremum in an order",
        "gen i. max j where c(j) <= b(i). e(j): in the order of c(j) each is compared with the greatest, which is read "
        "after b(i)",
        _in_an_order,
        _over_order,
    ),
    Strategy(
        "slice by slice",
        "gen i. max j. x[a*i + b*j]: the greatest of slices, one for each j",
        _mixing,
        _or_none(_slice_by_slice),
    ),
    Strategy(
        "blocks of rows",
        "gen i. max j where j <= i. t[i, j]: over the blocks of rows that t is stored in",
        _cut_array,
        _or_none(lambda ctx, c, found: _by_blocks(ctx, c.scope, c.e, *c.left, found)),
    ),
    Strategy("along an axis", "max j. e: the greatest along the axis j of e", lambda ctx, c: None, _or_none(_on_axis)),
)
"""The ways to compute an extremum, in the order in which they are tried. The last applies to every one."""
