"""The supremum of the ratio of two costs, over all sizes of at least 1.

With n = 1 + s, m = 1 + t and so on, a ratio of polynomials whose coefficients are not negative is at most the largest
ratio of coefficients; and as sizes grow in some direction, it approaches the ratio of the fastest growing terms. While
these two bounds differ, the sizes are split: n = 1, or n = 2 + s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count, product

from tensorlang.costs.domains import Domain
from tensorlang.costs.pieces import are_everywhere, known, moduli_of, rewritten
from tensorlang.costs.polynomial import Monomial, Polynomial, affine, number
from tensorlang.costs.quasi import replaced
from tensorlang.costs.symbolic import CostPolynomial
from tensorlang.language.affine import Affine, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.predicates import NonNegative, Predicate, at_most, conjunction, conjuncts, equal
from tensorlang.language.types import Type, leaves, shape
from tensorlang.sets.isl import is_empty

_MOST_BOXES = 300
_MOST_SIZES = 5
_RATES = (0, 1, 2)
_LARGE = 10**9
_INFINITE = Fraction(10**30)


@dataclass(frozen=True)
class Supremum:
    """Bounds on the least upper bound of a ratio: at least `least`, and at most `most`, which is None if unknown.

    `where` says at which sizes the ratio is `least`, or as which sizes grow it approaches that.

    >>> found = tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).supremum
    >>> print(found, found.is_exact)
    4/3, at n = 1 True
    """

    least: Fraction
    most: Fraction | None
    where: str
    attained: bool

    @property
    def is_exact(self) -> bool:
        """Whether the supremum is `least`."""
        return self.least == self.most

    def __str__(self) -> str:
        reached = f"{'at' if self.attained else 'approached as'} {self.where}"
        if self.is_exact:
            return f"{self.least}, {reached}"
        return f"between {self.least}, {reached}, and {'no known bound' if self.most is None else self.most}"


def numbers_in(f: Function, types: Iterable[Type]) -> CostPolynomial:
    """The number of numbers in arrays of these types, in the sizes of `f`."""
    found = number(0)
    for kind in types:
        for _, part in leaves(kind):
            product_of_sizes = number(1)
            for size in shape(part)[0]:
                product_of_sizes = product_of_sizes * affine(size)
            found = found + product_of_sizes
    return CostPolynomial(f, ((conjunction(()), found),))


def supremum(above: CostPolynomial, below: CostPolynomial) -> Supremum:
    """Bounds on the supremum of above / below, over the sizes of at least 1 and all data.

    `below` must be positive there, and neither may be negative. Numbers of points that only data determine may be any:
    then `most` is a bound, and `least` is 0 unless a part that depends on sizes alone gives more.
    """
    positive = [at_most(constant(1), atom_affine(size)) for size in (above - below).program.sizes]
    context = conjunction([*positive, above.context, below.context])
    if not (above.is_piecewise and below.is_piecewise and are_everywhere(below.cells, context)):
        return Supremum(Fraction(0), None, "all sizes", True)
    search = _Search()
    for (p, a), (q, b) in product(above.cells, below.cells):
        region = conjunction([context, p, q])
        for box in _boxes(region, a, b):
            search.push(box)
    return search.found()


@dataclass(frozen=True)
class _Box:
    """above / below in unknowns of at least 0; `values` has the sizes in terms of these, within `region`."""

    above: Polynomial
    below: Polynomial
    values: Mapping[Size, Affine]
    region: Predicate

    @property
    def unknowns(self) -> list[Size]:
        """The sizes on which the values depend."""
        return list(dict.fromkeys(x for a in self.values.values() for x in a.sizes))

    @property
    def has_data(self) -> bool:
        """Whether numbers of points are unknown."""
        return any(isinstance(x, Domain) for a in (self.above, self.below) for x in a.unknowns)

    def replaced(self, x: Size, value: Affine) -> _Box:
        """The box with the unknown `x` replaced by `value`."""
        change: dict[Size, Affine] = {x: value}
        values = {size: replaced(a, change) for size, a in self.values.items()}
        return _Box(rewritten(self.above, change), rewritten(self.below, change), values, self.region)

    def is_empty(self, least: Mapping[Size, int]) -> bool:
        """Whether no sizes in the region have unknowns of at least these values, and 0 for those not in `least`."""
        sizes: dict[Size, Affine] = {x: atom_affine(x) + n for x, n in least.items()}
        sizes |= {x: constant(0) for x in self.unknowns if x not in least}
        fresh = {x: atom_affine(Size(f"{x.name} ")) for x in self.unknowns}
        at = (equal(atom_affine(x), replaced(replaced(a, sizes), fresh)) for x, a in self.values.items())
        both = conjunction([self.region, *at])
        return is_empty(both, known(both, both))

    def bound(self) -> tuple[Fraction | None, Monomial]:
        """The largest ratio of coefficients and its monomial; None for the ratio if a coefficient of `below` is
        negative, or 0 with a positive one above."""
        found: tuple[Fraction | None, Monomial] = (Fraction(0), ())
        for monomial in {**self.above.terms, **self.below.terms}:
            a, b = Fraction(self.above.terms.get(monomial, 0)), Fraction(self.below.terms.get(monomial, 0))
            if b < 0 or (a > 0 and not b):
                return None, monomial
            if a > 0 and (found[0] is None or a / b > found[0]):
                found = a / b, monomial
        return found

    def limits(self) -> Iterator[tuple[Fraction, str, bool]]:
        """Ratios that are attained or approached, and where."""
        if self.has_data or len(self.unknowns) > _MOST_SIZES:
            return
        choices = _RATES if len(self.unknowns) <= 2 else _RATES[:2]
        for rates in product(choices, repeat=len(self.unknowns)):
            rate = dict(zip(self.unknowns, rates, strict=True))
            growing = [x for x, speed in rate.items() if speed]
            if self.is_empty(dict.fromkeys(growing, _LARGE)):
                continue
            below, above = _fastest(self.below, rate), _fastest(self.above, rate)
            if not below or (above and max(above) > max(below)):
                continue
            top = max(below)
            yield Fraction(above.get(top, 0)) / below[top], self._told(growing), not growing

    def _told(self, growing: list[Size]) -> str:
        still: dict[Size, Affine] = {x: constant(0) for x in self.unknowns if x not in growing}
        ends = {x: replaced(a, still) for x, a in self.values.items()}
        parts = [f"{x.name} = {a}" for x, a in ends.items() if a.is_constant]
        parts += [f"{x.name} grows" for x, a in ends.items() if not a.is_constant]
        return ", ".join(parts) or "no size matters"


def _fastest(a: Polynomial, rate: Mapping[Size, int]) -> dict[int, Fraction]:
    """The coefficients of the powers of t, if each unknown is t to the power of its rate, or 0 if its rate is 0."""
    found: dict[int, Fraction] = {}
    for monomial, k in a.terms.items():
        speeds = [rate[x] for x in monomial if isinstance(x, Size)]
        if all(speeds):
            found[sum(speeds)] = found.get(sum(speeds), Fraction(0)) + k
    return {power: k for power, k in found.items() if k}


def _boxes(region: Predicate, a: Polynomial, b: Polynomial) -> Iterator[_Box]:
    """The region as boxes over unknowns of at least 0, one for each combination of remainders needed for quotients."""
    moduli = moduli_of(a, b)
    sizes = sorted({x for p in (a, b) for x in p.unknowns if isinstance(x, Size)} | set(moduli), key=lambda x: x.name)
    for remainders in product(*(range(moduli.get(x, 1)) for x in sizes)):
        values: dict[Size, Affine] = {}
        for x, r in zip(sizes, remainders, strict=True):
            modulus = moduli.get(x, 1)
            least, below = _lower_bounds(region, x)
            low = next((values[y] + k for y, k in below if y in values), constant(0))
            first = least + (r - least) % modulus
            linked = modulus == 1 and bool(low.terms)
            values[x] = atom_affine(x) + low if linked else atom_affine(x) * modulus + first
        box = _Box(rewritten(a, values), rewritten(b, values), values, region)
        if not box.is_empty(dict.fromkeys(box.unknowns, 0)):
            yield box


def _lower_bounds(region: Predicate, x: Size) -> tuple[int, list[tuple[Size, int]]]:
    """The lower bounds of x in the region: a number, and pairs of a size y and a number k with x >= y + k."""
    least, below = 1, []
    for q in conjuncts(region):
        if isinstance(q, NonNegative) and q.value.coefficient(x) == 1:
            others = [(y, k) for y, k in q.value.terms if y is not x]
            match others:
                case []:
                    least = max(least, -q.value.constant)
                case [(Size() as y, -1)]:
                    below.append((y, -q.value.constant))
    return least, below


class _Search:
    """The boxes whose bounds are above the ratios attained or approached so far, the highest first."""

    def __init__(self) -> None:
        self.best = (Fraction(0), "all sizes", True)
        self.waiting: list[tuple[Fraction, int, _Box, Monomial]] = []
        self.order = count()

    def push(self, box: _Box) -> None:
        """Add a box."""
        for limit in box.limits():
            if limit[0] > self.best[0] or (limit[0] == self.best[0] and limit[2] > self.best[2]):
                self.best = limit
        high, monomial = box.bound()
        heappush(self.waiting, (-_INFINITE if high is None else -high, next(self.order), box, monomial))

    def found(self) -> Supremum:
        """The supremum over all boxes."""
        for _ in range(_MOST_BOXES):
            if not self.waiting or -self.waiting[0][0] <= self.best[0]:
                break
            _, _, box, monomial = self.waiting[0]
            x = next((x for x in (*monomial, *box.unknowns) if isinstance(x, Size)), None)
            if x is None:
                break
            heappop(self.waiting)
            for part in (box.replaced(x, constant(0)), box.replaced(x, atom_affine(x) + 1)):
                if not part.is_empty(dict.fromkeys(part.unknowns, 0)):
                    self.push(part)
        least, where, attained = self.best
        highest = -self.waiting[0][0] if self.waiting else least
        return Supremum(least, None if highest >= _INFINITE else max(highest, least), where, attained)
