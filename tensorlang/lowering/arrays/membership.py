"""Whether data have a point: `exists` over index arrays and relations, as a table that is made once and then read.

    exists k:e. a[k] = i and q(k)    =    table[i]        where table = gen u:n. exists k:e. a[k] = u and q(k)

What the predicate reads at places without bound indices becomes an axis of the table. So no array has an axis for the
points that ask and another for the points that answer. Where a table would have more axes than the points that ask, as
for exists k:e. a[k] = y[i] and k < i, the answers are counted by a sum, for each point that asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, canonical, total
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
    disjunction,
    free_atoms,
    relations,
    substitute,
)
from tensorlang.lowering.arrays.accesses import access, positions
from tensorlang.lowering.arrays.context import Context, Held
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Infix, Name, Node
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.sums.loop import expanded
from tensorlang.lowering.arrays.values import Value, apply, integer
from tensorlang.recursion import Deep, call
from tensorlang.sets.isl import unanswered

_FEW = 8
"""Up to this many points are tested one by one, in loops, too."""


def without_implied(parts: Sequence[Predicate], ranges: Mapping[Index, Range]) -> tuple[Predicate, ...]:
    """`parts` without conditions on data that the others imply: [exists k. p] * sum k. [p] * e = sum k. [p] * e."""
    inside = [q for i, r in ranges.items() for q in (at_most(r.start, atom_affine(i)), at_most(atom_affine(i), r.last))]
    return unanswered(parts, conjunction(inside))


def tabled(ctx: Context, scope: Scope, p: Exists) -> Deep[Value | None]:
    """Where `p` holds, read from a table; None if a place in it mixes bound indices with others, or if the table would
    have more axes than the points that ask."""
    binders, body = _outermost(p)
    keys = _Keys(frozenset(binders))
    abstract = keys.predicate(_by_own_data(body, binders))
    if abstract is None:
        return None
    asking = {i for a in keys.axes for i in a.substitute(scope.env).free if not isinstance(i, Size)}
    few = all(n.is_constant and n.constant <= _FEW for n in binders.values())
    if len(keys.axes) > len(asking) and (few or asking <= scope.domain.keys()) and not relations(p):
        return None
    bounds = {u: scope.bounds(a.substitute(scope.env)) for a, u in keys.axes.items()}
    domain = {u: ctx.integers.between(low, high, scope.fixed) for u, (low, high) in bounds.items()}
    table: Held = yield from call(_table(ctx, scope, domain, binders, abstract))
    return access(ctx, scope, table, tuple(a - bounds[u][0] for a, u in keys.axes.items()))


def _table(
    ctx: Context, scope: Scope, domain: Mapping[Index, Range], binders: Mapping[Index, Affine], p: Predicate
) -> Deep[Held]:
    """For each point of `domain`, whether there are values of `binders` where `p` holds; made outside of loops."""
    inner = ctx.scope(scope, domain=domain, loops={}, env={}, masks=(), block=scope.fixed)
    memo = ("table", p, tuple(binders.items()))
    if memo not in inner.memo:
        covered = _covered(ctx, inner, binders, p)
        if covered is None:
            v: Value = yield from call(ctx.value(sums([*binders.items()], Bracket(p, number(1))), inner))
            v = Value(Infix(expanded(ctx, inner, v, inner.order), ">", integer(0)), inner.order)
        else:
            v = Value(covered, inner.order)
        inner.memo[memo] = ctx.temporary(v, scope.fixed, "some")
    made = inner.memo[memo].node
    assert isinstance(made, Name)
    return Held(made.name, tuple(r.extent for r in domain.values()))


def _covered(ctx: Context, inner: Scope, binders: Mapping[Index, Affine], p: Predicate) -> Node | None:
    """exists k. a(k) <= u <= b(k) for the points u of an axis: which are in such intervals. None for other `p`."""
    parts = conjuncts(p)
    if len(inner.domain) != 1 or len(binders) != 1 or not all(isinstance(q, NonNegative) for q in parts):
        return None
    ((u, r),), ((k, size),) = inner.domain.items(), binders.items()
    values = [q.value for q in parts if isinstance(q, NonNegative)]
    values.sort(key=lambda a: -a.coefficient(u))
    if [a.coefficient(u) for a in values] != [1, -1] or any(
        u in atom_affine(x).free for a in values for x in a.lookups
    ):
        return None
    over = ctx.scope(inner, domain={k: ctx.integers.range_of(k, size, inner.fixed)})
    lower, upper = (a - atom_affine(u) * a.coefficient(u) for a in values)
    starts, stops = (positions(ctx, over, a - r.start, (k,)) for a in (-lower, upper))
    return apply("_in_intervals", starts, stops, ctx.integers.node(r.extent))


def _by_own_data(p: Predicate, binders: Mapping[Index, Affine]) -> Predicate:
    """`p`, with the values that it asks about replaced by data that they equal: exists k. a[k] = i and y[i] = b[k] only
    asks about i, since y[i] is y[a[k]]."""
    parts = list(conjuncts(p))
    for own in range(len(parts)):
        q = parts[own]
        if not isinstance(q, Equal):
            continue
        terms = [(x, k) for x, k in q.difference.terms if not isinstance(x, Size)]
        asked = [(x, k) for x, k in terms if frozenset(binders).isdisjoint(atom_affine(x).free)]
        if not 0 < len(asked) < len(terms):
            continue
        for x, k in asked:
            if abs(k) != 1 or (len(asked) > 1 and not isinstance(x, Lookup)):
                continue
            values: dict[Atom, Affine] = {x: atom_affine(x) - q.difference * k}
            made = [other if at == own else substitute(other, values) for at, other in enumerate(parts)]
            changed = [new for new, old in zip(made, parts, strict=True) if new is not old]
            if len(asked) == 1 or all(_asks_itself(new, binders) for new in changed):
                parts = made
                break
    return conjunction(parts)


def _asks_itself(p: Predicate, binders: Mapping[Index, Affine]) -> bool:
    """Whether all indices of `p` are bound."""
    return all(i in binders for i in free_atoms(p) if isinstance(i, Index))


def _outermost(p: Exists) -> tuple[dict[Index, Affine], Predicate]:
    """The indices that `p` and inner quantifiers over the same points of data bind; and the predicate under these.

    An inner quantifier about some of these indices alone, as in exists k. a[k] = i and exists l. E(k, l), has a table
    of its own; one that involves indices from outside, too, has none: exists l. b[l] = i and c[l] = a[k].
    """
    binders = {p.index: p.size}
    parts = list(conjuncts(p.body))
    while (q := next((q for q in parts if isinstance(q, Exists) and _is_joint(q, binders)), None)) is not None:
        parts.remove(q)
        binders[q.index] = q.size
        parts += conjuncts(q.body)
    return binders, conjunction(parts)


def _is_joint(q: Exists, binders: Mapping[Index, Affine]) -> bool:
    """Whether `q` asks about some of `binders` and others."""
    asked = [i for i in free_atoms(q) if isinstance(i, Index)]
    return q.index not in binders and any(i in binders for i in asked) and not all(i in binders for i in asked)


@cache
def _place(k: int) -> Index:
    return canonical(f"u{k}")


@dataclass
class _Keys:
    """Predicates over bound indices and axes of a table; each axis stands for an expression without bound indices."""

    bound: frozenset[Index]
    axes: dict[Affine, Index] = field(default_factory=dict)

    def predicate(self, p: Predicate) -> Predicate | None:
        """`p` over bound indices and axes; None if one place mixes bound indices and others."""
        match p:
            case Equal(a) | NonNegative(a):
                value = self._affine(a)
                return None if value is None else Equal(value) if isinstance(p, Equal) else NonNegative(value)
            case Related(relation, arguments):
                at = self._places(arguments)
                return None if at is None else Related(relation, at)
            case And(parts) | Or(parts):
                new = [q for q in map(self.predicate, parts) if q is not None]
                whole = conjunction(new) if isinstance(p, And) else disjunction(new)
                return whole if len(new) == len(parts) else None
            case Exists(index, size, body):
                inner = _Keys(self.bound | {index}, self.axes).predicate(body)
                return None if inner is None else Exists(index, size, inner)

    def _affine(self, a: Affine) -> Affine | None:
        """`a` with an axis for the part that does not depend on bound indices."""
        inside: Affine = ZERO
        for atom, k in a.terms:
            if not self._is_bound(atom):
                continue
            if isinstance(atom, Lookup):
                at = self._places(atom.at)
                if at is None:
                    return None
                inside += atom_affine(Lookup(atom.array, at)) * k
            else:
                inside += atom_affine(atom) * k
        outside = total((atom_affine(atom), k) for atom, k in a.terms if not self._is_bound(atom))
        return inside + self._key(outside + a.constant)

    def _places(self, at: Sequence[Affine]) -> tuple[Affine, ...] | None:
        """Places each of which depends on bound indices alone, or not at all; None if one depends on others, too."""
        new = []
        for a in at:
            free = [i for i in a.free if isinstance(i, Index)]
            if any(i in self.bound for i in free):
                if not all(i in self.bound for i in free):
                    return None
                new.append(a)
            else:
                new.append(self._key(a))
        return tuple(new)

    def _is_bound(self, atom: Atom) -> bool:
        return not self.bound.isdisjoint(atom_affine(atom).free)

    def _key(self, a: Affine) -> Affine:
        """`a` with an axis in place of the part that depends on indices; what does not is one number."""
        moving = [(atom, k) for atom, k in a.terms if any(isinstance(i, Index) for i in atom_affine(atom).free)]
        if not moving:
            return a
        sign = 1 if moving[0][1] > 0 else -1
        part = total((atom_affine(atom), k * sign) for atom, k in moving)
        return a - part * sign + atom_affine(self.axes.setdefault(part, _place(len(self.axes)))) * sign
