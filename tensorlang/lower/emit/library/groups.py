"""Groups that data gives: their numbers, and running sums in them."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lower.emit.library.relations import _by_place, _put_at, _take


def _group_numbers(columns, sizes):
    """Numbers less than the length of the columns, the same where the elements of each are; these are below `sizes`."""
    count, number, size = len(columns[0]), columns[0], sizes[0]
    for column, below in zip(columns[1:], sizes[1:], strict=True):
        if size * below > count:
            number, size = _ranks(number, column, size, below), count
        else:
            number, size = number * below + column, size * below
    return number


def _ranks(first, second, size, below):
    """As how many pairs of integers are before each in lexicographic order, equal ones counted once; there are `size`
    values of the first ones and `below` of the second."""
    if size * below < 2**31:
        order, found = _by_place(first * below + second, size * below)
        changes = found[1:] != found[:-1]
    else:
        order = jnp.lexsort((second, first))
        found = [_take(x, order) for x in (first, second)]
        changes = (found[0][1:] != found[0][:-1]) | (found[1][1:] != found[1][:-1])
    ranks = jnp.pad(jnp.cumsum(changes.astype(jnp.int32)), (1, 0))
    return _put_at(ranks[: len(first)], (order,), (len(first),))


def _group_numbers_of_both(own, asked, sizes):
    """The numbers of the elements of two lists of columns, the same where the elements are."""
    numbers = _group_numbers([jnp.concatenate(x) for x in zip(own, asked, strict=True)], sizes)
    return numbers[: len(own[0])], numbers[len(own[0]) :]


def _running_in_groups(values, at, asked, size, strict, backwards):
    """For each k the sum of those of the first k + 1 values, or k if strict, whose place is asked[k]; of the last ones
    if backwards. There are `size` places.

    No sum sees a value that it is not of. On a CPU they are added one after the other, unless a table of the places is
    far longer than the values; else they are sorted and added in parallel, which takes a CPU ten times as long.
    """
    if values.size == 0 or size == 0:
        return jnp.zeros_like(values)
    turned = lambda x: jnp.flip(x, 0) if backwards else x
    arguments = [turned(x) for x in ((values, at) if asked is at else (values, at, asked))]

    def in_turns(values, at, asked=None):
        asked = at if asked is None else asked
        if strict:  # what was there before is added now
            values, at = (jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]) for x in (values, at))
        return _running_in_turns(values, at, asked, size)

    def in_order(values, at, asked=None):
        return _running_in_order_of_groups(values, at, asked, size, strict)

    if size > 16 * len(values):
        return turned(in_order(*arguments))
    return turned(lax.platform_dependent(*arguments, cpu=in_turns, default=in_order))


def _running_in_turns(values, at, asked, size):
    """For each k the sum of those of the first k + 1 values whose place is asked[k], by a table of the places."""
    rest = values.shape[1:]
    origin = (jnp.uint32(0),) * len(rest)
    read = lambda sums, k: lax.dynamic_slice(sums, (k, *origin), (1, *rest), allow_negative_indices=False)

    def turn(sums, given):
        value, place, wanted = given
        new = read(sums, place) + value
        sums = lax.dynamic_update_slice(sums, new, (place, *origin), allow_negative_indices=False)
        return sums, read(sums, wanted)[0]

    given = (values, at.astype(jnp.uint32), asked.astype(jnp.uint32))
    return lax.scan(turn, jnp.zeros((size, *rest), values.dtype), given)[1]


def _running_in_order_of_groups(values, at, asked, size, strict):
    """The same sums; values whose places are equal, and what is asked of them, are made neighbours."""
    count, rest = len(values), values.shape[1:]
    if asked is not None:
        both = [(asked, jnp.zeros_like(values)), (at, values)]
        at, values = (jnp.stack(x if strict else x[::-1], 1) for x in zip(*both, strict=True))
        at, values = at.reshape(2 * count), values.reshape((2 * count, *rest))
    order, places = _by_place(at, size)
    first = jnp.concatenate([jnp.ones(1, bool), places[1:] != places[:-1]]).reshape(-1, *(1 for _ in rest))

    def joined(left, right):
        (begins, before), (starts, after) = left, right
        return begins | starts, jnp.where(starts, after, before + after)

    _, sums = lax.associative_scan(joined, (first, _take(values, order)))
    if strict:
        sums = jnp.where(first, 0, jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]]))
    sums = _put_at(sums, (order,), (len(order),))
    return sums if asked is None else sums[0 if strict else 1 :: 2]


def _running_up_to(values, at, ranks, asked, limits, size, least, greatest):
    """For each k the sum of the values whose place is asked[k] and whose rank is at most limits[k]; ranks are from
    `least` to `greatest`. There are `size` places.

    Values and what is asked are brought into one order, in which a value comes before what may see it.
    """
    count, rest, shape = len(values), values.shape[1:], limits.shape
    if values.size == 0 or size == 0:
        return jnp.zeros((*shape, *rest), values.dtype)
    limits = jnp.clip(limits.reshape(-1), least - 1, greatest)
    order, _ = _by_place(jnp.concatenate([ranks, limits]) - (least - 1), greatest - least + 2)
    every = jnp.concatenate([values, jnp.zeros((len(limits), *rest), values.dtype)])
    at = _take(jnp.concatenate([at, asked.reshape(-1)]), order)
    sums = _running_in_groups(_take(every, order), at, at, size, False, False)
    return _put_at(sums, (order,), (len(order),))[count:].reshape((*shape, *rest))
