"""Prefix sums: with factors, of moments, up to limits given by data."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from benchmarks.case import Case, small
from benchmarks.programs.by_hand import Array

_SIZES = ({"n": 1000}, {"n": 20_000}, {"n": 400_000})


def _suffixes(x: Array) -> Array:
    return jnp.cumsum(x[::-1])[::-1]


def _spread(xp: Any, x: Any) -> Any:
    return xp.sum(xp.cumsum(x**2, 0) - xp.cumsum(x, 0) ** 2)


def _spread_by_hand(x: Array) -> Array:
    n = x.shape[0]
    return 2 * x * jnp.arange(n, 0, -1) - 2 * _suffixes(jnp.cumsum(x))


def _limited(xp: Any, x: Any, a: Any, w: Any) -> Any:
    return xp.sum(w * xp.cumsum(x, 0)[a] ** 2)


def _limited_by_hand(x: Array, a: Array, w: Array) -> Array:
    y_bar = 2 * w * jnp.cumsum(x)[a]
    return _suffixes(jnp.zeros_like(x).at[a].add(y_bar, mode="promise_in_bounds"))


def _windows(xp: Any, x: Any, a: Any, b: Any) -> Any:
    sums = xp.concatenate([xp.zeros(1, x.dtype), xp.cumsum(x, 0)])
    return xp.where(a < b, sums[b] - sums[a], 0)


def _windows_by_hand(x: Array, a: Array, b: Array, y: Array) -> Array:
    y = jnp.where(a < b, y, 0)
    ends = jnp.zeros(x.shape[0] + 1, x.dtype).at[a].add(y, mode="promise_in_bounds")
    return jnp.cumsum(ends.at[b].add(-y, mode="promise_in_bounds"))[:-1]


def _linear_attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    return xp.tril(q @ k.T) @ v


_CHUNK = 64


def _chunks(q: Array, k: Array, v: Array) -> Array:
    """Causal linear attention, where the number of rows is a multiple of the chunk's."""
    n, d = q.shape
    rest = -n % _CHUNK
    q, k, v = (jnp.pad(x, ((0, rest), (0, 0))).reshape(-1, _CHUNK, x.shape[1]) for x in (q, k, v))

    def chunk(state: Array, rows: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        q, k, v = rows
        return state + k.T @ v, q @ state + jnp.tril(q @ k.T) @ v

    _, y = lax.scan(chunk, jnp.zeros((d, v.shape[-1]), q.dtype), (q, k, v))
    return y.reshape(-1, v.shape[-1])[:n]


def _attention_by_hand(q: Array, k: Array, v: Array, y: Array) -> tuple[Array, Array, Array]:
    back = lambda *several: jnp.flip(_chunks(*(jnp.flip(x, 0) for x in several)), 0)
    return _chunks(y, v, k), back(v, y, q), back(k, q, y)


def _gated_attention(xp: Any, q: Any, k: Any, v: Any, logs: Any) -> Any:
    return xp.tril(xp.exp(logs[:, None] - logs) * (q @ k.T)) @ v


def _gated_by_hand(q: Array, k: Array, v: Array, logs: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """By a factor for each row, as logarithms are small here."""
    row, column = jnp.exp(logs)[:, None], jnp.exp(-logs)[:, None]
    q_bar, k_bar, v_bar = _attention_by_hand(q * row, k * column, v, y)
    q_bar, k_bar = q_bar * row, k_bar * column
    return q_bar, k_bar, v_bar, (q * q_bar - k * k_bar).sum(1)


CASES = [
    Case(
        name="weighted prefix sums",
        suite="structured",
        text="weighted(x: [n]R, v: [n]R) = gen i:n. sum j:n. [j <= i] * v[j] * x[j]",
        wrt=("x",),
        program=lambda xp, x, v: xp.cumsum(v * x, 0),
        by_hand=lambda x, v, y: v * _suffixes(y),
        sizes=_SIZES,
        odd={"n": 1003},
    ),
    Case(
        name="semiseparable matrix times vector",
        suite="structured",
        text="semi(x: [n]R, u: [n]R, v: [n]R) = gen i:n. sum j:n. [j <= i] * u[i] * v[j] * x[j]",
        wrt=("x",),
        program=lambda xp, x, u, v: u * xp.cumsum(v * x, 0),
        by_hand=lambda x, u, v, y: v * _suffixes(u * y),
        sizes=_SIZES,
        odd={"n": 1003},
    ),
    Case(
        name="sums over ordered pairs",
        suite="structured",
        text="pairs(x: [n]R, y: [n]R) = sum i:n, j:n. [j <= i] * x[i] * y[j]",
        program=lambda xp, x, y: xp.sum(x * xp.cumsum(y, 0)),
        by_hand=lambda x, y: (jnp.cumsum(y), _suffixes(x)),
        sizes=_SIZES,
        odd={"n": 1003},
    ),
    Case(
        name="running moments",
        suite="structured",
        text="moments(x: [n]R) = sum i:n. (sum j:n. [j <= i] * x[j]^2) - (sum j:n. [j <= i] * x[j])^2",
        program=_spread,
        by_hand=_spread_by_hand,
        sizes=({"n": 1000}, {"n": 20_000}),
        odd={"n": 1003},
    ),
    Case(
        name="sums up to given limits",
        suite="structured",
        text="limited(x: [n]R, a: [q]idx(n), w: [q]R) = sum i:q. w[i] * (sum j:n. [j <= a[i]] * x[j])^2",
        wrt=("x",),
        program=_limited,
        by_hand=_limited_by_hand,
        sizes=({"n": 1000, "q": 500}, {"n": 4000, "q": 4000}),
        odd={"n": 1003, "q": 501},
    ),
    Case(
        name="sums over given windows",
        suite="structured",
        text="windows(x: [n]R, a: [q]idx(n), b: [q]idx(n + 1)) = gen i:q. sum j:n. [a[i] <= j < b[i]] * x[j]",
        wrt=("x",),
        program=_windows,
        by_hand=_windows_by_hand,
        sizes=({"n": 1000, "q": 500}, {"n": 4000, "q": 4000}),
        odd={"n": 1003, "q": 501},
    ),
    Case(
        name="causal linear attention",
        suite="structured",
        text="""linear(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
            gen i:n, b:d. sum a:d, j:n. [j <= i] * Q[i, a] * K[j, a] * V[j, b]""",
        program=_linear_attention,
        by_hand=_attention_by_hand,
        draw={"Q": small, "K": small, "V": small},
        sizes=({"n": 512, "d": 64}, {"n": 2048, "d": 64}, {"n": 4096, "d": 64}),
        odd={"n": 301, "d": 17},
    ),
    Case(
        name="gated linear attention",
        suite="structured",
        text="""gated(Q: [n][d]R, K: [n][d]R, V: [n][d]R, l: [n]R) =
            gen i:n, b:d. sum a:d, j:n. [j <= i] * exp(l[i] - l[j]) * Q[i, a] * K[j, a] * V[j, b]""",
        program=_gated_attention,
        by_hand=_gated_by_hand,
        draw={"Q": small, "K": small, "V": small, "l": small},
        sizes=({"n": 512, "d": 64}, {"n": 2048, "d": 64}, {"n": 4096, "d": 64}),
        odd={"n": 301, "d": 17},
    ),
]
