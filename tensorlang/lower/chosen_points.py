"""Extrema over the points of data relations: each of a segment, not of a box that is searched.

gen i. max j where R(i, j) and p. e   =   the greatest of [i := R0[q], j := R1[q]] e, for each i over its points q
"""

from __future__ import annotations

from tensorlang.language.affine import Affine, Index, Lookup, atom_affine, constant
from tensorlang.language.grammar import Choice, Extremum
from tensorlang.language.predicates import (
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    equal,
    substitute,
)
from tensorlang.lower.accesses import positions
from tensorlang.lower.brackets import solved
from tensorlang.lower.code import ATOM, Value, negated
from tensorlang.lower.integers import ZERO, Range
from tensorlang.lower.lookups import composed
from tensorlang.lower.loops import expanded
from tensorlang.lower.masks import mask
from tensorlang.lower.points import unresolved
from tensorlang.lower.relations import enumerable
from tensorlang.lower.scope import Context, Scope
from tensorlang.recursion import Deep


def over_points(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate) -> Deep[Value | None]:
    """The array of `e` over the range `r` of its index where `p` holds; None if no relation's points say where that is.

    Of a choice it is the place within `r`.
    """
    parts = conjuncts(p)
    q = enumerable(ctx, scope, parts, {e.index: r})
    if q is None or not any(e.index in a.free for a in q.arguments):
        return None
    point = Index("p")
    points = ctx.sparse[q.relation]
    columns = [atom_affine(Lookup(c, (atom_affine(point),))) for c in points.columns]
    at, left = _places(q, columns, {*scope.domain, e.index})
    kept = tuple(i for i in scope.domain if i in at)
    if not kept:
        return None
    rest = {i: s for i, s in scope.domain.items() if i not in at}
    domain = {point: Range(ZERO, points.count), **rest}
    where = at[e.index]
    left += [at_most(r.start, where), at_most(where, r.last)]
    left += [substitute(part, dict(at.items())) for part in parts if part is not q]
    inner = ctx.scope(scope, domain=domain, env=composed(scope.env, at))
    condition = conjunction(unresolved(ctx, inner, conjuncts(conjunction(left))))
    inner = ctx.scope(inner, masks=(*scope.masks, *conjuncts(condition)))
    v: Value = yield ctx.value(e.body, inner)
    if e.sign < 0:
        v = negated(v)
    m = mask(ctx, inner, condition)
    axes = tuple(i for i in inner.order if i is point or i in v.axes or i in m.axes)
    values = expanded(ctx, inner, v, axes)
    if v.weak:
        values = f"jnp.asarray({values}, dtype)"
    arguments = [values, "True" if m.code == "True" else expanded(ctx, inner, m, axes)]
    if isinstance(e, Choice):
        arguments.append(positions(ctx, inner, where - r.start, axes))
    places = [positions(ctx, inner, at[i] - scope.domain[i].start, (point,)) for i in kept]
    arguments += [f"({', '.join(places)}{',' * (len(places) == 1)})", ctx.extents(scope, kept)]
    helper = ctx.helper("_greatest_at" if isinstance(e, Extremum) else "_first_greatest_at")
    found = Value(f"{helper}({', '.join(arguments)})", (*kept, *axes[1:]), ATOM, v.depth + 1)
    return negated(found) if e.sign < 0 and isinstance(e, Extremum) else found


def _places(q: Related, columns: list[Affine], indices: set[Index]) -> tuple[dict[Index, Affine], list[Predicate]]:
    """What those of `indices` that are in `q` are at a point, and what else must hold for it to be one of theirs."""
    at: dict[Index, Affine] = {}
    left = [a - c for a, c in zip(q.arguments, columns, strict=True)]
    while (found := _first_solved(left, indices)) is not None:
        k, i, value = found
        del left[k]
        left = [d.substitute({i: value}) for d in left]
        at = {j: a.substitute({i: value}) for j, a in at.items()} | {i: value}
    return at, [equal(d, constant(0)) for d in left]


def _first_solved(differences: list[Affine], indices: set[Index]) -> tuple[int, Index, Affine] | None:
    """The first of `differences` with one of `indices` alone, and what this is where the difference is 0."""
    for k, d in enumerate(differences):
        inside = [i for i in d.indices if i in indices]
        if len(inside) == 1 and abs(d.coefficient(inside[0])) == 1:
            return k, inside[0], solved(d, inside[0])
    return None
