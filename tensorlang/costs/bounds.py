"""Numbers of points as polynomials in the sizes, and whether one is never the larger.

The number of points of a box is the product of its sizes. The number of points of indices that a predicate ties
together is an atom of the polynomial. Two facts are known about it: it is not negative, and it is no less than the
number of points of any projection. Sizes are at least 1 here; "for all sizes" means this wherever costs are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, product

from tensorlang.costs.counter import Counter
from tensorlang.costs.domains import Domain, in_one_order
from tensorlang.costs.polynomial import Monomial, Polynomial, Unknown, affine, number, total, unknown
from tensorlang.language.affine import Affine, Index, Size, atom_affine, constant
from tensorlang.language.grid import Setting, indices_of
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    free_atoms,
    lookups,
    relations,
)
from tensorlang.memory import cached
from tensorlang.sets.solve import Ranges, project, simplify_in, solve

_CHOICES = 64


@cached
def never_above(p: Polynomial, q: Polynomial) -> bool:
    """Whether p <= q is proved for all sizes of at least 1; False if it is false or no proof is found.

    Every size is written as 1 + s, and every number of points as that of a projection plus a rest; it is proved if then
    no coefficient of q - p is negative.
    """
    difference = q - p
    if all(k >= 0 for k in difference.terms.values()):
        return True
    domains = [x for x in difference.unknowns if isinstance(x, Domain)]
    gained = {x for monomial, k in difference.terms.items() if k > 0 for x in monomial}
    if domains and gained.isdisjoint(domains):
        return False  # no positive term outweighs their points
    for bounds in islice(product(*map(_lower_bounds, domains)), _CHOICES):
        least = dict(zip(domains, bounds, strict=True))
        written = (
            _written_out(monomial, tuple((x, least[x]) for x in monomial if isinstance(x, Domain))) * k
            for monomial, k in difference.terms.items()
        )
        if all(k >= 0 for k in total(written).terms.values()):
            return True
    return False


@cached
def _written_out(monomial: Monomial, least: tuple[tuple[Domain, Polynomial], ...]) -> Polynomial:
    """A product with each size written as 1 + s, and each number of points as its lower bound in `least` plus a
    rest."""
    low = dict(least)
    product_of_all = number(1)
    for x in monomial:
        if isinstance(x, Domain):
            product_of_all = product_of_all * (_from_one(low[x]) + unknown(x))
        else:
            product_of_all = product_of_all * _from_one(unknown(x))
    return product_of_all


def _from_one(p: Polynomial) -> Polynomial:
    """`p` with each size written as 1 + s."""
    return p.substitute({x: unknown(x) + number(1) for x in p.unknowns if isinstance(x, Size)})


def sizes_of(p: Polynomial) -> tuple[Size, ...]:
    """The sizes on which `p` depends."""
    found: dict[Size, None] = {}
    for x in p.unknowns:
        if isinstance(x, Size):
            found[x] = None
        elif isinstance(x, Domain):
            atoms = (*free_atoms(x.pred), *(a for _, size in x.binders for a in size.free))
            found.update((a, None) for a in sorted({a for a in atoms if isinstance(a, Size)}, key=lambda a: a.name))
    return tuple(found)


def at_sizes(p: Polynomial, sizes: Mapping[Size, int]) -> Polynomial:
    """`p` at these sizes; a domain is counted if all of its sizes are then known."""
    values: dict[Unknown, Polynomial] = {size: number(n) for size, n in sizes.items()}
    counter = Counter(Setting(sizes, {}))
    for x in p.unknowns:
        if isinstance(x, Domain) and _is_countable(x, sizes):
            values[x] = number(counter.points(x))
    return p.substitute(values)


def estimate(p: Polynomial, sizes: Mapping[Size, int]) -> int:
    """`p` at these sizes, which are all that it mentions; data are assumed to allow every point."""
    return _estimate(p, tuple(sizes.items()))


@cached
def _estimate(p: Polynomial, given: tuple[tuple[Size, int], ...]) -> int:
    sizes = dict(given)
    known = at_sizes(p, sizes)
    boxes: dict[Unknown, Polynomial] = {
        x: points(dict(x.binders), TRUE) for x in known.unknowns if isinstance(x, Domain)
    }
    return int(at_sizes(known.substitute(boxes), sizes).terms.get((), 0))


def points(ranges: Ranges, p: Predicate) -> Polynomial:
    """The number of points of the ranges at which `p` is true."""
    return _points(tuple(ranges.items()), p)


@cached
def _points(binders: tuple[tuple[Index, Affine], ...], p: Predicate) -> Polynomial:
    ranges = dict(binders)
    p = simplify_in(p, ranges)
    if p is FALSE:
        return number(0)
    solution = solve(p, ranges, {})
    rest = simplify_in(solution.rest, {i: ranges[i] for i in solution.free})
    if rest is FALSE:
        return number(0)
    groups = _components(solution.free, rest)
    result = number(1)
    for indices, parts in groups:
        result = result * _component({i: ranges[i] for i in indices}, conjunction(parts))
    return result


def _components(indices: Iterable[Index], p: Predicate) -> list[tuple[tuple[Index, ...], list[Predicate]]]:
    """Groups of indices such that no conjunct ties two of them together, each with its conjuncts; conjuncts on sizes
    alone come first, each with no indices."""
    groups: list[tuple[tuple[Index, ...], list[Predicate]]] = [((i,), []) for i in indices]
    sizes: list[Predicate] = []
    for part in conjuncts(p):
        tied = set(indices_of(part))
        if not tied:
            sizes.append(part)
            continue
        touching = [g for g in groups if tied.intersection(g[0])]
        groups = [g for g in groups if not tied.intersection(g[0])]
        merged = tuple(i for g in touching for i in g[0])
        groups.append((merged, [*(q for g in touching for q in g[1]), part]))
    return [((), [q]) for q in sizes if not holds_from_1_on(q)] + groups


def holds_from_1_on(p: Predicate) -> bool:
    """Whether `p` is on sizes alone and obviously true for all sizes of at least 1."""
    if not isinstance(p, NonNegative) or p.value.indices or p.value.lookups:
        return False
    return _never_negative(affine(p.value))


def _component(ranges: Ranges, p: Predicate) -> Polynomial:
    """The number of points of indices that `p` ties together."""
    if len(ranges) == 1:
        ((i, size),) = ranges.items()
        length = _interval(i, size, p)
        if length is not None and _never_negative(affine(length)):
            return affine(length)
    return unknown(in_one_order(ranges, p))


def _interval(i: Index, size: Affine, p: Predicate) -> Affine | None:
    """The length of the interval that `p` leaves of the range of `i`, if its ends depend on sizes alone; else None."""
    low, high = constant(0), size
    for part in conjuncts(p):
        k = part.value.coefficient(i) if isinstance(part, NonNegative) else 0
        if not isinstance(part, NonNegative) or abs(k) != 1 or len(part.value.indices) != 1 or part.value.lookups:
            return None
        if k > 0 and low.is_constant and not low.constant:
            low = atom_affine(i) - part.value
        elif k < 0 and high is size:
            high = part.value + atom_affine(i) + 1
        else:
            return None
    return high - low


@cached
def _lower_bounds(x: Domain) -> tuple[Polynomial, ...]:
    """Lower bounds on the number of points of `x`: those of its projections, and 0."""
    ranges = dict(x.binders)
    found = []
    for i in ranges if len(ranges) > 1 else ():
        others = {j: n for j, n in ranges.items() if j is not i}
        shadow = simplify_in(project({i: ranges[i]}, x.pred, others), others)
        found.append(points(others, shadow))
    return (*found, number(0))


def _is_countable(x: Domain, sizes: Mapping[Size, int]) -> bool:
    atoms = free_atoms(x.pred).union(*(size.free for _, size in x.binders))
    data = relations(x.pred) or lookups(x.pred)
    return not data and all(a in sizes for a in atoms if not isinstance(a, Index))


def _never_negative(p: Polynomial) -> bool:
    return never_above(number(0), p)
