"""Sums whose result is indexed by data: segments, and reads of their sums.

    gen k. sum i. [k = y[i] and p] * e

Term i goes to place y[i] of the result; term i of row r to place y[r, i] of row r. Where no two go to the same place,
they are written there; where the places are in order, equal ones are next to each other and are added up in order; else
they are added one after the other, or sorted first where that is slow, which is everywhere except on a CPU. So nothing
depends on the order in which a machine happens to add.

    gen i. sum j. [a[i] = y[j] and p] * e  =  gen i. S[a[i]]    where S[k] = sum j. [k = y[j] and p] * e

if i is in p and e only as a[i]: a sum that is asked for repeatedly is added up once. The same goes for E(a[i], j),
where the relation E is given by its points; and

    sum j. [E(i, a[j]) and p] * e  =  sum k. [E(i, k)] * S[k]    where S[k] = sum j. [k = a[j] and p] * e

if i is not in p and e.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, is_long, total
from tensorlang.language.predicates import (
    Equal,
    Predicate,
    Related,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    substitute,
)
from tensorlang.language.rebuilt import with_atoms
from tensorlang.lowering.arrays.accesses import access, positions
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Name, Node, Tuple
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.select_in_window import select_in_windows
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.sums.sparse import enumerable
from tensorlang.lowering.arrays.sums.strategy import Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, cast
from tensorlang.recursion import Deep, call


def _segments(ctx: Context, c: Summation) -> PlacedAxes | WhyNot:
    found = placed(c)
    return found if found.at else WhyNot("no element of an index array says where in the result a term goes")


def _segmented(ctx: Context, c: Summation, found: PlacedAxes) -> Deep[Value]:
    """`c` as a segment sum."""
    scope = c.scope
    read = {s for a in found.at.values() for s in a.free}
    kept = tuple(i for i in scope.domain if i in read)  # axes along which the places differ
    points = tuple(s for s in c.summed if s in read)
    rest = {i: r for i, r in scope.domain.items() if i not in found.at and i not in kept}
    domain = {i: scope.domain[i] for i in kept} | {s: c.summed[s] for s in points} | rest
    inner = ctx.scope(scope, domain=domain, env=composed(scope.env, found.at))
    v: Value = yield from call(ctx.contract(replace(c, scope=inner, summed=c.without(*points), parts=found.rest)))
    if v.number == 0:
        return v
    at = {i: atom_affine(i) for i in kept} | found.at
    return _assembled(ctx, scope, inner, (*kept, *points), at, v)


@dataclass(frozen=True)
class SegmentedSum:
    """A sum that depends on `axes` only through `element`: the sum `c` for each value of that, called `segment`."""

    element: Lookup
    segment: Index
    axes: Axes
    c: Summation


def shared(ctx: Context, c: Summation) -> SegmentedSum | WhyNot:
    """`c` as elements of sums of segments."""
    for element in dict.fromkeys(x for q in c.parts for x in _asked(ctx, c, q)):
        segment = Index(element.array.name)
        values: dict[Atom, Affine] = {element: atom_affine(segment)}
        body = with_atoms(with_atoms(c.body, c.scope.env), values)
        parts = conjuncts(substitute(conjunction(c.parts), values))
        axes = c.scope.axes(atom_affine(element))
        if any(i in ctx.free_indices.free(body, {}) or any(i in free_atoms(q) for q in parts) for i in axes):
            continue
        domain = {segment: Range(ZERO, element.array.size)} | {i: r for i, r in c.scope.domain.items() if i not in axes}
        inner = ctx.scope(c.scope, domain=domain, masks=c.scope.masks_without(axes))
        return SegmentedSum(element, segment, axes, replace(c, scope=inner, parts=parts, body=body))
    return WhyNot("no axis of the result only occurs as an element of an index array, compared with other elements")


def _once_each(ctx: Context, c: Summation, found: SegmentedSum) -> Deep[Value]:
    v: Value = yield from call(ctx.contract(found.c))
    return of_segments(ctx, c.scope, found, v, "sums")


def of_segments(ctx: Context, scope: Scope, found: SegmentedSum, v: Value, wanted: str) -> Value:
    """The elements of `v`, which has an axis for the segments, that belong to the axes of `scope`."""
    if found.segment not in v.axes:
        return v
    domain = found.c.scope.domain
    held = Held(ctx.named_array(v, scope.block, wanted), tuple(domain[i].extent for i in v.axes))
    at = [atom_affine(found.element) if i is found.segment else atom_affine(i) - domain[i].start for i in v.axes]
    return access(ctx, scope, held, tuple(at))


def _grouped(ctx: Context, c: Summation) -> Summation | WhyNot:
    """`c` as a sum over the points of a relation, of sums of segments."""
    for q in c.parts:
        for element in _alone(ctx, q):
            free = frozenset(i for i in atom_affine(element).free if isinstance(i, Index))
            others = [r for r in c.parts if r is not q]
            inside = ctx.free_indices.free(c.body, c.scope.env).union(*(free_atoms(r) for r in others))
            if not free or not free <= c.summed.keys() or not inside.isdisjoint(c.scope.domain):
                continue
            segment = Index(element.array.name)
            asked = substitute(q, {element: atom_affine(segment)})
            summed = {segment: Range(ZERO, element.array.size), **c.summed}
            if enumerable(ctx, c.scope, [asked], summed) is not None:
                parts = (asked, equal(atom_affine(segment), atom_affine(element)), *others)
                return replace(c, summed=summed, parts=parts)
    return WhyNot(
        "no relation given by its points is asked at elements for summed indices, on which alone the rest depends"
    )


def _alone(ctx: Context, q: Predicate) -> list[Lookup]:
    """The elements of index arrays that are arguments of a relation which is given by its points."""
    if not isinstance(q, Related) or q.relation not in ctx.sparse:
        return []
    return [x for a in q.arguments for x in a.lookups if a is atom_affine(x)]


def _asked(ctx: Context, c: Summation, q: Predicate) -> list[Lookup]:
    """The elements at axes of the scope that `q` equates with elements at summed indices, or that are arguments of a
    relation given by its points."""
    if isinstance(q, Related):
        return [
            x
            for x in _alone(ctx, q)
            if c.scope.axes(atom_affine(x)) and c.summed.keys().isdisjoint(atom_affine(x).free)
        ]
    if not isinstance(q, Equal):
        return []
    inside = [x for x in q.difference.atoms if not c.summed.keys().isdisjoint(atom_affine(x).free)]
    outside = [x for x in q.difference.atoms if x not in inside and not isinstance(x, Size)]
    if not any(isinstance(x, Lookup) for x in inside) or len(outside) != 1:
        return []
    (x,) = outside
    return (
        [x] if isinstance(x, Lookup) and c.scope.axes(atom_affine(x)) and abs(q.difference.coefficient(x)) == 1 else []
    )


@dataclass(frozen=True)
class PlacedAxes:
    """The axes of the result that data determines, with their values, and the parts that are left."""

    at: dict[Index, Affine]
    rest: tuple[Predicate, ...]


def placed(c: Summation) -> PlacedAxes:
    """The axes of the result of `c` that elements of index arrays at summed indices determine."""
    at: dict[Index, Affine] = {}
    parts = c.parts
    while (found := _determined(c, at, parts)) is not None:
        q, i, value = found
        at = {k: a.substitute({i: value}) for k, a in at.items()} | {i: value}
        parts = conjuncts(substitute(conjunction(p for p in parts if p is not q), {i: value}))
    return PlacedAxes({i: at[i] for i in c.scope.domain if i in at}, parts)


def _determined(
    c: Summation, at: dict[Index, Affine], parts: Sequence[Predicate]
) -> tuple[Predicate, Index, Affine] | None:
    """An equality that gives an axis of the result by an element of an index array at summed indices."""
    for q in parts:
        if not isinstance(q, Equal):
            continue
        inside = [s for s in c.summed if s in q.difference.free]
        outside = [i for i in c.scope.domain if q.difference.coefficient(i) and i not in at]
        if not outside or not any(s in x.free for s in inside for a in q.difference.lookups for x in a.at):
            continue
        # of several, a long axis
        i = next((i for i in outside if is_long(c.scope.domain[i].extent)), outside[0])
        k = q.difference.coefficient(i)
        value = (q.difference - atom_affine(i) * k) * -k
        if abs(k) == 1 and i not in value.free:
            return q, i, value
    return None


def composed(env: Mapping[Atom, Affine], values: Mapping[Index, Affine]) -> dict[Atom, Affine]:
    """`env` with the `values` of further indices substituted, and these values."""
    new: dict[Atom, Affine] = {i: a for i, a in values.items()}
    return {k: a.substitute(new) for k, a in env.items()} | new


def _assembled(ctx: Context, scope: Scope, inner: Scope, points: Axes, at: dict[Index, Affine], v: Value) -> Value:
    """The values `v`, broadcast to the axes `points`, at their places."""
    v = ctx.short(v, inner.block)
    rest = tuple(i for i in v.axes if i not in points)
    values = expanded(ctx, inner, v, (*points, *rest))
    if v.weak:
        values = cast(values)
    places = [at_points(ctx, inner, a - scope.domain[i].start, points) for i, a in at.items()]
    wanted, order = _manner(ctx, points, [at[i] - scope.domain[i].start for i in at])

    def scattered() -> Node:
        last = [] if order is None else [Name(order)]
        return apply(wanted, values, Tuple(tuple(places)), ctx.extents(scope, tuple(at)), *last)

    node = select_in_windows(ctx, scope, inner, at, v, scattered) or scattered()
    return Value(node, (*at, *rest), v.depth + 1)


def at_points(ctx: Context, scope: Scope, a: Affine, points: Axes) -> Node:
    """`a` as an array with all of the axes `points`."""
    place = positions(ctx, scope, a, points)
    full = all(s in a.free for s in points)
    return place if full else apply("broadcast_to", place, ctx.extents(scope, points))


def _manner(ctx: Context, points: Axes, at: Sequence[Affine]) -> tuple[str, str | None]:
    """The operation that puts values at these places, by whether two may meet and whether they come in order; and the
    name of an order that makes neighbours of those that meet, if there is one."""
    columns = [_column(a, points) for a in at]
    if len(columns) == 1 and columns[0] in ctx.increasing:
        return "_put_in_order", None
    for p in ctx.sparse.values():
        first = tuple(p.columns.index(array) for array in columns if array in p.columns)
        if len(first) == len(at) and len(set(first)) == len(first):
            apart, basic = len(first) == len(p.columns), first == tuple(range(len(first)))
            if apart or basic:
                return ("_put" if apart else "_add") + ("_in_order" if basic else "_at"), None
            return "_add_at", p.ordered(ctx.names, first)
    return "_put_at" if _are_apart(points, at) else "_add_at", None


def _column(a: Affine, points: Axes) -> IndexArray | None:
    """The index array that `a` reads at the only index of `points`, up to a static integer; None if there is none."""
    lookups = [(atom, k) for atom, k in a.terms if not isinstance(atom, Size)]
    if len(lookups) != 1 or len(points) != 1:
        return None
    atom, k = lookups[0]
    return atom.array if isinstance(atom, Lookup) and k == 1 and atom.at == (atom_affine(points[0]),) else None


def _are_apart(points: Axes, at: Sequence[Affine]) -> bool:
    """Whether no two points have the same places: each index moves a place by more than the data add to it."""
    steps: dict[Index, Affine] = {}
    for a in at:
        inside = [(s, a.coefficient(s)) for s in points if a.coefficient(s)]
        moved = total((x.array.size - 1, abs(k)) for x, k in a.terms if isinstance(x, Lookup))
        if len(inside) == 1 and moved.is_constant and abs(inside[0][1]) > moved.constant:
            steps[inside[0][0]] = a
    return len(steps) == len(points)


SEGMENT_SUM = Strategy(
    "segment sum",
    "gen k. sum i. [k = y[i] and p] * e: each term is added to the place y[i]",
    _segments,
    _segmented,
)
SHARED_SEGMENTS = Strategy(
    "shared segments",
    "gen i. sum j. [a[i] = y[j] and p] * e = gen i. S[a[i]], where S[k] = sum j. [k = y[j] and p] * e",
    shared,
    _once_each,
)
GROUP = Strategy(
    "group",
    "sum j. [E(i, a[j]) and p] * e = sum k. [E(i, k)] * S[k], where S[k] = sum j. [k = a[j] and p] * e",
    _grouped,
    lambda ctx, _, found: ctx.contract(found),
)
