"""Which tiles a program of the grid visits: a table made from the sizes, when they are known, and from data.

If what rules tiles out is a conjunction of comparisons, those that a program visits are an interval, and its row of the
table is that. Otherwise it is a list of tiles.
"""

from __future__ import annotations

from tensorlang.language.affine import atom_affine
from tensorlang.language.predicates import And, Equal, NonNegative, Or, Predicate, Related, conjuncts
from tensorlang.lower.arrays.ir import Block
from tensorlang.lower.kernels.gpu_naming import Naming, listed
from tensorlang.lower.kernels.kernel import Role, Tiles


def has_intervals(tiles: Tiles) -> bool:
    """Whether the tiles that a program visits follow one another, at all sizes."""
    one = sum(axis.role is Role.REDUCED for axis in tiles.axes) <= 1
    return one and not tiles.data and all(isinstance(p, Equal | NonNegative) for p in conjuncts(tiles.some))


def table(tiles: Tiles, naming: Naming) -> Block:
    """Code that makes the table: a row for each tile of the parallel axes among `tiles`, in order."""
    block = Block()
    held = [naming.numbers[axis.index] for axis in tiles.axes]
    counts = [f"np.arange(pl.cdiv({naming.code(a.extent)}, {a.block}))" for a in tiles.axes]
    block.line(f"{', '.join(held)}{',' * (len(held) == 1)} = np.ix_({', '.join(counts)})")
    extents = listed([f"{name}.size" for name in held])
    names = dict(zip(tiles.numbers, held, strict=True))

    def holds(p: Predicate) -> str:
        match p:
            case Equal(a) | NonNegative(a):
                return f"({naming.code(a, names)} {'==' if isinstance(p, Equal) else '>='} 0)"
            case And(parts) | Or(parts):
                joined = (" & " if isinstance(p, And) else " | ").join(map(holds, parts))
                return f"({joined})" if parts else str(isinstance(p, And))
        raise AssertionError("which tiles are visited is said without quantifiers")

    block.line(f"visited = np.broadcast_to({holds(tiles.some)}, {extents})")
    block.line(f"whole = visited & np.logical_not({holds(tiles.part)})")
    for related in tiles.data:
        _narrowed(block, tiles, related, naming)
    rows = [name for name, axis in zip(held, tiles.axes, strict=True) if axis.role is Role.PARALLEL]
    row = " * ".join(f"{name}.size" for name in rows) or "1"
    made = "_intervals" if has_intervals(tiles) else "_lists"
    block.line(f"table = {made}(visited.reshape({row}, -1), whole.reshape({row}, -1))")
    return block


def _narrowed(block: Block, tiles: Tiles, related: Related, naming: Naming) -> None:
    """Of the tiles only those are visited in which a relation holds somewhere, without masks if it does everywhere."""
    places = [[k for k, a in enumerate(tiles.axes) if atom_affine(a.index) is at] for at in related.arguments]
    axes = [k for found in places for k in found]
    if len(set(axes)) < len(places):  # not one axis for each argument: all tiles are visited, with masks
        block.line("whole = np.zeros_like(visited)")
        return
    blocks = listed([str(tiles.axes[k].block) for k in axes])
    order = sorted(range(len(axes)), key=axes.__getitem__)
    turned = "" if order == list(range(len(axes))) else f".transpose{listed(list(map(str, order)))}"
    spread = ", ".join(":" if k in axes else "None" for k in range(len(tiles.axes)))
    name = naming.arrays[related.relation]
    block.line(f"some, every = _any_and_all({name}, {blocks})")
    block.line(f"visited, whole = visited & some{turned}[{spread}], whole & every{turned}[{spread}]")
