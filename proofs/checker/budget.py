"""How long a check may take, and how much memory: a question not decided within these limits is "too large to
decide"."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import islpy

_QUOTA = 30_000_000
"""Operations of isl for one question; some seconds."""


_PAUSE = 0.02
"""Seconds between two looks at whether the time of a budget that is not short is over."""


_COLLECTED = 100_000
"""New objects between two garbage collections."""


class TooLarge(Exception):
    """Not decided within the budget; the message says what was being decided."""


class Undecided(Exception):
    """Not decided by any known method; the message says what."""


class Budget:
    """A deadline in processor time of the thread that makes it, so decisions do not depend on how busy the machine or
    other threads are."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.thread_time() + seconds
        self.again = 0.0

    def spend(self) -> None:
        """Raise `TooLarge` once the time is over. The time is read only now and then, since no clock is slower."""
        now = time.perf_counter()
        if now < self.again:
            return
        self.again = now + min(_PAUSE, self.seconds / 100)
        self.ask()

    def ask(self) -> None:
        """Raise `TooLarge` if the time is over now."""
        if self.is_over:
            raise TooLarge(f"not within {self.seconds:g} seconds")

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.thread_time() > self.end

    def part(self, seconds: float) -> Budget:
        """A budget of `seconds`, or of what is left of this one if that is less."""
        return Budget(max(0.0, min(seconds, self.end - time.thread_time())))


@contextmanager
def quota(part: int = 1) -> Iterator[None]:
    """A question for isl that may take `_QUOTA` operations, or a part of them; beyond that isl raises `islpy.Error`."""
    context = islpy.DEFAULT_CONTEXT
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(_QUOTA // part)
    try:
        yield
    finally:
        context.set_max_operations(before)
        context.reset_operations()


@contextmanager
def few_collections() -> Iterator[None]:
    """A context in which Python seldom collects cyclic garbage. There is little of it: objects made here stay alive,
    and were traversed again and again."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _COLLECTED), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
