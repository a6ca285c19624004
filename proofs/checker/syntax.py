"""Programs read from text by recursive descent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from .budget import TooLarge
from .trees import (
    TRUE,
    Add,
    Affine,
    All,
    Any,
    Apply,
    ArrayType,
    At,
    Best,
    Bracket,
    Call,
    Compare,
    Element,
    Exists,
    Expr,
    External,
    Gen,
    Holds,
    Indices,
    Integer,
    Let,
    Mul,
    Name,
    Num,
    Pair,
    PairType,
    Part,
    Pred,
    Program,
    Real,
    Recur,
    Refused,
    Rel,
    Sum,
    Test,
    Type,
    chooses,
    name,
    number,
    power,
)

_TOKEN = re.compile(
    r"(?:\s+|--[^\n]*)|([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|([A-Za-z_]\w*)|(<=|>=|!=|[-+*/^()\[\],.:<>=])"
)
_MOST_DIGITS = 400
_WORDS = {"let", "in", "gen", "sum", "exists", "and", "or", "fst", "snd", "rel", "R", "where", "idx"}
_REDUCTIONS = {"max": (1, False), "min": (-1, False), "argmax": (1, True), "argmin": (-1, True)}
_RECURRENCES = {"fold", "scan", "prescan", "states"}
_COMPARISONS = {"<", "<=", "=", "!=", ">", ">="}


def program(text: str, externals: Mapping[str, External] | None = None) -> Program:
    """The one definition in `text`, which may call the `externals`."""
    reader = Reader(text)
    reader.externals = externals or {}
    found = reader.definition()
    reader.end()
    return found


def signature(text: str) -> tuple[str, tuple[tuple[str, Type], ...], Type]:
    """name(x: type, ..): type"""
    reader = Reader(text)
    title, params, _ = reader.heading()
    reader.take(":")
    kind = reader.type()
    reader.end()
    return title, params, kind


def expression(text: str, arrays: Iterable[str] = ()) -> Expr:
    """An expression on its own, in which `arrays` are index arrays."""
    reader = Reader(text)
    reader.arrays = frozenset(arrays)
    found = reader.expression()
    reader.end()
    return found


class Reader:
    """A position in a text's tokens; each method reads what its name says, or raises `Refused`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.k = 0
        self.arrays: frozenset[str] = frozenset()
        self.externals: Mapping[str, External] = {}
        self.compares = False
        self.no_relations = set(_WORDS)
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise Refused(f"no program has the character {text[at]!r}: {text[max(0, at - 20) : at + 20]!r}")
            if match.lastindex == 1:
                _sized(match.group())
            if match.lastindex:
                self.tokens.append((match.group(), at))
            at = match.end()

    def peek(self, ahead: int = 0) -> str:
        """The text of a token further on, "" after the end."""
        return self.tokens[self.k + ahead][0] if self.k + ahead < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        """The current token, which must be `wanted`."""
        token = self.peek()
        if not token or (wanted is not None and token != wanted):
            self.stop(f"expected {wanted or 'more'}")
        self.k += 1
        return token

    def accept(self, wanted: str) -> bool:
        """Whether the current token is `wanted`; if so it is read."""
        if self.peek() == wanted:
            self.k += 1
            return True
        return False

    def stop(self, why: str) -> NoReturn:
        """Refuse the text."""
        at = self.tokens[self.k][1] if self.k < len(self.tokens) else len(self.text)
        raise Refused(f"{why}, found {self.text[at : at + 30]!r}")

    def end(self) -> None:
        """Nothing more."""
        if self.peek():
            self.stop("expected the end")

    def identifier(self) -> str:
        """A name that is not a keyword."""
        token = self.take()
        if not re.fullmatch(r"[A-Za-z_]\w*", token) or token in _WORDS:
            self.k -= 1
            self.stop("expected a name")
        return token

    def literal(self) -> Fraction:
        """A number."""
        if not self.peek()[:1].isdigit():
            self.stop("expected a number")
        return Fraction(self.take())

    def positive(self) -> Fraction:
        """A number to divide by."""
        value = self.literal()
        if not value:
            self.k -= 1
            self.stop("expected a number other than 0")
        return value

    def integer(self) -> int:
        """A number without a fraction."""
        if not self.peek().isdigit():
            self.stop("expected an integer")
        return int(self.take())

    def definition(self) -> Program:
        """name(x: type, ..) = expression"""
        title, params, sizes = self.heading()
        self.take("=")
        body = resolved(self.expression(), frozenset(x for x, _ in params))
        return Program(title, params, body, sizes)

    def heading(self) -> tuple[str, tuple[tuple[str, Type], ...], tuple[str, ...]]:
        """name(x: type, ..), and which of the parameters are sizes"""
        title = self.identifier()
        self.take("(")
        params = []
        sizes = []
        while self.peek() != ")":
            x = self.identifier()
            self.take(":")
            if self.accept("size"):
                sizes.append(x)
            else:
                kind = self.type()
                element = kind
                while isinstance(element, ArrayType):
                    element = element.element
                if isinstance(element, Indices):
                    self.arrays |= {x}
                params.append((x, kind))
            if not self.accept(","):
                break
        self.take(")")
        return title, tuple(params), tuple(sizes)

    def type(self) -> Type:
        """R, idx(n), rel(n, m), [n]type or (type, type)"""
        token = self.take()
        if token == "R":
            return Real()
        if token == "idx":
            self.take("(")
            size = self.affine()
            self.take(")")
            return Indices(size)
        if token == "rel":
            self.take("(")
            sizes = [self.affine()]
            while self.accept(","):
                sizes.append(self.affine())
            self.take(")")
            return Rel(tuple(sizes))
        if token == "[":
            size = self.affine()
            self.take("]")
            return ArrayType(size, self.type())
        if token == "(":
            first = self.type()
            self.take(",")
            second = self.type()
            self.take(")")
            return PairType(first, second)
        self.k -= 1
        self.stop("expected a type")

    def expression(self, product: bool = False) -> Expr:
        """Sums of products; with `product` one without + and - outside of parentheses."""
        start = self.k
        left = self.operand()
        literal = isinstance(left, Num) and self.k - start <= 2 and self.tokens[start][0] != "("
        if literal and self.peek() == "/" and self.peek(1)[:1].isdigit() and self.peek(2) != "^":
            self.take()
            assert isinstance(left, Num)
            left = Num(left.value / self.positive())
        while self.peek() in ("*", "/"):
            divides = self.take() == "/"
            right = self.operand()
            left = Mul(left, Call("recip", (right,)) if divides else right)
        while not product and self.peek() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            left = Add(left, self.expression(product=True), sign)
        if not product and self.compares and self.peek() in _COMPARISONS:
            return Test(self.take(), left, self.expression())
        return left

    def operand(self) -> Expr:
        """An operand of * and /."""
        token = self.peek()
        if token == "let":
            return self.let()
        if token in ("gen", "sum"):
            return self.binder()
        if token in _REDUCTIONS and self.peek(2) == ":":
            return self.reduction()
        if token in _RECURRENCES and self.peek(2) == ":":
            return self.recurrence()
        if token == "[":
            self.take()
            p = self.pred()
            self.take("]")
            return Bracket(p, self.expression(product=True) if self.accept("*") else Num(Fraction(1)))
        if token == "-":
            self.take()
            if self.peek()[:1].isdigit() and self.peek(1) not in ("^", "["):
                return Num(-self.literal())
            return Mul(Num(Fraction(-1)), self.operand())
        e = self.atom()
        while self.accept("["):
            e = At(e, self.affine())
            while self.accept(","):
                e = At(e, self.affine())
            self.take("]")
        if self.accept("^"):
            sign = -1 if self.accept("-") else 1
            e = power(e, sign * self.literal())
        return e

    def atom(self) -> Expr:
        """A number, a name, a call, or what is in parentheses."""
        token = self.peek()
        if token[:1].isdigit():
            return Num(self.literal())
        if self.accept("("):
            e = self.expression()
            if self.accept(","):
                e = Pair(e, self.expression())
            self.take(")")
            return e
        if token in ("fst", "snd"):
            self.take()
            self.take("(")
            e = Part(0 if token == "fst" else 1, self.expression())
            self.take(")")
            return e
        x = self.identifier()
        if not self.accept("("):
            return Name(x)
        if x == "real":
            value = self.affine()
            self.take(")")
            return Integer(value)
        arguments = [self.expression()]
        if x == "pow":
            self.take(",")
            exponent = Fraction(-1 if self.accept("-") else 1) * self.literal()
            if self.accept("/"):
                exponent /= self.positive()
            self.take(")")
            return power(arguments[0], exponent)
        while self.accept(","):
            arguments.append(self.expression())
        self.take(")")
        return Apply(self.externals[x], tuple(arguments)) if x in self.externals else Call(x, tuple(arguments))

    def let(self) -> Expr:
        """let x = e in .., any number of times"""
        found: list[tuple[str, Expr]] = []
        outside = self.arrays
        while self.accept("let"):
            x = self.identifier()
            self.take("=")
            before, self.compares = self.compares, True
            value = self.expression()
            self.compares = before
            self.take("in")
            found.append((x, value))
            self.arrays = self.arrays | {x} if chooses(value) else self.arrays - {x}
        before, self.compares = self.compares, False
        e = self.expression()
        self.compares = before
        self.arrays = outside
        for x, value in reversed(found):
            e = Let(x, value, e)
        return e

    def binders(self) -> list[tuple[str, Affine]]:
        """i:n, j:m"""
        found = []
        while True:
            i = self.identifier()
            self.take(":")
            found.append((i, self.affine()))
            if not self.accept(","):
                return found

    def binder(self) -> Expr:
        """gen i:n. e, or sum i:n where p. e"""
        word = self.take()
        found = self.binders()
        outside, self.arrays = self.arrays, self.arrays.difference(i for i, _ in found)
        where = self.pred() if word == "sum" and self.accept("where") else None
        self.take(".")
        e = self.expression()
        self.arrays = outside
        if where is not None:
            e = Bracket(where, e)
        for i, size in reversed(found):
            e = Gen(i, size, e) if word == "gen" else Sum(i, size, e)
        return e

    def reduction(self) -> Expr:
        """max i:n where p. e, and likewise min, argmax and argmin"""
        sign, which = _REDUCTIONS[self.take()]
        found = self.binders()
        where: Pred = TRUE
        outside, self.arrays = self.arrays, self.arrays.difference(i for i, _ in found)
        if self.accept("where"):
            where = self.pred()
            if len(found) > 1:
                self.stop("expected one index where there is a condition")
        self.take(".")
        e = self.expression()
        self.arrays = outside
        for i, size in reversed(found):
            e = Best(sign, which, i, size, where, e)
        return e

    def recurrence(self) -> Expr:
        """fold i:n with s = e0. e1, and likewise scan, prescan and states"""
        word = self.take()
        i = self.identifier()
        self.take(":")
        size = self.affine()
        self.take("with")
        state = self.identifier()
        self.take("=")
        init = self.expression()
        self.take(".")
        outside, self.arrays = self.arrays, self.arrays - {i, state}
        before, self.compares = self.compares, False
        step = self.expression()
        self.arrays, self.compares = outside, before
        return Recur(word, i, size, state, init, step)

    def pred(self) -> Pred:
        """A predicate."""
        value = self.alternatives()
        if isinstance(value, Affine):
            self.stop("expected a comparison")
        return value

    def alternatives(self) -> Pred | Affine:
        """p or q; a lone index expression may stand here as well."""
        found = [self.conjunction()]
        while self.peek() == "or":
            self.take()
            found.append(self.conjunction())
        return found[0] if len(found) == 1 else Any(tuple(map(self.as_pred, found)))

    def conjunction(self) -> Pred | Affine:
        """p and q"""
        found = [self.comparison()]
        while self.peek() == "and":
            self.take()
            found.append(self.comparison())
        return found[0] if len(found) == 1 else All(tuple(map(self.as_pred, found)))

    def as_pred(self, value: Pred | Affine) -> Pred:
        """A predicate, not an index expression."""
        if isinstance(value, Affine):
            self.stop("expected a comparison")
        return value

    def comparison(self) -> Pred | Affine:
        """a <= b < c, exists i:n. p, or relation(a, b)"""
        if self.accept("exists"):
            found = self.binders()
            outside, self.arrays = self.arrays, self.arrays.difference(i for i, _ in found)
            self.take(".")
            body = self.pred()
            self.arrays = outside
            for i, size in reversed(found):
                body = Exists(i, size, body)
            return body
        if self.peek(1) == "(" and re.match(r"[A-Za-z_]", self.peek()) and self.peek() not in self.no_relations:
            relation = self.identifier()
            self.take("(")
            at = [self.affine()]
            while self.accept(","):
                at.append(self.affine())
            self.take(")")
            return Holds(relation, tuple(at))
        left = self.combination()
        parts: list[Pred] = []
        while self.peek() in _COMPARISONS:
            operator = self.take()
            right = self.combination()
            if not isinstance(left, Affine) or not isinstance(right, Affine):
                self.stop("expected an index expression on both sides")
            parts.append(_compared(left, operator, right))
            left = right
        return left if not parts else parts[0] if len(parts) == 1 else All(tuple(parts))

    def affine(self) -> Affine:
        """An index expression."""
        value = self.combination()
        if not isinstance(value, Affine):
            self.stop("expected an index expression")
        return value

    def combination(self) -> Pred | Affine:
        """A sum of products with integers; a lone parenthesis may hold a predicate."""
        total: Pred | Affine | None = None
        sign = 1
        while True:
            while self.accept("-"):
                sign = -sign
            factor = self.affine_atom()
            while self.accept("*"):
                other_sign = 1
                while self.accept("-"):
                    other_sign = -other_sign
                other = self.affine_atom()
                if not isinstance(factor, Affine) or not isinstance(other, Affine):
                    self.stop("expected an index expression")
                if factor.terms and other.terms:
                    self.stop("expected a product with an integer")
                factor = other.times(other_sign * factor.constant) if not factor.terms else factor.times(
                    other_sign * other.constant
                )  # fmt: skip
            if not isinstance(factor, Affine):
                if total is None and sign > 0 and self.peek() not in ("+", "-"):
                    return factor
                self.stop("expected an index expression")
            factor = factor.times(sign)
            total = factor if total is None else total + factor  # type: ignore[operator]
            if self.peek() not in ("+", "-"):
                return total
            sign = 1 if self.take() == "+" else -1

    def affine_atom(self) -> Pred | Affine:
        """An integer, a name, an element of an index array, or what is in parentheses."""
        if self.accept("("):
            value = self.alternatives()
            self.take(")")
            return value
        if self.peek().isdigit():
            return number(self.integer())
        x = self.identifier()
        if x not in self.arrays:
            return name(x)
        at: list[Affine] = []
        while self.accept("["):
            at.append(self.affine())
            while self.accept(","):
                at.append(self.affine())
            self.take("]")
        return Affine(((Element(x, tuple(at)), 1),))


