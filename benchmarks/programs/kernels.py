"""Programs suited to kernels: products most of which predicates rule out, softmax over tiles, chains of elementwise
steps.

`python -m benchmarks.kernels` runs them. The first of the sizes are for interpreters, the others for accelerators.
`program` is the alternative for XLA: all of the box, under a mask.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import lax

from benchmarks.case import Case, Draw, small
from benchmarks.programs import seeds

_BAND = 128
_WINDOW = 512


def _attention(window: int | None) -> Any:
    def program(xp: Any, q: Any, k: Any, v: Any) -> Any:
        i = xp.arange(q.shape[1])
        ahead = i[:, None] - i
        seen = ahead >= 0 if window is None else (ahead >= 0) & (ahead < window)
        s = xp.where(seen, xp.einsum("hia,hja->hij", q, k), -xp.inf)
        return xp.einsum("hij,hja->hia", jax.nn.softmax(s, axis=2), v)

    return program


def _attention_text(seen: str) -> str:
    return f"""
      attention(Q: [h][n][d]R, K: [h][n][d]R, V: [h][n][d]R) =
        let s = gen b:h, i:n, j:n. [{seen}] * sum a:d. Q[b, i, a] * K[b, j, a] in
        let top = gen b:h, i:n. max j:n where {seen}. s[b, i, j] in
        let p = gen b:h, i:n, j:n. [{seen}] * exp(s[b, i, j] - top[b, i]) in
        let z = gen b:h, i:n. sum j:n. [{seen}] * p[b, i, j] in
        gen b:h, i:n, a:d. (sum j:n. [{seen}] * p[b, i, j] * V[b, j, a]) / z[b, i]
    """


def _band(xp: Any, a: Any, b: Any) -> Any:
    return xp.triu(xp.tril(a, _BAND), -_BAND) @ b


def _cross_entropy(xp: Any, x: Any, y: Any) -> Any:
    return jax.nn.logsumexp(x, axis=1) - xp.take_along_axis(x, y[:, None], 1)[:, 0]


def _layer_norm(xp: Any, x: Any, g: Any, b: Any) -> Any:
    d = x - xp.mean(x, 1, keepdims=True)
    return d / xp.sqrt(xp.mean(d * d, 1, keepdims=True) + 1e-5) * g + b


def _convolution(xp: Any, x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(x[None], k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0]


def _share(part: float) -> Draw:
    """A relation that holds at this share of its points."""

    def draw(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
        return rng.random(dims) < part

    return draw


def _segments(rng: np.random.Generator, dims: tuple[int, ...]) -> Any:
    """A relation with each column in one row, and the columns of a row next to each other."""
    rows = np.sort(rng.integers(dims[0], size=dims[1]))
    return np.arange(dims[0])[:, None] == rows


_SQUARES = tuple({"n": n, "m": n, "p": n} for n in (64, 4096, 8192))
_HALVES = tuple({"n": n, "p": n} for n in (64, 4096, 8192))
_HEADS = ({"h": 1, "n": 96, "d": 32}, {"h": 32, "n": 2048, "d": 128}, {"h": 16, "n": 8192, "d": 128})
_ROWS = ({"n": 40, "m": 100}, {"n": 8192, "m": 2048}, {"n": 4096, "m": 32768})

_CELL_SIZES = tuple({"n": n} for n in (64, 512, 1024, 2048, 8192))
_cell = next(case for case in seeds.CASES if case.name == "HM-LSTM cell")

KERNELS = [
    Case(
        name="matrix product",
        suite="kernels",
        text="product(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. A[i, j] * B[j, k]",
        program=lambda xp, a, b: a @ b,
        sizes=_SQUARES,
        odd={"n": 45, "m": 37, "p": 21},
    ),
    Case(
        name="triangle times matrix",
        suite="kernels",
        text="lower(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j <= i] * A[i, j] * B[j, k]",
        program=lambda xp, a, b: xp.tril(a) @ b,
        sizes=_HALVES,
        odd={"n": 45, "p": 21},
    ),
    Case(
        name="band times matrix",
        suite="kernels",
        text=f"""
          band(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [-{_BAND} <= i - j <= {_BAND}] * A[i, j] * B[j, k]
        """,
        program=_band,
        sizes=_HALVES,
        odd={"n": 301, "p": 21},
    ),
    Case(
        name="causal attention",
        suite="kernels",
        text=_attention_text("j <= i"),
        program=_attention(None),
        sizes=_HEADS,
        odd={"h": 2, "n": 45, "d": 17},
        draw={"Q": small, "K": small},
    ),
    Case(
        name="sliding-window attention",
        suite="kernels",
        text=_attention_text(f"i - {_WINDOW} < j <= i"),
        program=_attention(_WINDOW),
        sizes=_HEADS,
        odd={"h": 1, "n": 600, "d": 17},
        draw={"Q": small, "K": small},
    ),
    Case(
        name="logsumexp",
        suite="kernels",
        text="lse(x: [n][m]R) = gen i:n. let t = max j:m. x[i, j] in t + log(sum j:m. exp(x[i, j] - t))",
        program=lambda xp, x: jax.nn.logsumexp(x, axis=1),
        sizes=_ROWS,
        odd={"n": 45, "m": 37},
    ),
    Case(
        name="softmax cross-entropy",
        suite="kernels",
        text="""
          entropy(x: [n][m]R, y: [n]idx(m)) =
            gen i:n. let t = max j:m. x[i, j] in t + log(sum j:m. exp(x[i, j] - t)) - x[i, y[i]]
        """,
        program=_cross_entropy,
        sizes=_ROWS,
        odd={"n": 45, "m": 37},
    ),
    Case(
        name="layer norm",
        suite="kernels",
        text="""
          norm(x: [n][m]R, g: [m]R, b: [m]R) =
            let r = 1 / (sum j:m. 1) in
            let mu = gen i:n. r * sum j:m. x[i, j] in
            let v = gen i:n. r * sum j:m. (x[i, j] - mu[i])^2 in
            let s = gen i:n. 1 / sqrt(v[i] + 0.00001) in
            gen i:n, j:m. (x[i, j] - mu[i]) * s[i] * g[j] + b[j]
        """,
        program=_layer_norm,
        sizes=({"n": 40, "m": 100}, {"n": 8192, "m": 2048}, {"n": 8192, "m": 4096}),
        odd={"n": 45, "m": 37},
    ),
    replace(_cell, suite="kernels", sizes=_CELL_SIZES, odd={"n": 45}, limits={}),
    Case(
        name="block-sparse product",
        suite="kernels",
        text="""
          sparse(E: rel(n, m), A: [n][m][64][64]R, B: [m][64][p]R) =
            gen i:n, a:64, k:p. sum j:m, b:64. [E(i, j)] * A[i, j, a, b] * B[j, b, k]
        """,
        program=lambda xp, e, a, b: xp.einsum("ij,ijab,jbk->iak", e.astype(a.dtype), a, b),
        sizes=({"n": 2, "m": 3, "p": 40}, {"n": 64, "m": 64, "p": 4096}, {"n": 128, "m": 128, "p": 4096}),
        odd={"n": 3, "m": 5, "p": 21},
        draw={"E": _share(0.1)},
    ),
    Case(
        name="segment sums",
        suite="kernels",
        text="segments(E: rel(n, m), x: [m][d]R) = gen i:n, a:d. sum j:m. [E(i, j)] * x[j, a]",
        program=lambda xp, e, x: e.astype(x.dtype) @ x,
        sizes=({"n": 20, "m": 100, "d": 32}, {"n": 1024, "m": 16384, "d": 128}, {"n": 4096, "m": 65536, "d": 256}),
        odd={"n": 21, "m": 45, "d": 17},
        draw={"E": _segments},
    ),
    Case(
        name="2-D convolution",
        suite="kernels",
        text="""
          convolution(x: [n + h - 1][m + w - 1][c]R, k: [h][w][c][o]R) =
            gen i:n, j:m, q:o. sum a:h, b:w, r:c. x[i + a, j + b, r] * k[a, b, r, q]
        """,
        program=_convolution,
        sizes=(
            {"n": 6, "m": 8, "h": 3, "w": 3, "c": 16, "o": 16},
            {"n": 128, "m": 128, "h": 3, "w": 3, "c": 256, "o": 256},
            {"n": 256, "m": 256, "h": 5, "w": 5, "c": 128, "o": 128},
        ),
        odd={"n": 5, "m": 7, "h": 3, "w": 2, "c": 9, "o": 11},
        grows="m",
    ),
]
"""Programs for kernels, and the alternatives for XLA."""

__all__ = ["KERNELS"]
