"""Kernels as text, in the words of their grammar."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.language.predicates import TRUE
from tensorlang.language.show import expr_text, predicate_text
from tensorlang.lower.kernels.ir import Axis, Kernel, Kind, Plain, Program, Role, leaves_of

_SIGNS = {Kind.SUM: "+=", Kind.MAX: "max=", Kind.MIN: "min="}


def program_text(program: Program) -> str:
    """The steps of a program, and its results."""
    steps = ["\n".join(kernel_lines(s) if isinstance(s, Kernel) else _plain_lines(s)) for s in program.steps]
    results = f"return {', '.join(x.name for x in leaves_of(program.results))}"
    return "\n\n".join([*steps, results])


def kernel_lines(kernel: Kernel) -> Iterator[str]:
    """A kernel: its loops, what is accumulated in them and what is stored, and the tiles that are visited."""
    yield f"kernel {kernel.name}"
    depth = 1
    for role in (Role.PARALLEL, Role.REDUCED):
        axes = ", ".join(map(_axis, kernel.of_role(role)))
        if axes:
            yield f"{'  ' * depth}for each tile of {axes} ({role.value})"
            depth += 1
    formulas = list(formula_lines(kernel))
    count = len(kernel.accumulators)
    if kernel.tiles is not None:
        yield f"{'  ' * depth}visited where {predicate_text(kernel.tiles.some)}{_and_data(kernel)}"
        yield f"{'  ' * depth}masked where {predicate_text(kernel.tiles.part)}{_and_data(kernel)}"
    yield from (f"{'  ' * depth}{line}" for line in formulas[:count])
    yield from (f"  {'  ' * bool(kernel.of_role(Role.PARALLEL))}{line}" for line in formulas[count:])
    inside = [f"{axis.index}:{axis.extent} {axis.role.value}" for axis in kernel.axes if not axis.is_tiled]
    if inside:
        yield f"  in each tile: {', '.join(inside)}"


def formula_lines(kernel: Kernel) -> Iterator[str]:
    """What a kernel accumulates, then what it stores, a line for each."""
    for acc in kernel.accumulators:
        guard = f"[{predicate_text(acc.pred)}] " if acc.pred is not TRUE else ""
        moved = f", scaled as {acc.shift.name} grows" if acc.shift is not None else ""
        axes = ", ".join(i.name for i in acc.axes)
        yield f"{acc.var.name}[{axes}] {_SIGNS[acc.kind]} {guard}{_line(expr_text(acc.value))}{moved}"
    for output in kernel.outputs:
        axes = ", ".join(i.name for i in output.axes)
        yield f"{output.var.name}[{axes}] = {_line(expr_text(output.value))}"


def _plain_lines(step: Plain) -> Iterator[str]:
    yield f"jax.numpy makes {', '.join(x.name for x in step.outputs)}, since {step.reason}"
    yield f"  {_line(expr_text(step.function.body))}"


def _axis(axis: Axis) -> str:
    return f"{axis.index}:{axis.extent} by {axis.block}"


def _and_data(kernel: Kernel) -> str:
    data = kernel.tiles.data if kernel.tiles is not None else ()
    return "".join(f" and {predicate_text(related)} of some point" for related in data)


def _line(text: str) -> str:
    return " ".join(text.split())
