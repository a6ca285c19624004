"""Correlations: sums of products in which one factor is read at shifted, strided or dilated places.

    y[.., i] = sum j. x[.., a * i + b * j + c] * w[.., j]                                 along each of the last axes

Convolutions, products with Toeplitz and Hankel matrices, and the adjoints of all these are of this form. The arrays
have an axis each for what is x's alone or w's alone, and one that is summed: x[own, inner, ..], w[others, inner, ..],
y[own, others, ..]. `_line`, `_plane` and `_space` choose by the sizes how they compute it.

An element that is not finite makes nan of outputs that don't read it where products of blocks or Fourier transforms mix
elements, and where it is multiplied by the zeros around x.
"""

import jax
import jax.numpy as jnp
from jax import lax

from tensorlang.lowering.costs import COSTS
from tensorlang.lowering.emit.library.loops import _stored, _sum
from tensorlang.lowering.emit.library.windows import _over


def _correlate(x, w, at, compute, groups=0, batch=0, outer=0):
    """The sum over j of x[.., a * i + b * j + c] * w[.., j] for 0 <= i < n, for each (a, b, c, n) of `at` along the
    last axes; x is zero outside of itself, a and b are positive. Before these come axes that x and w share, then those
    of x alone, or of w alone, then those that are summed. The result has the shared ones, those of x, those of w, and
    the i."""
    return compute(x, w, at, groups, batch, outer)


def _correlate_in_steps(x, w, at, compute, groups=0, batch=0, outer=0):
    """`_correlate`, where some a or b are beyond 1."""
    return _correlated(x, w, at, lambda x, w, at: _in_steps(x, w, at, compute), groups, batch, outer)


def _with_axes(compute):
    """`compute`, which takes arrays with all the axes of `_correlate`, too, if it is told how many there are: then JAX
    traces it once for all arrays of the same shapes."""
    traced = jax.jit(lambda x, w, at, *axes: _correlated(x, w, at, compute, *axes), static_argnums=(2, 3, 4, 5))
    return lambda x, w, at, *axes: traced(x, w, tuple(at), *axes) if axes else compute(x, w, at)


def _correlated(x, w, at, compute, groups, batch, outer):
    rank, counts = len(at), tuple(n for _, _, _, n in at)
    shared, own = x.shape[:groups], x.shape[groups : groups + batch]
    others, inner = w.shape[groups : groups + outer], w.shape[groups + outer : w.ndim - rank]
    x = x.reshape(_volume(shared), _volume(own), _volume(inner), *x.shape[x.ndim - rank :])
    w = w.reshape(_volume(shared), _volume(others), _volume(inner), *w.shape[w.ndim - rank :])
    shape = (*shared, *own, *others, *counts)
    if 0 in (*x.shape, *w.shape, *shape):
        return jnp.zeros(shape, x.dtype)
    one = lambda x, w: _with_fewest_taps(x, w, at, compute)
    y = jax.vmap(one)(x, w) if groups else one(x[0], w[0])
    return y.reshape(shape)


def _volume(shape):
    """How many points a box has."""
    points = 1
    for n in shape:
        points *= n
    return points


def _with_fewest_taps(x, w, at, compute):
    """What is read of x as the taps, if it is less than w is, where dilations are 1; the outputs are then in reverse
    order."""
    if any(b > 1 for _, b, _, _ in at):
        return compute(x, w, at)
    read, moved = _trimmed(x, w, at)
    if 0 in read.shape:
        return jnp.zeros((x.shape[0], w.shape[0], *(n for _, _, _, n in at)), x.dtype)
    if _volume(read.shape[2:]) >= _volume(w.shape[2:]):
        return compute(read, w, moved)
    y = compute(w, read, [(a, 1, -c - a * (n - 1), n) for a, _, c, n in moved])
    return jnp.flip(jnp.swapaxes(y, 0, 1), range(2, y.ndim))


def _trimmed(x, w, at):
    """The part of x that is read, where dilations are 1, and `at` for it."""
    ranges, moved = [(0, x.shape[0]), (0, x.shape[1])], []
    for (a, b, c, n), size, taps in zip(at, x.shape[2:], w.shape[2:], strict=True):
        start = min(max(c, 0), size)
        ranges.append((start, max(start, min(size, c + a * (n - 1) + taps))))
        moved.append((a, b, c - start, n))
    return _over(x, *ranges), moved


