"""Triangles and bands in blocks, and running sums."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.costs import COSTS
from tensorlang.lowering.emit.library.windows import _read


def _cuts(start, stop, work):
    """start..stop in blocks (start, stop), with so much work for each pair of a row and a column: matrix products
    want few large ones."""
    rows, most = COSTS["block_rows"], COSTS["blocks"]
    if work >= COSTS["block_product"]:
        rows, most = COSTS["block_product_rows"], COSTS["block_products"]
    return _even_blocks(start, stop, rows, most)


def _cut_rows(stop, work):
    """The rows 0..stop of arrays that are held in blocks, as for _cuts: what is done to each element, and not added
    up at once, wants more of them."""
    rows, most = COSTS["cut_rows"], COSTS["cuts"]
    if work >= COSTS["block_product"]:
        rows, most = COSTS["block_product_rows"], COSTS["block_products"]
    return _even_blocks(0, stop, rows, most)


def _even_blocks(start, stop, rows, most):
    """start..stop in at most `most` blocks of at least `rows` rows, all but the last of one multiple of 16."""
    count = max(1, min((stop - start) // rows, most))
    size = max(1, -(-(stop - start) // (16 * count)) * 16) if count > 1 else max(1, stop - start)
    return [(k, min(k + size, stop)) for k in range(start, stop, size)]


def _along(cuts, *arrays):
    """The cuts (start, stop), each with the blocks that arrays have for these rows."""
    return [(*cut, *blocks) for cut, *blocks in zip(cuts, *arrays, strict=True)]


def _worthwhile(inner, edge):
    """inner, or the edge if there is so little between the two that it isn't worth an operation of its own."""
    return inner if abs(inner - edge) >= COSTS["block_inner"] else edge


def _array_by_blocks(cuts, block, axis, shape, dtype):
    """block(start, stop) for all cuts, one after the other along an axis; of that shape if there is none."""
    parts = [jnp.asarray(block(*cut), dtype) for cut in cuts]
    return jnp.concatenate(parts, axis) if parts else jnp.zeros(shape, dtype)


def _sum_by_blocks(cuts, block, shape, dtype):
    """The sum of block(start, stop) for all cuts."""
    parts = [jnp.asarray(block(*cut), dtype) for cut in cuts]
    return jnp.broadcast_to(sum(parts[1:], parts[0]), shape) if parts else jnp.zeros(shape, dtype)


def _array_by_windows(start, stop, width, block, axis, shape, dtype):
    """block(k, rows) for blocks of rows from start to stop, one after the other along an axis, each of which reads a
    window of `width` and the rows: as a loop if they are many."""
    count, rows, rest = _windows(start, stop, width)
    parts = [jnp.zeros((*shape[:axis], 0, *shape[axis + 1 :]), dtype)]
    if count:
        each = lambda k: jnp.moveaxis(jnp.asarray(block(start + rows * k, rows), dtype), axis, 0)
        found = lax.map(each, jnp.arange(count))
        parts.append(jnp.moveaxis(found.reshape(count * rows, *found.shape[2:]), 0, axis))
    if rest:
        parts.append(jnp.asarray(block(stop - rest, rest), dtype))
    return jnp.concatenate(parts, axis)


def _sum_by_windows(start, stop, width, block, shape, dtype):
    """The sum of block(k, rows) for blocks of rows from start to stop, each of which reads a window of `width` and
    the rows: as a loop if they are many."""
    count, rows, rest = _windows(start, stop, width)
    total = jnp.zeros(shape, dtype)
    if count:
        total = lax.fori_loop(0, count, lambda k, total: total + block(start + rows * k, rows), total)
    return total + block(stop - rest, rest) if rest else total


