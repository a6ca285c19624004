"""Numbers of points for all sizes at once: exact, piecewise, as quasi-polynomials.

Indices that no condition ties together are counted separately. Equalities are solved, first for the paper's notation of
shifts and diagonals, then over the integers in general (Euclid). The rest is summed over one index after the other
(Faulhaber), once for each choice of a bound that is the greatest lower one and a bound that is the least upper one.
Where an index has a coefficient, its bounds are quotients, rounded down; a quotient of sizes becomes an unknown, and
for indices in a quotient the sum is split by their remainders.

A range whose end is just before its beginning has no points, and the formula gives 0 for it as well: so 0 <= i < n
needs no condition, since n >= 0. Where the conditions of a result hold, it is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, lcm

from tensorlang.costs.domains import Domain, factors, in_one_order, place
from tensorlang.costs.polynomial import Polynomial, affine, number, total, unknown
from tensorlang.costs.quasi import definitions, quotient, summed
from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.language.affine import total as sum_of
from tensorlang.language.grid import indices_of
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    less,
    lookups,
    relations,
    substitute,
)
from tensorlang.language.show import predicate_text
from tensorlang.memory import cached
from tensorlang.sets.encode import TooHard, alpha_normal
from tensorlang.sets.isl import counts_everything, is_empty, not_implied
from tensorlang.sets.points import Division, cardinality, disjoint
from tensorlang.sets.solve import Ranges, ranges_predicate, simplify_in, solve

_MOST_STEPS = 250
_ROUNDS = 4

Cell = tuple[Predicate, Polynomial]
"""A condition on sizes and quotients, and a number that is added where it holds."""


def number_of_points(ranges: Ranges, p: Predicate) -> tuple[Cell, ...]:
    """The number of points of the ranges at which `p` is true: the sum of the cells whose conditions hold.

    For indices that relations or index arrays tie together, the number of points is an unknown, a `Domain`. Raises
    `TooHard` if there would be too many cells.
    """
    names = {i: place(k) for k, i in enumerate(ranges)}
    renaming: dict[Atom, Affine] = {i: atom_affine(j) for i, j in names.items()}
    return _number_of_points(tuple((names[i], n) for i, n in ranges.items()), substitute(p, renaming))


@cached
def _number_of_points(binders: tuple[tuple[Index, Affine], ...], p: Predicate) -> tuple[Cell, ...]:
    ranges = dict(binders)
    p = simplify_in(p, ranges)
    solution = solve(p, ranges, {})
    free = {i: ranges[i] for i in solution.free}
    rest = simplify_in(solution.rest, free)
    if rest is FALSE:
        return ()
    cells: tuple[Cell, ...] = ((TRUE, number(1)),)
    for indices, parts in factors(conjuncts(rest)):
        cells = _product(cells, _component({i: free.pop(i) for i in indices}, conjunction(parts)))
    for i, size in free.items():
        cells = _product(cells, _count((i,), ranges_predicate({i: size})))
    return cells


def points_of(indices: Iterable[Index], p: Predicate) -> tuple[Cell, ...]:
    """The number of points at which `p` is true, which bounds these indices and mentions no data.

    Raises `TooHard` if there would be too many cells.
    """
    counted = set(indices)
    cells: tuple[Cell, ...] = ((TRUE, number(1)),)
    for own, group in factors(conjuncts(p)):
        q = conjunction(group)
        parts = disjoint(q) if any(isinstance(part, Or) for part in group) else [q]
        cells = _product(cells, [cell for part in parts for cell in _count(tuple(counted.intersection(own)), part)])
    return cells


def _product(first: Iterable[Cell], second: Iterable[Cell]) -> tuple[Cell, ...]:
    return gathered((conjunction([p, q]), a * b) for (p, a), (q, b) in product(first, second))


def gathered(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells, with those under the same condition added up."""
    found: dict[Predicate, list[Polynomial]] = {}
    for p, a in cells:
        found.setdefault(p, []).append(a)
    sums = ((p, total(parts)) for p, parts in found.items() if p is not FALSE)
    return tuple((p, a) for p, a in sums if a)


def _component(ranges: Ranges, p: Predicate) -> tuple[Cell, ...]:
    """The number of points of indices that `p` ties together; of no indices at all, 1 where `p` is true."""
    if relations(p) or lookups(p):
        return ((TRUE, unknown(domain_of_data(ranges, p))),)
    p = conjunction([ranges_predicate(ranges), p])
    try:
        parts = disjoint(p) if any(isinstance(q, Or | Exists) for q in conjuncts(p)) else [p]
        return gathered(cell for part in parts for cell in _count(_own(part, ranges), part))
    except TooHard:
        if not counts_everything():
            raise
        return by_barvinok(p)


