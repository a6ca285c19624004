"""Sums of additions, split where one of the terms is itself a sum and gets cheaper when merged with the outer one.

    gen j. sum i. ((sum k. A[i, k] * B[k, j]) + C[i, j])  ->  gen j. (sum i, k. A[i, k] * B[k, j]) + sum i. C[i, j]

The same number of points is added before and after, so the product makes the difference: within the outer sum, its
factors may be summed separately first. A number that multiplies the additions is applied last.

    gen i. sum j, k. [i = k or i = j] * ([i = k] * A[j, k] + [i = j] * B[j, k])
                                                           ->  gen i. (sum j. A[j, i]) + sum k. B[i, k]

Such terms are split even if it costs the same: each is read at some places alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tensorlang.costs.bounds import at_sizes, never_above, points
from tensorlang.costs.polynomial import Polynomial, number, total
from tensorlang.language.affine import Size, atom_affine
from tensorlang.language.predicates import TRUE, Or, conjunction, conjuncts, disjunction, equal
from tensorlang.normal.contraction import contraction, only_moves
from tensorlang.normal.pattern import Shape, axes, renamed
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Contraction,
    Statement,
    operands,
    output_list,
    own_indices,
)
from tensorlang.normal.tidy import addition, renewed, support, with_operands
from tensorlang.simplification.plans import cheaper, ways, written_cost
from tensorlang.simplification.summation import inlined, summation


def distribute(s: SSA, sizes: Mapping[Size, int] | None = None) -> SSA:
    """`s` with sums of additions split where that never costs more: at these sizes, or at all sizes of at least 1."""
    readers = Counter([*(y for x in s.statements for y in operands(x)), *output_list(s.outputs)])
    once = frozenset(x for x, count in readers.items() if count == 1)
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        new[x] = _taken_apart(x, once, new, sizes or {}) or with_operands(x, new)
    return renewed(s, new)


def _taken_apart(
    x: Statement, once: frozenset[Statement], new: Mapping[Statement, Statement], sizes: Mapping[Size, int]
) -> Statement | None:
    """`x` as an addition of sums, perhaps times a number; None if it sums no addition, or that is no cheaper."""
    if not isinstance(x, Contraction) or only_moves(x):
        return None
    k, y = len(x.factors) - 1, x.factors[-1]  # a number comes first
    if not isinstance(y, Addition) or y not in once or not all(isinstance(f, Constant) for f in x.factors[:k]):
        return None
    inner = [t.operand for t in y.terms if t.operand in once and _is_sum(t.operand)]
    union = any(isinstance(q, Or) for q in conjuncts(x.pred))
    if not inner and not union:
        return None
    loops = dict(zip(x.pattern.loops, x.summed, strict=True))
    terms: list[Addend] = []
    parts: list[Contraction] = []
    before, after = [written_cost(x.pattern), _addition_cost(y.terms, y.shape)], []
    for t in y.terms:
        at = x.pattern.places[k]
        there = conjunction([x.pred, renamed(t.pred, own_indices(y), at)])
        made = contraction(x.shape, x.pattern.own, [(new[t.operand], at)], loops, there)
        terms.append(Addend(t.sign, support(made), made))
        if isinstance(made, Contraction):
            parts.append(made)
            is_inner = t.operand in inner
            before += _merged(t.operand, made, once, new)
            after.append(_cheapest(made, sizes) if is_inner else written_cost(made.pattern))
    after.append(_addition_cost(terms, x.shape))
    apart = addition(terms, x.shape)
    if k:
        own_axes, read = axes(0, len(x.shape)), axes(len(x.shape), len(x.shape))
        here = conjunction(equal(atom_affine(i), atom_affine(j)) for i, j in zip(own_axes, read, strict=True))
        apart = contraction(x.shape, own_axes, [(x.factors[0], ()), (apart, read)], {}, here)
        after.append(points(x.pattern.outer, TRUE))
    lost = union and not any(isinstance(q, Or) for made in parts for q in conjuncts(made.pred))
    costs = (at_sizes(total(cost), sizes) if sizes else total(cost) for cost in (after, before))
    return apart if cheaper(total(after), total(before), sizes) or (lost and never_above(*costs)) else None


def _merged(
    x: Statement, made: Contraction, once: frozenset[Statement], new: Mapping[Statement, Statement]
) -> list[Polynomial]:
    """The costs of `x`, and of what only it reads, as far as they are sums, or have become part of `made`."""
    costs, stack = [], [x]
    while stack:
        y = stack.pop()
        if y in once and isinstance(y, Contraction) and (_is_sum(y) or new[y] not in made.factors):
            costs.append(written_cost(y.pattern))
            stack += [] if _is_sum(y) else y.factors
    return costs


def _is_sum(x: Statement) -> bool:
    return isinstance(x, Contraction) and not only_moves(x)


def _cheapest(x: Contraction, sizes: Mapping[Size, int]) -> Polynomial:
    """The least cost of `x` merged with the contraction that it reads."""
    y = x.factors[-1]
    whole = inlined(summation(x), len(x.factors) - 1) if isinstance(y, Contraction) else summation(x)
    cost, _ = ways(whole.pattern, tuple(sizes.items()))[0]
    return cost


def _addition_cost(terms: Iterable[Addend], shape: Shape) -> Polynomial:
    """The number of points of all terms, minus that of the union of the positive ones."""
    ranges = dict(zip(axes(0, len(shape)), shape, strict=True))
    positive = disjunction(t.pred for t in terms if t.sign > 0)
    return total(points(ranges, t.pred) for t in terms) + points(ranges, positive) * -1 + number(0)
