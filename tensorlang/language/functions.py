"""The registry of scalar functions: evaluation, derivative, cost, and notation of each, in one place.

The cost bound rests on one inequality for each function with k derivative components that are not 0 (RULES, (B)): the
cost of all of them plus k - 1 is at most 3 times its own cost. `register` refuses a function that breaks it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.errors import EvaluationError, LimitError, ScalarFunctionError
from tensorlang.interning import shared
from tensorlang.language.grammar import Add, Call, Const, Expr, Integer, Mul, ScalarFunction, Var, number
from tensorlang.language.scalar_code import Loops, Shared
from tensorlang.language.types import R

KEYWORDS = frozenset(
    "let in gen sum exists and or not if then else fst snd rel R where max min idx".split()  # noqa: SIM905
)
"""Names that a program can't bind."""

_MOST_BITS = 1 << 24

_functions: dict[str, ScalarFunction] = {}

Transpose = Callable[[tuple[Expr, ...], Expr, Expr], Sequence[Expr | None]]


def function(name: str) -> ScalarFunction:
    """The scalar function called `name`. Raises `ScalarFunctionError` if there is none."""
    try:
        return _functions[name]
    except KeyError:
        known = ", ".join(sorted(_functions))
        hint = "tl.scalar_function registers more"
        raise ScalarFunctionError(f"no scalar function is called {name}; there are {known}", hint=hint) from None


def functions() -> dict[str, ScalarFunction]:
    """All registered scalar functions by name."""
    return dict(_functions)


