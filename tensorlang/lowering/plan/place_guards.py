"""Bounds beside comparisons of elements of index arrays, since code reads zero where there is no element.

[i = l or 2 <= i + k[l]] * e  =  [i = l or l < n and 2 <= i + k[l]] * e      for k: [n]idx(m), l:n + 1
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import Affine, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Choice, Expr, Extremum, Gen, Sum, children
from tensorlang.language.predicates import (
    And,
    Exists,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    lookups,
    within,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies, obvious
from tensorlang.sets.scopes import postorder

Facts = tuple[Predicate, ...]


def guard_places(f: Function) -> Function:
    """`f` with the bounds of the places beside each comparison and each relation of elements of index arrays."""
    if not any(map(lookups, f.census.conditions)):
        return f
    looks: set[Expr] = set()
    for e in postorder(f.body):
        own = isinstance(e, Bracket | Extremum | Choice) and lookups(e.pred)
        if own or not looks.isdisjoint(children(e)):
            looks.add(e)
    return replace(f, body=run(_guarded(f.body, (), looks, {})))


def _guarded(e: Expr, known: Facts, looks: set[Expr], memo: dict[tuple[Expr, Facts], Expr]) -> Deep[Expr]:
    if e not in looks:
        return e
    key = (e, known)
    if key in memo:
        return memo[key]
    new, below = e, known
    match e:
        case Gen(i, n, _) | Sum(i, n, _):
            below = (*known, *conjuncts(within(atom_affine(i), n)))
        case Extremum(sign, i, n, p, body) | Choice(sign, i, n, p, body):
            ranged = (*known, *conjuncts(within(atom_affine(i), n)))
            p = _beside(p, ranged)
            new, below = type(e)(sign, i, n, p, body), (*ranged, *conjuncts(p))
        case Bracket(p, body):
            p = _beside(p, known)
            new, below = Bracket(p, body), (*known, *conjuncts(p))
        case _:
            pass
    parts = []
    for part in children(new):
        parts.append((yield from call(_guarded(part, below, looks, memo))))
    memo[key] = with_children(new, parts)
    return memo[key]


def _beside(p: Predicate, known: Facts) -> Predicate:
    """`p` with the ranges of the places that its comparisons look up, except those that are `known` there."""
    if not lookups(p):
        return p
    match p:
        case And(parts):
            others = [q for q in parts if not lookups(q)]
            return conjunction(_beside(q, (*known, *others)) for q in parts)
        case Or(parts):
            return disjunction(_beside(q, known) for q in parts)
        case Exists(index, size, body):
            inner = _beside(body, (*known, *conjuncts(within(atom_affine(index), size))))
            return p if inner is body else Exists(index, size, inner)
        case _:
            at = ((a, n) for x in lookups(p) for a, n in zip(x.at, x.array.sizes, strict=True))
            return conjunction([*(q for a, n in at for q in _missing(a, n, known)), p])


def _missing(a: Affine, size: Affine, known: Facts) -> list[Predicate]:
    """The bounds of 0 <= a < size that do not follow from what is `known`."""
    bounds = [q for q in conjuncts(within(a, size)) if not obvious(known, q)]
    if not bounds:
        return []
    # conditions on other elements hold only if these exist
    around = conjunction(q for q in known if not lookups(q))
    return [q for q in bounds if not implies(around, q)]
