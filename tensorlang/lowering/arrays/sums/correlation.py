"""Sums in which an access mixes a summed index with one of the result: correlations, and sums over windows.

    sum e, j. X[e, a*i + b*j] * W[e, j]    for each i                                       (i, j) one pair or several

X is computed by itself, over an index u = a*i + b*j of its own, at the positions that the guards on u leave, outside of
which it is zero; so is W. Axes that run backwards are flipped. The rest is done by functions of the generated code,
which choose by the sizes and the cost table (`emit/library/correlations.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce as fold
from math import gcd, prod

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.language.grammar import Access, Add, Call, Const, Expr, Mul, Proj, Var, children
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, free_atoms
from tensorlang.lowering.arrays.brackets import bound_on, guarded
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import Range
from tensorlang.lowering.arrays.ir import List, Node, Part
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer, integers, times
from tensorlang.lowering.costs import COSTS
from tensorlang.lowering.plan.dependence import factors, is_finite, places
from tensorlang.recursion import Deep, call


@dataclass(frozen=True)
class MixedIndices:
    """An axis i of the result and a summed index j which guards and accesses mix as u = a*i + b*j only, where a and b
    have no common divisor. With p*a + q*b = 1, i = p*u - b*v and j = q*u + a*v for some v."""

    i: Index
    j: Index
    u: Index
    v: Index
    form: Affine

    @property
    def step(self) -> int:
        """The coefficient of i."""
        return self.form.coefficient(self.i)

    @property
    def dilation(self) -> int:
        """The coefficient of j."""
        return self.form.coefficient(self.j)

    @property
    def solution(self) -> dict[Atom, Affine]:
        """The two in terms of u and v."""
        a, b = self.step, self.dilation
        p = a if abs(a) == 1 else pow(a, -1, abs(b))
        u, v = atom_affine(self.u), atom_affine(self.v)
        return {self.i: u * p - v * b, self.j: u * ((1 - p * a) // b) + v * a}


@dataclass
class CorrelationFactor:
    """One of the two factors of a correlation: its scope, the factors in it, and the parts that hide it."""

    scope: Scope
    body: list[Expr]
    parts: list[Predicate]

    @property
    def uses(self) -> frozenset[Index]:
        """The indices that it depends on."""
        found = {i for e in self.body for a in positions_in(e) for i in a.substitute(self.scope.env).indices}
        return frozenset(found.union(i for q in self.parts for i in free_atoms(q) if isinstance(i, Index)))


@dataclass(frozen=True)
class _Correlated:
    """The pairs of indices that a sum mixes, and its factors: X, W, and those outside of the sum. If there are `outer`
    conditions, on indices of the result alone, these are hoisted first, and the factors left open."""

    pairs: Sequence[MixedIndices]
    outer: Sequence[Predicate]
    sides: tuple[CorrelationFactor, CorrelationFactor, list[Expr]] | None = None


def _correlated(ctx: Context, c: Summation) -> _Correlated | WhyNot:
    if c.whole or c.selects:
        return DECIDED if c.whole else WhyNot("what is hidden must be selected, not multiplied by zero")
    pairs = _pairs(c)
    if not pairs:
        return WhyNot("no access or condition mixes a summed index with one of the result, always in the same way")
    outer = [q for q in c.parts if c.summed.keys().isdisjoint(free_atoms(q))]
    if outer:
        return _Correlated(pairs, outer)
    sides = _sides(ctx, c, pairs)
    if sides is None:
        return WhyNot(
            "not every factor depends on the mixed index alone or on the summed one alone, or one has a "
            "function that might not be finite where it is hidden"
        )
    if not sides[0].body and not _has_windows(c, pairs):
        return WhyNot("the sum is not over windows with two ends, and nothing is read at the mixed index")
    return _Correlated(pairs, (), sides)


def _by_library(ctx: Context, c: Summation, found: _Correlated) -> Deep[Value]:
    """`c` as a correlation or a sum over windows."""
    v: Value
    if found.sides is None:
        rest = replace(c, parts=tuple(q for q in c.parts if q not in found.outer))
        compute = lambda inner: ctx.contract(replace(rest, scope=inner))
        v = yield from call(guarded(ctx, c.scope, conjunction(found.outer), c.body, compute))
        return v
    x, w, outside = found.sides
    if not x.body:
        v = yield from call(_over_windows(ctx, c, found.pairs, x, w))
        ctx.multiplied |= bool(outside)
    else:
        v = yield from call(_correlation(ctx, c, found.pairs, x, w))
        ctx.multiplied = True
    for e in outside:
        factor: Value = yield from call(ctx.value(e, c.scope))
        v = times(v, factor, c.scope.order)
    return v


CORRELATION = Strategy(
    "correlation",
    "gen i. sum j. X[a*i + b*j] * W[j]: as shifted slices, a convolution, or Fourier transforms; or sums of windows",
    _correlated,
    _by_library,
)


def positions_in(e: Expr) -> list[Affine]:
    """The places of all accesses in `e`."""
    found, stack, seen = [], [e], {e}
    while stack:
        part = stack.pop()
        if isinstance(part, Access):
            found += places(part)
            continue
        fresh = [child for child in children(part) if child not in seen]
        seen.update(fresh)
        stack += fresh
    return found


def is_plain(e: Expr) -> bool:
    """Whether `e` is made of accesses and operations alone, so that substituting in its accesses is enough."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        if not isinstance(part, Access | Add | Call | Const | Mul | Proj | Var):
            return False
        fresh = [] if isinstance(part, Access) else [child for child in children(part) if child not in seen]
        seen.update(fresh)
        stack += fresh
    return True


