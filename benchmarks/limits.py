"""How far a gradient is from what the machine can do: the time in which it could move the bytes and do the operations.

The bytes are those of the compiled code's inputs and outputs, or those that its instructions move where that is less,
since the code need not read all of its inputs; the operations are those of its HLO. The machine's bandwidth is measured
by adding up an array too large for the caches, its peak by a product of matrices, both in the same run as the times. A
gradient whose arrays fit into the caches can be faster than this limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import tensorlang as tl
from benchmarks.case import Case, Sizes
from tensorlang.measure.count import count

_ELEMENTS = 2**25
_ROWS = 2048
_ROUNDS = 7


@dataclass(frozen=True)
class Machine:
    """The measured bytes and operations per second."""

    bandwidth: float
    peak: float

    def __str__(self) -> str:
        return f"{self.bandwidth / 1e9:.1f} GB/s, {self.peak / 1e9:.0f} Gflop/s"

    def seconds(self, moved: float, operations: float) -> float:
        """The least time in which it moves `moved` bytes and does `operations` operations."""
        return max(moved / self.bandwidth, operations / self.peak)


def machine() -> Machine:
    """The machine that this runs on, in single precision."""
    x, a = jnp.ones(_ELEMENTS, jnp.float32), jnp.ones((_ROWS, _ROWS), jnp.float32)
    return Machine(4 * _ELEMENTS / _least(jnp.sum, x), 2 * _ROWS**3 / _least(lambda a: a @ a, a))


def _least(fn: Callable[[Any], Any], x: Any) -> float:
    run = jax.jit(fn)
    jax.block_until_ready(run(x))
    found = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        jax.block_until_ready(run(x))
        found.append(time.perf_counter() - start)
    return min(found)


def limit(case: Case, sizes: Sizes, given: Machine) -> float:
    """The least time, in seconds, of the derivative of `case` at `sizes`.

    Raises `CountError` if its operations can't be counted.
    """
    found = count(tl.lower(case.derived), *case.shapes(sizes))
    return given.seconds(min(found.inputs + found.outputs, found.traffic), found.operations)
