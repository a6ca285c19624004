"""Sizes read off the shapes of arrays, as Python expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TypeVar

from tensorlang.language.affine import Affine, Size

K = TypeVar("K")


@dataclass(frozen=True)
class Axis:
    """`code` is the length of an axis whose declared size is `size`."""

    size: Affine
    code: str


def read_sizes(axes: Sequence[Axis], spelled: Callable[[Size], str]) -> dict[Size, str]:
    """An expression for each size that the axes determine, in an order in which each only needs those before it."""
    found: dict[Size, str] = {}
    waiting = sorted(axes, key=lambda axis: (len(axis.size.terms), abs(axis.size.constant)))
    while waiting:
        later = []
        for axis in waiting:
            unknown = [s for s in axis.size.sizes if s not in found]
            if len(unknown) == 1:
                found[unknown[0]] = _solved(axis, unknown[0], spelled)
            elif unknown:
                later.append(axis)
        if len(later) == len(waiting):
            found.update(_eliminated(later, found, spelled))
            break
        waiting = later
    return found


def _solved(axis: Axis, size: Size, spelled: Callable[[Size], str]) -> str:
    k = axis.size.coefficient(size)
    sign = 1 if k > 0 else -1
    others = [(spelled(s), -sign * c) for s, c in axis.size.terms if isinstance(s, Size) and s is not size]
    return _quotient([(axis.code, sign), *others], -sign * axis.size.constant, abs(k))


def _quotient(terms: list[tuple[str, int]], constant: int, divisor: int) -> str:
    """(the sum of factor * code, + constant) // divisor, which is exact."""
    parts = [("-" if k < 0 else "+", code if abs(k) == 1 else f"{abs(k)} * {code}") for code, k in terms if k]
    if constant:
        parts.append(("-" if constant < 0 else "+", str(abs(constant))))
    text = " ".join(f"{sign} {part}" for sign, part in parts) or "0"
    text = text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1)
    if divisor == 1:
        return text
    return f"({text}) // {divisor}" if len(parts) > 1 or "*" in text else f"{text} // {divisor}"


def _eliminated(axes: Sequence[Axis], found: dict[Size, str], spelled: Callable[[Size], str]) -> dict[Size, str]:
    """The sizes that follow from several axes together, by Gauss' method."""
    rows: list[tuple[dict[Size, Fraction], dict[str, Fraction]]] = []
    for axis in axes:
        left = {s: Fraction(k) for s, k in axis.size.terms if isinstance(s, Size) and s not in found}
        right = {axis.code: Fraction(1), "": Fraction(-axis.size.constant)}
        right |= {spelled(s): Fraction(-k) for s, k in axis.size.terms if isinstance(s, Size) and s in found}
        for other, value in rows:
            pivot = next(iter(other))
            left, right = _less(left, other, left.get(pivot)), _less(right, value, left.get(pivot))
        if not left:
            continue
        scale = next(iter(left.values()))
        left, right = {s: k / scale for s, k in left.items()}, {c: k / scale for c, k in right.items()}
        pivot = next(iter(left))
        rows = [(_less(o, left, o.get(pivot)), _less(v, right, o.get(pivot))) for o, v in rows]
        rows.append((left, right))
    solved = {}
    for left, right in rows:
        if len(left) == 1:
            divisor = lcm(*(k.denominator for k in right.values()))
            terms = [(code, int(k * divisor)) for code, k in right.items() if code]
            solved[next(iter(left))] = _quotient(terms, int(right.get("", Fraction(0)) * divisor), divisor)
    return solved


def _less(a: dict[K, Fraction], b: dict[K, Fraction], factor: Fraction | None) -> dict[K, Fraction]:
    """a - factor * b."""
    if not factor:
        return a
    both = {key: a.get(key, Fraction(0)) - factor * b.get(key, Fraction(0)) for key in {**a, **b}}
    return {key: k for key, k in both.items() if k}
