"""The cost of a call when arrays are small: our functions beside JAX's own, compiled, in turns.

python -m benchmarks.calls
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorlang as tl

_ROUNDS = 21
_CALLS = 300


def main() -> None:
    """Print microseconds per call, and the ratio to those of `jax.jit`."""
    f = tl.parse("f(x: [n]R, w: [m]R) = sum i:n. [i < m] * sin(x[i]) * w[i]")
    pairs = tl.parse("g(p: ([n]R, R)) = sum i:n. fst(p)[i] * snd(p)")
    x, w, s = jnp.ones(10), jnp.ones(7), jnp.ones(())
    value = jax.jit(lambda x, w: jnp.sum(jnp.sin(x[:7]) * w))
    gradient = jax.jit(jax.grad(lambda x, w: jnp.sum(jnp.sin(x[:7]) * w), (0, 1)))
    pair = jax.jit(lambda p: jnp.sum(p[0] * p[1]))
    numbers = tl.parse("h(x: [n]R, s: R) = sum i:n. s * x[i]")
    scaled = jax.jit(lambda x, s: jnp.sum(s * x))
    rows = tl.parse("r(x: [n]R, k: [m]idx(n)) = gen j:m. 2 * x[k[j]]")
    taken = jax.jit(lambda x, k: 2 * x[k])
    neighbours = tl.parse("a(e: rel(n, n), x: [n]R) = gen i:n. sum j:n. [e(i, j)] * x[j]")
    edges = np.eye(300, k=1, dtype=bool) | np.eye(300, k=-1, dtype=bool)
    i, j = map(jnp.asarray, edges.nonzero())
    added = jax.jit(lambda i, j, x: jnp.zeros(300).at[i].add(x[j]))
    k, y, e = jnp.arange(30) % 10, jnp.ones(300), jnp.asarray(edges)
    ours = tl.grad(f)
    through = tl.to_jax(f)
    for name, theirs, calls in [
        ("value", lambda: value(x, w), {"f(x, w)": lambda: f(x, w), "to_jax(f)(x, w)": lambda: through(x, w)}),
        ("NumPy", lambda: value(_X, _W), {"f(x, w)": lambda: f(_X, _W), "to_jax(f)(x, w)": lambda: through(_X, _W)}),
        ("gradient", lambda: gradient(x, w), {"grad(f)(x, w)": lambda: ours(x, w)}),
        ("pairs", lambda: pair((x, s)), {"g((x, s))": lambda: pairs((x, s))}),
        ("numbers", lambda: scaled(x, 2.0), {"h(x, 2.0)": lambda: numbers(x, 2.0)}),
        ("indices", lambda: taken(x, k), {"r(x, k)": lambda: rows(x, k)}),
        ("relation", lambda: added(i, j, y), {"a(e, y)": lambda: neighbours(e, y)}),
        ("NumPy", lambda: added(i, j, y), {"a(e, y)": lambda: neighbours(edges, y)}),
        ("keywords", lambda: value(x=x, w=w), {"f(x=x, w=w)": lambda: f(x=x, w=w)}),
    ]:
        peers: dict[str, Callable[[], Any]] = {"jax.jit": theirs, **calls}
        found = _timed(peers)
        for peer, times in found.items():
            ratio = statistics.median(a / b for a, b in zip(times, found["jax.jit"], strict=True))
            print(f"{name:10} {peer:18} {statistics.median(times) * 1e6:7.1f} us {ratio:6.2f}", flush=True)


_X, _W = np.ones(10, np.float32), np.ones(7, np.float32)


def _timed(peers: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in peers}
    for run in peers.values():
        jax.block_until_ready(run())
    for _ in range(_ROUNDS):
        for name, run in peers.items():
            start = time.perf_counter()
            for _ in range(_CALLS):
                run()
            found[name].append((time.perf_counter() - start) / _CALLS)
    return found


if __name__ == "__main__":
    main()
