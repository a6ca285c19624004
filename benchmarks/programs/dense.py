"""Programs without structure, for which the gradients of others are good."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.case import Case, small


def _mlp(xp: Any, w1: Any, w2: Any, w3: Any, x: Any, t: Any) -> Any:
    return xp.sum((xp.tanh(xp.tanh(x @ w1) @ w2) @ w3 - t) ** 2)


def _mlp_by_hand(w1: Any, w2: Any, w3: Any, x: Any, t: Any) -> Any:
    a = jnp.tanh(x @ w1)
    b = jnp.tanh(a @ w2)
    z_bar = 2 * (b @ w3 - t)
    b_bar = (z_bar @ w3.T) * (1 - b * b)
    a_bar = (b_bar @ w2.T) * (1 - a * a)
    return x.T @ a_bar, a.T @ b_bar, b.T @ z_bar


def _gmm(xp: Any, alpha: Any, mu: Any, q: Any, low: Any, x: Any) -> Any:
    lse = jax.nn.logsumexp if xp is jnp else xp.logsumexp
    strict = xp.tril(low, -1)
    d = x[:, None, :] - mu
    y = xp.exp(q) * d + xp.einsum("kij,nkj->nki", strict, d)
    t = alpha + xp.sum(q, 1) - 0.5 * xp.sum(y**2, 2)
    prior = 0.5 * (xp.sum(xp.exp(q) ** 2) + xp.sum(strict**2)) - 2 * xp.sum(q)
    return xp.sum(lse(t, 1)) - x.shape[0] * lse(alpha, 0) + prior


def _gmm_by_hand(alpha: Any, mu: Any, q: Any, low: Any, x: Any) -> Any:
    """Products with all components at once, with the means moved out: two matrix products in all."""
    (n, d), k, e = x.shape, mu.shape[0], jnp.exp(q)
    strict = jnp.tril(low, -1)
    m = strict + e[:, :, None] * jnp.eye(d, dtype=q.dtype)
    y = (x @ m.reshape(k * d, d).T).reshape(n, k, d) - jnp.einsum("kij,kj->ki", m, mu)
    w = jax.nn.softmax(alpha + jnp.sum(q, 1) - 0.5 * jnp.sum(y * y, 2), 1)
    y_bar = (-w[:, :, None] * y).reshape(n, k * d)
    total, weights = (jnp.ones(n, x.dtype) @ y_bar).reshape(k, d), jnp.ones(n, x.dtype) @ w
    m_bar = (y_bar.T @ x).reshape(k, d, d) - total[:, :, None] * mu[:, None, :]
    q_bar = weights[:, None] + e * jnp.diagonal(m_bar, axis1=1, axis2=2) + e * e - 2
    return weights - n * jax.nn.softmax(alpha), -jnp.einsum("kij,ki->kj", m, total), q_bar, jnp.tril(m_bar, -1) + strict


def _kmeans(xp: Any, c: Any, x: Any) -> Any:
    smallest = (lambda d: jnp.min(d, 1)) if xp is jnp else (lambda d: d.amin(1))
    return xp.sum(smallest(xp.sum((x[:, None, :] - c) ** 2, 2)))


def _kmeans_by_hand(c: Any, x: Any) -> Any:
    d = jnp.sum(c * c, 1) - 2 * (x @ c.T)
    one_hot = jax.nn.one_hot(jnp.argmin(d, 1), c.shape[0], dtype=c.dtype)
    return 2 * (jnp.sum(one_hot, 0)[:, None] * c - one_hot.T @ x)


def _attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    return (jax.nn.softmax(q @ k.T, 1) if xp is jnp else xp.softmax(q @ k.T, 1)) @ v


def _attention_by_hand(q: Any, k: Any, v: Any, y: Any) -> Any:
    p = jax.nn.softmax(q @ k.T, 1)
    p_bar = y @ v.T
    s_bar = p * (p_bar - jnp.sum(p * p_bar, 1, keepdims=True))
    return s_bar @ k, s_bar.T @ q, p.T @ y


def _batch_norm(xp: Any, x: Any, g: Any, b: Any) -> Any:
    d = x - xp.mean(x, 0)
    return g * d / xp.sqrt(xp.mean(d * d, 0) + 1e-5) + b


def _batch_norm_by_hand(x: Any, g: Any, b: Any, y: Any) -> Any:
    d = x - jnp.mean(x, 0)
    r = 1 / jnp.sqrt(jnp.mean(d * d, 0) + 1e-5)
    z = d * r
    g_bar, b_bar = jnp.sum(y * z, 0), jnp.sum(y, 0)
    return g * r * (y - (b_bar + z * g_bar) / x.shape[0]), g_bar, b_bar


_SQUARE = ({"n": 128}, {"n": 512}, {"n": 1024})


CASES = [
    Case(
        name="matrix product",
        suite="dense",
        text="product(A: [n][n]R, B: [n][n]R) = gen i:n, k:n. sum j:n. A[i, j] * B[j, k]",
        program=lambda xp, a, b: a @ b,
        by_hand=lambda a, b, y: (y @ b.T, a.T @ y),
        sizes=_SQUARE,
        odd={"n": 151},
    ),
    Case(
        name="matrix chain",
        suite="dense",
        text="""
          chain(A: [n][n]R, B: [n][n]R, C: [n][n]R, x: [n]R) =
            gen i:n. sum j:n, k:n, l:n. A[i, j] * B[j, k] * C[k, l] * x[l]
        """,
        program=lambda xp, a, b, c, x: a @ (b @ (c @ x)),
        by_hand=lambda a, b, c, x, y: (
            y[:, None] * (b @ (c @ x)),
            (y @ a)[:, None] * (c @ x),
            (y @ a @ b)[:, None] * x,
            y @ a @ b @ c,
        ),
        sizes=_SQUARE,
        odd={"n": 151},
    ),
    Case(
        name="MLP",
        suite="dense",
        text="""
          mlp(W1: [d][h]R, W2: [h][h]R, W3: [h][c]R, X: [n][d]R, T: [n][c]R) =
            let a = gen i:n, k:h. tanh(sum j:d. X[i, j] * W1[j, k]) in
            let b = gen i:n, k:h. tanh(sum j:h. a[i, j] * W2[j, k]) in
            let z = gen i:n, k:c. sum j:h. b[i, j] * W3[j, k] in
            sum i:n, k:c. (z[i, k] - T[i, k])^2
        """,
        wrt=("W1", "W2", "W3"),
        program=_mlp,
        by_hand=_mlp_by_hand,
        draw={"W1": small, "W2": small, "W3": small},
        sizes=tuple({"n": n, "d": 256, "h": 256, "c": 16} for n in (32, 256, 1024)),
        odd={"n": 257, "d": 101, "h": 67, "c": 7},
    ),
    Case(
        name="GMM",
        suite="dense",
        text="""
          gmm(alpha: [K]R, mu: [K][d]R, q: [K][d]R, L: [K][d][d]R, x: [n][d]R) =
            let e = gen k:K, i:d. exp(q[k, i]) in
            let s = gen k:K. sum i:d. q[k, i] in
            let D = gen a:n, k:K, i:d. x[a, i] - mu[k, i] in
            let y = gen a:n, k:K, i:d. e[k, i] * D[a, k, i] + sum j:d. [j < i] * L[k, i, j] * D[a, k, j] in
            let t = gen a:n, k:K. alpha[k] + s[k] - 0.5 * sum i:d. y[a, k, i]^2 in
            let m = gen a:n. max k:K. t[a, k] in
            let l = gen a:n. m[a] + log(sum k:K. exp(t[a, k] - m[a])) in
            let m0 = max k:K. alpha[k] in
            let l0 = m0 + log(sum k:K. exp(alpha[k] - m0)) in
            (sum a:n. l[a] - l0) + 0.5 * ((sum k:K, i:d. e[k, i]^2) + sum k:K, i:d, j:d. [j < i] * L[k, i, j]^2)
              - 2 * sum k:K. s[k]
        """,
        wrt=("alpha", "mu", "q", "L"),
        program=_gmm,
        by_hand=_gmm_by_hand,
        draw={"L": small, "q": small},
        sizes=({"n": 1000, "d": 2, "K": 5}, {"n": 1000, "d": 10, "K": 25}, {"n": 1000, "d": 64, "K": 50}),
        odd={"n": 501, "d": 7, "K": 5},
    ),
    Case(
        name="k-means",
        suite="dense",
        text="kmeans(c: [K][d]R, x: [n][d]R) = sum i:n. min k:K. sum j:d. (x[i, j] - c[k, j])^2",
        wrt=("c",),
        program=_kmeans,
        by_hand=_kmeans_by_hand,
        sizes=({"n": 1_000, "d": 8, "K": 10}, {"n": 10_000, "d": 32, "K": 20}, {"n": 30_000, "d": 32, "K": 20}),
        odd={"n": 3001, "d": 7, "K": 5},
    ),
    Case(
        name="k-means, squares multiplied out",
        suite="dense",
        text="kmeans(c: [K][d]R, x: [n][d]R) = sum i:n. min k:K. sum j:d. (x[i, j] - c[k, j])^2",
        wrt=("c",),
        multiplied_out=True,
        program=_kmeans,
        by_hand=_kmeans_by_hand,
        sizes=({"n": 1_000, "d": 8, "K": 10}, {"n": 10_000, "d": 32, "K": 20}, {"n": 30_000, "d": 32, "K": 20}),
        odd={"n": 3001, "d": 7, "K": 5},
    ),
    Case(
        name="self-attention",
        suite="dense",
        text="""
          attention(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
            let s = gen i:n, j:n. sum a:d. Q[i, a] * K[j, a] in
            let m = gen i:n. max j:n. s[i, j] in
            let p = gen i:n, j:n. exp(s[i, j] - m[i]) in
            let z = gen i:n. sum j:n. p[i, j] in
            gen i:n, a:d. (sum j:n. p[i, j] * V[j, a]) / z[i]
        """,
        program=_attention,
        by_hand=_attention_by_hand,
        draw={"Q": small, "K": small},
        sizes=({"n": 128, "d": 64}, {"n": 512, "d": 64}, {"n": 2048, "d": 64}),
        odd={"n": 251, "d": 17},
    ),
    Case(
        name="self-attention without shift",
        suite="dense",
        text="""
          attention(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
            let p = gen i:n, j:n. exp(sum a:d. Q[i, a] * K[j, a]) in
            let z = gen i:n. sum j:n. p[i, j] in
            gen i:n, a:d. (sum j:n. p[i, j] * V[j, a]) / z[i]
        """,
        program=_attention,
        by_hand=_attention_by_hand,
        draw={"Q": small, "K": small},
        sizes=({"n": 128, "d": 64}, {"n": 512, "d": 64}, {"n": 2048, "d": 64}),
        odd={"n": 251, "d": 17},
    ),
    Case(
        name="batch norm",
        suite="dense",
        text="""
          norm(x: [n][c]R, g: [c]R, b: [c]R) =
            let r = 1 / (sum i:n. 1) in
            let m = gen k:c. r * sum i:n. x[i, k] in
            let d = gen i:n, k:c. x[i, k] - m[k] in
            let v = gen k:c. r * sum i:n. d[i, k]^2 in
            let s = gen k:c. 1 / sqrt(v[k] + 0.00001) in
            gen i:n, k:c. g[k] * d[i, k] * s[k] + b[k]
        """,
        program=_batch_norm,
        by_hand=_batch_norm_by_hand,
        sizes=({"n": 128, "c": 64}, {"n": 1024, "c": 128}, {"n": 8192, "c": 128}),
        odd={"n": 5001, "c": 7},
    ),
]
