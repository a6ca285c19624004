"""Many statements or terms that differ in constants alone, rolled into one over an index of its own.

    x[2] + x[3] + x[5] + ..                    =  sum q:K. x[at[q]]
    [i = 2] * f(x[2]) + [i = 5] * f(x[5]) + .. =  sum q:K. [i = at[q]] * f(x[at[q]])
    let t0 = f(x[2]) in let t1 = f(x[5]) in .. =  let t = gen q:K. f(x[at[q]]) in ..       where t[0] is t0, ..
    [i = 2 or i = 5 or ..] * e                 =  sum q:K. [i = at[q]] * e

where `at` is an index array that the program itself holds; if its elements are in arithmetic progression, a + b*q
stands for it. So what is generated, and the time to compile it, do not grow with K, and nothing as large as the
result is added up K times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, canonical, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Choice,
    Const,
    Expr,
    Extremum,
    Gen,
    Let,
    MakePair,
    Mul,
    Sum,
    Var,
    access,
    children,
    number,
)
from tensorlang.language.lets import Binding, bindings, under
from tensorlang.language.predicates import (
    And,
    Equal,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    equal,
    substitute,
)
from tensorlang.language.rebuilt import with_children, with_values
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.dependence import occurring
from tensorlang.recursion import Deep, call, run

FEWEST = 8
"""The fewest of the same form that are rolled: fewer are as fast, and easier to read, one by one."""
_LARGEST = 100  # nodes of a term beyond which it is left as it is

Values = tuple[Fraction, ...]


@dataclass
class Rerolled:
    """A function that reads arrays of constants: index arrays and arrays of numbers, with their elements."""

    function: Function
    places: dict[IndexArray, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[Var, Values] = field(default_factory=dict)


def reroll(f: Function) -> Rerolled:
    """`f`, simplified, with its many statements and terms of the same form rolled into few."""
    given, body = bindings(f.body)
    made = _Rolling()
    new, values = made.statements(given)
    body = run(made.terms(with_values(body, values)))
    rolled = [(x, run(made.terms(e))) for x, e in reversed(new)]
    return Rerolled(replace(f, body=under(rolled[::-1], body)), made.places, made.numbers)


@dataclass
class _Rolling:
    places: dict[IndexArray, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[Var, Values] = field(default_factory=dict)
    memo: dict[Expr, Expr] = field(default_factory=dict)

    def statements(self, bindings: Sequence[Binding]) -> tuple[list[Binding], dict[Var, Expr]]:
        """The bindings, with many scalars of the same form rolled into an array, and replacements of these."""
        if sum(e.type is R for _, e in bindings) < FEWEST:
            return list(bindings), {}
        new: list[Binding] = []
        values: dict[Var, Expr] = {}
        for level in _levels(bindings):
            # bindings on one level do not read one another, only those on levels before
            alike = _Groups()
            for x, old in level:
                e = with_values(old, values)
                new.append((x, e))
                if isinstance(x, Var) and e.type is R:
                    alike.add(len(new) - 1, e)
            gone: set[int] = set()
            for group in alike.many():
                q = Index("q")
                first = new[group[0].place][0]
                t = Var(first.name, array((constant(len(group)),), R))
                for k, term in enumerate(group):
                    x, _ = new[term.place]
                    assert isinstance(x, Var)
                    values[x] = access(t, constant(k))
                gone.update(term.place for term in group[1:])
                new[group[0].place] = (t, Gen(q, constant(len(group)), self._rolled(group, q)))
            new = [b for k, b in enumerate(new) if k not in gone]
        return new, values

    def terms(self, e: Expr) -> Deep[Expr]:
        """`e` with the many terms of the same form in each sum as one."""
        if e not in self.memo:
            points = _points(e.pred) if isinstance(e, Bracket) else None
            if isinstance(e, Add):
                self.memo[e] = yield from call(self._added(e))
            elif isinstance(e, Bracket) and points is not None:
                inner = yield from call(self.terms(e.body))
                q = Index("q")
                here = equal(points.place, self._place(points.values, q))
                self.memo[e] = Sum(q, constant(len(points.values)), Bracket(conjunction([here, *points.rest]), inner))
            else:
                parts = []
                for part in children(e):
                    parts.append((yield from call(self.terms(part))))
                self.memo[e] = with_children(e, parts)
        return self.memo[e]

    def _added(self, e: Add) -> Deep[Expr]:
        leaves = _leaves(e)
        alike = {1: _Groups(), -1: _Groups()}
        if len(leaves) >= FEWEST:
            for k, (sign, leaf) in enumerate(leaves):
                alike[sign].add(k, leaf)
        new = dict(enumerate(leaves))
        for sign, groups in alike.items():
            for group in groups.many():
                q = Index("q")
                for term in group:
                    del new[term.place]
                new[min(term.place for term in group)] = (sign, Sum(q, constant(len(group)), self._rolled(group, q)))
        found = []
        for _, (sign, leaf) in sorted(new.items()):
            found.append((sign, leaf if (sign, leaf) not in leaves else (yield from call(self.terms(leaf)))))
        return e if found == leaves else _total(found)

    def _rolled(self, group: Sequence[_Term], q: Index) -> Expr:
        """The expression whose value at q is the q-th of the group."""
        columns = zip(*(term.constants for term in group), strict=True)
        holes = iter([self._column(values, q) for values in columns])
        return _mapped(group[0].expr, lambda _: next(holes))

    def _column(self, values: Sequence[Fraction | int], q: Index) -> Expr | Affine:
        """The q-th of `values`."""
        if isinstance(values[0], Fraction):
            if len(set(values)) == 1:
                return Const(values[0])
            c = next((c for c, old in self.numbers.items() if old == tuple(values)), None)
            if c is None:
                c = Var("c", array((constant(len(values)),), R))
                self.numbers[c] = tuple(map(Fraction, values))
            return access(c, atom_affine(q))
        return self._place([int(v) for v in values], q)

    def _place(self, at: Sequence[int], q: Index) -> Affine:
        """The q-th of the integers `at`."""
        step = at[1] - at[0]
        if all(b - a == step for a, b in pairwise(at)):
            return atom_affine(q) * step + at[0]
        base = min(0, *at)
        elements = tuple(v - base for v in at)
        place = next((x for x, old in self.places.items() if old == elements), None)
        if place is None:
            place = IndexArray("at", (constant(len(at)),), constant(max(elements) + 1))
            self.places[place] = elements
        return atom_affine(Lookup(place, (atom_affine(q),))) + base


@dataclass(frozen=True)
class _Term:
    """The `place`-th of some expressions, and the constants in it."""

    place: int
    expr: Expr
    constants: tuple[Fraction | int, ...]


@dataclass
class _Groups:
    """Expressions grouped by their form, which is all but their constants."""

    found: dict[tuple[Expr, int], list[_Term]] = field(default_factory=dict)

    def add(self, place: int, e: Expr) -> None:
        """Put `e` where it belongs, unless it is too large."""
        if _is_large(e):
            return
        constants: list[Fraction | int] = []
        blank = _mapped(e, constants.append)
        self.found.setdefault((blank, len(constants)), []).append(_Term(place, e, tuple(constants)))

    def many(self) -> list[list[_Term]]:
        """The groups that are large enough, each in the order of its constants."""
        return [sorted(g, key=lambda t: t.constants) for g in self.found.values() if len(g) >= FEWEST]


@dataclass(frozen=True)
class _Points:
    """place = one of `values`, which are many, in order; and the conjunction of `rest`."""

    place: Affine
    values: list[int]
    rest: list[Predicate]


def _points(p: Predicate) -> _Points | None:
    """`p` as the condition that an index is one of many integers, if it has such a part."""
    for q in conjuncts(p):
        if isinstance(q, Or) and len(q.parts) >= FEWEST:
            intervals = [_interval(part) for part in q.parts]
            places = {interval[0] for interval in intervals if interval is not None}
            if len(places) == 1 and None not in intervals:
                values = {v for interval in intervals if interval for v in range(interval[1], interval[2] + 1)}
                return _Points(places.pop(), sorted(values), [r for r in conjuncts(p) if r is not q])
    return None


def _interval(p: Predicate) -> tuple[Affine, int, int] | None:
    """An index, and the first and the last of the few integers to which `p` confines it, if it does."""
    match p:
        case Equal(a):
            low = high = -a.constant
        case And((NonNegative(a), NonNegative(b))) if (a + b).is_constant:
            low, high = -a.constant, b.constant
            if a.terms and a.terms[0][1] < 0:
                a, low, high = b, -b.constant, a.constant
        case _:
            return None
    i = a.indices[0] if len(a.indices) == 1 else None
    if i is None or a - a.constant is not atom_affine(i) or not 0 <= high - low < _LARGEST:
        return None
    return atom_affine(i), low, high


Hole = Callable[[Fraction | int], Expr | Affine | None]


def _mapped(e: Expr, hole: Hole) -> Expr:
    """The small expression `e`, with each constant replaced by the result of `hole` for it; None stands for 0.

    Constants are numbers, and those of places and predicates without indices, and of equalities of a single index
    with coefficient 1. Bound indices are named by their depth.
    """
    return _mapped_in(e, hole, {})


def _mapped_in(e: Expr, hole: Hole, bound: Mapping[Atom, Affine]) -> Expr:
    match e:
        case Const(value):
            new = hole(value)
            return number(0) if new is None else new  # type: ignore[return-value]
        case Access(a, at, _):
            body = _mapped_in(a, hole, bound)
            return Access(body, _moved(at, hole) if not at.indices else at.substitute(bound), None)
        case Bracket(p, a):
            q = _predicate(p, hole, bound)
            return Bracket(q, _mapped_in(a, hole, bound))
        case Sum(i, size, a):
            inner = {**bound, i: atom_affine(_index(len(bound)))}
            return Sum(_index(len(bound)), size, _mapped_in(a, hole, inner))
        case _:
            return with_children(e, [_mapped_in(part, hole, bound) for part in children(e)])


def _moved(a: Affine, hole: Hole, sign: int = 1) -> Affine:
    new = hole(a.constant * sign)
    rest = a - a.constant
    return rest if new is None else rest + new * sign  # type: ignore[operator]


def _predicate(p: Predicate, hole: Hole, bound: Mapping[Atom, Affine]) -> Predicate:
    match p:
        case Equal(a) if len(a.indices) == 1 and a.coefficient(a.indices[0]) == 1 and a.indices[0] not in bound:
            return equal(_moved(a, hole, -1), constant(0))
        case NonNegative(a) if not a.indices:
            return at_most(constant(0), _moved(a, hole))
        case And(parts):
            return conjunction([_predicate(part, hole, bound) for part in parts])
        case _:
            return substitute(p, bound)


@cache
@shared
def _index(depth: int) -> Index:
    return canonical(f"j{depth}" if depth else "j")


def _is_large(e: Expr) -> bool:
    """Whether `e` written out as a tree has many nodes, or has others than those of scalar arithmetic."""
    stack, count = [e], 0
    while stack:
        part = stack.pop()
        count += 1
        if count > _LARGEST or isinstance(part, Gen | Let | MakePair | Extremum | Choice):
            return True
        stack += children(part)
    return False


def _leaves(e: Expr) -> list[tuple[int, Expr]]:
    """The terms of a sum with their signs; a part that occurs again is a term."""
    found: list[tuple[int, Expr]] = []
    seen: set[Expr] = set()
    stack = [(1, e)]
    while stack:
        sign, part = stack.pop()
        if isinstance(part, Add) and part not in seen:
            seen.add(part)
            stack += [(sign * part.sign, part.right), (sign, part.left)]
        else:
            found.append((sign, part))
    return found


def _total(terms: Sequence[tuple[int, Expr]]) -> Expr:
    """The sum of signed terms."""
    first = next((k for k, (sign, _) in enumerate(terms) if sign > 0), None)
    if first is None:
        return Mul(number(-1), _total([(1, e) for _, e in terms]))
    result = terms[first][1]
    for k, (sign, e) in enumerate(terms):
        if k != first:
            result = Add(result, e, sign)
    return result


def _levels(bindings: Sequence[Binding]) -> list[list[Binding]]:
    """The bindings by level: how many others, in a chain, each needs before it."""
    depth: dict[Var | IndexArray, int] = {}
    levels: list[list[Binding]] = []
    for x, e in bindings:
        k = depth[x] = 1 + max((depth[y] for y in occurring(e) if y in depth), default=-1)
        if k == len(levels):
            levels.append([])
        levels[k].append((x, e))
    return levels
