"""Bands and triangles: matrices of which only a part is nonzero."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.case import Case
from benchmarks.programs.by_hand import (
    band_matmul,
    band_of,
    band_times,
    lower_of,
    lower_times,
    times_band,
    times_lower,
)

_REACH = 8
_SIZES = ({"n": 512}, {"n": 2048}, {"n": 8192})
_THIN = ({"n": 512, "p": 64}, {"n": 2048, "p": 64}, {"n": 8192, "p": 64})
_BAND = "-8 <= i - j <= 8"


def _band(xp: Any, a: Any) -> Any:
    return xp.triu(xp.tril(a, _REACH), -_REACH)


def _band_matmul_by_hand(a: Any, b: Any, y: Any) -> Any:
    n, size = a.shape[0], 256
    blocks = []
    for s in range(0, n, size):
        e, at = min(s + size, n), max(0, s - _REACH)
        to = min(n, e + _REACH)
        near = jnp.abs(jnp.arange(s, e)[:, None] - jnp.arange(at, to)) <= _REACH
        blocks.append(jnp.pad(jnp.where(near, y[s:e] @ b[at:to].T, 0), ((0, 0), (at, n - to))))
    return jnp.concatenate(blocks), band_matmul(a.T, y, _REACH)


def _lower_matmul_by_hand(a: Any, b: Any, y: Any) -> Any:
    n, size = a.shape[0], max(64, a.shape[0] // 8)
    blocks = []
    for s in range(0, n, size):
        e = min(s + size, n)
        blocks.append(jnp.pad(jnp.tril(y[s:e] @ b[:e].T, s), ((0, 0), (0, n - e))))
    return jnp.concatenate(blocks), times_lower(y, a, size)


def _pairs(xp: Any, x: Any) -> Any:
    return xp.sum(xp.tril(xp.exp(-((x[:, None] - x) ** 2)), -1))


def _pairs_by_hand(x: Any) -> Any:
    d = x[:, None] - x
    return jnp.sum(-2 * d * jnp.exp(-(d * d)), 1)


def _prefix_by_hand(x: Any, y: Any) -> Any:
    return _suffix_sums(y)


def _suffix_sums(y: Any, size: int = 32) -> Any:
    n = y.shape[0]
    if n <= size:
        return jnp.triu(jnp.ones((n, n), y.dtype)) @ y
    blocks = jnp.pad(y, (0, -n % size)).reshape(-1, size)
    inside = blocks @ jnp.tril(jnp.ones((size, size), y.dtype))
    after = jnp.pad(_suffix_sums(inside[:, 0])[1:], (0, 1))
    return (inside + after[:, None]).reshape(-1)[:n]


def _attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    s = xp.exp(q @ k.T)
    p = xp.tril(s)
    return (p @ v) / xp.sum(p, 1)[:, None]


def _stable_attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    n = q.shape[0]
    i = xp.arange(n)
    s = xp.where(i[:, None] >= i, q @ k.T, -xp.inf)
    return jax.nn.softmax(s, axis=1) @ v


def _torch_attention(q: Any, k: Any, v: Any) -> Any:
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=1.0)[0]


def _attention_by_hand(q: Any, k: Any, v: Any, y: Any) -> Any:
    n = q.shape[0]
    size = max(64, n // 8)
    q_bar, k_bar, v_bar = [], jnp.zeros_like(k), jnp.zeros_like(v)
    for s in range(0, n, size):
        e = min(s + size, n)
        i = jnp.arange(s, e)
        scores = jnp.where(i[:, None] >= jnp.arange(e), q[s:e] @ k[:e].T, -jnp.inf)
        p = jax.nn.softmax(scores, axis=1)
        p_bar = y[s:e] @ v[:e].T
        s_bar = p * (p_bar - jnp.sum(p * p_bar, 1, keepdims=True))
        q_bar.append(s_bar @ k[:e])
        k_bar = k_bar.at[:e].add(s_bar.T @ q[s:e])
        v_bar = v_bar.at[:e].add(p.T @ y[s:e])
    return jnp.concatenate(q_bar), k_bar, v_bar


def _tame(rng: Any, dims: tuple[int, ...]) -> Any:
    return (rng.normal(size=dims) / dims[-1] ** 0.5).astype("float32")


CASES = [
    Case(
        name="band times vector",
        suite="structured",
        text=f"band(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [{_BAND}] * A[i, j] * x[j]",
        program=lambda xp, a, x: _band(xp, a) @ x,
        by_hand=lambda a, x, y: (band_of(y, x, _REACH), times_band(y, a, _REACH)),
        sizes=_SIZES,
        odd={"n": 331},
    ),
    Case(
        name="band times vector, by the vector",
        suite="structured",
        text=f"band(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [{_BAND}] * A[i, j] * x[j]",
        wrt=("x",),
        program=lambda xp, a, x: _band(xp, a) @ x,
        by_hand=lambda a, x, y: times_band(y, a, _REACH),
        sizes=_SIZES,
        odd={"n": 331},
    ),
    Case(
        name="stored band times vector",
        suite="structured",
        text="band(A: [n][17]R, x: [n + 16]R) = gen i:n. sum c:17. A[i, c] * x[i + c]",
        program=lambda xp, a, x: sum(a[:, c] * x[c : c + a.shape[0]] for c in range(17)),
        by_hand=lambda a, x, y: (
            jnp.stack([y * x[c : c + y.shape[0]] for c in range(17)], 1),
            sum(jnp.pad(a[:, c] * y, (c, 16 - c)) for c in range(17)),
        ),
        sizes=({"n": 10_000}, {"n": 100_000}, {"n": 1_000_000}),
        odd={"n": 5001},
    ),
    Case(
        name="band times matrix",
        suite="structured",
        text=f"band(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [{_BAND}] * A[i, j] * B[j, k]",
        program=lambda xp, a, b: _band(xp, a) @ b,
        by_hand=_band_matmul_by_hand,
        sizes=_THIN,
        odd={"n": 331, "p": 7},
    ),
    Case(
        name="quadratic form of a band",
        suite="structured",
        text=f"form(x: [n]R, A: [n][n]R) = sum i:n, j:n. [{_BAND}] * x[i] * A[i, j] * x[j]",
        program=lambda xp, x, a: x @ _band(xp, a) @ x,
        by_hand=lambda x, a: (band_times(a, x, _REACH) + times_band(x, a, _REACH), band_of(x, x, _REACH)),
        sizes=_SIZES,
        odd={"n": 331},
    ),
    Case(
        name="strict triangle times vector",
        suite="structured",
        text="solve(c: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j < i] * c[i, j] * x[j]",
        program=lambda xp, c, x: xp.tril(c, -1) @ x,
        by_hand=lambda c, x, y: (
            jnp.where(jnp.arange(x.shape[0])[:, None] > jnp.arange(x.shape[0]), y[:, None] * x, 0),
            times_lower(y, c) - jnp.diagonal(c) * y,
        ),
        sizes=_SIZES,
        odd={"n": 331},
    ),
    Case(
        name="triangle times vector, by the vector",
        suite="structured",
        text="lower(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j <= i] * A[i, j] * x[j]",
        wrt=("x",),
        program=lambda xp, a, x: xp.tril(a) @ x,
        by_hand=lambda a, x, y: times_lower(y, a),
        sizes=_SIZES,
        odd={"n": 1331},
    ),
    Case(
        name="triangle times matrix",
        suite="structured",
        text="lower(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j <= i] * A[i, j] * B[j, k]",
        program=lambda xp, a, b: xp.tril(a) @ b,
        by_hand=_lower_matmul_by_hand,
        sizes=_THIN,
        odd={"n": 331, "p": 7},
    ),
    Case(
        name="triangle times square",
        suite="structured",
        text="lower(A: [n][n]R, B: [n][n]R) = gen i:n, k:n. sum j:n. [j <= i] * A[i, j] * B[j, k]",
        program=lambda xp, a, b: xp.tril(a) @ b,
        by_hand=_lower_matmul_by_hand,
        sizes=({"n": 256}, {"n": 512}, {"n": 1024}),
        odd={"n": 131},
    ),
    Case(
        name="quadratic form of a triangle",
        suite="structured",
        text="form(x: [n]R, A: [n][n]R) = sum i:n, j:n. [j <= i] * x[i] * A[i, j] * x[j]",
        program=lambda xp, x, a: x @ xp.tril(a) @ x,
        by_hand=lambda x, a: (lower_times(a, x) + times_lower(x, a), lower_of(x, x)),
        sizes=_SIZES,
        odd={"n": 331},
    ),
    Case(
        name="pairs",
        suite="structured",
        text="pairs(x: [n]R) = sum i:n, j:n. [j < i] * exp(-(x[i] - x[j])^2)",
        program=_pairs,
        by_hand=_pairs_by_hand,
        sizes=({"n": 512}, {"n": 2048}, {"n": 4096}),
        odd={"n": 331},
    ),
    Case(
        name="prefix sums",
        suite="structured",
        text="prefix(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[j]",
        program=lambda xp, x: xp.cumsum(x, 0),
        by_hand=_prefix_by_hand,
        sizes=({"n": 10_000}, {"n": 100_000}, {"n": 1_000_000}),
        odd={"n": 20_001},
    ),
    Case(
        name="causal attention",
        suite="structured",
        text="""
          attention(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
            let s = gen i:n, j:n. [j <= i] * exp(sum a:d. Q[i, a] * K[j, a]) in
            let z = gen i:n. sum j:n. [j <= i] * s[i, j] in
            gen i:n, a:d. (sum j:n. [j <= i] * s[i, j] * V[j, a]) / z[i]
        """,
        program=_attention,
        torch=_torch_attention,
        by_hand=_attention_by_hand,
        sizes=({"n": 256, "d": 64}, {"n": 1024, "d": 64}, {"n": 2048, "d": 64}),
        odd={"n": 331, "d": 17},
        draw={"Q": _tame, "K": _tame},
    ),
    Case(
        name="causal attention, stable",
        suite="structured",
        text="""
          attention(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
            let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in
            let top = gen i:n. max j:n where j <= i. s[i, j] in
            let p = gen i:n, j:n. [j <= i] * exp(s[i, j] - top[i]) in
            let z = gen i:n. sum j:n. [j <= i] * p[i, j] in
            gen i:n, a:d. (sum j:n. [j <= i] * p[i, j] * V[j, a]) / z[i]
        """,
        program=_stable_attention,
        torch=_torch_attention,
        by_hand=_attention_by_hand,
        sizes=({"n": 256, "d": 64}, {"n": 1024, "d": 64}, {"n": 2048, "d": 64}),
        odd={"n": 331, "d": 17},
        draw={"Q": _tame, "K": _tame},
    ),
]
