"""Results for programs, which are kept: in this process, and on disk, so that another one reads them.

In this process the same program, the very object, gets the very result again, so that what is compiled for that is
found as well. A program that is equal, such as the same text parsed again, gets a copy made of its own parameters, as
another process does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any, TypeVar

from tensorlang import disk
from tensorlang.errors import LimitError, TensorlangError
from tensorlang.language.encoded import Encoding, EncodingRefused
from tensorlang.memory import Latest

T = TypeVar("T")

LEAST = 0.003
"""Results that took fewer seconds than this are not kept on disk, since reading them would not take much less. Reading
also saves importing the code that computes them, which takes longer."""

_BYTES = 1 << 23
"""The results kept in this process take at most this many bytes, encoded: those of some ten programs of a thousand
statements. As objects they take about ten times as many."""

_DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

_results: Latest[tuple[Any, ...], Any] = Latest(_BYTES)
_encoded: Latest[bytes, bytes] = Latest(_BYTES)


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
    versions = disk.versions()
    encoding = Encoding()
    try:
        question = b"\n".join([json.dumps([what, versions]).encode(), encoding.encode(given), b""])
    except EncodingRefused:
        return make()
    told = _results.get((what, given))
    if told is not None:
        return read(told)
    uses_disk = versions is not None and disk.place() is not None
    known = _encoded.get(question) or (disk.read(question) if uses_disk else None)
    if known is not None:
        try:
            told = encoding.decode(known)
            found = read(told)
        except LimitError:
            raise
        except (*_DAMAGE, TensorlangError):  # compute it anew
            encoding = Encoding()
            encoding.encode(given)
        else:
            _keep(what, given, told, question, known)
            return found
    start = thread_time()
    made = make()
    seconds = thread_time() - start
    told = tell(made)
    with suppress(EncodingRefused):
        answer = encoding.encode(told)
        _keep(what, given, told, question, answer)
        if uses_disk and seconds >= LEAST and disk.is_unchanged():
            disk.write(question, answer)
    return made


def _keep(what: str, given: tuple[Any, ...], told: Any, question: bytes, answer: bytes) -> None:
    """Keep a result in this process."""
    _results.put((what, given), told, len(answer))
    _encoded.put(question, answer, len(question) + len(answer))
