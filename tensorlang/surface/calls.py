"""Calls in text: of programs, scalar functions, whole functions whose adjoints are declared, and powers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tensorlang.errors import (
    ScalarFunctionError,
    TensorlangError,
    TypeMismatch,
)
from tensorlang.language.affine import Affine, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function, Parameter, did_you_mean, type_text
from tensorlang.language.functions import call as application
from tensorlang.language.functions import function, functions, raise_to
from tensorlang.language.grammar import (
    Apply,
    Const,
    Expr,
    Routine,
    real,
)
from tensorlang.language.predicates import Relation
from tensorlang.language.routines import known as known_routine
from tensorlang.language.routines import names as routine_names
from tensorlang.recursion import Deep, call
from tensorlang.surface.inline import call_on_terms
from tensorlang.surface.lex import Token
from tensorlang.surface.lookups import Indices
from tensorlang.surface.options import Adjustable, axes
from tensorlang.surface.pieces import Piece, PieceReader, limited
from tensorlang.surface.quotients import said
from tensorlang.surface.reader import REDUCTIONS
from tensorlang.surface.scope import Surface
from tensorlang.surface.terms import Idx, Rel, Term, as_term


class CallReader(PieceReader):
    """Reads calls. `programs` are those defined above, which may be called; `defined` is the name being defined."""

    programs: dict[str, Function]
    defined: str

    def library(self) -> Mapping[str, Function]:
        """The programs that may be called though they are not in the text."""
        return {}

    def callable_names(self) -> Collection[str]:
        """The programs above, and those of the library."""
        return (*self.programs, *self.library())

    def named_call(self, token: Token) -> Deep[Piece]:
        """A call of the function that `token` names, from the parenthesis on."""
        if token.text in self.programs or token.text not in functions():
            named = self.scope.get(token.text)
            routine = known_routine(token.text) if token.text != self.defined else None
            program = self.programs.get(token.text)
            if program is None and routine is None:
                program = self.library().get(token.text)
            if named is None and program is not None:
                called: Piece = yield from call(self._program(token, program))
                return called
            if named is None and routine is not None:
                made: Piece = yield from call(self._routine(token, routine))
                return made
            if named is not None:
                self.variable(token)
                hint = f"an element is written {token.text}[i]; a product is written with *"
                raise ScalarFunctionError(f"{token.text} is a value, not a function", self.place(token), hint)
            if token.text == self.defined:
                hint_known: str | None = "no program calls itself: a loop is a fold, fold t:n with s = 0 . s + x[t]"
            else:
                known = [*self.programs, *functions(), *routine_names(), "pow", "real", *self.library()]
                hint_known = self.meant(token) or did_you_mean(token.text, known)
            hint_known = hint_known or (
                "programs that are called stand above, and functions of numbers, scalar f(x) = ..; those written in "
                "Python are called by programs that are, by tl.function"
            )
            raise ScalarFunctionError(f"no scalar function is called {token.text}", self.place(token), hint_known)
        self.advance()
        arguments: list[Piece] = []
        while True:
            arguments.append((yield from call(self.expression())))
            if not self.accept(","):
                break
        self.expect(")", "an operator, ',' or ')'")
        f = function(token.text)
        if len(arguments) != f.arity:
            plural = "" if f.arity == 1 else "s"
            message = f"{f.name} takes {f.arity} argument{plural}, found {len(arguments)}"
            raise TypeMismatch(message, self.span(token.start), self._arguments_hint(f.name, arguments))
        whole = [self.shown(argument) for argument in arguments]
        form = f"{f.name}({', '.join(['{}'] * f.arity)})"
        for argument in arguments:
            self.need_number(argument, f"an argument of {f.name}", form, *whole)
        return self.piece(application(f.name, *(a.expr for a in arguments)), token.start)

    def _program(self, token: Token, f: Function) -> Deep[Piece]:
        """A call of another program, whose body is inlined; sizes that no argument determines are named: `f(x,
        k=3)`."""
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
        return self.piece(e, token.start)

    def _routine(self, token: Token, routine: Routine) -> Deep[Piece]:
        """A call of a whole function whose adjoint is declared."""
        self.expect("(")
        arguments: list[Expr] = []
        while self.token.kind != ")":
            piece: Piece = yield from call(self.expression())
            self.need_value(piece, "an argument")
            arguments.append(piece.expr)
            if not self.accept(","):
                break
        self.expect(")", "an operator, ',' or ')'")
        try:
            return self.piece(Apply(routine, tuple(arguments)), token.start)
        except TypeMismatch as error:
            raise error.at(self.span(token.start)) from None

    def _argument(self, p: Parameter | None) -> Deep[Surface]:
        """The argument for the parameter `p` of another program."""
        named = self.scope.get(self.token.text) if self.token.kind == "name" else None
        if isinstance(p, Relation) and isinstance(named, Relation):
            self.advance()
            return Rel(named)
        if isinstance(p, IndexArray):
            if isinstance(named, IndexArray) and self.peek() in (",", ")"):
                self.advance()
                return Indices(named, ()) if named.sizes else Idx(atom_affine(Lookup(named, ())))
            return Idx((yield from call(self.affine())))
        piece: Piece = yield from call(self.expression())
        self.need_value(piece, "an argument")
        return Term(piece.expr)

    def integer_call(self, token: Token) -> Deep[Piece]:
        """`real(a)`, from the parenthesis on."""
        self.expect("(")
        if self.token.kind == ")":
            raise self.unexpected("an index expression", "real(2*i + 1) is the number that 2*i + 1 is")
        value: Affine = yield from call(self.affine())
        self.expect(")", "an operator of index expressions or ')'")
        return self.piece(said((value,), real), token.start)

    def power_call(self, token: Token) -> Deep[Piece]:
        """`pow(e, k)`, from the parenthesis on."""
        self.expect("(")
        base: Piece = yield from call(self.expression())
        self.expect(",", "',' and an exponent")
        exponent: Piece = yield from call(self.expression())
        self.expect(")", "an operator or ')'")
        return self.raised(base, exponent, "pow", token)

    def raised(self, base: Piece, exponent: Piece, what: str, token: Token) -> Piece:
        """A number to the power of another; `what` is its name in errors."""
        self.need_number(base, f"the base of {what}")
        self.need_number(exponent, f"the exponent of {what}")
        if isinstance(exponent.expr, Const):
            place = self.span(exponent.start, exponent.end)
            return self.piece(raise_to(base.expr, limited(exponent.expr.value, place)), token.start)
        return self.piece(application("power", base.expr, exponent.expr), token.start)

    def _arguments_hint(self, name: str, arguments: list[Piece]) -> str:
        shown = [self.shown(argument) for argument in arguments]
        if name in REDUCTIONS and len(arguments) == 1 and (sizes := shown[0][1]):
            return f"{name} i:{sizes[0]}. {shown[0][0]}[i]"
        if name in REDUCTIONS and len(arguments) > 2:
            return f"{name}({shown[0][0]}, {name}({shown[1][0]}, {shown[2][0]}))"
        return f"{name}({', '.join('abc'[: function(name).arity])})"
