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
