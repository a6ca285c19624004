"""A user's scalar function compared with its declaration: its body, read from its source, and its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.errors import EvaluationError, ScalarFunctionError
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.functions import call, raise_to
from tensorlang.language.grammar import Add, Expr, Mul, ScalarFunction, Var, number
from tensorlang.language.types import R

_POINTS = 64
_STEP = 1e-5
_TOLERANCE = 1e-3

_CALLS = {"logistic": "sigmoid", "erf_inv": "erfinv"}
for _names in (
    "exp log sin cos tan tanh sinh cosh sqrt erf abs sign max min log1p expm1 asin acos atan asinh acosh atanh atan2",
    "cbrt rsqrt erfc floor ceil lgamma digamma",
):
    _CALLS |= {f: f for f in _names.split()}
"""JAX's operations that are functions of the language, by name."""
_SAME = {"convert_element_type", "copy", "stop_gradient", "broadcast_in_dim", "reshape", "squeeze"}
_NESTED = {"pjit", "jit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"}


class _Unread(Exception):
    """An operation that the language does not have."""


def traced(source: str, arity: int) -> tuple[Expr | None, int]:
    """The body of a scalar function as an expression of x0, x1, .., or None if the language lacks some of its
    operations; and the number of operations."""
    import jax

    made = jax.make_jaxpr(executable(source, arity))(*[np.float32(0.5)] * arity)
    try:
        values = _run(made.jaxpr, made.consts, [Var(f"x{k}", R) for k in range(arity)])
        body = values[0] if len(values) == 1 else None
    except _Unread:
        body = None
    return body, _operations(made.jaxpr)


def executable(source: str, arity: int) -> Callable[..., Any]:
    """The JAX function for a template."""
    import jax
    import jax.numpy as jnp

    names = [f"x{k}" for k in range(arity)]
    text = source.format(*(f"({x})" for x in names))
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", {"jax": jax, "jnp": jnp})
    return made


def _operations(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = _inner(equation)
        name = equation.primitive.name
        if inner is not None:
            total += _operations(inner)
        elif name == "integer_pow":
            n = abs(equation.params["y"])
            total += max(1, n.bit_length() + n.bit_count() - 2) + (equation.params["y"] < 0)
        else:
            total += name not in _SAME
    return total


def _inner(equation: Any) -> Any:
    for key in ("jaxpr", "call_jaxpr"):
        inner = equation.params.get(key)
        if inner is not None and equation.primitive.name in _NESTED:
            return getattr(inner, "jaxpr", inner)
    return None


def _run(jaxpr: Any, consts: Any, arguments: list[Expr]) -> list[Expr]:
    known: dict[Any, Expr] = dict(zip(jaxpr.invars, arguments, strict=True))
    known |= {var: _constant(value) for var, value in zip(jaxpr.constvars, consts, strict=False)}

    def read(atom: Any) -> Expr:
        return _constant(atom.val) if hasattr(atom, "val") else known[atom]

    for equation in jaxpr.eqns:
        inner, values = _inner(equation), [read(atom) for atom in equation.invars]
        if inner is not None:
            results = _run(inner, (), values)
        else:
            results = [_applied(equation.primitive.name, values, equation.params)]
        known |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _constant(value: Any) -> Expr:
    if np.ndim(value) or not np.isfinite(value):
        raise _Unread
    return number(Fraction(float(value)).limit_denominator(10**9))


def _applied(name: str, values: list[Expr], params: Mapping[str, Any]) -> Expr:
    match name, values:
        case "add" | "add_any", [a, b]:
            return Add(a, b, 1)
        case "sub", [a, b]:
            return Add(a, b, -1)
        case "mul", [a, b]:
            return Mul(a, b)
        case "div", [a, b]:
            return Mul(a, call("recip", b))
        case "neg", [a]:
            return Mul(number(-1), a)
        case "integer_pow", [a]:
            return raise_to(a, params["y"])
        case "square", [a]:
            return raise_to(a, 2)
    if name in _SAME:
        return values[0]
    if name in _CALLS:
        return call(_CALLS[name], *values)
    raise _Unread


def check(f: ScalarFunction, domain: tuple[float, float]) -> None:
    """Compare `evaluate`, `source` and the derivative of `f` at many points of a domain.

    Raises `ScalarFunctionError` if one does not give one number for each point, or they differ.
    """
    rng = np.random.default_rng(0)
    points = rng.uniform(*domain, size=(f.arity, _POINTS))
    with np.errstate(all="ignore"):
        values = _numbers(f, "evaluate", f.evaluate, points)
        sourced = _numbers(f, "source", executable(f.source, f.arity), points.astype(np.float32))
        for k in range(_POINTS):
            if np.isfinite(values[k]) and not _near(values[k], sourced[k], values[k]):
                _refuse(f, f"evaluate gives {values[k]:.6g} and source {sourced[k]:.6g}", points[:, k])
        for j in range(f.arity):
            step = _STEP * np.eye(f.arity)[j][:, None]
            above, below = (_numbers(f, "evaluate", f.evaluate, points + side * step) for side in (1, -1))
            right, left = (above - values) / _STEP, (values - below) / _STEP
            declared = _declared(f, j, points, values)
            for k in range(_POINTS):
                slope = (right[k] + left[k]) / 2
                smooth = np.isfinite(slope) and np.isfinite(declared[k]) and _near(right[k], left[k], slope)
                if smooth and not _near(declared[k], slope, slope):
                    _refuse(
                        f, f"its derivative by x{j} is {slope:.6g}, not {declared[k]:.6g} as declared", points[:, k]
                    )


def _declared(f: ScalarFunction, j: int, points: Any, values: Any) -> Any:
    params = (*(Var(f"x{k}", R) for k in range(f.arity)), Var("y", R), Var("t", R))
    component = f.transpose(params[: f.arity], params[-2], params[-1])[j]
    if component is None:
        return np.zeros(_POINTS)
    g = Function(f"{f.name}_component", params, component)
    found = []
    for k in range(_POINTS):
        try:
            found.append(float(evaluate(g, *map(float, points[:, k]), float(values[k]), 1.0)))
        except EvaluationError:
            found.append(float("nan"))
    return np.array(found)


def _numbers(f: ScalarFunction, what: str, g: Callable[..., Any], points: Any) -> Any:
    try:
        found = np.asarray(g(*points))
    except Exception as error:
        raise ScalarFunctionError(f"{what} of {f.name} can't be called on arrays: {error}") from None
    if np.shape(found) not in ((_POINTS,), ()) or np.iscomplexobj(found):
        raise ScalarFunctionError(
            f"{what} of {f.name} gives an array of shape {np.shape(found)} for {_POINTS} numbers",
            hint="a scalar function gives one number for each, elementwise",
        )
    return np.broadcast_to(found.astype(float), (_POINTS,))


def _near(a: float, b: float, scale: float) -> bool:
    return bool(abs(a - b) <= _TOLERANCE * (1 + abs(scale)))


def _refuse(f: ScalarFunction, what: str, point: Any) -> None:
    at = ", ".join(f"{x:.4g}" for x in point)
    raise ScalarFunctionError(
        f"{f.name} at ({at}): {what}", hint="evaluate, source and derivative are of one function; domain says where"
    )
