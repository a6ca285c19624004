"""Recurrences, steps one after the other, and functions that are called as a whole."""

import jax
import jax.numpy as jnp
from jax import lax


def _recur(step, first, size, dtype):
    """The last states of so many steps from the first ones, and what each step gives: step(states, t) is both."""
    first = tuple(jnp.asarray(x, dtype) for x in first)

    def one(states, t):
        states, given = step(states, t)
        return tuple(jnp.asarray(x, dtype) for x in states), tuple(jnp.asarray(x, dtype) for x in given)

    return lax.scan(one, first, jnp.arange(size, dtype=jnp.int32))


def _before(first, after):
    """The states before each step, of the first one and those after each step."""
    return jnp.concatenate([jnp.asarray(first, after.dtype)[None], after[:-1]])[: after.shape[0]]


def _all_states(first, after):
    """The first state and those after each step."""
    return jnp.concatenate([jnp.asarray(first, after.dtype)[None], after])


def _called(key, arguments, axes, batch, dtype):
    """What the function known as `key` gives for these arguments, of which those on axis 0 have `batch` axes more."""
    from tensorlang.language.routines import by_key

    run = by_key(key).compute
    assert run is not None
    for _ in range(batch):
        run = jax.vmap(run, in_axes=axes)
    return [jnp.asarray(x, dtype) for x in run(*(jnp.asarray(x, dtype) for x in arguments))]
