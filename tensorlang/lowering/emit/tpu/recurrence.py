"""Recurrences as Pallas code for TPUs.

The last dimension of the grid is the time, in blocks of several steps, which are a loop. The states, and results of a
step that it reads itself at other places, are in scratch memory (VMEM; single numbers in SMEM). Arrays that are the
same at all times are fetched once; slices of sequences, and what is stored of each step, come and go in blocks, by
Pallas.

    def kernel(A_ref, x_ref, first_ref, each_ref, last_ref, state_ref):
        at the first block: state := first
        for each step of the block: values of the outputs; each[step] := ..; state := next
        at the last block: last := state
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tensorlang.language.affine import Atom, Index, Lookup, Size, atom_affine, constant
from tensorlang.language.grammar import Access, Expr, Var
from tensorlang.language.predicates import Related
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.fold import used_twice
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import (
    ALL,
    NEW,
    Block,
    Define,
    Infix,
    Lambda,
    List,
    Name,
    Node,
    Number,
    Subscript,
    Text,
    When,
)
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import Axes, Value, aligned, apply, integer, ordered, tuple_of
from tensorlang.lowering.emit.kernels import MadeBy
from tensorlang.lowering.emit.nodes import Attribute, Do, Everything, OnDevice, PythonCall, Store
from tensorlang.lowering.emit.tpu.body import spread
from tensorlang.lowering.emit.tpu.grid import RESERVED, TpuNaming
from tensorlang.lowering.emit.tpu.launch import check_lengths, given, without_absent
from tensorlang.lowering.emit.tpu.values import TpuFactor, TpuScope, TpuValues, part_of
from tensorlang.lowering.kernels.ir import Recurrence, State, TimeSlice
from tensorlang.lowering.kernels.operands import (
    Array,
    Dimension,
    How,
    Operand,
    expressions_of,
    lookups_of,
    operand,
    relations_of,
)
from tensorlang.lowering.kernels.terms import reads
from tensorlang.lowering.plan.dependence import places, variable
from tensorlang.recursion import run

_RESERVED = RESERVED | {"block", "blocks", "size", "row", "otherwise", "one", "here", "time", "steps"}
_LONGEST = 100
_SINGLE = Name("jnp.float32")

Stored = tuple[int, str]
"""The number of a state, and whether it is stored as before a step ("prescan") or as after it ("scan")."""


@dataclass(frozen=True)
class ScratchArray:
    """An array in scratch memory: how it lies, its reference, and how many zeros pad it before and after along each
    axis."""

    operand: Operand
    name: str
    more: tuple[tuple[int, int], ...]


class TpuRecurrence:
    """The function that runs a recurrence: `definition` has it under `name`, for `arguments`, the sizes, the dtype,
    whether it is interpreted, and the function that is called instead where it takes more memory than there is.

    It gives the last values of the states `carried`, and for each of `stores` an array over the time.
    """

    by = MadeBy("Mosaic")

    def __init__(
        self, r: Recurrence, carried: Sequence[int], stores: Sequence[Stored], sizes: Mapping[Size, str], name: str
    ) -> None:
        self.name = name
        self._r, self._step = r, r.step
        self._carried, self._stores = [r.states[k] for k in carried], stores
        integers = StaticIntegers(Names(frozenset({*_RESERVED, *sizes.values(), name})))
        integers.spell(sizes)
        names = integers.names
        others: list[Array] = [lookup.array for lookup in lookups_of(r.step) if lookup.array is not r.time]
        others += [related.relation for related in relations_of(r.step)]
        read: list[Array] = [
            *(x for _, x in r.frees),
            *(s.array for s in r.slices),
            *(x.first for x in self._carried),
            *others,
        ]
        self.arguments: tuple[Array, ...] = tuple(dict.fromkeys(read))
        spelled = {x: names.fresh_global(x.name) for x in self.arguments}
        arrays: dict[Array, str] = {x: spelled[x] for x in others}
        arrays |= {x: spelled[a] for x, a in r.frees}
        arrays |= {s.var: names.fresh_global(s.var.name) for s in r.slices}
        arrays |= {x.var: spelled[x.first] for x in self._carried}
        self._spelled = spelled
        self._naming = TpuNaming(r.step, arrays, integers)
        self._axes = {axis.index: axis for axis in r.step.axes}
        self._slices = {s.var: s for s in r.slices}
        self._own = {o.var: tuple(map(atom_affine, o.axes)) for o in r.step.outputs}
        own = {x.var for x in r.states} | set(self._own)
        found: dict[object, Operand] = {}
        for x, at in reads(*expressions_of(r.step)):
            if x not in own:
                found[x, at] = operand(r.step, x, at)
        for lookup in lookups_of(r.step):
            if lookup.array is not r.time:
                found[lookup] = operand(r.step, lookup.array, lookup.at)
        for related in relations_of(r.step):
            found[related] = operand(r.step, related.relation, related.arguments)

        def ref(like: str) -> str:
            return names.fresh_global(f"{like}_ref")

        self._inputs = {key: (x, ref(arrays[x.array])) for key, x in found.items()}
        check_lengths([x for x, _ in self._inputs.values()])
        self._firsts = [(self._lies(x), ref(spelled[x.first])) for x in self._carried]
        self._lasts = [(self._lies(x), ref(f"{x.var.name}_last")) for x in self._carried]
        self._each = [(self._lies(r.states[k]), ref(f"{r.states[k].var.name}s")) for k, _ in stores]
        self._held = self._scratch()
        parameters = (*spelled.values(), *sizes.values(), "dtype", "interpret", "otherwise")
        self.definition = Define(name, parameters, self._function())

    def _lies(self, x: State) -> Operand:
        """How a state lies: as its next value."""
        return replace(operand(self._step, x.after, self._own[x.after]), array=x.var)

    def _scratch(self) -> dict[Var, ScratchArray]:
        """The states, and the outputs that a step reads itself."""
        found: dict[Var, ScratchArray] = {}
        lying = {x.var: self._lies(x) for x in self._carried}
        for x, _ in reads(*expressions_of(self._step)):
            if x not in lying and x in self._own:
                lying[x] = operand(self._step, x, self._own[x])
        for x, operand_ in lying.items():
            axes = shape(x.type)[0]
            more = [(0, 0)] * len(axes)
            for y, at in reads(*expressions_of(self._step)):
                for k, a in enumerate(at) if y is x else ():
                    for i in a.indices:
                        low = (a - atom_affine(i)).constant
                        high = (a - atom_affine(i) + self._axes[i].extent - axes[k]).constant
                        more[k] = max(more[k][0], -low), max(more[k][1], high)
            name = self._naming.names.fresh_global(f"{x.name}_ref")
            found[x] = ScratchArray(operand_, name, tuple(more))
        return found

    # The call

    def _function(self) -> Block:
        naming, block = self._naming, Block()
        for line in self._r.formulas():
            block.note(line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "...")
        size = naming.integer(self._r.size)
        for axis in self._step.axes:
            if axis.block > 1:
                block.assign(
                    naming.blocks[axis.index], apply("least", integer(axis.block), naming.integer(axis.extent))
                )
                count = apply("pl.cdiv", naming.integer(axis.extent), Name(naming.blocks[axis.index]))
                block.assign(naming.counts[axis.index], count)
        held = [self._block(x) for key, (x, _) in self._inputs.items() if not self._is_slice(key) and not _is_number(x)]
        held += [self._block(x) for x, _ in (*self._firsts, *self._lasts) if not _is_number(x)]
        held += [self._padded(x) for x in self._held.values() if not _is_number(x.operand)]
        values = (operand(self._step, x, at) for x, at in self._own.items())  # the compiler keeps some of them there
        held += [self._block(x) for x in values if not _is_number(x)]
        moving = [self._block(x) for key, (x, _) in self._inputs.items() if self._is_slice(key) and not _is_number(x)]
        moving += [self._block(x) for x, _ in self._each if not _is_number(x)]
        block.assign("size", size)
        numbers = sum(_is_number(x) for key, (x, _) in self._inputs.items() if self._is_slice(key))
        numbers += sum(_is_number(x) for x, _ in self._each)
        steps = apply("_steps_at_once", Name("size"), List(tuple(held)), List(tuple(moving)), integer(numbers))
        block.assign("steps", steps)
        left = Block()
        left.give(apply("otherwise"))
        block.statements.append(When(Infix(Name("steps"), "==", integer(0)), left, Block()))
        block.assign("blocks", apply("pl.cdiv", Name("size"), Name("steps")))
        for s in self._r.slices:
            block.assign(naming.arrays[s.var], self._sequence(s))
        block.blank()
        block.statements.append(self._kernel())
        block.blank()
        self._call(block)
        return block

    def _is_slice(self, key: object) -> bool:
        return isinstance(key, tuple) and key[0] in self._slices

    def _shape(self, x: Operand) -> Node:
        return tuple_of(self._naming.length(d) for d in x.dimensions if d.how is not How.NUMBER)

    def _block(self, x: Operand) -> Node:
        """The shape of a block that is fetched at once."""
        return tuple_of(integer(1) if d.how is How.NUMBER else self._naming.length(d) for d in x.dimensions)

    def _padded(self, x: ScratchArray) -> Node:
        """The shape of an array in scratch memory, with its padding."""
        return tuple_of(
            Infix(self._naming.length(d), "+", integer(sum(more))) if any(more) else self._naming.length(d)
            for d, more in _along(x)
        )

    def _sequence(self, s: TimeSlice) -> Node:
        """The rows of an array that steps read, in the order in which they lie: that of the time, or against it."""
        naming = self._naming
        k = s.at.coefficient(Lookup(self._r.time, ()))
        size, now = self._r.size, Lookup(self._r.time, ())
        first = s.at.substitute({now: size - 1 if self._r.turned else constant(0)})
        backwards = (k < 0) is not self._r.turned
        if backwards:
            first = first - size + 1
        axes = list(shape(s.array.type)[0])
        node: Node = Name(self._spelled[s.array])
        if s.axis:
            node = apply("jnp.moveaxis", node, integer(s.axis), integer(0))
        rest = [constant(0)] * (len(axes) - 1)
        length = axes.pop(s.axis)
        if first is not constant(0) or length is not size:
            starts = tuple_of(map(naming.integer, (first, *rest)))
            node = apply("_filled", node, starts, tuple_of(map(naming.integer, (size, *axes))))
        return apply("jnp.flip", node, integer(0)) if backwards else node

    def _call(self, block: Block) -> None:
        r, naming = self._r, self._naming
        inputs = [self._spec(x, self._is_slice(key)) for key, (x, _) in self._inputs.items()]
        inputs += [self._spec(x) for x, _ in self._firsts]
        outputs = [self._spec(x, True) for x, _ in self._each] + [self._spec(x) for x, _ in self._lasts]
        block.assign("inputs", List(tuple(inputs)))
        block.assign("outputs", List(tuple(outputs)))
        shapes = []
        for x, over_time in [*((x, True) for x, _ in self._each), *((x, False) for x, _ in self._lasts)]:
            lengths = [naming.integer(d.length) for d in x.dimensions]
            lengths = [Name("size"), *lengths] if over_time else lengths
            shapes.append(apply("jax.ShapeDtypeStruct", tuple_of(lengths), Name("dtype")))
        block.assign("shapes", List(tuple(shapes)))
        scratch = []
        for held in self._held.values():
            space = "pltpu.SMEM" if _is_number(held.operand) else "pltpu.VMEM"
            scratch.append(apply(space, self._padded(held), _SINGLE))
        block.assign("scratch", List(tuple(scratch)))
        parallel = [a for a in self._step.axes if a.is_tiled]
        semantics = tuple_of([*(Text("parallel") for _ in parallel), Text("arbitrary")])
        block.assign("parameters", apply("pltpu.CompilerParams", dimension_semantics=semantics))
        options = {
            "out_shape": Name("shapes"),
            "grid": tuple_of([*map(naming.count, parallel), Name("blocks")]),
            "in_specs": Name("inputs"),
            "out_specs": Name("outputs"),
            "scratch_shapes": Name("scratch"),
            "compiler_params": Name("parameters"),
        }
        block.assign("call", apply("pl.pallas_call", Name("kernel"), **options, interpret=Name("interpret")))
        read: list[Node] = []
        for key, (x, _) in self._inputs.items():
            read.append(given(naming, x, Name(naming.arrays[x.array]), self._is_slice(key)))
        for x, _ in self._firsts:
            read.append(given(naming, x, Name(naming.arrays[x.array])))
        block.assign("made", apply("call", *read))
        each = []
        for k, (x, _) in enumerate(self._each):
            node = without_absent(x, k, over_time=True)
            each.append(apply("jnp.flip", node, integer(0)) if r.turned else node)
        last = [without_absent(x, k) for k, (x, _) in enumerate(self._lasts, len(each))]
        block.give(tuple_of([tuple_of(last), tuple_of(each)]))

    def _spec(self, x: Operand, over_time: bool = False) -> Node:
        """Which block of an array is fetched at which point of the grid."""
        if _is_number(x) and not over_time:
            return apply("pl.BlockSpec", memory_space=Name("pltpu.SMEM"))
        numbers: dict[Atom, Node] = {a.index: Name(self._naming.tiles[a.index]) for a in self._step.axes if a.is_tiled}
        at: list[Node] = []
        lengths: list[Node] = []
        if over_time:
            lengths.append(Name("steps"))
            at.append(self._block_at(Name("time")))
        for d in x.dimensions:
            if d.how is How.TILE and d.axis is not None:
                at.append(numbers[d.axis.index])
            else:
                at.append(self._naming.integer(d.at - d.low, numbers) if d.how is How.NUMBER else integer(0))
            lengths.append(Name("None") if d.how is How.NUMBER else self._naming.length(d))
        parameters = (*(self._naming.tiles[a.index] for a in self._step.axes if a.is_tiled), "time")
        space = {"memory_space": Name("pltpu.SMEM")} if _is_number(x) else {}
        return apply("pl.BlockSpec", tuple_of(lengths), Lambda(parameters, tuple_of(at)), **space)

    def _block_at(self, time: Node) -> Node:
        """The block of sequences that is there when the grid is at `time`."""
        return Infix(Infix(Name("blocks"), "-", integer(1)), "-", time) if self._r.turned else time

    # The kernel

    def _kernel(self) -> Define:
        named = [*self._inputs.values(), *self._firsts, *self._each, *self._lasts]
        references = [*(name for _, name in named), *(x.name for x in self._held.values())]
        block = Block()
        parallel = [a for a in self._step.axes if a.is_tiled]
        for k, axis in enumerate(parallel):
            if axis.is_number:
                block.assign(self._naming.places[axis.index], apply("pl.program_id", integer(k)))
            else:
                number = apply("pl.program_id", integer(k))
                block.assign(self._naming.starts[axis.index], Infix(number, "*", Name(self._naming.blocks[axis.index])))
        block.assign("block", apply("pl.program_id", integer(len(parallel))))
        before, after = Block(), Block()
        for held in self._held.values():
            if any(map(any, held.more)):
                zero = apply("full", Attribute(Name(held.name), "shape"), Number(Fraction(0), True), _SINGLE)
                before.statements.append(Store(Subscript(Name(held.name), (Everything(),)), zero))
        for x, (_, first), (_, last) in zip(self._carried, self._firsts, self._lasts, strict=True):
            held = self._held[x.var]
            whole = part_of(first, _whole(held.operand))
            before.statements.append(Store(self._inner(held), PythonCall(Attribute(whole, "astype"), (_SINGLE,))))
            kept = PythonCall(Attribute(self._inner(held), "astype"), (Attribute(Name(last), "dtype"),))
            after.statements.append(Store(part_of(last, _whole(held.operand)), kept))
        if before.statements:
            block.statements.append(OnDevice(Infix(Name("block"), "==", integer(0)), before))
            block.blank()
        block.assign("here", self._block_at(Name("block")))
        count = apply("minimum", Name("steps"), Infix(Name("size"), "-", Infix(Name("here"), "*", Name("steps"))))
        block.assign("count", count)
        block.blank()
        block.statements.append(self._one())
        block.blank()
        block.statements.append(Do(apply("lax.fori_loop", integer(0), Name("count"), Name("one"), Name("None"))))
        if after.statements:
            last_block = Infix(Name("block"), "==", Infix(Name("blocks"), "-", integer(1)))
            block.statements.append(OnDevice(last_block, after))
        return Define("kernel", tuple(references), block)

    def _one(self) -> Define:
        """One step: its outputs in order, what is stored of it, and then the states."""
        r, block = self._r, Block()
        row: Node = Name("step")
        if r.turned:
            row = Infix(Infix(Name("count"), "-", integer(1)), "-", row)
        block.assign("row", row)
        block.assign("place", Infix(Infix(Name("here"), "*", Name("steps")), "+", Name("row")))
        known: dict[object, tuple[Operand, str]] = {}
        for key, (x, whole) in self._inputs.items():
            name = whole
            if self._is_slice(key):
                name = self._naming.names.fresh_global(self._naming.arrays[x.array])
                block.assign(name, Subscript(Attribute(Name(whole), "at"), (Name("row"),)))
            known[key] = x, name
        time = Infix(Infix(Name("size"), "-", integer(1)), "-", Name("place")) if r.turned else Name("place")
        values = _StepValues(self._naming, known, r, self._held, time)
        made: dict[Var, Value] = {}
        scope = TpuScope(block)
        for output in self._step.outputs:
            v = values.named(run(values.value(output.value, scope)), scope, output.var.name)
            made[output.var] = v
            if output.var in self._held:
                held = self._held[output.var]
                block.statements.append(Store(self._inner(held), self._spread(held.operand, v)))
        for (k, word), (x, name) in zip(self._stores, self._each, strict=True):
            state = r.states[k]
            before = word == "prescan"
            node = self._inner(self._held[state.var]) if before else self._spread(x, made[state.after])
            cast = PythonCall(Attribute(node, "astype"), (Attribute(Name(name), "dtype"),))
            index = _whole(x)
            block.statements.append(Store(Subscript(Name(name), (Name("row"), *index)), cast))
        for state in self._carried:
            held = self._held[state.var]
            block.statements.append(Store(self._inner(held), self._spread(held.operand, made[state.after])))
        return Define("one", ("step", "_"), block)

    def _spread(self, x: Operand, v: Value) -> Node:
        """A value as it lies in memory."""
        v = ordered(v, x.axes)
        if _is_number(x):
            return apply("asarray", v.node, _SINGLE)
        node = spread(x, aligned(v, x.axes))
        if v.axes != x.axes:
            node = apply("broadcast_to", apply("asarray", node, _SINGLE), self._shape(x))
        return node

    def _inner(self, held: ScratchArray) -> Subscript:
        """An array in scratch memory, without its padding."""
        if _is_number(held.operand):
            return part_of(held.name, _whole(held.operand))
        index: list[Node] = []
        for d, more in _along(held):
            index.append(apply("pl.ds", integer(more[0]), self._naming.length(d)) if any(more) else ALL)
        return part_of(held.name, index)


class _StepValues(TpuValues):
    """The values of one step: arrays that are `held` are read in scratch memory, at any shift; the time is a number."""

    def __init__(
        self,
        naming: TpuNaming,
        operands: Mapping[object, tuple[Operand, str]],
        r: Recurrence,
        held: Mapping[Var, ScratchArray],
        time: Node,
    ) -> None:
        expressions = expressions_of(r.step)
        own = frozenset({*(x.var for x in r.states), *(o.var for o in r.step.outputs)})
        super().__init__(naming, operands, used_twice(*expressions, reads=True), own)
        self._held, self._time, self._now = held, time, Lookup(r.time, ())

    def merged(self, found: list[TpuFactor]) -> list[TpuFactor]:
        """The factors as they are, if they are a matrix and a vector."""
        return found if sorted(len(part.value.axes) for part in found) == [1, 2] else super().merged(found)

    def product(self, parts: Sequence[TpuFactor], summed: Axes) -> Value | None:
        """The product of two matrices, or of a matrix and a vector, which is taken as a row."""
        found = super().product(parts, summed)
        if found is not None or len(parts) != 2 or len(summed) != 1 or any(part.inside for part in parts):
            return found
        vector, matrix = sorted((part.value for part in parts), key=lambda v: len(v.axes))
        if vector.axes != summed or len(matrix.axes) != 2 or summed[0] not in matrix.axes:
            return None
        row, at = Subscript(vector.node, (NEW, ALL)), matrix.axes.index(summed[0])
        made = Subscript(apply("_dot", row, matrix.node, integer(1), integer(at)), (integer(0),))
        return Value(made, (matrix.axes[1 - at],), 1)

    def read(self, e: Expr | Related | Lookup) -> Value:
        """The elements of a block, or of an array that is held; or the time."""
        if e is self._now:
            return Value(self._time)
        x = variable(e) if isinstance(e, Var | Access) else None
        if x not in self._held or x is None or not isinstance(e, Var | Access):
            return super().read(e)
        held = self._held[x]
        at = iter(zip(places(e), held.more, shape(x.type)[0], strict=True))
        index: list[Node] = []
        axes: list[Index] = []
        for d in held.operand.dimensions:
            if d.how is How.ABSENT:
                index.append(integer(0))
                continue
            a, (before, after), n = next(at)
            if not a.indices:
                inside = apply(
                    "greatest", integer(0), apply("least", self._naming.integer(a), self._naming.integer(n - 1))
                )
                index.append(Infix(inside, "+", integer(before)) if before else inside)
                continue
            (i,) = a.indices
            axes.append(i)
            low = (a - atom_affine(i)).constant + before
            plain = not before and not after and not low and (i not in self._lengths or self.axes[i].extent is n)
            if self._is_number(i):
                continue
            index.append(ALL if plain else apply("pl.ds", integer(low), self._lengths[i]))
        return Value(part_of(held.name, index), tuple(i for i in axes if not self._is_number(i)), 1)


def _is_number(x: Operand) -> bool:
    """Whether it is a single number, which is in SMEM."""
    return all(d.how is How.ABSENT for d in x.dimensions)


def _whole(x: Operand) -> list[Node]:
    """All of a block."""
    if _is_number(x):
        return [integer(0) for _ in x.dimensions]
    return [ALL for d in x.dimensions if d.how is not How.NUMBER]


def _along(x: ScratchArray) -> list[tuple[Dimension, tuple[int, int]]]:
    """The dimensions in memory, each with its padding."""
    more = iter(x.more)
    found = [(d, (0, 0) if d.how is How.ABSENT else next(more)) for d in x.operand.dimensions]
    return [(d, places_) for d, places_ in found if d.how is not How.NUMBER]
