"""Sparse Jacobians and Hessians beside asdex, which detects patterns in jaxprs and colours them.

    python -m benchmarks.sparse [--quick]

Both return `jax.experimental.sparse.BCOO` under `jax.jit`, with the same elements at each size (checked against one
another). The first column of times is evaluation, the median of rounds in which both take turns, and the ratio is the
median of their ratios. The second is the preparation: for asdex detection, colouring and compiling, which it repeats
for each size; for us deriving and compiling. Of the times in the smallest rows, some 8 us are those of a call that only
returns a constant.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorlang as tl


@dataclass(frozen=True)
class Program:
    """A program of one array, in both languages, and the sizes at which its derivative is measured."""

    name: str
    what: str
    text: str
    program: Callable[[Any], Any]
    shapes: Sequence[tuple[int, ...]]


def _brusselator(x: Any) -> Any:
    u, v = x[0], x[1]
    lap = lambda z: z[:-2] - 2 * z[1:-1] + z[2:]
    a, b = u[1:-1], v[1:-1]
    return jnp.stack([1 + a**2 * b - 4 * a + 0.02 * lap(u), 3 * a - a**2 * b + 0.02 * lap(v)])


def _grid(x: Any) -> Any:
    return 4 * x[1:-1, 1:-1] - x[2:, 1:-1] - x[:-2, 1:-1] - x[1:-1, 2:] - x[1:-1, :-2] + jnp.exp(x[1:-1, 1:-1])


def _rosenbrock(x: Any) -> Any:
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def _surface(x: Any) -> Any:
    down, right = x[1:, :-1] - x[:-1, :-1], x[:-1, 1:] - x[:-1, :-1]
    return jnp.sum(jnp.sqrt(1 + down**2 + right**2))


def _smooth(x: Any) -> Any:
    return jnp.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) + jnp.sum(jnp.log(1 + x**2))


PROGRAMS = (
    Program(
        "squares of differences",
        "jacobian",
        "f(x: [n + 1]R) = gen i:n. (x[i + 1] - x[i])^2",
        lambda x: (x[1:] - x[:-1]) ** 2,
        ((1001,), (4001,), (100_001,)),
    ),
    Program(
        "a chain",
        "hessian",
        "f(x: [n + 1]R) = sum i:n. (x[i + 1] - x[i])^4",
        lambda x: jnp.sum((x[1:] - x[:-1]) ** 4),
        ((1001,), (4001,), (100_001,)),
    ),
    Program(
        "Rosenbrock",
        "hessian",
        "f(x: [n + 1]R) = sum i:n. 100 * (x[i + 1] - x[i]^2)^2 + (1 - x[i])^2",
        _rosenbrock,
        ((1001,), (100_001,)),
    ),
    Program(
        "a spline",
        "hessian",
        """f(x: [n + 2]R) = (sum i:n. (x[i + 2] - 2 * x[i + 1] + x[i])^2) + sum i:n + 2. log(1 + x[i]^2)""",
        _smooth,
        ((1001,), (100_001,)),
    ),
    Program(
        "Brusselator",
        "jacobian",
        """f(x: [2][n + 2]R) = gen c:2, i:n.
             [c = 0] * (1 + x[0, i + 1]^2 * x[1, i + 1] - 4 * x[0, i + 1]
                        + 0.02 * (x[0, i] - 2 * x[0, i + 1] + x[0, i + 2]))
           + [c = 1] * (3 * x[0, i + 1] - x[0, i + 1]^2 * x[1, i + 1]
                        + 0.02 * (x[1, i] - 2 * x[1, i + 1] + x[1, i + 2]))""",
        _brusselator,
        ((2, 1002), (2, 20_002)),
    ),
    Program(
        "a nonlinear Poisson equation",
        "jacobian",
        """f(x: [n + 2][n + 2]R) = gen i:n, j:n. 4 * x[i + 1, j + 1] - x[i + 2, j + 1] - x[i, j + 1] - x[i + 1, j + 2]
             - x[i + 1, j] + exp(x[i + 1, j + 1])""",
        _grid,
        ((34, 34), (130, 130)),
    ),
    Program(
        "a minimal surface",
        "hessian",
        """f(x: [n + 1][n + 1]R) = sum i:n, j:n.
             sqrt(1 + (x[i + 1, j] - x[i, j])^2 + (x[i, j + 1] - x[i, j])^2)""",
        _surface,
        ((33, 33), (129, 129)),
    ),
)


def ours(p: Program) -> Callable[[Any], Any]:
    """Our derivative in JAX's sparse format, compiled when it is called."""
    made = getattr(tl, p.what)(tl.parse(p.text), layout="bcoo")
    return jax.jit(made.__call__)


