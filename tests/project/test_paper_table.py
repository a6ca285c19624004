"""The table of docs/paper.md is true: its modules and tests exist, and a module mentions the figure it implements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tensorlang
from tensorlang.derivatives.derivation import RULES
from tensorlang.normal.rules import PASS_RULES
from tests.support import ROOT

PACKAGE = Path(tensorlang.__file__).parent
TESTS = ROOT / "tests"
TABLE = (TESTS.parent / "docs" / "paper.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| .+? \| `(.+?)` \| `(.+?)` \| (.+?) \|$", TABLE, re.MULTILINE)
PROOFS = TESTS.parent / "proofs"


def test_the_table_is_read() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("what", "module", "test", "_proof"), ROWS)
def test_the_place_exists_and_says_what_it_implements(what: str, module: str, test: str, _proof: str) -> None:
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
    for what, *_ in ROWS:
        found = re.match(r"Figures? (\d+)(?:(?:, | to )(\d+))?", what)
        if found:
            named |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    assert named == set(range(3, 18))


@pytest.mark.parametrize(("what", "_module", "_test", "proof"), ROWS)
def test_the_proofs_of_the_rules_are_in_the_files_that_a_row_names(
    what: str, _module: str, _test: str, proof: str
) -> None:
    texts = {name: (PROOFS / name).read_text() for name in re.findall(r"`(\w+\.v)`", proof)}
    assert texts or proof == "–"
    for section, first, last in re.findall(r"(\d)\.(\d+) to \d\.(\d+)", what):
        numbers = {f"{section}.{k}" for k in range(int(first), int(last) + 1)}
        for rule in (*PASS_RULES, *RULES.values()):
            for theorem in rule.theorems if rule.number.rstrip("'") in numbers else ():
                assert any(re.search(rf"Theorem {theorem}(?![\w'])", text) for text in texts.values()), theorem
