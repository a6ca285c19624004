"""What one program of a kernel's grid does: accumulate in registers over the reduced tiles that it visits, then store.

    def kernel(A_ref, .., out_ref):
        places of the tile, and what doesn't change from one reduced tile to the next
        def step(number, carry, masked): ..     takes in one reduced tile; masks are left out unless `masked`
        loops over the tiles without masks, then over those with
        outputs are made of the accumulators, and stored

Where a maximum m grows, sums of exp(a - m) are multiplied by exp(old m - new m).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Expr, Extremum, Sum, Var, access
from tensorlang.language.predicates import TRUE
from tensorlang.lowering.arrays.ir import Block, Define, Infix, Lambda, Name, Node, Number, Subscript
from tensorlang.lowering.arrays.values import Axes, Value, aligned, apply, integer, product_of, tuple_of
from tensorlang.lowering.emit.conditions import joined
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.gpu.reads import GpuScope, if_ragged, spread
from tensorlang.lowering.emit.gpu.table import has_intervals
from tensorlang.lowering.emit.gpu.values import IDENTITY, GpuValues, Reduced
from tensorlang.lowering.emit.nodes import Do
from tensorlang.lowering.kernels.ir import Accumulator, Kernel, Kind, Output, Role, TileAxis, Tiles
from tensorlang.lowering.kernels.terms import reduction
from tensorlang.recursion import run

SIGNS = {Kind.SUM: 0, Kind.MAX: 1, Kind.MIN: -1}
"""The sign of the `Reduced` of each kind of accumulator."""


class GpuBody:
    """The function that is each program: `written`, and whether it multiplies matrices."""

    _test = "_somewhere"

    def __init__(self, kernel: Kernel, naming: GpuNaming, values: GpuValues | None = None) -> None:
        self._kernel = kernel
        self._naming = naming
        self._axes = {axis.index: axis for axis in kernel.axes}
        self._values = values or GpuValues(kernel, naming)
        self.written = self._write()
        self.multiplies = self._values.multiplies

    def _write(self) -> Define:
        kernel, naming = self._kernel, self._naming
        scope = GpuScope(Block())
        names = [*naming.arrays.values(), *(["table"] if kernel.tiles else []), *naming.outputs.values()]
        for k, axis in enumerate(kernel.of_role(Role.PARALLEL)):
            number = naming.numbers[axis.index]
            scope.block.assign(number, apply("pl.program_id", integer(k)))
            self._place(axis, Name(number), scope)
        for axis in kernel.of_role(Role.WHOLE):
            scope.block.assign(naming.places[axis.index], _along(Name(naming.lengths[axis.index])))
        last = self._accumulated(scope)
        for output in kernel.outputs:
            self._store(output, last)
        return Define("kernel", tuple(f"{name}_ref" for name in names), scope.block)

    def _accumulated(self, scope: GpuScope) -> GpuScope:
        """The scope after the loops that accumulate, which are written into `scope`; that itself if there are none."""
        accumulators = self._kernel.accumulators
        if not accumulators:
            return scope
        carried = [self._naming.names.fresh_global(acc.var.name) for acc in accumulators]
        step = self._step(carried, scope)
        scope.block.blank()
        scope.block.statements.append(step)
        scope.block.blank()
        scope.closed = True
        self._loops(scope.block, carried)
        last = GpuScope(scope.block, frozenset(acc.var for acc in accumulators), scope)
        for acc, name in zip(accumulators, carried, strict=True):
            last.memo[element(acc)] = self._values.recorded(Value(Name(name), self._axes_of(acc)))
        return last

    def _place(self, axis: TileAxis, number: Node, scope: GpuScope) -> None:
        if not axis.is_number:
            length = Name(self._naming.lengths[axis.index])
            number = Infix(Infix(number, "*", length), "+", _along(length))
        scope.block.assign(self._naming.places[axis.index], number)

    def _axes_of(self, acc: Accumulator) -> Axes:
        return tuple(i for i in acc.axes if not self._axes[i].is_number)

    # Taking in tiles

    def _step(self, carried: Sequence[str], scope: GpuScope) -> Define:
        """The function that takes in a tile, and returns the new accumulators."""
        kernel, names = self._kernel, self._naming.names
        reduced = kernel.of_role(Role.REDUCED)
        growing = {acc.shift for acc in kernel.accumulators if acc.shift is not None}
        inner = GpuScope(Block(), frozenset({*(axis.index for axis in reduced), *growing}), scope)
        inner.block.unpack(carried, Name("carry"))
        self._numbers(reduced, inner)
        scales: dict[Var, Value] = {}
        new = []
        for acc, name in zip(kernel.accumulators, carried, strict=True):
            axes, old = self._axes_of(acc), Name(name)
            fresh = names.fresh_local(f"{name}_new")
            new.append(Name(fresh))
            if acc.tests:
                inner.block.assign(fresh, self._tested(acc, name, inner))
                continue
            more = self._taken(acc, inner)
            match acc.kind:
                case Kind.SUM:
                    kept = old if acc.shift is None else Infix(old, "*", aligned(scales[acc.shift], axes).node)
                    inner.block.assign(fresh, Infix(kept, "+", more))
                case Kind.MAX | Kind.MIN:
                    inner.block.assign(fresh, apply("maximum" if acc.kind is Kind.MAX else "minimum", old, more))
            if acc.var in growing:
                inner.memo[element(acc)] = Value(Name(fresh), axes)
                scale = names.fresh_local("scale")
                scales[acc.var] = Value(Name(scale), axes)
                inner.block.assign(scale, apply("_rescaling", old, Name(fresh)))
        inner.block.give(tuple_of(new))
        masked = ["masked"] if kernel.tiles is not None else []
        return Define("step", ("number", "carry", *masked, *self._tiles_of_step()), inner.block)

    def _taken(self, acc: Accumulator, scope: GpuScope) -> Node:
        """What an accumulator takes in of a tile."""
        made = run(self._values.reduced(taken_in(acc, self._axes, self._kernel.tiles is not None), scope))
        return aligned(made, self._axes_of(acc)).node

    def _tested(self, acc: Accumulator, name: str, scope: GpuScope) -> Node:
        """A sum with its share of a tile taken in, which is only computed if the tests succeed."""
        found = [apply(self._test, self._values.tested(mask, scope).node) for mask in acc.tests]
        inner = scope.inner()
        scope.closed = True
        inner.block.give(Infix(Name(name), "+", self._taken(acc, inner)))
        scope.closed = False
        taken = self._naming.names.fresh_local(f"{name}_taken")
        scope.block.statements.append(Define(taken, (), inner.block))
        return apply("lax.cond", joined(found, True), Name(taken), Lambda((), Name(name)))

    def _tiles_of_step(self) -> Sequence[str]:
        """The names of the tiles that a step is given."""
        return ()

    def _numbers(self, reduced: tuple[TileAxis, ...], scope: GpuScope) -> None:
        """The places in the tile of this number; tiles that differ in the last axis have consecutive numbers."""
        number = Name("number")
        for k, axis in enumerate(reduced):
            if k + 1 < len(reduced):
                after = product_of(self._naming.count(a) for a in reduced[k + 1 :])
                name = self._naming.numbers[axis.index]
                parts = [apply(f"lax.{word}", number, after) for word in ("div", "rem")]
                scope.block.unpack((name, "number"), tuple_of(parts))
                self._place(axis, Name(name), scope)
            else:
                self._place(axis, number, scope)

    def _loops(self, block: Block, carried: Sequence[str]) -> None:
        kernel, naming = self._kernel, self._naming
        block.assign("carry", tuple_of(map(self._start, kernel.accumulators)))
        zero, carry, k = integer(0), Name("carry"), Name("k")

        def loop(start: Node, stop: Node, step: Node) -> Node:
            return apply("lax.fori_loop", start, stop, step, carry)

        def step(parameter: str, number: Node, masked: bool) -> Node:
            return Lambda((parameter, "carry"), apply("step", number, carry, Name(str(masked))))

        if kernel.tiles is None:
            count = product_of(naming.count(axis) for axis in kernel.of_role(Role.REDUCED))
            block.unpack(carried, loop(zero, count, Name("step")))
            return
        self._row(block, kernel.tiles)
        if has_intervals(kernel.tiles):
            first, start, stop, last, count = map(Name, ("first", "start", "stop", "last", "count"))
            block.unpack(("first", "start", "stop", "last"), tuple_of(column(integer(k)) for k in range(4)))
            block.assign("carry", loop(start, stop, step("number", Name("number"), False)))
            before = Infix(first, "+", k)
            after = Infix(Infix(Infix(stop, "-", start), "+", first), "+", k)
            block.assign("around", Lambda(("k",), apply("where", Infix(before, "<", start), before, after)))
            block.assign("count", Infix(Infix(start, "-", first), "+", Infix(last, "-", stop)))
            block.unpack(carried, loop(zero, count, step("k", apply("around", k), True)))
        else:
            whole, count, tile = Name("whole"), Name("count"), apply("listed", k)
            block.unpack(("whole", "count"), tuple_of(column(integer(k)) for k in range(2)))
            block.assign("listed", Lambda(("k",), column(Infix(integer(2), "+", k))))
            block.assign("carry", loop(zero, whole, step("k", tile, False)))
            block.unpack(carried, loop(whole, count, step("k", tile, True)))

    def _row(self, block: Block, tiles: Tiles) -> None:
        """The program's row of the table."""
        row: Node | None = None
        for axis in tiles.axes:
            if axis.role is Role.PARALLEL:
                number = Name(self._naming.numbers[axis.index])
                row = Infix(Infix(row, "*", self._naming.count(axis)), "+", number) if row is not None else number
        block.assign("row", row or integer(0))

    def _start(self, acc: Accumulator) -> Node:
        extents, sign = self._naming.extents(self._axes_of(acc)), SIGNS[acc.kind]
        start = IDENTITY[sign] if sign else Number(Fraction(0), True)
        return apply("full", extents, start, Name("jnp.float32"))

    def _store(self, output: Output, scope: GpuScope) -> None:
        values, naming = self._values, self._naming
        v = run(values.value(output.value, scope))
        axes = tuple(i for i in output.axes if not self._axes[i].is_number)
        node = aligned(v, axes).node
        if v.axes != axes or v.weak:
            node = apply("full", naming.extents(axes), node, Name("jnp.float32"))
        at = tuple_of(spread(values.place(atom_affine(i), scope), axes) for i in output.axes)
        arguments = [Name(f"{naming.outputs[output.var]}_ref"), at, node]
        ends = values.ends(axes, scope)
        if ends:
            arguments.append(if_ragged(aligned(values.joined(ends, True, axes), axes).node))
        scope.block.statements.append(Do(apply("_store", *arguments)))


def column(k: Node) -> Node:
    """A number of the table's row."""
    return Subscript(Name("table_ref"), (Name("row"), k))


def _along(length: Node) -> Node:
    """0, 1, .., length - 1."""
    return apply("lax.iota", Name("jnp.int32"), length)


def taken_in(acc: Accumulator, axes: Mapping[Index, TileAxis], has_masks: bool) -> Reduced:
    """What an accumulator takes in of a tile; a reduction of the same kind in its value becomes part of its own."""
    sign = SIGNS[acc.kind]
    over = [i for i, axis in axes.items() if axis.role is Role.REDUCED]
    factors: tuple[Expr, ...] = (acc.value,)
    masks: tuple[Expr, ...] = ()
    if isinstance(acc.value, Sum | Extremum):
        inner = reduction(acc.value)
        if inner.sign == sign and inner.pred is TRUE:
            over += inner.indices
            factors, masks = inner.factors, inner.masks
    return Reduced(sign, tuple(over), acc.pred, factors, "masked" if has_masks else "", masks)


def element(acc: Accumulator) -> Expr:
    """The accumulator where it is read."""
    return access(acc.var, *map(atom_affine, acc.axes))
