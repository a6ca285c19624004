"""Arrays that vary along an axis at few places only, taken apart: what is there, and what fills the rest.

    s = gen i, j. [|i - j| < 3] * d[i, j] + [|i - j| >= 3] * c    and    e = gen i, j. exp(s[i, j] - m[i])
        ->  E = gen i, j. [|i - j| < 3] * exp(d[i, j] - m[i])    and    F = gen i. exp(c - m[i])
    sum j. e[i, j] * v[j]
        ->  (sum j. [|i - j| < 3] * E[i, j] * v[j]) + F[i] * sum j. [|i - j| >= 3] * v[j]

Masks that write a large negative number, rather than -inf, over the elements that do not count make such arrays.
The band is stored as a band, the fill as an array of one axis less, and sums over the rest are running sums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    exists,
    free_atoms,
    lookups,
    negation,
    substitute,
    within,
)
from tensorlang.normal.contraction import inner_solution
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Map,
    Selection,
    Statement,
    comparison,
    factor_indices,
    inner_ranges,
    operands,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import addition, renewed, support, tidy, with_operands, with_predicates
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.simplify import quotients
from tensorlang.sets.solve import Ranges, ranges_predicate, simplify_in
from tensorlang.simplification.supports import is_zero_at_zero
from tensorlang.simplification.thin import is_thin

_MOST_READ = 4
"""The elements of comparisons in one condition that is told by their parts: each doubles the conditions."""


@dataclass(frozen=True)
class _Filled:
    """[few] * there + [rest] * fill."""

    few: Predicate
    there: Statement
    rest: Predicate
    fill: Statement

    def parts(self) -> tuple[tuple[Predicate, Statement], ...]:
        """Both parts, each with the condition under which it is read."""
        return (self.few, self.there), (self.rest, self.fill)


@dataclass
class _Pass:
    """The statements so far in their new form, and those of them that are filled."""

    chosen: frozenset[IndexArray]
    new: dict[Statement, Statement] = field(default_factory=dict)
    filled: dict[Statement, _Filled] = field(default_factory=dict)
    compared: dict[IndexArray, _Filled] = field(default_factory=dict)
    _constant: dict[tuple[Statement, Index], bool] = field(default_factory=dict)

    def made(self, x: Statement) -> Statement:
        """`x` in its new form, which is remembered in parts where it is filled."""
        by_parts = self._by_comparisons(x) if self.compared else None
        if by_parts is not None:
            return by_parts
        match x:
            case Addition() | Map():
                for few in self._candidates(x):
                    if (found := self._split(x, few)) is not None:
                        self.filled[x] = found
                        return _whole(found, x)
            case Contraction() if any(y in self.filled for y in x.factors) and not self._names_chosen(x.pred):
                return self._product(x)
            case Comparison() if (parts := self._parts(x.left) or self._parts(x.right)) is not None:
                self._compare(x, parts)
        return with_operands(x, self.new)

    def _by_comparisons(self, x: Statement) -> Statement | None:
        """`x` in its new form, if its conditions read elements of comparisons that are in parts."""
        if not isinstance(x, Addition | Map | Contraction):
            return None
        known = _ranges(x)
        if (y := with_predicates(x, lambda p: self._quantified(p, known))) is not x:
            return self._as(x, y)
        if not isinstance(x, Addition):
            return None if (a := self._lookup(x.pred, known)) is None else self._by_comparison(x, a)
        terms = [Addend(t.sign, p, t.operand) for t in x.terms for p in self._told(t.pred, known)]
        return self._as(x, Addition(tuple(terms), x.shape)) if len(terms) > len(x.terms) else None

    def _as(self, x: Statement, y: Statement) -> Statement:
        """`y` in its new form, for `x`, which it equals."""
        made = self.made(y)
        if y in self.filled:
            self.filled[x] = self.filled[y]
        return made

    def _compare(self, x: Comparison, y: _Filled) -> None:
        """The comparison `x` in both parts of `y`, one of its sides."""
        ranges = ranges_predicate(own_ranges(x))
        parts = []
        for p, _ in y.parts():
            around = conjunction([ranges, p])
            sides = self._read(x.left, around), self._read(x.right, around)
            parts.append(comparison(x.op, conjunction([x.guard, p]), *sides, x.array.name))
        if any(c.array is x.array for c in parts):  # it is asked in one of them alone
            return
        self.new.update((c, c) for c in parts)
        self.compared[x.array] = _Filled(y.few, parts[0], y.rest, parts[1])

    def _lookup(self, p: Predicate, known: Collection[Index]) -> Lookup | None:
        """An element of a comparison in parts that `p` reads at a place in terms of these indices."""
        read = (a for a in lookups(p) if a.array in self.compared)
        return next((a for a in read if all(i in known for b in a.at for i in b.indices)), None)

    def _cases(self, p: Predicate, a: Lookup) -> list[tuple[Predicate, Predicate]]:
        """Where the element `a` is in each part of its comparison, and `p` there."""
        found = self.compared[a.array]
        at: dict[Atom, Affine] = dict(zip(own_indices(found.there), a.at, strict=True))
        cases = []
        for q, c in found.parts():
            assert isinstance(c, Comparison)
            cases.append((substitute(q, at), substitute(p, {a: atom_affine(Lookup(c.array, a.at))})))
        return cases

    def _told(self, p: Predicate, known: Collection[Index]) -> list[Predicate]:
        """Conditions, of which one at most holds, that say what `p` does, by the parts of comparisons."""
        a = self._lookup(p, known)
        if a is None or len(lookups(p)) > _MOST_READ:
            return [p]
        return [r for where, q in self._cases(p, a) for r in self._told(conjunction([where, q]), known)]

    def _quantified(self, p: Predicate, known: Collection[Index]) -> Predicate:
        """`p`, where quantifiers speak of the parts of comparisons."""
        match p:
            case And(parts) | Or(parts):
                new = [self._quantified(q, known) for q in parts]
                return p if all(map(is_, new, parts)) else conjunction(new) if isinstance(p, And) else disjunction(new)
            case Exists(index, size, body):
                inner = {*known, index}
                told = self._told(self._quantified(body, inner), inner)
                return p if told == [body] else exists([(index, size)], disjunction(told))
            case _:
                return p

    def _by_comparison(self, x: Map | Contraction, a: Lookup) -> Statement:
        """`x` by the parts of the comparison of which `a` is an element."""
        around = conjunction([ranges_predicate(_ranges(x)), x.pred])
        cases = self._cases(x.pred, a)
        for where, p in cases:
            if implies(around, where):
                return self._as(x, _under(x, p))
        (few, p), (rest, q) = cases
        there, fill = (self.made(_under(x, conjunction(both))) for both in ((few, p), (rest, q)))
        if own_ranges(x).keys() >= {i for i in free_atoms(few) if isinstance(i, Index)}:
            self.filled[x] = _Filled(few, there, rest, fill)
            return _whole(self.filled[x], x)
        return addition([Addend(1, TRUE, there), Addend(1, TRUE, fill)], x.shape)

    def _candidates(self, x: Addition | Map) -> Iterator[Predicate]:
        """Conditions of few points under which `x` may be something else than it is elsewhere."""
        if isinstance(x, Map):
            stays = len(x.arguments) == 1 and is_zero_at_zero(x.function)
            return (f.few for y in x.arguments if (f := self._parts(y, stays)) is not None)
        known = [self.filled[t.operand].few for t in x.terms if t.operand in self.filled]
        if known:
            return iter(known)
        ranges = own_ranges(x)
        there = dict.fromkeys(conjunction([t.pred, support(t.operand)]) for t in x.terms)
        return (p for p in there if self._is_few(p, ranges) and self._is_filled_outside(x, p))

    def _parts(self, y: Statement, only_known: bool = False) -> _Filled | None:
        """The parts of `y`, which is 0 elsewhere if it is there at few points."""
        if y in self.filled or only_known or not isinstance(y, Map | Contraction):
            return self.filled.get(y)
        few, ranges = support(y), own_ranges(y)
        rest = _opposite(few, [], ranges) if self._is_few(few, ranges) else None
        if rest is None or rest is FALSE:
            return None
        self.filled[y] = _Filled(
            few, _without_known(self.new[y], conjunction([ranges_predicate(ranges), few])), rest, addition([], y.shape)
        )
        return self.filled[y]

    def _is_few(self, p: Predicate, ranges: Ranges) -> bool:
        """Whether `p` leaves few points of these ranges, whatever the program chooses."""
        return p is not FALSE and not self._names_chosen(p) and is_thin(p, ranges)

    def _names_chosen(self, p: Predicate) -> bool:
        """Whether `p` reads elements of arrays that the program selects or compares itself."""
        return any(a.array in self.chosen for a in lookups(p))

    def _is_filled_outside(self, x: Addition, few: Predicate) -> bool:
        """Whether `x` is the same along some axis where `few` does not hold."""
        found = self._split(x, few)
        return found is not None and any(self._is_constant(found.fill, i) for i in own_ranges(x))

    def _split(self, x: Addition | Map, few: Predicate) -> _Filled | None:
        """`x` under `few` and elsewhere; None if that can't be said, or is nowhere."""
        ranges = own_ranges(x)
        rest = _opposite(few, [t.pred for t in x.terms] if isinstance(x, Addition) else [], ranges)
        if rest is None:
            rest = next((f.rest for y in operands(x) if (f := self.filled.get(y)) is not None and f.few is few), None)
        if rest is None or rest is FALSE:
            return None
        return _Filled(few, self._under(x, few, ranges), rest, self._under(x, rest, ranges))

    def _under(self, x: Addition | Map, p: Predicate, ranges: Ranges) -> Statement:
        """What is `x` wherever `p` holds, whatever it is elsewhere."""
        around = conjunction([ranges_predicate(ranges), p])

        def left(q: Predicate) -> Predicate:
            return TRUE if q is TRUE or implies(around, q) else FALSE if is_empty(conjunction([around, q])) else q

        if isinstance(x, Addition):
            terms = [Addend(t.sign, left(t.pred), self._read(t.operand, around)) for t in x.terms]
            return addition([t for t in terms if t.pred is not FALSE], x.shape)
        pred = left(x.pred)
        if pred is FALSE:
            return addition([], x.shape)
        return Map(pred, x.function, tuple(self._read(y, around) for y in x.arguments), x.shape)

    def _read(self, y: Statement, around: Predicate, at: Mapping[Atom, Affine] | None = None) -> Statement:
        """What is read of `y` where that holds: one of its parts, if it is known which one."""
        if y in self.filled:
            for q, made in self.filled[y].parts():
                if implies(around, substitute(q, at) if at else q):
                    return made
        return self.new[y] if at else _without_known(self.new[y], around)

    def _is_constant(self, x: Statement, i: Index) -> bool:
        """Whether the elements of `x` are the same for all `i`, one of its own indices."""
        return run(self._constant_along(x, i))

    def _constant_along(self, x: Statement, i: Index) -> Deep[bool]:
        read: list[tuple[Statement, Index]] = []
        match x:
            case Constant():
                return True
            case Addition(terms, _):
                same = not any(i in free_atoms(t.pred) for t in terms)
                read = [(t.operand, i) for t in terms]
            case Map(p, _, arguments, _):
                same = i not in free_atoms(p)
                read = [(y, i) for y in arguments]
            case Contraction(p, factors, _, _):
                solved = inner_solution(x)
                same = i not in free_atoms(solved.rest)
                for y, at in zip(factors, factor_indices(x), strict=True) if i in free_atoms(p) else ():
                    read += [
                        (y, j)
                        for j, k in zip(own_indices(y), at, strict=True)
                        if k in solved.values and i in solved.values[k].free
                    ]
            case _:
                return False
        for key in read if same else ():
            if key not in self._constant:
                self._constant[key] = yield from call(self._constant_along(*key))
            if not self._constant[key]:
                return False
        return same

    def _product(self, x: Contraction) -> Statement:
        """A product with each part of its first filled factor, as an addition; filled if its own indices tell where."""
        k = next(k for k, y in enumerate(x.factors) if y in self.filled)
        solved = inner_solution(x)
        places: list[dict[Atom, Affine]] = [
            {i: solved.values.get(j) or atom_affine(j) for i, j in zip(own_indices(y), at, strict=True)}
            for y, at in zip(x.factors, factor_indices(x), strict=True)
        ]
        ties = conjunction([solved.rest, *(equal(atom_affine(i), a) for i, a in solved.values.items())])
        every = ranges_predicate({**own_ranges(x), **inner_ranges(x)})
        there: list[tuple[Predicate, tuple[Statement, ...]]] = []
        for p, _ in self.filled[x.factors[k]].parts():
            q = substitute(p, places[k])
            around = conjunction([every, solved.rest, q])
            there.append((q, tuple(self._read(y, around, at) for y, at in zip(x.factors, places, strict=True))))
        (few, first), (rest, second) = there
        if own_ranges(x).keys() >= {i for i in free_atoms(few) if isinstance(i, Index)}:
            made, fill = (Contraction(ties, factors, x.summed, x.shape) for factors in (first, second))
            self.filled[x] = _Filled(few, made, rest, fill)
            return _whole(self.filled[x], x)
        sums = (Contraction(conjunction([ties, q]), factors, x.summed, x.shape) for q, factors in there)
        return addition([Addend(1, TRUE, y) for y in sums], x.shape)


