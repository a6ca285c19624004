"""The source of a program on a mesh: functions over blocks, and what the devices send each other between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax

from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.arguments import from_leaves, unpack
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Expr, Let, MakePair, Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import R, array
from tensorlang.lower import costs
from tensorlang.lower.arrays.integers import Integers
from tensorlang.lower.arrays.ir import Block, Length, Name
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.arrays.sizes import Axis, infer_sizes
from tensorlang.lower.emit.helpers import HELPERS
from tensorlang.lower.emit.module import Source, assembled
from tensorlang.lower.emit.python import affine, lines
from tensorlang.lower.mesh.asked import Along, results
from tensorlang.lower.mesh.collectives import Collective, Collectives, Exchange
from tensorlang.lower.mesh.local import Blocks, Cut, Held, Local, localised
from tensorlang.lower.mesh.needs import Needs, Part
from tensorlang.lower.mesh.plan import Plan, Step
from tensorlang.lower.mesh.statements import Result, parts
from tensorlang.lower.plan.dependence import Key
from tensorlang.recursion import Deep, run


class MeshSource:
    """The source of a program on a mesh, and what it sends.

    `text` defines the function `name` of the program's parameters, of the mesh, and of the sizes `told` which no shape
    tells. It is right where no size but those of `uneven` leaves a remainder when it is cut into blocks; arrays of
    those are padded with zeros.
    """

    def __init__(self, plan: Plan, uneven: Collection[Cut], exact: bool) -> None:
        self.plan = plan
        self.uneven = uneven
        self.exact = exact
        f = plan.program.function
        self.blocks = Blocks(plan, uneven)
        self.names = Names(frozenset(HELPERS))
        self.integers = Integers(self.names)
        self.name = self.names.fresh_global(f.name)
        self.names.fresh_global("mesh")
        self.held: dict[tuple[Key, Needs], str] = {}
        self.parts: list[Source] = []
        self.called: list[str] = []
        self.sent: list[Collective | Exchange] = []
        self.outer, self.device = Block(), Block()
        self.written: dict[Cut, str] = {}
        self.results = results(plan.program.results)
        parameters = self._parameters(f)
        self.told = self._sizes(f)
        given = self._given()
        for k, stage in enumerate(plan.stages):
            self._stage(k, stage)
        self._results()
        self._run(given, f)
        told = ["*", "mesh", *self.told.values()]
        main = "\n".join([f"def {self.name}({', '.join([*parameters, *told])}):", *lines(self.outer, 1)])
        table = costs.exact(costs.load()) if exact else costs.load()
        called = [name for part in self.parts for name in part.helpers] + self.called
        self.runnable = self.text = assembled([*(part.definition for part in self.parts), main], called, table)
        self.in_specs = tuple(self._in_specs(p) for p in f.params)
        self.out_specs = run(_specs(unpack(plan.program.results, f.results), self._spec))
        sizes = {size: cut for cut, size in self.blocks.sizes.items()}
        self.collectives = Collectives(tuple(self.sent), plan.asked.devices, sizes)

    def _parameters(self, f: Function) -> list[str]:
        """Take pairs apart, and bring all numbers to one dtype."""
        keys = list(self.plan.program.shapes)
        names = {p: self.names.fresh_global(p.name) for p in f.params}
        arrays = []
        for p in f.params:
            paths = [path for x, path in keys if x is p]
            for path in paths:
                name = names[p] if path == () else self.names.fresh_global("_".join([names[p], *map(str, path)]))
                self.held[(p, path), self.plan.stored((p, path))] = name
                if path != ():
                    self.outer.line(f"{name} = {names[p]}{''.join(f'[{which}]' for which in path)}")
                if isinstance(p, Var):
                    arrays.append(name)
        self.outer.line(f"dtype = jnp.result_type({', '.join(['float', *arrays])})")
        for (key, _), name in self.held.items():
            x = key[0]
            dtype = "dtype" if isinstance(x, Var) else "jnp.int32" if isinstance(x, IndexArray) else "bool"
            self.outer.line(f"{name} = jnp.asarray({name}, {dtype})")
        return list(names.values())

    def _sizes(self, f: Function) -> dict[Size, str]:
        """Read the sizes off the shapes; gives the names of those that no shape determines."""
        for size in f.sizes:
            self.integers.spelled[size] = self.names.fresh_global(size.name)
        axes = [
            Axis(a, Length(Name(name), k))
            for (key, _), name in self.held.items()
            for k, a in enumerate(self.plan.shapes[key])
        ]
        self.integers.nonnegative += dict.fromkeys(axis.size for axis in axes)
        known = infer_sizes(axes, lambda s: self.integers.spelled[s])
        for size, value in known.items():
            self.outer.assign(self.integers.spelled[size], value)
        return {s: self.integers.spelled[s] for s in f.sizes if s not in known}

    def _integer(self, a: Affine) -> str:
        return affine(self.integers.named_in(a))

    def code(self, a: Affine) -> str:
        """`a` in Python; blocks get their sizes where they are first needed."""
        for cut, size in list(self.blocks.sizes.items()):
            if size in a.sizes and size not in self.integers.spelled:
                name = self.integers.spelled[size] = self.names.fresh_global(size.name)
                count = self.plan.asked.count(cut[0])
                whole = self._integer(cut[1])
                if cut in self.uneven:
                    code = f"-(-max({whole}, 1) // {count})"
                else:
                    code = f"{whole} // {count}" if whole.isidentifier() else f"({whole}) // {count}"
                self.outer.line(f"{name} = {code}  # for each device along {', '.join(cut[0])}")
        return self._integer(a)

    def _given(self) -> list[tuple[Key, str]]:
        """The parameters that the devices are given, padded where their blocks are uneven."""
        used = {array for step in self.plan.steps for array in step.needs.found} | set(self.results)
        given = []
        for (key, needs), name in self.held.items():
            if key in used:
                given.append((key, name))
                edges = [(self._missing(part) if part else "0") for part in needs]
                if any(edge != "0" for edge in edges):
                    pads = ", ".join(f"(0, {edge})" for edge in edges)
                    self.outer.line(f"{name} = jnp.pad({name}, [{pads}])")
        return given

    def _missing(self, part: Part) -> str:
        """How many elements the blocks have beyond the array's."""
        if (part.along, part.size) not in self.uneven:
            return "0"
        whole = self._block(part) * self.plan.asked.count(part.along)
        size = self._extent(part.size)
        return self.code(whole - part.size) if size == self.code(part.size) else f"{self.code(whole)} - {size}"

    def _extent(self, size: Affine) -> str:
        """How many indices there are below `size`."""
        return self.code(size) if self.integers.is_nonnegative(size) else f"max({self.code(size)}, 0)"

    def _block(self, part: Part) -> Affine:
        return self.blocks.size(part.along, part.size)

    def _stage(self, k: int, steps: Sequence[Step]) -> None:
        """Send what the statements of a stage need, compute them, and add up over devices what are parts of sums."""
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
        told = [f"{name}={self.code(_affine(size))}" for size, name in part.told.items()]
        call = f"{part.name}({', '.join([*params.values(), *told])})"
        for step in kept:
            key = step.statement.key
            self.held[key, self.plan.stored(key)] = self.names.fresh_global(key[0].name)
        names = [self.held[step.statement.key, self.plan.stored(step.statement.key)] for step in kept]
        alike = [name for name, step in zip(names, kept, strict=True) if not step.mapped]
        if alike:
            self.device.line(f"# on every device alike: {', '.join(alike)}")
        self.device.line(f"{', '.join(names)} = {call}")
        for name, step in zip(names, kept, strict=True):
            self._added_up(name, step)

    def _part(
        self, k: int, steps: Sequence[Step], locals_: Sequence[Local], params: tuple[Held, ...], kept: Sequence[Step]
    ) -> Source:
        """The function over blocks that computes the statements of a stage."""
        bound = [self._bound(step) for step in steps]
        given: list[Expr] = [x for x, step in zip(bound, steps, strict=True) if step in kept and isinstance(x, Var)]
        body = given.pop()
        for e in reversed(given):
            body = MakePair(e, body)
        for x, local in zip(reversed(bound), reversed(locals_), strict=True):
            body = Let(x, local.value, body)
        name = self.names.fresh_global(f"{self.plan.program.function.name}_part{k + 1}")
        count = len(given) + 1
        part = Source(Function(name, params, body, (None,) * count if count > 1 else None), (), self.exact)
        self.parts.append(part)
        return part

    def _bound(self, step: Step) -> Var | IndexArray:
        """What the value of a statement is called in a function over blocks: the array that is stored, or is added up
        before it is."""
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
            block = self.code(self.blocks.size(along, size))
            name = self.written[cut] = self.names.fresh_global(self.blocks.starts[cut].name)
            self.device.line(f"{name} = lax.axis_index({_axis(along)}) * {block}")
        return self.written[cut]

    def _fetched(self, key: Key, needs: Needs) -> str:
        """The name of what is needed of an array, after the lines that get it."""
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

    def _gathered(self, key: Key, x: str, wanted: str, d: int, part: Part, shape: tuple[Affine, ...]) -> str:
        name = self.names.fresh_global(wanted)
        call = f"lax.all_gather({x}, {_axis(part.along)}, axis={d}, tiled=True)"
        if (part.along, part.size) in self.uneven:
            call = f"lax.slice_in_dim({call}, 0, {self._extent(part.size)}, axis={d})"
        self.device.line(f"{name} = {call}")
        even = (part.along, part.size) not in self.uneven
        whole = part.size if even else self._block(part) * self.plan.asked.count(part.along)
        self.sent.append(Collective("all_gather", part.along, x, _item(key), (*shape[:d], whole, *shape[d + 1 :])))
        return name

    def _taken(
        self, key: Key, x: str, stem: str, d: int, part: Part | None, need: Part, shape: tuple[Affine, ...]
    ) -> str:
        block = self._block(need)
        first, length, step = need.first(block), need.length(block), block * need.step
        window = f"{_axis(need.along)}, {d}, {self.code(first)}, {self.code(length)}, {self.code(step)}"
        if part is None:
            name = self.names.fresh_global(f"{stem}_part")
            self.called.append("_own_part")
            self.device.line(f"{name} = _own_part({x}, {window})")
        else:
            name = self.names.fresh_global(f"{stem}_around")
            self.called.append("_around")
            self.device.line(f"{name} = _around({x}, {window}, {self._extent(part.size)})")
            self.sent.append(Exchange(need.along, x, _item(key), shape, d, first, length, step))
        return name

    def _added_up(self, name: str, step: Step) -> None:
        key = step.statement.key
        needs = list(self.plan.stored(key))
        for d in step.scattered:
            needs[d] = None
        for d, along in step.scattered.items():
            part = self.plan.stored(key)[d]
            assert part is not None
            needs[d] = part
            x = name
            if self._missing(part) != "0":
                pads = ", ".join(f"(0, {self._missing(part) if k == d else 0})" for k in range(len(needs)))
                x = f"jnp.pad({name}, [{pads}])"
            self.device.line(f"{name} = lax.psum_scatter({x}, {_axis(along)}, scatter_dimension={d}, tiled=True)")
            self.sent.append(Collective("psum_scatter", along, name, _item(key), self.blocks.shape(key, tuple(needs))))
        if step.reduced:
            self.device.line(f"{name} = lax.psum({name}, {_axis(step.reduced)})")
            self.sent.append(Collective("psum", step.reduced, name, _item(key), self.blocks.shape(key, tuple(needs))))

    def _results(self) -> None:
        names = [self.held[key, self.plan.stored(key)] for key in dict.fromkeys(self.results)]
        self.device.line(f"return {', '.join(names)}")

    def _run(self, given: Sequence[tuple[Key, str]], f: Function) -> None:
        """The call of the function on the devices, and its results without what they were padded with."""
        names = [name for _, name in given]
        outputs = list(dict.fromkeys(self.results))
        self.outer.line("")
        self.outer.line(f"def on_device({', '.join(names)}):")
        self.outer.statements.append(self.device)
        self.outer.line("")
        in_specs = _tuple([_code(self._spec(key)) for key, _ in given])
        specs = [_code(self._spec(key)) for key in outputs]
        out_specs = _tuple(specs) if len(specs) > 1 else specs[0]
        self.outer.line(f"in_specs = {in_specs}")
        self.outer.line(f"out_specs = {out_specs}")
        got = [self.held[key, self.plan.stored(key)] for key in outputs]
        run_ = self.names.fresh_global("run")
        call = "jax.shard_map(on_device, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)"
        self.outer.line(f"{run_} = {call}")
        self.outer.line(f"{', '.join(got)} = {run_}({', '.join(names)})")
        for key, name in zip(outputs, got, strict=True):
            cuts = [f":{self._extent(p.size)}" if p and self._missing(p) != "0" else ":" for p in self.plan.stored(key)]
            if any(cut != ":" for cut in cuts):
                self.outer.line(f"{name} = {name}[{', '.join(cuts)}]")
        tree = unpack(self.plan.program.results, f.results)
        names_of = {key: name for key, name in zip(outputs, got, strict=True)}
        self.outer.line(f"return {run(_nested(tree, names_of))}")

    def _spec(self, key: Key) -> jax.P:
        """How an array lies on the mesh."""
        axes = [(a if len(a) > 1 else a[0]) if a else None for a in self.plan.along[key]]
        while axes and axes[-1] is None:
            axes.pop()
        return jax.P(*axes)  # type: ignore[no-untyped-call]

    def _in_specs(self, p: Parameter) -> Any:
        """How a parameter lies on the mesh, in tuples where it is a pair."""
        return (
            from_leaves(p.type, iter([self._spec((p, path)) for path, _ in parts(p)]))
            if isinstance(p, Var)
            else self._spec((p, ()))
        )


