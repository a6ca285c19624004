"""Pieces of the gradients written by hand in JAX: for each class of statement the fastest way that we know."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def correlate(x: Array, w: Array) -> Array:
    """y[i] = sum_j x[i + j] w[j]: shifted slices for few taps, products with Toeplitz blocks for more."""
    return _correlate_slices(x, w) if w.shape[0] <= 32 else _correlate_blocks(x, w)


def correlate_x_bar(w: Array, y_bar: Array) -> Array:
    """The cotangent of `correlate`'s first argument."""
    return correlate(jnp.pad(y_bar, w.shape[0] - 1), w[::-1])


def correlate_w_bar(x: Array, y_bar: Array) -> Array:
    """The cotangent of `correlate`'s second argument: w[j] = sum_i x[i + j] y_bar[i]."""
    n, m = y_bar.shape[0], x.shape[0] - y_bar.shape[0] + 1
    if m <= 16:
        return jnp.correlate(x, y_bar, mode="valid")
    size = 128
    count, wide = -(-n // size), -(-(size + m - 1) // size)
    blocks = jnp.pad(x, (0, (count + wide) * size - x.shape[0])).reshape(count + wide, size)
    rows = jnp.pad(y_bar, (0, count * size - n)).reshape(count, size)
    outer = jnp.concatenate([rows.T @ blocks[k : k + count] for k in range(wide)], 1)
    skewed = jnp.pad(outer.reshape(-1), (0, size)).reshape(size, wide * size + 1)
    return skewed[:, :m].sum(0)


def _correlate_slices(x: Array, w: Array) -> Array:
    m = w.shape[0]
    n = x.shape[0] - m + 1
    even = n // 64 * 64  # XLA splits multiples of this between threads

    def part(at: int, size: int) -> Array:
        return jnp.asarray(sum(lax.slice(x, (at + j,), (at + j + size,)) * w[j] for j in range(m)))

    return jnp.concatenate([part(0, even), part(even, n - even)]) if n % 64 and even else part(0, n)


def _correlate_blocks(x: Array, w: Array) -> Array:
    m = w.shape[0]
    n = x.shape[0] - m + 1
    size = 64 if m <= 256 else 256
    count, wide = -(-n // size), -(-(size + m - 1) // size)
    blocks = jnp.pad(x, (0, max(0, (count + wide) * size - x.shape[0])))[: (count + wide) * size]
    blocks = blocks.reshape(count + wide, size)
    taps = jnp.tile(jnp.pad(w, (0, wide * size + 1 - m)), size)[: size * wide * size].reshape(size, wide * size)
    y = sum(blocks[k : k + count] @ taps[:, k * size : (k + 1) * size].T for k in range(wide))
    return jnp.reshape(y, -1)[:n]


def correlate2(x: Array, w: Array, apart: int = 1) -> Array:
    """y[i, j] = sum_{a, b} x[i + apart a, j + apart b] w[a, b]: shifted slices, rows of the kernel in turns."""
    (rows, columns), reach = w.shape, lambda k: apart * (k - 1)
    n, m = x.shape[0] - reach(rows), x.shape[1] - reach(columns)

    def row(a: int | Array) -> Array:
        lines = lax.dynamic_slice(x, (apart * a, 0), (n, x.shape[1]))
        return jnp.asarray(sum(lines[:, apart * b : apart * b + m] * w[a, b] for b in range(columns)))

    if rows * columns <= 64:
        terms = [(a, b) for a in range(rows) for b in range(columns)]
        shifted = (x[apart * a : apart * a + n, apart * b : apart * b + m] * w[a, b] for a, b in terms)
        return jnp.asarray(sum(shifted))
    return lax.fori_loop(0, rows, lambda a, y: y + row(a), jnp.zeros((n, m), x.dtype))


def correlate2_x_bar(w: Array, y_bar: Array, apart: int = 1) -> Array:
    """The cotangent of `correlate2`'s first argument."""
    around = [(apart * (k - 1),) * 2 for k in w.shape]
    return correlate2(jnp.pad(y_bar, around), w[::-1, ::-1], apart)


def convolve(x: Array, w: Array, length: int) -> Array:
    """The first `length` elements of the full convolution, by Fourier transforms of a good length."""
    size = 1 << (x.shape[0] + w.shape[0] - 2).bit_length()
    return jnp.fft.irfft(jnp.fft.rfft(x, size) * jnp.fft.rfft(w, size), size)[:length]


def diagonals(n: int, reach: int) -> list[tuple[int, int, int]]:
    """For each diagonal of an n x n band: where it starts in the flat matrix, its length, and its offset."""
    return [(k if k >= 0 else -k * n, n - abs(k), k) for k in range(-reach, reach + 1)]


def band_times(a: Array, x: Array, reach: int) -> Array:
    """A x for the band |i - j| <= reach of A: its diagonals are strided slices of the flat matrix."""
    n, y = x.shape[0], jnp.zeros_like(x)
    for start, length, k in diagonals(n, reach):
        d = lax.slice(a.reshape(-1), (start,), (start + (length - 1) * (n + 1) + 1,), (n + 1,))
        y = y + (jnp.pad(d * x[k:], (0, k)) if k >= 0 else jnp.pad(d * x[:length], (-k, 0)))
    return y


def times_band(y: Array, a: Array, reach: int) -> Array:
    """A^T y for the band |i - j| <= reach of A."""
    n, x = y.shape[0], jnp.zeros_like(y)
    for start, length, k in diagonals(n, reach):
        d = lax.slice(a.reshape(-1), (start,), (start + (length - 1) * (n + 1) + 1,), (n + 1,))
        x = x + (jnp.pad(d * y[:length], (k, 0)) if k >= 0 else jnp.pad(d * y[-k:], (0, -k)))
    return x


def band_matmul(a: Array, b: Array, reach: int, size: int = 64) -> Array:
    """A B for the band |i - j| <= reach of A, by blocks of rows, each with the columns that it needs."""
    n = a.shape[0]
    size = min(size, n)
    width = min(n, size + 2 * reach)

    def rows(first: Array) -> Array:
        at = jnp.clip(first - reach, 0, n - width)
        block = lax.dynamic_slice(a, (first, at), (size, width))
        near = jnp.abs(first + jnp.arange(size)[:, None] - at - jnp.arange(width)) <= reach
        return jnp.where(near, block, 0) @ lax.dynamic_slice(b, (at, 0), (width, b.shape[1]))

    whole = n // size * size
    found = lax.map(rows, jnp.arange(0, whole, size)).reshape(whole, b.shape[1])
    return found if whole == n else jnp.concatenate([found, rows(jnp.int32(n - size))[size - (n - whole) :]])


def band_of(x: Array, y: Array, reach: int) -> Array:
    """The band |i - j| <= reach of the outer product x y^T, densely."""
    i = jnp.arange(x.shape[0])
    return jnp.where(jnp.abs(i[:, None] - i) <= reach, x[:, None] * y, 0)


def _parts(n: int, size: int) -> list[tuple[int, int]]:
    return [(k, min(k + size, n)) for k in range(0, n, size)]


def lower_times(a: Array, x: Array, size: int = 256) -> Array:
    """L x, or L X, for the triangle j <= i of A, by blocks of rows."""
    if a.shape[0] <= 512:
        return jnp.tril(a) @ x
    rows = [a[s:e, :s] @ x[:s] + jnp.tril(a[s:e, s:e]) @ x[s:e] for s, e in _parts(a.shape[0], size)]
    return jnp.concatenate(rows)


def times_lower(y: Array, a: Array, size: int = 256) -> Array:
    """L^T y, or L^T Y, for the triangle j <= i of A, by blocks of columns."""
    if a.shape[0] <= 512:
        return jnp.tril(a).T @ y
    columns = [a[e:, s:e].T @ y[e:] + jnp.tril(a[s:e, s:e]).T @ y[s:e] for s, e in _parts(a.shape[0], size)]
    return jnp.concatenate(columns)


def lower_of(x: Array, y: Array) -> Array:
    """The triangle j <= i of the outer product x y^T, densely."""
    i = jnp.arange(x.shape[0])
    return jnp.where(i[:, None] >= i, x[:, None] * y, 0)
