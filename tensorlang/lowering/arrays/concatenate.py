"""Sums of terms that are not at the same places: pieces next to each other instead of arrays of zeros added up.

    gen i:n + m. [i < n] * x[i] + [n <= i] * y[i - n]                       x, then y
    gen i:n + 2. [i = 0] * a + [1 <= i <= n] * x[i - 1] + [i = n + 1] * c   a, then x, then c
    gen i:2*n. (sum j:n. [i = 2*j] * x[j]) + sum j:n. [i = 2*j + 1] * y[j]  x and y in turns
    gen i:n. [i = 3] * a                                                    zeros, then a, then zeros

Terms at the same places are added up first. At some sizes two pieces may overlap after all, as [i = 0] and [i = n - 1]
do if n is 1: that is found out when the code is traced, and then they are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant
from tensorlang.language.grammar import Add, Bracket, Expr, Mul, Sum, bracket, number, sums
from tensorlang.language.predicates import (
    Equal,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    substitute,
)
from tensorlang.lowering.arrays.brackets import bounded_index, solved
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import ZERO, Range, StaticIntegers
from tensorlang.lowering.arrays.ir import List, Node, Tuple
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import whole
from tensorlang.lowering.arrays.values import Axes, Value, apply, integer
from tensorlang.recursion import Deep, call

_MOST = 64
"""The most terms of a sum that is tried: code of many pieces takes long to compile."""


@dataclass(frozen=True)
class _Term:
    """sign * sum s... [p] * body: what is summed over, the conjuncts of p, with the scope's `env` applied, and body."""

    sign: int
    summed: tuple[tuple[Index, Affine], ...]
    parts: tuple[Predicate, ...]
    body: Expr

    def expr(self, parts: Sequence[Predicate]) -> Expr:
        """The term without its sign, with these conjuncts instead of its own."""
        return sums(list(self.summed), bracket(conjunction(parts), self.body))


def assembled(ctx: Context, scope: Scope, e: Add, whole: frozenset[Expr]) -> Deep[Value | None]:
    """The array of `e` as an assembly of pieces; None if its terms do not fit together.

    The expressions `whole` are not taken apart.
    """
    terms = _terms(scope, e, whole)
    for i, r in scope.domain.items():
        v: Value | None = yield from call(_side_by_side(ctx, scope, i, r, terms))
        if v is None:
            v = yield from call(_in_turns(ctx, scope, i, r, terms))
        if v is not None:
            return v
    return None


def alone(ctx: Context, scope: Scope, e: Expr) -> Deep[Value | None]:
    """The array of `e` as one piece among zeros, if it is at one place of its first axis; None if it is not.

    This writes the array in one go, but is not fused with its readers: it is for arrays that are stored.
    """
    if not isinstance(e, Bracket):
        return None
    term = _term(scope, 1, e)
    for i, r in list(scope.domain.items())[:1]:
        if any(_value_of(i, q) is not None for q in term.parts):
            return (yield from call(_side_by_side(ctx, scope, i, r, [term], least=1)))
    return None


def _terms(scope: Scope, e: Add, whole: frozenset[Expr]) -> list[_Term]:
    """The terms of `e`; none if there are too many, or one that is everywhere."""
    found: list[tuple[int, Expr]] = []
    stack: list[tuple[int, Expr]] = [(1, e)]
    while stack:
        sign, part = stack.pop()
        if isinstance(part, Add) and (part is e or part not in whole):
            stack += [(sign * part.sign, part.right), (sign, part.left)]
        else:
            found.append((sign, part))
        if len(found) + len(stack) > _MOST or not isinstance(part, Add | Bracket | Sum):
            return []
    return [_term(scope, sign, part) for sign, part in found]


def _term(scope: Scope, sign: int, e: Expr) -> _Term:
    summed: list[tuple[Index, Affine]] = []
    parts: list[Predicate] = []
    while isinstance(e, Bracket | Sum):
        if isinstance(e, Bracket):
            parts += conjuncts(substitute(e.pred, scope.env))
        else:
            summed.append((e.index, e.size))
        e = e.body
    return _Term(sign, tuple(summed), tuple(parts), e)


def _total(terms: Sequence[tuple[int, Expr]]) -> Expr:
    (sign, e), *others = sorted(terms, key=lambda term: -term[0])
    result = e if sign > 0 else Mul(number(-1), e)
    for sign, e in others:
        result = Add(result, e, sign)
    return result


