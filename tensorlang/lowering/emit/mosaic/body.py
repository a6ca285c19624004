"""What one program of a kernel's grid does: tiles in, reduced tiles taken in as they arrive, outputs out.

def kernel(A_ref, .., table_ref, .., out_ref, .., A_tile, .., out_tile, .., arrived):
    where the program's tile is; the tiles that don't move are fetched
    def step(number, carry, masked, B_tile, ..): ..     takes in one reduced tile; masks only where `masked`
    pipelines over the tiles without masks, then over those with
    outputs are made of the accumulators, and copied to memory by way of shared memory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tensorlang.language.affine import Index
from tensorlang.lowering.arrays.ir import Block, Define, Infix, Lambda, List, Name, Node, Number, Text
from tensorlang.lowering.arrays.values import Axes, Value, aligned, apply, integer, product_of, tuple_of
from tensorlang.lowering.emit.gpu.body import SIGNS, GpuBody, column
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.gpu.reads import GpuScope
from tensorlang.lowering.emit.gpu.table import has_intervals
from tensorlang.lowering.emit.gpu.values import IDENTITY
from tensorlang.lowering.emit.mosaic.tiles import part
from tensorlang.lowering.emit.mosaic.values import MosaicValues
from tensorlang.lowering.emit.nodes import Do
from tensorlang.lowering.kernels.ir import Accumulator, Kernel, Output, Role, TileAxis
from tensorlang.lowering.kernels.layouts import WIDEST, Units
from tensorlang.lowering.kernels.roles import Unfit
from tensorlang.recursion import run


@dataclass(frozen=True)
class OutputTile:
    """A tile of an output in shared memory, from where it is copied: its name, its axes, how it lies."""

    output: Output
    name: str
    axes: Axes

    @property
    def swizzle(self) -> int:
        """The swizzle of the tile, which begins where tiles do."""
        return WIDEST if len(self.axes) == 2 else 0


class MosaicBody(GpuBody):
    """The function that is each program: `written`, with the `tiles` that it reads."""

    _values: MosaicValues
    _test = "_in_some_place"

    def __init__(
        self,
        kernel: Kernel,
        naming: GpuNaming,
        rows: frozenset[Index] | None,
        units: Units,
        twins: Mapping[Index, Index],
    ) -> None:
        values = MosaicValues(kernel, naming, rows, units, twins)
        self.values, self.tiles = values, values.tiles
        self.made: list[OutputTile] = []
        super().__init__(kernel, naming, values)

    def _write(self) -> Define:
        kernel, naming = self._kernel, self._naming
        scope = GpuScope(Block())
        for axis in kernel.of_role(Role.PARALLEL):
            number = naming.numbers[axis.index]
            scope.block.assign(number, apply("lax.axis_index", Text(number)))
            self._place(axis, Name(number), scope)
        places_end = len(scope.block.statements)
        last = self._accumulated(scope)
        for output in kernel.outputs:
            self._store(output, last)
        scope.block.statements.append(Do(apply("mosaic_gpu.wait_smem_to_gmem", integer(0))))
        held = list(self.tiles.held.values())
        if held:
            pairs = (tuple_of((part(t.source, t.extents, t.starts), Name(t.name))) for t in held)
            scope.block.statements.insert(places_end, Do(apply("_fetch", List(tuple(pairs)), Name("arrived"))))
        names = [*self.tiles.sources.values(), *(["table_ref"] if kernel.tiles else [])]
        names += [f"{name}_ref" for name in naming.outputs.values()]
        names += [*(t.name for t in held), *(t.name for t in self.made), *(["arrived"] if held else [])]
        return Define("kernel", tuple(names), scope.block)

    def _place(self, axis: TileAxis, number: Node, scope: GpuScope) -> None:
        i = axis.index
        if axis.is_number:
            scope.block.assign(self._naming.places[i], number)
        elif axis.role is not Role.WHOLE:
            self.values.begins[i] = Infix(number, "*", Name(self._naming.lengths[i]))

    def _axes_of(self, acc: Accumulator) -> Axes:
        return tuple(i for i in self.values.order if i in acc.axes)

    def _tiles_of_step(self) -> Sequence[str]:
        return tuple(t.name for t in self.tiles.moving.values())

    def _loops(self, block: Block, carried: Sequence[str]) -> None:
        kernel, naming = self._kernel, self._naming
        moving = self.tiles.moving.values()
        boxes = (
            tuple_of((Name(t.source), _extents(t.extents), Lambda(("number",), tuple_of(t.starts)), integer(t.swizzle)))
            for t in moving
        )
        block.assign("blocks", List(tuple(boxes)))
        block.assign("carry", tuple_of(map(self._start, kernel.accumulators)))

        def pipeline(tile: Node, count: Node, *masked: bool) -> Node:
            given = [Name("step"), tile, count, Name("blocks"), Name("carry"), Name("stages")]
            return apply("_pipelined", *given, *(Name(str(m)) for m in masked))

        k = Name("k")
        if kernel.tiles is None:
            count = product_of(naming.count(axis) for axis in kernel.of_role(Role.REDUCED))
            block.unpack(carried, pipeline(Lambda(("k",), k), count))
            return
        self._row(block, kernel.tiles)
        if has_intervals(kernel.tiles):
            first, start, stop, last = map(Name, ("first", "start", "stop", "last"))
            block.unpack(("first", "start", "stop", "last"), tuple_of(column(integer(k)) for k in range(4)))
            block.assign("carry", pipeline(Lambda(("k",), Infix(start, "+", k)), Infix(stop, "-", start), False))
            before = Infix(first, "+", k)
            after = Infix(Infix(Infix(stop, "-", start), "+", first), "+", k)
            around = Lambda(("k",), apply("where", Infix(before, "<", start), before, after))
            count = Infix(Infix(start, "-", first), "+", Infix(last, "-", stop))
            block.unpack(carried, pipeline(around, count, True))
        else:
            whole, count = Name("whole"), Name("count")
            block.unpack(("whole", "count"), tuple_of(column(integer(k)) for k in range(2)))
            block.assign("carry", pipeline(Lambda(("k",), column(Infix(integer(2), "+", k))), whole, False))
            rest = Lambda(("k",), column(Infix(Infix(integer(2), "+", whole), "+", k)))
            block.unpack(carried, pipeline(rest, Infix(count, "-", whole), True))

    def _start(self, acc: Accumulator) -> Node:
        axes, sign = self._axes_of(acc), SIGNS[acc.kind]
        start = IDENTITY[sign] if sign else Number(Fraction(0), True)
        return apply("_everywhere", start, self._naming.extents(axes), *self.values.gone(axes))

    def _store(self, output: Output, scope: GpuScope) -> None:
        naming = self._naming
        v = run(self.values.value(output.value, scope))
        axes = tuple(i for i in self.values.order if i in output.axes)
        if not axes:
            raise Unfit("it makes numbers one by one")
        node, extents = aligned(v, axes).node, naming.extents(axes)
        if not v.axes:
            node = apply("_everywhere", node, extents, *self.values.gone(axes))
        elif v.axes != axes:
            node = apply("_spread_along", v.node, extents, integer(axes.index(v.axes[0])))
        self.values.recorded(Value(node, axes))
        starts: list[Node] = [Name(naming.places[i]) for i in output.axes if self._axes[i].is_number]
        lengths: list[Node | None] = [None] * len(starts)
        for i in axes:
            length = Name(naming.lengths[i])
            whole = self._axes[i].role is Role.WHOLE
            starts.append(integer(0) if whole else Infix(Name(naming.numbers[i]), "*", length))
            lengths.append(length)
        name = naming.names.fresh_global(f"{output.var.name}_tile")
        self.made.append(OutputTile(output, name, axes))
        target = part(f"{naming.outputs[output.var]}_ref", lengths, starts)
        scope.block.statements.append(Do(apply("_put", node, Name(name), target)))


def _extents(extents: Sequence[Node | None]) -> Node:
    return tuple_of(Name("None") if n is None else n for n in extents)
