"""Products with bands that have an axis for their diagonals, as products of blocks: sliding windows of attention and
their adjoints.

    gen i, e. sum o. p[i, o] * x[i + o, e]             a band p times a matrix
    gen j, e. sum o. p[j - o, o] * x[j - o, e]         the transposed band times a matrix
    gen i, o. sum s. x[i + o, s] * y[i, s]             the band of a product of two matrices

An index o, the diagonal, and an index i are mixed as u = i + o or i - o only. One side depends on u and not on o or i,
the other one on o and on i or u, or on i alone. Each block of rows is a product of matrices (`library/bands.py`), where
sums along diagonals would add up long vectors one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, free_atoms
from tensorlang.lowering.arrays.brackets import guarded
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.ir import Name, Node
from tensorlang.lowering.arrays.sums.correlation import (
    CorrelationFactor,
    MixedIndices,
    indices_in,
    is_plain,
    moved,
    positions_in,
    side_array,
)
from tensorlang.lowering.arrays.sums.strategy import DECIDED, NOT_A_SUM, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer, times
from tensorlang.lowering.plan.dependence import factors, is_finite
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class _Product:
    """The index that is mixed with the diagonal, as a pair; the conditions on indices of the result alone; the factor
    that depends on the mixed index alone, the other one, and those outside of the sum. The band that is a factor is
    `transposed` if it depends on the mixed index, too."""

    pair: MixedIndices
    outer: Sequence[Predicate]
    x: CorrelationFactor
    y: CorrelationFactor
    outside: Sequence[Expr]
    transposed: bool


def _band_product(ctx: Context, c: Summation) -> _Product | WhyNot:
    if not c.summed:
        return NOT_A_SUM
    if c.whole or c.selects:
        return DECIDED if c.whole else WhyNot("what is hidden must be selected, not multiplied by zero")
    body = factors(c.body)
    if not all(map(is_plain, body)) or ((c.parts or c.scope.masks) and not all(map(is_finite, body))):
        return WhyNot("a factor is not made of elements of arrays alone, or might not be finite where it is hidden")
    for pair in _pairs(c, body):
        mixing = [q for q in c.parts if {pair.i, pair.j} <= free_atoms(q)]
        outer = [q for q in c.parts if q not in mixing and c.summed.keys().isdisjoint(free_atoms(q))]
        rest = [q for q in c.parts if q not in mixing and q not in outer]
        if any(c.ranges.keys() & free_atoms(q) != {pair.j} for q in rest):
            continue
        found = _sides(ctx, replace(c, parts=(*mixing, *rest)), pair, body, rest)
        if found is not None:
            return replace(found, outer=outer)
    return WhyNot(
        "it is no product of a matrix and a band with an axis for its diagonals, or of two matrices of which a band is "
        "read"
    )


def _pairs(c: Summation, body: Sequence[Expr]) -> list[MixedIndices]:
    """The only two indices that are mixed, both ways round if both are the result's: the second is the diagonal."""
    ties = [q for q in c.parts if len(c.ranges.keys() & free_atoms(q)) > 1]
    if not all(isinstance(q, NonNegative) and not q.value.lookups for q in ties):
        return []
    values = [a.substitute(c.scope.env) for e in body for a in positions_in(e)]
    values += [q.value for q in ties if isinstance(q, NonNegative)]
    mixed = [(a, axes) for a in values if len(axes := c.axes(a)) > 1]
    if not mixed or any(a.lookups or not c.scope.is_static(a) for a, _ in mixed):
        return []
    a, axes = mixed[0]
    form = Affine(tuple((k, v) for k, v in a.terms if k in axes), 0)
    for b, others in mixed:
        other = Affine(tuple((k, v) for k, v in b.terms if k in axes), 0)
        if others != axes or other not in (form, -form):
            return []
    if len(axes) > 2 or any(abs(form.coefficient(k)) != 1 for k in axes) or axes[0] in c.summed:
        return []
    orders = [axes] if axes[1] in c.summed else [axes, axes[::-1]]
    u, v = Index("u"), Index("v")
    return [MixedIndices(i, j, u, v, form if form.coefficient(i) > 0 else -form) for i, j in orders]


def _sides(
    ctx: Context, c: Summation, pair: MixedIndices, body: Sequence[Expr], parts: Sequence[Predicate]
) -> _Product | None:
    """The sides of `c`: factors that depend on u alone, and the others."""
    i, o, u = pair.i, pair.j, pair.u
    x = CorrelationFactor(moved(ctx, c, [pair]), [], [])
    range_u = x.scope.domain[u]
    # in terms of the diagonal and u
    at: dict[Atom, Affine] = {i: atom_affine(u) - atom_affine(o) * pair.dilation}
    others = {k: r for k, r in c.ranges.items() if k is not i}
    env = {k: a.substitute(at) for k, a in c.scope.env.items()} | at
    by_mixed = CorrelationFactor(ctx.scope(c.scope, domain={**others, u: range_u}, env=env, masks=()), [], list(parts))
    by_rows = CorrelationFactor(ctx.scope(c.scope, domain=c.ranges, masks=()), [], list(parts))
    outside, band = [], []
    for e in body:
        here, there = indices_in(e, c.scope), indices_in(e, x.scope)
        if c.summed.keys().isdisjoint(here):
            outside.append(e)
        elif {i, o}.isdisjoint(there) and pair.v not in there:
            x.body.append(e)
        else:
            band.append(e)
    if not x.body or not band or any(k in c.scope.loops for k in (i, o)):
        return None
    for side in (by_rows, by_mixed):
        if all(
            len({i, o, u}.intersection(a.substitute(side.scope.env).free)) < 2 for e in band for a in positions_in(e)
        ):
            side.body.extend(band)
            found = _Product(pair, (), x, side, outside, side is by_mixed)
            return found if _is_product(c, found) else None
    return None


