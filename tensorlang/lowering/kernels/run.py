"""Programs lowered to Pallas kernels: what differs from target to target, and running them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import jax
import numpy as np

from tensorlang.errors import ArgumentError, MissingPackage
from tensorlang.language.affine import Affine, Atom, Size
from tensorlang.language.function import Function
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.cost import ArrayCost, cost_notes, step_cost
from tensorlang.lowering.emit.gpu.launch import GpuKernel
from tensorlang.lowering.emit.gpu.recurrence import GpuRecurrence
from tensorlang.lowering.emit.kernels import Emit, KernelSource, MadeBy, step_name
from tensorlang.lowering.emit.module import source_of
from tensorlang.lowering.emit.mosaic.choice import mosaic_or_triton
from tensorlang.lowering.emit.staged_kernels import EmitRecurrence, StagedKernelSource
from tensorlang.lowering.emit.tpu.launch import TpuKernel
from tensorlang.lowering.emit.tpu.recurrence import TpuRecurrence
from tensorlang.lowering.explain import Explained, LoweringExplanation
from tensorlang.lowering.kernels.grouping import program
from tensorlang.lowering.kernels.ir import Kernel, KernelProgram, Plain, Recurrence, TileAxis, names_of
from tensorlang.lowering.kernels.layouts import Units
from tensorlang.lowering.kernels.operands import expressions_of
from tensorlang.lowering.kernels.staged import StagedKernels, staged_kernels
from tensorlang.lowering.kernels.targets import GPU, MOSAIC_GPU, TPU, Tiling
from tensorlang.lowering.kernels.terms import reads
from tensorlang.lowering.namespace import defined
from tensorlang.lowering.run import Form, Lowered, all_sizes
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.simplification import simplify


class InterpretedWarning(UserWarning):
    """There is no accelerator of the kind that kernels are for, so Pallas interprets them, which is slow."""


@dataclass(frozen=True)
class Target:
    """An accelerator: JAX's name of the platform, how kernels are tiled for it, and what writes them."""

    platform: str
    tiling: Tiling
    emit: Emit
    over_time: EmitRecurrence


_TRITON = Target("gpu", GPU, GpuKernel, GpuRecurrence)
_MOSAIC_GPU = {units: Target("gpu", MOSAIC_GPU, partial(mosaic_or_triton, units), GpuRecurrence) for units in Units}

TARGETS = {
    "pallas-tpu": Target("tpu", TPU, TpuKernel, TpuRecurrence),
    "pallas-triton": _TRITON,
    "pallas-gpu": _TRITON,
}
"""By name; "pallas-gpu" is this one where there is no Mosaic GPU."""

_MOSAIC_GPU_FROM = (0, 12)  # the version of JAX that can interpret it
_UNITS = {"9": Units.WGMMA, "10": Units.TCGEN05}
"""By the compute capability of Hopper, and of Blackwell in data centres: others have neither."""

TRITON_WARNING = "The Pallas Triton backend is deprecated"
"""How JAX's warning of it begins, and ours."""

_TRITON_DEPRECATED = (0, 11)  # the version of JAX that began to warn
_warned: set[str] = set()


def matrix_units() -> Units | None:
    """The matrix units for Mosaic GPU: those of the GPU that JAX lowers for, else of the one that is here, else
    Hopper's. None if JAX has no Mosaic GPU, or that GPU no such units."""
    if jax.__version_info__ < _MOSAIC_GPU_FROM:
        return None
    device: Any = jax.sharding.get_abstract_mesh().abstract_device
    if device is None and jax.default_backend() == "gpu":
        device = jax.devices()[0]
    return _UNITS.get(str(getattr(device, "compute_capability", "9")).split(".")[0])


def _target(name: str) -> Target:
    units = matrix_units() if name == "pallas-gpu" else None
    return TARGETS[name] if units is None else _MOSAIC_GPU[units]


