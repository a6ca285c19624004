"""Values of functions of numbers on all paths at once: polynomials over atoms, with choices between sides of branches.

An atom is a name, a scalar function of values, the reciprocal of a sum, or a choice: one of two values, as a test
decides. Two values are equal if their difference is 0 as a rational function whichever way each test goes. All that is
known of scalar functions is that equal arguments have equal values. So values that are equal here are equal wherever
both are numbers.

A test is true, false, a comparison `a < b` or `a = b` of values, or a combination of tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from .budget import Budget, Undecided
from .semantics import known
from .trees import Add, Call, Expr, Mul, Name, Num

Monomial = tuple[tuple[int, int], ...]
"""Atoms by their numbers, with exponents that are not 0."""
Number = tuple[tuple[Monomial, Fraction], ...]
"""Monomials with coefficients that are not 0, in order."""
Test = bool | tuple[Any, ...]
"""("<", a, b), ("=", a, b), ("not", p), ("and", p, q), ("or", p, q), ("if", p, q, r) or ("name", ..)."""
Known = tuple[tuple[Test, bool], ...]
"""Tests with their outcomes."""

ZERO: Number = ()
_MOST_TERMS = 2000
_LONG = 12
_MOST_SPLITS = 14
_MOST_EXPONENT = 64


def constant(x: int | Fraction) -> Number:
    """A number."""
    return (((), Fraction(x)),) if x else ZERO


ONE = constant(1)


def _sum(parts: Iterable[tuple[Monomial, Fraction]]) -> Number:
    found: dict[Monomial, Fraction] = {}
    for m, k in parts:
        found[m] = found.get(m, Fraction(0)) + k
    if len(found) > _MOST_TERMS:
        raise Undecided("a polynomial of too many terms")
    return tuple(sorted((m, k) for m, k in found.items() if k))


def plus(a: Number, b: Number, sign: int = 1) -> Number:
    """a + b, or a - b."""
    return _sum((*a, *((m, k * sign) for m, k in b))) if b else a


def _joined(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    found = dict(m)
    for atom, e in n:
        found[atom] = found.get(atom, 0) + e
    return tuple(sorted((atom, e) for atom, e in found.items() if e))


def times(a: Number, b: Number) -> Number:
    """a * b"""
    if ONE in (a, b):
        return b if a == ONE else a
    if len(a) * len(b) > _MOST_TERMS:
        raise Undecided("a product of too many terms")
    return _sum((_joined(m, n), k * j) for m, k in a for n, j in b)


class Symbols:
    """The atoms of one comparison."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.atoms: list[tuple[object, ...]] = []
        self.numbers: dict[tuple[object, ...], int] = {}
        self.lets: dict[Number, Number] = {}
        """Long values, with the atoms that stand for them from then on."""

    def named(self, a: Number) -> Number:
        """`a`, or an atom for it if it is long."""
        if len(a) > _LONG and a not in self.lets:
            self.lets[a] = self.atom("let", a)
        return self.lets.get(a, a)

    def atom(self, *what: object) -> Number:
        """The atom with this description."""
        if what not in self.numbers:
            self.numbers[what] = len(self.atoms)
            self.atoms.append(what)
        return ((((self.numbers[what], 1),), Fraction(1)),)

    def reciprocal(self, a: Number) -> Number:
        """1 / a"""
        if not a:
            raise Undecided("a division by 0")
        if len(a) == 1:
            ((m, k),) = a
            return ((tuple((atom, -e) for atom, e in m), 1 / k),)
        first = a[0][1]
        return times(constant(1 / first), self.atom("recip", times(constant(1 / first), a)))

    def apply(self, f: str, arguments: Sequence[Number]) -> Number:
        """f(arguments)"""
        self.budget.spend()
        match f, arguments:
            case "recip", (a,):
                return self.reciprocal(a)
            case "abs", (a,) if all(not m for m, _ in a):
                return tuple((m, abs(k)) for m, k in a)
            case "where_ge", (a, b, t):
                return self.choice(opposite(less(a, b)), t, ZERO)
            case "where_gt", (a, b, t):
                return self.choice(less(b, a), t, ZERO)
        if f.startswith("pow "):
            exponent = Fraction(f.removeprefix("pow "))
            (a,) = arguments
            if exponent.denominator == 1 and abs(exponent) <= _MOST_EXPONENT:
                base, made = (a if exponent > 0 else self.reciprocal(a)), ONE
                for _ in range(abs(int(exponent))):
                    made = times(made, base)
                return made
            # x^(k + p) = x^k * x^p, so that one atom represents powers with neighbouring exponents
            whole = exponent.numerator // exponent.denominator
            rest = self.atom("call", f"pow {exponent - whole}", (a,)) if exponent.denominator > 1 else ONE
            if abs(whole) > _MOST_EXPONENT or exponent.denominator == 1:
                return self.atom("call", f, (a,))
            return times(self.apply(f"pow {whole}", (a,)) if whole else ONE, rest)
        if not known(f):
            raise Undecided(f"{f}, which is not known")
        return self.atom("call", f, tuple(arguments))

    def choice(self, p: Test, a: Number, b: Number) -> Number:
        """a where p holds, else b."""
        if isinstance(p, bool) or a == b:
            return a if p is True or a == b else b
        if p[0] == "not":
            return self.choice(p[1], b, a)
        return self.atom("if", p, a, b)

    def expression(self, e: Expr, names: Mapping[str, Number]) -> Number:
        """A scalar expression over these names."""
        match e:
            case Num(x):
                return constant(x)
            case Name(x):
                return names[x]
            case Add(a, b, sign):
                return plus(self.expression(a, names), self.expression(b, names), sign)
            case Mul(a, b):
                return times(self.expression(a, names), self.expression(b, names))
            case Call(f, arguments):
                return self.apply(f, [self.expression(a, names) for a in arguments])
        raise Undecided("an expression that is no scalar one")

    # ---- outcomes of tests

    def told(self, p: Test, known: Known) -> Test:
        """`p`, simplified by the known outcomes of tests."""
        if isinstance(p, bool) or not known:
            return p
        for q, holds in known:
            if p == q:
                return holds
        match p:
            case "<", a, b:
                made = less(self.resolved(a, known), self.resolved(b, known))
            case "=", a, b:
                made = same(self.resolved(a, known), self.resolved(b, known))
            case "not", q:
                made = opposite(self.told(q, known))
            case ("and" | "or") as f, q, r:
                made = joined(f, self.told(q, known), self.told(r, known))
            case "if", q, r, s:
                made = chosen(*(self.told(x, known) for x in (q, r, s)))
            case _:
                return p
        return dict(known).get(made, made)

    def resolved(self, a: Number, known: Known) -> Number:
        """`a`, simplified by the known outcomes of tests."""
        if not known:
            return a
        parts: Number = ZERO
        for m, k in a:
            self.budget.spend()
            made = constant(k)
            for atom, e in m:
                new = self._resolved(atom, known)
                made = times(made, self.apply(f"pow {e}", (new,)) if e != 1 else new)
            parts = plus(parts, made)
        return parts

    def _resolved(self, atom: int, known: Known) -> Number:
        self.budget.spend()
        match self.atoms[atom]:
            case "if", p, a, b:
                test = self.told(p, known)  # type: ignore[arg-type]
                if isinstance(test, bool):
                    return self.resolved(a if test else b, known)  # type: ignore[arg-type]
                return self.choice(test, self.resolved(a, known), self.resolved(b, known))  # type: ignore[arg-type]
            case "recip", a:
                return self.reciprocal(self.resolved(a, known))  # type: ignore[arg-type]
            case "call", f, arguments:
                return self.apply(f, [self.resolved(a, known) for a in arguments])  # type: ignore
        return (((((atom, 1),)), Fraction(1)),)

    # ---- equality

    def is_zero(self, a: Number, known: Known = (), splits: int = 0) -> bool:
        """Whether `a` is 0 with the known outcomes of tests, whichever way other tests go."""
        a = self._cleared(self.resolved(a, known))
        if not a:
            return True
        test = next((p for m, _ in a for atom, _ in m if (p := self._asked(atom)) is not None), None)
        if test is None or splits >= _MOST_SPLITS:
            return False
        return all(self.is_zero(a, (*known, (test, holds)), splits + 1) for holds in (True, False))

    def equal(self, a: Number, b: Number, known: Known = ()) -> bool:
        """Whether a = b."""
        return a == b or self.is_zero(plus(a, b, -1), known)

    def same_test(self, p: Test, q: Test, known: Known = ()) -> bool:
        """Whether two tests are the same."""
        return self.told(p, known) == self.told(q, known)

    def _asked(self, atom: int) -> Test | None:
        """A test on which the atom depends, one that contains no other test if there is one."""
        match self.atoms[atom]:
            case "if", p, _, _:
                return self._first(p)  # type: ignore[arg-type]
            case "recip", a:
                inner = [a]
            case "call", _, arguments:
                inner = list(arguments)  # type: ignore[call-overload]
            case _:
                return None
        found = (self._asked(x) for a in inner for m, _ in a for x, _ in m)  # type: ignore[attr-defined]
        return next((p for p in found if p is not None), None)

    def _first(self, p: Test) -> Test:
        """A test in `p` that contains no other test."""
        if isinstance(p, tuple) and p[0] in ("and", "or", "not", "if"):
            return self._first(next(q for q in p[1:] if not isinstance(q, bool)))
        if isinstance(p, tuple) and p[0] in ("<", "="):
            found = (self._asked(x) for a in p[1:] for m, _ in a for x, _ in m)
            return next((q for q in found if q is not None), p)
        return p

    def _cleared(self, a: Number) -> Number:
        """`a` times the sums whose reciprocals it has; it is 0 where `a` is."""
        while True:
            atom = max((x for m, _ in a for x, _ in m if self.atoms[x][0] == "recip"), default=None)
            if atom is None:
                return a
            below: Number = self.atoms[atom][1]  # type: ignore[assignment]
            most = max(e for m, _ in a for x, e in m if x == atom)
            powers = {0: ONE}
            parts: Number = ZERO
            for m, k in a:
                self.budget.spend()
                e = most - dict(m).get(atom, 0)
                while e not in powers:
                    powers[len(powers)] = times(powers[len(powers) - 1], below)
                parts = plus(parts, times(((tuple(x for x in m if x[0] != atom), k),), powers[e]))
            a = parts


def less(a: Number, b: Number) -> Test:
    """a < b"""
    difference = plus(b, a, -1)
    if all(not m for m, _ in difference):
        return bool(difference) and difference[0][1] > 0
    return ("<", a, b)


def same(a: Number, b: Number) -> Test:
    """a = b"""
    difference = plus(b, a, -1)
    if all(not m for m, _ in difference):
        return not difference
    return ("=", *sorted((a, b)))


def opposite(p: Test) -> Test:
    """not p"""
    if isinstance(p, bool):
        return not p
    return p[1] if p[0] == "not" else ("not", p)


def joined(f: str, p: Test, q: Test) -> Test:
    """p and q, or p or q."""
    decides = f == "or"
    for one, other in ((p, q), (q, p)):
        if isinstance(one, bool):
            return one if one is decides else other
    return p if p == q else (f, p, q)


def chosen(p: Test, q: Test, r: Test) -> Test:
    """q where p holds, else r."""
    if isinstance(p, bool) or q == r:
        return q if p is True or q == r else r
    return ("if", p, q, r)
