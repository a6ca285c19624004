"""Products with bands that are stored by diagonals, as products of blocks.

    y[i, e] = sum o. p[o, i] * x[i + o, e]      a band times a matrix; p[o, i + o] if diagonals are stored by columns
    p[o, i] = sum s. x[i + o, s] * y[i, s]      the band of a product of two matrices

A block of rows i reads as many columns as it has rows, and beyond these one less than there are diagonals. Its part of
the band is a matrix in which each row stands one place further to the right than the one before.
"""

import jax.numpy as jnp
from jax import lax

from tensorlang.lower.costs import COSTS


def _band_times(p, x, first, rows, by_columns=False, shared=0, others=0):
    """The sum over o of p[.., o, i] * x[.., i + first + o, ..], for 0 <= i < rows; with `by_columns` of p[.., o, i +
    first + o]. What is outside of p or x is zero. Both have the `shared` axes first, then p the `others`, and x has its
    own axes last; the result has the shared ones, the others, i, and x's own."""
    own, lead = x.shape[shared + 1 :], p.shape[: shared + others]
    count = p.shape[-2]
    p = p.reshape(_points(p.shape[:shared]), _points(p.shape[shared : shared + others]), *p.shape[-2:])
    x = x.reshape(p.shape[0], x.shape[shared], _points(own))
    shape = (*lead, rows, *own)
    if 0 in (*p.shape, *x.shape, *shape):
        return jnp.zeros(shape, x.dtype)
    if count <= COSTS["slice_taps"]:
        return _by_diagonals(p, x, first, rows, by_columns).reshape(shape)
    size = _band_block(count, rows)
    blocks = -(-rows // size)
    if not by_columns:
        band = _to_right(_rows_of(jnp.swapaxes(p, 2, 3), 0, blocks, size, size), size + count - 1)
        y = jnp.einsum("getrc,gtcd->getrd", band, _rows_of(x, first, blocks, size, size + count - 1))
        return y.reshape(*y.shape[:2], blocks * size, -1)[:, :, :rows].reshape(shape)
    # blocks of columns c = i + first + o, each of which counts for rows that are up to count - 1 before it
    start, blocks = first, -(-(rows + count - 1) // size)
    columns = _rows_of(jnp.swapaxes(jnp.flip(p, 2), 2, 3), start, blocks, size, size)
    y = jnp.einsum("getcr,gtcd->getrd", _to_right(columns, size + count - 1), _rows_of(x, start, blocks, size, size))
    return _added_up(y, size, count - 1, rows).reshape(shape)


def _band_of(x, y, first, count, shared=0, own=0, others=0):
    """The sum over s of x[.., i + first + o, s] * y[.., i, s] for 0 <= o < count and all i of y; x is zero outside.
    Both have the `shared` axes first, then x its own and y the others, and last those that are summed; the result has
    the shared, x's own, the others, o and i."""
    shape = (*x.shape[: shared + own], *y.shape[shared : shared + others], count, y.shape[shared + others])
    rows = shape[-1]
    inner = _points(x.shape[shared + own + 1 :])
    x = x.reshape(_points(x.shape[:shared]), _points(x.shape[shared : shared + own]), x.shape[shared + own], inner)
    y = y.reshape(x.shape[0], _points(y.shape[shared : shared + others]), rows, inner)
    if 0 in (*x.shape, *y.shape, *shape):
        return jnp.zeros(shape, y.dtype)
    size = _band_block(count, rows)
    blocks = -(-rows // size)
    reach = size + count - 1
    near = _rows_of(x, first, blocks, size, reach)
    band = jnp.einsum("getrs,gdtcs->gdetrc", _rows_of(y, 0, blocks, size, size), near)
    # each row one place further to the left than the one before
    flat = jnp.pad(band.reshape(*band.shape[:4], size * reach), [(0, 0)] * 4 + [(0, size)])
    band = flat.reshape(*band.shape[:5], reach + 1)[..., :count]
    band = band.reshape(*band.shape[:3], blocks * size, count)[:, :, :, :rows]
    return jnp.swapaxes(band, 3, 4).reshape(shape)


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


def _added_up(y, step, before, rows):
    """The sums, for each row i, of the y[.., k, r, :] with i + before = k * step + r."""
    parts = -(-y.shape[-2] // step)
    edges = [(0, 0)] * (y.ndim - 2)
    y = jnp.pad(y, [*edges, (0, parts * step - y.shape[-2]), (0, 0)])
    blocks = y.shape[-3]
    length = (blocks + parts - 1) * step
    total = jnp.zeros((*y.shape[:-3], length, y.shape[-1]), y.dtype)
    for k in range(parts):
        part = y[..., k * step : (k + 1) * step, :].reshape(*y.shape[:-3], blocks * step, y.shape[-1])
        total = total + jnp.pad(part, [*edges[1:], (k * step, (parts - 1 - k) * step), (0, 0)])
    return total[..., before : before + rows, :]


def _by_diagonals(p, x, first, rows, by_columns):
    """`_band_times` for few diagonals: one sum of products of shifted slices."""
    count, total = p.shape[2], 0
    stop = rows + count - 1
    window = lambda v, axis: lax.pad(
        v,
        jnp.zeros((), v.dtype),
        [(-first, first + stop - v.shape[axis], 0) if k == axis else (0, 0, 0) for k in range(v.ndim)],
    )
    x = window(x, 1)
    p = window(p, 3) if by_columns else p
    for o in range(count):
        diagonal = p[:, :, o, o : o + rows] if by_columns else p[:, :, o]
        total = total + diagonal[..., None] * x[:, None, o : o + rows]
    return total
