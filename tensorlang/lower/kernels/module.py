"""The module that runs a program's steps: a function for each, and one of the program's parameters that calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.arguments import unpack
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, shape, struct_of_arrays
from tensorlang.lower import costs
from tensorlang.lower.arrays.ir import Block, Length, Name
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.arrays.sizes import Axis as SizedAxis
from tensorlang.lower.arrays.sizes import infer_sizes
from tensorlang.lower.emit.helpers import HELPERS
from tensorlang.lower.emit.module import Source, assembled
from tensorlang.lower.emit.python import lines
from tensorlang.lower.kernels.kernel import Kernel, Plain, Program, Results
from tensorlang.lower.kernels.operands import Array
from tensorlang.lower.kernels.statements import leaves_of
from tensorlang.recursion import Deep, run
from tensorlang.simplify import simplify

RESERVED = frozenset({"np", "pl", "pltpu", "plgpu", "interpret"})


class Written(Protocol):
    """The code of one kernel: a function of arrays, then all sizes, the dtype and `interpret`, that gives a list."""

    name: str
    code: str
    arrays: tuple[Array, ...]


Emit = Callable[[Kernel, Mapping[Array, str], Mapping[Size, str], str, frozenset[Var]], Written]


class Module:
    """The text of a module for `program`, whose function `name` takes the parameters, in order, and `interpret`.

    `told` are the sizes that no shape tells, which it takes by keyword. All relations are boolean arrays: there are no
    `orders` of points.
    """

    def __init__(self, program: Program, emit: Emit, imports: Sequence[str]) -> None:
        f = program.function
        self._program = program
        self.orders: dict[Relation, Any] = {}
        self._emit = emit
        self._names = Names(frozenset({*HELPERS, *RESERVED}))
        self.name = self._names.fresh_global(f.name)
        self._definitions: list[str] = []
        self._body = Block()
        self._held: dict[Array, str] = {}
        self._wide: set[Var] = set()
        arguments = self._parameters(f)
        self.told = self._sizes(f)
        results = frozenset(leaves_of(program.results))
        for step in program.steps:
            if isinstance(step, Plain):
                self._plain(step)
            else:
                self._kernel(step, results)
        tree = unpack(run(self._tree(program.results)), f.results)
        self._body.line(f"return {_tuple(tree)}")
        signature = [*arguments, "*", *self.told.values(), "interpret=False"]
        definition = "\n".join([f"def {self.name}({', '.join(signature)}):", *lines(self._body, 1)])
        called = [name for name in HELPERS if any(f"{name}(" in code for code in self._definitions)]
        text = assembled([*self._definitions, definition], called, costs.load())
        every = text.split("\n")
        first = next(k for k, line in enumerate(every) if not line)
        known = [line for line in every[:first] if line]
        more = [line for line in imports if f" {line.split()[-1]}" and line not in known]
        self.runnable = self.text = "\n".join([*sorted({*known, *more}, key=_order), *every[first:]])

    def _parameters(self, f: Function) -> list[str]:
        """Name the arrays of each parameter, take pairs apart, and bring all numbers to one dtype."""
        names = {p: self._names.fresh_global(p.name) for p in f.params}
        self._whole: dict[Array, str] = {p: name for p, name in names.items() if isinstance(p, Var)}
        by_place = {place: var for var, place in self._program.parts.items()}
        arrays: list[str] = []
        for p in f.params:
            if not isinstance(p, Var):
                self._held[p] = names[p]
                continue
            stack: list[tuple[tuple[int, ...], str, Any]] = [((), names[p], struct_of_arrays(p.type))]
            while stack:
                path, here, kind = stack.pop()
                if isinstance(kind, Pair):
                    first, second = (self._names.fresh_global(f"{here}_{k}") for k in range(2))
                    self._body.line(f"{first}, {second} = {here}")
                    stack += [((*path, 1), second, kind.second), ((*path, 0), first, kind.first)]
                else:
                    arrays.append(here)
                    if (p.name, path) in by_place:
                        self._held[by_place[p.name, path]] = here
        if arrays:
            self._body.line(f"dtype = jnp.result_type({', '.join(['float', *arrays])})")
            self._body.line("dtype = dtype if dtype == jnp.bfloat16 else jnp.float32")
        else:
            self._body.line("dtype = jnp.float32")
        for name in arrays:
            self._body.line(f"{name} = jnp.asarray({name}, dtype)")
        for p in f.params:
            if not isinstance(p, Var):
                kind = "jnp.int32" if isinstance(p, IndexArray) else "bool"
                self._body.line(f"{names[p]} = jnp.asarray({names[p]}, {kind})")
        return list(names.values())

    def _sizes(self, f: Function) -> dict[Size, str]:
        """Read the sizes off the shapes; gives the names of those that no shape determines."""
        self._spelled = {size: self._names.fresh_global(size.name) for size in f.sizes}
        axes = []
        for x, name in self._held.items():
            sizes = shape(x.type)[0] if isinstance(x, Var) else x.sizes
            axes += [SizedAxis(a, Length(Name(name), k)) for k, a in enumerate(sizes)]
        known = infer_sizes(axes, lambda s: self._spelled[s])
        for size, value in known.items():
            self._body.assign(self._spelled[size], value)
        return {s: self._spelled[s] for s in f.sizes if s not in known}

    def _kernel(self, kernel: Kernel, results: frozenset[Var]) -> None:
        name = self._names.fresh_global(f"_{kernel.name}")
        for out in kernel.outputs:
            self._held[out.var] = self._names.fresh_global(out.var.name)
        written = self._emit(kernel, self._held, self._spelled, name, results)
        self._definitions.append(written.code)
        made = [self._held[out.var] for out in kernel.outputs]
        given = [*(self._held[x] for x in written.arrays), *self._spelled.values(), "dtype", "interpret"]
        self._body.line(f"{', '.join(made)}{',' * (len(made) == 1)} = {name}({', '.join(given)})")

    def _plain(self, step: Plain) -> None:
        """A step that is left to `jax.numpy`, and why."""
        f = step.function
        made = Source(simplify(Function(self._names.fresh_global(f"_{f.name}"), f.params, f.body)))
        self._definitions.append(f"# Left to jax.numpy: {step.reason}.\n{made.definition}")
        for var in step.outputs:
            self._held[var] = self._names.fresh_global(var.name)
        given = [self._held.get(p) or self._whole[p] for p in f.params]
        given += [f"{name}={self._spelled[size]}" for size, name in made.told.items()]
        targets = ", ".join(self._held[var] for var in step.outputs)
        self._body.line(f"{targets} = {made.name}({', '.join(given)})")

    def _tree(self, results: Results) -> Deep[Any]:
        if isinstance(results, tuple):
            return (yield self._tree(results[0])), (yield self._tree(results[1]))
        return self._held[results]


def _tuple(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    return f"({', '.join(map(_tuple, tree))}{',' * (len(tree) == 1)})"


def _order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line
