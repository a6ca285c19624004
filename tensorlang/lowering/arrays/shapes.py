"""The shapes that operations of array programs return, for all sizes: what `meaning` says of arrays, said of shapes.

Blocks of rows are few at all sizes, so they are taken as one block; windows are taken row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tensorlang.language.affine import constant
from tensorlang.language.predicates import Predicate
from tensorlang.lowering.arrays.extents import ONE, ZERO, Static, length, less, plus, sliced
from tensorlang.lowering.arrays.ir import EinsumSpec

Shape = tuple[Static, ...]
Value = Any
"""A static integer, a condition on these, a `Shaped` array, a `LoopRange`, a function, a text, or a tuple of values."""


@dataclass(frozen=True)
class Shaped:
    """An array of that shape, of real numbers "f", integers "i" or truth values "b"; perhaps a `literal` number."""

    shape: Shape = ()
    kind: str = "f"
    literal: bool = False


@dataclass(frozen=True)
class LoopRange:
    """The integers from `start` on and before `stop`."""

    start: Static
    stop: Static


def shape_of(x: Value) -> Shape:
    """The shape of an array; static integers and indices of loops have none."""
    return x.shape if isinstance(x, Shaped) else ()


def kind_of(*several: Value) -> str:
    """The kind of numbers that arithmetic on some values gives."""
    kinds = {x.kind if isinstance(x, Shaped) else "b" if isinstance(x, Predicate) else "i" for x in several}
    return next(kind for kind in "fib" if kind in kinds)


def broadcast(*several: Value) -> Shape:
    """The shape of values broadcast to one another."""
    shapes = [shape_of(x) for x in several]
    found: list[Static] = [ONE] * max(map(len, shapes), default=0)
    for shape in shapes:
        for k, n in enumerate(shape, len(found) - len(shape)):
            found[k] = n if n != ONE else found[k]
    return tuple(found)


def subscripted(x: Shaped, *at: Value) -> Shaped:
    """x[at], whose parts are integers, arrays of them, slices, or None for a new axis."""
    given = [k for k, p in enumerate(at) if not isinstance(p, slice) and p is not None]
    gathered = broadcast(*(at[k] for k in given))
    apart = any(b - a > 1 for a, b in pairwise(given))
    shape: list[Static] = list(gathered) if apart else []
    axes = iter(x.shape)
    for k, p in enumerate(at):
        if p is None:
            shape.append(ONE)
            continue
        n = next(axes)
        if isinstance(p, slice):
            whole = p.start is None and p.stop is None and p.step in (None, 1, -1)
            shape.append(n if whole else sliced(n, p.start or ZERO, p.stop, p.step or 1))
        elif k == given[0] and not apart:
            shape += gathered
    return Shaped((*shape, *axes), x.kind)


def number(n: Value) -> int:
    """A static integer that depends on no size."""
    assert not n.terms, f"expected a number, found {n}"
    return int(n.constant)


def without(shape: Shape, axes: Value) -> Shape:
    """A shape without some of its axes, or without all if none are given."""
    several = axes if isinstance(axes, tuple) else (axes,)
    gone = range(len(shape)) if axes is None else [number(k) % len(shape) for k in several]
    return tuple(n for k, n in enumerate(shape) if k not in gone)


def lengths(spec: EinsumSpec, arrays: Sequence[Shaped]) -> dict[str, Static]:
    """The length along each index of an einsum."""
    found: dict[str, Static] = {}
    for term, x in zip(spec.terms, arrays, strict=True):
        for letter, n in zip(term, x.shape, strict=True):
            found[letter] = n if found.get(letter, ONE) == ONE else found[letter]
    return found


def _along_axis(x: Shaped, axis: Value, n: Static) -> Shaped:
    k = number(axis) % len(x.shape)
    return Shaped((*x.shape[:k], n, *x.shape[k + 1 :]), x.kind)


def _by_rows(x: Shaped, v: Value, axis: Value) -> Shaped:
    first = number(axis) + 1
    return Shaped((*x.shape[:first], *(v.shape[first:] if isinstance(v, Shaped) else ())))


def _arange(*ends: Static, dtype: Value = ONE) -> Shaped:
    return Shaped((length(less(ends[1], ends[0]) if len(ends) > 1 else ends[0]),), kind_of(dtype))


def _asarray(x: Value, dtype: Value = None) -> Shaped:
    shape = (constant(len(x)),) if isinstance(x, tuple) else shape_of(x)
    return Shaped(shape, kind_of(x if dtype is None else dtype))


def _concatenate(parts: Sequence[Shaped], axis: Value = ZERO) -> Shaped:
    total: Static = ZERO
    for part in parts:
        total = plus(total, part.shape[number(axis)])
    return _along_axis(Shaped(parts[0].shape, kind_of(*parts)), axis, total)


def _correlate(
    x: Shaped, w: Shaped, at: Value, how: Value, groups: Value = ZERO, batch: Value = ZERO, outer: Value = ZERO
) -> Shaped:
    g, b, o = map(number, (groups, batch, outer))
    return Shaped((*x.shape[: g + b], *w.shape[g : g + o], *(n for *_, n in at)))


def _band_times(
    p: Shaped,
    x: Shaped,
    first: Static,
    rows: Static,
    transposed: Value = None,
    shared: Value = ZERO,
    others: Value = ZERO,
) -> Shaped:
    return Shaped((*p.shape[:-2], rows, *x.shape[number(shared) + 1 :]))


def _band_of(
    x: Shaped, y: Shaped, first: Static, count: Static, shared: Value = ZERO, own: Value = ZERO, others: Value = ZERO
) -> Shaped:
    g, d, e = map(number, (shared, own, others))
    return Shaped((*x.shape[: g + d], *y.shape[g : g + e], y.shape[g + e], count))


def _einsum(spec: EinsumSpec, *arrays: Shaped) -> Shaped:
    table = lengths(spec, arrays)
    return Shaped(tuple(table[letter] for letter in spec.result), kind_of(*arrays))


def _put(values: Shaped, at: Sequence[Value], shape: Shape, order: Value = None) -> Shaped:
    return Shaped((*shape, *shape_of(values)[len(broadcast(*at)) :]), kind_of(values))


def _extremum(kind: str) -> Callable[..., Shaped]:
    return lambda x, *rest: Shaped(without(broadcast(x, *rest[:-1]), rest[-1]), kind)


def _given(kind: str | None = None) -> Callable[..., Shaped]:
    """The shape and dtype are the last arguments."""
    return lambda *arguments: Shaped(arguments[-2], kind or arguments[-1].kind)


def _windows(
    start: Static, stop: Static, width: Value, block: Value, axis: Value, shape: Shape, dtype: Value
) -> Shaped:
    return _along_axis(Shaped(shape, dtype.kind), axis, length(less(stop, start)))


def _stack(loops: Sequence[LoopRange], term: Value, shape: Shape, dtype: Value) -> Shaped:
    return Shaped((*(length(less(r.stop, r.start)) for r in loops), *shape), dtype.kind)


def _together(mask: Value, *cases: Value) -> Shaped:
    return Shaped(broadcast(mask, *cases), kind_of(*cases))


def _taken(x: Shaped, at: Value, axis: Value) -> Shaped:
    k = number(axis)
    return Shaped((*x.shape[:k], *shape_of(at), *x.shape[k + 1 :]), x.kind)


def _joined(cuts: Sequence[Value], *arrays: Sequence[Value]) -> Value:
    return tuple((*cut, *blocks) for cut, *blocks in zip(cuts, *arrays, strict=True))


SHAPES: Mapping[str, Callable[..., Value]] = {
    "arange": _arange,
    "asarray": _asarray,
    "broadcast_to": lambda x, shape: Shaped(shape, kind_of(x)),
    "concatenate": _concatenate,
    "dynamic_slice": lambda x, starts, counts: Shaped(counts, x.kind),
    "dynamic_slice_in_dim": lambda x, start, count, axis=ZERO: _along_axis(x, axis, count),
    "einsum": _einsum,
    "flip": lambda x, *_: x,
    "full": lambda shape, value, dtype=None: Shaped(shape, kind_of(value if dtype is None else dtype)),
    "result_type": lambda *_: Shaped(),
    "select": _together,
    "slice": slice,
    "sum": lambda x, axis=None: Shaped(without(x.shape, axis), x.kind),
    "take": _taken,
    "vdot": lambda a, b: Shaped(),
    "where": _together,
    **dict.fromkeys(("_add_to_all", "_put_in"), lambda x, values, *at: x),
    **dict.fromkeys(("_add_at", "_add_in_order", "_put_at", "_put_in_order"), _put),
    "_all_first": lambda *values: values,
    "_along": _joined,
    "_array_by_blocks": _given(),
    "_array_by_windows": _windows,
    "_band_by_windows": _given(),
    "_band_of": _band_of,
    "_band_times": _band_times,
    **dict.fromkeys(("_correlate", "_correlate_in_steps"), _correlate),
    "_cut_rows": lambda stop, work: ((ZERO, stop),),
    "_cuts": lambda start, stop, work: ((start, stop),),
    "_first_greatest_at": lambda values, mask, numbers, at, shape: Shaped(_put(values, at, shape).shape, "i"),
    **dict.fromkeys(("_first_greatest_over", "_first_greatest_where_over"), _given("i")),
    **dict.fromkeys(("_first_greatest", "_first_least"), _extremum("i")),
    **dict.fromkeys(("_first_greatest_where", "_first_least_where"), _extremum("i")),
    "_found": lambda points, *at: Shaped(broadcast(*at), "i"),
    **dict.fromkeys(("_greatest_at", "_greatest_at_or"), lambda values, mask, at, shape, *_: _put(values, at, shape)),
    "_greatest_over": _given(),
    **dict.fromkeys(("_greatest", "_least", "_greatest_where", "_least_where"), _extremum("f")),
    "_group_numbers": lambda columns, sizes: Shaped(columns[0].shape, "i"),
    "_group_numbers_of_both": lambda *columns: tuple(Shaped(some[0].shape, "i") for some in columns[:2]),
    "_holds": lambda points, *at: Shaped(broadcast(*at), "b"),
    "_in_intervals": lambda starts, stops, n: Shaped((n,), "b"),
    "_if": lambda holds, x: x,
    "_only_if": lambda holds, compute: compute(),
    "_if_finite": lambda x, selected: x,
    "_in_turns": lambda axis, size, *arrays: _along_axis(arrays[0], axis, size),
    "_on_line": lambda x, starts, steps, count: Shaped((count,), x.kind),
    "_over": lambda x, *ranges: Shaped(tuple(length(less(b, a)) for a, b in ranges), x.kind),
    "_put_in_windows": lambda x, at: Shaped((*(axis[2] for axis in at), *x.shape[len(at) :]), x.kind),
    **dict.fromkeys(("_read", "_take"), subscripted),
    **dict.fromkeys(
        ("_running", "_running_in_order"),
        lambda x, axis, backwards: _along_axis(x, axis, plus(x.shape[number(axis)], ONE)),
    ),
    **dict.fromkeys(("_running_greatest", "_running_least"), lambda x, axis, backwards: x),
    "_running_in_groups": lambda x, *_: x,
    "_running_up_to": lambda x, at, ranks, asked, *_: Shaped((*asked.shape, *x.shape[1:]), x.kind),
    "_greatest_in_groups": lambda x, *_: x,
    "_greatest_up_to": lambda x, mask, at, ranks, asked, *_: Shaped((*asked.shape, *x.shape[1:]), x.kind),
    "_first_greatest_in_groups": lambda x, *_: Shaped(x.shape, "i"),
    "_first_greatest_up_to": lambda x, mask, at, ranks, asked, *_: Shaped((*asked.shape, *x.shape[1:]), "i"),
    **dict.fromkeys(
        ("_running_first_greatest", "_running_first_least"), lambda x, axis, backwards: Shaped(x.shape, "i")
    ),
    "_side_by_side": lambda axis, size, *pieces: _along_axis(pieces[0][1], axis, size),
    "_spread": lambda x, axis, first, step, size: _along_axis(x, axis, size),
    "_stack_over": _stack,
    "_stored": lambda x: x,
    **dict.fromkeys(("_sum", "_sum_in_step", "_times_ones"), lambda x, axis=None: Shaped(without(x.shape, axis))),
    **dict.fromkeys(("_sum_by_blocks", "_sum_by_windows", "_sum_over"), _given()),
    "_decaying_in_chunks": lambda exponents, powers, differences, q, k, v, axis, *_: _by_rows(
        (*exponents, *powers, *differences)[0][-1], v, axis
    ),
    "_decaying_in_order": lambda a, b, v, *_: _by_rows(a, v, ZERO),
    "_sum_in_chunks": lambda q, k, v, axis, *_: _by_rows(q, v, axis),
    "_sum_windows": lambda x, at: Shaped((*x.shape[: len(x.shape) - len(at)], *(axis[3] for axis in at))),
    "_sums": lambda *terms: tuple(Shaped() for _ in terms),
    "_turned": lambda x, places: Shaped(tuple(x.shape[number(k)] for k in places), x.kind),
    "_worthwhile": lambda inner, edge: inner,
}
"""The shape, or other value, that each operation returns. `greatest` and `least` only take static integers."""
