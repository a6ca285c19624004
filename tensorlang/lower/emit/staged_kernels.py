"""The module of a program with recurrences on an accelerator: kernels of its stages, and of recurrences; those that are
no kernels are left to `lax.scan`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tensorlang.language.affine import Size
from tensorlang.language.grammar import Var
from tensorlang.lower.arrays.ir import Block, Define
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.emit.helpers import HELPERS, names_read
from tensorlang.lower.emit.kernels import Emit, KernelSource
from tensorlang.lower.emit.module import IMPORTS
from tensorlang.lower.emit.python import lines, modules_in
from tensorlang.lower.emit.recurrences import Made, Recurrent
from tensorlang.lower.emit.shared import share
from tensorlang.lower.kernels.ir import Plain, Recurrence
from tensorlang.lower.kernels.operands import Array
from tensorlang.lower.kernels.staged import StagedKernels
from tensorlang.lower.plan.recurrences import Stage, Turn


class EmittedRecurrence(Protocol):
    """A recurrence in Python: see `emit.tpu.recurrence.TpuRecurrence`."""

    definition: Define
    arguments: tuple[Array, ...]
    by: str


EmitRecurrence = Callable[
    [Recurrence, Sequence[int], Sequence[tuple[int, str]], Mapping[Size, str], str], EmittedRecurrence
]


class StagedKernelSource(Recurrent):
    """The text of a module for `program`, as `KernelSource` has it."""

    def __init__(self, program: StagedKernels, emit: Emit, over_time: EmitRecurrence, exact: bool, store: str) -> None:
        self._program, self._emit, self._over_time = program, emit, over_time
        self.made_by: dict[str, str] = {}
        """What makes the kernels, by their names."""
        self._defined: set[str] = set()
        names = Names(frozenset({*HELPERS, *IMPORTS, "interpret"}))
        super().__init__(program.function, exact, store=store, names=names, parts=program.staged)

    def _options(self) -> tuple[str, ...]:
        return (*super()._options(), "interpret=False")

    def _numbers(self, arrays: Sequence[str]) -> None:
        """In single precision."""
        self._lines.append(f"dtype = _single(jnp.result_type({', '.join(['float', *arrays])}))")
        self._lines += [f"{name} = jnp.asarray({name}, dtype)" for name in arrays]
        self.helpers["_single"] = None

    def _staged(self, stage: Stage) -> Made:
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

    def _call(self, made: Made, arguments: Sequence[str]) -> str:
        if isinstance(made, KernelSource):
            arguments = [*arguments, "interpret=interpret"]
        return super()._call(made, arguments)

    def _run(
        self,
        turn: Turn,
        step: str,
        read: list[tuple[int, str]],
        stored: frozenset[Var],
        last: str,
        first: str,
        size: str,
        swept: bool,
    ) -> dict[tuple[int, str], str]:
        """Run the recurrence, by its kernel if there is one."""
        found = self._program.recurrences[turn]
        if isinstance(found, Plain):
            self._lines.append(f"# Left to {found.by}: {found.reason}.")
            return super()._run(turn, step, read, stored, last, first, size, swept)
        sizes = {s: self._spelled[s] for s in self._function.sizes}
        name = self._names.fresh_global(f"{turn.step.name}_over_time")
        made = self._over_time(found, turn.carried, read, sizes, name)
        self.made_by[found.name] = made.by
        definition, functions = share(made.definition)
        block = Block([definition])
        for called, code in functions.items():
            if called not in self._defined:
                self._add([code], names_read(ast.parse(code)), [called])
        self._add(["\n".join(lines(block))], ["_recur", *modules_in(block)], [name])
        each = self._names.fresh_global("each")
        given = [*(self._spelled[x] for x in made.arguments), *sizes.values(), "dtype", "interpret"]
        otherwise = f"lambda: _recur({step}, ({first}), {size}, dtype)"
        self._lines.append(f"{last}, {each} = {name}({', '.join([*given, otherwise])})")
        return {key: f"{each}[{k}]" for k, key in enumerate(read)}
