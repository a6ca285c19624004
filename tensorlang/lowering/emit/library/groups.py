"""Groups that data gives: their numbers, and running sums in them."""

import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.emit.library.relations import _by_place, _put_at, _take


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
    if backwards. There are `size` places. No sum sees a value that it is not of."""
    (sums,) = _joined_in_groups(_sum_of_both, (0,), (values,), at, asked, size, strict, backwards)
    return sums


def _running_up_to(values, at, ranks, asked, limits, size, least, greatest):
    """For each k the sum of the values whose place is asked[k] and whose rank is at most limits[k]; ranks are from
    `least` to `greatest`. There are `size` places."""
    (sums,) = _joined_up_to(_sum_of_both, (0,), (values,), at, ranks, asked, limits, size, least, greatest)
    return sums


def _greatest_in_groups(values, mask, at, asked, size, strict, backwards, none):
    """The greatest, in the place of the sums of `_running_in_groups`, of the values that the mask selects."""
    given = _numbered(values, mask)
    best, found = _joined_in_groups(_greater_of_both, (-jnp.inf, -1), given, at, asked, size, strict, backwards)
    return jnp.where(found < 0, none, best)


def _greatest_up_to(values, mask, at, ranks, asked, limits, size, least, greatest, none):
    """The greatest, in the place of the sums of `_running_up_to`, of the values that the mask selects."""
    given, of_none = _numbered(values, mask), (-jnp.inf, -1)
    best, found = _joined_up_to(_greater_of_both, of_none, given, at, ranks, asked, limits, size, least, greatest)
    return jnp.where(found < 0, none, best)


def _first_greatest_in_groups(values, mask, at, asked, size, strict, backwards, start):
    """The number, counted from `start`, of the first of the greatest values of `_greatest_in_groups`; 0 of none."""
    given = _numbered(values, mask)
    _, found = _joined_in_groups(_greater_of_both, (-jnp.inf, -1), given, at, asked, size, strict, backwards)
    return jnp.where(found < 0, 0, found + start)


def _first_greatest_up_to(values, mask, at, ranks, asked, limits, size, least, greatest, start):
    """The number, counted from `start`, of the first of the greatest values of `_greatest_up_to`; 0 of none."""
    given, of_none = _numbered(values, mask), (-jnp.inf, -1)
    _, found = _joined_up_to(_greater_of_both, of_none, given, at, ranks, asked, limits, size, least, greatest)
    return jnp.where(found < 0, 0, found + start)


def _numbered(values, mask):
    """The values and their numbers along the first axis; -1 where the mask hides them."""
    return values, jnp.where(mask, lax.broadcasted_iota(jnp.int32, values.shape, 0), -1)


def _sum_of_both(first, second):
    return (first[0] + second[0],)


def _greater_of_both(first, second):
    """The greater one of two values with their numbers: one that is nan, if there is one; of equal ones that of the
    lower number. A value whose number is -1 does not count."""
    (x, i), (y, j) = first, second
    greater = (y > x) | (jnp.isnan(y) & ~jnp.isnan(x))
    equal = (y == x) | (jnp.isnan(y) & jnp.isnan(x))
    is_second = (j >= 0) & ((i < 0) | greater | (equal & (j < i)))
    return jnp.where(is_second, y, x), jnp.where(is_second, j, i)


def _joined_in_groups(join, none, values, at, asked, size, strict, backwards):
    """For each k those of the first k + 1 elements of the arrays `values`, or k if strict, whose place is asked[k],
    joined, or `none` of none; the last ones if backwards. There are `size` places.

    On a CPU one is joined after the other, unless a table of the places is far longer than the values; else they are
    sorted and joined in parallel, which takes a CPU ten times as long.
    """
    if values[0].size == 0 or size == 0:
        return _of_none(none, values, len(asked))
    turned = lambda arrays: [jnp.flip(x, 0) if backwards else x for x in arrays]
    arguments = turned((*values, at) if asked is at else (*values, at, asked))
    count = len(values)

    def in_turns(*given):
        values, at, asked = list(given[:count]), given[count], given[-1]
        if strict:  # what was there before is joined now
            values = [jnp.concatenate([x, y[:-1]]) for x, y in zip(_of_none(none, values, 1), values, strict=True)]
            at = jnp.concatenate([at[:1], at[:-1]])
        return _joined_in_turns(join, none, values, at, asked, size)

    def in_order(*given):
        asked = given[count + 1] if len(given) > count + 1 else None
        return _joined_in_order_of_groups(join, none, given[:count], given[count], asked, size, strict)

    if size > 16 * len(at):
        return turned(in_order(*arguments))
    return turned(lax.platform_dependent(*arguments, cpu=in_turns, default=in_order))


def _of_none(none, values, count):
    """What stands for elements of `values` where there are none, `count` times."""
    return [jnp.full((count, *x.shape[1:]), y, x.dtype) for x, y in zip(values, none, strict=True)]


def _joined_in_turns(join, none, values, at, asked, size):
    """For each k those of the first k + 1 elements of `values` whose place is asked[k], joined, by tables of places."""
    start = lambda x, k: (k, *(jnp.uint32(0) for _ in x.shape[1:]))
    read = lambda x, k: lax.dynamic_slice(x, start(x, k), (1, *x.shape[1:]), allow_negative_indices=False)
    write = lambda x, y, k: lax.dynamic_update_slice(x, y, start(x, k), allow_negative_indices=False)

    def turn(tables, given):
        *here, place, wanted = given
        new = join([read(x, place) for x in tables], [x[None] for x in here])
        tables = [write(x, y, place) for x, y in zip(tables, new, strict=True)]
        return tables, [read(x, wanted)[0] for x in tables]

    given = (*values, at.astype(jnp.uint32), asked.astype(jnp.uint32))
    return lax.scan(turn, _of_none(none, values, size), given)[1]


def _joined_in_order_of_groups(join, none, values, at, asked, size, strict):
    """The same; elements whose places are equal, and what is asked of them, are made neighbours."""
    count = len(at)
    if asked is not None:
        both = [(asked, at), *zip(_of_none(none, values, count), values, strict=True)]
        pairs = [jnp.stack(x if strict else x[::-1], 1) for x in both]
        at, *values = [x.reshape((2 * count, *x.shape[2:])) for x in pairs]
    order, places = _by_place(at, size)
    first = jnp.concatenate([jnp.ones(1, bool), places[1:] != places[:-1]])
    each = lambda x, like: x.reshape(-1, *(1 for _ in like.shape[1:]))

    def joined(left, right):
        (begins, *before), (starts, *after) = left, right
        both = join(before, after)
        here = [jnp.where(each(starts, x), x, y) for x, y in zip(after, both, strict=True)]
        return begins | starts, *here

    _, *found = lax.associative_scan(joined, (first, *(_take(x, order) for x in values)))
    if strict:
        shifted = [jnp.concatenate([x[:1], x[:-1]]) for x in found]
        found = [jnp.where(each(first, x), y, x) for x, y in zip(shifted, none, strict=True)]
    found = [_put_at(x, (order,), (len(order),)) for x in found]
    return found if asked is None else [x[0 if strict else 1 :: 2] for x in found]


def _joined_up_to(join, none, values, at, ranks, asked, limits, size, least, greatest):
    """For each k the elements of the arrays `values` whose place is asked[k] and whose rank is at most limits[k],
    joined, or `none` of none.

    Values and what is asked are brought into one order, in which a value comes before what may see it.
    """
    count, shape = len(at), limits.shape
    limits = jnp.clip(limits.reshape(-1), least - 1, greatest)
    every = _of_none(none, values, len(limits))
    if values[0].size == 0 or size == 0:
        return [x.reshape((*shape, *x.shape[1:])) for x in every]
    order, _ = _by_place(jnp.concatenate([ranks, limits]) - (least - 1), greatest - least + 2)
    every = [_take(jnp.concatenate([x, y]), order) for x, y in zip(values, every, strict=True)]
    at = _take(jnp.concatenate([at, asked.reshape(-1)]), order)
    found = _joined_in_groups(join, none, every, at, at, size, False, False)
    found = [_put_at(x, (order,), (len(order),))[count:] for x in found]
    return [x.reshape((*shape, *x.shape[1:])) for x in found]
