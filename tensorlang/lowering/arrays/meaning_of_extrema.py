"""The meaning, in NumPy, of the operations on greatest and least values, and on the first places of these.

They go over axes and ranges, groups, and places. Like `meaning`, to which it belongs, this module shares no code with
the operations that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = Any
FLOAT, INT = np.float64, np.int64


def _greatest_in_groups(values: Array, mask: Array, at: Array, asked: Array, *given: Any) -> Array:
    _, strict, backwards, none = given
    places = _numbers_in_groups(values, mask, at, asked, strict, backwards)
    return _of_numbers(values, places, none)


def _greatest_up_to(values: Array, mask: Array, *given: Any) -> Array:
    *order, _, _, _, none = given
    return _of_numbers(values, _numbers_up_to(values, mask, *order), none)


def _first_greatest_in_groups(values: Array, mask: Array, at: Array, asked: Array, *given: Any) -> Array:
    _, strict, backwards, start = given
    found = _numbers_in_groups(values, mask, at, asked, strict, backwards)
    return np.where(found < 0, 0, found + start)


def _first_greatest_up_to(values: Array, mask: Array, *given: Any) -> Array:
    *order, _, _, _, start = given
    found = _numbers_up_to(values, mask, *order)
    return np.where(found < 0, 0, found + start)


def _of_numbers(values: Array, numbers: Array, none: float) -> Array:
    rest = np.indices(numbers.shape)[numbers.ndim - values.ndim + 1 :]
    return np.where(numbers < 0, none, values[(np.maximum(numbers, 0), *rest)] if len(values) else none)


def _numbers_in_groups(values: Array, mask: Array, at: Array, asked: Array, strict: bool, backwards: bool) -> Array:
    ranks = np.arange(len(values)) * (-1 if backwards else 1)
    return _numbers_up_to(values, mask, at, ranks, asked, ranks - strict)


def _numbers_up_to(values: Array, mask: Array, at: Array, ranks: Array, asked: Array, limits: Array) -> Array:
    """The numbers of the first of the greatest values; -1 where there is none."""
    found = np.full((*limits.shape, *values.shape[1:]), -1, INT)
    mask = np.broadcast_to(mask, values.shape)
    for k in np.ndindex(*limits.shape):
        seen = mask & _along_first((at == asked[k]) & (ranks <= limits[k]), values)
        if len(values):
            found[k] = np.where(seen.any(0), _first(1)(values, seen, 0), -1)
    return found


def _along_first(x: Array, like: Array) -> Array:
    return x.reshape(-1, *(1 for _ in like.shape[1:]))


def _running_extremum(sign: int) -> Callable[..., Array]:
    def found(x: Array, axis: int, backwards: bool) -> Array:
        x = np.moveaxis(x, axis, 0)
        x = x[::-1] if backwards else x
        x = np.maximum.accumulate(x, 0) if sign > 0 else np.minimum.accumulate(x, 0)
        return np.moveaxis(x[::-1] if backwards else x, 0, axis)

    return found


def _running_first(sign: int) -> Callable[..., Array]:
    def found(x: Array, axis: int, backwards: bool) -> Array:
        x = np.moveaxis(sign * x, axis, 0)
        places = np.zeros(x.shape, INT)
        for k in range(len(x)):
            places[k] = k + np.argmax(x[k:], 0) if backwards else np.argmax(x[: k + 1], 0)
        return np.moveaxis(places, 0, axis)

    return found


def _extremum(sign: int) -> Callable[..., Array]:
    def reduced(x: Array, *rest: Any) -> Array:
        *masks, axis = rest
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, *(m.shape for m in masks)))
        if not x.shape[axis]:
            return np.full(np.delete(x.shape, axis), np.nan if masks else 0.0)
        if not masks:
            return x.max(axis) if sign > 0 else x.min(axis)
        best = np.where(masks[0], x, -sign * np.inf)
        return np.where(masks[0].any(axis), best.max(axis) if sign > 0 else best.min(axis), np.nan)

    return reduced


def _first(sign: int) -> Callable[..., Array]:
    def found(x: Array, *rest: Any) -> Array:
        *masks, axis = rest
        x = np.broadcast_to(x, np.broadcast_shapes(x.shape, *(m.shape for m in masks)))
        if not x.shape[axis]:
            return np.zeros(np.delete(x.shape, axis), INT)
        x = np.asarray(x, FLOAT) * sign
        if not masks:
            return np.argmax(x, axis)
        hidden = np.where(masks[0], x, -np.inf)
        best = hidden.max(axis, keepdims=True)
        return np.argmax(masks[0] & ((hidden == best) | (np.isnan(hidden) & np.isnan(best))), axis)

    return found


def _greatest_over(r: range, term: Callable[..., Array], shape: Sequence[int], dtype: Any) -> Array:
    terms = [np.broadcast_to(term(i), shape) for i in r]
    return np.max(terms, 0) if terms else np.zeros(shape, dtype)


def _first_greatest_over(r: range, term: Callable[..., Array], shape: Sequence[int], dtype: Any) -> Array:
    terms = [np.broadcast_to(term(i), shape) for i in r]
    return np.argmax(terms, 0) if terms else np.zeros(shape, INT)


def _first_greatest_where_over(r: range, term: Callable[..., Any], shape: Sequence[int], dtype: Any) -> Array:
    if not r:
        return np.zeros(shape, INT)
    values, shown = (np.array([np.broadcast_to(a, shape) for a in each]) for each in zip(*map(term, r), strict=True))
    found: Array = _first(1)(values, shown, 0)
    return found


def _greatest_at(values: Array, mask: Array, at: Sequence[Array], shape: Sequence[int]) -> Array:
    return _greatest_at_or(values, mask, at, shape, -np.inf)


def _greatest_at_or(values: Array, mask: Array, at: Sequence[Array], shape: Sequence[int], none: float) -> Array:
    best = np.full((*shape, *values.shape[at[0].ndim :]), -np.inf)
    seen = np.zeros(best.shape, bool)
    mask = np.broadcast_to(mask, values.shape)
    for k in np.ndindex(*at[0].shape):
        place = tuple(a[k] for a in at)
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            best[place] = np.where(mask[k], np.maximum(best[place], values[k]), best[place])
            seen[place] |= mask[k]
    return np.where(seen, best, none)


def _first_greatest_at(values: Array, mask: Array, numbers: Array, at: Sequence[Array], shape: Sequence[int]) -> Array:
    best = _greatest_at(values, mask, at, shape)
    mask, numbers = (
        np.broadcast_to(mask, values.shape),
        np.broadcast_to(np.reshape(numbers, np.shape(numbers) + (1,) * (values.ndim - np.ndim(numbers))), values.shape),
    )
    last = 2**31 - 1
    first = np.full(best.shape, last, INT)
    for k in np.ndindex(*at[0].shape):
        place = tuple(a[k] for a in at)
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            same = (values[k] == best[place]) | (np.isnan(values[k]) & np.isnan(best[place]))
            chosen = mask[k] & same
            first[place] = np.where(chosen, np.minimum(first[place], numbers[k]), first[place])
    return np.where(first < last, first, 0)


EXTREMA: Mapping[str, Callable[..., Any]] = {
    "_first_greatest": _first(1),
    "_first_greatest_at": _first_greatest_at,
    "_first_greatest_over": _first_greatest_over,
    "_first_greatest_where": _first(1),
    "_first_greatest_where_over": _first_greatest_where_over,
    "_first_least": _first(-1),
    "_first_least_where": _first(-1),
    "_greatest": _extremum(1),
    "_greatest_at": _greatest_at,
    "_greatest_at_or": _greatest_at_or,
    "_greatest_over": _greatest_over,
    "_greatest_where": _extremum(1),
    "_greatest_in_groups": _greatest_in_groups,
    "_greatest_up_to": _greatest_up_to,
    "_first_greatest_in_groups": _first_greatest_in_groups,
    "_first_greatest_up_to": _first_greatest_up_to,
    "_least": _extremum(-1),
    "_least_where": _extremum(-1),
    "_running_first_greatest": _running_first(1),
    "_running_first_least": _running_first(-1),
    "_running_greatest": _running_extremum(1),
    "_running_least": _running_extremum(-1),
}
"""Each of these operations, and each part of the library for them."""
