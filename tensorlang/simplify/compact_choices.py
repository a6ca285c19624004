"""Choices on their supports: one whose guard determines an index is stored without it.

    K = gen i, j. [i = a[j] and p] * argmax s. X[i, j, s];  .. K[b, c] ..
        ->  K' = gen j. [p] * argmax s. X[a[j], j, s];      .. K'[c] ..

Elements are only looked up where the guard holds, so those that remain are all that are ever read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, total
from tensorlang.language.predicates import (
    Equal,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    mapped,
    substitute,
)
from tensorlang.normal.contraction import contraction
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Contraction,
    Integers,
    Map,
    Selection,
    Statement,
    Term,
    integers,
    looked_up,
    own_indices,
    own_ranges,
    selection,
)
from tensorlang.normal.tidy import map_outputs, with_operands
from tensorlang.sets.solve import solve


@dataclass(frozen=True)
class _Stored:
    """An index array that is stored as `array`, whose places are those at the positions `kept`."""

    array: IndexArray
    kept: tuple[int, ...]


def compact_choices(s: SSA) -> SSA:
    """`s` with every choice stored without the indices that its guard determines."""
    if not any(isinstance(x, Selection) for x in s.statements):
        return s
    new: dict[Statement, Statement] = {}
    stored: dict[IndexArray, _Stored] = {}
    for x in s.statements:
        y = _looking_up(with_operands(x, new), stored)
        if isinstance(x, Selection) and isinstance(y, Selection):
            made = _compacted(y)
            if made is not None:
                y, kept = made
                stored[x.array] = _Stored(y.array, kept)
        new[x] = y
    names = {new[x]: name for x, name in s.names.items()}
    return replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names)


def _compacted(x: Selection) -> tuple[Selection, tuple[int, ...]] | None:
    """`x` without the indices that its guard determines, and the positions of those that it keeps; None if all are."""
    *own, s = own_indices(x.operand)
    ranges = own_ranges(x.operand)
    solution = solve(
        conjunction(q for q in conjuncts(x.guard) if isinstance(q, Equal)), {i: ranges[i] for i in reversed(own)}, {}
    )
    if not solution.values:
        return None
    kept = tuple(k for k, i in enumerate(own) if i in solution.free)
    left = (*(own[k] for k in kept), s)
    values: dict[Atom, Affine] = {i: a for i, a in solution.values.items() if i in own}
    read = tuple(Index(i.name) for i in (*own, s))
    places = [equal(atom_affine(j), values.get(i, atom_affine(i))) for i, j in zip((*own, s), read, strict=True)]
    guard = substitute(x.guard, values)
    shape = tuple(ranges[i] for i in left)
    operand = contraction(shape, left, [(x.operand, read)], {}, conjunction([*places, guard]))

    def numbered(p: Predicate) -> Predicate:
        return renamed(substitute(p, values), left, axes(0, len(left)))

    return selection(x.sign, numbered(x.guard), numbered(x.pred), operand, x.array.name), kept


def _looking_up(x: Statement, stored: Mapping[IndexArray, _Stored]) -> Statement:
    """`x`, which looks elements up where they are stored."""
    if stored.keys().isdisjoint(looked_up(x)):
        return x

    def moved(a: Affine) -> Affine:
        return total((_moved(atom), k) for atom, k in a.terms) + a.constant

    def _moved(atom: Atom) -> Affine:
        if not isinstance(atom, Lookup):
            return atom_affine(atom)
        at = tuple(map(moved, atom.at))
        if atom.array in stored:
            return atom_affine(Lookup(stored[atom.array].array, tuple(at[k] for k in stored[atom.array].kept)))
        return atom_affine(Lookup(atom.array, at))

    match x:
        case Integers():
            return integers(moved(x.value), x.shape)
        case Addition(terms, shape):
            return Addition(tuple(Term(t.sign, mapped(t.pred, moved), t.operand) for t in terms), shape)
        case Map(p, f, arguments, shape):
            return Map(mapped(p, moved), f, arguments, shape)
        case Contraction(p, factors, summed, shape):
            return Contraction(mapped(p, moved), factors, summed, shape)
        case Selection(array, sign, guard, p, operand):
            return Selection(array, sign, mapped(guard, moved), mapped(p, moved), operand)
        case _:
            return x
