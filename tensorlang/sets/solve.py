"""Solving the equalities of a predicate for indices, exactly and without isl.

Sums over indices that an equality determines are the paper's way of writing shifts, strides and diagonals;
`solve` finds what they stand for, `project` does the same under `exists`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, atom_affine, constant
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    exists,
    free_atoms,
    less,
    substitute,
)

Ranges = Mapping[Index, Affine]
"""The size n of the range 0 <= i < n of each index i."""


@dataclass(frozen=True)
class Solution:
    """`values` gives the indices that were solved for; `rest` is what the predicate still says, the ranges of the
    solved indices included; `free` are the unknowns that remain."""

    values: dict[Atom, Affine]
    rest: Predicate
    free: tuple[Index, ...]


def solve(p: Predicate, unknowns: Ranges, known: Ranges) -> Solution:
    """Solve the equalities of `p` for as many `unknowns` as possible, earlier ones first.

    For each choice of the other indices a solved one has exactly one value. Only coefficients of 1 and -1 are solved
    for, so no divisibility is lost.
    """
    parts = list(conjuncts(p))
    values: dict[Atom, Affine] = {}
    free = dict(unknowns)
    ranges = {**known, **unknowns}
    while True:
        choice = _choice(parts, free, ranges)
        if choice is None:
            return Solution(values, conjunction(parts), tuple(free))
        equation, index, value = choice
        change: dict[Atom, Affine] = {index: value}
        values = {i: a.substitute(change) for i, a in values.items()}
        values[index] = value
        rest = [substitute(q, change) for q in parts if q is not equation]
        parts = list(conjuncts(conjunction([*rest, in_range(value, free.pop(index), ranges)])))


def _choice(parts: list[Predicate], free: Ranges, ranges: Ranges) -> tuple[Predicate, Index, Affine] | None:
    """An equation, an index to solve it for, and its value: one that is obviously in its range if there is any."""
    first = None
    for part in parts:
        if not isinstance(part, Equal):
            continue
        for index in free:
            k = part.difference.coefficient(index)
            if abs(k) != 1:
                continue
            choice = (part, index, atom_affine(index) - part.difference * k)
            if in_range(choice[2], free[index], ranges) is TRUE:
                return choice
            first = first or choice
    return first


def in_range(a: Affine, size: Affine, ranges: Ranges) -> Predicate:
    """0 <= a < size, without what the ranges of the indices make obvious."""
    lower, upper = at_most(constant(0), a), less(a, size)
    least, most = constant(a.constant), constant(a.constant)
    for atom, k in a.terms:
        if isinstance(atom, Index) and atom not in ranges:
            return conjunction([lower, upper])
        low, high = (constant(0), ranges[atom] - 1) if isinstance(atom, Index) else (atom_affine(atom),) * 2
        least += (low if k > 0 else high) * k
        most += (high if k > 0 else low) * k
    if _obviously_at_most(constant(0), least):
        lower = TRUE
    if _obviously_at_most(most + 1, size):
        upper = TRUE
    return conjunction([lower, upper])


def _obviously_at_most(a: Affine, b: Affine) -> bool:
    difference = b - a
    return difference.constant >= 0 and all(k > 0 and not isinstance(x, Index) for x, k in difference.terms)


def project(binders: Ranges, p: Predicate, known: Ranges) -> Predicate:
    """exists binders. p, with the determined ones eliminated and the others quantified over as little as possible."""
    if p is FALSE:
        return FALSE
    if isinstance(p, Or):
        return disjunction([project(binders, part, known) for part in p.parts])
    solution = solve(p, binders, known)
    sizes = {i: binders[i] for i in solution.free}
    outside: list[Predicate] = []
    groups: list[tuple[set[Atom], list[Predicate]]] = []
    for part in conjuncts(solution.rest):
        bound = {a for a in free_atoms(part) if a in sizes}
        if not bound:
            outside.append(part)
            continue
        touching = [g for g in groups if g[0] & bound]
        groups = [g for g in groups if not g[0] & bound]
        merged = [q for g in touching for q in g[1]]
        groups.append((bound.union(*(g[0] for g in touching)), [*merged, part]))
    for bound, parts in groups:
        outside.append(exists([(i, sizes[i]) for i in sizes if i in bound], conjunction(parts)))
    quantified = {a for bound, _ in groups for a in bound}
    outside += [at_most(constant(1), size) for i, size in sizes.items() if i not in quantified]
    return conjunction(outside)


def ranges_predicate(ranges: Ranges) -> Predicate:
    """0 <= i < n for each index i and its size n."""
    return conjunction(
        q for i, n in ranges.items() for q in (NonNegative(atom_affine(i)), less(atom_affine(i), n))
    )


def equalities(p: Predicate) -> Iterable[Affine]:
    """The affine expressions that `p`'s own conjuncts say are zero."""
    return [q.difference for q in conjuncts(p) if isinstance(q, Equal)]


