"""Scalar expressions from the values of their parts: what lowering to whole arrays and to tiles has in common."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tensorlang.errors import NormalFormError
from tensorlang.language.functions import function, running_where
from tensorlang.language.grammar import Add, Call, Const, Expr, Mul, children
from tensorlang.lowering.arrays.values import Axes, Value, applied, literal, plus, times, union
from tensorlang.lowering.plan.dependence import variable
from tensorlang.recursion import Deep, call

_SMOOTH = frozenset(
    {"abs", "cos", "erf", "logaddexp", "max", "min", "relu", "sigmoid", "sign", "sin", "softplus", "tanh"}
    | {"where_ge", "where_gt"}
)
"""Functions that have finite values and derivatives at all finite arguments, however large."""

_RECIP = function("recip")


def combined(
    e: Expr,
    value: Callable[[Expr], Deep[Value]],
    order: Axes,
    shared: Collection[Expr] = (),
    guarded: Callable[[Value], Value] = lambda v: v,
    shown: Callable[[Axes], Value | None] = lambda axes: None,
) -> Deep[Value]:
    """The value of a number, sum, product or call, given the `value` of its parts. In a product, division takes the
    place of a factor 1/c, unless that is `shared`.

    Arguments at which a function may not be finite are `guarded`. Loops that data end run where elements over axes are
    `shown`, which is everywhere if that is None. Raises `NormalFormError` for other expressions.
    """
    match e:
        case Const(number):
            return literal(number)
        case Add(a, b, sign):
            left = yield from call(value(a))
            right = yield from call(value(b))
            return plus(left, right, sign, order)
        case Mul(a, b):
            for numerator, divisor in ((a, b), (b, a)):
                if isinstance(divisor, Call) and divisor.function is _RECIP and divisor not in shared:
                    top = yield from call(value(numerator))
                    below = yield from call(value(divisor.arguments[0]))
                    if not below.weak:
                        return times(top, guarded(below), order, "/")
            left = yield from call(value(a))
            right = yield from call(value(b))
            return times(left, right, order)
        case Call(f, arguments):
            values = []
            for argument in arguments:
                v: Value = yield from call(value(argument))
                values.append(guarded(v) if _is_partial(e) else v)
            if f.shared is not None:
                n = f.shared[0].arity
                on = shown(union(values[:n], order))
                if on is not None:
                    return applied(running_where(f), [*values[:n], on, *values[n:]], order)
            return applied(f, values, order)
    raise NormalFormError("code is made of scalar expressions; found a gen, let or pair inside of one")


def _is_partial(e: Call) -> bool:
    f = e.function
    return f.name not in _SMOOTH and not (f.exponent is not None and f.exponent.denominator == 1)


def used_twice(*expressions: Expr, reads: bool = False) -> frozenset[Expr]:
    """The expressions with operations, and `reads` if those count, that occur more than once in `expressions`."""
    seen: set[Expr] = set()
    twice: set[Expr] = set()
    stack = list(expressions)
    while stack:
        part = stack.pop()
        is_read = variable(part) is not None
        if isinstance(part, Const) or (is_read and not reads):
            continue
        if part in seen:
            twice.add(part)
        else:
            seen.add(part)
            stack += () if is_read else children(part)
    return frozenset(twice)