def register(
    name: str,
    *,
    arity: int = 1,
    cost: int = 1,
    transpose: Transpose,
    evaluate: Callable[..., Any],
    source: str,
    exact: Callable[..., Fraction] | None = None,
    latex: str | None = None,
) -> ScalarFunction:
    """Make a scalar function known to the language.

    `transpose(xs, y, t)` gives the cotangent of each argument as an expression of the arguments `xs`, the value
    `y` and the cotangent `t`, or None where it is zero. Raises `ScalarFunctionError` if the name is taken or not
    a name, or if the derivative costs more than the bound of 4 allows.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in KEYWORDS - {"max", "min"}:
        raise ScalarFunctionError(f"a scalar function needs a name, found {name!r}", hint="letters, digits and _")
    if name in _functions:
        hint = f"tl.call({name!r}, x) applies it; another one needs another name"
        raise ScalarFunctionError(f"a scalar function called {name} is registered already", hint=hint)
    if arity < 1 or cost < 0:
        hint = "a constant is a number; cost=1 is that of a multiplication"
        raise ScalarFunctionError(f"{name} needs at least one argument and a cost of at least 0", hint=hint)
    made = _add(
        name, arity=arity, cost=cost, transpose=transpose, evaluate=evaluate, source=source, exact=exact, latex=latex
    )
    try:
        _check_bound(made)
    except BaseException:  # a user's derivative may raise anything
        del _functions[name]
        raise
    return made


def add_black_box(
    name: str,
    *,
    arity: int,
    cost: int,
    transpose: Transpose,
    evaluate: Callable[..., Any],
    source: str,
    shared: tuple[Shared, int],
    loops: Loops,
) -> ScalarFunction:
    """Register a function whose code is `shared` with others; since its cost depends on the path, none is checked."""
    made = _add(name, arity=arity, cost=cost, transpose=transpose, evaluate=evaluate, source=source)
    _functions[name] = made = replace(made, shared=shared, loops=loops)
    return made


@shared
def running_where(f: ScalarFunction) -> ScalarFunction:
    """`f`, which has data-dependent loops, with a further argument: where these loops run.

    Where it is false they make no trip, and the value must not be read.
    """
    assert f.shared is not None and f.loops is not None
    of, place = f.shared
    n = of.arity

    def evaluate(*xs: Any) -> Any:
        *given, where = np.broadcast_arrays(*xs[:n], *xs[n + 1 :], xs[n])
        on, made = where != 0, np.zeros(where.shape)
        made[on] = f.evaluate(*(x[on] for x in given))
        return made

    code, loops = replace(of, arity=n + 1), replace(f.loops, bounded=True)
    return replace(f, arity=f.arity + 1, evaluate=evaluate, shared=(code, place), loops=loops)


def forget(name: str) -> None:
    """Remove the function that was last registered under `name`."""
    del _functions[name]


def give_body(name: str, body: Expr | None) -> None:
    """Give the function `name` a body: an expression of x0, x1, .."""
    _functions[name] = replace(_functions[name], body=body)


def _add(
    name: str,
    *,
    arity: int = 1,
    cost: int = 1,
    transpose: Transpose,
    evaluate: Callable[..., Any],
    source: str,
    exact: Callable[..., Fraction] | None = None,
    latex: str | None = None,
) -> ScalarFunction:
    latex = latex or r"\mathrm{{" + name.replace("_", r"\_") + "}}"
    made = _functions[name] = _make(name, arity, cost, transpose, evaluate, exact, source, latex, None)
    return made


def _make(
    name: str,
    arity: int,
    cost: int,
    transpose: Transpose,
    evaluate: Callable[..., Any],
    exact: Callable[..., Fraction] | None,
    source: str,
    latex: str,
    exponent: Fraction | None,
) -> ScalarFunction:
    if "{0}" not in latex:
        latex = latex + r"\left(" + ", ".join(f"{{{k}}}" for k in range(arity)) + r"\right)"
    return ScalarFunction(
        name, arity, cost, lambda xs, y, t: tuple(transpose(xs, y, t)), evaluate, exact, source, latex, exponent
    )


def _check_bound(f: ScalarFunction) -> None:
    name, cost = f.name, f.cost
    spent = derivative_cost(f)
    if spent > 3 * cost:
        raise ScalarFunctionError(
            f"{name} costs {cost}, so its derivative may cost at most {3 * cost} for the bound of 4 to hold; "
            f"its derivative, with the additions of its parts, costs {spent}"
        )


def derivative_cost(f: ScalarFunction) -> int:
    """The cost of all components of the derivative of `f`, and of adding up those that are not 0.

    Raises `ScalarFunctionError` unless there is one for each argument.
    """
    components = f.transpose(tuple(Var(f"x{k}", R) for k in range(f.arity)), Var("y", R), Var("t", R))
    if len(components) != f.arity:
        many = len(components)
        raise ScalarFunctionError(f"{f.name} has {f.arity} arguments, but its derivative has {many} components")
    there = [e for e in components if e is not None]
    return sum(map(operations, there)) + max(0, len(there) - 1)


def operations(e: Expr) -> int:
    """The cost of a scalar expression without binders and brackets (4.22 to 4.26)."""
    match e:
        case Var() | Const() | Integer():
            return 0
        case Add(a, b, _) | Mul(a, b):
            return 1 + operations(a) + operations(b)
        case Call(f, arguments):
            return f.cost + sum(map(operations, arguments))
        case _:
            raise ScalarFunctionError("a derivative is made of numbers, arguments, +, -, * and scalar functions")


def power(exponent: int | Fraction) -> ScalarFunction:
    """x ^ exponent for a constant exponent.

    A natural exponent costs its multiplications by repeated squaring, any other 1.
    """
    return _power(Fraction(exponent))


@shared
def _power(exponent: Fraction) -> ScalarFunction:
    if exponent.denominator == 1 and exponent >= 2:
        n = int(exponent)
        cost = n.bit_length() + n.bit_count() - 2
        exact: Callable[..., Fraction] | None = lambda x: _exact_power(x, n)
        source = "{0} ** " + str(n)
    elif exponent in (0, 1) or (exponent.denominator == 1 and exponent < 0):
        raise ScalarFunctionError(f"the exponent {exponent} is written without pow: 1, x or recip(x ^ n)")
    else:
        cost, exact = 1, None
        source = "{0} ** " + repr(float(exponent))
    value = int(exponent) if exponent.denominator == 1 else float(exponent)

    def transpose(xs: tuple[Expr, ...], y: Expr, t: Expr) -> Sequence[Expr | None]:
        lower = raise_to(xs[0], exponent - 1)
        return [Mul(Mul(number(exponent), lower), t)]

    latex = "{0}^{{" + str(exponent) + "}}"
    # the bound holds: the power n - 1 costs k - 1 more if n has k trailing zeros in binary, and k is at most n's cost
    return _make("pow", 1, cost, transpose, lambda x: x**value, exact, source, latex, exponent)


def _exact_power(x: Fraction, n: int) -> Fraction:
    """x^n, also for numbers of other exact rings."""
    bits = n * max(abs(x.numerator).bit_length(), x.denominator.bit_length()) if isinstance(x, Fraction | int) else 0
    if bits > _MOST_BITS and abs(x.numerator) > 1:
        raise LimitError(f"an exact number has at most {_MOST_BITS:,} bits, found a power of some {bits:,}")
    return x**n


def raise_to(e: Expr, exponent: int | Fraction) -> Expr:
    """e ^ exponent, for any constant exponent; a negative integer gives recip(e ^ n)."""
    exponent = Fraction(exponent)
    if exponent == 0:
        return number(1)
    if exponent == 1:
        return e
    if exponent.denominator == 1 and exponent < 0:
        return Call(function("recip"), (raise_to(e, -exponent),))
    return Call(power(exponent), (e,))


def call(name: str, *arguments: Expr) -> Expr:
    """name(arguments)."""
    return Call(function(name), arguments)


def _register_elementary() -> None:
    def minus(e: Expr) -> Expr:
        return Mul(number(-1), e)

    one, half = number(1), number(Fraction(1, 2))

    def ratio(x: Fraction) -> Fraction:
        if x == 0:
            raise EvaluationError("recip(0) does not exist")
        return 1 / x

    def erf(x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[float])(x)

    def sigmoid(x: Any) -> Any:
        return np.exp(-np.logaddexp(0, -x))

    def ge(a: Fraction, b: Fraction, t: Fraction) -> Fraction:
        return t if a >= b else Fraction(0)

    def gt(a: Fraction, b: Fraction, t: Fraction) -> Fraction:
        return t if a > b else Fraction(0)

    def sign(x: Fraction) -> Fraction:
        return Fraction((x > 0) - (x < 0))

    f = _add
    f("exp", evaluate=np.exp, source="jnp.exp({0})", latex=r"\exp", transpose=lambda xs, y, t: [Mul(y, t)])
    f("log", evaluate=np.log, source="jnp.log({0})", latex=r"\log",
      transpose=lambda xs, y, t: [Mul(call("recip", xs[0]), t)])  # fmt: skip
    f("sin", evaluate=np.sin, source="jnp.sin({0})", latex=r"\sin",
      transpose=lambda xs, y, t: [Mul(call("cos", xs[0]), t)])  # fmt: skip
    f("cos", evaluate=np.cos, source="jnp.cos({0})", latex=r"\cos",
      transpose=lambda xs, y, t: [Mul(minus(call("sin", xs[0])), t)])  # fmt: skip
    f("tan", evaluate=np.tan, source="jnp.tan({0})", latex=r"\tan",
      transpose=lambda xs, y, t: [Mul(Add(one, Mul(y, y), 1), t)])  # fmt: skip
    f("tanh", evaluate=np.tanh, source="jnp.tanh({0})", latex=r"\tanh",
      transpose=lambda xs, y, t: [Mul(Add(one, Mul(y, y), -1), t)])  # fmt: skip
    f("sinh", evaluate=np.sinh, source="jnp.sinh({0})", latex=r"\sinh",
      transpose=lambda xs, y, t: [Mul(call("cosh", xs[0]), t)])  # fmt: skip
    f("cosh", evaluate=np.cosh, source="jnp.cosh({0})", latex=r"\cosh",
      transpose=lambda xs, y, t: [Mul(call("sinh", xs[0]), t)])  # fmt: skip
    f("sigmoid", evaluate=sigmoid, source="jax.nn.sigmoid({0})", latex=r"\sigma",
      transpose=lambda xs, y, t: [Mul(Mul(y, Add(one, y, -1)), t)])  # fmt: skip
    f("sqrt", evaluate=np.sqrt, source="jnp.sqrt({0})", latex=r"\sqrt{{{0}}}",
      transpose=lambda xs, y, t: [Mul(Mul(half, call("recip", y)), t)])  # fmt: skip
    f("recip", evaluate=lambda x: 1 / x, exact=ratio, source="1 / {0}", latex=r"\frac{{1}}{{{0}}}",
      transpose=lambda xs, y, t: [Mul(minus(Mul(y, y)), t)])  # fmt: skip
    # where_ge(a, b, t) is t where a >= b, else 0; where_gt likewise: they carry the derivatives at kinks
    f("where_ge", arity=3, evaluate=lambda a, b, t: np.where(a >= b, t, 0), exact=ge,
      source="jnp.where({0} >= {1}, {2}, 0)", latex=r"[{0} \ge {1}] \cdot {2}",
      transpose=lambda xs, y, t: [None, None, call("where_ge", xs[0], xs[1], t)])  # fmt: skip
    f("where_gt", arity=3, evaluate=lambda a, b, t: np.where(a > b, t, 0), exact=gt,
      source="jnp.where({0} > {1}, {2}, 0)", latex=r"[{0} > {1}] \cdot {2}",
      transpose=lambda xs, y, t: [None, None, call("where_gt", xs[0], xs[1], t)])  # fmt: skip
    f("sign", evaluate=np.sign, exact=sign, source="jnp.sign({0})", latex=r"\mathrm{{sign}}",
      transpose=lambda xs, y, t: [None])  # fmt: skip
    f("relu", evaluate=lambda x: np.maximum(x, 0), exact=lambda x: max(x, Fraction(0)), source="jax.nn.relu({0})",
      transpose=lambda xs, y, t: [call("where_gt", xs[0], number(0), t)])  # fmt: skip
    f("abs", evaluate=np.abs, exact=abs, source="jnp.abs({0})", latex=r"\left|{0}\right|",
      transpose=lambda xs, y, t: [Mul(call("sign", xs[0]), t)])  # fmt: skip
    # if both are equal, the first argument is chosen
    f("max", arity=2, evaluate=np.maximum, exact=max, source="jnp.maximum({0}, {1})", latex=r"\max",
      transpose=lambda xs, y, t: [call("where_ge", xs[0], xs[1], t), call("where_gt", xs[1], xs[0], t)])  # fmt: skip
    f("min", arity=2, evaluate=np.minimum, exact=min, source="jnp.minimum({0}, {1})", latex=r"\min",
      transpose=lambda xs, y, t: [call("where_ge", xs[1], xs[0], t), call("where_gt", xs[0], xs[1], t)])  # fmt: skip
    # the least cost that its derivative allows: an exponential and a rational function
    f("erf", cost=2, evaluate=erf, source="jax.scipy.special.erf({0})",
      transpose=lambda xs, y, t: [Mul(Mul(number(Fraction("1.1283791670955126")),
                                         call("exp", minus(Mul(xs[0], xs[0])))), t)])  # fmt: skip
    f("softplus", evaluate=lambda x: np.logaddexp(0, x), source="jax.nn.softplus({0})",
      transpose=lambda xs, y, t: [Mul(call("sigmoid", xs[0]), t)])  # fmt: skip
    # max(a, b) + log1p(exp(-abs(a - b)))
    f("logaddexp", arity=2, cost=7, evaluate=np.logaddexp, source="jnp.logaddexp({0}, {1})",
      transpose=lambda xs, y, t: [Mul(call("exp", Add(x, y, -1)), t) for x in xs])  # fmt: skip


_register_elementary()
for _function in _functions.values():  # after all are registered, since their derivatives use one another
    _check_bound(_function)
