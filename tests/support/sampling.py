"""Which of many cases of the same form are quick, and which of all cases one run takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

COMPILING = [
    "derivatives",
    "jaxprs",
    "kernels",
    "lowering",
    "measure",
    "mesh",
    "promises",
    "proofs",
    "scalars",
    "sparse",
]
"""Folders of tests where each case compiles or decides something."""


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, with one in `share`, starting with the first, quick, and the others marked slow."""
    return [case if k % share == 0 else pytest.param(case, marks=pytest.mark.slow) for k, case in enumerate(cases)]


def thin_out(items: Iterable[pytest.Item], share: int) -> None:
    """Keep only one in `share` of the quick cases of each test that compiles quick, starting with the first."""
    number: Counter[str] = Counter()
    for item in items:
        name, _, case = item.nodeid.partition("[")
        if case and name.split("/")[1] in COMPILING and item.get_closest_marker("slow") is None:
            if number[name] % share:
                item.add_marker(pytest.mark.slow)
            number[name] += 1


def in_turns(items: Iterable[pytest.Item], share: int, turn: int) -> list[pytest.Item]:
    """One in `share` of the cases of each test, and of the tests without cases in each file, quick and slow ones
    separately; in `share` turns each comes once."""
    number: Counter[tuple[str, bool]] = Counter()

    def is_next(item: pytest.Item) -> bool:
        alike = item.nodeid.partition("[" if hasattr(item, "callspec") else "::")[0]
        slow = item.get_closest_marker("slow") is not None
        number[alike, slow] += 1
        return (number[alike, slow] + len(alike) - turn) % share == 0  # files of one such test take different turns

    return [item for item in items if is_next(item)]
