"""Running sums of three factors, as causal linear attention has them, in chunks.

    gen i, b. sum j, k. [j <= i] * q[i, k] * r[j, k] * v[j, b]
        =  gen i, b. sum k. q[i, k] * S[i, k, b]          where S[i, k, b] = sum j. [j <= i] * r[j, k] * v[j, b]

For a chunk of rows, all that comes before the chunk is in one S, and within the chunk rows are multiplied with one
another. For n rows in chunks of c that takes n * c * (|k| + |b|) + 2 * n * |k| * |b| products, and not n^2.

Also with factors that decay, as gated linear attention has them, and with differences; then q and r are optional:

    gen i, b. sum j, k. [j <= i] * exp(l[i] - l[j]) * g^(i - j) * (x[i] - x[j]) * q[i, k] * r[j, k] * v[j, b]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as fold

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Access, Expr, Mul, bracket, number
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, free_atoms
from tensorlang.lowering.arrays.brackets import among_zeros, guarded
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import Range
from tensorlang.lowering.arrays.ir import Name, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer, integers, tuple_of
from tensorlang.lowering.plan.decays import Pairs, pairs_of
from tensorlang.lowering.plan.dependence import factors
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Chunks:
    """A sum that can be computed in chunks.

    `limit` is its only condition on two indices: on `row`, an axis of the result, and `summed`. `outer` are conditions
    on sizes. `inner` are other summed indices, `columns` the axes of the third factor, and `batch` those that all
    share, some of which are summed over in the end. With `pairs`, of both ends, the third factor may be the only other
    one.

    The sum of a row ends, or starts if it is `backwards`, at row + `shift`; or just before or after the row if it is
    `strict`, where the shift is 0. The range `every` has all that is summed over, and the ends of all nonempty sums.
    """

    limit: NonNegative
    shift: int
    every: Range
    outer: tuple[Predicate, ...]
    row: Index
    summed: Index
    inner: tuple[Index, ...]
    columns: tuple[Index, ...]
    batch: tuple[Index, ...]
    query: Expr | None
    key: Expr | None
    value: Expr | None
    pairs: Pairs

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
    outer = tuple(q for q in c.parts if not _indices(q))
    ties = [q for q in c.parts if q not in outer]
    several = [q for q in ties if len(_indices(q)) > 1]
    limit = several[0] if len(several) == 1 else None
    if not isinstance(limit, NonNegative) or len(limit.value.terms) != 2:
        return WhyNot("one comparison of a summed index with an axis of the result is not its only condition")
    found = _roles(ctx, c, limit, outer, [q for q in ties if q is not limit])
    return found or WhyNot(
        "the factors are not those of a row, of what is summed, and of both with one more index each"
    )


def _indices(q: Predicate) -> set[Index]:
    return {i for i in free_atoms(q) if isinstance(i, Index)}


def _roles(
    ctx: Context, c: Summation, limit: NonNegative, outer: tuple[Predicate, ...], others: Sequence[Predicate]
) -> _Chunks | None:
    rows = [i for i in c.scope.axes(limit.value) if i not in c.summed]
    ends = [j for j in c.summed if limit.value.coefficient(j)]
    if len(rows) != 1 or len(ends) != 1 or limit.value.coefficient(rows[0]) + limit.value.coefficient(ends[0]):
        return None
    row, summed = rows[0], ends[0]
    if abs(k := limit.value.coefficient(row)) != 1 or any(_indices(q) != {summed} for q in others):
        return None
    shift = 0 if limit.value.constant == -1 else k * limit.value.constant
    every = _every(ctx, c.scope.domain[row], c.summed[summed], shift, k < 0)
    if every is None:
        return None
    every_factor = factors(c.body)

    def free(e: Expr) -> frozenset[Index]:
        return ctx.free_indices.free(e, c.scope.env)

    def of(several: Sequence[Expr]) -> frozenset[Index]:
        return frozenset().union(*map(free, several))

    pairs = pairs_of(every_factor, row, summed, free)
    if pairs is None or (pairs.factors and c.selects):
        return None
    parts = [e for e in every_factor if e not in pairs.factors]
    shared = of(pairs.parts) - {row, summed}
    inner = [i for i in c.summed if all(any({end, i} <= free(e) for e in parts) for end in (row, summed))]
    inner = [i for i in inner if i not in shared] or inner
    query = [e for e in parts if row in free(e)]
    key = [e for e in parts if e not in query and not free(e).isdisjoint(inner)]
    rest = [e for e in parts if e not in query and e not in key]
    if not all(isinstance(e, Access) for e in parts) or len(query) != len(key) or len(query) != bool(inner):
        return None
    if inner and not (of(query) >= {*inner} and summed not in of(query) and of(key) >= {*inner, summed}):
        return None
    if not inner and not pairs.factors:
        return None
    if any(summed not in free(e) and not (pairs.factors and free(e) <= shared) for e in rest):
        return None
    if not shared.isdisjoint(inner) and (len(inner) > 1 or not of(pairs.of_numbers).isdisjoint(inner)):
        return None
    shared = (shared | of(query) | of(key)).difference(inner, {row, summed})
    if not c.summed.keys() - {summed, *inner} <= shared or not of(parts).union(shared).isdisjoint(c.scope.loops):
        return None
    batch = tuple(i for i in c.ranges if i in shared)
    columns = tuple(i for i in c.ranges if i in of(rest) - {summed} - shared)
    if others:
        rest = [bracket(conjunction(others), fold(Mul, rest) if rest else number(1))]
    return _Chunks(
        limit,
        shift,
        every,
        outer,
        row,
        summed,
        tuple(inner),
        columns,
        batch,
        fold(Mul, query) if query else None,
        fold(Mul, key) if key else None,
        fold(Mul, rest) if rest else None,
        pairs,
    )


def _every(ctx: Context, row: Range, summed: Range, shift: int, backwards: bool) -> Range | None:
    """The range that has all of `summed`, and row + `shift` for all rows whose sums are not empty; None if neither
    range is known to go further."""
    start, stop = row.start + shift, row.stop + shift
    further = start - summed.start if backwards else summed.stop - stop
    if ctx.integers.is_nonnegative(further):
        return summed
    if not ctx.integers.is_nonnegative(-further):
        return None
    return Range(start, summed.stop) if backwards else Range(summed.start, stop)


def _in_chunks(ctx: Context, c: Summation, found: _Chunks) -> Deep[Value]:
    if found.outer:
        alone = replace(c, parts=tuple(q for q in c.parts if q not in found.outer))

        def compute(inner: Scope) -> Deep[Value]:
            return ctx.contract(replace(alone, scope=inner))

        return (yield from call(guarded(ctx, c.scope, conjunction(found.outer), c.body, compute)))
    inner = ctx.scope(c.scope, domain=c.ranges, masks=())
    shown = Range(found.every.start - found.shift, found.every.stop - found.shift)
    every = {**c.ranges, found.row: shown, found.summed: found.every}

    def laid(e: Expr | None, *own: Index) -> Deep[Node]:
        if e is None:
            return Name("None")
        axes = (*found.batch, *own)
        x = yield from call(laid_out(ctx, inner, e, axes))
        return _over(ctx, c.ranges, every, x, axes)

    def reads(e: Expr | None) -> tuple[Index, ...]:
        free = ctx.free_indices.free(e, c.scope.env) if e is not None else ()
        return tuple(i for i in found.inner if i in free)

    query = yield from call(laid(found.query, found.row, *found.inner))
    key = yield from call(laid(found.key, found.summed, *found.inner))
    value = yield from call(laid(found.value, found.summed, *found.columns))
    flags: list[Node] = [integer(len(found.batch)), Name(str(found.backwards)), Name(str(found.strict))]
    direction = "from" if found.backwards else "up to"
    c.scope.block.note(f"sums over {found.summed.name} {direction} {found.row.name}, in chunks")
    ctx.multiplied |= not c.selects
    if not found.pairs.factors:
        node = apply("_sum_in_chunks", query, key, value, *flags, Name(str(bool(c.selects))))
    else:
        pairs: list[Node] = []
        for sides in (found.pairs.exponents, found.pairs.powers, found.pairs.differences):
            made: list[Node] = []
            for *scale, a, b in sides:
                wide = reads(a) or reads(b)
                nodes: list[Node] = []
                for e, own in (*((s, reads(s)) for s in scale), (a, (found.row, *wide)), (b, (found.summed, *wide))):
                    nodes.append((yield from call(laid(e, *own))))
                made.append(tuple_of(nodes))
            pairs.append(tuple_of(made))
        summed, start = c.ranges[found.summed], found.every.start
        if summed != found.every:
            flags.append(ctx.shape((summed.start - start, summed.stop - start)))
        node = apply("_decaying_in_chunks", *pairs, query, key, value, *flags)
    axes = (*found.batch, found.row, *found.columns)
    v = Value(_over(ctx, every, c.ranges, node, axes), axes, 1)
    heads = [k for k, i in enumerate(axes) if i in c.summed]
    if not heads:
        return v
    return Value(apply("_sum", v.node, integers(heads)), tuple(i for i in axes if i not in c.summed), 2)


def _over(ctx: Context, own: Mapping[Index, Range], wanted: Mapping[Index, Range], x: Node, axes: Axes) -> Node:
    """The array, whose axes have their `own` ranges, over those `wanted`: zero where it has no element."""
    return among_zeros(ctx, own, wanted, Value(x, axes, 1)).node


def laid_out(ctx: Context, inner: Scope, e: Expr, axes: Sequence[Index]) -> Deep[Node]:
    """The array of `e` over these axes."""
    v: Value = yield from call(ctx.value(e, ctx.scope(inner, domain={i: inner.domain[i] for i in axes})))
    return whole(ctx, inner, v, tuple(axes))


CHUNKS = Strategy(
    "chunks",
    "gen i. sum j, k. [j <= i] * q[i, k] * r[j, k] * v[j] = gen i. sum k. q[i, k] * sum j. [j <= i] * r[j, k] * v[j]",
    _three_factors,
    _in_chunks,
)
