"""`python -m benchmarks.through_time`: gradients of recurrences against `jax.grad` through `lax.scan`.

For each program, at three lengths: the operations of XLA's code for the value, for our gradient and for JAX's; the
operations of our gradient per operation, input and output of the value, which should be at most 4; then, as ratios to
JAX's gradient, the times of ours, of the value alone and of `tl.jax.grad` of the program in JAX, and the temporary
memory of ours, with geometric means. Backward steps are as long as forward ones: where the value takes 0.3 of the time
of JAX's gradient, ours can hardly take less than 0.6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.measure.count import count

_ROUNDS = 100


@dataclass(frozen=True)
class Recurrence:
    """A program that returns a number, the same in JAX, and its sizes except T, the length."""

    name: str
    text: str
    jax: Callable[..., Any]
    sizes: Mapping[str, int]
    lengths: tuple[int, int, int] = (20, 200, 2000)
    scale: float = 1
    """The factor of the data, which are between 0.3 and 0.95 before."""


def _rnn(W: Any, u: Any, h: Any) -> Any:
    s, _ = lax.scan(lambda s, x: (jnp.tanh(W @ s + x), None), h, u)
    return jnp.sum(s * s)


def _events(W: Any, u: Any, h: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        return lax.cond(s[0] > 1, lambda s, x: jnp.tanh(W @ s), lambda s, x: 0.95 * s + 0.1 * x, s, x), None

    s, _ = lax.scan(step, h, u)
    return jnp.sum(s * s)


def _heat(h: Any, k: Any, z: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        left, right = jnp.concatenate([jnp.zeros(1), s[:-1]]), jnp.concatenate([s[1:], jnp.zeros(1)])
        return s + k * (left + right - 2 * s) + x, None

    s, _ = lax.scan(step, h, z)
    return jnp.sum(s * s)


def _lstm(A: Any, B: Any, C: Any, D: Any, x: Any, h: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, o, g = (
            jax.nn.sigmoid(A @ h + x),
            jax.nn.sigmoid(B @ h + x),
            jax.nn.sigmoid(C @ h + x),
            jnp.tanh(D @ h + x),
        )
        c = f * c + i * g
        return (o * jnp.tanh(c), c), None

    (s, _), _ = lax.scan(step, (h, h), x)
    return jnp.sum(s * s)


def _gru(A: Any, B: Any, C: Any, x: Any, h: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        z, r = jax.nn.sigmoid(A @ h + x), jax.nn.sigmoid(B @ h + x)
        return (1 - z) * h + z * jnp.tanh(C @ (r * h) + x), None

    s, _ = lax.scan(step, h, x)
    return jnp.sum(s * s)


def _hmm(a: Any, e: Any, p: Any) -> Any:
    def step(state: Any, e: Any) -> Any:
        s, total = state
        f = e * (s @ a)
        z = jnp.sum(f)
        return (f / z, total + jnp.log(z)), None

    (_, total), _ = lax.scan(step, (p, 0.0), e)
    return total


def _viterbi(a: Any, e: Any, p: Any) -> Any:
    s, _ = lax.scan(lambda s, e: (e + jnp.max(0.5 * s[:, None] + a, 0), None), p, e)
    return jnp.max(s)


def _attention(q: Any, k: Any, v: Any, g: Any) -> Any:
    def step(S: Any, x: Any) -> Any:
        q, k, v = x
        S = g * S + jnp.outer(k, v)
        return S, q @ S

    n = q.shape[1]
    _, y = lax.scan(step, jnp.zeros((n, n)), (q, k, v))
    return jnp.sum(y * y)


def _horner(a: Any, x: Any) -> Any:
    return lax.scan(lambda s, a: (s * x + a, None), 0.0, a)[0]


def _products(x: Any) -> Any:
    y = lax.scan(lambda s, x: (s * x, s * x), 1.0, x)[1]
    return jnp.sum(y * y)


def _edits(c: Any, g: Any) -> Any:
    n = c.shape[1]

    def row(r: Any, x: Any) -> Any:
        t, c = x

        def cell(z: Any, x: Any) -> Any:
            up, c, j = x
            diagonal = jnp.where(j > 0, r[j - 1], t * g)
            z = -jnp.log(jnp.exp(-z - g) + jnp.exp(-up - g) + jnp.exp(-diagonal - c))
            return z, z

        return lax.scan(cell, (t + 1) * g, (r, c, jnp.arange(n)))[1], None

    first = g * (1 + jnp.arange(n, dtype=jnp.float32))
    r, _ = lax.scan(row, first, (jnp.arange(c.shape[0], dtype=jnp.float32), c))
    return r[n - 1]


def _wave(h: Any, c: Any, z: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        s, r = state
        left, right = jnp.concatenate([jnp.zeros(1), s[:-1]]), jnp.concatenate([s[1:], jnp.zeros(1)])
        return (2 * s - r + c * c * (left + right - 2 * s) + x, s), None

    (s, _), _ = lax.scan(step, (h, h), z)
    return jnp.sum(s * s)


def _hm_lstm(A: Any, B: Any, D: Any, w: Any, x: Any, h: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c, z = state
        i, f, g = jax.nn.sigmoid(A @ h + x), jax.nn.sigmoid(B @ h + x), jnp.tanh(D @ h + x)
        c = jnp.where(z > 0.5, i * g, f * c + i * g)
        h = jnp.tanh(c)
        return (h, c, jnp.where(w @ h > 0, 1.0, 0.0)), None

    (s, _, _), _ = lax.scan(step, (h, h, 0.0), x)
    return jnp.sum(s * s)


def _state_space(a: Any, B: Any, C: Any, x: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = a * h + B @ x
        return h, C @ h

    _, y = lax.scan(step, jnp.zeros_like(a), x)
    return jnp.sum(y * y)


def _kalman(F: Any, h: Any, q: Any, r: Any, z: Any, m: Any) -> Any:
    def step(state: Any, z: Any) -> Any:
        m, P, total = state
        m, P = F @ m, F @ P @ F.T + q * jnp.eye(m.shape[0])
        k = P @ h
        S = h @ k + r
        e = z - h @ m
        return (m + k * (e / S), P - jnp.outer(k, k) / S, total + jnp.log(S) + e * e / S), None

    (_, _, total), _ = lax.scan(step, (m, jnp.eye(m.shape[0]), 0.0), z)
    return total


def _ctc(p: Any, k: Any) -> Any:
    n = p.shape[1]

    def step(state: Any, p: Any) -> Any:
        a, total = state
        one = jnp.concatenate([jnp.zeros(1), a[:-1]])
        two = jnp.concatenate([jnp.zeros(2), a[:-2]])
        f = (a + one + k * two) * p
        s = jnp.sum(f)
        return (f / s, total + jnp.log(s)), None

    (_, total), _ = lax.scan(step, (jnp.where(jnp.arange(n) < 2, 1.0, 0.0), 0.0), p)
    return total


def _bodies(x: Any, v: Any, m: Any, dt: Any) -> Any:
    def step(state: Any, d: Any) -> Any:
        x, v = state
        x = x + d * v
        apart = x[None, :] - x[:, None]
        return (x, v + d * jnp.sum(m * apart / (apart * apart + 0.1), 1)), None

    (x, _), _ = lax.scan(step, (x, v), dt)
    return jnp.sum(x * x)


def _cholesky(A: Any) -> Any:
    i = jnp.arange(A.shape[0])

    def step(A: Any, t: Any) -> Any:
        c = A[:, t] * (1 / jnp.sqrt(A[t, t]))
        later = (i[:, None] > t) & (i > t)
        return jnp.where(i == t, c[:, None], jnp.where(later, A - c[:, None] * c, A)), None

    L, _ = lax.scan(step, A + A.shape[0] * jnp.eye(A.shape[0]), i)
    return jnp.sum(jnp.where(i <= i[:, None], L, 0))


def _triangular(L: Any, b: Any) -> Any:
    i = jnp.arange(b.shape[0])

    def step(x: Any, t: Any) -> Any:
        return jnp.where(i == t, (b[t] - jnp.sum(jnp.where(i < t, L[t] * x, 0))) / (1 + L[t, t]), x), None

    x, _ = lax.scan(step, b, i)
    return jnp.sum(x * x)


def _elo(r: Any, c: Any, a: Any, b: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        r, total = state
        a, b = x
        p = jax.nn.sigmoid(r[a] - r[b])
        d = c * (1 - p)
        return (r.at[a].add(d).at[b].add(-d), total - jnp.log(p)), None

    (_, total), _ = lax.scan(step, (r, 0.0), (a, b))
    return total


def _factorisation(U: Any, V: Any, c: Any, y: Any, a: Any, b: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        U, V, total = state
        y, a, b = x
        e = y - U[a] @ V[b]
        return (U.at[a].add(c * e * V[b]), V.at[b].add(c * e * U[a]), total + e * e), None

    (_, _, total), _ = lax.scan(step, (U, V, 0.0), (y, a, b))
    return total


def _newton(a: Any, e: Any, w: Any) -> Any:
    def step(s: Any, w: Any) -> Any:
        return jnp.where(jnp.abs(s * s - a) < e, s, w * (s + a / s)), None

    return lax.scan(step, a, w)[0]


def _gate(name: str, x: str = "h[j]") -> str:
    return f"x[t, i] + sum j:n. {name}[i, j] * {x}"


PROGRAMS = (
    Recurrence(
        "tanh RNN",
        "f(W: [n][n]R, u: [T][n]R, h: [n]R) = let s = fold t:T with s = h. "
        "gen i:n. tanh(u[t, i] + sum j:n. W[i, j] * s[j]) in sum i:n. s[i] * s[i]",
        _rnn,
        {"n": 64},
    ),
    Recurrence(
        "heat equation",
        "f(h: [n]R, k: R, z: [T][n]R) = let s = fold t:T with s = h. gen i:n. s[i] + k * ([0 < i] * s[i - 1] + "
        "[i + 1 < n] * s[i + 1] - 2 * s[i]) + z[t, i] in sum i:n. s[i] * s[i]",
        _heat,
        {"n": 256},
    ),
    Recurrence(
        "LSTM",
        "f(A: [n][n]R, B: [n][n]R, C: [n][n]R, D: [n][n]R, x: [T][n]R, h: [n]R) = let s = fold t:T with h = h, c = h. "
        f"let p = gen i:n. sigmoid({_gate('A')}) in let f = gen i:n. sigmoid({_gate('B')}) in "
        f"let o = gen i:n. sigmoid({_gate('C')}) in let g = gen i:n. tanh({_gate('D')}) in "
        "let d = gen i:n. f[i] * c[i] + p[i] * g[i] in (gen i:n. o[i] * tanh(d[i]), d) in "
        "sum i:n. fst(s)[i] * fst(s)[i]",
        _lstm,
        {"n": 64},
    ),
    Recurrence(
        "GRU",
        "f(A: [n][n]R, B: [n][n]R, C: [n][n]R, x: [T][n]R, h: [n]R) = let s = fold t:T with h = h. "
        f"let z = gen i:n. sigmoid({_gate('A')}) in let r = gen i:n. sigmoid({_gate('B')}) in "
        "let q = gen i:n. r[i] * h[i] in "
        f"gen i:n. (1 - z[i]) * h[i] + z[i] * tanh({_gate('C', 'q[j]')}) in sum i:n. s[i] * s[i]",
        _gru,
        {"n": 64},
    ),
    Recurrence(
        "HMM forward",
        "f(a: [n][n]R, e: [T][n]R, p: [n]R) = snd(fold t:T with s = p, l = 0. "
        "let f = gen j:n. e[t, j] * sum i:n. s[i] * a[i, j] in let z = sum j:n. f[j] in "
        "let w = 1 / z in (gen j:n. f[j] * w, l + log(z)))",
        _hmm,
        {"n": 32},
    ),
    Recurrence(
        "Viterbi",
        "f(a: [n][n]R, e: [T][n]R, p: [n]R) = let s = fold t:T with s = p. "
        "gen j:n. e[t, j] + max i:n. 0.5 * s[i] + a[i, j] in max j:n. s[j]",
        _viterbi,
        {"n": 64},
        (10, 50, 250),
    ),
    Recurrence(
        "linear attention",
        "f(q: [T][n]R, k: [T][n]R, v: [T][n]R, g: R) = let S = scan t:T with S = gen i:n, j:n. 0. "
        "gen i:n, j:n. g * S[i, j] + k[t, i] * v[t, j] in "
        "let y = gen t:T, j:n. sum i:n. q[t, i] * S[t, i, j] in sum t:T, j:n. y[t, j] * y[t, j]",
        _attention,
        {"n": 32},
    ),
    Recurrence("Horner", "f(a: [T]R, x: R) = fold t:T with s = 0. s * x + a[t]", _horner, {}),
    Recurrence(
        "cumulative product",
        "f(x: [T]R) = let y = scan t:T with s = 1. s * x[t] in sum t:T. y[t] * y[t]",
        _products,
        {},
    ),
    Recurrence(
        "wave equation",
        "f(h: [n]R, c: R, z: [T][n]R) = let s = fold t:T with s = h, r = h. (gen i:n. 2 * s[i] - r[i] + c * c * "
        "([0 < i] * s[i - 1] + [i + 1 < n] * s[i + 1] - 2 * s[i]) + z[t, i], s) in sum i:n. fst(s)[i] * fst(s)[i]",
        _wave,
        {"n": 256},
        (20, 80, 200),
    ),
    Recurrence(
        "HM-LSTM",
        "f(A: [n][n]R, B: [n][n]R, D: [n][n]R, w: [n]R, x: [T][n]R, h: [n]R) = "
        f"let s = fold t:T with h = h, c = h, z = 0. let p = gen i:n. sigmoid({_gate('A')}) in "
        f"let f = gen i:n. sigmoid({_gate('B')}) in let g = gen i:n. tanh({_gate('D')}) in "
        "let d = gen i:n. if z > 0.5 then p[i] * g[i] else f[i] * c[i] + p[i] * g[i] in "
        "let k = gen i:n. tanh(d[i]) in (k, (d, if (sum i:n. w[i] * k[i]) > 0 then 1 else 0)) in "
        "sum i:n. fst(s)[i] * fst(s)[i]",
        _hm_lstm,
        {"n": 64},
    ),
    Recurrence(
        "state-space model",
        "f(a: [n]R, B: [n][m]R, C: [n]R, x: [T][m]R) = let h = scan t:T with h = gen i:n. 0. "
        "gen i:n. a[i] * h[i] + sum j:m. B[i, j] * x[t, j] in "
        "let y = gen t:T. sum i:n. C[i] * h[t, i] in sum t:T. y[t] * y[t]",
        _state_space,
        {"n": 64, "m": 16},
    ),
    Recurrence(
        "Kalman filter",
        "f(F: [n][n]R, h: [n]R, q: R, r: R, z: [T]R, m: [n]R) = snd(snd(fold t:T with "
        "m = m, P = gen i:n, j:n. [i = j], l = 0. let m1 = gen i:n. sum j:n. F[i, j] * m[j] in "
        "let G = gen i:n, j:n. sum k:n. F[i, k] * P[k, j] in "
        "let Q = gen i:n, j:n. (sum k:n. G[i, k] * F[j, k]) + [i = j] * q in "
        "let k = gen i:n. sum j:n. Q[i, j] * h[j] in let S = (sum i:n. h[i] * k[i]) + r in "
        "let e = z[t] - sum i:n. h[i] * m1[i] in let w = 1 / S in "
        "(gen i:n. m1[i] + k[i] * (e * w), (gen i:n, j:n. Q[i, j] - k[i] * k[j] * w, l + log(S) + e * e * w))))",
        _kalman,
        {"n": 8},
    ),
    Recurrence(
        "CTC",
        "f(p: [T][n]R, k: [n]R) = snd(fold t:T with a = gen i:n. [i < 2], l = 0. "
        "let f = gen j:n. (a[j] + [0 < j] * a[j - 1] + [1 < j] * k[j] * a[j - 2]) * p[t, j] in "
        "let s = sum j:n. f[j] in let w = 1 / s in (gen j:n. f[j] * w, l + log(s)))",
        _ctc,
        {"n": 41},
        (20, 80, 200),  # longer ones have numbers of alignments beyond float32
    ),
    Recurrence(
        "N-body, leapfrog",
        "f(x: [n]R, v: [n]R, m: [n]R, dt: [T]R) = let s = fold t:T with x = x, v = v. "
        "let y = gen i:n. x[i] + dt[t] * v[i] in (y, gen i:n. v[i] + dt[t] * sum j:n. "
        "m[j] * (y[j] - y[i]) / ((y[j] - y[i]) * (y[j] - y[i]) + 0.1)) in sum i:n. fst(s)[i] * fst(s)[i]",
        _bodies,
        {"n": 16},
        (20, 80, 200),
        scale=0.1,  # larger steps are chaotic
    ),
    Recurrence(
        "Cholesky",
        "f(A: [T][T]R) = let L = fold t:T with A = gen i:T, j:T. A[i, j] + [i = j] * real(T). "
        "let d = 1 / sqrt(A[t, t]) in let c = gen i:T. A[i, t] * d in "
        "gen i:T, j:T. [j = t] * c[i] + [j != t] * A[i, j] - [t < i and t < j] * c[i] * c[j] in "
        "sum i:T, j:T. [j <= i] * L[i, j]",
        _cholesky,
        {},
        (4, 16, 64),
    ),
    Recurrence(
        "triangular solve",
        "f(L: [T][T]R, b: [T]R) = let x = fold t:T with x = b. gen i:T. [i = t] * "
        "((b[t] - sum j:T. [j < t] * L[t, j] * x[j]) / (1 + L[t, t])) + [i != t] * x[i] in sum i:T. x[i] * x[i]",
        _triangular,
        {},
        (4, 16, 128),
    ),
    Recurrence(
        "Elo ratings",
        "f(r: [n]R, c: R, a: [T]idx(n), b: [T]idx(n)) = snd(fold t:T with r = r, l = 0. "
        "let p = sigmoid(r[a[t]] - r[b[t]]) in let d = c * (1 - p) in "
        "(gen i:n. r[i] + [i = a[t]] * d - [i = b[t]] * d, l - log(p)))",
        _elo,
        {"n": 1000},
    ),
    Recurrence(
        "online factorisation",
        "f(U: [n][d]R, V: [n][d]R, c: R, y: [T]R, a: [T]idx(n), b: [T]idx(n)) = snd(snd(fold t:T with "
        "U = U, V = V, l = 0. let e = y[t] - sum j:d. U[a[t], j] * V[b[t], j] in "
        "(gen i:n, j:d. U[i, j] + [i = a[t]] * (c * e * V[b[t], j]), "
        "(gen i:n, j:d. V[i, j] + [i = b[t]] * (c * e * U[a[t], j]), l + e * e))))",
        _factorisation,
        {"n": 1000, "d": 8},
        scale=0.5,
    ),
    Recurrence(
        "Newton until",
        "f(a: R, e: R, w: [T]R) = fold t:T with s = a until abs(s * s - a) < e. w[t] * (s + a / s)",
        _newton,
        {},
    ),
    Recurrence(
        "rare events",
        "f(W: [n][n]R, u: [T]R, h: [n]R) = let s = fold t:T with s = h. gen i:n. if 1 < s[0] "
        "then tanh(sum j:n. W[i, j] * s[j]) else 0.95 * s[i] + 0.1 * u[t] in sum i:n. s[i] * s[i]",
        _events,
        {"n": 256},
    ),
    Recurrence(
        "soft edit distance",
        "f(c: [T][n]R, g: R) = let r = fold t:T with r = gen i:n. g * real(i + 1). "
        "scan j:n with z = real(t + 1) * g. -log(exp(-z - g) + exp(-r[j] - g) + "
        "([0 < j] * exp(-r[j - 1] - c[t, j]) + [j = 0] * exp(-real(t) * g - c[t, j]))) in [0 < n] * r[n - 1]",
        _edits,
        {"n": 16},
        (4, 16, 64),
    ),
)

NETWORKS = tuple(
    replace(p, name=f"{p.name}, n = 256", sizes={**p.sizes, "n": 256}, lengths=(25, 100, 400))
    for p in PROGRAMS
    if p.name in ("tanh RNN", "LSTM", "GRU", "HM-LSTM")
)
"""Networks as wide as those in use, where most of the time goes into products."""


def arguments(f: tl.Function, sizes: Mapping[str, int], scale: float = 1) -> list[Any]:
    """Arrays for the parameters of `f` at these sizes: numbers times `scale`, and random indices."""
    rng = np.random.default_rng(0)
    number = lambda a: a.value({s: sizes[s.name] for s in a.sizes})
    found = []
    for p in f.params:
        if isinstance(p, IndexArray):
            found.append(jnp.asarray(rng.integers(0, number(p.size), [number(a) for a in p.sizes]), jnp.int32))
            continue
        assert isinstance(p, Var)
        dims = [number(a) for a in shape(p.type)[0]]
        norm = 1 / max(dims[-1], 1) if len(dims) == 2 and dims[0] == dims[1] else 1
        found.append(jnp.asarray(rng.uniform(0.3, 0.95, dims) * norm * scale, jnp.float32))
    return found


def _times(runs: Sequence[Callable[[], Any]]) -> list[float]:
    """The least time of each, in turns, of a span of calls that takes a millisecond: other programs on the machine
    leave some such spans undisturbed."""
    for run in runs:
        jax.block_until_ready(run())
    start = time.perf_counter()
    jax.block_until_ready(runs[-1]())
    calls = max(1, int(0.001 / (time.perf_counter() - start)))
    least = [float("inf")] * len(runs)
    for _ in range(_ROUNDS if calls > 1 else _ROUNDS // 4):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(calls):
                jax.block_until_ready(run())
            least[k] = min(least[k], (time.perf_counter() - start) / calls)
    return least


def _operations(runs: Sequence[Callable[..., Any]], given: Sequence[Any]) -> str:
    """The columns of operations, empty where the number of a loop's trips is not known before it runs."""
    try:
        value, ours, theirs = (count(run, *given).operations for run in runs)
    except tl.TensorlangError:
        return " | ".join("-----")
    io = sum(x.size for x in given) + 1
    return f"{value:,} | {ours:,} | {theirs:,} | {ours / (value + io):.2f} | {ours / theirs:.2f}"


