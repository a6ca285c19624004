"""Text to programs; `tensorlang.surface.syntax` has the grammar.

Names are resolved and types are checked while the text is read, so every error has its place. Readers extend one
another: tokens (`reader`), index expressions and predicates (`conditions`), types (`declarations`), then `pieces`,
`calls`, `binding_forms` and `expressions`, and definitions here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.budget import limited
from tensorlang.errors import (
    ParseError,
    ScopeError,
    Span,
    TensorlangError,
)
from tensorlang.language.affine import Size
from tensorlang.language.function import Function, Parameter
from tensorlang.language.functions import KEYWORDS
from tensorlang.language.grammar import (
    Var,
)
from tensorlang.language.recurrence import straight
from tensorlang.language.special import BUILT_IN
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.check import check
from tensorlang.surface.expressions import ExpressionReader
from tensorlang.surface.lex import Token
from tensorlang.surface.library import TEXT
from tensorlang.surface.mistakes import VALUE_CONDITION
from tensorlang.surface.operators import without_lets
from tensorlang.surface.options import adjustable
from tensorlang.surface.pieces import Piece
from tensorlang.surface.scalar_text import ScalarReader, ScalarText


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
    """The program defined by a text that was printed from one. Its accesses, which may be in bounds only from size 1
    on, are not checked again. Otherwise raises what `parse` raises."""
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
    """The programs of a text, and those among them that are functions of numbers."""
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


class _Parser(ExpressionReader):
    def __init__(self, text: str, source: str) -> None:
        super().__init__(text, source)
        self.programs: dict[str, Function] = {}
        self.scalars: dict[str, ScalarText] = {}
        self.defined = ""
        self.looked_through: list[Var] = []

    def library(self) -> Mapping[str, Function]:
        """The library, except in its own text."""
        return library() if self.source != "lib.tl" else {}

    def definition(self, name: Token) -> Deep[Function]:
        """The definition of `name`, from after its name on."""
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
        body: Piece = yield from call(self.expression())
        if self.token.kind != "end" and not self._at_definition():
            meant = VALUE_CONDITION if self.token.kind in ("=", "<", ">", "<=", ">=", "!=") else None
            raise self.unexpected("an operator or the end of the definition", meant)
        self.need_value(body, f"the value of {name.text}")
        e = self.with_conditions(body.expr, self.conditions)
        self.conditions = {}
        declared = tuple(p for p in params.values() if isinstance(p, Size))
        made = Function(name.text, tuple(p for p in params.values() if not isinstance(p, Size)), straight(e))
        return replace(made, further=tuple(size for size in declared if size not in made.sizes))

    def _at_definition(self) -> bool:
        """Whether the current token begins `name()` or `name(param: `, which can't continue an expression."""
        if self.at_scalar():
            return True
        ahead = [self.token.kind, *(self.peek(k) for k in (1, 2, 3))]
        return ahead[:3] == ["name", "(", ")"] or ahead == ["name", "(", "name", ":"]

    def at_scalar(self) -> bool:
        """Whether the current token begins the definition of a function of numbers."""
        return self.token.text == "scalar" and self.peek() == "name" and self.peek(2) == "("