def _nested(tree: Any, names: Mapping[Key, str]) -> Deep[str]:
    if isinstance(tree, Result):
        return names[tree.key]
    found = []
    for part in tree:
        found.append((yield _nested(part, names)))
    return _tuple(found)


def _specs(tree: Any, spec: Callable[[Key], jax.P]) -> Deep[Any]:
    if isinstance(tree, Result):
        return spec(tree.key)
    found = []
    for part in tree:
        found.append((yield _specs(part, spec)))
    return tuple(found)


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def _axis(along: Along) -> str:
    names = [f'"{name}"' for name in along]
    return names[0] if len(names) == 1 else _tuple(names)


def _code(spec: jax.P) -> str:
    axes = ["None" if a is None else _axis((a,) if isinstance(a, str) else a) for a in spec]
    return f"jax.P({', '.join(axes)})"


def _item(key: Key) -> int:
    """How many bytes an element takes, where numbers are of single precision."""
    return 1 if isinstance(key[0], Relation) else 4


def _affine(size: Size) -> Affine:
    return Affine(((size, 1),), 0)


def uneven(plan: Plan, sizes: Mapping[Size, int] | None) -> frozenset[Cut]:
    """The sizes that leave a remainder when they are cut into blocks, and those without an index: of nothing JAX sends
    nothing.

    Where `sizes` are not known, all that are no size alone.
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
