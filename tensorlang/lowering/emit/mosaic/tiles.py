"""Which arrays a kernel reads in which tiles, and when these are copied to shared memory.

An array is read at the places `at`: each is a number, or runs along one axis of the kernel. It is copied in boxes,
which may begin anywhere but have consecutive elements, so that axis has the coefficient 1. Before the kernel starts,
arrays are filled up with zeros to whole tiles, and transposed where a box has its axes in another order.

    held      not along reduced axes: fetched once, before the first step
    moving    along reduced axes: on their way while the steps before them are taken
    fetched   at places of a loop's index: where they are read, which waits for them
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.lowering.arrays.ir import Infix, Name, Node, Subscript
from tensorlang.lowering.arrays.values import Axes, apply, integer, integers, product_of, tuple_of
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.nodes import Attribute
from tensorlang.lowering.kernels.ir import Kernel, Role, TileAxis
from tensorlang.lowering.kernels.layouts import WIDEST
from tensorlang.lowering.kernels.operands import Array, Dimension, dimension
from tensorlang.lowering.kernels.roles import Unfit

_ALIGNED = 64
"""Rows have a multiple of this many elements: they need a multiple of 16 bytes to be copied in boxes."""


@dataclass(frozen=True)
class Tile:
    """A box of an array in shared memory, called `name`: its axes, and how it is cut from `source`, as that lies.

    `swizzle` says how it lies itself (`kernels.layouts`).
    """

    name: str
    axes: Axes
    source: str
    extents: tuple[Node | None, ...]
    starts: tuple[Node, ...]
    swizzle: int


class InputTiles:
    """The tiles that a kernel reads, as they are asked for."""

    def __init__(self, kernel: Kernel, naming: GpuNaming, axes: Mapping[Index, TileAxis]) -> None:
        self._axes = dict(axes)
        self._reduced = kernel.of_role(Role.REDUCED)
        self._naming = naming
        self.sources: dict[tuple[Array, Node], str] = {}
        """The arguments of the kernel, by array and by how that is prepared."""
        self.held: dict[tuple[Array, tuple[Affine, ...], Axes], Tile] = {}
        self.moving: dict[tuple[Array, tuple[Affine, ...], Axes], Tile] = {}

    def axes(self, at: Sequence[Affine]) -> Axes:
        """The axes of an array that is read at these places, in order."""
        found: list[Index] = []
        for a in at:
            along = [i for i in a.indices if not self._axes[i].is_number]
            if a.lookups:
                raise Unfit("it reads at places that data choose")
            if len(along) > 1 or any(a.coefficient(i) != 1 for i in along):
                raise Unfit(f"it reads at {a}, which is no box")
            found += along
        if len(set(found)) < len(found):
            raise Unfit("it reads along a diagonal of a tile")
        if len(found) > 2:
            raise Unfit(f"it reads a tile over {', '.join(i.name for i in found)}, more than two axes")
        return tuple(found)

    def is_in_loop(self, at: Iterable[Affine]) -> bool:
        """Whether the places depend on the index of a loop."""
        return any(self._axes[i].role is Role.UNROLLED for a in at for i in a.indices)

    def is_aligned(self, at: Iterable[Affine]) -> bool:
        """Whether the boxes at these places begin where tiles do, as pieces need it."""
        return all(d.axis is None or _is_aligned(d) for d in (dimension(a, self._axes) for a in at))

    def swizzle(self, at: Iterable[Affine], axes: Axes) -> int:
        """The swizzle of the tile at these places, unless a product needs a narrower one."""
        return WIDEST if len(axes) == 2 and self.is_aligned(at) else 0

    def tile(self, array: Array, at: tuple[Affine, ...], axes: Axes, swizzle: int = WIDEST) -> Tile:
        """The tile at these places, with its axes in this order, held or moving; its swizzle is at most `swizzle`."""
        moves = any(self._axes[i].role is Role.REDUCED for a in at for i in a.indices)
        known = self.moving if moves else self.held
        key = (array, at, axes)
        if key not in known:
            name = self._naming.names.fresh_global(f"{self._naming.arrays[array]}_tile")
            numbers = self._in_pipeline() if moves else self._in_body()
            known[key] = Tile(name, axes, *self._box(array, at, axes, numbers), self.swizzle(at, axes))
        if swizzle < known[key].swizzle:
            known[key] = replace(known[key], swizzle=swizzle)
        return known[key]

    def part(self, array: Array, at: tuple[Affine, ...], axes: Axes) -> Node:
        """The reference to a tile in memory, or an element there if it has no axes."""
        source, extents, starts = self._box(array, at, axes, self._in_body())
        return part(source, extents, starts)

    def _box(
        self, array: Array, at: tuple[Affine, ...], axes: Axes, numbers: Mapping[Atom, Node]
    ) -> tuple[str, tuple[Node | None, ...], tuple[Node, ...]]:
        """The source of a box, its extents, None for a single place, and where it begins."""
        naming = self._naming
        found = [dimension(a, self._axes) for a in at]
        order = [k for k, d in enumerate(found) if d.axis is None]
        order += [next(k for k, d in enumerate(found) if d.axis is not None and d.axis.index is i) for i in axes]
        if axes and not _is_aligned(found[order[-1]]):
            raise Unfit(f"its tiles begin anywhere along {found[order[-1]].at}, their last axis")
        lengths: list[Node] = []
        for d in found:
            length = naming.node(d.length)
            if d.axis is not None:
                filled = Infix(naming.count(d.axis), "*", Name(naming.lengths[d.axis.index]))
                rest = d.length - d.axis.extent
                more = Infix(integer(_ALIGNED), "*", apply("pl.cdiv", naming.node(rest), integer(_ALIGNED)))
                length = filled if rest is constant(0) else Infix(filled, "+", more)
            lengths.append(length)
        starts = tuple_of(naming.node(d.low) for d in found)
        prepared = apply("_in_tiles", Name(naming.arrays[array]), starts, tuple_of(lengths), integers(order))
        if (array, prepared) not in self.sources:
            self.sources[array, prepared] = naming.names.fresh_global(f"{naming.arrays[array]}_ref")
        extents = tuple(Name(naming.lengths[d.axis.index]) if d.axis is not None else None for d in found)
        begins = tuple(naming.node(d.at - d.low, numbers) for d in found)
        if not at:
            return self.sources[array, prepared], (None,), (integer(0),)
        return (
            self.sources[array, prepared],
            tuple(extents[k] for k in order),
            tuple(begins[k] for k in order),
        )

    def _in_body(self) -> dict[Atom, Node]:
        """Where the tiles of axes begin, and the places that are numbers, in the body of the kernel."""
        found: dict[Atom, Node] = {}
        for i, axis in self._axes.items():
            if axis.is_number:
                found[i] = Name(self._naming.places[i])
            elif axis.role is Role.WHOLE:
                found[i] = integer(0)
            else:
                found[i] = Infix(Name(self._naming.numbers[i]), "*", Name(self._naming.lengths[i]))
        return found

    def _in_pipeline(self) -> dict[Atom, Node]:
        """The same where `number` is that of the reduced tile."""
        found = self._in_body()
        for k, axis in enumerate(self._reduced):
            own: Node = Name("number")
            if k + 1 < len(self._reduced):
                own = apply("lax.div", own, product_of(self._naming.count(a) for a in self._reduced[k + 1 :]))
            if k:
                own = apply("lax.rem", own, self._naming.count(axis))
            found[axis.index] = own if axis.is_number else Infix(own, "*", Name(self._naming.lengths[axis.index]))
        found.update((twin, found[i]) for i, twin in self._naming.twins.items())
        return found


def _is_aligned(d: Dimension) -> bool:
    return d.axis is not None and d.at - d.low is atom_affine(d.axis.index)


def part(source: str, extents: Sequence[Node | None], starts: Sequence[Node]) -> Node:
    """The reference to a box, or its element if all of it is a single place."""
    if all(n is None for n in extents):
        return Subscript(Name(source), tuple(starts))
    where = (start if n is None else apply("pl.ds", start, n) for n, start in zip(extents, starts, strict=True))
    return Subscript(Attribute(Name(source), "at"), tuple(where))
