"""Domains: the points at which something is charged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice, permutations, product

from tensorlang.interning import interned, shared
from tensorlang.language.affine import Affine, Atom, Index, atom_affine, canonical
from tensorlang.language.grid import indices_of
from tensorlang.language.predicates import TRUE, NonNegative, Predicate, conjunction, conjuncts, substitute


@interned
class Domain:
    """The points of the ranges of some indices, given with their sizes, at which `pred` is true."""

    binders: tuple[tuple[Index, Affine], ...]
    pred: Predicate

    def under(self, p: Predicate) -> Domain:
        """The points at which `p` is true too."""
        return self if p is TRUE else Domain(self.binders, _both(self.pred, p))

    def over(self, *binders: tuple[Index, Affine]) -> Domain:
        """The points over more indices; an outer index that is bound again is renamed."""
        hidden = {i: Index(i.name) for i, _ in self.binders if any(i is j for j, _ in binders)}
        if not hidden:
            return Domain((*self.binders, *binders), self.pred)
        outer = tuple((hidden.get(i, i), n) for i, n in self.binders)
        return Domain((*outer, *binders), substitute(self.pred, {i: atom_affine(j) for i, j in hidden.items()}))


EVERYWHERE = Domain((), TRUE)
Charges = dict[Domain, int]


def _both(p: Predicate, q: Predicate) -> Predicate:
    """p and q, with only the tightest of several bounds on the same terms, so that shared parts which are reached under
    many combinations of brackets are reached on few domains."""
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
    """Groups of conjuncts that share no index, each with its indices."""
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


_MOST_ORDERS = 24


def in_one_order(ranges: Mapping[Index, Affine], p: Predicate) -> Domain:
    """The points of the ranges at which `p` is true, as a domain that does not depend on the order of the indices,
    unless too many orders are symmetric."""
    found = [_in_order(order, ranges, p) for order in _orders(ranges, p)]
    return min(found, key=repr) if len(found) > 1 else found[0]


def _in_order(order: tuple[Index, ...], ranges: Mapping[Index, Affine], p: Predicate) -> Domain:
    """The points of `p`, with indices named by their places in `order`."""
    names: dict[Atom, Affine] = {i: atom_affine(place(k)) for k, i in enumerate(order)}
    parts = sorted(conjuncts(substitute(p, names)), key=repr)
    return Domain(tuple((place(k), ranges[i]) for k, i in enumerate(order)), conjunction(parts))


def _orders(ranges: Mapping[Index, Affine], p: Predicate) -> Iterator[tuple[Index, ...]]:
    """Orders of the indices that don't depend on their names: sorted by their occurrences in `p`, and indices with the
    same occurrences in every order."""
    kinds = dict.fromkeys(ranges, 0)
    for _ in ranges:
        texts = {i: (kinds[i], repr(n), _said_of(i, kinds, p)) for i, n in ranges.items()}
        numbers = {text: k for k, text in enumerate(sorted(set(texts.values())))}
        finer = {i: numbers[text] for i, text in texts.items()}
        if len(numbers) == len(set(kinds.values())):
            break
        kinds = finer
        if len(numbers) == len(ranges):
            break
    same = [[i for i in ranges if kinds[i] == k] for k in sorted(set(kinds.values()))]
    orders = product(*(islice(permutations(group), _MOST_ORDERS) for group in same))  # product() lists it all
    return (tuple(i for group in order for i in group) for order in islice(orders, _MOST_ORDERS))


def _said_of(i: Index, kinds: Mapping[Index, int], p: Predicate) -> tuple[str, ...]:
    """The parts of `p` that mention `i`, with other indices named by their kinds."""
    names: dict[Atom, Affine] = {j: atom_affine(place(k + 1)) for j, k in kinds.items()}
    names[i] = atom_affine(place(0))
    return tuple(sorted(repr(substitute(q, names)) for q in conjuncts(p) if i in indices_of(q)))
