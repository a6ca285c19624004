"""Which of many alike cases are quick, and which of all one run takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

COMPILING = ["derivative", "jaxprs", "kernels", "lower", "measure", "mesh", "promises", "proofs", "scalars", "sparse"]
"""Folders of tests that compile, or decide, something in each case."""


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, of which one in `share`, the first among them, is quick, and the others are slow."""
    return [case if k % share == 0 else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]


def thin_out(items: Iterable[pytest.Item], share: int) -> None:
    """Of the quick cases of each test that compiles, one in `share`, the first among them, stays quick."""
    number: Counter[str] = Counter()
    for item in items:
        name, _, case = item.nodeid.partition("[")
        if case and name.split("/")[1] in COMPILING and item.get_closest_marker("slow") is None:
            if number[name] % share:
                item.add_marker(pytest.mark.slow)
            number[name] += 1


def in_turns(items: Iterable[pytest.Item], share: int, turn: int) -> list[pytest.Item]:
    """Of the cases of each test, and of the tests without cases of each file, one in `share` of the quick ones and of
    the slow ones: each in one turn of so many."""
    number: Counter[tuple[str, bool]] = Counter()

    def is_next(item: pytest.Item) -> bool:
        alike = item.nodeid.partition("[" if hasattr(item, "callspec") else "::")[0]
        slow = item.get_closest_marker("slow") is not None
        number[alike, slow] += 1
        return (number[alike, slow] + len(alike) - turn) % share == 0  # files of one such test take different turns

    return [item for item in items if is_next(item)]
