"""The parts of an expression: its distinct subexpressions, their kinds and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang.language.grammar import Bracket, Choice, Expr, Extremum, children
from tensorlang.language.predicates import Predicate

_CONDITIONAL = frozenset({Bracket, Extremum, Choice})


def expressions(root: Expr) -> Iterator[Expr]:
    """The distinct subexpressions of `root`, including itself."""
    found: set[Expr] = set()
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in found:
            found.add(e)
            yield e
            stack += children(e)


@dataclass(frozen=True)
class Census:
    """The number of distinct `nodes` of an expression, their `kinds`, and the `conditions` in it."""

    nodes: int
    kinds: frozenset[type[Expr]]
    conditions: frozenset[Predicate]

    def has(self, *kinds: type[Expr]) -> bool:
        """Whether there is a node of one of these kinds."""
        return not self.kinds.isdisjoint(kinds)


def census(root: Expr) -> Census:
    """The census of `root`."""
    every = list(expressions(root))
    conditions = [e.pred for e in every if type(e) in _CONDITIONAL]  # type: ignore[union-attr]
    return Census(len(every), frozenset(map(type, every)), frozenset(conditions))