def _ranges(x: Addition | Map | Contraction) -> Ranges:
    """The ranges of all indices in the predicates of `x`."""
    return {**own_ranges(x), **inner_ranges(x)} if isinstance(x, Contraction) else own_ranges(x)


def _under(x: Map | Contraction, p: Predicate) -> Statement:
    """`x` with `p` in the place of its predicate."""
    return with_predicates(x, lambda _: p)


def _without_known(x: Statement, around: Predicate) -> Statement:
    """`x` without conditions on its own indices that hold where that does."""
    own = set(own_indices(x))

    def left(p: Predicate) -> Predicate:
        return conjunction(q for q in conjuncts(p) if not (own.issuperset(free_atoms(q)) and implies(around, q)))

    match x:
        case Map(p, f, arguments, shape):
            return Map(left(p), f, arguments, shape)
        case Contraction(p, factors, summed, shape):
            return Contraction(left(p), factors, summed, shape)
        case _:
            return x


def _opposite(p: Predicate, known: Iterable[Predicate], ranges: Ranges) -> Predicate | None:
    """The condition that holds where `p` does not; if it is none of the language's own, one of those that are known."""
    around = ranges_predicate(ranges)
    if (found := negation(p) or _with_other_quotients(p, around)) is not None:
        return simplify_in(found, ranges)

    def is_opposite(q: Predicate) -> bool:
        return is_empty(conjunction([p, q]), around) and implies(around, disjunction([p, q]))

    return next(filter(is_opposite, known), None)


