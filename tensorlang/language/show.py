"""Programs as text that parses back to the same programs, and as Unicode in the paper's notation.

Two things in the text are less free than they look. A subtraction is one operation, `-e` is -1 * e, and `-3` is a
constant; so the product -1 * 3 is written `-(3)`. And `1/3` is a constant as well; so the product 1 * recip(3) is
written out. A number that is no finite decimal is printed as such a quotient.
"""

from __future__ import annotations

from tensorlang.language.function import Function
from tensorlang.language.grammar import Expr
from tensorlang.language.layout import render
from tensorlang.language.notation import TEXT, UNICODE
from tensorlang.language.predicates import Predicate
from tensorlang.language.printer import Printer

WIDTH = 100
"""Lines are at most this wide where a break is possible."""


def function_text(f: Function) -> str:
    """The definition of `f`, which parses back to the same program."""
    return render(Printer(TEXT).function(f), WIDTH)


def expr_text(e: Expr) -> str:
    """`e` in the text syntax."""
    return render(Printer(TEXT).whole(e), WIDTH)


def predicate_text(p: Predicate) -> str:
    """`p` in the text syntax."""
    return render([(0, Printer(TEXT).whole_predicate(p))], WIDTH)


def unicode_text(f: Function) -> str:
    """The definition of `f` in the paper's notation."""
    return render(Printer(UNICODE).function(f), WIDTH)


def expr_unicode(e: Expr) -> str:
    """`e` in the paper's notation."""
    return render(Printer(UNICODE).whole(e), WIDTH)


def predicate_unicode(p: Predicate) -> str:
    """`p` in the paper's notation."""
    return render([(0, Printer(UNICODE).whole_predicate(p))], WIDTH)
