"""What was decided when a program was lowered, and why: a record that explanations are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tensorlang.language.affine import Index
from tensorlang.language.grammar import Expr
from tensorlang.language.show import expr_text
from tensorlang.lowering.arrays.integers import ZERO, Range

_LONG = 100


@dataclass(eq=False)
class Decision:
    """The choice for one sum or extremum.

    The strategy's name and law, those tried before it with the reasons why they do not apply, and the decisions about
    the sums that it was rewritten to.
    """

    summed: tuple[tuple[Index, Range], ...]
    body: Expr
    chosen: str = ""
    law: str = ""
    rejected: tuple[tuple[str, str], ...] = ()
    within: list[Decision] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The subject of the decision, shortened if it is long."""
        over = ", ".join(f"{i}:{r.extent}" if r.start is ZERO else f"{i}:{r.start}..{r.stop}" for i, r in self.summed)
        text = f"{f'sum {over}. ' if over else ''}{' '.join(expr_text(self.body).split())}"
        return text if len(text) <= _LONG else text[: _LONG - 3] + "..."

    def walk(self) -> Iterator[tuple[int, Decision]]:
        """This decision and those within it, each with its depth."""
        stack = [(0, self)]
        while stack:
            depth, d = stack.pop()
            yield depth, d
            stack += [(depth + 1, inner) for inner in reversed(d.within)]


@dataclass
class Decisions:
    """The decisions of a statement, as they are made: a tree, since most strategies rewrite a sum to simpler ones."""

    made: list[Decision] = field(default_factory=list)
    _open: list[Decision] = field(default_factory=list)

    @contextmanager
    def about(self, summed: Mapping[Index, Range], body: Expr) -> Iterator[Decision]:
        """A new decision, within which further ones are made."""
        new = Decision(tuple(summed.items()), body)
        (self._open[-1].within if self._open else self.made).append(new)
        self._open.append(new)
        try:
            yield new
        finally:
            self._open.remove(new)

    def end_statement(self) -> list[Decision]:
        """The decisions since the last statement's end."""
        found, self.made, self._open = self.made, [], []
        return found
