"""Points of index ranges: affine expressions and predicates (4.13 to 4.21) read at many points at once.

A set of points is a table: one row for each point, one column for each index. Only points that exist are rows, so the
cost of a predicate is the number of its points: `expand` finds the points of a range under a predicate as a database
joins tables, by solving equalities, narrowing intervals and walking through the pairs of a relation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from tensorlang.errors import ArgumentError, LimitError
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.points import MOST_POINTS, ORIGIN, SAFE, Column, Ints, Mask, Points, Tuples, matching
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    Relation,
    conjuncts,
    free_atoms,
    lookups,
)
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run

Binders = Sequence[tuple[Index, Affine]]


@dataclass(frozen=True)
class Setting:
    """The values that index expressions read: the sizes, the relations, and the index arrays.

    The values of an index array are the rows of an array; a point reads the row in its column for it, or the first row.
    """

    sizes: Mapping[Size, int]
    relations: dict[Relation, Tuples] = field(default_factory=dict)
    arrays: dict[IndexArray, Ints] = field(default_factory=dict)
    visits: Callable[[Any], int] | None = None
    """A function that counts visits of data-dependent loops, if known."""


def size_of(a: Affine, setting: Setting) -> int:
    """The number of points of a range of size `a`: none if it is negative."""
    return max(0, a.value(setting.sizes))  # type: ignore[arg-type]


def affine_at(a: Affine, points: Points, setting: Setting) -> Ints:
    """The value of `a` at each point (4.13 to 4.17); where `looks_up` is false it is meaningless."""
    value = a.constant
    terms: list[tuple[Ints, int]] = []
    for atom, k in a.terms:
        if isinstance(atom, Size):
            value += k * setting.sizes[atom]
        else:
            terms.append((points.columns[atom] if isinstance(atom, Index) else _elements(atom, points, setting), k))
    reach = abs(value) + sum(abs(k) * (int(np.abs(c).max()) if len(c) else 0) for c, k in terms)
    result = np.full(points.count, value, object if reach >= SAFE else np.int64)
    for column, k in terms:
        result = result + (column if k == 1 else column * (k if reach < SAFE else np.array(k, object)))
    return result


def _elements(lookup: Lookup, points: Points, setting: Setting) -> Ints:
    """The element that is looked up at each point, clipped to the array; 0 where the array is empty."""
    if lookup.array not in setting.arrays:
        raise ArgumentError(f"the elements of the index array {lookup.array.name} are needed here")
    elements = setting.arrays[lookup.array]
    if not elements.size:
        return np.zeros(points.count, np.int64)
    row = points.columns.get(lookup.array, np.zeros(points.count, np.int64))
    at = [affine_at(a, points, setting) for a in lookup.at]
    found: np.ndarray[tuple[Any, ...], np.dtype[Any]] = elements[
        (row, *(np.clip(k, 0, n - 1).astype(np.int64) for k, n in zip(at, elements.shape[1:], strict=True)))
    ]
    return found


def looks_up(a: Affine, points: Points, setting: Setting) -> Mask:
    """Whether, at each point, all lookups in `a` are within their arrays, and the elements within their ranges.

    An element that a program chooses may be out of range: where no point is chosen it is 0, even if the range is empty.
    """
    mask: Mask = np.ones(points.count, np.bool_)
    for lookup in a.lookups:
        mask &= _elements(lookup, points, setting) < size_of(lookup.array.size, setting)
        for place, size in zip(lookup.at, lookup.array.sizes, strict=True):
            at = affine_at(place, points, setting)
            mask &= ((at >= 0) & (at < size_of(size, setting))).astype(np.bool_)
    return mask


def holds(p: Predicate, points: Points, setting: Setting) -> Mask:
    """Whether `p` is true at each point (4.18 to 4.21); relations and lookups outside of their arrays make it false."""
    return run(_holds(p, points, setting))


def _holds(p: Predicate, points: Points, setting: Setting) -> Deep[Mask]:
    match p:
        case Equal(a) | NonNegative(a):
            value = affine_at(a, points, setting)
            mask = np.asarray(value == 0 if isinstance(p, Equal) else value >= 0, np.bool_)
            return mask & looks_up(a, points, setting) if a.lookups else mask
        case Related(relation, arguments):
            values = [affine_at(a, points, setting) for a in arguments]
            places = tuple(range(len(values)))
            _, start, stop = setting.relations[relation].ranges(values, places)
            mask = np.asarray(np.broadcast_to(stop > start, (points.count,)), np.bool_)
            for a in arguments:
                mask = mask & looks_up(a, points, setting) if a.lookups else mask
            return mask
        case And(parts) | Or(parts):
            wanted = isinstance(p, And)
            result = np.full(points.count, wanted)
            for part in parts:
                undecided = result == wanted
                if not undecided.any():
                    break
                narrow = points.only(columns_of(part))
                where = narrow if undecided.all() else narrow.take(undecided)
                result[undecided] = yield from call(_holds(part, where, setting))
            return result
        case Exists():
            binders: dict[Index, Affine] = {}
            while isinstance(p, Exists) and p.index not in binders:
                binders[p.index] = p.size
                p = p.body
            counts, factor = yield from call(_tally(points, list(binders.items()), p, setting))
            return np.asarray((counts > 0) & (factor > 0), np.bool_)


def expand(points: Points, binders: Binders, p: Predicate, setting: Setting) -> tuple[Points, Ints]:
    """Each point with every choice of the indices in `binders` for which `p` is true.

    Also returns the row of `points` from which each comes, in ascending order. Raises `LimitError` if there are too
    many.
    """
    return run(_expand(points, binders, p, setting))


def _expand(points: Points, binders: Binders, p: Predicate, setting: Setting) -> Deep[tuple[Points, Ints]]:
    search = _Search(points, binders, p, setting)
    while not (yield from call(search.filter())):
        search.advance(search.cheapest() or search.first())
    return search.points, search.rows


def count(binders: Binders, p: Predicate, setting: Setting) -> int:
    """The number of points of the ranges in `binders` at which `p` is true.

    Raises `LimitError` if too many points would have to be looked at.
    """
    counts, factor = run(_tally(ORIGIN, binders, p, setting))
    return int(counts.sum()) * factor


def _tally(points: Points, binders: Binders, p: Predicate, setting: Setting) -> Deep[tuple[Ints, int]]:
    """The number of points that `expand` finds for each of `points`, as a number for each and a common factor.

    The last indices that matter are counted without enumerating them, and so are those that `p` does not mention.
    """
    search = _Search(points, binders, p, setting)
    rows, lengths = None, None
    while not (yield from call(search.filter())):
        choice = search.cheapest()
        if choice is None:
            break
        if not isinstance(choice, _Join) and len(choice.used) == len(search.pending):
            rows, lengths = search.rows, choice.lengths
            for index in choice.indices:
                search.waiting.pop(index)
            break
        search.advance(choice)
    factor = math.prod(search.waiting.values())
    if rows is None or lengths is None:
        return np.bincount(search.rows, minlength=points.count), factor
    exact = lengths.dtype == object or float(lengths.sum(dtype=float)) >= SAFE
    counts = np.zeros(points.count, object if exact else np.int64)
    np.add.at(counts, rows, lengths)
    return counts, factor


@dataclass
class _Interval:
    """Give `index` all values from `low` on, `lengths` of them at each point; this accounts for the predicates
    `used`."""

    index: Index
    low: Ints
    lengths: Ints
    used: list[Predicate]

    @property
    def indices(self) -> tuple[Index, ...]:
        """The one index."""
        return (self.index,)


@dataclass
class _Match:
    """Give `indices` the values, rows of `table`, for which the equalities `used` hold: `order[start:]`."""

    indices: tuple[Index, ...]
    table: Points
    order: Ints
    start: Ints
    lengths: Ints
    used: list[Predicate]


@dataclass
class _Join:
    """Give the waiting indices of `part` the values for which its relation is true."""

    part: Related
    order: Ints
    start: Ints
    lengths: Ints


_Way = _Interval | _Match | _Join


class _Search:
    """The search for the points of some ranges under a conjunction, one index after the other."""

    def __init__(self, points: Points, binders: Binders, p: Predicate, setting: Setting) -> None:
        self.setting = setting
        self.waiting = {index: size_of(size, setting) for index, size in binders}
        self.points = Points({k: c for k, c in points.columns.items() if k not in self.waiting}, points.count)
        self.rows: Ints = np.arange(points.count)
        self.pending = list(conjuncts(p))

    def _waiting_in(self, p: Predicate) -> list[Index]:
        return [i for i in indices_of(p) if i in self.waiting]

    def filter(self) -> Deep[bool]:
        """Drop the points at which a predicate is already known to be false. Return whether no index waits."""
        ready: list[Predicate] = []
        later: list[Predicate] = []
        for p in self.pending:
            (later if self._waiting_in(p) else ready).append(p)
        self.pending = later
        if ready:
            self._keep((yield from call(_holds(And(tuple(ready)), self.points, self.setting))))
        return not self.waiting

    def _keep(self, mask: Mask) -> None:
        if not mask.all():
            self.points, self.rows = self.points.take(mask), self.rows[mask]

    def cheapest(self) -> _Way | None:
        """The way to go on that makes the fewest points, using indices that a predicate mentions; None if there is
        none."""
        best: tuple[float, _Way] | None = None
        mentioned = dict.fromkeys(i for p in self.pending for i in self._waiting_in(p))
        ways: Iterable[_Way] = chain(self._joins(), map(self._interval, mentioned))
        for way in ways:
            size = float(way.lengths.sum(dtype=float))
            if best is None or size < best[0]:
                best = (size, way)
            if size <= self.points.count:
                break
        match = self._match(best[0] - self.points.count) if best else None
        return match or (best[1] if best else None)

    def first(self) -> _Interval:
        """The first index that waits, over its whole range."""
        return self._interval(next(iter(self.waiting)))

    def _interval(self, index: Index) -> _Interval:
        """The values of `index` between its bounds, or the one given by an equality."""
        size = self.waiting[index]
        wide = size >= SAFE
        low: Ints = np.zeros(self.points.count, object if wide else np.int64)
        high: Ints = low + (size - 1)
        used: list[Predicate] = []
        for p in self.pending:
            if isinstance(p, Equal | NonNegative) and self._waiting_in(p) == [index]:
                a = p.difference if isinstance(p, Equal) else p.value
                if any(index in place.indices for lookup in a.lookups for place in lookup.at):
                    continue
                k, rest = self._split(a, index)
                # k * index + rest >= 0, and <= 0 too if p is an equality; // rounds down
                if k > 0 or isinstance(p, Equal):
                    low = np.maximum(low, -(rest // k) if k > 0 else -(-rest // -k))
                if k < 0 or isinstance(p, Equal):
                    high = np.minimum(high, rest // -k if k < 0 else -rest // k)
                if a.lookups:
                    high = np.where(looks_up(a, self.points, self.setting), high, -1)
                used.append(p)
        return _Interval(index, low, np.maximum(high - low + 1, 0), used)

    def _match(self, limit: float) -> _Match | None:
        """A way by equalities of known values with lookups at waiting indices, if their table has fewer than `limit`
        rows."""
        found: dict[tuple[Index, ...], list[tuple[Equal, Affine]]] = {}
        for p in self.pending:
            if isinstance(p, Equal) and p.difference.lookups:
                indices = tuple(self._waiting_in(p))
                inner = self._inner(p.difference, indices)
                if inner is not None and math.prod(self.waiting[i] for i in indices) < limit:
                    found.setdefault(indices, []).append((p, inner))
        if not found:
            return None
        indices, equalities = max(found.items(), key=lambda item: len(item[1]))
        table, _ = expand(ORIGIN, [(i, constant(self.waiting[i])) for i in indices], TRUE, self.setting)
        for _, inner in equalities:
            table = table.take(looks_up(inner, table, self.setting))
        known = [inner - p.difference for p, inner in equalities]
        wanted = [affine_at(a, self.points, self.setting) for a in known]
        keys = [affine_at(inner, table, self.setting) for _, inner in equalities]
        order, start, stop = matching(wanted, keys)
        for a in known:
            stop = np.where(looks_up(a, self.points, self.setting), stop, start)
        return _Match(indices, table, order, start, stop - start, [p for p, _ in equalities])

    def _inner(self, a: Affine, indices: tuple[Index, ...]) -> Affine | None:
        """The terms of `a` that depend on `indices`; None if one of them also depends on known columns."""
        inner = constant(0)
        for atom, k in a.terms:
            term = atom_affine(atom) * k
            if not any(i in indices for i in term.indices):
                continue
            if not all(i in indices for i in term.indices) or any(y in self.points.columns for y in term.arrays):
                return None
            inner = inner + term
        return inner

    def _split(self, a: Affine, index: Index) -> tuple[int, Ints]:
        """`a` as k * index + rest."""
        k = a.coefficient(index)
        rest = affine_at(a - atom_affine(index) * k, self.points, self.setting)
        return k, rest if abs(k) < SAFE else rest.astype(object)

    def _joins(self) -> Iterable[_Join]:
        for p in self.pending:
            if not isinstance(p, Related):
                continue
            waiting = [[i for i in a.indices if i in self.waiting] for a in p.arguments]
            if any(len(w) > 1 for w in waiting) or any(a.lookups for a in p.arguments):
                continue
            places = tuple(k for k, w in enumerate(waiting) if not w)
            known = [affine_at(p.arguments[k], self.points, self.setting) for k in places]
            order, start, stop = self.setting.relations[p.relation].ranges(known, places)
            start, stop = (np.broadcast_to(x, (self.points.count,)) for x in (start, stop))
            yield _Join(p, order, start, stop - start)

    def advance(self, way: _Way) -> None:
        """Replace the points by those to which `way` leads."""
        total = float(way.lengths.sum(dtype=float))
        if total > MOST_POINTS:
            raise LimitError(
                f"this takes looking at {total:.3g} points one by one, more than the {MOST_POINTS} that are allowed",
                hint="smaller sizes, or predicates that relate fewer indices to one another",
            )
        lengths = way.lengths.astype(np.int64)
        back = np.repeat(np.arange(self.points.count), lengths)
        offset = np.arange(len(back)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        if isinstance(way, _Interval):
            column = way.low[back] + offset
            if self.waiting.pop(way.index) < SAFE:
                column = column.astype(np.int64)
            self.points, self.rows = self.points.take(back).having(way.index, column), self.rows[back]
            self._use(way.used)
        else:
            self.points, self.rows = self.points.take(back), self.rows[back]
            chosen = way.order[way.start[back] + offset]
            if isinstance(way, _Join):
                self._read(way.part, chosen)
                return
            for index in way.indices:
                self.waiting.pop(index)
                self.points = self.points.having(index, way.table.columns[index][chosen])
            self._use(way.used)

    def _use(self, parts: list[Predicate]) -> None:
        """Drop these predicates from those pending."""
        used = set(parts)
        self.pending = [p for p in self.pending if p not in used]

    def _read(self, p: Related, tuples: Ints) -> None:
        """Give the waiting indices of `p` their values in the tuples of its relation, one for each point."""
        axes = self.setting.relations[p.relation].axes
        mask: Mask = np.ones(self.points.count, np.bool_)
        for a, axis in zip(p.arguments, axes, strict=True):
            index = next((i for i in a.indices if i in self.waiting), None)
            value = axis[tuples]
            if index is not None:
                k, rest = self._split(a, index)
                quotient = (value - rest) // k
                mask &= ((quotient >= 0) & (quotient < self.waiting.pop(index))).astype(np.bool_)
                self.points = self.points.having(index, np.where(mask, quotient, 0).astype(np.int64))
            mask &= np.asarray(affine_at(a, self.points, self.setting) == value, np.bool_)
        self.pending = [q for q in self.pending if q is not p]
        self._keep(mask)


@cached
def columns_of(p: Predicate) -> tuple[Column, ...]:
    """The columns of a point that the truth of `p` depends on."""
    return (*indices_of(p), *dict.fromkeys(lookup.array for lookup in lookups(p)))


@cached
def indices_of(p: Predicate) -> tuple[Index, ...]:
    """The free indices of `p`, ordered by their creation, and canonical ones by their names."""
    return tuple(sorted((a for a in free_atoms(p) if isinstance(a, Index)), key=lambda i: (i.serial, i.name)))
