"""How values show themselves in notebooks.

A value inherits from `Shown` and knows nothing of HTML. Whatever is known of that lives at the top, in
`tensorlang.notebook`, which registers a function for each kind of value with `html`, `latex` and `bundle`. It is
imported when the first value is shown (`when_shown`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any

MOST_LINES = 200
MOST_CHARACTERS = 20_000
"""No more text than this is shown unasked."""


class Shown:
    """A value that a notebook shows as HTML or typeset, and a terminal as text, of which `repr` has only so much."""

    __slots__ = ()

    def __repr__(self) -> str:
        return beginning(self._text_lines())

    def _text_lines(self) -> Iterable[str]:
        """The lines of its text. A value whose text may be long makes them one by one, and no more than are shown."""
        return str(self).split("\n")

    def _repr_html_(self) -> str | None:
        return html(self)

    def _repr_latex_(self) -> str | None:
        return latex(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return bundle(self)


class Code(Shown):
    """Generated Python."""

    source: str
    function: Any
    """The program that it runs."""


class Table(Shown):
    """What is shown as a table: `rows` of plain text, of which the first cell is code, and notes under it."""

    HEADER: tuple[str, ...]
    notes: tuple[str, ...]

    def rows(self) -> Iterable[Sequence[str]]:
        """The cells of each row."""
        raise NotImplementedError


_waiting: list[Callable[[], object]] = []


def when_shown(register: Callable[[], object]) -> None:
    """Have `register` called before the first value is shown that nothing is registered for yet."""
    _waiting.append(register)


def _has_registered() -> bool:
    """Whether something was still to be registered, which it is now."""
    waiting = list(_waiting)
    for register in waiting:
        register()
    del _waiting[: len(waiting)]
    return bool(waiting)


@singledispatch
def html(value: object) -> str | None:
    """`value` as a piece of HTML; None where typeset LaTeX is the best way to show it."""
    return html(value) if _has_registered() else None


@singledispatch
def latex(value: object) -> str | None:
    """`value` as LaTeX between dollar signs; None where it can't, or shouldn't, be typeset."""
    return latex(value) if _has_registered() else None


@singledispatch
def bundle(value: object) -> Any:
    """`value` in every form that it has, by MIME type: a front end shows the richest that it can."""
    if _has_registered():
        return bundle(value)
    forms = {"text/plain": repr(value), "text/html": html(value), "text/latex": latex(value)}
    return {kind: form for kind, form in forms.items() if form is not None}


@singledispatch
def page(value: object, part: range | None = None) -> str:
    """`value`, or that part of it, as a whole page for a browser, which needs nothing else."""
    if _has_registered():
        return page(value, part)
    raise TypeError(f"there is no page for a {type(value).__name__}")


def beginning(lines: Iterable[str]) -> str:
    """As many of the lines as are shown unasked, and a word if there are more."""
    shown: list[str] = []
    left = MOST_CHARACTERS
    for line in lines:
        left -= len(line)
        if len(shown) == MOST_LINES or left < 0:
            shown.append("... and more, which print shows")
            break
        shown.append(line)
    return "\n".join(shown)
