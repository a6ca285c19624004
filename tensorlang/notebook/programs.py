"""Programs and their parts: typeset where they are short, else as text that folds.

MathJax takes milliseconds for every symbol. So programs of more than `MOST_ROWS` rows are shown as text in the paper's
notation: the beginning, a fold with the rest, and for very long ones the number of statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain, islice, pairwise

from tensorlang.language.function import Function
from tensorlang.language.grammar import ExpressionNode
from tensorlang.language.latex import (
    affine_latex,
    aligned,
    expr_rows,
    function_rows,
    parameter_latex,
    predicate_latex,
    type_rows,
)
from tensorlang.language.lets import bindings
from tensorlang.language.notation import UNICODE
from tensorlang.language.predicates import Condition, Relation
from tensorlang.language.show import expr_lines, function_lines
from tensorlang.language.types import Array, BoundedIndex, Pair, Real
from tensorlang.normal.as_program import opening, right_side, to_function
from tensorlang.normal.ssa import SSA, Defined
from tensorlang.notebook.html import code, fold, note, page, preformatted
from tensorlang.notebook.lattice import picture, set_text
from tensorlang.shown import html, latex
from tensorlang.surface.terms import Cond, Idx

MOST_ROWS = 40
MOST_LATEX = 4_000
"""The most rows and characters that are typeset: MathJax refuses more than 5,120 at once."""

_OPEN_LINES = 12
_MOST_LINES = 1_000
_MOST_TEXT = 80_000


@dataclass(frozen=True)
class Listing:
    """Content to be shown in rows of LaTeX, or in lines of Unicode, with the number of statements of the whole."""

    rows: Callable[[], Iterator[str]]
    lines: Callable[[], Iterator[str]]
    statements: int = 1

    def latex(self) -> str | None:
        """The rows between dollar signs, with dots for those that are too many; None if even the first is too long."""
        rows, whole = self._typeset()
        shown = aligned(rows if whole else [*rows, r"\cdots"])
        return rf"$\displaystyle {shown}$" if rows else None

    def html(self) -> str | None:
        """The first lines, and others in a fold, both limited; None if all rows are typeset."""
        if self._typeset()[1]:
            return None
        lines = self.lines()
        parts = [preformatted(islice(lines, _OPEN_LINES))]
        rest = list(islice(lines, _MOST_LINES))
        if rest:
            parts.append(fold(f"{len(rest)} more lines", preformatted(rest)))
        if next(lines, None) is not None or "..." in rest[-1:]:
            count = f": there are {self.statements:,} statements" if self.statements > 1 else ""
            parts.append(note(f"Not all is here{count}."))
        return page(*parts)

    def _typeset(self) -> tuple[list[str], bool]:
        """The rows that are typeset, and whether these are all."""
        kept: list[str] = []
        left = MOST_LATEX
        for row in self.rows():
            left -= len(row) + len(" \\\\\n&")
            if row == "..." or left < 0 or len(kept) == MOST_ROWS:
                return kept, False
            kept.append(row)
        return kept, True


@singledispatch
def listing(value: object) -> Listing:
    """The listing of a program or an expression."""
    raise TypeError(f"no listing shows a {type(value).__name__}")


@listing.register
def _of_function(f: Function) -> Listing:
    count = 1 + len(bindings(f.body)[0])
    return Listing(lambda: function_rows(f, MOST_LATEX), lambda: function_lines(f, UNICODE, _MOST_TEXT), count)


@listing.register
def _of_ssa(s: SSA) -> Listing:
    """The listing of SSA; a long one is shown as the program of its first statements, without the last line, which is
    not among its outputs."""
    f = to_function(opening(s, _MOST_LINES))

    def lines() -> Iterator[str]:
        shown = function_lines(f, UNICODE, _MOST_TEXT)
        return shown if len(s.statements) <= _MOST_LINES else chain((line for line, _ in pairwise(shown)), ["..."])

    return Listing(lambda: function_rows(f, MOST_LATEX), lines, len(s.statements))


@listing.register
def _of_expr(e: ExpressionNode) -> Listing:
    return Listing(
        lambda: expr_rows(e, MOST_LATEX),  # type: ignore[arg-type]
        lambda: expr_lines(e, UNICODE, _MOST_TEXT),  # type: ignore[arg-type]
    )


@listing.register
def _of_statement(x: Defined) -> Listing:
    return _of_expr(right_side(x))  # type: ignore[arg-type]


def _html(value: object) -> str | None:
    return listing(value).html()


def _latex(value: object) -> str | None:
    return listing(value).latex()


for _kind in (Function, SSA, ExpressionNode, Defined):
    html.register(_kind, _html)
    latex.register(_kind, _latex)


@latex.register(Real | Array | Pair | BoundedIndex)
def _type_latex(kind: Real | Array | Pair | BoundedIndex) -> str | None:
    return Listing(lambda: type_rows(kind, MOST_LATEX), lambda: iter(())).latex()


@latex.register
def _relation_latex(relation: Relation) -> str:
    return f"${parameter_latex(relation)}$"


@latex.register
def _index_latex(index: Idx) -> str:
    return f"${affine_latex(index.affine)}$"


@latex.register
def _predicate_latex(p: Condition) -> str:
    return f"${predicate_latex(p)}$"  # type: ignore[arg-type]


@html.register
def _predicate_html(p: Condition) -> str | None:
    """As a set, with its points at small sizes."""
    shown = picture(p)  # type: ignore[arg-type]
    return None if shown is None else page(code(set_text(p)), shown)  # type: ignore[arg-type]


@latex.register
def _condition_latex(condition: Cond) -> str | None:
    return latex(condition.pred)


@html.register
def _condition_html(condition: Cond) -> str | None:
    return html(condition.pred)
