"""Caches of bounded size: each function remembers its latest answers only, so that a process that meets ever new
programs doesn't grow. Results never depend on what is remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

from tensorlang.disk import clear

T = TypeVar("T")

MOST = 2048
"""Answers of one function that are remembered: enough for a program of some hundred statements, all of different forms,
and for any number of statements of the same form."""

_MOST_PROGRAMS = 128

_caches: list[_lru_cache_wrapper[Any]] = []


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
    if disk:
        clear()
