"""Greatest and least values, read back from selections.

    K = gen g. [q] * argmax s where p. X[g, s];  Y = .. X[a, K[a]] ..   ->   M = gen g. [q] * max s where p. X[g, s];
                                                                             Y = .. M[a] ..

if K has no other use, and q holds wherever X is read so. The cost stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, Predicate, conjunction, conjuncts, equal, lookups, substitute
from tensorlang.language.types import R, array
from tensorlang.normal.contraction import Factor, contraction, inner_solution, only_moves
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Contraction,
    Input,
    Map,
    Selection,
    Statement,
    factor_indices,
    inner_ranges,
    looked_up,
    operands,
    own_indices,
    own_ranges,
    selections,
    summed_indices,
)
from tensorlang.normal.tidy import map_outputs, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate
from tensorlang.simplification.chosen import what_was_chosen, where_chosen

Extrema = Mapping[Input, Selection]
"""Inputs that stand for extrema, with the selections that attain them."""


def with_extrema(s: SSA) -> tuple[SSA, Extrema]:
    """`s` with each selection that is only used for its extremum replaced by an input that stands for the extremum.

    The input takes the selection's position, after all that its definition reads.
    """
    defined = {k: x for k, x in selections(s.statements).items() if isinstance(x, Selection)}
    if not defined:
        return s, {}
    values = {k: Input(Var(k.name, array(x.shape, R)), (), x.shape) for k, x in defined.items()}
    while left := {k for x in s.statements for k in _arrays(_reading(x, values, defined)) if k in values}:
        # an element may be the extremum of several choices; if some of them stay, it is read through the others
        values = {k: value for k, value in values.items() if k not in left}
    new: dict[Statement, Statement] = {}
    extrema: dict[Input, Selection] = {}
    for x in s.statements:
        made = _reading(x, values, defined)
        made = with_operands(made, {y: new.get(y, y) for y in operands(made)})
        if isinstance(made, Selection) and made.array in values:
            extrema[values[made.array]] = made
            made = values[made.array]
        new[x] = made
    names = {new[x]: name for x, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names), extrema


def _arrays(x: Statement) -> set[IndexArray]:
    return set(looked_up(x))


def _reading(x: Statement, values: Mapping[IndexArray, Input], defined: Mapping[IndexArray, Selection]) -> Statement:
    """`x` with elements that it reads at chosen places replaced by those of `values`, and without the conditions under
    which these places were chosen."""
    if _arrays(x).isdisjoint(values):
        return x
    match x:
        case Addition(terms, shape):
            return Addition(tuple(Addend(t.sign, _without_facts(t.pred, defined), t.operand) for t in terms), shape)
        case Map(p, f, arguments, shape):
            return Map(_without_facts(p, defined), f, arguments, shape)
        case Contraction():
            return _reading_extrema(x, values, defined)
        case _:
            return x


def _without_facts(p: Predicate, defined: Mapping[IndexArray, Selection]) -> Predicate:
    """`p` without the conditions under which the elements in it were chosen, which hold wherever these are read."""
    for lookup in lookups(p):
        x = defined.get(lookup.array)
        if x is not None:
            guard = substitute(x.guard, dict(zip(own_indices(x), lookup.at, strict=True)))
            facts = what_was_chosen(lookup, x)
            rest = conjunction(q for q in conjuncts(p) if q not in facts)
            p = rest if implies(rest, guard) else p
    return p


def _reading_extrema(
    x: Contraction, values: Mapping[IndexArray, Input], defined: Mapping[IndexArray, Selection]
) -> Statement:
    solution = inner_solution(x)
    summed = {i: n for i, n in zip(summed_indices(x), x.summed, strict=True) if i in solution.free}
    factors: list[Factor] = []
    places = [solution.rest]
    for y, indices in zip(x.factors, factor_indices(x), strict=True):
        at = [solution.values.get(i, atom_affine(i)) for i in indices]
        around = conjunction([ranges_predicate({**own_ranges(x), **inner_ranges(x)}), solution.rest])
        found = _extremum(y, at, around, values, defined)
        if found is None:
            factors.append((y, indices))
        else:
            chosen, holds = found
            places.append(holds)
            summed.update((i, n) for i, n in zip(indices, y.shape, strict=True) if i in solution.free)
            conditions = what_was_chosen(chosen, defined[chosen.array])
            places = [conjunction(q for p in places for q in conjuncts(p) if q not in conditions)]
            at = list(chosen.at)
            factors.append((values[chosen.array], tuple(Index("g") for _ in at)))
        places += [equal(atom_affine(i), a) for i, a in zip(factors[-1][1], at, strict=True)]
    return contraction(x.shape, own_indices(x), factors, summed, conjunction(places))


def _extremum(
    y: Statement,
    at: list[Affine],
    known: Predicate,
    values: Mapping[IndexArray, Input],
    defined: Mapping[IndexArray, Selection],
) -> tuple[Lookup, Predicate] | None:
    """The choice whose extremum is the element of `y` at `at` where `known` holds, if there is one; and a further
    condition outside of which that element is zero."""
    base, places, holds = _seen(y, at)
    for lookup in (atom for a in at for atom in a.atoms):
        if isinstance(lookup, Lookup) and lookup.array in values:
            x = defined[lookup.array]
            other, chosen, there = _seen(x.operand, [*lookup.at, atom_affine(lookup)])
            needed = conjunction([there, where_chosen(lookup, x), *map(equal, places, chosen)])
            if other is base and implies(conjunction([known, holds]), needed):
                # where the extremum is zero for the same reason, no condition is needed
                return lookup, TRUE if implies(conjunction([known, there]), holds) else holds
    return None


def _seen(x: Statement, at: list[Affine]) -> tuple[Statement, list[Affine], Predicate]:
    """The statement behind the views that `x` reads through, the place there of the element of `x` at `at`, and the
    condition outside of which that element of `x` is zero instead."""
    holds: list[Predicate] = []
    while isinstance(x, Contraction) and only_moves(x):
        solution = inner_solution(x)
        own: dict[Atom, Affine] = dict(zip(own_indices(x), at, strict=True))
        holds.append(substitute(solution.rest, own))
        at = [solution.values.get(i, atom_affine(i)).substitute(own) for i in factor_indices(x)[0]]
        x = x.factors[0]
    return x, at, conjunction(holds)
