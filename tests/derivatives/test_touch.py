"""(R): the points that an adjoint executes, compared with those of its program, both simplified."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import pytest

from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.derivatives.touch import touch
from tensorlang.language.function import Function
from tensorlang.language.types import leaves, shape
from tensorlang.normal import normal_ssa
from tensorlang.normal.ssa import SSA
from tensorlang.simplification import simplify_ssa
from tensorlang.surface.parse import parse
from tests.support.promises import Case, random_case, random_ssa_case

SIZES = (8, 32, 128)


def program_and_adjoint(f: Function, s: SSA | None = None) -> tuple[SSA, SSA]:
    """The simplified SSA of a program and that of its adjoint."""
    program = simplify_ssa(s or normal_ssa(f))
    by_name = {p.name: p for p in program.params}
    result, _ = adjoint_steps(program, tuple(by_name[x.name] for x in f.variables), f.type)  # type: ignore[misc]
    return program, simplify_ssa(result)


def touched(case: Case) -> tuple[int, int]:
    """The points of the program and of its adjoint."""
    program, adjoint = program_and_adjoint(case.f, case.ssa)
    at = {**case.sizes, **case.relations}
    return touch(program, at), touch(adjoint, at)


def output_shapes(case: Case) -> list[list[int]]:
    """The sizes of the arrays of the output."""
    atoms: dict[Any, int] = {size: case.sizes[size.name] for size in case.f.sizes}
    return [[n.value(atoms) for n in shape(kind)[0]] for _, kind in leaves(case.f.type)]


@pytest.mark.parametrize("first", range(0, 240, 20))
def test_the_adjoint_of_a_random_program_executes_at_most_5_times_its_points(first: int) -> None:
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        case = random_ssa_case(rng) if seed % 3 == 2 else random_case(rng)
        shapes = output_shapes(case)
        if not case.has_no_empty_size or any(n < 1 for sizes in shapes for n in sizes):
            continue
        program, adjoint = touched(case)
        output = sum(map(prod, shapes))
        assert adjoint <= 5 * program + output, f"seed {seed}: {adjoint} > 5 * {program} + {output}:\n{case.f}"


# name: the program, what its adjoint executes at a size n (the other sizes fixed), up to a constant
GROWTH = {
    "a diagonal matrix's traces": (
        """f(x: [n]R) = let a = gen i:n, j:n. [i = j] * x[i] in
             (sum i:n. a[i, i]) + (sum i:n. a[i, i]) + sum i:n. a[i, i]""",
        lambda n: n,
    ),
    "the first row and column of a diagonal matrix": (
        """f(x: [n + 1]R) = let a = gen i:n + 1, j:n + 1. [i = j] * x[i] in
             sum i:n + 1. a[i, 0] * a[0, i]""",
        lambda n: 1,
    ),
    "the trace of x times the unit matrix": (
        "f(x: R) = let a = gen i:n, j:n. [i = j] * x in sum i:n. a[i, i]",
        lambda n: n,
    ),
    "some elements": ("f(x: [n + 9]R) = x[0] + x[2] + x[3] + x[7]", lambda n: 1),
    "a trace of a product": (
        """f(a: [n][n]R, b: [n][n]R) = let c = gen i:n, j:n. sum k:n. a[i, k] * b[k, j] in
             sum i:n. c[i, i]""",
        lambda n: n**2,
    ),
    "a diagonal of a product": (
        """f(a: [n][n]R, b: [n][n]R) = let c = gen i:n, j:n. sum k:n. a[i, k] * b[k, j] in
             gen i:n. c[i, i]""",
        lambda n: n**2,
    ),
    "one element of a long computation": (
        """f(a: [n + 1][n + 1]R, b: [n + 1]R) = let c = gen i:n + 1. sum k:n + 1. a[i, k] * b[k] in
             let d = gen i:n + 1. sin(c[i]) in d[0]""",
        lambda n: n,
    ),
    "a quadratic form of a band": (
        """f(a: [n][n]R, x: [n]R) = sum i:n, j:n. [i - 2 <= j <= i + 2] * x[i] * a[i, j] * x[j]""",
        lambda n: n,
    ),
    "a triangle": (
        "f(c: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j < i] * c[i, j] * x[j]",
        lambda n: n**2,
    ),
    "a convolution": (
        "f(x: [n + 4]R, w: [5]R) = gen i:n. sum j:5. x[i + j] * w[j]",
        lambda n: n,
    ),
}


@pytest.mark.parametrize("name", GROWTH)
def test_the_adjoint_of(name: str) -> None:
    text, growth = GROWTH[name]
    program, adjoint = program_and_adjoint(parse(text))
    counts = [(touch(program, {"n": n}), touch(adjoint, {"n": n})) for n in SIZES]
    outputs = [n if "gen i:n. " in text.splitlines()[-1] else 1 for n in SIZES]
    assert all(reverse <= 5 * forward + out for (forward, reverse), out in zip(counts, outputs, strict=True))
    scale = [growth(n) for n in SIZES]
    most = max(reverse / s for (_, reverse), s in zip(counts, scale, strict=True))
    least = min(reverse / s for (_, reverse), s in zip(counts, scale, strict=True))
    assert most <= 2 * least, f"the points of the adjoint, {counts}, don't grow as {scale}"
