"""The evaluations of GradBench that can be written as programs of arrays, beside JAX.

    python -m benchmarks.gradbench [--quick]

    gmm       gradient of the likelihood of a mixture whose triangular matrices are packed
    ba        Jacobian of reprojection errors, in which cameras and points are gathered, as its non-zero blocks
    kmeans    gradient and the diagonal of the Hessian
    lse       gradient of a stable logsumexp
    llsq      gradient of a least-squares fit of a polynomial
    ode       gradient through steps of Runge and Kutta
    lstm      gradient through a network of two recurrent layers
    det       gradient of a determinant, by elimination

The problems are those of GradBench (https://github.com/gradbench/gradbench); the programs, in both languages, are our
own. GradBench computes det by minors; ht and the simulations are left out here. Both programs are compiled by XLA and
take turns in rounds; the ratio is the median of their ratios. Answers are compared with one another, relative to the
largest element.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorlang as tl
from benchmarks.reference import distance

Array = Any
Arguments = list[Any]
_WRONG = 1e-3


@dataclass(frozen=True)
class Evaluation:
    """A problem: how we compute it, how JAX does, and its arguments at sizes that grow."""

    name: str
    ours: Callable[[], Callable[..., Any]]
    jax: Callable[..., Any]
    arguments: Callable[..., Arguments]
    sizes: Sequence[Mapping[str, int]]


def _normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=dims).astype(np.float32)


# gmm

_GMM = """
  gmm(alpha: [K]R, mu: [K][d]R, icf: [K][q]R, x: [n][d]R, own: [d]idx(q), at: [d][d]idx(q), gamma: R, m: R) =
    let e = gen k:K, i:d. exp(icf[k, own[i]]) in
    let L = gen k:K, i:d, j:d. [j < i] * icf[k, at[i, j]] in
    let s = gen k:K. sum i:d. icf[k, own[i]] in
    let D = gen a:n, k:K, i:d. x[a, i] - mu[k, i] in
    let y = gen a:n, k:K, i:d. e[k, i] * D[a, k, i] + sum j:d. L[k, i, j] * D[a, k, j] in
    let t = gen a:n, k:K. alpha[k] + s[k] - 0.5 * sum i:d. y[a, k, i]^2 in
    let top = gen a:n. max k:K. t[a, k] in
    let l = gen a:n. top[a] + log(sum k:K. exp(t[a, k] - top[a])) in
    let top0 = max k:K. alpha[k] in
    let l0 = top0 + log(sum k:K. exp(alpha[k] - top0)) in
    (sum a:n. l[a] - l0)
      + 0.5 * gamma^2 * ((sum k:K, i:d. e[k, i]^2) + sum k:K, i:d, j:d. L[k, i, j]^2) - m * sum k:K. s[k]
