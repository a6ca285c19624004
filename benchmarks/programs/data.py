"""Relations and index arrays: sparsity that is known once the data are known."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from benchmarks.case import Case, sparse
from benchmarks.programs.by_hand import Array


def _add_rows(n: int, rows: Array, values: Array) -> Array:
    """Values added up by sorted rows."""
    return (
        jnp.zeros((n, *values.shape[1:]), values.dtype)
        .at[rows]
        .add(values, indices_are_sorted=True, mode="promise_in_bounds")
    )


def _add_columns(n: int, columns: Array, values: Array) -> Array:
    """Values added up by columns in any order."""
    return jnp.zeros((n, *values.shape[1:]), values.dtype).at[columns].add(values, mode="promise_in_bounds")


def _bilinear_by_hand(e: Any, x: Any, a: Any, y: Any) -> Any:
    rows, columns = e
    v = a[rows, columns]
    return _add_rows(x.shape[0], rows, v * y[columns]), _add_columns(y.shape[0], columns, v * x[rows])


def _matvec_by_hand(e: Any, a: Any, x: Any, y: Any) -> Any:
    rows, columns = e
    return _add_columns(x.shape[0], columns, a[rows, columns] * y[rows])


def _factors(xp: Any, e: Any, a: Any, u: Any, v: Any) -> Any:
    return xp.sum(xp.where(e, (u @ v.T - a) ** 2, 0))


def _factors_by_hand(e: Any, a: Any, u: Any, v: Any) -> Any:
    rows, columns = e
    p, q = u[rows], v[columns]
    d = 2 * (jnp.sum(p * q, 1) - a[rows, columns])
    return _add_rows(u.shape[0], rows, d[:, None] * q), _add_columns(v.shape[0], columns, d[:, None] * p)


def _likelihood(xp: Any, logp: Any, y: Any) -> Any:
    return -xp.sum(logp[xp.arange(y.shape[0]), y])


def _likelihood_by_hand(logp: Any, y: Any) -> Any:
    return jnp.where(jnp.arange(logp.shape[1]) == y[:, None], jnp.float32(-1), 0)


CASES = [
    Case(
        name="masked bilinear form",
        suite="structured",
        text="form(E: rel(n, n), x: [n]R, A: [n][n]R, y: [n]R) = sum i:n, j:n. [E(i, j)] * x[i] * A[i, j] * y[j]",
        wrt=("x", "y"),
        program=lambda xp, e, x, a, y: x @ xp.where(e, a, 0) @ y,
        by_hand=_bilinear_by_hand,
        draw={"E": sparse(777)},
        sizes=({"n": 300}, {"n": 1000}, {"n": 4000}),
        odd={"n": 257},
    ),
    Case(
        name="sparse matrix times vector",
        suite="structured",
        text="times(E: rel(n, n), A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [E(i, j)] * A[i, j] * x[j]",
        wrt=("x",),
        program=lambda xp, e, a, x: xp.where(e, a, 0) @ x,
        by_hand=_matvec_by_hand,
        draw={"E": sparse(20_000)},
        sizes=({"n": 512}, {"n": 2048}, {"n": 8192}),
        odd={"n": 331},
    ),
    Case(
        name="factors of a sparse matrix",
        suite="structured",
        text="""
          factors(E: rel(n, n), A: [n][n]R, U: [n][k]R, V: [n][k]R) =
            sum i:n, j:n. [E(i, j)] * ((sum a:k. U[i, a] * V[j, a]) - A[i, j])^2
        """,
        wrt=("U", "V"),
        program=_factors,
        by_hand=_factors_by_hand,
        draw={"E": sparse(20_000)},
        sizes=({"n": 512, "k": 16}, {"n": 2048, "k": 16}, {"n": 4096, "k": 16}),
        odd={"n": 257, "k": 5},
    ),
    Case(
        name="likelihood of labels",
        suite="structured",
        text="likelihood(logp: [N][C]R, y: [N]idx(C)) = -(sum i:N. logp[i, y[i]])",
        program=_likelihood,
        by_hand=_likelihood_by_hand,
        sizes=({"N": 1000, "C": 10}, {"N": 10_000, "C": 100}, {"N": 100_000, "C": 100}),
        odd={"N": 5001, "C": 7},
        grows="N",
    ),
    Case(
        name="embedding",
        suite="structured",
        text="embedded(table: [C][d]R, y: [N]idx(C)) = gen i:N, a:d. table[y[i], a]",
        program=lambda xp, table, y: table[y],
        by_hand=lambda table, y, e: _add_columns(table.shape[0], y, e),
        sizes=({"N": 1000, "C": 1000, "d": 32}, {"N": 10_000, "C": 1000, "d": 32}, {"N": 100_000, "C": 1000, "d": 32}),
        odd={"N": 5001, "C": 37, "d": 5},
        grows="N",
    ),
    Case(
        name="contended sums",
        suite="structured",
        text="chosen(x: [C]R, y: [N]idx(C)) = gen i:N. x[y[i]]",
        program=lambda xp, x, y: x[y],
        by_hand=lambda x, y, e: _add_columns(x.shape[0], y, e),
        sizes=({"N": 10_000, "C": 10}, {"N": 100_000, "C": 10}, {"N": 1_000_000, "C": 10}),
        odd={"N": 50_001, "C": 7},
        grows="N",
    ),
]
