"""Pieces of Markdown that the catalogues are made of."""

from __future__ import annotations

import html
from collections.abc import Sequence


def fence(text: str, language: str = "") -> str:
    """A block of code."""
    ticks = "```" if "```" not in text else "````"
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table; bars in its cells are escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def folded(summary: str, body: str) -> str:
    """Markdown that is shown when its summary is clicked."""
    return f"<details>\n<summary>{html.escape(summary)}</summary>\n\n{body}\n</details>\n"
