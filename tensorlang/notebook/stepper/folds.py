"""Repeated steps: a run of blocks with the same rules, which differ only in their statements, becomes one fold.

a a a a b c d b c d b c d   ->   a x4, (b c d) x3
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from tensorlang.derivatives.derivation import Derivation, Step

_LONGEST = 16
"""The most steps in a block."""
_LEAST = 3
"""The fewest steps in a fold."""


class Fold(NamedTuple):
    """A run of `times` blocks of `period` steps, starting with the step `first`; steps count from 1."""

    first: int
    period: int
    times: int

    @property
    def last(self) -> int:
        """The last step."""
        return self.first + self.period * self.times - 1


def folds(derivation: Derivation) -> list[Fold]:
    """The steps of `derivation` that repeat, in order."""
    return repeats([_form(step) for step in derivation.steps])


def _form(step: Step) -> Hashable:
    """A step without its statements."""
    return step.rule.number, len(step.before), len(step.after), len(step.made)


def repeats(keys: Sequence[Hashable]) -> list[Fold]:
    """Runs of blocks with equal keys, from left to right; those that cover most are preferred, then shorter blocks."""
    found = []
    at = 0
    while at < len(keys):
        covered = {period: period * _times(keys, at, period) for period in range(1, _LONGEST + 1)}
        period = max(covered, key=lambda k: (covered[k] if covered[k] > k else 1, -k))
        if covered[period] > period and covered[period] >= _LEAST:
            found.append(Fold(at + 1, period, covered[period] // period))
            at += covered[period]
        else:
            at += 1
    return found


def _times(keys: Sequence[Hashable], at: int, period: int) -> int:
    end = at + period
    while end + period <= len(keys) and all(keys[end + k] == keys[at + k] for k in range(period)):
        end += period
    return (end - at) // period if at + period <= len(keys) else 0
