"""Solving the equalities of a predicate for indices, exactly and without isl.

Sums over indices that an equality determines are the paper's way of writing shifts, strides and diagonals. `solve`
finds the values of such indices, and `project` does the same under `exists`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, canonical, constant, total
from tensorlang.language.linear import Equations
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    exists,
    free_atoms,
    less,
    lookups,
    substitute,
    within,
)
from tensorlang.memory import cached
from tensorlang.sets.eliminate import exists_at_all
from tensorlang.sets.encode import needs_data
from tensorlang.sets.simplify import simplify
from tensorlang.sets.witness import asked

Ranges = Mapping[Index, Affine]
"""The size n of the range 0 <= i < n of each index i."""


@dataclass(frozen=True)
class Solution:
    """`values` has the indices that were solved for; `rest` is the remaining predicate, including the ranges of the
    solved indices; `free` are the unknowns that remain."""

    values: dict[Atom, Affine]
    rest: Predicate
    free: tuple[Index, ...]


def solve(p: Predicate, unknowns: Ranges, known: Ranges) -> Solution:
    """Solve the equalities of `p` for as many `unknowns` as possible, earlier ones first.

    For each choice of the other indices, a solved index has exactly one value. Only indices with coefficients 1 and -1
    are solved for, so no divisibility is lost.
    """
    return _solve(p, tuple(unknowns.items()), tuple(known.items()))


@cached
def _solve(
    p: Predicate, unknowns: tuple[tuple[Index, Affine], ...], known: tuple[tuple[Index, Affine], ...]
) -> Solution:
    parts = list(conjuncts(p))
    values: dict[Atom, Affine] = {}
    free = dict(unknowns)
    ranges = dict((*known, *unknowns))
    while True:
        choice = _choice(parts, free, ranges)
        if choice is None:
            return Solution(values, conjunction(parts), tuple(free))
        equation, index, value = choice
        change: dict[Atom, Affine] = {index: value}
        values = {i: a.substitute(change) for i, a in values.items()}
        values[index] = value
        rest = [substitute(q, change) for q in parts if q is not equation]
        rest += conjuncts(in_range(value, free.pop(index), ranges))
        parts = list(conjuncts(conjunction(q for q in rest if not _is_obvious(q, ranges))))


def _choice(parts: list[Predicate], free: Ranges, ranges: Ranges) -> tuple[Predicate, Index, Affine] | None:
    """An equation, an index to solve it for, and its value.

    Prefer an index whose value is obviously in its range; else take the longest range, symbolic or the largest number,
    since the other index then remains to be summed over.
    """
    first = None
    for part in parts:
        if not isinstance(part, Equal):
            continue
        for index in free:
            k = part.difference.coefficient(index)
            if abs(k) != 1:
                continue
            choice = (part, index, atom_affine(index) - part.difference * k)
            if index in choice[2].indices:  # it is looked up at a place that it determines
                continue
            if in_range(choice[2], free[index], ranges) is TRUE:
                return choice
            if first is None or _is_longer(free[index], free[first[1]]):
                first = choice
    return first or _joint_choice(parts, free)


def _joint_choice(parts: list[Predicate], free: Ranges) -> tuple[Predicate, Index, Affine] | None:
    """The same for two equations together: i + 2*j = a and i + 2*k = a give j = k."""
    equations = [q for q in parts if isinstance(q, Equal)]
    for p in equations:
        for index in free:
            k = p.difference.coefficient(index)
            if abs(k) < 2:
                continue
            others = [q.difference for q in equations if q is not p and not q.difference.coefficient(index)]
            joint = [a for b in others for a in (p.difference + b, p.difference - b)]
            for a in sorted(joint, key=lambda a: len(a.terms)):
                if not a.constant % k and all(not c % k for _, c in a.terms):
                    value = atom_affine(index) - total((atom_affine(x), c // k) for x, c in a.terms) - a.constant // k
                    if index not in value.indices:
                        return p, index, value
    return None


def _is_longer(a: Affine, b: Affine) -> bool:
    return b.is_constant and (not a.is_constant or a.constant > b.constant)


def in_range(a: Affine, size: Affine, ranges: Ranges) -> Predicate:
    """0 <= a < size, and the elements in `a` exist, without bounds that are obvious from the ranges of the indices."""
    if any(a is atom_affine(i) and ranges.get(i) is size for i in a.indices):
        return TRUE
    ends = _ends(a, ranges)
    if ends is None:
        return within(a, size)
    least, most = ends
    lower = TRUE if _never_negative(least) else at_most(constant(0), a)
    upper = TRUE if _never_negative(size - most - 1) else less(a, size)
    places = [(at, n) for lookup in a.lookups for at, n in zip(lookup.at, lookup.array.sizes, strict=True)]
    inside = (in_range(at, n, ranges) for at, n in places if _ends(at, ranges) is not None)
    return conjunction([lower, upper, exists_at_all(a), *inside])


def _ends(a: Affine, ranges: Ranges) -> tuple[Affine, Affine] | None:
    """The least and the greatest value of `a`, or bounds of these; None if the range of an index is not known."""
    least = most = constant(a.constant)
    for atom, k in a.terms:
        match atom:
            case Index():
                if atom not in ranges:
                    return None
                low, high = constant(0), (ranges[atom] - 1) * k
            case Lookup(array, _):
                low, high = constant(0), (array.size - 1) * k
            case Size():
                low = high = Affine(((atom, k),), 0)
        least, most = (least + low, most + high) if k > 0 else (least + high, most + low)
    return least, most


def _is_obvious(q: Predicate, ranges: Ranges) -> bool:
    """Whether `q` is a bound of an element that holds since the element is in its range."""
    if not isinstance(q, NonNegative) or not q.value.lookups:
        return False
    ends = _ends(q.value, ranges)
    return ends is not None and _never_negative(ends[0])


def _never_negative(a: Affine) -> bool:
    """Whether `a`, which has no indices, is at least 0 for all sizes, as its signs show."""
    return a.constant >= 0 and all(k > 0 for _, k in a.terms)


def determines(p: Predicate, unknowns: Iterable[Index]) -> bool:
    """Whether the equalities of `p` admit at most one value of the unknowns for given values of everything else.

    An element of an index array is known once its place is.
    """
    columns = list(unknowns)
    zeros = equalities(p)
    while True:
        usable = [a for a in zeros if not a.lookups or not any(i in columns for i in _places(a))]
        if _rank(usable, columns) == len(columns):
            return True
        if len(usable) == len(zeros):
            return False
        alone = [i for i in columns if _rank(usable, [j for j in columns if j is not i]) < _rank(usable, columns)]
        if not alone:
            return False
        columns = [i for i in columns if i not in alone]


def _places(a: Affine) -> list[Index]:
    """The indices at which `a` looks up elements of index arrays."""
    return [i for lookup in a.lookups for place in lookup.at for i in place.indices]


def _rank(zeros: list[Affine], columns: list[Index]) -> int:
    """The rank of the coefficients of `columns`."""
    found = Equations[Index, None]()
    for a in zeros:
        found.add({i: a.coefficient(i) for i in columns}, {})
    return found.rank


def equalities(p: Predicate) -> list[Affine]:
    """The affine expressions that conjuncts of `p` equate with zero."""
    return [q.difference for q in conjuncts(p) if isinstance(q, Equal)]


def project(binders: Ranges, p: Predicate, known: Ranges) -> Predicate:
    """exists binders. p, with determined indices eliminated and quantifiers for the others pushed inwards.

    An index for which another one is an obvious witness is dropped: exists j. a[j] = a[i].
    """
    if p is FALSE:
        return FALSE
    if isinstance(p, Or):
        return disjunction([project(binders, part, known) for part in p.parts])
    if _asks_apart(conjuncts(p)):
        return _project(binders, p, known)
    merged = _merged(binders, p)
    found = _project(*merged, known)
    if merged[1] is p or not any(isinstance(q, Exists) for q in conjuncts(found)):
        return found
    return _project(binders, p, known)


def _asks_apart(parts: Sequence[Predicate]) -> bool:
    """Whether one of `parts` is an `exists` on data that no other part reads; then quantifiers are not merged."""
    return any(
        isinstance(q, Exists) and needs_data(q) and all(asked(q).isdisjoint(asked(r)) for r in parts if r is not q)
        for q in parts
    )


def _project(binders: Ranges, p: Predicate, known: Ranges) -> Predicate:
    solution = solve(p, binders, known)
    sizes = {i: binders[i] for i in solution.free}
    rest, witnessed = _without_witnessed(_looked_up_once(conjuncts(solution.rest), sizes), sizes, known)
    outside: list[Predicate] = []
    groups: list[tuple[set[Index], list[Predicate]]] = []
    for part in rest:
        bound = {a for a in free_atoms(part) if isinstance(a, Index) and a in sizes}
        if not bound:
            outside.append(part)
            continue
        touching = [g for g in groups if g[0] & bound]
        groups = [g for g in groups if not g[0] & bound]
        merged = [q for g in touching for q in g[1]]
        groups.append((bound.union(*(g[0] for g in touching)), [*merged, part]))
    for bound, parts in groups:
        own = {i: n for i, n in sizes.items() if i in bound}
        either = next((q for q in parts if isinstance(q, Or) and needs_data(exists(tuple(own.items()), q))), None)
        if either is not None:  # each alternative reads data at few places, both together at all
            others = conjunction([q for q in parts if q is not either])
            outside.append(disjunction([project(own, conjunction([q, others]), known) for q in either.parts]))
            continue
        fresh = {i: Index("k") for i in own}
        body = substitute(conjunction(parts), {i: atom_affine(j) for i, j in fresh.items()})
        outside.append(exists([(j, sizes[i]) for i, j in fresh.items()], body))
    there = witnessed.union(*(bound for bound, _ in groups))
    outside += [at_most(constant(1), size) for i, size in sizes.items() if i not in there]
    return conjunction(outside)


def _merged(binders: Ranges, p: Predicate) -> tuple[Ranges, Predicate]:
    """The binders and `p` with the quantifiers of its conjuncts moved out: exists j. exists k. q is exists j, k. q."""
    parts: list[Predicate] = []
    waiting = list(reversed(conjuncts(p)))
    while waiting:
        part = waiting.pop()
        if isinstance(part, Exists):
            own = Index(part.index.name)
            binders = {**binders, own: part.size}
            waiting += reversed(conjuncts(substitute(part.body, {part.index: atom_affine(own)})))
        else:
            parts.append(part)
    return binders, conjunction(parts)


def _looked_up_once(parts: Sequence[Predicate], sizes: Ranges) -> Sequence[Predicate]:
    """`parts` with elements of index arrays at bound places replaced by their values from equalities.

    So a[k] = a[i] and a[k] = a[j] is a[k] = a[i] and a[i] = a[j].
    """
    for x in dict.fromkeys(x for q in parts for x in lookups(q)):
        said = _said_of(x, parts, sizes)
        if said is not None:
            part, value = said
            parts = conjuncts(conjunction([q if q is part else _without(q, x, value, sizes) for q in parts]))
    return parts


def _without(q: Predicate, x: Lookup, value: Affine, sizes: Ranges) -> Predicate:
    """`q` with `x` replaced by its value, if `q` then does not depend on bound indices."""
    made = substitute(q, {x: value}) if isinstance(q, Equal) else q
    return q if any(i in free_atoms(made) for i in sizes) else made


def _said_of(x: Lookup, parts: Sequence[Predicate], sizes: Ranges) -> tuple[Predicate, Affine] | None:
    """An equality that determines an element at bound places, with its value, if that has no bound indices; else
    None."""
    if sizes.keys().isdisjoint(i for place in x.at for i in place.indices):
        return None
    for part in parts:
        if isinstance(part, Equal) and abs(k := part.difference.coefficient(x)) == 1:
            value = atom_affine(x) - part.difference * k
            if sizes.keys().isdisjoint(value.indices):
                return part, value
    return None


def _without_witnessed(
    parts: Sequence[Predicate], sizes: Ranges, known: Ranges
) -> tuple[Sequence[Predicate], set[Index]]:
    """`parts` without those on bound indices for which another index is an obvious witness, and these bound indices."""
    found: set[Index] = set()
    ranges = {**known, **sizes}
    for i, n in sizes.items():
        asked = [q for q in parts if i in free_atoms(q)]
        others = {j for q in asked for j in free_atoms(q) if isinstance(j, Index) and j is not i and j not in found}
        same = [j for j in ranges if j in others and ranges[j] is n]
        if any(_witnesses(conjunction(asked), i, j, ranges) for j in same):
            found.add(i)
            parts = [q for q in parts if q not in asked]
    return parts, found


def _witnesses(p: Predicate, i: Index, j: Index, ranges: Ranges) -> bool:
    """Whether `p` obviously holds with `j` in place of `i`."""
    read = all(in_range(a, n, ranges) is TRUE for x in lookups(p) for a, n in zip(x.at, x.array.sizes, strict=True))
    return read and substitute(p, {i: atom_affine(j)}) is TRUE


def simplify_in(p: Predicate, ranges: Ranges) -> Predicate:
    """`p` simplified given the ranges of its indices, and that the other ranges are not empty."""
    return p if p is TRUE or p is FALSE else _simplify_in(p, tuple(ranges.items()))


@cached
def _simplify_in(p: Predicate, ranges: tuple[tuple[Index, Affine], ...]) -> Predicate:
    """Predicates that differ only in the names of their indices are simplified once."""
    mentioned = free_atoms(p)
    used = [(i, n) for i, n in ranges if i in mentioned]
    present = tuple(dict.fromkeys(less(constant(0), n) for i, n in ranges if i not in mentioned))
    names: dict[Atom, Affine] = {i: atom_affine(_numbered(k)) for k, (i, _) in enumerate(used)}
    found = simplify_numbered(substitute(p, names), tuple(n for _, n in used), conjunction(present))
    return substitute(found, {_numbered(k): atom_affine(i) for k, (i, _) in enumerate(used)})


@cached
def simplify_numbered(p: Predicate, sizes: tuple[Affine, ...], present: Predicate) -> Predicate:
    """`p`, whose indices are numbered, simplified given their ranges and `present`: that other ranges are not empty."""
    ranges = ranges_predicate({_numbered(k): size for k, size in enumerate(sizes)})
    return simplify(p, conjunction([ranges, present]))


@cache
@shared
def _numbered(k: int) -> Index:
    return canonical("x", k)


def ranges_predicate(ranges: Ranges) -> Predicate:
    """0 <= i < n for each index i and its size n."""
    return _ranges_predicate(tuple(ranges.items()))


@cached
def _ranges_predicate(ranges: tuple[tuple[Index, Affine], ...]) -> Predicate:
    return conjunction(within(atom_affine(i), n) for i, n in ranges)
