"""Products with bands that are stored row by row, as products of blocks.

    y[i, e] = sum o. p[i, o] * x[i + o, e]        a band times a matrix
    y[j, e] = sum o. p[j - o, o] * x[j - o, e]    the transposed band times a matrix
    p[i, o] = sum s. x[i + o, s] * y[i, s]        the band of a product of two matrices

A block of rows i reads as many columns as it has rows, and beyond these one less than there are diagonals. Its part of
the band is a matrix in which each row stands one place further to the right than the one before.
"""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.costs import COSTS


def _band_times(p, x, first, rows, transposed=False, shared=0, others=0):
    """The sum over o of p[.., i, o] * x[.., i + first + o, ..], for 0 <= i < rows; `transposed` that of p[.., i - first
    - o, o] * x[.., i - first - o, ..]. What is outside of p or x is zero. Both have the `shared` axes first, then p the
    `others`, and x has its own axes last; the result has the shared ones, the others, i, and x's own."""
    own, lead = x.shape[shared + 1 :], p.shape[: shared + others]
    count = p.shape[-1]
    p = p.reshape(_points(p.shape[:shared]), _points(p.shape[shared : shared + others]), *p.shape[-2:])
    x = x.reshape(p.shape[0], x.shape[shared], _points(own))
    shape = (*lead, rows, *own)
    # the rows of the band whose products are not zero anyway
    start, stop = (max(0, 1 - first - count), min(p.shape[2], rows - first)) if transposed else (0, rows)
    if 0 in (*p.shape, *x.shape, *shape) or start >= stop:
        return jnp.zeros(shape, x.dtype)
    if count <= COSTS["slice_taps"]:
        return _by_diagonals(p, x, first, rows, transposed).reshape(shape)
    size = _band_block(count, stop - start)
    blocks, reach = -(-(stop - start) // size), size + count - 1
    band = _to_right(_rows_of(p, start, blocks, size, size), reach)
    many = p.shape[1]
    if transposed:
        band = jnp.moveaxis(band, 1, 3).reshape(p.shape[0], blocks, size, many * reach)
        y = _products(band, _rows_of(x, start, blocks, size, size), 0, 0)
        y = jnp.moveaxis(y.reshape(p.shape[0], blocks, many, reach, x.shape[2]), 2, 1)
        return _added_up(y, size, start + first, rows).reshape(shape)
    band = jnp.moveaxis(band, 1, 2).reshape(p.shape[0], blocks, many * size, reach)
    y = _products(band, _rows_of(x, first, blocks, size, reach), 1, 0)
    y = jnp.moveaxis(y.reshape(p.shape[0], blocks, many, size, x.shape[2]), 2, 1)
    return y.reshape(p.shape[0], many, blocks * size, x.shape[2])[:, :, :rows].reshape(shape)


def _band_of(x, y, first, count, shared=0, own=0, others=0):
    """The sum over s of x[.., i + first + o, s] * y[.., i, s] for all i of y and 0 <= o < count; x is zero outside.
    Both have the `shared` axes first, then x its own and y the others, and last those that are summed; the result has
    the shared, x's own, the others, i and o."""
    shape = (*x.shape[: shared + own], *y.shape[shared : shared + others], y.shape[shared + others], count)
    rows = y.shape[shared + others]
    inner = _points(x.shape[shared + own + 1 :])
    x = x.reshape(_points(x.shape[:shared]), _points(x.shape[shared : shared + own]), x.shape[shared + own], inner)
    y = y.reshape(x.shape[0], _points(y.shape[shared : shared + others]), rows, inner)
    if 0 in (*x.shape, *y.shape, *shape):
        return jnp.zeros(shape, y.dtype)
    size = _band_block(count, rows)
    blocks, reach = -(-rows // size), size + count - 1
    near = jnp.moveaxis(_rows_of(x, first, blocks, size, reach), 1, 2)
    near = near.reshape(x.shape[0], blocks, x.shape[1] * reach, inner)
    block = jnp.moveaxis(_rows_of(y, 0, blocks, size, size), 1, 2)
    block = block.reshape(x.shape[0], blocks, y.shape[1] * size, inner)
    band = _products(block, near, 1, 1).reshape(x.shape[0], blocks, y.shape[1], size, x.shape[1], reach)
    band = jnp.moveaxis(band, (4, 2), (1, 2))
    # each row one place further to the left than the one before
    flat = jnp.pad(band.reshape(*band.shape[:4], size * reach), [(0, 0)] * 4 + [(0, size)])
    band = flat.reshape(*band.shape[:5], reach + 1)[..., :count]
    return band.reshape(*band.shape[:3], blocks * size, count)[:, :, :, :rows].reshape(shape)


def _products(a, b, i, j):
    """The products of the matrices a[g, k] and b[g, k], over axis i of the one and j of the other: of matrices alone,
    since XLA copies what has further axes."""
    blocks, flat = a.shape[:2], lambda x: x.reshape(-1, *x.shape[2:])
    y = lax.dot_general(flat(a), flat(b), (((1 + i,), (1 + j,)), ((0,), (0,))))
    return y.reshape(*blocks, *y.shape[1:])


def _points(shape):
    """How many points a box has."""
    points = 1
    for n in shape:
        points *= n
    return points


def _band_block(count, rows):
    """The rows of a block of a band with `count` diagonals: half as many, so that a third of its products are with
    zeros, where these are not few."""
    return min(256, max(8, 1 << max(0, (count // 2).bit_length() - 1)), rows)


def _rows_of(x, first, blocks, step, size):
    """For each of `blocks` blocks k the rows x[.., first + k * step + r, :], r < size, zero outside of x: an array
    [.., k, r, :]."""
    parts = -(-size // step)
    start, stop = first, first + (blocks + parts - 1) * step
    edges = [(0, 0, 0)] * (x.ndim - 2) + [(-start, stop - x.shape[-2], 0), (0, 0, 0)]
    x = lax.pad(x, jnp.zeros((), x.dtype), edges).reshape(*x.shape[:-2], -1, step, x.shape[-1])
    if parts == 1:
        return x[..., :size, :]
    found = jnp.concatenate([x[..., k : k + blocks, :, :] for k in range(parts)], -2)
    return found[..., :size, :]


def _to_right(rows, length):
    """rows[.., r, :] among zeros in a row of that length, from place r on."""
    size, count = rows.shape[-2:]
    wide = jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, length + 1 - count)])
    return wide.reshape(*rows.shape[:-2], -1)[..., : size * length].reshape(*rows.shape[:-1], length)


def _added_up(y, step, first, rows):
    """The sums, for each row i, of the y[.., k, r, :] with i = first + k * step + r."""
    parts = -(-y.shape[-2] // step)
    edges = [(0, 0)] * (y.ndim - 2)
    y = jnp.pad(y, [*edges, (0, parts * step - y.shape[-2]), (0, 0)])
    blocks = y.shape[-3]
    length = (blocks + parts - 1) * step
    total = jnp.zeros((*y.shape[:-3], length, y.shape[-1]), y.dtype)
    for k in range(parts):
        part = y[..., k * step : (k + 1) * step, :].reshape(*y.shape[:-3], blocks * step, y.shape[-1])
        total = total + jnp.pad(part, [*edges[1:], (k * step, (parts - 1 - k) * step), (0, 0)])
    inside = [(0, 0, 0)] * (total.ndim - 2) + [(first, rows - first - length, 0), (0, 0, 0)]
    return lax.pad(total, jnp.zeros((), total.dtype), inside)


def _by_diagonals(p, x, first, rows, transposed):
    """`_band_times` for few diagonals: one sum of products of shifted slices."""
    count, total = p.shape[3], 0
    start, stop = (1 - first - count, rows - first) if transposed else (first, first + rows + count - 1)
    window = lambda v, axis: lax.pad(
        v,
        jnp.zeros((), v.dtype),
        [(-start, stop - v.shape[axis], 0) if k == axis else (0, 0, 0) for k in range(v.ndim)],
    )
    x = window(x, 1)
    p = window(p, 2) if transposed else p
    for o in range(count):
        at = count - 1 - o if transposed else o
        diagonal = p[:, :, at : at + rows, o] if transposed else p[:, :, :, o]
        total = total + diagonal[..., None] * x[:, None, at : at + rows]
    return total
