"""A way to compute a sum, as a value: its name, its law, when it applies, and what it makes of the sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Expr
from tensorlang.lowering.arrays.context import Context
from tensorlang.lowering.arrays.integers import Range
from tensorlang.lowering.arrays.values import Value
from tensorlang.recursion import Deep, call

C = TypeVar("C")


@dataclass(frozen=True)
class WhyNot:
    """The reason why a strategy does not apply, in a user's words."""

    reason: str


@dataclass(frozen=True)
class Strategy(Generic[C]):
    """A way to compute a sum or an extremum, by a law that rewrites it.

    `match` finds what the law needs in a sum, or says why it is missing; `rewrite` computes the sum from what was
    found, mostly by way of simpler sums.
    """

    name: str
    law: str
    match: Callable[[Context, C], Any]
    rewrite: Callable[[Context, C, Any], Deep[Value]]

    def applies(self, ctx: Context, c: C) -> str | None:
        """The reason why it does not apply to `c`; None if it does."""
        found = self.match(ctx, c)
        return found.reason if isinstance(found, WhyNot) else None


NOT_A_SUM = WhyNot("no index is left to be summed over")
DECIDED = WhyNot("how to loop is decided already")


def by_first(
    ctx: Context, strategies: Sequence[Strategy[C]], c: C, summed: Mapping[Index, Range], about: Expr
) -> Deep[Value]:
    """The array of `c`, computed by the first of `strategies` that applies; one of them must. The decision is recorded
    as one about `about` and its indices `summed`."""
    with ctx.decisions.about(summed, about) as decision:
        rejected: list[tuple[str, str]] = []
        for strategy in strategies:
            found = strategy.match(ctx, c)
            if not isinstance(found, WhyNot):
                decision.chosen, decision.law, decision.rejected = strategy.name, strategy.law, tuple(rejected)
                v: Value = yield from call(strategy.rewrite(ctx, c, found))
                return v
            rejected.append((strategy.name, found.reason))
    raise AssertionError("no strategy applies")
