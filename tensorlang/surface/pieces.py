"""Expressions that were read from text, with their places, and the errors for those of the wrong type."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tensorlang.errors import (
    LimitError,
    Span,
    TypeMismatch,
)
from tensorlang.language.affine import Affine
from tensorlang.language.grammar import (
    INDEX_HINT,
    Compared,
    Expr,
)
from tensorlang.language.types import Pair, R, of_indices, shape
from tensorlang.recursion import Deep
from tensorlang.surface.declarations import DeclarationReader
from tensorlang.surface.mistakes import VALUE_CONDITION, elementwise, letters

_SHORT = 40
"""The most characters of an expression that a hint repeats."""

EXPONENT_LIMIT = 10**6
"""The exponents in e ^ k and pow(e, k) are less than this."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An expression and its place. `literal`: a number, perhaps after one minus."""

    expr: Expr
    start: int
    end: int
    literal: bool = False


class PieceReader(DeclarationReader):
    """Checks of the types of expressions that were read, with hints."""

    def expression(self) -> Deep[Piece]:
        """An expression, or a comparison of two, which a `let` names."""
        raise NotImplementedError

    def arithmetic(self, product: bool = False) -> Deep[Piece]:
        """An expression that is no comparison; with `product`, without + and - that are not in parentheses."""
        raise NotImplementedError

    def piece(self, e: Expr, start: int, literal: bool = False) -> Piece:
        """`e`, which goes from `start` to the last token."""
        return Piece(e, start, self.last_end(), literal)

    def need_numbers(self, left: Piece, operator: str, right: Piece) -> None:
        """Raise `TypeMismatch` unless both operands are numbers."""
        if left.expr.type is R and right.expr.type is R:
            return
        form, whole = f"{{}} {operator} {{}}", (self.shown(left), self.shown(right))
        self.need_number(left, f"the left side of {operator}", form, *whole)
        self.need_number(right, f"the right side of {operator}", form, *whole)

    def need_number(self, piece: Piece, what: str, form: str = "", *whole: tuple[str, tuple[Affine, ...]]) -> None:
        """Raise `TypeMismatch` unless `piece` is a number; it is used in the `form` of the pieces `whole`."""
        kind = piece.expr.type
        if kind is R:
            return
        self.need_value(piece, what)
        sizes, element = shape(kind)
        hint = None
        if isinstance(kind, Pair):
            hint = "the parts of a pair p are fst(p) and snd(p)"
        elif form and element is R:
            hint = elementwise(form, whole, self.scope)
        elif sizes:
            text, axes = self.shown(piece)
            hint = f"an element of it: {text}[{', '.join(letters(len(axes), self.scope))}]"
        message = f"{what} must be a number, found a value of type {kind}"
        raise TypeMismatch(message, self.span(piece.start, piece.end), hint)

    def shown(self, piece: Piece) -> tuple[str, tuple[Affine, ...]]:
        """The text of `piece`, if it is short, and its axes."""
        text = self.text[piece.start : piece.end]
        return text if len(text) <= _SHORT and "\n" not in text else "x", shape(piece.expr.type)[0]

    def need_value(self, piece: Piece, what: str) -> None:
        """Raise `TypeMismatch` if `piece` is an index or a comparison."""
        if of_indices(piece.expr.type):
            found = "a comparison" if isinstance(piece.expr, Compared) else "an index"
            message = f"{what} must be a value, found {found}, of type {piece.expr.type}"
            hint = VALUE_CONDITION if isinstance(piece.expr, Compared) else INDEX_HINT
            raise TypeMismatch(message, self.span(piece.start, piece.end), hint)


def limited(exponent: Fraction, place: Span) -> Fraction:
    """An exponent that is not too large. Raises `LimitError` for others."""
    if abs(exponent) < EXPONENT_LIMIT:
        return exponent
    raise LimitError(f"an exponent is less than {EXPONENT_LIMIT}", place)
