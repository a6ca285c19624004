"""Sums over triangles, bands and other domains that are no boxes.

A mask over the whole box would do twice the work for a triangle, and any number of times for a band. So one index is
cut into blocks when the code is traced, and in each block the others only run over what some point of it needs:

    gen i. sum j. [j <= i] * e  =  for each block i0 <= i < i1:  sum j <= i0. e  +  sum i0 < j < i1. [j <= i] * e

where the first sum needs no mask. A band needs in each block a window whose length is the same for all blocks, so that
many blocks are a loop. A narrow band is the sum of its diagonals.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.predicates import Equal, NonNegative, Predicate
from tensorlang.lowering.arrays.brackets import among_zeros, zero_in_blocks
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Block, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.band import Band, band, window
from tensorlang.lowering.arrays.sums.diagonal import NARROW
from tensorlang.lowering.arrays.sums.einsum import masked_factor
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.sums.row_blocks import (
    Along,
    Limits,
    Ranges,
    along,
    block_of,
    bounds,
    given,
    involving,
    narrowed,
    taken,
)
from tensorlang.lowering.arrays.sums.strategy import DECIDED, NOT_A_SUM, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, dtype_of, integer, literal, plus
from tensorlang.lowering.plan.dependence import accesses, factors, places
from tensorlang.recursion import Deep, call

Cutting = Index | Along | Band
"""What a sum is cut along: the index of a block that it is within, arrays that are cut, or a band."""


def _cutting(ctx: Context, c: Summation) -> Cutting | WhyNot:
    """What `c` is cut along, unless its domain is a box or an access mixes indices, which takes other ways."""
    if c.whole or not c.summed:
        return DECIDED if c.whole else NOT_A_SUM
    if _mixes(c):
        return WhyNot("an access mixes a summed index with another index")
    inside = next((i for i in c.ranges if i in ctx.open_blocks and i not in c.cut), None)
    if inside is not None:
        return inside
    found = along(ctx, c.scope, c.ranges, accesses(c.body))
    if found is not None:
        return found
    limits = [q for q in _limits(c) if sum(i not in c.cut for i in c.axes(q.value)) > 1]
    if not limits:
        return WhyNot("no comparison of two indices cuts the domain: it is a box")
    b = band(ctx, c.ranges, limits) or _few_diagonals(c, limits)
    if b is None:
        return Along(_row(ctx, c, limits), ())
    return b if b.column in c.summed else WhyNot("the band is over two axes of the result, which a mask hides")


def _cut(ctx: Context, c: Summation, found: Cutting) -> Deep[Value]:
    match found:
        case Index():
            return ctx.contract(_within_block(ctx, c, found))
        case Along():
            return _by_blocks(ctx, c, found)
        case Band():
            if found.width.is_constant and found.width.constant <= NARROW:
                return ctx.contract(_along_diagonals(c, found))
            return _by_windows(ctx, c, found)


BLOCKS = Strategy(
    "blocks of rows",
    "sum i, j. [j <= i] * e: over blocks of rows, each of which has the columns that it needs",
    _cutting,
    _cut,
)


def _mixes(c: Summation) -> bool:
    """Whether an access has a position that depends on a summed index and on another."""
    found = (c.axes(a.substitute(c.scope.env)) for e in accesses(c.body) for a in places(e))
    return any(len(axes) > 1 and any(i in c.summed for i in axes) for axes in found)


def _row(ctx: Context, c: Summation, limits: Limits) -> Index:
    """The index that is cut. Blocks of a result are laid side by side, blocks of a sum are added up: the latter where
    the sum reads whole rows of an array that is much larger than the result."""
    open_axes = {i for q in limits for i in c.axes(q.value) if i not in c.cut}
    read = masked_factor(ctx, c)
    if read is not None and open_axes.issuperset(c.ranges):
        first = places(read)[0].substitute(c.scope.env)
        row = next((i for i in open_axes if first is atom_affine(i)), None)
        if row is not None:
            return row
    return next(i for i in c.ranges if i in open_axes)


def _limits(c: Summation) -> Limits:
    """The comparisons of several indices that involve neither a loop nor data."""
    parts = (q for q in c.parts if isinstance(q, NonNegative))
    return [q for q in parts if c.scope.is_static(q.value) and not q.value.lookups and len(c.axes(q.value)) > 1]


def _few_diagonals(c: Summation, limits: Limits) -> Band | None:
    """A narrow band whose column is a summed index, and whose first column depends on several other indices."""
    for low in limits:
        column = next((s for s in c.summed if low.value.coefficient(s) == 1), None)
        if column is None or len(c.axes(low.value)) < 3:
            continue
        for high in limits:
            width = low.value + high.value + 1
            if width.is_constant and 0 < width.constant <= NARROW:
                row = next(i for i in c.axes(low.value) if i is not column)
                return Band(row, column, atom_affine(column) - low.value, width, (low, high))
    return None


def _along_diagonals(c: Summation, b: Band) -> Summation:
    """sum j. [0 <= j - first < width] * e  =  sum u:width. sum j. [u = j - first] * e."""
    u = Index(b.column.name)
    on = Equal(atom_affine(b.column) - b.first - atom_affine(u))
    parts = (*(q for q in c.parts if q not in b.parts), on)
    return replace(c, summed={**c.summed, u: Range(ZERO, b.width)}, parts=parts, loops=frozenset({u}))


def _by_blocks(ctx: Context, c: Summation, found: Along) -> Deep[Value]:
    """`c` with an index cut into blocks, whose number is chosen when the code is traced, in step with the blocks of
    arrays that are cut."""
    scope, block, i = c.scope, ctx.new_block(), found.row
    within = ctx.scope(scope, block=block, fixed=block)
    rows, own, names = given(ctx, within, found, c.ranges[i])
    c, limits = _with_limits(ctx, c, i)
    ranges = narrowed(ctx, within, {**c.ranges, i: own}, i, limits)
    v = literal(Fraction(0))
    for box, parts in _boxes(ctx, within, replace(c, cut=c.cut | {i}), involving(_limits(c), i), ranges):
        inner = ctx.scope(within, domain={k: box[k] for k in scope.domain})
        summed = {k: box[k] for k in c.summed}
        part = yield from call(ctx.contract(replace(c, scope=inner, summed=summed, parts=parts, cut=c.cut | {i})))
        v = plus(v, ctx.short(part, block), 1, scope.order)
    taken(ctx, found)
    if v.number == 0:
        return v
    whole = ctx.scope(within, domain={**scope.domain, **({i: own} if i in scope.domain else {})})
    v = among_zeros(ctx, ranges, whole.domain, v)
    axes = tuple(k for k in scope.domain if k in v.axes or k is i)
    block.give(expanded(ctx, whole, v, axes))
    r, node = c.ranges[i], ctx.integers.node
    name = block_of(ctx, scope, block, i, rows, names, limits)
    if found.keys:
        return _joined(ctx, c, i, axes, "blocks", (found.cuts(ctx), name))
    work = [r.extent for k, r in c.ranges.items() if k is not i and not involving(limits, k)]
    cuts = apply("_cuts", node(r.start), node(r.stop), ctx.integers.volume(work))
    return _joined(ctx, c, i, axes, "blocks", (cuts, name))


def _within_block(ctx: Context, c: Summation, i: Index) -> Summation:
    """`c` within a block of `i`, over the ranges that this needs."""
    c, limits = _with_limits(ctx, c, i)
    ranges = narrowed(ctx, c.scope, c.ranges, i, limits)
    return replace(c, summed={k: ranges[k] for k in c.summed}, cut=c.cut | {i})


def _with_limits(ctx: Context, c: Summation, i: Index) -> tuple[Summation, Limits]:
    """`c` without the limits beyond which the blocks of rows that it reads are zero anyway; and all limits of `i`."""
    zero = zero_in_blocks(ctx, c.scope.env, factors(c.body), ctx.strict)
    limits = dict.fromkeys([*_limits(c), *zero])
    kept = tuple(q for q in c.parts if not (isinstance(q, NonNegative) and zero.get(q, False)))
    return replace(c, parts=kept), involving(list(limits), i)


def _boxes(
    ctx: Context, within: Scope, c: Summation, limits: Limits, ranges: Ranges
) -> list[tuple[Ranges, tuple[Predicate, ...]]]:
    """The boxes that make up a block, and the predicate in each.

    Along one summed index there are up to three: where all points of the block are within limits, and on either side of
    that, where only some are. A factor that is masked is copied anyway, all of it at once.
    """
    pairs = [q for q in limits if len(c.axes(q.value)) == 2]
    j = next((j for j in c.summed if involving(pairs, j) and j not in c.cut), None)
    if j is None or masked_factor(ctx, c) is not None:
        return [(ranges, c.parts)]
    implied = involving(pairs, j)
    starts, stops = bounds(ctx, within, ranges, j, implied, -1)
    name, integers, block, outer = f"{j.name}_inner", ctx.integers, within.block, ranges[j]
    first, last = outer.start, outer.stop
    if starts:
        first = integers.greatest(name, [first, *starts], block, [])
        first = integers.least(name, [last, first], block)
    if stops:
        last = integers.least(name, [last, *stops], block)
        last = integers.greatest(name, [first, last], block, [outer.stop])
    if not starts:
        last = _worthwhile(ctx, block, name, last, first, outer)
    elif not stops:
        first = _worthwhile(ctx, block, name, first, last, outer)
    inside = tuple(q for q in c.parts if q not in implied)
    parts = [(Range(outer.start, first), c.parts), (Range(first, last), inside), (Range(last, outer.stop), c.parts)]
    return [({**ranges, j: r}, p) for r, p in parts if r.extent is not ZERO]


def _worthwhile(ctx: Context, block: Block, name: str, inner: Affine, edge: Affine, outer: Range) -> Affine:
    """`inner`, or `edge` if too little lies between the two to be worth an operation of its own."""
    chosen = apply("_worthwhile", ctx.integers.node(inner), ctx.integers.node(edge))
    return ctx.integers.named(name, chosen, block, [outer.start], [outer.stop])


def _by_windows(ctx: Context, c: Summation, b: Band) -> Deep[Value]:
    """`c` in blocks of rows, each over a window of columns of a length that only depends on the number of rows."""
    scope, w = c.scope, window(ctx, c.scope, c.ranges, b)
    summed = dict(w.moved.get(k, (k, r)) for k, r in c.summed.items())
    v: Value = yield from call(ctx.contract(replace(c, scope=w.scope, summed=summed, whole=True)))
    if v.number == 0:
        return v
    v = w.named(v)
    axes = tuple(k for k in scope.domain if k in v.axes or k is b.row)
    w.block.give(expanded(ctx, w.outside(ctx, scope), v, axes))
    name = w.define(ctx, scope, b)
    rows = c.ranges[b.row]
    bounds = ctx.integers.nodes((rows.start, rows.stop, b.width))
    return _joined(ctx, c, b.row, axes, "windows", (*bounds, name))


def _joined(ctx: Context, c: Summation, i: Index, axes: Axes, kind: str, arguments: tuple[Node, ...]) -> Value:
    """The results of the blocks of `i`: one after the other if it is one of the axes, else added up."""
    shape, dtype = ctx.extents(c.scope, axes), dtype_of(c.body)
    if i in axes:
        node = apply(f"_array_by_{kind}", *arguments, integer(axes.index(i)), shape, dtype)
    else:
        node = apply(f"_sum_by_{kind}", *arguments, shape, dtype)
    return Value(node, axes, 2)
