"""Recurrences as Pallas code for GPUs, by Triton.

Each program of the grid has a tile of independent examples, or all there is, with the states in registers: they are
what a loop over the time carries. What a step reads is loaded at its time; matrices come from the caches. Registers
hold zeros beyond the ends of arrays.

    def kernel(A_ref, x_ref, first_ref, last_ref, each_ref):
        def one(t, carry): values of the outputs; each[t] := ..; the next states
        last := lax.fori_loop(0, size, one, first)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorlang.language.affine import Affine, Index, Lookup, Size, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, Predicate, conjuncts, substitute, within
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Define, Infix, Item, List, Name, Node, Text, When
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import Axes, Value, aligned, apply, integer, product_of, tuple_of
from tensorlang.lowering.emit.gpu.launch import RESERVED
from tensorlang.lowering.emit.gpu.naming import GpuNaming, inputs
from tensorlang.lowering.emit.gpu.reads import GpuScope, if_ragged, spread
from tensorlang.lowering.emit.gpu.values import GpuValues, ProductPart
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.kernels import MadeBy
from tensorlang.lowering.emit.nodes import Conditional, Do
from tensorlang.lowering.kernels.ir import Output, Recurrence, Role
from tensorlang.lowering.kernels.operands import Array
from tensorlang.recursion import run
from tensorlang.sets.isl import implies

_LONGEST = 100
_LARGEST = 2**14
"""Elements of the largest value that a program has in its registers, 128 for each of its threads."""
_SINGLE = Name("jnp.float32")
_OWN = {"one", "carry", "t", "size", "otherwise", "block"}


class GpuRecurrence:
    """The function that runs a recurrence, as `TpuRecurrence` is one."""

    by = MadeBy("Triton", has_triton=True)

    def __init__(
        self,
        r: Recurrence,
        carried: Sequence[int],
        stores: Sequence[tuple[int, str]],
        sizes: Mapping[Size, str],
        name: str,
    ) -> None:
        self.name, self._r, self._step = name, r, r.step
        self._carried, self._stores = [r.states[k] for k in carried], stores
        self._axes = {axis.index: axis for axis in r.step.axes}
        own = {x.var for x in r.states} | {o.var for o in r.step.outputs}
        slices = {s.var: s for s in r.slices}
        frees = dict(r.frees)
        others = [x for x in inputs(r.step) if x not in own and x not in slices and x not in frees and x is not r.time]
        read: list[Array] = [*frees.values(), *(s.array for s in r.slices), *(x.first for x in self._carried), *others]
        self.arguments: tuple[Array, ...] = tuple(dict.fromkeys(read))
        reserved = {*RESERVED, *_OWN, *HELPERS, "np", "pl", "plgpu", *sizes.values(), name}
        integers = StaticIntegers(Names(frozenset(reserved)))
        integers.spell(sizes)
        new = integers.names.fresh_global
        arrays = {x: new(x.name) for x in self.arguments}
        self._names = integers.names
        self._outs = [new(f"{r.states[k].var.name}s_ref") for k, _ in stores]
        self._lasts = [new(f"{x.var.name}_last_ref") for x in self._carried]
        axes = r.step.axes
        self._naming = GpuNaming(
            integers,
            arrays=arrays,
            outputs={},
            places={a.index: new(a.index.name) for a in axes},
            lengths={a.index: new(f"{a.index.name}_block") for a in axes if not a.is_number},
            numbers={a.index: new(f"{a.index.name}_tile") for a in axes if a.is_tiled},
        )
        self._values = _StepValues(r, self._naming)
        self._own = {o.var: o.axes for o in r.step.outputs}
        kernel = self._kernel()
        parameters = (*arrays.values(), *sizes.values(), "dtype", "interpret", "otherwise")
        self.definition = Define(name, parameters, self._function(kernel))

    # The call

    def _function(self, kernel: Define) -> Block:
        naming, block = self._naming, Block()
        for line in self._r.formulas():
            block.note(line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "...")
        vectors = [a for a in self._step.axes if not a.is_number]
        for axis in vectors:
            length: Node = apply("pl.next_power_of_2", naming.node(axis.extent))
            if axis.is_tiled:
                length = apply("least", integer(axis.block), length)
            if self._values.multiplies:
                length = apply("greatest", integer(16), length)
            block.assign(naming.lengths[axis.index], length)
        values = dict.fromkeys(frozenset(i for i in found if i in naming.lengths) for found in self._values.found)
        largest = [product_of(Name(naming.lengths[a.index]) for a in vectors if a.index in axes) for axes in values]
        if largest:
            left = Block()
            left.give(apply("otherwise"))
            most = apply("greatest", *largest, integer(1)) if len(largest) > 1 else largest[0]
            block.statements.append(When(Infix(most, ">", integer(_LARGEST)), left, Block()))
        uneven = (Infix(naming.node(a.extent), "%", Name(naming.lengths[a.index])) for a in vectors)
        block.assign("ragged", apply("any", List(tuple(uneven))))
        block.assign("size", naming.node(self._r.size))
        block.blank()
        block.statements.append(kernel)
        block.blank()
        shapes = []
        for k, _ in self._stores:
            shapes.append(self._struct(self._r.states[k].var, (Name("size"),)))
        shapes += [self._struct(x.var) for x in self._carried]
        block.assign("out", List(tuple(shapes)))
        anywhere = List((apply("pl.BlockSpec", memory_space=Name("pl.ANY")),))
        tiles = [naming.count(axis) for axis in self._step.of_role(Role.PARALLEL)] or [integer(1)]
        call = apply(
            "pl.pallas_call",
            Name("kernel"),
            out_shape=Name("out"),
            grid=tuple_of(tiles),
            in_specs=Infix(anywhere, "*", integer(len(naming.arrays))),
            out_specs=Infix(anywhere, "*", integer(len(shapes))),
            compiler_params=apply("plgpu.CompilerParams", num_warps=integer(4), num_stages=integer(1)),
            interpret=apply("bool", Name("interpret")),
            name=Text(self.name.strip("_")),
        )
        block.assign("call", call)
        block.assign("made", apply("call", *map(Name, naming.arrays.values())))
        each = [Item(Name("made"), k) for k in range(len(self._stores))]
        last = [Item(Name("made"), k) for k in range(len(each), len(shapes))]
        block.give(tuple_of([tuple_of(last), tuple_of(each)]))
        return block

    def _struct(self, x: Var, first: tuple[Node, ...] = ()) -> Node:
        extents = tuple_of([*first, *(self._naming.node(n) for n in shape(x.type)[0])])
        return apply("jax.ShapeDtypeStruct", extents, Name("dtype"))

    # The kernel

    def _kernel(self) -> Define:
        naming, values = self._naming, self._values
        scope = GpuScope(Block())
        for k, axis in enumerate(self._step.of_role(Role.PARALLEL)):
            number: Node = apply("pl.program_id", integer(k))
            if not axis.is_number:
                length = Name(naming.lengths[axis.index])
                number = Infix(Infix(number, "*", length), "+", apply("lax.iota", Name("jnp.int32"), length))
            scope.block.assign(naming.places[axis.index], number)
        for axis in self._step.of_role(Role.WHOLE):
            length = Name(naming.lengths[axis.index])
            scope.block.assign(naming.places[axis.index], apply("lax.iota", Name("jnp.int32"), length))
        firsts: list[Node] = []
        for x in self._carried:
            axes = self._own[x.after]
            v = values.load(x.first, [atom_affine(i) for i in axes], scope)
            firsts.append(self._whole(v, self._vectors(axes)))
        carried = [self._names.fresh_global(x.var.name) for x in self._carried]
        one = self._one(carried)
        scope.block.blank()
        scope.block.statements.append(one)
        scope.block.blank()
        loop = apply("lax.fori_loop", integer(0), Name("size"), Name("one"), tuple_of(firsts))
        scope.block.unpack(carried, loop) if carried else scope.block.statements.append(Do(loop))
        for x, name, ref in zip(self._carried, carried, self._lasts, strict=True):
            self._store(ref, (), self._own[x.after], Name(name), scope)
        references = [f"{name}_ref" for name in naming.arrays.values()]
        return Define("kernel", (*references, *self._outs, *self._lasts), scope.block)

    def _one(self, carried: Sequence[str]) -> Define:
        """One step: its outputs in order, what is stored of it, and the next states."""
        values, names = self._values, self._names
        scope = GpuScope(Block())
        if carried:
            scope.block.unpack(carried, Name("carry"))
        before = {x.var: name for x, name in zip(self._carried, carried, strict=True)}
        axes_of = {x.var: self._own[x.after] for x in self._carried}
        values.held.update({x: (name, axes_of[x]) for x, name in before.items()})
        for output in self._step.outputs:
            name = names.fresh_global(output.var.name)
            scope.block.assign(name, self._inside(output, scope))
            values.held[output.var] = name, output.axes
        for (k, word), ref in zip(self._stores, self._outs, strict=True):
            x = self._r.states[k]
            name = before[x.var] if word == "prescan" else values.held[x.after][0]
            self._store(ref, (Name("t"),), self._own[x.after], Name(name), scope)
        scope.block.give(tuple_of(Name(values.held[x.after][0]) for x in self._carried))
        return Define("one", ("t", "carry"), scope.block)

    def _vectors(self, axes: Axes) -> Axes:
        return tuple(i for i in axes if not self._axes[i].is_number)

    def _whole(self, v: Value, axes: Axes) -> Node:
        """A value over all of `axes`, in single precision."""
        node = aligned(v, axes).node
        if v.axes != axes or v.weak:
            return apply("full", self._naming.extents(axes), node, _SINGLE)
        return node

    def _inside(self, output: Output, scope: GpuScope) -> Node:
        """The value of an output, and 0 beyond its ends."""
        axes = self._vectors(output.axes)
        node = self._whole(run(self._values.value(output.value, scope)), axes)
        ends = self._values.ends(axes, scope)
        if not ends:
            return node
        name = self._names.fresh_global(output.var.name)
        scope.block.assign(name, node)
        mask = aligned(self._values.joined(ends, True, axes), axes).node
        kept = apply("where", mask, Name(name), apply("asarray", integer(0), _SINGLE))
        return Conditional(Name("ragged"), kept, Name(name))

    def _store(self, ref: str, first: tuple[Node, ...], indices: Axes, v: Node, scope: GpuScope) -> None:
        """Store the value `v` of a state at the place `first` and its own `indices`."""
        axes = self._vectors(indices)
        at = [spread(self._values.place(atom_affine(i), scope), axes) for i in indices]
        arguments = [Name(ref), tuple_of([*first, *at]), v]
        ends = self._values.ends(axes, scope)
        if ends:
            arguments.append(if_ragged(aligned(self._values.joined(ends, True, axes), axes).node))
        scope.block.statements.append(Do(apply("_store", *arguments)))


class _StepValues(GpuValues):
    """The values of one step: the time is `t`, and variables in `held` are in registers, with these names and axes."""

    def __init__(self, r: Recurrence, naming: GpuNaming) -> None:
        super().__init__(r.step, naming)
        self._r = r
        self._slices = {s.var: s for s in r.slices}
        self._frees = dict(r.frees)
        self.held: dict[Var, tuple[str, Axes]] = {}
        self.found: list[frozenset[Index]] = []
        """The axes of all values."""

    def load(self, array: Array, at: Sequence[Affine], scope: GpuScope) -> Value:
        """A value that is held, the time, or the elements of an array."""
        if array is self._r.time:
            return Value(Name("t"))
        if isinstance(array, Var) and array in self.held:
            name, _ = self.held[array]
            axes = tuple(i for a in at for i in a.indices if not self._axes[i].is_number)
            return Value(Name(name), axes)
        if isinstance(array, Var) and array in self._slices:
            s = self._slices[array]
            array, at = s.array, [*at[: s.axis], s.at, *at[s.axis :]]
        elif isinstance(array, Var):
            array = self._frees.get(array, array)
        v = super().load(array, at, scope)
        self.found.append(frozenset(v.axes))
        return v

    def _doubtful(self, at: Sequence[Affine], extents: Sequence[Affine]) -> list[Predicate]:
        """The places that may be outside of the array, those at some times included."""
        found, t, now = super()._doubtful(at, extents), Index("t"), Lookup(self._r.time, ())
        times = within(atom_affine(t), self._r.size)
        for a, n in zip(at, extents, strict=True):
            for p in conjuncts(within(a, n)) if now in a.lookups else ():
                if p is not TRUE and not implies(times, substitute(p, {now: atom_affine(t)})):
                    found.append(p)
        return found

    def _multiplied(self, parts: Sequence[ProductPart], scope: GpuScope, otherwise: Node | None = None) -> Value:
        """The product as for all kernels; its axes are noted."""
        v = super()._multiplied(parts, scope, otherwise)
        self.found.append(frozenset(v.axes))
        return v