# pieces one after the other


@dataclass(frozen=True)
class _Piece:
    """Terms that are zero except at start <= i < stop."""

    start: Affine
    stop: Affine
    terms: tuple[tuple[int, Expr], ...]


def _side_by_side(
    ctx: Context, scope: Scope, i: Index, r: Range, terms: Sequence[_Term], least: int = 2
) -> Deep[Value | None]:
    """The terms as pieces along axis `i`; None if there are fewer than `least`."""
    pieces: list[_Piece] = []
    for term in terms:
        piece = _piece(scope, i, r, term)
        if piece is None or not _is_placed(ctx.integers, pieces, piece):
            return None
    if len(pieces) < least:
        return None
    ranges, scopes, values = [], [], []
    for piece in pieces:
        own = ctx.integers.restricted(i, r, [piece.start], [piece.stop], scope.fixed)
        scopes.append(ctx.scope(scope, domain={**scope.domain, i: own}, env=_env(ctx.integers, scope, i, r, piece)))
        values.append((yield from call(ctx.value(_total(piece.terms), scopes[-1]))))
        ranges.append(own)
    if all(v.number == 0 for v in values):
        return values[0]
    axes = _axes(scope, i, values)
    nodes = [_whole(ctx, inner, v, axes) for inner, v in zip(scopes, values, strict=True)]
    axis = axes.index(i)
    ends = [r.start, *(own.stop for own in ranges)]
    if ends[-1] is r.stop and all(own.start is end for own, end in zip(ranges, ends, strict=False)):
        node = apply("concatenate", List(tuple(nodes)), *([integer(axis)] if axis else []))
    else:
        starts = [ctx.integers.node(own.start - r.start) for own in ranges]
        given = [Tuple((start, node)) for start, node in zip(starts, nodes, strict=True)]
        node = apply("_side_by_side", integer(axis), ctx.integers.node(r.extent), *given)
    return Value(node, axes, 1 + max(v.depth for v in values))


def _env(integers: StaticIntegers, scope: Scope, i: Index, r: Range, piece: _Piece) -> dict[Atom, Affine]:
    """The values of atoms in a piece: also of `i`, if it has a single value there that is in range at all sizes."""
    at = piece.start
    if piece.stop - at != constant(1) or not all(map(integers.is_nonnegative, (at - r.start, r.last - at))):
        return dict(scope.env)
    return {k: a.substitute({i: at}) for k, a in scope.env.items()} | {i: at}


def _piece(scope: Scope, i: Index, r: Range, term: _Term) -> _Piece | None:
    """The term as a piece along axis `i`, if its bracket bounds that index by sizes."""
    starts: list[Affine] = []
    stops: list[Affine] = []
    rest: list[Predicate] = []
    for q in term.parts:
        value = _value_of(i, q)
        if value is not None:
            starts.append(value)
            stops.append(value + 1)
            continue
        bound = bounded_index(scope, scope.domain, q) if isinstance(q, NonNegative) else None
        c = bound[1].coefficient(i) if bound is not None and not _summed(term, bound[1]) else 0
        if bound is None or abs(c) != 1:
            rest.append(q)
        elif c > 0:
            starts.append(atom_affine(i) - bound[1])
        else:
            stops.append(bound[1] + atom_affine(i) + 1)
    if len(starts) > 1 or len(stops) > 1 or not (starts or stops):
        return None
    start, stop = (starts or [r.start])[0], (stops or [r.stop])[0]
    return _Piece(start, stop, ((term.sign, term.expr(rest)),))


def _summed(term: _Term, a: Affine) -> bool:
    return any(s in a.free for s, _ in term.summed)


def _value_of(i: Index, q: Predicate) -> Affine | None:
    """The value of `i` that `q` determines, if it is static and without another axis."""
    if not isinstance(q, Equal) or abs(q.difference.coefficient(i)) != 1:
        return None
    value = solved(q.difference, i)
    return value if all(isinstance(atom, Size) for atom in value.atoms) else None


def _is_placed(integers: StaticIntegers, pieces: list[_Piece], new: _Piece) -> bool:
    """Put `new` among the ordered `pieces`, and say whether that is possible: where one of them is, or between two."""
    for k, piece in enumerate(pieces):
        if piece.start is new.start and piece.stop is new.stop:
            pieces[k] = _Piece(piece.start, piece.stop, piece.terms + new.terms)
            return True
        if not _is_before(integers, piece, new):
            if not _is_before(integers, new, piece):
                return False
            pieces.insert(k, new)
            return True
    pieces.append(new)
    return True


