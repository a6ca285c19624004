"""The laws of a ring, where they save operations.

    f(c)  =  the number that it is                        for functions whose values at fractions are fractions
    [p]*c + [p]*d  =  [p]*(c + d)                         for numbers c and d
    c*e + d*e  =  (c + d)*e                               so e - e is left out, and 3*e - 2*e is e
    sum s. a*b + sum s. a*c  =  sum s. a*(b + c)          where b and c depend on the same indices

Terms are combined if the same condition hides them, and products if nothing else reads them: then none of the laws
raises the cost at any sizes. Terms that cancel are not evaluated: e - e is 0 even where e is nan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as product_of

from tensorlang.errors import TensorlangError
from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.predicates import TRUE, Predicate, conjunction, conjuncts, equal, substitute
from tensorlang.normal.contraction import contracted, contraction, folded, inner_solution
from tensorlang.normal.pattern import Pattern, axes
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Contraction,
    Input,
    Map,
    Statement,
    operands,
    output_list,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import addition, is_index_only, renewed, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import project, ranges_predicate, simplify_in
from tensorlang.simplification.compact import ignores
from tensorlang.simplification.summation import FactorRead, Scheme, product, scheme
from tensorlang.simplification.supports import is_zero_at_zero

_MOST_BITS = 256
"""The largest size, in bits, of a number that replaces a function call."""
_MOST_TERMS = 32
"""Terms of an addition among which common factors are looked for."""


def apply_ring_laws(s: SSA) -> SSA:
    """`s` with numbers computed, equal terms combined, and common factors taken out of sums."""
    readers = Counter([*(y for x in s.statements for y in operands(x)), *output_list(s.outputs)])
    new: dict[Statement, Statement] = {}
    once: set[Statement] = set()
    for x in s.statements:
        made = with_operands(x, new)
        match made:
            case Map():
                made = _number(made)
            case Addition():
                made = _collected(made, once)
        new[x] = made
        if readers[x] == 1 and not isinstance(x, Input | Constant):
            once.add(made)
    return renewed(s, new)


def _number(x: Map) -> Statement:
    """`x` as a number under a condition, if all its nonzero elements are that number."""
    f, own = x.function, own_ranges(x)
    given = [_bracketed_number(y) for y in x.arguments]
    if f.exact is None or any(g is None for g in given):
        return x
    conditions = simplify_in(conjunction(p for _, p in filter(None, given)), own)
    where = x.pred
    if conditions is not TRUE and not implies(conjunction([x.pred, ranges_predicate(own)]), conditions):
        if not is_zero_at_zero(f) or len(given) > 1:
            return x
        where = simplify_in(conjunction([x.pred, conditions]), own)
    try:
        value = f.exact(*(value for value, _ in filter(None, given)))
    except (ArithmeticError, ValueError, TensorlangError):  # it has no value there, or one that is too long
        return x
    if not isinstance(value, Fraction | int) or _bits(Fraction(value)) > _MOST_BITS:
        return x
    return contraction(x.shape, own_indices(x), [(Constant(Fraction(value), ()), ())], {}, where)


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bracketed_number(x: Statement) -> tuple[Fraction, Predicate] | None:
    """The number c and the condition p if `x` is gen g. [p]*c."""
    if isinstance(x, Constant):
        return x.value, TRUE
    if isinstance(x, Contraction) and len(x.factors) == 1 and isinstance(x.factors[0], Constant):
        found = inner_solution(x)
        return None if found.free else (x.factors[0].value, found.rest)
    return None


def _collected(x: Addition, once: set[Statement]) -> Statement:
    """`x` with equal terms combined, and common factors of others taken out."""
    kept = _like_terms(x, once)
    if len(kept) <= _MOST_TERMS:
        kept = _common_factors(kept, once)
    return x if kept == list(x.terms) else addition(kept, x.shape)


def _like_terms(x: Addition, once: set[Statement]) -> list[Addend]:
    """The terms of `x`, with multiples of one value under the same condition combined."""
    groups: dict[tuple[Predicate, Statement | None], list[tuple[Fraction, Addend]]] = {}
    for t in x.terms:
        value, base = _multiple(t, x, once)
        groups.setdefault((t.pred, base), []).append((t.sign * value, t))
    kept: list[Addend] = []
    for (p, base), found in groups.items():
        value = sum((c for c, _ in found), Fraction(0))
        if len(found) == 1:
            kept.append(found[0][1])
        elif base is None:
            kept.append(Addend(1, p, Constant(value, x.shape)))
        elif value:
            operand = base if abs(value) == 1 else _times(abs(value), base)
            kept.append(Addend(1 if value > 0 else -1, p, operand))
    return kept


def _multiple(t: Addend, x: Addition, once: set[Statement]) -> tuple[Fraction, Statement | None]:
    """c and e for the operand c*e of `t`; e is None for a number, and c is 1 for a product that others read, too."""
    y = t.operand
    number = _bracketed_number(y)
    if number is not None and (
        number[1] is TRUE or implies(conjunction([t.pred, ranges_predicate(own_ranges(x))]), number[1])
    ):
        return number[0], None
    if isinstance(y, Contraction) and len(y.factors) > 1 and isinstance(y.factors[0], Constant) and y in once:
        places = y.pattern.places
        s = dict(zip(y.pattern.loops, y.summed, strict=True))
        base = contraction(y.shape, own_indices(y), list(zip(y.factors[1:], places[1:], strict=True)), s, y.pred)
        return y.factors[0].value, base
    return Fraction(1), y


def _times(value: Fraction, x: Statement) -> Statement:
    own, at = own_indices(x), axes(len(x.shape), len(x.shape))
    here = conjunction(equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, at, strict=True))
    return contraction(x.shape, own, [(Constant(value, ()), ()), (x, at)], {}, here)


@dataclass(frozen=True)
class _Product:
    """A term that nothing else reads: number * sum .. [pred] * X0[..] * X1[..], and its condition."""

    sign: int
    pred: Predicate
    number: Fraction
    scheme: Scheme
    factors: tuple[Statement, ...]

    @property
    def loops(self) -> list[Index]:
        return [i for i in self.scheme.ranges if i not in self.scheme.own]


def _common_factors(terms: list[Addend], once: set[Statement]) -> list[Addend]:
    """The terms, with pairs of products that have a common factor combined into one."""
    read = Counter(y for t in terms if isinstance(t.operand, Contraction) for y in set(t.operand.factors))
    shared = {y for y, count in read.items() if count > 1 and not isinstance(y, Constant)}
    if not shared:
        return terms
    left: list[Addend] = []
    pending = [(t, _product(t, once)) for t in terms]
    while pending:
        t, p = pending.pop(0)
        for k, (u, q) in enumerate(pending):
            joined = None if p is None or q is None or t.pred is not u.pred else _joined(p, q)
            if joined is not None:
                once.add(joined.operand)
                pending[k] = joined, _product(joined, once)
                break
        else:
            left.append(t)
    return left


def _joined(p: _Product, q: _Product) -> Addend | None:
    """The two terms as a product with a sum, if they have a common factor."""
    if p.number != q.number:
        return None
    if p.sign < q.sign:
        p, q = q, p
    for k, j in product_of(range(2), repeat=2):
        if p.factors[k] is q.factors[j]:
            at = _renaming(p, k, q, j)
            operand = None if at is None else _with_sum(p, q, k, j, at)
            if operand is not None:
                return Addend(p.sign, p.pred, operand)
    return None


def _product(t: Addend, once: set[Statement]) -> _Product | None:
    y = t.operand
    if not isinstance(y, Contraction) or y not in once or is_index_only(y):
        return None
    number, factors = Fraction(1), y.factors
    pattern = y.pattern
    if isinstance(factors[0], Constant):
        number = factors[0].value
        pattern, factors = folded(_without_number(y), factors[1:])
    return _Product(t.sign, t.pred, number, scheme(pattern), factors) if len(factors) == 2 else None


def _without_number(y: Contraction) -> Pattern:
    """The pattern of `y` without its first factor, which has no indices."""
    return Pattern(y.pred, y.pattern.factors[1:], y.summed, y.shape)


def _renaming(p: _Product, k: int, q: _Product, j: int) -> Mapping[Atom, Affine] | None:
    """Loops of `p` to replace those of `q`, so that both read the common factor at the same places."""
    if len(q.loops) != len(p.loops):
        return None
    at: dict[Atom, Affine] = {}
    for a, b in zip(q.scheme.reads[j].at, p.scheme.reads[k].at, strict=True):
        for i in q.loops:
            if a is atom_affine(i) and i not in at and any(b is atom_affine(m) for m in p.loops):
                at[i] = b
    # loops that don't occur in the common factor, in order
    free = [atom_affine(m) for m in p.loops if all(a is not atom_affine(m) for a in at.values())]
    rest = [i for i in q.loops if i not in at]
    return {**at, **dict(zip(rest, free, strict=True))} if len(rest) == len(free) else None


def _with_sum(p: _Product, q: _Product, k: int, j: int, at: Mapping[Atom, Affine]) -> Statement | None:
    """sum .. a*(b + c) for sum .. a*b and sum .. a*c; None if these differ in more than b and c."""
    s, here, there = p.scheme, p.scheme.reads, q.scheme.reads
    if any(q.scheme.ranges[i] is not s.ranges[at[i].indices[0]] for i in q.loops):
        return None
    if any(a.substitute(at) is not b for a, b in zip(there[j].at, here[k].at, strict=True)):
        return None
    if {substitute(part, at) for part in conjuncts(q.scheme.pred)} != set(conjuncts(s.pred)):
        return None
    b, c = here[1 - k], FactorRead(there[1 - j].shape, tuple(a.substitute(at) for a in there[1 - j].at))
    indices = tuple(i for i in s.ranges if i in b.indices)
    if set(indices) != set(c.indices) or any(a.lookups for a in (*b.at, *c.at)):
        return None
    if any(ignores(y, i) for y in (p.factors[1 - k], q.factors[1 - j]) for i in own_indices(y)):
        return None  # each would be stored without its idle index, but their sum could not be
    inside = {i: s.ranges[i] for i in indices}
    others = {i: n for i, n in s.ranges.items() if i not in inside}
    where = simplify_in(project(others, s.pred, inside), inside)
    own = axes(0, len(indices))
    change: dict[Atom, Affine] = {i: atom_affine(o) for i, o in zip(indices, own, strict=True)}
    shape = tuple(inside.values())
    pred = substitute(where, change)
    terms = [
        Addend(sign, pred, _moved(shape, own, factor, [a.substitute(change) for a in read.at], pred))
        for sign, factor, read in ((1, p.factors[1 - k], b), (p.sign * q.sign, q.factors[1 - j], c))
    ]
    total = Addition(tuple(terms), shape)
    reads = [here[k], FactorRead(shape, tuple(map(atom_affine, indices)))]
    made = product(s.own, s.ranges, reads, s.pred)
    operand = contracted(Contraction(made.pred, (p.factors[k], total), made.summed, made.shape))
    return operand if p.number == 1 else _times(p.number, operand)


def _moved(
    shape: tuple[Affine, ...], own: tuple[Index, ...], factor: Statement, at: Sequence[Affine], pred: Predicate
) -> Statement:
    """gen own. [pred] * factor[at]."""
    places = axes(len(shape), len(at))
    here = conjunction([pred, *(equal(atom_affine(i), a) for i, a in zip(places, at, strict=True))])
    return contraction(shape, own, [(factor, places)], {}, here)
