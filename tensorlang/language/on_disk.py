"""What is made of programs, kept on disk: asked again in another process, it is read and not made."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any, TypeVar

from tensorlang import disk
from tensorlang.errors import LimitError, TensorlangError
from tensorlang.language.encoded import Encoding, Refused

T = TypeVar("T")

LEAST = 0.003
"""What took fewer seconds than this to make is not kept: to read it would not take much less. Where it is read,
what makes it need not be imported, which takes longer."""

_DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def recall(
    what: str,
    given: tuple[Any, ...],
    make: Callable[[], T],
    tell: Callable[[T], Any] = lambda made: made,
    read: Callable[[Any], T] = lambda told: told,
) -> T:
    """What `make` gives, which is known by the name of `what` and what it is `given`; `tell` says what of it is kept,
    of which `read` makes it again.

    All that it depends on beside the package, and the packages that this asks, is `given`: texts, numbers, programs and
    their parts. Where that is something else, or calls functions of users, nothing is kept.
    """
    if disk.place() is None or (versions := disk.versions()) is None:
        return make()
    encoding = Encoding()
    try:
        question = b"\n".join([json.dumps([what, versions]).encode(), encoding.encode(given), b""])
    except Refused:
        return make()
    known = disk.read(question)
    if known is not None:
        try:
            return read(encoding.decode(known))
        except LimitError:
            raise
        except (*_DAMAGE, TensorlangError):  # it is made anew
            encoding = Encoding()
            encoding.encode(given)
    start = thread_time()
    made = make()
    if thread_time() - start >= LEAST and disk.is_unchanged():
        with suppress(Refused):
            disk.write(question, encoding.encode(tell(made)))
    return made
