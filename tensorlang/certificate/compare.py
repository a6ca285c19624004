"""Whether one program never costs more than another, for all sizes of at least 1 and whatever the data."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, product

from tensorlang.costs.bounds import never_above, points
from tensorlang.costs.cost import charges
from tensorlang.costs.counting import number_of_points
from tensorlang.costs.domains import Domain
from tensorlang.costs.polynomial import Polynomial, affine, number, total, unknown
from tensorlang.costs.polynomial import Polynomial as Counts
from tensorlang.costs.symbolic import CostPolynomial, cost_polynomial
from tensorlang.errors import CountingError
from tensorlang.language.affine import Affine, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.predicates import TRUE, NonNegative, Predicate, at_most, conjunction, conjuncts
from tensorlang.sets.encode import TooHard
from tensorlang.sets.isl import is_empty
from tensorlang.sets.solve import project, simplify_in

_CHOICES = 64


def costs_no_more(f: Function, g: Function) -> bool:
    """Whether it is proved that `f` never costs more than `g`; False if it is false or no proof is found.

    First by their charges, where numbers of points that both mention cancel; else by closed forms, piece by piece.
    """
    if never_above(_counts(f), _counts(g)):
        return True
    try:
        return never_negative(cost_polynomial(g) - cost_polynomial(f))
    except CountingError:
        return False


def costs_at_most(f: Function, g: Function, others: Counts, bound: Fraction) -> bool:
    """Whether charges prove that `f` plus `others` never costs more than `bound` times `g` plus `others`."""
    low, high = _counts(f) + others, _counts(g) + others
    return never_above(low * bound.denominator, high * bound.numerator)


def _counts(f: Function) -> Counts:
    return total(points(dict(d.binders), d.pred) * weight for d, weight in charges(f.body).items())


def never_negative(cost: CostPolynomial) -> bool:
    """Whether `cost` is proved to be at least 0 for all sizes of at least 1."""
    positive = conjunction(at_most(constant(1), atom_affine(size)) for size in cost.program.sizes)
    context = conjunction([positive, cost.context])
    regions = ((conjunction([context, p]), a) for p, a in cost.cells)
    return all(is_empty(region) or _at_least_0(a, region) for region, a in regions)


def _at_least_0(a: Polynomial, region: Predicate) -> bool:
    """Whether no coefficient is negative if each size is written as a least value plus a rest, and each number of
    points as that of a projection plus a rest."""
    shifted = islice(_shifted(a, region), _CHOICES)
    return any(all(k >= 0 for k in found.terms.values()) for found in shifted)


def _shifted(a: Polynomial, region: Predicate) -> Iterator[Polynomial]:
    domains = [x for x in a.unknowns if isinstance(x, Domain)]
    for bounds in product(*(_lower_bounds(x) for x in domains)):
        lower = a.substitute({x: low + unknown(x) for x, low in zip(domains, bounds, strict=True)})
        yield from _from_least(lower, region)


def _from_least(a: Polynomial, region: Predicate) -> Iterator[Polynomial]:
    """`a` with x + low substituted for each size x, for each choice of lower bounds low that the region gives."""
    lows: dict[Size, list[Affine]] = {}
    for q in conjuncts(region):
        if isinstance(q, NonNegative):
            for x, k in q.value.terms:
                if isinstance(x, Size) and k == 1:
                    lows.setdefault(x, []).append(atom_affine(x) - q.value)
    chosen = [(x, low) for x, found in lows.items() for low in found]
    sizes = list(lows)
    for pick in product(*(lows[x] for x in sizes)):
        values = dict(zip(sizes, pick, strict=True))
        order = _order(values)
        if order is None:
            continue
        found = a
        for x in order:
            found = found.substitute({x: affine(values[x]) + unknown(x)})
        yield found
    if not chosen:
        yield a


def _order(values: dict[Size, Affine]) -> list[Size] | None:
    """The sizes, each before those in its least value; None if these are cyclic."""
    waiting, order = dict(values), []
    while waiting:
        free = [x for x in waiting if not any(x in low.sizes for y, low in waiting.items() if y is not x)]
        if not free:
            return None
        order.append(free[0])
        del waiting[free[0]]
    return order


def _lower_bounds(x: Domain) -> list[Polynomial]:
    """Lower bounds on the number of points of `x`: those of its projections, and 0."""
    ranges = dict(x.binders)
    found = [number(0)]
    for i in ranges if len(ranges) > 1 else ():
        others = {j: n for j, n in ranges.items() if j is not i}
        shadow = simplify_in(project({i: ranges[i]}, x.pred, others), others)
        try:
            cells = number_of_points(others, shadow)
        except TooHard:
            continue
        if len(cells) == 1 and cells[0][0] is TRUE:
            found.insert(0, cells[0][1])
    return found
