"""The source of a program on a mesh: functions over blocks, and what the devices send each other between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from math import lcm
from typing import Any

import jax

from tensorlang.language.affine import Affine, IndexArray, Size, atom_affine
from tensorlang.language.arguments import from_leaves, unpack
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Let, MakePair, Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import R, array
from tensorlang.lowering import costs
from tensorlang.lowering.arrays.cost import ArrayCost, Repeated, work_of
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Define, Infix, List, Name, Negative, Node, Text
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.signature import result_of, signature
from tensorlang.lowering.arrays.values import apply, integer, tuple_of
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.module import IMPORTS, Source, assembled
from tensorlang.lowering.emit.python import lines, modules_in, text
from tensorlang.lowering.mesh.asked import Along
from tensorlang.lowering.mesh.collectives import Collective, Collectives, Exchange
from tensorlang.lowering.mesh.local import Blocks, Cut, Held, Local, localised
from tensorlang.lowering.mesh.needs import NeededRegion, Needs
from tensorlang.lowering.mesh.plan import MeshPlan, MeshStep
from tensorlang.lowering.mesh.statements import parts
from tensorlang.lowering.plan.dependence import Key
from tensorlang.lowering.plan.numbers import numbers_of
from tensorlang.lowering.plan.statements import ProgramResult, leaves_of
from tensorlang.recursion import Deep, call, run


class MeshSource:
    """The source of a program on a mesh, and what it sends.

    `text` defines the function `name` of the program's parameters, of the mesh, and of the sizes `told` which no shape
    determines. It is right where only sizes in `uneven` leave a remainder when they are cut into blocks; arrays of
    those are padded with zeros.
    """

    def __init__(self, plan: MeshPlan, uneven: Collection[Cut], exact: bool) -> None:
        self.plan = plan
        self.uneven = uneven
        self.exact = exact
        f = plan.program.function
        self.blocks = Blocks(plan, uneven)
        self.integers = StaticIntegers(Names(frozenset({*HELPERS, *IMPORTS, "mesh"})))
        self.names = self.integers.names
        self.name = self.names.fresh_global(f.name)
        self.held: dict[tuple[Key, Needs], str] = {}
        self.parts: list[Source] = []
        self.sent: list[Collective | Exchange] = []
        self.outer, self.device = Block(), Block()
        self.written: dict[Cut, str] = {}
        self.results = list(leaves_of(plan.program.results))
        signed = signature(f, self.integers, self.outer)
        self.told = signed.told
        self.held.update({(key, plan.stored(key)): name for key, name in signed.arrays.items()})
        given = self._given()
        for k, stage in enumerate(plan.stages):
            self._stage(k, stage)
        self._results()
        self._run(given, f)
        main = Block([Define(self.name, (*signed.parameters.values(), "*", "mesh", *self.told.values()), self.outer)])
        table = costs.exact(costs.load()) if exact else costs.load()
        definitions = [*(part.definition for part in self.parts), "\n".join(lines(main))]
        called = [name for part in self.parts for name in part.helpers]
        self.runnable = self.text = assembled(definitions, [*called, *modules_in(main)], table)
        self.in_specs = tuple(self._in_specs(p) for p in f.params)
        self.out_specs = run(_specs(unpack(plan.program.results, f.results), self._spec))
        sizes = {size: cut for cut, size in self.blocks.sizes.items()}
        self.collectives = Collectives(tuple(self.sent), plan.asked.devices, sizes)

    @cached_property
    def cost(self) -> ArrayCost | None:
        """What each device takes where sizes are cut evenly, beside the model's count for the whole program. None if
        something else than a size is cut into blocks."""
        blocks: dict[Size, tuple[Size, int]] = {}
        for (along, whole), block in self.blocks.sizes.items():
            if len(whole.atoms) != 1 or whole is not atom_affine(whole.atoms[0]):
                return None
            blocks[block] = (whole.sizes[0], self.plan.asked.count(along))
        works = tuple(Repeated(work_of(part.function, part.program)) for part in self.parts)
        even = lcm(*(count for _, count in blocks.values()))
        return ArrayCost(self.plan.program.function, works, tile=even, blocks=blocks)

    def _node(self, a: Affine) -> Node:
        """`a` as a static integer; blocks get their sizes where they are first needed."""
        for cut, size in list(self.blocks.sizes.items()):
            if size in a.sizes and size not in self.integers.spelled:
                name = self.integers.spelled[size] = self.names.fresh_global(size.name)
                along, whole = cut
                self.outer.note(f"{name}: how many of {whole} a device along {', '.join(along)} has")
                whole_, count = self.integers.node(whole), integer(self.plan.asked.count(along))
                if cut in self.uneven:
                    least = apply("greatest", whole_, integer(1))
                    self.outer.assign(name, Negative(Infix(Negative(least), "//", count)))
                else:
                    self.outer.assign(name, Infix(whole_, "//", count))
        return self.integers.node(a)

    def _given(self) -> list[tuple[Key, str]]:
        """The parameters that the devices are given, padded where their blocks are uneven."""
        used = {array for step in self.plan.steps for array in step.needs.found} | set(self.results)
        given = []
        for (key, needs), name in self.held.items():
            if key in used:
                given.append((key, name))
                missing = [self._missing(part) if part else ZERO_NODE for part in needs]
                if any(n != ZERO_NODE for n in missing):
                    self.outer.assign(name, _padded(Name(name), missing))
        return given

    def _missing(self, part: NeededRegion) -> Node:
        """The number of elements that the blocks have beyond the end of the array."""
        if (part.along, part.size) not in self.uneven:
            return ZERO_NODE
        whole = self._block(part) * self.plan.asked.count(part.along)
        if self.integers.is_nonnegative(part.size):
            return self._node(whole - part.size)
        return Infix(self._node(whole), "-", self._extent(part.size))

    def _extent(self, size: Affine) -> Node:
        """How many indices there are below `size`."""
        node = self._node(size)
        return node if self.integers.is_nonnegative(size) else apply("greatest", node, integer(0))

    def _cut(self, x: Node, d: int, part: NeededRegion) -> Node:
        """`x` without the elements that its blocks have beyond its end."""
        return apply("lax.slice_in_dim", x, ZERO_NODE, self._extent(part.size), axis=integer(d))

    def _block(self, part: NeededRegion) -> Affine:
        return self.blocks.size(part.along, part.size)

    def _stage(self, k: int, steps: Sequence[MeshStep]) -> None:
        """Send what the statements of a stage need, compute them, and add up parts of sums over the devices."""
        locals_ = [localised(self.blocks, step) for step in steps]
        made = {step.statement.key: step for step in steps}
        params: dict[Held, str] = {}
        for local in locals_:
            for key, needs in local.reads:
                if key not in made:
                    params[self.blocks.array(key, needs)] = self._fetched(key, needs)
            for along, size in local.starts:
                params[self.blocks.starts[along, size]] = self._start(along, size)
        later = {array for step in self.plan.steps if step.stage > k for array in step.needs.found}
        kept = [step for step in steps if step.statement.key in later or step.statement.key in self.results]
        if not kept:
            return
        part = self._part(k, steps, locals_, tuple(params), kept)
        told = {name: self._node(atom_affine(size)) for size, name in part.told.items()}
        called = apply(part.name, *map(Name, params.values()), **told)
        for step in kept:
            key = step.statement.key
            self.held[key, self.plan.stored(key)] = self.names.fresh_global(key[0].name)
        names = [self.held[step.statement.key, self.plan.stored(step.statement.key)] for step in kept]
        everywhere = [name for name, step in zip(names, kept, strict=True) if not step.mapped]
        if everywhere:
            self.device.note(f"the same on every device: {', '.join(everywhere)}")
        if len(names) == 1:
            self.device.assign(names[0], called)
        else:
            self.device.unpack(names, called)
        for name, step in zip(names, kept, strict=True):
            self._added_up(name, step)

    def _part(
        self,
        k: int,
        steps: Sequence[MeshStep],
        locals_: Sequence[Local],
        params: tuple[Held, ...],
        kept: Sequence[MeshStep],
    ) -> Source:
        """The function over blocks that computes the statements of a stage."""
        bound = [self._bound(step) for step in steps]
        given = [x for x, step in zip(bound, steps, strict=True) if step in kept]
        indices = frozenset(place for place, x in enumerate(given) if isinstance(x, IndexArray))
        results = [x if isinstance(x, Var) else numbers_of(x) for x in given]
        body = results[-1]
        for e in reversed(results[:-1]):
            body = MakePair(e, body)
        for x, local in zip(reversed(bound), reversed(locals_), strict=True):
            body = Let(x, local.value, body)
        name = self.names.fresh_global(f"{self.plan.program.function.name}_part{k + 1}")
        count = len(given)
        f = Function(name, params, body, (None,) * count if count > 1 else None)
        part = Source(f, (), self.exact, indices=indices)
        self.parts.append(part)
        return part

    def _bound(self, step: MeshStep) -> Var | IndexArray:
        """The variable of a statement in a function over blocks: the array as it is stored, or before its parts are
        added up and scattered."""
        key = step.statement.key
        x = self.blocks.array(key, self.plan.stored(key))
        assert not isinstance(x, Relation)
        if not step.scattered or isinstance(x, IndexArray):
            return x
        needs = tuple(None if d in step.scattered else part for d, part in enumerate(self.plan.stored(key)))
        return Var(x.name, array(self.blocks.shape(key, needs), R))

    def _start(self, along: Along, size: Affine) -> str:
        """The name of the first index that this device has."""
        cut = (along, size)
        if cut not in self.written:
            block = self._node(self.blocks.size(along, size))
            name = self.written[cut] = self.names.fresh_global(self.blocks.starts[cut].name)
            self.device.assign(name, Infix(apply("lax.axis_index", _axis(along)), "*", block))
        return self.written[cut]

    def _fetched(self, key: Key, needs: Needs) -> str:
        """The name of the part of an array that is needed, after the lines that get it."""
        here = self.plan.stored(key)
        if (key, needs) not in self.held:
            name = stem = self.held[key, here]
            got = list(here)
            # what devices send is the same part of the other axes, so these are cut last
            for d, (part, need) in enumerate(zip(here, needs, strict=True)):
                if part is not None and (need is None or need.along != part.along):
                    got[d] = None
                    name = self._gathered(key, name, f"{stem}_all", d, part, self.blocks.shape(key, tuple(got)))
            for sent in (True, False):
                for d, need in enumerate(needs):
                    if need is not None and got[d] != need and (got[d] is not None) is sent:
                        name = self._taken(key, name, stem, d, got[d], need, self.blocks.shape(key, tuple(got)))
                        got[d] = need
            self.held[key, needs] = name
        return self.held[key, needs]

    def _gathered(self, key: Key, x: str, wanted: str, d: int, part: NeededRegion, shape: tuple[Affine, ...]) -> str:
        name = self.names.fresh_global(wanted)
        axis = integer(d)
        called: Node = apply("lax.all_gather", Name(x), _axis(part.along), axis=axis, tiled=Name("True"))
        if (part.along, part.size) in self.uneven:
            called = self._cut(called, d, part)
        self.device.assign(name, called)
        even = (part.along, part.size) not in self.uneven
        whole = part.size if even else self._block(part) * self.plan.asked.count(part.along)
        self.sent.append(Collective("all_gather", part.along, x, _item(key), (*shape[:d], whole, *shape[d + 1 :])))
        return name

    def _taken(
        self,
        key: Key,
        x: str,
        stem: str,
        d: int,
        part: NeededRegion | None,
        need: NeededRegion,
        shape: tuple[Affine, ...],
    ) -> str:
        block = self._block(need)
        first, length, step = need.first(block), need.length(block), block * need.step
        window = (Name(x), _axis(need.along), integer(d), *map(self._node, (first, length, step)))
        if part is None:
            name = self.names.fresh_global(f"{stem}_part")
            self.device.assign(name, apply("_own_part", *window))
        else:
            name = self.names.fresh_global(f"{stem}_around")
            self.device.assign(name, apply("_around", *window, self._extent(part.size)))
            self.sent.append(Exchange(need.along, x, _item(key), shape, d, first, length, step))
        return name

    def _added_up(self, name: str, step: MeshStep) -> None:
        key = step.statement.key
        needs = list(self.plan.stored(key))
        for d in step.scattered:
            needs[d] = None
        for d, along in step.scattered.items():
            part = self.plan.stored(key)[d]
            assert part is not None
            needs[d] = part
            x: Node = Name(name)
            if self._missing(part) != ZERO_NODE:
                x = _padded(x, [self._missing(part) if k == d else ZERO_NODE for k in range(len(needs))])
            axis = integer(d)
            scattered = apply("lax.psum_scatter", x, _axis(along), scatter_dimension=axis, tiled=Name("True"))
            self.device.assign(name, scattered)
            self.sent.append(Collective("psum_scatter", along, name, _item(key), self.blocks.shape(key, tuple(needs))))
        if step.reduced:
            self.device.assign(name, apply("lax.psum", Name(name), _axis(step.reduced)))
            self.sent.append(Collective("psum", step.reduced, name, _item(key), self.blocks.shape(key, tuple(needs))))

    def _results(self) -> None:
        names = [Name(self.held[key, self.plan.stored(key)]) for key in dict.fromkeys(self.results)]
        self.device.give(names[0] if len(names) == 1 else tuple_of(names))

    def _run(self, given: Sequence[tuple[Key, str]], f: Function) -> None:
        """The call of the function on the devices, and its results without their padding."""
        names = [name for _, name in given]
        outputs = list(dict.fromkeys(self.results))
        self.outer.blank()
        self.outer.statements.append(Define("on_device", tuple(names), self.device))
        self.outer.blank()
        self.outer.assign("in_specs", tuple_of(spec_node(self._spec(key)) for key, _ in given))
        specs = [spec_node(self._spec(key)) for key in outputs]
        self.outer.assign("out_specs", tuple_of(specs) if len(specs) > 1 else specs[0])
        got = [self.held[key, self.plan.stored(key)] for key in outputs]
        run_ = self.names.fresh_global("run")
        known = {name: Name(name) for name in ("mesh", "in_specs", "out_specs")}
        mapped = apply("jax.shard_map", Name("on_device"), **known, check_vma=Name("False"))
        self.outer.assign(run_, mapped)
        called = apply(run_, *map(Name, names))
        if len(got) == 1:
            self.outer.assign(got[0], called)
        else:
            self.outer.unpack(got, called)
        for key, name in zip(outputs, got, strict=True):
            for d, part in enumerate(self.plan.stored(key)):
                if part is not None and self._missing(part) != ZERO_NODE:
                    self.outer.assign(name, self._cut(Name(name), d, part))
        tree = unpack(self.plan.program.results, f.results)
        names_of = {key: name for key, name in zip(outputs, got, strict=True)}
        named = run(_nested(tree, names_of))
        self.outer.give(run(result_of(named, self.names, self.outer, lambda node: len(text(node)))))

    def _spec(self, key: Key) -> jax.P:
        """How an array lies on the mesh."""
        return spec_of(self.plan.along[key])

    def _in_specs(self, p: Parameter) -> Any:
        """How a parameter lies on the mesh, in tuples where it is a pair."""
        return (
            from_leaves(p.type, iter([self._spec((p, path)) for path, _ in parts(p)]))
            if isinstance(p, Var)
            else self._spec((p, ()))
        )


ZERO_NODE = integer(0)


def _padded(x: Node, missing: Sequence[Node]) -> Node:
    """`x` with `missing` zeros at the end of each axis."""
    return apply("jnp.pad", x, List(tuple(tuple_of((ZERO_NODE, n)) for n in missing)))


def _nested(tree: Any, names: Mapping[Key, str]) -> Deep[Any]:
    if isinstance(tree, ProgramResult):
        return names[tree.key]
    found = []
    for part in tree:
        found.append((yield from call(_nested(part, names))))
    return tuple(found)


def _specs(tree: Any, spec: Callable[[Key], jax.P]) -> Deep[Any]:
    if isinstance(tree, ProgramResult):
        return spec(tree.key)
    found = []
    for part in tree:
        found.append((yield from call(_specs(part, spec))))
    return tuple(found)


def _axis(along: Along) -> Node:
    return Text(along[0]) if len(along) == 1 else tuple_of(map(Text, along))


def spec_of(layout: Sequence[Along]) -> jax.P:
    """The spec of an array whose axes are laid out like this."""
    axes = [(a if len(a) > 1 else a[0]) if a else None for a in layout]
    while axes and axes[-1] is None:
        axes.pop()
    return jax.P(*axes)  # type: ignore[no-untyped-call]


def spec_node(spec: jax.P) -> Node:
    """The code of a spec."""
    return apply("jax.P", *(Name("None") if a is None else _axis((a,) if isinstance(a, str) else a) for a in spec))


def _item(key: Key) -> int:
    """The bytes that an element takes, where numbers are of single precision."""
    return 1 if isinstance(key[0], Relation) else 4


def uneven(plan: MeshPlan, sizes: Mapping[Size, int] | None) -> frozenset[Cut]:
    """The sizes that leave a remainder when they are cut into blocks, and those that are 0: JAX sends no empty arrays.

    Where `sizes` are not known, all that are more than a multiple of one size.
    """
    found = set()
    cuts = {(along, n) for step in plan.steps for b, along in step.mapped.items() for n in (b.size,)}
    for key, axes in plan.along.items():
        cuts |= {(along, n) for along, n in zip(axes, plan.shapes[key], strict=True) if along}
    for along, n in cuts:
        alone = len(n.terms) == 1 and not n.constant
        if sizes is None:
            is_uneven = not alone
        else:
            count: int = n.value(sizes)  # type: ignore[arg-type]
            is_uneven = count <= 0 or count % plan.asked.count(along) > 0
        if is_uneven:
            found.add((along, n))
    return frozenset(found)
