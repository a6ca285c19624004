"""The data of relations as lists of points, made once for each object and kept while that lives."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
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


@dataclass(eq=False, repr=False)
class Coordinates:
    """The points of a relation: where it holds, in lexicographic order, a column for each argument."""

    columns: Arrays
    cells: int
    _listed: dict[Order, Arrays] = field(default_factory=dict)

    @property
    def is_sparse(self) -> bool:
        """Whether a program does better with the points than with a mask."""
        return self.cells >= FEWEST_CELLS and len(self.columns[0]) * CELLS_PER_POINT <= self.cells

    def listings(self, orders: Sequence[Order]) -> tuple[Arrays, ...]:
        """The points in each of `orders`, as generated code takes them.

        The first order is that of the arguments; the others come with where their points are in it.
        """
        for order in orders:
            if order not in self._listed:
                columns = self.columns
                at: list[np.ndarray[Any, Any]] = []
                if order != tuple(range(len(columns))):
                    at = [np.lexsort([columns[k] for k in reversed(order)])]
                    columns = tuple(column[at[0]] for column in columns)
                self._listed[order] = tuple(jnp.asarray(a, jnp.int32) for a in (*at, *columns))
        return tuple(self._listed[order] for order in orders)


@dataclass
class _Kept:
    """What was made of an object, which must still be alive and hold the same data."""

    alive: weakref.ref[Any]
    data: Arrays
    coordinates: Coordinates


_kept: dict[int, _Kept] = {}
_lock = Lock()


def coordinates(value: Any) -> Coordinates | None:
    """The points of a relation with this data; None under JAX's tracing, where they are not known.

    They are kept with the object. Arrays can be written to, so its data is compared, which takes little time.
    """
    if isinstance(value, jax.core.Tracer):
        return None
    data = _data(value)
    key = id(value)
    with _lock:
        kept = _kept.get(key)
    if kept is None or kept.alive() is not value or not _is_same(kept.data, data):
        own = data if isinstance(value, jax.Array) else tuple(np.array(a) for a in data)
        made = Coordinates(_points(value), prod(map(int, value.shape)))
        kept = _Kept(weakref.ref(value, lambda _: _kept.pop(key, None)), own, made)
        with _lock:
            _kept[key] = kept
    return kept.coordinates


def _is_same(a: Arrays, b: Arrays) -> bool:
    return len(a) == len(b) and all(x is y or _is_equal(x, y) for x, y in zip(a, b, strict=True))


def _is_equal(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.nbytes % 8 == 0 and x.flags.c_contiguous and y.flags.c_contiguous:  # eight bytes at a time
        x, y = x.reshape(-1).view(np.uint64), y.reshape(-1).view(np.uint64)
    return np.array_equal(x, y)


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
