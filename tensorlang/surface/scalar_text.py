"""Functions of numbers in text: `scalar f(x, k: int) = ..`, in the form that `str` of a `tl.scalar` function has.

    block = "let" names "=" block "in" block
          | "if" condition "then" block "else" block
          | "loop" name "=" number, .. ["at" "most" integer "times"] "while" block "do" block
          | values

A loop carries its names from trip to trip: `do` gives the next values, as long as `while` is true; its value is the
last ones. If it would have more trips than allowed, all results are nan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from tensorlang.errors import ParseError, ScopeError, Span, TypeMismatch
from tensorlang.language.function import Function, did_you_mean
from tensorlang.language.functions import KEYWORDS, functions
from tensorlang.language.grammar import Var
from tensorlang.language.recurrence import paired
from tensorlang.language.types import R
from tensorlang.recursion import Deep, call
from tensorlang.scalars.code import Code, FreshNames, If, Op, Stmt, Value, While, defined
from tensorlang.scalars.flags import with_flags, without_flags
from tensorlang.scalars.ops import COMPARISONS, LOGIC, WHOLE, as_power, types
from tensorlang.surface.lex import Token
from tensorlang.surface.loop_terms import as_terms
from tensorlang.surface.loops import ReadFunction
from tensorlang.surface.reader import Reader
from tensorlang.surface.scope import Binder, Definition, current
from tensorlang.surface.share import share
from tensorlang.surface.terms import Term

MODES = ("auto", "dual", "reverse")
_WORDS = ("loop", "while", "do", "at", "most", "times", "true", "false", "nan", "inf")
_OPERATORS: tuple[tuple[str, ...], ...] = (("or",), ("and",), (), ("<", "<=", "=", "!=", ">", ">="), ("+", "-"))
_CONSTANTS: dict[str, Value] = {"true": True, "false": False, "nan": float("nan"), "inf": float("inf")}
_RESERVED = ("jnp", "jax", "lax", "real", "one", "on", "kept", "state")
"""Names of generated code."""


@dataclass(frozen=True)
class ScalarText:
    """A function of numbers that a text defines, and how its derivatives are computed."""

    code: Code
    mode: str

    @property
    def program(self) -> Function:
        """The function as a program of numbers."""
        code = self.code
        definition = Definition(code.name)
        params = tuple(Var(p, R) for p in code.params)
        token = current.set(definition)
        try:
            binders = [frozenset({Binder(p.name, "a parameter", definition)}) for p in params]
            found = as_terms(ReadFunction(code, tuple(map(Term, params, binders))), self.mode)
        finally:
            current.reset(token)
        results = found if isinstance(found, tuple) else (found,)
        whole = share(paired([x.expr for x in results]), {}, definition.made_under, definition.choices)
        return Function(code.name, params, whole, (None,) * len(results) if len(results) > 1 else None)


class ScalarReader(Reader):
    """Reads definitions of functions of numbers, from the position of `outer`; `scalars` are those known already."""

    def __init__(self, outer: Reader, scalars: Mapping[str, ScalarText]) -> None:
        self.text, self.source, self.tokens = outer.text, outer.source, outer.tokens
        self.position, self.token = outer.position, outer.token
        self.scope, self.defining = {}, []
        self.scalars = scalars
        self._reading = _Reading("")

    def scalar(self) -> Deep[ScalarText]:
        """A definition, from the name on."""
        name = self.expect("name", "the name of a function of numbers")
        self._reading = _Reading(name.text)
        self.expect("(", f"'(' and the parameters of {name.text}")
        env: dict[str, Value] = {}
        whole: set[str] = set()
        while self.token.kind != ")":
            token = self._new_name("a parameter" if not env else "the name of a parameter")
            if token.text in env:
                hint = f"another name for one of them: {token.text}1"
                raise ScopeError(f"{name.text} has two parameters called {token.text}", self.place(token), hint)
            if self.accept(":"):
                if self.token.text != "int":
                    raise self.unexpected("int", "parameters are numbers; those with `: int` are whole")
                self.advance()
                whole.add(token.text)
            env[token.text] = token.text
            self._reading.taken.add(token.text)
            if not self.accept(","):
                break
        self.expect(")", "',' or ')'")
        if not env:
            raise ParseError(f"{name.text} has no parameters", self.place(name), "a constant needs no function")
        mode = self._mode()
        self.expect("=", "'=' and a number")
        params = tuple(env)
        out: list[Stmt] = []
        results: list[Value] = yield from call(self._block(env, out))
        code = without_flags(Code(name.text, params, tuple(out), tuple(results), frozenset(whole)))
        self._check(code)
        return ScalarText(with_flags(code), mode)

    def _mode(self) -> str:
        if self.token.text != "by":
            return "auto"
        self.advance()
        token = self.expect("name", "dual or reverse")
        if token.text not in MODES:
            raise ParseError(f"derivatives are computed by dual or reverse, found {token.text}", self.place(token))
        return token.text

    def _new_name(self, what: str) -> Token:
        token = self.expect("name", what)
        if token.text in _WORDS or token.text in KEYWORDS or token.text in functions():
            hint = f"another name, such as {token.text}0"
            raise ScopeError(f"{token.text} means something else", self.place(token), hint)
        return token

    # blocks

    def _block(self, env: dict[str, Value], out: list[Stmt]) -> Deep[list[Value]]:
        """The values of a block, whose statements are added to `out`."""
        found: list[Value]
        env = dict(env)
        while self.token.kind == "let":
            self.advance()
            tokens = [self._new_name("a name")]
            while self.accept(","):
                tokens.append(self._new_name("a name"))
            self.expect("=", "'=' and a value")
            start = self.token
            found = yield from call(self._block(env, out))
            if len(found) != len(tokens):
                message = f"expected {_many(len(tokens))}, found {_many(len(found))}"
                raise TypeMismatch(message, self.span(start.start))
            for token, v in zip(tokens, found, strict=True):
                env[token.text] = self._named(token.text, v, out)
            self.expect("in", "an operator or 'in'")
        if self.token.kind == "if":
            found = yield from call(self._if(env, out))
            return found
        if self.token.text == "loop" and self.peek() == "name":
            found = yield from call(self._loop(env, out))
            return found
        found = yield from call(self._values(env, out))
        return found

    def _named(self, name: str, v: Value, out: list[Stmt]) -> Value:
        """`v`, renamed to `name` if it has just been made."""
        reading = self._reading
        last = out[-1] if out else None
        fits = isinstance(v, str) and v in reading.fresh and last is not None and v in defined([last])
        if not fits or name in reading.taken or not _is_numbered(name):
            return v
        assert isinstance(v, str) and last is not None
        reading.fresh.discard(v)
        reading.taken.add(name)
        reading.places[name] = reading.places.pop(v, (0, 0))
        out[-1] = _renamed_out(last, v, name)
        return name

    def _if(self, env: dict[str, Value], out: list[Stmt]) -> Deep[list[Value]]:
        start = self.advance().start
        test: Value = yield from call(self._expression(env, out))
        self.expect("then", "an operator or 'then'")
        sides: list[tuple[list[Stmt], list[Value]]] = []
        for word in ("else", ""):
            own: list[Stmt] = []
            values: list[Value] = yield from call(self._block(env, own))
            sides.append((own, values))
            if word:
                self.expect("else", "an operator or 'else'")
        (then, thens), (otherwise, otherwises) = sides
        if len(thens) != len(otherwises):
            message = f"then gives {_many(len(thens))}, and else {_many(len(otherwises))}"
            raise TypeMismatch(message, self.span(start))
        outs = tuple(self._fresh("v", start) for _ in thens)
        out.append(If(test, tuple(then), tuple(otherwise), outs, tuple(thens), tuple(otherwises)))
        return list(outs)

    def _loop(self, env: dict[str, Value], out: list[Stmt]) -> Deep[list[Value]]:
        reading = self._reading
        start = self.advance().start
        own = dict(env)
        carried: list[str] = []
        inits: list[Value] = []
        while True:
            token = self._new_name("a name that the loop carries")
            self.expect("=", "'=' and its first value")
            inits.append((yield from call(self._level(4, env, out))))
            named = token.text if _is_numbered(token.text) and token.text not in reading.taken else ""
            carried.append(named or self._fresh(token.text, token.start))
            reading.taken.add(carried[-1])
            own[token.text] = carried[-1]
            if not self.accept(","):
                break
        bound = None
        if self.token.text == "at":
            for word in ("at", "most"):
                self._word(word)
            bound = self.integer()
            self._word("times")
        self._word("while")
        head: list[Stmt] = []
        tests: list[Value] = yield from call(self._block(own, head))
        if len(tests) != 1:
            raise TypeMismatch(f"while needs one condition, found {_many(len(tests))}", self.span(start))
        self._word("do")
        body: list[Stmt] = []
        nexts: list[Value] = yield from call(self._block(own, body))
        if len(nexts) != len(carried):
            message = f"the loop carries {_many(len(carried))}, and do gives {_many(len(nexts))}"
            raise TypeMismatch(message, self.span(start), "a tuple: do (a, b)" if len(carried) > 1 else None)
        outs = tuple(self._fresh(c, start) for c in carried)
        names = outs, tuple(carried), tuple(inits)
        out.append(While(*names, tuple(head), tests[0], tuple(body), tuple(nexts), bound))
        return list(outs)

    def _word(self, word: str) -> None:
        if self.token.text != word:
            raise self.unexpected(f"an operator or '{word}'")
        self.advance()

    def _values(self, env: dict[str, Value], out: list[Stmt]) -> Deep[list[Value]]:
        """An expression, or several in parentheses."""
        start = self.position
        if self.token.kind == "(":
            self.advance()
            mark = len(out)
            first: Value = yield from call(self._nested(env, out))
            if self.token.kind == ",":
                found = [first]
                while self.accept(","):
                    found.append((yield from call(self._nested(env, out))))
                self.expect(")", "an operator, ',' or ')'")
                return found
            # an expression that begins with a parenthesis: read anew as a whole
            del out[mark:]
            self.position = start
            self.token = self.tokens[start]
        value: Value = yield from call(self._expression(env, out))
        return [value]

    def _nested(self, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        """One number or condition in parentheses, which may be a block."""
        start = self.token
        if self.token.kind in ("let", "if") or (self.token.text == "loop" and self.peek() == "name"):
            found: list[Value] = yield from call(self._block(env, out))
            if len(found) != 1:
                raise TypeMismatch(f"expected one number, found {_many(len(found))}", self.span(start.start))
            return found[0]
        value: Value = yield from call(self._expression(env, out))
        return value

    # expressions

    def _expression(self, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        value: Value = yield from call(self._level(0, env, out))
        return value

    def _level(self, level: int, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        start = self.token.start
        made: Value
        if level == 2:
            if self.accept("not"):
                made = yield from call(self._level(2, env, out))
                return self._op("not", (made,), start, out)
            made = yield from call(self._level(3, env, out))
            return made
        if level == 5:
            made = yield from call(self._product(env, out))
            return made
        made = yield from call(self._level(level + 1, env, out))
        while self.token.kind in _OPERATORS[level]:
            kind = self.advance().kind
            other: Value = yield from call(self._level(level + 1, env, out))
            made = self._op("==" if kind == "=" else kind, (made, other), start, out)
            if level == 3:
                break
        return made

    def _product(self, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        start = self.token.start
        made: Value = yield from call(self._unary(env, out))
        while self.token.kind in ("*", "/", "//", "%"):
            f = self.advance().kind
            other: Value = yield from call(self._unary(env, out))
            made = self._op(f, (made, other), start, out)
        return made

    def _unary(self, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        start = self.token.start
        made: Value
        if self.accept("-"):
            literal = self.token.kind == "number" and self.peek() != "^"
            made = yield from call(self._unary(env, out))
            if literal and not isinstance(made, str):
                return -made
            return self._op("neg", (made,), start, out)
        made = yield from call(self._atom(env, out))
        if not self.accept("^"):
            return made
        sign = -1 if self.accept("-") else 1
        token = self.expect(
            "number",
            "a constant exponent",
        )
        exponent = sign * _number(token.text)
        exponent = int(exponent) if exponent == int(exponent) else exponent
        return as_power(made, exponent, lambda f, args: self._op(f, args, start, out))

    def _atom(self, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        token = self.token
        made: Value
        if token.kind == "number":
            self.advance()
            return _number(token.text)
        if self.accept("("):
            made = yield from call(self._nested(env, out))
            if self.token.kind == ",":
                raise self.unexpected("an operator or ')'", "several values stand alone: they are no number")
            self.expect(")", "an operator or ')'")
            return made
        if token.kind != "name" and token.text not in ("max", "min", "where"):
            raise self.unexpected("a number, a name or '('", "let and if stand at the beginning or in parentheses")
        if self.peek() == "(":
            made = yield from call(self._call(token, env, out))
            return made
        self.advance()
        if token.text in env:
            return env[token.text]
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        hint = did_you_mean(token.text, [*env, *_CONSTANTS])
        raise ScopeError(f"no number is called {token.text} here", self.place(token), hint)

    def _call(self, token: Token, env: dict[str, Value], out: list[Stmt]) -> Deep[Value]:
        self.advance()
        self.advance()
        arguments: list[Value] = []
        while True:
            arguments.append((yield from call(self._nested(env, out))))
            if not self.accept(","):
                break
        self.expect(")", "an operator, ',' or ')'")
        name, start = token.text, token.start
        known = {"where": 3, "trunc": 1} | {f: g.arity for f, g in functions().items() if g.shared is None}
        called = self.scalars.get(name)
        arity = len(called.code.params) if called is not None else known.get(name)
        if arity is None:
            hint = did_you_mean(name, [*self.scalars, *known])
            raise ScopeError(f"no function of numbers is called {name}", self.place(token), hint)
        if arity != len(arguments):
            plural = "" if arity == 1 else "s"
            message = f"{name} takes {arity} argument{plural}, found {len(arguments)}"
            raise TypeMismatch(message, self.span(start))
        if called is not None:
            return self._inlined(called.code, arguments, start, out)
        return self._op("select" if name == "where" else name, tuple(arguments), start, out)

    def _inlined(self, code: Code, arguments: Sequence[Value], start: int, out: list[Stmt]) -> Value:
        """The first result of a function defined before, inlined with fresh names."""
        if len(code.results) != 1:
            raise TypeMismatch(f"{code.name} gives {_many(len(code.results))}", self.span(start), "one that gives one")
        plain = without_flags(code)
        new: dict[str, Value] = dict(zip(code.params, arguments, strict=True))
        new |= {name: self._fresh(name, start) for name in sorted(defined(plain.body, True))}
        out += [_copied(s, new) for s in plain.body]
        return _value(code.results[0], new)

    def _op(self, f: str, args: tuple[Value, ...], start: int, out: list[Stmt]) -> Value:
        made = self._fresh("c" if f in COMPARISONS else "v", start)
        out.append(Op(made, f, args))
        return made

    def _fresh(self, like: str, start: int) -> str:
        reading = self._reading
        made = reading.names.new(like)
        while made in reading.taken or self._is_written(made):
            made = reading.names.new(like)
        reading.taken.add(made)
        reading.fresh.add(made)
        reading.places[made] = (start, self.last_end())
        return made

    def _is_written(self, name: str) -> bool:
        if self._reading.written is None:
            self._reading.written = {t.text for t in self.tokens if t.kind == "name"}
        return name in self._reading.written

    def _check(self, code: Code) -> None:
        """Raise `TypeMismatch` at the place of an operation on values of another kind."""
        kinds = types(code)

        def kind(v: Value) -> type:
            return kinds.get(v, float) if isinstance(v, str) else type(v)

        def refuse(name: str, message: str, hint: str | None = None) -> None:
            start, end = self._reading.places.get(name, (0, 1))
            raise TypeMismatch(message, Span(self.text, start, max(end, start + 1), self.source), hint)

        def block(statements: Sequence[Stmt]) -> None:
            for s in statements:
                match s:
                    case Op(out, f, args):
                        found = [kind(a) for a in args]
                        if f in LOGIC and any(k is not bool for k in found):
                            refuse(out, f"{f} joins conditions, found a number", "a comparison: x != 0")
                        if f == "select" and found[0] is not bool:
                            refuse(out, "where needs a condition first, found a number", "where(x > 0, a, b)")
                        if f not in (*LOGIC, "select", "copy") and bool in found:
                            hint = "where(c, 1, 0) is 1 where c holds"
                            refuse(out, "expected a number, found a condition", hint)
                        if f in WHOLE and f != "trunc" and float in found:
                            hint = "mod(a, b), and floor(a / b)"
                            refuse(out, f"{f} is of whole numbers", hint)
                    case If():
                        if kind(s.test) is not bool:
                            refuse(s.outs[0], "if needs a condition, found a number", "a comparison: x != 0")
                        for name, a, b in zip(s.outs, s.thens, s.otherwises, strict=True):
                            if (kind(a) is bool) != (kind(b) is bool):
                                refuse(name, "one side is a number and the other a condition")
                        block((*s.then, *s.otherwise))
                    case While():
                        if kind(s.test) is not bool:
                            refuse(s.outs[0], "while needs a condition, found a number", "a comparison: x != 0")
                        block((*s.head, *s.body))
                    case _:
                        pass

        block(code.body)
        for v in code.results:
            if kind(v) is bool:
                refuse(v if isinstance(v, str) else "", "a result is a number, found a condition", "where(c, 1, 0)")


class _Reading:
    """Facts about the definition that is being read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names = FreshNames(count(0))
        self.taken: set[str] = set(_RESERVED)
        self.fresh: set[str] = set()
        self.places: dict[str, tuple[int, int]] = {}
        self.written: set[str] | None = None


