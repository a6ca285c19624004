"""Program text as tokens, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tensorlang.errors import LimitError, ParseError, Span
from tensorlang.language.functions import KEYWORDS

RESERVED = KEYWORDS - {"max", "min"}
"""Words that can't be names. `max` and `min` are scalar functions when applied to arguments. Before a binder they are
reductions, and so are `argmax` and `argmin`, which may be names elsewhere."""

INTEGER_DIGITS = 18
"""The most digits of an integer in an index, a size or a predicate."""

NUMBER_DIGITS = 400
"""The most digits of a number, and the largest size of its decimal exponent."""

_TOKEN = re.compile(
    r"(?P<blank>(?:[ \t\r\n]+|--[^\n]*)+)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol><=|>=|!=|//|[-+*/%^()\[\],.:<>=])"
)

_MEANT = {
    "**": "a power is written with ^",
    "==": "equality is written with one =",
    "&&": "both conditions are joined by `and`",
    "||": "either condition is joined by `or`",
    "&": "both conditions are joined by `and`",
    "|": "either condition is joined by `or`; the absolute value is abs(x)",
    "!": "a negated comparison is written !=, > or <",
    "#": "a comment begins with --",
    "//": "a comment begins with --",
    "{": "parentheses group expressions",
    "}": "parentheses group expressions",
    "%": "remainders are of indices and sizes by integers: x[i % 2], [i % 2 = 0]",
    "@": "a product of matrices: gen i:n, j:p. sum k:m. A[i, k] * B[k, j]",
    "'": "a transposed matrix is read at swapped indices: A[j, i]",
    "\\": "a function of an index is gen: gen i:n. x[i]",
    "~": "a negation is written not, or as the opposite comparison",
    "?": "a value is chosen by if x > 0 then a else b",
    '"': "a program has numbers and indices, no texts",
    "$": "names are made of the letters a to z, A to Z, digits and _",
    ";": "let x = e in e ends with `in`",
    "·": "a product is written with *",
    "×": "a product is written with *",
    "−": "a minus is written with -",
    "–": "a minus is written with -",
    "≤": "at most is written <=",
    "≥": "at least is written >=",
    "≠": "unequal is written !=",
    "∧": "both conditions are joined by `and`",
    "∨": "either condition is joined by `or`",
    "∈": "a range is a size: sum i:n. e has 0 <= i < n",
    "∃": "existence is written exists k:n. p",
    "Σ": "summation is written sum i:n. e",
    "∑": "summation is written sum i:n. e",
    "⊞": "generation is written gen i:n. e",
    "ℤ": "the type of indices below n is written idx(n)",
    "ℝ": "the type of numbers is written R",
    "²": "a power is written with ^",
}


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """`kind` is "name", "number" or "end" (of the text); a keyword's or a symbol's kind is its own text."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        text = self.text if len(self.text) <= 40 else self.text[:37] + "..."
        if self.kind == "number":
            return f"the number {text}"
        return f"the keyword {text}" if self.text in RESERVED else f"'{text}'"


def tokens(text: str, source: str) -> list[Token]:
    """The tokens of `text`, the last one of kind "end".

    Raises `ParseError` at a character that no program has, `LimitError` at a number that is too long.
    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _stray(text, at, source)
        start, at = at, match.end()
        if match.lastgroup == "blank":
            continue
        word = match.group()
        kind = "name" if match.lastgroup == "name" and word not in RESERVED else word
        if match.lastgroup == "number":
            kind = "number"
            _check_number(text, start, at, source)
        found.append(Token(kind, word, start, at))
    found.append(Token("end", "", len(text), len(text)))
    return found


def hint_for(text: str, token: Token) -> str | None:
    """A hint if `token` is out of place: what was probably meant, if it is a spelling of another language."""
    return _MEANT.get(text[token.start : token.start + 2]) or _MEANT.get(text[max(0, token.start - 1) : token.end])


def _stray(text: str, at: int, source: str) -> ParseError:
    character = text[at]
    hint = _MEANT.get(text[at : at + 2]) or _MEANT.get(character)
    if hint is None and character.isalpha():
        hint = "names are made of the letters a to z, A to Z, digits and _"
    return ParseError(f"no program contains the character {character!a}", Span(text, at, at + 1, source), hint)


def _check_number(text: str, start: int, end: int, source: str) -> None:
    word = text[start:end]
    if end < len(text) and (text[end].isalnum() or text[end] == "_"):
        hint = f"a product is written with *: {word} * {text[end]}..." if len(word) <= INTEGER_DIGITS else None
        raise ParseError(f"the number is followed by {text[end]!a}", Span(text, start, end + 1, source), hint)
    mantissa, _, exponent = word.replace("E", "e").partition("e")
    if len(mantissa) > NUMBER_DIGITS:
        raise LimitError(
            f"a number has at most {NUMBER_DIGITS} digits, found {len(mantissa)}", Span(text, start, end, source)
        )
    if len(exponent) > 5 or abs(int(exponent or "0")) > NUMBER_DIGITS:
        raise LimitError(
            f"a number's exponent is at most {NUMBER_DIGITS}, found {exponent[:20]}", Span(text, start, end, source)
        )
