"""Kernels as Pallas code for TPUs.

The grid goes over the tiles of PARALLEL axes, then over those of REDUCED ones, in order; where tiles are ruled out it
goes over a table of those that are visited, which is fetched before (`PrefetchScalarGridSpec`) and read by the index
maps. Blocks are fetched ahead by Pallas. What is accumulated stays in VMEM, in float32, until an output's last tile.
Arrays are filled up with zeros to whole tiles; of the results, what is beyond their ends is not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Size, constant
from tensorlang.language.grammar import Call, Var
from tensorlang.language.show import expr_text
from tensorlang.language.types import shape
from tensorlang.lower.arrays.ir import Block
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.emit.python import lines
from tensorlang.lower.kernels.kernel import Accumulator, Axis, Kernel, Kind, Role
from tensorlang.lower.kernels.operands import Array, How, Operand, expressions_of
from tensorlang.lower.kernels.terms import nodes, reads
from tensorlang.lower.kernels.tpu_body import Body
from tensorlang.lower.kernels.tpu_grid import RESERVED, Grid, Naming

IMPORTS = (
    "import jax",
    "import jax.numpy as jnp",
    "import numpy as np",
    "from jax import lax",
    "from jax.experimental import pallas as pl",
    "from jax.experimental.pallas import tpu as pltpu",
)

_LONGEST = 100
_SIGN = {Kind.SUM: "+=", Kind.MAX: "max=", Kind.MIN: "min="}
_LANES = 128


def length(axis: Axis, ruled_out: bool) -> int:
    """The length of an axis' tiles: 512, at which the matrix unit is busy while blocks of bfloat16 are fetched, but 256
    where conditions rule tiles out, for of those at a border half is masked. Both leave most of the VMEM free.
    """
    return 256 if ruled_out else 512


def unfit(kernel: Kernel) -> str | None:
    """Why a kernel can't be one for TPUs; None if it can."""
    axes = {axis.index: axis for axis in kernel.axes}
    made = [*(acc.axes for acc in kernel.accumulators), *(output.axes for output in kernel.outputs)]
    made += [tuple(i for a in at for i in a.indices) for _, at in reads(*expressions_of(kernel))]
    if any(sum(not axes[i].is_number for i in at) > 2 for at in made):
        return "its tiles have more than two axes"
    for e in nodes(*expressions_of(kernel)):
        if isinstance(e, Call) and e.function.shared is not None:
            return f"{e.function.name} has loops that data decide"
    return None


