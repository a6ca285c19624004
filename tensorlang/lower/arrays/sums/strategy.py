"""A way to compute a sum, as a value: its name, its law, when it applies, and what it makes of the sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorlang.lower.arrays.scope import Context
from tensorlang.lower.arrays.sums.summation import Summation
from tensorlang.lower.emit.python import Value
from tensorlang.recursion import Deep


@dataclass(frozen=True)
class WhyNot:
    """The reason why a strategy does not apply, in a user's words."""

    reason: str


@dataclass(frozen=True)
class Strategy:
    """A way to compute a sum, by a law that the sum is rewritten by.

    `match` finds what the law needs of a sum, or says why it is not there; `rewrite` computes the sum with what was
    found, mostly by way of simpler sums.
    """

    name: str
    law: str
    match: Callable[[Context, Summation], Any]
    rewrite: Callable[[Context, Summation, Any], Deep[Value]]

    def applies(self, ctx: Context, c: Summation) -> str | None:
        """The reason why it does not apply to `c`; None if it does."""
        found = self.match(ctx, c)
        return found.reason if isinstance(found, WhyNot) else None


NOT_A_SUM = WhyNot("no index is left to be summed over")
DECIDED = WhyNot("how to loop is decided already")
