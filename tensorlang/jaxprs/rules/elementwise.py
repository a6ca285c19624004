"""Arithmetic and scalar functions. Each makes a statement, so that no work is duplicated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tensorlang.jaxprs.axes import together
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.flatten import rule_name
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.table import RULES, rule
from tensorlang.jaxprs.terms import divided, minus, negative, plus, times, when
from tensorlang.jaxprs.values import Bool, Case, Datum, Int, Place, RealNumbers, Where, flat_place, index_of, plain
from tensorlang.language.affine import Affine, Lookup, atom_affine, constant
from tensorlang.language.functions import call, raise_to
from tensorlang.language.grammar import Expr, number
from tensorlang.language.predicates import TRUE, Predicate, at_most, conjunction, equal, less
from tensorlang.surface.quotients import asked

One = Callable[[Expr], Expr]
Two = Callable[[Expr, Expr], Expr]

_POSITIVE = frozenset(["exp", "logistic", "abs", "square", "exp2"])
"""Functions that are never negative."""


def mapped(b: Builder, x: RealNumbers, f: One, name: str) -> RealNumbers:
    """f of each number."""
    if x.infinite:
        if name == "exp" and x.infinite < 0:
            return b.uniform(x.axes, Fraction(0))
        if name == "neg":
            return replace(x, infinite=-x.infinite if x.infinite != 2 else 2)
        if name == "frozen":
            return x
        raise Unsupported(f"{name} of an infinite number")
    if x.support is not None:
        support = x.support
        if name == "frozen":
            return replace(b.state(x.axes, lambda ix: when(support(ix), f(x.at(ix))), name), support=support)
        if name in ("exp", "exp2", "logistic"):
            return replace(b.state(x.axes, lambda ix: when(support(ix), f(x.at(ix))), name), positive=True)
        raise Unsupported(f"{name} of numbers that are -inf under a mask")
    if x.constant is not None:
        c = x.constant
        if name == "neg":
            return b.uniform(x.axes, -c)
        if name == "frozen":
            return x
        return RealNumbers(axes=x.axes, at=lambda ix: f(number(c)), positive=name in _POSITIVE)
    positive = name in _POSITIVE or (x.positive and name in ("sqrt", "frozen"))
    if name == "abs" and x.positive:
        return x
    return replace(b.state(x.axes, lambda ix: f(x.at(ix)), name), positive=positive)


def absolute(b: Builder, e: Expr) -> Expr:
    """|e|; with `exact` its derivative at 0 is 1, as in JAX."""
    return call("right_abs" if b.exact else "abs", e)


def _unary(name: str, f: One) -> None:
    def apply(b: Builder, eqn: Any, x: Any) -> Any:
        if isinstance(x, Int) and name in ("abs", "neg", "square"):
            return _integer(b, name, x)
        x = b.real(x, eqn.invars[0])
        return mapped(b, x, (lambda e: absolute(b, e)) if name == "abs" else f, name)

    RULES[name] = apply


_ZERO = constant(0)
_PARTS: dict[str, list[tuple[Callable[[Affine], Predicate], Callable[[Affine], Affine]]]] = {
    "neg": [(lambda a: TRUE, lambda a: -a)],
    "abs": [(lambda a: at_most(_ZERO, a), lambda a: a), (lambda a: less(a, _ZERO), lambda a: -a)],
    "sign": [
        (lambda a: less(_ZERO, a), lambda a: constant(1)),
        (lambda a: equal(a, _ZERO), lambda a: _ZERO),
        (lambda a: less(a, _ZERO), lambda a: constant(-1)),
    ],
}
"""Functions of an index as cases: the index expressions that they are, and where."""


def _integer(b: Builder, name: str, x: Int) -> Int:
    made = b.equation.outvars[0]
    computed = b.available(made) and x.axes == plain(made.aval.shape)

    def cases(ix: Place) -> list[Case]:
        found: list[Case] = []
        for p, given in b.possible(x.cases(ix)):
            a = index_of(given)
            if a is None or name not in _PARTS or not (a is given or computed):
                raise Unsupported(f"{name} of integers of data")
            for holds, value in _PARTS[name]:
                one = value(a)
                known = one if a is given else Datum(made, flat_place(ix), known=one)
                found.append((conjunction([p, asked([a], holds)]), known))
        return b.possible(found)

    return Int(axes=x.axes, cases=cases)


_SAME_NAME = (
    "exp log sin cos tan tanh sinh cosh sqrt abs erf log1p expm1 lgamma digamma asin acos atan asinh acosh atanh"
)
for _name in [*_SAME_NAME.split(), "erfc", "floor", "ceil", "cbrt"]:
    _unary(_name, lambda e, name=_name: call(name, e))  # type: ignore[misc]
_unary("logistic", lambda e: call("sigmoid", e))
_unary("neg", negative)
_unary("square", lambda e: raise_to(e, 2))
_unary("rsqrt", lambda e: raise_to(e, Fraction(-1, 2)))
_unary("erf_inv", lambda e: call("erfinv", e))
_unary("exp2", lambda e: call("exp", times(number(Fraction("0.69314718055994530942")), e)))


@rule("sign")
def _sign(b: Builder, eqn: Any, x: Any) -> Any:
    if isinstance(x, Int) and b.is_index(x):
        return _integer(b, "sign", x)
    return mapped(b, b.real(x, eqn.invars[0]), lambda e: call("sign", e), "sign")


@rule("round")
def _round(b: Builder, eqn: Any, x: Any) -> Any:
    if eqn.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
        return mapped(b, b.real(x), lambda e: call("round", e), "round")
    half = number(Fraction(1, 2))
    return mapped(b, b.real(x), lambda e: times(call("sign", e), call("floor", plus(call("abs", e), half))), "round")


@rule("integer_pow")
def _integer_pow(b: Builder, eqn: Any, x: Any) -> Any:
    y = eqn.params["y"]
    if isinstance(x, Int):
        raise Unsupported("a power of integers")
    if y == 0:
        return b.uniform(x.axes, Fraction(1))
    made = mapped(b, x, lambda e: raise_to(e, y), "integer_pow" if y != 2 else "square")
    return replace(made, positive=y % 2 == 0)


@rule("stop_gradient")
def _stop_gradient(b: Builder, eqn: Any, x: Any) -> Any:
    if not isinstance(x, RealNumbers):
        return x
    if x.is_top and x.support is None and not b.exact:
        b.assume("a greatest value whose derivative is stopped is subtracted again, as in softmax and logsumexp")
        return x
    if x.stopped is not None:
        return x.stopped
    return replace(mapped(b, x, lambda e: call("frozen", e), "frozen"), is_top=x.is_top)


@rule("copy", "copy_p", "optimization_barrier", "pvary", "sharding_constraint", "mesh_cast", "name")
def _identity(b: Builder, eqn: Any, *xs: Any) -> Any:
    return xs[0] if len(xs) == 1 else list(xs)


@rule("reduce_precision")
def _reduce_precision(b: Builder, eqn: Any, x: Any) -> Any:
    raise Unsupported("numbers of less precision")


@rule("is_finite")
def _is_finite(b: Builder, eqn: Any, x: Any) -> Any:
    b.assume("values are finite")
    return b.condition(x.axes, lambda ix: TRUE)


@rule("convert_element_type")
def _convert(b: Builder, eqn: Any, x: Any) -> Any:
    new, old = eqn.params["new_dtype"], eqn.invars[0].aval.dtype
    if new == np.dtype(bool):
        if isinstance(x, Bool):
            return x
        raise Unsupported("numbers as conditions")
    if jnp.issubdtype(new, np.floating):
        if jnp.issubdtype(old, np.floating) and old != new:
            if b.exact:
                raise Unsupported(f"numbers of type {old} as {new}")
            b.assume("all numbers have one floating-point type")
        return b.real(x, eqn.outvars[0] if isinstance(x, Int) and _available(b, eqn.outvars[0]) else None)
    if jnp.issubdtype(new, np.integer):
        if isinstance(x, Int):
            if np.dtype(new).itemsize < 4:
                raise Unsupported(f"integers of type {new}, which overflow")
            return x
        if isinstance(x, Bool) and x.holds is not None:
            holds = x.holds
            return Int(axes=x.axes, cases=lambda ix: [(holds(ix), constant(1)), (b.negated(holds(ix)), constant(0))])
        if isinstance(x, Bool):
            outcome = b.outcome(x)
            return Int(axes=x.axes, cases=lambda ix: [(TRUE, atom_affine(Lookup(outcome, flat_place(ix))))])
        raise Unsupported("numbers as integers")
    raise Unsupported(f"values of type {new}", hint="complex numbers stay in JAX")


def _available(b: Builder, var: Any) -> bool:
    return b.available(var)


def _combined(b: Builder, name: str, f: Two, x: RealNumbers, y: RealNumbers) -> RealNumbers:
    (x, y), axes = together(b, [x, y])
    if name == "max" and -1 in (x.infinite, y.infinite):
        return y if x.infinite == -1 else x
    if name == "min" and 1 in (x.infinite, y.infinite):
        return y if x.infinite == 1 else x
    for one, other, first in ((x, y, True), (y, x, False)):
        if one.infinite:
            raise Unsupported(f"{name} with an infinite number")
        if one.support is not None:
            scaled = other.constant is not None and other.constant > 0
            kept = (
                name == "add" or (name == "sub" and first) or (scaled and (name == "mul" or (name == "div" and first)))
            )
            if not kept or other.support is not None:
                raise Unsupported(f"{name} with numbers that are -inf under a mask")
            return _supported(b, name, f, x, y, one.support)
    if (found := _simple(b, name, x, y)) is not None:
        return replace(found, axes=axes)
    if name == "mul":
        for one, other in ((x, y), (y, x)):
            if one.mask is not None:
                return _masked(one, other)
    positive = x.positive and y.positive and name in ("add", "mul", "div", "max", "min")
    return replace(b.state(axes, lambda ix: f(x.at(ix), y.at(ix)), name), positive=positive)


def _supported(b: Builder, name: str, f: Two, x: RealNumbers, y: RealNumbers, support: Where) -> RealNumbers:
    made = b.state(x.axes, lambda ix: when(support(ix), f(x.at(ix), y.at(ix))), name)
    return replace(made, support=support)


def _masked(mask: RealNumbers, x: RealNumbers) -> RealNumbers:
    holds, both = mask.mask, x.mask
    assert holds is not None

    def inside(ix: Place) -> Any:
        return holds(ix) if both is None else conjunction([holds(ix), both(ix)])

    return RealNumbers(
        axes=x.axes,
        at=lambda ix: when(holds(ix), x.at(ix)),
        mask=None if both is None else inside,
        positive=x.positive,
    )


def _simple(b: Builder, name: str, x: RealNumbers, y: RealNumbers) -> RealNumbers | None:
    """The result for known numbers, sums with 0 and products with 1; else None."""
    c, d = x.constant, y.constant
    if c is not None and d is not None and name in ("add", "sub", "mul"):
        return b.uniform(x.axes, c + d if name == "add" else c - d if name == "sub" else c * d)
    if (name == "add" and d == 0) or (name == "sub" and d == 0) or (name in ("mul", "div") and d == 1):
        return x
    if (name == "add" and c == 0) or (name == "mul" and c == 1):
        return y
    return None


def _binary(name: str, f: Callable[[Builder], Two]) -> None:
    from tensorlang.jaxprs.rules.conditions import integers, logic

    def apply(b: Builder, eqn: Any, x: Any, y: Any) -> Any:
        if isinstance(x, Int) and isinstance(y, Int):
            return integers(b, name, x, y)
        if isinstance(x, Bool) and isinstance(y, Bool):
            return logic(b, {"max": "or", "min": "and", "mul": "and", "add": "or"}.get(name, name), x, y)
        return _combined(b, name, f(b), b.real(x), b.real(y))

    RULES[name] = apply


def _extreme(name: str) -> Callable[[Builder], Two]:
    def greater(b: Builder, x: Expr, y: Expr) -> Expr:
        if not b.exact:
            b.assume("of equal numbers the first is the extremum, to which the cotangent goes")
        return call(f"even_{name}" if b.exact else name, x, y)

    return lambda b: lambda x, y: greater(b, x, y)


for _name, _two in {
    "add": lambda b: plus,
    "add_any": lambda b: plus,
    "sub": lambda b: minus,
    "mul": lambda b: times,
    "div": lambda b: divided,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "atan2": lambda b: lambda x, y: call("atan2", x, y),
}.items():
    _binary(_name, _two)
RULES["add_any"] = RULES["add"]


@rule("pow")
def _pow(b: Builder, eqn: Any, x: Any, y: Any) -> Any:
    exponent: Fraction | None = None
    if isinstance(y, Int):
        place, _ = b.indices(y.axes)
        cases = b.possible(y.cases(place))
        if len(cases) == 1 and isinstance(a := cases[0][1], Affine) and a.is_constant:
            exponent = Fraction(a.constant)
    elif isinstance(y, RealNumbers) and y.constant is not None and y.constant.denominator < 1000:
        exponent = y.constant
    if exponent is not None and not y.axes:
        k = exponent
        return b.uniform(x.axes, Fraction(1)) if k == 0 else mapped(b, b.real(x), lambda e: raise_to(e, k), "pow")
    return _combined(b, "pow", lambda p, q: call("power", p, q), b.real(x), b.real(y, eqn.invars[1]))


@rule("clamp")
def _clamp(b: Builder, eqn: Any, low: Any, x: Any, high: Any) -> Any:
    if isinstance(x, Int):
        from tensorlang.jaxprs.rules.conditions import integers

        return integers(b, "min", integers(b, "max", x, low), high)

    def clamped(e: Expr, lo: Expr, hi: Expr) -> Expr:
        """The clamp with JAX's derivative, which is 0 at and beyond the limits."""
        inside = call("where_gt", e, lo, call("where_gt", hi, e, minus(e, call("frozen", e))))
        return plus(call("frozen", call("min", call("max", e, lo), hi)), inside)

    if not b.exact:
        return RULES["min"](b, eqn, RULES["max"](b, eqn, x, low), high)
    (x, low, high), axes = together(b, [b.real(v) for v in (x, low, high)])
    for v in (low, high):
        if v.constant is None:
            raise Unsupported("limits that are data")
    return b.state(axes, lambda ix: clamped(x.at(ix), low.at(ix), high.at(ix)), "clamp")


