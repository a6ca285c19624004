"""Caches of bounded size: each function remembers its latest answers only, so that a process that meets ever new
programs doesn't grow. Results never depend on what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import _lru_cache_wrapper, lru_cache
from threading import Lock
from typing import Any, Generic, TypeVar

from tensorlang.disk import clear

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

MOST = 2048
"""Answers of one function that are remembered: enough for a program of some hundred statements, all of different forms,
and for any number of statements of the same form."""

_MOST_PROGRAMS = 128

_caches: list[_lru_cache_wrapper[Any]] = []


class Latest(Generic[K, T]):
    """The latest answers to questions: as many as programs are remembered, which take at most `most` bytes together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        _latest.append(self)

    def get(self, question: K) -> T | None:
        """The answer to `question`, or None."""
        with self._lock:
            known = self._answers.get(question)
            if known is None:
                return None
            self._answers.move_to_end(question)
            return known[0]

    def put(self, question: K, answer: T, size: int) -> None:
        """Keep an answer, which takes `size` bytes, in place of the oldest ones."""
        gone: list[T] = []  # freed when the lock is, since what is freed may run any code
        with self._lock:
            known = self._answers.pop(question, None)
            if known is not None:
                gone.append(known[0])
                self._bytes -= known[1]
            self._answers[question] = answer, size
            self._bytes += size
            while self._bytes > self._most or len(self._answers) > _MOST_PROGRAMS:
                _, (oldest, freed) = self._answers.popitem(last=False)
                gone.append(oldest)
                self._bytes -= freed

    def clear(self) -> None:
        """Forget all answers."""
        with self._lock:
            gone, self._answers, self._bytes = self._answers, OrderedDict(), 0
        gone.clear()


_latest: list[Latest[Any, Any]] = []


def cached(f: Callable[..., T]) -> _lru_cache_wrapper[T]:
    """`f`, which is only called for arguments that it was not called with recently."""
    return _bounded(f, MOST)


def cached_whole(f: Callable[..., T]) -> _lru_cache_wrapper[T]:
    """The same as `cached`, for answers as large as programs, of which fewer are remembered."""
    return _bounded(f, _MOST_PROGRAMS)


def _bounded(f: Callable[..., T], most: int) -> _lru_cache_wrapper[T]:
    made = lru_cache(maxsize=most)(f)
    _caches.append(made)
    return made


def clear_caches(disk: bool = False) -> None:
    """Forget all that is remembered to save time; with `disk` what is kept for other processes, too.

    >>> tl.clear_caches()
    """
    for cache in _caches:
        cache.cache_clear()
    for answers in _latest:
        answers.clear()
    if disk:
        clear()
