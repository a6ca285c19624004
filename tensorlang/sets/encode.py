"""Predicates as systems of rows over numbered dimensions, so that questions that differ only in names are equal.

Dimensions 0, 1, ... are the free atoms in order of first occurrence, dimensions -1, -2, ... the indices bound by
`exists`. As there is no negation, every `exists` can be moved to the outside, and a formula is a conjunction of rows
and of disjunctions of formulas.

An element of an index array is a dimension like any other atom. Only its range is known, not that elements at equal
places are equal. If its place is bound by an `exists`, it is a bound dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, atom_affine, canonical, constant, total
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    equal,
    within,
)
from tensorlang.memory import cached
from tensorlang.recursion import Deep, call, run

Row = tuple[bool, int, tuple[tuple[int, int], ...]]
"""(equality, constant, terms): constant + the sum of coefficient * dimension is = 0 or >= 0."""

Formula = tuple[tuple[Row, ...], tuple[tuple["Formula", ...], ...]]
"""All rows hold, and of each tuple of formulas at least one does."""

Mark = Related | Exists
"""A predicate that only data determine: it has a dimension of its own, 1 where it holds and else 0."""

Place = tuple[Lookup, tuple[tuple[Index, int], ...]]
"""An element of an index array, with the dimensions of the bound indices in its place."""

MAX_ROWS = 500
MAX_PIECES = 600
MAX_DEPTH = 60


class TooHard(Exception):
    """The question would take too long; its caller takes the safe answer."""


class Encoder:
    """Formulas that share one numbering of their atoms.

    With `marks`, predicates that `needs_data` become dimensions of their own. Without, a relation holds wherever it
    may, and an element at a bound place is anything in its range. As predicates have no negation, this gives the
    largest set possible.
    """

    def __init__(self, marks: bool) -> None:
        self.marks = marks
        self.free: dict[Atom | Predicate, int] = {}
        self.originals: dict[Atom | Predicate, Mark] = {}
        self.bound = 0
        self.rows = 0
        self.ranged = True
        self.places: dict[Place, int] = {}

    def formula(self, p: Predicate, ranged: bool = True) -> Formula:
        """The formula of `p`. Raises `TooHard` if it is too large for integer sets.

        A comparison of elements of index arrays implies that they are in their ranges, unless `ranged` is False.
        """
        self.ranged = ranged
        return run(self._formula(p, {}, 0))

    def surroundings(self) -> Formula:
        """The facts about the atoms met so far: sizes are not negative, marks are 0 or 1."""
        rows: list[Row] = []
        for atom, d in self.free.items():
            if not isinstance(atom, Index | Lookup):
                rows.append((False, 0, ((d, 1),)))
            if not isinstance(atom, Size | Index | Lookup):
                rows.append((False, 1, ((d, -1),)))
        return tuple(rows), ()

    def _formula(self, p: Predicate, scope: Mapping[Index, int], depth: int) -> Deep[Formula]:
        rows: list[Row] = []
        choices: list[tuple[Formula, ...]] = []
        stack: list[tuple[Predicate, Mapping[Index, int]]] = [(p, scope)]
        if depth > MAX_DEPTH:
            raise TooHard
        while stack:
            q, scope = stack.pop()
            match q:
                case Equal(a) | NonNegative(a):
                    rows += [self._row(isinstance(q, Equal), a, scope), *self._elements_ranges(a, scope)]
                case And(parts):
                    stack += [(part, scope) for part in reversed(parts)]
                case Or(parts):
                    options = []
                    for part in parts:
                        options.append((yield from call(self._formula(part, scope, depth + 1))))
                    choices.append(tuple(options))
                case Related(relation, arguments):
                    if self.marks and not scope:
                        rows.append(self._mark(q))
                    stack += [(within(a, n), scope) for a, n in zip(arguments, relation.sizes, strict=True)]
                case Exists(index, size, body):
                    if self.marks and not scope and needs_data(q):
                        rows.append(self._mark(q))
                    self.bound += 1
                    inner = {**scope, index: -self.bound}
                    # the size stands outside of its own binder
                    own = (-self.bound, 1)
                    rows.append((False, 0, (own,)))
                    _, limit, terms = self._row(False, size, scope)
                    rows.append((False, limit - 1, (*((d, k) for d, k in terms), (own[0], -1))))
                    stack.append((body, inner))
        return tuple(dict.fromkeys(rows)), tuple(choices)

    def _row(self, equality: bool, a: Affine, scope: Mapping[Index, int]) -> Row:
        self._count()
        return equality, a.constant, tuple([(self._dimension(atom, scope), k) for atom, k in a.terms])

    def _count(self) -> None:
        self.rows += 1
        if self.rows > MAX_ROWS:
            raise TooHard

    def _dimension(self, atom: Atom, scope: Mapping[Index, int]) -> int:
        match atom:
            case Lookup():
                d = self._element(atom, scope)
            case Index():
                d = scope.get(atom)
            case _:
                d = None
        return self.free.setdefault(atom, len(self.free)) if d is None else d

    def _elements_ranges(self, a: Affine, scope: Mapping[Index, int]) -> list[Row]:
        """0 <= element < size for the elements of index arrays that are terms of `a`."""
        found: list[Row] = []
        for lookup, _ in a.terms if self.ranged and a.lookups else ():
            if isinstance(lookup, Lookup):
                element = self._dimension(lookup, scope)
                _, size, terms = self._row(False, lookup.array.size, scope)
                self._count()
                found += [(False, 0, ((element, 1),)), (False, size - 1, ((element, -1), *terms))]
        return found

    def _element(self, lookup: Lookup, scope: Mapping[Index, int]) -> int | None:
        """The dimension of an element at a bound place, one for each choice of bound indices; None if it isn't
        bound."""
        bound = tuple((i, scope[i]) for a in lookup.at for i in a.indices if i in scope)
        if bound and (lookup, bound) not in self.places:
            self.bound += 1
            self.places[lookup, bound] = -self.bound
        return self.places[lookup, bound] if bound else None

    def _mark(self, p: Mark) -> Row:
        key = alpha_normal(p) if isinstance(p, Exists) else p
        self.originals.setdefault(key, p)
        return True, -1, ((self.free.setdefault(key, len(self.free)), 1),)

    def decode(self, row: Row) -> Predicate | None:
        """The predicate for a row over free dimensions; None if there is none, as for marks mixed with atoms."""
        equality, value, terms = row
        atoms = list(self.free)
        affine = []
        for d, k in terms:
            atom = atoms[d]
            if not isinstance(atom, Index | Size | Lookup):
                holds = len(terms) == 1 and k == -value and (equality or k > 0)
                return self.originals[atom] if holds else None
            affine.append((atom_affine(atom), k))
        a = total(affine) + value
        return equal(a, constant(0)) if equality else NonNegative(a) if a.terms else TRUE if value >= 0 else None


@cached
def needs_data(p: Predicate) -> bool:
    """Whether `p` is opaque to integer sets: it has a relation, or an element at a place that an `exists` binds."""
    stack: list[tuple[Predicate, frozenset[Index]]] = [(p, frozenset())]
    while stack:
        q, bound = stack.pop()
        match q:
            case Related():
                return True
            case Equal(a) | NonNegative(a):
                if bound and any(i in bound for x in a.lookups for b in x.at for i in b.indices):
                    return True
            case And(parts) | Or(parts):
                stack += [(part, bound) for part in parts]
            case Exists(index, _, body):
                stack.append((body, bound | {index}))
    return False


@cache
@shared
def _bound_name(depth: int) -> Index:
    return canonical(f"k{depth}")


@cached
def alpha_normal(p: Predicate) -> Predicate:
    """`p` with its bound indices replaced by ones that depend only on their binding depth."""
    return run(_alpha_normal(p, {}, 0))


def _alpha_normal(p: Predicate, names: Mapping[Atom, Affine], depth: int) -> Deep[Predicate]:
    match p:
        case Equal(a):
            return equal(a.substitute(names), constant(0))
        case NonNegative(a):
            return NonNegative(a.substitute(names))
        case Related(relation, arguments):
            return Related(relation, tuple(a.substitute(names) for a in arguments))
        case And(parts) | Or(parts):
            new = []
            for part in parts:
                new.append((yield from call(_alpha_normal(part, names, depth))))
            return type(p)(tuple(new))
        case Exists(index, size, body):
            inner = {**names, index: atom_affine(_bound_name(depth))}
            new_body = yield from call(_alpha_normal(body, inner, depth + 1))
            return Exists(_bound_name(depth), size.substitute(names), new_body)


def pieces(f: Formula) -> int:
    """The number of conjunctions that `f` is a union of, or more than `MAX_PIECES`."""
    count = 1
    for options in f[1]:
        count *= sum(pieces(option) for option in options)
        if count > MAX_PIECES:
            break
    return count
