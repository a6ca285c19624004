"""Recurrences, steps one after the other and window by window of their times, and functions called as a whole."""

import jax
import jax.numpy as jnp
from jax import lax


def _recur(step, first, size, dtype, places=()):
    """The last states of `size` steps from the first ones, and what each step gives: step(states, t) is both. Of what
    is given, `places` are not numbers but integers."""
    return _go_through(_cast(step, dtype, places), _numbers(first, dtype), 0, size)


def _go_through(step, states, first, size, read=lambda t: (), backwards=False):
    """`size` steps from the time `first` on, each with read(t); what they give comes last first if `backwards`."""

    def one(carry, _):
        t, states = carry
        states, values = step(states, t, *read(t))
        return (t + 1, states), values

    carry = jnp.asarray(first, jnp.int32), states
    # not unrolled: XLA fuses steps that follow one another, and computes states anew for each that reads them
    (_, states), values = lax.scan(one, carry, length=size, reverse=backwards)
    return states, values


def _row(x, k):
    """x[k], where k is a place of x, if there is one."""
    if x.shape[0] == 0:
        return jnp.zeros(x.shape[1:], x.dtype)
    return lax.dynamic_index_in_dim(x, k, keepdims=False, allow_negative_indices=False)


def _recur_until(step, first, size, dtype):
    """The last states of at most `size` steps, until a step says, by its one value, that it keeps all states."""
    step = _cast(step, dtype)

    def one(carry):
        t, states, _ = carry
        states, (done,) = step(states, t)
        return t + 1, states, done > 0

    more = lambda carry: (carry[0] < size) & ~carry[2]
    return lax.while_loop(more, one, (jnp.int32(0), _numbers(first, dtype), jnp.bool_(False)))[1]


def _numbers(arrays, dtype, places=()):
    """The arrays, with one type of numbers except those at `places`, which are integers."""
    return tuple(jnp.asarray(x, jnp.int32 if k in places else dtype) for k, x in enumerate(arrays))


def _cast(step, dtype, places=()):
    """`step`, whose states and values have one type of numbers, except values that are `places`."""

    def cast(states, *given):
        states, values = step(states, *given)
        return _numbers(states, dtype), _numbers(values, dtype, places)

    return cast


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


def _window(size, store="needed"):
    """How many times a window of `size` times has: one of its divisors, where there is one near its root.

    It is a few times where only the logarithm of their number is kept.
    """
    root = 1
    while root * root < size and not (store == "log" and root == 8):
        root += 1
    near = [n for n in range(root, 3 * root) if n <= size and size % n == 0]
    return near[0] if near else max(root, 1)


