"""Functions of values that are no operators of Python: the parts of a pair, an index as a number, a choice of two."""

from __future__ import annotations

from tensorlang.surface import foreign
from tensorlang.surface.either import either, one_type
from tensorlang.surface.scope import built, refuse
from tensorlang.surface.terms import Term, apply, as_cond, as_idx, as_term, part_of, term


def first(e: object) -> Term:
    """The first part of a pair. Raises `TypeMismatch` for anything else.

    >>> print(tl.function(lambda x: tl.fst(tl.pair(x, x * x)), x=tl.R).body)
    fst((x, x * x))
    """
    return part_of(e, 0)


def second(e: object) -> Term:
    """The second part of a pair. Raises `TypeMismatch` for anything else.

    >>> print(tl.function(lambda x: tl.snd(tl.pair(x, x * x)), x=tl.R).body)
    snd((x, x * x))
    """
    return part_of(e, 1)


def real(i: object) -> Term:
    """The index expression `i` as a number, which costs nothing: real(2 * i + 1). In sums and products with numbers
    indices and sizes are numbers anyway.

    Raises `TypeMismatch` for anything but an index expression.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda x: tl.sum(n, lambda i: x[i]) / tl.real(n), x=tl.R[n]).body)
    (sum i:n. x[i]) / n
    """
    return as_term(as_idx(i, "what real takes"))


def where(condition: object, a: object, b: object) -> Term:
    """`a` where `condition` holds and `b` elsewhere: numbers, arrays or pairs of one type, of which only the one that
    is taken has to exist.

    For numbers the same as condition * a + ~condition * b, for the derivative too: it is that of the side that is
    taken, and the other side has none, whatever it would be. There is one condition; where each element has its own,
    write tl.gen(n, lambda i: tl.where(x[i] > 0, x[i], 0)). Raises `TypeMismatch` for sides of different types.

    >>> print(tl.function(lambda x: tl.where(x > 0, x, 0), x=tl.R)(-2.0))
    0.0
    """
    p = as_cond(condition, "what tl.where chooses by")
    left, right = as_term(a), as_term(b)
    kinds = left.expr.type, right.expr.type
    if kinds[0] is not kinds[1]:
        refuse(f"both sides of tl.where have one type, found {kinds[0]} and {kinds[1]}", one_type(*kinds, python=True))
    return term(built(either, p.pred, left.expr, (~p).pred, right.expr), p, left, right)


foreign.terms_are_made_by(apply, where)
