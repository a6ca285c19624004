"""Loops, for sums with an access such as x[i + j] that mixes a summed index with another.

With one of the two fixed, the access is a slice: so a loop runs over the shorter ranges, and everything else stays an
operation on whole arrays. Which are shorter is only known with the sizes, so where two ways are left the generated code
compares them. The second way is a loop over an index of the result, or over the width of a band:

    sum i:n. [0 <= a < m] * e   =   sum u:m. sum i:n. [u = a] * e                   where a has i and another index

With u fixed, the equality determines i. An equality such as k = 2*i + 3*j determines an axis of the result by two
summed indices, but neither of these: for each value of one of them the elements are strided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

from tensorlang.language.affine import Affine, Index, atom_affine, constant
from tensorlang.language.predicates import Equal, NonNegative, free_atoms
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Block, Define, Infix, Lambda, List, Name, Node, When
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.strategy import DECIDED, Strategy, WhyNot
from tensorlang.lowering.arrays.sums.summation import Summation
from tensorlang.lowering.arrays.values import DTYPE, Axes, Value, aligned, apply, cast, literal
from tensorlang.lowering.plan.dependence import accesses, places
from tensorlang.recursion import Deep, call

_MOST = 8  # indices among which the best set to iterate over is searched for
_FEW = 5  # a loop over at most the square of that many points is taken whatever another way would take
_WHOLE = 8  # how many times faster than a loop whole-array operations are assumed to be, per element


def _iterated(ctx: Context, c: Summation) -> Sequence[Summation] | WhyNot:
    """`c` as one or two loops, over `c.loops` or what is best if there are none."""
    if c.whole:
        return DECIDED
    ways = [c] if c.loops else _ways(ctx, c)
    return ways if ways[-1].loops else WhyNot("with no index fixed, every access is a slice: no loop is needed")


def _in_loop(ctx: Context, c: Summation, ways: Sequence[Summation]) -> Deep[Value]:
    return _choice(ctx, ways) if len(ways) > 1 else _loop(ctx, ways[0])


LOOP = Strategy(
    "loop",
    "sum i, j. e, one i after the other, where with i fixed every access is a slice",
    _iterated,
    _in_loop,
)


def _ways(ctx: Context, c: Summation) -> list[Summation]:
    """One or two ways to compute `c`, each with its loops or none; if two, the generated code is to compare them."""
    placed = _placed(c)
    if placed:
        return placed
    loops = _cover(c, outer_first=False)
    one = replace(c, loops=loops, whole=not loops)
    other = _along_bands(ctx, c)
    if other is None:
        other = replace(c, loops=_cover(c, outer_first=True))
    if other.loops == one.loops:
        return [one]
    if one.loops and len(one.loops) == len(other.loops):
        these, those = _extents(one), _extents(other)
        facts = [n - 1 for n in (*these, *those)]  # with no points at all, either way will do
        if all(ctx.integers.is_nonnegative(n - m, facts) for m, n in zip(these, those, strict=True)):
            return [one]
        if all(ctx.integers.is_nonnegative(m - n, facts) for m, n in zip(these, those, strict=True)):
            return [other]
    return [one] if _are_few(ctx, _extents(one) if one.loops else _eliminated(one, other)) else [one, other]


def _are_few(ctx: Context, extents: Sequence[Affine]) -> bool:
    """Whether a loop over these extents is short at all sizes."""
    many = 1
    for n in extents:
        if not n.is_constant and not ctx.integers.is_nonnegative(constant(_FEW) - n):
            return False
        many *= n.constant if n.is_constant else _FEW
    return many <= _FEW * _FEW


def _eliminated(one: Summation, other: Summation) -> list[Affine]:
    """The extents of the indices that `one` sums over and `other` determines."""
    own = [q for q in other.parts if q not in one.parts]
    return [r.extent for i, r in one.summed.items() if any(i in free_atoms(q) for q in own)]


def _placed(c: Summation) -> list[Summation]:
    """Two loops, each over one of two summed indices that an equality ties to an axis of the result; else none."""
    for q in c.parts:
        if isinstance(q, Equal) and not q.difference.lookups:
            inside = [s for s in c.summed if q.difference.coefficient(s)]
            outside = [i for i in c.scope.domain if q.difference.coefficient(i)]
            if len(inside) == 2 and len(outside) == 1 and abs(q.difference.coefficient(outside[0])) == 1:
                return [replace(c, loops=frozenset({s})) for s in inside]
    return []


def _test(ctx: Context, one: Summation, other: Summation) -> Node:
    """Whether the first way is the better one."""
    volume = ctx.integers.volume
    if one.loops:
        return Infix(volume(_extents(one)), "<=", volume(_extents(other)))
    return Infix(volume(_eliminated(one, other)), "<=", volume(_extents(other), _WHOLE))


def _extents(c: Summation) -> list[Affine]:
    return [r.extent for i, r in c.ranges.items() if i in c.loops]


def _mixed(c: Summation) -> list[Axes]:
    """The indices of each position in the body that has a summed one and another."""
    found: dict[Axes, None] = {}
    for e in accesses(c.body):
        for a in places(e):
            axes = c.axes(a.substitute(c.scope.env))
            if len(axes) > 1 and any(i in c.summed for i in axes):
                found[axes] = None
    return list(found)


def _cover(c: Summation, outer_first: bool) -> frozenset[Index]:
    """A smallest set of indices without which no position mixes a summed index with another.

    It has as few of the outer indices as possible, or with `outer_first` of the summed ones.
    """
    mixed = _mixed(c)
    indices = list(dict.fromkeys(i for axes in mixed for i in axes))
    if len(indices) > _MOST:
        return frozenset(i for i in indices if i in c.summed)
    subsets = [frozenset(some) for size in range(len(indices) + 1) for some in combinations(indices, size)]

    def covers(chosen: frozenset[Index]) -> bool:
        left = [[i for i in axes if i not in chosen] for axes in mixed]
        return all(len(axes) <= 1 or c.summed.keys().isdisjoint(axes) for axes in left)

    def order(chosen: frozenset[Index]) -> tuple[int, int]:
        return sum((i in c.summed) == outer_first for i in chosen), len(chosen)

    return min(filter(covers, subsets), key=order)


def _along_bands(ctx: Context, c: Summation) -> Summation | None:
    """`c` with a loop over the width of each band that its parts describe."""
    summed, parts = dict(c.summed), list(c.parts)
    done: set[Index] = set()
    for low in c.parts:
        for high in c.parts:
            if not (isinstance(low, NonNegative) and isinstance(high, NonNegative)):
                continue
            width, inside = low.value + high.value + 1, _determined(c, low.value)
            static = c.scope.is_static(width) and not c.axes(width)
            if inside is None or inside in done or not static or low not in parts or high not in parts:
                continue
            u = Index(inside.name)
            summed[u] = Range(ZERO, ctx.integers.greatest(f"{u.name}_stop", [ZERO, width], c.scope.fixed, [width]))
            parts = [q for q in parts if q not in (low, high)] + [Equal(low.value - atom_affine(u))]
            done |= {inside, u}
    if not done:
        return None
    return replace(c, summed=summed, parts=tuple(parts), loops=frozenset(summed.keys() - c.summed.keys()))


def _determined(c: Summation, a: Affine) -> Index | None:
    """A summed index that the value of `a` determines, given the others in it, of which there must be some."""
    axes = c.axes(a)
    inside = [i for i in axes if i in c.summed]
    if len(axes) < 2 or not inside:
        return None
    unit = next((i for i in inside if abs(a.coefficient(i)) == 1), None)
    if unit is not None:
        return unit
    # the other index is then determined by the summed one
    outside = [i for i in axes if i not in c.summed]
    return inside[0] if len(inside) == len(outside) == 1 and abs(a.coefficient(outside[0])) == 1 else None


def _choice(ctx: Context, ways: Sequence[Summation]) -> Deep[Value]:
    """The way with the shorter loop, chosen when the code is traced."""
    scope = ways[0].scope
    name, ctx.target = ctx.target or ctx.names.fresh_local("t"), None
    blocks, values = [], []
    for way in ways:
        block = ctx.new_block()
        fixed = block if scope.fixed is scope.block else scope.fixed
        inner = replace(way, scope=ctx.scope(way.scope, block=block, fixed=fixed))
        values.append((yield from call(_loop(ctx, inner) if way.loops else ctx.contract(inner))))
        blocks.append(block)
    if all(v.number == 0 for v in values):
        return literal(Fraction(0))
    axes = tuple(i for i in scope.domain if any(i in v.axes for v in values))
    for block, v in zip(blocks, values, strict=True):
        block.give(expanded(ctx, scope, v, axes), name)
    scope.block.statements.append(When(_test(ctx, *ways), *blocks))
    return Value(Name(name), axes)


def expanded(ctx: Context, scope: Scope, v: Value, axes: Axes) -> Node:
    """`v` with all of `axes`."""
    w = aligned(v, axes)
    return w.node if len(v.axes) == len(axes) else apply("broadcast_to", w.node, ctx.extents(scope, axes))


def whole(ctx: Context, scope: Scope, v: Value, axes: Axes, dtype: Node = DTYPE) -> Node:
    """`v` as an array with all of `axes`, of this dtype, which is the computation's if none is given."""
    if v.weak and not v.axes:
        return apply("full", ctx.extents(scope, axes), v.node, dtype)
    node = expanded(ctx, scope, v, axes)
    return cast(node, dtype) if v.weak else node


