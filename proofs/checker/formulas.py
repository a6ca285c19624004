"""Costs as formulas: sums of `[condition] * (polynomial)` over sizes, floor(a/k), nnz(E) and points(i:n. condition)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from .budget import Budget, TooLarge
from .semantics import Env, Semantics
from .syntax import (
    Reader,
)
from .trees import (
    TRUE,
    Affine,
    Pred,
    Refused,
    name,
)

_MOST_EXPONENT = 64
Value = Callable[[Env], Fraction]


@dataclass(frozen=True)
class Formula:
    """The cost of a program. `has_data` says whether it counts points that depend on data."""

    value: Value
    quotients: tuple[tuple[str, Affine, int], ...]
    has_data: bool
    meaning: Semantics

    def at(self, env: Env) -> Fraction:
        """The cost at these sizes and data."""
        known = dict(env)
        for x, a, divisor in self.quotients:
            known[x] = self.meaning.index(a, known) // divisor
        return self.value(known)


def formula(text: str, arrays: Iterable[str], budget: Budget) -> Formula:
    """The cost that `text` states, where `arrays` are the names of index arrays, to be counted within a budget."""
    reader = _FormulaReader(text, Semantics({}, budget))
    reader.arrays = frozenset(arrays)
    value = reader.cells()
    reader.end()
    return Formula(value, tuple(reader.quotients), reader.has_data, reader.meaning)


class _FormulaReader(Reader):
    def __init__(self, text: str, meaning: Semantics) -> None:
        super().__init__(text)
        self.meaning = meaning
        self.quotients: list[tuple[str, Affine, int]] = []
        self.has_data = False
        self.no_relations.add("floor")

    def cells(self) -> Value:
        """Cells, added up."""
        found: list[tuple[int, Pred, Value]] = []
        sign = -1 if self.accept("-") else 1
        while True:
            p: Pred = TRUE
            if self.accept("["):
                p = self.pred()
                self.take("]")
                self.take("*")
            found.append((sign, p, self.product()))
            if self.peek() not in ("+", "-"):
                break
            sign = 1 if self.take() == "+" else -1
        return lambda env: sum((s * a(env) for s, p, a in found if self.meaning.holds(p, env)), Fraction(0))

    def product(self) -> Value:
        """Powers, multiplied and divided."""
        result = self.power()
        while self.peek() in ("*", "/"):
            times = self.take() == "*"
            result = _joined(result, self.power(), times)
        return result

    def power(self) -> Value:
        """An atom, perhaps to some power."""
        base = self.factor()
        if not self.accept("^"):
            return base
        exponent = self.integer()
        if exponent > _MOST_EXPONENT:
            raise TooLarge(f"a formula with the exponent {exponent}")
        return lambda env: base(env) ** exponent

    def factor(self) -> Value:
        """A number, a size, a quotient, a number of points, or a formula in parentheses."""
        if self.accept("("):
            inner = self.cells()
            self.take(")")
            return inner
        if self.peek().isdigit():
            value = self.literal()
            return lambda env: value
        if self.peek(1) == "(" and self.peek() in ("nnz", "points"):
            return self.points() if self.take() == "points" else self.relation()
        a = self.affine_atom()
        if not isinstance(a, Affine):
            self.stop("expected a size")
        return lambda env: Fraction(self.meaning.index(a, env))

    def relation(self) -> Value:
        """nnz(E), from the parenthesis on."""
        self.has_data = True
        self.take("(")
        relation = self.identifier()
        self.take(")")

        def count(env: Env) -> Fraction:
            if relation not in env:
                raise Refused(f"{relation} is no relation")
            return Fraction(len(env[relation]))

        return count

    def points(self) -> Value:
        """points(i:n. p), from the parenthesis on."""
        self.has_data = True
        self.take("(")
        binders = []
        if self.peek(1) == ":":
            binders = self.binders()
            self.take(".")
        p = self.pred()
        self.take(")")
        return lambda env: Fraction(sum(1 for _ in self.meaning.points(binders, p, env)))

    def affine_atom(self) -> Pred | Affine:
        """As in programs; also floor(a/k)."""
        if self.peek() != "floor" or self.peek(1) != "(":
            return super().affine_atom()
        self.take()
        self.take("(")
        a = self.affine()
        self.take("/")
        divisor = int(self.positive())
        self.take(")")
        x = f"floor {len(self.quotients)}"
        self.quotients.append((x, a, divisor))
        return name(x)


def _joined(a: Value, b: Value, times: bool) -> Value:
    return (lambda env: a(env) * b(env)) if times else (lambda env: _quotient(a(env), b(env)))


def _quotient(a: Fraction, b: Fraction) -> Fraction:
    if not b:
        raise Refused("a formula divides by 0")
    return a / b
