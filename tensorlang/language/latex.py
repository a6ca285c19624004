r"""Programs as LaTeX in the paper's notation, made for MathJax 3.

\boxplus is tensor generation, \sum summation, [p] \cdot e an Iverson bracket; below an operator stands the range of
its index, which begins at 0. Each outermost let has a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import inf
from string import Formatter
from typing import ClassVar

from tensorlang.language.affine import Affine
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Expr, ScalarFunction
from tensorlang.language.layout import FILL, Doc, Fence, Row, concat, lines, render, rigid
from tensorlang.language.notation import ATOM, LOOSE, POWER, PRODUCT, Notation, Template, decimal
from tensorlang.language.predicates import Predicate
from tensorlang.language.printer import Printer
from tensorlang.language.types import Type
from tensorlang.memory import cached
from tensorlang.recursion import run

_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|chi|psi"
    "|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)


WIDTH = 90
"""The width of rows in characters, where a break is possible; MathJax 3 itself breaks no lines."""


def function_latex(f: Function) -> str:
    """The definition of `f` as one `aligned` block."""
    return aligned(function_rows(f))


def expr_latex(e: Expr) -> str:
    """`e`, as an `aligned` block if it takes several rows."""
    return aligned(expr_rows(e))


def predicate_latex(p: Predicate) -> str:
    """`p` in the paper's notation, in one row."""
    return render([(0, Printer(LATEX).whole_predicate(p))], inf)


def affine_latex(a: Affine) -> str:
    """An index expression."""
    return Printer(LATEX).affine(a)


def parameter_latex(p: Parameter) -> str:
    """The name of a parameter and its declared type."""
    printer = Printer(LATEX)
    return render([(0, concat(printer.name(p), ": ", run(printer.type(p))))], inf)


def function_rows(f: Function, limit: float = inf) -> Iterator[str]:
    """The rows of the definition of `f`, of at most `limit` characters in all; a last one of dots if there are more."""
    return _rows(Printer(LATEX).function(f), limit)


def expr_rows(e: Expr, limit: float = inf) -> Iterator[str]:
    """The rows of `e`, of at most `limit` characters in all; a last one of dots if there are more."""
    return _rows(Printer(LATEX).whole(e), limit)


def type_rows(kind: Type, limit: float = inf) -> Iterator[str]:
    """`kind` in one row, or dots if it has more than `limit` characters."""
    return _rows([(0, run(Printer(LATEX).type(kind)))], limit)


def aligned(rows: Iterable[str]) -> str:
    """The rows under each other; one alone as it is."""
    rows = list(rows)
    if len(rows) == 1:
        return rows[0]
    return "\\begin{aligned}\n&" + " \\\\\n&".join(rows) + "\n\\end{aligned}"


