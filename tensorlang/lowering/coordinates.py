"""The data of relations as programs take them, made once for each object and kept while that lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.lowering.arrays.points import Order
from tensorlang.lowering.kept import Kept

Arrays = tuple[Any, ...]

CELLS_PER_POINT = 10
"""How many cells of a mask cost as much as a point: a gather or an addition in place against elementwise work."""
FEWEST_CELLS = 4096
"""Below this many cells a mask takes no time, and the program is not compiled anew for each number of points."""


@dataclass(frozen=True, eq=False, repr=False)
class Coordinates:
    """The points of a relation: where it holds, in lexicographic order, a column for each argument."""

    columns: Arrays
    _given: dict[tuple[Order, ...], Arrays] = field(default_factory=dict)

    def given(self, orders: tuple[Order, ...]) -> Arrays:
        """The points as generated code takes them: their columns, and for each of `orders` the points' places in it."""
        if orders not in self._given:
            sorts = [np.lexsort([self.columns[k] for k in reversed(order)]) for order in orders]
            self._given[orders] = tuple(_on_device(a, np.int32) for a in (*self.columns, *sorts))
        return self._given[orders]


@dataclass(frozen=True)
class _Copy:
    """The contents of an array at some time."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bytes: bytearray

    def is_of(self, x: np.ndarray[Any, Any]) -> bool:
        """Whether `x` still holds this; the bytes are compared in place."""
        return self.shape == x.shape and self.dtype == x.dtype and self.bytes == np.ascontiguousarray(x).data


@dataclass(frozen=True)
class _Seen:
    """The data that an object held, and the points or the mask made of it. An array of JAX can be its own mask."""

    shape: tuple[int, ...]
    data: tuple[_Copy, ...]
    made: Coordinates | jax.Array | None


_seen: Kept[_Seen] = Kept()


def points_or_mask(value: Any) -> Coordinates | Any:
    """A relation's data by its points, if these are known and few, or as a boolean array.

    Under JAX's tracing nothing is known. What was made of an object is kept with it. The object may have been written
    to since, so its data is compared with a copy, which takes a fraction of the time of any work at the points; arrays
    of JAX are constant.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    seen = _seen.of(value)
    data = () if isinstance(value, jax.Array) else _data(value)
    if seen is None or seen.shape != value.shape or not _holds(data, seen.data):
        copies = tuple(_Copy(x.shape, x.dtype, bytearray(x.tobytes())) for x in data)
        seen = _seen.keep(value, _Seen(value.shape, copies, _made(value)))
    return value if seen.made is None else seen.made


def _holds(data: Arrays, copies: tuple[_Copy, ...]) -> bool:
    return len(data) == len(copies) and all(map(_Copy.is_of, copies, data))


def _data(value: Any) -> Arrays:
    """The arrays that hold a relation's data."""
    if not hasattr(value, "tocoo"):
        elements = np.asarray(value)
        return (elements.astype(bool) if elements.dtype.hasobject else elements,)
    if hasattr(value, "indptr"):
        return (value.data, value.indices, value.indptr)
    coo = value.tocoo()
    return (coo.data, *_coordinates(coo))


def _made(value: Any) -> Coordinates | jax.Array | None:
    if prod(value.shape) >= FEWEST_CELLS and (columns := _few_points(value)) is not None:
        return Coordinates(columns)
    if isinstance(value, jax.Array):
        return None
    return _on_device(np.array(value.toarray() if hasattr(value, "tocoo") else value, bool), bool)


def _few_points(value: Any) -> Arrays | None:
    """The coordinates of the elements that are not zero, in lexicographic order, unless a mask is better."""
    if hasattr(value, "tocoo"):
        columns = _sparse_points(value)
        return columns if len(columns[0]) * CELLS_PER_POINT <= prod(value.shape) else None
    elements = np.asarray(value)
    return elements.nonzero() if np.count_nonzero(elements) * CELLS_PER_POINT <= elements.size else None


def _on_device(data: np.ndarray[Any, Any], dtype: Any) -> jax.Array:
    """An array that outlives the trace that it may be made in."""
    with jax.ensure_compile_time_eval():
        return jnp.asarray(data, dtype)


def _coordinates(coo: Any) -> Arrays:
    return tuple(coo.coords) if hasattr(coo, "coords") else (coo.row, coo.col)


def _sparse_points(value: Any) -> Arrays:
    """The coordinates of the elements of a sparse matrix that are not zero, in lexicographic order."""
    coo = value.tocoo(copy=True)
    coo.sum_duplicates()
    stored = coo.data != 0
    columns = [np.asarray(a)[stored] for a in _coordinates(coo)]
    order = np.lexsort(columns[::-1])
    return tuple(a[order] for a in columns)
