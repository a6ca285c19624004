"""Questions about integer sets, decided by isl for all sizes, and whatever the data of relations and index arrays.

A relation at some place, and an element of an index array, is a dimension of its own of which nothing is known but its
range: what isl then says is so for all data. If it can't say so, the sets are compared point by point at small sizes
with random data, and the answer says that this was all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, product
from typing import Any

import islpy

from proofs.checker import trees
from proofs.checker.semantics import Semantics, fine, names_in
from proofs.checker.trees import (
    TRUE,
    Affine,
    All,
    Atom,
    Compare,
    Element,
    Exists,
    Holds,
    Pred,
    Refused,
    affine,
    number,
)

Ranges = Sequence[tuple[str, Affine]]
"""Indices with their sizes."""

FOR_ALL = "for all sizes"
AT_SMALL = "at small sizes"
_SMALL = 3
_POINTS = 20_000


@dataclass(frozen=True)
class Data:
    """What is known of the data: the sizes of each relation, and of each index array with the size of its elements."""

    relations: Mapping[str, tuple[Affine, ...]]
    arrays: Mapping[str, tuple[tuple[Affine, ...], Affine]]


def renamed(p: Pred, names: Mapping[str, Affine]) -> Pred:
    """`p` with index expressions in the places of some names; what `p` binds is named anew, so nothing is captured."""
    match p:
        case Compare(equal, a):
            return Compare(equal, moved(a, names))
        case Holds(relation, at):
            return Holds(relation, tuple(moved(a, names) for a in at))
        case Exists(i, size, body):
            fresh = f"%{next(_fresh)}"
            return Exists(fresh, moved(size, names), renamed(body, {**names, i: trees.name(fresh)}))
        case _:
            return replace(p, parts=tuple(renamed(part, names) for part in p.parts))


_fresh = count()


def moved(a: Affine, names: Mapping[str, Affine]) -> Affine:
    """`a` with index expressions in the places of some names."""
    result = number(a.constant)
    for atom, k in a.terms:
        if isinstance(atom, Element):
            term = Affine(((Element(atom.array, tuple(moved(b, names) for b in atom.at)), 1),))
        else:
            term = names.get(atom, Affine(((atom, 1),)))
        result = result + term.times(k)
    return result


def within(a: Affine, size: Affine) -> Pred:
    """0 <= a < size."""
    return All((Compare(False, a), Compare(False, size - a + number(-1))))


class Sets:
    """Decides questions about predicates over the data of one certificate."""

    def __init__(self, data: Data) -> None:
        self.data = data

    def equal(self, p: Pred, q: Pred, ranges: Ranges, what: str) -> str:
        """How `p` and `q` were found to hold at the same points of `ranges`. Raises `Refused` if they don't."""
        return self._decided(p, q, ranges, what, both=True)

    def subset(self, p: Pred, q: Pred, ranges: Ranges, what: str) -> str:
        """How every point of `p` was found to be in `q`. Raises `Refused` if it isn't."""
        return self._decided(p, q, ranges, what, both=False)

    def empty(self, p: Pred, ranges: Ranges) -> bool:
        """Whether `p` has no points in `ranges`, whatever the data."""
        question = _Question(self.data, ranges)
        return bool(question.set(p).is_empty())

    def _decided(self, p: Pred, q: Pred, ranges: Ranges, what: str, both: bool) -> str:
        question = _Question(self.data, ranges)
        p, q = settled(p), settled(q)
        question.meet(p)
        question.meet(q)
        first, second = question.set(p), question.set(q)
        if first.is_subset(second) and (not both or second.is_subset(first)):
            return FOR_ALL
        if question.data_dims:
            self._compared(p, q, ranges, what, both)
            return AT_SMALL
        raise Refused(f"{what}: the sets differ")

    def _compared(self, p: Pred, q: Pred, ranges: Ranges, what: str, both: bool) -> None:
        """Compare two predicates point by point. Raises `Refused` where they differ."""
        asked = All((p, q, *(within(trees.name(i), n) for i, n in ranges)))
        sizes = sorted(names_in(asked) - {i for i, _ in ranges} - set(self.data.relations) - set(self.data.arrays))
        meaning = Semantics({})
        looked = 0
        for values in product(range(1, _SMALL + 1), repeat=len(sizes)):
            rng = random.Random(str(values))
            env: dict[str, Any] = dict(zip(sizes, values, strict=True))
            env.update(self.draw(env, rng))
            for at in meaning.points(ranges, TRUE, env):
                first, second = meaning.holds(p, at), meaning.holds(q, at)
                if first > second or (both and first != second):
                    raise Refused(f"{what}: the sets differ at {values}")
                looked += 1
            if looked > _POINTS:
                return

    def draw(self, sizes: Mapping[str, int], rng: random.Random) -> dict[str, Any]:
        """Random data at some sizes: sets of points and nested lists of indices; what needs other sizes is left out."""
        meaning = Semantics({})
        env: dict[str, Any] = {}
        density = rng.choice((0.2, 0.5, 0.9))
        for relation, dims in self.data.relations.items():
            if all(names_in(a) <= sizes.keys() for a in dims):
                places = product(*(range(meaning.index(a, sizes)) for a in dims))
                env[relation] = {at for at in places if rng.random() < density}
        for array, (dims, size) in self.data.arrays.items():
            if all(names_in(a) <= sizes.keys() for a in (*dims, size)):
                bounds = [meaning.index(a, sizes) for a in dims]
                env[array] = _indices(bounds, meaning.index(size, sizes), rng)
        return env


