"""Pieces of HTML: escaped text, tables, folds, and one stylesheet for all.

The stylesheet derives every shade from the colour of the surrounding text, so it suits light and dark themes without
detecting them. Where styles are stripped, as on code-hosting sites, plain headings, tables, preformatted text and folds
are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["STYLE", "block", "code", "escape", "fold", "note", "page", "preformatted", "table"]

STYLE = """
div.tensorlang {--faint: color-mix(in srgb, currentColor 7%, transparent);
  --line: color-mix(in srgb, currentColor 25%, transparent); max-width: 72em; font-size: 0.95em; line-height: 1.45}
div.tensorlang h4 {margin: 0 0 0.4em; font-size: 1.1em; font-weight: 600}
div.tensorlang p {margin: 0.3em 0}
div.tensorlang pre, div.tensorlang code {font-family: var(--jp-code-font-family, ui-monospace, monospace);
  font-size: 0.92em; color: inherit; background: none; padding: 0}
div.tensorlang pre {margin: 0.3em 0; padding: 0.5em 0.8em; line-height: 1.4; overflow-x: auto; white-space: pre;
  background: var(--faint); border: 0; border-radius: 4px}
div.tensorlang pre.law {white-space: pre-wrap}
div.tensorlang table {border-collapse: collapse; margin: 0.4em 0; font-size: 1em; table-layout: auto}
.tensorlang.tensorlang table tbody tr:nth-child(n) {background: none}
.tensorlang.tensorlang table th, .tensorlang.tensorlang table td {text-align: left; vertical-align: top; border: 0;
  border-bottom: 1px solid var(--line); padding: 0.2em 1.4em 0.2em 0; white-space: normal; max-width: none}
.tensorlang.tensorlang table th {font-weight: 600}
.tensorlang.tensorlang table .number {text-align: right; font-variant-numeric: tabular-nums}
div.tensorlang details {margin: 0.3em 0}
div.tensorlang summary {cursor: pointer}
div.tensorlang .note {opacity: 0.75; font-size: 0.92em}
div.tensorlang svg {display: block; margin: 0.4em 0}
div.tensorlang .keyword {color: var(--jp-mirror-editor-keyword-color, #2f8a3f); font-weight: 600}
div.tensorlang .comment {color: var(--jp-mirror-editor-comment-color, #6c8a8a); font-style: italic}
div.tensorlang .string {color: var(--jp-mirror-editor-string-color, #c0504d)}
div.tensorlang span.number {color: var(--jp-mirror-editor-number-color, #2f8a3f)}
div.tensorlang .function {color: var(--jp-mirror-editor-def-color, #3572d4)}
"""


def page(*parts: str) -> str:
    """A whole output: the stylesheet and the parts."""
    return f'<div class="tensorlang"><style>{STYLE}</style>{"".join(parts)}</div>'


def block(tag: str, content: str, kind: str = "") -> str:
    """`content`, which is HTML, in an element, with the class `kind` if given."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<{tag}{attribute}>{content}</{tag}>"


def preformatted(lines: Iterable[str], kind: str = "") -> str:
    """Lines as they are, in an element with the class `kind` if given."""
    return block("pre", escape("\n".join(lines), quote=False), kind)


def code(text: str) -> str:
    """`text` within a line, in the typeface of programs."""
    return block("code", escape(text, quote=False))


def note(text: str) -> str:
    """A remark, less prominent than the text around it."""
    return block("p", escape(text, quote=False), "note")


def fold(summary: str, *content: str, is_open: bool = False) -> str:
    """A fold, which opens when its summary, plain text, is clicked."""
    opening = "<details open>" if is_open else "<details>"
    return f"{opening}<summary>{escape(summary, quote=False)}</summary>{''.join(content)}</details>"


def table(rows: Iterable[Sequence[str]], header: Sequence[str] = (), numbers: Sequence[int] = ()) -> str:
    """Rows of cells, which are HTML, under a header of plain text; columns of `numbers` are flush right."""

    def row(cells: Sequence[str], tag: str) -> str:
        return block("tr", "".join(block(tag, x, "number" if k in numbers else "") for k, x in enumerate(cells)))

    head = block("thead", row([escape(cell) for cell in header], "th")) if header else ""
    return block("table", head + block("tbody", "".join(row(cells, "td") for cells in rows)))
