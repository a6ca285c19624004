"""Contractions made short: views are read through, products are fused into their sums, and indices that equalities
determine are not summed over.

The results for a contraction's pattern are cached, since they depend on no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from tensorlang.budget import spend
from tensorlang.language.affine import Index, IndexArray, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    substitute,
)
from tensorlang.memory import cached
from tensorlang.normal.pattern import Pattern, Shape, axes, renamed
from tensorlang.normal.ssa import Constant, Contraction, Statement
from tensorlang.sets.solve import Ranges, Solution, determines, equalities, project, simplify_in, solve

Factor = tuple[Statement, tuple[Index, ...]]
"""A factor and the indices at which it is read."""

Factors = tuple[Statement, ...]

_ZERO, _ONE = constant(0), constant(1)


def contraction(
    shape: Shape, own: tuple[Index, ...], factors: Sequence[Factor], summed: Ranges, p: Predicate
) -> Statement:
    """gen own. sum .. [p] * the product of the factors, made short."""
    old = (*own, *(i for _, at in factors for i in at), *summed)
    numbered = renamed(p, old, axes(0, len(old)))
    return contracted(Contraction(numbered, tuple(y for y, _ in factors), tuple(summed.values()), shape))


def contracted(x: Contraction, once: frozenset[Statement] = frozenset()) -> Statement:
    """`x`, with operands read through where possible; `once` holds the statements that nothing else reads."""
    pattern, factors = x.pattern, x.factors
    while True:
        pattern = settled(pattern)
        if pattern.pred is FALSE or any([is_zero(y) for y in factors]):
            return Constant(Fraction(0), x.shape)
        k = next((k for k in range(len(factors)) if _can_read_through(pattern, factors, k, once)), None)
        if k is None:
            break
        pattern, factors = read_through(pattern, factors, k)
    pattern, factors = folded(pattern, factors)
    pattern = settled(pattern)
    first = factors[0]
    if len(factors) == 1 and (first.shape == x.shape or isinstance(first, Constant)) and _is_copy(pattern):
        return Constant(first.value, x.shape) if isinstance(first, Constant) else first
    return Contraction(pattern.pred, factors, pattern.summed, pattern.shape)


def read_through(x: Pattern, factors: Factors, k: int) -> tuple[Pattern, Factors]:
    """The contraction with its k-th factor, a contraction too, replaced by the factors of that."""
    inner = factors[k]
    assert isinstance(inner, Contraction)
    return _read_through(x, k, inner.pattern), (*factors[:k], *inner.factors, *factors[k + 1 :])


def folded(x: Pattern, factors: Factors) -> tuple[Pattern, Factors]:
    """The contraction with its constant factors multiplied into one, which comes first; a 1 is left out unless
    alone."""
    constants = tuple([k for k, y in enumerate(factors) if isinstance(y, Constant)])
    if not constants:
        return x, factors
    value = prod((y.value for y in factors if isinstance(y, Constant)), start=Fraction(1))
    spend((value.numerator.bit_length() + value.denominator.bit_length() >> 9) ** 2, "numbers of very many digits")
    others = tuple([y for y in factors if not isinstance(y, Constant)])
    number = (Constant(value, ()),) if value != 1 or not others else ()
    return _without(x, constants, bool(number)), (*number, *others)


def inner_solution(x: Contraction) -> Solution:
    """The equalities of a contraction solved for all indices except its own."""
    return solution(x.pattern)


def only_moves(x: Statement) -> bool:
    """Whether `x` is a view: each of its elements is at most one element of its only factor."""
    return isinstance(x, Contraction) and len(x.factors) == 1 and is_determined(x.pattern)


def is_zero(x: Statement) -> bool:
    """Whether `x` is the constant 0."""
    return isinstance(x, Constant) and x.value == 0


@cached
def solution(x: Pattern) -> Solution:
    """The equalities of `x` solved for all but its own indices."""
    return solve(x.pred, x.inner, x.outer)


@cached
def is_determined(x: Pattern) -> bool:
    """Whether nothing is summed: each element of the result has at most one point."""
    return determines(x.pred, x.inner)


@cached
def reads_each_once(x: Pattern, k: int) -> bool:
    """Whether each element of the k-th factor is read at most once."""
    return determines(x.pred, [i for i in x.indices if i not in x.places[k]])


@cached
def shadow(x: Pattern) -> Predicate:
    """The projection of the predicate to `x`'s own indices."""
    return project(x.inner, x.pred, x.outer)


