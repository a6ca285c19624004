"""Functions that are linear where a difference is positive, and where it is negative: |x - y|, max(0, x - y), relu.

For the differences of all pairs of elements of two arrays, ranks determine the signs. So sums of such functions are
prefix sums in sorted order.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.flatten import rule_name
from tensorlang.jaxprs.origins import FEW
from tensorlang.jaxprs.rules.table import RULES
from tensorlang.jaxprs.terms import plus, times, when
from tensorlang.jaxprs.values import Place, RealNumbers, volume
from tensorlang.language.affine import Lookup, atom_affine
from tensorlang.language.grammar import Expr, number
from tensorlang.language.predicates import at_most, equal, less

_Rule = Callable[..., Any]


_Slopes = tuple[Fraction | int, Fraction | int, Fraction | int]
"""The slopes of a piecewise linear function that is 0 at 0: for negative numbers, at 0, and for positive numbers."""

ABSOLUTE: _Slopes = (-1, 1, 1)
RELU: _Slopes = (0, 0, 1)
POSITIVE_PART: _Slopes = (0, Fraction(1, 2), 1)
NEGATIVE_PART: _Slopes = (1, Fraction(1, 2), 0)


def _pieces(b: Builder, v: Any, x: Any, slopes: _Slopes) -> RealNumbers | None:
    """`x`, the value of `v`, times the slope for its sign; None unless `v` has differences of many pairs."""
    if b.origins is None or not b.signs or not isinstance(x, RealNumbers) or x.infinite or x.support is not None:
        return None
    ends = b.origins.difference(v)
    if ends is None or 0 < volume(x.axes) <= FEW:
        return None
    first, second = ends
    ranks = b.ranks(first[:2], second[:2])
    if ranks is None:
        return None
    b.assume("no number that is compared is nan")
    below, at_zero, above = slopes

    def at(ix: Place) -> Expr:
        e = x.at(ix)
        p, q = (atom_affine(Lookup(r, ix[end.along])) for r, end in zip(ranks, ends, strict=True))
        signs = {less(p, q): below, less(q, p): above, equal(p, q): at_zero}
        if at_zero == above:
            signs = {less(p, q): below, at_most(q, p): above}
        terms = (when(sign, times(number(Fraction(slope)), e)) for sign, slope in signs.items())
        return reduce(plus, terms)

    return b.state(x.axes, at, "pieces")


def _is_zero(x: Any) -> bool:
    return isinstance(x, RealNumbers) and x.constant == 0


def _of_sign(name: str, pieces: Callable[[Builder, Any, tuple[Any, ...]], RealNumbers | None]) -> None:
    rest: _Rule = RULES[name]

    def apply(b: Builder, eqn: Any, *xs: Any) -> Any:
        found = pieces(b, eqn, xs)
        return rest(b, eqn, *xs) if found is None else found

    RULES[name] = apply


def _beside_zero(slopes: _Slopes) -> Callable[[Builder, Any, tuple[Any, ...]], RealNumbers | None]:
    """A rule for the greater, or the lesser, of 0 and a number."""

    def pieces(b: Builder, eqn: Any, xs: tuple[Any, ...]) -> RealNumbers | None:
        k = next((k for k in (0, 1) if _is_zero(xs[1 - k])), None)
        return None if k is None else _pieces(b, eqn.invars[k], xs[k], slopes)

    return pieces


def _brought(b: Builder, eqn: Any, xs: tuple[Any, ...]) -> RealNumbers | None:
    return _pieces(b, eqn.invars[0], xs[0], RELU) if rule_name(eqn) == "relu" else None


_of_sign("abs", lambda b, eqn, xs: _pieces(b, eqn.invars[0], xs[0], ABSOLUTE))
_of_sign("max", _beside_zero(POSITIVE_PART))
_of_sign("min", _beside_zero(NEGATIVE_PART))
_of_sign("custom_jvp_call", _brought)
