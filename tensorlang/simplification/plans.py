"""Ways of computing a sum of products by contractions of one or two factors, and what they cost.

A way is a binary tree of the factors. Each of its nodes multiplies two parts and sums over the indices that occur
nowhere outside of it, so factors that do not depend on an index are moved out of the sum over it. A node runs over the
points of the predicate's projection to its indices: with N such points, and G of their projection to the indices that
it keeps, it costs 2N - G.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tensorlang.costs.bounds import at_sizes, estimate, holds_from_1_on, never_above, points, sizes_of
from tensorlang.costs.polynomial import Polynomial, number
from tensorlang.language.affine import Index, Size, atom_affine
from tensorlang.language.grid import indices_of
from tensorlang.language.predicates import TRUE, Exists, Or, Predicate, conjunction, conjuncts
from tensorlang.memory import cached
from tensorlang.normal.contraction import Factors, contracted, shadow
from tensorlang.normal.pattern import Pattern, axes, renamed
from tensorlang.normal.ssa import Contraction, Statement
from tensorlang.sets.solve import Ranges, project, simplify_in
from tensorlang.simplification.summation import FactorRead, Scheme, product, scheme

Tree = int | tuple["Tree", "Tree"]
"""A factor, or two parts that are multiplied."""

Way = tuple[Polynomial, Tree]
"""The cost of a way, and the way."""

MOST_FACTORS = 6
_MOST_UNDER_CONDITIONS = 4  # there each product of some of the factors takes questions about sets
_USUAL, _LARGE = 16, 64


@cached
def plans(x: Pattern) -> Plans:
    """The ways of computing what `x` says."""
    return Plans(scheme(x))


def most_factors(x: Pattern) -> int:
    """The number of factors up to which `x` is expanded, so that all ways of computing it can be compared."""
    return MOST_FACTORS if plans(x).s.pred is TRUE else _MOST_UNDER_CONDITIONS


@cached
def ways(x: Pattern, given: tuple[tuple[Size, int], ...]) -> tuple[Way, ...]:
    """The ways of computing `x` that are worth comparing, at the given sizes."""
    found = plans(x)
    return tuple((found.cost(tree), tree) for tree in found.trees(dict(given)))


@cached
def written_cost(x: Pattern) -> Polynomial:
    """The cost of `x` as it is written: 2N - G, or N - G for one factor."""
    return points({**x.outer, **x.inner}, x.pred) * len(x.factors) - points(x.outer, shadow(x))


@dataclass(frozen=True)
class _Part:
    """A factor by its number, or a contraction of parts; and the places at which it is read."""

    made: int | tuple[Pattern, tuple[_Part, ...]]
    read: FactorRead


class Plans:
    """The ways of computing one sum of products. Intermediate results are cached."""

    def __init__(self, s: Scheme) -> None:
        self.s = s
        self.ranges = s.ranges
        self.own = frozenset(s.own)
        self.mentioned = [frozenset(r.indices) for r in s.reads]
        self.tied = [(q, frozenset(indices_of(q))) for q in conjuncts(s.pred)]
        self._shadows: dict[frozenset[Index], Predicate] = {}
        self._kept: dict[frozenset[int], frozenset[Index]] = {}
        self._points: dict[frozenset[Index], Polynomial] = {}
        self._parts: dict[Tree, _Part] = {}

    @property
    def is_pointwise(self) -> bool:
        """Whether it only multiplies elements at the same place, so that any order costs the same."""
        return len(self.ranges) == len(self.own) and len(set(self.mentioned)) == 1

    @property
    def every(self) -> frozenset[int]:
        """All factors."""
        return frozenset(range(len(self.s.reads)))

    def indices(self, part: frozenset[int]) -> frozenset[Index]:
        """The indices that these factors depend on."""
        return frozenset[Index]().union(*(self.mentioned[k] for k in part))

    def kept(self, part: frozenset[int]) -> frozenset[Index]:
        """The indices of the product of these factors that are not summed over yet."""
        if part not in self._kept:
            inside, outside = self.indices(part), self.indices(self.every - part) | self.own
            pending = frozenset[Index]().union(*(tied for _, tied in self.tied if not tied <= inside))
            self._kept[part] = inside & (outside | pending)
        return self._kept[part]

    def shadow(self, indices: frozenset[Index]) -> Predicate:
        """Where the predicate can be true, given these indices."""
        if self.s.pred is TRUE:
            return TRUE
        if indices not in self._shadows:
            self._shadows[indices] = self._projection(indices)
        return self._shadows[indices]

    def _projection(self, indices: frozenset[Index]) -> Predicate:
        known = {i: n for i, n in self.ranges.items() if i in indices}
        others = {i: n for i, n in self.ranges.items() if i not in indices}
        p = simplify_in(project(others, self.s.pred, known), known) if others else self.s.pred
        if _is_quantified(p) and not _is_quantified(self.s.pred):
            p = conjunction(q for q, tied in self.tied if tied <= indices)
        # a factor that is summed over nothing is 0 by itself
        return conjunction(q for q in conjuncts(p) if indices_of(q) or not holds_from_1_on(q))

    def points(self, indices: frozenset[Index]) -> Polynomial:
        """The number of points of the predicate's projection, counted once whatever the names of the indices."""
        if indices not in self._points:
            ranges = {i: n for i, n in self.ranges.items() if i in indices}
            self._points[indices] = self._counted(ranges, self.shadow(indices))
        return self._points[indices]

    @staticmethod
    def _counted(ranges: Ranges, p: Predicate) -> Polynomial:
        numbered = axes(0, len(ranges))
        return points(dict(zip(numbered, ranges.values(), strict=True)), renamed(p, tuple(ranges), numbered))

    def cost(self, tree: Tree) -> Polynomial:
        """The cost of computing the summation in this way."""
        spent: list[Polynomial] = []
        part = self._visit(tree, lambda inside, kept, factors: spent.append(self._step(inside, kept, factors)))
        if not self._is_whole(part):
            spent.append(self._step(frozenset(self.ranges) - self._gone(part), self.own, 1))
        return sum(spent, number(0))

    def _step(self, inside: frozenset[Index], kept: frozenset[Index], factors: int) -> Polynomial:
        return self.points(inside) * factors - self._distinct(inside, kept)

    def _distinct(self, inside: frozenset[Index], kept: frozenset[Index]) -> Polynomial:
        """The exact number of points that the points of `inside` have when projected to `kept`; it reduces the cost."""
        known = {i: n for i, n in self.ranges.items() if i in kept}
        summed = {i: n for i, n in self.ranges.items() if i in inside and i not in kept}
        p = simplify_in(project(summed, self.shadow(inside), known), known) if summed else self.shadow(inside)
        return self._counted(known, p)

    def _visit(self, tree: Tree, step: Callable[[frozenset[Index], frozenset[Index], int], None]) -> frozenset[int]:
        """Call `step` for each contraction of the tree, with its indices, those it keeps, and its number of factors."""
        if isinstance(tree, int):
            part = frozenset((tree,))
            if self.kept(part) != self.mentioned[tree]:
                step(self.mentioned[tree], self.kept(part), 1)
            return part
        left, right = (self._visit(side, step) for side in tree)
        both = left | right
        step(self.kept(left) | self.kept(right), self.kept(both), 2)
        return both

    def _gone(self, part: frozenset[int]) -> frozenset[Index]:
        return self.indices(part) - self.kept(part)

    def _is_whole(self, part: frozenset[int]) -> bool:
        """Whether the product of all factors has all indices of the result, and nothing is left to be summed over."""
        return self.kept(part) == self.own and frozenset(self.ranges) - self._gone(part) == self.own

    def build(self, tree: Tree, factors: Factors) -> Statement:
        """The statement that computes it so, of these factors."""
        if tree not in self._parts:
            self._parts[tree] = self._whole(tree)
        return _built(self._parts[tree], factors)

    def _whole(self, tree: Tree) -> _Part:
        made = self._part(tree, top=True)
        if self._is_whole(self.every) and not isinstance(tree, int):
            return made
        left = {i: n for i, n in self.ranges.items() if i not in self._gone(self.every)}
        return _contraction(self.s.own, left, [made], self._last(frozenset(left)))

    def _last(self, indices: frozenset[Index]) -> Predicate:
        """The predicate of the last contraction, which includes the conditions on sizes alone."""
        return conjunction([self.shadow(indices), *(q for q, tied in self.tied if not tied)])

    def _part(self, tree: Tree, top: bool = False) -> _Part:
        if isinstance(tree, int):
            factors = [_Part(tree, self.s.reads[tree])]
            inside, kept = self.mentioned[tree], self.kept(frozenset((tree,)))
            if inside == kept:
                return factors[0]
        else:
            factors = [self._part(side) for side in tree]
            parts = [frozenset(_leaves(side)) for side in tree]
            inside = frozenset[Index]().union(*map(self.kept, parts))
            kept = self.kept(parts[0] | parts[1])
        ranges = {i: n for i, n in self.ranges.items() if i in inside}
        last = top and self._is_whole(self.every) and not isinstance(tree, int)
        own = self.s.own if last else tuple(dict.fromkeys(i for f in factors for i in f.read.indices if i in kept))
        return _contraction(own, ranges, factors, self._last(inside) if last else self.shadow(inside))

    def trees(self, given: Mapping[Size, int]) -> tuple[Tree, ...]:
        """The ways that are cheapest if all sizes that are not given are equal, or equal except for a larger one."""
        alike = usual_sizes(self.points(frozenset(self.ranges)), given)
        larger = [{**alike, size: _LARGE} for size in alike if size not in given]
        return tuple(dict.fromkeys(self.cheapest(sizes) for sizes in (alike, *(larger if len(larger) > 1 else ()))))

    def cheapest(self, sizes: Mapping[Size, int]) -> Tree:
        """The cheapest way at these sizes; among equally cheap ones, that closest to the order of the factors."""
        counted: dict[frozenset[Index], int] = {}

        def count(indices: frozenset[Index]) -> int:
            if indices not in counted:
                counted[indices] = estimate(self.points(indices), sizes)
            return counted[indices]

        def joined(a: frozenset[int], b: frozenset[int]) -> int:
            return 2 * count(self.kept(a) | self.kept(b)) - count(self.kept(a | b))

        best: dict[frozenset[int], tuple[int, Tree]] = {frozenset((k,)): (0, k) for k in self.every}
        for size in range(2, len(self.every) + 1):
            for part in _subsets(len(self.every), size):
                splits = ((part - right, right) for right in _halves(part))
                options = ((best[a][0] + best[b][0] + joined(a, b), (best[a][1], best[b][1])) for a, b in splits)
                best[part] = min(options, key=lambda option: option[0])
        return best[self.every][1]


