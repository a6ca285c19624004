"""Elements at places that data gives, and sums over them."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.emit.library.windows import _some


def _take(x, *at):
    """x[at], where every place is inside of x or hidden."""
    return _some(x, at).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _put_in_order(values, at, shape):
    """Zeros of that shape, but the values at places in increasing order; what is outside is left out."""
    zeros = jnp.zeros((*shape, *values.shape[1:]), values.dtype)
    return zeros.at[at].set(
        values, mode="drop", indices_are_sorted=True, unique_indices=True, wrap_negative_indices=False
    )


def _put_at(values, at, shape):
    """Zeros of that shape, but the values at places of which no two are the same; what is outside is left out."""
    zeros = jnp.zeros((*shape, *values.shape[at[0].ndim :]), values.dtype)
    return zeros.at[at].set(values, mode="drop", unique_indices=True, wrap_negative_indices=False)


def _add_in_order(values, at, shape):
    """The sums, in an array of that shape, of the values whose places are equal; the places are in order."""
    zeros = jnp.zeros((*shape, *values.shape[1:]), values.dtype)
    return zeros.at[at].add(values, mode="drop", indices_are_sorted=True, wrap_negative_indices=False)


def _add_at(values, at, shape, order=None):
    """The sums, in an array of that shape, of the values whose places are equal; what is outside is left out.

    They are added up in their order: one after the other on a CPU, sorted by their places elsewhere, if no `order`
    in which these increase is given.
    """
    values, at, size = _listed(values, at, shape)
    if values.size == 0 or size == 0:
        return jnp.zeros((*shape, *values.shape[1:]), values.dtype)
    in_order = lambda order, values, *at: _add_in_order(_take(values, order), tuple(_take(a, order) for a in at), shape)
    if size >= 2**31:
        return in_order(jnp.lexsort(at[::-1]) if order is None else order, values, *at)
    flat = _flat_places(at, shape, size)
    add = _add_scattered if _suits_scatter(values, size) else _add_one_by_one
    one_by_one = lambda flat, values, *_: add(values, flat, size).reshape((*shape, *values.shape[1:]))
    if order is None:
        sorted_first = lambda flat, values: _add_sorted(values, flat, size).reshape((*shape, *values.shape[1:]))
        return lax.platform_dependent(flat, values, cpu=one_by_one, default=sorted_first)
    by_order = lambda _, values, order, *at: in_order(order, values, *at)
    return lax.platform_dependent(flat, values, order, *at, cpu=one_by_one, default=by_order)


def _listed(values, at, shape):
    """Values and their places in an array of that shape as lists, and how many places there are."""
    count, size = 1, 1
    for n in at[0].shape:
        count *= n
    for n in shape:
        size *= n
    return values.reshape((count, *values.shape[at[0].ndim :])), tuple(a.reshape(count) for a in at), size


def _flat_places(at, shape, size):
    """The places in an array of that shape, numbered; `size`, how many there are, for one outside of it."""
    flat = at[0]
    if len(at) > 1:
        inside = True
        for a, n in zip(at, shape, strict=True):
            inside = inside & (a >= 0) & (a < n)
        for a, n in zip(at[1:], shape[1:], strict=True):
            flat = flat * n + a
        flat = jnp.where(inside, flat, size)
    return flat


def _put_in(x, value, *at):
    """x with the value in that place, if x has it; of several, no two are the same."""
    if x.size == 0:
        return x
    return x.at[at].set(value, mode="drop", unique_indices=True, wrap_negative_indices=False)


def _add_to_all(x, values, *at):
    """x with the values added at places of its first axes, some of which may be the same; what is outside is left out.

    They are added up in their order: one after the other on a CPU, sorted by their places elsewhere.
    """
    shape = x.shape[: len(at)]
    if 4 * values.size >= x.size:
        return x + _add_at(values, at, shape)
    values, at, size = _listed(values, at, shape)
    if x.size == 0 or values.size == 0:
        return x
    if size >= 2**31:
        return x.at[at].add(values, mode="drop", wrap_negative_indices=False)

    def in_order(x, values, *at):
        order, places = _by_place(_flat_places(at, shape, size), size)
        rows = x.reshape((size, *x.shape[len(at) :]))
        rows = rows.at[places].add(
            _take(values, order), mode="drop", indices_are_sorted=True, wrap_negative_indices=False
        )
        return rows.reshape(x.shape)

    one_by_one = lambda x, values, *at: x.at[at].add(values, mode="drop", wrap_negative_indices=False)
    return lax.platform_dependent(x, values, *at, cpu=one_by_one, default=in_order)


def _suits_scatter(values, size):
    """Whether XLA's own scatter takes less time than a loop: with few values, short rows, or what fills a cache."""
    count, each = len(values), values.size // len(values)
    return size * each >= 2**16 or (each > 1 and values.size >= 2**20) or (each < 16 and (count < 2**12 or each >= 4))


def _add_scattered(values, at, size):
    """The sums of the values whose places are equal, as XLA scatters; what is not at one below `size` is left out."""
    sums = jnp.zeros((size, *values.shape[1:]), values.dtype)
    return sums.at[at].add(values, mode="drop", wrap_negative_indices=False)


