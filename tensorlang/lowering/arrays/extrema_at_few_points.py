"""Extrema over few points: over one, over one or another one, or over one window or another.

Each alternative has an extremum of its own; the greatest of those that are not empty is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import combinations

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.functions import function
from tensorlang.language.grammar import Add, Bracket, Choice, Expr, Extremum, number
from tensorlang.language.predicates import (
    Equal,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    free_atoms,
    negation,
    substitute,
)
from tensorlang.lowering.arrays.accesses import positions
from tensorlang.lowering.arrays.brackets import bracket, solved
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.extreme import NAN, Extreme, whole_ranges
from tensorlang.lowering.arrays.ir import Name, Negative
from tensorlang.lowering.arrays.masks import mask
from tensorlang.lowering.arrays.running_extrema import limit
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.segment_extrema import segments
from tensorlang.lowering.arrays.sums.strategy import WhyNot
from tensorlang.lowering.arrays.undecided import known_quotients, undecided_conditions
from tensorlang.lowering.arrays.values import TRUE, Value, aligned, applied, apply, infix, union, where
from tensorlang.recursion import Deep, call
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.solve import Ranges, project, ranges_predicate, simplify_in
from tensorlang.simplification.thin import leaves_few

_MOST_POINTS = 8

Compute = Callable[[Context, Extreme], Deep[Value]]
"""How an extremum is computed."""


def one_point(ctx: Context, c: Extreme) -> Affine | WhyNot:
    """The only value that an equality leaves for the index."""
    return _point(c.e.index, c.left[1]) or WhyNot("no equality leaves one point of the index")


def _point(index: Index, p: Predicate) -> Affine | None:
    """The value of the index that an equality in `p` determines."""
    for q in conjuncts(p):
        k = q.difference.coefficient(index) if isinstance(q, Equal) else 0
        if isinstance(q, Equal) and abs(k) == 1:
            point = solved(q.difference, index)
            if index not in point.free:
                return point
    return None


def at_point(ctx: Context, c: Extreme, point: Affine) -> Deep[Value]:
    """The value at the point, or for a choice the point itself; an extremum is nan where the other conditions fail."""
    if isinstance(c.e, Choice):
        axes = c.scope.axes(point)
        return Value(positions(ctx, c.scope, point, axes), axes, 1)
    v, m = yield from call(_at(ctx, c, point, c.left[1]))
    return where(m, v, c.scope.order, NAN)


def _at(ctx: Context, c: Extreme, point: Affine, p: Predicate) -> Deep[tuple[Value, Value]]:
    """The value at a point, and whether it is in the range and `p` holds there."""
    r = c.left[0]
    at: dict[Atom, Affine] = {c.e.index: point}
    others = _open(ctx, c.scope, conjunction([at_most(r.start, point), at_most(point, r.last), substitute(p, at)]))
    inner = ctx.scope(c.scope, env={**c.scope.env, c.e.index: point}, masks=(*c.scope.masks, *conjuncts(others)))
    v = yield from call(ctx.value(c.e.body, inner))
    return v, mask(ctx, inner, others)


def one_or_another(ctx: Context, c: Extreme) -> tuple[list[tuple[Affine, Predicate]]] | WhyNot:
    """The values that a disjunction leaves for the index, each with the other conditions that must hold there."""
    if isinstance(c.e, Choice):
        return WhyNot("which of several points is the first one is not known before they are compared")
    for q in conjuncts(c.left[1]):
        if isinstance(q, Or) and 0 < len(q.parts) <= _MOST_POINTS:
            rest = [p for p in conjuncts(c.left[1]) if p is not q]
            found = [(_point(c.e.index, part), conjunction([part, *rest])) for part in q.parts]
            points = [(point, p) for point, p in found if point is not None]
            if len(points) == len(q.parts):
                return (points,)
    return WhyNot("no condition leaves one point or another of the index")


def at_either(ctx: Context, c: Extreme, found: tuple[list[tuple[Affine, Predicate]]]) -> Deep[Value]:
    """The greatest of the values at those points whose conditions hold."""
    there = []
    for point, p in found[0]:
        there.append((yield from call(_at(ctx, c, point, p))))
    return _greatest_of(c, there)


def _greatest_of(c: Extreme, those: list[tuple[Value, Value]]) -> Value:
    """The greatest of values, each of which only counts where its condition holds; nan where none does."""
    order, larger = c.scope.order, function("max" if c.e.sign > 0 else "min")
    infinity = Name("jnp.inf")
    beaten = Negative(infinity) if c.e.sign > 0 else infinity
    there = [v if m.node == TRUE else where(m, v, order, beaten) for v, m in those]
    v = reduce(lambda v, w: applied(larger, [v, w], order), there)
    if any(m.node == TRUE for _, m in those):
        return v
    return where(reduce(lambda m, also: infix(m, "|", also, order), (m for _, m in those)), v, order, NAN)


def one_window_or_another(ctx: Context, c: Extreme) -> list[Extreme] | WhyNot:
    """The extrema under conditions one of which always holds, each over few values of the index or of an axis, over
    all up to a place, or of one value."""
    e = c.e
    ranges = {e.index: e.size, **whole_ranges(c.scope)}
    cases = _exclusive_terms(ctx, e, ranges) or [(e.pred, e.body)]
    parts = [(p, a) for case, a in cases for p in _alternatives(case)]
    alone = [Extreme(ctx, c.scope, type(e)(e.sign, e.index, e.size, p, a), NAN) for p, a in parts]
    if len(alone) > 1 and all(_is_cheap(ctx, part, ranges) for part in alone):
        return alone
    return WhyNot("no conditions leave few values of the index each, or one value of what is compared")


def _is_cheap(ctx: Context, c: Extreme, ranges: Ranges) -> bool:
    """Whether fewer values are compared than there are places of the index."""
    if leaves_few(conjuncts(c.e.pred), ranges, ranges):
        return True
    if segments(ctx, c.scope, c.e, *c.left) is not None:
        return True
    if _is_of_one_value(ctx, c):
        return isinstance(c.e, Extremum) or _first(ctx, c) is not None
    return not isinstance(limit(ctx, c.scope, c.e, c.left[1]), WhyNot)


def _is_of_one_value(ctx: Context, c: Extreme) -> bool:
    """Whether what is compared does not depend on the index."""
    return c.e.index not in ctx.free_indices.free(c.e.body, c.scope.env)


def _alternatives(p: Predicate) -> list[Predicate]:
    """Conditions one of which holds where `p` does: those of its first disjunction, if there are few."""
    for q in conjuncts(p):
        if isinstance(q, Or) and 0 < len(q.parts) <= _MOST_POINTS:
            rest = [r for r in conjuncts(p) if r is not q]
            return [conjunction([part, *rest]) for part in q.parts]
    return [p]


def _first(ctx: Context, c: Extreme) -> Value | None:
    """The first place of the index where the condition holds, if it holds anywhere; None if no comparisons say that."""
    r, p = c.left
    starts = [r.start]
    for q in conjuncts(p):
        k = q.value.coefficient(c.e.index) if isinstance(q, NonNegative) else 0
        if c.e.index not in free_atoms(q):
            continue
        if (
            not isinstance(q, NonNegative)
            or abs(k) != 1
            or any(c.e.index in atom_affine(x).free for x in q.value.lookups)
        ):
            return None
        if k > 0:
            starts.append(atom_affine(c.e.index) - q.value)
    axes = tuple(i for i in c.scope.order if any(i in c.scope.axes(a) for a in starts))
    nodes = [positions(ctx, c.scope, a, axes) for a in starts]
    return Value(reduce(lambda a, b: apply("maximum", a, b), nodes), axes, 2)


def _exclusive_terms(ctx: Context, e: Extremum | Choice, ranges: Ranges) -> list[tuple[Predicate, Expr]]:
    """The terms of what is compared, or 0, each with the condition under which it is all there is; none if they are
    not told apart by conditions."""
    found: dict[Predicate, Expr] = {}
    left: list[tuple[int, Expr]] = [(1, e.body)]
    while left:
        sign, part = left.pop()
        if isinstance(part, Add):
            left += [(sign * part.sign, part.right), (sign, part.left)]
        elif isinstance(part, Bracket):
            before = found.get(part.pred, number(0))
            found[part.pred] = part.body if sign > 0 and part.pred not in found else Add(before, part.body, sign)
        else:
            return []
    around = conjunction([ranges_predicate(ranges), e.pred, known_quotients(ctx, [e.pred, *found])])
    pairs = combinations(found, 2)
    if len(found) > _MOST_POINTS or not all(is_empty(conjunction(pair), around) for pair in pairs):
        return []
    covered = disjunction(found)
    if not implies(around, covered):
        if (rest := negation(covered)) is None:
            return []
        found[rest] = number(0)
    return [(simplify_in(conjunction([p, e.pred]), ranges), a) for p, a in found.items()]


def in_either(ctx: Context, c: Extreme, found: list[Extreme], compute: Compute) -> Deep[Value]:
    """The greatest of those extrema that are not empty, or the first place of those that are as great."""
    e, there, places = c.e, [], []
    for part in found:
        p, a, one = part.e.pred, part.e.body, _is_of_one_value(ctx, part)
        alone = Extreme(ctx, c.scope, Extremum(e.sign, e.index, e.size, p, a), NAN)
        v = yield from call(ctx.value(a, c.scope) if one else _under_its_own(ctx, alone, compute))
        some = project({e.index: e.size}, substitute(p, c.scope.env), whole_ranges(c.scope))
        there.append((v, mask(ctx, c.scope, _open(ctx, c.scope, some))))
        if isinstance(e, Choice):
            first = _first(ctx, part) if one else None
            places.append(first or (yield from call(_under_its_own(ctx, part, compute))))
    if isinstance(e, Extremum):
        return _greatest_of(c, there)
    return _first_of(ctx, c, [(ctx.short(v, c.scope.block), m) for v, m in there], places)


def _first_of(ctx: Context, c: Extreme, there: list[tuple[Value, Value]], places: list[Value]) -> Value:
    """The least of those places whose values are beaten by no other one that is there."""
    order, last = c.scope.order, ctx.integers.node(c.e.size - 1)
    best = ctx.short(_greatest_of(c, there), c.scope.block)
    as_great = ">=" if c.e.sign > 0 else "<="
    found: Value | None = None
    for (v, m), place in zip(there, places, strict=True):
        holds = infix(v, as_great, best, order)
        if v.number is None:  # nan is as great as anything
            holds = infix(holds, "|", infix(v, "!=", v, order), order)
        if m.node != TRUE:
            holds = infix(holds, "&", m, order)
        at = where(holds, place, order, last)
        if found is not None:
            axes = union([found, at], order)
            at = Value(apply("minimum", aligned(found, axes).node, aligned(at, axes).node), axes, 3)
        found = at
    assert found is not None
    return found


def _under_its_own(ctx: Context, c: Extreme, compute: Compute) -> Deep[Value]:
    """An extremum where its conditions without its index hold; anything elsewhere."""
    e = c.e
    outer = [q for q in conjuncts(e.pred) if e.index not in free_atoms(q)]
    if not outer:
        return compute(ctx, c)
    inner = conjunction(q for q in conjuncts(e.pred) if q not in outer)
    return bracket(ctx, c.scope, conjunction(outer), type(e)(e.sign, e.index, e.size, inner, e.body))


def _open(ctx: Context, scope: Scope, p: Predicate) -> Predicate:
    """The part of `p` that is not known to hold at all points."""
    return conjunction(
        undecided_conditions(ctx, scope, conjuncts(simplify_in(substitute(p, scope.env), whole_ranges(scope))))
    )
