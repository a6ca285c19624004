"""The module of a program with recurrences on an accelerator: kernels of its stages, and of recurrences; those that are
no kernels are left to `lax.scan`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tensorlang.language.affine import Size
from tensorlang.language.grammar import Var
from tensorlang.lowering.arrays.ir import ArrayOperation, Block, Define, Item, Lambda, Name, Node
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.kernels import Emit, KernelSource, MadeBy
from tensorlang.lowering.emit.module import IMPORTS
from tensorlang.lowering.emit.python import lines, modules_in
from tensorlang.lowering.emit.recurrences import Given, PartSource, Recurrent
from tensorlang.lowering.emit.shared import share
from tensorlang.lowering.kernels.ir import Plain, Recurrence
from tensorlang.lowering.kernels.operands import Array
from tensorlang.lowering.kernels.staged import StagedKernels
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
        names = Names(frozenset({*HELPERS, *IMPORTS, "interpret"}))
        super().__init__(program.function, (), exact, store=store, names=names, parts=program.staged)

    def _options(self) -> tuple[str, ...]:
        return (*super()._options(), "interpret=False")

    def _staged(self, stage: Stage) -> PartSource:
        program = self._program.programs[stage]
        name = self._names.fresh_global(stage.function.name)
        program = replace(program, function=replace(program.function, name=name))
        made = KernelSource(program, self._emit, self._defined)
        self._add(made.definitions, made.helpers, made.defined)
        self.made_by |= made.made_by
        return made

    def _add(self, definitions: Iterable[str], helpers: Iterable[str], names: Iterable[str]) -> None:
        """List definitions, under names that nothing else gets."""
        self.definitions += [(code, code) for code in definitions]
        self.helpers.update(dict.fromkeys(helpers))
        for name in names:
            self._defined.add(name)
            self._names.fresh_global(name)

    def _call(self, made: PartSource, arguments: Sequence[Node]) -> Node:
        called = super()._call(made, arguments)
        if isinstance(made, KernelSource) and isinstance(called, ArrayOperation):
            return replace(called, named=(*called.named, ("interpret", Name("interpret"))))
        return called

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