def _is_before(integers: StaticIntegers, a: _Piece, b: _Piece) -> bool:
    """Whether `a` ends before `b` starts, at least if no size is small."""
    gap = b.start - a.stop
    larger: dict[Atom, Affine] = {s: atom_affine(s) + 2 for s in gap.sizes}
    return integers.is_nonnegative(gap) or integers.is_nonnegative(gap.substitute(larger))


# pieces in turns


def _in_turns(ctx: Context, scope: Scope, i: Index, r: Range, terms: Sequence[_Term]) -> Deep[Value | None]:
    """The terms, each of which is zero except at every c-th element of axis `i`, as c arrays in turns."""
    found = [_strided(scope, i, r, term) for term in terms]
    strides = [each for each in found if each is not None]
    steps = {each.step for each in strides}
    phases = {each.phase for each in strides}
    if len(strides) < len(terms) or len(steps) != 1 or len(phases) < 2:
        return None
    (step,) = steps
    if 2 * len(phases) < step:
        return None
    t = Index(i.name)
    count = _quotient_up(ctx, r.extent, step, scope)
    domain = {(t if j is i else j): (Range(ZERO, count) if j is i else other) for j, other in scope.domain.items()}
    scopes, values = [], []
    for phase in range(step):
        at: dict[Atom, Affine] = {i: atom_affine(t) * step + r.start + phase}
        inner = ctx.scope(scope, domain=domain, env={k: a.substitute(at) for k, a in scope.env.items()} | at)
        own = [(each.term.sign, each.moved(t, at)) for each in strides if each.phase == phase]
        scopes.append(inner)
        values.append((yield from call(ctx.value(_total(own) if own else number(0), inner))))
    if all(v.number == 0 for v in values):
        return values[0]
    axes = _axes(scopes[0], t, values)
    nodes = [_whole(ctx, inner, v, axes) for inner, v in zip(scopes, values, strict=True)]
    node = apply("_in_turns", integer(axes.index(t)), ctx.integers.node(r.extent), *nodes)
    outer = tuple(i if j is t else j for j in axes)
    return Value(node, outer, 1 + max(v.depth for v in values))


def _quotient_up(ctx: Context, a: Affine, divisor: int, scope: Scope) -> Affine:
    """ceil(a / divisor)."""
    if all(k % divisor == 0 for _, k in a.terms):
        return Affine(tuple((atom, k // divisor) for atom, k in a.terms), -(-a.constant // divisor))
    return ctx.integers.quotient(a + divisor - 1, divisor, "count", scope.fixed)


@dataclass(frozen=True)
class _Stride:
    """A term whose conjunct `q` says that i = start + phase + step * place."""

    term: _Term
    q: Predicate
    step: int
    phase: int
    place: Affine

    def moved(self, t: Index, at: Mapping[Atom, Affine]) -> Expr:
        """The term without its sign, where i = start + phase + step * t."""
        parts = [substitute(p, at) for p in self.term.parts if p is not self.q]
        return self.term.expr([equal(atom_affine(t), self.place), *parts])


def _strided(scope: Scope, i: Index, r: Range, term: _Term) -> _Stride | None:
    for q in term.parts:
        if not isinstance(q, Equal) or abs(q.difference.coefficient(i)) != 1 or q.difference.lookups:
            continue
        value = solved(q.difference, i) - r.start
        inside = [s for s, _ in term.summed if value.coefficient(s)]
        if len(inside) != 1 or scope.axes(value) or not scope.is_static(value):
            continue
        step = abs(value.coefficient(inside[0]))
        if step > 1 and all(k % step == 0 for _, k in value.terms):
            place = Affine(tuple((atom, k // step) for atom, k in value.terms), value.constant // step)
            return _Stride(term, q, step, value.constant % step, place)
    return None


# their arrays


def _axes(scope: Scope, i: Index, values: Sequence[Value]) -> Axes:
    """The axes of the assembly along axis `i`."""
    return tuple(j for j in scope.domain if j is i or any(j in v.axes for v in values))


def _whole(ctx: Context, scope: Scope, v: Value, axes: Axes) -> Node:
    """`v` as an array of the computation's dtype with all of `axes`."""
    return whole(ctx, scope, ctx.short(v, scope.block), axes)