def _many(count: int) -> str:
    return "one value" if count == 1 else f"{count} values"


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)


def _is_numbered(name: str) -> bool:
    """Whether a name has the form of generated ones, with a number, which code needs for its own names."""
    stem, _, number = name.rpartition("_")
    return bool(stem) and number.isdigit()


def _value(v: Value, new: dict[str, Value]) -> Value:
    return new.get(v, v) if isinstance(v, str) else v


def _copied(s: Stmt, new: dict[str, Value]) -> Stmt:
    """A statement with other names, also for its results."""

    def v(x: Value) -> Value:
        return _value(x, new)

    def vs(xs: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(map(v, xs))

    def names(xs: Sequence[str]) -> tuple[str, ...]:
        return tuple(str(v(x)) for x in xs)

    def block(statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(_copied(x, new) for x in statements)

    match s:
        case Op(out, f, args):
            return Op(str(v(out)), f, vs(args))
        case If():
            return If(v(s.test), block(s.then), block(s.otherwise), names(s.outs), vs(s.thens), vs(s.otherwises))
        case While():
            return replace(
                s,
                outs=names(s.outs),
                carried=names(s.carried),
                inits=vs(s.inits),
                head=block(s.head),
                test=v(s.test),
                body=block(s.body),
                nexts=vs(s.nexts),
            )
        case _:
            raise AssertionError("what is defined has no derivative in it")


def _renamed_out(s: Stmt, old: str, new: str) -> Stmt:
    """A statement whose result `old` is called `new`."""
    if isinstance(s, Op):
        return replace(s, out=new)
    return replace(s, outs=tuple(new if x == old else x for x in s.outs))
