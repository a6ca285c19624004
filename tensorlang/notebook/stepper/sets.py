"""The sets in a step: predicates with their ranges, their numbers of points, and small pictures of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import combinations
from math import prod

from tensorlang.costs.shown import polynomial_text
from tensorlang.costs.symbolic import CostPolynomial, cost_polynomial
from tensorlang.derivatives.derivation import Derivation, InnerProduct
from tensorlang.derivatives.ledger import Ledger
from tensorlang.errors import CountingError
from tensorlang.language.affine import Affine, Index
from tensorlang.language.function import Function, Parameter
from tensorlang.language.grammar import Mul, bracket, gen, number
from tensorlang.language.grid import expand, size_of
from tensorlang.language.layout import render
from tensorlang.language.notation import UNICODE
from tensorlang.language.points import ORIGIN
from tensorlang.language.predicates import TRUE, Predicate, free_atoms, lookups
from tensorlang.language.printer import Printer
from tensorlang.language.show import WIDTH, predicate_unicode
from tensorlang.memory import cached
from tensorlang.normal.ssa import Addition, Contraction, Map, Statement, inner_ranges, own_ranges
from tensorlang.notebook.html import note
from tensorlang.notebook.lattice import lattice
from tensorlang.notebook.stepper.rows import LetRow, Row

_MOST_CASES = 4
_MOST_POINTS = 500
_MOST_CELLS = 24


@dataclass(frozen=True)
class PointSet:
    """The points of `pred` in some ranges; `of` names the expression that they belong to, as HTML."""

    of: str
    ranges: Mapping[Index, Affine]
    pred: Predicate


def involved(row: Row, text: str) -> Iterator[PointSet]:
    """The sets that a row with this text mentions."""
    match row.part:
        case InnerProduct(right=x, pred=p) if p is not TRUE:
            yield PointSet(text, own_ranges(x), p)
        case LetRow(x):
            for ranges, p in _of_statement(x):
                yield PointSet(text, ranges, p)


def _of_statement(x: Statement) -> Iterator[tuple[Mapping[Index, Affine], Predicate]]:
    match x:
        case Contraction(p, _, _, _) if p is not TRUE:
            yield {**own_ranges(x), **inner_ranges(x)}, p
        case Map(p, _, _, _) if p is not TRUE:
            yield own_ranges(x), p
        case Addition(terms, _):
            for p in dict.fromkeys(t.pred for t in terms if t.pred is not TRUE):
                yield own_ranges(x), p


def set_text(points: PointSet) -> str:
    """{ i:n, j:m | p } in the paper's notation, as HTML."""
    printer = Printer(UNICODE)
    for size in dict.fromkeys(s for n in points.ranges.values() for s in n.sizes):
        printer.names[size]
    binders = ", ".join(f"{printer.name(i)}:{printer.affine(n)}" for i, n in points.ranges.items())
    condition = render([(0, printer.whole_predicate(points.pred))], WIDTH)
    return escape(f"{{ {binders} | {condition} }}" if binders else f"{{ () | {condition} }}", quote=False)


def count_text(derivation: Derivation, points: PointSet) -> str | None:
    """The number of points for all sizes, as HTML; None if no closed form of a few cases was found."""
    return _counted(derivation.program.params, tuple(points.ranges.items()), points.pred)


@cached
def _counted(params: tuple[Parameter, ...], ranges: tuple[tuple[Index, Affine], ...], p: Predicate) -> str | None:
    one_each = gen(list(ranges), bracket(p, Mul(number(1), number(1))))
    try:
        found = cost_polynomial(Function("points", params, one_each))
    except CountingError:
        return None
    return points_text(found) if len(found.cells) <= _MOST_CASES else None


def points_text(found: CostPolynomial) -> str:
    """A number for all sizes as HTML, case by case."""
    cases = [polynomial_text(a) + (f" where {predicate_unicode(p)}" if p is not TRUE else "") for p, a in found.cells]
    return escape("; ".join(cases) or "0", quote=False).replace("*", " · ")


def picture(ledger: Ledger, points: PointSet) -> str | None:
    """A small lattice with the points in it, as HTML, over the first two indices that determine the others.

    None if there are no such indices, or if it would be large or full.
    """
    setting = ledger.counter.setting
    if any(lookup.array not in setting.arrays for lookup in lookups(points.pred)):
        return None
    sizes = {i: size_of(n, setting) for i, n in points.ranges.items()}
    if not free_atoms(points.pred) & set(sizes) or not 0 < ledger.points(points.pred, points.ranges) <= _MOST_POINTS:
        return None
    found, _ = expand(ORIGIN, list(points.ranges.items()), points.pred, setting)
    for axes in combinations(sizes, min(2, len(sizes))):
        cells = [sizes[i] for i in axes]
        seen = set(zip(*(found.columns[i].tolist() for i in axes), strict=True))
        if len(seen) == found.count < prod(cells) and max(cells) <= _MOST_CELLS:
            return lattice([i.name for i in axes], cells, seen) + note(f"{len(seen):,} of {prod(cells):,} points")
    return None
