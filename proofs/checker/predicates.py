"""Predicates: renaming, and one form for all that read the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count

from . import trees
from .semantics import fine, names_in
from .trees import (
    Affine,
    All,
    Atom,
    Compare,
    Element,
    Exists,
    Holds,
    Pred,
    affine,
    number,
)


def renamed(p: Pred, names: Mapping[str, Affine]) -> Pred:
    """`p` with index expressions substituted for some names; bound indices are renamed, so nothing is captured."""
    match p:
        case Compare(equal, a):
            return Compare(equal, moved(a, names))
        case Holds(relation, at):
            return Holds(relation, tuple(moved(a, names) for a in at))
        case Exists(i, size, body):
            fresh = f"%{next(_fresh):07}"
            return Exists(fresh, moved(size, names), renamed(body, {**names, i: trees.name(fresh)}))
        case _:
            return replace(p, parts=tuple(renamed(part, names) for part in p.parts))


_fresh = count()


def moved(a: Affine, names: Mapping[str, Affine]) -> Affine:
    """`a` with index expressions substituted for some names."""
    if not any(isinstance(atom, Element) or atom in names for atom, _ in a.terms):
        return a
    terms: list[tuple[Atom, int]] = []
    constant = a.constant
    for atom, k in a.terms:
        if isinstance(atom, Element):
            terms.append((Element(atom.array, tuple(moved(b, names) for b in atom.at)), k))
        elif atom in names:
            value = names[atom]
            terms += [(inner, k * c) for inner, c in value.terms]
            constant += k * value.constant
        else:
            terms.append((atom, k))
    return affine(terms, constant)


def affines(p: Pred) -> Iterator[Affine]:
    """The index expressions in `p`."""
    match p:
        case Compare(_, a):
            yield a
        case Holds(_, at):
            yield from at
        case Exists(_, size, body):
            yield size
            yield from affines(body)
        case _:
            for part in p.parts:
                yield from affines(part)


def changed(p: Pred, change: Callable[[Affine], Affine]) -> Pred:
    """`p` with `change` applied to its index expressions; its bound indices keep their names."""
    match p:
        case Compare(equal, a):
            return Compare(equal, change(a))
        case Holds(relation, at):
            return Holds(relation, tuple(map(change, at)))
        case Exists(i, size, body):
            return Exists(i, change(size), changed(body, change))
        case _:
            return replace(p, parts=tuple(changed(part, change) for part in p.parts))


def without_elements(a: Affine, values: Mapping[Element, Affine]) -> Affine:
    """`a` with index expressions substituted for some elements of index arrays."""
    if not any(isinstance(atom, Element) for atom, _ in a.terms):
        return a
    terms: list[tuple[Atom, int]] = []
    constant = a.constant
    for atom, k in a.terms:
        if not isinstance(atom, Element):
            terms.append((atom, k))
        elif atom in values:
            terms += [(inner, k * c) for inner, c in values[atom].terms]
            constant += k * values[atom].constant
        else:
            terms.append((Element(atom.array, tuple(without_elements(b, values) for b in atom.at)), k))
    return affine(terms, constant)


def within(a: Affine, size: Affine) -> Pred:
    """0 <= a < size."""
    return All((Compare(False, a), Compare(False, size - a + number(-1))))


def settled(p: Pred) -> Pred:
    """`p` without the bound indices that an equality determines, and with places of data written in the same way where
    equalities make them equal."""
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
    for q in parts:  # by indices that are bound further in
        if not isinstance(q, Exists) or i not in names_in(q):
            continue
        chain, inner = _chain([renamed(q, {})])
        if any(i in names_in(p.size) for p in chain):
            continue
        for part in inner:
            value = _solved(part, i)
            if value is not None:
                others = (*(p for p in inner if p is not part), *(p for p in parts if p is not q))
                found: Pred = All((within(value, size), *(renamed(p, {i: value}) for p in others)))
                for p in reversed(chain):
                    found = Exists(p.index, p.size, found)
                return settled(found)
    outside = [part for part in parts if i not in names_in(part)]
    inside = [part for part in parts if i in names_in(part)]
    if outside:  # the rest may be one `exists`
        return All((*outside, *fine(_without(i, size, All(tuple(inside))))))
    return All((*outside, Exists(i, size, All(tuple(inside)))))


def _chain(parts: Sequence[Pred]) -> tuple[list[Exists], Sequence[Pred]]:
    """The directly nested `exists` of `parts`, if `parts` are one `exists`, and the parts in the innermost."""
    chain: list[Exists] = []
    while len(parts) == 1 and isinstance(parts[0], Exists):
        chain.append(parts[0])
        parts = fine(parts[0].body)
    return chain, parts


def _solved(part: Pred, i: str) -> Affine | None:
    """The value of `i` by the equality `part`."""
    if not isinstance(part, Compare) or not part.equal:
        return None
    for atom, k in part.value.terms:
        if atom == i and abs(k) == 1:
            rest = part.value - Affine(((atom, k),))
            return None if i in names_in(rest) else rest.times(-k)
    return None


def _normal_places(parts: list[Pred]) -> Iterator[Pred]:
    """The parts of a conjunction, where places of data express each index by indices of lower name."""
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


@cache
def _depth_name(k: int) -> Affine:
    return trees.name(f"@{k}")


def told(p: Pred, names: Mapping[str, Affine]) -> Pred:
    """`p` with bound indices named by their depth, and the parts of conjunctions in a fixed order."""
    match p:
        case Exists(i, size, body):
            own = _depth_name(len(names))
            ((atom, _),) = own.terms
            assert isinstance(atom, str)
            return Exists(atom, moved(size, names), told(body, {**names, i: own}))
        case All() | trees.Any():
            return replace(p, parts=tuple(sorted((told(part, names) for part in p.parts), key=repr)))
        case Compare(equal, a):
            return Compare(equal, moved(a, names))
        case Holds(relation, at):
            return Holds(relation, tuple(moved(a, names) for a in at))
