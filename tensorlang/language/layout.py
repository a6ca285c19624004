"""Text with possible line breaks, and the choice among them.

A group stands on one line if it fits there; if not, every break directly in it becomes a new line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_CHUNK = 400
"""Flat text up to this width is cached in each document, so a shared document is cheap to repeat."""

_DEEPEST = 40
"""The deepest indentation, so that a deep program does not become mostly blanks."""

_UNSEEN = re.compile(
    r"_\{[^{}]*\}(?=\^)|\\(?:left|right|limits|math[a-z]+|substack|Big[lr])(?![a-zA-Z])|(?<=\\)[a-zA-Z]+|[{}^]"
)
"""The parts of TeX that take no space: subscripts below superscripts, braces, some commands, and all except one
character of the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Break:
    """A blank, or a new line: whenever its group takes several lines, or only if the next document would not fit."""

    always: bool
    width = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Fence:
    """An opening or closing bracket: `flat` if its group is on one line, else `broken`."""

    flat: str
    broken: str

    @property
    def width(self) -> float:
        """The width on one line."""
        return visible(self.flat)


@dataclass(frozen=True, slots=True, eq=False)
class LayoutBlock:
    """Documents one after the other, `indent` deeper than what is around them.

    A group is on one line if it fits there, a rigid block always is.
    """

    parts: tuple[Doc, ...]
    indent: int = 0
    group: bool = False
    rigid: bool = False
    width: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", sum(map(_width, self.parts)))


Doc = str | Break | Fence | LayoutBlock

Row = tuple[int, Doc]
"""An indentation, and a document that begins on its own line."""

LINE = Break(always=True)
FILL = Break(always=False)


def concat(*parts: Doc) -> Doc:
    """The parts one after the other."""
    return LayoutBlock(parts)


def nest(*parts: Doc) -> Doc:
    """The parts, whose new lines are indented."""
    return LayoutBlock(parts, indent=2)


def group(*parts: Doc) -> Doc:
    """The parts, on one line if they fit."""
    return LayoutBlock(parts, group=True)


def rigid(*parts: Doc) -> Doc:
    """The parts, on one line whether they fit or not."""
    return LayoutBlock(parts, rigid=True)


def joined(parts: list[Doc], line: Doc = LINE) -> Doc:
    """The parts with commas and breaks between them."""
    found: list[Doc] = []
    for part in parts:
        found += [",", line, part] if found else [part]
    return concat(*found)


def lines(rows: Iterable[Row], width: float, limit: float = float("inf")) -> Iterator[tuple[int, str]]:
    """The indentation and the text of each line, at most `width` characters wide where possible.

    A line of dots replaces the line with which the text would exceed `limit` characters, and those after it.
    """
    spent = 0
    known: dict[LayoutBlock, str] = {}
    for outer, doc in rows:
        start = column = outer
        out: list[str] = []
        stack: list[tuple[int, bool, Doc]] = [(start, False, doc)]
        while stack:
            indent, flat, d = stack.pop()
            if isinstance(d, LayoutBlock):
                flat = flat or d.rigid or (d.group and column + d.width <= width)
                if not flat or d.width > _CHUNK:
                    indent += d.indent
                    stack.extend((indent, flat, part) for part in reversed(d.parts))
                    continue
                if d not in known:
                    known[d] = _flat(d)
                text = known[d]
            elif isinstance(d, str):
                text = d
            elif isinstance(d, Fence):
                text = d.flat if flat else d.broken
            elif flat or not (d.always or column + 1 + _width(stack[-1][2]) > width):
                text = " "
            else:
                yield start, "".join(out)
                out.clear()
                start = column = min(indent, _DEEPEST)
                continue
            out.append(text)
            column += visible(text)
            spent += len(text)
            if spent > limit:
                yield 0, "..."
                return
        yield start, "".join(out)


def render(rows: Iterable[Row], width: float) -> str:
    """The text of `rows` in lines of at most `width` characters where possible."""
    return "\n".join(" " * indent + text for indent, text in lines(rows, width))


def visible(text: str) -> int:
    """The approximate width of `text` on a page, in characters; TeX commands are one character each."""
    return len(_UNSEEN.sub("", text)) if "\\" in text or "}" in text else len(text)


def _flat(doc: Doc) -> str:
    out: list[str] = []
    stack = [doc]
    while stack:
        match stack.pop():
            case str(text) | Fence(flat=text):
                out.append(text)
            case Break():
                out.append(" ")
            case LayoutBlock(parts):
                stack.extend(reversed(parts))
    return "".join(out)


def _width(doc: Doc) -> float:
    return visible(doc) if isinstance(doc, str) else doc.width
