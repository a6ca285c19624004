"""Quotients and remainders of index expressions by constants: i // 2, rounded down, and i % 2.

The language has neither: an access, relation or comparison with a // c is stated for the unique k with
c*k <= a < c*k + c, so that neither costs anything.

    x[a // c]                ->  sum k:s. [c*k <= a < c*k + c] * x[k]
    x[a % c]                 ->  sum r:c. [exists k:s. a = c*k + r] * x[r]
    [a // c < b]             ->  [exists k:s. c*k <= a < c*k + c and k < b]
    not [exists k:s. c*k <= a < c*k + c and p]  ->  [(exists k:s. c*k <= a < c*k + c and not p) or a < 0 or c*s <= a]

Until then a quotient is an index of its own in index expressions. The range s is the least one known to contain all of
its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tensorlang.errors import LimitError
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, constant, total
from tensorlang.language.grammar import Add, Const, Expr, Gen, Integer, MakePair, Mul, Proj, access, bracket, sums
from tensorlang.language.predicates import (
    FALSE,
    And,
    Exists,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    exists,
    less,
    negation,
)
from tensorlang.language.types import Array, Pair
from tensorlang.memory import cached

_NONE = constant(0)

HALVES = "a size is not divided: for half of n, call the half n and the whole 2*n"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class IndexQuotient(Index):
    """of // by, which is at least `least` and less than `least` + `range`."""

    of: Affine = field(default_factory=lambda: constant(0))
    by: int = 1
    least: Affine = field(default_factory=lambda: constant(0))
    range: Affine = field(default_factory=lambda: constant(0))


def quotient(a: Affine, by: int) -> Affine:
    """a // by, for a positive integer. Raises `LimitError` if the range of an index in `a` is unknown."""
    if all(k % by == 0 for _, k in a.terms):
        return _divided(a, by)
    return atom_affine(_quotient(a, by))


def remainder(a: Affine, by: int) -> Affine:
    """a % by, for a positive integer. Raises what `quotient` raises."""
    return a - quotient(a, by) * by


@cached
def _quotient(a: Affine, by: int) -> IndexQuotient:
    low, high = _bounds(a)
    least = _rounded(_part(low, -1), by)
    beyond = -_rounded(-_part(high + 1, 1), by)
    of = f"({a})" if len(a.terms) > 1 or a.constant else str(a)
    return IndexQuotient(f"{of} // {by}", of=a, by=by, least=least, range=beyond - least)


def _bounds(a: Affine) -> tuple[Affine, Affine]:
    """The least and the greatest value that `a` can have."""
    low, high = [(constant(a.constant), 1)], [(constant(a.constant), 1)]
    for atom, k in a.terms:
        least, most = _range(atom)
        low.append((least if k > 0 else most, k))
        high.append((most if k > 0 else least, k))
    return total(low), total(high)


def _range(atom: Atom) -> tuple[Affine, Affine]:
    match atom:
        case IndexQuotient():
            return atom.least, atom.least + atom.range - 1
        case Size():
            return atom_affine(atom), atom_affine(atom)
        case Lookup():
            return constant(0), atom.array.size - 1
        case Index(size=Affine() as size):
            return constant(0), size - 1
    raise LimitError(f"nothing is known of the range of {atom.name}, so a quotient of it has none")


def _part(a: Affine, sign: int) -> Affine:
    """The terms of `a` with that sign, and its constant if it has that sign."""
    kept = [(atom_affine(atom), k) for atom, k in a.terms if k * sign > 0]
    return total(kept) + (a.constant if a.constant * sign > 0 else 0)


def _rounded(a: Affine, by: int) -> Affine:
    """a / by rounded down, if that is an index expression; else `a` itself, a lower bound if `a` is not positive."""
    return _divided(a, by) if all(k % by == 0 for _, k in a.terms) else a


