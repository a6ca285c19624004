"""Diagonals, traces, single elements: derivatives with fewer points than their shapes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.case import Case, small

_PLACES = [0, *range(2, 2000)]
"""x[0] + x[2] + x[3] + ...: as in the paper, x[1] is skipped."""


def _traces(k: int) -> Case:
    traces = " + ".join(["(sum i:n. A[i, i])"] * k)

    def program(xp: Any, x: Any) -> Any:
        a = xp.diag(x)
        return sum(xp.trace(a) for _ in range(k))

    return Case(
        name=f"{k} traces of a diagonal",
        suite="structured",
        text=f"traces(x: [n]R) = let A = gen i:n, j:n. [i = j] * x[i] in {traces}",
        program=program,
        by_hand=lambda x: jnp.full_like(x, k),
        sizes=({"n": 256}, {"n": 1024}, {"n": 4096}),
        odd={"n": 2047},
    )


def _diag_dot(xp: Any, x: Any) -> Any:
    a = xp.diag(x)
    return a[:, 0] @ a[0, :]


def _reads(k: int) -> Case:
    places = _PLACES[:k]

    def by_hand(x: Any) -> Any:
        at = jnp.asarray(places)
        return jnp.zeros_like(x).at[at].set(1, unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds")

    return Case(
        name=f"{k} reads",
        suite="structured",
        text=f"reads(x: [n + {places[-1] + 1}]R) = {' + '.join(f'x[{p}]' for p in places)}",
        program=lambda xp, x: sum(x[p] for p in places),
        reference=lambda xp, x: xp.sum(x[xp.asarray(places)]),
        by_hand=by_hand,
        sizes=({"n": 1_000}, {"n": 10_000}, {"n": 100_000}),
        odd={"n": 30_001},
    )


def _cosines(k: int) -> Case:
    places = _PLACES[:k]

    def by_hand(x: Any) -> Any:
        at = jnp.asarray(places)
        found = -jnp.sin(x.at[at].get(mode="promise_in_bounds"))
        return (
            jnp.zeros_like(x).at[at].set(found, unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds")
        )

    return Case(
        name=f"{k} cosines of elements",
        suite="structured",
        text=f"cosines(x: [n + {places[-1] + 1}]R) = {' + '.join(f'cos(x[{p}])' for p in places)}",
        program=lambda xp, x: sum(xp.cos(x[p]) for p in places),
        reference=lambda xp, x: xp.sum(xp.cos(x[xp.asarray(places)])),
        by_hand=by_hand,
        sizes=({"n": 1_000}, {"n": 10_000}, {"n": 100_000}),
        odd={"n": 30_001},
    )


def _log_inside(xp: Any, x: Any) -> Any:
    i = xp.arange(x.shape[0])
    return xp.sum(xp.where(i > 0, xp.log(x), 0))


def _log_inside_twice(xp: Any, x: Any) -> Any:
    i = xp.arange(x.shape[0])
    return xp.sum(xp.where(i > 0, xp.log(xp.where(i > 0, x, 1)), 0))


def _zero_first(rng: Any, dims: tuple[int, ...]) -> Any:
    x = rng.uniform(0.5, 2, dims).astype("float32")
    x[0] = 0
    return x


def _hessian_of_softmax(xp: Any, x: Any, p: Any) -> Any:
    return xp.log(xp.sum(xp.exp(x))) - xp.sum(p * x)


def _softmax_hessian_by_hand(x: Any, p: Any) -> Any:
    s = jax.nn.softmax(x)
    return jnp.diag(s) - s[:, None] * s


def _rows_by_hand(x: Any, w: Any) -> Any:
    y = jnp.tanh(x @ w.T)
    return (1 - y * y)[:, :, None] * w


def _trace3_by_hand(m: Any, a: Any, b: Any) -> Any:
    ma, bm = m @ a, b @ m
    return (a @ b).T, bm.T, ma.T


CASES = [
    _traces(30),
    Case(
        name="dot of a diagonal's row and column",
        suite="structured",
        text="""
          diag_dot(x: [n + 1]R) =
            let A = gen i:n + 1, j:n + 1. [i = j] * x[i] in
            sum i:n + 1. A[i, 0] * A[0, i]
        """,
        program=_diag_dot,
        by_hand=lambda x: jnp.zeros_like(x).at[0].set(2 * x[0]),
        sizes=({"n": 511}, {"n": 4095}, {"n": 8191}),
        odd={"n": 2046},
    ),
    Case(
        name="trace of eye",
        suite="structured",
        text="""
          trace_eye(x: [n]R) =
            let s = sum i:n. x[i] in
            let A = gen i:n, j:n. [i = j] * s in
            sum i:n. A[i, i]
        """,
        program=lambda xp, x: xp.trace(xp.eye(x.shape[0]) * xp.sum(x)),
        by_hand=lambda x: jnp.full_like(x, x.shape[0]),
        sizes=({"n": 512}, {"n": 2048}, {"n": 4096}),
        odd={"n": 2047},
    ),
    _reads(30),
    _reads(300),
    _reads(1000),
    _cosines(300),
    _cosines(1000),
    Case(
        name="trace plus one",
        suite="structured",
        text="traced(E: [n][n]R) = (sum i:n. E[i, i]) + 1",
        program=lambda xp, e: xp.trace(e) + 1,
        by_hand=lambda e: jnp.eye(e.shape[0], dtype=e.dtype),
        sizes=({"n": 256}, {"n": 1024}, {"n": 4096}),
        odd={"n": 257},
    ),
    Case(
        name="tr(MA)",
        suite="structured",
        text="tr(M: [n][n]R, A: [n][n]R) = sum i:n, j:n. M[i, j] * A[j, i]",
        program=lambda xp, m, a: xp.trace(m @ a),
        by_hand=lambda m, a: (a.T, m.T),
        sizes=({"n": 256}, {"n": 512}, {"n": 1024}),
        odd={"n": 257},
    ),
    Case(
        name="tr(MA) as a product",
        suite="structured",
        text="""
          tr(M: [n][n]R, A: [n][n]R) =
            let P = gen i:n, k:n. sum j:n. M[i, j] * A[j, k] in
            sum i:n. P[i, i]
        """,
        program=lambda xp, m, a: xp.trace(m @ a),
        by_hand=lambda m, a: (a.T, m.T),
        sizes=({"n": 256}, {"n": 512}, {"n": 1024}),
        odd={"n": 257},
    ),
    Case(
        name="tr(MAN)",
        suite="structured",
        text="tr(M: [n][n]R, A: [n][n]R, N: [n][n]R) = sum i:n, j:n, k:n. M[i, j] * A[j, k] * N[k, i]",
        program=lambda xp, m, a, b: xp.trace(m @ a @ b),
        by_hand=_trace3_by_hand,
        sizes=({"n": 128}, {"n": 512}, {"n": 1024}),
        odd={"n": 129},
    ),
    Case(
        name="diag(AB)",
        suite="structured",
        text="""
          diagonal(A: [n][n]R, B: [n][n]R) =
            let P = gen i:n, k:n. sum j:n. A[i, j] * B[j, k] in
            gen i:n. P[i, i]
        """,
        program=lambda xp, a, b: xp.diag(a @ b),
        by_hand=lambda a, b, y: (y[:, None] * b.T, a.T * y),
        sizes=({"n": 256}, {"n": 512}, {"n": 1024}),
        odd={"n": 257},
    ),
    Case(
        name="log beside its singular point",
        suite="structured",
        text="log_inside(x: [n]R) = sum i:n. [i > 0] * log(x[i])",
        program=_log_inside,
        reference=_log_inside_twice,
        by_hand=lambda x: jnp.where(jnp.arange(x.shape[0]) > 0, 1 / x, 0),
        draw={"x": _zero_first},
        sizes=({"n": 10_000}, {"n": 100_000}, {"n": 1_000_000}),
        odd={"n": 30_001},
    ),
    Case(
        name="Hessian of a quadratic form",
        suite="structured",
        what="hessian",
        text="quadratic(x: [n]R, A: [n][n]R) = sum i:n, j:n. x[i] * A[i, j] * x[j]",
        wrt=("x",),
        program=lambda xp, x, a: x @ a @ x,
        by_hand=lambda x, a: a + a.T,
        sizes=({"n": 256}, {"n": 1024}, {"n": 2048}),
        odd={"n": 257},
    ),
    Case(
        name="Jacobian of independent rows",
        suite="structured",
        what="blocks",
        text="rows(X: [n][p]R, W: [q][p]R) = gen i:n, a:q. tanh(sum b:p. W[a, b] * X[i, b])",
        wrt=("X",),
        program=lambda xp, x, w: xp.tanh(x @ w.T),
        by_hand=_rows_by_hand,
        draw={"W": small},
        sizes=tuple({"n": n, "p": 20, "q": 4} for n in (128, 512, 20_480)),
        odd={"n": 151, "p": 7, "q": 3},
    ),
    Case(
        name="Hessian of a softmax cross-entropy",
        suite="structured",
        what="hessian",
        text="entropy(x: [n]R, p: [n]R) = log(sum i:n. exp(x[i])) - sum i:n. p[i] * x[i]",
        wrt=("x",),
        program=_hessian_of_softmax,
        by_hand=_softmax_hessian_by_hand,
        sizes=({"n": 256}, {"n": 1024}, {"n": 2048}),
        odd={"n": 257},
    ),
]
