"""Kernels for GPUs by Mosaic GPU where it can express them, the others by Triton, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from tensorlang.language.affine import Size
from tensorlang.language.grammar import Var
from tensorlang.lower.arrays.ir import Block, Define, Note
from tensorlang.lower.emit.gpu.launch import GpuKernel
from tensorlang.lower.emit.kernels import EmittedKernel
from tensorlang.lower.emit.mosaic.launch import MosaicKernel
from tensorlang.lower.emit.mosaic.memory import SHARED
from tensorlang.lower.kernels.ir import Kernel
from tensorlang.lower.kernels.layouts import Units
from tensorlang.lower.kernels.operands import Array
from tensorlang.lower.kernels.roles import Unfit


class _Written:
    """A kernel's function, and another for what it can't do."""

    def __init__(self, definition: Define, arrays: tuple[Array, ...], by: str, others: tuple[Define, ...] = ()) -> None:
        self.definition, self.arrays, self.by, self.others = definition, arrays, by, others


def mosaic_or_triton(
    units: Units,
    kernel: Kernel,
    arrays: Mapping[Array, str],
    sizes: Mapping[Size, str],
    name: str,
    narrow: frozenset[Var],
) -> EmittedKernel:
    """The kernel by Mosaic GPU, else by Triton. Where lengths decide, which are known with the shapes, it is both."""
    try:
        made = MosaicKernel(kernel, arrays, sizes, name, narrow, units)
        others: tuple[Define, ...] = ()
        if not made.is_bounded:
            other = f"{name}_by_triton"
            made = MosaicKernel(kernel, arrays, sizes, name, narrow, units, other)
            why = "By Triton where an axis is longer than Mosaic GPU can hold from end to end."
            others = (_noted(GpuKernel(kernel, arrays, sizes, other, narrow).definition, why),)
    except Unfit as reason:
        triton = GpuKernel(kernel, arrays, sizes, name, narrow)
        return _Written(
            _noted(triton.definition, f"By Triton, since {reason}."), triton.arrays, f"Triton, since {reason}"
        )
    return _Written(made.definition, made.arrays, _described(made), others)


def _noted(definition: Define, why: str) -> Define:
    return Define(definition.name, definition.parameters, Block([Note(why), *definition.body.statements]))


def _described(kernel: MosaicKernel) -> str:
    sides = f"rows along {', '.join(i.name for i in kernel.rows)}"
    if kernel.lanes:
        sides += f", lanes along {', '.join(i.name for i in kernel.lanes)}"
    most = "" if kernel.is_bounded else " or more, and Triton where that is not there"
    taken = f"{kernel.memory.least // 1024} KiB of {SHARED // 1024} KiB of shared memory{most}"
    units = f", products by {kernel.units.value}" * kernel.multiplies
    swizzled = ", ".join(map(str, (tile for tile in kernel.memory.placed if tile.swizzle)))
    return f"Mosaic GPU{units}: {sides}; {taken}" + (f", swizzled by bytes: {swizzled}" * bool(swizzled))