class Kernels(Lowered):
    """A program as Pallas kernels for one target, and `jax.numpy` for what kernels can't express.

    `source` is the Python: a function for each kernel, and one named after the program that takes its parameters in
    order. Numbers are bfloat16 if all arguments are, else float32; sums are in float32. On a machine without such an
    accelerator Pallas interprets the kernels, which a warning says once. Relations are read as boolean arrays. Where a
    size is 0, there are no tiles, and `jax.numpy` does it all. Recurrences are kernels over the time, or left to
    `lax.scan`. Kernels by Mosaic GPU are interpreted on a simulated GPU, where a race is an error.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> kernels = tl.lower(f, "pallas-tpu")
    >>> print(kernels.program)
    kernel result
      for each tile of i:n by 512 (parallel)
      j:m whole
        result[i] = sum j:m. A[i, j] * x[j]
    <BLANKLINE>
    return result
    >>> print(kernels.explain()["result"].text)
    result: the kernel result over i:n (parallel, in tiles of 512), j:m (whole)
    """

    def __init__(
        self,
        f: Function,
        target: str,
        exact: bool,
        sizes: Mapping[str, int] | None,
        blocks: Mapping[str, int] | None,
        check: bool = False,
        store: str = "needed",
    ) -> None:
        self.target = target
        self._lengths = _checked(blocks or {})
        self._empty = Lowered(f, exact, sizes, store=store)
        super().__init__(f, exact, sizes, check, store=store)

    @property
    def program(self) -> KernelProgram | StagedKernels:
        """The steps: kernels, and what is left to `jax.numpy`, with the reason. A program with recurrences has the
        steps of its stages, and the recurrences."""
        return self._program

    def explain(
        self,
        given: Mapping[str, int] | None = None,
        /,
        on_points: bool = False,
        **by_name: int | Mapping[str, int],
    ) -> LoweringExplanation:
        """The kernels, with the arrays that each makes and its tiles, and what is left to `jax.numpy`, with the reason.

        It gives what each step takes, and all of them, beside the model's count, at sizes that are whole tiles: as a
        polynomial of them, or, of any sizes that are given as by `Lowered.explain`, as numbers. Operations count for
        all elements of the tiles that are visited, and bytes for the blocks that are read and written, in float32.
        Relations are read as boolean arrays, whatever `on_points` says, and hold somewhere in each tile.

        Raises `ArgumentError` if some sizes are given and others not.

        >>> f = tl.parse("f(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j <= i] * A[i, j] * B[j, k]")
        >>> print(tl.lower(f, "pallas-tpu").explain()["result"].cost)
        n^2*p + 512*n*p operations
        """
        made = cast(KernelSource | StagedKernelSource, self._form(()).made)
        sizes = all_sizes(self.function, given, by_name)
        cost = made.cost
        if sizes:
            cost = cost.at({s: sizes[s.name] for s in made.cost.function.sizes})
        steps = [_explained(step, made.made_by) for step in self.program.steps]
        names = [name if cost.has_step(name) else None for name in map(step_name, range(len(steps)))]
        told = ("" if name is None else step_cost(cost, name, sizes) for name in names)
        costed = tuple(replace(step, cost=text) for step, text in zip(steps, told, strict=True))
        notes = [*cost_notes(cost, sizes), *(made.not_counted if isinstance(made, StagedKernelSource) else ())]
        return LoweringExplanation(self.target, costed, tuple(notes))

    def _form(self, on_points: tuple[Relation, ...]) -> Form:
        if () not in self._forms:
            target = _target(self.target)

            def asked(length: Callable[[TileAxis, bool], int]) -> Callable[[TileAxis, bool], int]:
                return lambda axis, what: self._lengths.get(str(axis.extent)) or length(axis, what)

            f, tiling = self._simplified, target.tiling
            tiling = replace(tiling, length=asked(tiling.length), examples=asked(tiling.examples))
            self._program: KernelProgram | StagedKernels
            made: KernelSource | StagedKernelSource
            if has_recurrences(f):
                self._program = staged_kernels(f, tiling, self._store, _counted)
                made = StagedKernelSource(self._program, target.emit, target.over_time, self._exact, self._store)
            else:
                self._program = program(f, tiling, _counted)
                made = KernelSource(self._program, target.emit)
            static = [*made.told.values(), "interpret"]
            try:
                run = jax.jit(defined(made), static_argnames=static)
            except ImportError as missing:
                raise MissingPackage(
                    f"JAX {jax.__version__} can't run the kernels of {self.target!r}: {missing}",
                    hint="another version of JAX, or target='jax', which runs on every device",
                ) from missing
            self._forms[()] = Form(made, run)
        return self._forms[()]

    def _points_or_mask(self, value: Any) -> Any:
        return value.toarray() if hasattr(value, "toarray") else value

    def _run(self, form: Form, arguments: Sequence[Any], sizes: Mapping[Size, int]) -> Any:
        known = cast(Mapping[Atom, int], sizes)
        kernels = [step for step in self.program.steps if not isinstance(step, Plain)]
        extents = {extent for kernel in kernels for extent in _extents(kernel)}
        if not all(sizes.values()) or any(extent.value(known) < 1 for extent in extents):
            return super()._run(self._empty._form(()), arguments, sizes)
        told = {name: sizes[size] for size, name in form.made.told.items()}
        return form.run(*arguments, **told, interpret=bool(kernels) and self._is_interpreted())

    def _is_interpreted(self) -> bool:
        """Whether there is no such accelerator here. Warns once of that, or of Triton's deprecation if that is used."""
        kind = TARGETS[self.target].platform
        if jax.default_backend() != kind:
            message = f"there is no {kind.upper()} here: Pallas interprets the kernels of {self.target}"
            self._say_once(message, InterpretedWarning)
            return True
        if self._has_triton() and jax.__version_info__ >= _TRITON_DEPRECATED:
            self._say_once(
                f"{TRITON_WARNING} by JAX {jax.__version__}, and runs the kernels of {self.target} as long as JAX "
                "has it. JAX warns too, as it compiles each. Where warnings are errors, this lets both pass: "
                f"warnings.filterwarnings('ignore', message={TRITON_WARNING!r})",
                DeprecationWarning,
            )
        return False

    def _has_triton(self) -> bool:
        """Whether Triton makes some of the kernels."""
        made = cast(KernelSource | StagedKernelSource, self._form(()).made)
        return any(by.has_triton for by in made.made_by.values())

    def _say_once(self, message: str, category: type[Warning]) -> None:
        if self.target not in _warned:
            warnings.warn(message, category, stacklevel=4)
            _warned.add(self.target)  # not if the warning is an error: then the next call must say it too


