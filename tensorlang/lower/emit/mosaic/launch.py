"""Kernels for GPUs, by Pallas' Mosaic GPU: a function for each, which launches it.

The grid goes over the tiles of the outputs, one warpgroup makes each, and nothing is shared between the programs, so
that results are the same in every run. Tiles have a multiple of 64 elements on each side. Arrays are filled up to whole
tiles before, and results cut to their extents afterwards, so nothing within is masked but what predicates say.

What lies in shared memory is counted here: the tiles that stay, those that are copied back, the parts of matrices that
are multiplied, and the moving tiles of each stage. At most 4 stages are taken, and as many as fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from tensorlang.language.affine import Index, Size
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lower.arrays.integers import Integers
from tensorlang.lower.arrays.ir import (
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
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.arrays.values import Axes, apply, integer, product_of, tuple_of
from tensorlang.lower.emit.gpu.naming import GpuNaming, inputs
from tensorlang.lower.emit.gpu.table import table
from tensorlang.lower.emit.helpers import HELPERS
from tensorlang.lower.emit.mosaic.body import MosaicBody
from tensorlang.lower.emit.nodes import Attribute, Conditional
from tensorlang.lower.kernels.ir import Kernel, Output, Role, TileAxis
from tensorlang.lower.kernels.operands import Array
from tensorlang.lower.kernels.roles import Unfit

WARPGROUP = 64
"""The rows that a warpgroup multiplies at once: all lengths of tiles are multiples of it."""
SHARED = 227 * 1024
"""Bytes of shared memory that a program may have on Hopper and Blackwell."""
LONGEST = 256
"""What an axis that is held from end to end may have in registers, and a product of matrices in lanes."""
_RESERVED = frozenset(
    {"arrived", "blocks", "call", "carry", "count", "dtype", "first", "interpret", "k", "kernel", "last", "made"}
    | {"masked", "number", "out", "row", "scratch", "shared", "stages", "start", "step", "stop", "table", "whole"}
)
_SPARE = 8 * 1024  # bytes for barriers, sums across warps, and what lies between arrays


class MosaicKernel:
    """The function that runs one kernel: `definition` has it under `name`, for `arrays`, the sizes, the dtype, and how
    it is interpreted, if it is.

    Outputs in `narrow` are of the program's dtype, the others float32. `rows` and `lanes` are the axes of its tiles,
    and `shared` the bytes of shared memory that it takes with one stage and operands of single precision, where axes
    of unknown extent that are held from end to end have 64 elements. Where such an axis turns out to be longer than
    fits, the function `otherwise` is called. Raises `Unfit` for what Mosaic GPU can't express.
    """

    def __init__(
        self,
        kernel: Kernel,
        arrays: Mapping[Array, str],
        sizes: Mapping[Size, str],
        name: str,
        narrow: frozenset[Var],
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
        first = MosaicBody(kernel, self._named(), None)
        rows = _rows(first.values.order, first.values.pairs)
        self._naming = self._named()
        self._body = MosaicBody(kernel, self._naming, rows)
        self.rows = tuple(i for i in self._body.values.order if i in rows)
        self.lanes = tuple(i for i in self._body.values.order if i not in rows)
        self.shared = self._least()
        if self.shared > SHARED:
            raise Unfit(f"its tiles take {self.shared // 1024} KiB of shared memory, of {SHARED // 1024} KiB")
        self.definition = self._function()

    @property
    def is_bounded(self) -> bool:
        """Whether the tiles have the same lengths at all sizes."""
        return all(a.role is not Role.WHOLE or a.extent.is_constant for a in self._kernel.axes)

    def _named(self) -> GpuNaming:
        kernel, arrays, sizes = self._kernel, self._given, self._names_of_sizes
        taken = {*_RESERVED, *HELPERS, "np", "pl", "plgpu", "mosaic_gpu", *arrays.values(), *sizes.values(), self.name}
        integers = Integers(Names(frozenset(taken)))
        integers.spell(sizes)
        new = integers.names.fresh_global
        return GpuNaming(
            integers,
            arrays={x: arrays[x] for x in self.arrays},
            outputs={o.var: new(f"{o.var.name}_out") for o in kernel.outputs},
            places={a.index: new(a.index.name) for a in kernel.axes},
            lengths={a.index: new(f"{a.index.name}_block") for a in kernel.axes if not a.is_number},
            numbers={a.index: new(f"{a.index.name}_tile") for a in kernel.axes if a.is_tiled},
        )

    # What lies in shared memory

    def _least(self) -> int:
        """`shared`."""
        lengths = {a.index: _least_length(a) for a in self._kernel.axes if not a.is_number}

        def elements(axes: Axes) -> int:
            return reduce(lambda n, i: n * lengths[i], axes, 1)

        body = self._body
        kept = [4 * elements(t.axes) for t in (*body.tiles.held.values(), *body.tiles.moving.values())]
        kept += [4 * elements(axes) for _, _, axes in body.made]
        kept += [4 * elements(axes) for axes in body.values.fetched]
        multiplied = [6 * (elements(a) + elements(b)) for a, b in _in_pairs(body.values.products)]
        if any(a.role is Role.WHOLE and _least_length(a) > LONGEST for a in self._kernel.axes):
            raise Unfit(f"an axis of more than {LONGEST} elements is held from end to end")
        return sum(kept) + max(multiplied, default=0) + _SPARE

    def _stages(self, block: Block) -> None:
        """How many tiles of a moving array are in shared memory: 4, or as many as fit."""
        naming, body = self._naming, self._body

        def elements(axes: Axes) -> Node:
            return product_of(Name(naming.lengths[i]) for i in axes)

        def size(name: str, axes: Axes) -> Node:
            return Infix(Attribute(Attribute(Name(name), "dtype"), "itemsize"), "*", elements(axes))

        fixed: list[Node] = [integer(_SPARE)]
        fixed += [size(t.source, t.axes) for t in body.tiles.held.values()]
        fixed += [
            Infix(integer(4), "*", elements(axes)) for axes in (*body.values.fetched, *(a for *_, a in body.made))
        ]
        if body.values.products:
            both = [Infix(elements(a), "+", elements(b)) for a, b in _in_pairs(body.values.products)]
            most = apply("greatest", *both) if len(both) > 1 else both[0]
            each = Conditional(Infix(Name("dtype"), "==", Name("jnp.bfloat16")), integer(2), integer(6))
            fixed.append(Infix(each, "*", most))
        block.assign("shared", _sum(fixed))
        moving = [size(t.source, t.axes) for t in body.tiles.moving.values()]
        if moving:
            fitting = Infix(Infix(integer(SHARED), "-", Name("shared")), "//", _sum(moving))
            block.assign("stages", apply("least", integer(4), fitting))
        elif self._kernel.accumulators:
            block.assign("stages", integer(1))

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
        self._stages(block)
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
        result: Node = List(tuple(self._cut(o, axes, k) for k, (o, _, axes) in enumerate(self._body.made)))
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
        out = [self._filled(o, axes) for o, _, axes in body.made]
        block.assign("out", List(tuple(out)))
        scratch = [_shared(naming, t.axes, Attribute(Name(t.source), "dtype")) for t in body.tiles.held.values()]
        scratch += [_shared(naming, axes, self._kind(o)) for o, _, axes in body.made]
        if body.tiles.held:
            scratch.append(apply("mosaic_gpu.Barrier", num_arrivals=integer(len(body.tiles.held))))
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
        """An output without what is beyond its ends, its axes in order."""
        extents = shape(output.var.type)[0]
        order = self._order(output, axes)
        parts = [
            Slice(None, self._naming.integers.named_in(extents[k])) if output.axes[k] in axes else ALL for k in order
        ]
        node: Node = Subscript(Item(Name("made"), k), tuple(parts))
        back = tuple(order.index(k) for k in range(len(order)))
        return node if back == tuple(range(len(back))) else Transpose(node, back)


def _rows(order: Axes, pairs: Iterable[frozenset[Index]]) -> frozenset[Index]:
    """Axes such that of each pair one is among them; the first ones where that may be chosen."""
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


def _least_length(axis: TileAxis) -> int:
    if axis.role is not Role.WHOLE:
        return axis.block
    return WARPGROUP * -(-max(1, axis.extent.constant if axis.extent.is_constant else 1) // WARPGROUP)


def _in_pairs(products: list[tuple[Axes, Axes]]) -> list[tuple[Axes, Axes]]:
    """The axes of both matrices of each product."""
    return [(a, b) for (a, _), (b, _) in zip(products[::2], products[1::2], strict=True)]


def _sum(nodes: Iterable[Node]) -> Node:
    return reduce(lambda a, b: Infix(a, "+", b), nodes)


def _shared(naming: GpuNaming, axes: Axes, dtype: Node) -> Node:
    return apply("mosaic_gpu.SMEM", naming.extents(axes), dtype)
