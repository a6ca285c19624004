"""Expressions in text, by recursive descent; `tensorlang.surface.syntax` has the grammar.

Precedence, from loose to tight:

    let, gen, sum, max   extend as far right as they can, also as the last operand of an operator; likewise min, argmax
                         and argmin before a binder: max i:n. e is a reduction, max(a, b) a scalar function
    a + b, a - b         from the left
    a * b, a / b         from the left, as are i // 2 and i % 2; `[p] * e` has the whole rest of the product as its e
    -e                   `-3` is a constant, `-e` is -1 * e
    e ^ 2
    e[i, j]

The quotient of two literals at the head of a product, `1/3`, is a constant; every other a / b is a * recip(b).
"""

from __future__ import annotations

from fractions import Fraction

from tensorlang.errors import (
    ParseError,
    Span,
    TypeMismatch,
)
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine
from tensorlang.language.functions import call as application
from tensorlang.language.functions import raise_to
from tensorlang.language.grammar import (
    RECURRENCES,
    Access,
    Add,
    Bracket,
    Compared,
    Const,
    Expr,
    MakePair,
    Mul,
    Proj,
    number,
    real,
)
from tensorlang.language.types import Array, Pair
from tensorlang.recursion import Deep, call
from tensorlang.surface.binding_forms import BindingReader
from tensorlang.surface.either import either, one_type
from tensorlang.surface.guards import opposite
from tensorlang.surface.lex import Token
from tensorlang.surface.mistakes import letters
from tensorlang.surface.operators import OPERATORS
from tensorlang.surface.pieces import Piece, limited
from tensorlang.surface.quotients import index_of, said
from tensorlang.surface.reader import REDUCTIONS