def _band_by_windows(start, stop, width, block, axes, shape, dtype):
    """Zeros of that shape except what block(k, rows) gives for blocks of rows from start to stop: an array, and where
    its first column is. The axes are those of rows and columns; small arrays are written as one block."""
    count, rows, rest = _windows(start, stop, width)
    if shape[axes[0]] * shape[axes[1]] <= COSTS["band_cells"]:
        count, rest = 0, stop - start

    def put(total, k, rows):
        part, column = block(k, rows)
        at = [k - start if axis == axes[0] else column if axis == axes[1] else 0 for axis in range(len(shape))]
        return lax.dynamic_update_slice(total, jnp.asarray(part, dtype), at)

    total = jnp.zeros(shape, dtype)
    if count:
        total = lax.fori_loop(0, count, lambda k, total: put(total, start + rows * k, rows), total)
    return put(total, stop - rest, rest) if rest else total


def _windows(start, stop, width):
    """How many blocks of how many rows, and how many rows are left: blocks half as high as the band is wide."""
    size = max(stop - start, 0)
    rows = max(width // 2, COSTS["window_rows"])
    if size <= 2 * max(width, rows):
        return 0, rows, size
    return size // rows, rows, size % rows


def _on_line(x, starts, steps, count):
    """x[starts + k * steps] for k < count, zero where that is outside of x; a strided slice if the starts are known."""
    if not all(isinstance(k, int) for k in starts):
        k = jnp.arange(count)
        return _read(x, *(start + k * step for start, step in zip(starts, steps, strict=True)))
    first, stop = 0, count
    for start, step, size in zip(starts, steps, x.shape, strict=True):
        # 0 <= start + k * step < size
        low, high = (-start, size - 1 - start) if step > 0 else (start - size + 1, start)
        if step == 0:
            stop = stop if 0 <= start < size else 0
        else:
            first, stop = max(first, -(-low // abs(step))), min(stop, high // abs(step) + 1)
    if first >= stop:
        return jnp.zeros(count, x.dtype)
    strides = [1]
    for size in reversed(x.shape[1:]):
        strides.insert(0, strides[0] * size)
    step = sum(step * stride for step, stride in zip(steps, strides, strict=True))
    at = sum((start + first * k) * stride for start, k, stride in zip(starts, steps, strides, strict=True))
    flat = x.reshape(-1)
    if step > 0:
        found = lax.slice(flat, (at,), (at + (stop - first - 1) * step + 1,), (step,))
    else:
        found = flat[at + jnp.arange(stop - first) * step]
    return jnp.pad(found, (first, count - stop))


def _running(x, axis, backwards):
    """0 and the sums of the first 1, 2, ... elements of x along an axis; backwards: of all, all but one, ..., none.

    Products with a triangle of ones in blocks, so an element that is inf or nan is seen in its whole block.
    """
    x = jnp.moveaxis(x, axis, -1)
    edges = [(0, 0)] * (x.ndim - 1) + [(0, 1) if backwards else (1, 0)]
    return jnp.moveaxis(jnp.pad(_running_sums(x, backwards), edges), -1, axis)


def _running_in_order(x, axis, backwards):
    """As `_running`, but none of the sums sees an element that it is not of."""
    edges = [((0, 1) if backwards else (1, 0)) if k == axis else (0, 0) for k in range(x.ndim)]
    return jnp.pad(lax.cumsum(x, axis, reverse=backwards), edges)


def _running_sums(x, backwards):
    n, size = x.shape[-1], COSTS["running_block"]
    ones = jnp.ones((min(n, size), min(n, size)), x.dtype)
    triangle = jnp.tril(ones) if backwards else jnp.triu(ones)
    if n <= size:
        return x @ triangle
    count = -(-n // size)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count * size - n)]).reshape(*x.shape[:-1], count, size)
    sums = x @ triangle
    whole = _running_sums(sums[..., 0 if backwards else -1], backwards)
    edges = [(0, 0)] * (whole.ndim - 1) + [(0, 1) if backwards else (1, 0)]
    before = jnp.pad(whole[..., 1:] if backwards else whole[..., :-1], edges)
    return (sums + before[..., None]).reshape(*x.shape[:-2], count * size)[..., :n]
