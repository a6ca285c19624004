"""Kernels as Pallas code for TPUs.

The grid goes over the tiles of PARALLEL axes, then over those of REDUCED ones, in order. Where tiles are ruled out, it
goes over a table of the others, which is prefetched (`PrefetchScalarGridSpec`) and read by the index maps. Pallas
fetches blocks ahead. Accumulators stay in VMEM, in float32, until an output's last tile. Arrays are padded with zeros
to whole tiles; results are not written beyond their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Atom, Size, constant
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import (
    ALL,
    NEW,
    Block,
    Define,
    Infix,
    Item,
    Lambda,
    List,
    Name,
    Node,
    Subscript,
    Text,
)
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply, integer, product_of, tuple_of
from tensorlang.lowering.emit.kernels import MadeBy
from tensorlang.lowering.emit.nodes import Attribute, PythonCall
from tensorlang.lowering.emit.tpu.body import TpuBody
from tensorlang.lowering.emit.tpu.grid import RESERVED, Grid, TpuNaming
from tensorlang.lowering.kernels.ir import Kernel, Role, TileAxis
from tensorlang.lowering.kernels.operands import Array, How, Operand

_LONGEST = 100
_LANES = 128


class TpuKernel:
    """The function that runs one kernel: `definition` has it under `name`, for `arrays`, the sizes and the dtype.

    Outputs in `narrow` are of the program's dtype, the others float32. Raises `ArgumentError` if its tiles can't be of
    their lengths.
    """

    others: tuple[Define, ...] = ()
    by = MadeBy("Mosaic")

    def __init__(
        self, kernel: Kernel, arrays: Mapping[Array, str], sizes: Mapping[Size, str], name: str, narrow: frozenset[Var]
    ) -> None:
        self.name = name
        self._kernel = kernel
        self._narrow = narrow
        integers = StaticIntegers(Names(frozenset({*RESERVED, *arrays.values(), *sizes.values(), name})))
        integers.spell(sizes)
        self._naming = TpuNaming(kernel, arrays, integers)
        self._grid = Grid(self._naming)
        self._body = TpuBody(self._naming, self._grid)
        read = [x.array for x, _ in self._body.inputs]
        read += [related.relation for related in kernel.tiles.data] if kernel.tiles is not None else []
        self.arrays = tuple(dict.fromkeys(read))
        check_lengths(x for x, _ in (*self._body.inputs, *self._body.outputs))
        parameters = (*(arrays[x] for x in self.arrays), *sizes.values(), "dtype", "interpret")
        self.definition = Define(name, parameters, self._function())

    def _function(self) -> Block:
        naming, block = self._naming, Block()
        for line in self._kernel.formulas():
            block.note(line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "...")
        cut = [axis for axis in self._kernel.axes if axis.block > 1]
        for axis in cut:
            block.assign(naming.blocks[axis.index], self._block(axis))
        for axis in cut:
            count = apply("pl.cdiv", naming.integer(axis.extent), Name(naming.blocks[axis.index]))
            block.assign(naming.counts[axis.index], count)
        self._grid.table(block)
        block.blank()
        block.statements.append(self._body.function(self._narrow))
        block.blank()
        self._call(block)
        return block

    def _block(self, axis: TileAxis) -> Node:
        """The extent, or the block if that is less; where nothing is accumulated, as many rows as fit."""
        naming, most = self._naming, integer(axis.block)
        extent = naming.integer(axis.extent)
        if self._kernel.accumulators or not self._body.is_sublane(axis.index):
            return apply("least", most, extent)
        width: list[Node] = [integer(len(self._body.inputs) + len(self._body.outputs))]
        for other in self._kernel.axes:
            if other is not axis and not other.is_number:
                whole = naming.integer(other.extent)
                width.append(apply("least", integer(other.block), whole) if other.block else whole)
        return apply("_rows", extent, most, product_of(width))

    def _call(self, block: Block) -> None:
        grid, body, listed = self._grid, self._body, bool(self._grid.listed)
        for name, operands in (("inputs", body.inputs), ("outputs", body.outputs)):
            block.assign(name, List(tuple(self._spec(x) for x, _ in operands)))
        shapes = []
        for x, _ in body.outputs:
            lengths = tuple_of(self._naming.integer(d.length) for d in x.dimensions)
            kind = Name("dtype" if x.array in self._narrow else "jnp.float32")
            shapes.append(apply("jax.ShapeDtypeStruct", lengths, kind))
        block.assign("shapes", List(tuple(shapes)))
        meaning = ["arbitrary" if a is None or a.role is Role.REDUCED else "parallel" for a in grid.order]
        specs = {"grid": tuple_of(grid.counts), "in_specs": Name("inputs"), "out_specs": Name("outputs")}
        if body.scratch:
            kept = (tuple_of(map(self._naming.length, x.dimensions)) for x, _ in body.scratch)
            scratch = (apply("pltpu.VMEM", lengths, Name("jnp.float32")) for lengths in kept)
            block.assign("scratch", List(tuple(scratch)))
            specs["scratch_shapes"] = Name("scratch")
        if listed:
            spec = apply("pltpu.PrefetchScalarGridSpec", num_scalar_prefetch=integer(1), **specs)
            block.assign("spec", spec)
            specs = {"grid_spec": Name("spec")}
        semantics = tuple_of(map(Text, meaning))
        block.assign("parameters", apply("pltpu.CompilerParams", dimension_semantics=semantics))
        options = {"out_shape": Name("shapes"), **specs, "compiler_params": Name("parameters")}
        block.assign("call", apply("pl.pallas_call", Name("kernel"), **options, interpret=Name("interpret")))
        read = [
            *([Name("steps")] if listed else []),
            *(given(self._naming, x, Name(self._naming.arrays[x.array])) for x, _ in body.inputs),
        ]
        block.assign("made", apply("call", *read))
        block.give(List(tuple(without_absent(x, k) for k, (x, _) in enumerate(body.outputs))))

    def _spec(self, x: Operand) -> Node:
        if all(d.how is How.ABSENT for d in x.dimensions):
            return apply("pl.BlockSpec", memory_space=Name("pltpu.SMEM"))
        numbers: dict[Atom, Node] = {a.index: self._grid.number(a) for a in self._kernel.axes if a.is_tiled}
        at: list[Node] = []
        for d in x.dimensions:
            if d.how is How.TILE and d.axis is not None:
                at.append(numbers[d.axis.index])
            else:
                at.append(self._naming.integer(d.at - d.low, numbers) if d.how is How.NUMBER else integer(0))
        block = tuple_of(Name("None") if d.how is How.NUMBER else self._naming.length(d) for d in x.dimensions)
        return apply("pl.BlockSpec", block, Lambda(self._grid.parameters, tuple_of(at)))


def given(naming: TpuNaming, x: Operand, node: Node, over_time: bool = False) -> Node:
    """An array with its absent dimensions added, filled up to whole tiles. Single numbers are float32.

    It has one more dimension in front if it is `over_time`, and that is complete.
    """
    lacks = [d.how is How.ABSENT for d in x.dimensions]
    time = [ALL] if over_time else []
    whole = Subscript(node, (*time, *(NEW if missing else ALL for missing in lacks))) if any(lacks) else node
    if all(lacks):
        return PythonCall(Attribute(whole, "astype"), (Name("jnp.float32"),))
    declared = iter(shape(x.array.type)[0] if isinstance(x.array, Var) else x.array.sizes)
    sizes = [constant(1) if missing else next(declared) for missing in lacks]
    exact = all(d.low is constant(0) and d.length is n for d, n in zip(x.dimensions, sizes, strict=True))
    if exact and not any(d.how is How.TILE for d in x.dimensions):
        return whole
    starts: list[Node] = [integer(0) for _ in time]
    lengths: list[Node] = [Name("size") for _ in time]
    for d in x.dimensions:
        starts.append(naming.integer(d.low))
        if d.how is How.TILE and d.axis is not None and d.axis.index in naming.blocks:
            i = d.axis.index
            lengths.append(Infix(Name(naming.counts[i]), "*", Name(naming.blocks[i])))
        else:
            lengths.append(naming.integer(d.length))
    return apply("_filled", whole, tuple_of(starts), tuple_of(lengths))


def check_lengths(operands: Iterable[Operand]) -> None:
    """Raise `ArgumentError` if tiles are shorter along a register than a register is."""
    for x in operands:
        axis = x.dimensions[-1].axis
        if axis is not None and axis.block % _LANES:
            raise ArgumentError(
                f"tiles along {axis.index.name}, in the last dimension of {x.array.name}, "
                f"must be a multiple of {_LANES} long, found {axis.block}"
            )


def without_absent(x: Operand, k: int, over_time: bool = False) -> Node:
    """The k-th array that was made, without its absent dimensions; the first one is the time if it is `over_time`."""
    made = Item(Name("made"), k)
    if not any(d.how is How.ABSENT for d in x.dimensions):
        return made
    time = [ALL] if over_time else []
    return Subscript(made, (*time, *(integer(0) if d.how is How.ABSENT else ALL for d in x.dimensions)))
