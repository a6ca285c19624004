"""The types of parameters, as they are read from text. They bring the names of sizes into scope."""

from __future__ import annotations

from tensorlang.errors import TypeMismatch
from tensorlang.language.affine import Affine, IndexArray, Size
from tensorlang.language.function import did_you_mean
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Array, BoundedIndex, Pair, R, Type, of_indices, shape
from tensorlang.recursion import Deep, call
from tensorlang.surface.conditions import ConditionReader
from tensorlang.surface.lex import Token


class DeclarationReader(ConditionReader):
    """Reads the `type` of the grammar."""

    def parameter(self, name: Token) -> Deep[Var | Relation | IndexArray | Size]:
        """The parameter called `name`, from its type on; a size is given by name."""
        if self.token.kind == "name" and self.token.text == "size":
            self.advance()
            return Size(name.text)
        if self.token.kind == "rel":
            relation: Relation = yield from call(self._relation(name))
            return relation
        kind: Type = yield from call(self.type())
        sizes, element = shape(kind)
        return IndexArray(name.text, sizes, element.size) if isinstance(element, BoundedIndex) else Var(name.text, kind)

    def type(self) -> Deep[Type]:
        """The type of a value."""
        token = self.token
        if self.accept("R"):
            return R
        if self.accept("idx"):
            self.expect("(", "'(' and the number of values that the indices have")
            size = yield from call(self._declared_size())
            self.expect(")", "an operator or ')'")
            return BoundedIndex(size)
        if self.accept("("):
            first = yield from call(self._part())
            self.expect(",", "',' and the type of the second part")
            second = yield from call(self._part())
            if self.token.kind == ",":
                raise self.unexpected("')'", "a pair has two parts, which may be pairs: (R, (R, R))")
            self.expect(")")
            return Pair(first, second)
        if self.accept("["):
            size = yield from call(self._declared_size())
            self.expect("]", "an operator or ']'")
            if self.token.kind == "rel":
                raise self.unexpected("the type of an element", "a relation is a parameter of its own: r: rel(n, m)")
            return Array(size, (yield from call(self.type())))
        raise self.unexpected("a type: R, [n]R, (R, R) or [n]idx(m)", _type_hint(token))

    def _part(self) -> Deep[Type]:
        """The type of one part of a pair."""
        start = self.token.start
        kind: Type = yield from call(self.type())
        if of_indices(kind):
            hint = "an index array is a parameter of its own: y: [n]idx(m)"
            raise TypeMismatch(f"a part of a pair is a value, found the type {kind}", self.span(start), hint)
        return kind

    def _relation(self, name: Token) -> Deep[Relation]:
        """The relation called `name`, from the word `rel` on."""
        self.advance()
        self.expect("(", "'(' and the sizes of the relation")
        sizes: list[Affine] = []
        while True:
            sizes.append((yield from call(self._declared_size())))
            if not self.accept(","):
                break
        self.expect(")", "',' or ')'")
        return Relation(name.text, tuple(sizes))

    def _declared_size(self) -> Deep[Affine]:
        """A size in a parameter's type, where a new name becomes that of a size."""
        token, ahead = self.token, self.position
        if token.kind == "]":
            raise self.unexpected("a size", "an array's type says its size: [n]R")
        while self.tokens[ahead].kind not in ("]", ",", ":", "=", "end"):
            candidate = self.tokens[ahead]
            if candidate.kind == "name" and candidate.text not in self.scope:
                self.bind(candidate, Size(candidate.text))
            ahead += 1
        size: Affine = yield from call(self.size())
        if size.is_constant and size.constant < 0:
            message = f"expected a size, which is at least 0, found {size}"
            raise TypeMismatch(message, self.span(token.start), "[n]R is an array of n numbers, counted from 0")
        return size


def _type_hint(token: Token) -> str | None:
    if token.kind == "name":
        close = did_you_mean(token.text, ["R", "rel"])
        if token.text in ("int", "Int", "index", "Index"):
            return "indices that are less than m are of the type idx(m)"
        if token.text.lower() in ("bool", "boolean", "mask"):
            return "what holds or not is a relation, r: rel(n), with [r(i)] * e; or numbers 0 and 1, [n]R"
        if token.text.lower() in ("vector", "matrix", "array", "tensor", "list"):
            return "an array's type says its sizes: [n]R, [n][m]R"
        if token.text in ("r", "real", "Real", "float", "number", "double") or close:
            return "the type of numbers is R"
    if token.kind == "rel":
        return "a relation is a parameter of its own: r: rel(n, m)"
    return None
