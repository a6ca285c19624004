"""Figure 6 for all sizes: the cost of a program as a piecewise quasi-polynomial in its sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tensorlang.budget import limited
from tensorlang.costs.chosen import without_opposites
from tensorlang.costs.cost import charges, charges_and_visits, known, with_arrays_outside
from tensorlang.costs.counter import Counter
from tensorlang.costs.counting import Cell, number_of_points
from tensorlang.costs.domains import Charges, Domain
from tensorlang.costs.growth import in_terms, in_words, leading, order
from tensorlang.costs.loops import Visits
from tensorlang.costs.pieces import are_apart, pieces, simplified, vanishes
from tensorlang.costs.polynomial import Unknown, number, unknown
from tensorlang.costs.quasi import Quotient
from tensorlang.costs.shown import expression, latex, polynomial_text, text
from tensorlang.errors import ArgumentError, CountingError
from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant
from tensorlang.language.function import Function, sizes_of
from tensorlang.language.given import together
from tensorlang.language.grammar import gen
from tensorlang.language.grammar import number as literal
from tensorlang.language.grid import Setting
from tensorlang.language.predicates import TRUE, Equal, NonNegative, Predicate, at_most, conjunction, conjuncts
from tensorlang.language.show import predicate_text
from tensorlang.sets.encode import TooHard
from tensorlang.sets.isl import counts_everything, implies
from tensorlang.shown import Shown

_INSTALL = "pip install 'tensorlang[symbolic]', then pip install --force-reinstall --no-deps islpy-barvinok"
"""The second command is needed since both packages have the same files, and pip may have installed islpy's last."""


@dataclass(frozen=True, eq=False, repr=False)
class CostPolynomial(Shown):
    """A number for all sizes at which no axis of a parameter of `program` is negative: the sum of the cells that hold.

    Cells are conditions on sizes with quasi-polynomials: polynomials in sizes, in quotients of them rounded down, and
    in numbers of points that only data determine. `str` gives text that `read_cost` reads back. Sums, differences and
    products of two are for all sizes of both, and `==` says whether that can be seen of their difference to be 0.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> cost = tl.cost_polynomial(f)
    >>> print(cost, cost(n=3, m=4), cost == 2 * cost - cost)
    [0 < m] * (2*m*n - n) 21 True
    """

    program: Function
    cells: tuple[Cell, ...]

    def __call__(self, given: Mapping[str, Any] | None = None, /, **sizes: Any) -> int:
        """The number at these sizes; relations and index arrays are given like sizes, just as for `cost`, by keyword
        or in a mapping.

        Raises `ArgumentError`, and `LimitError` if too many points of data must be looked at one by one.
        """
        return self.at(known(self.program, together(given, sizes)))

    def at(self, setting: Setting) -> int:
        """The number under the sizes, relations and index arrays of `setting`.

        Raises `CountingError` if it is no whole number there, and what a call raises.

        >>> from tensorlang.language.affine import Size
        >>> from tensorlang.language.grid import Setting
        >>> tl.cost_polynomial(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).at(Setting({Size("n"): 3}, {}))
        5
        """
        values = _Values(Counter(setting))
        found = sum(a.value({x: values.of(x) for x in a.unknowns}) for p, a in self.cells if values.satisfy(p))
        if found != int(found):
            raise CountingError(f"{self} is {found} here, which is no whole number")
        return int(found)

    def __add__(self, other: CostPolynomial) -> CostPolynomial:
        return polynomial(_both(self.program, other.program), (*self.cells, *other.cells))

    def __sub__(self, other: CostPolynomial) -> CostPolynomial:
        return self + other * -1

    def __mul__(self, other: CostPolynomial | int) -> CostPolynomial:
        if isinstance(other, CostPolynomial):
            cells = ((conjunction([p, q]), a * b) for p, a in self.cells for q, b in other.cells)
            return polynomial(_both(self.program, other.program), cells)
        return CostPolynomial(self.program, tuple((p, a * other) for p, a in self.cells if other))

    __rmul__ = __mul__

    def __neg__(self) -> CostPolynomial:
        return self * -1

    def __eq__(self, other: object) -> bool:
        """Whether the two are the same number for all sizes and data, as far as that can be seen."""
        if not isinstance(other, CostPolynomial):
            return NotImplemented
        difference = self - other
        return all(vanishes(a, conjunction([difference.context, p])) for p, a in difference.cells)

    __hash__ = None  # type: ignore[assignment]

    @property
    def context(self) -> Predicate:
        """That no axis of a parameter is negative.

        >>> print(tl.cost_polynomial(tl.parse("f(x: [n + 1]R) = sum i:n. x[i]")).context)
        0 <= n + 1
        """
        return _context(self.program)

    @cached_property
    def is_piecewise(self) -> bool:
        """Whether at most one cell holds at any sizes.

        >>> tl.cost_polynomial(tl.parse("f(x: [n]R) = sum i:n. x[i]")).is_piecewise
        True
        """
        return are_apart(self.cells, self.context)

    @property
    def leading(self) -> str:
        """The terms that no other outgrows as all sizes do, where the first cell holds: `2*m*n`.

        >>> tl.cost_polynomial(tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")).leading
        '2*m*n'
        """
        return polynomial_text(leading(self.cells[0][1])) if self.cells else "0"

    @property
    def growth(self) -> str:
        """How it grows, as text: `O(m*n^2): linear in m, quadratic in n`.

        Numbers of points that only data determine are sizes of their own.

        >>> tl.cost_polynomial(tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")).growth
        'O(m*n): linear in m, linear in n'
        """
        found = order(self.cells, self.context)
        return f"{in_terms(found)}: {in_words(found)}"

    @property
    def expr(self) -> Any:
        """An expression of SymPy's: a polynomial or a `Piecewise`, with a symbol for each size and number of points.

        Raises `MissingPackage` without SymPy.

        >>> tl.cost_polynomial(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).expr
        Piecewise((2*n - 1, n >= 1), (0, True))
        """
        return expression(self.cells, self.is_piecewise)

    @property
    def latex(self) -> str:
        """LaTeX, without dollars.

        >>> print(tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n. 2 * x[i]")).latex)
        n
        """
        return latex(self.cells, self.context, self.is_piecewise)

    def __str__(self) -> str:
        return text(self.cells)


