"""How long it takes to differentiate, simplify and generate programs of many statements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import tensorlang as tl

COUNTS = (100, 1_000, 10_000)


@dataclass(frozen=True)
class Growing:
    """Seconds for a program of this family with this number of statements."""

    family: str
    statements: int
    parsing: float
    deriving: float
    generating: float


def _chain(k: int) -> str:
    """Each statement reads the one before it."""
    steps = "".join(f"let y{i + 1} = gen i:n. sin(y{i}[i]) * x[i] in " for i in range(k))
    return f"chain(x: [n]R) = let y0 = gen i:n. x[i] * x[i] in {steps} sum i:n. y{k}[i]"


def _layers(k: int) -> str:
    """Products of a matrix and the result of the statement before."""
    steps = "".join(f"let y{i + 1} = gen i:n. sum j:n. A[i, j] * y{i}[j] in " for i in range(k))
    return f"layers(A: [n][n]R, y0: [n]R) = {steps} sum i:n. y{k}[i]"


def _stencils(k: int) -> str:
    """Steps of a stencil, with a bracket for the border."""
    step = "let u{b} = gen i:n + 2. [1 <= i <= n] * (u{a}[i - 1] + u{a}[i + 1]) in "
    steps = "".join(step.format(a=i, b=i + 1) for i in range(k))
    return f"stencils(u0: [n + 2]R) = {steps} sum i:n + 2. u{k}[i]"


FAMILIES: dict[str, Callable[[int], str]] = {"chain": _chain, "layers": _layers, "stencils": _stencils}


def growing(counts: tuple[int, ...] = COUNTS) -> Iterator[Growing]:
    """The figures of all families, smaller programs first."""
    for k in counts:
        for family, text in FAMILIES.items():
            start = time.perf_counter()
            f = tl.parse(text(k))
            parsed = time.perf_counter()
            g = tl.grad(f)
            derived = time.perf_counter()
            tl.lower(g)
            end = time.perf_counter()
            yield Growing(family, k, parsed - start, derived - parsed, end - derived)
