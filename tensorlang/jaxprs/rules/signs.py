"""Functions that are linear where a difference is positive, and where it is negative: |x - y|, max(0, x - y), relu.

Of the differences of each element of an array with each of another one their ranks tell the sign. So sums of such
functions are sums of what comes before a place in an order.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tensorlang.jaxprs.builder import Builder, volume
from tensorlang.jaxprs.flatten import rule_name
from tensorlang.jaxprs.origins import FEW
from tensorlang.jaxprs.rules.table import RULES
from tensorlang.jaxprs.terms import negative, plus, times, when
from tensorlang.jaxprs.values import Place, Real
from tensorlang.language.affine import Lookup, atom_affine
from tensorlang.language.grammar import Expr, number
from tensorlang.language.predicates import at_most, equal, less

_Rule = Callable[..., Any]


def _pieces(b: Builder, v: Any, x: Any, at_zero: Fraction, below: bool = False) -> Real | None:
    """`x` where it is positive, and -x where it is negative if that is asked for; at 0 the derivative is `at_zero`."""
    if b.origins is None or not b.signs or not isinstance(x, Real) or x.infinite or x.support is not None:
        return None
    ends = b.origins.difference(v)
    if ends is None or 0 < volume(x.axes) <= FEW:
        return None
    first, second = ends
    ranks = b.ranks(first[:2], second[:2])
    if ranks is None:
        return None
    b.assume("no number that is compared is nan")

    def at(ix: Place) -> Expr:
        e = x.at(ix)
        p, q = (atom_affine(Lookup(r, ix[end.along])) for r, end in zip(ranks, ends, strict=True))
        found = when(at_most(q, p) if at_zero == 1 else less(q, p), e)
        if at_zero not in (0, 1):
            found = plus(found, when(equal(p, q), times(number(at_zero), e)))
        return plus(found, when(less(p, q), negative(e))) if below else found

    return b.state(x.axes, at, "pieces")


def _is_zero(x: Any) -> bool:
    return isinstance(x, Real) and x.constant == 0


def _of_sign(name: str, pieces: Callable[[Builder, Any, tuple[Any, ...]], Real | None]) -> None:
    rest: _Rule = RULES[name]

    def apply(b: Builder, eqn: Any, *xs: Any) -> Any:
        found = pieces(b, eqn, xs)
        return rest(b, eqn, *xs) if found is None else found

    RULES[name] = apply


def _greatest(b: Builder, eqn: Any, xs: tuple[Any, ...]) -> Real | None:
    for k in (0, 1):
        if _is_zero(xs[1 - k]):
            return _pieces(b, eqn.invars[k], xs[k], Fraction(1, 2))
    return None


def _brought(b: Builder, eqn: Any, xs: tuple[Any, ...]) -> Real | None:
    return _pieces(b, eqn.invars[0], xs[0], Fraction(0)) if rule_name(eqn) == "relu" else None


_of_sign("abs", lambda b, eqn, xs: _pieces(b, eqn.invars[0], xs[0], Fraction(1), True))
_of_sign("max", _greatest)
_of_sign("custom_jvp_call", _brought)