@limited
def cost_polynomial(f: Function) -> CostPolynomial:
    """The cost of `f` (Figure 6) for all sizes, exactly, in scalar operations as for `cost`.

    How many points a relation has, or how many satisfy a condition on data, is an unknown: `nnz(E)`. So are the trips
    of loops that data end: `trips(i0:n. root(a[i0]))` are those of all these calls together. Raises
    `CountingError` if a condition on indices is too intricate to count its points in closed form.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> print(tl.cost_polynomial(f))
    [0 < m] * (2*m*n - n)
    """
    f = with_arrays_outside(f)
    charged, visited = charges_and_visits(f.body)
    return _with_cells(f, charged, [(TRUE, unknown(x) * k) for x, k in visited.items()])


def polynomial_of_one_trip(f: Function) -> CostPolynomial:
    """The cost of `f` if each data-dependent loop has one trip, in which each branch takes the cheaper side."""
    f = with_arrays_outside(f)
    return _with_cells(f, charges(f.body), [])


def _with_cells(f: Function, charged: Charges, cells: list[Cell]) -> CostPolynomial:
    for domain, weight in without_opposites(charged).items():
        try:
            counted = number_of_points(dict(domain.binders), domain.pred)
        except TooHard:
            raise _uncounted(domain) from None
        cells += ((p, a * weight) for p, a in counted)
    return polynomial(f, cells)


def polynomial(f: Function, cells: Iterable[Cell]) -> CostPolynomial:
    """The sum of those of the cells that hold, as a number for the sizes of `f`."""
    context = _context(f)
    found = simplified(cells, context)
    apart = pieces(found, context)
    return CostPolynomial(f, _without_empty(found if apart is None else apart))


def _without_empty(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells, without visits of loops where there is no call."""
    found: list[Cell] = []
    for p, a in cells:
        none = [x for x in a.unknowns if isinstance(x, Visits) and _has_no_calls(x, p)]
        b = a.substitute(dict.fromkeys(none, number(0))) if none else a
        found += [(p, b)] if b else []
    return tuple(found)


def _has_no_calls(x: Visits, p: Predicate) -> bool:
    return p is not TRUE and any(implies(p, at_most(size, constant(0))) for _, size in x.domain.binders)


def _context(f: Function) -> Predicate:
    return conjunction(at_most(constant(0), size) for p in f.params for size in sizes_of(p))


def _uncounted(domain: Domain) -> CountingError:
    binders = ", ".join(f"{i.name}:{size}" for i, size in domain.binders)
    barvinok = "" if counts_everything() else f"; for all sizes, an islpy with barvinok may do it: {_INSTALL}"
    return CountingError(
        f"no closed form was found for the number of points {binders} where {predicate_text(domain.pred)}",
        hint=f"cost counts them at given sizes{barvinok}",
    )


def _both(f: Function, g: Function) -> Function:
    """A program with the parameters and sizes of two."""
    if f is g:
        return f
    params = {p.name: p for p in (*g.params, *f.params)}
    sizes = dict.fromkeys((*f.sizes, *g.sizes))
    return Function(f.name, tuple(params.values()), gen([(Index("i"), atom_affine(s)) for s in sizes], literal(0)))


class _Values:
    """The values of unknowns in costs, at given sizes and data."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    def of(self, x: Unknown) -> int:
        match x:
            case Size():
                return self.counter.setting.sizes[x]
            case Quotient(numerator=a, divisor=divisor):
                return self.of_affine(a) // divisor
            case Domain():
                return self.counter.points(x)
            case Visits() if self.counter.setting.visits is not None:
                return self.counter.setting.visits(x)
            case Visits():
                raise ArgumentError(f"the cost depends on {x.name}", hint="give the program's arguments by name")
        raise AssertionError("costs depend on no index")

    def of_affine(self, a: Affine) -> int:
        values: dict[Atom, int] = {x: self.of(x) for x in a.atoms if isinstance(x, Size | Quotient)}
        return a.value(values)

    def satisfy(self, p: Predicate) -> bool:
        """Whether a conjunction of comparisons is true."""
        for q in conjuncts(p):
            assert isinstance(q, Equal | NonNegative), "a conjunction of comparisons"
            if not (self.of_affine(q.difference) == 0 if isinstance(q, Equal) else self.of_affine(q.value) >= 0):
                return False
        return True
