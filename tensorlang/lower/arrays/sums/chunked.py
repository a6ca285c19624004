"""Sums of three factors up to where the result stands, as causal linear attention has them, in chunks.

    gen i, b. sum j, k. [j <= i] * q[i, k] * r[j, k] * v[j, b]
        =  gen i, b. sum k. q[i, k] * S[i, k, b]          where S[i, k, b] = sum j. [j <= i] * r[j, k] * v[j, b]

For a chunk of rows what is before the chunk comes from one S, and what is within it from the products of its rows with
one another: of n rows in chunks of c that takes n * c * (|k| + |b|) + 2 * n * |k| * |b| products, and not n^2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Access, Expr, Mul
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, free_atoms
from tensorlang.lower.arrays.brackets import among_zeros, guarded
from tensorlang.lower.arrays.context import Context
from tensorlang.lower.arrays.integers import Range
from tensorlang.lower.arrays.ir import Name, Node
from tensorlang.lower.arrays.scope import Scope
from tensorlang.lower.arrays.sums.loop import whole
from tensorlang.lower.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.arrays.values import Axes, Value, apply
from tensorlang.lower.plan.dependence import factors
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Chunks:
    """The only condition on indices and those on sizes; the axis of the result and the summed index that it compares;
    the other summed index, the axis of the third factor, and those that all share; and the factors. The last one that
    a row sees, or the first one, is that of the row plus `shift`, or before or after it if that is 0 and `strict`; all
    those of rows that see any, and all that are summed over, are in `every` range."""

    limit: NonNegative
    shift: int
    every: Range
    outer: tuple[Predicate, ...]
    row: Index
    summed: Index
    inner: Index
    column: Index | None
    batch: tuple[Index, ...]
    query: Expr
    key: Expr
    value: Expr | None

    @property
    def backwards(self) -> bool:
        """Whether the sum is over what comes after the row."""
        return self.limit.value.coefficient(self.summed) > 0

    @property
    def strict(self) -> bool:
        """Whether the row itself is left out."""
        return self.limit.value.constant == -1 and not self.shift


def _three_factors(ctx: Context, c: Summation) -> _Chunks | WhyNot:
    if c.whole:
        return DECIDED
    if len(c.summed) != 2 or not isinstance(c.body, Mul):
        return WhyNot("it is no sum of products over two indices")
    outer = tuple(q for q in c.parts if not any(isinstance(a, Index) for a in free_atoms(q)))
    ties = [q for q in c.parts if q not in outer]
    limit = ties[0] if len(ties) == 1 else None
    if not isinstance(limit, NonNegative) or len(limit.value.terms) != 2:
        return WhyNot("one comparison of a summed index with an axis of the result is not its only condition")
    found = _roles(ctx, c, limit, outer)
    return found or WhyNot(
        "the factors are not those of a row, of what is summed, and of both with one more index each"
    )


def _roles(ctx: Context, c: Summation, limit: NonNegative, outer: tuple[Predicate, ...]) -> _Chunks | None:
    rows = [i for i in c.scope.axes(limit.value) if i not in c.summed]
    ends = [j for j in c.summed if limit.value.coefficient(j)]
    if len(rows) != 1 or len(ends) != 1 or limit.value.coefficient(rows[0]) + limit.value.coefficient(ends[0]):
        return None
    row, summed = rows[0], ends[0]
    (inner,) = (k for k in c.summed if k is not summed)
    if abs(k := limit.value.coefficient(row)) != 1:
        return None
    shift = 0 if limit.value.constant == -1 else k * limit.value.constant
    every = _every(ctx, c.scope.domain[row], c.summed[summed], shift, k < 0)
    if every is None:
        return None
    parts = factors(c.body)
    free = [ctx.free_indices.free(e, c.scope.env) for e in parts]
    query = [k for k, used in enumerate(free) if row in used]
    key = [k for k, used in enumerate(free) if inner in used and row not in used]
    rest = [k for k in range(len(parts)) if k not in query and k not in key]
    if len(query) != 1 or len(key) != 1 or not all(isinstance(e, Access) for e in parts):
        return None
    first, second = free[query[0]], free[key[0]]
    third = frozenset({summed}).union(*(free[k] for k in rest))
    batch = tuple(i for i in c.scope.domain if i in (first | second) - {row, summed, inner})
    columns = [i for i in third if i is not summed and i not in batch]
    if summed in first or inner not in first or summed not in second or any(summed not in free[k] for k in rest):
        return None
    if len(columns) > 1 or any(i in c.scope.loops for used in free for i in used):
        return None
    value = fold(Mul, [parts[k] for k in rest]) if rest else None
    column = columns[0] if columns else None
    return _Chunks(limit, shift, every, outer, row, summed, inner, column, batch, parts[query[0]], parts[key[0]], value)


def _every(ctx: Context, row: Range, summed: Range, shift: int, backwards: bool) -> Range | None:
    """What is summed over, and what the rows that see all of that see last, or first if `backwards`."""
    start, stop = row.start + shift, row.stop + shift
    further = start - summed.start if backwards else summed.stop - stop
    if ctx.integers.is_nonnegative(further):
        return summed
    if not ctx.integers.is_nonnegative(-further):
        return None
    return Range(start, summed.stop) if backwards else Range(summed.start, stop)


def _in_chunks(ctx: Context, c: Summation, found: _Chunks) -> Deep[Value]:
    if found.outer:
        alone = replace(c, parts=(found.limit,))

        def compute(inner: Scope) -> Deep[Value]:
            return ctx.contract(replace(alone, scope=inner))

        return (yield from call(guarded(ctx, c.scope, conjunction(found.outer), c.body, compute)))
    scope = c.scope
    inner = ctx.scope(scope, domain=c.ranges, masks=())
    query = yield from call(_laid_out(ctx, inner, found.query, (*found.batch, found.row, found.inner)))
    key = yield from call(_laid_out(ctx, inner, found.key, (*found.batch, found.summed, found.inner)))
    last = () if found.column is None else (found.column,)
    shown = Range(found.every.start - found.shift, found.every.stop - found.shift)
    every = {**c.ranges, found.row: shown, found.summed: found.every}
    query = _over(ctx, c.ranges, every, query, (*found.batch, found.row, found.inner))
    key = _over(ctx, c.ranges, every, key, (*found.batch, found.summed, found.inner))
    value = None
    if found.value is not None:
        value = yield from call(_laid_out(ctx, inner, found.value, (*found.batch, found.summed, *last)))
        value = _over(ctx, c.ranges, every, value, (*found.batch, found.summed, *last))
    scope.block.note(
        f"sums over {found.summed.name} {'from' if found.backwards else 'up to'} {found.row.name}, in chunks"
    )
    ctx.multiplied |= not c.selects
    parts = [query, key, Name("None") if value is None else value]
    flags = [Name(str(flag)) for flag in (found.backwards, found.strict, found.column is not None, bool(c.selects))]
    axes = (*found.batch, found.row, *last)
    return Value(_over(ctx, every, c.ranges, apply("_sum_in_chunks", *parts, *flags), axes), axes, 1)


def _over(ctx: Context, own: Mapping[Index, Range], wanted: Mapping[Index, Range], x: Node, axes: Axes) -> Node:
    """The array, whose axes have their own ranges, over the wanted ones: zero where it has no element."""
    return among_zeros(ctx, own, wanted, Value(x, axes, 1)).node


def _laid_out(ctx: Context, inner: Scope, e: Expr, axes: Sequence[Index]) -> Deep[Node]:
    v: Value = yield from call(ctx.value(e, ctx.scope(inner, domain={i: inner.domain[i] for i in axes})))
    return whole(ctx, inner, v, tuple(axes))


CHUNKS = Strategy(
    "chunks",
    "gen i. sum j, k. [j <= i] * q[i, k] * r[j, k] * v[j] = gen i. sum k. q[i, k] * sum j. [j <= i] * r[j, k] * v[j]",
    _three_factors,
    _in_chunks,
)
