"""Kernels for GPUs by Mosaic GPU where it can express them, the others by Triton, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from tensorlang.language.affine import Size
from tensorlang.language.grammar import Var
from tensorlang.lowering.arrays.ir import Block, Define, List, Name, Note
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply
from tensorlang.lowering.emit.gpu.launch import GpuKernel
from tensorlang.lowering.emit.gpu.naming import inputs
from tensorlang.lowering.emit.kernels import EmittedKernel, MadeBy
from tensorlang.lowering.emit.mosaic.launch import MosaicKernel
from tensorlang.lowering.emit.mosaic.memory import SHARED
from tensorlang.lowering.kernels.ir import Kernel
from tensorlang.lowering.kernels.layouts import Units
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.roles import Unfit


class _Written:
    """A kernel's function, and others that it calls."""

    def __init__(
        self, definition: Define, arrays: tuple[Array, ...], by: MadeBy, others: tuple[Define, ...] = ()
    ) -> None:
        self.definition, self.arrays, self.by, self.others = definition, arrays, by, others


def mosaic_or_triton(
    units: Units,
    kernel: Kernel,
    arrays: Mapping[Array, str],
    sizes: Mapping[Size, str],
    name: str,
    narrow: frozenset[Var],
) -> EmittedKernel:
    """The kernel by Mosaic GPU, else in passes by Mosaic GPU, else by Triton.

    Where lengths decide, which are only known with the shapes, the code has the first and one of the others.
    """

    def made(otherwise: str = "") -> MosaicKernel:
        return MosaicKernel(kernel, arrays, sizes, name, narrow, units, otherwise)

    try:
        first = made()
    except Unfit as reason:
        try:
            return _in_passes(units, kernel, arrays, sizes, name, narrow)
        except Unfit:
            return _by_triton(kernel, arrays, sizes, name, narrow, f"since {reason}")
    if first.is_bounded:
        return _Written(first.definition, first.arrays, MadeBy(_described(first)))
    where = "where an axis is longer than can be held from end to end"
    try:
        other = _in_passes(units, kernel, arrays, sizes, f"{name}_in_passes", narrow)
    except Unfit:
        other = _by_triton(kernel, arrays, sizes, f"{name}_by_triton", narrow, where)
    first = made(other.definition.name)
    by = MadeBy(f"{_described(first)}; {other.by}", other.by.has_triton)
    return _Written(first.definition, first.arrays, by, (*other.others, other.definition))


def _by_triton(
    kernel: Kernel, arrays: Mapping[Array, str], sizes: Mapping[Size, str], name: str, narrow: frozenset[Var], why: str
) -> _Written:
    made = GpuKernel(kernel, arrays, sizes, name, narrow)
    note = Note(f"By Triton, {why}.")
    noted = Define(made.definition.name, made.definition.parameters, Block([note, *made.definition.body.statements]))
    return _Written(noted, made.arrays, MadeBy(f"Triton, {why}", has_triton=True))


def _in_passes(
    units: Units,
    kernel: Kernel,
    arrays: Mapping[Array, str],
    sizes: Mapping[Size, str],
    name: str,
    narrow: frozenset[Var],
) -> _Written:
    """The passes of a kernel, each a function, and one that calls them. Raises `Unfit` if there are none."""
    if not kernel.passes:
        raise Unfit("it is not made in passes")
    names = Names(frozenset({*arrays.values(), *sizes.values(), "dtype", "interpret"}))
    held = dict(arrays)
    parameters = (*(arrays[x] for x in inputs(kernel)), *sizes.values(), "dtype", "interpret")
    block, passes = Block(), []
    block.note("In passes, for rows of any length.")
    for k, each in enumerate(kernel.passes):
        made = MosaicKernel(each, held, sizes, f"{name}_{k + 1}", narrow, units)
        if not made.is_bounded:
            raise Unfit("a pass holds an axis from end to end")
        passes.append(made.definition)
        given = [*(held[x] for x in made.arrays), *sizes.values(), "dtype", "interpret"]
        held.update((output.var, names.fresh_local(output.var.name)) for output in each.outputs)
        found = apply(made.definition.name, *map(Name, given))
        block.unpack([held[output.var] for output in each.outputs], found)
    block.give(List(tuple(Name(held[output.var]) for output in kernel.outputs)))
    by = MadeBy(f"Mosaic GPU in {len(passes)} pass{'es' * (len(passes) > 1)} over longer rows")
    return _Written(Define(name, parameters, block), inputs(kernel), by, tuple(passes))


def _described(kernel: MosaicKernel) -> str:
    sides = f"rows along {', '.join(i.name for i in kernel.rows)}"
    if kernel.lanes:
        sides += f", lanes along {', '.join(i.name for i in kernel.lanes)}"
    most = "" if kernel.is_bounded else " or more"
    taken = f"{kernel.memory.least // 1024} KiB of {SHARED // 1024} KiB of shared memory{most}"
    units = f", products by {kernel.units.value}" * kernel.multiplies
    swizzled = ", ".join(map(str, (tile for tile in kernel.memory.placed if tile.swizzle)))
    return f"Mosaic GPU{units}: {sides}; {taken}" + f", swizzled by bytes: {swizzled}" * bool(swizzled)
