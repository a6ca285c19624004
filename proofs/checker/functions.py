"""Scalar functions: the cost and the derivative of each, known here or derived from a declared body.

A function that is not known here and has no body is taken as declared, and listed as an assumption.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from . import syntax
from .budget import Budget, TooLarge
from .equal import Side, equal
from .semantics import Function, Semantics, Undefined, known, known_cost, operations
from .trees import Add, Call, Expr, Mul, Name, Num, Program, Real, Refused

_DERIVATIVES = {
    "exp": ["y * t"],
    "log": ["recip(x0) * t"],
    "sin": ["cos(x0) * t"],
    "cos": ["-sin(x0) * t"],
    "tan": ["(1 + y * y) * t"],
    "tanh": ["(1 - y * y) * t"],
    "sinh": ["cosh(x0) * t"],
    "cosh": ["sinh(x0) * t"],
    "sigmoid": ["y * (1 - y) * t"],
    "sqrt": ["1/2 * recip(y) * t"],
    "recip": ["-(y * y) * t"],
    "where_ge": ["0", "0", "where_ge(x0, x1, t)"],
    "where_gt": ["0", "0", "where_gt(x0, x1, t)"],
    "sign": ["0"],
    "relu": ["where_gt(x0, 0, t)"],
    "abs": ["sign(x0) * t"],
    "max": ["where_ge(x0, x1, t)", "where_gt(x1, x0, t)"],
    "min": ["where_ge(x1, x0, t)", "where_gt(x0, x1, t)"],
    "erf": ["1.1283791670955126 * exp(-(x0 * x0)) * t"],
    "softplus": ["sigmoid(x0) * t"],
    "logaddexp": ["exp(x0 - y) * t", "exp(x1 - y) * t"],
    "log1p": ["recip(1 + x0) * t"],
    "expm1": ["(y + 1) * t"],
    "log2": ["1.4426950408889634 * recip(x0) * t"],
    "log10": ["0.43429448190325176 * recip(x0) * t"],
    "asin": ["recip(sqrt(1 - x0 * x0)) * t"],
    "acos": ["-recip(sqrt(1 - x0 * x0)) * t"],
    "atan": ["recip(1 + x0 * x0) * t"],
    "asinh": ["recip(sqrt(1 + x0 * x0)) * t"],
    "acosh": ["recip(sqrt(x0 * x0 - 1)) * t"],
    "atanh": ["recip(1 - x0 * x0) * t"],
    "cbrt": ["1/3 * recip(y * y) * t"],
    "rsqrt": ["-1/2 * (y * (y * y)) * t"],
    "erfc": ["-1.1283791670955126 * exp(-(x0 * x0)) * t"],
    "erfinv": ["0.8862269254527579 * exp(y * y) * t"],
    "lgamma": ["digamma(x0) * t"],
    "digamma": ["trigamma(x0) * t"],
    "trigamma": ["tetragamma(x0) * t"],
    "tetragamma": ["pentagamma(x0) * t"],
    "pentagamma": ["log(-1) * t"],
    "floor": ["0"],
    "ceil": ["0"],
    "round": ["0"],
    "mod": ["t", "-(floor(x0 * recip(x1)) * t)"],
    "atan2": ["x1 * recip(x0 * x0 + x1 * x1) * t", "-(x0 * recip(x0 * x0 + x1 * x1) * t)"],
    "power": ["x1 * power(x0, x1 - 1) * t", "where_gt(abs(x0), 0, y * log(x0) * t)"],
}
"""The component for each argument, over the arguments, the value y and the cotangent t. That these are the derivatives,
wherever the functions have one, is calculus; at a kink the first of equals is chosen, and the slope of sign is 0."""

_NONE = frozenset(["pentagamma"])
"""Functions whose derivative is not a function of the language: log(-1), which is not a number, stands for it."""

_POINTS = 200
_SECONDS = 2.0


@cache
def derivatives(f: str) -> tuple[Expr, ...] | None:
    """The components of the derivative of a function that is known here."""
    if f.startswith("pow "):
        exponent = Fraction(f.removeprefix("pow "))
        less = exponent - 1
        power = f"pow(x0, {less})" if less.denominator == 1 or less > 0 else f"pow(x0, -{-less})"
        return (syntax.expression(f"{_text(exponent)} * {power} * t"),)
    if f not in _DERIVATIVES:
        return None
    return tuple(map(syntax.expression, _DERIVATIVES[f]))


def _text(x: Fraction) -> str:
    return str(x) if x >= 0 else f"(0 - {-x})"


def check_functions(
    functions: Mapping[str, Function], called: frozenset[str], budget: Budget, others: frozenset[str] = frozenset()
) -> list[str]:
    """What has to be assumed of these functions, except the `others`; the program calls those in `called`. Raises
    `Refused` for a function that is declared differently from what it is."""
    bodies = [f.body for f in functions.values() if f.name in called and f.body is not None]
    without = _NONE & called.union(*map(_called, bodies))
    assumed = [f"the derivative of {f}, for which log(-1) stands" for f in sorted(without)]
    for f in functions.values():
        if f.name in others:
            continue
        if not known(f.name):
            assumed += _check_other(f, functions, budget)
            continue
        if f.body is not None:
            raise Refused(f"{f.name} has no other body than the one that it is known by")
        if f.cost != known_cost(f.name):
            raise Refused(f"{f.name} costs {known_cost(f.name)}, not {f.cost}")
        wanted = derivatives(f.name) or ()
        if len(wanted) != f.arity:
            raise Refused(f"{f.name} has {len(wanted)} arguments, not {f.arity}")
        for k, (own, component) in enumerate(zip(wanted, f.components, strict=True)):
            told = component or Num(Fraction(0))
            if own != told and not _same(own, told, f.arity, budget):
                raise Refused(f"component {k} of {f.name} is not its derivative")
    return assumed


def _same(a: Expr, b: Expr, arity: int, budget: Budget) -> bool:
    """Whether two scalar expressions are shown to be equal by the laws of commutative rings."""
    params = tuple((x, Real()) for x in (*(f"x{k}" for k in range(arity)), "y", "t"))
    sides = [Side(Program("component", params, e)) for e in (a, b)]
    try:
        return equal(sides[0], sides[1], (), budget.part(_SECONDS)) is None
    except TooLarge:
        return False


def _check_other(f: Function, functions: Mapping[str, Function], budget: Budget) -> list[str]:
    """What has to be assumed of a function that is not known here."""
    if f.body is None:
        derived = [f"the derivative of {f.name}"] if f.components else []
        return [*derived, f"that {f.name} costs {f.cost}"]
    if _names(f.body) - {f"x{k}" for k in range(f.arity)}:
        raise Refused(f"the body of {f.name} reads what is no argument")
    if any(g not in functions or not known(g) for g in _called(f.body)):
        raise Refused(f"the body of {f.name} calls what is not declared, or not known")
    least = max(1, operations(f.body, functions))
    if f.cost > least:
        raise Refused(f"{f.name} costs {f.cost}, more than its body, {least}")
    compared = _compare(f, functions, budget)
    for k, told in enumerate(f.components):
        own = Mul(derivative(f.body, f"x{k}"), Name("t"))
        if not _same(own, _with_value(told or Num(Fraction(0)), f.body), f.arity, budget):
            return [f"the derivative of {f.name}, which agrees with its body at {compared} points"]
    return []


def derivative(e: Expr, x: str) -> Expr:
    """The derivative of a scalar expression by the argument `x`."""
    match e:
        case Name(y):
            return Num(Fraction(int(x == y)))
        case Add(a, b, sign):
            return Add(derivative(a, x), derivative(b, x), sign)
        case Mul(a, b):
            return Add(Mul(derivative(a, x), b), Mul(a, derivative(b, x)), 1)
        case Call(f, arguments):
            total: Expr = Num(Fraction(0))
            for part, a in zip(derivatives(f) or (), arguments, strict=True):
                names = {f"x{k}": b for k, b in enumerate(arguments)} | {"y": e, "t": derivative(a, x)}
                total = Add(total, _with(part, names), 1)
            return total
    return Num(Fraction(0))


def _with_value(e: Expr, body: Expr) -> Expr:
    return _with(e, {"y": body})


def _with(e: Expr, names: Mapping[str, Expr]) -> Expr:
    match e:
        case Name(x):
            return names.get(x, e)
        case Add(a, b, sign):
            return Add(_with(a, names), _with(b, names), sign)
        case Mul(a, b):
            return Mul(_with(a, names), _with(b, names))
        case Call(f, arguments):
            return Call(f, tuple(_with(a, names) for a in arguments))
    return e


def _names(e: Expr) -> set[str]:
    match e:
        case Name(x):
            return {x}
        case Add(a, b, _) | Mul(a, b):
            return _names(a) | _names(b)
        case Call(_, arguments):
            return set().union(*map(_names, arguments))
        case Num():
            return set()
    raise Refused("a scalar function is made of numbers, arguments, +, -, * and functions")


def _called(e: Expr) -> set[str]:
    match e:
        case Add(a, b, _) | Mul(a, b):
            return _called(a) | _called(b)
        case Call(f, arguments):
            return {f}.union(*map(_called, arguments))
    return set()


def _compare(f: Function, functions: Mapping[str, Function], budget: Budget) -> int:
    """Compare the declared derivative with the body's at many real points. Return the number of points where both have
    values. Raises `Refused` where they differ."""
    meaning = Semantics(functions, budget)
    rng = random.Random(f.name)
    assert f.body is not None
    compared = 0
    for _ in range(_POINTS):
        xs = {f"x{k}": rng.uniform(-4, 4) * 10 ** rng.randint(-2, 1) for k in range(f.arity)}
        try:
            y = meaning.value(f.body, xs)
            for k, told in enumerate(f.components):
                own = 1.5 * meaning.value(derivative(f.body, f"x{k}"), xs)
                declared = 0.0 if told is None else meaning.value(told, {**xs, "y": y, "t": 1.5})
                if math.isfinite(own) and abs(declared - own) > 1e-6 * (1 + abs(own)):
                    raise Refused(f"component {k} of {f.name} is {declared} at {xs}, the derivative of its body {own}")
            compared += 1
        except (Undefined, OverflowError):
            continue
    return compared
