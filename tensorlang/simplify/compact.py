"""Statements on their supports: one whose predicate forces an index is stored without it.

    X = gen i, j. [j = i and p] * e   ->   X' = gen i. [p] * [j := i] e;   X = gen i, j. [j = i] * X'[i]
    X = gen i. sum j. [i = 2*j] * e   ->   X' = gen j. [i := 2*j] e;       X = gen i. sum j. [i = 2*j] * X'[j]

X is index-only now, so its readers read X' instead and nothing of the box of X is ever stored.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.predicates import Equal, Predicate, conjunction, conjuncts, equal, substitute
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Input,
    Map,
    Statement,
    Term,
    axes,
    factor_indices,
    inner_ranges,
    own_indices,
    own_ranges,
    renamed,
    summed_indices,
)
from tensorlang.normal.tidy import addition, contraction, inner_solution, is_index_only, map_outputs
from tensorlang.sets.solve import Solution, in_range, solve


def compact(s: SSA) -> SSA:
    """`s` with every statement that has arithmetic stored on the support that its equalities parametrise."""
    new: dict[Statement, Statement] = {}
    names: dict[Statement, str] = {}
    for x in s.statements:
        made, stored = _compacted(x, new)
        new[x] = made
        if x in s.names:
            names.setdefault(stored, s.names[x])
    return replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names)


def _compacted(x: Statement, new: dict[Statement, Statement]) -> tuple[Statement, Statement]:
    """What stands for `x`, and the statement that holds its values."""
    x = _with_operands(x, new)
    if isinstance(x, Input | Constant) or is_index_only(x):
        return x, x
    if isinstance(x, Contraction):
        strided = _strided(x)
        if strided is not None:
            return strided
    forced = conjunction(_forced(x))
    own = own_ranges(x)
    solution = solve(forced, dict(reversed(own.items())), {})
    if not solution.values:
        return x, x
    kept = tuple(i for i in own if i in solution.free)
    stored = _restricted(x, kept, solution)
    inner = axes(len(x.shape), len(kept))
    places = [equal(atom_affine(i), atom_affine(j)) for i, j in zip(kept, inner, strict=True)]
    values = [equal(atom_affine(i), a) for i, a in solution.values.items() if isinstance(i, Index)]
    return Contraction(conjunction([*places, *values]), (stored,), (), x.shape), stored


def _strided(x: Contraction) -> tuple[Statement, Statement] | None:
    """The second law: an index i = c*j + .. whose j, with |c| > 1, is summed over, is stored by j."""
    inner, own = inner_ranges(x), own_ranges(x)
    solution = solve(x.pred, inner, own)
    for a in (q.difference for q in _equalities(solution.rest)):
        summed = [j for j in a.indices if j in inner]
        i = next((i for i in a.indices if i in own and abs(a.coefficient(i)) == 1), None)
        if i is None or len(summed) != 1:
            continue
        j = summed[0]
        value = atom_affine(i) - a * a.coefficient(i)
        kept = tuple(j if k is i else k for k in own)
        shape = tuple(inner[j] if k is i else n for k, n in own.items())
        fresh = Index(j.name)  # the j of the factors that is to be the new index
        places = conjunction([x.pred, equal(atom_affine(j), atom_affine(fresh))])
        given = list(zip(x.factors, factor_indices(x), strict=True))
        further = {i: own[i], **dict(zip(summed_indices(x), x.summed, strict=True))}
        stored = contraction(shape, tuple(fresh if k is j else k for k in kept), given, further, places)
        read = axes(len(own), len(own))
        at = [equal(atom_affine(k), atom_affine(r)) for k, r in zip(own, read, strict=True) if k is not i]
        place = next(r for k, r in zip(own, read, strict=True) if k is i)
        at.append(equal(atom_affine(i), value.substitute({j: atom_affine(place)})))
        return Contraction(conjunction(at), (stored,), (), x.shape), stored
    return None


def _with_operands(x: Statement, new: dict[Statement, Statement]) -> Statement:
    match x:
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            return addition([Term(t.sign, t.pred, new[t.operand]) for t in terms], shape)
        case Map(p, f, arguments, shape):
            return Map(p, f, tuple(new[y] for y in arguments), shape)
        case Contraction(p, factors, summed, shape):
            if all(new[y] is y for y in factors):
                return x
            given = [(new[y], at) for y, at in zip(factors, factor_indices(x), strict=True)]
            return contraction(shape, own_indices(x), given, dict(zip(summed_indices(x), summed, strict=True)), p)


def _forced(x: Statement) -> list[Equal]:
    """The equalities between the indices of `x` that hold wherever it is not zero."""
    match x:
        case Addition(terms, _):
            common = _equalities(terms[0].pred)
            return [q for q in common if all(q in _equalities(t.pred) for t in terms[1:])]
        case Map(p, _, _, _):
            return _equalities(p)
        case Contraction():
            own = set(own_indices(x))
            return [q for q in _equalities(inner_solution(x).rest) if own.issuperset(q.difference.indices)]
        case _:
            return []


def _equalities(p: Predicate) -> list[Equal]:
    return [q for q in conjuncts(p) if isinstance(q, Equal)]


def _restricted(x: Statement, kept: tuple[Index, ...], solution: Solution) -> Statement:
    """`x` over the indices `kept` alone, the others having their forced values."""
    own = own_ranges(x)
    shape = tuple(own[i] for i in kept)
    known = {i: own[i] for i in kept}
    ranges = [in_range(a, own[i], known) for i, a in solution.values.items() if isinstance(i, Index)]

    def restrict(p: Predicate) -> Predicate:
        return conjunction([substitute(p, solution.values), *ranges])

    def renewed(p: Predicate) -> Predicate:
        return renamed(restrict(p), kept, axes(0, len(kept)))

    def reads(y: Statement) -> Statement:
        """`y` at the elements that are kept."""
        at = tuple(Index(i.name) for i in own)
        places = [equal(atom_affine(j), solution.values.get(i) or atom_affine(i)) for i, j in zip(own, at, strict=True)]
        return contraction(shape, kept, [(y, at)], {}, conjunction([*places, *ranges]))

    match x:
        case Addition(terms, _):
            return addition([Term(t.sign, renewed(t.pred), reads(t.operand)) for t in terms], shape)
        case Map(p, f, arguments, _):
            return Map(renewed(p), f, tuple(map(reads, arguments)), shape)
        case Contraction(p, factors, summed, _):
            given = list(zip(factors, factor_indices(x), strict=True))
            return contraction(shape, kept, given, dict(zip(summed_indices(x), summed, strict=True)), restrict(p))
        case _:
            raise AssertionError("only statements with arithmetic are compacted")
