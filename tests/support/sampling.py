"""Which of many alike cases are run: by the quick tests, and by one run of the slow ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, of which one in `share`, the first among them, is quick, and the others are slow."""
    return [case if k % share == 0 else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]


def in_turns(items: Iterable[pytest.Item], share: int, turn: int) -> list[pytest.Item]:
    """All but the slow cases of one test whose turn it is not: one in `share` is run, each in one turn of so many."""
    number: Counter[str] = Counter()

    def is_next(item: pytest.Item) -> bool:
        if item.get_closest_marker("slow") is None or not hasattr(item, "callspec"):
            return True
        test = item.nodeid.partition("[")[0]
        number[test] += 1
        return (number[test] - 1 - turn) % share == 0

    return [item for item in items if is_next(item)]
