"""Extrema over points that data give: each over a segment, rather than a search of a box.

gen i. max j where R(i, j) and p. e   =   the greatest of [i := R0[q], j := R1[q]] e, for each i over its points q
gen i. max j where y[j] = i and p. e  =   the greatest of [i := y[j]] e, for each i over the j whose y[j] it is
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from tensorlang.lowering.arrays.accesses import positions
from tensorlang.lowering.arrays.brackets import solved
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Node, Tuple
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.sums.segment_sum import at_points, composed, placed
from tensorlang.lowering.arrays.sums.sparse import enumerable
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.undecided import undecided_conditions
from tensorlang.lowering.arrays.values import TRUE, Value, apply, cast, negated
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class Segments:
    """Points on the axes `points`, each with the values `at` of axes of the result and of the index of the extremum; a
    point counts where the conditions `left` hold."""

    points: Mapping[Index, Range]
    at: Mapping[Index, Affine]
    left: Sequence[Predicate]


def segments(ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, p: Predicate) -> Segments | None:
    """The segments of `e` over the range `r` of its index where `p` holds; None if no data say where that is."""
    parts = conjuncts(p)
    return _of_relation(ctx, scope, e, r, parts) or _of_elements(scope, e, r, parts)


def over_points(ctx: Context, scope: Scope, e: Extremum | Choice, found: Segments, none: Node | None) -> Deep[Value]:
    """The array of `e` at the points `found`.

    An extremum is `none` where there is no point, and anything if that is None; a choice is 0 there.
    """
    kept = tuple(i for i in scope.domain if i in found.at)
    rest = {i: s for i, s in scope.domain.items() if i not in found.at}
    changed = {i: a for i, a in found.at.items() if a is not atom_affine(i)}
    inner = ctx.scope(scope, domain={**found.points, **rest}, env=composed(scope.env, changed))
    condition = conjunction(undecided_conditions(ctx, inner, conjuncts(conjunction(found.left))))
    inner = ctx.scope(inner, masks=(*scope.masks, *conjuncts(condition)))
    v: Value = yield from call(ctx.value(e.body, inner))
    if e.sign < 0:
        v = negated(v)
    m = mask(ctx, inner, condition)
    points = tuple(found.points)
    axes = tuple(i for i in inner.order if i in points or i in v.axes or i in m.axes)
    values = expanded(ctx, inner, v, axes)
    if v.weak:
        values = cast(values)
    arguments = [values, TRUE if m.node == TRUE else expanded(ctx, inner, m, axes)]
    if isinstance(e, Choice):
        arguments.append(positions(ctx, inner, found.at[e.index], axes))
    places = [at_points(ctx, inner, found.at[i] - scope.domain[i].start, points) for i in kept]
    arguments += [Tuple(tuple(places)), ctx.extents(scope, kept)]
    part = "_greatest_at" if isinstance(e, Extremum) else "_first_greatest_at"
    if isinstance(e, Extremum) and none is not None:
        part, arguments = "_greatest_at_or", [*arguments, none]
    v = Value(apply(part, *arguments), (*kept, *axes[len(points) :]), v.depth + 1)
    return negated(v) if e.sign < 0 and isinstance(e, Extremum) else v


def _of_relation(
    ctx: Context, scope: Scope, e: Extremum | Choice, r: Range, parts: Sequence[Predicate]
) -> Segments | None:
    """The points of a relation among `parts` that gives the index, and axes of the result."""
    q = enumerable(ctx, scope, parts, {e.index: r})
    if q is None or not any(e.index in a.free for a in q.arguments):
        return None
    point, points = Index("p"), ctx.sparse[q.relation]
    columns = [atom_affine(Lookup(c, (atom_affine(point),))) for c in points.columns]
    at, left = _places(q, columns, {*scope.domain, e.index})
    if not any(i in at for i in scope.domain):
        return None
    left += [at_most(r.start, at[e.index]), at_most(at[e.index], r.last)]
    left += [substitute(part, dict(at.items())) for part in parts if part is not q]
    return Segments({point: Range(ZERO, points.count)}, at, left)


def _of_elements(scope: Scope, e: Extremum | Choice, r: Range, parts: Sequence[Predicate]) -> Segments | None:
    """All values of the index as points, where elements of index arrays there give axes of the result."""
    found = placed(Summation(scope, {e.index: r}, tuple(parts), e.body))
    if not found.at:
        return None
    read = {i for a in found.at.values() for i in a.free}
    kept = {i: s for i, s in scope.domain.items() if i in read}  # axes along which the places differ
    at = {**{i: atom_affine(i) for i in kept}, **found.at, e.index: atom_affine(e.index)}
    return Segments({**kept, e.index: r}, at, found.rest)


def _places(q: Related, columns: list[Affine], indices: set[Index]) -> tuple[dict[Index, Affine], list[Predicate]]:
    """The values that those of `indices` in `q` have at a point, and the conditions that are left for it to be one."""
    at: dict[Index, Affine] = {}
    left = [a - c for a, c in zip(q.arguments, columns, strict=True)]
    while (found := _first_solved(left, indices)) is not None:
        k, i, value = found
        del left[k]
        left = [d.substitute({i: value}) for d in left]
        at = {j: a.substitute({i: value}) for j, a in at.items()} | {i: value}
    return at, [equal(d, constant(0)) for d in left]


def _first_solved(differences: list[Affine], indices: set[Index]) -> tuple[int, Index, Affine] | None:
    """The first of `differences` with only one of `indices`, that index, and its value where the difference is 0."""
    for k, d in enumerate(differences):
        inside = [i for i in d.indices if i in indices]
        if len(inside) == 1 and abs(d.coefficient(inside[0])) == 1:
            return k, inside[0], solved(d, inside[0])
    return None
