r"""Programs as LaTeX in the paper's notation, made for MathJax 3.

\boxplus is tensor generation, \sum summation, [p] \cdot e an Iverson bracket; as in the paper, an index runs from
the number below to just before the number above. Each outermost let has a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from string import Formatter
from typing import ClassVar

from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, ScalarFunction
from tensorlang.language.layout import Doc, concat, joined, render
from tensorlang.language.notation import ATOM, LOOSE, POWER, PRODUCT, Notation, Template, decimal
from tensorlang.language.predicates import Predicate
from tensorlang.language.printer import Printer

_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|chi|psi"
    "|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)


def function_latex(f: Function) -> str:
    """The definition of `f` as one `aligned` block."""
    return _rows(render(Printer(LATEX).function(f), float("inf"), _NEW_ROW + "\\quad"))


def expr_latex(e: Expr) -> str:
    """`e`, as an `aligned` block if it begins with a let."""
    return _rows(render(Printer(LATEX).whole(e), float("inf"), _NEW_ROW))


def predicate_latex(p: Predicate) -> str:
    """`p` in the paper's notation."""
    return render(Printer(LATEX).whole_predicate(p), float("inf"))


_OPERATORS = {
    "gen": r"\mathop{\boxplus}\limits",
    "sum": r"\sum\limits",
    "exists": r"\mathop{\exists}\limits",
    "max": r"\max\limits",
    "min": r"\min\limits",
    "argmax": r"\mathop{\mathrm{argmax}}\limits",
    "argmin": r"\mathop{\mathrm{argmin}}\limits",
}

_NEW_ROW = " \\\\\n&"


def _rows(text: str) -> str:
    if _NEW_ROW not in text:
        return text
    return f"\\begin{{aligned}}\n&{text}\n\\end{{aligned}}"


class LatexNotation(Notation):
    """The paper's notation."""

    real = r"\mathbb{R}"
    between_types = r" \times "
    times = r" \cdot "
    scale = r"\,"
    comparison: ClassVar[Mapping[str, str]] = {"<": "<", "<=": r"\le", "=": "=", "!=": r"\ne"}
    conjunction = r"\wedge"
    disjunction = r"\vee"
    parentheses = (r"\left(", r"\right)")
    brackets = (r"\left[", r"\right]")
    let = r"\mathbf{let}\ "
    let_in = r"\ \mathbf{in}\ "
    relation = r"\mathrm{rel}"
    index = r"\mathrm{idx}"
    projections = (r"\pi_0", r"\pi_1")
    has_fractions = True

    def name(self, name: str) -> str:
        """A name: one letter as it is, a Greek letter, a cotangent's bar, a number as a subscript."""
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
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
        """One operator for each index, with the index below, a condition below that, and the size above."""
        parts: list[Doc] = []
        for k, (name, size) in enumerate(binders):
            last = k == len(binders) - 1
            below = concat(r"\substack{", f"{name}=0", r" \\ ", where, "}") if last and where else f"{name}=0"
            parts.append(concat(_OPERATORS[word], "_{", below, f"}}^{{{size}}}"))
        return concat(joined(parts, r"\,"), r"\,")

    def exponent(self, exponent: Fraction) -> str:
        """A superscript."""
        return f"^{{{exponent}}}"

    def template(self, f: ScalarFunction) -> Template:
        """The function's own LaTeX, whose arguments need parentheses unless it encloses them."""
        return _template(f.latex)


LATEX = LatexNotation()


@cache
def _template(latex: str) -> Template:
    pieces = [(text, None if k is None else int(k)) for text, k, _, _ in Formatter().parse(latex)]
    if re.match(r"\\(frac|sqrt)\b", latex):
        return pieces, LOOSE, POWER
    encloses = re.fullmatch(r"(\\[a-zA-Z]+(\{[^{}]*\})?)?(\\left[(|]).*(\\right[)|])", latex.format(*"xyzabcdefghijkl"))
    return (pieces, LOOSE, ATOM) if encloses else (pieces, ATOM, PRODUCT)