def _sweep(step, rest, local, first, stored, kept, size, turned, dtype, places=(), listed_places=()):
    """A recurrence window by window: its last states, sums over all times, and what there is for each time.

    Sequences are read, the arrays `stored` and those computed anew as `kept` tells. step(states, t, *now) are the next
    states, and what is given of them; `now` are the elements at the time t of the sequences at the places `local`.
    rest(start, n, *windows, *given) are parts of the sums, and elements, in a window of n times from `start`; it
    reads windows of all sequences, and of what its steps give. With `turned`, times go backwards. Of what steps give
    `places` are integers, and of elements `listed_places`.
    """
    step = _cast(step, dtype, places)
    length = _window(size, kept[0][0] if kept else "needed")

    def window(states, marks, start, n):
        times = start + jnp.arange(n, dtype=jnp.int32)
        again = [
            _again(store, one, data, x, start, times, length) for (store, one, data), x in zip(kept, marks, strict=True)
        ]

        found = [x for xs, _ in again for x in xs]

        def now(t):
            k = size - 1 - t if turned else t
            every = [*((x, k) for x in stored), *((x, k - start) for x in found)]
            return tuple(_row(*every[place]) for place in local)

        first = size - start - n if turned else start
        states, each = _go_through(step, states, first, n, now, turned)
        windows = [*(lax.dynamic_slice_in_dim(x, start, n) for x in stored), *found]
        sums, rows = rest(jnp.asarray(start, jnp.int32), n, *windows, *each)
        rows = _numbers(rows, dtype, listed_places)
        return states, tuple(mark for _, mark in again), _numbers(sums, dtype), rows, each

    def one(carry, _):
        k, states, marks, sums = carry
        states, marks, more, rows, _ = window(states, marks, k * length, length)
        return (k - 1 if turned else k + 1, states, marks, tuple(x + y for x, y in zip(sums, more, strict=True))), rows

    states = _numbers(first, dtype)
    marks = tuple(_marks(store, size, length, data) for store, _, data in kept)
    trace = jax.make_jaxpr(lambda x: window(x, marks, 0, min(length, size))[2:], return_shape=True)
    traced, (kinds, listed, each) = trace(states)
    made = traced.jaxpr.outvars[len(kinds) :]
    is_listed = all(any(x is y for y in made[: len(listed)]) for x in made[len(listed) :])
    sums = tuple(jnp.zeros(x.shape, dtype) for x in kinds)
    if not kept and sum(x.size for x in each) * (size // length - 1) <= 2 * sum(x.size for x in kinds):
        length = size  # what is added up is larger than what steps give
    elif kinds and listed and size > 64 and not (turned or stored or kept):
        pass  # what steps give is stored in any case, and sums over many times are faster
    elif not kept and sum(x.size for x in kinds) <= sum(x.size for x in each) // max(min(length, size), 1):
        length = 1
    elif not kept and kinds and is_listed:
        length = size  # what steps give is stored in any case
    count, left = (size // length, size % length) if size else (0, 0)
    if count == 1 and not left:
        states, _, sums, rows, _ = window(states, marks, 0, length)
        return states, sums, rows
    carry, parts = (states, marks, sums), []
    for whole in (False, True) if turned else (True, False):
        if whole and count:
            k = jnp.asarray(count - 1 if turned else 0, jnp.int32)
            (_, *last), rows = lax.scan(one, (k, *carry), length=count, reverse=turned)
            carry = last[0], last[1], last[2]
            parts.append(tuple(x.reshape(count * length, *x.shape[2:]) for x in rows))
        elif not whole and (left or not count):
            states, marks, sums = carry
            states, marks, more, rows, _ = window(states, marks, count * length, left)
            carry = states, marks, tuple(x + y for x, y in zip(sums, more, strict=True))
            parts.append(rows)
    if turned:
        parts.reverse()
    return carry[0], carry[2], tuple(x[0] if len(x) == 1 else jnp.concatenate(x) for x in zip(*parts, strict=True))


def _keep(store, step, first, size, dtype):
    """The last states of a recurrence, and what is kept of it so that `_again` can compute what its steps give."""
    step = _cast(step, dtype)
    first = _numbers(first, dtype)
    length = _window(size, store)
    count, left = size // length, size % length

    def steps(states, start, n):
        return _go_through(lambda states, t: (step(states, t)[0], ()), states, start, n)[0]

    if store == "states":
        last, before = _go_through(lambda states, t: (step(states, t)[0], states), first, 0, size)
        return last, (store, step, before)
    if store == "log":
        return steps(first, 0, size), (store, step, first)
    ends, starts = _go_through(lambda x, k: (steps(x, k * length, length), x), first, 0, count)
    starts = tuple(jnp.concatenate([x, end[None]]) for x, end in zip(starts, ends, strict=True))
    return steps(ends, count * length, left), (store, step, starts)


def _marks(store, size, length, data):
    """The first mark of a recurrence of which the states at halves of its time are kept, the last ones first."""
    if store != "log":
        return ()
    depth = 2 + (size // length).bit_length()
    return (
        jnp.zeros(depth, jnp.int32),
        tuple(jnp.zeros((depth, *x.shape), x.dtype).at[0].set(x) for x in data),
        jnp.asarray(0, jnp.int32),
    )


def _again(store, step, data, mark, start, times, length):
    """What steps give at the times of a window from `start`, once more, and the marks that are left."""
    if store == "states":
        before = tuple(lax.dynamic_slice_in_dim(x, start, times.shape[0]) for x in data)
        return jax.vmap(step)(before, times)[1], mark
    k = jnp.asarray(start // length, jnp.int32)
    if store == "sqrt":
        return _go_through(step, tuple(x[k] for x in data), start, times.shape[0])[1], mark
    at, held, top = mark
    top = lax.while_loop(lambda top: at[top] > k, lambda top: top - 1, top)

    def further(mark):
        at, held, top = mark
        middle = at[top] + (k - at[top] + 1) // 2
        one = lambda t, states: step(states, jnp.asarray(t, jnp.int32))[0]
        states = lax.fori_loop(at[top] * length, middle * length, one, tuple(x[top] for x in held))
        held = tuple(x.at[top + 1].set(y) for x, y in zip(held, states, strict=True))
        return at.at[top + 1].set(middle), held, top + 1

    at, held, top = lax.while_loop(lambda mark: mark[0][mark[2]] < k, further, (at, held, top))
    return _go_through(step, tuple(x[top] for x in held), start, times.shape[0])[1], (at, held, top)
