"""Sums, products and choices of expressions, simplified for 0 and 1; and negated predicates."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tensorlang.language import functions
from tensorlang.language.affine import constant
from tensorlang.language.grammar import Add, Bracket, Const, Expr, Mul, bracket, number
from tensorlang.language.predicates import (
    FALSE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    disjunction,
    not_equal,
)
from tensorlang.surface.quotients import negated as other_quotient


def is_zero(e: Expr) -> bool:
    """Whether `e` is the number 0."""
    return isinstance(e, Const) and e.value == 0


def is_one(e: Expr) -> bool:
    """Whether `e` is the number 1."""
    return isinstance(e, Const) and e.value == 1


def when(p: Predicate, e: Expr) -> Expr:
    """[p] * e."""
    return e if is_zero(e) else number(0) if p is FALSE else bracket(p, e)


def plus(a: Expr, b: Expr) -> Expr:
    """a + b."""
    return b if is_zero(a) else a if is_zero(b) else Add(a, b, 1)


def minus(a: Expr, b: Expr) -> Expr:
    """a - b."""
    return a if is_zero(b) else negative(b) if is_zero(a) else Add(a, b, -1)


def negative(a: Expr) -> Expr:
    """-a."""
    return Mul(number(-1), a)


def times(a: Expr, b: Expr) -> Expr:
    """a * b."""
    if is_zero(a) or is_zero(b):
        return number(0)
    if is_one(a):
        return b
    if is_one(b):
        return a
    if isinstance(a, Bracket) and is_one(a.body):
        return bracket(a.pred, b)
    if isinstance(b, Bracket) and is_one(b.body):
        return bracket(b.pred, a)
    return Mul(a, b)


def divided(a: Expr, b: Expr) -> Expr:
    """a / b."""
    if isinstance(b, Const) and b.value:
        return times(number(Fraction(1) / b.value), a)
    return times(a, functions.call("recip", b))


def where(name: str, a: Expr, b: Expr, e: Expr) -> Expr:
    """The scalar function `name`, where_ge or where_gt: e where a >= b or a > b holds, else 0."""
    if isinstance(a, Const) and isinstance(b, Const):
        return e if a.value > b.value or (a.value == b.value and name == "where_ge") else number(0)
    return e if is_zero(e) else functions.call(name, a, b, e)


def negated(p: Predicate, complement: Callable[[Relation], Relation]) -> Predicate | None:
    """Not p, or None for a quantifier that does not come from a quotient. `complement` returns the complement of a
    relation.

    An element outside of an index array makes comparisons false, and their negations too.
    """
    match p:
        case NonNegative(a):
            return at_most(a, constant(-1))
        case Equal(a):
            return not_equal(a, constant(0))
        case Related(relation, arguments):
            return Related(complement(relation), arguments)
        case And(parts) | Or(parts):
            found = [negated(part, complement) for part in parts]
            if None in found:
                return None
            known = [q for q in found if q is not None]
            return disjunction(known) if isinstance(p, And) else conjunction(known)
        case Exists():
            return other_quotient(p)
