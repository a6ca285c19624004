"""Every error that a user can cause: a place, what was expected, what was found, and often a hint.

Errors are rendered here and nowhere else.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import PurePath
from traceback import extract_tb
from types import FrameType
from typing import ParamSpec, TypeVar

from tensorlang.shown import Shown

P = ParamSpec("P")
T = TypeVar("T")

_PACKAGE = PurePath(__file__).parent


@dataclass(frozen=True)
class Span:
    """A stretch `start:end` of the program text `text`."""

    text: str
    start: int
    end: int
    source: str = "<text>"

    @property
    def line(self) -> int:
        """Line number, from 1."""
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Column number, from 1."""
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        begin = self.text.rfind("\n", 0, self.start) + 1
        stop = self.text.find("\n", self.start)
        full = self.text[begin:] if stop < 0 else self.text[begin:stop]
        line, first = _window(full, self.start - begin)
        width = max(1, min(self.end - self.start, len(line) - first))
        return f"{self.source}:{self.line}:{self.column}\n  {line}\n  {' ' * first}{'^' * width}"


def _window(line: str, column: int, width: int = 100) -> tuple[str, int]:
    """The part of a long line around `column`, and where `column` lies in it; tabs count as one blank."""
    line = "".join(c if c.isprintable() else " " for c in line)
    if len(line) <= width:
        return line, column
    begin = max(0, column - width // 2)
    return line[begin : begin + width], column - begin


def is_cell(filename: str) -> bool:
    """Whether that is what a notebook calls one of its cells."""
    return PurePath(filename).parent.name.startswith("ipykernel_")


@dataclass(frozen=True)
class PythonLine:
    """A line of the Python program that uses the embedding."""

    filename: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}" if is_cell(self.filename) else f"{self.filename}:{self.line}"
        return where + (f"\n  {self.code}" if self.code else "")


Place = Span | PythonLine

_OTHERS = frozenset({"tensorlang", "jax", "jaxlib", "numpy", "functools", "contextlib"})
"""The packages whose own lines are no user's."""


def user_frame() -> FrameType | None:
    """The innermost frame that is neither tensorlang's own nor that of a library on the way to it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OTHERS:
        frame = frame.f_back
    return frame


def here() -> PythonLine | None:
    """The user's line that is being executed."""
    frame = user_frame()
    return None if frame is None else python_line(frame.f_code.co_filename, frame.f_lineno)


def python_line(filename: str, line: int) -> PythonLine:
    """That line of that file."""
    return PythonLine(filename, line, linecache.getline(filename, line).strip())


def placed(f: Callable[P, T]) -> Callable[P, T]:
    """`f`, whose errors have the user's line as their place where they have no other."""

    @wraps(f)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return f(*args, **kwargs)
        except TensorlangError as error:
            error.at(here())
            raise

    return run


class TensorlangError(Shown, Exception):
    """An error in a program or its use. `place` says where, `hint` what would mend it."""

    def __init__(self, message: str, place: Place | None = None, hint: str | None = None) -> None:
        self.message = message
        self.place = place
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        where = f"{self.place}\n" if self.place is not None else ""
        return f"{where}{self.message}{self._mend()}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self}"

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it when it is raised: where the user's own code was, without frames of the package."""
        found = []
        for frame in extract_tb(self.__traceback__):
            path = PurePath(frame.filename)
            if not path.is_relative_to(_PACKAGE) and "IPython" not in path.parts:
                in_cell = is_cell(frame.filename) or frame.filename.startswith("<")
                where = "" if in_cell else f"{path.name}, "
                found.append(f"{where}line {frame.lineno}\n  {frame.line}")
        return [*found, repr(self)]

    def told(self) -> str:
        """The text of it for those who wrote the program in a file: without a line of Python."""
        return str(self) if not isinstance(self.place, PythonLine) else f"{self.message}{self._mend()}"

    def _mend(self) -> str:
        return f"\nhint: {self.hint}" if self.hint else ""

    def at(self, place: Place | None) -> TensorlangError:
        """The same error, placed at `place` unless it has a place already."""
        if self.place is None:
            self.place = place
        return self


def alternatives(hints: list[str]) -> str | None:
    """One hint of several, the likeliest first."""
    return "\n  or: ".join(hints) or None


class ParseError(TensorlangError):
    """Text that is not a program."""


class ScopeError(TensorlangError):
    """A name that is not bound here, or is bound twice."""


class UnknownAttribute(ScopeError, AttributeError):
    """An attribute that a value of a program, or tensorlang itself, does not have."""


class TypeMismatch(TensorlangError):
    """An expression of another type than its context needs."""


class SizeMismatch(TypeMismatch):
    """Two sizes that must agree and don't."""


class OutOfBounds(TensorlangError):
    """An access that can fall outside its array. `witness` holds sizes and indices at which it does."""

    def __init__(
        self,
        message: str,
        place: Place | None = None,
        hint: str | None = None,
        witness: dict[str, int] | None = None,
    ) -> None:
        super().__init__(message, place, hint)
        self.witness = witness or {}


class EmptyExtremum(TensorlangError):
    """A greatest or least value of nothing. `witness` holds sizes and indices without a point."""

    def __init__(
        self,
        message: str,
        place: Place | None = None,
        hint: str | None = None,
        witness: dict[str, int] | None = None,
    ) -> None:
        super().__init__(message, place, hint)
        self.witness = witness or {}


class ArgumentError(TensorlangError):
    """Arrays, sizes or names that don't fit a function's parameters."""


class NormalFormError(TensorlangError):
    """A program that is not in the normal form that a pass requires."""


class ScalarFunctionError(TensorlangError):
    """A scalar function that is unknown, or can't be registered."""


class AdjointError(TensorlangError):
    """A declared adjoint that is missing, or is not the function's, or costs more than was declared."""


class EvaluationError(TensorlangError):
    """A value that does not exist, such as the reciprocal of an exact zero."""


class LimitError(TensorlangError):
    """Input beyond what the language allows, such as a number of a million digits."""


class CostTableError(TensorlangError):
    """A file that is no table of costs, or can't be read or written."""


class CountError(TensorlangError):
    """A compiled program whose operations can't be told, such as a loop that runs until its data say so."""


class CountingError(TensorlangError):
    """Points whose number has no closed form that was found for all sizes."""


class ImportRefused(TensorlangError):
    """A JAX function, or a part of one, that is not a tensor program. `place` is the user's line."""


class MissingPackage(TensorlangError):
    """Something that needs a package which is not installed."""


class CertificateError(TensorlangError):
    """A bound that could be neither proved nor refuted, or a file that does not hold a certificate."""


class CostBoundExceeded(TensorlangError):
    """An adjoint that costs more than a bound allows. `sizes` are some at which it does, `costs` the costs of the
    program and its adjoint there, inputs and outputs counted."""

    def __init__(
        self,
        message: str,
        place: Place | None = None,
        hint: str | None = None,
        sizes: dict[str, int] | None = None,
        costs: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(message, place, hint)
        self.sizes = sizes or {}
        self.costs = costs
