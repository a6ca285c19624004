"""The costs of the gradients of one function, by `jax.grad` and `tl.jax.grad`: operations, times, their difference."""

from __future__ import annotations

import gc
import math
import random
import re
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import tensorlang as tl
from benchmarks.packages.pool import Made, PackageFunction
from tensorlang.jaxprs.explain import explanation
from tensorlang.jaxprs.lint import Report, judged
from tensorlang.jaxprs.rewrite import plan, traced
from tensorlang.measure.count import CountError, count_compiled
from tensorlang.memory import clear_caches

_NAMES = re.compile(
    r"metadata=\{[^}]*\}|HloModule [^,]*|#\S+|(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*"
)

LEAST = 2e-3
"""Seconds that a gradient runs in each round, repeatedly if it is faster."""

_LATE, _MORE = 1.5, 4
"""A first gradient that takes `_LATE` times as long as JAX's is timed again, with our caches cleared; at most `_MORE`
times."""


@dataclass(frozen=True)
class Figures:
    """The figures of one function: the parts that are derived, the parts that stay JAX and why, and JAX's figures
    beside ours, in this order.

    `operations` are XLA's, None where they are unknown; `seconds` are the best of rounds in turns, and `ratio` is that
    of ours to JAX's; `first` are the seconds until the first gradient is there, in a process that has computed another:
    tracing, deriving, compiling, running, the best of several where ours is late; `apart` is the largest difference
    relative to the largest element; `same` says that nothing is derived, and that XLA compiles the same program, so
    that no times differ.
    """

    source: str
    derived: int
    left: tuple[str, ...]
    apart: float
    first: tuple[float, float]
    operations: tuple[int, int] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    ratio: float = 1.0
    same: bool = False


def warm_up() -> None:
    """Import and set up everything that the first gradients of a process do, in either way."""
    for gradient in (jax.grad, tl.jax.grad):
        jax.jit(gradient(lambda x, d: jax.numpy.sin(jax.numpy.diag(d) @ x).sum()))(np.ones((64, 64)), np.ones(64))


def measured(f: PackageFunction, n: int, rounds: int) -> Figures:
    """The figures of a function at the size n; with no rounds, without times."""
    made = f.make(n)
    closed, _, active, _ = traced(made.fun, made.args, {}, made.wanted)
    (seconds_theirs, theirs, want), (seconds_ours, ours, got) = (first(g, made) for g in (jax.grad, tl.jax.grad))
    for _ in range(_MORE):
        if seconds_ours > _LATE * seconds_theirs:
            clear_caches()
            again = f.make(n)
            seconds_theirs = min(seconds_theirs, first(jax.grad, again)[0])
            seconds_ours = min(seconds_ours, first(tl.jax.grad, again)[0])
    told = explanation(f.source, plan(closed, active))
    derived = sum(row.what == "derived" for row in told.rows)
    same = not derived and text(theirs) == text(ours)
    seconds, ratio = ((0.0, 0.0), 1.0) if same or not rounds else in_turns(theirs, ours, made, rounds)
    return Figures(
        f.source,
        derived,
        tuple(dict.fromkeys(row.why for row in told.rows if row.what != "derived")),
        apart(got, want),
        (seconds_theirs, seconds_ours),
        operations(theirs, ours),
        seconds,
        ratio,
        same,
    )


def first(gradient: Any, made: Made) -> tuple[float, Any, Any]:
    """The seconds until the gradient is there, what was compiled, and the gradient."""
    gc.collect()
    gc.freeze()  # else the collector goes through all the packages in the time of one of them
    start = time.perf_counter()
    compiled = jax.jit(gradient(made.fun, made.wanted)).lower(*made.args).compile()
    result = jax.block_until_ready(compiled(*made.args))
    return time.perf_counter() - start, compiled, result


def text(compiled: Any) -> str:
    """The code that XLA compiled, without names and source locations."""
    return _NAMES.sub("", compiled.as_text())


def apart(got: Any, want: Any) -> float:
    """The largest difference of elements, relative to the largest element of the same array."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    found = 0.0
    for g, w in pairs:
        if np.size(w) and np.asarray(w).dtype.kind == "f":
            g, w = np.asarray(g, np.float64), np.asarray(w, np.float64)  # noqa: PLW2901
            known = np.isfinite(w)  # where JAX's gradient is nan, ours need not be
            if known.any():
                found = max(found, float(np.max(np.abs(g - w)[known]) / max(1e-6, np.max(np.abs(w[known])))))
    return found


def operations(theirs: Any, ours: Any) -> tuple[int, int] | None:
    """XLA's operations of both; None where they are unknown."""
    try:
        return count_compiled(theirs).operations, count_compiled(ours).operations
    except CountError:
        return None


def in_turns(theirs: Any, ours: Any, made: Made, rounds: int) -> tuple[tuple[float, float], float]:
    """The best times of both, and their ratio. The order changes from round to round, since other programs use the
    machine, too."""

    def timed(run: Any, repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            jax.block_until_ready(run(*made.args))
        return (time.perf_counter() - start) / repeats

    once = min(timed(run, 1) for run in (theirs, ours) for _ in range(3))
    repeats = max(1, min(200, int(LEAST / once)))
    order = random.Random(0)
    best = [math.inf, math.inf]
    for _ in range(rounds):
        for k in order.sample([0, 1], 2):
            best[k] = min(best[k], timed((theirs, ours)[k], repeats))
    return (best[0], best[1]), best[1] / best[0]


def linted(f: PackageFunction, sizes: tuple[int, int], compiled: bool) -> Report:
    """The linter's report at two sizes."""

    def made(n: int) -> Any:
        found = f.make(n)
        return found.fun, jax.eval_shape(lambda *args: args, *found.args), found.wanted

    return judged(f.source, made, sizes, compiled)