def _rows(rows: Iterable[Row], limit: float) -> Iterator[str]:
    for indent, text in lines(rows, WIDTH, limit):
        quads = r"\quad " * (indent // 2)
        yield quads + ("{}" if text.startswith(_BINARY) else "") + text


_BINARY = ("+ ", "- ", r"\cdot ", r"\wedge ", r"\vee ")
"""Operators that TeX takes for signs at the beginning of a row, unless something empty precedes them."""

_OPERATORS = {
    "gen": r"\mathop{\boxplus}\limits",
    "sum": r"\sum\limits",
    "exists": r"\mathop{\exists}\limits",
    "max": r"\max\limits",
    "min": r"\min\limits",
    "argmax": r"\mathop{\mathrm{argmax}}\limits",
    "argmin": r"\mathop{\mathrm{argmin}}\limits",
}


class LatexNotation(Notation):
    """The paper's notation."""

    real = r"\mathbb{R}"
    between_types = r" \times "
    times = r" \cdot "
    scale = r"\,"
    comparison: ClassVar[Mapping[str, str]] = {"<": "<", "<=": r"\le", "=": "=", "!=": r"\ne"}
    conjunction = r"\wedge"
    disjunction = r"\vee"
    parentheses = (Fence(r"\left(", r"\Bigl("), Fence(r"\right)", r"\Bigr)"))
    brackets = (Fence(r"\left[", r"\Bigl["), Fence(r"\right]", r"\Bigr]"))
    line = FILL
    after_binder = ""
    let = r"\mathbf{let}\ "
    let_in = r"\ \mathbf{in}\ "
    relation = r"\mathrm{rel}"
    index = r"\mathrm{idx}"
    size = r"\mathbb{N}"
    projections = (r"\pi_0", r"\pi_1")
    number_of = ""
    has_fractions = True

    def name(self, name: str) -> str:
        """A name: one letter as it is, a Greek letter, a cotangent's bar, a number as a subscript."""
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        if digits and stem != "_":
            stem = stem.removesuffix("_")
        base = stem.removesuffix("_bar") or stem
        if _GREEK.fullmatch(base):
            text = "\\" + base
        elif len(base) == 1 and base != "_":
            text = base
        else:
            text = r"\mathit{" + base.replace("_", r"\_") + "}"
        if base != stem:
            text = rf"\bar{{{text}}}" if len(base) == 1 or _GREEK.fullmatch(base) else rf"\overline{{{text}}}"
        return f"{text}_{{{digits}}}" if digits else text

    def magnitude(self, value: Fraction) -> tuple[str, int]:
        """A constant that is not negative, a fraction as such."""
        text = decimal(value)
        if text is None:
            return rf"\frac{{{value.numerator}}}{{{value.denominator}}}", POWER
        return text, ATOM

    def binder(self, word: str, binders: list[tuple[str, str]], where: Doc | None = None) -> Doc:
        """One operator for each index, with the index's range below, and a condition below that."""
        parts: list[Doc] = []
        for k, (name, size) in enumerate(binders):
            if where and k == len(binders) - 1:
                below = rigid(r"_{\substack{", f"{name} < {size}", r" \\ ", where, "}}")
                parts += [_OPERATORS[word], below, "\\,"]
            else:
                parts.append(f"{_OPERATORS[word]}_{{{name} < {size}}}\\,")
        return concat(*parts)

    def recurrence(self, word: str, name: str, size: str, state: str, init: Doc) -> Doc:
        """An operator with the index's range below it, and the state's first value in brackets."""
        operator = rf"\mathop{{\mathrm{{{word}}}}}\limits_{{{name} < {size}}}"
        return concat(rf"{operator}^{{{state} \leftarrow ", init, r"}\,")

    def exponent(self, exponent: Fraction) -> str:
        """A superscript."""
        return f"^{{{exponent}}}"

    def template(self, f: ScalarFunction) -> Template:
        """The function's own LaTeX, whose arguments need parentheses unless it encloses them."""
        return _template(f.latex)


LATEX = LatexNotation()


_ENCLOSED = re.compile(
    r"(?P<name>(\\[a-zA-Z]+(\{\{[^{}]*\}\})?)?)\\left(?P<open>[(|])\{0\}(, \{\d\})*\\right(?P<close>[)|])"
)


@cached
def _template(latex: str) -> Template:
    if call := _ENCLOSED.fullmatch(latex):
        name = call["name"].replace("{{", "{").replace("}}", "}")
        opening = Fence(rf"{name}\left{call['open']}", rf"{name}\Bigl{call['open']}")
        return Template((), LOOSE, ATOM, (opening, Fence(rf"\right{call['close']}", rf"\Bigr{call['close']}")))
    pieces: list[str | int] = []
    for text, k, _, _ in Formatter().parse(latex):
        pieces += [text] if k is None else [text, int(k)]
    inner, outer = (LOOSE, POWER) if re.match(r"\\(frac|sqrt)\b", latex) else (ATOM, PRODUCT)
    return Template(tuple(pieces), inner, outer)
