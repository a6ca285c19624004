"""The additions, multiplications and comparisons that an operation of array programs takes for given arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tensorlang.lowering.arrays.ir import EinsumSpec
from tensorlang.lowering.arrays.meaning_of_extrema import Array


def _sum_in_chunks_work(q: Array, k: Array, v: Array | None, axis: int, *_: bool) -> int:
    """As for the sums in the model: products with each element of a chunk, and with each of the sum of those before."""
    rows = q.shape[: axis + 1]
    d, e = prod(q.shape[axis + 1 :]), 1 if v is None else prod(v.shape[axis + 1 :])
    size = min(rows[-1], max(64, 2 * d * e // (d + e))) if d + e else 0
    return int(prod(rows) * (2 * size * (d + e) + 4 * d * e * (size < rows[-1])))


def _decaying_in_chunks_work(
    exponents: Sequence[tuple[Array | None, Array, Array]],
    powers: Sequence[tuple[Array, Array, Array]],
    differences: Sequence[tuple[Array, Array]],
    q: Array | None,
    k: Array | None,
    v: Array | None,
    axis: int,
    *_: object,
) -> int:
    """The same, and for each element of a chunk an exponential and its argument."""
    ends = [side[-2:] for side in (*exponents, *powers, *differences)]
    q = ends[0][1] if q is None else q
    size, several = min(q.shape[axis], 64), 1 << len(differences)
    each = sum(max(int(np.size(x)) for x in ab) for ab in ends) * (4 * size + 8)
    return int(each + several * _sum_in_chunks_work(q, q, v, axis))


def _decaying_in_order_work(a: Array, b: Array, v: Array | None, *_: object) -> int:
    columns = 1 if v is None else prod(v.shape[1:])
    return int(np.size(a) * (64 + 32 * columns) + np.size(b) * (8 + 4 * columns))


def _einsum_work(spec: EinsumSpec, *arrays: Array) -> int:
    """Of products of two arrays at a time, in the best order."""
    terms = [set(term) for term in spec.terms]
    lengths = {
        letter: n
        for term, a in zip(spec.terms, arrays, strict=True)
        for letter, n in zip(term, np.shape(a), strict=True)
    }
    if len(terms) == 1:
        return int(np.size(arrays[0]))
    order: Sequence[Any] = np.einsum_path(str(spec), *arrays, optimize="optimal")[0]
    work, kept = 0, set(spec.result)
    for pair in order[1:]:
        some = set().union(*(terms.pop(k) for k in sorted(pair, reverse=True)))
        work += 2 * prod(lengths[letter] for letter in some)
        terms.append({letter for letter in some if letter in kept or any(letter in other for other in terms)})
    return work


def _correlation_work(
    x: Array, w: Array, at: Sequence[Sequence[int]], how: Any, groups: int = 0, batch: int = 0, outer: int = 0
) -> int:
    rank = len(at)
    lines = zip(w.shape[w.ndim - rank :], x.shape[x.ndim - rank :], strict=True)
    factors = prod(w.shape[: w.ndim - rank]) * prod(map(min, lines))
    return int(2 * factors * prod(n for *_, n in at) * prod(x.shape[groups : groups + batch]))


def _band_times_work(p: Array, x: Array, first: int, rows: int, *_: Any, shared: int = 0, **__: Any) -> int:
    """A product for each element of the band, and for each of x's own axes."""
    return 2 * int(prod(p.shape[:-2]) * rows * p.shape[-1] * prod(x.shape[shared + 1 :]))


def _band_of_work(x: Array, y: Array, first: int, count: int, shared: int = 0, own: int = 0, **_: int) -> int:
    return 2 * int(np.size(y) * count * prod(x.shape[shared : shared + own]))


_FREE = (
    "result_type",
    "asarray",
    "broadcast_to",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "flip",
    "_group_numbers",
    "_group_numbers_of_both",
    "_stored",
    "_turned",
    "_put_in",
    "_all_first",
    "_along",
    "_cuts",
    "_stack_over",
)
_ALL_READ = (
    "sum",
    "_sum",
    "_sum_in_step",
    "_times_ones",
    "_greatest",
    "_least",
    "_first_greatest",
    "_first_least",
    "_add_at",
    "_put_at",
    "_add_in_order",
    "_put_in_order",
    "_greatest_at",
    "_greatest_at_or",
    "_first_greatest_at",
    "_running_in_groups",
    "_running_up_to",
)
_COMPARED = ("_greatest_in_groups", "_greatest_up_to", "_first_greatest_in_groups", "_first_greatest_up_to")

_MASKED = ("_greatest_where", "_least_where", "_first_greatest_where", "_first_least_where")


def _times_each(ranges: Sequence[range], term: Callable[..., Array], shape: Sequence[int], dtype: Any) -> int:
    return prod(map(len, ranges)) * prod(shape)


def _times_each_of(r: range, term: Callable[..., Array], shape: Sequence[int], dtype: Any) -> int:
    return len(r) * prod(shape)


def _times_each_row(start: int, stop: int, width: int, block: Any, shape: Sequence[int], dtype: Any) -> int:
    return max(0, stop - start) * prod(shape)


WORK: Mapping[str, Callable[..., int]] = {
    "_sum_over": _times_each,
    "_greatest_over": _times_each_of,
    "_first_greatest_over": _times_each_of,
    "_first_greatest_where_over": _times_each_of,
    **dict.fromkeys(("_running_greatest", "_running_least"), lambda x, *_: 2 * int(np.size(x))),
    **dict.fromkeys(("_running_first_greatest", "_running_first_least"), lambda x, *_: 6 * int(np.size(x))),
    **dict.fromkeys(_COMPARED, lambda x, *_: 6 * int(np.size(x))),
    "_sum_by_windows": _times_each_row,
    **dict.fromkeys(_FREE, lambda *_, **__: 0),
    **dict.fromkeys(_ALL_READ, lambda x, *_, **__: int(np.size(x))),
    **dict.fromkeys(_MASKED, lambda x, mask, *_: int(np.broadcast(x, mask).size)),
    "_add_to_all": lambda x, values, *at: int(np.size(values)),
    "_sums": lambda *terms: sum(int(np.size(x)) for x in terms),
    "vdot": lambda a, b: 2 * int(np.size(a)),
    "einsum": _einsum_work,
    "_decaying_in_chunks": _decaying_in_chunks_work,
    "_decaying_in_order": _decaying_in_order_work,
    "_sum_in_chunks": _sum_in_chunks_work,
    "_band_times": _band_times_work,
    "_band_of": _band_of_work,
    "_in_intervals": lambda starts, stops, n: int(np.size(starts) + np.size(stops) + n),
    "_correlate": _correlation_work,
    "_correlate_in_steps": _correlation_work,
}
"""The operations that a part takes for the arrays that it is given, if that is not one for each element returned."""