"""


def _gmm(alpha: Array, mu: Array, icf: Array, x: Array, own: Array, at: Array, gamma: Array, m: Array) -> Array:
    d = x.shape[1]
    rows, columns = np.tril_indices(d, -1)
    q = icf[:, :d]
    low = jnp.zeros((mu.shape[0], d, d)).at[:, rows, columns].set(icf[:, at[rows, columns]])
    apart = x[:, None, :] - mu
    y = jnp.exp(q) * apart + jnp.einsum("kij,nkj->nki", low, apart)
    t = alpha + jnp.sum(q, 1) - 0.5 * jnp.sum(y**2, 2)
    prior = 0.5 * gamma**2 * (jnp.sum(jnp.exp(q) ** 2) + jnp.sum(low**2)) - m * jnp.sum(q)
    return jnp.sum(jax.nn.logsumexp(t, axis=1)) - x.shape[0] * jax.nn.logsumexp(alpha) + prior


def _gmm_arguments(n: int, d: int, K: int) -> Arguments:
    at = np.zeros((d, d), np.int32)
    columns, rows = np.triu_indices(d, 1)  # column after column
    at[rows, columns] = d + np.arange(len(rows))
    q = d + len(rows)
    given = [_normal(K), _normal(K, d, seed=1), _normal(K, q, seed=2) / d, _normal(n, d, seed=3)]
    return [*given, np.arange(d, dtype=np.int32), at, np.float32(1), np.float32(0)]


# ba

_BA = """
  ba(r: [n][3]R, C: [n][3]R, f: [n]R, x0: [n][2]R, k: [n][2]R, X: [m][3]R, w: [p]R, seen: [p][2]R,
     a: [p]idx(n), b: [p]idx(m)) =
    let angle = gen i:n. sqrt(sum c:3. r[i, c]^2) in
    let v = gen i:n, c:3. r[i, c] / angle[i] in
    let y = gen i:p, c:3. X[b[i], c] - C[a[i], c] in
    let along = gen i:p. sum c:3. v[a[i], c] * y[i, c] in
    let across = gen i:p, c:3.
      [c = 0] * (v[a[i], 1] * y[i, 2] - v[a[i], 2] * y[i, 1])
      + [c = 1] * (v[a[i], 2] * y[i, 0] - v[a[i], 0] * y[i, 2])
      + [c = 2] * (v[a[i], 0] * y[i, 1] - v[a[i], 1] * y[i, 0]) in
    let P = gen i:p, c:3. y[i, c] * cos(angle[a[i]]) + across[i, c] * sin(angle[a[i]])
      + (1 - cos(angle[a[i]])) * along[i] * v[a[i], c] in
    let e = gen i:p, c:2. P[i, c] / P[i, 2] in
    let d = gen i:p. e[i, 0]^2 + e[i, 1]^2 in
    gen i:p, c:2. w[i] * (f[a[i]] * e[i, c] * (1 + k[a[i], 0] * d[i] + k[a[i], 1] * d[i]^2) + x0[a[i], c] - seen[i, c])
