"""Predicates as boolean arrays."""

from __future__ import annotations

from functools import reduce

from tensorlang.language.affine import Affine, Index
from tensorlang.language.grammar import Bracket, number, sums
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    lookups,
    relations,
    substitute,
)
from tensorlang.lowering.arrays.accesses import access, holds, positions
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO
from tensorlang.lowering.arrays.ir import Infix, Name
from tensorlang.lowering.arrays.membership import tabled
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.undecided import has_elements, undecided_conditions
from tensorlang.lowering.arrays.values import TRUE, Axes, Value, aligned, integer, some, union
from tensorlang.recursion import Deep, call, run


def mask(ctx: Context, scope: Scope, p: Predicate) -> Value:
    """Where `p` holds, as a boolean array with the axes on which `p` depends."""
    return run(_mask(ctx, scope, p))


def mask_over(ctx: Context, scope: Scope, p: Predicate, axes: Axes) -> Value:
    """Where in `axes` there is a point at which `p` holds, whatever its further axes are."""
    m = mask(ctx, scope, _without_looked_up(ctx, scope, p, axes))
    further = tuple(i for i in m.axes if i not in axes)
    return some(m, further) if further else m


def _without_looked_up(ctx: Context, scope: Scope, p: Predicate, axes: Axes) -> Predicate:
    """`p` without the axes, other than `axes`, that elements of index arrays determine."""
    parts = undecided_conditions(ctx, scope, conjuncts(substitute(p, scope.env)))
    for q in parts:
        if isinstance(q, Equal) and q.difference.lookups:
            for i, r in scope.domain.items():
                value = (q.difference - _of(i) * q.difference.coefficient(i)) * -q.difference.coefficient(i)
                if i not in axes and abs(q.difference.coefficient(i)) == 1 and i not in value.free:
                    others = (substitute(part, {i: value}) for part in parts if part is not q)
                    inside = (at_most(r.start, value), at_most(value, r.last))
                    return _without_looked_up(ctx, scope, conjunction([*inside, *others]), axes)
    return conjunction(parts)


def _mask(ctx: Context, scope: Scope, p: Predicate) -> Deep[Value]:
    key = ("mask", p)
    if key in scope.memo:
        return scope.memo[key]
    match p:
        case Equal(a) | NonNegative(a):
            a = a.substitute(scope.env)
            there = [_compared(ctx, scope, q.value, ">=") for q in has_elements(ctx, scope, a.lookups)]
            v = _joined([_compared(ctx, scope, a, "==" if isinstance(p, Equal) else ">="), *there], True, scope.order)
        case Related(relation, arguments):
            if relation in ctx.sparse:
                v = holds(ctx, scope, ctx.sparse[relation], arguments)
            else:
                v = access(ctx, scope, ctx.held[relation, ()], arguments)
        case And(parts) | Or(parts):
            values = []
            for part in parts:
                values.append((yield from call(_mask(ctx, scope, part))))
            v = _joined(values, isinstance(p, And), scope.order)
        case Exists():
            v = yield from call(_exists(ctx, scope, p))
    short = scope.memo[key] = ctx.short(v, scope.block)
    return short


def _compared(ctx: Context, scope: Scope, a: Affine, operator: str) -> Value:
    """a = 0 or a >= 0, with the negative terms on the other side."""
    if not a.terms and (a.constant == 0 or (operator == ">=" and a.constant > 0)):
        return Value(TRUE, ())
    axes = scope.axes(a)
    c = a.constant
    left = Affine(tuple((atom, k) for atom, k in a.terms if k > 0), 0)
    right = -Affine(tuple((atom, k) for atom, k in a.terms if k < 0), 0)
    if operator == ">=" and c == -1:
        operator = ">"
    elif operator == ">=" and c >= 0 and right.terms:
        left, right, operator = right, left + c, "<="
    else:
        right -= c
    return Value(Infix(positions(ctx, scope, left, axes), operator, positions(ctx, scope, right, axes)), axes, 2)


def _joined(values: list[Value], every: bool, order: Axes) -> Value:
    neutral = Name(str(every))
    values = [v for v in values if v.node != neutral]
    if len(values) <= 1:
        return values[0] if values else Value(neutral)
    axes = union(values, order)
    parts = [aligned(v, axes) for v in values]
    node = reduce(lambda left, right: Infix(left, "&" if every else "|", right), (v.node for v in parts))
    return Value(node, axes, 1 + max(v.depth for v in parts))


def _exists(ctx: Context, scope: Scope, p: Exists) -> Deep[Value]:
    """An equality that determines the bound index eliminates it; else some point of its axis must satisfy the rest."""
    v: Value
    index, size = p.index, p.size
    parts = (NonNegative(_of(index)), NonNegative(size - 1 - _of(index)), *conjuncts(p.body))
    for part in parts:
        if not isinstance(part, Equal) or not part.difference.coefficient(index):
            continue
        c = part.difference.coefficient(index)
        rest = (part.difference - _of(index) * c) * (-1 if c > 0 else 1)  # |c| * index = rest
        if index in rest.free:  # within a lookup
            continue
        others = [q for q in parts if q is not part]
        if abs(c) == 1:
            found = conjuncts(conjunction(substitute(q, {index: rest}) for q in others))
            v = yield from call(_mask(ctx, scope, conjunction(undecided_conditions(ctx, scope, found))))
            return v
        scaled = [_scaled(q, index, rest, abs(c)) for q in others]
        if all(q is not None for q in scaled):
            v = yield from call(_mask(ctx, scope, conjunction(q for q in scaled if q is not None)))
            at = rest.substitute(scope.env)
            axes = scope.axes(at)
            rest_of = Infix(positions(ctx, scope, at, axes), "%", integer(abs(c)))
            divides = Value(Infix(rest_of, "==", integer(0)), axes, 2)
            return _joined([v, divides], True, scope.order)
    asks = [q for q in conjuncts(p.body) if isinstance(q, Exists) and index in free_atoms(q) and lookups(q)]
    given = ctx.sparse.keys() & relations(p.body) or [x for x in lookups(p.body) if any(index in a.free for a in x.at)]
    if given or asks:
        table: Value | None = yield from call(tabled(ctx, scope, p))
        if table is not None:
            return table
        # counted, by a sum over points that data give
        bound, body = [(index, size)], p.body
        while isinstance(body, Exists):
            bound.append((body.index, body.size))
            body = body.body
        count = yield from call(ctx.value(sums(bound, Bracket(body, number(1))), scope))
        return Value(Infix(count.node, ">", integer(0)), count.axes, count.depth + 1)
    r = ctx.integers.range_of(index, size, scope.fixed)
    inner = ctx.scope(scope, domain={**scope.domain, index: r})
    v = yield from call(_mask(ctx, inner, p.body))
    if index not in v.axes:
        return _joined([Value(Infix(ctx.integers.node(r.extent), ">", integer(0)), (), 1), v], True, scope.order)
    return some(v, (index,))


def _scaled(p: Predicate, index: Index, rest: Affine, c: int) -> Predicate | None:
    """`p` where c * index = rest, without division; None if it depends on the index otherwise than in a comparison."""
    if any(index in a.free for lookup in lookups(p) for a in lookup.at):
        return None
    match p:
        case Equal(a):
            k = a.coefficient(index)
            return equal((a - _of(index) * k) * c + rest * k, ZERO) if k else p
        case NonNegative(a):
            k = a.coefficient(index)
            return at_most(ZERO, (a - _of(index) * k) * c + rest * k) if k else p
        case _:
            return None


def _of(index: Index) -> Affine:
    return Affine(((index, 1),), 0)
