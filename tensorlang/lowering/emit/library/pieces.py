"""Arrays put together from pieces."""

import jax
import jax.numpy as jnp
from jax import lax


def _if(holds, x):
    """x, or zeros like it if something does not hold of the sizes."""
    return x if holds else jnp.zeros_like(x)


def _only_if(holds, compute):
    """What compute() gives, arrays in tuples, if `holds`, and else zeros: it is computed only then."""
    made = jax.eval_shape(compute)
    given = lambda: jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), compute(), made)
    return lax.cond(holds, given, lambda: jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), made))


def _if_finite(x, selected):
    """x, or what `selected` gives if an element of x is nan or inf.

    x is a sum that multiplies by zero what does not belong to it, so x is right where all of that is finite. What
    `selected` gives is the same sum of nothing but its own terms.
    """
    return lax.cond(jnp.isfinite(x).all(), lambda: x, lambda: jnp.asarray(selected(), x.dtype))


def _side_by_side(axis, size, *pieces):
    """Zeros of that size along an axis, except the pieces, each from its start on. Where some meet, they add up."""
    zeros = lambda n: jnp.zeros((*pieces[0][1].shape[:axis], n, *pieces[0][1].shape[axis + 1 :]), pieces[0][1].dtype)
    parts, end = [], 0
    for start, x in sorted(pieces, key=lambda piece: piece[0]):
        n = x.shape[axis]
        if n and start < end:
            alone = [_side_by_side(axis, size, piece) for piece in pieces]
            return sum(alone[1:], alone[0])
        if n:
            parts += [zeros(start - end), x]
            end = start + n
    return jnp.concatenate([*parts, zeros(size - end)], axis)


def _in_turns(axis, size, *arrays):
    """An array of that size along an axis, whose elements are those of the arrays in turns."""
    x = jnp.stack(arrays, axis + 1)
    x = x.reshape(*x.shape[:axis], x.shape[axis] * len(arrays), *x.shape[axis + 2 :])
    return lax.slice_in_dim(x, 0, size, axis=axis)
