"""Linear equations over the rationals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Generic, TypeVar

X = TypeVar("X")
C = TypeVar("C")

Number = int | Fraction


class Equations(Generic[X, C]):
    """Equations sum of k * x = sum of m * c, in unknowns x, by Gauss-Jordan elimination.

    Each independent equation has an unknown, its pivot, that occurs in no other.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[dict[X, Fraction], dict[C, Fraction]]] = []

    def add(self, left: Mapping[X, Number], right: Mapping[C, Number]) -> dict[C, Fraction] | None:
        """Add an equation. If its left side depends on those before, return the combination that must then be zero."""
        row = {x: Fraction(k) for x, k in left.items() if k}
        rest = {c: Fraction(m) for c, m in right.items() if m}
        for other, value in self._rows:
            factor = row.get(next(iter(other)))
            row, rest = _without(row, other, factor), _without(rest, value, factor)
        if not row:
            return rest
        pivot, scale = next(iter(row.items()))
        row, rest = {x: k / scale for x, k in row.items()}, {c: m / scale for c, m in rest.items()}
        self._rows = [(_without(o, row, o.get(pivot)), _without(v, rest, o.get(pivot))) for o, v in self._rows]
        self._rows.append((row, rest))
        return None

    @property
    def rank(self) -> int:
        """The number of independent equations."""
        return len(self._rows)

    def solved(self) -> Iterator[tuple[X, dict[C, Fraction]]]:
        """The unknowns that the equations determine, with their values."""
        for row, rest in self._rows:
            if len(row) == 1:
                yield next(iter(row)), rest


def _without(a: dict[X, Fraction], b: Mapping[X, Fraction], factor: Fraction | None) -> dict[X, Fraction]:
    """a - factor * b."""
    if not factor:
        return a
    both = {x: a.get(x, Fraction(0)) - factor * b.get(x, Fraction(0)) for x in {**a, **b}}
    return {x: k for x, k in both.items() if k}
