"""The names of axes and arrays in the code of a kernel for TPUs, and the grid that goes over its tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.predicates import TRUE
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Infix, Length, Name, Node, Subscript
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import Value, aligned, apply, integer, tuple_of
from tensorlang.lowering.emit.conditions import condition, joined
from tensorlang.lowering.kernels.ir import Kernel, Role, TileAxis
from tensorlang.lowering.kernels.operands import Array, Dimension

RESERVED = frozenset(
    {"np", "pl", "pltpu", "dtype", "interpret", "kernel", "take_in", "masked", "step", "steps", "flags", "count"}
    | {"tiles", "some", "full", "inputs", "outputs", "shapes", "scratch", "spec", "parameters", "call", "made"}
)


@dataclass
class TpuNaming:
    """Names: of arrays and sizes, as given; and along axes, of the length of tiles, their count, the number of a tile
    and where it starts.

    `places` are of the axes that are numbers. `integers` has the names of all that are numbers.
    """

    kernel: Kernel
    arrays: Mapping[Array, str]
    integers: StaticIntegers
    blocks: dict[Index, str] = field(default_factory=dict)
    counts: dict[Index, str] = field(default_factory=dict)
    tiles: dict[Index, str] = field(default_factory=dict)
    starts: dict[Index, str] = field(default_factory=dict)
    places: dict[Index, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for axis in self.kernel.axes:
            i, name = axis.index, axis.index.name
            if axis.block > 1:
                self.blocks[i] = self.names.fresh_global(f"{name}_block")
                self.counts[i] = self.names.fresh_global(f"{name}_tiles")
                self.starts[i] = self.names.fresh_global(f"{name}_first")
            if axis.is_tiled:
                self.tiles[i] = self.names.fresh_global(f"{name}_tile")
            if axis.is_number:
                self.places[i] = self.names.fresh_global(name)
        self.integers.spell(self.places)

    @property
    def names(self) -> Names:
        """All names that are in use."""
        return self.integers.names

    def integer(self, a: Affine, numbers: Mapping[Atom, Node] | None = None) -> Node:
        """An affine expression of sizes and places, and of what `numbers` has."""
        return self.integers.position(a, numbers or {})

    def count(self, axis: TileAxis) -> Node:
        """How many tiles an axis has."""
        return Name(self.counts[axis.index]) if axis.index in self.counts else self.integer(axis.extent)

    def along(self, axis: TileAxis) -> Node:
        """The length of an axis in values."""
        return Name(self.blocks[axis.index]) if axis.index in self.blocks else self.integer(axis.extent)

    def length(self, d: Dimension) -> Node:
        """The length of a dimension in a block."""
        if d.axis is not None and d.axis.is_tiled:
            return self.along(d.axis)
        return self.integer(d.length)


class Grid:
    """The axes of the grid in order, those of outputs first; None stands for the table's, if tiles are ruled out."""

    def __init__(self, naming: TpuNaming) -> None:
        self._naming = naming
        self._kernel = naming.kernel
        tiles = self._tiles = self._kernel.tiles
        listed = tiles is not None and (tiles.some is not TRUE or bool(tiles.data))
        self.listed: tuple[TileAxis, ...] = tiles.axes if tiles is not None and listed else ()
        free = [a for a in self._kernel.axes if a.is_tiled and a not in self.listed]
        parallel = [a for a in free if a.role is Role.PARALLEL]
        reduced = [a for a in free if a.role is Role.REDUCED]
        self.order: list[TileAxis | None] = [*parallel, *([None] if listed else []), *reduced]

    @property
    def counts(self) -> list[Node]:
        """The length of the grid along each axis; where data decide which tiles are visited, their number."""
        steps = Name("count") if self._tiles is not None and self._tiles.data else Length(Name("steps"), 1)
        return [steps if a is None else self._naming.count(a) for a in self.order]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of index maps."""
        grid = ("step" if a is None else self._naming.tiles[a.index] for a in self.order)
        return (*grid, *(["steps"] if self.listed else []))

    def number(self, axis: TileAxis, inside: bool = False) -> Node:
        """The number of an axis' tile, in an index map, or in the kernel."""
        if axis in self.listed:
            return Subscript(Name("steps"), (integer(self.listed.index(axis)), Name("step")))
        if inside:
            return apply("pl.program_id", integer(self.order.index(axis)))
        return Name(self._naming.tiles[axis.index])

    def table(self, block: Block) -> None:
        """Write the table of the tiles that are visited."""
        if not self.listed or self._tiles is None:
            return
        naming, tiles = self._naming, self._tiles
        names = [naming.tiles[a.index] for a in tiles.axes]
        numbers: dict[Atom, Node] = {t: Name(name) for t, name in zip(tiles.numbers, names, strict=True)}
        shape, some, full = Name("tiles"), Name("some"), Name("full")
        block.assign("tiles", tuple_of(naming.count(a) for a in tiles.axes))
        block.unpack(names, apply("np.indices", shape))
        block.assign(
            "some", apply("np.broadcast_to", condition(tiles.some, lambda a: naming.integer(a, numbers)), shape)
        )
        part = apply("np.broadcast_to", condition(tiles.part, lambda a: naming.integer(a, numbers)), shape)
        block.assign("full", apply("np.logical_not", part))
        order = tuple(a.index for a in tiles.axes)
        for related in tiles.data:
            axes = tuple(a.indices[0] for a in related.arguments)
            name = naming.arrays[related.relation]
            blocks = tuple_of(Name(naming.blocks[i]) if i in naming.blocks else integer(1) for i in axes)
            here = [naming.names.fresh_global(f"{name}_{word}") for word in ("some", "full")]
            block.unpack(here, apply("_any_and_all", Name(name), blocks))
            for whole, part_ in zip((some, full), here, strict=True):
                spread = aligned(Value(Name(part_), axes), order).node
                block.assign(whole.name, Infix(whole, "&", spread))
        outer = integer(sum(a.role is Role.PARALLEL for a in tiles.axes))
        if tiles.data:
            block.unpack(("steps", "count"), apply("_steps_of_data", some, full, outer))
        else:
            block.assign("steps", apply("asarray", apply("_steps", some, full, outer)))

    def head(self, block: Block, used: set[Index]) -> None:
        """Write what a step starts with: where its tiles are, and what is to be done."""
        naming = self._naming
        if self.listed:
            block.assign("step", apply("pl.program_id", integer(self.order.index(None))))
            block.assign("flags", Subscript(Name("steps"), (integer(len(self.listed)), Name("step"))))
        for axis in self._kernel.axes:
            if not axis.is_tiled or axis.index not in used:
                continue
            number = self.number(axis, inside=True)
            if axis.is_number:
                block.assign(naming.places[axis.index], number)
            else:
                block.assign(naming.starts[axis.index], Infix(number, "*", Name(naming.blocks[axis.index])))

    def conditions(self) -> Conditions:
        """The conditions under which the parts of a step run."""
        tiles = self._tiles
        if self.listed:
            full = None if tiles is not None and tiles.part is TRUE else _flags(12, 12)
            return Conditions(_flags(1, 1), _flags(2, 2), full, _flags(12, 4))
        ids = {a.index: apply("pl.program_id", integer(k)) for k, a in enumerate(self.order) if a is not None}
        reduced = [a for a in self.order if a is not None and a.role is Role.REDUCED]
        first = _every([Infix(ids[a.index], "==", integer(0)) for a in reduced])
        last = _every([Infix(ids[a.index], "==", Infix(self._naming.count(a), "-", integer(1))) for a in reduced])
        if tiles is None:
            return Conditions(first, last, ALWAYS, None)
        numbers: dict[Atom, Node] = {t: ids[a.index] for a, t in zip(tiles.axes, tiles.numbers, strict=True)}
        masked = condition(tiles.part, lambda a: self._naming.integer(a, numbers))
        return Conditions(first, last, None if tiles.part is TRUE else apply("jnp.logical_not", masked), masked)


ALWAYS = Name("True")


@dataclass(frozen=True)
class Conditions:
    """Whether this is an output's first tile, or its last one, one that needs no masks, or one that does; None is
    never."""

    first: Node
    last: Node
    full: Node | None
    masked: Node | None


def _flags(among: int, bits: int) -> Node:
    """Whether, of the flags in `among`, exactly those in `bits` are set."""
    return Infix(Infix(Name("flags"), "&", integer(among)), "==", integer(bits))


def _every(conditions: list[Node]) -> Node:
    return joined(conditions, True) if conditions else ALWAYS
