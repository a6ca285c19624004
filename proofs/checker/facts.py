"""Implications between predicates, for all sizes from 1 on and whatever the data, decided by isl.

Names that start with $ or % are indices, others are sizes. An element of an index array, a relation at some places, and
an `exists` whose body reads data at the index that it binds, are each a dimension about which nothing is known at
first: isl's answer then holds for all data. If the answer is no, the question is asked again with instances of laws
that hold for all data: equal places hold equal data, a witness shows an `exists`, and an `exists` has a witness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, count, islice, product
from typing import Any

import islpy

from . import trees
from .budget import Budget, quota
from .linear import names_of, solve
from .predicates import moved, renamed, settled, told, within
from .semantics import fine, names_in, names_in_atom
from .trees import TRUE, Affine, All, Compare, Element, Exists, Holds, Pred, Refused

Parts = Sequence[Pred]
_PAIRS = 40
_INSTANCES = 24
_MOST_DIMS = 60
_NEW = 8
_ROUNDS = 4
_NAMED = 2
"""The level from which on witnesses of an `exists` are given names."""
_fresh = count()


def fresh(kind: str = "$") -> str:
    """A new name: of a free index for "$", of a bound one for "%". The names sort in the order in which they were
    made."""
    return f"{kind}{next(_fresh):07}"


def is_index(x: str) -> bool:
    """Whether `x` names an index, not a size."""
    return x[0] in "$%"


def parts_of(preds: Iterable[Pred]) -> tuple[Pred, ...] | None:
    """The parts of a conjunction, settled, each once and without those that are plainly true; None if one is false."""
    found: dict[Pred, None] = {}
    for p in preds:
        for q in fine(p):
            for part in fine(settled(q)) if isinstance(q, Exists | trees.Any) else (q,):
                if isinstance(part, Compare) and not part.value.terms:
                    if part.value.constant == 0 or (part.value.constant > 0 and not part.equal):
                        continue
                    return None
                if isinstance(part, trees.Any) and not part.parts:
                    return None
                found.setdefault(part)
    return tuple(found)


class Facts:
    """Questions about predicates over the data of some programs."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.relations: dict[str, tuple[Affine, ...]] = {}
        self.arrays: dict[str, tuple[tuple[str, ...], Affine]] = {}
        self.optional: dict[str, tuple[tuple[str, ...], Pred]] = {}
        """Index arrays whose elements may be missing, and where they are not missing: a comparison with a missing
        element holds nowhere."""
        self.conditions: dict[str, tuple[tuple[str, ...], Exists]] = {}
        """For arrays of chosen indices, the condition under which an index is chosen: the body of the `exists` is true
        of the chosen index."""
        self.knows_choices = True
        self.assumed: list[Pred] = []
        self.asked = 0
        self._known: dict[tuple[frozenset[Pred], Pred, bool], bool] = {}

    def declare(self, params: Iterable[tuple[str, trees.Type]]) -> None:
        """Record what is known of parameters: sizes are not negative, elements of index arrays are indices."""
        for x, kind in params:
            element = kind
            while isinstance(element, trees.ArrayType):
                self._assume(Compare(False, element.size))
                element = element.element
            if isinstance(element, trees.PairType):
                self.declare([(x, element.first), (x, element.second)])
            elif isinstance(element, trees.Rel):
                self.relations[x] = element.sizes
                for n in element.sizes:
                    self._assume(Compare(False, n))
            elif isinstance(element, trees.Indices):
                self.arrays[x] = ((), element.size)

    def _assume(self, p: Compare) -> None:
        if not positive(p.value) and p not in self.assumed:
            self.assumed.append(p)

    # ---- questions

    def implies(self, given: Iterable[Pred], goal: Pred, instances: bool = True) -> bool:
        """Whether it is shown that `goal` holds wherever all of `given` do; without `instances`, only where data do not
        matter."""
        parts = self._parts(given)
        if parts is None:
            return True
        known = frozenset(parts)
        goals = self._parts([goal])
        if goals is None:
            return self._asked(known, parts, trees.Any(), instances)
        return all(part in known or self._asked(known, parts, part, instances) for part in goals)

    @property
    def _levels(self) -> int:
        """How many times a question is asked: as it is, with instances, with names for witnesses, and with what is true
        of indices that are chosen."""
        return _NAMED + 2 if self.conditions and self.knows_choices else _NAMED + 1

    def _parts(self, preds: Iterable[Pred]) -> tuple[Pred, ...] | None:
        """The parts of a conjunction, without those that hold for any data: that elements are in their range."""
        parts = parts_of(preds)
        if parts is None or not any(map(has_data, parts)):
            return parts
        return parts_of(self._without_ranges(p) for p in parts)

    def _without_ranges(self, p: Pred) -> Pred:
        match p:
            case Compare(False, a) if any(self._is_in_range(a, e) for e in _elements(a)):
                return TRUE
            case Exists(i, size, body):
                return Exists(i, size, self._without_ranges(body))
            case All(parts):
                return All(tuple(map(self._without_ranges, parts)))
            case trees.Any(parts):
                return trees.Any(tuple(map(self._without_ranges, parts)))
        return p

    def _is_in_range(self, a: Affine, e: Element) -> bool:
        """Whether a >= 0 only says that the element e is at least 0 or below its size, which always holds."""
        if e.array not in self.arrays or e.array in self.optional:
            return False
        params, size = self.arrays[e.array]
        size = moved(size, dict(zip(params, e.at, strict=True)) if params else {})
        one = Affine(((e, 1),))
        return positive(size) and a in (one, size + trees.number(-1) - one)

    def _asked(self, known: frozenset[Pred], parts: Parts, goal: Pred, instances: bool) -> bool:
        key = known, goal, instances
        if key not in self._known:
            levels = self._levels if instances else 1
            self._known[key] = self._decided(lambda q: [(q.text(parts), 1), (q.text([*parts, goal]), -1)], levels)
        return self._known[key]

    def empty(self, given: Iterable[Pred]) -> bool:
        """Whether it is shown that `given` never hold together."""
        return self.implies(given, trees.Any())

    def vanish(self, cells: Iterable[tuple[Fraction, Parts]], context: Parts) -> bool:
        """Whether it is shown that the weights of the predicates that hold add up to 0, wherever `context` holds."""
        total: dict[frozenset[Pred], tuple[Parts, Fraction]] = {}
        for weight, preds in ((weight, part) for weight, cell in cells for part in self._cut(cell)):
            key = frozenset(told(p, {}) for p in preds)
            first, before = total.get(key, (preds, Fraction(0)))
            total[key] = first, before + weight
        left = [(preds, weight) for preds, weight in total.values() if weight]
        if not left:
            return True
        around = self._parts(context)
        if around is None:
            return True
        return self._decided(lambda q: [(q.text([*preds, *around]), weight) for preds, weight in left])

    def _cut(self, cell: Parts) -> Iterator[Parts]:
        """`cell` in parts that exclude one another, by an index that is one of several numbers."""
        preds = self._parts(cell)
        if preds is None:
            return
        several = next((p for p in preds if isinstance(p, trees.Any) and _excluding(p.parts)), None)
        if several is None:
            yield preds
            return
        others = tuple(p for p in preds if p is not several)
        yield from ((*others, p) for p in several.parts)

    def _decided(self, make: Any, levels: int | None = None) -> bool:
        """Whether the weights of the sets that `make` writes for a question add up to 0 at every point."""
        self.asked += 1
        self.budget.spend()
        for level in range(self._levels if levels is None else levels):
            question = Question(self)
            try:
                cells = make(question)
                if level and not question.data:
                    return False
                if len(question.names) + len(question.data) > _MOST_DIMS:
                    return False
                if level:
                    axioms = question.axioms(level)
                    cells = [(question.closed(text, axioms), weight) for text, weight in cells]
                with quota():
                    if _balanced([(question.set(text), weight) for text, weight in cells]):
                        return True
            except (islpy.Error, Hidden):
                pass
            self.budget.spend()
        return False


