"""Factors that do not depend on what is summed leave the sum.

    gen i. sum j. [p] * x[j] * v[i]  ->  y = gen i. sum j. [p] * x[j];  gen i. [exists j. p] * y[i] * v[i]

With N points (i, j) and G distinct i this costs N instead of 2N - G. The remaining sum depends on i only through its
predicate, as a prefix sum does. Where data determine which i occur, the generated code runs over the whole range of i;
so factors stay under sums whose points data list, and leave those that elements of index arrays only bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.predicates import NonNegative, Predicate, conjunction, conjuncts, equal, lookups, relations
from tensorlang.normal.contraction import contraction, inner_solution
from tensorlang.normal.ssa import (
    SSA,
    Contraction,
    Statement,
    factor_indices,
    inner_ranges,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import renewed, with_operands
from tensorlang.sets.solve import project
from tensorlang.simplification.compact import compares_elements


def hoist(s: SSA) -> SSA:
    """`s` with factors moved out of the sums over indices that they do not depend on."""
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        y = with_operands(x, new)
        new[x] = _hoisted(y) if isinstance(y, Contraction) and len(y.factors) > 1 else y
    return renewed(s, new)


def _hoisted(x: Contraction) -> Statement:
    solution = inner_solution(x)
    summed = set(solution.free)
    places = factor_indices(x)
    outside = [k for k, at in enumerate(places) if summed.isdisjoint(_read(at, solution.values))]
    if not summed or not outside or len(outside) == len(places) or _is_given_by_points(x.pred):
        return x
    inside = [k for k in range(len(places)) if k not in outside]
    own, inner = own_indices(x), inner_ranges(x)
    given = [(x.factors[k], places[k]) for k in inside]
    further = {i: n for i, n in inner.items() if not any(i in places[k] for k in inside)}
    total = contraction(x.shape, own, given, further, x.pred)
    kept = {i: n for i, n in inner.items() if any(i in places[k] for k in outside)}
    rest = {i: n for i, n in inner.items() if i not in kept}
    at = tuple(Index(i.name) for i in own)
    same = [equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, at, strict=True)]
    where = conjunction([project(rest, x.pred, {**own_ranges(x), **kept}), *same])
    return contraction(x.shape, own, [(total, at), *((x.factors[k], places[k]) for k in outside)], {}, where)


def _is_given_by_points(p: Predicate) -> bool:
    """Whether data list the points at which `p` holds, rather than just bounding them."""
    return bool(relations(p)) or any(
        lookups(q) and not isinstance(q, NonNegative) and not compares_elements(q) for q in conjuncts(p)
    )


def _read(at: tuple[Index, ...], values: Mapping[Atom, Affine]) -> set[Index]:
    """The indices that the places `at` depend on, some of which are solved for and have `values`."""
    return {i for j in at for i in (values[j].indices if j in values else (j,))}
