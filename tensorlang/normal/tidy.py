"""The fix-ups of section 5.4: SSA without the copies and zeros that its translation makes.

A contraction is *index-only* if it has one factor and reads at most one element of it for each of its own (a
shift, stride, diagonal, broadcast, transposition: cost 0). Then

- a contraction of an index-only statement reads through it;
- a sum of a product that nothing else reads, and that reads each element once, is one contraction of both factors;
- a statement that only renames, adds nothing, or multiplies by one is replaced by its operand; zeros vanish;
- a statement on which no output depends is removed.

None of these can raise the cost: points are neither added nor duplicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from operator import is_

from tensorlang.language.affine import atom_affine
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    equal,
)
from tensorlang.normal.contraction import contracted, contraction, inner_solution, is_zero, only_moves, shadow
from tensorlang.normal.pattern import Shape, axes
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Application,
    Comparison,
    Constant,
    Contraction,
    Input,
    Loop,
    Map,
    Outputs,
    Result,
    Selection,
    Statement,
    States,
    live,
    operands,
    output_list,
    own_indices,
    own_ranges,
    result_of,
    states,
)
from tensorlang.recursion import Deep, call, run
from tensorlang.sets.solve import Ranges, simplify_in

_MOST_COMPARED = 16


def tidy(s: SSA) -> SSA:
    """`s` with index-only statements read through, products fused into their sums, and idle statements removed."""
    s = live(s)
    uses = Counter(y for x in s.statements for y in operands(x))
    uses.update(output_list(s.outputs))
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        once = frozenset([new[y] for y in operands(x) if uses[y] == 1 and not isinstance(y, Input | Constant)])
        new[x] = _tidied(with_operands(x, new), once)
    return renewed(s, new)


def renewed(s: SSA, new: Mapping[Statement, Statement]) -> SSA:
    """`s` with its statements replaced by those in `new`, without idle ones; `s` itself if none of them changed.
    Statements that have become one keep the name of the first; inputs and constants have none."""
    names: dict[Statement, str] = {}
    for x, name in s.names.items():
        if x in new and not isinstance(new[x], Input | Constant):
            names.setdefault(new[x], name)
    if all(map(is_, new, new.values())) and names == s.names:
        return s
    return live(replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names))


def replaced(s: SSA, change: Mapping[Statement, Statement]) -> SSA:
    """`s` with some statements replaced by others of the same shapes.

    An index array keeps its identity even if it is now selected from other values, so the result must not be merged
    with `s`.
    """
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        new[x] = change[x] if x in change else with_operands(x, new)
    names = {new[x]: name for x, name in s.names.items()}
    return replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names)


def with_operands(x: Statement, new: Mapping[Statement, Statement]) -> Statement:
    """`x` with its operands replaced by others of the same shapes."""
    if all([new[y] is y for y in operands(x)]):
        return x
    match x:
        case States(loop=loop):
            inits, frees = (tuple(new[y] for y in part) for part in (loop.inits, loop.frees))
            return states(Loop(loop.size, loop.step, inits, frees), x.place, x.word)
        case Result(application=a):
            return result_of(Application(a.routine, a.batch, a.mapped, tuple(new[y] for y in a.operands)), x.place)
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            return Addition(tuple(Addend(t.sign, t.pred, new[t.operand]) for t in terms), shape)
        case Map(p, f, arguments, shape):
            return Map(p, f, tuple(new[y] for y in arguments), shape)
        case Contraction(p, factors, summed, shape):
            return Contraction(p, tuple(new[y] for y in factors), summed, shape)
        case Selection(array, sign, guard, p, operand):
            return Selection(array, sign, guard, p, new[operand])
        case Comparison(array, op, guard, left, right):
            return Comparison(array, op, guard, new[left], new[right])


def with_predicates(x: Statement, change: Callable[[Predicate], Predicate]) -> Statement:
    """`x` with its predicates changed."""
    match x:
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            return Addition(tuple(Addend(t.sign, change(t.pred), t.operand) for t in terms), shape)
        case Map(p, f, arguments, shape):
            return Map(change(p), f, arguments, shape)
        case Contraction(p, factors, summed, shape):
            return Contraction(change(p), factors, summed, shape)
        case Selection(array, sign, guard, p, operand):
            return Selection(array, sign, change(guard), change(p), operand)
        case Comparison(array, op, guard, left, right):
            return Comparison(array, op, change(guard), left, right)


def map_outputs(outputs: Outputs, new: Mapping[Statement, Statement]) -> Outputs:
    """The outputs with each statement replaced."""

    def visit(part: Outputs) -> Deep[Outputs]:
        if isinstance(part, tuple):
            return (yield from call(visit(part[0]))), (yield from call(visit(part[1])))
        return new[part]

    return run(visit(outputs))


def _tidied(x: Statement, once: frozenset[Statement]) -> Statement:
    """`x` made tidy, given that its operands are; `once` holds the statements that nothing else reads."""
    match x:
        case Input() | Constant():
            return x
        case Addition(terms, shape):
            return addition(list(terms), shape)
        case Map(p, f, arguments, shape):
            p = simplify_in(p, own_ranges(x))
            return Constant(Fraction(0), shape) if p is FALSE else Map(p, f, arguments, shape)
        case Contraction():
            return contracted(x, once)
        case Selection(array, sign, guard, p, operand):
            guard = simplify_in(guard, own_ranges(x))
            return Selection(array, sign, guard, simplify_in(p, own_ranges(operand)), operand)
        case Comparison(array, op, guard, left, right):
            return Comparison(array, op, simplify_in(guard, own_ranges(x)), left, right)


def addition(terms: list[Addend], shape: Shape) -> Statement:
    """gen g. the sum of the terms, without zeros; a single positive term that is not masked becomes its operand."""
    ranges = dict(zip(axes(0, len(shape)), shape, strict=True))
    kept: list[Addend] = []
    for t in terms:
        p = simplify_in(t.pred, ranges)
        if p is not FALSE and not is_zero(t.operand):
            kept.append(_unmasked(Addend(t.sign, p, t.operand)))
    if len(set(kept)) < len(kept):
        kept = [_times(t, count, shape) for t, count in Counter(kept).items()]
    kept = _disjoint_joined(kept, ranges)
    if not kept:
        return Constant(Fraction(0), shape)
    if len(kept) == 1 and kept[0].sign > 0 and (kept[0].pred is TRUE or _is_under(kept[0])):
        return kept[0].operand
    return Addition(tuple(kept), shape)


def _times(t: Addend, count: int, shape: Shape) -> Addend:
    """e + .. + e is n * e."""
    if count == 1:
        return t
    own = axes(0, len(shape))
    at = axes(len(shape), len(shape))
    places = conjunction([t.pred, *(equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, at, strict=True))])
    product = contraction(shape, own, [(Constant(Fraction(count), ()), ()), (t.operand, at)], {}, places)
    return Addend(t.sign, t.pred, product)


def _is_under(t: Addend) -> bool:
    """Whether the operand of a term is a product that is 0 where the term's predicate is false."""
    x = t.operand
    return isinstance(x, Contraction) and set(conjuncts(t.pred)) <= set(conjuncts(inner_solution(x).rest))