def _loop(ctx: Context, c: Summation) -> Deep[Value]:
    """A stack over the loop's indices that are axes of the result, and inside of it a sum over the others."""
    scope = c.scope
    stacked = tuple(i for i in scope.domain if i in c.loops)
    here = stacked or tuple(i for i in c.summed if i in c.loops)
    ranges = {i: c.ranges[i] for i in here}
    names = [ctx.loop_name(i) for i in here]
    block = ctx.new_block()
    inner = ctx.scope(
        scope,
        domain={i: r for i, r in scope.domain.items() if i not in here},
        loops={**scope.loops, **ranges},
        block=block,
    )
    v = yield from call(ctx.contract(replace(c, scope=inner, summed=c.without(*here), loops=c.loops.difference(here))))
    if v.number == 0:
        return literal(v.number)
    term = function_of(ctx, scope.block, block, names, v)
    over = List(tuple(map(ctx.range, ranges.values())))
    node = apply("_stack_over" if stacked else "_sum_over", over, term, ctx.extents(inner, v.axes), DTYPE)
    return Value(node, stacked + v.axes, 2)


def function_of(
    ctx: Context, outside: Block, inside: Block, names: Sequence[str], v: Value, wanted: str = "term"
) -> Node:
    """A function of the loop's indices that returns `v`: a lambda if it needs no lines of its own."""
    if not inside.statements:
        return Lambda(tuple(names), v.node)
    name = ctx.names.fresh_local(wanted)
    inside.give(v.node)
    outside.statements.append(Define(name, tuple(names), inside))
    return Name(name)