"""


def _error(r: Array, C: Array, f: Array, x0: Array, k: Array, X: Array, w: Array, seen: Array) -> Array:
    """The error of one observation."""
    angle = jnp.sqrt(r @ r)
    v, y = r / angle, X - C
    p = y * jnp.cos(angle) + jnp.cross(v, y) * jnp.sin(angle) + (1 - jnp.cos(angle)) * (v @ y) * v
    e = p[:2] / p[2]
    d = e @ e
    return w * (f * e * (1 + k[0] * d + k[1] * d * d) + x0 - seen)


_BLOCKS = jax.vmap(jax.jacrev(_error, argnums=tuple(range(7))))


def _ba(
    r: Array, C: Array, f: Array, x0: Array, k: Array, X: Array, w: Array, seen: Array, a: Array, b: Array
) -> Array:
    return _BLOCKS(r[a], C[a], f[a], x0[a], k[a], X[b], w, seen)


def _our_ba() -> Callable[..., Any]:
    jacobian: Any = tl.jacobian(tl.parse(_BA), ("r", "C", "f", "x0", "k", "X", "w"), layout="structured")
    by_x0 = 3

    def blocks(*arguments: Any) -> Any:
        """The blocks [p][2][..] of the Jacobian by each parameter; the block by x0 is diagonal, and is returned as a
        diagonal."""
        pieces = jax.tree.leaves(jacobian(*arguments), is_leaf=lambda x: isinstance(x, list))
        found = [x for ((x, _, _),) in pieces]
        found[by_x0] = found[by_x0][:, :, None] * jnp.eye(2)
        return found

    return blocks


def _ba_arguments(n: int, m: int, p: int) -> Arguments:
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(m, 3)) + np.array([0, 0, 20])).astype(np.float32)
    cameras = [0.2 * _normal(n, 3), _normal(n, 3, seed=1), _normal(n, seed=2) + 10, _normal(n, 2), 0.1 * _normal(n, 2)]
    a, b = np.sort(rng.integers(n, size=p)).astype(np.int32), rng.integers(m, size=p).astype(np.int32)
    return [*cameras, points, _normal(p, seed=4), _normal(p, 2, seed=5), a, b]


# kmeans

_KMEANS = "kmeans(c: [K][d]R, x: [n][d]R) = sum i:n. min k:K. sum j:d. (x[i, j] - c[k, j])^2"


def _kmeans(c: Array, x: Array) -> Array:
    return jnp.sum(jnp.min(jnp.sum((x[:, None, :] - c) ** 2, 2), 1))


def _our_kmeans() -> Callable[..., Any]:
    f = tl.parse(_KMEANS)
    gradient, hessian = tl.lower(tl.grad(f, "c")), tl.hessian(f, "c", layout="structured")

    def both(c: Array, x: Array) -> Any:
        ((diagonal, _, _),) = hessian(c, x)
        return gradient(c, x), diagonal

    return both


def _kmeans_newton(c: Array, x: Array) -> Any:
    return jax.jvp(jax.grad(_kmeans), (c, x), (jnp.ones_like(c), jnp.zeros_like(x)))


# lse, llsq

_LSE = "lse(x: [n]R) = let m = max i:n. x[i] in m + log(sum i:n. exp(x[i] - m))"
_LLSQ = "llsq(x: [m]R, V: [n][m]R, s: [n]R) = 0.5 * sum i:n. (s[i] - sum j:m. x[j] * V[i, j])^2"


def _llsq_arguments(n: int, m: int) -> Arguments:
    t = np.linspace(-1, 1, n)
    return [_normal(m), np.vander(t, m, increasing=True).astype(np.float32), np.sign(t).astype(np.float32)]


# ode

_ODE = """
  ode(x: [n + 1]R, h: [s]R) =
    let last = fold t:s with y = gen i:n + 1. 0.
      let k1 = gen i:n + 1. ([i = 0] + [0 < i] * y[i - 1]) * x[i] in
      let k2 = gen i:n + 1. ([i = 0] + [0 < i] * (y[i - 1] + 0.5 * h[t] * k1[i - 1])) * x[i] in
      let k3 = gen i:n + 1. ([i = 0] + [0 < i] * (y[i - 1] + 0.5 * h[t] * k2[i - 1])) * x[i] in
      let k4 = gen i:n + 1. ([i = 0] + [0 < i] * (y[i - 1] + h[t] * k3[i - 1])) * x[i] in
      gen i:n + 1. y[i] + h[t] / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) in
    last[n]
"""


def _ode(x: Array, h: Array) -> Array:
    rate = lambda y: x * jnp.concatenate([jnp.ones(1), y[:-1]])

    def step(y: Array, h: Array) -> tuple[Array, None]:
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(y + h * k3)), None

    return lax.scan(step, jnp.zeros_like(x), h)[0][-1]


# lstm


def _layer(k: int, read: str) -> str:
    """The next cell and hidden state of a layer that reads `read`: the forget, input and output gates, and the
    change."""
    w, h, c = 2 * k, f"h{k}", f"c{k}"
    return f"""
      let n{c} = gen i:d. {c}[i] * sigmoid({read}[i] * w[{w}, 0, i] + w[{w + 1}, 0, i])
        + sigmoid({h}[i] * w[{w}, 1, i] + w[{w + 1}, 1, i]) * tanh({h}[i] * w[{w}, 3, i] + w[{w + 1}, 3, i]) in
      let n{h} = gen i:d. sigmoid({read}[i] * w[{w}, 2, i] + w[{w + 1}, 2, i]) * tanh(n{c}[i]) in"""


_LSTM = f"""
  lstm(w: [4][4][d]R, g: [3][d]R, h: [2][d]R, c: [2][d]R, x: [T + 1][d]R) =
    let y = scan t:T with h0 = (gen i:d. h[0, i]), c0 = (gen i:d. c[0, i]), h1 = (gen i:d. h[1, i]), 
        c1 = gen i:d. c[1, i].
      let r = gen i:d. x[t, i] * g[0, i] in {_layer(0, "r")} {_layer(1, "nh0")}
      (nh0, (nc0, (nh1, nc1))) in
    let p = gen t:T, i:d. fst(snd(snd(y[t])))[i] * g[1, i] + g[2, i] in
    let z = gen t:T. log(2 + sum i:d. exp(p[t, i])) in
    -sum t:T, i:d. x[t + 1, i] * (p[t, i] - z[t])
