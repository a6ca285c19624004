"""The data of relations as lists of points, made once for each object and kept while that lives."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.lower.points import Order

Arrays = tuple[Any, ...]

CELLS_PER_POINT = 10
"""How many cells of a mask cost as much as a point: a gather or an addition in place against elementwise work."""
FEWEST_CELLS = 4096
"""Below this many cells a mask takes no time, and the program is not compiled anew for each number of points."""


@dataclass
class _Kept:
    """What was made of an object, which must still be alive and hold the same data."""

    alive: weakref.ref[Any]
    data: Arrays
    points: Arrays
    listed: dict[Order, Arrays] = field(default_factory=dict)


_kept: dict[int, _Kept] = {}
_lock = Lock()


def is_sparse(value: Any) -> bool:
    """Whether a relation with this data is better treated by its points; under JAX's tracing they are not known."""
    if isinstance(value, jax.core.Tracer):
        return False
    cells = 1
    for n in value.shape:
        cells *= int(n)
    return cells >= FEWEST_CELLS and len(_of(value).points[0]) * CELLS_PER_POINT <= cells


def listings(value: Any, orders: Sequence[Order]) -> tuple[Arrays, ...]:
    """The points of a relation in each of `orders`, as the generated code takes them.

    The first order is that of the arguments; the others come with where their points are in it.
    """
    kept = _of(value)
    for order in orders:
        if order not in kept.listed:
            columns = kept.points
            at: list[np.ndarray[Any, Any]] = []
            if order != tuple(range(len(columns))):
                places = np.lexsort([columns[k] for k in reversed(order)])
                columns, at = tuple(column[places] for column in columns), [places]
            kept.listed[order] = tuple(jnp.asarray(a, jnp.int32) for a in (*at, *columns))
    return tuple(kept.listed[order] for order in orders)


def _of(value: Any) -> _Kept:
    """What is known of an object. Arrays can be written to, so their data is compared, which is cheap to do."""
    data = _data(value)
    with _lock:
        kept = _kept.get(id(value))
    if kept is not None and kept.alive() is value and _is_same(kept.data, data):
        return kept
    key = id(value)
    own = data if isinstance(value, jax.Array) else tuple(np.array(a) for a in data)
    kept = _Kept(weakref.ref(value, lambda _: _kept.pop(key, None)), own, _points(value))
    with _lock:
        _kept[key] = kept
    return kept


def _is_same(a: Arrays, b: Arrays) -> bool:
    return len(a) == len(b) and all(
        x is y or (x.dtype == y.dtype and np.array_equal(x, y)) for x, y in zip(a, b, strict=True)
    )


def _data(value: Any) -> Arrays:
    """The arrays that hold a relation's data."""
    if not hasattr(value, "tocoo"):
        return (value,)
    if hasattr(value, "indptr"):
        return (value.data, value.indices, value.indptr)
    coo = value.tocoo()
    return (coo.data, *_coordinates(coo))


def _coordinates(coo: Any) -> Arrays:
    return tuple(coo.coords) if hasattr(coo, "coords") else (coo.row, coo.col)


def _points(value: Any) -> Arrays:
    """The coordinates of what is not zero, in lexicographic order."""
    if not hasattr(value, "tocoo"):
        return tuple(np.asarray(value).nonzero())
    coo = value.tocoo(copy=True)
    coo.sum_duplicates()
    stored = coo.data != 0
    columns = [np.asarray(a)[stored] for a in _coordinates(coo)]
    order = np.lexsort(columns[::-1])
    return tuple(a[order] for a in columns)