def resolved(e: Expr, variables: frozenset[str]) -> Expr:
    """`e` where names that are not variables are numbers: the values of indices or sizes."""
    return _resolved(e, variables, {})


def _resolved(e: Expr, variables: frozenset[str], bound: dict[str, bool]) -> Expr:
    """The same, where `bound` says whether each name bound around `e` is a variable."""
    match e:
        case Name(x):
            return e if bound.get(x, x in variables) else Integer(name(x))
        case Num() | Integer():
            return e
        case Call() | Apply():
            return replace(e, arguments=tuple(_resolved(a, variables, bound) for a in e.arguments))
        case Let(x, value, body):
            value = _resolved(value, variables, bound)
            before, bound[x] = bound.get(x, x in variables), True
            body = _resolved(body, variables, bound)
            bound[x] = before
            return Let(x, value, body)
        case Gen() | Sum() | Best():
            before, bound[e.index] = bound.get(e.index, e.index in variables), False
            body = _resolved(e.body, variables, bound)
            bound[e.index] = before
            return replace(e, body=body)
        case Recur():
            init = _resolved(e.init, variables, bound)
            outside = {x: bound.get(x, x in variables) for x in (e.index, e.state)}
            bound |= {e.index: False, e.state: True}
            step = _resolved(e.step, variables, bound)
            bound |= outside
            return replace(e, init=init, step=step)
        case Part() | At() | Bracket():
            return replace(e, body=_resolved(e.body, variables, bound))
        case Pair(a, b):
            return Pair(_resolved(a, variables, bound), _resolved(b, variables, bound))
        case Add() | Mul() | Test():
            left = _resolved(e.left, variables, bound)
            return replace(e, left=left, right=_resolved(e.right, variables, bound))


def _sized(literal: str) -> None:
    """Raise `TooLarge` for a number that is too long to be of use in a program."""
    digits, _, exponent = literal.lower().partition("e")
    if len(digits) > _MOST_DIGITS or len(exponent) > 4 or (exponent and abs(int(exponent)) > _MOST_DIGITS):
        raise TooLarge(f"the number {literal[:20]}..")


def _compared(left: Affine, operator: str, right: Affine) -> Pred:
    below, above = right - left, left - right
    match operator:
        case "=":
            return Compare(True, above)
        case "!=":
            return Any((Compare(False, below + number(-1)), Compare(False, above + number(-1))))
        case "<":
            return Compare(False, below + number(-1))
        case "<=":
            return Compare(False, below)
        case ">":
            return Compare(False, above + number(-1))
        case _:
            return Compare(False, above)