"""


def _lstm(w: Array, g: Array, h: Array, c: Array, x: Array) -> Array:
    def layer(k: int, read: Array, h: Array, c: Array) -> tuple[Array, Array]:
        (f, i, o, a), (bf, bi, bo, ba) = w[2 * k], w[2 * k + 1]
        c = c * jax.nn.sigmoid(read * f + bf) + jax.nn.sigmoid(h * i + bi) * jnp.tanh(h * a + ba)
        return jax.nn.sigmoid(read * o + bo) * jnp.tanh(c), c

    def step(state: Any, x: Array) -> tuple[Any, Array]:
        h0, c0, h1, c1 = state
        h0, c0 = layer(0, x * g[0], h0, c0)
        h1, c1 = layer(1, h0, h1, c1)
        return (h0, c0, h1, c1), h1

    _, y = lax.scan(step, (h[0], c[0], h[1], c[1]), x[:-1])
    p = y * g[1] + g[2]
    return -jnp.sum(x[1:] * (p - jnp.log(2 + jnp.sum(jnp.exp(p), 1, keepdims=True))))


# det

_DET = """
  det(A: [n][n]R) =
    let U = fold k:n with B = A. gen i:n, j:n. B[i, j] - [k < i] * B[i, k] * B[k, j] / B[k, k] in
    fold k:n with p = 1. p * U[k, k]
