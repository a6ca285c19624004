"""Index arrays that lead from edges to nodes, from elements to segments, from pairs to packed places."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.case import Case
from benchmarks.programs.by_hand import Array


def _segment_sum(xp: Any, values: Any, at: Any, n: int) -> Any:
    """The sums of the values at the same places."""
    if xp is jnp:
        return jnp.zeros((n, *values.shape[1:]), values.dtype).at[at].add(values)
    return xp.zeros((n, *values.shape[1:]), dtype=values.dtype).index_add(0, at, values)


def _segment_max(xp: Any, values: Any, at: Any, n: int) -> Any:
    """The maxima of the values at the same places."""
    if xp is jnp:
        return jax.ops.segment_max(values, at, n)
    return xp.full((n,), -np.inf, dtype=values.dtype).scatter_reduce(0, at, values, "amax")


def _added(n: int, values: Array, at: Array) -> Array:
    return jnp.zeros((n, *values.shape[1:]), values.dtype).at[at].add(values, mode="promise_in_bounds")


def _differences_by_hand(x: Array, a: Array, b: Array) -> Array:
    d = 2 * (x[a] - x[b])
    return _added(x.shape[0], jnp.concatenate([d, -d]), jnp.concatenate([a, b]))


def _regular_by_hand(x: Array, a: Array) -> Array:
    return (2 * x).at[a].add(2 * x[a], mode="promise_in_bounds")


def _clusters_by_hand(x: Array, y: Array, w: Array) -> Array:
    s = _added(w.shape[0], x, y)
    count = _added(w.shape[0], jnp.ones_like(x), y)
    return (2 * w * s * count)[y]


def _variance(xp: Any, x: Any, y: Any, w: Any) -> Any:
    n = w.shape[0]
    mean = _segment_sum(xp, x, y, n) / xp.clip(_segment_sum(xp, xp.ones_like(x), y, n), 1, None)
    return xp.sum(w[y] * (x - mean[y]) ** 2)


def _variance_by_hand(x: Array, y: Array, w: Array) -> Array:
    n = w.shape[0]
    mean = _added(n, x, y) / jnp.maximum(_added(n, jnp.ones_like(x), y), 1)
    return 2 * w[y] * (x - mean[y])


def _softmax(xp: Any, x: Any, y: Any, w: Any, of: Any) -> Any:
    n = of.shape[0]
    e = xp.exp(x - _segment_max(xp, x, y, n)[y])
    return xp.sum(w * e / _segment_sum(xp, e, y, n)[y])


def _softmax_by_hand(x: Array, y: Array, w: Array, of: Array) -> Array:
    n = of.shape[0]
    e = jnp.exp(x - jax.ops.segment_max(x, y, n)[y])
    p = e / _added(n, e, y)[y]
    return p * (w - _added(n, p * w, y)[y])


def _running_in_groups(xp: Any, x: Any, p: Any) -> Any:
    """For each element the sum of those of its group up to it, by an order in which the groups lie one after the
    other."""
    order = xp.argsort(p, stable=True)
    x, p = x[order], p[order]
    sums = xp.cumsum(x, 0)
    return (sums - (sums - x)[xp.searchsorted(p, p)])[xp.argsort(order)]


def _running_by_hand(x: Array, p: Array, y: Array) -> Array:
    return jnp.flip(_running_in_groups(jnp, jnp.flip(y), jnp.flip(p)))


def _pairs(xp: Any, p: Any, q: Any) -> Any:
    """Numbers for the pairs, equal where both members are."""
    order = xp.argsort(q, stable=True)
    order = order[xp.argsort(p[order], stable=True)]
    p, q = p[order], q[order]
    changes = (p[1:] != p[:-1]) | (q[1:] != q[:-1])
    ranks = xp.concatenate([xp.zeros_like(p[:1]), xp.cumsum(changes, 0)])
    return ranks[xp.argsort(order)]


def _messages(xp: Any, x: Any, w: Any, src: Any, dst: Any) -> Any:
    return xp.sum(xp.tanh(_segment_sum(xp, (x @ w)[src], dst, x.shape[0])) ** 2)


def _messages_by_hand(x: Array, w: Array, src: Array, dst: Array) -> tuple[Array, Array]:
    n = x.shape[0]
    t = jnp.tanh(_added(n, (x @ w)[src], dst))
    h_bar = 2 * t * (1 - t**2)
    xw_bar = _added(n, h_bar[dst], src)
    return xw_bar @ w.T, x.T @ xw_bar


def _packed(xp: Any, packed: Any, t: Any, x: Any) -> Any:
    return xp.sum((xp.tril(packed[t]) @ x) ** 2)


def _packed_by_hand(packed: Array, t: Array, x: Array) -> tuple[Array, Array]:
    low = jnp.tril(packed[t])
    y_bar = 2 * (low @ x)
    rows, columns = np.tril_indices(x.shape[0])
    at = t[rows, columns]
    return jnp.zeros_like(packed).at[at].add(y_bar[rows] * x[columns]), y_bar @ low


def _determinant(xp: Any, a: Any, p: Any, s: Any) -> Any:
    return xp.sum(s * a[0][p[:, 0]] * a[1][p[:, 1]] * a[2][p[:, 2]] * a[3][p[:, 3]])


def _determinant_by_hand(a: Array, p: Array, s: Array) -> Array:
    f = [a[k][p[:, k]] for k in range(4)]
    bars = [s * f[1] * f[2] * f[3], s * f[0] * f[2] * f[3], s * f[0] * f[1] * f[3], s * f[0] * f[1] * f[2]]
    return jnp.stack([_added(a.shape[1], bar, p[:, k]) for k, bar in enumerate(bars)])


def _permutations(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    every = np.array(list(permutations(range(4))), np.int32)
    return every[np.arange(dims[0]) % len(every)]


def _packing(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    i, j = np.maximum.outer(np.arange(dims[0]), np.arange(dims[0])), np.minimum.outer(*[np.arange(dims[0])] * 2)
    return (i * (i + 1) // 2 + j).astype(np.int32)


CASES = [
    Case(
        name="differences along edges",
        suite="structured",
        text="differ(x: [n]R, a: [e]idx(n), b: [e]idx(n)) = sum p:e. (x[a[p]] - x[b[p]])^2",
        program=lambda xp, x, a, b: xp.sum((x[a] - x[b]) ** 2),
        by_hand=_differences_by_hand,
        sizes=({"n": 1000, "e": 4000}, {"n": 10_000, "e": 40_000}, {"n": 100_000, "e": 400_000}),
        odd={"n": 307, "e": 1001},
        grows="e",
    ),
    Case(
        name="looked up and regularised",
        suite="structured",
        text="regular(x: [n]R, a: [e]idx(n)) = (sum p:e. x[a[p]]^2) + sum i:n. x[i]^2",
        program=lambda xp, x, a: xp.sum(x[a] ** 2) + xp.sum(x**2),
        by_hand=_regular_by_hand,
        sizes=({"n": 1000, "e": 4000}, {"n": 10_000, "e": 40_000}, {"n": 100_000, "e": 400_000}),
        odd={"n": 307, "e": 1001},
        grows="e",
    ),
    Case(
        name="sums of clusters",
        suite="structured",
        text="""
          clusters(x: [n]R, y: [n]idx(m), w: [m]R) =
            let s = gen k:m. sum i:n. [y[i] = k] * x[i] in
            sum i:n. w[y[i]] * s[y[i]]^2
        """,
        wrt=("x",),
        program=lambda xp, x, y, w: xp.sum(w[y] * _segment_sum(xp, x, y, w.shape[0])[y] ** 2),
        by_hand=_clusters_by_hand,
        sizes=({"n": 1000, "m": 50}, {"n": 10_000, "m": 100}, {"n": 200_000, "m": 1000}),
        odd={"n": 1001, "m": 37},
    ),
    Case(
        name="variance in segments",
        suite="structured",
        text="""
          variance(x: [n]R, y: [n]idx(m), w: [m]R) =
            let count = gen k:m. sum i:n. [y[i] = k] in
            let mean = gen k:m. [exists i:n. y[i] = k] * (sum i:n. [y[i] = k] * x[i]) / count[k] in
            sum i:n. w[y[i]] * (x[i] - mean[y[i]])^2
        """,
        wrt=("x",),
        program=_variance,
        by_hand=_variance_by_hand,
        sizes=({"n": 1000, "m": 50}, {"n": 10_000, "m": 100}, {"n": 200_000, "m": 1000}),
        odd={"n": 1001, "m": 37},
    ),
    Case(
        name="softmax in segments",
        suite="structured",
        text="""
          soft(x: [n]R, y: [n]idx(m), w: [n]R, of: [m]R) =
            let top = gen k:m. [exists i:n. y[i] = k] * max i:n where y[i] = k. x[i] in
            let e = gen i:n. exp(x[i] - top[y[i]]) in
            let s = gen k:m. sum i:n. [y[i] = k] * e[i] in
            sum i:n. w[i] * e[i] / s[y[i]]
        """,
        wrt=("x",),
        program=_softmax,
        by_hand=_softmax_by_hand,
        sizes=({"n": 1000, "m": 50}, {"n": 10_000, "m": 100}, {"n": 200_000, "m": 1000}),
        odd={"n": 1001, "m": 37},
    ),
    Case(
        name="softmax in groups",
        suite="structured",
        text="""
          soft(x: [n]R, p: [n]idx(n), w: [n]R) =
            let top = gen i:n. max j:n where p[j] = p[i]. x[j] in
            sum i:n. w[i] * exp(x[i] - top[i]) / (sum j:n. [p[j] = p[i]] * exp(x[j] - top[i]))
        """,
        wrt=("x",),
        program=lambda xp, x, p, w: _softmax(xp, x, p, w, x),
        by_hand=lambda x, p, w: _softmax_by_hand(x, p, w, x),
        sizes=({"n": 1000}, {"n": 10_000}, {"n": 200_000}),
        odd={"n": 1001},
    ),
    Case(
        name="pairs in groups",
        suite="structured",
        text="pairs(x: [n]R, p: [n]idx(n), y: [n]R) = sum i:n, j:n. [p[j] = p[i]] * x[i] * y[j]",
        wrt=("x", "y"),
        program=lambda xp, x, p, y: xp.sum(x * _segment_sum(xp, y, p, x.shape[0])[p]),
        by_hand=lambda x, p, y: (_added(x.shape[0], y, p)[p], _added(x.shape[0], x, p)[p]),
        sizes=({"n": 1000}, {"n": 10_000}, {"n": 200_000}),
        odd={"n": 1001},
    ),
    Case(
        name="running sums in groups",
        suite="structured",
        text="running(x: [n]R, p: [n]idx(n)) = gen i:n. sum j:n. [p[j] = p[i] and j <= i] * x[j]",
        program=_running_in_groups,
        by_hand=_running_by_hand,
        sizes=({"n": 1000}, {"n": 10_000}, {"n": 200_000}),
        odd={"n": 1001},
    ),
    Case(
        name="softmax in groups by two arrays",
        suite="structured",
        text="""
          soft(x: [n]R, p: [n]idx(n), q: [n]idx(4), w: [n]R) =
            let top = gen i:n. max j:n where p[j] = p[i] and q[j] = q[i]. x[j] in
            sum i:n. w[i] * exp(x[i] - top[i]) / (sum j:n. [p[j] = p[i] and q[j] = q[i]] * exp(x[j] - top[i]))
        """,
        wrt=("x",),
        program=lambda xp, x, p, q, w: _softmax(xp, x, _pairs(xp, p, q), w, x),
        by_hand=lambda x, p, q, w: _softmax_by_hand(x, _pairs(jnp, p, q), w, x),
        sizes=({"n": 1000}, {"n": 10_000}, {"n": 200_000}),
        odd={"n": 1001},
    ),
    Case(
        name="messages along edges",
        suite="structured",
        text="""
          messages(x: [n][c]R, w: [c][c]R, src: [e]idx(n), dst: [e]idx(n)) =
            let xw = gen i:n, b:c. sum a:c. x[i, a] * w[a, b] in
            let h = gen i:n, b:c. sum p:e. [dst[p] = i] * xw[src[p], b] in
            sum i:n, b:c. tanh(h[i, b])^2
        """,
        program=_messages,
        by_hand=_messages_by_hand,
        sizes=({"n": 500, "e": 2000, "c": 16}, {"n": 2000, "e": 10_000, "c": 16}, {"n": 10_000, "e": 50_000, "c": 32}),
        odd={"n": 211, "e": 1001, "c": 5},
        grows="e",
    ),
    Case(
        name="packed triangle",
        suite="structured",
        text="""
          packed(L: [q]R, t: [n][n]idx(q), x: [n]R) =
            let y = gen i:n. sum j:n. [j <= i] * L[t[i, j]] * x[j] in
            sum i:n. y[i]^2
        """,
        program=_packed,
        by_hand=_packed_by_hand,
        draw={"t": _packing},
        sizes=({"n": 256, "q": 32_896}, {"n": 512, "q": 131_328}, {"n": 1024, "q": 524_800}),
        odd={"n": 61, "q": 1891},
    ),
    Case(
        name="determinant by permutations",
        suite="structured",
        text="""
          det(A: [4][4]R, p: [m][4]idx(4), s: [m]R) =
            sum a:m. s[a] * A[0, p[a, 0]] * A[1, p[a, 1]] * A[2, p[a, 2]] * A[3, p[a, 3]]
        """,
        wrt=("A",),
        program=_determinant,
        by_hand=_determinant_by_hand,
        draw={"p": _permutations},
        sizes=({"m": 240}, {"m": 2400}, {"m": 24_000}),
        odd={"m": 23},
        grows="m",
    ),
]
