"""The module that runs a program's steps: a function for each, and one of the program's parameters that calls them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from tensorlang.language.affine import Size
from tensorlang.language.arguments import unpack
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.lowering import costs
from tensorlang.lowering.arrays.cost import ArrayCost, Repeated, work_of
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Block, Define, Name, Note, When
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.signature import result_of, signature
from tensorlang.lowering.arrays.values import apply
from tensorlang.lowering.arrays.work import IN_SINGLE, Work, together
from tensorlang.lowering.emit.conditions import condition
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.module import IMPORTS, assembled, source_of
from tensorlang.lowering.emit.python import lines, modules_in, text
from tensorlang.lowering.emit.shared import share
from tensorlang.lowering.kernels.ir import Kernel, KernelProgram, Plain, Results, TileAxis, leaves_of
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.tiles import negated
from tensorlang.lowering.kernels.work import cost_of_tiles, work_of_kernel
from tensorlang.recursion import Deep, call, run
from tensorlang.simplification import simplify


@dataclass(frozen=True)
class MadeBy:
    """What makes a kernel, and why, as text; and whether some of it is made by Triton."""

    text: str
    has_triton: bool = False

    def __str__(self) -> str:
        return self.text


class EmittedKernel(Protocol):
    """A kernel in Python: a function of arrays, then all sizes, the dtype and `interpret`, that gives a list.

    It may call `others`. `by` says what makes it, and why.
    """

    definition: Define
    arrays: tuple[Array, ...]
    others: tuple[Define, ...]
    by: MadeBy


Emit = Callable[[Kernel, Mapping[Array, str], Mapping[Size, str], str, frozenset[Var]], EmittedKernel]


def step_name(k: int) -> str:
    """What the k-th step is called in costs; what it makes may be called as something else is."""
    return f"step {k}"


class KernelSource:
    """The text of a module for `program`, whose function `name` takes the parameters, in order, and `interpret`.

    `told` are the sizes that no shape determines, which it takes by keyword. All relations are boolean arrays: there
    are no `orders` of points. It consists of the `definitions`, and of the `helpers` that these read of the library;
    the former are `defined` under names that are not `taken`.
    """

    def __init__(self, program: KernelProgram, emit: Emit, taken: Collection[str] = (), first: int = 0) -> None:
        f = program.function
        self.orders: dict[Relation, Any] = {}
        self._emit = emit
        self._integers = StaticIntegers(Names(frozenset({*HELPERS, *IMPORTS, "interpret", *taken})))
        self._names = self._integers.names
        self.name = self._names.fresh_global(f.name)
        self._body = Block()
        signed = signature(f, self._integers, self._body, single=True)
        self.told = signed.told
        self._sizes = {size: self._integers.spelled[size] for size in f.sizes}
        self._held: dict[Parameter, str] = {p: name for p, name in signed.parameters.items()}
        by_place = {(p.name, path): name for (p, path), name in signed.arrays.items()}
        self._held.update({x: by_place[place] for x, place in program.parts.items() if place in by_place})
        self.definitions: list[str] = []
        self.defined: set[str] = set()
        self.helpers: set[str] = set()
        self.made_by: dict[str, MadeBy] = {}
        """What makes the kernels, by their names."""
        self._program = program
        results = frozenset(leaves_of(program.results))
        works: list[Work] = []
        for k, step in enumerate(program.steps):
            work = self._plain(step, self._body) if isinstance(step, Plain) else self._kernel(step, results)
            works.append(work.of_one_step(step_name(first + k)))
        self._work = together(works)
        tree = unpack(run(self._tree(program.results)), f.results)
        self._body.give(run(result_of(tree, self._names, self._body, lambda node: len(text(node)))))
        parameters = (*signed.parameters.values(), "*", *self.told.values(), "interpret=False")
        self._add(Define(self.name, parameters, self._body))
        self.runnable = self.text = assembled(self.definitions, self.helpers, costs.load())

    def _add(self, definition: Define) -> None:
        block = Block([definition])
        self.defined.add(definition.name)
        self.definitions.append("\n".join(lines(block)))
        self.helpers |= modules_in(block)

    @cached_property
    def cost(self) -> ArrayCost:
        """What its steps take at sizes that are whole tiles, beside the model's count."""
        return cost_of_tiles(self._program.function, (Repeated(self._work),), self.axes)

    @property
    def axes(self) -> list[TileAxis]:
        """The axes of all kernels."""
        return [axis for step in self._program.steps if isinstance(step, Kernel) for axis in step.axes]

    def _kernel(self, kernel: Kernel, results: frozenset[Var]) -> Work:
        """Write a kernel, and the call of it; return what it takes."""
        name = self._names.fresh_global(f"_{kernel.name}")
        for out in kernel.outputs:
            self._held[out.var] = self._names.fresh_global(out.var.name)
        emitted = self._emit(kernel, self._held, self._sizes, name, results)
        self.made_by[kernel.name] = emitted.by
        for each in (*emitted.others, emitted.definition):
            definition, functions = share(each)
            for f in functions.values():
                if f.name not in self.defined:
                    self._add(f)
            self._add(definition)
        given = [*(self._held[x] for x in emitted.arrays), *self._sizes.values(), "dtype", "interpret"]
        call = Block()
        call.unpack([self._held[out.var] for out in kernel.outputs], apply(name, *map(Name, given)))
        works = [work_of_kernel(kernel)]
        if kernel.instead:
            otherwise = Block()
            elsewhere = negated(kernel.where)
            works += [self._plain(step, otherwise).under(elsewhere) for step in kernel.instead]
            call = Block([When(condition(kernel.where, self._integers.node), call, otherwise)])
        self._body.statements += call.statements
        return together(works)

    def _plain(self, step: Plain, body: Block) -> Work:
        """Write a step that is left to `jax.numpy`, and why, and call it in `body`; return what it takes."""
        f = step.function
        named = Function(self._names.fresh_global(f"_{f.name}"), f.params, f.body)
        made = source_of(named if step.indices else simplify(named), indices=step.indices)
        note = lines(Block([Note(f"Left to jax.numpy: {step.reason}.")]))
        self.definitions.append("\n".join([*note, made.definition]))
        self.helpers.update(made.helpers)
        self.defined.add(made.name)
        given = [Name(self._held[p]) for p in f.params]
        told = {name: Name(self._sizes[size]) for size, name in made.told.items()}
        for var in step.outputs:
            if var not in self._held:
                self._held[var] = self._names.fresh_global(var.name)
        targets = [self._held[var] for var in step.outputs]
        called = apply(made.name, *given, **told)
        if len(targets) == 1:
            body.assign(targets[0], called)
        else:
            body.unpack(targets, apply("jax.tree.leaves", called))
        return work_of(made.function, made.program, IN_SINGLE)

    def _tree(self, results: Results) -> Deep[Any]:
        if isinstance(results, tuple):
            return (yield from call(self._tree(results[0]))), (yield from call(self._tree(results[1])))
        return self._held[results]