"""


def _det(A: Array) -> Array:
    n = A.shape[0]

    def step(B: Array, k: Array) -> tuple[Array, None]:
        below = jnp.where(jnp.arange(n) > k, B[:, k] / B[k, k], 0)
        return B - below[:, None] * B[k], None

    return jnp.prod(jnp.diagonal(lax.scan(step, A, jnp.arange(n))[0]))


def _gradient(text: str, *wrt: str) -> Callable[[], Callable[..., Any]]:
    return lambda: tl.lower(tl.grad(tl.parse(text), wrt))


EVALUATIONS = (
    Evaluation(
        "gmm",
        _gradient(_GMM, "alpha", "mu", "icf"),
        jax.grad(_gmm, (0, 1, 2)),
        _gmm_arguments,
        ({"n": 1000, "d": 2, "K": 5}, {"n": 1000, "d": 10, "K": 25}, {"n": 1000, "d": 64, "K": 25}),
    ),
    Evaluation(
        "ba",
        _our_ba,
        _ba,
        _ba_arguments,
        ({"n": 49, "m": 776, "p": 31_843}, {"n": 93, "m": 6102, "p": 125_000}),
    ),
    Evaluation(
        "kmeans",
        _our_kmeans,
        _kmeans_newton,
        lambda n, d, K: [_normal(K, d), _normal(n, d, seed=1)],
        ({"n": 1000, "d": 8, "K": 10}, {"n": 10_000, "d": 32, "K": 20}, {"n": 50_000, "d": 32, "K": 20}),
    ),
    Evaluation(
        "lse",
        _gradient(_LSE, "x"),
        jax.grad(jax.nn.logsumexp),
        lambda n: [_normal(n)],
        ({"n": 1000}, {"n": 100_000}, {"n": 1_000_000}),
    ),
    Evaluation(
        "llsq",
        _gradient(_LLSQ, "x"),
        jax.grad(lambda x, V, s: 0.5 * jnp.sum((s - V @ x) ** 2)),
        _llsq_arguments,
        ({"n": 1024, "m": 32}, {"n": 16_384, "m": 128}, {"n": 131_072, "m": 128}),
    ),
    Evaluation(
        "ode",
        _gradient(_ODE, "x"),
        jax.grad(_ode),
        lambda n, s: [1 + 0.1 * _normal(n + 1), np.full(s, 2 / s, np.float32)],
        ({"n": 10, "s": 100}, {"n": 100, "s": 500}, {"n": 1000, "s": 500}),
    ),
    Evaluation(
        "lstm",
        _gradient(_LSTM, "w", "g"),
        jax.grad(_lstm, (0, 1)),
        lambda T, d: [_normal(4, 4, d), *(_normal(k, d, seed=k) for k in (3, 2, 2)), np.abs(_normal(T + 1, d)) / d],
        ({"T": 256, "d": 14}, {"T": 1024, "d": 14}, {"T": 1024, "d": 256}),
    ),
    Evaluation(
        "det",
        _gradient(_DET, "A"),
        jax.grad(_det),
        lambda n: [np.eye(n, dtype=np.float32) * 1.1 + _normal(n, n) / (3 * n)],
        ({"n": 8}, {"n": 32}, {"n": 128}),
    ),
)


def in_turns(fns: Sequence[Callable[..., Any]], arguments: Arguments, rounds: int) -> list[list[float]]:
    """Seconds of each function in rounds, in which they take turns: those of the fastest of some calls."""
    found: list[list[float]] = [[] for _ in fns]
    start = time.perf_counter()
    jax.block_until_ready(fns[0](*arguments))
    calls = max(1, min(20, int(0.01 / (time.perf_counter() - start))))
    for _ in range(rounds):
        for fn, seconds in zip(fns, found, strict=True):
            times = []
            for _ in range(calls):
                start = time.perf_counter()
                jax.block_until_ready(fn(*arguments))
                times.append(time.perf_counter() - start)
            seconds.append(min(times))
    return found


def leaves(found: Any) -> tuple[Any, ...]:
    """The arrays of a result."""
    return tuple(np.asarray(x) for x in jax.tree.leaves(found))


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if answers differ."""
    quick = "--quick" in arguments
    print(f"{'evaluation':12}{'sizes':28}{'ours, us':>10}{'before, s':>11}{'JAX, us':>10}{'before, s':>11}{'ratio':>7}")
    wrong, ratios = False, []
    for e in EVALUATIONS:
        for sizes in e.sizes[: 1 if quick else None]:
            given = [jnp.asarray(x) for x in e.arguments(**sizes)]
            start = time.perf_counter()
            ours = jax.jit(e.ours())
            found = jax.block_until_ready(ours(*given))
            middle = time.perf_counter()
            theirs = jax.jit(e.jax)
            wanted = jax.block_until_ready(theirs(*given))
            end = time.perf_counter()
            mine, his = in_turns([ours, theirs], given, 3 if quick else 21)
            ratios.append(statistics.median(a / b for a, b in zip(mine, his, strict=True)))
            row = f"{e.name:12}{' '.join(f'{k}={n}' for k, n in sizes.items()):28}"
            row += f"{statistics.median(mine) * 1e6:10.0f}{middle - start:11.2f}"
            row += f"{statistics.median(his) * 1e6:10.0f}{end - middle:11.2f}{ratios[-1]:7.2f}"
            if not distance(leaves(found), leaves(wanted)) <= _WRONG:
                row += "  answers differ"
                wrong = True
            print(row, flush=True)
    mean = np.exp(np.mean(np.log(ratios)))
    print(
        f"geometric mean of the ratios: {mean:.2f}, worst {max(ratios):.2f}; "
        f"{sum(r <= 1.1 for r in ratios)} of {len(ratios)} at most 1.1"
    )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
