"""The elements of arrays at given sizes, of which there may be very many, and which of them a predicate relates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tensorlang.language.grid import Setting, holds, size_of
from tensorlang.language.points import Ints, Points
from tensorlang.language.predicates import Predicate
from tensorlang.normal.pattern import Shape
from tensorlang.sets.solve import Ranges


def extents_of(shape: Shape, setting: Setting) -> tuple[int, ...]:
    """The sizes of an array."""
    return tuple(size_of(n, setting) for n in shape)


def first_places(extents: Sequence[int], most: int) -> Ints:
    """The places of an array's first elements, row by row: a row of indices for each."""
    count = min(prod(extents), most)
    rest = np.arange(count)
    columns = []
    for n in reversed(extents):
        columns.append(rest % n if n else rest)
        rest = rest // max(n, 1)
    return np.stack(columns[::-1], 1) if columns else np.zeros((count, 0), np.int64)


def related(p: Predicate, ranges: Ranges, rows: Ints, columns: Ints, setting: Setting) -> Ints:
    """The pairs of a row and a column, by number, whose places `p` relates; those of `rows` come first in `ranges`."""
    at = np.indices((len(rows), len(columns))).reshape(2, -1).T
    values = np.concatenate([rows[at[:, 0]], columns[at[:, 1]]], 1).T
    found: Ints = at[holds(p, Points(dict(zip(ranges, values, strict=True)), len(at)), setting)]
    return found
