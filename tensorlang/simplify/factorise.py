"""Sums of several factors: what does not depend on an index leaves its sum, and products are ordered by their cost.

    gen i. sum j, k. A[i, j] * B[j, k] * x[k]  ->  y = gen j. sum k. B[j, k] * x[k];  gen i. sum j. A[i, j] * y[j]
    sum i. c * x[i]                            ->  c * sum i. x[i]

The contractions below a contraction that nothing else reads make one sum with it; it is then computed in another way
only if that is cheaper at all sizes of at least 1, or at the sizes that are given. One that several contractions
read is put into each of them if that is cheaper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial

from tensorlang.cost.bounds import estimate
from tensorlang.cost.polynomial import Polynomial, number, total
from tensorlang.language.affine import Size
from tensorlang.memory import cached
from tensorlang.normal.contraction import only_moves
from tensorlang.normal.pattern import Pattern
from tensorlang.normal.ssa import SSA, Contraction, Statement, live, operands, output_list
from tensorlang.normal.tidy import is_index_only, map_outputs, with_operands
from tensorlang.simplify.plans import MOST_FACTORS, Tree, cheaper, most_factors, plans, usual_sizes, ways, written_cost
from tensorlang.simplify.summation import Summation, inlined, scheme, summation

_NOTHING = number(0)


def factorise(s: SSA, sizes: Mapping[Size, int] | None = None) -> SSA:
    """`s` with its sums of several factors computed in the cheapest way; never at a higher cost at sizes of at least 1.

    With `sizes` it is the cost there that counts, and a way must not cost more at any of the sizes that are not given.
    """
    return _Factorising(s, dict(sizes or {})).run()


@dataclass(frozen=True)
class _Way:
    """A way of computing a contraction, and its cost with all that is computed for it alone."""

    cost: Polynomial
    build: Callable[[], Statement]


class _Factorising:
    def __init__(self, s: SSA, sizes: dict[Size, int]) -> None:
        self.program = s
        self.sizes = sizes
        self.readers: dict[Statement, list[Statement]] = defaultdict(list)
        for x in s.statements:
            for y in operands(x):
                self.readers[y].append(x)
        self.fixed = set(output_list(s.outputs))
        self.new: dict[Statement, Statement] = {}
        self.written: dict[Statement, Polynomial] = {}
        """What each contraction costs as it is written, with all that is computed for it alone."""
        self.spent: dict[Statement, Polynomial] = {}
        """What it costs now."""
        self.dissolved: set[Statement] = set()

    def run(self) -> SSA:
        for x in self.program.statements:
            if isinstance(x, Contraction) and not is_index_only(x):
                self._choose(x)
            else:
                self.new[x] = with_operands(x, self.new)
        names: dict[Statement, str] = {}
        for x, name in self.program.names.items():
            names.setdefault(self.new[x], name)
        outputs = map_outputs(self.program.outputs, self.new)
        return live(replace(self.program, statements=tuple(self.new.values()), outputs=outputs, names=names))

    def _choose(self, x: Contraction) -> None:
        """Compute `x` in the cheapest way, with or without sums that it alone reads."""
        own = self._own(x)
        cost = written_cost(x.pattern)
        if not own and self.dissolved.isdisjoint(operands(x)) and not _sums_one_factor(x.pattern):
            self.new[x] = with_operands(x, self.new)
            self.written[x] = self.spent[x] = cost
            if self._is_better_dissolved(x):
                self.dissolved.add(x)
            return
        here = _expanded(summation(x), self.dissolved)
        spent = total(self.spent[y] for y in own)
        ways = list(self._ways(here, spent))
        self.written[x] = total([cost, *(self.written[y] for y in own)])
        if self.dissolved.isdisjoint(operands(x)):
            ways.insert(0, _Way(spent + cost, lambda: with_operands(x, self.new)))
        else:
            self.written[x] = ways[0].cost
        if own:
            whole = _expanded(here, self.dissolved | self._private_below(own))
            if not plans(whole.pattern).is_pointwise:
                ways += self._ways(whole)
        best = self._best(ways, self.written[x])
        self.new[x], self.spent[x] = best.build(), best.cost
        if self._is_better_dissolved(x):
            self.dissolved.add(x)

    def _ways(self, s: Summation, more: Polynomial = _NOTHING) -> Iterator[_Way]:
        """The ways of computing `s`, each with `more` to be spent."""
        for cost, tree in ways(s.pattern, tuple(self.sizes.items())):
            yield _Way(cost + more if more.terms else cost, partial(self._built, s, tree))

    def _built(self, s: Summation, tree: Tree) -> Statement:
        return plans(s.pattern).build(tree, tuple(self.new.get(y, y) for y in s.factors))

    def _best(self, ways: list[_Way], written: Polynomial) -> _Way:
        """Of the ways that never cost more than what is written, the cheapest at usual sizes."""
        first, *others = ways
        chosen = [first, *(way for way in others if cheaper(way.cost, written, self.sizes))]
        return min(chosen, key=lambda way: estimate(way.cost, usual_sizes(way.cost, self.sizes)))

    def _own(self, x: Statement) -> list[Statement]:
        """The sums that `x` alone reads."""
        return [y for y in dict.fromkeys(operands(x)) if y not in self.dissolved and self._is_private(y)]

    def _is_private(self, y: Statement) -> bool:
        """Whether `y` has arithmetic and is read once, by a contraction."""
        return y in self.spent and len(self.readers[y]) == 1 and y not in self.fixed

    def _private_below(self, found: list[Statement]) -> set[Statement]:
        """These private statements and those that they read, as many as one sum can have factors."""
        below = list(found)
        for y in below:
            if len(below) < MOST_FACTORS:
                below += self._own(y)
        return set(below)

    def _is_better_dissolved(self, y: Contraction) -> bool:
        """Whether it is cheaper that each of several readers of `y` computes what it needs of it."""
        every = dict.fromkeys(self.readers[y])
        readers = [x for x in every if isinstance(x, Contraction) and not only_moves(x)]
        if len(readers) < max(2, len(every)) or y in self.fixed or not y.shape:
            return False
        # what `y` alone reads is computed in any case
        kept, apart = [self.spent[y]], [self.spent[z] for z in self._own(y)]
        for x in readers:
            small = _expanded(summation(x), self.dissolved)
            large = _expanded(small, {y})
            if len(large.factors) > MOST_FACTORS:
                return False
            kept.append(self._best(list(self._ways(small)), written_cost(x.pattern)).cost)
            apart.append(self._best(list(self._ways(large)), written_cost(x.pattern)).cost)
        return cheaper(total(apart), total(kept), self.sizes)


def _expanded(s: Summation, through: Set[Statement]) -> Summation:
    """`s` with the statements in `through` in the places of the factors that read them, up to a number of factors."""
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
    """Whether `x` sums a product over an index on which only one of the factors depends, or none; or is that product
    at each of several places, since the product depends on none of the places but by its condition."""
    s = scheme(x)
    loops = [i for i in s.ranges if i not in s.own]
    if len(s.reads) < 2:
        return False
    apart = any(any(i not in r.indices for r in s.reads) for i in loops)
    return apart or (bool(loops) and any(all(i not in r.indices for r in s.reads) for i in s.own))
