"""How values show themselves in notebooks.

A value inherits from `Shown` and knows nothing of HTML. Whatever is known of that lives at the top, in
`tensorlang.notebook`, which registers a function for each kind of value with `html`, `latex` and `bundle`.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

_LINES = 200
_CHARACTERS = 20_000


class Shown:
    """A value that a notebook shows as HTML or typeset, and a terminal as text, of which `repr` has only so much."""

    __slots__ = ()

    def __repr__(self) -> str:
        return beginning(str(self))

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
    raise NotImplementedError(f"there is no page for a {type(value).__name__}")


def beginning(text: str) -> str:
    """`text`, or as many of its first lines as are shown at once, and how many there are more."""
    if len(text) <= _CHARACTERS and text.count("\n") < _LINES:
        return text
    lines = text.split("\n")
    kept = "\n".join(lines[:_LINES])[:_CHARACTERS]
    left = len(lines) - kept.count("\n") - 1
    return f"{kept}\n... {left} more lines: print shows all" if left else f"{kept} ..."
