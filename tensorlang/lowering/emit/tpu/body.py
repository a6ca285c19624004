"""What a kernel for TPUs does at one step of its grid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Index, atom_affine, constant
from tensorlang.language.grammar import Expr, Sum, Var, access
from tensorlang.language.predicates import Predicate, Related, conjunction, conjuncts
from tensorlang.lowering.arrays.fold import used_twice
from tensorlang.lowering.arrays.ir import ALL, NEW, Block, Define, Infix, Name, Node, Number, Subscript, When
from tensorlang.lowering.arrays.values import Value, aligned, apply, ordered, times, tuple_of
from tensorlang.lowering.emit.conditions import joined
from tensorlang.lowering.emit.nodes import Attribute, Do, Everything, For, OnDevice, PythonCall, Store
from tensorlang.lowering.emit.tpu.grid import ALWAYS, Grid, TpuNaming
from tensorlang.lowering.emit.tpu.values import HIGHEST, LOWEST, Flagged, TpuScope, TpuValues, part_of
from tensorlang.lowering.kernels.ir import Accumulator, Kernel, Kind, Output, Role, TileAxis
from tensorlang.lowering.kernels.operands import (
    Dimension,
    How,
    Operand,
    expressions_of,
    lookups_of,
    operand,
    relations_in,
    relations_of,
)
from tensorlang.lowering.kernels.terms import Binders, Reduction, conditions, over, product, reads, reduction
from tensorlang.recursion import run

_START = {Kind.SUM: Number(Fraction(0), True), Kind.MAX: LOWEST, Kind.MIN: HIGHEST}
_SIGN = {Kind.SUM: 0, Kind.MAX: 1, Kind.MIN: -1}

Named = tuple[Operand, str]
"""An array, and the reference to its block."""


class TpuBody:
    """The function that Pallas runs at each step: `function` writes it.

    `inputs`, `outputs` and `scratch` are what it takes, after the table of tiles if there is one.
    """

    def __init__(self, naming: TpuNaming, grid: Grid) -> None:
        self._naming, self._grid = naming, grid
        self._kernel = kernel = naming.kernel
        self._axes = {axis.index: axis for axis in kernel.axes}
        self._read = self._all_inputs()
        self.inputs = list(self._read.values())
        self.outputs: list[Named] = []
        for output in kernel.outputs:
            here = operand(kernel, output.var, tuple(map(atom_affine, output.axes)))
            self.outputs.append((here, naming.names.fresh_global(f"{output.var.name}_ref")))
        self.scratch = [
            (self._kept(acc), naming.names.fresh_global(f"{acc.var.name}_ref")) for acc in kernel.accumulators
        ]
        self._places = dict(zip([acc.var for acc in kernel.accumulators], self.scratch, strict=True))

    def is_sublane(self, i: Index) -> bool:
        """Whether an axis is that of rows."""
        rows = (x.dimensions[-2].axis for x, _ in self.inputs)
        return any(axis is not None and axis.index is i for axis in rows)

    def _all_inputs(self) -> dict[object, Named]:
        """The operands that are read, by the keys with which `TpuValues.read` asks for them."""
        kernel, naming = self._kernel, self._naming
        own = {acc.var for acc in kernel.accumulators}
        found: dict[object, Operand] = {}
        for x, at in reads(*expressions_of(kernel)):
            if x not in own:
                found[x, at] = operand(kernel, x, at)
        for lookup in lookups_of(kernel):
            found[lookup] = operand(kernel, lookup.array, lookup.at)
        asked = relations_in(*conditions(*expressions_of(kernel)))
        for related in relations_of(kernel):
            if related in asked or not self._holds(related):
                found[related] = operand(kernel, related.relation, related.arguments)
        return {key: (x, naming.names.fresh_global(f"{naming.arrays[x.array]}_ref")) for key, x in found.items()}

    def _holds(self, p: Predicate) -> bool:
        """Whether `p` is a relation that holds at all of a tile that is visited."""
        listed = self._kernel.tiles is not None and p in self._kernel.tiles.data
        return listed and all(self._axes[i].is_number for i in over(p))

    def _kept(self, acc: Accumulator) -> Operand:
        """How an accumulator lies: unrolled axes first, a vector as arrays of rows have its axis."""
        zero = constant(0)
        axes = [self._axes[i] for i in acc.axes]
        inner = [a for a in axes if not a.is_number]
        found = [Dimension(How.WHOLE, atom_affine(a.index), zero, a.extent) for a in axes if a.role is Role.UNROLLED]
        found += [Dimension(How.WHOLE, atom_affine(a.index), zero, a.extent, a) for a in inner]
        if len(inner) == 1:
            place = len(found) if self.is_sublane(inner[0].index) else len(found) - 1
            found.insert(place, Dimension(How.ABSENT, zero, zero, constant(1)))
        return Operand(acc.var, tuple(found))

    def function(self, narrow: frozenset[Var]) -> Define:
        """The function; arrays in `narrow` are of the program's dtype."""
        kernel = self._kernel
        references = [name for _, name in (*self.inputs, *self.outputs, *self.scratch)]
        block = Block()
        known: dict[object, Named] = dict(self._read)
        for acc in kernel.accumulators:
            known[acc.var, tuple(map(atom_affine, acc.axes))] = self._places[acc.var]
        wide = frozenset(x for x, _ in reads(*expressions_of(kernel)) if x not in narrow)
        writer = TpuValues(self._naming, known, used_twice(*expressions_of(kernel), reads=True), wide)
        self._grid.head(block, _used(kernel))
        if kernel.accumulators:
            self._steps(block, writer)
        else:
            self._stores(block, writer)
        return Define("kernel", (*(["steps"] if self._grid.listed else []), *references), block)

    def _steps(self, block: Block, writer: TpuValues) -> None:
        """Accumulators are cleared at an output's first tile, and read at its last one."""
        when = self._grid.conditions()
        cleared, stored = Block(), Block()
        for acc, (_, ref) in zip(self._kernel.accumulators, self.scratch, strict=True):
            start = apply("full", Attribute(Name(ref), "shape"), _START[acc.kind], Name("jnp.float32"))
            cleared.statements.append(Store(Subscript(Name(ref), (Everything(),)), start))
        _when(block, when.first, cleared)
        block.blank()
        block.statements.append(self._take_in(writer))
        block.blank()
        for condition, flag in ((when.full, False), (when.masked, True)):
            if condition is not None:
                _when(block, condition, Block([Do(apply("take_in", Name(str(flag))))]))
        self._stores(stored, writer)
        _when(block, when.last, stored)

    def _take_in(self, writer: TpuValues) -> Define:
        """The function that takes in a tile, with masks or without."""
        none, masks, each = Block(), Block(), Block()
        conditions = frozenset(p for acc in self._kernel.accumulators for p in conjuncts(acc.pred))
        scope = TpuScope(each, {}, Flagged(none, TpuScope(masks), conditions))
        for acc in self._kernel.accumulators:
            self._accumulate(acc, writer, scope)
        choice = [When(Name("masked"), masks, Block())] if masks.statements else []
        return Define("take_in", ("masked",), Block([*none.statements, *choice, *each.statements]))

    def _accumulate(self, acc: Accumulator, writer: TpuValues, scope: TpuScope) -> None:
        tiles = tuple((a.index, a.extent) for a in self._kernel.of_role(Role.REDUCED) if not a.is_number)
        pred = conjunction(p for p in conjuncts(acc.pred) if not self._holds(p))
        value = acc.value
        loops = [self._axes[i] for i in acc.axes if self._axes[i].role is Role.UNROLLED]
        while isinstance(value, Sum) and self._axes[value.index].role is Role.UNROLLED:
            loops.append(self._axes[value.index])
            value = value.body
        scope = self._tested(acc, writer, self._loops(loops, scope))
        tile = _over_tile(acc, tiles, pred, value)
        v = ordered(run(writer.reduced(tile, scope)), self._places[acc.var][0].axes)
        here = access(acc.var, *map(atom_affine, acc.axes))
        old = writer.read(here)
        if acc.kind is not Kind.SUM:
            self._raise(acc, old, v, writer, scope)
        elif acc.shift is None:
            found, ref = self._places[acc.var]
            target = self._target(found, ref)
            more = spread(found, aligned(v, found.axes))
            scope.block.statements.append(Store(target, Infix(target, "+", more)))
        else:
            kept = times(old, scope.memo["scale", acc.shift], writer.order)
            self._put(acc, Value(Infix(kept.node, "+", aligned(v, old.axes).node), old.axes), scope)

    def _tested(self, acc: Accumulator, writer: TpuValues, scope: TpuScope) -> TpuScope:
        """The scope in which an accumulator takes in values: this one, or a block that runs if its tests succeed."""
        if not acc.tests:
            return scope
        found = []
        for mask in acc.tests:
            v = scope.memo[mask] = writer.named(run(writer.value(mask, scope)), scope, "inside")
            found.append(apply("_somewhere", v.node))
        inner = Block()
        scope.block.statements.append(OnDevice(joined(found, True), inner))
        return scope.inner(inner)

    def _raise(self, acc: Accumulator, old: Value, v: Value, writer: TpuValues, scope: TpuScope) -> None:
        """Take another tile into an extremum; sums that are shifted by it get a scale."""
        name = acc.var.name
        before = writer.named(old, scope, f"{name}_before")
        word = "maximum" if acc.kind is Kind.MAX else "minimum"
        now = writer.named(Value(apply(word, before.node, v.node), old.axes), scope, f"{name}_now")
        self._put(acc, now, scope)
        if any(other.shift is acc.var for other in self._kernel.accumulators):
            scale = Value(apply("jnp.exp", Infix(before.node, "-", now.node)), old.axes)
            scope.memo["scale", acc.var] = writer.named(scale, scope, f"{name}_scale")
            scope.memo[access(acc.var, *map(atom_affine, acc.axes))] = now

    def _put(self, acc: Accumulator, v: Value, scope: TpuScope) -> None:
        """Make `v` the value of an accumulator."""
        found, ref = self._places[acc.var]
        scope.block.statements.append(Store(self._target(found, ref), spread(found, aligned(v, found.axes))))

    def _stores(self, block: Block, writer: TpuValues) -> None:
        scope = TpuScope(block)
        for output, (found, ref) in zip(self._kernel.outputs, self.outputs, strict=True):
            self._store(output, found, ref, writer, scope)

    def _store(self, output: Output, found: Operand, ref: str, writer: TpuValues, scope: TpuScope) -> None:
        loops = [self._axes[i] for i in output.axes if self._axes[i].role is Role.UNROLLED]
        scope = self._loops(loops, scope)
        v = ordered(run(writer.value(output.value, scope)), found.axes)
        node = spread(found, aligned(v, found.axes))
        if v.axes != found.axes:
            lengths = (self._naming.length(d) for d in found.dimensions if d.how is not How.NUMBER)
            node = apply("broadcast_to", node, tuple_of(lengths))
        cast = PythonCall(Attribute(node, "astype"), (Attribute(Name(ref), "dtype"),))
        scope.block.statements.append(Store(self._target(found, ref), cast))

    def _loops(self, axes: Iterable[TileAxis], scope: TpuScope) -> TpuScope:
        """Loops over unrolled axes, and the scope in the innermost one."""
        for axis in axes:
            inside = Block()
            loop = For(self._naming.places[axis.index], self._naming.integer(axis.extent), inside)
            scope.block.statements.append(loop)
            scope = scope.inner(inside)
        return scope

    def _target(self, x: Operand, ref: str) -> Subscript:
        """The part of a block that is written at once."""
        index: list[Node] = []
        for d in x.dimensions:
            if d.how is not How.NUMBER:
                unrolled = [self._naming.places[i] for i in d.at.indices if i in self._naming.places]
                index.append(Name(unrolled[0]) if unrolled and d.axis is None else ALL)
        return part_of(ref, index)


