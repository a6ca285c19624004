"""Branches on values, joined where they meet: one selection, instead of a sum of terms that are zero elsewhere.

[c[i] = 1] * a + [c[i] = 0] * b                                         ->  jnp.where(c == 1, a, b)
[c[i] = 1 and d[i] = 1] * a + [c[i] = 1 and d[i] = 0] * b + [c[i] = 0] * e
    ->  jnp.where(c == 1, jnp.where(d == 1, a, b), e)
"""

from __future__ import annotations

from functools import partial

from tensorlang.language.grammar import Add, Bracket, Expr, bracket
from tensorlang.language.predicates import TRUE, Equal, Predicate, conjunction, conjuncts, lookups, negation, substitute
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.only_if import is_worth_asking, only_if
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.values import Value, chosen, negated
from tensorlang.recursion import Deep, call

_MOST_TERMS = 16

_Term = tuple[int, Predicate, Expr]


def joined(ctx: Context, scope: Scope, e: Add) -> Deep[Value | None]:
    """The array of `e` if conditions on values tell its terms apart, else None."""
    terms = _terms(e) if ctx.conditions else []
    if len(terms) < 2 or not _are_apart(ctx, terms):
        return None
    return (yield from call(_joined(ctx, scope, terms)))


def _terms(e: Expr) -> list[_Term]:
    """The terms of a sum; nothing if one is under no bracket, or they are too many."""
    found: list[_Term] = []
    stack = [(1, e)]
    while stack:
        sign, part = stack.pop()
        if isinstance(part, Add):
            stack += [(sign * part.sign, part.right), (sign, part.left)]
        elif isinstance(part, Bracket) and len(found) < _MOST_TERMS:
            found.append((sign, part.pred, part.body))
        else:
            return []
    return found


def _split(ctx: Context, terms: list[_Term]) -> Predicate | None:
    """A condition that some terms are under, and all others under its opposite."""
    for q in conjuncts(terms[0][1]):
        if isinstance(q, Equal) and any(lookup.array in ctx.conditions for lookup in lookups(q)):
            opposite = negation(q)
            there = [q in conjuncts(p) for _, p, _ in terms]
            if not all(there) and all(
                one or opposite in conjuncts(p) for one, (_, p, _) in zip(there, terms, strict=True)
            ):
                return q
    return None


def _sides(q: Predicate, terms: list[_Term]) -> tuple[list[_Term], list[_Term]]:
    """The terms under `q` and those under its opposite, without these conditions."""
    opposite = negation(q)
    sides: tuple[list[_Term], list[_Term]] = [], []
    for sign, p, e in terms:
        parts = conjuncts(p)
        side = sides[q not in parts]
        side.append((sign, conjunction(part for part in parts if part is not q and part is not opposite), e))
    return sides


def _are_apart(ctx: Context, terms: list[_Term]) -> bool:
    if len(terms) == 1:
        return True
    q = _split(ctx, terms)
    return q is not None and all(_are_apart(ctx, side) for side in _sides(q, terms))


def _joined(ctx: Context, scope: Scope, terms: list[_Term]) -> Deep[Value]:
    if len(terms) == 1:
        ((sign, p, e),) = terms
        v: Value = yield from call(ctx.value(bracket(p, e), scope))
        return v if sign > 0 else negated(v)
    q = _split(ctx, terms)
    assert q is not None
    values: list[Value] = []
    for side, known in zip(_sides(q, terms), (q, negation(q)), strict=True):
        inner = ctx.scope(scope, masks=(*scope.masks, substitute(known or TRUE, scope.env)))
        compute = partial(_joined, ctx, terms=side)
        if known is not None and any(is_worth_asking(ctx, inner, known, e) for _, _, e in side):
            values.append((yield from call(only_if(ctx, inner, known, compute))))
        else:
            values.append((yield from call(compute(inner))))
    a, b = values
    return chosen(mask(ctx, scope, q), a, b, scope.order)
