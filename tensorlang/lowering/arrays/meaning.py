"""What the operations of array programs and the parts of the library mean, in NumPy: plainly, in double precision.

It shares no code with the operations that run, which choose by sizes among fast ways to compute the same.
`meaning_work` has the additions, multiplications and comparisons that an operation takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tensorlang.lowering.arrays.meaning_of_extrema import EXTREMA, FLOAT, INT, Array


def _over(x: Array, *ranges: tuple[int, int]) -> Array:
    result = np.zeros([max(stop - start, 0) for start, stop in ranges], x.dtype)
    inside = [(max(0, a), min(n, b)) for (a, b), n in zip(ranges, x.shape, strict=True)]
    if all(a < b for a, b in inside):
        there = tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(inside, ranges, strict=True))
        result[there] = x[tuple(slice(a, b) for a, b in inside)]
    return result


def _read(x: Array, *at: Array) -> Array:
    arrays = np.broadcast_arrays(*(a for a in at if not isinstance(a, slice)))
    shapes = [n for a, n in zip(at, x.shape, strict=False) if not isinstance(a, slice)]
    inside = np.ones(arrays[0].shape, bool)
    for a, n in zip(arrays, shapes, strict=True):
        inside &= (a >= 0) & (a < n)
    if x.size == 0:
        indexed = [not isinstance(a, slice) for a in at] + [False] * (x.ndim - len(at))
        x = np.zeros([max(n, 1) if some else n for n, some in zip(x.shape, indexed, strict=True)], x.dtype)
    clipped = iter([np.where(inside, a, 0) for a in arrays])
    found = x[tuple(a if isinstance(a, slice) else next(clipped) for a in at)]
    places = [k for k, a in enumerate(at) if not isinstance(a, slice)]
    # axes of places come first, unless the places are next to each other
    before = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    shape = (1,) * before + inside.shape + (1,) * (found.ndim - before - inside.ndim)
    return np.where(inside.reshape(shape), found, 0)


def _changed(x: Array, value: Array, *at: Array, adds: bool) -> Array:
    """`x` with the value put or added at places, where it has them."""
    shapes = [n for a, n in zip(at, x.shape, strict=False) if not isinstance(a, slice)]
    arrays = np.broadcast_arrays(*(a for a in at if not isinstance(a, slice)))
    first = [k for k, a in enumerate(at) if not isinstance(a, slice)]
    every = [*first, *(k for k in range(x.ndim) if k not in first)]
    result = x.copy()
    rows = result.transpose(every)
    together = first == list(range(first[0], first[-1] + 1))
    start, rank = (first[0] if together else 0), arrays[0].ndim
    rest = [k for k in range(np.ndim(value)) if not start <= k < start + rank]
    values = np.transpose(value, [*range(start, start + rank), *rest])
    for where in np.ndindex(*arrays[0].shape):
        place = tuple(int(a[where]) for a in arrays)
        if all(0 <= p < n for p, n in zip(place, shapes, strict=True)):
            rows[place] = values[where] + (rows[place] if adds else 0)
    return result


def _take(x: Array, *at: Array) -> Array:
    """As `_read`, but what is outside is hidden anyway, so that the nearest element will do."""
    if x.size == 0:
        x = np.zeros([max(n, 1) for n in x.shape], x.dtype)
    return x[tuple(a if isinstance(a, slice) else np.clip(a, 0, n - 1) for a, n in zip(at, x.shape, strict=False))]


def _spread(x: Array, axis: int, first: int, step: int, size: int) -> Array:
    result = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    for k in range(x.shape[axis]):
        if 0 <= first + k * step < size:
            result[(slice(None),) * axis + (first + k * step,)] = x[(slice(None),) * axis + (k,)]
    return result


def _side_by_side(axis: int, size: int, *pieces: tuple[int, Array]) -> Array:
    shape = pieces[0][1].shape
    total = np.zeros((*shape[:axis], size, *shape[axis + 1 :]), pieces[0][1].dtype)
    for start, x in pieces:
        ranges = [(-start, size - start) if k == axis else (0, n) for k, n in enumerate(x.shape)]
        total = total + _over(x, *ranges)
    return total


def _in_turns(axis: int, size: int, *arrays: Array) -> Array:
    x = np.stack(arrays, axis + 1)
    x = x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :]) if x.size else np.zeros_like(arrays[0])
    return x[(slice(None),) * axis + (slice(0, size),)]


def _on_line(x: Array, starts: Sequence[int], steps: Sequence[int], count: int) -> Array:
    k = np.arange(count)
    return _read(x, *(start + k * step for start, step in zip(starts, steps, strict=True)))


def _running(x: Array, axis: int, backwards: bool) -> Array:
    x = np.moveaxis(x, axis, 0)
    none = np.zeros((1, *x.shape[1:]), x.dtype)
    sums = np.concatenate([np.cumsum(x[::-1], 0)[::-1], none]) if backwards else np.concatenate([none, np.cumsum(x, 0)])
    return np.moveaxis(sums, 0, axis)


def _group_numbers(columns: Sequence[Array], sizes: Sequence[int]) -> Array:
    return np.unique(np.stack(columns, 1), axis=0, return_inverse=True)[1].reshape(-1)


def _group_numbers_of_both(own: Sequence[Array], asked: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, Array]:
    numbers = _group_numbers([np.concatenate(x) for x in zip(own, asked, strict=True)], sizes)
    return numbers[: len(own[0])], numbers[len(own[0]) :]


def _running_in_groups(values: Array, at: Array, asked: Array, size: int, strict: bool, backwards: bool) -> Array:
    ranks = np.arange(len(values)) * (-1 if backwards else 1)
    return _running_up_to(values, at, ranks, asked, ranks - strict)


def _running_up_to(values: Array, at: Array, ranks: Array, asked: Array, limits: Array, *_: int) -> Array:
    found = np.zeros((*limits.shape, *values.shape[1:]), values.dtype)
    for k in np.ndindex(*limits.shape):
        found[k] = values[(at == asked[k]) & (ranks <= limits[k])].sum(0)
    return found


def _in_intervals(starts: Array, stops: Array, n: int) -> Array:
    starts, stops = np.broadcast_arrays(np.clip(starts, 0, n), np.clip(stops, -1, n - 1))
    change = np.zeros(n + 2, INT)
    np.add.at(change, starts, starts <= stops)
    np.add.at(change, stops + 1, -(starts <= stops).astype(INT))
    return np.cumsum(change)[:n] > 0


def _sum_in_chunks(q: Array, k: Array, v: Array, axis: int, backwards: bool, strict: bool, selects: bool) -> Array:
    rows = q.shape[: axis + 1]
    q, k = (x.reshape(*rows, int(prod(x.shape[axis + 1 :]))) for x in (q, k))
    ones = np.tril(np.ones((rows[-1], rows[-1])), -1 if strict else 0)
    return _times_columns(np.einsum("...id,...jd->...ij", q, k) * (ones.T if backwards else ones), v)


def _times_columns(pairs: Array, v: Array | None) -> Array:
    rows = pairs.shape[:-1]
    if v is None:
        return np.asarray(pairs.sum(-1))
    found = pairs @ v.reshape(*rows, int(prod(v.shape[len(rows) :])))
    return np.asarray(found.reshape(*rows, *v.shape[len(rows) :]))


def _decaying_in_chunks(
    exponents: Sequence[tuple[Array | None, Array, Array]],
    powers: Sequence[tuple[Array, Array, Array]],
    differences: Sequence[tuple[Array, Array]],
    q: Array,
    k: Array,
    v: Array,
    axis: int,
    backwards: bool,
    strict: bool,
    there: tuple[int, int] | None = None,
) -> Array:
    rows = (*exponents, *powers, *differences)[0][-1].shape[: axis + 1]
    q, k = (np.ones((*rows, 1)) if x is None else x.reshape(*rows, int(prod(x.shape[axis + 1 :]))) for x in (q, k))
    ones = np.tril(np.ones((rows[-1], rows[-1])), -1 if strict else 0)
    ones = (ones.T if backwards else ones) > 0
    if there is not None:
        ones = ones & np.isin(np.arange(rows[-1]), np.arange(*there))

    def apart(a: Array, b: Array) -> Array:
        a, b = (x if x.ndim == axis + 2 else x[..., None] for x in (a, b))
        return np.where(ones[..., None], a[..., :, None, :] - b[..., None, :, :], 0)

    pairs = q[..., :, None, :] * k[..., None, :, :]
    for s, a, b in exponents:
        scale = np.ones(()) if s is None else np.asarray(s)
        scale = scale[..., None, None, :] if scale.ndim > axis else scale[..., None, None, None]
        pairs = pairs * np.exp(scale * apart(a, b))
    for g, a, b in powers:
        pairs = pairs * np.power(np.asarray(g)[..., None, None, None], apart(a, b))
    for a, b in differences:
        pairs = pairs * apart(a, b)
    return _times_columns(np.where(ones, pairs.sum(-1), 0), v)


def _decaying_in_order(
    a: Array, b: Array, v: Array | None, at: Array, rank: Array, asked: Array, limit: Array, *_: int
) -> Array:
    there = (at == asked[:, None]) & (rank <= limit[:, None])
    return _times_columns(np.where(there, np.exp(np.where(there, a[:, None] - b, 0)), 0), v)


def _band_times(
    p: Array, x: Array, first: int, rows: int, transposed: bool = False, shared: int = 0, others: int = 0
) -> Array:
    own = x.ndim - shared - 1
    total = np.zeros((*p.shape[: shared + others], rows, *x.shape[shared + 1 :]), x.dtype)
    for o in range(p.shape[-1]):
        row, column = (-first - o, -first - o) if transposed else (0, first + o)
        diagonal = _over(p[..., o], *((0, n) for n in p.shape[:-2]), (row, row + rows))
        ranges = [(0, n) for n in x.shape]
        ranges[shared] = (column, column + rows)
        read = _over(x, *ranges)
        read = read.reshape(*read.shape[:shared], *(1,) * others, *read.shape[shared:])
        total = total + diagonal.reshape(*diagonal.shape, *(1,) * own) * read
    return total


def _band_of(x: Array, y: Array, first: int, count: int, shared: int = 0, own: int = 0, others: int = 0) -> Array:
    inner, rows = x.ndim - shared - own - 1, y.shape[shared + others]
    ranges = [(0, n) for n in x.shape]
    ranges[shared + own] = (first, first + rows + count)
    x = _over(x, *ranges)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    g, d, e, i, s = ("".join(next(letters) for _ in range(k)) for k in (shared, own, others, 1, inner))
    spec = f"{g}{d}{i}{s},{g}{e}{i}{s}->{g}{d}{e}{i}"
    found = [np.einsum(spec, np.take(x, range(o, o + rows), shared + own), y) for o in range(count)]
    shape = (*x.shape[: shared + own], *y.shape[shared : shared + others], rows, count)
    return np.stack(found, -1) if found else np.zeros(shape, x.dtype)


def _put(values: Array, at: Sequence[Array], shape: Sequence[int], order: Array = None) -> Array:
    result = np.zeros((*shape, *values.shape[at[0].ndim :]), values.dtype)
    inside = np.ones(at[0].shape, bool)
    for a, n in zip(at, shape, strict=True):
        inside &= (a >= 0) & (a < n)
    np.add.at(result, tuple(a[inside] for a in at), values[inside])
    return result


def _put_in_windows(x: Array, at: Sequence[tuple[int, int, int, Array, int]]) -> Array:
    counts = x.shape[: len(at)]
    grid = np.meshgrid(*map(np.arange, counts), indexing="ij")
    places = [step * s + first + k for s, (step, first, _, k, _) in zip(grid, at, strict=True)]
    return _put(x, [np.broadcast_to(a, counts) for a in places], [size for _, _, size, _, _ in at])


def _correlate(
    x: Array, w: Array, at: Sequence[Sequence[int]], how: Any, groups: int = 0, batch: int = 0, outer: int = 0
) -> Array:
    rank = len(at)
    inner = x.ndim - rank - groups - batch
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    shared, own, others, both = ("".join(next(letters) for _ in range(k)) for k in (groups, batch, outer, inner))
    taps, counts = w.shape[w.ndim - rank :], [n for _, _, _, n in at]
    lead = [n for n in (*x.shape[: groups + batch], *w.shape[groups : groups + outer])]
    total = np.zeros((*lead, *counts), x.dtype)
    spec = f"{shared}{own}{both}...,{shared}{others}{both}->{shared}{own}{others}..."
    for j in product(*map(range, taps)):
        read = x
        for k, ((a, b, c, n), shift) in enumerate(zip(at, j, strict=True)):
            axis, start = x.ndim - rank + k, b * shift + c
            ranges = [(0, m) for m in read.shape]
            ranges[axis] = (start, start + a * (n - 1) + 1 if n else start)
            read = _over(read, *ranges)[(slice(None),) * axis + (slice(None, None, a),)]
        total = total + np.einsum(spec, read, w[(..., *j)])
    return total


def _sum_windows(x: Array, at: Sequence[Sequence[int]]) -> Array:
    for k, (a, b, c, n, width) in enumerate(at):
        axis = x.ndim - len(at) + k
        j = np.arange(x.shape[axis])
        seen = [(a * i + b * j + c >= 0) & (a * i + b * j + c < width) for i in range(n)]
        matrix = np.array(seen, FLOAT).reshape(n, len(j))
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def _points(ranges: Sequence[range]) -> list[tuple[int, ...]]:
    return list(product(*ranges))


def _sum_over(ranges: Sequence[range], term: Callable[..., Array], shape: Sequence[int], dtype: Any) -> Array:
    return sum((np.broadcast_to(term(*i), shape) for i in _points(ranges)), np.zeros(shape, dtype))


def _stack_over(ranges: Sequence[range], term: Callable[..., Array], shape: Sequence[int], dtype: Any) -> Array:
    counts = tuple(map(len, ranges))
    found = [np.broadcast_to(np.asarray(term(*i), dtype), shape) for i in _points(ranges)]
    return np.array(found, dtype).reshape((*counts, *shape)) if found else np.zeros((*counts, *shape), dtype)


def _found(points: Sequence[Array], *at: Array) -> Array:
    rows = list(zip(*(column.tolist() for column in points), strict=True))
    asked = np.broadcast_arrays(*at)
    found = [sum(row < key for row in rows) for key in zip(*(a.ravel().tolist() for a in asked), strict=True)]
    return np.array(found, INT).reshape(asked[0].shape)


def _holds(points: Sequence[Array], *at: Array) -> Array:
    rows = set(zip(*(column.tolist() for column in points), strict=True))
    asked = np.broadcast_arrays(*at)
    found = [key in rows for key in zip(*(a.ravel().tolist() for a in asked), strict=True)]
    return np.array(found, bool).reshape(asked[0].shape)


def _cuts(start: int, stop: int, work: int) -> list[tuple[int, int]]:
    """In blocks of a few rows, so that several are met at small sizes."""
    return [(k, min(k + ROWS, stop)) for k in range(start, stop, ROWS)]


ROWS = 3
WINDOW = 3


def _array_by_blocks(
    cuts: Sequence[Any], block: Callable[..., Array], axis: int, shape: Sequence[int], dtype: Any
) -> Array:
    parts = [np.asarray(block(*cut), dtype) for cut in cuts]
    return np.concatenate(parts, axis) if parts else np.zeros(shape, dtype)


def _sum_by_blocks(cuts: Sequence[Any], block: Callable[..., Array], shape: Sequence[int], dtype: Any) -> Array:
    return sum((block(*cut) for cut in cuts), np.zeros(shape, dtype))


def _windows(start: int, stop: int) -> list[tuple[int, int]]:
    return [(k, min(WINDOW, stop - k)) for k in range(start, stop, WINDOW)]


def _array_by_windows(
    start: int, stop: int, width: int, block: Callable[..., Array], axis: int, shape: Sequence[int], dtype: Any
) -> Array:
    return _array_by_blocks(_windows(start, stop), block, axis, shape, dtype)


def _sum_by_windows(
    start: int, stop: int, width: int, block: Callable[..., Array], shape: Sequence[int], dtype: Any
) -> Array:
    return _sum_by_blocks(_windows(start, stop), block, shape, dtype)


def _band_by_windows(
    start: int, stop: int, width: int, block: Callable[..., Any], axes: Sequence[int], shape: Sequence[int], dtype: Any
) -> Array:
    total = np.zeros(shape, dtype)
    for k, rows in _windows(start, stop):
        part, column = block(k, rows)
        first = [k - start if a == axes[0] else column if a == axes[1] else 0 for a in range(len(shape))]
        total[tuple(slice(f, f + n) for f, n in zip(first, part.shape, strict=True))] = part
    return total


def _dynamic_slice(x: Array, starts: Sequence[int], counts: Sequence[int]) -> Array:
    at = [min(max(int(s), 0), n - k) for s, k, n in zip(starts, counts, x.shape, strict=True)]
    return x[tuple(slice(s, s + k) for s, k in zip(at, counts, strict=True))]


def _dynamic_slice_in_dim(x: Array, start: int, count: int, axis: int = 0) -> Array:
    starts, counts = [0] * x.ndim, list(x.shape)
    starts[axis], counts[axis] = start, count
    return _dynamic_slice(x, starts, counts)


MEANING: Mapping[str, Callable[..., Any]] = {
    **EXTREMA,
    "arange": lambda *ends, dtype=None: np.arange(*ends, dtype=dtype),
    "asarray": np.asarray,
    "broadcast_to": np.broadcast_to,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "concatenate": lambda parts, axis=0: np.concatenate(parts, axis),
    "dynamic_slice": _dynamic_slice,
    "dynamic_slice_in_dim": _dynamic_slice_in_dim,
    "einsum": lambda spec, *arrays: np.einsum(str(spec), *arrays),
    "flip": np.flip,
    "full": np.full,
    "greatest": max,
    "least": min,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "result_type": lambda *_: FLOAT,
    "select": lambda which, *cases: np.choose(np.asarray(which, INT), cases, mode="clip"),
    "slice": slice,
    "sum": lambda x, axis=None: np.sum(x, axis),
    "take": np.take,
    "vdot": lambda a, b: np.sum(a * b),
    "where": np.where,
    "_add_at": _put,
    "_add_to_all": partial(_changed, adds=True),
    "_add_in_order": _put,
    "_all_first": lambda *values: values,
    "_along": lambda cuts, *arrays: [(*cut, *blocks) for cut, *blocks in zip(cuts, *arrays, strict=True)],
    "_array_by_blocks": _array_by_blocks,
    "_array_by_windows": _array_by_windows,
    "_band_by_windows": _band_by_windows,
    "_band_of": _band_of,
    "_band_times": _band_times,
    "_correlate": _correlate,
    "_correlate_in_steps": _correlate,
    "_in_intervals": _in_intervals,
    "_cut_rows": lambda stop, work: _cuts(0, stop, work),
    "_cuts": _cuts,
    "_found": _found,
    "_group_numbers": _group_numbers,
    "_group_numbers_of_both": _group_numbers_of_both,
    "_holds": _holds,
    "_if": lambda holds, x: x if holds else np.zeros_like(x),
    "_only_if": lambda holds, compute: compute() if holds else np.zeros_like(compute()),
    "_if_finite": lambda x, selected: x if np.isfinite(x).all() else selected(),
    "_in_turns": _in_turns,
    "_on_line": _on_line,
    "_over": _over,
    "_put_at": _put,
    "_put_in": partial(_changed, adds=False),
    "_put_in_order": _put,
    "_put_in_windows": _put_in_windows,
    "_read": _read,
    "_running": _running,
    "_running_in_groups": _running_in_groups,
    "_running_in_order": _running,
    "_running_up_to": _running_up_to,
    "_side_by_side": _side_by_side,
    "_spread": _spread,
    "_stack_over": _stack_over,
    "_stored": lambda x: x,
    "_sum": np.sum,
    "_sum_in_step": np.sum,
    "_sum_by_blocks": _sum_by_blocks,
    "_sum_by_windows": _sum_by_windows,
    "_decaying_in_chunks": _decaying_in_chunks,
    "_decaying_in_order": _decaying_in_order,
    "_sum_in_chunks": _sum_in_chunks,
    "_sum_over": _sum_over,
    "_sum_windows": _sum_windows,
    "_sums": lambda *terms: [np.sum(x) for x in terms],
    "_take": _take,
    "_times_ones": np.sum,
    "_turned": np.transpose,
    "_worthwhile": lambda inner, edge: inner,
}
"""Each operation, and each part of the library that array programs call."""
