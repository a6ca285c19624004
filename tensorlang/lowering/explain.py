"""What lowering decided, and why: for each array how it is stored and computed, and what was not chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tensorlang.lowering.arrays.decisions import Decision
from tensorlang.shown import Table


@dataclass(frozen=True)
class Explained:
    """One array, or step, of a lowered program.

    `statement` is its text or makes it, `storage` says how the array lies in memory, `kept` whether it is an array of
    its own, and `decisions` how its sums and extrema are computed; if there are none, `computed` says how it is, from
    `parts` if it has several. `apart` has other steps, with the reasons why it is not one with them. `cost` is what it
    takes at given sizes.

    >>> f = tl.parse("f(x: [n]R) = (let s = gen i:n. sum j:n. [j <= i] * x[j] in gen i:n. s[i] * s[i])")
    >>> s = tl.lower(f).explain()["s"]
    >>> print(s.text, s.strategies, s.cost, sep="; ")
    s = gen i:n. sum j:n. [j <= i] * x[j] : [n]R; ('prefix sum', 'hoist'); n + 1 operations
    >>> list(s.lines())[1]
    '    stored      dense; XLA may fuse it with what reads it'
    """

    name: str
    statement: str | Callable[[], str]
    storage: str
    kept: str
    decisions: tuple[Decision, ...] = ()
    cost: str = ""
    computed: str = "element by element"
    parts: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The statement, which is written when somebody reads it."""
        return self.statement if isinstance(self.statement, str) else self.statement()

    @property
    def strategies(self) -> tuple[str, ...]:
        """The names of the strategies that its sums and extrema are computed by, outermost first."""
        return tuple(d.chosen for root in self.decisions for _, d in root.walk())

    def lines(self) -> Iterator[str]:
        """Its lines of text."""
        yield self.text
        yield f"    stored      {self.storage}; {self.kept}" if self.kept else f"    stored      {self.storage}"
        if not self.decisions:
            yield f"    computed    {self.computed}"
            yield from (f"                {part}" for part in self.parts)
        yield from (f"    not with    {name}: {reason}" for name, reason in self.apart)
        said: set[tuple[str, str]] = set()
        for root in self.decisions:
            for depth, d in root.walk():
                indent = "    " + "  " * depth
                yield f"{indent}computed    {d.text}"
                yield f"{indent}      by      {d.chosen}: {d.law}"
                for name, reason in d.rejected:
                    if (name, reason) not in said:
                        yield f"{indent}      not by  {name}: {reason}"
                said.update(d.rejected)
        if self.cost:
            yield f"    costs       {self.cost}"


@dataclass(frozen=True, repr=False)
class LoweringExplanation(Table):
    """What lowering a program for `target` decided: see `Explained`; `notes` are about the whole program.

    >>> f = tl.parse("f(x: [n]R) = (let s = gen i:n. sum j:n. [j <= i] * x[j] in gen i:n. s[i] * s[i])")
    >>> explained = tl.lower(f).explain()
    >>> [step.name for step in explained.steps]
    ['s', 'result']
    >>> print([cells[2] for cells in explained.rows()])
    ['prefix sum; hoist', 'element by element']
    """

    HEADER = ("statement", "stored", "computed by", "not by", "cost")

    target: str
    steps: tuple[Explained, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Explained:
        """The step that makes the array of this name. Raises `KeyError` if there is none."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(self._text_lines())

    def _text_lines(self) -> Iterator[str]:
        for k, step in enumerate(self.steps):
            if k:
                yield ""
            yield from step.lines()
        if self.notes:
            yield ""
            yield from self.notes

    def rows(self) -> Iterator[Sequence[str]]:
        """A row of cells for each step: its text, storage, the strategies chosen, the others with the reasons against
        them, and the cost."""
        for step in self.steps:
            found = [d for root in step.decisions for _, d in root.walk()]
            chosen = "; ".join(d.chosen for d in found) or step.computed
            reasons = [*(pair for d in found for pair in d.rejected), *step.apart]
            rejected = dict.fromkeys(f"{name}: {reason}" for name, reason in reasons)
            storage = f"{step.storage}; {step.kept}" if step.kept else step.storage
            yield step.text, storage, chosen, "\n".join(rejected), step.cost
