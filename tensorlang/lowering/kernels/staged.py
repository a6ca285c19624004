"""A program with recurrences as programs of kernels: what is computed between them, and the recurrences.

A recurrence that is no kernel is left to `lax.scan`, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlang.language.function import Function
from tensorlang.lowering.kernels.grouping import program
from tensorlang.lowering.kernels.growth import Counted, check_steps
from tensorlang.lowering.kernels.ir import Kernel, KernelProgram, Plain, Recurrence
from tensorlang.lowering.kernels.recurrences import recurrence
from tensorlang.lowering.kernels.roles import Unfit
from tensorlang.lowering.kernels.targets import Tiling
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Called, Stage, Staged, Turn


@dataclass(frozen=True, eq=False)
class StagedKernels:
    """`staged`, whose stages are `programs`, and whose recurrences are kernels or left to `lax.scan`."""

    staged: Staged
    programs: Mapping[Stage, KernelProgram]
    recurrences: Mapping[Turn, Recurrence | Plain]

    @property
    def function(self) -> Function:
        """The whole program."""
        return self.staged.function

    @property
    def steps(self) -> tuple[Kernel | Recurrence | Plain, ...]:
        """All kernels, and what is left to JAX, in order."""
        found: list[Kernel | Recurrence | Plain] = []
        for part in self.staged.parts:
            match part:
                case Stage():
                    found += self.programs[part].steps
                case Turn():
                    found.append(self.recurrences[part])
                case Called():
                    pass
        return tuple(found)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.steps))


def staged_kernels(f: Function, tiling: Tiling, store: str, counted: Counted) -> StagedKernels:
    """The parts of `f`, which is simplified, for sizes of at least 1, as a target has them; recurrences keep of their
    steps what `store` says. What takes more than `counted` says of the same as `jax.numpy` is left to that."""
    parts = staged(f, windows=store != "needed", store=store, chooses=False)
    programs = {part: program(part.function, tiling, counted) for part in parts.parts if isinstance(part, Stage)}
    turns = [part for part in parts.parts if isinstance(part, Turn)]
    return StagedKernels(parts, programs, {turn: _over_time(turn, tiling, counted) for turn in turns})


def _over_time(turn: Turn, tiling: Tiling, counted: Counted) -> Recurrence | Plain:
    try:
        found = recurrence(turn, tiling)
        check_steps(found, turn.step, counted)
        return found
    except Unfit as reason:
        outputs = tuple(v for v, _, _ in turn.gives)
        return Plain(turn.step, outputs, str(reason), "lax.while_loop" if turn.until else "lax.scan")
