"""The code in pages of Markdown, run as a reader would run it, and the output that the page states."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tensorlang.errors import TensorlangError

_BLOCK = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A block of Python, and its output according to the page: the next block, if that is text."""

    code: str
    printed: str | None


def blocks(page: str, language: str) -> list[str]:
    """The page's blocks of code in `language`."""
    return [code for named, code in _BLOCK.findall(page) if named == language]


def examples(page: str) -> Iterator[Example]:
    """The page's blocks of Python in order."""
    for (language, code), (following, text) in pairwise([*_BLOCK.findall(page), ("", "")]):
        if language == "python":
            yield Example(code, text if following == "text" else None)


def outputs(page: str, source: str) -> Iterator[tuple[Example, str]]:
    """The page's examples with their output, run one after the other in one namespace.

    Where the page states the output, an error of tensorlang that ends an example counts as printed, as the last line of
    Python's traceback.
    """
    names: dict[str, object] = {"__name__": "__page__"}
    for example in examples(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(example.code, source, "exec"), names)
            except TensorlangError as error:
                if example.printed is None:
                    raise
                print(f"{type(error).__name__}: {error}")
        yield example, printed.getvalue()
