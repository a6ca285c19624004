"""Values whose Python is written by the emitters of kernels themselves."""

from __future__ import annotations

from fractions import Fraction

from tensorlang.lower.arrays.ir import Written
from tensorlang.lower.arrays.values import Axes, Value
from tensorlang.lower.emit.python import ATOM


def written(
    code: str, axes: Axes = (), level: int = ATOM, depth: int = 0, number: Fraction | None = None, weak: bool = False
) -> Value:
    """An array with these axes whose Python is `code`, which binds as tightly as `level`."""
    return Value(Written(code, level), axes, depth, number, weak)
