"""The notations in which programs are printed: the text for each construct. The printer does the layout.

`Notation` itself is the text syntax, which the parser reads; other notations override what they write differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, NamedTuple

from tensorlang.language.grammar import ScalarFunction
from tensorlang.language.layout import LINE, Doc, group, nest

LOOSE, SUM, PRODUCT, FACTOR, POWER, ATOM, CLOSED = range(7)
"""How tightly constructs bind: let, gen and sum; a + b; a * b; -a; a ^ 2; x[i]; and anything in parentheses."""

_DECIMAL_PLACES = 20


class Template(NamedTuple):
    """How a call is written: pieces of text and numbers of arguments, or all arguments between two `fences`.

    `inner` is how tightly the arguments must bind, `outer` how tightly the whole does.
    """

    pieces: tuple[str | int, ...]
    inner: int
    outer: int
    fences: tuple[Doc, Doc] | None = None


class Notation:
    """The text syntax.

    A number is written as an integer or as a decimal where that is exact, else as the quotient p/q of two
    literals, which the parser reads as that one constant.
    """

    real = "R"
    between_types = ", "
    times = " * "
    scale = "*"
    comparison: ClassVar[Mapping[str, str]] = {"<": "<", "<=": "<=", "=": "=", "!=": "!="}
    conjunction = "and"
    disjunction = "or"
    parentheses: tuple[Doc, Doc] = ("(", ")")
    brackets: tuple[Doc, Doc] = ("[", "]")
    line: Doc = LINE
    after_binder: Doc = LINE
    let = "let "
    let_in = " in"
    relation = "rel"
    index = "idx"
    size = "size"
    projections = ("fst", "snd")
    number_of = "real"
    has_fractions = False

    def name(self, name: str) -> str:
        """A name."""
        return name

    def number(self, value: Fraction) -> tuple[str, int]:
        """A constant, and how tightly it binds."""
        text, level = self.magnitude(abs(value))
        return (text, level) if value >= 0 else (f"-{text}", min(level, FACTOR))

    def magnitude(self, value: Fraction) -> tuple[str, int]:
        """A constant that is not negative, and how tightly it binds."""
        text = decimal(value)
        if text is None:
            return f"{_digits(value.numerator)}/{_digits(value.denominator)}", PRODUCT
        return text, ATOM

    def binder(self, word: str, binders: list[tuple[str, str]], where: Doc | None = None) -> Doc:
        """`word` ("gen", "sum", "exists", "max", ...) with names, sizes and a condition on them, up to the body."""
        head = f"{self.word(word)} {', '.join(f'{name}:{size}' for name, size in binders)}"
        return f"{head}." if where is None else group(head, nest(LINE, "where ", where), ".")

    def recurrence(self, word: str, name: str, size: str, state: str, init: Doc) -> Doc:
        """`word` ("fold", "scan", "prescan") with an index, a state and its first value, up to the step."""
        return group(f"{self.word(word)} {name}:{size} with {state} =", nest(LINE, init), ".")

    def word(self, word: str) -> str:
        """A keyword."""
        return word

    def exponent(self, exponent: Fraction) -> str | None:
        """The suffix that raises a base to `exponent`; None if the power is written as a call of pow."""
        return f" ^ {exponent}" if exponent.denominator == 1 else None

    def template(self, f: ScalarFunction) -> Template | None:
        """How a call of `f` is written.

        None: its name, and its arguments in parentheses.
        """
        return None


class UnicodeNotation(Notation):
    """The paper's notation, as far as one line of Unicode can have it."""

    real = "ℝ"
    between_types = " × "
    times = " · "
    scale = "·"
    comparison: ClassVar[Mapping[str, str]] = {"<": "<", "<=": "≤", "=": "=", "!=": "≠"}
    conjunction = "∧"
    disjunction = "∨"
    projections = ("π₀", "π₁")

    def word(self, word: str) -> str:
        """A keyword."""
        return {"gen": "⊞", "sum": "Σ", "exists": "∃"}.get(word, word)

    def exponent(self, exponent: Fraction) -> str | None:
        """A superscript."""
        superscript = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return superscript if exponent.denominator == 1 else None


TEXT = Notation()
UNICODE = UnicodeNotation()


def decimal(value: Fraction) -> str | None:
    """`value`, which is not negative, as an exact decimal of at most 20 places, or None if it is none."""
    for places in range(_DECIMAL_PLACES + 1):
        if 10**places % value.denominator == 0:
            digits = _digits(value.numerator * (10**places // value.denominator)).rjust(places + 1, "0")
            return f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return None


def _digits(value: int) -> str:
    """The digits of an integer, however many: `str` refuses more than some thousands."""
    return format(Decimal(value), "f")
