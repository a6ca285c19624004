"""Products with additions of single points, distributed into additions of products with as many points.

    A = gen i, k. [a[k] = i] - [b[k] = i];  X = gen i, k. u[k] * A[i, k]
        ->  X = gen i, k. [a[k] = i] * u[k] - [b[k] = i] * u[k]

Each term determines an index over which the whole product has to run, so at large sizes this is cheaper by a factor of
such a size; where a size is 1 it is not. So it is used for Jacobians and Hessians, whose rows are such additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensorlang.language.affine import Index, is_long
from tensorlang.language.predicates import Equal, Predicate, conjunction, conjuncts, free_atoms
from tensorlang.normal.contraction import contraction, only_moves, read_through, settled
from tensorlang.normal.pattern import renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Contraction,
    Statement,
    factor_indices,
    own_indices,
    own_ranges,
    summed_indices,
)
from tensorlang.normal.tidy import addition, map_outputs, support, tidy, with_operands
from tensorlang.sets.solve import Ranges, solve

_MOST_TERMS = 16


def over_points(s: SSA) -> SSA:
    """`s` with products distributed over additions each of whose terms leaves fewer indices to run over."""
    while True:
        new: dict[Statement, Statement] = {}
        for x in s.statements:
            made = with_operands(x, new)
            new[x] = (_distributed(made) if isinstance(made, Contraction) else None) or made
        if all(x is made for x, made in new.items()):
            return s
        names = {new[x]: name for x, name in s.names.items()}
        s = tidy(replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names))


def _distributed(x: Contraction) -> Statement | None:
    """`x` as an addition; None if it reads no addition for which that pays."""
    if only_moves(x):
        return None
    x = _seen_through(x)
    for k, y in enumerate(x.factors):
        if isinstance(y, Addition) and len(y.terms) <= _MOST_TERMS:
            at = factor_indices(x)[k]
            there = [conjunction([x.pred, *(renamed(q, own_indices(y), at) for q in _points(t, y))]) for t in y.terms]
            ranges = {**x.pattern.outer, **x.pattern.inner}
            if all(_freedom(p, ranges) < _freedom(x.pred, ranges) for p in there):
                return addition(list(_terms(x, k, y)), x.shape)
    return None


def _seen_through(x: Contraction) -> Contraction:
    """`x` with views of additions replaced by the additions themselves."""
    for k, y in enumerate(x.factors):
        if isinstance(y, Contraction) and only_moves(y) and isinstance(y.factors[0], Addition):
            pattern, factors = read_through(x.pattern, x.factors, k)
            pattern = settled(pattern)
            return _seen_through(Contraction(pattern.pred, factors, pattern.summed, pattern.shape))
    return x


def _terms(x: Contraction, k: int, y: Addition) -> Iterator[Addend]:
    """`x` with its k-th factor `y` replaced by each of the terms of `y`."""
    own = x.pattern.own
    loops = dict(zip(summed_indices(x), x.summed, strict=True))
    factors = list(zip(x.factors, factor_indices(x), strict=True))
    for t in y.terms:
        at = factor_indices(x)[k]
        given = [*factors[:k], (t.operand, at), *factors[k + 1 :]]
        pred = conjunction([x.pred, renamed(t.pred, own_indices(y), at)])
        made = contraction(x.shape, own, given, loops, pred)
        if isinstance(made, Contraction):
            made = _distributed(made) or made
        yield Addend(t.sign, support(made), made)


def _points(t: Addend, y: Addition) -> list[Predicate]:
    """The equalities without which a term of `y` is zero."""
    own = own_ranges(y)
    parts = conjuncts(conjunction([t.pred, support(t.operand)]))
    return [q for q in parts if isinstance(q, Equal) and free_atoms(q) & own.keys()]


def _freedom(p: Predicate, ranges: Ranges) -> int:
    """The number of indices with long ranges that the equalities in `p` leave free."""
    free: list[Index] = list(solve(conjunction(q for q in conjuncts(p) if isinstance(q, Equal)), ranges, {}).free)
    return sum(is_long(ranges[i]) for i in free)
