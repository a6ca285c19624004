"""Sums whose terms are scattered by data over an array with more places than there are terms, read term by term.

    Y = gen i, j. sum l. [a[l] = i and b[l] = j] * u[l] * v[l];   X = gen i. sum j. Y[i, j] * z[j]
        ->  V = gen l. u[l] * v[l];   X = gen i. sum l. [a[l] = i] * V[l] * z[b[l]]

If all readers of Y multiply it, add it up, or move it, then not Y with all its zeros is stored but its terms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tensorlang.language.affine import Affine, Index, atom_affine, is_long, is_narrow
from tensorlang.language.predicates import Exists, NonNegative, Predicate, conjunction, conjuncts, equal
from tensorlang.normal.contraction import Factor, contracted, contraction, is_zero, read_through
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.ssa import SSA, Addend, Addition, Constant, Contraction, Map, Statement, operands, output_list
from tensorlang.normal.tidy import addition, renewed, support, with_operands
from tensorlang.sets.solve import Ranges, Solution, project, solve

LINEAR_IN_LAST = {"where_ge", "where_gt"}
"""Functions that return their last argument, or 0."""

_MOST = 4
"""The most sums as which one statement is read."""

Sums = Sequence[tuple[int, Statement]]
"""The terms of a sum of statements, each with its sign."""

Scattered = Mapping[Statement, Sequence[tuple[int, Contraction]]]
"""The sums as which statements are read term by term."""


def term_by_term(s: SSA) -> SSA:
    """`s` with scattered sums read term by term, if all their readers are linear in them."""
    readers: dict[Statement, list[Statement]] = defaultdict(list)
    for x in s.statements:
        for y in operands(x):
            readers[y].append(x)
    outputs = set(output_list(s.outputs))
    new: dict[Statement, Statement] = {}
    scattered: dict[Statement, Sequence[tuple[int, Contraction]]] = {}
    for x in s.statements:
        sums = _sums(x, new, scattered)
        new[x] = with_operands(x, new) if sums is None else _total(sums, x)
        sums = sums or [(1, new[x])]
        found = [(sign, y) for sign, y in sums if isinstance(y, Contraction) and is_scattered(y)]
        few = len(found) == len(sums) <= _MOST
        if few and x not in outputs and all(_is_linear(reader, x, scattered) for reader in readers[x]):
            scattered[x] = [(sign, _of_points(y)) for sign, y in found]
    return renewed(s, new) if scattered else s


def _is_linear(x: Statement, y: Statement, scattered: Scattered) -> bool:
    """Whether `x` is linear in `y`, and has no factor that is read term by term."""
    match x:
        case Addition():
            return True
        case Map(_, f, (*others, last), _) if f.name in LINEAR_IN_LAST:
            return last is y and y not in others and scattered.keys().isdisjoint(others)
        case Contraction(_, factors, _, _):
            return [z for z in factors if z is y or z in scattered] == [y]
        case _:
            return False


def _sums(x: Statement, new: Mapping[Statement, Statement], scattered: Scattered) -> Sums | None:
    """The terms of `x` as a sum; None if it reads none of `scattered`, or adds something other than a contraction."""
    found: list[tuple[int, Statement]] = []
    k = next((k for k, y in enumerate(operands(x)) if y in scattered), None)
    if k is None:
        return None
    match x:
        case Addition(terms, shape):
            for t in terms:
                those: Sequence[tuple[int, Statement]] = scattered.get(t.operand) or [(1, new[t.operand])]
                for sign, y in those:
                    if not isinstance(y, Contraction):
                        return None
                    under = Contraction(conjunction([t.pred, y.pred]), y.factors, y.summed, shape)
                    found.append((t.sign * sign, contracted(under)))
        case Contraction():
            given = tuple(new[y] for y in x.factors)
            for sign, y in scattered[x.factors[k]]:
                pattern, factors = read_through(x.pattern, (*given[:k], y, *given[k + 1 :]), k)
                made = Contraction(pattern.pred, factors, pattern.summed, pattern.shape)
                found.append((sign, contracted(made)))
        case Map(_, _, (*others, last), _):
            found += ((sign, _of_terms(x, [new[z] for z in others], y)) for sign, y in scattered[last])
        case _:
            raise AssertionError("scattered sums are read by what is linear in them alone")
    return [(sign, y) for sign, y in found if not is_zero(y)]


def _total(sums: Sums, x: Statement) -> Statement:
    return addition([Addend(sign, support(y), y) for sign, y in sums], x.shape)


def is_scattered(x: Contraction) -> bool:
    """Whether `x` has fewer terms than places: its terms are over fewer long indices."""
    p = x.pattern
    ranges = {**p.outer, **p.read, **dict(zip(p.loops, p.summed, strict=True))}
    return growing(solve(p.pred, ranges, {}), ranges) < sum(map(is_long, p.shape))


def _of_points(y: Contraction) -> Contraction:
    """The scattered sum `y` of products, as a scattered sum of one stored value for each point."""
    if len(y.factors) == 1:
        return y
    made = _Points(y).scattered(_Points(y).read(y.factors, y.pattern.places))
    return made if isinstance(made, Contraction) else y


def _of_terms(x: Map, others: Sequence[Statement], y: Contraction) -> Statement:
    """The map `x`, linear in its last argument, the scattered sum `y`, as the scattered sum of `x` of each term."""
    points = _Points(y)
    own = points.pattern.own
    views = [Constant(z.value, points.shape) if isinstance(z, Constant) else points.read([z], [own]) for z in others]
    terms = points.read(y.factors, points.pattern.places)
    there = project(points.others, conjunction([y.pred, x.pred]), points.ranges)
    there = renamed(there, tuple(points.ranges), axes(0, len(points.ranges)))
    return points.scattered(Map(there, x.function, (*views, terms), points.shape))


class _Points:
    """The indices that the terms of a scattered sum are over."""

    def __init__(self, y: Contraction) -> None:
        p = self.pattern = y.pattern
        every = {**p.outer, **p.read, **dict(zip(p.loops, p.summed, strict=True))}
        self.solution = solve(p.pred, every, {})
        self.ranges = {i: every[i] for i in self.solution.free}
        self.others = {i: n for i, n in every.items() if i not in self.ranges}
        self.shape = tuple(self.ranges.values())

    def read(self, factors: Sequence[Statement], places: Sequence[tuple[Index, ...]]) -> Statement:
        """The product of the factors at these places, for each point."""
        given, at = _fresh(factors, places)
        return contraction(self.shape, tuple(self.ranges), given, self.others, conjunction([self.pattern.pred, *at]))

    def scattered(self, terms: Statement) -> Statement:
        """The sum that scatters the terms to their places."""
        p, found = self.pattern, self.solution
        given, at = _fresh([terms], [tuple(self.ranges)])
        known = [q for q in conjuncts(found.rest) if not isinstance(q, Exists)]
        places = [equal(atom_affine(i), found.values[i]) for i in p.own if i in found.values]
        further = {i: n for i, n in self.ranges.items() if i not in p.own}
        return contraction(p.shape, p.own, given, further, conjunction([*places, *at, *known]))


def _fresh(factors: Sequence[Statement], places: Sequence[tuple[Index, ...]]) -> tuple[list[Factor], list[Predicate]]:
    """The factors at fresh indices, and the equalities that make these the `places`."""
    given = [(y, tuple(Index(i.name) for i in at)) for y, at in zip(factors, places, strict=True)]
    pairs = ((i, j) for (_, new), old in zip(given, places, strict=True) for i, j in zip(new, old, strict=True))
    return given, [equal(atom_affine(i), atom_affine(j)) for i, j in pairs]


def growing(found: Solution, ranges: Ranges) -> int:
    """The number of indices, among those that equalities leave free, with more than a few values given the others."""
    free = [i for i in found.free if is_long(ranges[i])]
    bounds = [q.value for q in conjuncts(found.rest) if isinstance(q, NonNegative)]
    while (i := next((i for i in free if _is_tied(i, free, bounds, ranges[i])), None)) is not None:
        free.remove(i)
        bounds = [a for a in bounds if i not in a.free]
    return len(free)


def _is_tied(i: Index, free: Sequence[Index], bounds: Sequence[Affine], extent: Affine) -> bool:
    """Whether other free indices bound `i`, of that extent, to a narrow window."""
    lows = [a for a in bounds if a.coefficient(i) == 1]
    return any(is_narrow(a + b, extent) and any(j in a.free for j in free if j is not i) for a in lows for b in bounds)
