"""The grammar for editors knows the words of the language, and colours programs as the lexer reads them."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from editors import textmate
from tensorlang.surface.lex import RESERVED, tokens
from tensorlang.surface.library import TEXT
from tests.support import ROOT

PRINT = "from editors import textmate; print(textmate.text(), end='')"
"""In a process of its own, as other tests register functions."""

EXAMPLES = [TEXT, *(path.read_text() for path in (ROOT / "examples").glob("*.tl"))]


def coloured(text: str) -> dict[int, tuple[str, str]]:
    """The scope and the text of the token that begins at each place, found as in editors: line by line, from left to
    right."""
    rules = [(p["name"], re.compile(p["match"])) for p in textmate.grammar()["patterns"]]
    found: dict[int, tuple[str, str]] = {}
    start = 0
    for line in text.splitlines(keepends=True):
        at = 0
        while at < len(line):
            hits = [(m.start(), k, m) for k, (_, rule) in enumerate(rules) if (m := rule.search(line, at)) and m[0]]
            if not hits:
                break
            _, k, hit = min(hits)
            found[start + hit.start() + len(hit[0]) - len(hit[0].lstrip())] = rules[k][0], hit[0].strip()
            at = hit.end()
        start += len(line)
    return found


def test_the_grammar_is_up_to_date() -> None:
    made = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True)
    assert textmate.FILE.read_text() == made.stdout, "python tasks.py editors"
    assert json.loads(made.stdout)["scopeName"] == "source.tensorlang"


def test_keywords_numbers_and_symbols_are_coloured_as_they_are_read() -> None:
    for text in EXAMPLES:
        found = coloured(text)
        for token in tokens(text, "<text>"):
            scope, covered = found.get(token.start, ("", ""))
            if token.kind == "number":
                assert scope.startswith("constant.numeric"), token
                assert covered == token.text
            elif token.text in RESERVED:
                assert scope.startswith(("keyword", "storage", "support")), f"{token.text}: {scope}"
                assert covered == token.text
            elif token.kind not in ("name", "end"):
                assert scope.startswith(("keyword.operator", "punctuation")), f"{token.text}: {scope}"
            elif token.kind == "name" and scope:
                assert covered == token.text, f"{token.text}: {covered}"


def test_comments_names_and_functions_differ() -> None:
    found = coloured("f(x: [n]R) = sum i:n. sin(x[i]) * mean(x) -- sum\n")
    scopes = {text: scope.removesuffix(".tensorlang") for scope, text in found.values()}
    assert scopes["f"] == "entity.name.function"
    assert scopes["sum"] == "keyword.other.binder"
    assert scopes["sin"] == "support.function"
    assert scopes["mean"] == "support.function.library"
    assert scopes["R"] == "storage.type"
    assert scopes["-- sum"] == "comment.line.double-dash"
    assert "x" not in scopes
