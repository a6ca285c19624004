"""The scalar functions as Python functions on terms, and the registration of a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

from tensorlang.errors import ScalarFunctionError, here
from tensorlang.language import functions
from tensorlang.language.grammar import Const, Expr, Mul
from tensorlang.surface import declared
from tensorlang.surface.scope import built
from tensorlang.surface.terms import Term, apply, as_term


class ScalarCall(Protocol):
    """A scalar function on terms and numbers."""

    __name__: str

    def __call__(self, *arguments: object) -> Term:
        """The term f(arguments)."""


def call(name: str, *arguments: object) -> Term:
    """name(arguments) for any registered scalar function. Raises `ScalarFunctionError` for another name.

    >>> print(tl.function(lambda x: tl.call("sin", x), x=tl.R).body)
    sin(x)
    """
    return apply(name, *arguments)


def _named(name: str, python_name: str | None = None) -> ScalarCall:
    def on_terms(*arguments: object) -> Term:
        return apply(name, *arguments)

    shown = python_name or name
    known = functions.functions()[name]
    names = [f"x{k}" for k in range(known.arity)] if known.arity > 1 else ["x"]
    positional = inspect.Parameter.POSITIONAL_ONLY
    on_terms.__name__ = on_terms.__qualname__ = shown
    on_terms.__signature__ = inspect.Signature([inspect.Parameter(x, positional) for x in names])  # type: ignore[attr-defined]
    on_terms.__doc__ = _DOCUMENTED.format(
        name=name,
        shown=shown,
        arguments=", ".join(names),
        given=", ".join(f"{x}=tl.R" for x in names),
        params=", ".join(f"{x}: R" for x in names),
        cost=known.cost,
        source=known.source.format(*names),
    )
    return on_terms


_DOCUMENTED = """{shown}({arguments}), of numbers of a program. It costs {cost}, and runs as {source}.

Raises `TypeMismatch` for arrays, of which each element is given alone.

>>> import tensorlang as tl
>>> print(tl.function(lambda {arguments}: tl.fn.{shown}({arguments}), {given}))
f({params}) = {name}({arguments})
"""


exp = _named("exp")
log = _named("log")
sin = _named("sin")
cos = _named("cos")
tan = _named("tan")
tanh = _named("tanh")
sinh = _named("sinh")
cosh = _named("cosh")
sigmoid = _named("sigmoid")
sqrt = _named("sqrt")
recip = _named("recip")
where_ge = _named("where_ge")
where_gt = _named("where_gt")
sign = _named("sign")
relu = _named("relu")
abs = _named("abs")
maximum = _named("max", "maximum")
minimum = _named("min", "minimum")
erf = _named("erf")
softplus = _named("softplus")
logaddexp = _named("logaddexp")
log1p = _named("log1p")
expm1 = _named("expm1")
log2 = _named("log2")
log10 = _named("log10")
asin = _named("asin")
acos = _named("acos")
atan = _named("atan")
asinh = _named("asinh")
acosh = _named("acosh")
atanh = _named("atanh")
cbrt = _named("cbrt")
rsqrt = _named("rsqrt")
erfc = _named("erfc")
erfinv = _named("erfinv")
floor = _named("floor")
ceil = _named("ceil")
round = _named("round")
mod = _named("mod")
atan2 = _named("atan2")
power = _named("power")
lgamma = _named("lgamma")
digamma = _named("digamma")


def scalar_function(
    name: str,
    *,
    arity: int = 1,
    derivative: Callable[..., Any],
    evaluate: Callable[..., Any],
    source: str,
    cost: int = 1,
    latex: str | None = None,
    exact: Callable[..., Fraction] | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    trusted: bool = False,
) -> ScalarCall:
    """Register a scalar function of your own, and get it as a function on terms.

    `derivative(x0, .., y)` gets the arguments and the value y = f(x0, ..) and gives the partial derivative, for
    several arguments a tuple of them: terms, numbers, or None for zero. `evaluate` works elementwise on float
    arrays, `exact` on fractions; `source` is its JAX code and `latex` its notation, with {0}, {1}, .. for the
    arguments. All three are compared at points of `domain`, an interval for each argument. A cost above the number of
    operations of the source is for those who have counted: say `trusted=True` then. In a certificate the function
    stands with its body, if the language has all operations of its source; else its derivative is an assumption.

    Raises `ScalarFunctionError` if the name is taken, if the derivative doesn't have one component for each argument,
    or costs more than the bound of 4 allows for a function that costs `cost`, if evaluate, source and derivative differ
    at a point, or if `cost` is more than the source has operations.

    >>> cube = tl.scalar_function(
    ...     "example_cube",
    ...     cost=2,
    ...     derivative=lambda x, y: 3 * x**2,
    ...     evaluate=lambda x: x**3,
    ...     source="({0} * {0} * {0})",
    ... )
    >>> tl.grad(tl.parse("f(x: R) = example_cube(x)"))(2.0)
    Array(12., dtype=float32)
    """
    for what, template in (("source", source), ("latex", latex or "")):
        try:
            template.format(*[""] * arity)
        except (IndexError, KeyError, ValueError, AttributeError):
            raise ScalarFunctionError(
                f"the {what} of {name} is a template for {arity} argument{'s' * (arity != 1)}, found {template!r}",
                here(),
                "write {0}, {1}, .. for the arguments, and {{ }} for braces",
            ) from None

    try:
        inspect.signature(derivative).bind(*range(arity + 1))
    except TypeError:
        names = ", ".join(["x"] if arity == 1 else [f"x{k}" for k in range(arity)])
        raise ScalarFunctionError(
            f"the derivative of {name} takes its {arity + 1} values: the argument{'s' * (arity != 1)} and the result",
            here(),
            f"derivative=lambda {names}, y: ..",
        ) from None
    except ValueError:  # a builtin, whose parameters Python does not know
        pass

    def transpose(xs: tuple[Expr, ...], y: Expr, t: Expr) -> Sequence[Expr | None]:
        parts = derivative(*map(Term, xs), Term(y))
        if not isinstance(parts, tuple | list):
            parts = (parts,)
        return [_times(part, t) for part in parts]

    def register() -> None:
        made = functions.register(
            name,
            arity=arity,
            cost=cost,
            transpose=transpose,
            evaluate=evaluate,
            source=source,
            exact=exact,
            latex=latex,
        )
        try:
            declared.check(made, domain)
            body, operations = declared.traced(source, arity)
            if cost > max(1, operations) and not trusted:
                raise ScalarFunctionError(
                    f"{name} is said to cost {cost}, and its source has {operations} operations",
                    hint="declare what it costs, or say trusted=True",
                )
        except ScalarFunctionError:
            functions.forget(name)
            raise
        functions.give_body(name, body if cost <= max(1, operations) else None)

    built(register)
    return _named(name)


def _times(part: object, t: Expr) -> Expr | None:
    """part * t, the cotangent of an argument whose partial derivative is `part`."""
    if part is None:
        return None
    e = as_term(part).expr
    if isinstance(e, Const) and e.value in (0, 1):
        return t if e.value else None
    return Mul(e, t)
