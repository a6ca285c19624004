"""Structure that a program does not spell out: which elements are read, where values are nonzero, what is computed
twice."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.case import Case, small, sparse
from benchmarks.programs.by_hand import Array, convolve
from benchmarks.programs.data import _add_columns, _add_rows

_WINDOW = 64


def _suffixes(xp: Any, x: Any) -> Any:
    back = xp.flip(x * x, (0,) if xp is not jnp else 0)
    return xp.flip(xp.cumsum(back, 0), (0,) if xp is not jnp else 0)


def _demand(xp: Any, e: Any, u: Any, v: Any) -> Any:
    return xp.sum(xp.where(e, (u @ v.T) ** 2, 0))


def _demand_by_hand(e: Any, u: Array, v: Array) -> Any:
    rows, columns = e
    p, q = u[rows], v[columns]
    d = 2 * jnp.sum(p * q, 1)[:, None]
    return _add_rows(u.shape[0], rows, d * q), _add_columns(v.shape[0], columns, d * p)


def _window(xp: Any, q: Any, k: Any, v: Any) -> Any:
    i = xp.arange(q.shape[0])
    ahead = i[:, None] - i
    s = xp.where((ahead >= 0) & (ahead < _WINDOW), q @ k.T, -xp.inf)
    p = jax.nn.softmax(s, 1) if xp is jnp else xp.softmax(s, 1)
    return p @ v


def _window_by_hand(q: Array, k: Array, v: Array, y: Array) -> Any:
    """Blocks with as many rows as the window, each with its own columns and those of the block before."""
    w, n = _WINDOW, q.shape[0]
    blocks = -(-n // w)
    rows = lambda x: jnp.pad(x, ((0, blocks * w - n), (0, 0))).reshape(blocks, w, -1)
    near = lambda x: jnp.concatenate([jnp.pad(x[:-1], ((1, 0), (0, 0), (0, 0))), x], 1)
    q, y = rows(q), rows(y)
    k, v = near(rows(k)), near(rows(v))
    ahead = jnp.arange(w)[:, None] + w - jnp.arange(2 * w)
    first = jnp.arange(blocks)[:, None, None] * w + jnp.arange(2 * w) >= w
    s = jnp.einsum("bia,bja->bij", q, k)
    p = jax.nn.softmax(jnp.where((ahead >= 0) & (ahead < w) & first, s, -jnp.inf), 2)
    p_bar = jnp.einsum("bia,bja->bij", y, v)
    s_bar = p * (p_bar - jnp.sum(p * p_bar, 2, keepdims=True))

    def back(x: Array) -> Array:
        own, before = x[:, w:], x[:, :w]
        return (own + jnp.pad(before[1:], ((0, 1), (0, 0), (0, 0)))).reshape(blocks * w, -1)[:n]

    q_bar = jnp.einsum("bij,bja->bia", s_bar, k).reshape(blocks * w, -1)[:n]
    k_bar, v_bar = jnp.einsum("bij,bia->bja", s_bar, q), jnp.einsum("bij,bia->bja", p, y)
    return q_bar, back(k_bar), back(v_bar)


def _tridiagonal(xp: Any, a: Any, b: Any, c: Any, x: Any) -> Any:
    t = xp.diag(a) + xp.diag(b, -1) + xp.diag(c, 1)
    return xp.sin(t) * t @ x


def _tridiagonal_by_hand(a: Array, b: Array, c: Array, x: Array, y: Array) -> Any:
    f, d = lambda t: jnp.sin(t) * t, lambda t: jnp.cos(t) * t + jnp.sin(t)
    x_bar = f(a) * y + jnp.pad(f(b) * y[1:], (0, 1)) + jnp.pad(f(c) * y[:-1], (1, 0))
    return d(a) * y * x, d(b) * y[1:] * x[:-1], d(c) * y[:-1] * x[1:], x_bar


def _chain(xp: Any, x: Any) -> Any:
    return xp.sum((x[1:] - x[:-1]) ** 4)


def _chain_by_hand(x: Array) -> Array:
    e = 12 * (x[1:] - x[:-1]) ** 2
    return jnp.diag(jnp.pad(e, (0, 1)) + jnp.pad(e, (1, 0))) - jnp.diag(e, 1) - jnp.diag(e, -1)


def _twice(xp: Any, u: Any, v: Any) -> Any:
    s = u @ v.T
    t = v @ u.T
    return xp.sum(s * xp.sin(t.T))


def _twice_by_hand(u: Array, v: Array) -> Any:
    s = u @ v.T
    d = jnp.sin(s) + s * jnp.cos(s)
    return d @ v, d.T @ u


def _dilated(xp: Any, x: Any, w: Any) -> Any:
    padded = [((w.shape[2] - 1) * 8, 0)]
    return lax.conv_general_dilated(x[None], w[:, :, ::-1], (1,), padded, rhs_dilation=(8,))[0]


def _dilated_by_hand(x: Array, w: Array, y: Array) -> Any:
    n, taps = x.shape[1], w.shape[2]
    around = jnp.pad(y, ((0, 0), (0, 8 * (taps - 1))))
    read = [around[:, 8 * k : 8 * k + n] for k in range(taps)]
    x_bar = jnp.asarray(sum(jnp.einsum("oe,on->en", w[:, :, k], read[k]) for k in range(taps)))
    return x_bar, jnp.stack([r @ x.T for r in read], 2)


def _long(xp: Any, x: Any, h: Any) -> Any:
    size = 2 * x.shape[1]
    return xp.fft.irfft(xp.fft.rfft(x, size) * xp.fft.rfft(h, size), size)[:, : x.shape[1]]


def _long_by_hand(x: Array, h: Array, y: Array) -> Any:
    back = jax.vmap(lambda a, b: convolve(a[::-1], b, a.shape[0])[::-1])
    return back(y, h), back(y, x)


def _three(xp: Any, t: Any, u: Any, v: Any, b: Any, x: Any) -> Any:
    n = x.shape[0]
    band = jnp.pad(x, 2)
    near = sum(b[k] * band[4 - k : 4 - k + n] for k in range(5))
    return convolve(t, x, 2 * n)[n:] + u * jnp.vdot(v, x) + near


def _three_by_hand(t: Array, u: Array, v: Array, b: Array, x: Array, y: Array) -> Any:
    n = x.shape[0]
    w, z = jnp.vdot(u, y), jnp.pad(x, 2)
    around = [jnp.pad(b[k] * y, (4 - k, k)) for k in range(5)]
    x_bar = convolve(y, t[::-1], 2 * n)[n - 1 : 2 * n - 1] + w * v + jnp.asarray(sum(around))[2 : n + 2]
    t_bar = jnp.pad(convolve(y, x[::-1], 2 * n - 1), (1, 0))
    b_bar = jnp.stack([y * z[4 - k : 4 - k + n] for k in range(5)])
    return t_bar, y * jnp.vdot(v, x), w * x, b_bar, x_bar


CASES = [
    Case(
        name="suffix sums",
        suite="structured",
        text="suffixes(x: [n]R) = gen i:n. sum j:n. [i <= j] * x[j]^2",
        program=_suffixes,
        by_hand=lambda x, y: 2 * x * jnp.cumsum(y),
        sizes=({"n": 1000}, {"n": 20_000}, {"n": 400_000}),
        odd={"n": 1003},
    ),
    Case(
        name="products where they are asked for",
        suite="structured",
        text="""
          demand(E: rel(n, n), U: [n][k]R, V: [n][k]R) =
            let d = gen i:n, j:n. sum a:k. U[i, a] * V[j, a] in
            let s = gen i:n, j:n. d[i, j]^2 in
            sum i:n, j:n. [E(i, j)] * s[i, j]
        """,
        program=_demand,
        by_hand=_demand_by_hand,
        draw={"E": sparse(20_000)},
        sizes=({"n": 512, "k": 16}, {"n": 2048, "k": 16}, {"n": 4096, "k": 16}),
        odd={"n": 331, "k": 5},
    ),
    Case(
        name="sliding-window attention",
        suite="structured",
        text=f"""
          attention(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
            let s = gen i:n, j:n. [0 <= i - j < {_WINDOW}] * sum a:d. Q[i, a] * K[j, a] in
            let top = gen i:n. max j:n where 0 <= i - j < {_WINDOW}. s[i, j] in
            let p = gen i:n, j:n. [0 <= i - j < {_WINDOW}] * exp(s[i, j] - top[i]) in
            let z = gen i:n. sum j:n. p[i, j] in
            gen i:n, b:d. sum j:n. p[i, j] / z[i] * V[j, b]
        """,
        program=_window,
        by_hand=_window_by_hand,
        draw={"Q": small, "K": small},
        sizes=({"n": 512, "d": 64}, {"n": 2048, "d": 64}, {"n": 4096, "d": 64}),
        odd={"n": 301, "d": 17},
    ),
    Case(
        name="what is computed from three diagonals",
        suite="structured",
        text="""
          tridiagonal(a: [n + 1]R, b: [n]R, c: [n]R, x: [n + 1]R) =
            let T = gen i:n + 1, j:n + 1. [i = j] * a[i] + [i = j + 1] * b[j] + [j = i + 1] * c[i] in
            let S = gen i:n + 1, j:n + 1. sin(T[i, j]) * T[i, j] in
            gen i:n + 1. sum j:n + 1. S[i, j] * x[j]
        """,
        program=_tridiagonal,
        by_hand=_tridiagonal_by_hand,
        sizes=({"n": 500}, {"n": 2000}, {"n": 8000}),
        odd={"n": 331},
    ),
    Case(
        name="Hessian of a chain",
        suite="structured",
        text="chain(x: [n + 1]R) = sum i:n. (x[i + 1] - x[i])^4",
        what="hessian",
        program=_chain,
        by_hand=_chain_by_hand,
        sizes=({"n": 500}, {"n": 1000}, {"n": 2000}),
        limits={
            "model": "the three diagonals are added up in an array of all elements, most of which the model knows are 0"
        },
        odd={"n": 100},
    ),
    Case(
        name="a product that is written twice",
        suite="structured",
        text="""
          twice(U: [n][k]R, V: [n][k]R) =
            let s = gen i:n, j:n. sum a:k. U[i, a] * V[j, a] in
            let t = gen i:n, j:n. sum a:k. V[i, a] * U[j, a] in
            sum i:n, j:n. s[i, j] * sin(t[j, i])
        """,
        program=_twice,
        by_hand=_twice_by_hand,
        sizes=({"n": 256, "k": 32}, {"n": 1024, "k": 32}, {"n": 2048, "k": 32}),
        odd={"n": 151, "k": 5},
    ),
    Case(
        name="dilated convolution with channels",
        suite="structured",
        text="""
          dilated(x: [c][n]R, w: [c][c][3]R) = gen q:c, i:n. sum e:c, k:3. [8*k <= i] * w[q, e, k] * x[e, i - 8*k]
        """,
        program=_dilated,
        by_hand=_dilated_by_hand,
        sizes=({"n": 1024, "c": 16}, {"n": 8192, "c": 32}, {"n": 8192, "c": 64}),
        odd={"n": 331, "c": 5},
    ),
    Case(
        name="long causal convolution",
        suite="structured",
        text="long(x: [c][n]R, h: [c][n]R) = gen e:c, i:n. sum j:n. [j <= i] * h[e, i - j] * x[e, j]",
        program=_long,
        by_hand=_long_by_hand,
        sizes=({"n": 512, "c": 16}, {"n": 2048, "c": 16}, {"n": 8192, "c": 16}),
        odd={"n": 331, "c": 3},
    ),
    Case(
        name="Toeplitz plus rank one plus band",
        suite="structured",
        text="""
          three(t: [2*n]R, u: [n]R, v: [n]R, b: [5][n]R, x: [n]R) =
            gen i:n. sum j:n. (t[n + i - j] + u[i] * v[j] + [-2 <= i - j <= 2] * b[i - j + 2, i]) * x[j]
        """,
        program=_three,
        by_hand=_three_by_hand,
        sizes=({"n": 512}, {"n": 2048}, {"n": 8192}),
        odd={"n": 331},
    ),
]