def _indices(bounds: list[int], size: int, rng: random.Random) -> Any:
    if bounds:
        return [_indices(bounds[1:], size, rng) for _ in range(bounds[0])]
    return rng.randrange(size) if size > 0 else 0


def settled(p: Pred) -> Pred:
    """`p` without those bound indices that an equality determines, and places of data said in the same way where
    equalities make them the same."""
    match p:
        case Exists(i, size, body):
            return _without(i, size, settled(body))
        case All():
            parts = [part for q in map(settled, p.parts) for part in fine(q)]
            return All(tuple(_normal_places(parts)))
        case trees.Any(parts):
            return trees.Any(tuple(map(settled, parts)))
    return p


def _without(i: str, size: Affine, body: Pred) -> Pred:
    if isinstance(body, trees.Any):
        return trees.Any(tuple(_without(i, size, part) for part in body.parts))
    parts = fine(body)
    if not any(i in names_in(part) for part in parts):
        return All((Compare(False, size + number(-1)), *parts))
    for part in parts:
        value = _solved(part, i)
        if value is not None:
            rest = All((within(value, size), *(q for q in parts if q is not part)))
            return settled(renamed(rest, {i: value}))
    outside = [part for part in parts if i not in names_in(part)]
    inside = [part for part in parts if i in names_in(part)]
    return All((*outside, Exists(i, size, All(tuple(inside)))))


def _solved(part: Pred, i: str) -> Affine | None:
    """What the equality `part` says that `i` is."""
    if not isinstance(part, Compare) or not part.equal:
        return None
    for atom, k in part.value.terms:
        if atom == i and abs(k) == 1:
            rest = part.value - Affine(((atom, k),))
            return None if i in names_in(rest) else rest.times(-k)
    return None


def _normal_places(parts: list[Pred]) -> Iterator[Pred]:
    """The parts of a conjunction, in whose places of data each index is written by those of lower name."""
    values: dict[str, Affine] = {}
    for part in parts:
        if isinstance(part, Compare) and part.equal:
            a = moved(part.value, values)
            own = [(atom, k) for atom, k in a.terms if isinstance(atom, str) and abs(k) == 1]
            for atom, k in reversed(own):
                rest = a - Affine(((atom, k),))
                if atom not in names_in(rest):
                    solved = {atom: rest.times(-k)}
                    values = {x: moved(b, solved) for x, b in values.items()} | solved
                    break
    for part in parts:
        yield _placed(part, values)


def _placed(p: Pred, values: Mapping[str, Affine]) -> Pred:
    match p:
        case Compare(equal, a):
            terms = [(_placed_atom(atom, values), k) for atom, k in a.terms]
            return Compare(equal, affine(terms, a.constant))
        case Holds(relation, at):
            return Holds(relation, tuple(moved(a, values) for a in at))
        case Exists(i, size, body):
            return Exists(i, size, _placed(body, {x: a for x, a in values.items() if i not in names_in(a)}))
        case _:
            return replace(p, parts=tuple(_placed(part, values) for part in p.parts))


def _placed_atom(atom: Atom, values: Mapping[str, Affine]) -> Atom:
    if isinstance(atom, Element):
        return Element(atom.array, tuple(moved(a, values) for a in atom.at))
    return atom


