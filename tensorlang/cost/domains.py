"""Domains: the points at which something is charged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from tensorlang.interning import Interned, shared
from tensorlang.language.affine import Affine, Index, atom_affine, canonical
from tensorlang.language.grid import indices_of
from tensorlang.language.predicates import TRUE, NonNegative, Predicate, conjunction, conjuncts, substitute


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Domain(metaclass=Interned):
    """The points of the ranges of some indices, given with their sizes, at which `pred` is true."""

    binders: tuple[tuple[Index, Affine], ...]
    pred: Predicate

    def under(self, p: Predicate) -> Domain:
        """The points at which `p` is true too."""
        return self if p is TRUE else Domain(self.binders, _both(self.pred, p))

    def over(self, *binders: tuple[Index, Affine]) -> Domain:
        """The points of more indices; an outer one that is bound again is renamed."""
        hidden = {i: Index(i.name) for i, _ in self.binders if any(i is j for j, _ in binders)}
        if not hidden:
            return Domain((*self.binders, *binders), self.pred)
        outer = tuple((hidden.get(i, i), n) for i, n in self.binders)
        return Domain((*outer, *binders), substitute(self.pred, {i: atom_affine(j) for i, j in hidden.items()}))


EVERYWHERE = Domain((), TRUE)
Charges = dict[Domain, int]


def _both(p: Predicate, q: Predicate) -> Predicate:
    """p and q. Of bounds on the same terms only the tightest stays, so that shared parts reached under many
    combinations of brackets are reached on few domains."""
    parts: dict[object, Predicate] = {}
    for part in conjuncts(conjunction([p, q])):
        key: object = part
        if isinstance(part, NonNegative):
            key = part.value.terms
            known = parts.get(key)
            if isinstance(known, NonNegative) and known.value.constant <= part.value.constant:
                continue
        parts[key] = part
    return conjunction(parts.values())


def factors(parts: Iterable[Predicate]) -> list[tuple[tuple[Index, ...], list[Predicate]]]:
    """The conjuncts in groups that share no index, each group with its indices."""
    parts = tuple(parts)
    leader: dict[Index, Index] = {}

    def find(i: Index) -> Index:
        while leader.setdefault(i, i) is not i:
            leader[i] = i = leader[leader[i]]
        return i

    for p in parts:
        for i in indices_of(p):
            leader[find(i)] = find(indices_of(p)[0])
    groups: dict[Index | None, list[Predicate]] = {}
    for p in parts:
        groups.setdefault(find(indices_of(p)[0]) if indices_of(p) else None, []).append(p)
    return [(tuple(i for i in leader if find(i) is first), group) for first, group in groups.items()]


@cache
@shared
def place(k: int) -> Index:
    """A name for the k-th index of a domain, so that equal domains of different programs are counted once."""
    return canonical(f"i{k}")
