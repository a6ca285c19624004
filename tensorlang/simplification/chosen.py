"""Conditions that chosen places fulfil anyway.

    K = gen g. argmax s where g = y[s]. X[s];  .. [i = y[j] and i = y[K[i]]] * ..   ->   .. [i = y[j]] * ..

An element of K fulfils the condition under which it was chosen, wherever K's guard holds and so the element exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    Exists,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    exists,
    lookups,
    substitute,
    within,
)
from tensorlang.normal.contraction import inner_solution
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Constant,
    Contraction,
    Input,
    Map,
    Selection,
    Statement,
    inner_ranges,
    own_indices,
    own_ranges,
    selections,
)
from tensorlang.normal.tidy import renewed, support, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import Ranges, ranges_predicate

Choices = Mapping[IndexArray, Selection]

_DEEPEST = 16
"""The depth to which nested quantifiers are examined."""


def without_chosen_conditions(s: SSA) -> SSA:
    """`s` without conditions that follow from those under which the elements in them were chosen."""
    defined = {k: x for k, x in selections(s.statements).items() if isinstance(x, Selection) and x.pred is not TRUE}
    if not defined:
        return s
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        new[x] = _shortened(with_operands(x, new), defined)
    return renewed(s, new)


def certainly_read(p: Predicate) -> Iterator[Lookup]:
    """The elements that `p` looks up wherever it holds, rather than in some of its cases."""
    match p:
        case Or():
            return
        case And(parts):
            for q in parts:
                yield from certainly_read(q)
        case Exists(_, _, body):
            yield from certainly_read(body)
        case _:
            yield from lookups(p)


def what_was_chosen(chosen: Lookup, x: Selection) -> tuple[Predicate, ...]:
    """The conditions under which `x` chose the element `chosen`, which hold wherever it is looked up."""
    at = [*chosen.at, atom_affine(chosen)]
    values: dict[Atom, Affine] = dict(zip(own_indices(x.operand), at, strict=True))
    return conjuncts(substitute(x.pred, values))


def where_chosen(chosen: Lookup, x: Selection) -> Predicate:
    """The guard of `x` at the place of `chosen`, an element of its array; where that is false the element is 0."""
    return substitute(x.guard, dict(zip(own_indices(x), chosen.at, strict=True)))


def _shortened(x: Statement, defined: Choices) -> Statement:
    match x:
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            own = own_ranges(x)
            shorter = (_shorter(t.pred, own, defined, [support(t.operand)]) for t in terms)
            return Addition(tuple(Addend(t.sign, p, t.operand) for t, p in zip(terms, shorter, strict=True)), shape)
        case Map(p, f, arguments, shape):
            return Map(_shorter(p, own_ranges(x), defined), f, arguments, shape)
        case Contraction(p, factors, summed, shape) if any(lookup.array in defined for lookup in lookups(p)):
            solved = inner_solution(x)
            places = [equal(atom_affine(i), a) for i, a in solved.values.items() if isinstance(i, Index)]
            rest = _shorter(solved.rest, {**own_ranges(x), **inner_ranges(x)}, defined, places)
            return x if rest is solved.rest else Contraction(conjunction([*places, rest]), factors, summed, shape)
        case Selection(array, sign, guard, p, operand):
            return Selection(array, sign, guard, _shorter(p, own_ranges(operand), defined), operand)
        case Contraction() | Comparison():
            return x


def _shorter(
    p: Predicate, ranges: Ranges, defined: Choices, beside: Sequence[Predicate] = (), depth: int = _DEEPEST
) -> Predicate:
    """`p` without conditions that follow from the others and those `beside` it, which all hold where anything is read;
    also within `exists`."""
    left = list(conjuncts(p))
    for q in conjuncts(p):
        if any(lookup.array in defined for lookup in lookups(q)):
            others = [r for r in left if r is not q]
            said = _left_of(q, [*beside, *others], ranges, defined)
            if said is not None:
                left = [*others, *said]
            elif isinstance(q, Exists) and depth:
                bound = Index(q.index.name)
                body = substitute(q.body, {q.index: atom_affine(bound)})
                inside = _shorter(body, {**ranges, bound: q.size}, defined, [*beside, *others], depth - 1)
                if inside is not body:
                    left = [exists([(bound, q.size)], inside) if r is q else r for r in left]
    return p if left == list(conjuncts(p)) else conjunction(left)


def _left_of(q: Predicate, others: list[Predicate], ranges: Ranges, defined: Choices) -> list[Predicate] | None:
    """What is left of `q`, given the `others` and the conditions under which elements were chosen: only that these
    elements are within their arrays. None if `q` says more."""
    around = conjunction([ranges_predicate(ranges), *others])
    facts: list[Predicate] = []
    there: list[Predicate] = []
    for lookup in lookups(conjunction([q, *others])):
        if lookup.array in defined and ranges.keys() >= set(atom_affine(lookup).indices):
            x = defined[lookup.array]
            if implies(around, where_chosen(lookup, x)):
                facts += what_was_chosen(lookup, x)
                there += [within(a, n) for a, n in zip(lookup.at, lookup.array.sizes, strict=True)]
    if not facts or not (
        q in facts or _rewritten(q, facts) is TRUE or implies(conjunction([around, *there, *facts]), q)
    ):
        return None
    return [part for part in conjuncts(conjunction(there)) if not implies(around, part)]


def _rewritten(q: Predicate, facts: list[Predicate]) -> Predicate:
    """`q` with elements of index arrays replaced by the values that `facts` give for their most nested elements."""
    values: dict[Atom, Affine] = {}
    for fact in facts:
        if isinstance(fact, Equal) and fact.difference.lookups:
            deepest = max(fact.difference.lookups, key=lambda lookup: lookup.depth)
            k = fact.difference.coefficient(deepest)
            if abs(k) == 1:
                values[deepest] = (fact.difference - atom_affine(deepest) * k) * -k
    return substitute(q, values)
