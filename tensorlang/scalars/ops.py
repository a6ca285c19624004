"""The operations of functions of numbers: their values, types, costs, and derivatives as operations.

    + - * / neg, and every scalar function of the language     on numbers, at the cost that they have there
    < <= > >= == !=, and or not, select                        1 for a comparison of numbers, 0 for the others
    // % trunc                                                 of integers, or to them

Operations on integers and truth values alone cost nothing, like index arithmetic in Figure 6. `acc` and `less` add to a
cotangent, and subtract from it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from tensorlang.language.functions import function, power, raise_to
from tensorlang.language.grammar import Add, Call, Const, Expr, Mul, ScalarFunction, Var
from tensorlang.language.types import R
from tensorlang.memory import cached
from tensorlang.scalars.code import ABSENT, Back, Code, If, Op, Stmt, Value, While

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
LOGIC = ("and", "or", "not")
WHOLE = ("//", "%", "trunc")
_COSTS = {"+": 1, "-": 1, "*": 1, "neg": 1, "/": 2, "acc": 1, "less": 1}


def _divided(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return a / b if b != 0 else float(np.float64(a) / np.float64(b))


_VALUES: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "neg": operator.neg,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
    "select": lambda p, a, b: a if p else b,
    "copy": lambda a: a,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "trunc": lambda a: int(a) if math.isfinite(a) else 0,
}


_WHOLE: dict[str, Callable[..., Any]] = {"max": max, "min": min, "abs": abs}


def value(f: str, args: list[Any]) -> Any:
    """f(args) on Python's numbers; nan where it does not exist."""
    if f in _VALUES:
        return _VALUES[f](*args)
    known: ScalarFunction = _scalar(f, args[1] if f == "pow" else None)
    args = args[:1] if f == "pow" else args
    if f in _WHOLE and all(isinstance(a, int) for a in args):
        return _WHOLE[f](*args)
    with np.errstate(all="ignore"):
        try:
            return float(known.evaluate(*map(np.float64, args)))
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan


@cached
def _scalar(f: str, exponent: Value | None = None) -> ScalarFunction:
    if f != "pow":
        return function(f)
    assert exponent is not None and not isinstance(exponent, str)
    return power(Fraction(repr(exponent)) if isinstance(exponent, float) else exponent)


def called(op: Op) -> ScalarFunction | None:
    """The function of the language that an operation applies; None for operators and choices."""
    if op.f in _VALUES or op.f in _COSTS:
        return None
    return _scalar(op.f, op.args[1] if op.f == "pow" else None)


def cost(f: str, args: Iterable[Any]) -> int:
    """The cost of f on these numbers, or on operands of these types."""
    args = list(args)
    if f in ("copy", "select", *LOGIC, *WHOLE) or not any(isinstance(a, float) for a in args):
        return 0
    if f in COMPARISONS:
        return 1
    return _COSTS[f] if f in _COSTS else _scalar(f, args[1] if f == "pow" else None).cost


def is_number(f: str) -> bool:
    """Whether f has a derivative: its value is a number that depends on its arguments other than by steps."""
    return f not in COMPARISONS and f not in LOGIC and f not in WHOLE


def types(code: Code) -> dict[str, type]:
    """The type of each name: float, int or bool."""
    found: dict[str, type] = {p: int if p in code.whole else float for p in code.params}
    found[ABSENT] = float

    def of(v: Value) -> type | None:
        return found.get(v) if isinstance(v, str) else type(v)

    def put(name: str, kind: type | None) -> bool:
        kind = _join(found.get(name), kind)
        changed = kind is not None and found.get(name) is not kind
        if changed and kind is not None:
            found[name] = kind
        return changed

    def block(statements: Iterable[Stmt]) -> bool:
        changed = False
        for s in statements:
            match s:
                case Op(out, f, args):
                    changed |= put(out, _kind(f, [of(a) for a in args]))
                case If():
                    changed |= block(s.then) | block(s.otherwise)
                    for out, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
                        changed |= put(out, _join(of(a), of(b)))
                case While():
                    for out, c, i, n in zip(s.outs, s.carried, s.inits, s.nexts, strict=True):
                        kind = _join(of(i), of(n))
                        changed |= put(c, kind) | put(out, kind)
                    changed |= block(s.head) | block(s.body)
                    for stack, save in zip(s.stacks, s.saves, strict=True):
                        changed |= put(stack, of(save))
                    changed |= (put(s.trips, int) if s.trips else False) | (put(s.over, bool) if s.over else False)
                case Back():
                    for out, c in zip(s.outs, s.carried, strict=True):
                        changed |= put(c, float) | put(out, float)
                    for name, stack in zip(s.popped, s.stacks, strict=True):
                        changed |= put(name, of(stack))
                    changed |= block(s.body)
        return changed

    while block(code.body):
        pass
    return found


