"""Windows of arrays, and arrays laid out in larger ones."""

import jax.numpy as jnp
from jax import lax


def _over(x, *ranges):
    """x over the ranges (start, stop) of positions, zero where it has no element."""
    edges = [(-start, max(start, stop) - n, 0) for (start, stop), n in zip(ranges, x.shape, strict=True)]
    return lax.pad(x, jnp.zeros((), x.dtype), edges)


def _read(x, *at):
    """x[at], zero where that is outside of x."""
    if x.size == 0:
        x = jnp.zeros([max(n, 1) for n in x.shape], x.dtype)
    return x.at[at].get(mode="fill", fill_value=0, wrap_negative_indices=False)


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
    # i = p - b * q reads the j from q - last to q - first
    spans = [(-((p + c) // -b), (width - 1 - p - c) // -b) for p in range(max(1, min(-b, n)))]
    phases = {span: _sum_each(x, axis, 1, -span[1], count, span[1] - span[0] + 1) for span in spans}
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
    place = 0
    for *_, k, width in at:
        place = place * width + k
    return _put_along(0, x, jnp.asarray(place), 0, at)


def _put_along(axis, x, place, number, at):
    """`_put_in_windows` along axis `axis` and those after it; `number` says where in the windows along those before."""
    if axis == len(at):
        return jnp.where((place == number)[(..., *[None] * (x.ndim - len(at)))], x, 0)
    step, first, size, _, width = at[axis]
    parts = [_put_along(axis + 1, x, place, number * width + k, at) for k in range(width)]
    if width == 1:
        return _spread(parts[0], axis, first, step, size)
    shape = (*x.shape[:axis], size, *(size for _, _, size, _, _ in at[axis + 1 :]), *x.shape[len(at) :])
    total = None
    for k in range(0, width, step):
        taken = parts[k : k + step]
        taken += [jnp.zeros_like(taken[0])] * (step - len(taken))
        rows = jnp.stack(taken, axis + 1).reshape(*shape[:axis], step * x.shape[axis], *shape[axis + 1 :])
        edges = [(-first - k, size - first - k) if d == axis else (0, n) for d, n in enumerate(shape)]
        total = _over(rows, *edges) if total is None else total + _over(rows, *edges)
    return jnp.zeros(shape, x.dtype) if total is None else total