def _counted(f: Function) -> ArrayCost:
    """What `jax.numpy` takes for a function."""
    return source_of(simplify(f)).cost


def _extents(step: Kernel | Recurrence) -> Iterator[Affine]:
    """The lengths of the axes of a kernel, and of those of the arrays that it reads."""
    kernel = step.step if isinstance(step, Recurrence) else step
    if isinstance(step, Recurrence):
        yield step.size
    yield from (axis.extent for axis in kernel.axes)
    for x, _ in reads(*expressions_of(kernel)):
        yield from shape(x.type)[0]


def _explained(step: Kernel | Recurrence | Plain, made_by: Mapping[str, MadeBy]) -> Explained:
    if isinstance(step, Plain):
        names = names_of(step.outputs)
        text = f"{names}: {step.by}, no kernel"
        return Explained(names, text, "dense", f"since {step.reason}", computed=f"by {step.by}")
    if isinstance(step, Recurrence):
        names = names_of(x.var for x in step.states)
        axes = "".join(f", {axis.index}:{axis.extent} ({_how(axis)})" for axis in step.step.axes)
        return Explained(
            names,
            f"{names}: the kernel {step.name} over {step.time.name}:{step.size}, one step after the other{axes}",
            "dense",
            "the states in fast memory",
            computed=f"step by step, by {made_by[step.name]}, where that fits into fast memory, else by lax.scan:",
            parts=tuple(step.formulas()),
        )
    names = names_of(output.var for output in step.outputs)
    axes = ", ".join(f"{axis.index}:{axis.extent} ({_how(axis)})" for axis in step.axes)
    inside = ", ".join(a.var.name for a in step.accumulators)
    tiles = "every tile" if step.tiles is None else "only tiles with a point where the conditions hold"
    return Explained(
        names,
        f"{names}: the kernel {step.name} over {axes or 'one tile'}",
        "dense",
        f"accumulated in fast memory: {inside}" if inside else "",
        computed=f"tile by tile, {tiles}, by {made_by[step.name]}:",
        parts=tuple(step.formulas()),
        apart=step.apart,
    )


def _how(axis: TileAxis) -> str:
    return f"{axis.role.value}, in tiles of {axis.block}" if axis.is_tiled else axis.role.value


def _checked(blocks: Mapping[str, int]) -> Mapping[str, int]:
    """Raise `ArgumentError` for invalid lengths of tiles."""
    for name, length in blocks.items():
        if not isinstance(length, int | np.integer) or length < 8 or length % 8:
            raise ArgumentError(f"tiles are a multiple of 8 long, found {name}={length}")
    return blocks
