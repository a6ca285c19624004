"""The conditions without which a statement is zero anyway, so that its readers need not check them.

t = gen i:n. sum j:k. x[i, j] * y[j]                zero unless 0 < k
u = gen i:n. ([0 < k] - [0 < k] * z[i]) * t[i]      = gen i:n. (1 - z[i]) * t[i], and zero unless 0 < k
p = gen i:n, j:8. [7 <= i + j] * exp(s[i, j])       zero unless 7 <= i + j
v = gen i:n. sum j:8. [7 <= i + j] * p[i, j]        = gen i:n. sum j:8. p[i, j]

Such conditions are comparisons of sizes, and comparisons that hide a corner of an array: a mask there, or blocks that
leave the corner out, would cost more than computing it. Conditions that hide a share of an array stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Choice,
    Expr,
    Extremum,
    Gen,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    bracket,
    children,
)
from tensorlang.language.predicates import (
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
    substitute,
)
from tensorlang.language.rebuilt import with_children
from tensorlang.lowering.plan.dependence import is_finite, places
from tensorlang.normal.pattern import axes
from tensorlang.recursion import Deep, call

Conditions = frozenset[Predicate]
_NONE: Conditions = frozenset()
_FEW = 8
"""A corner is in at most an eighth of the rows."""


def is_static(q: Predicate) -> bool:
    """Whether `q` is a comparison of sizes alone."""
    return isinstance(q, NonNegative) and all(isinstance(atom, Size) for atom in q.value.atoms)


def of_elements(conditions: Conditions, own: Sequence[Index]) -> Conditions:
    """`conditions` on the indices `own` of an array, renamed to indices of its axes."""
    return _renamed(conditions, dict(zip(own, map(atom_affine, axes(0, len(own))), strict=True)))


def at_places(conditions: Conditions, rank: int, at: Sequence[Affine]) -> Conditions:
    """`conditions` on the axes of an array of this rank where it is read `at` these places, the outermost first;
    without those on axes beyond."""
    own = axes(0, rank)
    inside = (q for q in conditions if free_atoms(q).isdisjoint(own[len(at) :]))
    return _renamed(inside, dict(zip(own, at, strict=False)))


def _renamed(conditions: Iterable[Predicate], values: Mapping[Atom, Affine]) -> Conditions:
    return frozenset(part for q in conditions for part in conjuncts(substitute(q, values)))


@dataclass
class Required:
    """Conditions without which expressions are zero. `read` gives those of a variable or its elements; `ranges` has the
    sizes of indices bound outside."""

    read: Callable[[Expr], Conditions]
    ranges: dict[Index, Affine] = field(default_factory=dict)
    found: dict[Expr, Conditions] = field(default_factory=dict)
    new: dict[tuple[Expr, Conditions], Expr] = field(default_factory=dict)

    def of(self, e: Expr) -> Deep[Conditions]:
        """The conditions of `e`, provided that what it reads is finite."""
        if e not in self.found:
            self.found[e] = yield from call(self._of(e))
        return self.found[e]

    def _of(self, e: Expr) -> Deep[Conditions]:
        inner = _NONE
        match e:
            case Var() | Access() | Proj():
                return self.read(e)
            case Gen(i, size, a) | Sum(i, size, a):
                self.ranges[i] = size
                inner = frozenset(q for q in (yield from call(self.of(a))) if i not in free_atoms(q))
                if isinstance(e, Sum):
                    inner |= self._guards(at_most(constant(1), size))
            case Bracket(p, a):
                inner = yield from call(self.of(a))
                inner |= self._guards(p)
            case Mul(a, b):
                left = yield from call(self.of(a))
                inner = left | (yield from call(self.of(b)))
            case Add(a, b):
                left = yield from call(self.of(a))
                inner = left & (yield from call(self.of(b)))
            case _:
                pass
        return inner

    def _guards(self, p: Predicate) -> Conditions:
        """The comparisons in `p` of sizes alone, and those that hide a corner."""
        return frozenset(q for q in conjuncts(p) if is_static(q) or _hides_corner(q, self.ranges))

    def drop_implied_guards(self, e: Expr, known: Conditions = _NONE) -> Deep[Expr]:
        """`e` without guards that hide nothing but zeros: their body is zero unless they hold, or `e` is multiplied by
        something that is zero unless all of `known` hold."""
        key = (e, known)
        if key not in self.new:
            self.new[key] = yield from call(self._unguarded(e, known))
        return self.new[key]

    def _unguarded(self, e: Expr, known: Conditions) -> Deep[Expr]:
        match e:
            case Bracket(p, a):
                needless = self._guards(p)
                needless = needless & (known | (yield from call(self.of(a)))) if needless and is_finite(a) else _NONE
                needless = frozenset(q for q in needless if is_static(q) or not _keeps_inside(q, a))
                p = conjunction(q for q in conjuncts(p) if q not in needless)
                inner = yield from call(self.drop_implied_guards(a, known | self._guards(p)))
                return bracket(p, inner)
            case Mul(a, b):
                left = yield from call(self.drop_implied_guards(a, known | (yield from call(self.of(b)))))
                # a guard that was dropped because the other factor has it must stay in that
                right = yield from call(self.drop_implied_guards(b, known | (yield from call(self.of(left)))))
                return Mul(left, right)
            case Var() | Access() | Proj():
                return e
            case _:
                below = known if isinstance(e, Add | Sum | Gen | MakePair) else _NONE
                if isinstance(e, Sum | Gen):
                    self.ranges[e.index] = e.size
                    below = frozenset(q for q in below if e.index not in free_atoms(q))
                parts = []
                for part in children(e):
                    parts.append((yield from call(self.drop_implied_guards(part, below))))
                return with_children(e, parts)

    def guarded(self, e: Expr, known: Conditions = _NONE) -> Deep[Expr]:
        """`e` with guards on sizes around products that are zero unless they hold, without those that are `known`:
        where one factor is an empty sum, the others may be anything.

        x[i] * sum j:k. y[j]  ->  [0 < k] * x[i] * sum j:k. y[j]
        """
        key = (e, known)
        if key not in self.new:
            self.new[key] = yield from call(self._guarded(e, known))
        return self.new[key]

    def _guarded(self, e: Expr, known: Conditions) -> Deep[Expr]:
        needs = _NONE
        match e:
            case Var() | Access() | Proj():
                return e
            case Mul():
                needs = frozenset(filter(is_static, (yield from call(self.of(e))))) - known
                known |= needs
            case Bracket(p, _):
                known |= _static(p)
            case Gen(_, size, _) | Sum(_, size, _):
                known |= _static(at_most(constant(1), size))
            case _:
                pass
        parts = []
        for part in children(e):
            parts.append((yield from call(self.guarded(part, known))))
        return bracket(conjunction(sorted(needs, key=str)), with_children(e, parts))


def _static(p: Predicate) -> Conditions:
    """The comparisons of sizes alone in `p`."""
    return frozenset(q for q in conjuncts(p) if is_static(q))


def _hides_corner(q: Predicate, ranges: Mapping[Index, Affine]) -> bool:
    """Whether `q` compares several indices, at most one of them with a range of symbolic size, and fails for a fixed
    number of its values only; or, if all ranges are numbers, for a small share of the longest."""
    if not isinstance(q, NonNegative) or len(q.value.indices) < 2 or not ranges.keys() >= set(q.value.indices):
        return False
    unknown = [i for i in q.value.indices if not ranges[i].is_constant]
    if q.value.lookups or len(unknown) > 1:
        return False
    least: dict[Atom, Affine] = {
        i: constant(0) if q.value.coefficient(i) > 0 else ranges[i] - 1 for i in q.value.indices
    }
    worst = q.value.substitute(least)
    if unknown or not worst.is_constant:
        return worst.is_constant
    longest = max(q.value.indices, key=lambda i: ranges[i].constant)
    return -worst.constant * _FEW <= abs(q.value.coefficient(longest)) * ranges[longest].constant


def _keeps_inside(q: Predicate, e: Expr) -> bool:
    """Whether `q` may be what keeps reads in `e` within bounds, or an extremum in `e` from being empty."""
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Extremum | Choice):
            return True
        if isinstance(part, Access) and not all(
            a in map(atom_affine, a.indices) or free_atoms(q).isdisjoint(a.free) for a in places(part)
        ):
            return True
        fresh = [child for child in children(part) if child not in seen]
        seen.update(fresh)
        stack += fresh
    return False
