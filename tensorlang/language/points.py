"""Tables of points: one row for each point, one column for each index and each variable that has many values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorlang.errors import LimitError
from tensorlang.language.affine import Index, IndexArray
from tensorlang.language.grammar import Var

MOST_POINTS = 20_000_000
"""The most points; more raise a `LimitError`, as they would not fit in memory."""

SAFE = 1 << 62
"""Integers below this are computed with as int64."""

Ints = NDArray[Any]
"""Integers, of dtype int64 wherever they fit, else Python's."""
Mask = NDArray[np.bool_]
Column = Index | Var | IndexArray
"""A column of points: an index, or a variable or index array bound by a let, whose value is then a row number."""


@dataclass(frozen=True, eq=False)
class Points:
    """`count` points; `columns` has the value of each index at each of them."""

    columns: Mapping[Column, Ints]
    count: int

    def take(self, rows: Ints | Mask) -> Points:
        """The points in `rows`, which are row numbers or a mask."""
        count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        return Points({key: column[rows] for key, column in self.columns.items()}, count)

    def having(self, key: Column, column: Ints) -> Points:
        """The same points with one more column."""
        return Points({**self.columns, key: column}, self.count)

    def only(self, keys: Iterable[Column]) -> Points:
        """The points with no other columns than `keys`; points that differed may become equal."""
        wanted = {key: self.columns[key] for key in keys if key in self.columns}
        return self if len(wanted) == len(self.columns) else Points(wanted, self.count)

    def distinct(self) -> tuple[Points, Ints | None]:
        """The distinct points, and the new row for each old one; None if no point occurs twice, or that is unknown."""
        (codes,) = codes_of(self) or (None,)
        if codes is None:
            return self, None
        _, first, back = np.unique(codes, return_index=True, return_inverse=True)
        return (self, None) if len(first) == self.count else (self.take(first), back.reshape(-1))


ORIGIN = Points({}, 1)
"""The one point of no indices."""


def codes_of(*tables: Points) -> list[Ints] | None:
    """A number for each point in several tables with the same columns, equal for equal points.

    None if the numbers would not fit.
    """
    codes: list[Ints] = [np.zeros(t.count, np.int64) for t in tables]
    span = 1
    for key in tables[0].columns:
        columns = [t.columns[key] for t in tables]
        radix = 1 + max((int(c.max()) for c in columns if len(c)), default=0)
        span *= radix
        if span >= SAFE:
            return None
        codes = [code * radix + column for code, column in zip(codes, columns, strict=True)]
    return codes


def matching(wanted: Sequence[Ints], keys: Sequence[Ints]) -> tuple[Ints, Ints, Ints]:
    """For each row of the columns `wanted`, the equal rows of `keys`: `order[start:stop]`."""
    count = len(wanted[0])
    codes: Ints = np.zeros(count + len(keys[0]), np.int64)
    for column in zip(wanted, keys, strict=True):
        _, ranks = np.unique(np.concatenate(column), return_inverse=True)
        _, codes = np.unique(codes * (1 + int(ranks.max(initial=0))) + ranks.reshape(-1), return_inverse=True)
        codes = codes.reshape(-1)
    order = np.argsort(codes[count:], kind="stable")
    ordered = codes[count:][order]
    return order, np.searchsorted(ordered, codes[:count], "left"), np.searchsorted(ordered, codes[:count], "right")


class Tuples:
    """The index tuples at which a relation is true, read off a boolean array or a sparse matrix."""

    def __init__(self, data: Any) -> None:
        self.shape = tuple(int(n) for n in data.shape)
        if math.prod(self.shape) >= SAFE:
            raise LimitError(f"a relation of shape {self.shape} is too large")
        found = data.nonzero() if hasattr(data, "tocoo") else np.asarray(data).nonzero()
        axes = [np.asarray(axis, np.int64) for axis in found]
        self.codes = np.unique(self._number(axes, range(len(axes))))
        self.axes: list[Ints] = list(np.unravel_index(self.codes, self.shape)) if len(self.codes) else axes
        self._sorted: dict[tuple[int, ...], tuple[Ints, Ints]] = {}

    def _number(self, values: Sequence[Ints], places: Iterable[int]) -> Ints:
        code: Ints = np.zeros(values[0].shape if values else (), np.int64)
        for value, k in zip(values, places, strict=True):
            code = code * self.shape[k] + value
        return code

    def ranges(self, values: Sequence[Ints], places: tuple[int, ...]) -> tuple[Ints, Ints, Ints]:
        """For each point the tuples with these `values` in these `places`: `order[start:stop]`."""
        if places not in self._sorted:
            keys = self._number([self.axes[k] for k in places], places) if places else np.zeros(len(self.codes), int)
            order = np.argsort(keys, kind="stable")
            self._sorted[places] = (order, keys[order])
        order, keys = self._sorted[places]
        inside: Mask = np.ones(len(values[0]), np.bool_) if values else np.ones(1, np.bool_)
        for value, k in zip(values, places, strict=True):
            inside &= ((value >= 0) & (value < self.shape[k])).astype(np.bool_)
        wanted = self._number([np.where(inside, v, 0).astype(np.int64) for v in values], places)
        wanted = np.broadcast_to(wanted, inside.shape)
        start, stop = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
        return order, start, np.where(inside, stop, start)
