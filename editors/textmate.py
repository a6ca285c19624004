"""The TextMate grammar of `.tl` files, made from the words that the lexer, the parser and the library know.

python editors/textmate.py          write it to editors/vscode
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensorlang.language.functions import KEYWORDS, functions
from tensorlang.surface.parse import library

FILE = Path(__file__).parent / "vscode" / "syntaxes" / "tensorlang.tmLanguage.json"

BINDERS = ("gen", "sum", "max", "min", "argmax", "argmin", "exists")
TYPES = ("R", "rel", "idx")
PAIRS = ("fst", "snd")
LOGIC = ("and", "or", "not")


def words(names: Iterable[str]) -> str:
    """A pattern for these words, the longest first."""
    return rf"\b({'|'.join(sorted(names, key=lambda name: (-len(name), name)))})\b"


def grammar() -> dict[str, Any]:
    """The grammar. Rules that come first win at the same place."""
    control = KEYWORDS - {*BINDERS, *TYPES, *PAIRS, *LOGIC}
    scalar = {*functions(), "pow", "real", *PAIRS} - {"max", "min"}
    rules = [
        ("comment.line.double-dash", r"--.*$"),
        ("constant.numeric", r"\b[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\b"),
        ("keyword.control", words(control)),
        ("keyword.control.scalar", r"\bscalar(?=\s+[A-Za-z_][A-Za-z0-9_]*\s*\()"),
        ("keyword.control.loop", r"\bloop(?=\s+[A-Za-z_][A-Za-z0-9_]*\s*=)"),
        ("keyword.control.loop", r"^\s*(while|do)\b|\bat\s+most(?=\s+[0-9]+\s+times)"),
        ("keyword.operator.logical", words(LOGIC)),
        ("keyword.other.binder", rf"{words(BINDERS)}(?=\s+[A-Za-z_][A-Za-z0-9_]*\s*:)"),
        ("storage.type", words(TYPES)),
        ("support.function", rf"{words({*scalar, 'max', 'min'})}(?=\s*\()"),
        ("support.function.library", rf"{words(library())}(?=\s*\()"),
        ("entity.name.function", r"^\s*[A-Za-z_][A-Za-z0-9_]*(?=\s*\((\s*[A-Za-z_][A-Za-z0-9_]*\s*:|\s*\)\s*=))"),
        ("keyword.operator", r"<=|>=|!=|[-+*/%^=<>]"),
        ("punctuation", r"[()\[\],.:]"),
    ]
    return {
        "name": "tensorlang",
        "scopeName": "source.tensorlang",
        "fileTypes": ["tl"],
        "patterns": [{"name": f"{scope}.tensorlang", "match": pattern} for scope, pattern in rules],
    }


def text() -> str:
    """The file of the grammar."""
    return json.dumps(grammar(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
