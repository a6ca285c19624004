"""Quasi-polynomials, which are polynomials in sizes and in quotients of sizes rounded down; and their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import comb, gcd, lcm

from tensorlang.costs.polynomial import Monomial, Polynomial, Unknown, affine, collected, number, total, unknown
from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Index, Size, atom_affine, constant
from tensorlang.language.affine import total as sum_of
from tensorlang.language.predicates import Equal, NonNegative, Predicate, at_most, conjunction, free_atoms, within


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Quotient(Index):
    """numerator / divisor, rounded down: for integer sets an ordinary index that satisfies `definition`."""

    numerator: Affine = field(kw_only=True)
    divisor: int = field(kw_only=True)

    @property
    def definition(self) -> Predicate:
        """0 <= numerator - divisor * self < divisor."""
        return within(self.numerator - atom_affine(self) * self.divisor, constant(self.divisor))


def quotient(a: Affine, divisor: int) -> Affine:
    """a / divisor, rounded down: the divisible part is divided, and only the rest becomes a `Quotient`.

    So that equal quotients have one form, the first coefficient in a quotient is at most half of the divisor, and
    halves have no constant: (n + 1) / 2 rounded down is n - n / 2 rounded down.
    """
    whole = Affine(tuple((x, k // divisor) for x, k in a.terms if k // divisor), a.constant // divisor)
    rest = Affine(tuple((x, k % divisor) for x, k in a.terms if k % divisor), a.constant % divisor)
    if rest.is_constant:
        return whole
    common = gcd(divisor, *(k for _, k in rest.terms))
    rest = Affine(tuple((x, k // common) for x, k in rest.terms), rest.constant // common)
    divisor //= common
    match rest.terms:
        case ((Quotient() as inner, 1),):
            return whole + quotient(inner.numerator + rest.constant * inner.divisor, inner.divisor * divisor)
        case ((_, k), *_) if 2 * k > divisor:
            return whole - quotient(-rest + (divisor - 1), divisor)
    if divisor == 2 and rest.constant:
        return whole + (rest - 1) - atom_affine(_quotient(rest - 1, 2))
    return whole + atom_affine(_quotient(rest, divisor))


@shared
def _quotient(numerator: Affine, divisor: int) -> Quotient:
    text = f"({numerator})" if len(numerator.terms) + (numerator.constant != 0) > 1 else str(numerator)
    return Quotient(f"floor({text}/{divisor})", 0, numerator=numerator, divisor=divisor)


def unrounded(p: Predicate) -> Predicate:
    """An equivalent comparison without a quotient, if there is one: n >= 2 * m for n / 2 rounded down >= m."""
    if isinstance(p, Equal):
        zero = p.difference
        alone = any(isinstance(x, Quotient) and abs(k) == 1 for x, k in zero.terms)
        return conjunction(map(unrounded, (NonNegative(zero), NonNegative(-zero)))) if alone else p
    if not isinstance(p, NonNegative):
        return p
    for x, k in p.value.terms:
        if isinstance(x, Quotient) and abs(k) == 1:
            rest = p.value - atom_affine(x) * k
            bound = rest * x.divisor + (x.numerator if k > 0 else -x.numerator + (x.divisor - 1))
            return unrounded(at_most(constant(0), bound))
    return p


def replaced(a: Affine, values: Mapping[Size, Affine]) -> Affine:
    """`a` with sizes replaced by affine expressions, also in quotients."""
    parts = []
    for x, k in a.terms:
        value = atom_affine(x)
        if isinstance(x, Size):
            value = values.get(x, value)
        elif isinstance(x, Quotient):
            value = quotient(replaced(x.numerator, values), x.divisor)
        parts.append((value, k))
    return sum_of(parts) + a.constant


def divisors(a: Affine) -> dict[Size, int]:
    """For each size in quotients in `a`, a common multiple of their divisors, multiplied for nested quotients."""
    found: dict[Size, int] = {}
    for x in a.atoms:
        if isinstance(x, Quotient):
            inner = divisors(x.numerator)
            for size in x.numerator.sizes:
                inner.setdefault(size, 1)
            for size, divisor in inner.items():
                found[size] = lcm(found.get(size, 1), divisor * x.divisor)
    return found


def definitions(p: Predicate) -> Predicate:
    """The definitions of the quotients in `p`, including those nested in other quotients."""
    found: dict[Quotient, None] = {}
    waiting = sorted((x for x in free_atoms(p) if isinstance(x, Quotient)), key=lambda x: x.name)
    while waiting:
        x = waiting.pop()
        if x not in found:
            found[x] = None
            waiting += [y for y in x.numerator.indices if isinstance(y, Quotient)]
    return conjunction(x.definition for x in found)


def summed(p: Polynomial, x: Index, low: Affine, high: Affine) -> Polynomial:
    """The sum of `p` over x from `low` to `high`, where high >= low - 1 (Faulhaber's formula)."""
    first, last = affine(low), affine(high + 1)
    return total(c * (_below(last, k) - _below(first, k)) for k, c in p.powers_of(x).items())


def _below(x: Polynomial, k: int) -> Polynomial:
    """0^k + 1^k + ... + (x - 1)^k."""
    result, power = number(0), number(1)
    for j in range(k + 1, 0, -1):  # j is the exponent that x lacks in the current power
        power = power * x
        result = result + power * (_bernoulli(j - 1) * comb(k + 1, j - 1) / Fraction(k + 1))
    return result


@cache
def _bernoulli(j: int) -> Fraction:
    if j == 0:
        return Fraction(1)
    return -sum((comb(j + 1, i) * _bernoulli(i) for i in range(j)), Fraction(0)) / (j + 1)


def reduced(p: Polynomial) -> Polynomial:
    """`p` without products of quotients that differ only by a constant in the numerator.

    With e = d * q + r, the quotient of e + c by d is q, or q + 1 where r + c >= d. So the differences from q are 0
    or 1, and the product of two of them is the lesser one; q itself follows from e and their sum.
    """
    families: dict[tuple[Affine, int], None] = {}
    for x in p.unknowns:
        if isinstance(x, Quotient):
            families[x.numerator - x.numerator.constant, x.divisor] = None
    for e, d in families:
        if d <= _LARGEST_FAMILY:
            p = _reduced_family(p, e, d)
    return p


_LARGEST_FAMILY = 8


def _reduced_family(p: Polynomial, e: Affine, d: int) -> Polynomial:
    steps = {c: Index(f"step{c}") for c in range(1, d)}  # 1 where r + c >= d
    base = (affine(e) - total(unknown(step) for step in steps.values())) * Fraction(1, d)
    values: dict[Unknown, Polynomial] = {_quotient(e + c, d): base + unknown(step) for c, step in steps.items()}
    expanded = p.substitute({_quotient(e, d): base, **values})
    places = {step: c for c, step in steps.items()}
    linear = collected((_least(monomial, places), k) for monomial, k in expanded.terms.items())
    first = quotient(e, d)
    return linear.substitute({step: affine(quotient(e + c, d) - first) for step, c in places.items()})


def _least(monomial: Monomial, places: Mapping[Index, int]) -> Monomial:
    """A product in which only that one of several steps is left that is most rarely 1."""
    steps = [x for x in monomial if x in places]
    others = [x for x in monomial if x not in places]
    return tuple(sorted([*others, *sorted(set(steps), key=lambda x: places[x])[:1]], key=id))  # type: ignore[index]
