"""Results for programs, kept on disk, so that another process reads them instead of computing them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any, TypeVar

from tensorlang import disk
from tensorlang.errors import LimitError, TensorlangError
from tensorlang.language.encoded import Encoding, EncodingRefused

T = TypeVar("T")

LEAST = 0.003
"""Results that took fewer seconds than this are not kept, since reading them would not take much less. Reading also
saves importing the code that computes them, which takes longer."""

_DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def recall(
    what: str,
    given: tuple[Any, ...],
    make: Callable[[], T],
    tell: Callable[[T], Any] = lambda made: made,
    read: Callable[[Any], T] = lambda told: told,
) -> T:
    """The result of `make`, kept under the name `what` and the values `given`; `tell` turns it into the value that is
    kept, and `read` turns that back.

    `given` must have all that the result depends on, besides the package and the packages that it uses: texts, numbers,
    programs and their parts. If it has anything else, or calls functions of users, nothing is kept.
    """
    if disk.place() is None or (versions := disk.versions()) is None:
        return make()
    encoding = Encoding()
    try:
        question = b"\n".join([json.dumps([what, versions]).encode(), encoding.encode(given), b""])
    except EncodingRefused:
        return make()
    known = disk.read(question)
    if known is not None:
        try:
            return read(encoding.decode(known))
        except LimitError:
            raise
        except (*_DAMAGE, TensorlangError):  # compute it anew
            encoding = Encoding()
            encoding.encode(given)
    start = thread_time()
    made = make()
    if thread_time() - start >= LEAST and disk.is_unchanged():
        with suppress(EncodingRefused):
            disk.write(question, encoding.encode(tell(made)))
    return made