@cached
def settled(x: Pattern) -> Pattern:
    """`x` summed over indices of several values that no equality determines, its predicate simplified and in order."""
    known = {**x.outer, **x.read}
    loops: Ranges = {i: n for i, n in zip(x.loops, x.summed, strict=True) if n != _ONE}
    p, simple = substitute(x.pred, {i: _ZERO for i, n in zip(x.loops, x.summed, strict=True) if n == _ONE}), None
    while True:
        solved = solve(p, loops, known)
        loops = {i: loops[i] for i in solved.free}
        if solved.rest is simple:
            break
        p = simple = simplify_in(solved.rest, {**known, **loops})
    old = (*known, *loops)
    parts = conjuncts(renamed(simple, old, axes(0, len(old))))
    in_order = conjunction(sorted(parts, key=lambda q: (not isinstance(q, Equal), _text(q))))
    return Pattern(in_order, x.factors, tuple(loops.values()), x.shape)


def _text(p: Predicate) -> str:
    """The sort key of a comparison, so that statements don't depend on the order of their conditions."""
    return str(p.difference if isinstance(p, Equal) else p.value) if isinstance(p, Equal | NonNegative) else ""


def _can_read_through(x: Pattern, factors: Factors, k: int, once: frozenset[Statement]) -> bool:
    inner = factors[k]
    if not isinstance(inner, Contraction) or not is_determined(inner.pattern):
        return False
    if len(inner.factors) == 1:
        return isinstance(inner.factors[0], Constant) or not is_looked_up(x, k)
    return len(factors) == 1 and inner in once and _sums_each_once(x)


@cached
def is_looked_up(x: Pattern, k: int, arrays: frozenset[IndexArray] | None = None) -> bool:
    """Whether the k-th factor is read at an element of an index array, one of `arrays` if these are given.

    Such a factor is left unchanged, so that the greatest value of a statement is an element of that statement.
    """
    zeros = [a for a in equalities(x.pred) if any(arrays is None or read.array in arrays for read in a.lookups)]
    return any(a.coefficient(i) for a in zeros for i in x.places[k])


@cached
def _sums_each_once(x: Pattern) -> bool:
    """Whether `x` sums, reading each element of its factors at most once."""
    return not is_determined(x) and determines(x.pred, (*x.own, *x.loops))


@cached
def _read_through(x: Pattern, k: int, inner: Pattern) -> Pattern:
    """`x` with its k-th factor replaced by the factors of `inner`; the indices of the k-th factor are summed over."""
    factors = (*x.factors[:k], *inner.factors, *x.factors[k + 1 :])
    made = Pattern(TRUE, factors, (*x.summed, *x.factors[k], *inner.summed), x.shape)
    start, end = len(x.summed), len(x.summed) + len(x.factors[k])
    after = k + len(inner.factors)
    between = made.loops[start:end]
    outer_places = (*made.places[:k], between, *made.places[after:])
    here = (*made.own, *(i for at in outer_places for i in at), *made.loops[:start])
    there = (*between, *(i for at in made.places[k:after] for i in at), *made.loops[end:])
    both = conjunction([renamed(x.pred, x.indices, here), renamed(inner.pred, inner.indices, there)])
    return Pattern(both, made.factors, made.summed, made.shape)


@cached
def _without(x: Pattern, constants: tuple[int, ...], number: bool) -> Pattern:
    """`x` without the factors `constants`, whose indices are summed over, and with `number` a number as first
    factor."""
    kept = [k for k in range(len(x.factors)) if k not in constants]
    factors = tuple(x.factors[k] for k in kept)
    sizes = [size for k in constants for size in x.factors[k]]
    made = Pattern(TRUE, ((), *factors) if number else factors, (*x.summed, *sizes), x.shape)
    old = (
        *x.own,
        *(i for k in kept for i in x.places[k]),
        *x.loops,
        *(i for k in constants for i in x.places[k]),
    )
    return Pattern(renamed(x.pred, old, made.indices), made.factors, made.summed, made.shape)


@cached
def _is_copy(x: Pattern) -> bool:
    """Whether `x` has one factor and each of its elements is the factor's element at the same place."""
    found = solution(x)
    if found.free or found.rest is not TRUE:
        return False
    (places,) = x.places
    return all(found.values[i] is atom_affine(j) for i, j in zip(places, x.own, strict=False))
