"""Sums and arrays of many terms, and arrays that are computed once."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from tensorlang.lowering.costs import COSTS


@jax.jit
def _stored(x):
    """x, stored in memory. XLA's fusions for CPUs would compute a cheap array anew for all that read it; what is given
    to a function that is not inlined is there. Traced once for each shape."""

    def once(x):
        with set_xla_metadata(inlineable="false"):
            return jax.jit(lambda x: x)(x)

    return lax.platform_dependent(x, cpu=once, default=lambda x: x)


def _all_first(*values):
    """These values, all of them computed before any of them is used."""

    def together(*values):
        with set_xla_metadata(inlineable="false"):
            return jax.jit(lambda *values: values)(*values)

    return lax.platform_dependent(*values, cpu=together, default=lambda *values: values)


def _turned(x, places):
    """x with its axes in that order, for what reads it in its own order as well: XLA's loops for CPUs that read one
    array both ways take up to ten times as long. It is flat where it is given back, and so another array: of one that
    is given to a loop as two, XLA's CPU compiler may overwrite what is still to be read (jaxlib 0.10.2)."""

    def once(x):
        with set_xla_metadata(inlineable="false"):
            flat = jax.jit(lambda x: x.transpose(places).reshape(-1))(x)
        return flat.reshape([x.shape[k] for k in places])

    return lax.platform_dependent(x, cpu=once, default=lambda x: x.transpose(places))


def _sum(x, axes):
    """The sum of x over axes that are not its last, not as a reduction: XLA's CPU compiler can get it wrong, if x is a
    product (jaxlib 0.10.2). Few rows are added up, in one pass with what x is made of; of more, about eight parts are,
    and then it is a product with ones."""
    axes = (axes,) if isinstance(axes, int) else axes
    axis, last = axes[0], axes[-1]
    if last - axis == len(axes) - 1:  # they are one
        size = 1
        for k in axes:
            size = size * x.shape[k]
        x, axes = x.reshape(*x.shape[:axis], size, *x.shape[last + 1 :]), (axis,)
    size = x.shape[axis]
    parts = [n for n in (8, 7, 6, 5, 4) if size % n == 0] if size > 16 or len(axes) > 1 else [size]
    count = parts[0] if parts else 8
    rows = size // max(count, 1)
    if not rows:
        return _times_ones(x, axes)
    total = lax.slice_in_dim(x, 0, rows, axis=axis)
    for k in range(1, count):
        total = total + lax.slice_in_dim(x, k * rows, (k + 1) * rows, axis=axis)
    rest = lax.slice_in_dim(x, count * rows, size, axis=axis)
    if len(axes) == rows == 1:
        return total.reshape(*x.shape[:axis], *x.shape[axis + 1 :])
    total = _times_ones(total, axes)
    return total + _times_ones(rest, axes) if rest.shape[axis] else total


def _sum_in_step(x, axes):
    """`_sum` in a step of a recurrence. Its arrays are small enough to be stored before they are added up: in parts,
    XLA computes what they are made of one element at a time."""
    rows = 1
    for k in (axes,) if isinstance(axes, int) else axes:
        rows = rows * x.shape[k]
    return _sum(x, axes) if rows <= 16 else _times_ones(x, (axes,) if isinstance(axes, int) else axes)


def _times_ones(x, axes):
    """The product of x with ones, summed over axes."""
    return jnp.tensordot(jnp.ones([x.shape[k] for k in axes], x.dtype), x, (tuple(range(len(axes))), axes))


def _sums(*terms):
    """The sum of each of these arrays, of the same length: in one loop if they are short."""
    if terms[0].size > COSTS["joint_sums"]:
        return [jnp.sum(x) for x in terms]
    return _sums_in_one_loop(*terms)


def _sums_in_one_loop(*terms):
    add = lambda sums, more: tuple(a + b for a, b in zip(sums, more, strict=True))
    zeros = lambda: tuple(jnp.zeros((), x.dtype) for x in terms)
    sums = jax.custom_jvp(lambda *terms: lax.reduce(terms, zeros(), add, (0,)))
    sums.defjvp(lambda terms, rates: (sums(*terms), tuple(jnp.sum(x) for x in rates)))
    return sums(*terms)


def _sum_over(ranges, term, shape, dtype):
    """The sum of term(i, ...) over ranges: unrolled if it is short, else a loop of 32 terms at a time."""
    total = jnp.zeros(shape, dtype)
    points = 1
    for r in ranges:
        points *= len(r)

    def add(total, start, count):
        for k in range(count):
            total = total + term(*_point(ranges, start + k))
        return total

    loops = points // 32 if points > 64 else 0
    if loops:
        total = lax.fori_loop(0, loops, lambda k, total: add(total, 32 * k, 32), total)
    return add(total, 32 * loops, points - 32 * loops)


def _stack_over(ranges, term, shape, dtype):
    """The array of term(i, ...), each of that shape, for all of ranges: unrolled if it is short, else a loop."""
    counts = tuple(len(r) for r in ranges)
    points = 1
    for count in counts:
        points *= count
    each = lambda k: jnp.broadcast_to(jnp.asarray(term(*_point(ranges, k)), dtype), shape)
    if points == 0:
        return jnp.zeros(counts + shape, dtype)
    terms = jnp.stack([each(k) for k in range(points)]) if points <= 64 else lax.map(each, jnp.arange(points))
    return terms.reshape(counts + shape)


def _point(ranges, k):
    """The k-th point of a box of ranges."""
    place = []
    for r in reversed(ranges):
        place.append(r.start + k % len(r))
        k = k // len(r)
    return place[::-1]
