"""The table of docs/paper.md is true: its modules and tests exist, and a module mentions the figure it implements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tensorlang

PACKAGE = Path(tensorlang.__file__).parent
TESTS = Path(__file__).parent
TABLE = (TESTS.parent / "docs" / "paper.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| .+? \| `(.+?)` \| `(.+?)` \|$", TABLE, re.MULTILINE)


def test_the_table_is_read() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("what", "module", "test"), ROWS)
def test_the_place_exists_and_says_what_it_implements(what: str, module: str, test: str) -> None:
    source = (PACKAGE / module).read_text()
    assert (TESTS / test).exists()
    figure = re.match(r"Figures? (\d+)", what)
    numbers = re.findall(r"\d\.\d+", what)
    if figure and not numbers:
        assert re.search(rf"Figures? (\d+ (to|and) )?(\d+, )*{figure[1]}\b", source), f"{module} doesn't name {what}"
    for number in numbers:
        assert number in source, f"{module} doesn't name {number}"


def test_every_figure_has_a_row() -> None:
    named: set[int] = set()
    for what, _, _ in ROWS:
        found = re.match(r"Figures? (\d+)(?:(?:, | to )(\d+))?", what)
        if found:
            named |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    assert named == set(range(3, 18))
