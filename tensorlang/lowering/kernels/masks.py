"""Conditions on values in kernels: masks, which are computed with the tile that they choose from.

    let c = gen i. a[i] < b[i] in [c[j] = 1] * e            ->   kept(less(a[j], b[j]), e)
    max j where c[j] = 1. e                                 ->   max j. above(less(a[j], b[j]), e)
    [exists j. c[j] = 1] * e                                ->   kept(less(0, max j. kept(less(a[j], b[j]), 1)), e)

A mask is a scalar expression whose value is true or false: comparisons of numbers, predicates, and both, either and no
of masks. What reads it selects: nothing that is not selected gets into a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tensorlang.errors import NormalFormError
from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import (
    Bracket,
    Call,
    Compared,
    Expr,
    Extremum,
    ScalarFunction,
    number,
)
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    exists,
    lookups,
    substitute,
)
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.lowering.plan.dependence import variable


def _function(name: str, source: str, evaluate: Any, arity: int = 2) -> ScalarFunction:
    def never(*_: Any) -> tuple[Expr | None, ...]:
        raise NormalFormError(f"{name} stands in kernels alone, which are not differentiated")

    return ScalarFunction(name, arity, 1, never, evaluate, None, source, rf"\mathrm{{{name}}}")


_COMPARISONS = {
    "<": _function("less", "{0} < {1}", np.less),
    "<=": _function("at_most", "{0} <= {1}", np.less_equal),
    "=": _function("equal", "{0} == {1}", np.equal),
}
_BOTH = _function("both", "jnp.logical_and({0}, {1})", np.logical_and)
_EITHER = _function("either", "jnp.logical_or({0}, {1})", np.logical_or)
_NOT = _function("no", "jnp.logical_xor({0}, True)", np.logical_not, 1)  # Mosaic GPU has no logical_not of tiles
_HOLDS = _function("holds", "{0} > 0", lambda a: a > 0, 1)

KEPT = _function("kept", "jnp.where({0}, {1}, 0.0)", lambda m, e: np.where(m, e, 0))
"""kept(mask, e): e where the mask holds, else 0."""
ABOVE = _function("above", "jnp.where({0}, {1}, -jnp.inf)", lambda m, e: np.where(m, e, -np.inf))
BELOW = _function("below", "jnp.where({0}, {1}, jnp.inf)", lambda m, e: np.where(m, e, np.inf))
"""The operand of a greatest, or least, value: e where the mask holds, else a value that is never chosen."""

CHOICES = {KEPT: 0, ABOVE: 1, BELOW: -1}
"""The functions that choose by a mask, with the reduction they are for: 0 a sum, 1 a maximum, -1 a minimum."""

FUNCTIONS = frozenset({*_COMPARISONS.values(), _BOTH, _EITHER, _NOT, _HOLDS, KEPT, ABOVE, BELOW})
"""All functions that make masks or choose by them."""


@dataclass(frozen=True)
class ValueCondition:
    """A condition on values, at each point of the axes `binders`: `compared`, where `guard` holds."""

    binders: tuple[tuple[Index, Affine], ...]
    guard: Predicate
    compared: Compared


Conditions = Mapping[IndexArray, ValueCondition]


def kept(masks: Iterable[Expr], e: Expr) -> Expr:
    """`e` where all masks hold, else 0."""
    return reduce(lambda body, m: Call(KEPT, (m, body)), masks, e)


def said(e: Expr) -> Predicate | None:
    """The predicate whose mask `e` is, if it is one."""
    match e:
        case Call(f, (Bracket(p, _),)) if f is _HOLDS:
            return p
    return None


def with_masks(e: Expr, conditions: Conditions) -> Expr:
    """`e` with masks in place of the `conditions` in its predicates."""

    def made(_: Expr, new: Expr) -> Expr:
        if not isinstance(new, Bracket | Extremum) or _first(new.pred, conditions) is None:
            return new
        preds, masks = _split(conjuncts(new.pred), conditions)
        if isinstance(new, Bracket):
            body = kept(masks, new.body)
            return body if preds is TRUE else Bracket(preds, body)
        chooses = ABOVE if new.sign > 0 else BELOW
        body = reduce(lambda a, m: Call(chooses, (m, a)), masks, new.body)
        return Extremum(new.sign, new.index, new.size, preds, body)

    def given(old: Expr) -> Expr | None:
        return old if variable(old) is not None else None

    return rewrite(e, given, made) if conditions else e


def _split(parts: Sequence[Predicate], conditions: Conditions) -> tuple[Predicate, list[Expr]]:
    """The predicates on indices, and those on values as masks."""
    preds: list[Predicate] = []
    masks: dict[Expr, None] = {}
    stack = list(reversed(parts))
    while stack:
        p = stack.pop()
        x = _first(p, conditions)
        if x is None:
            preds.append(p)
        elif not isinstance(p, And | Or | Exists) and _with(p, x, 0) is FALSE and _with(p, x, 1) is TRUE:
            guard, compared = _at(x, conditions)
            stack += reversed(conjuncts(guard))
            masks[compared] = None
        else:
            m = _mask(p, conditions)
            if isinstance(m, bool):
                preds.append(TRUE if m else FALSE)
            else:
                masks[m] = None
    return conjunction(preds), list(masks)


Mask = Expr | bool
"""A mask, or that it holds everywhere or nowhere."""


def _mask(p: Predicate, conditions: Conditions) -> Mask:
    """The mask of `p`, a predicate on values and indices."""
    if p is TRUE or p is FALSE:
        return p is TRUE
    if isinstance(p, And | Or):
        return reduce(both if isinstance(p, And) else either, [_mask(part, conditions) for part in p.parts])
    x = _first(p, conditions)
    if x is None:
        return Call(_HOLDS, (Bracket(p, number(1)),))
    if isinstance(p, Exists):
        return _somewhere(p, conditions)
    guard, compared = _at(x, conditions)
    holds = both(_mask(guard, conditions), compared)
    where_not, where = (_mask(_with(p, x, k), conditions) for k in (0, 1))
    return either(both(holds, where), both(_not(holds), where_not))


def _somewhere(p: Exists, conditions: Conditions) -> Mask:
    """exists k:n. c[k] = 1   ->   0 < max k:n. kept(c's mask at k, 1): values are compared where k is bound."""
    k = _bound(p)
    m = _mask(substitute(p.body, {p.index: atom_affine(k)}), conditions)
    if isinstance(m, bool):
        return _mask(exists([(k, p.size)], TRUE), {}) if m else False
    return Call(_COMPARISONS["<"], (number(0), Extremum(1, k, p.size, TRUE, kept([m], number(1)))))


@shared
def _bound(p: Exists) -> Index:
    """The index of an extremum for `p`, whose own index may be bound in other predicates, over other ranges."""
    return Index(p.index.name)


def mask_of(p: Predicate) -> Mask:
    """Where a predicate on indices holds."""
    return _mask(p, {})


def both(a: Mask, b: Mask) -> Mask:
    """Where `a` and `b` hold."""
    if isinstance(a, bool) or isinstance(b, bool):
        return (b if a else False) if isinstance(a, bool) else (a if b else False)
    return Call(_BOTH, (a, b))


def either(a: Mask, b: Mask) -> Mask:
    """Where `a` or `b` holds."""
    if a is b:
        return a
    return _not(both(_not(a), _not(b))) if isinstance(a, bool) or isinstance(b, bool) else Call(_EITHER, (a, b))


def _not(a: Mask) -> Mask:
    if isinstance(a, bool):
        return not a
    return a.arguments[0] if isinstance(a, Call) and a.function is _NOT else Call(_NOT, (a,))


def _first(p: Predicate, conditions: Conditions) -> Lookup | None:
    """The first condition that `p` mentions."""
    return next((x for x in lookups(p) if x.array in conditions), None)


def _with(p: Predicate, x: Lookup, value: int) -> Predicate:
    values: dict[Atom, Affine] = {x: constant(value)}
    return substitute(p, values)


def _at(x: Lookup, conditions: Conditions) -> tuple[Predicate, Expr]:
    """The guard of a condition at a place, and the mask of what it compares there."""
    of = conditions[x.array]
    values: dict[Atom, Affine] = dict(zip((i for i, _ in of.binders), x.at, strict=True))
    left, right = (with_masks(with_atoms(e, values), conditions) for e in (of.compared.left, of.compared.right))
    if of.compared.op == "<" and isinstance(left, Bracket) and left.body is right is number(1):
        compared = Call(_NOT, (Call(_HOLDS, (left,)),))  # the negation of a relation
    else:
        compared = Call(_COMPARISONS[of.compared.op], (left, right))
    return substitute(of.guard, values), compared
