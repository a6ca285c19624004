"""Costs as text, as LaTeX, and as SymPy's expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tensorlang.costs.counting import Cell
from tensorlang.costs.domains import Domain
from tensorlang.costs.pieces import are_everywhere
from tensorlang.costs.polynomial import Polynomial, Unknown
from tensorlang.costs.quasi import Quotient
from tensorlang.errors import MissingPackage
from tensorlang.language.affine import Affine, Index, Size, atom_affine
from tensorlang.language.latex import LATEX, predicate_latex
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    Related,
    conjuncts,
    free_atoms,
    substitute,
)
from tensorlang.language.show import predicate_text


def text(cells: Sequence[Cell]) -> str:
    """The sum of `cells` as text that `read_cost` reads back: a sum of brackets times quasi-polynomials."""
    return "\n+ ".join(map(_cell_text, cells)) or "0"


def _cell_text(cell: Cell) -> str:
    p, a = cell
    return polynomial_text(a) if p is TRUE else f"[{condition_text(p)}] * ({polynomial_text(a)})"


def polynomial_text(a: Polynomial) -> str:
    """A quasi-polynomial over one denominator, its terms of highest degree first."""
    terms = _terms(a, unknown_text)
    whole = a.denominator
    parts = [_signed("*".join(f"{x}^{e}" if e > 1 else x for x, e in powers), k, "*") for powers, k in terms]
    shown = _joined(parts)
    if whole == 1:
        return shown
    return f"({shown})/{whole}" if len(parts) > 1 else f"{shown}/{whole}"


def condition_text(p: Predicate) -> str:
    """A condition on sizes and quotients."""
    return _with_quotients(p, predicate_text, lambda x: x.name)


def unknown_text(x: Unknown) -> str:
    """A size, `floor(n/2)`, `nnz(E)`, or `points(i0:n. condition)`."""
    if not isinstance(x, Domain):
        return x.name
    relation = _all_points_of(x)
    if relation is not None:
        return f"nnz({relation})"
    binders = ", ".join(f"{i.name}:{size}" for i, size in x.binders)
    return f"points({binders}{'. ' if binders else ''}{predicate_text(x.pred)})"


def latex(cells: Sequence[Cell], context: Predicate, is_piecewise: bool) -> str:
    """The sum of `cells` as LaTeX: one line, or cases if at most one of them holds at any sizes in `context`."""
    match cells:
        case ():
            return "0"
        case ((p, a),) if p is TRUE:
            return _polynomial_latex(a)
    if not is_piecewise:
        return " + ".join(map(_cell_latex, cells))
    rows = [f"{_polynomial_latex(a)} & {_condition_latex(p)}" for p, a in cells]
    if not are_everywhere(cells, context):
        rows.append(r"0 & \text{otherwise}")
    return r"\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}"


def _cell_latex(cell: Cell) -> str:
    p, a = cell
    shown = _polynomial_latex(a)
    return shown if p is TRUE else rf"\left[{_condition_latex(p)}\right] \left({shown}\right)"


def _polynomial_latex(a: Polynomial) -> str:
    whole = a.denominator
    parts = [
        _signed(r" \, ".join(f"{x}^{{{e}}}" if e > 1 else x for x, e in powers), k, r" \, ")
        for powers, k in _terms(a, _unknown_latex)
    ]
    return _joined(parts) if whole == 1 else rf"\frac{{{_joined(parts)}}}{{{whole}}}"


def _unknown_latex(x: Unknown) -> str:
    match x:
        case Quotient():
            return _quotient_latex(x)
        case Domain():
            relation = _all_points_of(x)
            if relation is not None:
                return rf"\mathrm{{nnz}}({LATEX.name(relation)})"
            ranges = ", ".join(rf"{LATEX.name(i.name)} < {_affine_latex(size)}" for i, size in x.binders)
            return rf"\#\{{{ranges}{' : ' if ranges else ''}{predicate_latex(x.pred)}\}}"
        case _:
            return LATEX.name(x.name)


def _quotient_latex(x: Quotient) -> str:
    return rf"\left\lfloor \frac{{{_affine_latex(x.numerator)}}}{{{x.divisor}}} \right\rfloor"


def _affine_latex(a: Affine) -> str:
    parts = [
        _signed(_unknown_latex(x) if isinstance(x, Size | Index) else x.name, Fraction(k), r" \, ") for x, k in a.terms
    ]
    return _joined([*parts, _signed("", Fraction(a.constant), "")] if a.constant or not parts else parts)


def _condition_latex(p: Predicate) -> str:
    return _with_quotients(p, predicate_latex, _quotient_latex, LATEX.name)


def expression(cells: Sequence[Cell], is_piecewise: bool) -> Any:
    """The sum of `cells` as an expression of SymPy's: a polynomial, or a `Piecewise`; `floor` for quotients, a symbol
    for each size and number of points, integers that are not negative.

    Raises `MissingPackage` without SymPy.
    """
    try:
        import sympy
    except ModuleNotFoundError:
        raise MissingPackage("expressions are SymPy's, which is not installed", hint="pip install sympy") from None

    def unknown(x: Unknown) -> Any:
        if isinstance(x, Quotient):
            return sympy.floor(affine(x.numerator) / x.divisor)
        return sympy.Symbol(unknown_text(x), integer=True, nonnegative=True)

    def affine(a: Affine) -> Any:
        return a.constant + sum(k * unknown(x) for x, k in a.terms if isinstance(x, Size | Index))

    def polynomial(a: Polynomial) -> Any:
        terms = (
            sympy.Rational(k.numerator, k.denominator) * sympy.Mul(*map(unknown, monomial))
            for monomial, k in a.terms.items()
        )
        return sympy.Add(*terms)

    def condition(p: Predicate) -> Any:
        parts = []
        for q in conjuncts(p):
            assert isinstance(q, Equal | NonNegative), "a conjunction of comparisons"
            parts.append(sympy.Eq(affine(q.difference), 0) if isinstance(q, Equal) else affine(q.value) >= 0)
        return sympy.And(*parts)

    parts = [(polynomial(a), condition(p)) for p, a in cells]
    if not is_piecewise:
        return sympy.Add(*(sympy.Piecewise(part, (0, True)) for part in parts))
    return sympy.Piecewise(*parts, (0, True))


def _terms(a: Polynomial, name: Callable[[Unknown], str]) -> list[tuple[list[tuple[str, int]], Fraction]]:
    """The powers in each monomial, and its coefficient times the denominator of `a`; those of highest degree first."""
    found = []
    for monomial, k in a.terms.items():
        unknowns = sorted(dict.fromkeys(monomial), key=lambda x: (not isinstance(x, Size), unknown_text(x)))
        order = (-len(monomial), [(not isinstance(x, Size), unknown_text(x), -monomial.count(x)) for x in unknowns])
        found.append((order, [(name(x), monomial.count(x)) for x in unknowns], Fraction(k * a.denominator)))
    return [(powers, k) for _, powers, k in sorted(found, key=lambda term: term[0])]


def _signed(product: str, k: Fraction, times: str) -> str:
    shown = product if abs(k) == 1 and product else str(abs(k)) + (times + product if product else "")
    return f" {'-' if k < 0 else '+'} {shown}"


def _joined(parts: list[str]) -> str:
    return re.sub("^ - ", "-", "".join(parts).removeprefix(" + ")) or "0"


def _all_points_of(x: Domain) -> str | None:
    """The name of the relation that consists of exactly these points; None if there is none."""
    if not isinstance(x.pred, Related) or x.pred.relation.sizes != tuple(size for _, size in x.binders):
        return None
    return x.pred.relation.name if x.pred.arguments == tuple(atom_affine(i) for i, _ in x.binders) else None


def _with_quotients(
    p: Predicate,
    show: Callable[[Predicate], str],
    quotient: Callable[[Quotient], str],
    shown_name: Callable[[str], str] = lambda name: name,
) -> str:
    """`p` as text: shown with names for its quotients, which are then replaced by the text of these."""
    quotients = sorted((x for x in free_atoms(p) if isinstance(x, Quotient)), key=lambda x: x.name)
    names = {f"quotient{k}": x for k, x in enumerate(quotients)}
    shown = show(substitute(p, {x: atom_affine(Size(name)) for name, x in names.items()}))
    for name, x in names.items():
        shown = re.sub(re.escape(shown_name(name)) + r"(?!\w)", lambda _, x=x: quotient(x), shown)  # type: ignore[misc]
    return shown