def _contraction(own: tuple[Index, ...], ranges: Ranges, factors: Sequence[_Part], pred: Predicate) -> _Part:
    pattern = product(own, ranges, (f.read for f in factors), pred)
    return _Part((pattern, tuple(factors)), FactorRead(pattern.shape, tuple(map(atom_affine, own))))


def _built(part: _Part, factors: Factors) -> Statement:
    if isinstance(part.made, int):
        return factors[part.made]
    pattern, parts = part.made
    made = tuple(_built(p, factors) for p in parts)
    return contracted(Contraction(pattern.pred, made, pattern.summed, pattern.shape))


def usual_sizes(p: Polynomial, given: Mapping[Size, int]) -> dict[Size, int]:
    """The sizes that are given, and the same value for all others that `p` mentions."""
    return {**dict.fromkeys(sizes_of(p), _USUAL), **given}


def cheaper(p: Polynomial, q: Polynomial, sizes: Mapping[Size, int]) -> bool:
    """Whether p is never above q, and not identical to it, at these sizes and any values of the others."""
    if sizes:
        p, q = at_sizes(p, sizes), at_sizes(q, sizes)
    return p.terms != q.terms and never_above(p, q)


def _subsets(count: int, size: int) -> Iterator[frozenset[int]]:
    return (frozenset(chosen) for chosen in combinations(range(count), size))


def _halves(part: frozenset[int]) -> Iterator[frozenset[int]]:
    """The nonempty subsets of `part` without its first factor; the last factor alone comes first."""
    others = sorted(part)[1:]
    others.reverse()
    for mask in range(1, 1 << len(others)):
        yield frozenset(k for bit, k in enumerate(others) if mask >> bit & 1)


def _leaves(tree: Tree) -> Iterator[int]:
    stack = [tree]
    while stack:
        part = stack.pop()
        if isinstance(part, int):
            yield part
        else:
            stack += part


def _is_quantified(p: Predicate) -> bool:
    stack = [p]
    while stack:
        q = stack.pop()
        if isinstance(q, Exists):
            return True
        if isinstance(q, Or):
            stack += q.parts
        elif q is not TRUE and len(conjuncts(q)) > 1:
            stack += conjuncts(q)
    return False
