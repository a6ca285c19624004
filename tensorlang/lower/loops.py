"""Loops, for sums with an access such as x[i + j] that mixes a summed index with another.

With one of the two fixed, the access is a slice: so a loop runs over the indices that are few, and everything else
stays an operation on whole arrays. Which are few is only known with the sizes, so where two ways are left the
generated code compares them. The second way may be another view of the same sum,

    sum i:n. [0 <= k - i < m] * w[k - i] * e(i)   =   sum j:m. [0 <= k - j < n] * w[j] * e(k - j),

or a loop over an index of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import NonNegative, Predicate, at_most, conjunction, conjuncts, substitute
from tensorlang.lower.code import Axes, Block, Value, aligned, literal
from tensorlang.lower.integers import ZERO, Range
from tensorlang.lower.profile import accesses, places
from tensorlang.lower.scope import Context, Scope
from tensorlang.recursion import Deep

Contract = Callable[[Context, Scope, Mapping[Index, Range], tuple[Predicate, ...], Expr, frozenset[Index]], Deep[Value]]
_MOST = 8  # indices among which the best set to iterate over is searched for


@dataclass(frozen=True)
class _Way:
    """One way to compute a sum: the sum itself, and the indices to iterate over."""

    scope: Scope
    summed: dict[Index, Range]
    parts: tuple[Predicate, ...]
    loops: frozenset[Index]

    def ranges(self) -> list[Range]:
        return [r for i, r in {**self.scope.domain, **self.summed}.items() if i in self.loops]


def iterated(
    ctx: Context,
    scope: Scope,
    summed: dict[Index, Range],
    parts: tuple[Predicate, ...],
    body: Expr,
    loops: frozenset[Index],
    contract: Contract,
) -> Deep[Value | None]:
    """The sum as a loop over `loops`, or over what is best if there are none; None if it needs no loop."""
    ways = [_Way(scope, summed, parts, loops)] if loops else _ways(ctx, scope, summed, parts, body)
    if not ways:
        return None
    v: Value = yield (
        _choice(ctx, scope, ways, body, contract) if len(ways) > 1 else _loop(ctx, ways[0], body, contract)
    )
    return v


def _ways(
    ctx: Context, scope: Scope, summed: dict[Index, Range], parts: tuple[Predicate, ...], body: Expr
) -> list[_Way]:
    first = _cover(scope, summed, body, outer_first=False)
    if not first:
        return []
    one = _Way(scope, summed, parts, first)
    other = _reparametrised(ctx, scope, summed, parts, body)
    if other is None:
        other = _Way(scope, summed, parts, _cover(scope, summed, body, outer_first=True))
    if other.loops == one.loops and other.scope is one.scope:
        return [one]
    if len(one.ranges()) == len(other.ranges()) == 1:
        m, n = one.ranges()[0].extent, other.ranges()[0].extent
        facts = [m - 1, n - 1]  # with no points at all, either way will do
        if ctx.integers.is_nonnegative(n - m, facts):
            return [one]
        if ctx.integers.is_nonnegative(m - n, facts):
            return [other]
    return [one, other]


def _mixed(scope: Scope, summed: Mapping[Index, Range], body: Expr) -> list[Axes]:
    """The indices of each position in `body` that has a summed one and another."""
    found: dict[Axes, None] = {}
    for e in accesses(body):
        for a in places(e):
            at = a.substitute(scope.env)
            axes = tuple(i for i in (*scope.domain, *summed) if at.coefficient(i))
            if len(axes) > 1 and any(i in summed for i in axes):
                found[axes] = None
    return list(found)


def _cover(scope: Scope, summed: Mapping[Index, Range], body: Expr, outer_first: bool) -> frozenset[Index]:
    """A smallest set of indices without which no position mixes a summed index with another.

    It has as few of the outer indices as possible, or with `outer_first` of the summed ones.
    """
    mixed = _mixed(scope, summed, body)
    indices = list(dict.fromkeys(i for axes in mixed for i in axes))
    if len(indices) > _MOST:
        return frozenset(i for i in indices if i in summed)
    subsets = [frozenset(c) for size in range(len(indices) + 1) for c in combinations(indices, size)]

    def covers(chosen: frozenset[Index]) -> bool:
        left = [[i for i in axes if i not in chosen] for axes in mixed]
        return all(len(axes) <= 1 or not any(i in summed for i in axes) for axes in left)

    def order(chosen: frozenset[Index]) -> tuple[int, int]:
        return sum((i in summed) == outer_first for i in chosen), len(chosen)

    return min(filter(covers, subsets), key=order)


def _reparametrised(
    ctx: Context, scope: Scope, summed: dict[Index, Range], parts: tuple[Predicate, ...], body: Expr
) -> _Way | None:
    """The same sum over the positions at which an array is read, where a bracket keeps them within the array."""
    ranges, env, known = dict(summed), dict(scope.env), list(parts)
    for e in accesses(body):
        array, _ = ctx.held_by(e)
        for a, size in zip(places(e), array.shape, strict=True):
            at = a.substitute(env)
            mixes = sum(1 for i in (*scope.domain, *ranges) if at.coefficient(i)) > 1
            s = next((i for i in summed if i in ranges and abs(at.coefficient(i)) == 1), None)
            bounds = [NonNegative(at), NonNegative(size - 1 - at)]
            if s is None or not mixes or not all(q in known for q in bounds) or not ctx.integers.is_nonnegative(size):
                continue
            u, c = Index(s.name), at.coefficient(s)
            value = (atom_affine(u) - (at - atom_affine(s) * c)) * c
            r = ranges.pop(s)
            ranges[u] = Range(ZERO, size)
            env = _extended(env, s, value)
            inside = [at_most(r.start, value), at_most(value, r.last)]
            rest = conjunction([*inside, *(q for q in known if q not in bounds)])
            known = list(conjuncts(substitute(rest, {s: value})))
    if ranges.keys() == summed.keys():
        return None
    inner = ctx.scope(scope, env=env)
    loops = _cover(inner, ranges, body, outer_first=False)
    return _Way(inner, ranges, tuple(known), loops) if loops else None


def _extended(env: dict[Atom, Affine], s: Index, value: Affine) -> dict[Atom, Affine]:
    return {i: a.substitute({s: value}) for i, a in env.items()} | {s: value}


def _choice(ctx: Context, scope: Scope, ways: Sequence[_Way], body: Expr, contract: Contract) -> Deep[Value]:
    """The way with the shorter loop, chosen when the code is traced."""
    costs = [" * ".join(_factor(ctx, r) for r in way.ranges()) for way in ways]
    name, ctx.target = ctx.target or ctx.names.passing("t"), None
    blocks, values = [], []
    for way in ways:
        block = ctx.new_block()
        fixed = block if scope.fixed is scope.block else scope.fixed
        inside = replace(way, scope=ctx.scope(way.scope, block=block, fixed=fixed))
        values.append((yield _loop(ctx, inside, body, contract)))
        blocks.append(block)
    if all(v.number is not None for v in values):
        return values[0]
    axes = tuple(i for i in scope.domain if any(i in v.axes for v in values))
    for test, block, v in zip((f"if {costs[0]} <= {costs[1]}:", "else:"), blocks, values, strict=True):
        block.line(f"{name} = {expanded(ctx, scope, v, axes)}")
        scope.block.line(test)
        scope.block.parts.append(block)
    return Value(name, axes)


def expanded(ctx: Context, scope: Scope, v: Value, axes: Axes) -> str:
    """The code of `v` with all of `axes`."""
    w = aligned(v, axes)
    return w.code if len(v.axes) == len(axes) else f"jnp.broadcast_to({w.code}, {ctx.extents(scope, axes)})"


def _factor(ctx: Context, r: Range) -> str:
    code = ctx.integers.code(r.extent)
    return code if len(r.extent.terms) + bool(r.extent.constant) <= 1 else f"({code})"


def _loop(ctx: Context, way: _Way, body: Expr, contract: Contract) -> Deep[Value]:
    """A stack over those of the loops' indices that are the result's, inside of it a sum over the others."""
    scope, domain = way.scope, way.scope.domain
    stacked = tuple(i for i in domain if i in way.loops)
    here = stacked or tuple(i for i in way.summed if i in way.loops)
    ranges = {i: domain[i] if stacked else way.summed[i] for i in here}
    names = [ctx.loop_name(i) for i in here]
    block = ctx.new_block()
    inner = ctx.scope(
        scope,
        domain={i: r for i, r in domain.items() if i not in here},
        loops={**scope.loops, **ranges},
        block=block,
    )
    summed = {i: r for i, r in way.summed.items() if i not in here}
    v = yield contract(ctx, inner, summed, way.parts, body, way.loops - frozenset(here))
    if v.number == 0:
        return literal(v.number)
    term = _function(ctx, scope.block, block, names, v)
    over = f"[{', '.join(map(ctx.range_code, ranges.values()))}]"
    helper = ctx.helper("_stack_over" if stacked else "_sum_over")
    code = f"{helper}({over}, {term}, {ctx.extents(inner, v.axes)}, dtype)"
    return Value(code, stacked + v.axes, depth=2)


def _function(ctx: Context, outside: Block, inside: Block, names: Sequence[str], v: Value) -> str:
    """A function of the loop's indices that gives `v`: a lambda if it needs no lines of its own."""
    if not inside.parts:
        return f"lambda {', '.join(names)}: {v.code}"
    name = ctx.names.passing("term")
    inside.line(f"return {v.code}")
    outside.line(f"def {name}({', '.join(names)}):")
    outside.parts.append(inside)
    return name