def _with_other_quotients(p: Predicate, around: Predicate) -> Predicate | None:
    """The condition that holds where `p` does not, which asks other things of quotients that there always are."""
    asked = [q for q in conjuncts(p) if isinstance(q, Exists)]
    others = [_asking_otherwise(q, around) for q in asked]
    others += [negation(q) for q in conjuncts(p) if q not in asked and not implies(conjunction([around, *asked]), q)]
    found = [q for q in others if q is not None]
    return disjunction(found) if asked and len(found) == len(others) else None


def _asking_otherwise(p: Exists, around: Predicate) -> Predicate | None:
    """The condition that the quotient of which `p` says something is one of which that does not hold."""
    for a, c in quotients(p):
        said = conjuncts(within(a - atom_affine(p.index) * c, constant(c)))
        other = negation(conjunction(q for q in conjuncts(p.body) if q not in said))
        if other is not None and implies(around, exists([(p.index, p.size)], conjunction(said))):
            return exists([(p.index, p.size)], conjunction([*said, other]))
    return None


def _whole(found: _Filled, x: Statement) -> Statement:
    """The array of both parts."""
    return addition([Addend(1, q, y) for q, y in found.parts()], x.shape)


def in_fills(s: SSA) -> SSA:
    """`s` with arrays that are the same along an axis, except at few places, taken apart."""
    pass_ = _Pass(frozenset(x.array for x in s.statements if isinstance(x, Selection | Comparison)))
    for x in s.statements:
        pass_.new[x] = pass_.made(x)
    changed = renewed(s, pass_.new)
    return s if not pass_.filled else tidy(changed)