def _add_one_by_one(values, at, size):
    """The same sums, by a loop."""
    rest, each = values.shape[1:], values.size // len(values)
    if rest and each % 4 == 0:
        values = values.reshape((len(values), each // 4, 4))  # the compiler makes vectors of these
    window = (1, *values.shape[1:])
    origin = (jnp.uint32(0),) * (values.ndim - 1)
    at_once = max(
        1, min(8, len(values), 32 * len(values) // values.nbytes)
    )  # a longer round is not compiled as one loop

    def add(k, count, sums):
        some = lambda x, k, n: lax.dynamic_slice_in_dim(x, k, n, allow_negative_indices=False)
        block = some(values, k, count) if values.ndim == 1 else None
        for j, place in enumerate(some(at, k, count).astype(jnp.uint32)):
            old = lax.dynamic_slice(sums, (place, *origin), window, allow_negative_indices=False)
            new = old + (some(values, k + j, 1) if block is None else block[j])
            sums = lax.dynamic_update_slice(sums, new, (place, *origin), allow_negative_indices=False)
        return sums

    rounds = len(values) // at_once
    sums = jnp.zeros((size + 1, *values.shape[1:]), values.dtype)  # to the last of which others are clamped
    sums = lax.fori_loop(0, rounds, lambda k, sums: add(k * at_once, at_once, sums), sums)
    return add(rounds * at_once, len(values) % at_once, sums)[:size].reshape((size, *rest))


def _add_sorted(values, at, size):
    """The same sums; values whose places are equal are made neighbours."""
    order, places = _by_place(at, size)
    return _add_in_order(_take(values, order), (places,), (size,))


def _by_place(at, size):
    """The numbers of the places `at` in the order of these, equal ones in their own; and the places in that order.
    What is not below `size` comes last, as `size`."""
    count, at = len(at), jnp.minimum(at.astype(jnp.uint32), size)
    # place and number as one integer: sorting these takes a fifth of the time of argsort
    most = 2**32 // (count + 1) - 1
    if size > most >= 2**8:  # by what is left of a division first, and then by the quotient
        low, _ = _by_place(at % (most + 1), most)
        high, _ = _by_place(_take(at // (most + 1), low), size // (most + 1))
        order = _take(low, high)
        return order, _take(at, order).astype(jnp.int32)
    if size > most:
        order = jnp.argsort(at)
        return order, _take(at, order).astype(jnp.int32)
    keys = lax.sort(at * jnp.uint32(count) + jnp.arange(count, dtype=jnp.uint32))
    return (keys % count).astype(jnp.int32), (keys // count).astype(jnp.int32)


def _greatest_at(values, mask, at, shape):
    """The greatest, in an array of that shape, of the values at the same places that the mask selects; -inf of none."""
    least = jnp.full((*shape, *values.shape[at[0].ndim :]), -jnp.inf, values.dtype)
    return least.at[at].max(jnp.where(mask, values, -jnp.inf), mode="drop", wrap_negative_indices=False)


def _greatest_at_or(values, mask, at, shape, none):
    """The same, but `none` of none."""
    unseen = jnp.zeros((*shape, *values.shape[at[0].ndim :]), bool)
    seen = unseen.at[at].max(jnp.broadcast_to(mask, values.shape), mode="drop", wrap_negative_indices=False)
    return jnp.where(seen, _greatest_at(values, mask, at, shape), none)


def _first_greatest_at(values, mask, numbers, at, shape):
    """The least, in an array of that shape, of the numbers of the greatest values at the same places; 0 of none."""
    best = _greatest_at(values, mask, at, shape)
    here = best.at[at].get(mode="clip", wrap_negative_indices=False)
    chosen = mask & ((values == here) | (jnp.isnan(values) & jnp.isnan(here)))
    last = jnp.int32(2**31 - 1)
    numbers = jnp.where(chosen, numbers, last).astype(jnp.int32)  # one counts in int64 where JAX may
    first = jnp.full(best.shape, last).at[at].min(numbers, mode="drop", wrap_negative_indices=False)
    return jnp.where(first < last, first, 0)


def _found(points, *at):
    """Which of the points, lists of coordinates in lexicographic order, is the first that is not before `at`."""
    low = jnp.zeros(jnp.broadcast_shapes(*(jnp.shape(a) for a in at)), jnp.int32)
    high = low + points[0].shape[0]

    def halved(_, bounds):
        low, high = bounds
        middle = (low + high) // 2
        equal = low < high
        before = ~equal & equal
        for column, a in zip(points, at, strict=True):
            here = _take(column, middle)
            before = before | (equal & (here < a))
            equal = equal & (here == a)
        return jnp.where(before, middle + 1, low), jnp.where(before | (low >= high), high, middle)

    return lax.fori_loop(0, int(points[0].shape[0]).bit_length(), halved, (low, high))[0]


def _holds(points, *at):
    """Where `at` is one of the points, lists of coordinates in lexicographic order."""
    found = _found(points, *at)
    result = found < points[0].shape[0]
    for column, a in zip(points, at, strict=True):
        result = result & (_take(column, found) == a)
    return result


def _in_intervals(starts, stops, n):
    """Whether starts <= i <= stops for any of them, for 0 <= i < n; counted in integers, so exact."""
    starts, stops = jnp.broadcast_arrays(jnp.clip(starts, 0, n), jnp.clip(stops, -1, n - 1))
    one = jnp.where(starts <= stops, 1, 0).reshape(-1)
    change = jnp.zeros(n + 2, one.dtype).at[starts.reshape(-1)].add(one).at[stops.reshape(-1) + 1].add(-one)
    return jnp.cumsum(change)[:n] > 0
