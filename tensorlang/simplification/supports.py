"""Statements computed only where they can be other than 0, as known from their operands.

    Y = gen i, j. [p] * e;  X = gen i, j. Y[i, j] * Z[i, j]  ->  X = gen i, j. [p] * Y[i, j] * Z[i, j]
    Y as above;             X = gen i, j. sin(Y[i, j])       ->  X = gen i, j. [p] * sin(Y[i, j])
    Y as above;             X = gen i, j. Y[i, j] + Z[i, j]  ->  X = gen i, j. [p] * Y[i, j] + Z[i, j]

The second is for functions that are 0 at 0. So a bracket reaches all statements computed from the one that it hides,
and other operands of these are in turn restricted to it (`narrow`). Only comparisons and relations are passed on;
nothing is computed more often than before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant, is_long
from tensorlang.language.grammar import ScalarFunction
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    NonNegative,
    Or,
    Predicate,
    Related,
    at_most,
    conjunction,
    conjuncts,
    free_atoms,
)
from tensorlang.memory import cached
from tensorlang.normal.contraction import is_looked_up, shadow, solution
from tensorlang.normal.pattern import Pattern, Shape, axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Contraction,
    Map,
    Statement,
    looked_up,
    predicates,
    selections,
)
from tensorlang.normal.tidy import is_index_only, renewed, with_operands
from tensorlang.sets.eliminate import paired_bounds
from tensorlang.sets.solve import Ranges, simplify_in

_MOST = 8
"""The most conditions that are passed on."""


Supports = Mapping[Statement, Predicate]
"""Conditions on the indices of statements outside of which they are 0."""


def on_supports(s: SSA) -> SSA:
    """`s` with statements that have arithmetic restricted to where their operands may be other than 0."""
    return with_supports(s)[0]


def with_supports(s: SSA) -> tuple[SSA, Supports]:
    """The result of `on_supports`, and where its statements and those of `s` may be other than 0."""
    new: dict[Statement, Statement] = {}
    outside: dict[Statement, Predicate] = {}
    chosen = selections(s.statements).keys()
    for x in s.statements:
        made, support = _restricted(with_operands(x, new), outside, chosen)
        new[x] = made
        outside[x] = outside[made] = support
    return renewed(s, new), outside


def where_read(x: Statement, supports: Supports) -> tuple[Predicate, ...]:
    """For each predicate of `x`, where it holds and what is read under it may be other than 0."""
    match x:
        case Addition(terms, _):
            return tuple(conjunction([t.pred, supports[t.operand]]) for t in terms)
        case Map(p, f, arguments, _) if is_zero_at_zero(f):
            return (conjunction([p, common(supports[y] for y in arguments)]),)
        case Contraction(p, factors, _, _):
            return (conjunction([p, _inside(x.pattern, tuple([supports[y] for y in factors]), frozenset())]),)
        case _:
            return predicates(x)


def _restricted(x: Statement, supports: Supports, chosen: Collection[IndexArray]) -> tuple[Statement, Predicate]:
    """`x` restricted to the supports of its operands, if it has arithmetic; and conditions on its indices outside of
    which it is 0. `chosen` are the index arrays that the program itself defines."""
    match x:
        case Addition(terms, shape):
            preds, inside = tuple([t.pred for t in terms]), tuple([supports[t.operand] for t in terms])
            there, support = _under(preds, inside, shape, is_index_only(x))
            if there == preds:
                return x, support
            return Addition(
                tuple(Addend(t.sign, q, t.operand) for t, q in zip(terms, there, strict=True)), shape
            ), support
        case Map(p, f, arguments, shape):
            inside = (common(supports[y] for y in arguments),) if is_zero_at_zero(f) else (TRUE,)
            (both,), support = _under((p,), inside, shape, False)
            return x if both is p else Map(both, f, arguments, shape), support
        case Contraction(p, factors, summed, shape):
            inside = tuple([supports[y] for y in factors])
            among = frozenset(array for array in looked_up(x) if array in chosen)
            both, support = _under_all(x.pattern, inside, is_index_only(x), among)
            return x if both is p else Contraction(both, factors, summed, shape), support
        case _:
            return x, TRUE


@cached
def _under(
    preds: tuple[Predicate, ...], inside: tuple[Predicate, ...], shape: Shape, moves: bool
) -> tuple[tuple[Predicate, ...], Predicate]:
    """The conditions of terms that are 0 except `inside`, restricted to that unless the statement only `moves`
    elements; and a condition that holds wherever one of the terms is not 0."""
    ranges = dict(zip(axes(0, len(shape)), shape, strict=True))
    both = preds if moves else tuple(_both(p, q, ranges) for p, q in zip(preds, inside, strict=True))
    return both, common(_kept(conjunction(pair), ranges) for pair in zip(both, inside, strict=True))


@cached
def _under_all(
    x: Pattern, inside: tuple[Predicate, ...], moves: bool, chosen: frozenset[IndexArray]
) -> tuple[Predicate, Predicate]:
    """The same for a product whose factors are 0 except `inside`. Factors read at `chosen` places don't count: they are
    left unchanged, so that the greatest value of a statement stays an element of that statement."""
    known = _inside(x, inside, chosen)
    both = x.pred if moves else _both(x.pred, known, {**x.outer, **x.inner})
    support = _shadow(Pattern(conjunction([both, known]), x.factors, x.summed, x.shape))
    return both, _kept(support, x.outer)


def _inside(x: Pattern, inside: tuple[Predicate, ...], chosen: frozenset[IndexArray]) -> Predicate:
    """Where all factors may be other than 0, except those read at `chosen` places."""
    return conjunction(
        renamed(p, axes(0, len(at)), at)
        for k, (p, at) in enumerate(zip(inside, x.places, strict=True))
        if not is_looked_up(x, k, chosen)
    )


def _both(p: Predicate, q: Predicate, ranges: Ranges) -> Predicate:
    return p if q is TRUE else simplify_in(conjunction([p, q]), ranges)


def _shadow(x: Pattern) -> Predicate:
    """The projection of `x` to its own indices; true if its condition only says where the factors are read."""
    return TRUE if solution(x).rest is TRUE else simplify_in(shadow(x), x.outer)


def _kept(p: Predicate, ranges: Ranges) -> Predicate:
    """The first conditions in `p` that hide a share of the box; false if `p` is false."""
    return FALSE if p is FALSE else conjunction(telling(common([p]), ranges)[:_MOST])


def telling(p: Predicate, ranges: Mapping[Index, Affine]) -> list[Predicate]:
    """The comparisons and relations among the conjuncts of `p` that hide a share of the box of these ranges.

    One that only hides a fixed number of an index's values does not count: it would make every reader longer for
    nothing.
    """
    binders = tuple(ranges.items())
    return [q for q in conjuncts(p) if _tells(q, binders)]


@cached
def _tells(q: Predicate, binders: tuple[tuple[Index, Affine], ...]) -> bool:
    ranges = dict(binders)
    if not isinstance(q, Equal | NonNegative | Related) or free_atoms(q).isdisjoint(ranges):
        return False
    return not (isinstance(q, NonNegative) and _hides_few(q.value, ranges))


def _hides_few(a: Affine, ranges: Mapping[Index, Affine]) -> bool:
    """Whether a >= 0 holds for all but a few values of the only index, or element, in it."""
    inside = [x for x in a.atoms if not isinstance(x, Size)]
    if len(inside) != 1 or abs(a.coefficient(inside[0])) != 1:
        return False
    (x,) = inside
    size = x.array.size if isinstance(x, Lookup) else ranges.get(x)
    rest = a - atom_affine(x) * a.coefficient(x)
    hidden = -rest if a.coefficient(x) > 0 else None if size is None else size - 1 - rest
    return hidden is not None and not is_long(hidden)


def common(conditions: Iterable[Predicate]) -> Predicate:
    """Comparisons and relations that hold wherever one of the `conditions` does: [i = j] and [i = j + 1] both imply
    0 <= i - j <= 1, and [i // 4 = j // 4] implies -3 <= i - j <= 3."""
    return _common(tuple(conditions))


@cached
def _common(conditions: tuple[Predicate, ...]) -> Predicate:
    possible = [(*conjuncts(q), *conjuncts(paired_bounds(q))) for p in conditions for q in alternatives(p)]
    if not possible:
        return FALSE
    first, *others = possible
    shared = [q for q in first if all(q in other for other in others)]
    if not others:
        return conjunction(shared)
    bounds = [_bounds(parts) for parts in (first, *others)]
    known = _bounds(shared)
    for difference in bounds[0]:
        least = [b.get(difference) for b in bounds]
        ends = [k for k in least if k is not None]
        if len(ends) == len(bounds) and known.get(difference) != min(ends):
            shared.append(at_most(constant(min(ends)), difference))
    return conjunction(shared)


def alternatives(p: Predicate) -> tuple[Predicate, ...]:
    """Predicates of which one holds where `p` does: the parts of its first disjunction, each with the rest of `p`."""
    choices = [q for q in conjuncts(p) if isinstance(q, Or)]
    if not choices:
        return (p,)
    rest = [q for q in conjuncts(p) if q is not choices[0]]
    return tuple(conjunction([*rest, q]) for q in choices[0].parts)


def _bounds(parts: Iterable[Predicate]) -> dict[Affine, int]:
    """Lower bounds on differences of two indices."""
    least: dict[Affine, int] = {}
    for q in parts:
        sides = (
            (q.difference, -q.difference) if isinstance(q, Equal) else (q.value,) if isinstance(q, NonNegative) else ()
        )
        for a in sides:
            if len(a.terms) == len(a.indices) == 2 and {k for _, k in a.terms} == {1, -1}:
                difference = a - a.constant
                least[difference] = max(-a.constant, least.get(difference, -a.constant))
    return least


@cached
def is_zero_at_zero(f: ScalarFunction) -> bool:
    """Whether `f` is known to be exactly 0 where all its arguments are; not for shared code, whose loops may not
    end."""
    if f.shared is not None:
        return False
    try:
        with np.errstate(all="ignore"):
            return bool(f.evaluate(*[np.float64(0)] * f.arity) == 0)
    except (ArithmeticError, ValueError):  # a user's own function that has no value there
        return False
