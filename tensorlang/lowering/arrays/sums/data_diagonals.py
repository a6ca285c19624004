"""Few diagonals that data give: a difference with an element of an index array that conditions confine to few values.

    gen i. sum j. [0 <= j - y[i] + a < w] * e  =  gen i. sum j, d:w. [j - y[i] + a = d] * e

for a number w. So the sum has w terms for each i; where y is read at the summed index, each term goes to w places, and
where both sides are elements, what is shared is added up once. If data determine in another way where in the result a
term goes, such a difference, or one of two indices, confines the terms to few points. In e an element of the difference
is replaced by its value in terms of the others and d, wherever one access has several of them: in a band that is stored
by diagonals, d alone is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant
from tensorlang.language.grammar import Access, Expr, Proj
from tensorlang.language.predicates import Equal, Exists, NonNegative, Predicate, conjunction, equal, free_atoms
from tensorlang.language.rebuilt import rewrite, with_atoms
from tensorlang.language.types import Array
from tensorlang.lowering.arrays.brackets import guarded
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.segment_sum import SEGMENT_SUM, SHARED_SEGMENTS
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Value
from tensorlang.lowering.plan.dependence import factors, places
from tensorlang.lowering.plan.short_windows import WIDEST
from tensorlang.recursion import Deep


@dataclass(frozen=True)
class _Few:
    """The sum over one more index, and the way to compute it; any way if that is None."""

    c: Summation
    way: Strategy[Summation] | None


def _few_values(ctx: Context, c: Summation, of_points: bool = False) -> _Few | WhyNot:
    if c.whole:
        return DECIDED
    for width, parts in sorted(_bounded(c, of_points), key=lambda found: found[0]):
        fewer = all(width < n.constant for n in _tied(c, parts[0].value) if n.is_constant)
        if fewer and (found := _of_each(ctx, c, width, parts)) is not None:
            more = _few_values(ctx, found.c) if found.way is SEGMENT_SUM else found  # one place has several axes
            return more if isinstance(more, _Few) and more.way is SEGMENT_SUM else found
    return WhyNot("no difference of an element of an index array has a number of values")


def are_shared(ctx: Context, c: Summation) -> bool:
    """Whether the sum over the values as well as `c`'s indices is made of sums that elements of `c` have in common."""
    found = _few_values(ctx, c)
    return not isinstance(found, WhyNot) and found.way is SHARED_SEGMENTS


def _few_points(ctx: Context, c: Summation) -> _Few | WhyNot:
    if isinstance(found := SEGMENT_SUM.match(ctx, c), WhyNot):
        return found
    return _few_values(ctx, c, of_points=True)


def _bounded(c: Summation, of_points: bool) -> Iterator[tuple[int, tuple[NonNegative, NonNegative]]]:
    """Differences that tie a summed index to data, or if `of_points` to another index, unless that is of all pairs. For
    each: the number of values that two conditions, or the bounds of a read, leave it, and these two."""
    said = [q for q in c.parts if isinstance(q, NonNegative)]
    for p, q in (*combinations(said, 2), *_insides(c)):
        last, a = p.value + q.value, p.value
        if not last.is_constant or last.constant < 0 or not c.scope.loops.keys().isdisjoint(a.free):
            continue
        tied = _tied(c, a)
        if not (a.lookups or (of_points and len(tied) > 1)):
            continue
        if last.constant >= WIDEST and not all(n.is_constant for n in tied) and (len(tied) == 1 or p not in said):
            continue  # if they start at one place, or are those of a whole array, there may be more values than places
        if any(_is_known(c, a + q.difference * k) for q in c.parts if isinstance(q, Equal) for k in (1, -1)):
            continue
        if any(s in a.free for s in c.summed):
            yield last.constant + 1, (p, q)


def _is_known(c: Summation, a: Affine) -> bool:
    """Whether neither data nor an axis of the result is in `a`."""
    return not a.lookups and not c.scope.axes(a)


