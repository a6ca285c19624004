"""Sums of sums as one sum, put together in one piece.

    X = gen i. [p]*a[i] - [q]*b[i];  gen i. [r]*X[i] + c[i]  ->  gen i. [r and p]*a[i] - [r and q]*b[i] + c[i]
    X = gen i. [p]*-1*a[i];          gen i. X[i] + c[i]      ->  gen i. c[i] - [p]*a[i]

for an X that nothing else reads; a sum that has a name stays. Where the outer sum reads X, each of X's terms is added
as before, and one addition is saved where none of them is present; a sign costs nothing in a sum. So the cost never
rises.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from tensorlang.language.affine import atom_affine
from tensorlang.language.predicates import Or, Predicate, conjunction, equal
from tensorlang.normal.contraction import contraction, inner_solution
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Contraction,
    Statement,
    factor_indices,
    operands,
    output_list,
    own_indices,
    summed_indices,
)
from tensorlang.normal.tidy import addition, renewed, with_operands

_MINUS_ONE = Constant(Fraction(-1), ())


def assemble(s: SSA) -> SSA:
    """`s` with each sum that is only read by one other sum merged into that sum."""
    reads = Counter(y for x in s.statements for y in operands(x))
    reads.update(output_list(s.outputs))
    inner = {
        t.operand for x in s.statements if isinstance(x, Addition) for t in x.terms if reads[t.operand] == 1
    }.difference(output_list(s.outputs), (x for x in s.names if isinstance(x, Addition)))
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        if not isinstance(x, Addition):
            new[x] = with_operands(x, new)
        elif x not in inner:
            new[x] = _assembled(x, inner, new)
    return renewed(s, new)


def _assembled(x: Addition, inner: set[Statement], new: dict[Statement, Statement]) -> Statement:
    """`x` with the sums in `inner` replaced by their terms."""
    terms: list[Addend] = []
    stack = list(reversed(x.terms))
    while stack:
        t = stack.pop()
        if t.operand not in inner:
            terms.append(Addend(t.sign, t.pred, new[t.operand]))
        elif isinstance(t.operand, Addition):
            stack += [Addend(t.sign * u.sign, _both(t.pred, u.pred), u.operand) for u in reversed(t.operand.terms)]
        else:
            terms.append(_signed(Addend(t.sign, t.pred, new[t.operand])))
    return _negation(addition(terms, x.shape))


def _both(outer: Predicate, inner: Predicate) -> Predicate:
    """The conjunction, which is `inner` if its alternatives are all among those of `outer`, as is often the case."""
    if isinstance(outer, Or):
        parts = set(outer.parts)
        if inner in parts or (isinstance(inner, Or) and parts.issuperset(inner.parts)):
            return inner
    return conjunction([outer, inner])


def _signed(t: Addend) -> Addend:
    """The term `t`; if its operand is -1 times something, the factor becomes the term's sign."""
    x = t.operand
    if not isinstance(x, Contraction) or len(x.factors) != 2 or x.factors[0] is not _MINUS_ONE:
        return t
    solution = inner_solution(x)
    if solution.free:
        return t
    given = [(x.factors[1], factor_indices(x)[1])]
    s = dict(zip(summed_indices(x), x.summed, strict=True))
    operand = contraction(x.shape, own_indices(x), given, s, x.pred)
    return Addend(-t.sign, conjunction([t.pred, solution.rest]), operand)


def _negation(x: Statement) -> Statement:
    """`x`, or a product with -1 if it is a sum of one negative term, so that -1 can be reordered with other factors."""
    if not isinstance(x, Addition) or len(x.terms) > 1 or x.terms[0].sign > 0:
        return x
    (t,) = x.terms
    at = axes(len(x.shape), len(x.shape))
    places = (equal(atom_affine(i), atom_affine(j)) for i, j in zip(own_indices(x), at, strict=True))
    given = [(_MINUS_ONE, ()), (t.operand, at)]
    return contraction(x.shape, own_indices(x), given, {}, conjunction([t.pred, *places]))
