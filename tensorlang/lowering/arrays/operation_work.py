"""The additions, multiplications and comparisons that an operation of array programs takes, for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import prod

from tensorlang.language.affine import Affine
from tensorlang.lowering.arrays.extents import ZERO, Static, extreme
from tensorlang.lowering.arrays.ir import EinsumSpec
from tensorlang.lowering.arrays.shapes import Shape, Shaped, Value, broadcast, lengths, number, shape_of

ADDED = ("_sum_over", "_sum_by_windows", "_greatest_over", "_first_greatest_over", "_first_greatest_where_over")
"""Operations that add up or compare, element by element, what their function returns."""

_TYPICAL = 128
"""The size at which the order of the products of an einsum is the best one."""


def _einsum(spec: EinsumSpec, *arrays: Shaped) -> list[tuple[int, Shape]]:
    """Products of two arrays at a time."""
    table = lengths(spec, arrays)
    terms = tuple(map(frozenset, spec.terms))
    if len(terms) == 1:
        return [(1, arrays[0].shape)]
    sizes = {letter: _typical(n) for letter, n in table.items()}
    order = _best_order(terms, frozenset(spec.result), sizes)[1]
    return [(2, tuple(table[letter] for letter in sorted(letters))) for letters in order]


def _typical(n: Static) -> int:
    if not isinstance(n, Affine):
        return _TYPICAL
    return max(1, n.constant + sum(k * _TYPICAL for _, k in n.terms))


_Order = tuple[int, list[frozenset[str]]]


def _best_order(terms: tuple[frozenset[str], ...], kept: frozenset[str], sizes: Mapping[str, int]) -> _Order:
    """The least work of products of two terms one after the other, and the indices of each."""
    if len(terms) == 1:
        return 0, []
    found: list[_Order] = []
    for pair in combinations(terms, 2):
        rest = list(terms)
        for term in pair:
            rest.remove(term)
        some = pair[0] | pair[1]
        left = frozenset(x for x in some if x in kept or any(x in t for t in rest))
        further, order = _best_order((*rest, left), kept, sizes)
        found.append((2 * prod(sizes[letter] for letter in some) + further, [some, *order]))
    return min(found, key=lambda order: order[0])


def _correlation(
    x: Shaped, w: Shaped, at: Value, how: Value, groups: Value = ZERO, batch: Value = ZERO, outer: Value = ZERO
) -> list[tuple[int, Shape]]:
    """Sums of products, one for each tap, or element read if these are fewer; a Fourier transform never takes more."""
    g, b, rank = number(groups), number(batch), len(at)
    lines = zip(w.shape[len(w.shape) - rank :], x.shape[len(x.shape) - rank :], strict=True)
    factors = (extreme(False, line) for line in lines)
    return [(2, (*w.shape[: len(w.shape) - rank], *factors, *(n for *_, n in at), *x.shape[g : g + b]))]


_CHUNK = 64
"""The least length of a chunk where chunks pay."""


def _chunks(q: Shaped, k: Value, v: Value, axis: Value, *_: Value) -> list[tuple[int, Shape]]:
    """An upper bound: products for each element of a chunk, and for each of the matrix of all chunks before it."""
    first = number(axis) + 1
    rows, inner = q.shape[:first], q.shape[first:]
    columns = v.shape[first:] if isinstance(v, Shaped) else ()
    n = rows[-1]  # a chunk is no longer than that
    fewer = [(extreme(False, (n, x[0])),) if len(x) == 1 else x for x in (inner, columns)]
    within: list[tuple[int, Shape]] = [(2 * _CHUNK, (*rows, *inner)), (2 * _CHUNK, (*rows, *columns))]
    return [*within, (4, (*rows, *inner, *fewer[1])), (4, (*rows, *columns, *fewer[0]))]


def _decaying_in_chunks(
    exponents: Value, powers: Value, differences: Value, q: Value, k: Value, v: Value, axis: Value, *_: Value
) -> list[tuple[int, Shape]]:
    """The same, doubled for each difference, and exponentials for each element of a chunk."""
    ends = [side[-2:] for side in (*exponents, *powers, *differences)]
    q = q if isinstance(q, Shaped) else ends[0][1]
    several = 2 ** len(differences)
    shown = [(4 * _CHUNK + 8, max((a.shape, b.shape), key=len)) for a, b in ends]
    return [*((several * times, shape) for times, shape in _chunks(q, k, v, axis)), *shown]


def _decaying_in_order(a: Shaped, b: Shaped, v: Value, *_: Value) -> list[tuple[int, Shape]]:
    """For each row an exponential and a product for each element of a quarter of a chunk, and what is kept."""
    columns = v.shape[1:] if isinstance(v, Shaped) else ()
    return [(_CHUNK, a.shape), (_CHUNK // 2, (*a.shape, *columns)), (8, b.shape), (4, (*b.shape, *columns))]


def _band_times(
    p: Shaped,
    x: Shaped,
    first: Value,
    rows: Static,
    transposed: Value = None,
    shared: Value = ZERO,
    others: Value = ZERO,
) -> list[tuple[int, Shape]]:
    """A product for each element of the band and of x's own axes."""
    return [(2, (*p.shape[:-2], rows, p.shape[-1], *x.shape[number(shared) + 1 :]))]


def _band_of(
    x: Shaped, y: Shaped, first: Value, count: Static, shared: Value = ZERO, own: Value = ZERO, others: Value = ZERO
) -> list[tuple[int, Shape]]:
    g = number(shared)
    return [(2, (*y.shape, count, *x.shape[g : g + number(own)]))]


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

WORK: Mapping[str, Callable[..., Sequence[tuple[int, Shape]]]] = {
    **dict.fromkeys((*_FREE, *ADDED, "_stack_over"), lambda *_, **__: ()),
    **dict.fromkeys(_ALL_READ, lambda x, *_, **__: [(1, shape_of(x))]),
    **dict.fromkeys(_MASKED, lambda x, mask, *_: [(1, broadcast(x, mask))]),
    **dict.fromkeys(("_running_greatest", "_running_least"), lambda x, *_: [(2, x.shape)]),
    **dict.fromkeys(("_running_first_greatest", "_running_first_least"), lambda x, *_: [(6, x.shape)]),
    **dict.fromkeys(_COMPARED, lambda x, *_: [(6, x.shape)]),
    "_add_to_all": lambda x, values, *at: [(1, shape_of(values))],
    "_sums": lambda *terms: [(1, x.shape) for x in terms],
    "_in_intervals": lambda starts, stops, n: [(1, shape_of(starts)), (1, shape_of(stops)), (1, (n,))],
    "_decaying_in_chunks": _decaying_in_chunks,
    "_decaying_in_order": _decaying_in_order,
    "_sum_in_chunks": _chunks,
    "_band_times": _band_times,
    "_band_of": _band_of,
    "vdot": lambda a, b: [(2, a.shape)],
    "einsum": _einsum,
    "_correlate": _correlation,
    "_correlate_in_steps": _correlation,
}
"""The operations for each element of arrays of these shapes, where that is not one for each element of the result."""
