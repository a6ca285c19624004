"""Terms added at chosen places, left out where they cancel.

A program that subtracts a maximum so that exp does not overflow, as softmax does, has the same value without it. So the
term that its derivative adds where the maximum is attained is 0, written as a difference:

    m = max i. x[i];  m + log(sum i. exp(x[i] - m))    adds    1 - sum i. exp(x[i] - m) / sum j. exp(x[j] - m)    at m

Such a value is multiplied out into sums of products, and terms cancel by two laws:

    (sum s where p. e) * recip(sum s where p. e)  =  [exists s. p]
    c * sum s. e - c * sum t. [s := t] e  =  0

Then only the value of the maximum is needed, not its place. This covers maxima in rows, in the segments of an index
array, which may be empty, and in groups of elements on which index arrays are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import replace
from fractions import Fraction
from itertools import islice, permutations

from tensorlang.language.affine import Affine, Index, IndexArray, atom_affine
from tensorlang.language.functions import function
from tensorlang.language.predicates import Predicate, conjunction, conjuncts, free_atoms, lookups, substitute
from tensorlang.normal.ssa import SSA, Addend, Addition, Constant, Contraction, Map, Selection, Statement, selections
from tensorlang.normal.tidy import is_index_only, renewed, with_operands
from tensorlang.simplification.products import Multiplied, Places, Product, signs_by_factors

_MOST_TRIES, _MOST_ORDERS = 300, 24
_RECIP = function("recip")
_ELSEWHERE = atom_affine(Index("elsewhere"))
"""Substituted for an index on which nothing should depend."""


def cancel(s: SSA) -> SSA:
    """`s` without the terms that it adds at chosen places and that cancel."""
    chosen = {array for array, x in selections(s.statements).items() if isinstance(x, Selection)}
    if not chosen:
        return s
    multiplied = Multiplied()
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        multiplied.define(x)
        new[x] = with_operands(_cancelled(x, chosen, multiplied), new)
    return renewed(s, new)


def _cancelled(x: Statement, chosen: Set[IndexArray], multiplied: Multiplied) -> Statement:
    match x:
        case Addition(terms, shape):
            kept = _without_idle_terms(x, chosen, multiplied)
            return x if kept == terms else Addition(kept, shape) if kept else Constant(Fraction(0), shape)
        case Contraction(p, factors, _, shape) if _looks_up(p, chosen) and any(map(_is_sum, factors)):
            return Constant(Fraction(0), shape) if is_zero(x, multiplied) else x
        case _:
            return x


def _looks_up(p: Predicate, chosen: Set[IndexArray]) -> bool:
    return any(lookup.array in chosen for lookup in lookups(p))


def _without_idle_terms(x: Addition, chosen: Set[IndexArray], multiplied: Multiplied) -> tuple[Addend, ...]:
    """The terms of `x`, without groups of terms at the same chosen places whose sum is 0."""
    there: dict[frozenset[Predicate], list[Addend]] = {}
    for t in x.terms:
        places = frozenset(q for q in conjuncts(t.pred) if _looks_up(q, chosen))
        if places:
            there.setdefault(places, []).append(t)
    idle = [terms for terms in there.values() if is_zero(Addition(tuple(terms), x.shape), multiplied)]
    return tuple(t for t in x.terms if not any(t in terms for terms in idle))


def _is_sum(y: Statement) -> bool:
    return isinstance(y, Addition | Contraction) and not is_index_only(y)


def is_zero(x: Statement, multiplied: Multiplied) -> bool:
    """Whether the terms of `x`, multiplied out, cancel. Where a divisor is 0 nothing is promised."""
    products = multiplied.products(x) if _may_cancel(x) else None
    if products is None:
        return False
    left: list[Product] = []
    for p in [_without_quotients(p, multiplied) for p in products]:
        k = next((k for k, other in enumerate(left) if _are_alike(p, other)), None)
        if k is None:
            left.append(p)
        else:
            left[k] = replace(left[k], number=left[k].number + p.number)
    return all(p.number == 0 for p in left)


def _may_cancel(x: Statement) -> bool:
    """Whether `x`, multiplied out, may cancel: each product of the same factors is both added and subtracted, wherever
    these are read, or some product has a divisor."""
    found = signs_by_factors(x)
    if found is None:
        return False
    divided = any(isinstance(y, Map) and y.function is _RECIP for factors in found for y, _ in factors)
    return divided or all(len(signs) == 2 for signs in found.values())


def _without_quotients(p: Product, multiplied: Multiplied) -> Product:
    """`p` with the first law applied: sums multiplied by their reciprocals are removed."""
    k = 0
    while k < len(p.factors):
        shorter = _without_quotient(p, k, multiplied)
        p, k = (p, k + 1) if shorter is None else (shorter, 0)
    return p


def _without_quotient(p: Product, k: int, multiplied: Multiplied) -> Product | None:
    """`p` without its k-th factor and the sum that this is the reciprocal of; None if it is no such reciprocal."""
    y, _ = p.factors[k]
    divisor = multiplied.products(y.arguments[0]) if isinstance(y, Map) and y.function is _RECIP else None
    if divisor is None or len(divisor) != 1:
        return None
    assert isinstance(y, Map)
    (q,) = (_without_quotients(d, multiplied) for d in divisor)
    if not q.number:
        return None
    for at, used in _pairings(q, p):
        gone = {i: p.loops[i] for i in (i for j in q.loops for i in at[j].indices)}
        settled = p.settled(gone)
        own: Places = {i: _ELSEWHERE for i in q.own}
        here = own | dict(zip(multiplied.through(y), settled.factors[k][1], strict=True))
        inner = q.at({**here, **at}, gone)
        apart = [part for part in conjuncts(settled.pred) if gone.keys().isdisjoint(free_atoms(part))]
        kept = [f for j, f in enumerate(settled.factors) if j not in used]
        both = replace(p, pred=conjunction([*apart, inner.pred]), factors=inner.factors).settled(gone)
        removed = replace(settled, factors=tuple(settled.factors[j] for j in used))
        if _is_same(both, removed) and gone.keys().isdisjoint(i for _, at in kept for a in at for i in a.indices):
            others = {i: n for i, n in p.loops.items() if i not in gone}
            kept.remove(settled.factors[k])
            left = Product(
                p.number / q.number, p.own, others, conjunction([*apart, substitute(y.pred, here)]), tuple(kept)
            )
            return left.where_exists(gone, inner.pred).settled()
    return None


def _are_alike(p: Product, q: Product) -> bool:
    """The second law: whether `p` and `q` differ only in numbers, names of loops and the order of factors."""
    if len(p.factors) != len(q.factors) or len(p.loops) != len(q.loops):
        return False
    return any(_is_same(p.at(at, q.loops).settled(), q) for at, _ in _pairings(p, q))


def _is_same(p: Product, q: Product) -> bool:
    """Whether both have the same conditions and the same factors."""
    return Counter(p.factors) == Counter(q.factors) and set(conjuncts(p.pred)) == set(conjuncts(q.pred))


def _pairings(p: Product, q: Product) -> Iterator[tuple[Places, tuple[int, ...]]]:
    """Assignments of loops of `q` to those of `p` that may map each factor of `p` to one of `q`; and the positions of
    those factors of `q`.

    Equal factors can be paired in many ways, not all of which are tried.
    """
    pending: list[tuple[Places, tuple[int, ...]]] = [({}, ())]
    for _ in range(_MOST_TRIES):
        if not pending:
            return
        at, used = pending.pop()
        if len(used) < len(p.factors):
            y, place = p.factors[len(used)]
            for j, (z, there) in enumerate(q.factors):
                if j not in used and z is y:
                    pending.append((_unified(p, q, at, place, there), (*used, j)))
        elif len(set(at.values())) == len(at):
            for others in _matches([i for i in p.loops if i not in at], p, q, at):
                yield {**at, **others}, used


def _unified(p: Product, q: Product, at: Places, place: tuple[Affine, ...], there: tuple[Affine, ...]) -> Places:
    """`at`, extended by the loops of `p` that map `place` to `there`, where a loop is all of a coordinate."""
    at = dict(at)
    for a, b in zip(place, there, strict=True):
        for i, n in p.loops.items():
            if a is atom_affine(i) and i not in at and any(b is atom_affine(j) for j, m in q.loops.items() if m is n):
                at[i] = b
    return at


def _matches(missing: list[Index], p: Product, q: Product, at: Places) -> Iterator[Places]:
    """Assignments of remaining loops of `q` to the loops of `p` that no factor names."""
    free = [j for j in q.loops if atom_affine(j) not in at.values()]
    for found in islice(permutations(free, len(missing)), _MOST_ORDERS):
        if all(p.loops[i] is q.loops[j] for i, j in zip(missing, found, strict=True)):
            yield {i: atom_affine(j) for i, j in zip(missing, found, strict=True)}
