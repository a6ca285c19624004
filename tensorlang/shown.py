"""How values show themselves in notebooks.

A value inherits from `Shown` and knows nothing about HTML. All code for that is in `tensorlang.notebook`, at the top,
which registers a function for each kind of value with `html`, `latex` and `bundle`. It is imported when the first value
is shown (`when_shown`). The printers of programs and derivations, which register with `lines`, are imported in the same
way (`when_written`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch
from math import inf
from types import CodeType
from typing import Any

MOST_LINES = 200
MOST_CHARACTERS = 20_000
"""The most text that is shown unasked."""


class Shown:
    """A value that a notebook shows as HTML or typeset, and a terminal as text; `repr` shows a limited part of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return beginning(self._text_lines())

    def _text_lines(self) -> Iterable[str]:
        """The lines of its text. A value with long text yields them one by one, so that only those shown are made."""
        return str(self).split("\n")

    def _repr_html_(self) -> str | None:
        return html(self)

    def _repr_latex_(self) -> str | None:
        return latex(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return bundle(self)


class Named:
    """A callable value with the `__name__` and `__code__` of a function: JAX asks for these when it traces the value,
    and would otherwise make all of its text."""

    __slots__ = ()

    @property
    def __name__(self) -> str:
        return self._called()

    @property
    def __code__(self) -> CodeType:
        code: CodeType = type(self).__call__.__code__
        return code

    def _called(self) -> str:
        raise NotImplementedError


class GeneratedCode(Named, Shown):
    """Generated Python."""

    source: str
    function: Any
    """The program that it runs."""

    def _called(self) -> str:
        name: str = self.function.name
        return name


class Table(Shown):
    """A value that is shown as a table: `rows` of plain text, whose first cells are code, and notes below."""

    HEADER: tuple[str, ...]
    notes: tuple[str, ...]

    def rows(self) -> Iterable[Sequence[str]]:
        """The cells of each row."""
        raise NotImplementedError


_waiting: list[Callable[[], object]] = []
_unwritten: list[Callable[[], object]] = []


def when_shown(register: Callable[[], object]) -> None:
    """Call `register`, perhaps more than once, before showing a value for which nothing is registered yet."""
    _waiting.append(register)


def when_written(register: Callable[[], object]) -> None:
    """The same before a value is written as text; functions are called in the order in which they were given."""
    _unwritten.append(register)


def _registered(function: Any, value: object, waiting: Sequence[Callable[[], object]]) -> Any:
    """The function registered with `function` for the type of `value`, after calling those `waiting`; None if none."""
    for register in waiting:
        register()
        found = function.dispatch(type(value))
        if found is not function.dispatch(object):
            return found
    return None


@singledispatch
def lines(value: object, limit: float = inf) -> Iterable[str]:
    """The lines of the text of a `value`, each made when it is asked for; dots stand for what is beyond `limit`."""
    found = _registered(lines, value, _unwritten)
    if found is not None:
        text: Iterable[str] = found(value, limit)
        return text
    raise TypeError(f"there is no text for a {type(value).__name__}")


def text(value: object) -> str:
    """The text of a `value`."""
    return "\n".join(lines(value))


@singledispatch
def told(value: object, data: Mapping[str, Any] | None) -> Iterable[Any]:
    """The steps of a derivation in words, with costs at the sizes and relations in `data`, if any are given."""
    found = _registered(told, value, _unwritten)
    if found is not None:
        steps: Iterable[Any] = found(value, data)
        return steps
    raise TypeError(f"there are no steps in a {type(value).__name__}")


@singledispatch
def html(value: object) -> str | None:
    """`value` as a piece of HTML; None where typeset LaTeX is the best way to show it."""
    found = _registered(html, value, _waiting)
    return found(value) if found is not None else None


@singledispatch
def latex(value: object) -> str | None:
    """`value` as LaTeX between dollar signs; None where it can't, or shouldn't, be typeset."""
    found = _registered(latex, value, _waiting)
    return found(value) if found is not None else None


@singledispatch
def bundle(value: object) -> Any:
    """`value` in every form that it has, by MIME type: a front end shows the richest that it can."""
    found = _registered(bundle, value, _waiting)
    if found is not None:
        return found(value)
    forms = {"text/plain": repr(value), "text/html": html(value), "text/latex": latex(value)}
    return {kind: form for kind, form in forms.items() if form is not None}


@singledispatch
def page(value: object, part: range | None = None) -> str:
    """`value`, or that part of it, as a whole page for a browser, which needs nothing else."""
    found = _registered(page, value, _waiting)
    if found is not None:
        text: str = found(value, part)
        return text
    raise TypeError(f"there is no page for a {type(value).__name__}")


def beginning(lines: Iterable[str]) -> str:
    """The lines that are shown unasked, and a note if there are more."""
    shown: list[str] = []
    left = MOST_CHARACTERS
    for line in lines:
        left -= len(line)
        if len(shown) == MOST_LINES or left < 0:
            shown.append("... and more, which print shows")
            break
        shown.append(line)
    return "\n".join(shown)