def _pairs(c: Summation) -> list[MixedIndices]:
    """The pairs of indices that `c` mixes; none if it mixes more than two at a time, or two in several ways."""
    found: dict[Axes, Affine] = {}
    guards = [q.value for q in c.parts if isinstance(q, NonNegative)]
    read = [a.substitute(c.scope.env) for e in factors(c.body) for a in positions_in(e)]
    for a in [*read, *guards]:
        axes = tuple(i for i in c.ranges if i in a.free)
        if len(axes) < 2 or c.summed.keys().isdisjoint(axes):
            continue
        if len(axes) > 2 or axes[0] in c.summed or axes[1] not in c.summed or a.lookups or not c.scope.is_static(a):
            return []
        i, j = axes
        divisor = gcd(a.coefficient(i), a.coefficient(j))
        form = Affine(tuple((k, v // divisor) for k, v in a.terms if k in axes), 0)
        if found.setdefault(axes, form) not in (form, -form):
            return []
    used = [k for axes in found for k in axes]
    if len(set(used)) < len(used):
        return []
    return [MixedIndices(i, j, Index("u"), Index("v"), form) for (i, j), form in found.items()]


def _sides(
    ctx: Context, c: Summation, pairs: Sequence[MixedIndices]
) -> tuple[CorrelationFactor, CorrelationFactor, list[Expr]] | None:
    """The factors of `c` that depend on u, those that depend on j and on other summed indices, and the rest.

    None if a factor depends on i or j in another way, or if what is hidden here might not be finite.
    """
    body = factors(c.body)
    hidden = bool(c.parts or c.scope.masks)
    if not all(map(is_plain, body)) or (hidden and not all(map(is_finite, body))):
        return None
    outer = {p.i for p in pairs}
    x = CorrelationFactor(moved(ctx, c, pairs), [], [])
    w = CorrelationFactor(
        ctx.scope(c.scope, domain={k: r for k, r in c.ranges.items() if k not in outer}, masks=()), [], []
    )
    outside: list[Expr] = []
    for e in body:
        here = indices_in(e, c.scope)
        there = indices_in(e, x.scope)
        if c.summed.keys().isdisjoint(here):
            outside.append(e)
        elif here.isdisjoint(outer):
            w.body.append(e)
        elif there.isdisjoint(p.v for p in pairs):
            x.body.append(e)
        else:
            return None
    for q in c.parts:
        indices = {i for i in free_atoms(q) if i in c.ranges}
        if not indices & outer:
            w.parts.append(q)
        elif not isinstance(q, NonNegative) or len(indices) > 2:
            return None
    return x, w, outside


def indices_in(e: Expr, scope: Scope) -> frozenset[Index]:
    """The indices on which the places of its accesses depend."""
    return frozenset(i for a in positions_in(e) for i in a.substitute(scope.env).free if isinstance(i, Index))


def moved(ctx: Context, c: Summation, pairs: Sequence[MixedIndices]) -> Scope:
    """The scope of X: u in place of i and j, in the range that is read and that the guards leave."""
    gone = {k for p in pairs for k in (p.i, p.j)}
    domain = {k: r for k, r in c.ranges.items() if k not in gone}
    env = dict(c.scope.env)
    for p in pairs:
        env = {old: a.substitute(p.solution) for old, a in env.items()} | p.solution
    scope = ctx.scope(c.scope, env=env, masks=())
    for p in pairs:
        starts: dict[Index, list[Affine]] = {}
        stops: dict[Index, list[Affine]] = {}
        for q in c.parts:
            if isinstance(q, NonNegative) and q.value.coefficient(p.i):
                bound_on(ctx, scope, p.u, q.value.substitute(p.solution), starts, stops)
        domain[p.u] = _range(ctx, c, p, starts.get(p.u, []), stops.get(p.u, []))
    return ctx.scope(scope, domain=domain)


def _range(ctx: Context, c: Summation, p: MixedIndices, starts: list[Affine], stops: list[Affine]) -> Range:
    """The values of u: all that the guards leave if they bound it on both sides, else those of them that occur."""
    integers, fixed = ctx.integers, c.scope.fixed
    if len(starts) == len(stops) == 1:
        (low,), (high,) = starts, stops
        return Range(low, integers.greatest("u_stop", [low, high], fixed, [high]))
    first: dict[Atom, Affine] = {}
    last: dict[Atom, Affine] = {}
    for index in (p.i, p.j):
        r, rises = c.ranges[index], p.form.coefficient(index) > 0
        first[index], last[index] = (r.start, r.last) if rises else (r.last, r.start)
    low, high = p.form.substitute(first), p.form.substitute(last) + 1
    r = Range(low, integers.greatest("u_stop", [low, high], fixed, [high]))
    return integers.restricted(p.u, r, starts, stops, fixed)


def _has_windows(c: Summation, pairs: Sequence[MixedIndices]) -> bool:
    """Whether each pair has a guard at either end: a running sum is another matter."""
    values = [q.value for q in c.parts if isinstance(q, NonNegative)]
    return all(len({v.coefficient(p.i) > 0 for v in values if v.coefficient(p.i)}) == 2 for p in pairs)


def side_array(ctx: Context, c: Summation, side: CorrelationFactor, axes: Axes, summed: Iterable[Index]) -> Deep[Node]:
    """A side of `c` as an array with these axes."""
    domain = side.scope.domain
    scope = ctx.scope(side.scope, domain={k: domain[k] for k in axes})
    body = fold(Mul, side.body) if side.body else Const(Fraction(1))
    inner = {k: domain[k] for k in summed}
    v: Value = yield from call(ctx.contract(Summation(scope, inner, tuple(side.parts), body, selects=c.selects)))
    return whole(ctx, scope, ctx.short(v, scope.block), axes)


def _correlation(
    ctx: Context, c: Summation, pairs: Sequence[MixedIndices], x: CorrelationFactor, w: CorrelationFactor
) -> Deep[Value]:
    inner = {p.j for p in pairs}
    further = [k for k in c.summed if k not in inner]
    alone = [k for k in further if k in x.uses and k not in w.uses]
    both = [k for k in further if k not in alone and k in x.uses]
    shared = [k for k in c.scope.domain if k in x.uses and k in w.uses]
    own = [k for k in c.scope.domain if k in x.uses and k not in w.uses]
    others = [k for k in c.scope.domain if k in w.uses and k not in x.uses]
    left = [k for k in further if k not in alone and k not in both]
    first = yield from call(side_array(ctx, c, x, (*shared, *own, *both, *(p.u for p in pairs)), alone))
    second = yield from call(side_array(ctx, c, w, (*shared, *others, *both, *(p.j for p in pairs)), left))
    counts = {name: integer(len(k)) for name, k in (("groups", shared), ("batch", own), ("outer", others)) if k}
    at = [_forwards(c, p, _at(c, p, x.scope.domain[p.u])) for p in pairs]
    read = ", ".join(str(p.form) for p in pairs)
    taps = None if both or others else _constant([c.ranges[p.j] for p in pairs])
    stepped = any(max(abs(p.step), abs(p.dilation)) > 1 for p in pairs)
    if taps is not None and taps <= COSTS["slice_taps"]:
        part, compute = "_correlate", "_by_slices"
        c.scope.block.note(f"read at {read}: a sum of shifted slices")
    else:
        part = "_correlate_in_steps" if stepped else "_correlate"
        compute = {1: "_line", 2: "_plane"}.get(len(pairs), "_space")
        c.scope.block.note(f"read at {read}: {compute} chooses by the sizes and COSTS how to do that")
    second = _turned(second, [p.dilation < 0 for p in pairs], len(shared) + len(others) + len(both))
    node: Node = apply(part, first, second, _tuples(ctx, at), Part(compute), **counts)
    node = _turned(node, [p.step < 0 for p in pairs], len(shared) + len(own) + len(others))
    return Value(node, (*shared, *own, *others, *(p.i for p in pairs)), 2)


def _constant(ranges: Sequence[Range]) -> int | None:
    """The number of points, if it is known."""
    return prod(r.extent.constant for r in ranges) if all(r.extent.is_constant for r in ranges) else None


def _forwards(c: Summation, p: MixedIndices, at: Sequence[Affine]) -> list[Affine]:
    """`at` once the axes along which positions decrease are flipped."""
    _, _, start, n = at
    start += (n - 1) * min(0, p.step) + (c.ranges[p.j].extent - 1) * min(0, p.dilation)
    return [constant(abs(p.step)), constant(abs(p.dilation)), start, n]


def _turned(x: Node, which: Sequence[bool], first: int) -> Node:
    """`x` flipped along some of its axes from the `first` on."""
    axes = tuple(first + k for k, turned in enumerate(which) if turned)
    return apply("flip", x, integer(axes[0]) if len(axes) == 1 else integers(axes)) if axes else x


def _at(c: Summation, p: MixedIndices, r: Range) -> list[Affine]:
    """The coefficients, where in the range of u the first element of the result begins to read, and how many there
    are."""
    i, j = c.ranges[p.i], c.ranges[p.j]
    start = p.form.substitute({p.i: i.start, p.j: j.start}) - r.start
    return [constant(p.step), constant(p.dilation), start, i.extent]


def _tuples(ctx: Context, rows: Sequence[Sequence[Affine]]) -> List:
    return List(tuple(map(ctx.shape, rows)))


def _over_windows(
    ctx: Context, c: Summation, pairs: Sequence[MixedIndices], x: CorrelationFactor, w: CorrelationFactor
) -> Deep[Value]:
    """The sum of W over the j with u in its range."""
    inner = tuple(p.j for p in pairs)
    axes = tuple(k for k in c.scope.domain if k in w.uses)
    array = yield from call(side_array(ctx, c, w, (*axes, *inner), [k for k in c.summed if k not in inner]))
    ranges = [x.scope.domain[p.u] for p in pairs]
    at = _tuples(ctx, [[*_at(c, p, r), r.extent] for p, r in zip(pairs, ranges, strict=True)])
    read = ", ".join(str(p.form) for p in pairs)
    c.scope.block.note(f"sums where {read} is in a window: by sizes as shifted slices or doubled ones")
    return Value(apply("_sum_windows", array, at), (*axes, *(p.i for p in pairs)), 2)