def by_barvinok(p: Predicate) -> tuple[Cell, ...]:
    """The number of points of `p`, which bounds its indices and mentions no data, as barvinok gives it.

    Raises `TooHard`. Needs an islpy that `counts_everything`.
    """
    sizes, pieces = cardinality(p)

    def rounded(x: int | Division) -> Affine:
        return atom_affine(sizes[x]) if isinstance(x, int) else quotient(*scaled(x))

    def scaled(x: Division) -> tuple[Affine, int]:
        value, terms = x
        divisor = lcm(value.denominator, *(k.denominator for _, k in terms))
        parts = [(rounded(y), int(k * divisor)) for y, k in terms]
        return sum_of(parts) + int(value * divisor), divisor

    cells: list[Cell] = []
    for alternatives, terms in pieces:
        products = []
        for k, powers in terms:
            product_of_powers = number(k)
            for x, exponent in powers:
                for _ in range(exponent):
                    product_of_powers = product_of_powers * affine(rounded(x))
            products.append(product_of_powers)
        for rows in alternatives:
            compared = ((equality, scaled(row)[0]) for equality, row in rows)
            condition = conjunction(
                equal(a, constant(0)) if equality else at_most(constant(0), a) for equality, a in compared
            )
            cells.append((condition, total(products)))
    return gathered(cells)


def _own(p: Predicate, ranges: Ranges) -> tuple[Index, ...]:
    """The variables to count: the indices, and the quotients that isl introduces for remainders."""
    return tuple(dict.fromkeys([*ranges, *indices_of(p)]))


def domain_of_data(ranges: Ranges, p: Predicate) -> Domain:
    """The points of data as a domain in canonical form: the parts of conjunctions and disjunctions are sorted, and the
    indices are in the order in which these mention them."""
    domain = in_one_order(ranges, alpha_normal(p))
    for _ in range(_ROUNDS):
        again = _in_order(domain)
        if again is domain:
            break
        domain = again
    return domain


def _in_order(domain: Domain) -> Domain:
    p, sizes = domain.pred, dict(domain.binders)
    if isinstance(p, And | Or):
        p = type(p)(tuple(sorted(p.parts, key=predicate_text)))
    order = sorted(sizes, key=lambda i: _first_mention(p, i))
    names: dict[Atom, Affine] = {i: atom_affine(place(k)) for k, i in enumerate(order)}
    binders = tuple((place(k), sizes[i]) for k, i in enumerate(order))
    return Domain(binders, alpha_normal(substitute(p, names)))


def _first_mention(p: Predicate, i: Index) -> tuple[int, ...]:
    """The first occurrence of an index in `p`, as a path."""
    match p:
        case And(parts) | Or(parts):
            for k, part in enumerate(parts):
                if i in free_atoms(part):
                    return k, *_first_mention(part, i)
        case Related(_, arguments):
            return (next(k for k, a in enumerate(arguments) if i in a.indices),)
    return ()


@dataclass(frozen=True)
class _Task:
    """The sum of `value` over the integers `indices` at which `p`, a conjunction of comparisons, is true."""

    indices: tuple[Index, ...]
    p: Predicate
    value: Polynomial


def _count(indices: tuple[Index, ...], p: Predicate) -> tuple[Cell, ...]:
    """The number of integer points of a conjunction of comparisons that bounds `indices`."""
    cells: list[Cell] = []
    waiting = [_Task(indices, p, number(1))]
    steps = 0
    while waiting:
        steps += 1
        if steps > _MOST_STEPS:
            raise TooHard
        task = _normal(waiting.pop())
        if task.p is FALSE or is_empty(task.p, definitions(task.p)):
            continue
        if task.indices:
            waiting += _solved(task) or _summed(task)
        else:
            cells.append((task.p, task.value))
    return tuple(cells)


def _normal(task: _Task) -> _Task:
    """The same task, with each comparison divided by the common divisor of the coefficients of its indices."""
    parts = conjunction(part for q in conjuncts(task.p) for part in _divided(q, task.indices))
    if parts is FALSE:
        return _Task(task.indices, FALSE, task.value)
    kept = conjunction(not_implied(conjuncts(parts), definitions(parts)))
    return _Task(task.indices, kept, task.value)


