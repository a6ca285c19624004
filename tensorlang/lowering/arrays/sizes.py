"""Sizes inferred from the shapes of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from tensorlang.language.affine import Affine, Size
from tensorlang.language.linear import Equations
from tensorlang.lowering.arrays.ir import Infix, Name, Negative, Node, Number
from tensorlang.lowering.arrays.values import integer


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
    """The sizes that follow from several axes together."""
    equations = Equations[Size, Node | None]()
    for axis in axes:
        sizes = {s: k for s, k in axis.size.terms if isinstance(s, Size)}
        right: dict[Node | None, int] = {axis.length: 1, None: -axis.size.constant}
        right |= {Name(names(s)): -k for s, k in sizes.items() if s in found}
        equations.add({s: k for s, k in sizes.items() if s not in found}, right)
    solved = {}
    for size, right_ in equations.solved():
        divisor = lcm(*(k.denominator for k in right_.values()))
        terms = [(node, int(k * divisor)) for node, k in right_.items() if node is not None]
        solved[size] = _quotient(terms, int(right_.get(None, Fraction(0)) * divisor), divisor)
    return solved
