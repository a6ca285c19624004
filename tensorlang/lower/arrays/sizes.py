"""Sizes inferred from the shapes of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TypeVar

from tensorlang.language.affine import Affine, Size
from tensorlang.lower.arrays.ir import Infix, Name, Negative, Node, Number
from tensorlang.lower.arrays.values import integer

K = TypeVar("K")


@dataclass(frozen=True)
class Axis:
    """`length` is that of an axis whose declared size is `size`."""

    size: Affine
    length: Node


def infer_sizes(axes: Sequence[Axis], names: Callable[[Size], str]) -> dict[Size, Node]:
    """An expression for each size that the axes determine, in an order in which each only needs those before it."""
    found: dict[Size, Node] = {}
    waiting = sorted(axes, key=lambda axis: (len(axis.size.terms), abs(axis.size.constant)))
    while waiting:
        later = []
        for axis in waiting:
            unknown = [s for s in axis.size.sizes if s not in found]
            if len(unknown) == 1:
                found[unknown[0]] = _solved(axis, unknown[0], names)
            elif unknown:
                later.append(axis)
        if len(later) == len(waiting):
            found.update(_eliminated(later, found, names))
            break
        waiting = later
    return found


def _solved(axis: Axis, size: Size, names: Callable[[Size], str]) -> Node:
    k = axis.size.coefficient(size)
    sign = 1 if k > 0 else -1
    others = [(Name(names(s)), -sign * c) for s, c in axis.size.terms if isinstance(s, Size) and s is not size]
    return _quotient([(axis.length, sign), *others], -sign * axis.size.constant, abs(k))


def _quotient(terms: Sequence[tuple[Node, int]], constant: int, divisor: int) -> Node:
    """(the sum of factor * node, + constant) // divisor, which is exact."""
    total: Node | None = None
    for node, k in (*terms, (integer(1), constant)):
        if not k:
            continue
        if total is None:
            total = node if k == 1 else Negative(node) if k == -1 else Infix(Number(Fraction(k)), "*", node)
        else:
            part = node if abs(k) == 1 else Infix(integer(abs(k)), "*", node) if node != integer(1) else integer(abs(k))
            total = Infix(total, "+" if k > 0 else "-", part)
    total = total or integer(0)
    return total if divisor == 1 else Infix(total, "//", integer(divisor))


def _eliminated(axes: Sequence[Axis], found: dict[Size, Node], names: Callable[[Size], str]) -> dict[Size, Node]:
    """The sizes that follow from several axes together, by Gauss' method."""
    rows: list[tuple[dict[Size, Fraction], dict[Node | None, Fraction]]] = []
    for axis in axes:
        left = {s: Fraction(k) for s, k in axis.size.terms if isinstance(s, Size) and s not in found}
        right: dict[Node | None, Fraction] = {axis.length: Fraction(1), None: Fraction(-axis.size.constant)}
        right |= {Name(names(s)): Fraction(-k) for s, k in axis.size.terms if isinstance(s, Size) and s in found}
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
            terms = [(node, int(k * divisor)) for node, k in right.items() if node is not None]
            solved[next(iter(left))] = _quotient(terms, int(right.get(None, Fraction(0)) * divisor), divisor)
    return solved


def _less(a: dict[K, Fraction], b: dict[K, Fraction], factor: Fraction | None) -> dict[K, Fraction]:
    """a - factor * b."""
    if not factor:
        return a
    both = {key: a.get(key, Fraction(0)) - factor * b.get(key, Fraction(0)) for key in {**a, **b}}
    return {key: k for key, k in both.items() if k}
