"""The values of an expression at many points at once, and those that are known already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorlang.language.points import Ints, Points, codes_of

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array, or number, at each point: `array[rows]`, or `array` itself."""

    array: Values
    rows: Ints | None = None

    def read(self) -> Values:
        """The values, one for each point."""
        return self.array if self.rows is None else self.array[self.rows]

    def take(self, rows: Ints) -> Leaf:
        """The values at the points in `rows`."""
        return Leaf(self.array, rows if self.rows is None else self.rows[rows])

    def select(self, at: list[Ints]) -> Leaf:
        """The elements `at` one index per point and axis."""
        rows = np.arange(len(self.array)) if self.rows is None else self.rows
        return Leaf(self.array[(rows, *at)])


Value = tuple[Leaf, ...]
"""A value at each point of a table: its arrays from left to right, pairs being outermost."""


@dataclass(frozen=True, eq=False)
class Known:
    """The values of an expression at the points at which it has been evaluated."""

    points: Points
    value: Value

    def extended(self, points: Points, value: Value) -> Known:
        """The same with the values at more points."""
        if not self.points.count:
            return Known(points, value)
        both = tuple(Leaf(np.concatenate([a.read(), b.read()])) for a, b in zip(self.value, value, strict=True))
        columns = {key: np.concatenate([self.points.columns[key], c]) for key, c in points.columns.items()}
        return Known(Points(columns, self.points.count + points.count), both)


def find(wanted: Points, table: Points) -> Ints | None:
    """The row of `table` that contains each point, or -1; None if points can't be distinguished."""
    if all(wanted.columns[k] is table.columns[k] for k in wanted.columns) and wanted.count == table.count:
        return np.arange(wanted.count)
    codes = codes_of(wanted, table)
    if codes is None:
        return None
    if not table.count:
        return np.full(wanted.count, -1)
    order = np.argsort(codes[1], kind="stable")
    place = np.searchsorted(codes[1][order], codes[0])
    row = order[np.minimum(place, table.count - 1)]
    return np.where(codes[1][row] == codes[0], row, -1)
