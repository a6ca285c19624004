"""Dual numbers over fractions: derivatives by arithmetic alone, independent of every rule of the package."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Dual:
    """value + tangent * epsilon, where epsilon squared is 0."""

    value: Fraction
    tangent: Fraction

    def __add__(self, other: Any) -> Dual:
        other = lift(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Dual:
        other = lift(other)
        return Dual(self.value * other.value, self.value * other.tangent + self.tangent * other.value)

    __rmul__ = __mul__

    def __lt__(self, other: Any) -> bool:
        return self.value < lift(other).value

    def __gt__(self, other: Any) -> bool:
        return self.value > lift(other).value

    def __pow__(self, n: int) -> Dual:
        return Dual(self.value**n, n * self.value ** (n - 1) * self.tangent)


def lift(x: Any) -> Dual:
    """`x` as a dual number."""
    return x if isinstance(x, Dual) else Dual(Fraction(x), Fraction(0))


def paired(x: Any, dx: Any) -> Any:
    """The structure `x` of numbers with the tangents `dx`."""
    if isinstance(x, tuple):
        return tuple(map(paired, x, dx))
    if not isinstance(x, np.ndarray):
        return Dual(x, dx)
    data = np.empty(x.shape, dtype=object)
    for place in np.ndindex(*x.shape):
        data[place] = paired(x[place], dx[place])
    return data


def tangent(x: Any) -> Any:
    """The tangents of a structure of dual numbers."""
    if isinstance(x, tuple):
        return tuple(map(tangent, x))
    if not isinstance(x, np.ndarray):
        return lift(x).tangent
    data = np.empty(x.shape, dtype=object)
    for place in np.ndindex(*x.shape):
        data[place] = lift(x[place]).tangent
    return data
