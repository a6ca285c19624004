"""The programs that the other papers measure: small expressions, factorisation, cameras, small models, a cell."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.case import Case, Draw, positive, small


def _state(which: int) -> Draw:
    """Where the cell updates (0), copies (1), and flushes (2): the same random states for all three."""

    def draw(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
        return np.random.default_rng(7).integers(3, size=dims) == which

    return draw


def _nnmf_by_hand(u: Any, v: Any, a: Any) -> Any:
    w = 1 / (u[:, None] * v)
    return u @ (w - a * w * w)


def _nnmf(xp: Any, u: Any, v: Any, a: Any) -> Any:
    b = xp.outer(u, v)
    return xp.sum(xp.log(b) + a / b)


def _nnmf_rank(xp: Any, w: Any, h: Any, a: Any) -> Any:
    b = w @ h
    return xp.sum(xp.log(b) + a / b)


def _nnmf_rank_by_hand(w: Any, h: Any, a: Any) -> Any:
    r = 1 / (w @ h)
    return w.T @ (r - a * r * r)


_PROJECT = """
  project(r: [3]R, C: [3]R, f: R, x0: [2]R, k: [2]R, X: [n][3]R) =
    let angle = sqrt(sum a:3. r[a]^2) in
    let v = gen a:3. r[a] / angle in
    let c = cos(angle) in
    let s = sin(angle) in
    let Y = gen i:n, a:3. X[i, a] - C[a] in
    let along = gen i:n. (1 - c) * sum a:3. v[a] * Y[i, a] in
    let p0 = gen i:n. Y[i, 0] * c + (v[1] * Y[i, 2] - v[2] * Y[i, 1]) * s + v[0] * along[i] in
    let p1 = gen i:n. Y[i, 1] * c + (v[2] * Y[i, 0] - v[0] * Y[i, 2]) * s + v[1] * along[i] in
    let p2 = gen i:n. Y[i, 2] * c + (v[0] * Y[i, 1] - v[1] * Y[i, 0]) * s + v[2] * along[i] in
    let e0 = gen i:n. p0[i] / p2[i] in
    let e1 = gen i:n. p1[i] / p2[i] in
    let d = gen i:n. e0[i]^2 + e1[i]^2 in
    let h = gen i:n. f * (1 + k[0] * d[i] + k[1] * d[i]^2) in
    gen i:n, a:2. [a = 0] * (h[i] * e0[i] + x0[0]) + [a = 1] * (h[i] * e1[i] + x0[1])
