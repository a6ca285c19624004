"""The theorems of proofs/: where each is stated, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

PROOFS = Path(__file__).parents[2] / "proofs"

_STATED = re.compile(
    r"^[ \t]*(?:Theorem|Lemma|Corollary)\s+(?P<name>[\w']+).*?(?=^[ \t]*Proof\b)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Theorem:
    """A theorem: its name, the file and the line where it is stated, and the statement."""

    name: str
    file: str
    line: int
    statement: str


@cache
def theorems() -> dict[str, Theorem]:
    """Every theorem by its name."""
    found: dict[str, Theorem] = {}
    for path in sorted(PROOFS.glob("*.v")):
        text = path.read_text()
        for match in _STATED.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            statement = dedent(match.group()).rstrip()
            found[match["name"]] = Theorem(match["name"], path.name, line, statement)
    return found