def _tied(c: Summation, a: Affine) -> list[Affine]:
    """The extents of the indices in `a`."""
    return [r.extent for i, r in c.ranges.items() if i in a.free]


def _insides(c: Summation) -> Iterator[tuple[NonNegative, NonNegative]]:
    """The bounds that hold wherever a factor of the body is read."""
    reads = list(factors(c.body))
    while reads:
        e = reads.pop()
        if isinstance(e, Access) and isinstance(e.body.type, Array):
            at = e.at.substitute(c.scope.env)
            yield NonNegative(at), NonNegative(e.body.type.size - 1 - at)
        if isinstance(e, Access | Proj):
            reads.append(e.body)


def _of_each(ctx: Context, c: Summation, width: int, bounds: tuple[NonNegative, NonNegative]) -> _Few | None:
    """`c` summed over the values, too, if that determines a summed index, or makes it a sum of segments."""
    d = Index("d")
    rest = bounds[0].value - atom_affine(d)
    parts = (equal(rest, ZERO), *(q for q in c.parts if q not in bounds))
    of_each = replace(c, summed={**c.summed, d: Range(ZERO, constant(width))}, parts=parts, body=_known(c, rest))
    if any(
        abs(rest.coefficient(s)) == 1 and s not in (rest - atom_affine(s) * rest.coefficient(s)).free for s in c.summed
    ):
        return _Few(of_each, None)
    for way in (SEGMENT_SUM, SHARED_SEGMENTS):
        if way.applies(ctx, of_each) is None:
            return _Few(of_each, way)
    return None


def _over_few(ctx: Context, c: Summation, found: _Few) -> Deep[Value]:
    asked = [q for q in c.parts if _asks_once(c, q)]
    few = replace(found.c, parts=tuple(q for q in found.c.parts if q not in asked))

    def compute(inner: Scope) -> Deep[Value]:
        return _in_its_way(ctx, replace(few, scope=inner), found.way)

    return guarded(ctx, c.scope, conjunction(asked), c.body, compute, summed=True) if asked else compute(c.scope)


def _in_its_way(ctx: Context, few: Summation, way: Strategy[Summation] | None) -> Deep[Value]:
    if way is None or isinstance(match := way.match(ctx, few), WhyNot):
        return ctx.contract(few)
    return way.rewrite(ctx, few, match)


def _asks_once(c: Summation, q: Predicate) -> bool:
    """Whether `q` is an existence test of at most one axis, the same for all terms: done once, it is less work."""
    return (
        isinstance(q, Exists)
        and c.summed.keys().isdisjoint(free_atoms(q))
        and len(free_atoms(q) & c.scope.domain.keys()) < 2
    )


def _known(c: Summation, a: Affine) -> Expr:
    """The body of `c` where `a`, a difference of elements alone, is 0."""
    if any(a.coefficient(i) for i in c.ranges):
        return c.body  # then the rest determines this index
    x = next((x for x in a.lookups if abs(a.coefficient(x)) == 1), None)
    if x is None:
        return c.body
    value: dict[Atom, Affine] = {x: (atom_affine(x) * a.coefficient(x) - a) * a.coefficient(x)}
    others = {y for y in a.lookups if y is not x}

    def at_both(e: Expr) -> Expr | None:
        return with_atoms(e, value) if _reads(e, x) and any(_reads(e, y) for y in others) else None

    return rewrite(with_atoms(c.body, c.scope.env), at_both)


def _reads(e: Expr, x: Lookup) -> bool:
    return any(x in a.lookups for a in places(e))


FEW_POINTS = Strategy(
    "few points of segments",
    "gen k. sum i, j. [k = y[i, j] and 0 <= j - z[i] + a < w] * e ="
    " gen k. sum i, j, d:w. [k = y[i, j] and j - z[i] + a = d] * e",
    _few_points,
    _over_few,
)
DATA_DIAGONALS = Strategy(
    "diagonals that data give",
    "gen i. sum j. [0 <= j - y[i] + a < w] * e = gen i. sum j, d:w. [j - y[i] + a = d] * e",
    _few_values,
    _over_few,
)
