"""Convolutions, pooling, stencils, Toeplitz matrices: accesses that mix indices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.case import Case, small
from benchmarks.programs.by_hand import (
    convolve,
    correlate,
    correlate2_x_bar,
    correlate_w_bar,
    correlate_x_bar,
)

_TAPS = [
    {"n": 10_000, "m": 3},
    {"n": 100_000, "m": 16},
    {"n": 100_000, "m": 64},
    {"n": 100_000, "m": 512},
    {"n": 1_000_000, "m": 16},
]


def _torch_conv(x: Any, w: Any, **options: Any) -> Any:
    from torch.nn.functional import conv1d

    return conv1d(x[None, None], w[None, None], **options)[0, 0]


def _torch_conv2(x: Any, w: Any, **options: Any) -> Any:
    from torch.nn.functional import conv2d

    return conv2d(x[None, None], w[None, None], **options)[0, 0]


def _conv(x: Any, w: Any, **options: Any) -> Any:
    return lax.conv_general_dilated(x[None, None], w[None, None], padding="VALID", **options)[0, 0]


def _correlation_by_hand(x: Any, w: Any, y: Any) -> Any:
    return correlate_x_bar(w, y), correlate_w_bar(x, y)


def _loss_by_hand(x: Any, w: Any, z: Any) -> Any:
    y_bar = 2 * (correlate(x, w) - z)
    return correlate_x_bar(w, y_bar), correlate_w_bar(x, y_bar)


def _batch_by_hand(x: Any, w: Any, z: Any) -> Any:
    n = z.shape[1]
    y_bar = 2 * (sum(x[:, j : j + n] * w[j] for j in range(w.shape[0])) - z)
    return jnp.stack([jnp.vdot(x[:, j : j + n], y_bar) for j in range(w.shape[0])])


def _strided_by_hand(x: Any, w: Any, y: Any) -> Any:
    n, m = y.shape[0], w.shape[0]
    half = [w[p::2] for p in range(2)]
    phases = [jnp.pad(correlate_x_bar(h, y), (0, n + (m + 1) // 2 - (n + h.shape[0] - 1))) for h in half]
    x_bar = jnp.stack(phases, 1).reshape(-1)[: x.shape[0]]
    w_bar = jnp.stack([jnp.vdot(lax.slice(x, (j,), (j + 2 * n - 1,), (2,)), y) for j in range(m)])
    return x_bar, w_bar


def _dilated_by_hand(x: Any, w: Any, y: Any) -> Any:
    n, m = y.shape[0], w.shape[0]
    around = jnp.pad(y, 3 * (m - 1))
    x_bar = sum(around[3 * (m - 1 - j) : 3 * (m - 1 - j) + x.shape[0]] * w[j] for j in range(m))
    return x_bar, jnp.stack([jnp.vdot(x[3 * j : 3 * j + n], y) for j in range(m)])


def _lines_w_bar(x: Any, y: Any, k: int, step: int = 1, apart: int = 1) -> Any:
    """w_bar[a, b] = sum_ij x[step i + apart a, step j + apart b] y[i, j]: products are added up line by line, then
    along the lines."""
    n, m = y.shape

    def add(i: Any, totals: list[Any]) -> list[Any]:
        lines = lax.dynamic_slice_in_dim(x, step * i, apart * (k - 1) + 1)[::apart]
        starts = [apart * b for b in range(k)]
        return [t + lines[:, s : s + step * (m - 1) + 1 : step] * y[i] for s, t in zip(starts, totals, strict=True)]

    totals = lax.fori_loop(0, n, add, [jnp.zeros((k, m), x.dtype)] * k)
    return jnp.stack([t.sum(1) for t in totals], 1)


def _conv2_w_bar(x: Any, y: Any) -> Any:
    k = x.shape[0] - y.shape[0] + 1
    return _lines_w_bar(x, y, k) if k <= 7 else _conv(x, y, window_strides=(1, 1))


def _conv2_by_hand(x: Any, w: Any, y: Any) -> Any:
    return correlate2_x_bar(w, y), _conv2_w_bar(x, y)


def _strided2_by_hand(x: Any, w: Any, y: Any) -> Any:
    (n, m), (rows, columns) = y.shape, w.shape
    phase = lambda p, q: correlate2_x_bar(w[p::2, q::2], y)
    tall, wide = n + (rows + 1) // 2, m + (columns + 1) // 2
    fill = lambda a: jnp.pad(a, ((0, tall - a.shape[0]), (0, wide - a.shape[1])))
    lines = [jnp.stack([fill(phase(p, q)) for q in range(2)], 2).reshape(tall, 2 * wide) for p in range(2)]
    x_bar = jnp.stack(lines, 1).reshape(2 * tall, 2 * wide)[: x.shape[0], : x.shape[1]]
    return x_bar, _lines_w_bar(x, y, rows, step=2)


def _dilated2_by_hand(x: Any, w: Any, y: Any) -> Any:
    return correlate2_x_bar(w, y, 2), _lines_w_bar(x, y, w.shape[0], apart=2)


def _average_by_hand(x: Any, y: Any) -> Any:
    return jnp.repeat(jnp.repeat(y / 4, 2, 0), 2, 1)


def _max_pool_by_hand(x: Any, y: Any) -> Any:
    n, m = y.shape
    windows = x.reshape(n, 2, m, 2).transpose(0, 2, 1, 3).reshape(n, m, 4)
    first = jnp.argmax(windows, 2)
    parts = [jnp.where(first == k, y, 0) for k in range(4)]
    lines = [jnp.stack(parts[2 * p : 2 * p + 2], 2).reshape(n, 2 * m) for p in range(2)]
    return jnp.stack(lines, 1).reshape(2 * n, 2 * m)


def _pooled_squares(x: Any) -> Any:
    return jnp.sum(lax.reduce_window(jnp.sin(x), -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2)


def _pooled_squares_by_hand(x: Any) -> Any:
    n, m = x.shape[0] // 2, x.shape[1] // 2
    top = jnp.sin(x).reshape(n, 2, m, 2).transpose(0, 2, 1, 3).reshape(n, m, 4).max(2)
    return _max_pool_by_hand(jnp.sin(x), 2 * top) * jnp.cos(x)


def _maxima_of_maxima(xp: Any, x: Any) -> Any:
    rows = x.max(1)
    return xp.maximum(rows[:-1], rows[1:])


def _maxima_of_maxima_by_hand(x: Any, y: Any) -> Any:
    rows, n = x.max(1), x.shape[0]
    first = rows[:-1] >= rows[1:]
    rows_bar = jnp.zeros(n, x.dtype).at[:-1].add(jnp.where(first, y, 0)).at[1:].add(jnp.where(first, 0, y))
    return jnp.zeros_like(x).at[jnp.arange(n), jnp.argmax(x, 1)].set(rows_bar)


def _toeplitz(xp: Any, t: Any, x: Any) -> Any:
    n = x.shape[0]
    i = xp.arange(n)
    return t[i[:, None] - i + n - 1] @ x


def _toeplitz_by_hand(t: Any, x: Any, y: Any) -> Any:
    n = x.shape[0]
    return convolve(y, x[::-1], 2 * n - 1), convolve(t[::-1], y, 2 * n - 1)[n - 1 :]


_STEPS = 10


def _heat(xp: Any, u: Any, z: Any) -> Any:
    for _ in range(_STEPS):
        inner = u[1:-1] + 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
        u = xp.concatenate([u[:1], inner, u[-1:]])
    return xp.sum((u - z) ** 2)


def _heat_text() -> str:
    step = (
        "let {v} = gen i:n + 2. [1 <= i <= n] * ({u}[i] + 0.1 * ({u}[i - 1] - 2 * {u}[i] + {u}[i + 1]))"
        " + [i = 0] * {u}[i] + [i = n + 1] * {u}[i] in "
    )
    steps = "".join(step.format(u="u" if k == 0 else f"u{k}", v=f"u{k + 1}") for k in range(_STEPS))
    return f"heat(u: [n + 2]R, z: [n + 2]R) = {steps} sum i:n + 2. (u{_STEPS}[i] - z[i])^2"


def _heat_by_hand(u: Any, z: Any) -> Any:
    def step(u: Any) -> Any:
        return u.at[1:-1].set(u[1:-1] + 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:]))

    def back(v: Any) -> Any:
        inner = jnp.pad(v[1:-1], 2)
        spread = inner[1:-1] + 0.1 * (inner[:-2] - 2 * inner[1:-1] + inner[2:])
        return spread.at[0].add(v[0]).at[-1].add(v[-1])

    for _ in range(_STEPS):
        u = step(u)
    v = 2 * (u - z)
    for _ in range(_STEPS):
        v = back(v)
    return v


def _laplace(xp: Any, u: Any) -> Any:
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    return xp.sum(inner**2)


def _laplace_by_hand(u: Any) -> Any:
    v = jnp.pad(2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]), 2)
    return v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * v[1:-1, 1:-1]


CASES = [
    Case(
        name="1-D convolution",
        suite="structured",
        text="correlation(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
        program=lambda xp, x, w: xp.correlate(x, w, mode="valid"),
        torch=_torch_conv,
        by_hand=_correlation_by_hand,
        sizes=_TAPS,
        odd={"n": 30_001, "m": 35},
    ),
    Case(
        name="1-D convolution, loss",
        suite="structured",
        text="""
          loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
            let y = gen i:n. sum j:m. x[i + j] * w[j] in
            sum k:n. (y[k] - z[k])^2
        """,
        wrt=("x", "w"),
        program=lambda xp, x, w, z: xp.sum((xp.correlate(x, w, mode="valid") - z) ** 2),
        torch=lambda x, w, z: ((_torch_conv(x, w) - z) ** 2).sum(),
        by_hand=_loss_by_hand,
        sizes=_TAPS,
        odd={"n": 30_001, "m": 5},
    ),
    Case(
        name="loss over a batch",
        suite="structured",
        text="""
          batch(x: [B][n + m - 1]R, w: [m]R, z: [B][n]R) =
            sum b:B.
              let y = gen i:n. sum j:m. x[b, i + j] * w[j] in
              sum i:n. (y[i] - z[b, i])^2
        """,
        wrt=("w",),
        program=lambda xp, x, w, z: xp.sum((jax.vmap(lambda row: xp.correlate(row, w, mode="valid"))(x) - z) ** 2),
        torch=lambda x, w, z: ((_torch_conv_batch(x, w) - z) ** 2).sum(),
        by_hand=_batch_by_hand,
        sizes=({"B": 8, "n": 1000, "m": 5}, {"B": 32, "n": 4000, "m": 5}, {"B": 64, "n": 16_000, "m": 9}),
        odd={"B": 7, "n": 5001, "m": 5},
    ),
    Case(
        name="1-D convolution, stride 2",
        suite="structured",
        text="strided(x: [2*n + m - 2]R, w: [m]R) = gen i:n. sum j:m. x[2*i + j] * w[j]",
        program=lambda xp, x, w: lax.conv_general_dilated(x[None, None], w[None, None], (2,), "VALID")[0, 0],
        torch=lambda x, w: _torch_conv(x, w, stride=2),
        by_hand=_strided_by_hand,
        sizes=({"n": 10_000, "m": 3}, {"n": 100_000, "m": 8}, {"n": 500_000, "m": 8}),
        odd={"n": 30_001, "m": 5},
    ),
    Case(
        name="1-D convolution, dilation 3",
        suite="structured",
        text="dilated(x: [n + 3*m - 3]R, w: [m]R) = gen i:n. sum j:m. x[i + 3*j] * w[j]",
        program=lambda xp, x, w: lax.conv_general_dilated(
            x[None, None], w[None, None], (1,), "VALID", rhs_dilation=(3,)
        )[0, 0],
        torch=lambda x, w: _torch_conv(x, w, dilation=3),
        by_hand=_dilated_by_hand,
        sizes=({"n": 10_000, "m": 3}, {"n": 100_000, "m": 8}, {"n": 500_000, "m": 8}),
        odd={"n": 30_001, "m": 5},
    ),
    Case(
        name="2-D convolution",
        suite="structured",
        text="""
          correlation(x: [n + k - 1][n + k - 1]R, w: [k][k]R) =
            gen i:n, j:n. sum a:k, b:k. x[i + a, j + b] * w[a, b]
        """,
        program=lambda xp, x, w: _conv(x, w, window_strides=(1, 1)),
        torch=_torch_conv2,
        by_hand=_conv2_by_hand,
        sizes=({"n": 256, "k": 3}, {"n": 512, "k": 7}, {"n": 1024, "k": 3}, {"n": 1024, "k": 15}),
        odd={"n": 251, "k": 5},
    ),
    Case(
        name="2-D convolution, stride 2",
        suite="structured",
        text="""
          strided(x: [2*n + k - 2][2*n + k - 2]R, w: [k][k]R) =
            gen i:n, j:n. sum a:k, b:k. x[2*i + a, 2*j + b] * w[a, b]
        """,
        program=lambda xp, x, w: _conv(x, w, window_strides=(2, 2)),
        torch=lambda x, w: _torch_conv2(x, w, stride=2),
        by_hand=_strided2_by_hand,
        sizes=({"n": 128, "k": 3}, {"n": 256, "k": 3}, {"n": 512, "k": 7}),
        odd={"n": 131, "k": 3},
    ),
    Case(
        name="2-D convolution, dilation 2",
        suite="structured",
        text="""
          dilated(x: [n + 2*k - 2][n + 2*k - 2]R, w: [k][k]R) =
            gen i:n, j:n. sum a:k, b:k. x[i + 2*a, j + 2*b] * w[a, b]
        """,
        program=lambda xp, x, w: _conv(x, w, window_strides=(1, 1), rhs_dilation=(2, 2)),
        torch=lambda x, w: _torch_conv2(x, w, dilation=2),
        by_hand=_dilated2_by_hand,
        sizes=({"n": 256, "k": 3}, {"n": 512, "k": 3}, {"n": 1024, "k": 7}),
        odd={"n": 251, "k": 3},
    ),
    Case(
        name="average pooling",
        suite="structured",
        text="pooled(x: [2*n][2*n]R) = gen i:n, j:n. 0.25 * sum a:2, b:2. x[2*i + a, 2*j + b]",
        program=lambda xp, x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID") / 4,
        torch=lambda x: _torch_pool("avg_pool2d", x),
        by_hand=_average_by_hand,
        sizes=({"n": 128}, {"n": 512}, {"n": 1024}),
        odd={"n": 151},
    ),
    Case(
        name="max pooling",
        suite="structured",
        text="pooled(x: [2*n][2*n]R) = gen i:n, j:n. max a:2, b:2. x[2*i + a, 2*j + b]",
        program=lambda xp, x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
        torch=lambda x: _torch_pool("max_pool2d", x),
        by_hand=_max_pool_by_hand,
        sizes=({"n": 128}, {"n": 512}, {"n": 1024}),
        odd={"n": 151},
    ),
    Case(
        name="max pooling of activations",
        suite="structured",
        text="""
          pooled(x: [2*n][2*n]R) =
            let y = gen i:2*n, j:2*n. sin(x[i, j]) in
            sum i:n, j:n. (max a:2, b:2. y[2*i + a, 2*j + b])^2
        """,
        program=lambda xp, x: _pooled_squares(x),
        torch=lambda x: (_torch_pool("max_pool2d", x.sin()) ** 2).sum(),
        by_hand=_pooled_squares_by_hand,
        sizes=({"n": 128}, {"n": 512}, {"n": 1024}),
        odd={"n": 151},
    ),
    Case(
        name="maxima in windows of maxima",
        suite="structured",
        text="nested(x: [n + 1][m]R) = gen i:n. max a:2. max b:m. x[i + a, b]",
        program=_maxima_of_maxima,
        torch=lambda x: x.amax(1)[:-1].maximum(x.amax(1)[1:]),
        by_hand=_maxima_of_maxima_by_hand,
        sizes=({"n": 1000, "m": 16}, {"n": 20_000, "m": 16}, {"n": 100_000, "m": 16}),
        odd={"n": 501, "m": 5},
    ),
    Case(
        name="Toeplitz matrix times vector",
        suite="structured",
        text="toeplitz(t: [2*n - 1]R, x: [n]R) = gen i:n. sum j:n. t[i - j + n - 1] * x[j]",
        program=_toeplitz,
        by_hand=_toeplitz_by_hand,
        sizes=({"n": 256}, {"n": 1024}, {"n": 4096}, {"n": 8192}),
        odd={"n": 511},
        draw={"t": small},
    ),
    Case(
        name="heat equation",
        suite="structured",
        text=_heat_text(),
        wrt=("u",),
        program=_heat,
        by_hand=_heat_by_hand,
        sizes=({"n": 10_000}, {"n": 100_000}, {"n": 1_000_000}),
        odd={"n": 30_001},
    ),
    Case(
        name="Laplacian's energy",
        suite="structured",
        text="""
          energy(u: [n + 2][n + 2]R) =
            let v = gen i:n, j:n. u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2] - 4 * u[i + 1, j + 1] in
            sum i:n, j:n. v[i, j]^2
        """,
        program=_laplace,
        by_hand=_laplace_by_hand,
        sizes=({"n": 256}, {"n": 512}, {"n": 1024}),
        odd={"n": 251},
    ),
]


def _torch_conv_batch(x: Any, w: Any) -> Any:
    from torch.nn.functional import conv1d

    return conv1d(x[:, None], w[None, None])[:, 0]


def _torch_pool(name: str, x: Any) -> Any:
    from torch.nn import functional

    return getattr(functional, name)(x[None, None], 2)[0, 0]