@rule("custom_jvp_call")
def _custom_jvp(b: Builder, eqn: Any, *xs: Any) -> Any:
    name = rule_name(eqn)
    reals = [b.real(x) for x in xs]
    if name == "relu":
        return mapped(b, reals[0], lambda e: call("relu", e), "relu")
    (x, *rest), axes = together(b, reals)
    if name == "relu6":
        six = number(6)

        def relu6(e: Expr) -> Expr:
            inside = call("where_gt", e, number(0), call("where_gt", six, e, minus(e, call("frozen", e))))
            return plus(call("frozen", call("min", call("max", e, number(0)), six)), inside)

        return b.state(axes, lambda ix: relu6(x.at(ix)), "relu6")
    if any(v.infinite or v.support for v in (x, *rest)):
        raise Unsupported(f"{name} of infinite numbers")
    if name == "logaddexp":
        (y,) = rest
        if x.constant == 0 or y.constant == 0:
            z = y if x.constant == 0 else x
            return b.state(axes, lambda ix: call("softplus", z.at(ix)), "softplus")
        return b.state(axes, lambda ix: call("logaddexp", x.at(ix), y.at(ix)), "logaddexp")
    if name in ("xlogy", "xlog1py"):
        (y,) = rest
        known = "times_log" if name == "xlogy" else name  # the library's xlogy has another derivative at 0
        return b.state(axes, lambda ix: call(known, x.at(ix), y.at(ix)), name)
    raise Unsupported(f"the derivative that {name or 'the program'} brings", hint="tl.jax.grad keeps it")