def _join(*kinds: type | None) -> type | None:
    known = [k for k in kinds if k is not None]
    return None if not known else float if float in known else int if int in known else bool


def kind_of(f: str, kinds: Iterable[type]) -> type:
    """The type of f's value for operands of these types."""
    return _kind(f, list(kinds)) or float


def _kind(f: str, kinds: list[type | None]) -> type | None:
    if f in COMPARISONS or f in LOGIC:
        return bool
    if f == "select":
        return _join(*kinds[1:])
    if f in ("//", "%", "trunc"):
        return int
    if f in ("+", "-", "*", "neg", "copy", "abs", "max", "min", "pow"):
        kind = _join(*kinds)
        return int if kind is bool else kind
    return float


Emit = Callable[[str, tuple[Value, ...]], Value]
Part = tuple[int, Callable[[Value], Value], int]
"""The number of an argument, a function that multiplies a tangent or cotangent by the partial derivative, its sign."""


def partials(op: Op, emit: Emit) -> list[Part]:
    """The partial derivatives of an operation; `emit` makes an operation and returns its name."""
    a, y = op.args, op.out
    same: Callable[[Value], Value] = lambda t: t
    match op.f:
        case "+":
            return [(0, same, 1), (1, same, 1)]
        case "-":
            return [(0, same, 1), (1, same, -1)]
        case "neg":
            return [(0, same, -1)]
        case "copy":
            return [(0, same, 1)]
        case "*":
            return [(0, lambda t: times(emit, t, a[1]), 1), (1, lambda t: times(emit, t, a[0]), 1)]
        case "/":
            made: dict[Value, Value] = {}

            def over(t: Value) -> Value:
                if t not in made:
                    made[t] = emit("/", (t, a[1]))
                return made[t]

            return [(0, over, 1), (1, lambda t: times(emit, over(t), y), -1)]
        case "select":
            return [
                (1, lambda t: emit("select", (a[0], t, ABSENT)), 1),
                (2, lambda t: emit("select", (a[0], ABSENT, t)), 1),
            ]
    if not is_number(op.f):
        return []
    f = _scalar(op.f, a[1] if op.f == "pow" else None)
    xs = tuple(Var(f"x{k}", R) for k in range(f.arity))
    known: dict[Expr, Value] = {x: v for x, v in zip(xs, a, strict=False)}
    result, seed = Var("y", R), Var("t", R)
    known[result] = y
    parts: list[Part] = []
    for k, e in enumerate(f.transpose(xs, result, seed)):
        if e is not None:
            parts.append((k, partial(_applied, e, known, seed, emit), 1))
    return parts


def _applied(e: Expr, known: dict[Expr, Value], seed: Expr, emit: Emit, t: Value) -> Value:
    return written(e, {**known, seed: t}, emit)


def times(emit: Emit, a: Value, b: Value) -> Value:
    """a * b; a factor of 1 is left out."""
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, str) and one == 1:
            return other
    return emit("*", (a, b))


def written(e: Expr, known: dict[Expr, Value], emit: Emit) -> Value:
    """A scalar expression as operations on `known` values."""
    if e in known:
        return known[e]
    match e:
        case Const(v):
            return float(v)
        case Add(a, b, sign):
            return emit("+" if sign > 0 else "-", (written(a, known, emit), written(b, known, emit)))
        case Mul(a, b):
            return times(emit, written(a, known, emit), written(b, known, emit))
        case Call(f, args):
            values = tuple(written(x, known, emit) for x in args)
            if f.exponent is not None:
                return emit("pow", (*values, float(f.exponent) if f.exponent.denominator > 1 else int(f.exponent)))
            return emit(f.name, values)
    raise AssertionError(f"no scalar expression: {e}")


def as_power(x: Value, exponent: int | float, emit: Emit) -> Value:
    """x ** exponent."""
    base = Var("x0", R)
    e = raise_to(base, Fraction(repr(exponent)) if isinstance(exponent, float) else exponent)
    return written(e, {base: x}, emit)
