"""The table of scalar functions, from their registry: value, cost, derivative, and the derivative's cost."""

from __future__ import annotations

from fractions import Fraction

from docs.catalogue.markdown import table
from tensorlang.jaxprs.scalars import NAMES, ensure
from tensorlang.language.functions import functions, operations, power
from tensorlang.language.grammar import Call, ScalarFunction, Var
from tensorlang.language.latex import expr_latex
from tensorlang.language.show import expr_text
from tensorlang.language.special import BUILT_IN
from tensorlang.language.types import R

PYTHON = {"max": "maximum", "min": "minimum"}
"""Names in Python where they differ: `tl.max` and `tl.min` are reductions."""


def page() -> str:
    """The table, and one of some powers."""
    head = ("Function", "Notation", "Cost", "Derivative", "Its cost")
    ensure()
    own = [f for f in functions().values() if f.name in BUILT_IN - NAMES]
    further = [f for f in functions().values() if f.name in NAMES]
    powers = [power(2), power(3), power(10), power(Fraction(1, 2)), power(Fraction(-3, 2))]
    return "\n".join(
        [
            table(("In text", "In Python", *head[1:]), [_row(f) for f in own]),
            "Constant powers are functions as well, `x ^ k` or `pow(x, c)` in text and `x**c` in Python:\n",
            table(("In text", *head[1:]), [(row[0], *row[2:]) for row in map(_row, powers)]),
            "Programs from JAX functions have further ones, which the language knows once such a program has been "
            "made; in Python they are applied by `tl.call`. `frozen` is a value without a derivative, `even_max` and "
            "`even_min` share the cotangent among equals, and the derivative of `right_abs` at 0 is 1:\n",
            table(("In text", *head[1:]), [(row[0], *row[2:]) for row in map(_row, further)]),
        ]
    )


def _row(f: ScalarFunction) -> tuple[str, ...]:
    names = ("x",) if f.arity == 1 else ("a", "b", "c")[: f.arity]
    arguments = tuple(Var(name, R) for name in names)
    components = f.transpose(arguments, Var("y", R), Var("t", R))
    value = Call(f, arguments)
    parts = [f"`{expr_text(e)}`" if e is not None else "0" for e in components]
    spent = sum(operations(e) for e in components if e is not None)
    python = f"`tl.fn.{PYTHON.get(f.name, f.name)}`"
    return (f"`{expr_text(value)}`", python, f"${expr_latex(value)}$", str(f.cost), ", ".join(parts), str(spent))
