"""Tables of points: one row for each point, one column for each index and each variable that has many values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorlang.language.affine import Index, IndexArray
from tensorlang.language.grammar import Var

MOST_POINTS = 20_000_000
"""More points than this are a `LimitError`: they would not fit in memory."""

SAFE = 1 << 62
"""Integers below this are computed with as int64."""

Ints = NDArray[Any]
"""Integers, of dtype int64 wherever they fit, else Python's."""
Mask = NDArray[np.bool_]
Column = Index | Var | IndexArray
"""What a point gives a value to: an index, or what a let binds, whose value is then a row number."""


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
        """Each point once, and for each old row the new one; None if no point comes twice (or none can tell)."""
        (codes,) = codes_of(self) or (None,)
        if codes is None:
            return self, None
        _, first, back = np.unique(codes, return_index=True, return_inverse=True)
        return (self, None) if len(first) == self.count else (self.take(first), back.reshape(-1))


ORIGIN = Points({}, 1)
"""The one point of no indices."""


def codes_of(*tables: Points) -> list[Ints] | None:
    """A number for each point, equal for equal points, in each of several tables with the same columns.

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
