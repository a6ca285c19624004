"""The exception of the importer's rules; users see it as `ImportRefused`, with their own line."""

from __future__ import annotations

from typing import Any

from jax._src import source_info_util

from tensorlang.errors import ImportRefused, PythonLine, python_line


class Unsupported(Exception):
    """Something for which there is no tensor program. `equation` is where it was found."""

    def __init__(self, what: str, equation: Any = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.equation = equation
        self.outer = equation
        self.hint = hint

    def at(self, equation: Any) -> Unsupported:
        """The same, found at `equation`, or within it if it was found elsewhere before."""
        if self.equation is None:
            self.equation = equation
        self.outer = equation
        return self

    @property
    def within(self) -> str:
        """The description, with the primitive if that is within the body of another one."""
        return self.what if self.equation is self.outer else f"{self.equation.primitive.name} in its body: {self.what}"

    def told(self, name: str) -> ImportRefused:
        """The error for the user who imports the function `name`."""
        primitive = "" if self.equation is None else f"{self.equation.primitive.name}: "
        hint = self.hint or "tl.jax.grad imports what surrounds it, and leaves this to JAX"
        place = None if self.equation is None else line_of(self.equation)
        return ImportRefused(f"{name} is no tensor program: {primitive}{self.what}", place, hint)


def line_of(equation: Any) -> PythonLine | None:
    """The user's line that made `equation`."""
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return None if frame is None else python_line(frame.file_name, frame.start_line)
