"""Correlations: sums of products in which one factor is read at shifted, strided or dilated places.

    y[.., i] = sum j. x[.., a * i + b * j + c] * w[.., j]                                 along each of the last axes

Convolutions, products with Toeplitz and Hankel matrices, and the adjoints of all these are of this form. An element
that is not finite makes nan of outputs that don't read it where products of blocks or Fourier transforms mix elements,
and where it is multiplied by the zeros around x.
"""

import jax
import jax.numpy as jnp
from jax import lax

from tensorlang.lower.costs import COSTS
from tensorlang.lower.parts.loops import _sum
from tensorlang.lower.parts.windows import _over


def _correlate(x, w, at, groups=0, batch=0, outer=0):
    """The sum over j of x[.., a * i + b * j + c] * w[.., j] for 0 <= i < n, for each (a, b, c, n) of `at` along the
    last axes; x is zero outside of itself. Before these come axes that x and w share, then those of x alone, or of w
    alone, then those that are summed. The result has the shared ones, those of x, those of w, and the i."""
    rank, counts = len(at), tuple(n for _, _, _, n in at)
    shared, own = x.shape[:groups], x.shape[groups : groups + batch]
    others, inner = w.shape[groups : groups + outer], w.shape[groups + outer : w.ndim - rank]
    x = x.reshape(_volume(shared), _volume(own), _volume(inner), *x.shape[x.ndim - rank :])
    w = w.reshape(_volume(shared), _volume(others), _volume(inner), *w.shape[w.ndim - rank :])
    shape = (*shared, *own, *others, *counts)
    if 0 in (*x.shape, *w.shape, *shape):
        return jnp.zeros(shape, x.dtype)
    y = jax.vmap(lambda x, w: _turned(x, w, at))(x, w) if groups else _turned(x[0], w[0], at)
    return y.reshape(shape)


def _turned(x, w, at):
    """`_correlate`, of x with axes (own, inner, ..) and w with axes (others, inner, ..): what runs backwards is turned
    around."""
    forward, turned = [], []
    for k, (a, b, c, n) in enumerate(at):
        first = c + min(0, a) * (n - 1) + min(0, b) * (w.shape[2 + k] - 1)
        forward.append((abs(a), abs(b), first, n))
        if b < 0:
            w = jnp.flip(w, 2 + k)
        if a < 0:
            turned.append(2 + k)
    y = _by_phases(x, w, forward)
    return jnp.flip(y, turned) if turned else y


def _volume(shape):
    """The number of points of a box."""
    points = 1
    for n in shape:
        points *= n
    return points


