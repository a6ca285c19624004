"""Claims about a place in a program, as they move outward through the binders and brackets around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant
from tensorlang.language.grammar import Access, Choice, Extremum, Recur
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
    less,
    lookups,
    not_equal,
    substitute,
    within,
)
from tensorlang.sets.isl import implies, is_empty, obvious


@dataclass(frozen=True, eq=False)
class Claim:
    """`needs` are the predicates about `subject` that are not yet proved from `conditions`, those around it so far.

    The subject is an access at `at`, which must be less than `size`, an extremum or a choice, which needs a point, or a
    recurrence, whose number of steps must not be negative. `binders` are those passed on the way, the innermost first;
    the indices in `open` are still to be bound.
    """

    subject: Access | Extremum | Choice | Recur
    at: Affine
    size: Affine
    needs: tuple[Predicate, ...]
    conditions: tuple[Predicate, ...] = ()
    binders: tuple[tuple[Index, Affine], ...] = ()
    open: frozenset[Index] = frozenset()

    def under(self, p: Predicate) -> Claim:
        """The claim with one more condition around it."""
        indices = indices_of(p)
        claim = self._apart(indices)
        parts = tuple(q for q in conjuncts(p) if q not in claim.conditions)
        needs = tuple(q for q in claim.needs if not obvious(parts, q))
        return replace(claim, needs=needs, conditions=claim.conditions + parts, open=claim.open | indices)

    def bound(self, index: Index, size: Affine) -> Claim:
        """The claim with one more binder around it."""
        closes = index in self.open
        claim = self.under(within(atom_affine(index), size))
        claim = replace(claim, binders=(*claim.binders, (index, size)), open=claim.open - {index})
        return claim.proved() if claim.needs and closes and not claim.open else claim

    def chosen(self, guard: Predicate, p: Predicate) -> Claim:
        """The claim under `p`, which follows from `guard`, if the conditions imply `guard`; else the claim itself."""
        return self.under(p) if guard is TRUE or implies(conjunction(self.conditions), guard) else self

    def lookups(self) -> tuple[Lookup, ...]:
        """The elements of index arrays that the claim mentions."""
        found = dict.fromkeys(self.at.lookups)
        for p in (*self.needs, *self.conditions):
            found.update(dict.fromkeys(lookups(p)))
        return tuple(found)

    def proved(self) -> Claim:
        """The claim without those needs that its conditions prove, the ranges of its binders first."""
        sizes = dict(self.binders)
        needs = tuple(q for q in self.needs if not obvious((), _in_the_corner(q, sizes)))
        if not needs:
            return replace(self, needs=needs)
        near = _connected(self.conditions, needs)
        needs = tuple(q for q in needs if not is_empty(failure(q), near))
        if needs and (every := self.surroundings()) is not near:
            needs = tuple(q for q in needs if not is_empty(failure(q), every))
        return replace(self, needs=needs)

    def surroundings(self) -> Predicate:
        """All conditions, with 0 <= i < n replaced by n >= 1 for each index i that nothing else mentions."""
        ranges = {p: i for i, n in self.binders for p in conjuncts(within(atom_affine(i), n))}
        needed = {i for p in (*self.needs, *self.conditions) if p not in ranges for i in indices_of(p)}
        present = [less(constant(0), n) for i, n in self.binders if i not in needed]
        return conjunction([*(p for p in self.conditions if p not in ranges or ranges[p] in needed), *present])

    def _apart(self, indices: set[Index]) -> Claim:
        """The claim with its bound indices renamed if they are among `indices`, which are bound further out."""
        clash: dict[Atom, Affine] = {i: atom_affine(Index(i.name)) for i, _ in self.binders if i in indices}
        if not clash:
            return self
        return replace(
            self,
            at=self.at.substitute(clash),
            needs=tuple(substitute(q, clash) for q in self.needs),
            conditions=tuple(substitute(q, clash) for q in self.conditions),
            binders=tuple((clash[i].indices[0] if i in clash else i, n) for i, n in self.binders),
        )


def failure(need: Predicate) -> Predicate:
    """Where `need` does not hold."""
    match need:
        case NonNegative(a):
            return at_most(a, constant(-1))
        case Equal(a):
            return not_equal(a, constant(0))
        case _:
            return TRUE


def indices_of(p: Predicate) -> set[Index]:
    """The free indices of `p`."""
    return {a for a in free_atoms(p) if isinstance(a, Index)}


def _in_the_corner(need: Predicate, sizes: Mapping[Index, Affine]) -> Predicate:
    """`need` with each index at the end of its range that makes it strongest: this implies `need`."""
    if not isinstance(need, NonNegative):
        return need
    ends: dict[Atom, Affine] = {}
    for atom, k in need.value.terms:
        size = atom.array.size if isinstance(atom, Lookup) else sizes.get(atom) if isinstance(atom, Index) else None
        if size is not None:
            ends[atom] = constant(0) if k > 0 else size - 1
    return at_most(constant(0), need.value.substitute(ends))


def _connected(conditions: Iterable[Predicate], needs: Iterable[Predicate]) -> Predicate:
    """Those of `conditions` that are on sizes alone or connected, directly or through others, to indices in `needs`."""
    mentions: dict[Index, list[Predicate]] = {}
    kept: dict[Predicate, None] = {}
    for p in conditions:
        indices = indices_of(p)
        if not indices:
            kept[p] = None
        for i in indices:
            mentions.setdefault(i, []).append(p)
    stack = [i for q in needs for i in indices_of(q)]
    while stack:
        for p in mentions.pop(stack.pop(), ()):
            if p not in kept:
                kept[p] = None
                stack += indices_of(p)
    return conjunction(kept)