def theirs(p: Program, x: Any) -> Callable[[Any], Any]:
    """The derivative of asdex, detected and coloured for the shape of `x`, compiled when it is called."""
    asdex: Any = importlib.import_module("asdex")
    return jax.jit(getattr(asdex, p.what)(p.program, x))


def flat(found: Any, size: int) -> np.ndarray[Any, Any]:
    """The places and values of a sparse derivative in order, with rows and columns as numbers of elements."""
    places, values = np.asarray(found.indices), np.asarray(found.data)
    shape = found.shape
    inside = (places < np.asarray(shape)).all(-1)
    at = np.zeros(len(places), np.int64)
    for k, n in enumerate(shape):
        at = at * n + places[:, k]
    at, values = at[inside], values[inside]
    order, where = np.unique(at, return_inverse=True)
    total = np.zeros(len(order), np.float64)
    np.add.at(total, where, values)
    kept = total != 0
    return np.stack([order[kept], total[kept]])


def measured(fns: Sequence[Callable[[Any], Any]], x: Any, quick: bool) -> list[list[float]]:
    """Seconds of each function in rounds, in which they take turns: those of the fastest call of a turn."""
    for fn in fns:
        jax.block_until_ready(fn(x).data)
    found: list[list[float]] = [[] for _ in fns]
    for _ in range(9 if quick else 31):
        for fn, seconds in zip(fns, found, strict=True):
            times = []
            for _ in range(5):
                start = time.perf_counter()
                jax.block_until_ready(fn(x).data)
                times.append(time.perf_counter() - start)
            seconds.append(min(times))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if answers differ."""
    quick = "--quick" in arguments
    other = importlib.util.find_spec("asdex") is not None
    print(f"{'program':42}{'shape':>10}{'ours, us':>10}{'before, s':>11}{'asdex, us':>11}{'before, s':>11}{'ratio':>7}")
    differ = False
    ratios = []
    for p in PROGRAMS:
        for shape in p.shapes[: 1 if quick else None]:
            x = jnp.asarray(np.random.default_rng(0).normal(size=shape) / 2, jnp.float32)
            start = time.perf_counter()
            made = ours(p)
            result = jax.block_until_ready(made(x))
            before = time.perf_counter() - start
            row = f"{p.what + ' of ' + p.name:42}{'x'.join(map(str, shape)):>10}"
            if not other:
                (mine,) = measured([made], x, quick)
                row += f"{statistics.median(mine) * 1e6:10.0f}{before:11.2f}"
            else:
                start = time.perf_counter()
                rival = theirs(p, x)
                wanted = jax.block_until_ready(rival(x))
                after = time.perf_counter() - start
                mine, his = measured([made, rival], x, quick)
                ratios.append(statistics.median(a / b for a, b in zip(mine, his, strict=True)))
                row += f"{statistics.median(mine) * 1e6:10.0f}{before:11.2f}"
                row += f"{statistics.median(his) * 1e6:11.0f}{after:11.2f}{ratios[-1]:7.2f}"
                a, b = flat(result, x.size), flat(wanted, x.size)
                same = a.shape == b.shape and np.array_equal(a[0], b[0]) and np.allclose(a[1], b[1], 1e-3, 1e-3)
                if not same:
                    row += "  answers differ"
                    differ = True
            print(row, flush=True)
    if ratios:
        mean = np.exp(np.mean(np.log(ratios)))
        print(
            f"geometric mean of the ratios: {mean:.2f}, worst {max(ratios):.2f}; {sum(r <= 0.7 for r in ratios)} of "
            f"{len(ratios)} at most 0.7"
        )
    return int(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
