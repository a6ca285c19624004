"""How values show themselves in notebooks.

A value inherits from `Shown` and knows nothing of HTML. Whatever is known of that lives at the top, in
`tensorlang.notebook`, which registers a function for each kind of value with `html`, `latex` and `bundle`.
"""

from __future__ import annotations

from collections.abc import Iterable
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


@singledispatch
def html(value: object) -> str | None:
    """`value` as a piece of HTML; None where typeset LaTeX is the best way to show it."""
    return None


@singledispatch
def latex(value: object) -> str | None:
    """`value` as LaTeX between dollar signs; None where it can't, or shouldn't, be typeset."""
    return None


@singledispatch
def bundle(value: object) -> Any:
    """`value` in every form that it has, by MIME type: a front end shows the richest that it can."""
    forms = {"text/plain": repr(value), "text/html": html(value), "text/latex": latex(value)}
    return {kind: form for kind, form in forms.items() if form is not None}


@singledispatch
def page(value: object, part: range | None = None) -> str:
    """`value`, or that part of it, as a whole page for a browser, which needs nothing else."""
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