class ExpressionReader(BindingReader):
    """Reads the `expr` of the grammar."""

    def number(self, what: str) -> Deep[Expr]:
        """An expression whose value is a number, up to a comparison."""
        piece: Piece = yield from call(self.arithmetic())
        self.need_number(piece, what)
        return piece.expr

    def expression(self) -> Deep[Piece]:
        """An expression, or a comparison of two, which a `let` names."""
        left: Piece = yield from call(self.arithmetic())
        if self.token.kind not in ("<", "<=", "=", ">", ">="):
            return left
        operator = self.advance()
        self.need_number(left, f"the left side of {operator.kind}")
        right: Piece = yield from call(self.arithmetic())
        self.need_number(right, f"the right side of {operator.kind}")
        sides = (left.expr, right.expr) if operator.kind in ("<", "<=", "=") else (right.expr, left.expr)
        return self.piece(Compared(operator.kind.replace(">", "<"), *sides), left.start)

    def arithmetic(self, product: bool = False) -> Deep[Piece]:
        """An expression that is no comparison; with `product`, without + and - that are not in parentheses."""
        left: Piece = yield from call(self._operand())
        if left.literal and self.token.kind == "/" and self.peek() == "number" and self.peek(2) != "^":
            self.advance()
            left = self._quotient(left, self.advance())
        while self.token.kind in ("*", "/", "//", "%"):
            if self.token.kind in ("//", "%"):
                left = self._rounded(left)
                continue
            operator = self.advance()
            right: Piece = yield from call(self._operand())
            self.need_numbers(left, operator.kind, right)
            factor = right.expr if operator.kind == "*" else application("recip", right.expr)
            left = Piece(Mul(left.expr, factor), left.start, right.end)
        while self.token.kind in ("+", "-") and not product:
            operator = self.advance()
            right = yield from call(self.arithmetic(product=True))
            self.need_numbers(left, operator.kind, right)
            sign = 1 if operator.kind == "+" else -1
            left = Piece(Add(left.expr, right.expr, sign), left.start, right.end)
        return left

    def _rounded(self, left: Piece) -> Piece:
        """`a // c` or `a % c` of an index expression, as a number, from the operator on."""
        a = index_of(left.expr)
        if a is not None and not a.is_constant:
            operator = self.advance().kind
            return self.piece(said((self.divided(a, operator, left.start),), real), left.start)
        hint = "a comment begins with --" if self.peek() != "number" and self.token.kind == "//" else None
        raise self.unexpected("an operator of numbers", hint or "indices have // and %, real(2*i // 3); numbers have /")

    def _quotient(self, numerator: Piece, denominator: Token) -> Piece:
        assert isinstance(numerator.expr, Const)
        divisor = Fraction(denominator.text)
        if not divisor:
            hint = "where a divisor may be zero, a bracket hides the quotient: [i != 0] * (x / y)"
            raise ParseError("a number is divided by zero", self.span(numerator.start), hint)
        return self.piece(number(numerator.expr.value / divisor), numerator.start)

    def _operand(self) -> Deep[Piece]:
        """An operand of * or /: one that begins with a word, a bracket or a minus, or an atom with its suffixes."""
        token = self.token
        piece: Piece
        match token.kind:
            case "let":
                piece = yield from call(self.let())
                return piece
            case "gen" | "sum":
                piece = yield from call(self.binder())
                return piece
            case "name" if token.text in RECURRENCES and self.binds_time():
                piece = yield from call(self.recurrence())
                return piece
            case "name" if token.text in OPERATORS and self.peek() == "name":
                piece = yield from call(self.derivative_operator())
                return piece
            case "name" if token.text in REDUCTIONS and (self.peek(), self.peek(2)) == ("name", ":"):
                piece = yield from call(self.reduction())
                return piece
            case "[":
                piece = yield from call(self._bracket())
                return piece
            case "if":
                piece = yield from call(self._if())
                return piece
            case "-":
                piece = yield from call(self._negation())
                return piece
        piece = yield from call(self._atom_expression())
        while self.token.kind == "[":
            piece = yield from call(self._access(piece))
        if self.token.kind == "^":
            self.advance()
            if self.token.kind in ("name", "("):
                piece = yield from call(self._variable_power(piece, token))
            else:
                exponent = self._exponent()
                self.need_number(piece, "the base of ^", f"{{}} ^ {exponent}", self.shown(piece))
                piece = self.piece(raise_to(piece.expr, exponent), token.start)
            if self.token.kind == "^":
                raise self.unexpected("an operator", "parentheses say which power comes first: (x ^ 2) ^ 3")
        return piece

    def _atom_expression(self) -> Deep[Piece]:
        token = self.token
        piece: Piece
        match token.kind:
            case "number":
                self.advance()
                return self.piece(number(Fraction(token.text)), token.start, literal=True)
            case "(":
                piece = yield from call(self._parenthesis())
                return piece
            case "fst" | "snd":
                self.advance()
                self.expect("(")
                body: Piece = yield from call(self.expression())
                self.expect(")", "an operator or ')'")
                if not isinstance(body.expr.type, Pair):
                    message = f"{token.kind} takes a pair, found a value of type {body.expr.type}"
                    hint = "a pair is written (a, b), and its type (R, R)"
                    raise TypeMismatch(message, self.span(body.start, body.end), hint)
                return self.piece(Proj(0 if token.kind == "fst" else 1, body.expr), token.start)
            case "name":
                self.advance()
                if self.token.kind == "(":
                    known = {"pow": self.power_call, "real": self.integer_call} if token.text not in self.scope else {}
                    piece = yield from call(known.get(token.text, self.named_call)(token))
                    return piece
                if self.is_size_of_range(token):
                    self.bind(token, Size(token.text))
                match self.scope.get(token.text):
                    case Index() | Size() as named:
                        return self.piece(real(atom_affine(named)), token.start)
                    case IndexArray(sizes=()) as array:
                        return self.piece(real(atom_affine(Lookup(array, ()))), token.start)
                return self.piece(self.variable(token), token.start)
        raise self.unexpected("an expression")

    def _variable_power(self, base: Piece, token: Token) -> Deep[Piece]:
        exponent: Piece = yield from call(self._atom_expression())
        while self.token.kind == "[":
            exponent = yield from call(self._access(exponent))
        return self.raised(base, exponent, "^", token)

    def _exponent(self) -> Fraction:
        start = self.token.start
        sign = -1 if self.accept("-") else 1
        if self.token.kind != "number" or not self.token.text.isdigit():
            meant = "x ^ 2, x ^ y, or pow(e, 3/2)"
            raise self.unexpected("an integer exponent", meant)
        exponent = sign * Fraction(self.advance().text)
        return limited(exponent, self.span(start))

    def _parenthesis(self) -> Deep[Piece]:
        token = self.advance()
        first: Piece = yield from call(self.expression())
        if not self.accept(","):
            self.expect(")", "an operator, ',' or ')'")
            return self.piece(first.expr, token.start)
        self.need_value(first, "a part of a pair")
        second: Piece = yield from call(self.expression())
        self.need_value(second, "a part of a pair")
        if self.token.kind == ",":
            raise self.unexpected("')'", "a pair has two parts, which may be pairs: (a, (b, c))")
        self.expect(")", "an operator or ')'")
        return self.piece(MakePair(first.expr, second.expr), token.start)

    def _access(self, array: Piece) -> Deep[Piece]:
        self.advance()
        self.need_value(array, "what is accessed")
        at: list[Affine] = []
        starts: list[int] = []
        while True:
            starts.append(self.token.start)
            at.append((yield from call(self.affine())))
            if not self.accept(","):
                break
        self.expect("]", "an operator, ',' or ']'")
        place = self.span(array.start)
        e = said(at, lambda *places: self._element(array, [*zip(places, starts, strict=True)], place))
        return self.piece(e, array.start)

    def _element(self, array: Piece, at: list[tuple[Affine, int]], place: Span) -> Expr:
        e = array.expr
        for a, start in at:
            if not isinstance(e.type, Array):
                raise TypeMismatch(
                    f"only an array has elements, found [{a}] after a value of type {e.type}",
                    self.span(start, place.end) if e is not array.expr else place,
                    self._access_hint(array, e),
                )
            e = Access(e, a, place)
        return e

    def _access_hint(self, array: Piece, e: Expr) -> str | None:
        text, sizes = self.shown(array)
        if isinstance(e.type, Pair):
            return f"the parts of a pair: fst({text}), snd({text})" if e is array.expr else "fst(e), snd(e)"
        if e is array.expr:
            return "a product is written with *: e * [p]"
        return f"an element of it: {text}[{', '.join(letters(len(sizes), ()))}]"

    def _bracket(self) -> Deep[Piece]:
        token = self.advance()
        p = yield from call(self.predicate())
        self.expect("]", "`and`, `or` or ']'")
        if not self.accept("*"):
            return self.piece(Bracket(p, number(1)), token.start)
        body: Piece = yield from call(self.arithmetic(product=True))
        return self.piece(Bracket(p, body.expr), token.start)

    def _if(self) -> Deep[Piece]:
        """`if c then a else b`, of two values of one type."""
        token = self.advance()
        p = yield from call(self.predicate())
        self.expect("then", "`and`, `or` or `then`")
        held: Piece = yield from call(self.expression())
        self.need_value(held, "what follows `then`")
        if self.token.kind != "else":
            raise self.unexpected(
                "an operator or `else`", "both sides are said: if x > 0 then a else b; [x > 0] * a is 0 elsewhere"
            )
        self.advance()
        other: Piece = yield from call(self.expression())
        self.need_value(other, "what follows `else`")
        if held.expr.type is not other.expr.type:
            raise TypeMismatch(
                f"both sides of `if` have one type, found {held.expr.type} and {other.expr.type}",
                self.span(held.start, other.end),
                one_type(held.expr.type, other.expr.type),
            )
        return self.piece(either(p, held.expr, opposite(p, self.holds), other.expr), token.start)

    def _negation(self) -> Deep[Piece]:
        token = self.advance()
        if self.token.kind == "number" and self.peek() not in ("^", "["):
            digits = self.advance()
            return self.piece(number(-Fraction(digits.text)), token.start, literal=True)
        body: Piece = yield from call(self._operand())
        self.need_number(body, "the operand of -", "-{}", self.shown(body))
        return self.piece(Mul(number(-1), body.expr), token.start)
