"""Facts about elements of index arrays that hold whatever the data: conditions on chosen points, and injectivity.

A point that `argmax j:n where p` chooses satisfies p. And where i = 2*k + c[k] for a c that is 0 or 1, each i has at
most one k: then the number of i for which there is a k is the number of such k, which can be counted without a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorlang.costs.domains import Charges, Domain
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Choice, Expr, Gen, Let
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    Exists,
    Predicate,
    conjunction,
    conjuncts,
    exists,
    free_atoms,
    lookups,
    negation,
    not_equal,
    relations,
    substitute,
    within,
)
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.simplify import simplify
from tensorlang.sets.solve import ranges_predicate

_MOST_OPPOSITES = 3

Facts = Mapping[IndexArray, tuple[tuple[Index, ...], Choice]]
"""For index arrays that lets bind, the indices of their gens and the choice within these."""


def facts_of(expressions: Iterable[Expr]) -> Facts:
    """The facts about choices bound by lets among `expressions`, except choices within a bracket."""
    found: dict[IndexArray, tuple[tuple[Index, ...], Choice]] = {}
    for e in expressions:
        if isinstance(e, Let) and isinstance(e.var, IndexArray) and not e.var.partial:
            indices: list[Index] = []
            value = e.value
            while isinstance(value, Gen):
                indices.append(value.index)
                value = value.body
            if isinstance(value, Choice) and _indices(value.pred) <= {*indices, value.index}:
                found[e.var] = tuple(indices), value
    return found


def settled(domain: Domain, facts: Facts) -> Domain:
    """A domain with the same number of points whose condition has fewer elements of index arrays."""
    if not lookups(domain.pred):
        return domain
    for q in conjuncts(domain.pred):
        if isinstance(q, Exists) and lookups(q):
            domain = _unfolded(domain, q)
    return _without_known(domain, facts)


def without_opposites(charged: Charges) -> Charges:
    """The same total, with points where a condition on values fails counted as all points minus those where it holds.

    So operations done where a condition holds, and the same ones done where it doesn't, add up to all.
    """
    total: Charges = {}
    waiting = list(charged.items())
    while waiting:
        domain, weight = waiting.pop()
        parts = conjuncts(domain.pred)
        opposite = [q for q in parts if _condition(q, domain) is not None]
        if 0 < len(opposite) <= _MOST_OPPOSITES:
            q = opposite[0]
            others = conjunction(p for p in parts if p is not q)
            waiting += [
                (Domain(domain.binders, others), weight),
                (Domain(domain.binders, conjunction([others, _condition(q, domain) or TRUE])), -weight),
            ]
        else:
            total[domain] = total.get(domain, 0) + weight
    return {domain: weight for domain, weight in total.items() if weight}


def _condition(q: Predicate, domain: Domain) -> Predicate | None:
    """The condition that `q` negates at the points of `domain`; None if it negates none."""
    match q:
        case Equal(Affine(((Lookup(array=array, at=at), 1),), 0)) if array.size is constant(2):
            there = conjunction(within(a, n) for a, n in zip(at, array.sizes, strict=True))
            rest = conjunction(p for p in conjuncts(domain.pred) if p is not q)
            known = conjunction([ranges_predicate(dict(domain.binders)), rest])
            return negation(q) if implies(known, there) else None
        case _:
            return None


def _without_known(domain: Domain, facts: Facts) -> Domain:
    """The domain without conditions that hold for every choice; places must still be within their arrays."""
    own = {i for i, _ in domain.binders}
    known: list[Predicate] = []
    inside: list[Predicate] = []
    for lookup in lookups(domain.pred):
        if lookup.array in facts and {i for a in lookup.at for i in a.indices} <= own:
            indices, choice = facts[lookup.array]
            values: dict[Atom, Affine] = dict(zip(indices, lookup.at, strict=True))
            known.append(substitute(choice.pred, {**values, choice.index: atom_affine(lookup)}))
            inside += [within(a, n) for a, n in zip(lookup.at, lookup.array.sizes, strict=True)]
    known = [p for p in known if p is not TRUE]
    if not known:
        return domain
    ranges = ranges_predicate(dict(domain.binders))
    # the facts hold only within the array, and the condition itself may say where that is
    rest = simplify(domain.pred, conjunction([ranges, *inside, *known]))
    return Domain(domain.binders, conjunction([simplify(conjunction(inside), ranges), rest]))


def _unfolded(domain: Domain, q: Exists) -> Domain:
    """The domain with those indices bound by `q` as its own that have at most one value at each of its points."""
    binders: list[tuple[Index, Affine]] = []
    body: Predicate = q
    while isinstance(body, Exists):
        fresh = Index(body.index.name)
        binders.append((fresh, body.size))
        body = substitute(body.body, {body.index: atom_affine(fresh)})
    if relations(body):
        return domain
    p = conjunction([body, ranges_predicate(dict(binders))])
    twins: dict[Atom, Affine] = {i: atom_affine(Index(i.name)) for i, _ in binders}
    both = conjunction([p, substitute(p, twins), ranges_predicate(dict(domain.binders))])
    told = {i for i, twin in twins.items() if is_empty(not_equal(atom_affine(i), twin), both)}
    if not told:
        return domain
    inside = exists([(i, n) for i, n in binders if i not in told], body)
    rest = (r for r in conjuncts(domain.pred) if r is not q)
    return Domain((*domain.binders, *((i, n) for i, n in binders if i in told)), conjunction([*rest, inside]))


def _indices(p: Predicate) -> set[Index]:
    return {a for a in free_atoms(p) if isinstance(a, Index)}
