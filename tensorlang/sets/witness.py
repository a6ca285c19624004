"""Witnesses: existential conditions on relations and index arrays that follow from a read that is already known.

    0 <= p < e and b[p] = i    implies    exists k:e. b[k] = i           by k = p
    E(i, j)                    implies    exists k:m. E(i, k)            by k = j

Integer sets know nothing about data. So where data determine whether there is a point, candidates are taken from other
places at which the same array or relation is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, canonical
from tensorlang.language.predicates import (
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    conjunction,
    conjuncts,
    equal,
    exists,
    free_atoms,
    lookups,
    substitute,
    within,
)
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run

_MOST_INSTANCES = 16

_Read = tuple[IndexArray | Relation, tuple[Affine, ...]]
"""An index array or a relation, and the place at which it is read."""


def opened(p: Predicate, name: str = "some") -> tuple[list[Index], list[Predicate]]:
    """The conjuncts of `p` with outer `exists` removed, and the indices that these bound, as fresh ones with that name.

    The result has a point if and only if `p` has one.
    """
    taken = free_atoms(p)
    places = (i for i in map(partial(canonical, name), count()) if i not in taken)
    found: list[Index] = []
    parts: list[Predicate] = []
    stack = list(reversed(conjuncts(p)))
    while stack:
        q = stack.pop()
        if isinstance(q, Exists):
            some = next(places)
            found.append(some)
            stack += reversed(conjuncts(substitute(q.body, {q.index: atom_affine(some)})))
            stack.append(within(atom_affine(some), q.size))
        elif isinstance(q, And):
            stack += reversed(q.parts)
        else:
            parts.append(q)
    return found, list(conjuncts(conjunction(parts)))


def with_elements_known(parts: Sequence[Predicate], whole: bool = False) -> list[Predicate]:
    """a[k] = i and p is a[k] = i and [a[k] := i] p: elements are replaced by their values in the other parts.

    Comparisons, which say where factors are read, stay as they are unless `whole` is true.
    """
    parts = list(parts)
    for own in range(len(parts)):
        part = parts[own]
        elements = [x for x in part.difference.terms if isinstance(x[0], Lookup)] if isinstance(part, Equal) else []
        if isinstance(part, Equal) and len(elements) == 1 and abs(elements[0][1]) == 1:
            ((element, k),) = elements
            values: dict[Atom, Affine] = {element: atom_affine(element) - part.difference * k}
            kept = (Equal, NonNegative) if not whole else ()
            parts = [q if at == own or isinstance(q, kept) else substitute(q, values) for at, q in enumerate(parts)]
    return list(conjuncts(conjunction(parts)))


def instances(q: Exists, facts: Predicate) -> Iterator[Predicate]:
    """Predicates that each imply `q`: its body at a candidate value of one index, the first bound one with candidates.

    A candidate makes some read in the body equal to a read in `facts`, or to a read in `q` without the index.
    """
    for turned in _turned(q):
        values = _values(turned, facts)
        if values:
            for value in values:
                body = substitute(turned.body, {turned.index: value})
                yield conjunction([within(value, turned.size), body])
            return


def _turned(q: Exists) -> Iterator[Exists]:
    """`q`, with each index of its block of quantifiers in turn as the outermost."""
    binders: list[tuple[Index, Affine]] = []
    body: Predicate = q
    while isinstance(body, Exists):
        binders.append((body.index, body.size))
        body = body.body
    for k, (index, size) in enumerate(binders):
        yield Exists(index, size, exists([*binders[:k], *binders[k + 1 :]], body)) if k else q


def _values(q: Exists, facts: Predicate) -> list[Affine]:
    bound = _bound(q.body)
    own = _reads(q.body)
    patterns = [(array, at) for array, at in own if any(q.index in a.free for a in at)]
    known = dict.fromkeys(read for read in (*_standing(facts), *_standing(q.body)) if read not in patterns)
    values: dict[Affine, None] = {}
    for array, at in patterns:
        for other, place in known:
            if other is array:
                values.update(dict.fromkeys(_solutions(q.index, at, place, bound)))
    return list(islice(values, _MOST_INSTANCES))


def _solutions(index: Index, at: tuple[Affine, ...], place: tuple[Affine, ...], bound: set[Atom]) -> Iterator[Affine]:
    """The values of `index` that make some coordinate of `at` equal to that of `place`."""
    for a, b in zip(at, place, strict=True):
        k = a.coefficient(index)
        value = atom_affine(index) + (b - a) * k
        if abs(k) == 1 and index not in value.free and bound.isdisjoint(value.free):
            yield value


def equal_reads(q: Predicate, facts: Predicate) -> Iterator[tuple[Predicate, Predicate]]:
    """Conditions under which `q`, a comparison or a relation, is equivalent to another predicate, each with that one,
    which reads the same array or relation at another place; the conditions equate both places."""
    known = _standing(facts)
    if isinstance(q, Related):
        for relation, at in known:
            if relation is q.relation and at != q.arguments:
                yield _equal_places(q.arguments, at), Related(q.relation, at)
        return
    for lookup in lookups(q):
        for array, at in known:
            if array is lookup.array and at != lookup.at:
                other = substitute(q, {lookup: atom_affine(type(lookup)(lookup.array, at))})
                yield _equal_places(lookup.at, at), other


def _equal_places(at: tuple[Affine, ...], place: tuple[Affine, ...]) -> Predicate:
    return conjunction(equal(a, b) for a, b in zip(at, place, strict=True))


def _standing(p: Predicate) -> list[_Read]:
    """The reads in `p` at places without indices that it binds."""
    bound = _bound(p)
    return [read for read in _reads(p) if bound.isdisjoint(i for a in read[1] for i in a.free)]


def _reads(p: Predicate) -> list[_Read]:
    """The reads in `p`."""
    found: dict[_Read, None] = {(x.array, x.at): None for x in lookups(p)}
    stack = [p]
    while stack:
        match stack.pop():
            case Related(relation, arguments):
                found[relation, arguments] = None
            case And(parts) | Or(parts):
                stack += parts
            case Exists(_, _, body):
                stack.append(body)
            case Equal() | NonNegative():
                pass
    return list(found)


def asked(p: Predicate) -> frozenset[IndexArray | Relation]:
    """The index arrays and the relations that `p` reads."""
    return frozenset(array for array, _ in _reads(p))


@cached
def necessary(p: Predicate) -> frozenset[IndexArray | Relation]:
    """The index arrays and relations that a predicate must read to imply `p`: those of a relation that holds somewhere,
    or of the only element in an equality."""
    return run(_necessary(p))


def _necessary(p: Predicate) -> Deep[frozenset[IndexArray | Relation]]:
    match p:
        case Related(relation, _):
            return frozenset([relation])
        case Equal(a) if len(a.lookups) == 1:
            return frozenset([a.lookups[0].array])
        case And(parts) | Or(parts):
            found = []
            for part in parts:
                found.append((yield from call(_necessary(part))))
            if isinstance(p, And) or not found:
                return frozenset().union(*found)
            return frozenset.intersection(*found)
        case Exists(_, _, body):
            inner: frozenset[IndexArray | Relation] = yield from call(_necessary(body))
            return inner
        case _:
            return frozenset()


def _bound(p: Predicate) -> set[Atom]:
    """The indices that `p` binds."""
    found: set[Atom] = set()
    stack = [p]
    while stack:
        match stack.pop():
            case And(parts) | Or(parts):
                stack += parts
            case Exists(index, _, body):
                found.add(index)
                stack.append(body)
            case _:
                pass
    return found
