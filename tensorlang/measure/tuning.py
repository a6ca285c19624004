"""The cost table measured on this machine: rivals timed against each other, in turns, at sizes around their crossover.

Thresholds without a rivalry here keep their values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.lowering.costs import NEVER, THRESHOLDS
from tensorlang.lowering.emit.library import blocks, correlations, loops

_WAYS: Any = correlations
_BLOCKS: Any = blocks
_LOOPS: Any = loops
_ROUNDS = 7
_SHORTEST = 1e-3  # the least seconds of a timing; shorter ones are repeated

Run = Callable[..., Any]


@dataclass(frozen=True)
class Rivalry:
    """Two ways to compute the same, compared at `points`: the first is better below the threshold.

    `make` returns the two ways and their arguments. The threshold is the last point for the first way if `inclusive`,
    else the first point for the second.
    """

    name: str
    points: tuple[int, ...]
    make: Callable[[int], tuple[Run, Run, tuple[jax.Array, ...]]]
    inclusive: bool = False


def _random(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).standard_normal((1, 1, *shape), np.float32))


_LONG = 100_000


def _line(way: Run, n: int) -> Run:
    """A way of computing correlations along a line with n outputs, as a function of x and w."""
    return lambda x, w: way(x, w, [(1, 1, 0, n)])


def _few_taps(m: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    ways = _line(_WAYS._by_slices, _LONG), _line(_WAYS._by_blocks, _LONG)
    return *ways, (_random(_LONG + m - 1), _random(m))


def _many_taps(m: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    ways = _line(_WAYS._by_blocks, _LONG), _line(_WAYS._by_fft_blocks, _LONG)
    return *ways, (_random(_LONG + m - 1), _random(m))


def _square(n: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    ways = _line(_WAYS._by_blocks, n), _line(_WAYS._by_fft, n)
    return *ways, (_random(2 * n - 1), _random(n))


def _plane(taps: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    k, n = round(taps**0.5), 256
    groups = lambda x, w: _WAYS._by_groups(x, w, [(1, 1, 0, n)] * 2)
    transforms = lambda x, w: _WAYS._by_fft(x, w, [(1, 1, 0, n)] * 2)
    return groups, transforms, (_random(n + k - 1, n + k - 1), _random(k, k))


def _few_outputs(n: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    ways = _line(_WAYS._by_convolution, n), _line(_WAYS._by_outer_blocks, n)
    return *ways, (_random(_LONG + n - 1), _random(_LONG))


def _sums(n: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    ways = _line(_WAYS._by_sums, n), _line(_WAYS._by_convolution, n)
    return *ways, (_random(_LONG // 10 + n - 1), _random(_LONG // 10))


def _channels(count: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    c, n, k = round(count**0.5), 64, 3
    at = [(1, 1, 0, n)] * 2
    groups = lambda x, w: _WAYS._by_groups(x, w, at)
    convolution = lambda x, w: _WAYS._by_convolution(x, w, at)
    x, w = _random(c, n + k - 1, n + k - 1), _random(c, c, k, k)
    return groups, convolution, (x[0], w[0, 0])


def _triangle(rows: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    """A sum over a triangle, under one mask or in blocks of `rows` rows."""
    n = 4 * rows

    def way(a: jax.Array, x: jax.Array, most: int) -> jax.Array:
        def block(start: int, stop: int) -> jax.Array:
            below = jnp.arange(start, stop)[:, None] >= jnp.arange(stop)
            return jnp.where(below, a[start:stop, :stop], 0) @ x[:stop]

        found: jax.Array = _BLOCKS._array_by_blocks(_BLOCKS._even_blocks(0, n, rows, most), block, 0, (n,), x.dtype)
        return found

    return partial(way, most=1), partial(way, most=4), (_random(n, n)[0, 0], _random(n)[0, 0])


def _cut_triangle(rows: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    """An array that is zero outside a triangle, added up along rows and columns, whole or in blocks of rows."""
    n = 4 * rows

    def way(x: jax.Array, most: int) -> jax.Array:
        total = jnp.zeros_like(x)
        for start, stop in _BLOCKS._even_blocks(0, n, rows, most):
            below = jnp.arange(start, stop)[:, None] >= jnp.arange(stop)
            t = jnp.where(below, jnp.exp(x[start:stop, None] * x[:stop]), 0)
            along, across = jnp.sum(t, 1), jnp.ones(stop - start) @ t
            total += jnp.pad(along, (start, n - stop)) - jnp.pad(across, (0, n - stop))
        return total

    return partial(way, most=1), partial(way, most=4), (_random(n)[0, 0],)


def _many_sums(n: int) -> tuple[Run, Run, tuple[jax.Array, ...]]:
    x = _random(n)[0, 0]

    def way(x: jax.Array, together: bool) -> jax.Array:
        terms = [x * k for k in range(16)]
        return jnp.stack(_LOOPS._sums_in_one_loop(*terms) if together else [jnp.sum(t) for t in terms])

    return partial(way, together=True), partial(way, together=False), (x,)


RIVALRIES = (
    Rivalry("slice_taps", (8, 16, 24, 32, 40, 48, 64), _few_taps, inclusive=True),
    Rivalry("conv_outputs", (4, 8, 12, 16, 32, 64), _few_outputs, inclusive=True),
    Rivalry("sum_outputs", (2, 4, 6, 8, 12), _sums, inclusive=True),
    Rivalry("fft_taps", (128, 256, 512, 1024, 2048), _many_taps),
    Rivalry("fft_square", (64, 128, 256, 512, 1024), _square),
    Rivalry("fft_taps_2d", (81, 121, 196, 256, 361), _plane),
    Rivalry("conv_channels", (1, 4, 16, 36, 64), _channels),
    Rivalry("block_rows", (32, 64, 128, 256, 512), _triangle),
    Rivalry("cut_rows", (32, 64, 128, 256), _cut_triangle),
    Rivalry("joint_sums", (2**10, 2**12, 2**14, 2**15, 2**17), _many_sums, inclusive=True),
)
"""The rivalries that are measured; thresholds are named as in `costs.THRESHOLDS`."""

STEPS = sum(len(r.points) for r in RIVALRIES)
"""The number of times that `measured` reports progress."""


def measured(progress: Callable[[], None]) -> dict[str, int]:
    """The thresholds with rivalries, measured; `progress` is called after each of `STEPS` steps."""
    return {r.name: threshold(r, list(_duels(r, progress))) for r in RIVALRIES}


def _duels(r: Rivalry, progress: Callable[[], None]) -> Iterator[tuple[float, float]]:
    for point in r.points:
        yield duel(*r.make(point))
        progress()


def threshold(r: Rivalry, seconds: Sequence[tuple[float, float]]) -> int:
    """The threshold that minimises the product, over all points, of the time of the way that it chooses.

    `seconds` has the times of the two ways at each point.
    """
    gains = [log(first / second) for first, second in seconds]
    best = min(range(len(gains) + 1), key=lambda k: sum(gains[:k]) - sum(gains[k:]))
    if r.inclusive:
        return r.points[best - 1] if best else 0
    return r.points[best] if best < len(gains) else NEVER


def duel(first: Run, second: Run, arrays: tuple[jax.Array, ...]) -> tuple[float, float]:
    """The median seconds of the two, timed in turns."""
    runs = [jax.jit(run).lower(*arrays).compile() for run in (first, second)]
    times: list[list[float]] = [[], []]
    repeats = [max(1, round(_SHORTEST / _seconds(run, arrays, 1))) for run in runs]
    for _ in range(_ROUNDS):
        for k, run in enumerate(runs):
            times[k].append(_seconds(run, arrays, repeats[k]))
    return median(times[0]), median(times[1])


def _seconds(run: Run, arrays: tuple[jax.Array, ...], repeats: int) -> float:
    run(*arrays).block_until_ready()
    start = time.perf_counter()
    for _ in range(repeats):
        run(*arrays).block_until_ready()
    return (time.perf_counter() - start) / repeats


def report(table: dict[str, int]) -> str:
    """The measured values, a line for each threshold."""
    lines = []
    for name, value in table.items():
        t = THRESHOLDS[name]
        shown = "never" if value >= NEVER else f"{value} {t.unit}"
        lines.append(f"{name} = {shown} (default {t.default}): {t.meaning}")
    return "\n".join(lines)