def _over_tile(acc: Accumulator, tiles: Binders, pred: Predicate, value: Expr) -> Reduction:
    """The reduction of one tile: the value over its reduced axes, or if there are none, a sum in the value."""
    if isinstance(value, Sum) and not tiles and acc.kind is Kind.SUM:
        inner = reduction(value)
        return replace(inner, pred=conjunction([pred, inner.pred]))
    if acc.kind is not Kind.SUM:
        return Reduction(_SIGN[acc.kind], tiles, pred, (value,))
    inside, masks, factors = product(value)
    return Reduction(0, tiles, conjunction([pred, inside]), tuple(factors), tuple(masks))


def _when(block: Block, condition: Node, body: Block) -> None:
    if condition is ALWAYS:
        block.statements += body.statements
    else:
        block.statements.append(OnDevice(condition, body))


def spread(x: Operand, v: Value) -> Node:
    """A vector as a row or a column, whichever it is written as; a number as it is."""
    dimensions = [d for d in x.dimensions if d.axis is not None or d.how is How.ABSENT]
    if not v.axes or not any(d.how is How.ABSENT for d in dimensions):
        return v.node
    return Subscript(v.node, tuple(NEW if d.how is How.ABSENT else ALL for d in dimensions))


def _used(kernel: Kernel) -> set[Index]:
    """The tiled indices whose values the code of a kernel mentions."""
    preds = [acc.pred for acc in kernel.accumulators] + conditions(*expressions_of(kernel))
    return {i for p in preds for q in conjuncts(p) if not isinstance(q, Related) for i in over(q)}
