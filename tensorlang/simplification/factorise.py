"""Sums of several factors: what does not depend on an index leaves its sum, and products are ordered by their cost.

    gen i. sum j, k. A[i, j] * B[j, k] * x[k]  ->  y = gen j. sum k. B[j, k] * x[k];  gen i. sum j. A[i, j] * y[j]
    sum i. c * x[i]                            ->  c * sum i. x[i]

A contraction and the contractions below it that nothing else reads make one sum. It is computed in another way only if
that is cheaper at all sizes of at least 1, or at the given sizes. A contraction that several others read is merged into
each of them if that is cheaper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass

from tensorlang.costs.bounds import estimate
from tensorlang.costs.polynomial import Polynomial, total
from tensorlang.language.affine import Size
from tensorlang.memory import cached
from tensorlang.normal.contraction import only_moves
from tensorlang.normal.pattern import Pattern
from tensorlang.normal.ssa import SSA, Contraction, Statement, operands, output_list
from tensorlang.normal.tidy import is_index_only, renewed, with_operands
from tensorlang.simplification.plans import (
    MOST_FACTORS,
    Tree,
    cheaper,
    most_factors,
    plans,
    usual_sizes,
    ways,
    written_cost,
)
from tensorlang.simplification.summation import ProductSum, inlined, scheme, summation

_Sizes = tuple[tuple[Size, int], ...]


def factorise(s: SSA, sizes: Mapping[Size, int] | None = None) -> SSA:
    """`s` with its sums of several factors computed in the cheapest way; never at a higher cost at sizes of at least 1.

    With `sizes` the cost there counts, and a way must not cost more for any values of the sizes that are not given.
    """
    return _Factorising(s, tuple((sizes or {}).items())).run()


class _Factorising:
    """The choice for each contraction. Its cost is counted without the sums that it alone reads, so that it is the same
    anywhere in a program, and costs of the same form are compared once."""

    def __init__(self, s: SSA, sizes: _Sizes) -> None:
        self.program = s
        self.sizes = sizes
        self.readers: dict[Statement, list[Statement]] = defaultdict(list)
        for x in s.statements:
            for y in operands(x):
                self.readers[y].append(x)
        self.fixed = set(output_list(s.outputs))
        self.new: dict[Statement, Statement] = {}
        self.own: dict[Statement, list[Statement]] = {}
        """The sums that each contraction alone reads."""
        self.written: dict[Statement, Polynomial] = {}
        """What each contraction costs as it is written."""
        self.spent: dict[Statement, Polynomial] = {}
        """What it costs now, minus the savings at the sums that it alone reads."""
        self.dissolved: set[Statement] = set()

    def run(self) -> SSA:
        for x in self.program.statements:
            if isinstance(x, Contraction) and not is_index_only(x):
                self._choose(x)
                if self._is_better_dissolved(x):
                    self.dissolved.add(x)
            else:
                self.new[x] = with_operands(x, self.new)
        return renewed(self.program, self.new)

    def _choose(self, x: Contraction) -> None:
        """Compute `x` in the cheapest way, with or without sums that it alone reads."""
        own = self.own[x] = [y for y in dict.fromkeys(operands(x)) if self._is_private(y)]
        intact = self.dissolved.isdisjoint(operands(x))
        if not own and intact and not _sums_one_factor(x.pattern):
            self.new[x] = with_operands(x, self.new)
            self.written[x] = self.spent[x] = written_cost(x.pattern)
            return
        here = whole = _expanded(summation(x), self.dissolved)
        inside: list[Statement] = []
        if own:
            whole = _expanded(here, self.dissolved | self._private_below(own))
            inside = self._inside(own, whole)
        spent, written = total(self.spent[y] for y in inside), total(self.written[y] for y in inside)
        best = _cheapest(x.pattern if intact else None, here.pattern, whole.pattern, spent, written, self.sizes)
        self.written[x], self.spent[x] = best.written, best.spent
        if best.tree is None:
            self.new[x] = with_operands(x, self.new)
        else:
            s = whole if best.whole else here
            self.new[x] = plans(s.pattern).build(best.tree, tuple(self.new.get(y, y) for y in s.factors))

    def _is_private(self, y: Statement) -> bool:
        """Whether `y` has arithmetic and is read once, by a contraction."""
        return y in self.spent and len(self.readers[y]) == 1 and y not in self.fixed and y not in self.dissolved

    def _private_below(self, found: list[Statement]) -> set[Statement]:
        """These private statements and the private ones that they read, about as many as one sum can have factors."""
        below = list(found)
        for y in below:
            if len(below) < MOST_FACTORS:
                below += self.own[y]
        return set(below)

    def _inside(self, own: list[Statement], whole: ProductSum) -> list[Statement]:
        """The private statements in `own` and below it that `whole` has replaced by their factors."""
        left = set(whole.factors)
        inside = [y for y in own if y not in left]
        for y in inside:
            inside += [z for z in self.own[y] if z not in left]
        return inside

    def _is_better_dissolved(self, y: Contraction) -> bool:
        """Whether it is cheaper if each of several readers of `y` computes what it needs of `y`."""
        every = dict.fromkeys(self.readers[y])
        readers = [x for x in every if isinstance(x, Contraction) and not only_moves(x)]
        if len(readers) < max(2, len(every)) or y in self.fixed or not y.shape:
            return False
        sums: list[tuple[Pattern, Pattern, Pattern]] = []
        for x in readers:
            kept = _expanded(summation(x), self.dissolved)
            apart = _expanded(kept, {y})
            if len(apart.factors) > MOST_FACTORS:
                return False
            sums.append((x.pattern, kept.pattern, apart.pattern))
        return _is_cheaper_apart(self.spent[y], tuple(sums), self.sizes)


@dataclass(frozen=True)
class _Choice:
    """How a contraction is computed: by a way of summing it up, or as it is written if `tree` is None."""

    tree: Tree | None
    whole: bool
    """Whether it is one sum with sums that it alone reads."""
    written: Polynomial
    spent: Polynomial


@cached
def _cheapest(
    x: Pattern | None, here: Pattern, whole: Pattern, spent: Polynomial, written: Polynomial, sizes: _Sizes
) -> _Choice:
    """The cheapest of: `x` as it is written, unless None; the ways of computing `here`; and the ways of computing
    `whole`, into which the sums are merged that cost `written` as they are written, and `spent` as computed so far."""
    cost = ways(here, sizes)[0][0] if x is None else written_cost(x)
    options: list[tuple[Polynomial, Tree | None, bool]] = [] if x is None else [(cost + spent, None, False)]
    options += [(c + spent, tree, False) for c, tree in ways(here, sizes)]
    if whole is not here and not plans(whole).is_pointwise:
        options += [(c, tree, True) for c, tree in ways(whole, sizes)]
    least, tree, joined = options[_least([c for c, _, _ in options], cost + written, sizes)]
    return _Choice(tree, joined, cost, least - spent)


@cached
def _is_cheaper_apart(spent: Polynomial, readers: tuple[tuple[Pattern, Pattern, Pattern], ...], sizes: _Sizes) -> bool:
    """Whether a contraction that costs `spent` is better merged into each of its `readers`. Each has three patterns: as
    written, reading the contraction, and with the contraction merged into it."""

    def cost(s: Pattern, x: Pattern) -> Polynomial:
        costs = [c for c, _ in ways(s, sizes)]
        return costs[_least(costs, written_cost(x), sizes)]

    kept = total([spent, *(cost(s, x) for x, s, _ in readers)])
    return cheaper(total(cost(s, x) for x, _, s in readers), kept, dict(sizes))


def _least(costs: list[Polynomial], written: Polynomial, sizes: _Sizes) -> int:
    """The index of the cost that is least at usual sizes, among the first one and those never above `written`."""
    given = dict(sizes)
    allowed = [k for k, c in enumerate(costs) if k == 0 or cheaper(c, written, given)]
    return min(allowed, key=lambda k: estimate(costs[k], usual_sizes(costs[k], given)))


def _expanded(s: ProductSum, through: Set[Statement]) -> ProductSum:
    """`s` with those of its factors that are in `through` merged into it, up to a maximal number of factors."""
    k = 0
    while k < len(s.factors) < most_factors(s.pattern):
        if s.factors[k] in through:
            s = inlined(s, k)
            k = 0
        else:
            k += 1
    return s


@cached
def _sums_one_factor(x: Pattern) -> bool:
    """Whether `x` is a product with an index that some factor does not depend on: a summed index, or an index of `x`
    while there are summed ones."""
    s = scheme(x)
    loops = [i for i in s.ranges if i not in s.own]
    if len(s.reads) < 2:
        return False
    apart = any(any(i not in r.indices for r in s.reads) for i in loops)
    return apart or (bool(loops) and any(all(i not in r.indices for r in s.reads) for i in s.own))
