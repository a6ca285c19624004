"""The module of a program with recurrences on an accelerator: kernels of its stages, and of recurrences; those that are
no kernels are left to `lax.scan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from tensorlang.language.affine import Size
from tensorlang.language.grammar import Var
from tensorlang.lowering.arrays.cost import ArrayCost, work_of
from tensorlang.lowering.arrays.ir import Block, Define, Item, Lambda, Name, Node
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply
from tensorlang.lowering.arrays.work import IN_SINGLE
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.kernels import Emit, KernelSource, MadeBy, step_name
from tensorlang.lowering.emit.module import IMPORTS, Source, WrittenFunction, assembled
from tensorlang.lowering.emit.python import lines, modules_in
from tensorlang.lowering.emit.recurrences import Recurrent, once
from tensorlang.lowering.emit.shared import share
from tensorlang.lowering.emit.turns import Given
from tensorlang.lowering.kernels.ir import Plain, Recurrence, TileAxis
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.staged import StagedKernels
from tensorlang.lowering.kernels.work import cost_of_tiles, work_of_steps
from tensorlang.lowering.plan.stages import Stage, Turn


class EmittedRecurrence(Protocol):
    """A recurrence in Python: see `emit.tpu.recurrence.TpuRecurrence`."""

    definition: Define
    arguments: tuple[Array, ...]
    by: MadeBy


EmitRecurrence = Callable[
    [Recurrence, Sequence[int], Sequence[tuple[int, str]], Mapping[Size, str], str], EmittedRecurrence
]


class StagedKernelSource(Recurrent):
    """The text of a module for `program`, as `KernelSource` has it."""

    is_single = True

    def __init__(self, program: StagedKernels, emit: Emit, over_time: EmitRecurrence, exact: bool, store: str) -> None:
        self._program, self._emit, self._over_time = program, emit, over_time
        self.made_by: dict[str, MadeBy] = {}
        """What makes the kernels, by their names."""
        self._defined: set[str] = set()
        self._axes: list[TileAxis] = []
        self._count = 0
        self._definitions: list[str] = []
        self._read: dict[str, None] = {}
        names = Names(frozenset({*HELPERS, *IMPORTS, "interpret"}))
        super().__init__(program.function, (), exact, store=store, names=names, parts=program.staged)

    @cached_property
    def cost(self) -> ArrayCost:
        """What all of it takes at sizes that are whole tiles, beside the model's count."""
        return cost_of_tiles(self._function, tuple(self._works()), self._axes)

    def _options(self) -> tuple[str, ...]:
        return (*super()._options(), "interpret=False")

    @cached_property
    def _written(self) -> WrittenFunction:
        return WrittenFunction(self.definition, self._defined)

    @property
    def helpers(self) -> tuple[str, ...]:
        """The parts of the library, and modules, that it reads."""
        return (*self._read, *super().helpers)

    @cached_property
    def runnable(self) -> str:
        """The Python without comments."""
        return assembled([*self._definitions, self._written.runnable], self.helpers, self._table)

    def text_with(self, definitions: Sequence[str], names: Iterable[str] = ()) -> str:
        """The text with further functions, which read the helpers and modules `names`."""
        every = [*self._definitions, self._written.text, *definitions]
        return assembled(every, [*self.helpers, *names], self._table)

    def _stage(self, stage: Stage) -> None:
        program = self._program.programs[stage]
        if stage.indices:  # kernels give numbers only
            super()._stage(stage)
            self._number_part()
            return
        name = self._names.fresh_global(stage.function.name)
        program = replace(program, function=replace(program.function, name=name))
        made = KernelSource(program, self._emit, self._defined, self._count)
        self._count += len(program.steps)
        self._add(made.definitions, made.helpers, made.defined)
        self.made_by |= made.made_by
        self._axes += made.axes
        self._parts.append((made, once))
        told = {name: Name(self._sizes[size]) for size, name in made.told.items()}
        called = apply(made.name, *self._values(stage.function.params), **told, interpret=Name("interpret"))
        if not stage.gives:
            self._body.give(called)
        elif len(stage.gives) == 1:
            self._body.assign(self._named(stage.gives[0]), called)
        else:
            self._body.unpack([self._named(v) for v in stage.gives], called)

    def _step(self, turn: Turn, read: Sequence[Given]) -> str:
        name = super()._step(turn, read)
        found = self._program.recurrences[turn]
        if isinstance(found, Plain):
            self._number_part()
        else:
            self._axes += found.step.axes
            each, at_first = work_of_steps(found)
            _, repeat = self._parts.pop()
            self._parts += [(each.of_one_step(step_name(self._count)), repeat), (at_first, once)]
            self._count += 1
        return name

    def _number_part(self) -> None:
        """Take what was written last, by `jax.numpy`, for one step in what `cost` says."""
        made, repeat = self._parts[-1]
        if isinstance(made, Source):
            work = work_of(made.function, made.program, IN_SINGLE)
            self._parts[-1] = (work.of_one_step(step_name(self._count)), repeat)
        self._count += 1

    def _add(self, definitions: Iterable[str], helpers: Iterable[str], names: Iterable[str]) -> None:
        """List definitions, under names that nothing else gets."""
        self._definitions += definitions
        self._read.update(dict.fromkeys(helpers))
        for name in names:
            self._defined.add(name)
            self._names.fresh_global(name)

    def _run(
        self, turn: Turn, step: str, read: list[Given], stored: frozenset[Var], last: str, first: Node
    ) -> dict[Given, Node]:
        """Run the recurrence, by its kernel if there is one."""
        found = self._program.recurrences[turn]
        if isinstance(found, Plain):
            self._body.note(f"Left to {found.by}: {found.reason}.")
            return super()._run(turn, step, read, stored, last, first)
        name = self._names.fresh_global(f"{turn.step.name}_over_time")
        made = self._over_time(found, turn.carried, read, self._sizes, name)
        self.made_by[found.name] = made.by
        definition, functions = share(made.definition)
        for f in (*functions.values(), definition):
            if f.name not in self._defined:
                block = Block([f])
                self._add(["\n".join(lines(block))], modules_in(block), [f.name])
        each = self._names.fresh_global("each")
        given = [*(self._spelled[x] for x in made.arguments), *self._sizes.values(), "dtype", "interpret"]
        otherwise = Lambda((), apply("_recur", *self._steps(turn, step, first)))
        self._body.unpack([last, each], apply(name, *map(Name, given), otherwise))
        return {key: Item(Name(each), k) for k, key in enumerate(read)}
