"""Windows of arrays, and arrays laid out in larger ones."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.emit.library.loops import _stored


def _over(x, *ranges):
    """x over the ranges (start, stop) of positions, zero where it has no element."""
    parts, edges = [], []
    for (start, stop), n in zip(ranges, x.shape, strict=True):
        first = min(max(start, 0), n)
        last = max(first, min(stop, n))
        low = first - start if first < last else max(stop - start, 0)
        parts.append((first, last))
        edges.append((low, max(stop - start, 0) - low - (last - first), 0))
    # not a pad by less than nothing, after which XLA's partitioner may read other elements of x wrong (jaxlib 0.10.2)
    if any(part != (0, n) for part, n in zip(parts, x.shape, strict=True)):
        x = lax.slice(x, *zip(*parts, strict=True))
    return lax.pad(x, jnp.zeros((), x.dtype), edges) if any(low or high for low, high, _ in edges) else x


def _some(x, at):
    """x, or zeros in its place if it has no element at any of the places `at`."""
    if x.size:
        return x
    indexed = [not isinstance(a, slice) for a in at] + [False] * (x.ndim - len(at))
    return jnp.zeros([max(n, 1) if some else n for n, some in zip(x.shape, indexed, strict=True)], x.dtype)


def _read(x, *at):
    """x[at], zero where that is outside of x."""
    return _some(x, at).at[at].get(mode="fill", fill_value=0, wrap_negative_indices=False)


def _spread(x, axis, first, step, size):
    """Zeros, but x at first, first + step, ... along an axis of that size."""
    taken = step * (x.shape[axis] - 1) + 1 if x.shape[axis] else 0
    edges = [(first, size - first - taken, step - 1) if k == axis else (0, 0, 0) for k in range(x.ndim)]
    return lax.pad(x, jnp.zeros((), x.dtype), edges)


def _sum_windows(x, at):
    """The sum of x over the j with 0 <= a * i + b * j + c < width, for 0 <= i < n, for each (a, b, c, n, width) of `at`
    along the last axes."""
    for k, (a, b, c, n, width) in enumerate(at):
        x = _sum_window(x, x.ndim - len(at) + k, a, b, c, n, width)
    return x


def _sum_window(x, axis, a, b, c, n, width):
    """`_sum_windows` along one axis. With a b beyond 1, for one residue of i at a time."""
    if b > 0:
        return _sum_window(x, axis, -a, -b, width - 1 - c, n, width)
    if a < 0:
        return jnp.flip(_sum_window(x, axis, -a, b, c + a * (n - 1), n, width), axis)
    if b == -1:
        return _sum_each(x, axis, a, c - width + 1, n, width)
    count = -(-n // -b)
    # i = p - b * q reads the j from a * q - last to a * q - first
    spans = [(-((a * p + c) // -b), (width - 1 - a * p - c) // -b) for p in range(max(1, min(-b, n)))]
    phases = {span: _sum_each(x, axis, a, -span[1], count, span[1] - span[0] + 1) for span in spans}
    if len(phases) == 1:
        x = jnp.repeat(phases[spans[0]], len(spans), axis)
    else:
        x = jnp.stack([phases[span] for span in spans], axis + 1)
        x = x.reshape(*x.shape[:axis], count * len(spans), *x.shape[axis + 2 :])
    return lax.slice_in_dim(x, 0, n, axis=axis)


def _sum_each(x, axis, step, start, n, width):
    """The n sums of x over windows of that width from start, start + step, ... on, zero outside of x. Long windows that
    overlap are made of sums over 1, 2, 4, ... elements."""
    size = step * (n - 1) + width
    if 0 in (n, x.shape[axis]) or width <= 0:
        return jnp.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype)
    x = _over(x, *[(start, start + size) if k == axis else (0, extent) for k, extent in enumerate(x.shape)])
    if n * width > 2 * size * width.bit_length():
        return _sum_by_doubling(x, axis, step, n, width)
    if width > 8:
        window = [width if k == axis else 1 for k in range(x.ndim)]
        strides = [step if k == axis else 1 for k in range(x.ndim)]
        return lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, window, strides, "VALID")
    total = None
    for j in range(width):
        term = lax.slice_in_dim(x, j, j + step * (n - 1) + 1, step, axis)
        total = term if total is None else total + term
    return total


def _sum_by_doubling(x, axis, step, n, width):
    """`_sum_each` of windows that overlap: from the sums over 1, 2, 4, ... elements those that make up a window."""
    total, done, power = None, 0, 1
    while power <= width:
        if width & power:
            term = lax.slice_in_dim(x, done, done + step * (n - 1) + 1, step, axis)
            total = term if total is None else total + term
            done += power
        if 2 * power <= width:
            size = x.shape[axis] - power
            x = lax.slice_in_dim(x, 0, size, axis=axis) + lax.slice_in_dim(x, power, power + size, axis=axis)
        power *= 2
    return total


def _put_in_windows(x, at):
    """Zeros, but x at the places step * l + first + k along each of its first axes, where l is a place of x, for each
    (step, first, size, k, width) of `at`: 0 <= k < width, and size is the result's. Where places are equal, it adds up.
    """
    rank, place, total = len(at), 0, None
    starts: list[tuple[int, ...]] = [()]
    for step, _, _, k, width in at:
        place = place * width + k
        starts = [(*start, s) for start in starts for s in range(0, width, step)]
    counts, rest = x.shape[:rank], x.shape[rank:]
    place = _stored(jnp.broadcast_to(place, counts))
    apart = [size for n in counts for size in (n, 1)]
    for start in starts:
        # the windows cut into pieces as long as a step, which don't overlap: those that begin at `start`
        number = jnp.zeros([1] * 2 * rank, jnp.int32)
        for axis, (s, (step, _, _, _, width)) in enumerate(zip(start, at, strict=True)):
            here = s + jnp.arange(step).reshape([step if d == 2 * axis + 1 else 1 for d in range(2 * rank)])
            number = jnp.where((here < width) & (number >= 0), number * width + here, -1)
        found = (place.reshape(apart) == number)[(..., *[None] * len(rest))]
        rows = jnp.where(found, x.reshape(*apart, *rest), 0)
        rows = rows.reshape(*(step * n for n, (step, *_) in zip(counts, at, strict=True)), *rest)
        edges = [(-first - s, size - first - s) for s, (_, first, size, _, _) in zip(start, at, strict=True)]
        term = _over(rows, *edges, *((0, n) for n in rest))
        total = term if total is None else total + term
    return jnp.zeros((*(size for _, _, size, _, _ in at), *rest), x.dtype) if total is None else total
