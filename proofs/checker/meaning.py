"""The normal form of a program's value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from . import trees
from .budget import Undecided
from .facts import conjunction, fresh, is_index, parts_of
from .kinds import Kinds, Path, leaves, shape, type_at
from .names import extended
from .normal import (
    ARGUMENT,
    CHOICE,
    INDEX,
    LINEAR,
    REAL,
    SUM,
    TEST,
    OneCall,
    Term,
    Value,
    Values,
    at,
    element_of,
    is_long,
    negated,
    normals,
    number,
    plain_name,
    range_of,
    rational,
    summed,
    times,
    where,
)
from .predicates import moved, renamed, within
from .recurrences import Recurrence, States
from .semantics import exact, fine, keeps_zero, names_in
from .trees import (
    Add,
    Affine,
    All,
    Apply,
    At,
    Best,
    Bracket,
    Call,
    Compare,
    Element,
    Exists,
    Expr,
    Gen,
    Holds,
    Integer,
    Let,
    Mul,
    Name,
    Num,
    Pair,
    Part,
    Pred,
    Program,
    Recur,
    Refused,
    Sum,
    Test,
    Type,
    name,
)
from .trees import number as number_of

ONE = Fraction(1)
TURNED = {">": "<", ">=": "<="}
"""Comparisons that are rewritten by exchanging their sides."""
_WIDE = 40
"""A factor of this many terms is given a name rather than multiplied out."""


@dataclass(frozen=True)
class Place:
    """Where an expression stands: the values of its indices, its lets, and what is known there."""

    indices: Mapping[str, Affine] = field(default_factory=dict)
    lets: Mapping[str, Bound] = field(default_factory=dict)
    known: tuple[Pred, ...] = ()

    def index(self, i: str, value: Affine, size: Affine) -> Place:
        """In the scope of a binder."""
        return Place({**self.indices, i: value}, self.lets, (*self.known, within(value, size)))

    def where(self, p: Pred) -> Place:
        """Where `p` holds, too."""
        return Place(self.indices, self.lets, (*self.known, *fine(p)))

    def let(self, x: str, bound: Bound) -> Place:
        """In the scope of a let."""
        return Place(self.indices, extended(self.lets, x, bound), self.known)


class Bound:
    """The expression that a let binds: the value of each part at places of its own, found once."""

    def __init__(self, meaning: Meaning, value: Expr, place: Place, kind: Type) -> None:
        self.meaning = meaning
        self.expr = value
        self.place = place
        self.kind = kind
        self.known: dict[Path, tuple[list[str], Value]] = {}

    def value(self, path: Path, places: tuple[Affine, ...]) -> Value:
        """The part at `path`, read at `places`."""
        params, found = self.formal(path)
        return at(found, dict(zip(params, places, strict=True)))

    def formal(self, path: Path) -> tuple[list[str], Value]:
        """The part at `path` with the names of the places at which it is read."""
        if path not in self.known:
            sizes, _ = shape(dict(leaves(self.kind))[path])
            params = [fresh() for _ in sizes]
            around = self.context(params, sizes)
            found = self.meaning.value(self.expr, path, tuple(map(name, params)), self.place)
            values = self.meaning.values
            self.known[path] = params, values.cancelled(normals(found), around)
        return self.known[path]

    def context(self, params: list[str], sizes: tuple[Affine, ...]) -> list[Pred]:
        """What is known of the places at which it is read."""
        return [*self.place.known, *(within(name(i), n) for i, n in zip(params, sizes, strict=True))]

    @cached_property
    def choice(self) -> tuple[list[str], Pred, Affine]:
        """For an array of indices: its places, where it has an index at all, and the index that is chosen."""
        e, place, params, guards = self.expr, self.place, [], []
        while not isinstance(e, Best | Test):
            match e:
                case Gen(i, size, body):
                    params.append(fresh())
                    place, e = place.index(i, name(params[-1]), self.meaning.affine(size, place)), body
                case Bracket(p, body):
                    p = self.meaning.pred(p, place)
                    guards.append(p)
                    place, e = place.where(p), body
                case Let(x, value, body):
                    place, e = place.let(x, self.meaning.bound(e, value, place)), body
                case Name(x) if x in place.lets and not params:
                    return place.lets[x].choice
                case _:
                    raise Undecided("an array of indices of another form")
        if isinstance(e, Test):
            return params, conjunction(guards), self.meaning.test(e, place)
        chosen, some, _, _ = self.meaning.best(e, place)
        return params, conjunction([*guards, some]), chosen


class Meaning:
    """The values of one program's expressions, as `values` knows them."""

    def __init__(self, values: Values, program: Program) -> None:
        self.values = values
        self.facts = values.facts
        self.program = program
        self.kinds = Kinds.of(self.facts, program)
        self.params = dict(program.params)
        self.states = States.of(values)
        self.recurrences: dict[tuple[int, int], Recurrence] = {}
        self._named_in: dict[int, tuple[Bound, list[str]]] = {}
        """Keyed by the identity of the bound object, which is kept alive: another object might get its identity
        later."""

    def bound(self, let: Let, value: Expr, place: Place) -> Bound:
        """What `let` binds."""
        return Bound(self, value, place, self.kinds.lets[id(let)])

    def recurrence(self, e: Recur, place: Place) -> Recurrence:
        """What `e` means there."""
        found = self.recurrences.get((id(e), id(place)))
        if found is None:
            found = self.recurrences[id(e), id(place)] = Recurrence(self, e, place)
        return found

    def dependent(self, e: Expr, place: Place) -> list[str]:
        """The indices of `place` on which `e` depends, the outermost first, and maybe some more."""
        found: set[str] = set()
        for x in trees.names(e):
            if x in place.indices:
                found |= {i for i in names_in(place.indices[x]) if is_index(i)}
            elif x in place.lets:
                found |= self._dependent(place.lets[x])
        order = dict.fromkeys(i for a in place.indices.values() for i in sorted(names_in(a)))
        return [*(i for i in order if i in found), *sorted(found - order.keys())]

    def _dependent(self, bound: Bound | Recurrence) -> set[str]:
        if isinstance(bound, Recurrence):
            return {bound.time, *bound.params}
        if id(bound) not in self._named_in:
            self._named_in[id(bound)] = bound, self.dependent(bound.expr, bound.place)
        return set(self._named_in[id(bound)][1])

    def affine(self, a: Affine, place: Place) -> Affine:
        """An index expression in the normal form's names."""
        result = trees.number(a.constant)
        for atom, k in a.terms:
            if isinstance(atom, Element):
                at = tuple(self.affine(b, place) for b in atom.at)
                if atom.array in place.lets:
                    params, _, chosen = place.lets[atom.array].choice
                    names = dict(zip(params, at, strict=True))
                    one = moved(chosen, names)
                else:
                    one = Affine(((Element(atom.array, at), 1),))
                result = result + one.times(k)
            else:
                result = result + place.indices.get(atom, name(atom)).times(k)
        return result

    def pred(self, p: Pred, place: Place) -> Pred:
        """A predicate in the normal form's names. A comparison with a chosen index holds only where one is chosen."""
        match p:
            case Compare(equal, a):
                return self._where_chosen(Compare(equal, self.affine(a, place)), [a], place)
            case Holds(relation, at):
                found = Holds(relation, tuple(self.affine(a, place) for a in at))
                return self._where_chosen(found, at, place)
            case Exists(i, size, body):
                own = fresh("%")
                size = self.affine(size, place)
                return Exists(own, size, self.pred(body, place.index(i, name(own), size)))
            case All(parts):
                return All(tuple(self.pred(part, place) for part in parts))
            case _:
                return trees.Any(tuple(self.pred(part, place) for part in p.parts))

    def _where_chosen(self, p: Pred, read: tuple[Affine, ...] | list[Affine], place: Place) -> Pred:
        guards: list[Pred] = []
        waiting = [e for a in read for e, _ in a.terms if isinstance(e, Element)]
        while waiting:
            e = waiting.pop()
            waiting += [inner for b in e.at for inner, _ in b.terms if isinstance(inner, Element)]
            if e.array in place.lets:
                params, guard, _ = place.lets[e.array].choice
                names = {i: self.affine(b, place) for i, b in zip(params, e.at, strict=True)}
                guards.append(renamed(guard, names))
        missing = [g for g in guards if not self.facts.implies((), g)]
        return All((*missing, p)) if missing else p

    def test(self, e: Test, place: Place) -> Affine:
        """A comparison as an index: all that is known of it is that comparisons of equal numbers are equal, and that a
        > b is b < a."""
        sides = (e.left, e.right)
        comparison = TURNED.get(e.operator)
        if comparison is not None:
            sides = sides[::-1]
        values = [self.value(a, (), (), place) for a in sides]
        key, places = self.values.node(f"{TEST} {comparison or e.operator}", values, [place.known] * 2)
        self.facts.arrays[key] = (), number_of(2)
        return Affine(((Element(key, places), 1),))

    def best(self, e: Best, place: Place) -> tuple[Affine, Pred, Value, str]:
        """The index that `e` chooses, the condition that there is one, the value of its body, and the body's index."""
        i, size = fresh(), self.affine(e.size, place)
        inner = place.index(e.index, name(i), size)
        condition = self.pred(e.where, inner)
        inner = inner.where(condition)
        body = self.value(e.body, (), (), inner)
        there = where(within(name(i), size), where(condition, number(ONE)))
        arguments = [[Term(ONE, ((INDEX, (name(i), size)),))], body, there]
        chosen = self.values.chosen(f"{CHOICE} {e.sign}", arguments, [place.known, inner.known, place.known], i)
        own = fresh("%")
        some: Pred = Exists(own, size, renamed(condition, {i: name(own)}))
        parts = parts_of([some])
        some = trees.Any() if parts is None else conjunction(parts)
        return chosen, some, body, i

    # ---- values

    def value(self, e: Expr, path: Path, places: tuple[Affine, ...], place: Place) -> Value:
        """The part of `e` at `path`, read at `places`."""
        self.facts.budget.spend()
        match e:
            case Num(value):
                return number(value)
            case Integer(a):
                return [Term(ONE, ((REAL, (self.affine(a, place),)),))]
            case Name(x):
                if x in place.lets:
                    return place.lets[x].value(path, places)
                key = ".".join((x, *map(str, path)))
                return [Term(ONE, ((key, places),))]
            case Part(which, body):
                return self.value(body, (which, *path), places, place)
            case Pair(a, b):
                return self.value(b if path[0] else a, path[1:], places, place)
            case At(body, a):
                return self.value(body, path, (self.affine(a, place), *places), place)
            case Gen(i, size, body):
                size = self.affine(size, place)
                return self.value(body, path, places[1:], place.index(i, places[0], size))
            case Sum(i, size, body):
                own, size = fresh("%"), self.affine(size, place)
                return summed(own, size, self.value(body, path, places, place.index(i, name(own), size)))
            case Bracket(p, body):
                p = self.pred(p, place)
                return where(p, self.value(body, path, places, place.where(p)))
            case Add():
                found: Value = []
                while isinstance(e, Add):
                    right = self.value(e.right, path, places, place)
                    found += right if e.sign > 0 else negated(right)
                    e = e.left
                return normals([*self.value(e, path, places, place), *found])
            case Mul(a, b):
                left, right = self.value(a, path, places, place), self.value(b, path, places, place)
                if len(left) * len(right) > _WIDE or is_long([*left, *right]):
                    left, right = (self._named(v, place) for v in (left, right))
                return times(left, right)
            case Call(f, arguments):
                if self.values.branches and f in LINEAR:
                    return self._branch(Test(LINEAR[f], *arguments[:2]), arguments[2], place)
                values = [self.value(a, (), (), place) for a in arguments]
                if self.values.linear and f in LINEAR:
                    return self.values.call(f, values, place.known)
                known = exact(f, [rational(v) for v in values])
                if known is not None:
                    return number(known)
                some: tuple[Pred, ...] = ()
                if self.values.zeros and len(values) == 1 and keeps_zero(f):
                    some = self.values.support(values[0], place.known)
                one = self.values.function(f, values, (*place.known, *some))
                return [Term(ONE, (one,), (), some)]
            case Apply():
                return self._element(e, path, places, place)
            case Recur():
                return self.recurrence(e, place).read(path, places, place.known)
            case Best(_, False):
                chosen, _, best, i = self.best(e, place)
                return at(best, {i: chosen})
            case Let(x, value, body):
                return self.value(body, path, places, place.let(x, self.bound(e, value, place)))
        raise Refused("an index where a number is expected")

    def _element(self, e: Apply, path: Path, places: tuple[Affine, ...], place: Place) -> Value:
        """An element of an external function's result. Calls are equal if all elements of their arguments are."""
        own = {x: self.affine(n, place) for x, n in self.kinds.calls[id(e)].items()}
        arguments = []
        for k, (a, (_, kind)) in enumerate(zip(e.arguments, e.external.params, strict=True)):
            sizes, _ = shape(type_at(kind, own))
            dims = [fresh() for _ in sizes]
            at_dims = tuple(map(name, dims))
            ranges = All(tuple(within(i, n) for i, n in zip(at_dims, sizes, strict=True)))
            v = times(self.value(a, (), at_dims, place.where(ranges)), [Term(ONE, ((f"{ARGUMENT} {k}", at_dims),))])
            for i, n in zip(dims, sizes, strict=True):
                v = summed(i, n, v)
            arguments.append(v)
        kind_of_node = " ".join([f"call {e.external.name}", *(f"{x}={n}" for x, n in sorted(own.items()))])
        key, at_node = self.values.node(kind_of_node, arguments, [place.known] * len(arguments))
        known = [q for p in place.known for q in fine(p)]
        below = tuple(None if (x := plain_name(a)) is None else range_of(x, known) for a in at_node)
        self.values.calls.setdefault(key, OneCall(e.external, own, below))
        return element_of(key, path, at_node, places)

    def _branch(self, test: Test, body: Expr, place: Place) -> Value:
        """`body` where `test` holds, else 0."""
        holds = Compare(True, self.test(test, place) - number_of(1))
        return where(holds, self.value(body, (), (), place.where(holds)))

    def _named(self, v: Value, place: Place) -> Value:
        """A name for `v`, if that is a sum or long."""
        if len(v) < 2 and not is_long(v):
            return v
        return [Term(ONE, (self.values.node(SUM, [v], [place.known]),))]
