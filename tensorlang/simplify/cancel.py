"""What is added at chosen places, left out where it is nothing.

A program that subtracts a maximum so that exp does not overflow, as softmax does, has the same value without; so what
its derivative adds where the maximum is attained is 0, written as a difference:

    m = max i. x[i];  m + log(sum i. exp(x[i] - m))    adds    1 - sum i. exp(x[i] - m) / sum j. exp(x[j] - m)    at m

Such a value is multiplied out into sums of products, and terms cancel by two laws:

    (sum s. e) * recip(sum s. e)  =  1
    c * sum s. e - c * sum t. [s := t] e  =  0

Then nobody needs to know where the maximum is, only what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, atom_affine
from tensorlang.language.functions import function
from tensorlang.language.predicates import (
    FALSE,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    free_atoms,
    lookups,
    substitute,
)
from tensorlang.normal.contraction import folded
from tensorlang.normal.pattern import Pattern, axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Map,
    Selection,
    Statement,
    Term,
    own_indices,
    selections,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, with_operands
from tensorlang.sets.solve import Ranges, simplify_in
from tensorlang.simplify.summation import Summation, inlined, scheme

_MOST_TERMS, _MOST_FACTORS, _MOST_TRIES = 16, 12, 300
_RECIP = function("recip")

Places = dict[Atom, Affine]


@dataclass(frozen=True)
class _Product:
    """gen own. number * sum .. [pred] * X0[a00, ..] * X1[a10, ..] * .., over the indices of `loops`."""

    number: Fraction
    own: tuple[Index, ...]
    sizes: Ranges
    loops: Ranges
    pred: Predicate
    factors: tuple[tuple[Statement, tuple[Affine, ...]], ...]

    def where(self, parts: list[Predicate]) -> _Product:
        """The same with the conjunction of `parts` for its predicate."""
        return replace(self, pred=simplify_in(conjunction(parts), {**self.sizes, **self.loops}))

    @property
    def itself(self) -> Places:
        """Each index of its own."""
        return {i: atom_affine(i) for i in self.own}


def cancel(s: SSA) -> SSA:
    """`s` without what it adds at chosen places, where that is 0."""
    chosen = {array for array, x in selections(s.statements).items() if isinstance(x, Selection)}
    if not chosen:
        return s
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        new[x] = with_operands(_cancelled(x, chosen), new)
    names: dict[Statement, str] = {}
    for x, name in s.names.items():
        names.setdefault(new[x], name)
    return replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names)


def _cancelled(x: Statement, chosen: Set[IndexArray]) -> Statement:
    match x:
        case Addition(terms, shape):
            kept = _without_idle_terms(x, chosen)
            return x if kept == terms else Addition(kept, shape) if kept else Constant(Fraction(0), shape)
        case Contraction(p, factors, _, shape) if _looks_up(p, chosen) and any(map(_is_zero_sum, factors)):
            return Constant(Fraction(0), shape)
        case _:
            return x


def _looks_up(p: Predicate, chosen: Set[IndexArray]) -> bool:
    return any(lookup.array in chosen for lookup in lookups(p))


def _without_idle_terms(x: Addition, chosen: Set[IndexArray]) -> tuple[Term, ...]:
    """The terms of `x` except those at the same chosen places that are 0 together."""
    there: dict[Predicate, list[Term]] = {}
    for t in x.terms:
        if _looks_up(t.pred, chosen):
            there.setdefault(t.pred, []).append(t)
    idle = {p for p, terms in there.items() if is_zero(Addition(tuple(terms), x.shape))}
    return tuple(t for t in x.terms if t.pred not in idle)


def _is_zero_sum(y: Statement) -> bool:
    return isinstance(y, Addition | Contraction) and not is_index_only(y) and is_zero(y)


def is_zero(x: Statement) -> bool:
    """Whether the terms of `x`, multiplied out, cancel. Where a divisor is 0 nothing is promised."""
    products = _expanded(x)
    if products is None:
        return False
    left: list[_Product] = []
    for p in map(_without_quotients, products):
        k = next((k for k, other in enumerate(left) if _are_alike(p, other)), None)
        if k is None:
            left.append(p)
        else:
            left[k] = replace(left[k], number=left[k].number + p.number)
    return all(p.number == 0 for p in left)


def _expanded(x: Statement) -> list[_Product] | None:
    """`x` as a sum of products of what are no sums and products themselves; None if they become too many."""
    rank = len(x.shape)
    here = conjunction(
        equal(atom_affine(i), atom_affine(j)) for i, j in zip(axes(0, rank), axes(rank, rank), strict=True)
    )
    pending = [(1, Summation(Pattern(here, (x.shape,), (), x.shape), (x,)))]
    found: list[_Product] = []
    while pending:
        sign, s = pending.pop()
        k = next((k for k, y in enumerate(s.factors) if isinstance(y, Addition | Contraction)), None)
        if k is None:
            p = _product(sign, s)
            if p.pred is not FALSE:
                found.append(p)
        elif isinstance(y := s.factors[k], Addition):
            pending += [(sign * t.sign, _with_term(s, k, t)) for t in y.terms]
        else:
            pending.append((sign, inlined(s, k)))
        if len(pending) + len(found) > _MOST_TERMS or len(s.factors) > _MOST_FACTORS:
            return None
    return found


def _with_term(s: Summation, k: int, t: Term) -> Summation:
    """`s` with a term of its k-th factor, which is an addition, instead of that factor."""
    x = s.pattern
    there = renamed(t.pred, own_indices(s.factors[k]), x.places[k])
    pattern = Pattern(conjunction([x.pred, there]), x.factors, x.summed, x.shape)
    return Summation(pattern, (*s.factors[:k], t.operand, *s.factors[k + 1 :]))


def _product(sign: int, s: Summation) -> _Product:
    pattern, factors = folded(s.pattern, s.factors)
    x = scheme(pattern)
    read = [(y, r.at) for y, r in zip(factors, x.reads, strict=True)]
    number = Fraction(sign)
    if isinstance(factors[0], Constant):
        number *= factors[0].value
        del read[0]
    sizes = {i: x.ranges[i] for i in x.own}
    loops = {i: n for i, n in x.ranges.items() if i not in sizes}
    return _Product(number, x.own, sizes, loops, x.pred, tuple(read))


def _without_quotients(p: _Product) -> _Product:
    """`p` without sums that are multiplied by their reciprocals: the first law."""
    k = 0
    while k < len(p.factors):
        shorter = _without_quotient(p, k)
        p, k = (p, k + 1) if shorter is None else (shorter, 0)
    return p


def _without_quotient(p: _Product, k: int) -> _Product | None:
    """`p`, if its k-th factor is the reciprocal of a sum by which it is multiplied, without both."""
    y, place = p.factors[k]
    divisor = _expanded(y.arguments[0]) if isinstance(y, Map) and y.function is _RECIP else None
    if divisor is None or len(divisor) != 1:
        return None
    (q,) = map(_without_quotients, divisor)
    if not q.number:
        return None
    others = replace(p, factors=(*p.factors[:k], *p.factors[k + 1 :]))
    here: Places = dict(zip(q.own, place, strict=True))
    every = set(conjuncts(p.pred))
    for at, used in _places(q, here, others):
        gone = {j for i in q.loops for j in at[i].indices}
        rest = tuple(f for j, f in enumerate(others.factors) if j not in used)
        said = {substitute(part, at) for part in conjuncts(q.pred)}
        needed = {part for part in every if not gone.isdisjoint(free_atoms(part))}
        elsewhere = {i for _, found in rest for a in found for i in a.indices}
        if needed <= said <= every and gone.isdisjoint(elsewhere):
            assert isinstance(y, Map)
            loops = {i: n for i, n in p.loops.items() if i not in gone}
            shorter = replace(p, number=p.number / q.number, loops=loops, factors=rest)
            return shorter.where([*(every - needed), substitute(y.pred, here)])
    return None


def _are_alike(p: _Product, q: _Product) -> bool:
    """The second law: whether `p` and `q` differ in numbers, names of loops and the order of factors alone."""
    if len(p.factors) != len(q.factors) or len(p.loops) != len(q.loops):
        return False
    said = set(conjuncts(q.pred))
    return any({substitute(part, at) for part in conjuncts(p.pred)} == said for at, _ in _places(p, p.itself, q))


def _places(p: _Product, known: Places, q: _Product) -> Iterator[tuple[Places, tuple[int, ...]]]:
    """Loops of `q` for those of `p` such that each factor of `p` is one of `q`; and which of these they are.

    Equal factors can be paired in many ways, of which not all are tried.
    """
    pending: list[tuple[Places, tuple[int, ...]]] = [(known, ())]
    for _ in range(_MOST_TRIES):
        if not pending:
            return
        at, used = pending.pop()
        if len(used) < len(p.factors):
            y, place = p.factors[len(used)]
            for j, (z, there) in enumerate(q.factors):
                if j not in used and z is y:
                    pending.append((_unified(p, q, at, place, there), (*used, j)))
        elif len({at.get(i) for i in p.loops} - {None}) == len(p.loops) and all(
            a.substitute(at) is b
            for (_, place), j in zip(p.factors, used, strict=True)
            for a, b in zip(place, q.factors[j][1], strict=True)
        ):
            yield at, used


def _unified(p: _Product, q: _Product, at: Places, place: tuple[Affine, ...], there: tuple[Affine, ...]) -> Places:
    """`at`, and what loops of `p` must be besides for `place` to be `there`, as far as loops stand alone."""
    at = dict(at)
    for a, b in zip(place, there, strict=True):
        for i, n in p.loops.items():
            if a is atom_affine(i) and i not in at and any(b is atom_affine(j) for j, m in q.loops.items() if m is n):
                at[i] = b
    return at
