"""Statements over the points of data relations instead of over boxes.

    sum i, j. [R(i, j) and p] * e   =   sum q:count. [i = R0[q] and j = R1[q] and p] * e

The equalities eliminate i and j where these are summed; where they are axes, it becomes a segment sum. An array that a
plan stores at the points of a relation is a statement over these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine
from tensorlang.language.predicates import (
    Predicate,
    Related,
    conjunction,
    conjuncts,
    equal,
    substitute,
)
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.strategy import Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value
from tensorlang.recursion import Deep


def _over_points(ctx: Context, c: Summation) -> Related | WhyNot:
    if not ctx.sparse:
        return WhyNot("no relation is given by its points")
    return enumerable(ctx, c.scope, c.parts, c.summed) or WhyNot("no relation given by its points is a condition here")


def _enumerated(ctx: Context, c: Summation, q: Related) -> Deep[Value]:
    points = ctx.sparse[q.relation]
    p = Index("p")
    at = [atom_affine(Lookup(column, (atom_affine(p),))) for column in points.columns]
    parts = [equal(a, b) for a, b in zip(q.arguments, at, strict=True)]
    others = (r for r in c.parts if r is not q)
    summed = {**c.summed, p: Range(ZERO, points.count)}
    return ctx.contract(replace(c, summed=summed, parts=conjuncts(conjunction([*parts, *others]))))


ENUMERATE = Strategy(
    "points of a relation",
    "sum i, j. [R(i, j) and p] * e = sum q:count. [i = R0[q] and j = R1[q] and p] * e",
    _over_points,
    _enumerated,
)


def is_enumerable(ctx: Context, scope: Scope, p: Predicate) -> bool:
    """Whether [p] * e is best computed at the points of a relation."""
    return bool(ctx.sparse) and enumerable(ctx, scope, conjuncts(substitute(p, scope.env)), {}) is not None


def enumerable(ctx: Context, scope: Scope, parts: Sequence[Predicate], summed: Mapping[Index, Range]) -> Related | None:
    """The relation in `parts` that determines the most axes and `summed` indices, and all those in its arguments."""
    found: list[tuple[int, Related]] = []
    for q in parts:
        if isinstance(q, Related) and q.relation in ctx.sparse:
            inside = {i for a in q.arguments for i in a.indices if i in scope.domain or i in summed}
            if inside and inside == _determined(q, inside):
                found.append((len(inside), q))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _determined(q: Related, inside: set[Index]) -> set[Index]:
    """Those of the indices `inside` that the arguments' values determine one after the other."""
    known: set[Index] = set()
    for _ in q.arguments:
        for a in q.arguments:
            unknown = [i for i in a.indices if i in inside and i not in known]
            if len(unknown) == 1 and abs(a.coefficient(unknown[0])) == 1 and not a.lookups:
                known.add(unknown[0])
    return known


def on_points(
    ctx: Context, held: Held, at: Related, domain: Mapping[Index, Range]
) -> tuple[Held, dict[Index, Range], dict[Atom, Affine]]:
    """An array as held at the points of a relation of its axes, the axes that are left, and the values of the
    others."""
    points = ctx.sparse[at.relation]
    p = Index("p")
    env: dict[Atom, Affine] = {}
    for a, column in zip(at.arguments, points.columns, strict=True):
        env[a.atoms[0]] = atom_affine(Lookup(column, (atom_affine(p),)))
    along = tuple(list(domain).index(a.indices[0]) for a in at.arguments)
    left = {i: r for i, r in domain.items() if i not in env}
    return replace(held, points=points, along=along), {p: Range(ZERO, points.count), **left}, env