def _is_product(c: Summation, found: _Product) -> bool:
    """Whether it is one of the two products, in which matrices have an index besides those of the band."""
    i, o, x, y = found.pair.i, found.pair.j, found.x.uses, found.y.uses
    if o in c.summed:
        return all(k is o or not (k in x and k in y) for k in c.summed) and any(k in x - y for k in c.scope.domain)
    return not found.transposed and o not in y and i in y and any(k in x and k in y for k in c.summed)


def _in_blocks(ctx: Context, c: Summation, found: _Product) -> Deep[Value]:
    if found.outer:
        rest = replace(c, parts=tuple(q for q in c.parts if q not in found.outer))
        compute = lambda inner: ctx.contract(replace(rest, scope=inner))
        return (yield from call(guarded(ctx, c.scope, conjunction(found.outer), c.body, compute)))
    v = yield from call(_times(ctx, c, found) if found.pair.j in c.summed else _of(ctx, c, found))
    ctx.multiplied = True
    for e in found.outside:
        factor: Value = yield from call(ctx.value(e, c.scope))
        v = times(v, factor, c.scope.order)
    return v


def _axes(c: Summation, found: _Product) -> tuple[Axes, Axes, Axes]:
    """The axes of the result other than the mixed indices: those that both sides share, of x alone, and of y alone."""
    x, y = found.x.uses, found.y.uses
    kept = [k for k in c.scope.domain if k not in (found.pair.i, found.pair.j)]
    return (
        tuple(k for k in kept if k in x and k in y),
        tuple(k for k in kept if k in x and k not in y),
        tuple(k for k in kept if k in y and k not in x),
    )


def _first(c: Summation, found: _Product) -> Affine:
    """Where in the range of u the first row reads, with diagonals in the order in which u grows."""
    pair, r = found.pair, found.x.scope.domain[found.pair.u]
    diagonals = c.ranges[pair.j]
    start = diagonals.start if pair.dilation > 0 else -diagonals.last
    return c.ranges[pair.i].start + start - r.start


def _times(ctx: Context, c: Summation, found: _Product) -> Deep[Value]:
    pair, (shared, own, others) = found.pair, _axes(c, found)
    further = [k for k in c.summed if k is not pair.j]
    row = pair.u if found.transposed else pair.i
    alone = [[k for k in further if k in side.uses] for side in (found.x, found.y)]
    alone[0] += [k for k in further if k not in (*alone[0], *alone[1])]
    x = yield from call(side_array(ctx, c, found.x, (*shared, pair.u, *own), alone[0]))
    p = yield from call(side_array(ctx, c, found.y, (*shared, *others, row, pair.j), alone[1]))
    first = _first(c, found)
    if found.transposed:  # i = u + first + o, with diagonals in the order in which u falls
        first = -first - c.ranges[pair.j].extent + 1
    if (pair.dilation < 0) is not found.transposed:
        p = apply("flip", p, integer(len(shared) + len(others) + 1))
    kind = "a transposed band" if found.transposed else "a band"
    c.scope.block.note(f"{kind} with a diagonal for each {pair.j.name} times a matrix: as products of blocks")
    flag = {"transposed": Name("True")} if found.transposed else {}
    integers = ctx.integers.nodes((first, c.ranges[pair.i].extent))
    node = apply("_band_times", p, x, *integers, **flag, **_counts(shared, others))
    return Value(node, (*shared, *others, pair.i, *own), 2)


def _of(ctx: Context, c: Summation, found: _Product) -> Deep[Value]:
    pair, (shared, own, others) = found.pair, _axes(c, found)
    both = tuple(k for k in c.summed if k in found.x.uses and k in found.y.uses)
    alone = [k for k in c.summed if k not in both]
    of_x = [k for k in alone if k in found.x.uses]
    x = yield from call(side_array(ctx, c, found.x, (*shared, *own, pair.u, *both), of_x))
    y = yield from call(
        side_array(ctx, c, found.y, (*shared, *others, pair.i, *both), [k for k in alone if k not in of_x])
    )
    c.scope.block.note(f"a band of a product of matrices, a diagonal for each {pair.j.name}: as products of blocks")
    count = c.ranges[pair.j].extent
    integers = ctx.integers.nodes((_first(c, found), count))
    node = apply("_band_of", x, y, *integers, **_counts(shared, others, own))
    if pair.dilation < 0:
        node = apply("flip", node, integer(len(shared) + len(own) + len(others) + 1))
    return Value(node, (*shared, *own, *others, pair.i, pair.j), 2)


def _counts(shared: Axes, others: Axes, own: Axes = ()) -> dict[str, Node]:
    return {name: integer(len(k)) for name, k in (("shared", shared), ("own", own), ("others", others)) if k}


BAND_PRODUCT = Strategy(
    "band product",
    "gen i, e. sum o. p[i, o] * x[i + o, e], or gen i, o. sum s. x[i + o, s] * y[i, s]: as products of blocks",
    _band_product,
    _in_blocks,
)
