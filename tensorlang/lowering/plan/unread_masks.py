"""Masks that data give, left out where nobody reads what they hide.

    let t = gen i. [exists k:n. y[k] = i] * x[i]^2 in gen i. t[y[i]]   ->   let t = gen i. x[i]^2 in gen i. t[y[i]]

Evaluating such a mask for an element takes longer than computing the element. Only finite elements qualify: what
brackets hide may be computed, and multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Choice, Expr, Extremum, Gen, Sum, Var, bracket, children, gen
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import TRUE, Exists, Or, Predicate, conjunction, conjuncts, relations, substitute
from tensorlang.lowering.plan.dependence import is_finite, occurring, places, variable
from tensorlang.sets.encode import needs_data
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate

_Made = tuple[dict[Index, Affine], tuple[Predicate, ...], Expr]
"""The indices of an array, with their ranges, the conditions on its elements, and an element without these."""


def without_unread_masks(f: Function) -> Function:
    """`f` without conditions on data around arrays of sums and products that are only read where these hold."""
    statements, outputs = bindings(f.body)
    found = {x: made for x, e in statements if isinstance(x, Var) and (made := _masked(e)) is not None}
    left = {x: {q for q in made[1] if asks_data(q)} for x, made in _finite(f, found).items()}
    for e in (*(e for _, e in statements), outputs):
        for x, at, known in _reads(e, left):
            own, _, _ = found[x]
            values: dict[Atom, Affine] = dict(zip(own, at, strict=False))
            if len(at) < len(own):
                left[x] = set()
            left[x] = {q for q in left[x] if implies(known, substitute(q, values))}
    if not any(left.values()):
        return f
    shown = {x: _without(made, left[x]) for x, made in found.items() if left.get(x)}
    return replace(f, body=under([(x, shown.get(x, e) if isinstance(x, Var) else e) for x, e in statements], outputs))


def _masked(e: Expr) -> _Made | None:
    own: dict[Index, Affine] = {}
    while isinstance(e, Gen):
        own[e.index] = e.size
        e = e.body
    parts = conjuncts(e.pred) if isinstance(e, Bracket) else ()
    return (own, parts, e.body) if isinstance(e, Bracket) and any(map(asks_data, parts)) else None


def asks_data(q: Predicate) -> bool:
    """Whether `q`, or one of its alternatives, is an existence test on data, without relations."""
    if isinstance(q, Or):
        return not relations(q) and any(map(asks_data, q.parts))
    return isinstance(q, Exists) and needs_data(q) and not relations(q)


def _finite(f: Function, found: Mapping[Var, _Made]) -> dict[Var, _Made]:
    """The arrays in `found` that are made, step by step, of sums and products of parameters alone."""
    infinite: set[object] = set()
    for x, e in bindings(f.body)[0]:
        if not is_finite(e) or not infinite.isdisjoint(occurring(e)):
            infinite.add(x)
    return {x: made for x, made in found.items() if x not in infinite}


def _reads(e: Expr, wanted: Mapping[Var, object]) -> Iterator[tuple[Var, list[Affine], Predicate]]:
    """The arrays among those `wanted` that `e` reads, where, and under which conditions."""
    start: tuple[Expr, Predicate] = (e, TRUE)
    seen, stack = {start}, [start]
    while stack:
        part, known = stack.pop()
        x = variable(part)
        if x is not None:
            if x in wanted:
                yield x, places(part), known
            continue
        if isinstance(part, Gen | Sum | Extremum | Choice):
            known = conjunction([known, ranges_predicate({part.index: part.size})])
        if isinstance(part, Bracket | Extremum | Choice):
            known = conjunction([known, part.pred])
        fresh = [(child, known) for child in children(part) if (child, known) not in seen]
        seen.update(fresh)
        stack += fresh


def _without(made: _Made, hidden: set[Predicate]) -> Expr:
    own, parts, body = made
    return gen([*own.items()], bracket(conjunction(q for q in parts if q not in hidden), body))
