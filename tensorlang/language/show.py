"""Programs as text that parses back to the same programs, and as Unicode in the paper's notation.

Two forms in the text are fixed by the parser. A subtraction is one operation, `-e` is -1 * e, and `-3` is a constant;
so the product -1 * 3 is written `-(3)`. And `1/3` is a constant as well; so the product 1 * recip(3) is written out. A
number that is no finite decimal is printed as such a quotient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf

from tensorlang import shown
from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr, ExpressionNode
from tensorlang.language.layout import Row, lines
from tensorlang.language.names import Named
from tensorlang.language.notation import TEXT, UNICODE, Notation
from tensorlang.language.predicates import Condition, Predicate
from tensorlang.language.printer import Printer

WIDTH = 100
"""Lines are at most this wide where a break is possible."""


@shown.lines.register(Function)
def _of_function(f: Function, limit: float = inf) -> Iterator[str]:
    return function_lines(f, limit=limit)


@shown.lines.register(ExpressionNode)
def _of_expression(e: Expr, limit: float = inf) -> Iterator[str]:
    return expr_lines(e, limit=limit)


@shown.lines.register(Condition)
def _of_predicate(p: Predicate, limit: float = inf) -> Iterator[str]:
    return _lines([(0, Printer(TEXT).whole_predicate(p))], limit)


def function_lines(f: Function, notation: Notation = TEXT, limit: float = inf) -> Iterator[str]:
    """The lines of the definition of `f`, each made on demand; dots stand for what is beyond `limit`."""
    return _lines(Printer(notation).function(f), limit)


def expr_lines(e: Expr, notation: Notation = TEXT, limit: float = inf) -> Iterator[str]:
    """The lines of `e`, as `function_lines` gives those of a program."""
    return _lines(Printer(notation).whole(e), limit)


def function_text(f: Function) -> str:
    """The definition of `f`, which parses back to the same program."""
    return "\n".join(function_lines(f))


def expr_text(e: Expr, given: Mapping[Named, str] | None = None) -> str:
    """`e` in the text syntax, with the `given` spellings."""
    return "\n".join(_lines(Printer(TEXT, given).whole(e)))


def predicate_text(p: Predicate) -> str:
    """`p` in the text syntax."""
    return "\n".join(_lines([(0, Printer(TEXT).whole_predicate(p))]))


def unicode_text(f: Function) -> str:
    """The definition of `f` in the paper's notation.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(tl.unicode_text(f))
    f(x: [n]ℝ) = Σ i:n. x[i]²
    """
    return "\n".join(function_lines(f, UNICODE))


def expr_unicode(e: Expr) -> str:
    """`e` in the paper's notation."""
    return "\n".join(expr_lines(e, UNICODE))


def predicate_unicode(p: Predicate) -> str:
    """`p` in the paper's notation."""
    return "\n".join(_lines([(0, Printer(UNICODE).whole_predicate(p))]))


def _lines(rows: Iterable[Row], limit: float = inf) -> Iterator[str]:
    return (" " * indent + text for indent, text in lines(rows, WIDTH, limit))
