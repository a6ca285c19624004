"""Quotients by constants: read from arrays that the generated code makes.

0 <= a - c*q < c says that q is floor(a/c). So a sum over q, or a choice of q, has one term, and an existential is
solved:

    gen i. max j. sum q. [0 <= i + 2*j - 2*q < 2] * x[q]     ->    gen i. max j. sum q. [q = j + h[i]] * x[q]
    sum j. [exists q. 0 <= i - 4*q < 4 and 0 <= j - 4*q < 4] * x[j]    ->    sum j. [h[i] = h[j]] * x[j]

where h is 0, 0, 1, 1, .. and 0, 0, 0, 0, 1, .. The rest of lowering only knows equalities and elements of index arrays.
A sum over q stays as it is if a has only one index: it is a sum over windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, Size, atom_affine, constant, is_long
from tensorlang.language.function import Function
from tensorlang.language.grammar import Access, Bracket, Choice, Expr, Extremum, Gen, Sum, children
from tensorlang.language.lets import bindings, under
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    affines,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    free_atoms,
    lookups,
    substitute,
    within,
)
from tensorlang.language.rebuilt import rewrite
from tensorlang.lowering.plan.dependence import FreeIndices, factors, is_finite, longer
from tensorlang.memory import cached
from tensorlang.sets.eliminate import paired_bounds
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import Ranges, project, ranges_predicate
from tensorlang.simplification.supports import common

Tables = dict[tuple[Affine, int], IndexArray]
"""Index arrays, by their sizes and c: element k is floor(k/c)."""

_MOST_ALTERNATIVES = 6
"""The most alternatives that are compared with one another."""


def read_quotients(f: Function) -> tuple[Function, Tables]:
    """`f`, reading quotients from new index arrays, which are no parameters, instead of comparing; and these arrays."""
    tables: Tables = {}
    if not any(map(_has_multiple, f.census.conditions)):
        return f, tables
    found, outputs = bindings(f.body)
    made = [(x, _Statement(e, tables).rewritten()) for x, e in found]
    body = under(made, _Statement(outputs, tables).rewritten())
    return (replace(f, body=body) if tables else f), tables


@cached
def _has_multiple(p: Predicate) -> bool:
    """Whether `p` compares a multiple of an index, as it does where it says that one is a quotient."""
    return any(abs(k) > 1 and isinstance(i, Index) for a in affines(p) for i, k in a.terms)


def bound_quotients(f: Function, tables: Tables) -> Function:
    """`f` with bounds on the distance of indices of the same quotient, where one of them is summed or chosen and what
    is read depends on both: so it is a sum, or an extremum, over a window."""
    if not tables:
        return f
    found, outputs = bindings(f.body)
    made = [(x, _Windows(e, tables).rewritten()) for x, e in found]
    return replace(f, body=under(made, _Windows(outputs, tables).rewritten()))


@dataclass
class _Statement:
    """The value of a let, or the body of all lets; with the ranges of its indices at each condition, those that are
    summed, those that are chosen, and all that its places depend on."""

    value: Expr
    tables: Tables
    ranges: dict[Expr, dict[Index, Affine]] = field(default_factory=dict)
    summed: set[Index] = field(default_factory=set)
    chosen: set[Index] = field(default_factory=set)
    read: set[Atom] = field(default_factory=set)

    def __post_init__(self) -> None:
        seen: set[tuple[Expr, frozenset[tuple[Index, Affine]]]] = set()
        stack: list[tuple[Expr, dict[Index, Affine]]] = [(self.value, {})]
        while stack:
            e, around = stack.pop()
            if (key := (e, frozenset(around.items()))) in seen:
                continue
            seen.add(key)
            match e:
                case Access(_, at, _):
                    self.read.update(at.free)
                case Gen() | Sum() | Extremum() | Choice():
                    around = {**around, e.index: e.size}
                    if isinstance(e, Sum):
                        self.summed.add(e.index)
                    elif not isinstance(e, Gen):
                        self.chosen.add(e.index)
            if isinstance(e, Bracket | Extremum | Choice):
                known = self.ranges.setdefault(e, {})
                known.update((i, longer(known.get(i, n), n)) for i, n in around.items())
            stack += [(part, around) for part in children(e)]

    def rewritten(self) -> Expr:
        return rewrite(self.value, lambda _: None, self._made)

    def _made(self, old: Expr, e: Expr) -> Expr:
        match e:
            case Bracket(p, a):
                return Bracket(self._solved(p, self.ranges[old]), a)
            case Extremum(sign, i, n, p, a) | Choice(sign, i, n, p, a):
                return type(e)(sign, i, n, self._solved(p, self.ranges[old]), a)
            case _:
                return e

    def _solved(
        self, p: Predicate, ranges: Ranges, bound: Index | None = None, context: Sequence[Predicate] = ()
    ) -> Predicate:
        """`p` with conditions on quotients solved, where the `context` holds; `bound` is bound by the innermost
        quantifier."""
        match p:
            case Or(options):
                solved = disjunction([self._solved(q, ranges, bound, context) for q in options])
                return solved if solved is p else self._without_implied(solved, ranges)
            case Exists(i, n, body):
                inner = {**ranges, i: n}
                solved = self._solved(body, inner, i, context)
                return p if solved is body else project({i: n}, solved, ranges)
        parts = list(conjuncts(p))
        for k, q in enumerate(parts):
            if isinstance(q, Or | Exists):
                others = [part for part in parts if part is not q]
                parts[k] = self._solved(q, ranges, bound, [*context, *others])
        while found := list(self._quotients(parts, ranges, bound, context)):
            said, i, a, c = max(found, key=lambda q: is_long(ranges[q[1]]))  # the others remain short
            parts = [q for q in parts if q not in said] + [equal(atom_affine(i), self._quotient(a, c, ranges))]
        return conjunction(parts)

    def _without_implied(self, p: Predicate, ranges: Ranges) -> Predicate:
        """`p` without alternatives that another one holds with, as the bounds of quotients show."""
        if not isinstance(p, Or) or len(p.parts) > _MOST_ALTERNATIVES:
            return p
        known = [ranges_predicate(ranges), *self._known(p)]
        kept = list(p.parts)
        for q in p.parts:
            others = [r for r in kept if r is not q]
            if any(implies(conjunction([q, *known]), r) for r in others):
                kept = others
        return disjunction(kept)

    def _known(self, p: Predicate) -> Iterator[Predicate]:
        """The bounds of the quotients that `p` reads."""
        divisors = {array: c for (_, c), array in self.tables.items()}
        for x in lookups(p):
            if x.array in divisors:
                c = divisors[x.array]
                yield within(x.at[0] - atom_affine(x) * c, constant(c))

    def _quotients(
        self, parts: Sequence[Predicate], ranges: Ranges, bound: Index | None, context: Sequence[Predicate]
    ) -> Iterator[tuple[list[Predicate], Index, Affine, int]]:
        """Comparisons that say that an index is floor(a/c), the index, a, and c."""
        for q in (q for q in parts if isinstance(q, NonNegative)):
            for i, k in q.value.terms:
                c = abs(k)
                if c == 1 or not isinstance(i, Index) or not ranges.keys() >= set(q.value.indices):
                    continue
                above = q.value if k < 0 else constant(c - 1) - q.value  # a - c*i
                other = at_most(above, constant(c - 1)) if k < 0 else at_most(constant(0), above)
                a = above + atom_affine(i) * c
                if not self._is_asked_for(i, a, bound):
                    continue
                if other in parts:
                    yield [q, other], i, a, c
                elif i is bound and implies(conjunction([*context, *parts, ranges_predicate(ranges)]), other):
                    yield [q], i, a, c

    def _is_asked_for(self, i: Index, a: Affine, bound: Index | None) -> bool:
        """Whether `i`, which is floor(a/c), is to be read from a table."""
        if any(i in atom_affine(x).free for x in a.lookups):
            return False
        if i is bound or i in self.chosen or a.lookups:
            return True
        return i in self.summed and i in self.read and len(a.indices) > 1

    def _quotient(self, a: Affine, c: int, ranges: Ranges) -> Affine:
        """floor(a/c): the part that c divides, plus a table's element at the rest, which is not negative."""
        rest, whole = constant(a.constant % c), constant(a.constant // c)
        longest = constant(a.constant % c + 1)
        for x, k in a.terms:
            rest, whole = rest + atom_affine(x) * (k % c), whole + atom_affine(x) * (k // c)
            match x:
                case Size():
                    most = atom_affine(x)
                case Lookup(array, _):
                    most = array.size - 1
                case Index():
                    most = ranges[x] - 1
            longest = longest + most * (k % c)
        if rest.is_constant:
            return whole
        table = self.tables.setdefault((longest, c), _table(longest, c))
        return whole + atom_affine(Lookup(table, (rest,)))


class _Windows(_Statement):
    """A statement that has read quotients."""

    def _made(self, old: Expr, e: Expr) -> Expr:
        match e:
            case Bracket(p, a):
                apart = factors(a) if all(map(is_finite, factors(a))) else [a]
                return Bracket(conjunction([p, *self._nearby(p, apart, self.ranges[old])]), a)
            case Extremum(sign, i, n, p, a) | Choice(sign, i, n, p, a):
                return type(e)(sign, i, n, conjunction([p, *self._nearby(p, [a], self.ranges[old])]), a)
            case _:
                return e

    def _nearby(self, p: Predicate, several: Sequence[Expr], ranges: Ranges) -> list[Predicate]:
        """Bounds between indices that follow from equal quotients in `p`, if a condition or one of `several` has
        both."""
        near: list[Predicate] = []
        moving = self.summed | self.chosen
        for q in conjuncts(p):
            bounds = [r for r in self._bounds(q, ranges) if isinstance(r, NonNegative)]
            bounds = [r for r in bounds if not moving.isdisjoint(r.value.indices)]
            if bounds:
                read = [free_atoms(other) for other in conjuncts(p) if other is not q]
                read += [FreeIndices().free(e, {}) for e in several]
                near += [r for r in bounds if any(at.issuperset(r.value.indices) for at in read)]
        return near

    def _bounds(self, q: Predicate, ranges: Ranges) -> tuple[Predicate, ...]:
        """Comparisons that follow from `q`, which compares quotients, or is a disjunction of such conditions."""
        if isinstance(q, Or):
            parts = [conjunction([p, *(r for one in conjuncts(p) for r in self._bounds(one, ranges))]) for p in q.parts]
            return conjuncts(common(parts))
        return conjuncts(paired_bounds(self._as_comparisons(q, ranges)))

    def _as_comparisons(self, q: Predicate, ranges: Ranges) -> Predicate:
        """`q`, if it compares quotients, as a condition on the indices of these; else TRUE."""
        quotients = {array: c for (_, c), array in self.tables.items()}
        read = lookups(q) if isinstance(q, Equal | NonNegative) else []
        if not read or not all(x.array in quotients for x in read):
            return TRUE
        values: dict[Atom, Affine] = {x: atom_affine(Index("q")) for x in read}
        parts: list[Predicate] = [substitute(q, values)]
        for x, value in values.items():
            assert isinstance(x, Lookup)
            parts += conjuncts(within(x.at[0] - value * quotients[x.array], constant(quotients[x.array])))
        sizes = {value.indices[0]: x.array.size for x, value in values.items() if isinstance(x, Lookup)}
        return project(sizes, conjunction(parts), ranges)


def _table(length: Affine, c: int) -> IndexArray:
    divides = all(k % c == 0 for _, k in length.terms)
    below = Affine(tuple((x, k // c) for x, k in length.terms), -(-length.constant // c)) if divides else length
    return IndexArray("quotient", (length,), below)
