"""Sizes, index expressions and predicates, as they are read from text."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from typing import Any

from tensorlang.errors import LimitError, ParseError, ScopeError, Span, TypeMismatch
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant, total
from tensorlang.language.functions import functions
from tensorlang.language.grammar import INDEX_HINT, Expr, Var, holds, type_of
from tensorlang.language.names import free_names
from tensorlang.language.predicates import (
    Exists,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    not_equal,
)
from tensorlang.language.rebuilt import without_places
from tensorlang.language.types import shape
from tensorlang.recursion import Deep, call
from tensorlang.surface.guards import compared, is_condition, lifted, opposite
from tensorlang.surface.lex import INTEGER_DIGITS, Token
from tensorlang.surface.mistakes import COMPUTED_PLACE, VALUE_CONDITION, in_access, letters, unclosed
from tensorlang.surface.quotients import HALVES, IndexQuotient, asked, quotient, remainder
from tensorlang.surface.reader import Named, Reader
from tensorlang.surface.words import WORDS

_COMPARISONS: dict[str, Callable[[Affine, Affine], Predicate]] = {
    "<": less,
    "<=": at_most,
    "=": equal,
    "!=": not_equal,
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: at_most(b, a),
}

_BOUND = 10**INTEGER_DIGITS

_ENDS = frozenset({"and", "or", ",", ".", ":", "then", "else", "in", "where", "not"})
"""The tokens that end a comparison, outside of all parentheses in it."""


def _name(conditions: Collection[object], scope: Collection[str]) -> str:
    """A name for a further condition, distinct from those of other conditions and from names in scope."""
    names = ("c" + str(k) * (k > 0) for k in count(len(conditions)))
    return next(name for name in names if name not in scope)


class ConditionReader(Reader):
    """Reads the `size`, `affine` and `pred` of the grammar.

    An opening parenthesis may begin a predicate or an index expression; which of the two becomes clear only later. So
    one method reads both, and returns one or the other.

    An unknown name in a binder's range is a size that occurs in no parameter's type, as in eye(n).
    """

    introduces_sizes = False

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text, source)
        self.conditions: dict[Expr, tuple[IndexArray, Expr]] = {}
        """The conditions on values in the definition that is being read, by their expressions without places."""
        self._plain_until = 0
        """No token before this one is a value."""
        self._closing: dict[int, int] = {}
        """The token that closes each opening parenthesis or bracket."""

    def number(self, what: str) -> Deep[Expr]:
        """An expression whose value is a number, up to a comparison; an error where no expressions are allowed."""
        raise self.unexpected("an index, a size or an integer")
        yield

    def affine(self) -> Deep[Affine]:
        """An index expression: an integer combination of indices, sizes and constants."""
        start = self.token.start
        value: Affine | Predicate = yield from call(self._combination())
        return self._as_affine(value, start)

    def size(self) -> Deep[Affine]:
        """An integer combination of sizes and constants."""
        start = self.token.start
        value: Affine = yield from call(self.affine())
        unfit = value.lookups or value.indices
        if unfit:
            raise TypeMismatch(
                f"expected a size, found the index {unfit[0].name} in it",
                self.span(start),
                HALVES
                if any(isinstance(i, IndexQuotient) for i in unfit)
                else "a bracket makes a range depend on an index: sum j:n. [j < i] * e",
            )
        return value

    def predicate(self) -> Deep[Predicate]:
        """A predicate, whose conditions on values are noted in `conditions`."""
        start = self.token.start
        value: Affine | Predicate = yield from call(self._formula())
        return self._as_predicate(value, start)

    def binders(self, what: str) -> Deep[list[tuple[Token, Index, Affine]]]:
        """`i:n, j:m` after the word `what`. None of the indices is in scope yet."""
        found: list[tuple[Token, Index, Affine]] = []
        names: set[str] = set()
        while True:
            token = self.expect("name", "the name of an index")
            if token.text in names:
                hint = f"another name for one of them: {token.text}1"
                raise ScopeError(f"this {what} binds {token.text} twice", self.place(token), hint)
            names.add(token.text)
            self.expect(":", "':' and a size")
            self.introduces_sizes = True
            size = yield from call(self.size())
            self.introduces_sizes = False
            found.append((token, Index(token.text, size=size), size))
            if not self.accept(","):
                break
        return found

    def is_size_of_range(self, token: Token) -> bool:
        """Whether a range further on shows that the unknown name `token` is a size: n / n * gen i:n. .."""
        if token.text in self.scope:
            return False
        in_range = False
        for k in range(self.position, len(self.tokens) - 1):
            kinds = [t.kind for t in self.tokens[k : k + 4]]
            if kinds[:2] == ["name", "("] and (kinds[2] == ")" or kinds[2:] == ["name", ":"]):
                return False  # the next definition
            if kinds[0] == ":":
                in_range = True
            elif kinds[0] in (".", "where", "=", "["):
                in_range = False
            elif in_range and kinds[0] == "name" and self.tokens[k].text == token.text and kinds[1] != ":":
                return True
        return False

    def bind_indices(self, binders: list[tuple[Token, Index, Affine]]) -> list[tuple[str, Named | None]]:
        """Bring the indices into scope; `restore_all` with the result undoes it."""
        return [(token.text, self.bind(token, index)) for token, index, _ in binders]

    def restore_all(self, bound: list[tuple[str, Named | None]]) -> None:
        """Undo `bind_indices`."""
        for name, outer in reversed(bound):
            self.restore(name, outer)

    def _formula(self) -> Deep[Affine | Predicate]:
        start = self.token.start
        alternatives: list[Affine | Predicate] = []
        while True:
            begin = self.token.start
            parts: list[Affine | Predicate] = []
            while True:
                at = self.token.start
                part: Affine | Predicate = yield from call(self._comparison())
                parts.append(part)
                if self.token.kind == "and" or len(parts) > 1:
                    self._as_predicate(part, at)
                if not self.accept("and"):
                    break
            whole = parts[0] if len(parts) == 1 else conjunction(self._as_predicate(p, begin) for p in parts)
            alternatives.append(whole)
            if self.token.kind == "or" or len(alternatives) > 1:
                self._as_predicate(whole, begin)
            if not self.accept("or"):
                break
        if len(alternatives) == 1:
            return alternatives[0]
        return disjunction(self._as_predicate(p, start) for p in alternatives)

    def _comparison(self) -> Deep[Affine | Predicate]:
        predicate: Predicate
        if self.token.kind == "exists":
            predicate = yield from call(self._exists())
            return predicate
        if self.accept("not"):
            start = self.token.start
            part: Affine | Predicate = yield from call(self._comparison())
            return opposite(self._as_predicate(part, start), self.holds)
        if self.token.kind == "name" and isinstance(self.scope.get(self.token.text), Relation):
            predicate = yield from call(self._related())
            return predicate
        if self._compares_values():
            predicate = yield from call(self._on_values())
            return predicate
        start = self.token.start
        left: Affine | Predicate = yield from call(self._combination())
        if self.token.kind not in _COMPARISONS:
            return left
        parts: list[Predicate] = []
        while self.token.kind in _COMPARISONS:
            below = self._as_affine(left, start)
            compare = _COMPARISONS[self.advance().kind]
            start = self.token.start
            left = yield from call(self._combination())
            parts.append(asked((below, self._as_affine(left, start)), compare))
        return conjunction(parts)

    def test(self, e: Expr) -> IndexArray:
        """The index array for the condition `e`."""
        key = without_places(e)
        if key not in self.conditions:
            sizes, _ = shape(e.type)
            self.conditions[key] = IndexArray(_name(self.conditions, self.scope), sizes, constant(2)), e
        return self.conditions[key][0]

    def holds(self, e: Expr) -> Predicate:
        """The predicate that the condition `e` on values holds."""
        return holds(self.test(e))

    def lifted(self, binders: list[tuple[Index, Affine]], p: Predicate) -> Predicate:
        """`p`, with conditions on values that depend on the indices of `binders` replaced by arrays outside of
        these."""
        bound = {index for index, _ in binders}
        inside = {array: e for array, e in self.conditions.values() if not bound.isdisjoint(self.free(e))}
        return lifted(binders, p, inside, self.test)

    def free(self, e: Expr) -> set[Any]:
        """The names bound outside of `e` on which it depends, directly or through other conditions."""
        found = set(free_names(e))
        by_array = dict(self.conditions.values())
        for named in tuple(found):
            if isinstance(named, IndexArray) and named in by_array:
                found |= self.free(by_array[named])
        return found

    def _on_values(self) -> Deep[Predicate]:
        """A comparison of numbers, or a chain of them."""
        parts: list[Predicate] = []
        left: Expr = yield from call(self.number("the left side of a comparison"))
        while self.token.kind in _COMPARISONS:
            operator = self.advance().kind
            right: Expr = yield from call(self.number(f"the right side of {operator}"))
            asked, wanted = compared(operator, left, right)
            p = self.holds(asked)
            parts.append(p if wanted else opposite(p, self.holds))
            left = right
        if not parts:
            raise self.unexpected("a comparison (<, <=, =, !=, >, >=)", VALUE_CONDITION)
        return conjunction(parts)

    def _compares_values(self) -> bool:
        """Whether the comparison that begins here is of values, as shown by some token in it outside of accesses."""
        if self.position < self._plain_until or (self.token.kind == "(" and not self._is_operand(self.position)):
            return False  # it is of indices, or a predicate in parentheses
        opened: list[bool] = []
        k = self.position
        for k in range(self.position, len(self.tokens) - 1):
            token = self.tokens[k]
            if token.kind in ("(", "["):
                is_access = k > 0 and self.tokens[k - 1].kind in ("name", "]", ")") and token.kind == "["
                if token.kind == "[" and not is_access and not any(opened):
                    return True
                opened.append(is_access)
            elif token.kind in (")", "]"):
                if not opened:
                    break
                opened.pop()
            elif not opened and token.kind in _ENDS:
                break
            elif not any(opened) and self._is_value(k):
                return True
        self._plain_until = k
        return False

    def _is_value(self, k: int) -> bool:
        """Whether the token at `k` occurs only in expressions of values."""
        token, after = self.tokens[k], self.tokens[k + 1].kind
        if token.kind == "number":
            return not token.text.isdigit()
        if token.kind != "name":
            return token.kind in ("/", "^", "fst", "snd", "sum", "let", "if")
        named = self.scope.get(token.text)
        if named is None:
            return self._is_function(token.text) if after == "(" else token.text in ("max", "min") and after == "name"
        return isinstance(named, Var)

    def _is_function(self, name: str) -> bool:
        return name in functions() or name in ("pow", "real") or name in self.callable_names()

    def callable_names(self) -> Collection[str]:
        """The names of the programs that can be called."""
        return ()

    def _is_operand(self, position: int) -> bool:
        """Whether the parenthesis that opens at `position` is an operand rather than a whole predicate."""
        if not self._closing:
            opened: list[int] = []
            for k, token in enumerate(self.tokens):
                if token.kind in ("(", "["):
                    opened.append(k)
                elif token.kind in (")", "]") and opened:
                    self._closing[opened.pop()] = k
        end = self._closing.get(position)
        return end is not None and self.tokens[end + 1].kind in (*_COMPARISONS, "+", "-", "*", "/", "//", "%", "^", "[")

    def _exists(self) -> Deep[Predicate]:
        self.advance()
        binders = yield from call(self.binders("exists"))
        self.expect(".", "',' or '.'")
        bound = self.bind_indices(binders)
        body: Predicate = yield from call(self.predicate())
        self.restore_all(bound)
        body = self.lifted([(index, size) for _, index, size in binders], body)
        for _, index, size in reversed(binders):
            body = Exists(index, size, body)
        return body

    def _related(self) -> Deep[Predicate]:
        token = self.advance()
        relation = self.scope[token.text]
        assert isinstance(relation, Relation)
        if self.token.kind != "(":
            hint = f"a relation is applied like a function: {token.text}({', '.join(letters(len(relation.sizes), ()))})"
            raise self.unexpected(f"'(' after the relation {token.text}", hint)
        self.advance()
        arguments: list[Affine] = []
        while True:
            arguments.append((yield from call(self.affine())))
            if not self.accept(","):
                break
        self.expect(")", "',' or ')'")
        if len(arguments) != len(relation.sizes):
            many = f"{len(relation.sizes)} {'index' if len(relation.sizes) == 1 else 'indices'}"
            message = f"{token.text} relates {many}, found {len(arguments)}"
            hint = f"{token.text}({', '.join(letters(len(relation.sizes), ()))})"
            raise TypeMismatch(message, self.span(token.start), hint)
        return asked(arguments, lambda *at: Related(relation, at))

    def _combination(self) -> Deep[Affine | Predicate]:
        """A sum of products; if it is just one parenthesis, its content, which may be a predicate."""
        start = self.token.start
        terms: list[tuple[Affine, int]] = []
        sign = 1
        while True:
            begin = self.token.start
            while self.accept("-"):
                sign = -sign
            signed = self.last_end() > begin
            product: Affine | Predicate = yield from call(self._atom())
            while self.token.kind in ("*", "//", "%"):
                left = self._as_affine(product, begin)
                operator = self.advance().kind
                if operator != "*":
                    product = self.divided(left, operator, begin)
                    continue
                factor_sign = 1
                while self.accept("-"):
                    factor_sign = -factor_sign
                at = self.token.start
                factor = yield from call(self._atom())
                product = self._product(left, self._as_affine(factor, at) * factor_sign, begin)
            operator = self.token.kind
            if operator in ("/", "^"):
                raise self.unexpected("an index expression, which has only +, -, and *, // and % by an integer")
            if operator not in ("+", "-") and not terms and not signed:
                return product
            terms.append((self._as_affine(product, begin), sign))
            if operator not in ("+", "-"):
                return self._limited(total(terms), start)
            sign = 1 if self.advance().kind == "+" else -1

    def _atom(self) -> Deep[Affine | Predicate]:
        token = self.token
        if token.kind == "(":
            self.advance()
            value: Affine | Predicate = yield from call(self._formula())
            self.expect(")", "an operator or ')'")
            return value
        if token.kind == "number":
            return constant(self.integer())
        if token.kind != "name":
            raise self.unexpected("an index, a size or an integer")
        self.advance()
        named = self.scope.get(token.text)
        if isinstance(named, Index | Size):
            return atom_affine(named)
        if isinstance(named, IndexArray):
            lookup: Affine = yield from call(self._lookup(token, named))
            return lookup
        if isinstance(named, Var):
            raise TypeMismatch(
                f"expected an index or a size, found the variable {token.text}, a value of type {named.type}",
                self.place(token),
                self._value_hint(token, named),
            )
        if isinstance(named, Relation):
            message = f"expected an index or a size, found the relation {token.text}"
            hint = f"a relation is a condition of its own: [{token.text}(i, j)] * e"
            raise TypeMismatch(message, self.place(token), hint)
        if self.token.kind == "(":
            is_value = token.text in functions() or token.text in self.callable_names()
            is_place = in_access(self.tokens, self.position) and (is_value or token.text not in WORDS)
            raise ScopeError(
                f"no relation is called {token.text}",
                self.place(token),
                (COMPUTED_PLACE if is_place else VALUE_CONDITION if is_value else None)
                or (WORDS[token.text].text if token.text in WORDS else self.suggestion(token.text, Relation))
                or "a relation is a parameter: r: rel(n, m)",
            )
        if named is None and (self.introduces_sizes or self.is_size_of_range(token)):
            size = Size(token.text)
            self.bind(token, size)
            return atom_affine(size)
        raise ScopeError(
            f"no index or size is called {token.text} here",
            self.place(token),
            INDEX_HINT
            if token.text in ("argmax", "argmin")
            else (WORDS[token.text].text if token.text in WORDS else None)
            or self.suggestion(token.text, Index, Size, IndexArray),
        )

    def _value_hint(self, token: Token, named: Var) -> str | None:
        """A hint at what was probably meant by a value where an index is wanted."""
        position = self.tokens.index(token)
        opened: list[int] = []
        for k, other in enumerate(self.tokens[:position]):
            if other.kind in ("(", "["):
                opened.append(k)
            elif other.kind in (")", "]") and opened:
                opened.pop()
        if (missing := unclosed(self.text, self.tokens, len(self.tokens) - 1)) is not None:
            return missing
        inner = opened[-1] if opened else 0
        before = self.tokens[inner - 1] if inner else None
        if self.tokens[inner].kind != "[" or before is None or before.kind not in ("name", "]", ")"):
            return "an index, a size or an integer is wanted here"
        sizes, _ = shape(named.type)
        kind = "".join(f"[{size}]" for size in sizes)
        read = self.scope.get(before.text)
        range_of = "n"
        if isinstance(read, Var):
            axis = sum(1 for other in self.tokens[inner:position] if other.kind == ",")
            axes, _ = shape(read.type)
            range_of = str(axes[axis]) if axis < len(axes) else "n"
        return f"an array that is read at is declared as one of indices: {token.text}: {kind}idx({range_of})"

    def _lookup(self, token: Token, array: IndexArray) -> Deep[Affine]:
        """`y[i, j]`, from the first bracket on."""
        at: list[Affine] = []
        while self.token.kind == "[":
            self.advance()
            while True:
                at.append((yield from call(self.affine())))
                if not self.accept(","):
                    break
            self.expect("]", "an operator, ',' or ']'")
        if len(at) != len(array.sizes):
            many = f"{len(at) or 'no'} {'index' if len(at) < 2 else 'indices'}"
            message = f"expected an element of {token.text}, which is of type {type_of(array)}, found {many} after it"
            hint = f"{token.text}[{', '.join('ijk'[: len(array.sizes)])}]" if 0 < len(array.sizes) <= 3 else None
            raise TypeMismatch(message, self.span(token.start), hint)
        try:
            return atom_affine(Lookup(array, tuple(at)))
        except LimitError as error:
            raise error.at(self.span(token.start)) from None

    def divided(self, a: Affine, operator: str, start: int) -> Affine:
        """`a // c` or `a % c`, from the integer on."""
        if self.token.kind != "number":
            hint = "quotients and remainders are by integers: i // 2, i % 2; for i*m + j an array has two axes, x[i, j]"
            raise self.unexpected("an integer", hint)
        divisor = self.integer()
        if not divisor:
            raise ParseError("an index is divided by zero", self.span(start), "a positive integer: i // 2")
        try:
            return self._limited((quotient if operator == "//" else remainder)(a, divisor), start)
        except LimitError as error:
            raise error.at(self.span(start)) from None

    def _product(self, left: Affine, right: Affine, start: int) -> Affine:
        if left.is_constant:
            return self._limited(right * left.constant, start)
        if right.is_constant:
            return self._limited(left * right.constant, start)
        message = f"expected a product with an integer, found ({left}) * ({right})"
        if left.indices or right.indices or left.lookups or right.lookups:
            hint = "index expressions are linear in the indices and the sizes"
            if len((*left.indices, *right.indices)) == 1:
                hint += ": an array that is read at i*m + j has two axes, x: [n][m]R, read at x[i, j]"
        else:
            hint = f"two sizes are two axes: x: [{left}][{right}]R, read at x[i, j]"
        raise TypeMismatch(message, self.span(start), hint)

    def _limited(self, value: Affine, start: int) -> Affine:
        if max([abs(value.constant), *(abs(k) for _, k in value.terms)]) >= _BOUND:
            message = f"an integer in an index or a size has at most {INTEGER_DIGITS} digits"
            raise LimitError(message, self.span(start))
        return value

    def _as_affine(self, value: Affine | Predicate, start: int) -> Affine:
        if isinstance(value, Affine):
            return value
        hint = "comparisons are joined by `and` and `or`: [i < j and j < n]"
        raise ParseError("expected an index expression, found a predicate", self.span(start), hint)

    def _as_predicate(self, value: Affine | Predicate, start: int) -> Predicate:
        if not isinstance(value, Affine):
            return value
        match value:
            case Affine(((Lookup(array=array), 1),), 0) if is_condition(array):
                return equal(value, constant(1))
        place: Span = self.span(start)
        if self.token.kind not in ("]", ")", "and", "or", ".", "end"):
            raise self.unexpected("a comparison (<, <=, =, !=, >, >=)")
        raise ParseError("expected a predicate, found an index expression", place, "[i = j] compares two of them")