def _excluding(options: Parts) -> bool:
    """Whether the predicates equate one index expression with different numbers."""
    values = {p.value for p in options if isinstance(p, Compare) and p.equal}
    return len(values) == len(options) > 1 and len({a.terms for a in values}) == 1


def _balanced(cells: Iterable[tuple[Any, Any]]) -> bool:
    """Whether the weights of the sets that a point is in add up to 0 for every point."""
    level: dict[Any, Any] = {}
    for points_of_cell, weight in cells:
        new, raised = points_of_cell, []
        for total, points in list(level.items()):
            both = points.intersect(new)
            if not both.is_empty():
                level[total] = points.subtract(both)
                raised.append((total + weight, both))
                new = new.subtract(both)
        for total, points in [*raised, (weight, new)]:
            level[total] = level[total].union(points) if total in level else points
    return all(total == 0 or points.is_empty() for total, points in level.items())


def positive(a: Affine) -> bool:
    """Whether `a` is plainly at least 1 where sizes are."""
    return all(k > 0 and isinstance(x, str) and not is_index(x) for x, k in a.terms) and (
        a.constant + sum(k for _, k in a.terms) >= 1
    )


class Hidden(Exception):
    """Data at a place that an `exists` binds."""


class Question:
    """One space for some predicates, written for isl: names, and data at places, are parameters."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.names: dict[str, str] = {}
        self.data: dict[object, str] = {}
        self.around: list[str] = []
        self.most = _MOST_DIMS
        self.extra = self.text(facts.assumed)

    def text(self, parts: Iterable[Pred]) -> str:
        """The conjunction of `parts`."""
        return " and ".join(f"({self._formula(p, {})})" for p in parts) or "0 = 0"

    def written(self, a: Affine) -> str:
        """An index expression."""
        return self._affine(a, {})

    def set(self, text: str) -> Any:
        """The points at which `text` holds."""
        sizes = (f"{own} >= 1" for x, own in self.names.items() if not is_index(x))
        space = ", ".join((*self.names.values(), *self.data.values()))
        return islpy.Set(f"[{space}] -> {{ : {' and '.join((text, self.extra, *self.around, *sizes))} }}")

    def closed(self, text: str, axioms: Sequence[tuple[str, str]]) -> str:
        """`text` with its consequences by implications that are true of all data."""
        found = self.set(text)
        waiting = [(premise, self._alone(premise), conclusion) for premise, conclusion in axioms]
        for _ in range(_ROUNDS):
            self.facts.budget.spend()
            left = []
            for premise, points, conclusion in waiting:
                with quota():
                    if found.is_subset(points):
                        text = f"{text} and ({conclusion})"
                        found = found.intersect(self._alone(conclusion))
                    else:
                        left.append((premise, points, conclusion))
            if len(left) == len(waiting):
                break
            waiting = left
        return text

    def _alone(self, text: str) -> Any:
        """The points at which `text` holds, with nothing else known."""
        own = [x for x in (*self.names.values(), *self.data.values()) if re.search(rf"\b{x}\b", text)]
        return islpy.Set(f"[{', '.join(own)}] -> {{ : {text} }}")

    def axioms(self, level: int) -> list[tuple[str, str]]:
        """Implications that are true of all data: about equal places and witnesses, and from level 2 on with names for
        the indices that an `exists` binds."""
        found = [self._named(p) for p in list(self.data) if isinstance(p, Exists)] if level >= _NAMED else []
        self.most = len(self.data) + _NEW
        for p in [p for p in self.data if isinstance(p, Exists)]:
            for instance in islice(self._instances(p), _INSTANCES):
                try:
                    found.append((self._formula(instance, {}), f"{self.data[p]} = 1"))
                except Hidden:
                    continue
        for atom in [atom for atom in self.data if isinstance(atom, Element) and atom.array in self.facts.optional]:
            params, there = self.facts.optional[atom.array]
            some = renamed(there, dict(zip(params, atom.at, strict=True)))
            found.append((self._formula(some, {}), self._in_range(atom)))
        chosen_at = [atom for atom in self.data if isinstance(atom, Element) and atom.array in self.facts.conditions]
        for atom in chosen_at if level > _NAMED else ():
            params, some = self.facts.conditions[atom.array]
            here = renamed(some, dict(zip(params, atom.at, strict=True)))
            assert isinstance(here, Exists)
            chosen = renamed(here.body, {here.index: Affine(((atom, 1),))})
            premise, conclusion = parts_of([here]), parts_of([chosen])
            if premise is not None and conclusion is not None:
                try:
                    found.append((self.text(premise), self.text(conclusion)))
                except Hidden:
                    continue
        return list(dict.fromkeys([*found, *islice(self._consistent(), _PAIRS * (4 if level > _NAMED else 1))]))

    def _named(self, p: Exists) -> tuple[str, str]:
        body, names = _opened(p)
        named = {i: trees.name(fresh()) for i, _ in names}
        inside = [within(named[i], moved(n, named)) for i, n in names]
        return f"{self.data[p]} = 1", self._formula(All((*inside, renamed(body, named))), {})

    def _instances(self, p: Exists) -> Iterator[Pred]:
        """The body of `p` at indices at which everything that it reads has been read already."""
        body, names = _opened(p)
        own = {i for i, _ in names}
        read = [r for r in places(body) if _free(r) & own]
        tried: list[dict[str, Affine]] = [{}]
        for r in read:
            more = []
            for known in tried:
                unknown = own - known.keys()
                for place in self.data:
                    if _alike(r, place):
                        pairs = [(moved(a, known), b) for a, b in zip(r.at, place.at, strict=True)]  # type: ignore[attr-defined]
                        found = solve(pairs, unknown)
                        if found is not None and found[0] and all(not names_in(a) & own for a in found[0].values()):
                            more.append({**known, **found[0]})
            tried += more[:_INSTANCES]
        here = [trees.name(x) for x in self.names if is_index(x)]
        here += [Affine(((place, 1),)) for place in self.data if isinstance(place, Element)]
        for known in reversed(tried):
            missing = [i for i in own if i not in known]
            for values in islice(product(here, repeat=len(missing)), _INSTANCES if not known else 8):
                at = {**known, **dict(zip(missing, values, strict=True))}
                yield All((*(within(at[i], moved(n, at)) for i, n in names), renamed(body, at)))

    def _consistent(self) -> Iterator[tuple[str, str]]:
        places = [x for x in self.data if isinstance(x, Element | Holds)]
        for a, b in combinations(places, 2):
            if _alike(a, b):
                pairs = zip(a.at, b.at, strict=True)
                try:
                    same = " and ".join(f"{self._affine(x, {})} = {self._affine(y, {})}" for x, y in pairs)
                except Hidden:
                    continue
                yield same or "0 = 0", f"{self.data[a]} = {self.data[b]}"

    # ---- text

    def _formula(self, p: Pred, bound: Mapping[str, str]) -> str:
        match p:
            case Compare(equal, a):
                return " and ".join((f"{self._affine(a, bound)} {'=' if equal else '>='} 0", *self._chosen([a])))
            case Holds(relation, at):
                if any(names_in(a) & bound.keys() for a in at):
                    raise Hidden
                if len(self.facts.relations.get(relation, ())) != len(at):
                    raise Refused(f"{relation} is no relation of {len(at)} indices")
                sizes = self.facts.relations[relation]
                inside = (self._formula(within(a, n), bound) for a, n in zip(at, sizes, strict=True))
                return " and ".join((f"{self._place(p)} = 1", *inside, *self._chosen(at)))
            case All(parts):
                return " and ".join(f"({self._formula(part, bound)})" for part in parts) or "0 = 0"
            case trees.Any(parts):
                return " or ".join(f"({self._formula(part, bound)})" for part in parts) or "0 = 1"
            case Exists(i, size, body):
                own = f"e{len(bound)}"
                try:
                    inner = self._formula(body, {**bound, i: own})
                    return f"exists ({own} : 0 <= {own} < {self._affine(size, bound)} and ({inner}))"
                except Hidden:
                    if bound:
                        raise
                    return f"{self._place(told(p, {}))} = 1"

    def _affine(self, a: Affine, bound: Mapping[str, str]) -> str:
        parts = [str(a.constant)]
        for atom, k in a.terms:
            if isinstance(atom, Element):
                if names_in_atom(atom) & bound.keys():
                    raise Hidden
                parts.append(f"{k} * {self._element(atom)}")
            else:
                parts.append(f"{k} * {bound.get(atom) or self._name(atom)}")
        return "(" + " + ".join(parts) + ")"

    def _chosen(self, read: Iterable[Affine]) -> Iterator[str]:
        """That those chosen indices exist that may be chosen among none."""
        for a in read:
            for atom in _elements(a):
                if atom.array in self.facts.optional:
                    yield self._in_range(atom)

    def _in_range(self, atom: Element) -> str:
        return f"0 <= {self._element(atom)} < {self._affine(self._size(atom), {})}"

    def _size(self, atom: Element) -> Affine:
        params, size = self.facts.arrays[atom.array]
        return moved(size, dict(zip(params, atom.at, strict=True)) if params else {})

    def _name(self, x: str) -> str:
        if x not in self.names:
            if self.most < _MOST_DIMS:
                raise Hidden
            self.names[x] = f"v{len(self.names)}"
        return self.names[x]

    def _place(self, key: object) -> str:
        if key not in self.data:
            if len(self.data) >= self.most:
                raise Hidden
            self.data[key] = f"d{len(self.data)}"
            self.around.append(f"0 <= {self.data[key]} <= 1")
        return self.data[key]

    def _element(self, atom: Element) -> str:
        if atom not in self.data:
            if len(self.data) >= self.most:
                raise Hidden
            if atom.array not in self.facts.arrays:
                raise Refused(f"{atom.array} is no index array")
            own = self.data[atom] = f"d{len(self.data)}"
            size = self._size(atom)
            n = self._affine(size, {})
            if atom.array not in self.facts.optional:
                self.around.append(f"0 <= {own} < {n}" if positive(size) else f"({n} < 1 or 0 <= {own} < {n})")
        return self.data[atom]


def _alike(a: object, b: object) -> bool:
    match a, b:
        case (Element(x, at), Element(y, other)) | (Holds(x, at), Holds(y, other)):
            return x == y and len(at) == len(other)
    return False


@cache
def _opened(p: Exists) -> tuple[Pred, tuple[tuple[str, Affine], ...]]:
    """The body of an `exists` and of those in it, and the indices that they bind, each with a name of its own."""
    found: list[tuple[str, Affine]] = []
    parts: list[Pred] = []
    waiting: list[Pred] = [p]
    while waiting:
        q = waiting.pop(0)
        if isinstance(q, Exists):
            own = fresh("%")
            found.append((own, q.size))
            waiting += fine(renamed(q.body, {q.index: trees.name(own)}))
        else:
            parts.append(q)
    return All(tuple(parts)), tuple(found)


@cache
def places(p: Pred) -> tuple[Element | Holds, ...]:
    """The places of data in `p`."""
    match p:
        case Compare(_, a):
            return _elements(a)
        case Holds(_, at):
            return (p, *(e for a in at for e in _elements(a)))
        case Exists(_, _, body):
            return places(body)
        case _:
            return tuple(place for part in p.parts for place in places(part))


def _elements(a: Affine) -> tuple[Element, ...]:
    return tuple(
        e
        for atom, _ in a.terms
        if isinstance(atom, Element)
        for e in (atom, *(x for b in atom.at for x in _elements(b)))
    )


def _free(place: Element | Holds) -> frozenset[str]:
    return names_of(place.at)


def has_data(p: Pred) -> bool:
    """Whether `p` reads relations or index arrays."""
    return bool(places(p))


def conjunction(parts: Parts) -> Pred:
    """All of these."""
    return parts[0] if len(parts) == 1 else All(tuple(parts)) if parts else TRUE
