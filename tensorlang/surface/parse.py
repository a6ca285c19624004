"""Text to programs, by recursive descent; `tensorlang.surface.syntax` has the grammar.

Names are resolved and types are checked while the text is read, so every error has its place. What binds how
tightly, from loose to tight:

    let, gen, sum, max   reach as far right as they can, also as the last operand of an operator; likewise min, argmax
                         and argmin before a binder: max i:n. e is a reduction, max(a, b) a scalar function
    a + b, a - b         from the left
    a * b, a / b         from the left, as are i // 2 and i % 2; `[p] * e` has the whole rest of the product as its e
    -e                   `-3` is a constant, `-e` is -1 * e
    e ^ 2
    e[i, j]

The quotient of two literals at the head of a product, `1/3`, is a constant; every other a / b is a * recip(b).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tensorlang.budget import limited
from tensorlang.errors import (
    LimitError,
    ParseError,
    ScalarFunctionError,
    ScopeError,
    Span,
    TensorlangError,
    TypeMismatch,
)
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine
from tensorlang.language.function import Function, Parameter, did_you_mean, type_text
from tensorlang.language.functions import KEYWORDS, function, functions, raise_to
from tensorlang.language.functions import call as application
from tensorlang.language.grammar import (
    INDEX_HINT,
    RECURRENCES,
    Access,
    Add,
    Apply,
    Bracket,
    Choice,
    Compared,
    Const,
    Expr,
    Let,
    MakePair,
    Mul,
    Proj,
    Routine,
    Var,
    bracket,
    extremum,
    gen,
    number,
    real,
    sums,
)
from tensorlang.language.predicates import TRUE, Predicate, Relation
from tensorlang.language.recurrence import kept_where, recurrence, straight
from tensorlang.language.routines import known as known_routine
from tensorlang.language.routines import names as routine_names
from tensorlang.language.special import BUILT_IN
from tensorlang.language.types import Array, Pair, R, of_indices, shape
from tensorlang.language.types import Idx as IndexType
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.check import check
from tensorlang.surface.declarations import DeclarationReader
from tensorlang.surface.guards import opposite
from tensorlang.surface.inline import call_on_terms
from tensorlang.surface.lex import Token
from tensorlang.surface.library import TEXT
from tensorlang.surface.lookups import Indices
from tensorlang.surface.mistakes import VALUE_CONDITION, elementwise, letters
from tensorlang.surface.operators import OF_NUMBERS, OPERATORS, derived_in_place, without_lets
from tensorlang.surface.options import Adjustable, adjustable, axes
from tensorlang.surface.quotients import index_of, said
from tensorlang.surface.reader import REDUCTIONS
from tensorlang.surface.scalar_text import ScalarReader, ScalarText
from tensorlang.surface.scope import Surface
from tensorlang.surface.share import share
from tensorlang.surface.terms import Idx, Rel, Term, as_term

_SHORT = 40
"""The most characters of an expression that a hint repeats."""

EXPONENT_LIMIT = 10**6
"""The exponents in e ^ k and pow(e, k) are less than this."""


@limited
def parse(text: str, source: str = "<text>") -> Function:
    """The program that `text` defines; `source` is the text's name in messages.

    Raises `ParseError` unless it is exactly one definition, `ScopeError`, `TypeMismatch`, `ScalarFunctionError`,
    `LimitError` and `OutOfBounds` for what they say.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(f([1.0, 2.0]))
    5.0
    """
    every, scalars = module_of(text, source)
    definitions = [f for name, f in every.items() if name not in scalars] or list(every.values())
    if len(definitions) != 1:
        end = Span(text, 0, 1, source) if text else None
        found = f"{len(definitions)} of them" if definitions else "none"
        hint = "parse_module reads several" if definitions else "f(x: [n]R) = sum i:n. x[i]"
        raise ParseError(f"expected one definition, found {found}", end, hint)
    return definitions[0]


def reread(text: str) -> Function:
    """The program that a text defines which was printed from one: its accesses are not checked again, which may be in
    bounds from size 1 on alone. Raises what `parse` raises else."""
    parser = _Parser(text, "<text>")
    return run(parser.definition(parser.expect("name", "the name of a definition")))


@limited
def parse_module(text: str, source: str = "<text>") -> dict[str, Function]:
    """The programs that `text` defines, by name and in order. Raises what `parse` raises.

    >>> list(tl.parse_module("f(x: R) = x * x  g(x: R) = f(x) + 1"))
    ['f', 'g']
    """
    return module_of(text, source)[0]


def module_of(text: str, source: str) -> tuple[dict[str, Function], dict[str, ScalarText]]:
    """The programs of a text, and those of them that are functions of numbers."""
    if not isinstance(text, str):
        hint = (
            "tl.function makes a program of a Python function"
            if callable(text)
            else "the text itself; that of a file is open(path).read()"
        )
        found_type = type(text).__name__
        raise ParseError(f"expected the text of a program, found a value of Python type {found_type}", None, hint)
    parser = _Parser(text, source)
    found: dict[str, Function] = {}
    while parser.token.kind != "end":
        if parser.at_scalar():
            parser.advance()
            start = parser.token
            reader = ScalarReader(parser, parser.scalars)
            made = run(reader.scalar())
            parser.position, parser.token = reader.position, reader.token
            called = made.code.name
            if called in found or called in BUILT_IN:
                hint = f"another name, such as {called}0"
                raise ScopeError(f"{called} is defined already", parser.place(start), hint)
            parser.scalars[called] = made
            try:
                found[called] = parser.programs[called] = made.program
            except TensorlangError as error:
                error.place = parser.span(start.start)
                raise
            continue
        name = parser.expect("name", "the name of a definition" if not found else "an operator or a definition")
        if name.text in found:
            raise ScopeError(
                f"{name.text} is defined twice", parser.place(name), f"another name for one of them: {name.text}1"
            )
        found[name.text] = parser.programs[name.text] = without_lets(
            check(run(parser.definition(name))), parser.looked_through
        )
    return found, parser.scalars


@cached
def library() -> dict[str, Function]:
    """The programs of the library by name."""
    return {**parse_module(TEXT, "lib.tl"), **adjustable(parse)}


@dataclass(frozen=True, slots=True)
class _Piece:
    """An expression and its place. `literal`: a number, perhaps after one minus."""

    expr: Expr
    start: int
    end: int
    literal: bool = False


class _Parser(DeclarationReader):
    def __init__(self, text: str, source: str) -> None:
        super().__init__(text, source)
        self.programs: dict[str, Function] = {}
        self.scalars: dict[str, ScalarText] = {}
        self.uses_library = source != "lib.tl"
        self.defined = ""
        self.looked_through: list[Var] = []
        """Variables of the bodies of operators, which a check of bounds is to see."""

    def definition(self, name: Token) -> Deep[Function]:
        """What follows a definition's name."""
        if name.text in KEYWORDS:
            hint = f"another name, such as {name.text}0"
            raise ParseError(f"{name.text} is a keyword; the definition needs another name", self.place(name), hint)
        self.scope = {}
        self.defined = name.text
        self.expect("(", f"'(' and the parameters of {name.text}")
        params: dict[str, Parameter | Size] = {}
        while self.token.kind != ")":
            token = self.expect("name", "the name of a parameter" if params else "a parameter or ')'")
            if token.text in params:
                raise ScopeError(
                    f"{name.text} has two parameters called {token.text}",
                    self.place(token),
                    f"another name for one of them: {token.text}{len(params)}",
                )
            self.expect(":", f"':' and the type of {token.text}")
            param: Parameter | Size = yield from call(self.parameter(token))
            self.bind(token, param)
            params[token.text] = param
            if not self.accept(","):
                break
        self.expect(")", "',' or ')'")
        self.expect("=", "'=' and an expression")
        body: _Piece = yield from call(self._expression())
        if self.token.kind != "end" and not self._at_definition():
            meant = VALUE_CONDITION if self.token.kind in ("=", "<", ">", "<=", ">=", "!=") else None
            raise self.unexpected("an operator or the end of the definition", meant)
        self._need_value(body, f"the value of {name.text}")
        e = self._with_conditions(body.expr, self.conditions)
        self.conditions = {}
        declared = tuple(p for p in params.values() if isinstance(p, Size))
        made = Function(name.text, tuple(p for p in params.values() if not isinstance(p, Size)), straight(e))
        return replace(made, further=tuple(size for size in declared if size not in made.sizes))

    def _at_definition(self) -> bool:
        """Whether the current token begins `name()` or `name(param: `, which no expression goes on with."""
        if self.at_scalar():
            return True
        ahead = [self.token.kind, *(self.peek(k) for k in (1, 2, 3))]
        return ahead[:3] == ["name", "(", ")"] or ahead == ["name", "(", "name", ":"]

    def at_scalar(self) -> bool:
        """Whether the current token begins the definition of a function of numbers."""
        return self.token.text == "scalar" and self.peek() == "name" and self.peek(2) == "("

    def callable_names(self) -> Collection[str]:
        """The programs above, and those of the library."""
        return (*self.programs, *library()) if self.uses_library else self.programs

    def number(self, what: str) -> Deep[Expr]:
        """An expression whose value is a number, up to a comparison."""
        piece: _Piece = yield from call(self._arithmetic())
        self._need_number(piece, what)
        return piece.expr

    def _expression(self) -> Deep[_Piece]:
        """An expression, or a comparison of two, which a `let` names."""
        left: _Piece = yield from call(self._arithmetic())
        if self.token.kind not in ("<", "<=", "=", ">", ">="):
            return left
        operator = self.advance()
        self._need_number(left, f"the left side of {operator.kind}")
        right: _Piece = yield from call(self._arithmetic())
        self._need_number(right, f"the right side of {operator.kind}")
        sides = (left.expr, right.expr) if operator.kind in ("<", "<=", "=") else (right.expr, left.expr)
        return self._piece(Compared(operator.kind.replace(">", "<"), *sides), left.start)

    def _arithmetic(self, product: bool = False) -> Deep[_Piece]:
        """An expression that is no comparison; with `product`, without + and - that are not in parentheses."""
        left: _Piece = yield from call(self._operand())
        if left.literal and self.token.kind == "/" and self.peek() == "number" and self.peek(2) != "^":
            self.advance()
            left = self._quotient(left, self.advance())
        while self.token.kind in ("*", "/", "//", "%"):
            if self.token.kind in ("//", "%"):
                left = self._rounded(left)
                continue
            operator = self.advance()
            right: _Piece = yield from call(self._operand())
            self._need_numbers(left, operator.kind, right)
            factor = right.expr if operator.kind == "*" else application("recip", right.expr)
            left = _Piece(Mul(left.expr, factor), left.start, right.end)
        while self.token.kind in ("+", "-") and not product:
            operator = self.advance()
            right = yield from call(self._arithmetic(product=True))
            self._need_numbers(left, operator.kind, right)
            sign = 1 if operator.kind == "+" else -1
            left = _Piece(Add(left.expr, right.expr, sign), left.start, right.end)
        return left

    def _rounded(self, left: _Piece) -> _Piece:
        """`a // c` or `a % c` of an index expression, as a number, from the operator on."""
        a = index_of(left.expr)
        if a is not None and not a.is_constant:
            operator = self.advance().kind
            return self._piece(said((self.divided(a, operator, left.start),), real), left.start)
        hint = "a comment begins with --" if self.peek() != "number" and self.token.kind == "//" else None
        raise self.unexpected("an operator of numbers", hint or "indices have // and %, real(2*i // 3); numbers have /")

    def _operand(self) -> Deep[_Piece]:
        """An operand of * or /: one that begins with a word, a bracket or a minus, or an atom with its suffixes."""
        token = self.token
        piece: _Piece
        match token.kind:
            case "let":
                piece = yield from call(self._let())
                return piece
            case "gen" | "sum":
                piece = yield from call(self._binder())
                return piece
            case "name" if token.text in RECURRENCES and self._binds_time():
                piece = yield from call(self._recurrence())
                return piece
            case "name" if token.text in OPERATORS and self.peek() == "name":
                piece = yield from call(self._operator())
                return piece
            case "name" if token.text in REDUCTIONS and (self.peek(), self.peek(2)) == ("name", ":"):
                piece = yield from call(self._reduction())
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
                self._need_number(piece, "the base of ^", f"{{}} ^ {exponent}", self._shown(piece))
                piece = self._piece(raise_to(piece.expr, exponent), token.start)
            if self.token.kind == "^":
                raise self.unexpected("an operator", "parentheses say which power comes first: (x ^ 2) ^ 3")
        return piece

    def _atom_expression(self) -> Deep[_Piece]:
        token = self.token
        piece: _Piece
        match token.kind:
            case "number":
                self.advance()
                return self._piece(number(Fraction(token.text)), token.start, literal=True)
            case "(":
                piece = yield from call(self._parenthesis())
                return piece
            case "fst" | "snd":
                self.advance()
                self.expect("(")
                body: _Piece = yield from call(self._expression())
                self.expect(")", "an operator or ')'")
                if not isinstance(body.expr.type, Pair):
                    message = f"{token.kind} takes a pair, found a value of type {body.expr.type}"
                    hint = "a pair is written (a, b), and its type (R, R)"
                    raise TypeMismatch(message, self.span(body.start, body.end), hint)
                return self._piece(Proj(0 if token.kind == "fst" else 1, body.expr), token.start)
            case "name":
                self.advance()
                if self.token.kind == "(":
                    known = {"pow": self._power, "real": self._integer} if token.text not in self.scope else {}
                    piece = yield from call(known.get(token.text, self._call)(token))
                    return piece
                if self.is_size_of_range(token):
                    self.bind(token, Size(token.text))
                match self.scope.get(token.text):
                    case Index() | Size() as named:
                        return self._piece(real(atom_affine(named)), token.start)
                    case IndexArray(sizes=()) as array:
                        return self._piece(real(atom_affine(Lookup(array, ()))), token.start)
                return self._piece(self.variable(token), token.start)
        raise self.unexpected("an expression")

    def _program(self, token: Token, f: Function) -> Deep[_Piece]:
        """A call of another program, whose body is put in place; sizes that no argument tells by name: `f(x, k=3)`."""
        self.expect("(")
        given: list[Surface] = []
        sizes: dict[str, Idx] = {}
        options: dict[str, int] = {}
        while self.token.kind != ")":
            if self.token.kind == "name" and self.peek() == "=":
                name = self.advance().text
                self.advance()
                if isinstance(f, Adjustable) and name in f.options:
                    options[name] = self.integer()
                else:
                    sizes[name] = Idx((yield from call(self.affine())))
            else:
                p = f.params[len(given)] if len(given) < len(f.params) else None
                given.append((yield from call(self._argument(p))))
            if not self.accept(","):
                break
        self.expect(")", "an operator, ',' or ')'")
        try:
            if isinstance(f, Adjustable):
                lengths = {p.name: axes(value) for p, value in zip(f.params, given, strict=False)}
                chosen = f.at(lengths, options)
            else:
                chosen = f
            result = call_on_terms(chosen, tuple(given), dict(sizes))
        except TensorlangError as error:
            error.place = self.span(token.start)
            named = (
                "".join(f", {name}={value}" for name, value in f.options.items()) if isinstance(f, Adjustable) else ""
            )
            error.hint = error.hint or f"{f.name}({', '.join(f'{p.name}: {type_text(p)}' for p in f.params)}{named})"
            raise
        e = chosen.body if result is NotImplemented else as_term(result).expr
        return self._piece(e, token.start)

    def _routine(self, token: Token, routine: Routine) -> Deep[_Piece]:
        """A call of a whole function whose adjoint is declared."""
        self.expect("(")
        arguments: list[Expr] = []
        while self.token.kind != ")":
            piece: _Piece = yield from call(self._expression())
            self._need_value(piece, "an argument")
            arguments.append(piece.expr)
            if not self.accept(","):
                break
        self.expect(")", "an operator, ',' or ')'")
        try:
            return self._piece(Apply(routine, tuple(arguments)), token.start)
        except TypeMismatch as error:
            raise error.at(self.span(token.start)) from None

    def _argument(self, p: Parameter | None) -> Deep[Surface]:
        """What is given for the parameter `p` of another program."""
        named = self.scope.get(self.token.text) if self.token.kind == "name" else None
        if isinstance(p, Relation) and isinstance(named, Relation):
            self.advance()
            return Rel(named)
        if isinstance(p, IndexArray):
            if isinstance(named, IndexArray) and self.peek() in (",", ")"):
                self.advance()
                return Indices(named, ()) if named.sizes else Idx(atom_affine(Lookup(named, ())))
            return Idx((yield from call(self.affine())))
        piece: _Piece = yield from call(self._expression())
        self._need_value(piece, "an argument")
        return Term(piece.expr)

    def _call(self, token: Token) -> Deep[_Piece]:
        if token.text in self.programs or token.text not in functions():
            named = self.scope.get(token.text)
            routine = known_routine(token.text) if token.text != self.defined else None
            program = self.programs.get(token.text)
            if program is None and routine is None and self.uses_library:
                program = library().get(token.text)
            if named is None and program is not None:
                called: _Piece = yield from call(self._program(token, program))
                return called
            if named is None and routine is not None:
                made: _Piece = yield from call(self._routine(token, routine))
                return made
            if named is not None:
                self.variable(token)
                hint = f"an element is written {token.text}[i]; a product is written with *"
                raise ScalarFunctionError(f"{token.text} is a value, not a function", self.place(token), hint)
            if token.text == self.defined:
                hint_known: str | None = "no program calls itself: a loop is a fold, fold t:n with s = 0 . s + x[t]"
            else:
                known = [*self.programs, *functions(), *routine_names(), "pow", "real", *library()]
                hint_known = self.meant(token) or did_you_mean(token.text, known)
            hint_known = hint_known or "programs that are called stand above; tl.scalar_function registers functions"
            raise ScalarFunctionError(f"no scalar function is called {token.text}", self.place(token), hint_known)
        self.advance()
        arguments: list[_Piece] = []
        while True:
            arguments.append((yield from call(self._expression())))
            if not self.accept(","):
                break
        self.expect(")", "an operator, ',' or ')'")
        f = function(token.text)
        if len(arguments) != f.arity:
            plural = "" if f.arity == 1 else "s"
            message = f"{f.name} takes {f.arity} argument{plural}, found {len(arguments)}"
            raise TypeMismatch(message, self.span(token.start), self._arguments_hint(f.name, arguments))
        whole = [self._shown(argument) for argument in arguments]
        form = f"{f.name}({', '.join(['{}'] * f.arity)})"
        for argument in arguments:
            self._need_number(argument, f"an argument of {f.name}", form, *whole)
        return self._piece(application(f.name, *(a.expr for a in arguments)), token.start)

    def _integer(self, token: Token) -> Deep[_Piece]:
        """`real(a)`, from the parenthesis on."""
        self.expect("(")
        if self.token.kind == ")":
            raise self.unexpected("an index expression", "real(2*i + 1) is the number that 2*i + 1 is")
        value: Affine = yield from call(self.affine())
        self.expect(")", "an operator of index expressions or ')'")
        return self._piece(said((value,), real), token.start)

    def _power(self, token: Token) -> Deep[_Piece]:
        self.expect("(")
        base: _Piece = yield from call(self._expression())
        self.expect(",", "',' and an exponent")
        exponent: _Piece = yield from call(self._expression())
        self.expect(")", "an operator or ')'")
        return self._raised(base, exponent, "pow", token)

    def _variable_power(self, base: _Piece, token: Token) -> Deep[_Piece]:
        exponent: _Piece = yield from call(self._atom_expression())
        while self.token.kind == "[":
            exponent = yield from call(self._access(exponent))
        return self._raised(base, exponent, "^", token)

    def _raised(self, base: _Piece, exponent: _Piece, what: str, token: Token) -> _Piece:
        self._need_number(base, f"the base of {what}")
        self._need_number(exponent, f"the exponent of {what}")
        if isinstance(exponent.expr, Const):
            place = self.span(exponent.start, exponent.end)
            return self._piece(raise_to(base.expr, _limited(exponent.expr.value, place)), token.start)
        return self._piece(application("power", base.expr, exponent.expr), token.start)

    def _exponent(self) -> Fraction:
        start = self.token.start
        sign = -1 if self.accept("-") else 1
        if self.token.kind != "number" or not self.token.text.isdigit():
            meant = "x ^ 2, x ^ y, or pow(e, 3/2)"
            raise self.unexpected("an integer exponent", meant)
        exponent = sign * Fraction(self.advance().text)
        return _limited(exponent, self.span(start))

    def _parenthesis(self) -> Deep[_Piece]:
        token = self.advance()
        first: _Piece = yield from call(self._expression())
        if not self.accept(","):
            self.expect(")", "an operator, ',' or ')'")
            return self._piece(first.expr, token.start)
        self._need_value(first, "a part of a pair")
        second: _Piece = yield from call(self._expression())
        self._need_value(second, "a part of a pair")
        if self.token.kind == ",":
            raise self.unexpected("')'", "a pair has two parts, which may be pairs: (a, (b, c))")
        self.expect(")", "an operator or ')'")
        return self._piece(MakePair(first.expr, second.expr), token.start)

    def _access(self, array: _Piece) -> Deep[_Piece]:
        self.advance()
        self._need_value(array, "what is accessed")
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
        return self._piece(e, array.start)

    def _element(self, array: _Piece, at: list[tuple[Affine, int]], place: Span) -> Expr:
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

    def _bracket(self) -> Deep[_Piece]:
        token = self.advance()
        p = yield from call(self.predicate())
        self.expect("]", "`and`, `or` or ']'")
        if not self.accept("*"):
            return self._piece(Bracket(p, number(1)), token.start)
        body: _Piece = yield from call(self._arithmetic(product=True))
        return self._piece(Bracket(p, body.expr), token.start)

    def _if(self) -> Deep[_Piece]:
        """`if c then a else b`: [c] * a + [not c] * b."""
        token = self.advance()
        p = yield from call(self.predicate())
        self.expect("then", "`and`, `or` or `then`")
        held: _Piece = yield from call(self._expression())
        self._need_number(held, "what follows `then`")
        if self.token.kind != "else":
            raise self.unexpected(
                "an operator or `else`", "both sides are said: if x > 0 then a else b; [x > 0] * a is 0 elsewhere"
            )
        self.advance()
        other: _Piece = yield from call(self._expression())
        self._need_number(other, "what follows `else`")
        q = opposite(p, self.holds)
        return self._piece(Add(bracket(p, held.expr), bracket(q, other.expr), 1), token.start)

    def _negation(self) -> Deep[_Piece]:
        token = self.advance()
        if self.token.kind == "number" and self.peek() not in ("^", "["):
            digits = self.advance()
            return self._piece(number(-Fraction(digits.text)), token.start, literal=True)
        body: _Piece = yield from call(self._operand())
        self._need_number(body, "the operand of -", "-{}", self._shown(body))
        return self._piece(Mul(number(-1), body.expr), token.start)

    def _let(self) -> Deep[_Piece]:
        token = self.advance()
        name = self.expect("name", "the name of a variable")
        self.expect("=", "'=' and an expression")
        self.defining.append(name.text)
        value: _Piece = yield from call(self._expression())
        self.defining.pop()
        if self.token.kind != "in":
            goes_on = self.token.kind in ("name", "number", "(", "let", "gen", "sum", "end", "=")
            hint = f"`in` ends the value: let {name.text} = e in .." if goes_on else None
            raise self.unexpected("an operator or `in`", hint)
        self.advance()
        sizes, element = shape(value.expr.type)
        kind = value.expr.type
        var = IndexArray(name.text, sizes, element.size) if isinstance(element, IndexType) else Var(name.text, kind)
        outer = self.bind(name, var)
        body: _Piece = yield from call(self._expression())
        self.restore(name.text, outer)
        return self._piece(Let(var, value.expr, body.expr), token.start)

    def _binder(self) -> Deep[_Piece]:
        token = self.advance()
        binders, where, body = yield from call(self._range(token))
        if token.kind == "gen":
            return self._piece(gen(binders, body.expr), token.start)
        self._need_number(body, "the body of sum")
        e = body.expr if where is TRUE else Bracket(where, body.expr)
        return self._piece(sums(binders, e), token.start)

    def _operator(self) -> Deep[_Piece]:
        """`grad x, y. e` and its like; `derivative x = dx. e` has differentials, `adjoint x with c. e` a cotangent."""
        token = self.advance()
        wrt: list[Var] = []
        seeds: list[_Piece] = []
        while True:
            wrt.append(self._differentiable(self.expect("name", "the name of a variable"), wrt))
            if token.text == "derivative":
                self.expect("=", f"'=' and how {wrt[-1].name} changes")
                seeds.append((yield from call(self._expression())))
            if not self.accept(","):
                break
        if token.text == "adjoint":
            if self.token.text != "with":
                raise self.unexpected("',' or `with`", f"the cotangent of e: adjoint {wrt[0].name} with c. e")
            self.advance()
            seeds.append((yield from call(self._expression())))
        if self.token.kind != ".":
            raise self.unexpected(
                "an operator, ',' or '.'", f"what is differentiated follows a point: {token.text} x. e"
            )
        self.advance()
        asked = dict(self.conditions)
        body: _Piece = yield from call(self._expression())
        self._need_value(body, f"the body of {token.text}")
        if token.text in OF_NUMBERS:
            self._need_number(body, f"the body of {token.text}", f"{token.text} {wrt[0].name}. {{}}", self._shown(body))
        e = self._with_conditions(body.expr, {k: v for k, v in self.conditions.items() if k not in asked})
        self.conditions = asked
        try:
            derived = derived_in_place(token.text, e, wrt, [seed.expr for seed in seeds])
        except TensorlangError as error:
            error.place = self.span(token.start)
            raise
        # the body is looked through for accesses that are out of bounds, and then left out
        self.looked_through.append(Var("e", e.type))
        return self._piece(Let(self.looked_through[-1], e, derived), token.start)

    def _differentiable(self, token: Token, others: list[Var]) -> Var:
        """The variable that `token` names, by which there are derivatives."""
        named = self.scope.get(token.text)
        if not isinstance(named, Var):
            self.variable(token)
            raise TypeMismatch(f"derivatives are by real variables, and {token.text} is none", self.place(token))
        if named in others:
            raise ScopeError(f"{token.text} stands here twice", self.place(token))
        return named

    def _with_conditions(self, e: Expr, found: Mapping[Any, tuple[IndexArray, Expr]]) -> Expr:
        """`e` with lets for the conditions on values that are asked in it."""
        if not found:
            return e
        asked = dict(found.values())
        made_under = {value: tuple(self.free(value)) for value in asked.values()}
        return share(e, made_under=made_under, choices=asked, shared=(Compared,))

    def _binds_time(self) -> bool:
        """Whether an index follows: `fold t:n`, or `fold reversed t:n`. Else it is a name like others."""
        ahead = [self.peek(k) for k in (1, 2, 3)]
        return ahead[:2] == ["name", ":"] or ahead == ["name", "name", ":"]

    def _recurrence(self) -> Deep[_Piece]:
        """`fold t:n with s = e0, r = e1 . e`, where `reversed t:n` goes from the last t to the first."""
        token = self.advance()
        hint = f"a state, its first value, and the step: {token.text} t:n with s = 0 . s + x[t]"
        backwards = self.token.text == "reversed" and self.peek() == "name" and self.accept("name")
        binders = yield from call(self.binders(token.text))
        if len(binders) > 1:
            message = f"a {token.text} has one index, the time"
            raise ParseError(message, self.place(binders[1][0]), f"one {token.text} in the step of another")
        if not (self.token.kind == "name" and self.token.text == "with"):
            raise self.unexpected("`with`", hint)
        self.advance()
        names: list[Token] = []
        inits: list[Expr] = []
        while True:
            names.append(self.expect("name", "the name of a state"))
            if names[-1].text in [name.text for name in names[:-1]]:
                raise ScopeError(f"this {token.text} has two states called {names[-1].text}", self.place(names[-1]))
            self.expect("=", "'=' and the first value of the state")
            value: _Piece = yield from call(self._expression())
            self._need_value(value, f"the first value of {names[-1].text}")
            inits.append(value.expr)
            if not self.accept(","):
                break
        ((_, index, size),) = binders
        states = [Var(name.text, e.type) for name, e in zip(names, inits, strict=True)]
        kept: Predicate | None = None
        if self.token.kind == "name" and self.token.text == "until":
            kept = yield from call(self._until(names, states))
        if self.token.kind != ".":
            raise self.unexpected("an operator, `until`, ',' or '.'", hint)
        self.advance()
        bound = self.bind_indices(binders)
        bound += [(name.text, self.bind(name, state)) for name, state in zip(names, states, strict=True)]
        step: _Piece = yield from call(self._expression())
        self.restore_all(bound)
        self._need_value(step, f"the step of a {token.text}")
        try:
            if kept is not None:
                step = replace(step, expr=kept_where(states, kept, opposite(kept, self.holds), step.expr))
            e = recurrence(token.text, index, size, states, inits, step.expr, bool(backwards))
        except TypeMismatch as error:
            raise error.at(self.span(step.start, step.end)) from None
        return self._piece(e, token.start)

    def _until(self, names: list[Token], states: list[Var]) -> Deep[Predicate]:
        """`until c`, from which on the states are kept. What `c` says of the time would not hold from then on."""
        self.advance()
        bound = [(name.text, self.bind(name, state)) for name, state in zip(names, states, strict=True)]
        found: Predicate = yield from call(self.predicate())
        self.restore_all(bound)
        return found

    def _reduction(self) -> Deep[_Piece]:
        """`max i:n where p. e`, and likewise min, argmax and argmin."""
        token = self.advance()
        binders, inside, body = yield from call(self._range(token))
        self._need_number(body, f"the body of {token.text}")
        sign = 1 if token.text.endswith("max") else -1
        where = self.lifted(binders, inside)
        if not token.text.startswith("arg"):
            return self._piece(extremum(sign, binders, where, body.expr), token.start)
        if len(binders) != 1:
            message = f"{token.text} chooses one index, found {len(binders)} of them"
            hint = f"one after the other: {token.text} i:n. max j:m. A[i, j], and then j"
            raise TypeMismatch(message, self.span(token.start), hint)
        ((index, size),) = binders
        return self._piece(Choice(sign, index, size, where, body.expr), token.start)

    def _range(self, token: Token) -> Deep[tuple[list[tuple[Index, Affine]], Predicate, _Piece]]:
        """The binders, the condition and the body that follow the word `token`."""
        read = yield from call(self.binders(token.text))
        bound = self.bind_indices(read)
        where: Predicate = TRUE
        if self.token.kind == "where":
            if token.kind == "gen":
                raise self.unexpected("',' or '.'", "where a bracket is false there is 0: gen i:n. [p] * e")
            self.advance()
            where = yield from call(self.predicate())
            self.expect(".", "`and`, `or` or '.'")
        else:
            self.expect(".", "',' or '.'")
        body: _Piece = yield from call(self._expression() if token.kind == "gen" else self._arithmetic())
        self.restore_all(bound)
        return [(index, size) for _, index, size in read], where, body

    def _quotient(self, numerator: _Piece, denominator: Token) -> _Piece:
        assert isinstance(numerator.expr, Const)
        divisor = Fraction(denominator.text)
        if not divisor:
            hint = "where a divisor may be zero, a bracket hides the quotient: [i != 0] * (x / y)"
            raise ParseError("a number is divided by zero", self.span(numerator.start), hint)
        return self._piece(number(numerator.expr.value / divisor), numerator.start)

    def _piece(self, e: Expr, start: int, literal: bool = False) -> _Piece:
        return _Piece(e, start, self.last_end(), literal)

    def _need_numbers(self, left: _Piece, operator: str, right: _Piece) -> None:
        if left.expr.type is R and right.expr.type is R:
            return
        form, whole = f"{{}} {operator} {{}}", (self._shown(left), self._shown(right))
        self._need_number(left, f"the left side of {operator}", form, *whole)
        self._need_number(right, f"the right side of {operator}", form, *whole)

    def _need_number(self, piece: _Piece, what: str, form: str = "", *whole: tuple[str, tuple[Affine, ...]]) -> None:
        """Raise `TypeMismatch` unless `piece` is a number; it is used in the `form` of the pieces `whole`."""
        kind = piece.expr.type
        if kind is R:
            return
        self._need_value(piece, what)
        sizes, element = shape(kind)
        hint = None
        if isinstance(kind, Pair):
            hint = "the parts of a pair p are fst(p) and snd(p)"
        elif form and element is R:
            hint = elementwise(form, whole, self.scope)
        elif sizes:
            text, axes = self._shown(piece)
            hint = f"an element of it: {text}[{', '.join(letters(len(axes), self.scope))}]"
        message = f"{what} must be a number, found a value of type {kind}"
        raise TypeMismatch(message, self.span(piece.start, piece.end), hint)

    def _shown(self, piece: _Piece) -> tuple[str, tuple[Affine, ...]]:
        """The text of `piece`, if it is short, and its axes."""
        text = self.text[piece.start : piece.end]
        return text if len(text) <= _SHORT and "\n" not in text else "x", shape(piece.expr.type)[0]

    def _arguments_hint(self, name: str, arguments: list[_Piece]) -> str:
        shown = [self._shown(argument) for argument in arguments]
        if name in REDUCTIONS and len(arguments) == 1 and (sizes := shown[0][1]):
            return f"{name} i:{sizes[0]}. {shown[0][0]}[i]"
        if name in REDUCTIONS and len(arguments) > 2:
            return f"{name}({shown[0][0]}, {name}({shown[1][0]}, {shown[2][0]}))"
        return f"{name}({', '.join('abc'[: function(name).arity])})"

    def _access_hint(self, array: _Piece, e: Expr) -> str | None:
        text, sizes = self._shown(array)
        if isinstance(e.type, Pair):
            return f"the parts of a pair: fst({text}), snd({text})" if e is array.expr else "fst(e), snd(e)"
        if e is array.expr:
            return "a product is written with *: e * [p]"
        return f"an element of it: {text}[{', '.join(letters(len(sizes), ()))}]"

    def _need_value(self, piece: _Piece, what: str) -> None:
        if of_indices(piece.expr.type):
            found = "a comparison" if isinstance(piece.expr, Compared) else "an index"
            message = f"{what} must be a value, found {found}, of type {piece.expr.type}"
            hint = VALUE_CONDITION if isinstance(piece.expr, Compared) else INDEX_HINT
            raise TypeMismatch(message, self.span(piece.start, piece.end), hint)


def _limited(exponent: Fraction, place: Span) -> Fraction:
    if abs(exponent) < EXPONENT_LIMIT:
        return exponent
    raise LimitError(f"an exponent is less than {EXPONENT_LIMIT}", place)
