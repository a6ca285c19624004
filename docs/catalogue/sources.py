"""Pages with the sources that other pages refer to: the proofs, and the modules and tests that implement the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.catalogue.proofs import PROOFS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = PROOFS.parent
_NAMED = re.compile(r"`([\w/]+\.(?:py|v))`")
_LANGUAGES = {".py": "python", ".v": "coq"}


def place(name: str) -> Path | None:
    """The file that a page about the paper calls `name`, in the package, the tests, or the proofs; None if there is
    none."""
    candidates = (ROOT / folder / name for folder in ("tensorlang", "tests", "proofs"))
    return next((path.relative_to(ROOT) for path in candidates if path.is_file()), None)


def linked(text: str) -> str:
    """The Markdown of a page at the top, with names of files linked to their sources."""

    def link(match: re.Match[str]) -> str:
        path = place(match[1])
        return match[0] if path is None else f'<a href="source/{path.as_posix()}.html"><code>{match[1]}</code></a>'

    return _NAMED.sub(link, text)


def shown() -> list[Path]:
    """The files that have a page: the proofs, and the files named in the table of the paper."""
    table = (ROOT / "docs" / "paper.md").read_text()
    named = {path for name in _NAMED.findall(table) if (path := place(name)) is not None}
    return sorted(named | {path.relative_to(ROOT) for path in PROOFS.glob("*.v")})


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file; line 12 is at the anchor L-12."""
    for path in shown():
        text = (ROOT / path).read_text()
        code = app.builder.highlighter.highlight_block(text, _LANGUAGES[path.suffix], lineanchors="L")  # type: ignore[attr-defined]
        yield f"source/{path.as_posix()}", {"title": path.name, "body": f"<h1>{path}</h1>\n{code}"}, "page.html"