def main() -> None:
    """Print a row for each program and length."""
    ratios: list[tuple[float, float, float]] = []
    heads = "program | T | value | gradient | JAX's | gradient / (value + in + out) | of JAX's"
    print(f"{heads} | time | value | from JAX | memory")
    for program in (*PROGRAMS, *NETWORKS):
        f = tl.parse(program.text)
        value, ours = jax.jit(tl.lower(f)), jax.jit(tl.lower(tl.grad(f)))
        for length in program.lengths:
            given = arguments(f, {**program.sizes, "T": length}, program.scale)
            numbers = tuple(k for k, x in enumerate(given) if jnp.issubdtype(x.dtype, jnp.floating))
            theirs, taken = (jax.jit(g(program.jax, numbers)) for g in (jax.grad, tl.jax.grad))
            for x, y in zip(jax.tree.leaves(ours(*given)), jax.tree.leaves(theirs(*given)), strict=True):
                np.testing.assert_allclose(x, y, rtol=2e-2, atol=1e-4 * float(jnp.max(jnp.abs(y))))
            counted = _operations([value, ours, theirs], given)
            memory = [run.lower(*given).compile().memory_analysis().temp_size_in_bytes for run in (ours, theirs)]
            times = _times([partial(run, *given) for run in (value, ours, taken, theirs)])
            ratios.append((times[1] / times[3], times[2] / times[3], memory[0] / max(memory[1], 1)))
            print(
                f"{program.name} | {length} | {counted} | "
                f"{times[1] / times[3]:.2f} | {times[0] / times[3]:.2f} | {times[2] / times[3]:.2f} | "
                f"{memory[0] / max(memory[1], 1):.2f}",
                flush=True,
            )
    for name, found in zip(("time", "time from JAX", "memory"), zip(*ratios, strict=True), strict=True):
        print(f"{name}: geometric mean {float(np.exp(np.mean(np.log(found)))):.2f}, at most {max(found):.2f}")


if __name__ == "__main__":
    main()
