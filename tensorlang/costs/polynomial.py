"""Polynomials in sizes and in other numbers that depend on sizes and data. Their coefficients are exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod

from tensorlang.budget import spend
from tensorlang.costs.domains import Domain
from tensorlang.costs.loops import Visits
from tensorlang.language.affine import Affine, Index, Size

Unknown = Size | Index | Domain | Visits
"""A size, a quotient of sizes rounded down, the number of points of a domain, the visits of a loop; while points are
counted, an index."""

Monomial = tuple[Unknown, ...]


Coefficient = Fraction | int


@dataclass(frozen=True)
class Polynomial:
    """The sum of coefficient * product of unknowns; the unknowns of each monomial are in the order of their ids."""

    terms: Mapping[Monomial, Coefficient]

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: Polynomial) -> Polynomial:
        return collected([*self.terms.items(), *other.terms.items()])

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * -1

    def __mul__(self, other: Polynomial | Fraction | int) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial({m: k * other for m, k in self.terms.items()} if other else {})
        return collected(
            (tuple(sorted(m0 + m1, key=id)), k0 * k1) for m0, k0 in self.terms.items() for m1, k1 in other.terms.items()
        )

    def divided(self, divisor: int) -> Polynomial:
        """The polynomial divided by an integer other than 0."""
        return self * Fraction(1, divisor)

    def __bool__(self) -> bool:
        """Whether it is not 0."""
        return bool(self.terms)

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The unknowns that occur in it."""
        return tuple(dict.fromkeys(x for monomial in self.terms for x in monomial))

    @property
    def denominator(self) -> int:
        """The least number that makes all coefficients integers."""
        return lcm(*(k.denominator for k in self.terms.values()))

    def substitute(self, values: Mapping[Unknown, Polynomial]) -> Polynomial:
        """The polynomial with some unknowns replaced by polynomials, all at once."""
        parts = []
        for monomial, k in self.terms.items():
            part = Polynomial({tuple(x for x in monomial if x not in values): k})
            for x in monomial:
                if x in values:
                    part = part * values[x]
            parts.append(part)
        return total(parts)

    def powers_of(self, x: Unknown) -> dict[int, Polynomial]:
        """The coefficient of each power of `x`."""
        found: dict[int, dict[Monomial, Coefficient]] = {}
        for monomial, k in self.terms.items():
            others = tuple(y for y in monomial if y is not x)
            found.setdefault(len(monomial) - len(others), {})[others] = k
        return {power: Polynomial(terms) for power, terms in found.items()}

    def value(self, values: Mapping[Unknown, int]) -> Coefficient:
        """Its value where each unknown has the value that `values` gives."""
        return sum((k * prod(values[x] for x in monomial) for monomial, k in self.terms.items()), 0)


def number(value: Fraction | int) -> Polynomial:
    """A constant."""
    return Polynomial({(): value} if value else {})


def unknown(x: Unknown) -> Polynomial:
    """The polynomial that is one unknown."""
    return Polynomial({(x,): 1})


def affine(a: Affine) -> Polynomial:
    """`a`, which has no lookups, as a polynomial."""
    terms = [((x,), k) for x, k in a.terms if isinstance(x, Size | Index)]
    return collected([*terms, ((), a.constant)])


def total(parts: Iterable[Polynomial]) -> Polynomial:
    """The sum of `parts`."""
    return collected(term for part in parts for term in part.terms.items())


def collected(terms: Iterable[tuple[Monomial, Coefficient]]) -> Polynomial:
    """The sum of `terms`."""
    found: dict[Monomial, Coefficient] = {}
    for monomial, k in terms:
        found[monomial] = found.get(monomial, 0) + k
        spend(4 + len(monomial) + (k.numerator.bit_length() >> 6), "polynomials")
    return Polynomial({monomial: k for monomial, k in found.items() if k})
