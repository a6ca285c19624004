"""Bands, first <= column < first + width where `first` moves with the row: in blocks of rows, each over the window of
columns that it needs. All windows are of one length, so that many blocks can be a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, conjuncts, substitute
from tensorlang.language.show import predicate_text
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Block, Define, Name, Tuple
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.values import Value, apply, dtype_of
from tensorlang.lowering.arrays.values import integers as integers_of
from tensorlang.recursion import Deep, call

_LONG = 60


@dataclass(frozen=True)
class Band:
    """first <= column < first + width, where `first` is a multiple of the row plus something static."""

    row: Index
    column: Index
    first: Affine
    width: Affine
    parts: tuple[NonNegative, NonNegative]


def band(ctx: Context, ranges: Mapping[Index, Range], limits: Sequence[NonNegative]) -> Band | None:
    """A band that two of `limits` describe, whose row comes before its column in `ranges`.

    One that is as wide as the array is only cut off at corners: it is none.
    """
    order = tuple(ranges)
    for low in limits:
        axes = [i for i in order if low.value.coefficient(i)]
        if len(axes) == 2 and low.value.coefficient(axes[1]) == 1:
            for high in limits:
                width = low.value + high.value + 1
                if any(width.coefficient(i) for i in order):
                    continue
                if not any(ctx.integers.is_nonnegative(width - ranges[i].extent) for i in axes):
                    return Band(axes[0], axes[1], atom_affine(axes[1]) - low.value, width, (low, high))
    return None


def text(parts: Iterable[Predicate]) -> str:
    """The text of a comment on a domain."""
    found = predicate_text(conjunction(parts))
    return found if len(found) <= _LONG else found[: _LONG - 3] + "..."


@dataclass(frozen=True)
class Window:
    """The function that computes a block of rows of a band: `count` rows from `start` on.

    `moved` has for the row and the column the index that counts from the window's corner, and its range; `offset` is
    where the window starts among all columns.
    """

    block: Block
    start: Affine
    count: Affine
    moved: Mapping[Index, tuple[Index, Range]]
    scope: Scope
    offset: Affine

    def named(self, v: Value) -> Value:
        """`v` with its axes named as they are outside."""
        back = {inner: outer for outer, (inner, _) in self.moved.items()}
        return replace(v, axes=tuple(back.get(i, i) for i in v.axes))

    def outside(self, ctx: Context, scope: Scope) -> Scope:
        """`scope` with the ranges that its axes have in the window."""
        domain = {i: self.moved[i][1] if i in self.moved else r for i, r in scope.domain.items()}
        return ctx.scope(scope, domain=domain, block=self.block, fixed=self.block)

    def define(self, ctx: Context, scope: Scope, b: Band) -> Name:
        """The function, defined in `scope`."""
        name = ctx.names.fresh_local("block")
        scope.block.note(f"{text(b.parts)}: in blocks of {b.row.name}, each over a window of {b.column.name}")
        scope.block.statements.append(Define(name, ctx.integers.parameters(self.start, self.count), self.block))
        return Name(name)


def window(ctx: Context, scope: Scope, ranges: Mapping[Index, Range], b: Band) -> Window:
    """The window of a block of rows of `b`, whose row and column have these ranges."""
    integers, block = ctx.integers, ctx.new_block()
    rows, columns, slope = ranges[b.row], ranges[b.column], b.first.coefficient(b.row)
    i_start, j_start = Index(f"{b.row.name}_start"), Index(f"{b.column.name}_start")
    ctx.loop_name(i_start)
    start = atom_affine(i_start)
    count = integers.parameter(f"{b.row.name}_count", [constant(1)], [rows.extent])
    name = f"{b.column.name}_count"
    needed = integers.greatest(name, [ZERO, b.width + (count - 1) * abs(slope)], block, [])
    length = integers.least(name, [columns.extent, needed], block)
    # the window stays within the array: extending that with zeros would copy it
    first, latest = b.first.substitute({b.row: start if slope > 0 else start + count - 1}), columns.stop - length
    clip = apply("clip", *integers.nodes((first, columns.start, latest)))
    block.assign(ctx.loop_name(j_start), clip)
    moved = {b.row: (Index(b.row.name), Range(ZERO, count)), b.column: (Index(b.column.name), Range(ZERO, length))}
    at: dict[Atom, Affine] = {
        b.row: start + atom_affine(moved[b.row][0]),
        b.column: atom_affine(j_start) + atom_affine(moved[b.column][0]),
    }
    loops = {i_start: Range(rows.start, rows.stop - count + 1), j_start: Range(columns.start, latest + 1)}
    inner = ctx.scope(
        scope,
        domain=dict(moved.get(i, (i, r)) for i, r in scope.domain.items()),
        loops={**scope.loops, **loops},
        env={k: a.substitute(at) for k, a in scope.env.items()} | at,
        block=block,
        fixed=block,
    )
    return Window(block, start, count, moved, inner, atom_affine(j_start) - columns.start)


def banded(
    ctx: Context, scope: Scope, p: Predicate, e: Expr, compute: Callable[[Scope], Deep[Value]]
) -> Deep[Value | None]:
    """[p] * e, where `p` has a band of two axes, written window by window among zeros; None if it has none."""
    limits = [q for q in conjuncts(substitute(p, scope.env)) if isinstance(q, NonNegative) and not q.value.lookups]
    b = None if scope.loops else band(ctx, scope.domain, limits)
    if b is None:
        return None
    w = window(ctx, scope, scope.domain, b)
    v: Value = yield from call(compute(w.scope))
    if v.number == 0:
        return v
    v = w.named(v)
    axes = tuple(i for i in scope.domain if i in v.axes or i in w.moved)
    w.block.give(Tuple((expanded(ctx, w.outside(ctx, scope), v, axes), ctx.integers.node(w.offset))))
    name = w.define(ctx, scope, b)
    rows, at = scope.domain[b.row], integers_of((axes.index(b.row), axes.index(b.column)))
    bounds = ctx.integers.nodes((rows.start, rows.stop, b.width))
    return Value(apply("_band_by_windows", *bounds, name, at, ctx.extents(scope, axes), dtype_of(e)), axes, 2)