def _by_phases(x, w, at):
    """`_turned`, for positive a and b. What is shorter is taken for the taps. Where they are many, a dilation is done
    for one residue of i at a time, and a stride for all residues of j at once."""
    if 0 in x.shape:
        return jnp.zeros((x.shape[0], w.shape[0], *(n for _, _, _, n in at)), x.dtype)
    few = _volume(w.shape[1:]) <= COSTS["fused_terms"]
    for k, (a, b, c, n) in enumerate(at):
        size, taps = x.shape[2 + k], w.shape[2 + k]
        if a == 1 and b > 1 and (not few or size < taps):
            count = -(-n // b)
            phases = []
            for p in range(min(b, n)):
                part = _strided(x, 2 + k, (c + p) % b, b)
                phases.append(_by_phases(part, w, [*at[:k], (1, 1, (c + p) // b, count), *at[k + 1 :]]))
            y = jnp.stack(phases, 3 + k)
            y = y.reshape(*y.shape[: 2 + k], -1, *y.shape[4 + k :])
            return lax.slice_in_dim(y, 0, n, axis=2 + k)
    if all(b == 1 for _, b, _, _ in at):
        read = [min(size, c + a * (n - 1) + taps) - max(c, 0) for (a, _, c, n), size, taps in _dimensions(x, w, at)]
        if min(read) <= 0:
            return jnp.zeros((x.shape[0], w.shape[0], *(n for _, _, _, n in at)), x.dtype)
        if _volume(read) < _volume(w.shape[2:]):
            # sum u. x[u] * w[u - a * i - c]: fewer terms
            ranges = [(max(c, 0), max(c, 0) + length) for (_, _, c, _), length in zip(at, read, strict=True)]
            taps = _over(x, (0, x.shape[0]), (0, x.shape[1]), *ranges)
            at = [(-a, 1, first - c, n) for (a, _, c, n), (first, _) in zip(at, ranges, strict=True)]
            return jnp.swapaxes(_turned(w, taps, at), 0, 1)
    if not few:
        for k, (a, b, c, n) in enumerate(at):
            if a > 1 and b == 1 and n > COSTS["conv_outputs"]:
                rows = -(-w.shape[2 + k] // a)
                x = _folded(x, 2 + k, c, n + rows - 1, a)
                w = _folded(w, 2 + k, 0, rows, a)
                return _by_phases(x, w, [*at[:k], (1, 1, 0, n), *at[k + 1 :]])
    return _dense(x, w, at)


def _dimensions(x, w, at):
    """What `at` says of each axis, and its lengths in x and in w."""
    return list(zip(at, x.shape[2:], w.shape[2:], strict=True))


def _strided(x, axis, start, step):
    """x[start::step] along an axis."""
    return lax.slice_in_dim(x, min(start, x.shape[axis]), x.shape[axis], step, axis)


def _folded(x, axis, start, rows, step):
    """The `rows` * `step` elements of x from `start` on along an axis, zero outside of x, as an axis of so many rows;
    the places in a row become part of axis 1."""
    x = _window(x, axis, start, rows * step)
    x = x.reshape(*x.shape[:axis], rows, step, *x.shape[axis + 1 :])
    x = jnp.moveaxis(x, axis + 1, 2)
    return x.reshape(x.shape[0], -1, *x.shape[3:])


def _window(x, axis, start, size):
    """The elements start .. start + size - 1 of x along an axis, zero outside of x."""
    return _over(x, *[(start, start + size) if k == axis else (0, n) for k, n in enumerate(x.shape)])


def _dense(x, w, at):
    """`_by_phases`, where no more can be done about strides and dilations."""
    sizes = [a * (n - 1) + b * (taps - 1) + 1 for (a, b, _, n), _, taps in _dimensions(x, w, at)]
    ranges = [(c, c + size) for (_, _, c, _), size in zip(at, sizes, strict=True)]
    x = _over(x, (0, x.shape[0]), (0, x.shape[1]), *ranges)
    taps, counts = w.shape[2:], tuple(n for _, _, _, n in at)
    channels, terms = w.shape[0] * w.shape[1], w.shape[1] * _volume(taps)
    dense = all(a == b == 1 for a, b, _, _ in at)
    few = COSTS["slice_taps"] if len(at) == 1 else COSTS["fused_terms"]
    if terms == 1 or (channels < COSTS["conv_channels"] and terms <= few):
        return _by_slices(x, w, at)
    if len(at) == 1 and dense:
        return _along_one(x, w, counts[0])
    if len(at) == 2 and dense and _many(taps, counts, COSTS["fft_taps_2d"]):
        return _by_fft(x, w, counts)
    if channels < COSTS["conv_channels"] and _volume(taps) <= _volume(counts):
        return _by_groups(x, w, at)
    return _by_convolution(x, w, at)


def _many(taps, counts, least):
    """Whether there are so many taps, and outputs, that a Fourier transform is the best."""
    return min(_volume(taps), _volume(counts)) >= least


def _along_one(x, w, n):
    """`_dense` along one axis, of stride and dilation 1."""
    taps = w.shape[2]
    square = max(taps, n) <= 4 * min(taps, n)
    if _many((taps,), (n,), COSTS["fft_square"] if square else COSTS["fft_taps"]):
        return _by_fft(x, w, (n,)) if square else _by_fft_blocks(x, w, n)
    if n <= COSTS["conv_outputs"]:
        return _by_convolution(x, w, [(1, 1, 0, n)])
    return _by_blocks(x, w, n) if taps <= n else _by_outer_blocks(x, w, n)


def _by_slices(x, w, at):
    """One sum of shifted slices. An odd length would keep XLA from using vectors: the tail is done by itself."""
    n = at[-1][3]
    aligned = n - n % 64
    if len(at) > 1 or x.shape[0] * w.shape[0] > 1 or aligned in (0, n):
        return _slices(x, w, at)
    (a, b, _, _) = at[0]
    head = _slices(x, w, [(a, b, 0, aligned)])
    tail = _slices(x[:, :, a * aligned :], w, [(a, b, 0, n - aligned)])
    return jnp.concatenate([head, tail], 2)


def _slices(x, w, at):
    total = None
    for e in range(w.shape[1]):
        for point in _points(w.shape[2:]):
            term = _slice(x[:, e], at, point)[:, None] * w[(slice(None), e, *point, *[None] * len(at))]
            total = term if total is None else total + term
    return total


def _slice(x, at, point):
    """What an output's tap at that point is multiplied by, for all outputs; x has one axis before those of `at`."""
    starts = [b * j for (_, b, _, _), j in zip(at, point, strict=True)]
    stops = [start + a * (n - 1) + 1 for start, (a, _, _, n) in zip(starts, at, strict=True)]
    return lax.slice(x, (0, *starts), (x.shape[0], *stops), (1, *(a for a, _, _, _ in at)))


def _points(shape):
    """All points of a box."""
    points: list[tuple[int, ...]] = [()]
    for n in shape:
        points = [(*point, j) for point in points for j in range(n)]
    return points


def _by_groups(x, w, at):
    """A loop over the rows of taps, some at a time, each a sum of shifted slices."""
    (a, b, _, n), rows = at[0], w.shape[2]
    y = jnp.zeros((x.shape[0], w.shape[0], *(n for _, _, _, n in at)), x.dtype)
    width = w.shape[1] * _volume(w.shape[3:])
    if width > COSTS["fused_terms"] and len(at) > 1:
        add = lambda j, y: y + _by_columns(_rows(x, b * j, a * (n - 1) + 1)[:, :, ::a], _rows(w, j, 1)[:, :, 0], at)
        return lax.fori_loop(0, rows, add, y)
    group = min(rows, max(1, COSTS["fused_terms"] // width))
    reach = lambda count: a * (n - 1) + b * (count - 1) + 1
    add = lambda k, y: y + _slices(_rows(x, b * group * k, reach(group)), _rows(w, group * k, group), at)
    y = lax.fori_loop(0, rows // group, add, y)
    done, rest = rows - rows % group, rows % group
    return y + _slices(_rows(x, b * done, reach(rest)), _rows(w, done, rest), at) if rest else y


def _rows(x, start, count):
    """So many of x along axis 2."""
    return lax.dynamic_slice_in_dim(x, start, count, 2)


def _by_columns(x, w, at):
    """`_by_groups` for one row of taps: its other axes, for each place along axis 2 of x."""
    x = jnp.moveaxis(x, 2, 1)
    y = _by_groups(x.reshape(-1, *x.shape[2:]), w, at[1:])
    return jnp.moveaxis(y.reshape(*x.shape[:2], *y.shape[1:]), 1, 2)


def _by_convolution(x, w, at):
    """XLA's own convolution."""
    strides, dilations = [a for a, _, _, _ in at], [b for _, b, _, _ in at]
    return lax.conv_general_dilated(x, w, strides, "VALID", rhs_dilation=dilations)


def _block(long, short):
    """The size of blocks at which no more than half of a product of blocks is wasted."""
    return min(128, 1 << max(4, (short // 2).bit_length() - 1), 1 << (long - 1).bit_length())


def _by_blocks(x, w, n):
    """The outputs in blocks, each a product with the same Toeplitz matrix t[c, r] = w[c - r]."""
    taps = w.shape[2]
    size = _block(n, taps)
    blocks, reach = -(-n // size), -(-(size + taps - 1) // size)
    x = _window(x, 2, 0, (blocks + reach - 1) * size).reshape(*x.shape[:2], -1, size)
    t = jnp.tile(_window(w, 2, 0, reach * size + 1), size)[:, :, : reach * size * size]
    t = t.reshape(*w.shape[:2], size, reach, size)
    y = jnp.zeros((x.shape[0], w.shape[0], blocks, size), x.dtype)
    for k in range(reach):
        width = min(size, size + taps - 1 - k * size)
        y = y + jnp.einsum("benc,derc->bdnr", x[:, :, k : k + blocks, :width], t[:, :, :, k, :width])
    return y.reshape(*y.shape[:2], -1)[:, :, :n]


def _by_outer_blocks(x, w, n):
    """The taps in blocks: products g[r, c] of an element of w and one of x, summed over the blocks, and then those
    where c - r is the same."""
    taps = w.shape[2]
    size = _block(taps, n)
    blocks, reach = -(-taps // size), -(-(size + n - 1) // size)
    x = _window(x, 2, 0, (blocks + reach - 1) * size).reshape(*x.shape[:2], -1, size)
    w = _window(w, 2, 0, blocks * size).reshape(*w.shape[:2], -1, size)
    widths = [min(size, size + n - 1 - k * size) for k in range(reach)]
    parts = [x[:, :, k : k + blocks, :width] for k, width in enumerate(widths)]
    g = jnp.concatenate([jnp.einsum("denr,benc->bdrc", w, part) for part in parts], 3)
    g = g.reshape(*g.shape[:2], -1)
    g = _window(g, 2, 0, g.shape[2] + size).reshape(*g.shape[:2], size, -1)  # each row one place further to the left
    return _sum(g[:, :, :, :n], 2)


def _by_fft(x, w, counts):
    """Fourier transforms of the whole arrays: other rounding, absolute to the largest output."""
    shape = tuple(_smooth(n) for n in x.shape[2:])
    axes = tuple(range(2, x.ndim))
    y = jnp.einsum("be...,de...->bd...", _rfft(x, shape, axes), jnp.conj(_rfft(w, shape, axes)))
    y = jnp.fft.irfftn(y, shape, axes).astype(x.dtype)
    return lax.slice(y, [0] * y.ndim, (*y.shape[:2], *counts))


def _by_fft_blocks(x, w, n):
    """Fourier transforms of blocks 8 times as long as what is short, the taps or the n outputs: other rounding,
    absolute to the largest output of a block."""
    taps = w.shape[2]
    size = _smooth(8 * min(taps, n))
    step = size - min(taps, n) + 1
    blocks = -(-max(taps, n) // step)
    x = _overlapping(x, blocks, step, size)
    if taps <= n:
        y = jnp.einsum("benf,def->bdnf", _rfft(x, (size,), (3,)), jnp.conj(_rfft(w, (size,), (2,))))
        y = jnp.fft.irfft(y, size, 3).astype(x.dtype)[:, :, :, :step]
        return y.reshape(*y.shape[:2], -1)[:, :, :n]
    w = _window(w, 2, 0, blocks * step).reshape(*w.shape[:2], blocks, step)
    y = jnp.einsum("benf,denf->bdf", _rfft(x, (size,), (3,)), jnp.conj(_rfft(w, (size,), (3,))))
    return jnp.fft.irfft(y, size, 2).astype(x.dtype)[:, :, :n]


def _overlapping(x, blocks, step, size):
    """The blocks x[.., step * k : step * k + size]."""
    reach = -(-size // step)
    x = _window(x, 2, 0, (blocks + reach - 1) * step).reshape(*x.shape[:2], -1, step)
    parts = [x[:, :, k : k + blocks] for k in range(reach)]
    return jnp.concatenate(parts, 3)[:, :, :, :size]


def _rfft(x, shape, axes):
    return jnp.fft.rfftn(x.astype(jnp.promote_types(x.dtype, jnp.float32)), shape, axes)


def _smooth(n):
    """The least number from n on that is a power of 2, or 3 or 5 or 9 times one: lengths of fast transforms."""
    return min(k << max(0, (-(-n // k) - 1).bit_length()) for k in (1, 3, 5, 9))