class _Question:
    """One space for some predicates: their sizes, indices, and a dimension for each place of data."""

    def __init__(self, data: Data, ranges: Ranges) -> None:
        self.data = data
        self.ranges = ranges
        self.dims = {i: f"x{k}" for k, (i, _) in enumerate(ranges)}
        self.sizes: dict[str, str] = {}
        self.data_dims: dict[object, str] = {}
        self.around: list[str] = []
        for i, n in ranges:
            self.around.append(f"0 <= {self.dims[i]} < {self._affine(n, {})}")

    def meet(self, p: Pred) -> None:
        """Make a dimension for each place of data in `p`."""
        self._formula(p, {})

    def set(self, p: Pred) -> Any:
        """The points of `p` in the ranges."""
        formula = self._formula(p, {})
        parameters = ", ".join(self.sizes.values())
        dims = ", ".join((*self.dims.values(), *self.data_dims.values()))
        conditions = " and ".join([f"({formula})", *self.around, *(f"{n} >= 0" for n in self.sizes.values())])
        return islpy.Set(f"[{parameters}] -> {{ [{dims}] : {conditions} }}")

    def _formula(self, p: Pred, bound: Mapping[str, str]) -> str:
        match p:
            case Compare(equal, a):
                return f"{self._affine(a, bound)} {'=' if equal else '>='} 0"
            case Holds(relation, at):
                if any(names_in(a) & bound.keys() for a in at):
                    raise _Hidden
                inside = [
                    self._formula(within(a, n), bound) for a, n in zip(at, self.data.relations[relation], strict=True)
                ]
                return " and ".join([f"{self._place(p)} = 1", *inside])
            case All(parts):
                return " and ".join(f"({self._formula(part, bound)})" for part in parts) or "0 = 0"
            case trees.Any(parts):
                return " or ".join(f"({self._formula(part, bound)})" for part in parts) or "0 = 1"
            case Exists(i, size, body):
                own = f"e{len(bound)}"
                inner = {**bound, i: own}
                try:
                    return (
                        f"exists ({own} : 0 <= {own} < {self._affine(size, bound)} and ({self._formula(body, inner)}))"
                    )
                except _Hidden:
                    if bound:
                        raise
                    return f"{self._place(_told(p, {}))} = 1"

    def _affine(self, a: Affine, bound: Mapping[str, str]) -> str:
        parts = [str(a.constant)]
        for atom, k in a.terms:
            if isinstance(atom, Element):
                if names_in(Affine(((atom, 1),))) & bound.keys():
                    raise _Hidden
                parts.append(f"{k} * {self._element(atom)}")
            elif atom in bound or atom in self.dims:
                parts.append(f"{k} * {bound.get(atom) or self.dims[atom]}")
            else:
                parts.append(f"{k} * {self.sizes.setdefault(atom, f'n{len(self.sizes)}')}")
        return "(" + " + ".join(parts) + ")"

    def _place(self, key: object) -> str:
        if key not in self.data_dims:
            self.data_dims[key] = f"d{len(self.data_dims)}"
            self.around.append(f"0 <= {self.data_dims[key]} <= 1")
        return self.data_dims[key]

    def _element(self, atom: Element) -> str:
        if atom not in self.data_dims:
            own = self.data_dims[atom] = f"d{len(self.data_dims)}"
            self.around.append(f"0 <= {own} < {self._affine(self.data.arrays[atom.array][1], {})}")
        return self.data_dims[atom]


class _Hidden(Exception):
    """Data at a place that an `exists` binds: the whole `exists` is one dimension."""


@cache
def _depth_name(k: int) -> Affine:
    return trees.name(f"@{k}")


def _told(p: Pred, names: Mapping[str, Affine]) -> Pred:
    """`p` with what it binds named by how deep it is bound, and the parts of conjunctions in one order."""
    match p:
        case Exists(i, size, body):
            own = _depth_name(len(names))
            ((atom, _),) = own.terms
            assert isinstance(atom, str)
            return Exists(atom, moved(size, names), _told(body, {**names, i: own}))
        case All() | trees.Any():
            return replace(p, parts=tuple(sorted((_told(part, names) for part in p.parts), key=repr)))
        case Compare(equal, a):
            return Compare(equal, moved(a, names))
        case Holds(relation, at):
            return Holds(relation, tuple(moved(a, names) for a in at))
