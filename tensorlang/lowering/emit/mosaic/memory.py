"""What a kernel has in shared memory: how it lies, and how much it takes.

These are the tiles that stay, those that are copied back, the parts of matrices that are multiplied, and the moving
tiles of each stage. There are as many stages as fit, at most 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from tensorlang.lowering.arrays.ir import Block, Infix, Name, Node
from tensorlang.lowering.arrays.values import Axes, apply, integer, product_of
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.mosaic.body import MosaicBody
from tensorlang.lowering.emit.mosaic.tiles import Tile
from tensorlang.lowering.emit.nodes import Attribute, Conditional
from tensorlang.lowering.kernels.ir import Kernel, Role, TileAxis
from tensorlang.lowering.kernels.layouts import WARPGROUP, MatrixProduct, Placed, Units, why_not
from tensorlang.lowering.kernels.roles import Unfit

SHARED = 227 * 1024
"""Bytes of shared memory that a program may have on Hopper and Blackwell."""
LONGEST = 256
"""The most elements of an axis that is held from end to end in registers, and of the lanes of a product of matrices."""
_SPARE = 8 * 1024  # bytes for barriers, sums across warps, and what lies between arrays
_SIZES = (2, 4)  # bytes of elements: bfloat16, float32, int32


class SharedMemory:
    """The shared memory of a kernel: `placed` are its tiles, and `least` the bytes that it takes with one stage and
    operands of single precision, where axes of unknown extent that are held from end to end have 64 elements.

    Raises `Unfit` for more than there is, and for factors that the matrix units don't take.
    """

    def __init__(self, kernel: Kernel, naming: GpuNaming, body: MosaicBody, units: Units) -> None:
        self._naming, self._body, self._units = naming, body, units
        self._lengths = {a.index: _least_length(a) for a in kernel.axes if not a.is_number}
        self._lengths |= {twin: self._lengths[i] for i, twin in naming.twins.items()}
        self._accumulates = bool(kernel.accumulators)
        found = {t.name: self._lying(t.name, t.axes, t.swizzle) for t in (*self._held(), *self._moving())}
        products = list(self._products(found))
        self.placed = (*found.values(), *(self._lying(o.name, o.axes, o.swizzle) for o in body.made))
        broken = why_not(self.placed, products, units, _SIZES)
        if broken is not None:
            raise Unfit(broken)
        if any(a.role is Role.WHOLE and self._lengths[a.index] > LONGEST for a in kernel.axes):
            raise Unfit(f"an axis of more than {LONGEST} elements is held from end to end")
        self.least = self._least()
        if self.least > SHARED:
            raise Unfit(f"its tiles take {self.least // 1024} KiB of shared memory, of {SHARED // 1024} KiB")

    def _held(self) -> list[Tile]:
        return list(self._body.tiles.held.values())

    def _moving(self) -> list[Tile]:
        return list(self._body.tiles.moving.values())

    def _lying(self, name: str, axes: Axes, swizzle: int) -> Placed:
        return Placed(name, tuple(self._lengths[i] for i in axes), swizzle)

    def _products(self, tiles: dict[str, Placed]) -> Iterator[MatrixProduct]:
        for factors in self._body.values.products:
            both = [
                tiles[f.tile] if f.tile else self._lying(" by ".join(i.name for i in f.axes), f.axes, swizzle)
                for f, swizzle in zip(factors, self._units.swizzles, strict=True)
            ]
            left, right = factors
            yield MatrixProduct(both[0], both[1], (left.is_turned, right.is_turned))

    def _least(self) -> int:
        def elements(axes: Axes) -> int:
            return reduce(lambda n, i: n * self._lengths[i], axes, 1)

        kept = [4 * elements(t.axes) for t in (*self._held(), *self._moving())]
        kept += [4 * elements(axes) for axes in self._others()]
        multiplied = [6 * (elements(a.axes) + elements(b.axes)) for a, b in self._body.values.products]
        return sum(kept) + max(multiplied, default=0) + _SPARE

    def _others(self) -> list[Axes]:
        return [*self._body.values.fetched, *(o.axes for o in self._body.made)]

    def stages(self, block: Block) -> None:
        """Write how many tiles of a moving array are in shared memory: 4, or as many as fit."""
        naming = self._naming

        def elements(axes: Axes) -> Node:
            return product_of(Name(naming.lengths[i]) for i in axes)

        def size(name: str, axes: Axes) -> Node:
            return Infix(Attribute(Attribute(Name(name), "dtype"), "itemsize"), "*", elements(axes))

        fixed: list[Node] = [integer(_SPARE)]
        fixed += [size(t.source, t.axes) for t in self._held()]
        fixed += [Infix(integer(4), "*", elements(axes)) for axes in self._others()]
        products = self._body.values.products
        if products:
            both = [Infix(elements(a.axes), "+", elements(b.axes)) for a, b in products]
            most = apply("greatest", *both) if len(both) > 1 else both[0]
            each = Conditional(Infix(Name("dtype"), "==", Name("jnp.bfloat16")), integer(2), integer(6))
            fixed.append(Infix(each, "*", most))
        block.assign("shared", _sum(fixed))
        moving = [size(t.source, t.axes) for t in self._moving()]
        if moving:
            fitting = Infix(Infix(integer(SHARED), "-", Name("shared")), "//", _sum(moving))
            block.assign("stages", apply("least", integer(4), fitting))
        elif self._accumulates:
            block.assign("stages", integer(1))


def _least_length(axis: TileAxis) -> int:
    if axis.role is not Role.WHOLE:
        return axis.block
    return WARPGROUP * -(-max(1, axis.extent.constant if axis.extent.is_constant else 1) // WARPGROUP)


def _sum(nodes: list[Node]) -> Node:
    return reduce(lambda a, b: Infix(a, "+", b), nodes)
