"""Kernels for GPUs, by Pallas' Triton: a function for each, which launches it.

The grid goes over the tiles of the outputs, and nothing is shared between its programs, so that results are the same
in every run. Triton takes tiles of 2^k elements on each side, at least 16 where matrices are multiplied.

A kernel that multiplies matrices has tiles of its axes' own lengths; 8 warps if an accumulator has 128 x 128 elements
or more, else 4; and as many stages of tiles on their way to it, at most 4, as fit in the shared memory of an H100
beside what it computes there. Any other kernel is bound by memory: its tiles are small enough for the registers of 4
warps, and as long as they can be along rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Size
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Define, Infix, List, Name, Node, Text
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply, integer, product_of, tuple_of
from tensorlang.lowering.emit.gpu.body import GpuBody
from tensorlang.lowering.emit.gpu.naming import GpuNaming, inputs
from tensorlang.lowering.emit.gpu.table import table
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.kernels import MadeBy
from tensorlang.lowering.emit.nodes import Attribute, Conditional
from tensorlang.lowering.kernels.ir import Kernel, Output, Role, TileAxis
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.terms import reads

_REGISTERS = 8192  # numbers that 4 warps hold in 64 registers of each thread
_STAGED = 160 * 1024  # bytes of tiles on their way, of 227 KiB of shared memory
RESERVED = frozenset({"dtype", "interpret", "ragged", "kernel", "step", "number", "carry", "masked", "table", "call"})


class GpuKernel:
    """The function that runs one kernel: `definition` has it under `name`, for `arrays`, the sizes, the dtype, and
    whether it is interpreted.

    Outputs in `narrow` are of the program's dtype, the others float32. Raises `ArgumentError` for tiles of a length
    that is no power of 2.
    """

    others: tuple[Define, ...] = ()
    by = MadeBy("Triton", has_triton=True)

    def __init__(
        self, kernel: Kernel, arrays: Mapping[Array, str], sizes: Mapping[Size, str], name: str, narrow: frozenset[Var]
    ) -> None:
        for axis in kernel.axes:
            if axis.block & (axis.block - 1):
                raise ArgumentError(f"tiles for GPUs are a power of 2 long, found {axis.block} along {axis.extent}")
        self.name = name
        self._kernel = kernel
        self._narrow = narrow
        self.arrays = inputs(kernel)
        self._parameters = (*(arrays[x] for x in self.arrays), *sizes.values(), "dtype", "interpret")
        integers = StaticIntegers(Names(frozenset({*RESERVED, *HELPERS, "np", "pl", "plgpu", *sizes.values(), name})))
        integers.spell(sizes)
        new = integers.names.fresh_global
        self._naming = GpuNaming(
            integers,
            arrays={x: arrays[x] for x in self.arrays},
            outputs={o.var: new(f"{o.var.name}_out") for o in kernel.outputs},
            places={a.index: new(a.index.name) for a in kernel.axes},
            lengths={a.index: new(f"{a.index.name}_block") for a in kernel.axes if not a.is_number},
            numbers={a.index: new(f"{a.index.name}_tile") for a in kernel.axes if a.is_tiled},
        )
        self._body = GpuBody(kernel, self._naming)
        self.definition = self._function()

    def _function(self) -> Define:
        kernel, naming = self._kernel, self._naming
        block = Block()
        self._lengths(block)
        given = list(naming.arrays.values())
        if kernel.tiles is not None:
            block.statements += table(kernel.tiles, naming).statements
            given.append("table")
        block.blank()
        block.statements.append(self._body.written)
        block.blank()
        self._call(block, len(given))
        block.give(apply("call", *map(Name, given)))
        return Define(self.name, self._parameters, block)

    def _call(self, block: Block, inputs: int) -> None:
        outputs = self._kernel.outputs
        block.assign("warps", self._warps())
        block.assign("stages", self._stages())
        block.assign("out", List(tuple(map(self._struct, outputs))))
        anywhere = List((apply("pl.BlockSpec", memory_space=Name("pl.ANY")),))
        call = apply(
            "pl.pallas_call",
            Name("kernel"),
            out_shape=Name("out"),
            grid=tuple_of(self._naming.count(axis) for axis in self._kernel.of_role(Role.PARALLEL)),
            in_specs=Infix(anywhere, "*", integer(inputs)),
            out_specs=Infix(anywhere, "*", integer(len(outputs))),
            compiler_params=apply("plgpu.CompilerParams", num_warps=Name("warps"), num_stages=Name("stages")),
            interpret=apply("bool", Name("interpret")),
            name=Text(self.name.strip("_")),
        )
        block.assign("call", call)

    def _struct(self, output: Output) -> Node:
        extents = tuple_of(self._naming.node(n) for n in shape(output.var.type)[0])
        kind = "dtype" if output.var in self._narrow else "jnp.float32"
        return apply("jax.ShapeDtypeStruct", extents, Name(kind))

    def _lengths(self, block: Block) -> None:
        kernel, naming = self._kernel, self._naming
        vectors = [axis for axis in kernel.axes if not axis.is_number]
        cut = [] if self._body.multiplies or kernel.tiles is not None else _cut(kernel)
        arrays = len(self.arrays) + len(kernel.outputs)
        most = _REGISTERS >> (arrays - 1).bit_length()
        known: list[Node] = []
        for axis in [*(a for a in vectors if a not in cut), *cut]:
            length: Node = apply("pl.next_power_of_2", naming.node(axis.extent))
            if axis.role is not Role.WHOLE:
                length = apply("least", integer(axis.block), length)
            if self._body.multiplies:
                length = apply("greatest", integer(16), length)
            if axis in cut:
                rest = Infix(integer(most), "//", product_of(known))
                length = apply("greatest", integer(1), apply("least", length, rest))
            name = naming.lengths[axis.index]
            known.append(Name(name))
            block.assign(name, length)
        uneven = (Infix(naming.node(a.extent), "%", Name(naming.lengths[a.index])) for a in vectors)
        block.assign("ragged", apply("any", List(tuple(uneven))))

    def _warps(self) -> Node:
        kernel, lengths = self._kernel, self._naming.lengths
        if not self._body.multiplies:
            return integer(4)
        made = [*(acc.axes for acc in kernel.accumulators), *(output.axes for output in kernel.outputs)]
        largest = max(([Name(lengths[i]) for i in axes if i in lengths] for axes in made), key=len)
        return Conditional(Infix(product_of(largest), ">=", integer(128 * 128)), integer(8), integer(4))

    def _stages(self) -> Node:
        """The number of steps whose tiles of arrays are in shared memory at once."""
        moving = {axis.index for axis in self._kernel.of_role(Role.REDUCED)}
        lengths = self._naming.lengths
        tiles = []
        for x, places in reads(*(acc.value for acc in self._kernel.accumulators)):
            over = dict.fromkeys(i for a in places for i in a.indices if i in lengths)
            if x in self._naming.arrays and len(over) > 1 and moving.intersection(i for a in places for i in a.indices):
                tiles.append(product_of(Name(lengths[i]) for i in over))
        if not self._body.multiplies or not tiles:
            return integer(1)
        item = Attribute(apply("jnp.dtype", Name("dtype")), "itemsize")
        numbers = reduce(lambda a, b: Infix(a, "+", b), tiles)
        fitting = Infix(Infix(integer(_STAGED), "//", item), "//", numbers)
        return apply("greatest", integer(1), apply("least", integer(4), fitting))


def _cut(kernel: Kernel) -> list[TileAxis]:
    """The axes along which tiles may be made shorter, the first ones first; memory is read along the last one."""
    tiled = [axis for axis in kernel.axes if not axis.is_number and axis.is_tiled]
    reduced = [axis for axis in tiled if axis.role is Role.REDUCED]
    if reduced:
        return reduced
    return tiled[:-1] if len(tiled) > 1 or not any(a.role is Role.WHOLE for a in kernel.axes) else tiled
