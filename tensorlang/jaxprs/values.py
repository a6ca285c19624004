"""Abstract values of a jaxpr's variables: functions from places to elements, as expressions, indices or predicates.

Each axis of a value is a product of sub-axes: reshaping regroups them and needs no division. A place has an affine
index for each sub-axis. Structural operations compose with `at`, `cases` and `choose`; they cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.jaxprs.sizes import affine
from tensorlang.language.affine import Affine, constant
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import Predicate

ZERO = constant(0)

Axes = tuple[tuple[Affine, ...], ...]
Place = tuple[tuple[Affine, ...], ...]
Where = Callable[[Place], Predicate]


WIDE = (np.dtype(np.int32), np.dtype(np.int64))
"""Types of integers for which adding small numbers is assumed not to overflow."""


@dataclass(frozen=True)
class Datum:
    """An element, at the places `at`, of the integers that JAX computes for the variable `var`.

    If `known` is given, the element is that index expression, with quotients; if `moved` is given, it is `moved` plus
    `by`, or `by` minus `moved` if it is `turned`.
    """

    var: Any
    at: tuple[Affine, ...]
    known: Affine | None = None
    moved: Datum | None = None
    by: Affine = ZERO
    turned: bool = False


Case = tuple[Predicate, Affine | Datum]


def index_of(a: Affine | Datum) -> Affine | None:
    """`a` as an index expression, if that is known."""
    return a.known if isinstance(a, Datum) else a


@dataclass(frozen=True, kw_only=True)
class RealNumbers:
    """Numbers. Outside of `support` they are -inf; with `mask` they are [mask] * 1.

    `infinite` is 1 or -1 for an infinite number and 2 for nan, which have no expression; `constant` is the value of all
    elements, if they are equal. `is_top` marks greatest values, and `positive` numbers that are never negative;
    `stopped` has the same numbers without a derivative, if available; `pieces` is the number of values among which `at`
    chooses.
    """

    axes: Axes
    at: Callable[[Place], Expr]
    constant: Fraction | None = None
    infinite: int = 0
    support: Where | None = None
    mask: Where | None = None
    is_top: bool = False
    positive: bool = False
    stopped: RealNumbers | None = None
    pieces: int = 1
    variable: Any = None


@dataclass(frozen=True, kw_only=True)
class Int:
    """Integers that are indices: disjoint and exhaustive cases of affine expressions, or of data."""

    axes: Axes
    cases: Callable[[Place], list[Case]]


@dataclass(frozen=True, kw_only=True)
class Bool:
    """Conditions: `choose(place, a, b)` is a where it holds, else b; `holds` is a predicate, if it is one."""

    axes: Axes
    choose: Callable[[Place, Expr, Expr], Expr]
    holds: Where | None = None


Value = RealNumbers | Int | Bool


def viewed(x: Any, axes: Axes, place: Callable[[Place], Place]) -> Any:
    """The value with these axes whose element at a place p is that of `x` at place(p)."""

    def moved(f: Any) -> Any:
        return None if f is None else lambda ix: f(place(ix))

    match x:
        case RealNumbers():
            return replace(
                x,
                axes=axes,
                at=moved(x.at),
                support=moved(x.support),
                mask=moved(x.mask),
                stopped=None if x.stopped is None else viewed(x.stopped, axes, place),
                variable=None,
            )
        case Int():
            return Int(axes=axes, cases=moved(x.cases))
        case Bool():
            return Bool(axes=axes, choose=lambda ix, a, b: x.choose(place(ix), a, b), holds=moved(x.holds))
    raise AssertionError(x)


def plain(shape: Iterable[Any]) -> Axes:
    """Axes of one sub-axis each."""
    return tuple((affine(d),) for d in shape)


def extents(axes: Axes) -> tuple[Affine, ...]:
    """The sizes of all sub-axes in order."""
    return tuple(size for axis in axes for size in axis)


def volume(axes: Axes) -> int:
    """The number of elements, 0 if some sizes are not numbers."""
    sizes = extents(axes)
    return math.prod(size.constant for size in sizes) if all(size.is_constant for size in sizes) else 0


def flat_place(place: Place) -> tuple[Affine, ...]:
    """The indices of all sub-axes in order."""
    return tuple(a for part in place for a in part)
