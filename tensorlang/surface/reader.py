"""The common base of the parser's readers: the tokens, the names in scope, and errors with their place."""

from __future__ import annotations

from tensorlang.errors import LimitError, ParseError, ScalarFunctionError, ScopeError, Span, TypeMismatch
from tensorlang.language.affine import Index, IndexArray, Size
from tensorlang.language.function import did_you_mean
from tensorlang.language.functions import functions
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.surface.lex import INTEGER_DIGITS, RESERVED, Token, hint_for, tokens
from tensorlang.surface.mistakes import hint_at

Named = Var | Index | Size | Relation | IndexArray
"""An object to which a name can be bound."""

_KINDS: dict[type, str] = {
    Var: "a variable",
    Index: "an index",
    Size: "a size",
    Relation: "a relation",
    IndexArray: "an index array",
}

REDUCTIONS = ("max", "min", "argmax", "argmin")
"""Words that are reductions before a binder, though they may be names elsewhere."""

_UNBINDABLE = frozenset(functions()) | {"pow"}
"""Names of scalar functions, and of syntax that looks like one. `real` is not among them, as programs bind it."""


def kind_of(named: Named) -> str:
    """The kind of `named`, in words."""
    return _KINDS[type(named)]


class Reader:
    """A position in the tokens of a text, and the meanings of the names in scope there."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.tokens = tokens(text, source)
        self.position = 0
        self.token = self.tokens[0]
        self.scope: dict[str, Named] = {}
        self.defining: list[str] = []  # the variables whose values are being read

    def advance(self) -> Token:
        """The current token; the next one becomes current."""
        token = self.token
        if token.kind != "end":
            self.position += 1
            self.token = self.tokens[self.position]
        return token

    def peek(self, ahead: int = 1) -> str:
        """The kind of the token that comes `ahead` tokens after the current one."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)].kind

    def accept(self, kind: str) -> bool:
        """Whether the current token is of that kind; if so, it is read."""
        if self.token.kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str, what: str = "") -> Token:
        """The current token, which must be of that kind. Raises `ParseError` otherwise."""
        if self.token.kind != kind:
            is_name = kind == "name" and self.token.kind in RESERVED and self.peek() != "("
            hint = f"{self.token.text} is a word of the language; {self.token.text}0 is a name" if is_name else None
            raise self.unexpected(what or f"'{kind}'", hint)
        return self.advance()

    def unexpected(self, expected: str, hint: str | None = None) -> ParseError:
        """The error that says what was expected in place of the current token."""
        hint = hint or hint_for(self.text, self.token) or hint_at(self.text, self.tokens, self.position)
        return ParseError(f"expected {expected}, found {self.token}", self.place(self.token), hint)

    def span(self, start: int, end: int | None = None) -> Span:
        """The text from `start` to `end`, by default to the last token that was read."""
        return Span(self.text, start, self.last_end() if end is None else end, self.source)

    def place(self, token: Token) -> Span:
        """The place of `token`."""
        return Span(self.text, token.start, max(token.end, token.start + 1), self.source)

    def last_end(self) -> int:
        """The end of the last token that was read."""
        return self.tokens[max(0, self.position - 1)].end

    def integer(self) -> int:
        """An integer. Raises `ParseError` at another number, `LimitError` at one of too many digits."""
        if self.token.kind == "number" and not self.token.text.isdigit():
            ends_range = self.peek() not in ("]", ",", ")")
            hint = (
                "a blank after the dot ends the integer: gen i:3. e" if "." in self.token.text and ends_range else None
            )
            raise self.unexpected("an integer", hint)
        token = self.expect("number", "an integer")
        if len(token.text) > INTEGER_DIGITS:
            message = f"an integer in an index or a size has at most {INTEGER_DIGITS} digits, found {len(token.text)}"
            raise LimitError(message, self.place(token))
        return int(token.text)

    def bind(self, token: Token, named: Named) -> Named | None:
        """Bind the name `token` to `named`; `restore` with the result undoes it.

        Raises `ScopeError` if it is bound to something of another kind, or is the name of a scalar function.
        """
        name = token.text
        if name in _UNBINDABLE or name in functions():
            message = f"{name} is a scalar function; {kind_of(named)} needs another name"
            raise ScopeError(message, self.place(token), f"such as {name}0")
        outer = self.scope.get(name)
        if outer is not None and type(outer) is not type(named):
            message = f"{name} is {kind_of(outer)} already; {kind_of(named)} needs another name"
            raise ScopeError(message, self.place(token), f"such as {name}0")
        self.scope[name] = named
        return outer

    def restore(self, name: str, outer: Named | None) -> None:
        """Undo `bind`."""
        if outer is None:
            del self.scope[name]
        else:
            self.scope[name] = outer

    def variable(self, token: Token) -> Var:
        """The variable to which the name `token` is bound. Raises a suitable error for anything else."""
        named = self.scope.get(token.text)
        match named:
            case Var():
                return named
            case Index() | Size():
                hint = f"its elements are those of an array: x[{token.text}]"
                message = f"expected a variable, found {kind_of(named)}, {token.text}"
            case IndexArray():
                read = _element(named)
                hint = f"its elements are indices: x[{read}], [{read} = 0]; as a number, real({read})"
                message = f"expected a value, found the index array {token.text}"
            case Relation():
                hint = f"a relation stands in a bracket: [{token.text}(i, j)] * e"
                message = f"expected a value, found the relation {token.text}"
            case _:
                if token.text in functions() or token.text == "pow":
                    message = f"{token.text} is a scalar function and needs its arguments"
                    reduces = token.text in REDUCTIONS
                    hint = f"{token.text}(a, b), or {token.text} i:n. e" if reduces else f"{token.text}(e)"
                    raise ScalarFunctionError(message, self.place(token), hint)
                meant = self.meant(token) or self.suggestion(token.text, Var)
                if token.text in self.defining:
                    meant = f"what reads its own elements is a recurrence: let {token.text} = scan t:n with s = 0 . .."
                raise ScopeError(f"no variable is called {token.text} here", self.place(token), meant)
        raise TypeMismatch(message, self.place(token), hint)

    def meant(self, token: Token) -> str | None:
        """A hint at what was probably meant by `token`, which was read before the current one."""
        return hint_at(self.text, self.tokens, self.tokens.index(token), unknown=True)

    def suggestion(self, name: str, *kinds: type) -> str | None:
        """A hint with a name in scope that is spelled similarly to `name`."""
        known = [known for known, named in self.scope.items() if isinstance(named, kinds)]
        return did_you_mean(name, known)


def _element(array: IndexArray) -> str:
    """The text of some element of an array of few axes."""
    return array.name + f"[{', '.join('ijklmn'[: len(array.sizes)])}]" * bool(array.sizes)
