"""The points of predicates without data, split into disjoint parts by isl, and counted if it was built with
barvinok."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

from tensorlang.interning import shared
from tensorlang.language.affine import Index, Size, canonical
from tensorlang.language.predicates import Predicate, conjunction
from tensorlang.sets.encode import Encoder, Formula, Row
from tensorlang.sets.isl import DIM, all_rows, both_of, remembered, union_of

Division = tuple[Fraction, tuple[tuple[Any, Fraction], ...]]
"""(constant, terms), rounded down; each term is a dimension or another division, with a coefficient."""

Piece = tuple[tuple[tuple[tuple[bool, Division], ...], ...], tuple[tuple[Fraction, tuple[tuple[Any, int], ...]], ...]]
"""Alternatives, of which one holds, of rows, which are = 0 or >= 0; and terms, each a coefficient and powers of
dimensions and divisions."""


def disjoint(p: Predicate) -> list[Predicate]:
    """Disjoint conjunctions of comparisons whose union is `p`, which mentions no data.

    They may have further variables: integers with exactly one choice at each point of `p`. Raises `TooHard`.
    """
    encoder = Encoder(marks=False)
    formula = encoder.formula(p)
    formula = both_of(formula, encoder.surroundings())
    free = len(encoder.free)
    found = []
    for divisions, rows in _disjoint(free, encoder.bound, formula):
        for k in range(len(encoder.free) - free, divisions):
            encoder.free[_division(k)] = free + k
        parts = [encoder.decode(row) for row in rows]
        found.append(conjunction(part for part in parts if part is not None))
    return found


def cardinality(p: Predicate) -> tuple[list[Size], tuple[Piece, ...]]:
    """The number of points of `p`, which mentions no data: the sizes, which are the dimensions, and pieces.

    Raises `TooHard`. Needs an islpy that `counts_everything`.
    """
    encoder = Encoder(marks=False)
    formula = encoder.formula(p)
    formula = both_of(formula, encoder.surroundings())
    sizes = {d: atom for atom, d in encoder.free.items() if isinstance(atom, Size)}
    return list(sizes.values()), _cardinality(len(encoder.free), encoder.bound, formula, tuple(sizes))


@cache
@shared
def _division(k: int) -> Index:
    return canonical(f"q{k}")


@remembered
def _disjoint(free: int, bound: int, formula: Formula) -> tuple[tuple[int, tuple[Row, ...]], ...]:
    """For each piece, the number of its integer divisions, which are further dimensions, and its rows."""
    union = union_of(free, bound, formula).coalesce().make_disjoint().compute_divs()
    found = []
    for basic in union.get_basic_sets():
        space = basic.get_local_space()
        divisions = space.dim(DIM.div)
        rows = list(all_rows(basic))
        for d in range(divisions):
            numerator = space.get_div(d)
            divisor = numerator.get_denominator_val().to_python()
            places = [(DIM.in_, k, k) for k in range(free)] + [(DIM.div, k, free + k) for k in range(d)]
            scaled = [(e, int(divisor * _fraction(numerator.get_coefficient_val(what, k)))) for what, k, e in places]
            terms = (*((e, k) for e, k in scaled if k), (free + d, -divisor))
            value = int(divisor * _fraction(numerator.get_constant_val()))
            rows.append((False, value, terms))
            rows.append((False, divisor - 1 - value, tuple((e, -k) for e, k in terms)))
        found.append((divisions, tuple(dict.fromkeys(rows))))
    return tuple(found)


@remembered
def _cardinality(free: int, bound: int, formula: Formula, sizes: tuple[int, ...]) -> tuple[Piece, ...]:
    points = union_of(free, bound, formula)
    for k, d in enumerate(sizes):
        points = points.move_dims(DIM.param, k, DIM.set, d - k, 1).set_dim_name(DIM.param, k, f"s{k}")
    found = []
    for domain, polynomial in points.card().get_pieces():
        alternatives = []
        for basic in domain.make_disjoint().compute_divs().get_basic_sets():
            rows = [(c.is_equality(), _affine(c.get_aff())) for c in basic.get_constraints()]
            alternatives.append(tuple(rows))
        terms: list[Any] = []
        polynomial.foreach_term(terms.append)
        found.append((tuple(alternatives), tuple(map(_term, terms))))
    return tuple(found)


def _term(term: Any) -> tuple[Fraction, tuple[tuple[Any, int], ...]]:
    powers: list[tuple[Any, int]] = [(k, term.get_exp(DIM.param, k)) for k in range(term.dim(DIM.param))]
    powers += [(_affine(term.get_div(k)), e) for k in range(term.dim(DIM.div)) if (e := term.get_exp(DIM.div, k))]
    return _fraction(term.get_coefficient_val()), tuple((x, e) for x, e in powers if e)


def _affine(a: Any) -> Division:
    terms: list[tuple[Any, Fraction]] = [
        (k, _fraction(a.get_coefficient_val(DIM.param, k))) for k in range(a.dim(DIM.param))
    ]
    for k in range(a.dim(DIM.div)):
        coefficient = _fraction(a.get_coefficient_val(DIM.div, k))
        if coefficient:
            terms.append((_affine(a.get_div(k)), coefficient))
    return _fraction(a.get_constant_val()), tuple((x, k) for x, k in terms if k)


def _fraction(value: Any) -> Fraction:
    return Fraction(value.to_str())
