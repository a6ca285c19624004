"""How long a check may take, and how much memory: what is not decided within that is "too large to decide"."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import islpy

_QUOTA = 30_000_000
"""Operations of isl for one question; some seconds."""


_PAUSE = 0.02
"""Seconds after which it is asked again whether the time is over, of a budget that is not short."""


_COLLECTED = 100_000
"""New objects between two looks for garbage."""


class TooLarge(Exception):
    """Not decided within the budget; the message says what was being decided."""


class Undecided(Exception):
    """Not decided by the ways that are known; the message says what."""


class Budget:
    """A time of the processor by which to be done, in the thread that makes it: what is decided does not depend on how
    busy the machine is, or other threads are."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.thread_time() + seconds
        self.again = 0.0

    def spend(self) -> None:
        """Raise `TooLarge` once the time is over, which is asked now and then: no clock is slower."""
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
        """A budget of so many seconds, and of no more than is left of this."""
        return Budget(max(0.0, min(seconds, self.end - time.thread_time())))


@contextmanager
def quota(part: int = 1) -> Iterator[None]:
    """A question for isl that may take `_QUOTA` operations, or a part of these; beyond that isl raises
    `islpy.Error`."""
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
    """A context in which Python seldom looks for garbage in circles, of which there is little: what is made here stays,
    and was gone through again and again."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _COLLECTED), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