def _unmasked(t: Addend) -> Addend:
    """The term `t`; if its operand is index-only, with the operand's bracket, which a number then loses itself."""
    x = t.operand
    if not isinstance(x, Contraction) or not only_moves(x):
        return t
    solution = inner_solution(x)
    if solution.free or solution.rest is TRUE:
        return t
    if x.factors[0].shape:
        return Addend(t.sign, conjunction([t.pred, solution.rest]), x)
    return Addend(
        t.sign,
        conjunction([t.pred, solution.rest]),
        contraction(x.shape, own_indices(x), [(x.factors[0], ())], {}, TRUE),
    )


def _disjoint_joined(terms: list[Addend], ranges: Ranges) -> list[Addend]:
    """[p]*e + [q]*e is [p or q]*e if p and q exclude each other."""
    if len({(t.sign, t.operand) for t in terms}) == len(terms):
        return [Addend(t.sign, simplify_in(t.pred, ranges), t.operand) for t in terms]
    groups: dict[tuple[int, Statement], list[_Alternatives]] = {}
    for t in terms:
        parts = groups.setdefault((t.sign, t.operand), [])
        if not any(part.join(t.pred, ranges) for part in parts):
            parts.append(_Alternatives(t.pred))
    return [
        Addend(sign, simplify_in(disjunction(part.joined), ranges), operand)
        for (sign, operand), parts in groups.items()
        for part in parts
    ]


class _Alternatives:
    """Predicates that exclude one another. Equalities of one affine expression with different numbers obviously do, and
    there may be many of these."""

    def __init__(self, first: Predicate) -> None:
        self.joined = [first]
        self.values = {_value(first): {_constant(first)}}

    def join(self, p: Predicate, ranges: Ranges) -> bool:
        """Add `p` if it excludes all others."""
        value, k = _value(p), _constant(p)
        if not value or value not in self.values or len(self.values) > 1:
            if len(self.joined) > _MOST_COMPARED:
                return False
            if simplify_in(conjunction([disjunction(self.joined), p]), ranges) is not FALSE:
                return False
        elif k in self.values[value]:
            return False
        self.values.setdefault(value, set()).add(k)
        self.joined.append(p)
        return True


def _value(p: Predicate) -> tuple[object, ...]:
    """The affine expressions, without their constants, that `p` equates with numbers; none if it says anything else."""
    parts = conjuncts(p)
    return tuple(q.difference.terms for q in parts if isinstance(q, Equal)) if _is_place(parts) else ()


def _constant(p: Predicate) -> tuple[int, ...]:
    return tuple(q.difference.constant for q in conjuncts(p) if isinstance(q, Equal))


def _is_place(parts: tuple[Predicate, ...]) -> bool:
    return all(isinstance(q, Equal) for q in parts)


def is_index_only(x: Statement) -> bool:
    """Whether `x` has no arithmetic: its elements are constants, or each at most one element of its only factor."""
    if isinstance(x, Addition):
        return len(x.terms) == 1 and x.terms[0].sign > 0
    return only_moves(x) or isinstance(x, Input | Constant)


def support(x: Statement) -> Predicate:
    """Where `x` may be other than 0 according to its predicates."""
    match x:
        case Addition(terms, _):
            return disjunction(t.pred for t in terms)
        case Map(p, _, _, _):
            return p
        case Contraction():
            return shadow(x.pattern)
        case Input() | Constant() | Selection() | Comparison():
            return TRUE
