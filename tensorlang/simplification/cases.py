"""Alternatives of few points each, as statements of their own.

    Y = gen i, j. [i - 2 <= j <= i + 2 or j < 2] * e
        ->  Y = gen i, j. [i - 2 <= j <= i + 2] * e + [j < 2 and j + 2 < i] * e
    Y = gen i, j. [i - 2 <= j <= i + 2] * e + [j < 2] * d
        ->  Y = gen i, j. [i - 2 <= j <= i + 2] * (e + [j < 2] * d) + [j < 2 and j + 2 < i] * d
    X = gen i. sum j. Y[i, j] * z[j]  ->  X as the sum of both parts of Y

Given the other indices, each alternative leaves a fixed number of values of some index: a window, or a few columns.
Their union does not, and would be computed as a box. The parts are disjoint, so the number of points computed stays the
same, and so does the number of terms added where a reader sums over several parts.

Readers of a statement that was split read the parts: a product is 0 where one of its factors is, and a statement under
the same condition reads only the part that it lies in. So the cost never rises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    free_atoms,
    lookups,
    negation,
    substitute,
)
from tensorlang.memory import cached
from tensorlang.normal.contraction import inner_solution, only_moves
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Contraction,
    Map,
    Statement,
    factor_indices,
    inner_ranges,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import addition, renewed, support, tidy, with_operands
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.solve import Ranges, ranges_predicate, simplify_in
from tensorlang.simplification.compact import compact
from tensorlang.simplification.narrow import narrow
from tensorlang.simplification.supports import is_zero_at_zero
from tensorlang.simplification.thin import indices_in, is_thin_union

_MOST = 8
"""Parts of a statement."""

Parts = Sequence[tuple[Predicate, Statement]]
"""The parts of a statement, each with a condition outside of which it is 0; these conditions are disjoint."""


def in_cases(s: SSA) -> SSA:
    """`s` with statements under thin alternatives split into parts, narrowed and stored on their supports."""
    new: dict[Statement, Statement] = {}
    parts: dict[Statement, Parts] = {}
    for x in s.statements:
        found = _parts(x, new, parts)
        if found is None:
            new[x] = with_operands(x, new)
            continue
        made, apart = found
        new[x] = made
        if apart:
            parts[x] = apart
    changed = renewed(s, new)
    return s if changed is s else tidy(compact(tidy(narrow(tidy(changed)))))


def _parts(
    x: Statement, new: Mapping[Statement, Statement], parts: Mapping[Statement, Parts]
) -> tuple[Statement, Parts] | None:
    """The replacement of `x`, and its parts if its own indices distinguish them; None if it is not split."""
    match x:
        case Map(p, f, arguments, shape):
            own = own_ranges(x)
            cases = _cases(p, _binders(own))
            if len(cases) < 2 and len(arguments) == 1 and arguments[0] in parts and is_zero_at_zero(f):
                cases = _among(p, [q for q, _ in parts[arguments[0]]], _binders(own))
            if len(cases) < 2:
                return None
            found: Parts = [
                (q, Map(q, f, tuple(_read(y, q, own, new, parts) for y in arguments), shape)) for q in cases
            ]
            return addition([Addend(1, q, y) for q, y in found], shape), found
        case Addition(terms, _):
            return _apart(x, new, parts) if any(t.operand in parts for t in terms) else _united(x, new)
        case Contraction() if not only_moves(x) or (x.factors[0] in parts and not _is_listed(x)):
            return _product(x, new, parts)
        case _:
            return None


def _is_listed(x: Contraction) -> bool:
    """Whether a factor is read at an element of an index array."""
    return any(a.lookups for a in inner_solution(x).values.values())


def _apart(
    x: Addition, new: Mapping[Statement, Statement], parts: Mapping[Statement, Parts]
) -> tuple[Statement, Parts]:
    """An addition with its terms replaced by their parts; it has parts itself if all terms have the same ones."""
    terms: list[Addend] = []
    for t in x.terms:
        those: Parts = parts.get(t.operand) or [(TRUE, new[t.operand])]
        terms += [Addend(t.sign, conjunction([t.pred, q]), y) for q, y in those]
    kinds = {tuple(q for q, _ in parts.get(t.operand, ())) for t in x.terms}
    if len(kinds) > 1:
        return addition(terms, x.shape), ()
    (cases,) = kinds
    found: Parts = [
        (q, addition([Addend(t.sign, conjunction([t.pred, q]), parts[t.operand][k][1]) for t in x.terms], x.shape))
        for k, q in enumerate(cases)
    ]
    return addition(terms, x.shape), found


def _united(x: Addition, new: Mapping[Statement, Statement]) -> tuple[Statement, Parts] | None:
    """An addition split by the alternatives under which its terms are present."""
    there = disjunction(conjunction([t.pred, support(t.operand)]) for t in x.terms)
    cases = _cases(there, _binders(own_ranges(x)))
    if len(cases) < 2:
        return None
    found: list[tuple[Predicate, Statement]] = []
    for q in cases:
        terms = [Addend(t.sign, conjunction([t.pred, q]), new[t.operand]) for t in x.terms]
        found.append((q, addition(terms, x.shape)))
    return addition([Addend(1, q, y) for q, y in found], x.shape), found


def _product(
    x: Contraction, new: Mapping[Statement, Statement], parts: Mapping[Statement, Parts]
) -> tuple[Statement, Parts] | None:
    """A product, as an addition of products under one alternative each, which read the parts that it selects."""
    solved = inner_solution(x)
    own = own_ranges(x)
    ranges = {**own, **{i: n for i, n in inner_ranges(x).items() if i not in solved.values}}
    cases: Sequence[Predicate] = _cases(solved.rest, _binders(ranges), True)
    for y, at in zip(x.factors, factor_indices(x), strict=True):
        if y in parts:
            values: dict[Atom, Affine] = {
                i: solved.values.get(j) or atom_affine(j) for i, j in zip(own_indices(y), at, strict=True)
            }
            there = [substitute(q, values) for q, _ in parts[y]]
            finer = [r for p in cases for r in _among(p, there, _binders(ranges))]
            if 0 < len(finer) <= _MOST:
                cases = finer
    if len(cases) < 2 and not any(y in parts for y in x.factors):
        return None
    places = [equal(atom_affine(i), a) for i, a in solved.values.items()]
    every = {**own, **inner_ranges(x)}
    found: list[tuple[Predicate, Statement]] = []
    for p in cases:
        where = conjunction([*places, p])
        read = []
        for y, at in zip(x.factors, factor_indices(x), strict=True):
            back: dict[Atom, Affine] = {i: atom_affine(j) for i, j in zip(own_indices(y), at, strict=True)}
            read.append(_read(y, where, every, new, parts, back))
        found.append((p, Contraction(where, tuple(read), x.summed, x.shape)))
    if len(found) == 1:
        return found[0][1], ()
    told = all(own.keys() >= {i for i in free_atoms(q) if isinstance(i, Index)} for q, _ in found)
    terms = [Addend(1, q if told else support(y), y) for q, y in found]
    return addition(terms, x.shape), found if told else ()


def _read(
    y: Statement,
    where: Predicate,
    ranges: Ranges,
    new: Mapping[Statement, Statement],
    parts: Mapping[Statement, Parts],
    at: Mapping[Atom, Affine] | None = None,
) -> Statement:
    """The part of `y` that contains all points where `where` holds, if there is one; else all of `y`."""
    if y in parts:
        around = conjunction([ranges_predicate(ranges), where])
        for q, made in parts[y]:
            if implies(around, substitute(q, at) if at else q):
                return made
    return new[y]


def _binders(ranges: Ranges) -> tuple[tuple[Index, Affine], ...]:
    return tuple(ranges.items())


@cached
def _cases(p: Predicate, binders: tuple[tuple[Index, Affine], ...], is_summed: bool = False) -> tuple[Predicate, ...]:
    """`p` as disjoint parts, each of which leaves few values of some index; only `p` if it is not such a union."""
    ranges = dict(binders)
    for choice in conjuncts(p):
        if isinstance(choice, Or) and is_thin_union(p, choice, ranges, is_summed):
            found = _exclusive([q for q in conjuncts(p) if q is not choice], _in_order(choice), ranges)
            if found is not None:
                finer = tuple(r for q in found for r in _cases(q, binders, is_summed))
                return finer if len(finer) <= _MOST else tuple(found)
    return (p,)


def _in_order(choice: Or) -> list[Predicate]:
    """The alternatives, those of several indices first: their negations, which cut later ones, hide a share of these.
    Those whose negations are no predicates come last."""

    def place(q: Predicate) -> tuple[bool, int]:
        return negation(q) is None, -max((len(indices_in(r)) for r in conjuncts(q)), default=0)

    return sorted(choice.parts, key=place)


def _exclusive(rest: Sequence[Predicate], alternatives: Sequence[Predicate], ranges: Ranges) -> list[Predicate] | None:
    """The alternatives under the rest, each without the points of those before it, as conjunctions; None if they become
    too many, or a negation can't be expressed."""
    around = ranges_predicate(ranges)
    found: list[Predicate] = []
    for k, p in enumerate(alternatives):
        left = [conjunction([*rest, p])]
        for q in alternatives[:k]:
            cut: list[Predicate] = []
            for r in left:
                if is_empty(conjunction([r, q]), around):
                    cut.append(r)
                    continue
                outside = _outside(q)
                if outside is None:
                    return None
                cut += [conjunction([r, o]) for o in outside]
            left = [r for r in (simplify_in(r, ranges) for r in cut) if r is not FALSE and not is_empty(r, around)]
        found += left
        if len(found) > _MOST:
            return None
    return [simplify_in(p, ranges) for p in found]


def _outside(p: Predicate) -> list[Predicate] | None:
    """Disjoint conjunctions whose union is the complement of `p`; None if it can't be expressed so.

    Those that look up elements come last: where another condition fails there may be no such element, and then both
    they and their negations are false.
    """
    found: list[Predicate] = []
    before: list[Predicate] = []
    for q in sorted(conjuncts(p), key=lambda q: len(list(lookups(q)))):
        opposite = negation(q)
        if opposite is None:
            return None
        options = opposite.parts if isinstance(opposite, Or) else (opposite,)
        if any(isinstance(o, And | Or) for o in options):
            return None
        found += [conjunction([*before, o]) for o in options]
        before.append(q)
    return found


def _among(
    p: Predicate, there: Sequence[Predicate], binders: tuple[tuple[Index, Affine], ...]
) -> tuple[Predicate, ...]:
    """`p` split by the disjoint conditions `there`; only `p` if it implies one of them."""
    ranges = dict(binders)
    around = ranges_predicate(ranges)
    if any(implies(conjunction([around, p]), q) for q in there):
        return (p,)
    found = (simplify_in(conjunction([p, q]), ranges) for q in there)
    return tuple(q for q in found if q is not FALSE and not is_empty(q, around))
