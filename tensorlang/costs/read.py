"""Costs read back from text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorlang.budget import limited
from tensorlang.costs.cost import charges_and_visits, with_arrays_outside
from tensorlang.costs.counting import Cell, domain_of_data, gathered
from tensorlang.costs.loops import Visits
from tensorlang.costs.polynomial import Polynomial, affine, number, unknown
from tensorlang.costs.quasi import quotient
from tensorlang.costs.symbolic import CostPolynomial
from tensorlang.errors import LimitError
from tensorlang.language.affine import Affine, Index, IndexArray, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.lets import bindings
from tensorlang.language.predicates import TRUE, Equal, NonNegative, Predicate, Related, Relation, conjuncts
from tensorlang.recursion import Deep, call, run
from tensorlang.surface.conditions import ConditionReader

_LARGEST_EXPONENT = 1000
"""Each index of a program adds at most one to the degree of its cost."""


@limited
def read_cost(text: str, program: Function, source: str = "<cost>") -> CostPolynomial:
    """The cost that `text` says, as `str` writes it, of a program with these sizes, relations and index arrays.

    Raises `ParseError` for other text, and the errors of `parse` for names that mean something else in `program`.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> tl.read_cost("[0 < m] * (2*m*n - n)", f) == tl.cost_polynomial(f)
    True
    """
    reader = _CostReader(text, source)
    _, visited = charges_and_visits(with_arrays_outside(program).body)
    reader.visits = {x.name: x for x in visited}
    reader.scope = {size.name: size for size in program.sizes}
    reader.scope |= {p.name: p for p in program.params if isinstance(p, Relation | IndexArray)}
    reader.scope |= {x.name: x for x, _ in bindings(program.body)[0] if isinstance(x, IndexArray)}
    cells = run(reader.cells())
    if reader.token.kind != "end":
        raise reader.unexpected("an operator or the end")
    return CostPolynomial(program, gathered(cells))


class _CostReader(ConditionReader):
    """Reads sums of brackets times polynomials; in conditions and polynomials, quotients too."""

    visits: Mapping[str, Visits]

    def cells(self) -> Deep[list[Cell]]:
        """`[p] * (2*n - 1) + n^2 - floor(n/2)`, up to a token that is no operator."""
        found: list[Cell] = []
        sign = -1 if self.accept("-") else 1
        while True:
            p: Predicate = TRUE
            if self.accept("["):
                p = yield from call(self._condition())
                self.expect("*", "'*' and a polynomial")
            a: Polynomial = yield from call(self._term())
            found.append((p, a * sign))
            if self.token.kind not in ("+", "-"):
                return found
            sign = 1 if self.advance().kind == "+" else -1

    def _condition(self) -> Deep[Predicate]:
        start = self.token.start
        p: Predicate = yield from call(self.predicate())
        if not all(isinstance(q, Equal | NonNegative) for q in conjuncts(p)):
            raise self.unexpected(f"comparisons of sizes, not {self.text[start : self.last_end()]}")
        self.expect("]", "`and` or ']'")
        return p

    def _term(self) -> Deep[Polynomial]:
        product: Polynomial = yield from call(self._power())
        while self.token.kind in ("*", "/"):
            if self.accept("/"):
                product = product.divided(self._divisor())
            else:
                self.advance()
                product = product * (yield from call(self._power()))
        return product

    def _power(self) -> Deep[Polynomial]:
        base: Polynomial = yield from call(self._unknown())
        start = self.token.start
        exponent = self.integer() if self.accept("^") else 1
        if exponent > _LARGEST_EXPONENT:
            message = f"an exponent in a cost is at most {_LARGEST_EXPONENT}, found {exponent}"
            raise LimitError(message, self.span(start))
        result = number(1)
        for _ in range(exponent):
            result = result * base
        return result

    def _unknown(self) -> Deep[Polynomial]:
        if self.accept("("):
            cells: list[Cell] = yield from call(self.cells())
            self.expect(")", "an operator or ')'")
            if any(p is not TRUE for p, _ in cells):
                raise self.unexpected("a polynomial in the parentheses, without brackets")
            return _added(a for _, a in cells)
        if self.token.text == "nnz" and self.peek() == "(":
            self.advance()
            self.advance()
            token = self.expect("name", "the name of a relation")
            relation = self.scope.get(token.text)
            if not isinstance(relation, Relation):
                raise self.unexpected("a relation in nnz(..)")
            self.expect(")")
            ranges = {Index("i"): size for size in relation.sizes}
            return unknown(domain_of_data(ranges, Related(relation, tuple(map(atom_affine, ranges)))))
        if self.token.text in ("trips", "taken") and self.peek() == "(":
            return unknown(self._visits())
        if self.token.text == "points" and self.peek() == "(":
            self.advance()
            self.advance()
            points: Polynomial = yield from call(self._points())
            return points
        value: Affine | Predicate = yield from call(self._atom())
        return affine(self._as_affine(value, self.token.start))

    def _visits(self) -> Visits:
        """`trips(i0:n. f(x[i0]))`, for calls that occur in the program."""
        rest = self.text[self.token.start :]
        name = max((name for name in self.visits if rest.startswith(name)), key=len, default="")
        if not name:
            raise self.unexpected(f"visits of the program: {', '.join(self.visits) or 'it has no loops that data end'}")
        end = self.token.start + len(name)
        while self.token.start < end and self.token.kind != "end":
            self.advance()
        return self.visits[name]

    def _points(self) -> Deep[Polynomial]:
        """`i0:n, i1:m. condition)`"""
        binders = []
        if self.token.kind == "name" and self.peek() == ":":
            binders = yield from call(self.binders("points"))
            self.expect(".", "',' or '.'")
        bound = self.bind_indices(binders)
        p: Predicate = yield from call(self.predicate())
        self.restore_all(bound)
        self.expect(")", "`and`, `or` or ')'")
        return unknown(domain_of_data({index: size for _, index, size in binders}, p))

    def _compares_values(self) -> bool:
        """Never: a cost depends on sizes and data alone, and `floor` is a quotient."""
        return False

    def _atom(self) -> Deep[Affine | Predicate]:
        if self.token.text != "floor" or self.peek() != "(":
            value: Affine | Predicate = yield from call(super()._atom())
            return value
        self.advance()
        self.advance()
        start = self.token.start
        inner: Affine | Predicate = yield from call(self._numerator())
        self.expect("/", "'/' and an integer")
        divisor = self._divisor()
        self.expect(")")
        return quotient(self._as_affine(inner, start), divisor)

    def _numerator(self) -> Deep[Affine | Predicate]:
        """`n`, `2*n` or `(2*n + 1)`."""
        factor = 1
        if self.token.kind == "number":
            factor = self.integer()
            if not self.accept("*"):
                return constant(factor)
        start = self.token.start
        value: Affine | Predicate = yield from call(self._atom())
        return self._as_affine(value, start) * factor

    def _divisor(self) -> int:
        divisor = self.integer()
        if not divisor:
            raise self.unexpected("a divisor other than 0 before this")
        return divisor


def _added(parts: Iterable[Polynomial]) -> Polynomial:
    result = number(0)
    for part in parts:
        result = result + part
    return result