class TpuKernel:
    """The function that runs one kernel: `code` defines it under `name`, for `arrays`, the sizes and the dtype.

    Outputs in `narrow` are of the program's dtype, the others float32. Raises `ArgumentError` if its tiles can't be of
    their lengths.
    """

    def __init__(
        self, kernel: Kernel, arrays: Mapping[Array, str], sizes: Mapping[Size, str], name: str, narrow: frozenset[Var]
    ) -> None:
        self.name = name
        self._kernel = kernel
        self._narrow = narrow
        names = Names(frozenset({*RESERVED, *arrays.values(), *sizes.values(), name}))
        self._naming = Naming(kernel, arrays, sizes, names)
        self._grid = Grid(self._naming)
        self._body = Body(self._naming, self._grid)
        read = [x.array for x, _ in self._body.inputs]
        read += [related.relation for related in kernel.tiles.data] if kernel.tiles is not None else []
        self.arrays = tuple(dict.fromkeys(read))
        _check(self._body)
        self.code = "\n".join(lines(self._function()))

    def _function(self) -> Block:
        naming, function, block = self._naming, Block(), Block()
        arguments = [*(naming.arrays[x] for x in self.arrays), *naming.sizes.values(), "dtype", "interpret"]
        function.line(f"def {self.name}({', '.join(arguments)}):")
        function.statements.append(block)
        self._explained(block)
        cut = [axis for axis in self._kernel.axes if axis.block > 1]
        for axis in cut:
            block.line(f"{naming.blocks[axis.index]} = {self._block(axis)}")
        for axis in cut:
            block.line(f"{naming.counts[axis.index]} = -(-{naming.factor(axis.extent)} // {naming.blocks[axis.index]})")
        self._grid.table(block)
        block.line("")
        block.statements += self._body.function(self._narrow).statements
        block.line("")
        self._call(block)
        return function

    def _explained(self, block: Block) -> None:
        """What the kernel computes, as comments."""
        known: list[tuple[str, str]] = []
        for acc in self._kernel.accumulators:
            known.append((f"{_at(acc)} {_SIGN[acc.kind]}", expr_text(acc.value)))
        for output in self._kernel.outputs:
            known.append((f"{output.var.name}[{', '.join(i.name for i in output.axes)}] =", expr_text(output.value)))
        for left, right in known:
            text = f"# {left} {' '.join(right.split())}"
            block.line(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")

    def _block(self, axis: Axis) -> str:
        """The extent, or the block if that is less; where nothing is accumulated, as many rows as fit."""
        naming, extent = self._naming, self._naming.integer(axis.extent)
        if self._kernel.accumulators or not self._body.is_sublane(axis.index):
            return f"min({axis.block}, {extent})"
        width = [str(len(self._body.inputs) + len(self._body.outputs))]
        for other in self._kernel.axes:
            if other is not axis and not other.is_number:
                whole = naming.integer(other.extent)
                width.append(f"min({other.block}, {whole})" if other.block else naming.factor(other.extent))
        return f"_rows({extent}, {axis.block}, {' * '.join(width)})"

    def _call(self, block: Block) -> None:
        grid, body, listed = self._grid, self._body, bool(self._grid.listed)
        _listing(block, "inputs", [self._spec(x) for x, _ in body.inputs])
        _listing(block, "outputs", [self._spec(x) for x, _ in body.outputs])
        kept = [", ".join(map(self._naming.length, x.dimensions)) for x, _ in body.scratch]
        shapes = []
        for x, _ in body.outputs:
            lengths = ", ".join(self._naming.integer(d.length) for d in x.dimensions)
            kind = "dtype" if x.array in self._narrow else "jnp.float32"
            shapes.append(f"jax.ShapeDtypeStruct(({lengths}), {kind})")
        _listing(block, "shapes", shapes)
        comma = "," * (len(grid.order) == 1)
        meaning = ["arbitrary" if a is None or a.role is Role.REDUCED else "parallel" for a in grid.order]
        specs = [f"grid=({', '.join(grid.counts)}{comma})", "in_specs=inputs", "out_specs=outputs"]
        if kept:
            _listing(block, "scratch", [f"pltpu.VMEM(({lengths}), jnp.float32)" for lengths in kept])
            specs.append("scratch_shapes=scratch")
        if listed:
            block.line(f"spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, {', '.join(specs)})")
            specs = ["grid_spec=spec"]
        semantics = ", ".join(f'"{word}"' for word in meaning)
        block.line(f"parameters = pltpu.CompilerParams(dimension_semantics=({semantics}{comma}))")
        options = ["kernel", "out_shape=shapes", *specs, "compiler_params=parameters", "interpret=interpret"]
        block.line(f"call = pl.pallas_call({', '.join(options)})")
        given = [*(["steps"] if listed else []), *(self._given(x) for x, _ in body.inputs)]
        block.line(f"made = call({', '.join(given)})")
        block.line(f"return [{', '.join(_without_absent(x, k) for k, (x, _) in enumerate(body.outputs))}]")

    def _spec(self, x: Operand) -> str:
        if all(d.how is How.ABSENT for d in x.dimensions):
            return "pl.BlockSpec(memory_space=pltpu.SMEM)"
        numbers = {a.index: self._grid.number(a) for a in self._kernel.axes if a.is_tiled}
        at = []
        for d in x.dimensions:
            if d.how is How.TILE and d.axis is not None:
                at.append(numbers[d.axis.index])
            else:
                at.append(self._naming.integer(d.at - d.low, numbers) if d.how is How.NUMBER else "0")
        block = ["None" if d.how is How.NUMBER else self._naming.length(d) for d in x.dimensions]
        return f"pl.BlockSpec(({', '.join(block)}), lambda {', '.join(self._grid.parameters)}: ({', '.join(at)}))"

    def _given(self, x: Operand) -> str:
        """An array with the dimensions that it lacks, filled up to whole tiles. Single numbers are float32."""
        naming, name = self._naming, self._naming.arrays[x.array]
        if any(d.how is How.ABSENT for d in x.dimensions):
            name += f"[{', '.join('None' if d.how is How.ABSENT else ':' for d in x.dimensions)}]"
        if all(d.how is How.ABSENT for d in x.dimensions):
            return f"{name}.astype(jnp.float32)"
        declared = iter(shape(x.array.type)[0] if isinstance(x.array, Var) else x.array.sizes)
        sizes = [constant(1) if d.how is How.ABSENT else next(declared) for d in x.dimensions]
        exact = all(d.low is constant(0) and d.length is n for d, n in zip(x.dimensions, sizes, strict=True))
        if exact and not any(d.how is How.TILE for d in x.dimensions):
            return name
        lengths = []
        for d in x.dimensions:
            tiled = d.how is How.TILE and d.axis is not None and d.axis.index in naming.blocks
            whole = f"{naming.counts[d.axis.index]} * {naming.blocks[d.axis.index]}" if tiled and d.axis else ""
            lengths.append(whole or naming.integer(d.length))
        starts = ", ".join(naming.integer(d.low) for d in x.dimensions)
        return f"_filled({name}, ({starts}), ({', '.join(lengths)}))"


def _check(body: Body) -> None:
    """Raise `ArgumentError` if tiles are shorter along a register than a register is."""
    for x, _ in (*body.inputs, *body.outputs):
        axis = x.dimensions[-1].axis
        if axis is not None and axis.block % _LANES:
            raise ArgumentError(
                f"tiles along {axis.index.name}, in the last dimension of {x.array.name}, "
                f"must be a multiple of {_LANES} long, found {axis.block}"
            )


def _at(acc: Accumulator) -> str:
    return f"{acc.var.name}[{', '.join(i.name for i in acc.axes)}]"


def _listing(block: Block, name: str, codes: Sequence[str]) -> None:
    """A list, each of its elements in a line of its own."""
    block.line(f"{name} = [")
    inner = Block()
    for code in codes:
        inner.line(f"{code},")
    block.statements.append(inner)
    block.line("]")


def _without_absent(x: Operand, k: int) -> str:
    """The k-th array that was made, without dimensions that it does not have."""
    if not any(d.how is How.ABSENT for d in x.dimensions):
        return f"made[{k}]"
    return f"made[{k}][{', '.join('0' if d.how is How.ABSENT else ':' for d in x.dimensions)}]"
