"""Which tiles a program of the grid visits: a table made from the sizes, when they are known, and from data.

If tiles are ruled out by a conjunction of comparisons, those that a program visits are an interval, which is its row of
the table. Otherwise the row is a list of tiles.
"""

from __future__ import annotations

from tensorlang.language.affine import Atom, atom_affine
from tensorlang.language.predicates import Equal, NonNegative, Related, conjuncts
from tensorlang.lowering.arrays.ir import ALL, NEW, Block, Infix, Name, Node, Subscript, Transpose
from tensorlang.lowering.arrays.values import apply, integer, integers, product_of, tuple_of
from tensorlang.lowering.emit.conditions import condition
from tensorlang.lowering.emit.gpu.naming import GpuNaming
from tensorlang.lowering.emit.nodes import Attribute, PythonCall
from tensorlang.lowering.kernels.ir import Role, Tiles


def has_intervals(tiles: Tiles) -> bool:
    """Whether the tiles that a program visits follow one another, at all sizes."""
    one = sum(axis.role is Role.REDUCED for axis in tiles.axes) <= 1
    return one and not tiles.data and all(isinstance(p, Equal | NonNegative) for p in conjuncts(tiles.some))


def table(tiles: Tiles, naming: GpuNaming) -> Block:
    """Code that makes the table: a row for each tile of the parallel axes among `tiles`, in order."""
    block = Block()
    held = [naming.numbers[axis.index] for axis in tiles.axes]
    counts = [apply("np.arange", apply("pl.cdiv", naming.node(a.extent), integer(a.block))) for a in tiles.axes]
    block.unpack(held, apply("np.ix_", *counts))
    count = {name: Attribute(Name(name), "size") for name in held}
    numbers: dict[Atom, Node] = {t: Name(name) for t, name in zip(tiles.numbers, held, strict=True)}
    some, part = (condition(p, lambda a: naming.node(a, numbers)) for p in (tiles.some, tiles.part))
    block.assign("visited", apply("np.broadcast_to", some, tuple_of(count.values())))
    block.assign("whole", Infix(Name("visited"), "&", apply("np.logical_not", part)))
    for related in tiles.data:
        _narrow(block, tiles, related, naming)
    rows = [count[name] for name, axis in zip(held, tiles.axes, strict=True) if axis.role is Role.PARALLEL]
    rest = (PythonCall(Attribute(Name(x), "reshape"), (product_of(rows), integer(-1))) for x in ("visited", "whole"))
    block.assign("table", apply("_intervals" if has_intervals(tiles) else "_lists", *rest))
    return block


def _narrow(block: Block, tiles: Tiles, related: Related, naming: GpuNaming) -> None:
    """Restrict the visited tiles to those where a relation holds somewhere, without masks where it does everywhere."""
    places = [[k for k, a in enumerate(tiles.axes) if atom_affine(a.index) is at] for at in related.arguments]
    axes = [k for found in places for k in found]
    if len(set(axes)) < len(places):  # not one axis for each argument: all tiles are visited, with masks
        block.assign("whole", apply("np.zeros_like", Name("visited")))
        return
    relation = Name(naming.arrays[related.relation])
    block.unpack(("some", "every"), apply("_any_and_all", relation, integers(tiles.axes[k].block for k in axes)))
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    spread = tuple(ALL if k in axes else NEW for k in range(len(tiles.axes)))
    for name, found in (("visited", Name("some")), ("whole", Name("every"))):
        turned = found if order == tuple(range(len(axes))) else Transpose(found, order)
        block.assign(name, Infix(Name(name), "&", Subscript(turned, spread)))