def _divided(a: Affine, by: int) -> Affine:
    return total([(atom_affine(atom), k // by) for atom, k in a.terms]) + a.constant // by


def _quotients(affines: Iterable[Affine]) -> list[IndexQuotient]:
    """The quotients that occur, each after those in its numerator."""
    found: dict[IndexQuotient, None] = {}
    for a in affines:
        for index in a.indices:
            if isinstance(index, IndexQuotient) and index not in found:
                found.update(dict.fromkeys(_quotients([index.of])))
                found[index] = None
    return list(found)


def remainders(affines: Iterable[Affine]) -> list[Affine]:
    """The numerators of the remainders in these index expressions."""
    parts = tuple(affines)
    return [q.of for q in _quotients(parts) if any(a.coefficient(q) and a.coefficient(q) % q.by == 0 for a in parts)]


def index_of(e: Expr) -> Affine | None:
    """The index expression that `e` is as a number, if its form shows one; else None."""
    match e:
        case Integer(a):
            return a
        case Const(value) if value.denominator == 1:
            return constant(int(value))
        case Add(left, right, sign):
            c, d = index_of(left), index_of(right)
            return None if c is None or d is None else c + d * sign
        case Mul(left, right):
            c, d = index_of(left), index_of(right)
            if c is None or d is None or not (c.is_constant or d.is_constant):
                return None
            return d * c.constant if c.is_constant else c * d.constant
        case _:
            return None


def said(affines: Iterable[Affine], make: Callable[..., Expr]) -> Expr:
    """make(affines), with quotients replaced by indices, each summed over its only value."""
    parts = tuple(affines)
    found = _quotients(parts)
    if not found:
        return make(*parts)
    bound, change = _by_remainder(found[0]) if _only_remainders(found, parts) else _by_value(found)
    binders, p = [(k, k.size or _NONE) for k, _ in bound], conjunction(q for _, q in bound)
    return _each(make(*map(change, parts)), lambda e: sums(binders, bracket(p, e)))


def asked(affines: Iterable[Affine], make: Callable[..., Predicate]) -> Predicate:
    """make(affines), with quotients replaced by indices bound by `exists`."""
    parts = tuple(affines)
    found = _quotients(parts)
    if not found:
        return make(*parts)
    bound, change = _by_value(found)
    p = make(*map(change, parts))
    for k, is_value in reversed(bound) if p is not FALSE else ():
        p = Exists(k, k.size or _NONE, conjunction([is_value, p]))
    return p


_Change = Callable[[Affine], Affine]


def _by_value(found: list[IndexQuotient]) -> tuple[list[tuple[Index, Predicate]], _Change]:
    """Indices for the quotients, each with the predicate that determines its value, and a function that substitutes
    them in index expressions."""
    values: dict[Atom, Affine] = {}
    bound: list[tuple[Index, Predicate]] = []
    for q in found:
        k = Index("q", size=q.range, written=f"({atom_affine(q) - q.least})")
        values[q] = atom_affine(k) + q.least
        bound.append((k, _is_value(q.of.substitute(values), q.by, values[q])))
    return bound, lambda a: a.substitute(values)


def _is_value(a: Affine, by: int, k: Affine) -> Predicate:
    """a // by = k."""
    rest = a - k * by
    return conjunction([at_most(constant(0), rest), less(rest, constant(by))])


def _by_remainder(q: IndexQuotient) -> tuple[list[tuple[Index, Predicate]], _Change]:
    """The same with an index for the remainder of `q`, which has few values."""
    r, k = Index("r", size=constant(q.by), written=f"({q.name.replace('//', '%')})"), Index("q", size=q.range)
    multiple = (atom_affine(k) + q.least) * q.by
    p = exists([(k, q.range)], equal(q.of, multiple + atom_affine(r)))
    rest = q.of - atom_affine(r) - atom_affine(q) * q.by  # it is 0
    return [(r, p)], lambda a: a + rest * (a.coefficient(q) // q.by)


def _only_remainders(found: list[IndexQuotient], parts: tuple[Affine, ...]) -> bool:
    """Whether there is only one quotient, and `parts` have it only with multiples of its divisor as coefficients."""
    (q, *others) = found
    return not others and all(a.coefficient(q) % q.by == 0 and not _looks_up(a, q) for a in parts)


def _looks_up(a: Affine, index: Index) -> bool:
    return any(index in at.free for lookup in a.lookups for at in lookup.at)


def _each(e: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`e`, with `change` applied to every number in it."""
    match e.type:
        case Array(size):
            i = Index("i", size=size)
            return Gen(i, size, _each(access(e, atom_affine(i)), change))
        case Pair():
            return MakePair(_each(Proj(0, e), change), _each(Proj(1, e), change))
        case _:
            return change(e)


def negated(p: Predicate) -> Predicate | None:
    """not p; None if that is no predicate: for relations, and for an `exists` that does not come from a quotient."""
    match p:
        case And(parts) | Or(parts):
            found = [q for q in map(negated, parts) if q is not None]
            if len(found) < len(parts):
                return None
            return disjunction(found) if isinstance(p, And) else conjunction(found)
        case Exists():
            return _another_value(p)
        case _:
            return negation(p)


def _another_value(p: Exists) -> Predicate | None:
    """not p, if `p` is a predicate on a quotient; else None."""
    k, parts = atom_affine(p.index), conjuncts(p.body)
    for part in parts:
        by = -part.value.coefficient(p.index) if isinstance(part, NonNegative) else 0
        if by <= 0:
            continue
        assert isinstance(part, NonNegative)
        a = part.value + k * by
        is_value = conjuncts(_is_value(a, by, k))
        others = negated(conjunction(q for q in parts if q not in is_value))
        if others is not None and p.index not in a.free and all(q in parts for q in is_value):
            differs = [] if others is FALSE else [Exists(p.index, p.size, conjunction([*is_value, others]))]
            return disjunction([*differs, *_beyond(a, p.size * by)])
    return None


def _beyond(a: Affine, size: Affine) -> list[Predicate]:
    """The predicates that `a` is less than 0 and that it is at least `size`, without those that are impossible."""
    try:
        low, high = _bounds(a)
    except LimitError:
        return [less(a, constant(0)), at_most(size, a)]
    below = [] if _never_negative(low) else [less(a, constant(0))]
    return below if _never_negative(size - 1 - high) else [*below, at_most(size, a)]


def _never_negative(a: Affine) -> bool:
    return a.constant >= 0 and all(isinstance(atom, Size) and k > 0 for atom, k in a.terms)