def _covered(x, w, at):
    """x at the positions that are read, from c on along each of the last axes, zero outside of x."""
    sizes = [a * (n - 1) + b * (taps - 1) + 1 for (a, b, _, n), taps in zip(at, w.shape[2:], strict=True)]
    ranges = [(c, c + size) for (_, _, c, _), size in zip(at, sizes, strict=True)]
    return _over(x, (0, x.shape[0]), (0, x.shape[1]), *ranges)


def _suits_lines(x, w, at):
    """Whether the outputs of a plane are so few that lines of products may be added up for each."""
    outputs, taps = _volume([n for _, _, _, n in at]), _volume(w.shape[2:])
    return len(at) == 2 and x.shape[0] == w.shape[0] == 1 and outputs <= COSTS["fused_terms"] < taps


def _is_few(w, terms):
    """Whether there are no more terms for each output, and so few channels, that slices of x may be added up."""
    given = _volume(w.shape[1:])
    return given == 1 or (given <= terms and w.shape[0] * w.shape[1] < COSTS["conv_channels"])


# steps


def _in_steps(x, w, at, compute):
    """Many taps that are b apart: the outputs i = b * q + p are for each p a correlation with taps next to each other,
    of every b-th element of x. Sums of many terms are there before they are interleaved, which isn't vectorised."""
    if compute is _line and _is_wide(x, w, at):
        return _by_channels(x, w, at)
    for k, (a, b, c, n) in enumerate(at):
        size = x.shape[2 + k]
        many = _volume(w.shape[1:]) > COSTS["fused_terms"] and not _suits_lines(x, w, at)
        if b > 1 and (many or size < w.shape[2 + k]):
            parts = []
            for p in range(min(b, n)):
                start = a * p + c
                every = lax.slice_in_dim(x, min(start % b, size), size, b, 2 + k)
                here = [*at[:k], (a, 1, start // b, -(-n // b)), *at[k + 1 :]]
                part = _with_fewest_taps(every, w, here, lambda x, w, at: _in_steps(x, w, at, compute))
                terms = min(_volume(every.shape[1:]), _volume(w.shape[1:]))
                parts.append(_stored(part) if terms > COSTS["interleaved_terms"] else part)
            y = jnp.stack(parts, 3 + k)
            return lax.slice_in_dim(y.reshape(*y.shape[: 2 + k], -1, *y.shape[4 + k :]), 0, n, axis=2 + k)
    return _in_rows(x, w, at, compute)


def _in_rows(x, w, at, compute):
    """Many taps, of which the next output uses those a further on: x and w in rows of a elements, and a correlation
    along the columns, summed over the places in a row."""
    for k, (a, b, c, n) in enumerate(at):
        if a > 1 and b == 1 and n > COSTS["conv_outputs"] and _volume(w.shape[1:]) > COSTS["fused_terms"]:
            rows = -(-w.shape[2 + k] // a)
            x, w = _folded(x, 2 + k, c, n + rows - 1, a), _folded(w, 2 + k, 0, rows, a)
            return _in_rows(x, w, [*at[:k], (1, 1, 0, n), *at[k + 1 :]], compute)
    return jax.jit(compute, static_argnums=2)(x, w, tuple(at))


def _folded(x, axis, start, rows, step):
    """The `rows` * `step` elements of x from `start` on along an axis, zero outside of x, as an axis of `rows` rows;
    the places in a row become part of axis 1."""
    x = _over(x, *[(start, start + rows * step) if k == axis else (0, n) for k, n in enumerate(x.shape)])
    x = jnp.moveaxis(x.reshape(*x.shape[:axis], rows, step, *x.shape[axis + 1 :]), axis + 1, 2)
    return x.reshape(x.shape[0], -1, *x.shape[3:])


# along a line


@_with_axes
def _line(x, w, at):
    """Along one axis: a sum of slices, or for each output, XLA's convolution, products of blocks, or FFTs."""
    ((a, b, _, n),), taps = at, w.shape[2]
    short, long = min(taps, n), max(taps, n)
    if _is_few(w, COSTS["slice_taps"]):
        return _by_slices(x, w, at)
    if x.shape[0] * w.shape[0] == 1 and n <= COSTS["sum_outputs"] and n * _volume(w.shape) <= COSTS["sum_terms"]:
        return _by_sums(x, w, at)
    if a > 1 or b > 1:
        return _by_convolution(x, w, at)
    if short >= COSTS["fft_square"] and long <= 4 * short:
        return _by_fft(x, w, at)
    if short >= COSTS["fft_taps"]:
        return _by_fft_blocks(x, w, at)
    if _is_wide(x, w, at):
        return _by_channels(x, w, at)
    if n <= COSTS["conv_outputs"]:
        return _by_convolution(x, w, at)
    return _by_blocks(x, w, at) if taps <= n else _by_outer_blocks(x, w, at)


def _is_wide(x, w, at):
    """Whether a line of few taps or outputs has channels whose products take most of the time."""
    ((_, _, _, n),), taps, channels = at, w.shape[2], COSTS["conv_channels"]
    if min(n, taps) >= COSTS["fft_square"]:
        return False
    if taps > n:
        return (n <= 8 and w.shape[0] > 1) or w.shape[0] * x.shape[0] >= 16 * channels
    return w.shape[0] * w.shape[1] >= (channels if taps <= 4 else 16 * channels)


def _by_channels(x, w, at):
    """Many channels: a product of matrices with all that is read, by a few taps or for a few outputs; or XLA's
    convolution."""
    ((a, b, c, n),), taps = at, w.shape[2]
    if taps <= n:
        most = 256 if x.shape[0] == 1 else 128
        suits = taps <= 8 and taps * w.shape[1] <= most
    else:
        suits = n <= 8 and w.shape[0] > 1
    if not suits:
        return _by_convolution(x, w, at)
    if taps <= n:
        read = jnp.swapaxes(_stacked(x, c, b, taps, a, n), 0, 1).reshape(x.shape[0], -1, n)
        w = jnp.moveaxis(w, 2, 1).reshape(w.shape[0], -1)
        return jnp.broadcast_to(w, (x.shape[0], *w.shape)) @ read  # one product for all would be transposed
    read = _stacked(x, c, a, n, b, taps)
    y = read.reshape(n * x.shape[0], -1) @ w.reshape(w.shape[0], -1).T
    return jnp.moveaxis(y.reshape(n, x.shape[0], -1), 0, 2)


def _stacked(x, start, apart, count, step, size):
    """The elements x[.., start + apart * k + step * r], 0 <= r < size, for each k < count, zero outside of x: an array
    [k, .., r]."""
    lines = x.reshape(-1, x.shape[2])  # the same for all that read them, whatever their channels are to them
    reach = step * (size - 1) + 1
    lines = _over(lines, (0, lines.shape[0]), (start, start + apart * (count - 1) + reach))
    read = [lax.slice_in_dim(lines, apart * k, apart * k + reach, step, 1) for k in range(count)]
    return jnp.concatenate(read).reshape(count, *x.shape[:2], size)


def _by_sums(x, w, at):
    """A sum of products for each of a few outputs: XLA's convolution takes longer to get going."""
    ((a, b, _, n),), x = at, _covered(x, w, at)[0]
    reach = b * (w.shape[2] - 1) + 1
    return jnp.stack([jnp.sum(x[:, a * i : a * i + reach : b] * w[0]) for i in range(n)])[None, None]


def _by_blocks(x, w, at):
    """The outputs in blocks, each a product of what it reads and a Toeplitz matrix t[r, c] = w[c - r]."""
    ((_, _, _, n),), taps = at, w.shape[2]
    size = _block(n, taps)
    reach = size + taps - 1
    t = jnp.tile(_over(w, (0, w.shape[0]), (0, w.shape[1]), (0, reach + 1)), size)[:, :, : reach * size]
    t = t.reshape(*w.shape[:2], size, reach)
    y = jnp.einsum("bekc,derc->bdkr", _overlapping(_covered(x, w, at), -(-n // size), size, reach), t)
    return y.reshape(*y.shape[:2], -1)[:, :, :n]


def _by_outer_blocks(x, w, at):
    """The taps in blocks: products g[r, c] of an element of w and one of x, summed over the blocks, and then those
    where c - r is the same."""
    ((_, _, _, n),), taps = at, w.shape[2]
    size = _block(taps, n)
    blocks, reach = -(-taps // size), size + n - 1
    below = lambda blocks: blocks.transpose(1, 2, 0, 3).reshape(blocks.shape[1] * blocks.shape[2], -1)
    g = below(_overlapping(w, blocks, size, size)).T @ below(_overlapping(_covered(x, w, at), blocks, size, reach))
    g = g.reshape(w.shape[0], size, x.shape[0], reach).transpose(2, 0, 1, 3).reshape(x.shape[0], w.shape[0], -1)
    g = jnp.pad(g, ((0, 0), (0, 0), (0, size))).reshape(*g.shape[:2], size, -1)  # each row one further to the left
    return _sum(g[:, :, :, :n], 2)


def _block(long, short):
    """The size of blocks at which no more than half of a product of blocks is wasted."""
    return min(128, 1 << max(4, (short // 2).bit_length() - 1), 1 << (long - 1).bit_length())


def _overlapping(x, blocks, step, size):
    """The blocks x[.., step * k : step * k + size], zero outside of x."""
    parts = -(-size // step)
    x = _over(x, (0, x.shape[0]), (0, x.shape[1]), (0, (blocks + parts - 1) * step)).reshape(*x.shape[:2], -1, step)
    return jnp.concatenate([x[:, :, k : k + blocks] for k in range(parts)], 3)[:, :, :, :size]


def _by_fft_blocks(x, w, at):
    """Fourier transforms of blocks 8 times as long as what is short, the taps or the n outputs: other rounding,
    absolute to the largest output of a block."""
    ((_, _, _, n),), taps = at, w.shape[2]
    short, long = min(taps, n), max(taps, n)
    size = _smooth(8 * short)
    step = size - short + 1
    x = _rfft(_overlapping(_covered(x, w, at), -(-long // step), step, size), (size,), (3,))
    if taps <= n:
        y = jnp.einsum("bekf,def->bdkf", x, jnp.conj(_rfft(w, (size,), (2,))))
        y = jnp.fft.irfft(y, size, 3)[:, :, :, :step]
        return y.reshape(*y.shape[:2], -1)[:, :, :n].astype(w.dtype)
    w_blocks = _rfft(_overlapping(w, -(-long // step), step, step), (size,), (3,))
    y = jnp.einsum("bekf,dekf->bdf", x, jnp.conj(w_blocks))
    return jnp.fft.irfft(y, size, 2)[:, :, :n].astype(w.dtype)


# along several axes


@_with_axes
def _plane(x, w, at):
    """Along two axes: a sum of slices, Fourier transforms, a loop over rows of taps, or XLA's convolution."""
    taps, outputs = _volume(w.shape[2:]), _volume([n for _, _, _, n in at])
    if min(taps, outputs) >= COSTS["fft_taps_2d"] and all(a == b == 1 for a, b, _, _ in at):
        return _by_fft(x, w, at)
    if _suits_lines(x, w, at):
        return _by_lines(_covered(x, w, at)[0], w[0], at).astype(w.dtype)
    return _space(x, w, at)


def _by_lines(x, w, at):
    """Few outputs: a loop over rows of taps adds up products for each output and column of taps, then the columns are
    added up. Here x[inner, ..] is `_covered`, and w[inner, ..]."""
    ((a, b, _, n), (step, apart, _, m)), (_, rows, columns) = at, w.shape
    x, w = (v.astype(jnp.promote_types(v.dtype, jnp.float32)) for v in (x, w))

    def add(k, totals):
        lines = lax.dynamic_slice(x, (k // rows, b * (k % rows), 0), (1, a * (n - 1) + 1, x.shape[2]))[0, ::a]
        taps = lax.dynamic_slice(w, (k // rows, k % rows, 0), (1, 1, columns))[0]
        reach = apart * (columns - 1) + 1
        return [t + lines[:, step * j : step * j + reach : apart] * taps for j, t in enumerate(totals)]

    totals = lax.fori_loop(0, w.shape[0] * rows, add, [jnp.zeros((n, columns), w.dtype)] * m)
    return jnp.stack([t @ jnp.ones(columns, t.dtype) for t in totals], 1)[None, None]


@_with_axes
def _space(x, w, at):
    """Along any axes: a sum of slices, a loop over rows of taps, or XLA's convolution."""
    if _is_few(w, COSTS["fused_terms"]):
        return _by_slices(x, w, at)
    wide = w.shape[0] * w.shape[1] >= COSTS["conv_channels"]
    if wide or _volume(w.shape[2:]) > _volume([n for _, _, _, n in at]):
        return _by_convolution(x, w, at)
    return _by_groups(_covered(x, w, at), w, at)


def _by_groups(x, w, at):
    """A loop over the rows of taps, some at a time, each a sum of shifted slices; x is `_covered`."""
    (a, b, _, n), rows = at[0], w.shape[2]
    y = jnp.zeros((x.shape[0], w.shape[0], *(n for _, _, _, n in at)), x.dtype)
    width = w.shape[1] * _volume(w.shape[3:])
    some = lambda x, start, count: lax.dynamic_slice_in_dim(x, start, count, 2)
    if width > COSTS["fused_terms"] and len(at) > 1:
        add = lambda j, y: y + _by_columns(some(x, b * j, a * (n - 1) + 1)[:, :, ::a], some(w, j, 1)[:, :, 0], at)
        return lax.fori_loop(0, rows, add, y)
    group = min(rows, max(1, COSTS["fused_terms"] // width))
    reach = lambda count: a * (n - 1) + b * (count - 1) + 1
    add = lambda k, y: y + _slices(some(x, b * group * k, reach(group)), some(w, group * k, group), at)
    y = lax.fori_loop(0, rows // group, add, y)
    done, rest = rows - rows % group, rows % group
    return y + _slices(some(x, b * done, reach(rest)), some(w, done, rest), at) if rest else y


def _by_columns(x, w, at):
    """`_by_groups` for one row of taps: its other axes, for each place along axis 2 of x."""
    x = jnp.moveaxis(x, 2, 1)
    y = _by_groups(x.reshape(-1, *x.shape[2:]), w, at[1:])
    return jnp.moveaxis(y.reshape(*x.shape[:2], *y.shape[1:]), 1, 2)


# along a line or several axes


@_with_axes
def _by_slices(x, w, at):
    """One sum of shifted slices. An odd length along a line would keep XLA from using vectors: the tail is done by
    itself."""
    x = _covered(x, w, at)
    (a, b, _, n), *others = at
    aligned = n - n % 64
    if others or x.shape[0] * w.shape[0] > 1 or aligned in (0, n):
        return _slices(x, w, at)
    head = _slices(x, w, [(a, b, 0, aligned)])
    tail = _slices(x[:, :, a * aligned :], w, [(a, b, 0, n - aligned)])
    return jnp.concatenate([head, tail], 2)


def _slices(x, w, at):
    """The sum of shifted slices of what `_covered` gives."""
    points: list[tuple[int, ...]] = [()]
    for taps in w.shape[2:]:
        points = [(*point, j) for point in points for j in range(taps)]
    total = None
    for e in range(w.shape[1]):
        own = lax.slice_in_dim(x, e, e + 1, axis=1)
        for point in points:
            starts = [b * j for (_, b, _, _), j in zip(at, point, strict=True)]
            stops = [start + a * (n - 1) + 1 for start, (a, _, _, n) in zip(starts, at, strict=True)]
            part = lax.slice(own, (0, 0, *starts), (x.shape[0], 1, *stops), (1, 1, *(a for a, _, _, _ in at)))
            tap = lax.slice(w, (0, e, *point), (w.shape[0], e + 1, *(j + 1 for j in point)))
            term = part * tap.reshape(1, *w.shape[:1], *[1] * len(at))
            total = term if total is None else total + term
    return total


def _by_fft(x, w, at):
    """Fourier transforms of the whole arrays: other rounding, absolute to the largest output."""
    taps, counts = w.shape[2:], tuple(n for _, _, _, n in at)
    x, moved = _trimmed(x, w, at)
    # output i is at place i + c around a circle, long enough for none to read what is on its other side
    sizes = zip(x.shape[2:], taps, moved, strict=True)
    shape = tuple(_smooth(max(size - c, n + m - 1 + c, m)) for size, m, (_, _, c, n) in sizes)
    axes = tuple(range(2, x.ndim))
    y = jnp.einsum("be...,de...->bd...", _rfft(x, shape, axes), jnp.conj(_rfft(w, shape, axes)))
    y = jnp.roll(jnp.fft.irfftn(y, shape, axes), [-c for _, _, c, _ in moved], axes)
    return lax.slice(y, [0] * y.ndim, (*y.shape[:2], *counts)).astype(w.dtype)


def _rfft(x, shape, axes):
    return jnp.fft.rfftn(x.astype(jnp.promote_types(x.dtype, jnp.float32)), shape, axes)


def _smooth(n):
    """The least number from n on that is a power of 2, or 3 or 5 or 9 times one: lengths of fast transforms."""
    return min(k << max(0, (-(-n // k) - 1).bit_length()) for k in (1, 3, 5, 9))


def _by_convolution(x, w, at):
    """XLA's own convolution."""
    strides, dilations = [a for a, _, _, _ in at], [b for _, b, _, _ in at]
    return lax.conv_general_dilated(_covered(x, w, at), w, strides, "VALID", rhs_dilation=dilations)
