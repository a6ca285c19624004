"""What the code of a kernel for TPUs calls its axes and arrays, and the grid that goes over its tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, Size, render
from tensorlang.language.comparisons import chains
from tensorlang.language.predicates import TRUE, And, Equal, NonNegative, Or, Predicate
from tensorlang.lower.arrays.ir import Block
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.arrays.values import aligned
from tensorlang.lower.emit.python import text
from tensorlang.lower.kernels.kernel import Axis, Kernel, Role
from tensorlang.lower.kernels.operands import Array, Dimension
from tensorlang.lower.kernels.text import written

RESERVED = frozenset(
    {"np", "pl", "pltpu", "dtype", "interpret", "kernel", "take_in", "masked", "step", "steps", "flags", "count"}
    | {"tiles", "some", "full", "inputs", "outputs", "shapes", "scratch", "spec", "parameters", "call", "made"}
)


@dataclass
class Naming:
    """Names: of arrays and sizes, as given, and of lengths of tiles, how many there are, and where one starts.

    `places` are of the axes that are numbers.
    """

    kernel: Kernel
    arrays: Mapping[Array, str]
    sizes: Mapping[Size, str]
    names: Names
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

    def integer(self, a: Affine, numbers: Mapping[Index, str] | None = None) -> str:
        """An affine expression of sizes, and of what `numbers` has."""
        codes = dict[Atom, str]([*self.sizes.items(), *(numbers or {}).items()])
        return render(a, lambda atom: codes[atom], " * ")

    def factor(self, a: Affine) -> str:
        """The same, in parentheses if it has several terms."""
        code = self.integer(a)
        return f"({code})" if len(a.terms) + bool(a.constant) > 1 else code

    def count(self, axis: Axis) -> str:
        """How many tiles an axis has."""
        return self.counts.get(axis.index) or self.integer(axis.extent)

    def along(self, axis: Axis) -> str:
        """The length of an axis in values."""
        return self.blocks.get(axis.index) or self.integer(axis.extent)

    def length(self, d: Dimension) -> str:
        """The length of a dimension in a block."""
        if d.axis is not None and d.axis.is_tiled:
            return self.along(d.axis)
        return self.integer(d.length)

    def condition(self, p: Predicate, numbers: Mapping[Index, str]) -> str:
        """A condition on sizes and numbers of tiles, which may be arrays."""
        match p:
            case And(parts):
                return " & ".join(f"({self.condition(q, numbers)})" for q in parts) or "True"
            case Or(parts):
                return " | ".join(f"({self.condition(q, numbers)})" for q in parts) or "False"
            case Equal() | NonNegative():
                (chain,) = chains([p], lambda atom: (isinstance(atom, Size), atom.name))
                left, right = (self.integer(a, numbers) for a in chain.sides)
                return f"{left} {'==' if chain.operators[0] == '=' else chain.operators[0]} {right}"
        raise AssertionError("tiles are listed by conditions without quantifiers and data")


class Grid:
    """The axes of the grid in order, those of outputs first; None is the table's, if tiles are ruled out."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._kernel = naming.kernel
        tiles = self._tiles = self._kernel.tiles
        listed = tiles is not None and (tiles.some is not TRUE or bool(tiles.data))
        self.listed: tuple[Axis, ...] = tiles.axes if tiles is not None and listed else ()
        free = [a for a in self._kernel.axes if a.is_tiled and a not in self.listed]
        parallel = [a for a in free if a.role is Role.PARALLEL]
        reduced = [a for a in free if a.role is Role.REDUCED]
        self.order: list[Axis | None] = [*parallel, *([None] if listed else []), *reduced]

    @property
    def counts(self) -> list[str]:
        """How long the grid is along each axis; of tiles that data decide, as many as there are."""
        steps = "count" if self._tiles is not None and self._tiles.data else "steps.shape[1]"
        return [steps if a is None else self._naming.count(a) for a in self.order]

    @property
    def parameters(self) -> list[str]:
        """The parameters of index maps."""
        grid = ["step" if a is None else self._naming.tiles[a.index] for a in self.order]
        return [*grid, *(["steps"] if self.listed else [])]

    def number(self, axis: Axis, inside: bool = False) -> str:
        """The number of an axis' tile, in an index map, or in the kernel."""
        if axis in self.listed:
            return f"steps[{self.listed.index(axis)}, step]"
        return f"pl.program_id({self.order.index(axis)})" if inside else self._naming.tiles[axis.index]

    def table(self, block: Block) -> None:
        """Write the table of the tiles that are visited."""
        if not self.listed or self._tiles is None:
            return
        naming, tiles = self._naming, self._tiles
        names = [naming.tiles[a.index] for a in tiles.axes]
        numbers = dict(zip(tiles.numbers, names, strict=True))
        block.line(f"tiles = {_tuple([naming.count(a) for a in tiles.axes])}")
        block.line(f"{', '.join(names)}{',' * (len(names) == 1)} = np.indices(tiles)")
        block.line(f"some = np.broadcast_to({naming.condition(tiles.some, numbers)}, tiles)")
        block.line(f"full = ~np.broadcast_to({naming.condition(tiles.part, numbers)}, tiles)")
        order = tuple(a.index for a in tiles.axes)
        for related in tiles.data:
            axes = tuple(a.indices[0] for a in related.arguments)
            name = naming.arrays[related.relation]
            blocks = _tuple([naming.blocks.get(i, "1") for i in axes])
            here = [naming.names.fresh_global(f"{name}_{word}") for word in ("some", "full")]
            block.line(f"{', '.join(here)} = _any_and_all({name}, {blocks})")
            for word, part in zip(("some", "full"), here, strict=True):
                block.line(f"{word} = {word} & {text(aligned(written(part, axes), order).node)}")
        outer = sum(a.role is Role.PARALLEL for a in tiles.axes)
        if tiles.data:
            block.line(f"steps, count = _steps_of_data(some, full, {outer})")
        else:
            block.line(f"steps = jnp.asarray(_steps(some, full, {outer}))")

    def head(self, block: Block, used: set[Index]) -> None:
        """Write what a step starts with: where its tiles are, and what is to be done."""
        naming = self._naming
        if self.listed:
            block.line(f"step = pl.program_id({self.order.index(None)})")
            block.line(f"flags = steps[{len(self.listed)}, step]")
        for axis in self._kernel.axes:
            if axis.is_tiled and axis.index in used:
                number = self.number(axis, inside=True)
                if axis.is_number:
                    block.line(f"{naming.places[axis.index]} = {number}")
                else:
                    block.line(f"{naming.starts[axis.index]} = {number} * {naming.blocks[axis.index]}")

    def conditions(self) -> Conditions:
        """When what is done."""
        tiles = self._tiles
        if self.listed:
            masked = "flags & 12 == 4"
            full = None if tiles is not None and tiles.part is TRUE else "flags & 12 == 12"
            return Conditions("flags & 1 != 0", "flags & 2 != 0", full, masked)
        ids = {a.index: f"pl.program_id({k})" for k, a in enumerate(self.order) if a is not None}
        reduced = [a for a in self.order if a is not None and a.role is Role.REDUCED]
        first = " & ".join(_each([f"{ids[a.index]} == 0" for a in reduced]))
        last = " & ".join(_each([f"{ids[a.index]} == {self._naming.count(a)} - 1" for a in reduced]))
        if tiles is None:
            return Conditions(first, last, "True", None)
        numbers = {t: ids[a.index] for a, t in zip(tiles.axes, tiles.numbers, strict=True)}
        masked = self._naming.condition(tiles.part, numbers)
        return Conditions(first, last, None if tiles.part is TRUE else f"jnp.logical_not({masked})", masked)


@dataclass(frozen=True)
class Conditions:
    """When an output's first and last tile is, and a tile that needs no masks, and one that does; None is never."""

    first: str
    last: str
    full: str | None
    masked: str | None


def _each(codes: Sequence[str]) -> Sequence[str]:
    return codes if len(codes) == 1 else [f"({code})" for code in codes]


def _tuple(codes: Sequence[str]) -> str:
    return f"({', '.join(codes)}{',' * (len(codes) == 1)})"
