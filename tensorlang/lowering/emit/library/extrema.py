"""Extrema along an axis, and where they are first found. One that is nan wins. Of values all of which are masked, it is
nan; along an axis without elements, which sizes leave only where the extremum is not asked for, it is 0."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.emit.library.loops import _stored


def _greatest(x, axis):
    """The greatest elements along an axis."""
    return jnp.max(x, axis) if x.shape[axis] else jnp.sum(x, axis)


def _least(x, axis):
    """The least elements along an axis."""
    return jnp.min(x, axis) if x.shape[axis] else jnp.sum(x, axis)


def _greatest_where(x, mask, axis):
    """The greatest elements along an axis of those that the mask selects."""
    some = mask.any(axis) if mask.shape[axis] else True
    return jnp.where(some, _greatest(jnp.where(mask, x, -jnp.inf), axis), jnp.nan)


def _least_where(x, mask, axis):
    """The least elements along an axis of those that the mask selects."""
    some = mask.any(axis) if mask.shape[axis] else True
    return jnp.where(some, _least(jnp.where(mask, x, jnp.inf), axis), jnp.nan)


def _first_greatest(x, axis):
    """The place of the first of the greatest elements along an axis. Of more than a few, those that are as great as the
    greatest are looked for: XLA finds greatest values, and least places, much faster than places of greatest values."""
    n = x.shape[axis]
    if n == 0:
        return jnp.zeros(x.shape[:axis] + x.shape[axis + 1 :], jnp.int32)
    if n < 24 or x.dtype == bool:
        return jnp.argmax(x, axis).astype(jnp.int32)
    x = _stored(x)  # computed twice, it need not be as great as itself
    # not jnp.max, of which XLA's CPU compiler may overlook a nan (jaxlib 0.10.2)
    greater = lambda a, b: lax.select((a >= b) | jnp.isnan(a), a, b)
    best = jnp.expand_dims(lax.reduce(x, jnp.array(-jnp.inf, x.dtype), greater, (axis,)), axis)
    places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.min(jnp.where((x == best) | jnp.isnan(x), places, n - 1), axis)


def _first_least(x, axis):
    """The place of the first of the least elements along an axis."""
    return _first_greatest(-x, axis)


def _first_greatest_where(x, mask, axis):
    """The place of the first of the greatest elements along an axis of those that the mask selects."""
    found = _first_greatest(jnp.where(mask, x, -jnp.inf), axis)
    if mask.shape[axis] == 0:
        return found
    # what is hidden is only found if all that is not is -inf
    seen = jnp.take_along_axis(mask, jnp.expand_dims(found, axis), axis).squeeze(axis)
    return jnp.where(seen, found, _first_greatest(mask, axis))


def _first_least_where(x, mask, axis):
    """The place of the first of the least elements along an axis of those that the mask selects."""
    return _first_greatest_where(-x, mask, axis)


def _running_greatest(x, axis, backwards):
    """The greatest of the elements up to each along an axis; backwards: of those from each on."""
    return lax.cummax(x, axis, reverse=backwards)


def _running_least(x, axis, backwards):
    """The least of the elements up to each along an axis; backwards: of those from each on."""
    return lax.cummin(x, axis, reverse=backwards)


def _running_first_greatest(x, axis, backwards):
    """The places of the first of the greatest elements up to each along an axis; backwards: from each on."""
    n = x.shape[axis]
    if n == 0:
        return jnp.zeros(x.shape, jnp.int32)
    best = lax.cummax(x, axis, reverse=backwards)
    kept, gone = (slice(1, n), slice(0, n - 1)) if backwards else (slice(0, n - 1), slice(1, n))
    before, here = (lax.slice_in_dim(a, s.start, s.stop, axis=axis) for a, s in ((best, kept), (x, gone)))
    better = (here >= before) & ~jnp.isnan(before) if backwards else here > before
    better = better | (jnp.isnan(here) if backwards else jnp.isnan(here) & ~jnp.isnan(before))
    first = jnp.ones_like(lax.slice_in_dim(x, 0, 1, axis=axis), bool)
    better = jnp.concatenate([better, first] if backwards else [first, better], axis)
    places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    if backwards:
        return lax.cummin(jnp.where(better, places, n), axis, reverse=True)
    return lax.cummax(jnp.where(better, places, 0), axis)


def _running_first_least(x, axis, backwards):
    """The places of the first of the least elements up to each along an axis; backwards: from each on."""
    return _running_first_greatest(-x, axis, backwards)


def _greatest_over(r, term, shape, dtype):
    """The greatest of term(i), each of that shape, for i in a range: unrolled if it is short, else a loop."""
    if len(r) == 0:
        return jnp.zeros(shape, dtype)
    each = lambda i: jnp.broadcast_to(jnp.asarray(term(i), dtype), shape)
    add = lambda i, best: jnp.maximum(best, each(i))
    best = each(r.start)
    if len(r) > 64:
        return lax.fori_loop(r.start + 1, r.stop, add, best)
    for i in range(r.start + 1, r.stop):
        best = add(i, best)
    return best


def _first_greatest_over(r, term, shape, dtype):
    """How many of term(i), each of that shape, for i in a range come before the first of the greatest."""
    found = jnp.zeros(shape, jnp.int32)
    if len(r) == 0:
        return found
    each = lambda i: jnp.broadcast_to(jnp.asarray(term(i), dtype), shape)

    def add(i, state):
        best, found = state
        here = each(i)
        better = (here > best) | (jnp.isnan(here) & ~jnp.isnan(best))
        return jnp.where(better, here, best), jnp.where(better, i - r.start, found)

    state = each(r.start), found
    if len(r) > 64:
        return lax.fori_loop(r.start + 1, r.stop, add, state)[1]
    for i in range(r.start + 1, r.stop):
        state = add(i, state)
    return state[1]


def _first_greatest_where_over(r, term, shape, dtype):
    """As `_first_greatest_over`, of those that are not hidden: term(i) is a value and whether it is to be seen."""

    def add(i, state):
        best, seen, found = state
        here, shown = (jnp.broadcast_to(a, shape) for a in term(i))
        better = shown & (~seen | (here > best) | (jnp.isnan(here) & ~jnp.isnan(best)))
        return jnp.where(better, here, best), seen | shown, jnp.where(better, i - r.start, found)

    state = jnp.zeros(shape, dtype), jnp.zeros(shape, bool), jnp.zeros(shape, jnp.int32)
    if len(r) > 64:
        return lax.fori_loop(r.start, r.stop, add, state)[2]
    for i in r:
        state = add(i, state)
    return state[2]
