"""Functions of values that are no operators of Python: the parts of a pair, an index as a number, a choice of two."""

from __future__ import annotations

from tensorlang.language.grammar import Add, bracket
from tensorlang.surface import foreign
from tensorlang.surface.refusals import need_number
from tensorlang.surface.scope import built
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
    """`a` where `condition` holds and `b` elsewhere: numbers, of which only the one that is taken is evaluated.

    The same as condition * a + ~condition * b, for the derivative too: it is that of the number that is taken, and the
    other number has none, whatever it would be. Raises `TypeMismatch` for arrays, of which each element has a condition
    of its own: tl.gen(n, lambda i: tl.where(x[i] > 0, x[i], 0)).

    >>> print(tl.function(lambda x: tl.where(x > 0, x, 0), x=tl.R)(-2.0))
    0.0
    """
    p = as_cond(condition, "what tl.where chooses by")
    left, right = as_term(a), as_term(b)
    for part in (left, right):
        need_number(part.expr.type, "tl.where", "tl.where(c, x[i], y[i])")
    q = ~p
    e = built(Add, bracket(p.pred, left.expr), bracket(q.pred, right.expr), 1)
    return term(e, p, left, right)


foreign.terms_are_made_by(apply, where)
