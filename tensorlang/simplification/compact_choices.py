"""Choices on their supports: stored without idle indices, and over windows instead of whole axes.

    K = gen i, j. [i = a[j] and p] * argmax s. X[i, j, s]   ->  K' = gen j. [p] * argmax s. X[a[j], j, s];
                                                                K[b, c] is K'[c]
    K = gen i, j. [p] * argmax s. X[j, s]                   ->  K' = gen j. [exists i. p] * argmax s. X[j, s];
                                                                K[b, c] is K'[c]
    K = gen i. argmax s where i <= s and s < i + 3. X[i, s] ->  K' = gen i. argmax d:3 where i + d < n. X[i, i + d];
                                                                K[b] is b + K'[b]
    C = gen i, j. [p] * (X[j] < Y[j])                       ->  C' = gen j. [exists i. p] * (X[j] < Y[j]);
                                                                C[b, c] is C'[c]
    C = gen i, j. [a <= j - i <= b] * (X[j] < Y[i])        ->  C' = gen i, d:b - a + 1. X[i + d + a] < Y[i];
                                                                C[b, c] is C'[b, c - b - a]; and so with argmax

Two that choose or compare the same are merged. Elements are only looked up where the guard holds, so only elements that
remain are ever read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant, total
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    mapped,
    substitute,
)
from tensorlang.normal.contraction import contraction
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Comparison,
    Contraction,
    Defining,
    Integers,
    Selection,
    Statement,
    comparison,
    integers,
    looked_up,
    own_indices,
    own_ranges,
    selection,
)
from tensorlang.normal.tidy import is_index_only, renewed, with_operands, with_predicates
from tensorlang.sets.eliminate import paired_bounds
from tensorlang.sets.solve import in_range, project, simplify_in, solve
from tensorlang.simplification.compact import chart, reads_all_alike, without

_NARROW = 16
"""The widest windows that are always stored as such. Wider ones are only if they are read from a band stored by
diagonals; bands of matrices given as parameters are read in blocks or tiles."""


@dataclass(frozen=True)
class Element:
    """The value that replaces the element of an index array at `own`."""

    own: tuple[Index, ...]
    value: Affine


def compact_choices(s: SSA) -> SSA:
    """`s` with every choice and comparison stored without idle indices, and over windows."""
    if not any(isinstance(x, Defining) for x in s.statements):
        return s
    new: dict[Statement, Statement] = {}
    stored: dict[IndexArray, Element] = {}
    first: dict[tuple[object, ...], Defining] = {}
    for x in s.statements:
        y = looking_up(with_operands(x, new), stored)
        while isinstance(y, Defining) and (made := _compacted(y)) is not None:
            stored[y.array] = made[1]
            y = made[0]
        if isinstance(y, Defining) and (one := first.setdefault(_content(y), y)) is not y:
            own = own_indices(y)
            stored[y.array] = Element(own, atom_affine(Lookup(one.array, tuple(map(atom_affine, own)))))
            y = one
        new[x] = y
    return renewed(s, new)


def _content(x: Defining) -> tuple[object, ...]:
    """The key of a choice or comparison: those with equal keys have equal elements."""
    if isinstance(x, Selection):
        return (x.sign, x.guard, x.pred, x.operand)
    return (x.op, x.guard, x.left, x.right)


_Made = tuple[Defining, Element]


def _compacted(x: Defining) -> _Made | None:
    return _alike(x) or _thin(x) if isinstance(x, Comparison) else _thin(x) or _idle(x) or _window(x)


def _idle(x: Selection) -> _Made | None:
    """The second law."""
    *own, _ = own_indices(x.operand)
    ranges = own_ranges(x.operand)
    for i in own:
        hiding = [q for q in conjuncts(x.guard) if i in free_atoms(q)]
        operand = without(x.operand, hiding) if is_index_only(x.operand) else x.operand
        if i in free_atoms(x.pred) or not (isinstance(operand, Contraction) and i not in free_atoms(operand.pred)):
            continue
        guard = project({i: ranges[i]}, x.guard, {j: ranges[j] for j in own if j is not i})
        return _in_terms_of(Selection(x.array, x.sign, x.guard, x.pred, operand), {i: constant(0)}, guard)
    return None


def _alike(x: Comparison) -> _Made | None:
    """The fourth law."""
    ranges = own_ranges(x)
    idle = [i for i in ranges if all(reads_all_alike(y, i) for y in (x.left, x.right))]
    if not idle:
        return None
    left = {i: n for i, n in ranges.items() if i not in idle}
    guard = project({i: ranges[i] for i in idle}, x.guard, left)
    read = tuple(Index(i.name) for i in ranges)
    places = [
        equal(atom_affine(j), constant(0) if i in idle else atom_affine(i)) for i, j in zip(ranges, read, strict=True)
    ]
    sides = [
        contraction(tuple(left.values()), tuple(left), [(y, read)], {}, conjunction([*places, guard]))
        for y in (x.left, x.right)
    ]
    y = comparison(x.op, renamed(guard, tuple(left), axes(0, len(left))), sides[0], sides[1], x.array.name)
    return y, Element(tuple(ranges), atom_affine(Lookup(y.array, tuple(map(atom_affine, left)))))


def _thin(x: Defining) -> _Made | None:
    """The first and the fifth law: the charts of `compact`."""
    found = chart(x, conjuncts(x.guard))
    if found is None:
        return None
    ranges, new = own_ranges(x), tuple(found.axes)
    values: dict[Atom, Affine] = {i: a for i, a in found.at.items() if a is not atom_affine(i)}
    inside = [in_range(a, ranges[i], found.axes) for i, a in found.at.items()]
    guard = simplify_in(conjunction([substitute(x.guard, values), *inside]), found.axes)
    further = {} if isinstance(x, Comparison) else dict([list(own_ranges(x.operand).items())[-1]])
    every = {**found.axes, **further}
    numbers = axes(0, len(every))

    def read(y: Statement, p: Predicate) -> Statement:
        at = tuple(Index(i.name) for i in (*ranges, *further))
        where = [found.at.get(i, atom_affine(i)) for i in (*ranges, *further)]
        places = [equal(atom_affine(j), a) for j, a in zip(at, where, strict=True)]
        return contraction(tuple(every.values()), tuple(every), [(y, at)], {}, conjunction([*places, guard, p]))

    there = renamed(guard, new, numbers[: len(new)])
    if isinstance(x, Comparison):
        y: Defining = comparison(x.op, there, read(x.left, TRUE), read(x.right, TRUE), x.array.name)
    else:
        pred = substitute(x.pred, values)
        y = selection(x.sign, there, renamed(pred, tuple(every), numbers), read(x.operand, pred), x.array.name)
    at = conjunction(equal(atom_affine(i), a) for i, a in found.at.items())
    back = solve(at, {i: n for i, n in found.axes.items() if i not in ranges}, ranges).values
    return y, Element(tuple(ranges), atom_affine(Lookup(y.array, tuple(back.get(i, atom_affine(i)) for i in new))))


def _window(x: Selection) -> _Made | None:
    """The third law."""
    s = own_indices(x.operand)[-1]
    size = own_ranges(x.operand)[s]
    by_diagonals = _lies_by_diagonals(x.operand)
    said = [*conjuncts(x.pred), *(conjuncts(paired_bounds(x.pred)) if by_diagonals else ())]
    bounds = [q.value for q in said if isinstance(q, NonNegative) and abs(q.value.coefficient(s)) == 1]
    bounds = [a for a in bounds if not any(s in lookup.free for lookup in map(atom_affine, a.lookups))]
    firsts = [atom_affine(s) - a for a in bounds if a.coefficient(s) > 0]
    lasts = [atom_affine(s) + a for a in bounds if a.coefficient(s) < 0]
    for first in (a for a in firsts if a.indices):
        widths = [(last - first).constant + 1 for last in lasts if (last - first).is_constant]
        if not widths or min(widths) <= 0 or (size.is_constant and size.constant <= min(widths)):
            continue
        if min(widths) <= _NARROW or by_diagonals:
            d = Index("d")
            return _in_terms_of(x, {s: first + atom_affine(d)}, x.guard, (d, constant(min(widths))))
    return None


def _lies_by_diagonals(x: Statement) -> bool:
    """Whether `x` is a view whose places mix its indices."""
    if not (isinstance(x, Contraction) and is_index_only(x)):
        return False
    return any(isinstance(q, Equal) and len(q.difference.indices) > 2 for q in conjuncts(x.pred))


def _in_terms_of(
    x: Selection, values: Mapping[Atom, Affine], guard: Predicate, chosen: tuple[Index, Affine] | None = None
) -> _Made:
    """`x` with `values` for some of its indices, under `guard`, choosing a value of the index `chosen` if given."""
    *own, s = own_indices(x.operand)
    ranges = own_ranges(x.operand)
    left = {i: ranges[i] for i in own if i not in values}
    last, size = chosen or (s, ranges[s])
    every = {**left, last: size}
    read = tuple(Index(i.name) for i in (*own, s))
    places = [equal(atom_affine(j), values.get(i, atom_affine(i))) for i, j in zip((*own, s), read, strict=True)]
    inside = {i: in_range(values[i], ranges[i], every) for i in (*own, s) if i in values}
    where = simplify_in(conjunction([substitute(guard, values), *(inside[i] for i in own if i in inside)]), left)
    pred = conjunction([substitute(x.pred, values), inside.get(s, TRUE)])
    shape = tuple(every.values())
    operand = contraction(shape, tuple(every), [(x.operand, read)], {}, conjunction([*places, where, pred]))
    numbers = axes(0, len(every))
    where, pred = (renamed(p, tuple(every), numbers) for p in (where, pred))
    y = selection(x.sign, where, pred, operand, x.array.name)
    element = atom_affine(Lookup(y.array, tuple(map(atom_affine, left))))
    return y, Element(tuple(own), values[s].substitute({last: element}) if chosen else element)


def looking_up(x: Statement, stored: Mapping[IndexArray, Element]) -> Statement:
    """`x` with lookups of elements redirected to where they are `stored`."""
    if stored.keys().isdisjoint(looked_up(x)):
        return x

    def moved(a: Affine) -> Affine:
        return total((_moved(atom), k) for atom, k in a.terms) + a.constant

    def _moved(atom: Atom) -> Affine:
        if not isinstance(atom, Lookup):
            return atom_affine(atom)
        at = tuple(map(moved, atom.at))
        if atom.array not in stored:
            return atom_affine(Lookup(atom.array, at))
        element = stored[atom.array]
        return moved(element.value.substitute(dict(zip(element.own, at, strict=True))))

    match x:
        case Integers():
            return integers(moved(x.value), x.shape)
        case _:
            return with_predicates(x, lambda p: mapped(p, moved))
