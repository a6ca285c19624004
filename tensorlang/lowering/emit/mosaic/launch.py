"""Kernels for GPUs, by Pallas' Mosaic GPU: a function for each, which launches it.

The grid goes over the tiles of the outputs, one warpgroup makes each, and nothing is shared between the programs, so
that results are the same in every run. Tiles have a multiple of 64 elements on each side. Arrays are filled up to whole
tiles before, and results cut to their extents afterwards, so nothing within is masked except by predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorlang.interning import shared
from tensorlang.language.affine import Index, Size
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import (
    ALL,
    Block,
    Define,
    Infix,
    Item,
    List,
    Name,
    Node,
    Return,
    Slice,
    Subscript,
    Text,
    Transpose,
    When,
)
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import Axes, apply, integer, tuple_of
from tensorlang.lowering.emit.gpu.naming import GpuNaming, inputs, with_twins
from tensorlang.lowering.emit.gpu.table import table
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.mosaic.body import MosaicBody
from tensorlang.lowering.emit.mosaic.memory import LONGEST, SHARED, SharedMemory
from tensorlang.lowering.emit.nodes import Attribute
from tensorlang.lowering.kernels.ir import Kernel, Output, Role
from tensorlang.lowering.kernels.layouts import WARPGROUP, Units
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.roles import Unfit

_RESERVED = frozenset(
    {"arrived", "blocks", "call", "carry", "count", "dtype", "first", "interpret", "k", "kernel", "last", "made"}
    | {"masked", "number", "out", "row", "scratch", "shared", "stages", "start", "step", "stop", "table", "whole"}
)


class MosaicKernel:
    """The function that runs one kernel: `definition` has it under `name`, for `arrays`, the sizes, the dtype, and how
    it is interpreted, if it is.

    Outputs in `narrow` are of the program's dtype, the others float32. `rows` and `lanes` are the axes of its tiles,
    and `memory` how they lie in shared memory. Where an axis that is held from end to end turns out to be longer than
    fits, the function `otherwise` is called. Raises `Unfit` for what Mosaic GPU can't express.
    """

    def __init__(
        self,
        kernel: Kernel,
        arrays: Mapping[Array, str],
        sizes: Mapping[Size, str],
        name: str,
        narrow: frozenset[Var],
        units: Units,
        otherwise: str = "",
    ) -> None:
        for axis in kernel.axes:
            if not axis.is_number and axis.block % WARPGROUP:
                raise Unfit(f"tiles of {axis.block} along {axis.extent} are no multiple of {WARPGROUP}")
        self.name = name
        self._kernel = kernel
        self._narrow = narrow
        self._given, self._names_of_sizes, self._otherwise = arrays, sizes, otherwise
        self.arrays = inputs(kernel)
        twins: Mapping[Index, Index] = {}
        first = MosaicBody(kernel, self._named(twins), None, units, twins)
        try:
            rows = _rows(first.values.order, first.values.pairs)
        except Unfit:
            twins = first.values.computed
            first = MosaicBody(kernel, self._named(twins), None, units, twins)
            rows = _rows(first.values.order, first.values.pairs)
        self._naming = self._named(twins)
        self._body = MosaicBody(kernel, self._naming, rows, units, twins)
        self.rows = tuple(i for i in self._body.values.order if i in rows)
        self.lanes = tuple(i for i in self._body.values.order if i not in rows)
        self.units, self.multiplies = units, bool(self._body.values.products)
        self.memory = SharedMemory(kernel, self._naming, self._body, units)
        self.definition = self._function()

    @property
    def is_bounded(self) -> bool:
        """Whether the tiles have the same lengths at all sizes."""
        return all(a.role is not Role.WHOLE or a.extent.is_constant for a in self._kernel.axes)

    def _named(self, twins: Iterable[Index]) -> GpuNaming:
        kernel, arrays, sizes = self._kernel, self._given, self._names_of_sizes
        taken = {*_RESERVED, *HELPERS, "np", "pl", "plgpu", "mosaic_gpu", *arrays.values(), *sizes.values(), self.name}
        integers = StaticIntegers(Names(frozenset(taken)))
        integers.spell(sizes)
        new = integers.names.fresh_global
        naming = GpuNaming(
            integers,
            arrays={x: arrays[x] for x in self.arrays},
            outputs={o.var: new(f"{o.var.name}_out") for o in kernel.outputs},
            places={a.index: new(a.index.name) for a in kernel.axes},
            lengths={a.index: new(f"{a.index.name}_block") for a in kernel.axes if not a.is_number},
            numbers={a.index: new(f"{a.index.name}_tile") for a in kernel.axes if a.is_tiled},
        )
        return with_twins(naming, {i: _twin(i) for i in twins})

    # The function

    def _function(self) -> Define:
        kernel, naming, tiles = self._kernel, self._naming, self._body.tiles
        block = Block()
        names = ", ".join(i.name for i in self.rows), ", ".join(i.name for i in self.lanes)
        block.note(f"By Mosaic GPU: tiles with rows along {names[0]}" + (f", lanes along {names[1]}." * bool(names[1])))
        for axis in kernel.axes:
            if not axis.is_number:
                length: Node = integer(axis.block)
                if axis.role is Role.WHOLE:
                    count = apply("pl.cdiv", naming.node(axis.extent), integer(WARPGROUP))
                    length = Infix(integer(WARPGROUP), "*", count)
                block.assign(naming.lengths[axis.index], length)
        for (_, prepared), name in tiles.sources.items():
            block.assign(name, prepared)
        self.memory.stages(block)
        parameters = (*(self._given[x] for x in self.arrays), *self._names_of_sizes.values(), "dtype", "interpret")
        if self._otherwise:
            call = apply(self._otherwise, *map(Name, parameters))
            block.statements.append(When(self._is_too_long(), Block([Return(call)]), Block()))
        given = list(tiles.sources.values())
        if kernel.tiles is not None:
            block.statements += table(kernel.tiles, naming).statements
            given.append("table")
        block.blank()
        block.statements.append(self._body.written)
        block.blank()
        self._call(block, given)
        result: Node = List(tuple(self._cut(t.output, t.axes, k) for k, t in enumerate(self._body.made)))
        block.give(result)
        return Define(self.name, parameters, block)

    def _is_too_long(self) -> Node:
        """Whether an axis that is held from end to end is longer than fits."""
        whole = [Name(self._naming.lengths[a.index]) for a in self._kernel.of_role(Role.WHOLE)]
        longest = apply("greatest", *whole) if len(whole) > 1 else whole[0]
        tests = [Infix(longest, ">", integer(LONGEST)), Infix(Name("shared"), ">", integer(SHARED))]
        if self._body.tiles.moving:
            tests[1:] = [Infix(Name("stages"), "<", integer(1))]
        return Infix(tests[0], "|", tests[1])

    def _call(self, block: Block, given: list[str]) -> None:
        naming, body = self._naming, self._body
        out = [self._filled(t.output, t.axes) for t in body.made]
        block.assign("out", List(tuple(out)))
        held = body.tiles.held.values()
        scratch = [_shared(naming, t.axes, Attribute(Name(t.source), "dtype"), t.swizzle) for t in held]
        scratch += [_shared(naming, t.axes, self._kind(t.output), t.swizzle) for t in body.made]
        if held:
            scratch.append(apply("mosaic_gpu.Barrier", num_arrivals=integer(len(held))))
        block.assign("scratch", List(tuple(scratch)))
        parallel = self._kernel.of_role(Role.PARALLEL)
        call = apply(
            "mosaic_gpu.kernel",
            Name("kernel"),
            out_type=Name("out"),
            scratch_types=Name("scratch"),
            grid=tuple_of(naming.count(axis) for axis in parallel),
            grid_names=tuple_of(Text(naming.numbers[axis.index]) for axis in parallel),
            interpret=apply("_simulated", Name("interpret")),
            kernel_name=Text(self.name.strip("_")),
        )
        block.assign("call", call)
        block.assign("made", apply("call", *map(Name, given)))

    def _kind(self, output: Output) -> Node:
        return Name("dtype" if output.var in self._narrow else "jnp.float32")

    def _order(self, output: Output, axes: Axes) -> list[int]:
        """The places of an output's axes as it is stored: numbers first, then those of its tiles."""
        numbers = [k for k, i in enumerate(output.axes) if i not in axes]
        return [*numbers, *(output.axes.index(i) for i in axes)]

    def _filled(self, output: Output, axes: Axes) -> Node:
        naming, extents = self._naming, shape(output.var.type)[0]
        lengths: list[Node] = [naming.node(extents[k]) for k, i in enumerate(output.axes) if i not in axes]
        kinds = {a.index: a for a in self._kernel.axes}
        lengths += [Infix(naming.count(kinds[i]), "*", Name(naming.lengths[i])) for i in axes]
        return apply("jax.ShapeDtypeStruct", tuple_of(lengths), self._kind(output))

    def _cut(self, output: Output, axes: Axes, k: int) -> Node:
        """An output cut to its extents, with its axes in order."""
        extents = shape(output.var.type)[0]
        order = self._order(output, axes)
        parts = [
            Slice(None, self._naming.integers.named_in(extents[k])) if output.axes[k] in axes else ALL for k in order
        ]
        node: Node = Subscript(Item(Name("made"), k), tuple(parts))
        back = tuple(order.index(k) for k in range(len(order)))
        return node if back == tuple(range(len(back))) else Transpose(node, back)


def _rows(order: Axes, pairs: Iterable[frozenset[Index]]) -> frozenset[Index]:
    """A set of axes that has one of each pair; where there is a choice, the first ones."""
    beside: dict[Index, set[Index]] = {i: set() for i in order}
    for pair in pairs:
        for i in pair:
            beside[i] |= pair - {i}
    side: dict[Index, bool] = {}
    for first in order:
        stack = [(first, True)] if first not in side else []
        while stack:
            i, row = stack.pop()
            if i not in side:
                side[i] = row
                stack += [(j, not row) for j in beside[i]]
            elif side[i] is not row:
                names = ", ".join(j.name for j in order if j in beside[i] or j is i)
                raise Unfit(f"its tiles have {i.name} both along rows and along lanes, beside {names}")
    return frozenset(i for i, row in side.items() if row)


@shared
def _twin(i: Index) -> Index:
    return Index(f"{i.name}'", i.serial)


def _shared(naming: GpuNaming, axes: Axes, dtype: Node, swizzle: int) -> Node:
    return apply("_swizzled", naming.extents(axes), dtype, integer(swizzle))
