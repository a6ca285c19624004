"""What kernels take for all sizes: operations on the tiles that are visited, and the bytes of blocks that come and go.

A tile counts in full, masked or not, except for what lies beyond the end of an axis. A value that does not depend on an
axis is computed again in each of its tiles. A block that is read counts once for each tile that reads it, and if it is
the same in all tiles that are summed, once for each tile of the outputs. Data are at their worst: relations hold
somewhere in every tile. Where rows may be taken in passes, the kernel that holds them counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import lcm

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Add, Bracket, Call, Expr, Extremum, Mul, Sum, Var
from tensorlang.language.predicates import (
    TRUE,
    Predicate,
    at_most,
    conjunction,
    free_atoms,
    less,
    lookups,
    substitute,
)
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.cost import ArrayCost, Repeated
from tensorlang.lowering.arrays.extents import ZERO
from tensorlang.lowering.arrays.shapes import LoopRange
from tensorlang.lowering.arrays.work import IN_SINGLE, Box, Boxes, Work, box_index, charge
from tensorlang.lowering.kernels.ir import Kernel, Recurrence, Role, TileAxis
from tensorlang.lowering.kernels.operands import Array, How, dimension, relations_in
from tensorlang.lowering.kernels.terms import conditions, free, nodes, over, reads
from tensorlang.lowering.plan.dependence import variable

_Block = tuple[Array, tuple[Affine, ...]]

_RESCALED = 3
"""An accumulator is multiplied by exp(old maximum - new maximum)."""


def work_of_kernel(kernel: Kernel) -> Work:
    """The work of one kernel, at the sizes at which it runs."""
    return _Counting(kernel).work().under(kernel.where)


def work_of_steps(r: Recurrence) -> tuple[Work, Work]:
    """The work of each step of a recurrence, and what is read once: first states, and what all steps share."""
    counting = _Counting(r.step)
    counting.values([output.value for output in r.step.outputs], False)
    each, once = Work(counting.operations), Work()
    for s in r.slices:
        _whole(s.var, each.read)
    for x in (*(s.first for s in r.states), *(array for _, array in r.frees)):
        _whole(x, once.read)
    return each, once


def _whole(x: Var, boxes: Boxes) -> None:
    charge(boxes, Box((), TRUE, shape(x.type)[0]), IN_SINGLE["f"])


@dataclass
class _Counting:
    """The boxes of a kernel, as they are found."""

    kernel: Kernel
    operations: Boxes = field(default_factory=dict)
    read: Boxes = field(default_factory=dict)

    def work(self) -> Work:
        """All of it."""
        kernel = self.kernel
        for acc in kernel.accumulators:
            self.values([acc.value], True)
            taken = {*free(acc.value), *over(acc.pred), *acc.axes}
            charge(self.operations, self._box(taken, True), 1)
            if acc.pred is not TRUE and kernel.tiles is not None:
                charge(self.operations, self._box(taken, True, kernel.tiles.part), 1)
            if acc.shift is not None:
                charge(self.operations, self._box(acc.axes, True), _RESCALED)
        self.values([output.value for output in kernel.outputs], False)
        summed = self._blocks((acc.value for acc in kernel.accumulators), (acc.pred for acc in kernel.accumulators))
        blocks = {**self._blocks((output.value for output in kernel.outputs), ()), **summed}
        for (array, places), width in blocks.items():
            self._fetch(array, places, width, (array, places) in summed)
        written: Boxes = {}
        for output in kernel.outputs:
            _whole(output.var, written)
        return Work(self.operations, written, self.read)

    def values(self, expressions: Sequence[Expr], in_sums: bool) -> None:
        """Count the operations of `expressions`, in each tile that is visited if they are `in_sums`, else in each tile
        of the outputs."""
        for e in nodes(*expressions):
            if variable(e) is not None or (not free(e) and not isinstance(e, Sum | Extremum)):
                continue  # nothing, or one number for a tile
            match e:
                case Sum(i, _, body):
                    charge(self.operations, self._box({*free(body), i}, in_sums), 1)
                case Extremum(_, i, _, p, body):
                    charge(self.operations, self._box({*free(body), *over(p), i}, in_sums), 1)
                case Bracket() | Add() | Mul():
                    charge(self.operations, self._box(free(e), in_sums), 1)
                case Call(f, _):
                    charge(self.operations, self._box(free(e), in_sums), f.cost)

    def _blocks(self, values: Iterable[Expr], preds: Iterable[Predicate]) -> dict[_Block, int]:
        """What values, and further conditions, read, with the bytes of an element."""
        values = list(values)
        predicates = [*preds, *conditions(*values)]
        made = {acc.var for acc in self.kernel.accumulators}
        found: dict[_Block, int] = {(x, at): IN_SINGLE["f"] for x, at in reads(*values) if x not in made}
        found |= {(x.array, x.at): IN_SINGLE["i"] for p in predicates for x in lookups(p)}
        return found | {(q.relation, q.arguments): IN_SINGLE["b"] for q in relations_in(*predicates)}

    def _fetch(self, array: Array, places: tuple[Affine, ...], width: int, in_sums: bool) -> None:
        axes = {axis.index: axis for axis in self.kernel.axes}
        summed = {a.index for a in self.kernel.of_role(Role.REDUCED)}
        along: list[Index] = []
        further: list[Affine] = []
        for a in places:
            inside = [i for i in a.indices if not axes[i].is_number]
            if len(inside) > 1 or any(axes[i].is_tiled for i in inside):
                along += inside
            elif (found := dimension(a, axes)).how is How.WHOLE:
                further.append(found.length)
        depends = in_sums and any(i in summed for a in places for i in a.indices)
        charge(self.read, self._box(along, depends, further=further), width)

    def _box(
        self, indices: Iterable[Index], in_sums: bool, where: Predicate = TRUE, further: Sequence[Affine] = ()
    ) -> Box:
        """The elements along `indices`, and along `further` axes, in each tile: of all that are visited, or of those
        `where` that holds, if it is `in_sums`, else of the outputs."""
        kernel, values = self.kernel, set(indices)
        cut = [a for a in kernel.axes if a.is_tiled and (in_sums or a.role is Role.PARALLEL)]
        tiles = kernel.tiles if in_sums else None
        some = TRUE if tiles is None else conjunction([tiles.some, where])
        numbers = {} if tiles is None else dict(zip((a.index for a in tiles.axes), tiles.numbers, strict=True))
        asked = free_atoms(some)
        loops: list[LoopRange] = []
        parts: list[Predicate] = []
        firsts: dict[Index, Affine] = {}
        names: dict[Atom, Affine] = {}
        for axis in cut:
            number = numbers.get(axis.index)
            if axis.index in values and number not in asked:
                continue
            t = atom_affine(box_index(len(loops)))
            loops.append(LoopRange(ZERO, axis.extent))
            firsts[axis.index] = t * axis.block
            parts.append(less(firsts[axis.index], axis.extent))
            if number is not None:
                names[number] = t
        elements: list[Affine] = []
        for axis in kernel.axes:
            if axis.index not in values:
                continue
            i = atom_affine(box_index(len(loops) + len(elements)))
            elements.append(axis.extent)
            if axis.index in firsts:
                first = firsts[axis.index]
                parts += [at_most(first, i), less(i, first + axis.block)]
        return Box(tuple(loops), conjunction([substitute(some, names), *parts]), (*elements, *further))


def cost_of_tiles(f: Function, parts: Sequence[Repeated], axes: Iterable[TileAxis]) -> ArrayCost:
    """The cost of kernels over these axes at sizes that are whole tiles, where it takes no quotients to say."""
    axes = tuple(axes)
    extents = tuple(dict.fromkeys(axis.extent for axis in axes))
    tile = lcm(*(axis.block for axis in axes if axis.block))
    return ArrayCost(f, tuple(parts), {}, extents, tile)