"""


def _project(xp: Any, r: Any, centre: Any, f: Any, x0: Any, k: Any, points: Any) -> Any:
    angle = xp.sqrt(xp.sum(r * r))
    v = r / angle
    y = points - centre
    across = xp.stack(
        [v[1] * y[:, 2] - v[2] * y[:, 1], v[2] * y[:, 0] - v[0] * y[:, 2], v[0] * y[:, 1] - v[1] * y[:, 0]], 1
    )
    p = y * xp.cos(angle) + across * xp.sin(angle) + ((1 - xp.cos(angle)) * (y @ v))[:, None] * v
    e = p[:, :2] / p[:, 2:]
    d = xp.sum(e * e, 1)[:, None]
    return f * e * (1 + k[0] * d + k[1] * d * d) + x0


def _rotation(r: Any) -> Any:
    """The matrix that turns by the angle |r| around r."""
    angle = jnp.sqrt(r @ r)
    v = r / angle
    across = jnp.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return jnp.cos(angle) * jnp.eye(3) + jnp.sin(angle) * across + (1 - jnp.cos(angle)) * v[:, None] * v


def _project_by_hand(r: Any, centre: Any, f: Any, x0: Any, k: Any, points: Any, y: Any) -> Any:
    """A matrix for the rotation; the coordinates in arrays of their own."""
    turn, turned_back = jax.vjp(_rotation, r)
    near = points - centre
    p = turn @ near.T
    e, back, y = p[:2] / p[2], 1 / p[2], y.T
    d = e[0] * e[0] + e[1] * e[1]
    h, along = 1 + (k[0] + k[1] * d) * d, y[0] * e[0] + y[1] * e[1]
    e_bar = f * (h * y + 2 * along * (k[0] + 2 * k[1] * d) * e)
    p_bar = jnp.stack([e_bar[0] * back, e_bar[1] * back, -(e_bar[0] * e[0] + e_bar[1] * e[1]) * back])
    rest = jnp.stack([y[0], y[1], along * h, f * along * d, f * along * d * d, *p_bar]) @ jnp.ones(d.shape, d.dtype)
    return turned_back(p_bar @ near)[0], -rest[5:] @ turn, rest[2], rest[:2], rest[3:5]


def _project_jacobian_by_hand(r: Any, centre: Any, f: Any, x0: Any, k: Any, points: Any) -> Any:
    """Like the gradient: points stay along the last axis until the end."""
    turn, turns = _rotation(r), jax.jacfwd(_rotation)(r)
    near = (points - centre).T
    p = turn @ near
    e, back = p[:2] / p[2], 1 / p[2]
    d = e[0] * e[0] + e[1] * e[1]
    h, slope = 1 + (k[0] + k[1] * d) * d, 2 * (k[0] + 2 * k[1] * d)
    cross = f * slope * e[0] * e[1]
    both = f * (h + slope * e * e)
    by_e = jnp.stack([jnp.stack([both[0], cross]), jnp.stack([cross, both[1]])])
    by_p = jnp.concatenate([by_e, -(by_e[:, :1] * e[0] + by_e[:, 1:] * e[1])], 1) * back
    turned = (turns.transpose(0, 2, 1).reshape(9, 3) @ near).reshape(3, 3, -1)
    by_r = sum(by_p[:, b, None] * turned[b] for b in range(3))
    by_c = -sum(by_p[:, b, None] * turn[b][:, None] for b in range(3))
    by_x0 = jnp.broadcast_to(jnp.eye(2, dtype=e.dtype), (d.shape[0], 2, 2))
    by_k = f * e[:, None] * jnp.stack([d, d * d])
    last = lambda a: jnp.moveaxis(a, -1, 0)
    return last(by_r), last(by_c), last(h * e), by_x0, last(by_k)


def _far(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    return (rng.normal(size=dims) + np.array([0, 0, 20])).astype(np.float32)


def _slight(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    return (0.2 * rng.normal(size=dims)).astype(np.float32)


_CAMERA = {"X": _far, "r": _slight, "k": small}
_WRT = ("r", "C", "f", "x0", "k")


def _logistic(xp: Any, w: Any, b: Any, x: Any, y: Any) -> Any:
    softplus = jax.nn.softplus if xp is jnp else xp.nn.functional.softplus
    return xp.sum(softplus(-y * (x @ w + b)))


def _logistic_by_hand(w: Any, b: Any, x: Any, y: Any) -> Any:
    z_bar = -y * jax.nn.sigmoid(-y * (x @ w + b))
    return z_bar @ x, jnp.sum(z_bar)


def _mlp(xp: Any, w1: Any, b1: Any, w2: Any, b2: Any, x: Any, t: Any) -> Any:
    relu = jax.nn.relu if xp is jnp else xp.relu
    z = relu(x @ w1.T + b1) @ w2.T + b2
    return xp.sum(xp.log(xp.sum(xp.exp(z), 1))) - xp.sum(t * z)


def _mlp_by_hand(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, t: Any) -> Any:
    h = jax.nn.relu(x @ w1.T + b1)
    z_bar = jax.nn.softmax(h @ w2.T + b2, 1) - t
    h_bar = jnp.where(h > 0, z_bar @ w2, 0)
    return h_bar.T @ x, h_bar.sum(0), z_bar.T @ h, z_bar.sum(0)


def _cell(xp: Any, c: Any, f: Any, i: Any, g: Any, update: Any, copy: Any, flush: Any) -> Any:
    sigmoid = jax.nn.sigmoid if xp is jnp else xp.sigmoid
    new = sigmoid(i) * xp.tanh(g)
    return xp.where(update, sigmoid(f) * c + new, 0) + xp.where(copy, c, 0) + xp.where(flush, new, 0)


def _cell_by_hand(c: Any, f: Any, i: Any, g: Any, update: Any, copy: Any, flush: Any, y: Any) -> Any:
    a, b, t = jax.nn.sigmoid(f), jax.nn.sigmoid(i), jnp.tanh(g)
    kept, new = jnp.where(update, y, 0), jnp.where(update | flush, y, 0)
    return kept * a + jnp.where(copy, y, 0), kept * c * a * (1 - a), new * t * b * (1 - b), new * b * (1 - t * t)


def _one_hot(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    return np.eye(dims[1], dtype=np.float32)[rng.integers(dims[1], size=dims[0])]


def _signs(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    return rng.choice(np.array([-1, 1], np.float32), size=dims)


_VECTORS = ({"n": 1_000}, {"n": 100_000}, {"n": 1_000_000})

CASES = [
    Case(
        name="gradient of dot",
        suite="seeds",
        text="dot(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]",
        wrt=("x",),
        program=lambda xp, x, y: xp.sum(x * y),
        by_hand=lambda x, y: y + 0,
        sizes=_VECTORS,
        odd={"n": 30_001},
    ),
    Case(
        name="gradient of max",
        suite="seeds",
        text="largest(x: [n]R) = max i:n. x[i]",
        program=lambda xp, x: xp.max(x),
        by_hand=lambda x: jnp.zeros_like(x).at[jnp.argmax(x)].set(1),
        sizes=_VECTORS,
        odd={"n": 30_001},
    ),
    Case(
        name="Jacobian of vector addition",
        suite="seeds",
        what="jacobian",
        text="added(x: [n]R, y: [n]R) = gen i:n. x[i] + y[i]",
        wrt=("x",),
        program=lambda xp, x, y: x + y,
        by_hand=lambda x, y: jnp.eye(x.shape[0], dtype=x.dtype),
        sizes=({"n": 100}, {"n": 1000}, {"n": 2000}),
        odd={"n": 301},
    ),
    Case(
        name="Jacobian of a vector times a number",
        suite="seeds",
        what="jacobian",
        text="scaled(c: R, x: [n]R) = gen i:n. c * x[i]",
        wrt=("c",),
        program=lambda xp, c, x: c * x,
        by_hand=lambda c, x: x + 0,
        sizes=_VECTORS,
        odd={"n": 30_001},
    ),
    Case(
        name="NNMF",
        suite="seeds",
        text="""
          nnmf(u: [n]R, v: [n]R, A: [n][n]R) =
            let b = gen i:n, j:n. u[i] * v[j] in
            sum i:n, j:n. log(b[i, j]) + A[i, j] / b[i, j]
        """,
        wrt=("v",),
        program=_nnmf,
        by_hand=_nnmf_by_hand,
        draw={"u": positive, "v": positive, "A": positive},
        sizes=({"n": 100}, {"n": 1000}, {"n": 2000}),
        odd={"n": 301},
    ),
    Case(
        name="NNMF, rank 8",
        suite="seeds",
        text="""
          nnmf(W: [n][8]R, H: [8][n]R, A: [n][n]R) =
            let b = gen i:n, j:n. sum k:8. W[i, k] * H[k, j] in
            sum i:n, j:n. log(b[i, j]) + A[i, j] / b[i, j]
        """,
        wrt=("H",),
        program=_nnmf_rank,
        by_hand=_nnmf_rank_by_hand,
        draw={"W": positive, "H": positive, "A": positive},
        sizes=({"n": 100}, {"n": 1000}, {"n": 2000}),
        odd={"n": 301},
    ),
    Case(
        name="bundle adjustment: project",
        suite="seeds",
        text=_PROJECT,
        wrt=_WRT,
        program=_project,
        by_hand=_project_by_hand,
        draw=_CAMERA,
        sizes=({"n": 1_000}, {"n": 10_000}, {"n": 100_000}),
        odd={"n": 10_001},
    ),
    Case(
        name="bundle adjustment: Jacobian",
        suite="seeds",
        what="jacobian",
        text=_PROJECT,
        wrt=_WRT,
        program=_project,
        by_hand=_project_jacobian_by_hand,
        draw=_CAMERA,
        sizes=({"n": 1_000}, {"n": 10_000}, {"n": 100_000}),
        odd={"n": 1_001},
    ),
    Case(
        name="sincos",
        suite="seeds",
        text="sincos(x: R) = sin(x) * cos(x)",
        program=lambda xp, x: xp.sin(x) * xp.cos(x),
        by_hand=lambda x: jnp.cos(2 * x),
        sizes=({},),
        odd={},
    ),
    Case(
        name="logsumexp",
        suite="seeds",
        text="logsumexp(x: [n]R) = log(sum i:n. exp(x[i]))",
        program=lambda xp, x: xp.log(xp.sum(xp.exp(x))),
        by_hand=jax.nn.softmax,
        sizes=_VECTORS,
        odd={"n": 30_001},
    ),
    Case(
        name="logsumexp, stable",
        suite="seeds",
        text="logsumexp(x: [n]R) = let m = max i:n. x[i] in m + log(sum i:n. exp(x[i] - m))",
        program=lambda xp, x: jax.nn.logsumexp(x),
        torch=lambda x: x.logsumexp(0),
        by_hand=jax.nn.softmax,
        sizes=_VECTORS,
        odd={"n": 30_001},
    ),
    Case(
        name="logistic regression",
        suite="seeds",
        text="""
          logistic(w: [d]R, b: R, X: [n][d]R, y: [n]R) =
            sum i:n. softplus(-y[i] * ((sum j:d. X[i, j] * w[j]) + b))
        """,
        wrt=("w", "b"),
        program=_logistic,
        by_hand=_logistic_by_hand,
        draw={"y": _signs, "w": small},
        sizes=({"n": 1_000, "d": 10}, {"n": 10_000, "d": 100}, {"n": 50_000, "d": 100}),
        odd={"n": 5_001, "d": 7},
    ),
    Case(
        name="2-layer MLP, MNIST",
        suite="seeds",
        text="""
          mlp(W1: [h][d]R, b1: [h]R, W2: [c][h]R, b2: [c]R, X: [n][d]R, T: [n][c]R) =
            let y = gen i:n, k:h. relu((sum j:d. X[i, j] * W1[k, j]) + b1[k]) in
            let z = gen i:n, l:c. (sum k:h. y[i, k] * W2[l, k]) + b2[l] in
            (sum i:n. log(sum l:c. exp(z[i, l]))) - sum i:n, l:c. T[i, l] * z[i, l]
        """,
        wrt=("W1", "b1", "W2", "b2"),
        program=_mlp,
        by_hand=_mlp_by_hand,
        draw={"W1": small, "W2": small, "T": _one_hot},
        sizes=tuple({"n": n, "d": 784, "h": 32, "c": 10} for n in (1, 64, 512)),
        odd={"n": 65, "d": 301, "h": 33, "c": 10},
    ),
    Case(
        name="HM-LSTM cell",
        suite="seeds",
        text="""
          cell(c: [n][n]R, f: [n][n]R, i: [n][n]R, g: [n][n]R, update: rel(n, n), copy: rel(n, n), flush: rel(n, n)) =
            let new = gen a:n, b:n. sigmoid(i[a, b]) * tanh(g[a, b]) in
            gen a:n, b:n.
              [update(a, b)] * (sigmoid(f[a, b]) * c[a, b] + new[a, b])
              + [copy(a, b)] * c[a, b]
              + [flush(a, b)] * new[a, b]
        """,
        wrt=("c", "f", "i", "g"),
        program=_cell,
        by_hand=_cell_by_hand,
        draw={"update": _state(0), "copy": _state(1), "flush": _state(2)},
        sizes=({"n": 128}, {"n": 512}, {"n": 1024}),
        odd={"n": 201},
        limits={"model": "relations that hold for a third of all points are masks over all of them"},
    ),
]
