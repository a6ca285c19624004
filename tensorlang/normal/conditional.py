"""where_ge(a, b, e) -> [a >= b] * e, for an e that may have no derivative where the condition does not hold.

With the scalar function where_ge, the cotangent of e is 0 where the condition does not hold; but 0 times an infinite
derivative is nan. Under a bracket, no step of the adjoint is executed at these points. It costs no more: the comparison
costs as much as the function did, and e is evaluated only where it is taken.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import IndexArray, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Call, Compared, Expr, Let, Recur, Var, children, holds
from tensorlang.language.rebuilt import rewrite

TOTAL = frozenset("abs cos max min relu sigmoid sign sin softplus tanh where_ge where_gt".split())  # noqa: SIM905
"""Functions whose derivative is bounded."""

_COMPARISONS = {"where_ge": "<=", "where_gt": "<"}


def with_conditions(f: Function) -> Function:
    """`f` with chosen values that may be without a derivative put under conditions."""
    order = _parts_first(f.body)
    if not any(isinstance(e, Call) and e.function.name in _COMPARISONS for e in order):
        return f
    partial = _partial(order)
    return replace(f, body=_conditional(f.body, partial))


def _parts_first(root: Expr) -> list[Expr]:
    """Every expression in `root` after its parts; the body of a let after its value."""
    order: dict[Expr, None] = {}
    stack = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if ready:
            order.setdefault(e)
        elif e not in order:
            stack.append((e, True))
            stack += [(part, False) for part in reversed(children(e))]
    return list(order)


def _partial(order: list[Expr]) -> set[Expr]:
    """The expressions that contain, directly or through variables, a function whose derivative is not bounded."""
    found: set[Expr] = set()
    values = {e.var: e.value for e in order if isinstance(e, Let)}
    states = {e.state for e in order if isinstance(e, Recur)}
    for e in order:
        if isinstance(e, Var):
            is_partial = values.get(e) in found or e in states
        elif isinstance(e, Call) and e.function.name not in TOTAL and not _is_polynomial(e):
            is_partial = True
        else:
            is_partial = any(part in found for part in children(e))
        if is_partial:
            found.add(e)
    return found


def _is_polynomial(e: Call) -> bool:
    return e.function.exponent is not None and e.function.exponent.denominator == 1


def _conditional(e: Expr, partial: set[Expr]) -> Expr:
    def made(old: Expr, new: Expr) -> Expr:
        match old, new:
            case Call(f, (_, _, chosen)), Call(_, (a, b, value)) if f.name in _COMPARISONS and chosen in partial:
                c = IndexArray("c", (), constant(2))
                return Let(c, Compared(_COMPARISONS[f.name], b, a), Bracket(holds(c), value))
            case _:
                return new

    return rewrite(e, lambda _: None, made)
