"""How tiles lie in shared memory, and which of these layouts the matrix units of a GPU take.

A matrix lies in pieces of 8 rows by `swizzle` bytes, one after the other. In row r of a piece, the 16 bytes with number
c are stored in the place of number c xor r, so that neither rows nor columns collide in one bank. A vector has no
pieces, and neither has a matrix copied from a place where no piece begins, as a window may be.

    pieces      a row is a whole number of pieces long, and so are all rows
    factors     of products of matrices lie in pieces, and what is transposed has elements of 2 bytes
    wgmma       both factors have the same swizzle; it adds up in registers
    tcgen05     64 rows at a time are added up in the 128 lanes of tensor memory, the two halves of the columns beneath
                each other: half a row of the second factor is a whole number of pieces

These are laws of the hardware and of JAX's Mosaic GPU, which says less plainly what it can't do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

WARPGROUP = 64
"""The rows that a warpgroup multiplies at once: all lengths of tiles are multiples of it."""
WIDEST = 128
SWIZZLES = (WIDEST, 64, 32)
"""Bytes of a piece's rows."""
_ROWS = 8
_FACTOR = 2  # bytes of an element that is multiplied: bfloat16


class Units(Enum):
    """The units that multiply matrices: Hopper's instructions, or Blackwell's."""

    WGMMA = "wgmma"
    TCGEN05 = "tcgen05"

    @property
    def swizzles(self) -> tuple[int, int]:
        """The swizzles that factors can have at all lengths, which are multiples of 64."""
        return (WIDEST, WIDEST) if self is Units.WGMMA else (WIDEST, 64)


@dataclass(frozen=True)
class Placed:
    """A tile in shared memory: the elements along each of its axes, and its swizzle, 0 if it has no pieces."""

    name: str
    lengths: tuple[int, ...]
    swizzle: int

    def __str__(self) -> str:
        return f"{self.name} {self.swizzle}" if self.swizzle else self.name


@dataclass(frozen=True)
class MatrixProduct:
    """A product of matrices: the factors as they lie, and which are read by columns."""

    left: Placed
    right: Placed
    turned: tuple[bool, bool]

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        return self.left.lengths[self.turned[0]], self.right.lengths[not self.turned[1]]


def why_not(
    tiles: Sequence[Placed], products: Sequence[MatrixProduct], units: Units, sizes: Sequence[int]
) -> str | None:
    """The law that tiles of elements of these sizes in bytes break, or None."""
    return next(_broken(tiles, products, units, sizes), None)


def _broken(
    tiles: Sequence[Placed], products: Sequence[MatrixProduct], units: Units, sizes: Sequence[int]
) -> Iterator[str]:
    for tile in tiles:
        yield from _of_pieces(tile, sizes)
    for product in products:
        for factor in (product.left, product.right):
            yield from _of_pieces(factor, (_FACTOR,))
            if not factor.swizzle:
                yield f"{factor.name} is multiplied, and does not lie in pieces"
        left, right = product.left, product.right
        if units is Units.WGMMA and left.swizzle != right.swizzle:
            yield f"wgmma takes factors of one swizzle, not {left} and {right}"
        rows, columns = product.extents
        if rows % WARPGROUP:
            yield f"{units.value} adds up {WARPGROUP} rows at a time, not {rows}"
        if units is Units.TCGEN05 and (columns // 2 * _FACTOR) % right.swizzle:
            yield f"tcgen05 takes whole pieces of half of {columns} columns, not {right}"


def _of_pieces(tile: Placed, sizes: Sequence[int]) -> Iterator[str]:
    if not tile.swizzle:
        return
    if len(tile.lengths) != 2:
        yield f"{tile} is no matrix, and has no pieces"
        return
    if tile.swizzle not in SWIZZLES:
        yield f"pieces are {', '.join(map(str, SWIZZLES))} bytes wide, not as those of {tile}"
    rows, columns = tile.lengths
    if rows % _ROWS or any(columns * size % tile.swizzle for size in sizes):
        yield f"{rows} by {columns} elements are no whole number of pieces of {tile}"