def _divided(q: Predicate, indices: tuple[Index, ...]) -> Iterator[Predicate]:
    a = _compared(q)
    inner = _part_in(a, indices)
    divisor = gcd(*(k for _, k in inner.terms)) or gcd(*(k for _, k in a.terms)) or 1
    if inner.is_constant:
        inner, rest = constant(0), a
    else:
        inner, rest = Affine(tuple((x, k // divisor) for x, k in inner.terms), 0), a - inner
    if isinstance(q, NonNegative):
        yield at_most(constant(0), inner + quotient(rest, divisor))
        return
    whole = quotient(rest, divisor)
    yield equal(rest, whole * divisor)
    yield equal(inner + whole, constant(0))


def _compared(q: Predicate) -> Affine:
    """The value that a comparison compares with 0."""
    assert isinstance(q, Equal | NonNegative), "a conjunction of comparisons"
    return q.difference if isinstance(q, Equal) else q.value


def _part_in(a: Affine, indices: tuple[Index, ...]) -> Affine:
    return Affine(tuple((x, k) for x, k in a.terms if x in indices), 0)


def _solved(task: _Task) -> list[_Task]:
    """The task without an index that an equality determines, or with smaller coefficients in an equality; none if there
    is no equality."""
    for q in conjuncts(task.p):
        terms = _part_in(_compared(q), task.indices).terms
        if not isinstance(q, Equal) or not terms:
            continue
        ordered = sorted(terms, key=lambda term: abs(term[1]))
        x, k = ordered[0]
        assert isinstance(x, Index)
        if abs(k) == 1:
            return [_with(task, x, atom_affine(x) - q.difference * k, keeps=False)]
        # x + (l // k) * y can replace the index x, which leaves the remainder of l as the coefficient of y
        y, other = ordered[1]
        return [_with(task, x, atom_affine(x) - atom_affine(y) * (other // k))]
    return []


def _with(task: _Task, x: Index, value: Affine, keeps: bool = True) -> _Task:
    """The task with `x` replaced by `value`."""
    indices = task.indices if keeps else tuple(i for i in task.indices if i is not x)
    return _Task(indices, substitute(task.p, {x: value}), task.value.substitute({x: affine(value)}))


@dataclass(frozen=True)
class _Way:
    """Sum over `index`; but while there are indices in `divisors`, first split by their remainders."""

    index: Index
    lows: list[Affine]
    highs: list[Affine]
    divisors: dict[Index, int]

    @property
    def pieces(self) -> int:
        """The number of tasks to which this leads."""
        count = max(1, len(self.lows) * len(self.highs))
        for divisor in self.divisors.values():
            count *= divisor
        return count


def _way(task: _Task, x: Index) -> _Way:
    """The bounds of `x`, and the other indices that prevent these from being affine."""
    lows: list[Affine] = []
    highs: list[Affine] = []
    divisors: dict[Index, int] = {}
    for q in conjuncts(task.p):
        a = _compared(q)
        k = a.coefficient(x)
        if not k:
            continue
        rest = a - atom_affine(x) * k
        for y, other in _part_in(rest, task.indices).terms:
            assert isinstance(y, Index)
            divisor = abs(k) // gcd(k, other)
            if divisor > 1:
                divisors[y] = lcm(divisors.get(y, 1), divisor)
        bound = quotient(rest, abs(k))
        if k > 0:
            lows.append(-bound)
        else:
            highs.append(bound)
    return _Way(x, lows, highs, divisors)


def _summed(task: _Task) -> list[_Task]:
    """The tasks that are left by summing over one index, or by splitting by remainders; no equality has an index."""
    way = min((_way(task, x) for x in task.indices), key=lambda way: way.pieces)
    for y, divisor in way.divisors.items():
        return [_with(task, y, atom_affine(y) * divisor + r) for r in range(divisor)]
    if not way.lows or not way.highs:
        raise TooHard
    x = way.index
    others = tuple(i for i in task.indices if i is not x)
    rest = [q for q in conjuncts(task.p) if not _compared(q).coefficient(x)]
    found = []
    for least, low in enumerate(way.lows):
        for most, high in enumerate(way.highs):
            # if several bounds are equal, the first counts
            chosen = [
                *(
                    less(other, low) if k < least else at_most(other, low)
                    for k, other in enumerate(way.lows)
                    if k != least
                ),
                *(
                    less(high, other) if k < most else at_most(high, other)
                    for k, other in enumerate(way.highs)
                    if k != most
                ),
            ]
            p = conjunction([*rest, *chosen, at_most(low, high + 1)])
            found.append(_Task(others, p, summed(task.value, x, low, high)))
    return found
