"""The word list of CONTRIBUTING: docstrings, comments and docs don't use the words that it advises against."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tensorlang as tl

ROOT = Path(tl.__file__).parents[1]
CODE = sorted((ROOT / "tensorlang").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]


def _tables() -> list[list[str]]:
    """The phrases in the first column of each table of CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tables = re.findall(r"\| don't write \| but \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
    return [[word for row in table.splitlines() for word in row.split("|")[1].strip().split(", ")] for table in tables]


EVERYWHERE, PUBLIC = _tables()


def _found(phrases: list[str], text: str) -> list[str]:
    """The phrases that occur in a text outside of code; a `first` one only at its beginning."""
    prose = re.sub(r"\s+", " ", re.sub(r"`+[^`]*`+|>>>.*|\"[^\"]*\"", "", text)).strip()
    found = []
    for phrase in phrases:
        word = phrase.removesuffix(" (first)")
        pattern = rf"{word}\b" if word != phrase else rf"\b{word}\b"
        if re.match(pattern, prose) if word != phrase else re.search(pattern, prose):
            found.append(phrase)
    return found


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, with their lines; all of a page, without its code."""
    text = path.read_text()
    if path.suffix != ".py":
        yield 1, re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str() as said)):
                yield node.lineno, said
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("paths", [CODE, PAGES], ids=["package", "docs"])
def test_words_of_the_list_are_not_used(paths: list[Path]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}"
        for path in paths
        for line, text in _prose(path)
        for phrase in _found(EVERYWHERE, text)
    ]
    assert not wrong, "\n".join(wrong)


def _public() -> Iterator[tuple[str, object]]:
    """The public names, those in public modules, and the methods of public classes."""
    for name in dir(tl):
        what = getattr(tl, name)
        inner = (
            getattr(what, "__all__", ())
            if isinstance(what, ModuleType)
            else vars(what)
            if inspect.isclass(what)
            else ()
        )
        yield name, what
        yield from ((f"{name}.{part}", getattr(what, part)) for part in inner if not part.startswith("_"))


def test_docstrings_of_public_names_are_without_words_of_the_second_list() -> None:
    documented = {name: what.__doc__ for name, what in _public() if isinstance(getattr(what, "__doc__", None), str)}
    assert len(documented) > 200
    wrong = {name: found for name, text in documented.items() if (found := _found(PUBLIC, text or ""))}
    assert not wrong


def test_a_word_of_the_list_is_noticed() -> None:
    assert _found(EVERYWHERE, "Gives all terms\nbut for the last, so\nmany as `so many`.") == [
        "but for",
        "so many",
        "Gives (first)",
    ]
    assert not _found(EVERYWHERE, 'It gives all `but for` the "dear" ones.')
