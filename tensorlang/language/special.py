"""More elementary functions: inverses, logarithms and exponentials near 0, roots, roundings, and their derivatives.

Each costs the least that its derivative, which may cost three times as much, allows. Where a function has no value, its
derivative has none either; roundings have the derivative 0, even at their steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.language.functions import call, functions, register
from tensorlang.language.grammar import Add, Expr, Mul, number

_ONE = number(1)


def _recip(e: Expr) -> Expr:
    """1 / e."""
    return call("recip", e)


def _root(e: Expr) -> Expr:
    """The square root of e."""
    return call("sqrt", e)


def _square(e: Expr) -> Expr:
    """e * e."""
    return Mul(e, e)


def _plus(a: Expr, b: Expr) -> Expr:
    """a + b."""
    return Add(a, b, 1)


def _minus(a: Expr, b: Expr) -> Expr:
    """a - b."""
    return Add(a, b, -1)


def _gauss(e: Expr) -> Expr:
    """exp(-e * e)."""
    return call("exp", Mul(number(-1), _square(e)))


def _constant(value: float) -> Expr:
    return number(Fraction(repr(value)))


def _elementwise(f: Callable[[float], float]) -> Callable[[Any], Any]:
    return np.vectorize(f, otypes=[float])


def _inverse_erf(y: Any) -> Any:
    from scipy.special import erfinv

    return erfinv(y)


def _gamma(name: str, *order: int) -> Callable[[Any], Any]:
    def evaluate(x: Any) -> Any:
        from scipy import special

        return np.asarray(getattr(special, name)(*order, np.asarray(x, float)))

    return evaluate


def _register_gammas() -> None:
    """Register lgamma and four derivatives; the derivative of the last is not known, and therefore nan."""
    orders = {3: "pentagamma", 2: "tetragamma", 1: "trigamma", 0: "digamma"}
    for k, name in orders.items():
        above = orders.get(k + 1)

        def transpose(xs: Any, y: Expr, t: Expr, above: str | None = above) -> list[Expr | None]:
            return [Mul(call(above, xs[0]) if above else call("log", number(-1)), t)]

        register(
            name,
            evaluate=_gamma("polygamma", k) if k else _gamma("digamma"),
            source=f"jax.scipy.special.polygamma({k}, {{0}})" if k else "jax.scipy.special.digamma({0})",
            latex=r"\psi" if not k else rf"\psi^{{{{({k})}}}}",
            transpose=transpose,
        )
    register(
        "lgamma",
        evaluate=_gamma("gammaln"),
        source="jax.scipy.special.gammaln({0})",
        latex=r"\log\Gamma",
        transpose=lambda xs, y, t: [Mul(call("digamma", xs[0]), t)],
    )


def _register() -> None:
    def f(
        name: str, cost: int, evaluate: Callable[[Any], Any], derivative: Callable[[Expr, Expr], Expr], **more: Any
    ) -> None:
        source = more.pop("source", f"jnp.{name}({{0}})")
        register(
            name,
            cost=cost,
            evaluate=evaluate,
            source=source,
            transpose=lambda xs, y, t: [Mul(derivative(xs[0], y), t)],
            **more,
        )

    f("log1p", 1, np.log1p, lambda x, y: _recip(_plus(_ONE, x)))
    f("expm1", 1, np.expm1, lambda x, y: _plus(y, _ONE))
    f("log2", 1, np.log2, lambda x, y: Mul(_constant(1 / math.log(2)), _recip(x)), latex=r"\log_2")
    f("log10", 1, np.log10, lambda x, y: Mul(_constant(1 / math.log(10)), _recip(x)), latex=r"\log_{{10}}")
    f(
        "asin",
        2,
        np.arcsin,
        lambda x, y: _recip(_root(_minus(_ONE, _square(x)))),
        source="jnp.arcsin({0})",
        latex=r"\arcsin",
    )
    f("acos", 2, np.arccos, lambda x, y: Mul(number(-1), _recip(_root(_minus(_ONE, _square(x))))),
      source="jnp.arccos({0})", latex=r"\arccos")  # fmt: skip
    f("atan", 2, np.arctan, lambda x, y: _recip(_plus(_ONE, _square(x))), source="jnp.arctan({0})", latex=r"\arctan")
    f("asinh", 2, np.arcsinh, lambda x, y: _recip(_root(_plus(_ONE, _square(x)))), source="jnp.arcsinh({0})")
    f("acosh", 2, np.arccosh, lambda x, y: _recip(_root(_minus(_square(x), _ONE))), source="jnp.arccosh({0})")
    f("atanh", 2, np.arctanh, lambda x, y: _recip(_minus(_ONE, _square(x))), source="jnp.arctanh({0})")
    f("cbrt", 2, np.cbrt, lambda x, y: Mul(number(Fraction(1, 3)), _recip(_square(y))), latex=r"\sqrt[3]{{{0}}}")
    f("rsqrt", 2, lambda x: 1 / np.sqrt(x), lambda x, y: Mul(number(Fraction(-1, 2)), Mul(y, _square(y))),
      source="1 / jnp.sqrt({0})", latex=r"\frac{{1}}{{\sqrt{{{0}}}}}")  # fmt: skip
    slope = _constant(-2 / math.sqrt(math.pi))
    f("erfc", 2, _elementwise(math.erfc), lambda x, y: Mul(slope, _gauss(x)),
      source="jax.scipy.special.erfc({0})")  # fmt: skip
    f("erfinv", 2, _inverse_erf, lambda x, y: Mul(_constant(math.sqrt(math.pi) / 2), call("exp", _square(y))),
      source="jax.scipy.special.erfinv({0})")  # fmt: skip
    _register_gammas()
    for name in ("floor", "ceil", "round"):
        rounded = {"floor": math.floor, "ceil": math.ceil, "round": round}[name]
        register(
            name,
            evaluate=getattr(np, name),
            exact=lambda x, rounded=rounded: Fraction(rounded(x)),
            source=f"jnp.{name}({{0}})",
            transpose=lambda xs, y, t: [None],
        )
    # a - b * floor(a / b), which has the sign of b
    register(
        "mod",
        arity=2,
        cost=2,
        evaluate=np.mod,
        source="jnp.mod({0}, {1})",
        transpose=lambda xs, y, t: [
            t,
            Mul(number(-1), Mul(call("floor", Mul(xs[0], _recip(xs[1]))), t)),
        ],
    )

    def over_norm(a: Expr, b: Expr, e: Expr) -> Expr:
        return Mul(e, _recip(_plus(_square(a), _square(b))))

    register(
        "atan2",
        arity=2,
        cost=5,
        evaluate=np.arctan2,
        source="jnp.arctan2({0}, {1})",
        transpose=lambda xs, y, t: [
            Mul(over_norm(xs[0], xs[1], xs[1]), t),
            Mul(number(-1), Mul(over_norm(xs[0], xs[1], xs[0]), t)),
        ],
    )
    # the derivative with respect to y at x = 0 is 0, as in JAX
    register(
        "power",
        arity=2,
        cost=5,
        evaluate=np.power,
        source="jnp.power({0}, {1})",
        latex="{0}^{{{1}}}",
        transpose=lambda xs, y, t: [
            Mul(Mul(xs[1], call("power", xs[0], _minus(xs[1], _ONE))), t),
            call("where_gt", call("abs", xs[0]), number(0), Mul(Mul(y, call("log", xs[0])), t)),
        ],
    )


_register()
BUILT_IN = frozenset(functions())
"""The names of the functions of the language; users register further ones."""
