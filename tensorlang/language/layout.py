"""Text with places where a line may break, and the choice of those that do.

A group stands on one line if it fits there; if not, every break directly in it becomes a new line.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_CHUNK = 400
"""Flat text up to this width is made once for each document, so a shared document is cheap to repeat."""

_DEEPEST = 40
"""No line is indented further, lest a deep program become mostly blanks."""


@dataclass(frozen=True, slots=True, eq=False)
class Break:
    """A blank, or a new line. A hard one is always a new line."""

    flat: str = " "
    hard: bool = False

    @property
    def width(self) -> float:
        """The width if it is not a new line."""
        return float("inf") if self.hard else len(self.flat)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Documents one after the other, `indent` deeper than what is around them."""

    parts: tuple[Doc, ...]
    indent: int
    group: bool
    width: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", sum(map(_width, self.parts)))


Doc = str | Break | Block

LINE = Break()
SOFT = Break("")
NEWLINE = Break(hard=True)


def concat(*parts: Doc) -> Doc:
    """The parts one after the other."""
    return Block(parts, 0, group=False)


def nest(*parts: Doc) -> Doc:
    """The parts, whose new lines are indented."""
    return Block(parts, 2, group=False)


def group(*parts: Doc) -> Doc:
    """The parts, on one line if they fit."""
    return Block(parts, 0, group=True)


def joined(parts: list[Doc], separator: str = ",") -> Doc:
    """The parts with the separator and a break between them."""
    found: list[Doc] = []
    for part in parts:
        found += [separator, LINE, part] if found else [part]
    return concat(*found)


def render(doc: Doc, width: float, newline: str = "\n") -> str:
    """The text of `doc` in lines of `width` characters where that can be; `newline` comes between lines."""
    out: list[str] = []
    column = 0
    known: dict[Block, str] = {}
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, d = stack.pop()
        if isinstance(d, Block):
            flat = flat or (d.group and column + d.width <= width)
            if not flat or d.width > _CHUNK:
                indent += d.indent
                stack.extend((indent, flat, part) for part in reversed(d.parts))
                continue
            if d not in known:
                known[d] = _flat(d)
            text = known[d]
        elif isinstance(d, str):
            text = d
        elif d.hard or not flat:
            column = min(indent, _DEEPEST)
            out.append(newline + " " * column)
            continue
        else:
            text = d.flat
        out.append(text)
        column += len(text)
    return "".join(out)


def _flat(doc: Doc) -> str:
    out: list[str] = []
    stack = [doc]
    while stack:
        match stack.pop():
            case str(text) | Break(flat=text):
                out.append(text)
            case Block(parts):
                stack.extend(reversed(parts))
    return "".join(out)


def _width(doc: Doc) -> float:
    return len(doc) if isinstance(doc, str) else doc.width
