"""Sums of three factors up to where the result stands, as causal linear attention has them, in chunks.

    gen i, b. sum j, k. [j <= i] * q[i, k] * r[j, k] * v[j, b]
        =  gen i, b. sum k. q[i, k] * S[i, k, b]          where S[i, k, b] = sum j. [j <= i] * r[j, k] * v[j, b]

For a chunk of rows what is before the chunk comes from one S, and what is within it from the products of its rows with
one another: of n rows in chunks of c that takes n * c * (|k| + |b|) + 2 * n * |k| * |b| products, and not n^2.

Also with what decays in between, as gated linear attention has it; then q and r need not be there:

    gen i, b. sum j, k. [j <= i] * exp(l[i] - l[j]) * q[i, k] * r[j, k] * v[j, b]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Access, Expr, Mul, number
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
from tensorlang.lower.plan.products import decay
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Chunks:
    """The only condition on indices and those on sizes; the axis of the result and the summed index that it compares;
    the other summed index, the axis of the third factor, and those that all share; and the factors. Where there are
    `exponents`, a of the row and b of exp(a - b), the third factor may be the only one.

    The last one that a row sees, or the first one, is that of the row plus `shift`, or before or after it if that is 0
    and `strict`; all those of rows that see any, and all that are summed over, are in `every` range.
    """

    limit: NonNegative
    shift: int
    every: Range
    outer: tuple[Predicate, ...]
    row: Index
    summed: Index
    inner: Index | None
    column: Index | None
    batch: tuple[Index, ...]
    query: Expr | None
    key: Expr | None
    value: Expr | None
    exponents: tuple[Expr, Expr] | None

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
    if len(c.summed) not in (1, 2) or not isinstance(c.body, Mul):
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
    inner = next((k for k in c.summed if k is not summed), None)
    if abs(k := limit.value.coefficient(row)) != 1:
        return None
    shift = 0 if limit.value.constant == -1 else k * limit.value.constant
    every = _every(ctx, c.scope.domain[row], c.summed[summed], shift, k < 0)
    if every is None:
        return None
    every_factor = factors(c.body)
    decays = [e for e in every_factor if decay(e) is not None]
    parts = [e for e in every_factor if e not in decays]
    exponents = _exponents(ctx, c, decays[0], row, summed) if len(decays) == 1 else None
    if decays and (exponents is None or c.selects):
        return None
    free = [ctx.free_indices.free(e, c.scope.env) for e in parts]
    query = [k for k, used in enumerate(free) if row in used]
    key = [k for k, used in enumerate(free) if inner in used and row not in used]
    rest = [k for k in range(len(parts)) if k not in query and k not in key]
    pairs = 0 if inner is None and decays else 1
    if len(query) != pairs or len(key) != pairs or not all(isinstance(e, Access) for e in parts):
        return None
    first, second = (frozenset().union(*(free[k] for k in some)) for some in (query, key))
    third = frozenset({summed}).union(*(free[k] for k in rest))
    shared = (first | second).union(*(ctx.free_indices.free(e, c.scope.env) for e in decays))
    batch = tuple(i for i in c.scope.domain if i in shared - {row, summed, inner})
    columns = [i for i in third if i is not summed and i not in batch]
    if pairs and (summed in first or inner not in first or summed not in second):
        return None
    if any(summed not in free[k] for k in rest):
        return None
    if len(columns) > 1 or any(i in c.scope.loops for used in (*free, shared) for i in used):
        return None
    value = fold(Mul, [parts[k] for k in rest]) if rest else None
    column = columns[0] if columns else None
    asked, given = (parts[k[0]] if k else None for k in (query, key))
    return _Chunks(limit, shift, every, outer, row, summed, inner, column, batch, asked, given, value, exponents)


def _exponents(ctx: Context, c: Summation, e: Expr, row: Index, summed: Index) -> tuple[Expr, Expr] | None:
    """a, of the row, and b, of what is summed, of exp(a - b)."""
    found = decay(e)
    if found is None:
        return None
    first, second = (ctx.free_indices.free(x, c.scope.env) for x in found)
    if row in first and summed in second and summed not in first and row not in second:
        return found
    if summed in first and row in second and row not in first and summed not in second:
        return Mul(number(-1), found[1]), Mul(number(-1), found[0])
    return None


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
    shown = Range(found.every.start - found.shift, found.every.stop - found.shift)
    every = {**c.ranges, found.row: shown, found.summed: found.every}
    if found.exponents is not None:
        return (yield from call(_decaying(ctx, c, inner, found, found.exponents, every)))
    assert found.inner is not None and found.query is not None and found.key is not None
    query = yield from call(_laid_out(ctx, inner, found.query, (*found.batch, found.row, found.inner)))
    key = yield from call(_laid_out(ctx, inner, found.key, (*found.batch, found.summed, found.inner)))
    last = () if found.column is None else (found.column,)
    query = _over(ctx, c.ranges, every, query, (*found.batch, found.row, found.inner))
    key = _over(ctx, c.ranges, every, key, (*found.batch, found.summed, found.inner))
    value = None
    if found.value is not None:
        value = yield from call(_laid_out(ctx, inner, found.value, (*found.batch, found.summed, *last)))
        value = _over(ctx, c.ranges, every, value, (*found.batch, found.summed, *last))
    _note(scope, found)
    ctx.multiplied |= not c.selects
    parts = [query, key, Name("None") if value is None else value]
    flags = [Name(str(flag)) for flag in (found.backwards, found.strict, found.column is not None, bool(c.selects))]
    axes = (*found.batch, found.row, *last)
    return Value(_over(ctx, every, c.ranges, apply("_sum_in_chunks", *parts, *flags), axes), axes, 1)


def _note(scope: Scope, found: _Chunks) -> None:
    scope.block.note(
        f"sums over {found.summed.name} {'from' if found.backwards else 'up to'} {found.row.name}, in chunks"
    )


def _decaying(
    ctx: Context,
    c: Summation,
    inner: Scope,
    found: _Chunks,
    exponents: tuple[Expr, Expr],
    every: Mapping[Index, Range],
) -> Deep[Value]:
    """The sums with exp(a - b) between the factors."""
    last = () if found.column is None else (found.column,)
    others = () if found.inner is None else (found.inner,)
    laid: list[Node] = []
    for e, own in (
        (exponents[0], (found.row,)),
        (exponents[1], (found.summed,)),
        (found.query, (found.row, *others)),
        (found.key, (found.summed, *others)),
        (found.value, (found.summed, *last)),
    ):
        if e is None:
            laid.append(Name("None"))
            continue
        axes = (*found.batch, *own)
        x = yield from call(_laid_out(ctx, inner, e, axes))
        laid.append(_over(ctx, c.ranges, every, x, axes))
    _note(c.scope, found)
    flags: list[Node] = [Name(str(flag)) for flag in (found.backwards, found.strict, found.column is not None)]
    summed, first = c.ranges[found.summed], found.every.start
    if summed != found.every:
        flags.append(ctx.shape((summed.start - first, summed.stop - first)))
    axes = (*found.batch, found.row, *last)
    return Value(_over(ctx, every, c.ranges, apply("_decaying_in_chunks", *laid, *flags), axes), axes, 1)


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
