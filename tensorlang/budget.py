"""Work is counted, so that no program, however short, takes more time or memory than it may.

Code that takes time reports it with `spend`, in steps of about a microsecond: for each call in a recursive pass, each
value made, the terms of polynomials, and questions about integer sets by the time that they took. Every public stage is
`limited` to a number of steps that is large for any program and grows with its size. `limits` sets other bounds.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from functools import wraps
from math import inf
from threading import Lock
from typing import ParamSpec, TypeVar

from tensorlang.errors import ArgumentError, LimitError, here

P = ParamSpec("P")
T = TypeVar("T")

STEPS = 100_000_000
"""The steps that any stage may take: about half a minute."""
STEPS_OF_A_NODE = 10_000
"""The additional steps for each node, or each character, of a program: some fifty times what one takes."""
MEMORY = 4 << 30
"""The bytes by which the process may grow during a stage."""

_PORTION = 1 << 16
_COLLECTED = 100_000
"""New objects between two garbage collections during a stage."""


class _Account:
    """The work that a stage may still do. It is dealt out in portions; time and memory are checked between them."""

    steps: float
    left: int
    portion: int
    deadline: float

    __slots__ = ("deadline", "left", "memory", "most", "outer", "portion", "resident", "seconds", "stage", "steps")

    def __init__(self, stage: str, steps: float, seconds: float, memory: float, outer: _Account | None) -> None:
        self.stage = stage
        self.outer = outer
        self.most = self.steps = steps if outer is None else min(steps, outer.steps - (outer.portion - outer.left))
        self.seconds = seconds
        self.deadline = min(time.monotonic() + seconds, inf if outer is None else outer.deadline)
        self.memory = memory
        self.resident = _resident()
        self.left = self.portion = 0
        self.refill("nothing")

    def refill(self, what: str) -> None:
        """Deal out the next portion. Raises `LimitError` if too much has been taken."""
        taken = self.portion - self.left
        self.steps -= taken
        self.left = self.portion = int(min(_PORTION, max(self.steps, 0)))
        if self.outer is not None:
            self.outer.take(taken, what)
        if self.steps < 0:
            raise self._exceeded(f"{self.most:,.0f} steps of work", what, "steps")
        if time.monotonic() > self.deadline:
            raise self._exceeded(f"{self.seconds:g} seconds", what, "seconds")
        if _resident() - self.resident > self.memory:
            raise self._exceeded(f"{self.memory:,.0f} bytes of memory", what, "memory")

    def take(self, steps: int, what: str) -> None:
        """Take `steps` steps. Raises `LimitError` if there are no more."""
        self.left -= steps
        if self.left < 0:
            self.refill(what)

    def _exceeded(self, bound: str, what: str, name: str) -> LimitError:
        return LimitError(
            f"{self.stage} takes more than {bound}, the last of it for {what}",
            hint=f"a smaller program, or a larger limit: with tl.limits({name}=...)",
        )


_current: ContextVar[_Account | None] = ContextVar("current", default=None)


def spend(steps: int, what: str) -> None:
    """Take `steps` of work, on `what`. Raises `LimitError` if the running stage has fewer left."""
    account = _current.get()
    if account is not None:
        account.left -= steps
        if account.left < 0:
            account.refill(what)


def memory_left() -> float:
    """The bytes of memory that may still be taken."""
    account = _current.get()
    return MEMORY if account is None else account.memory


@contextmanager
def limits(steps: int | None = None, seconds: float | None = None, memory: int = MEMORY) -> Iterator[None]:
    """A context in which all that is done with programs takes no more than this, all together, or `LimitError`.

    `steps` are of work, about a million a second; the same program takes as many on any machine, fewer where part of
    the answer is remembered. `seconds` are of time, looked at between steps. `memory` is in bytes, by which the process
    grows meanwhile. Steps and seconds that are not given are without a limit. Running compiled programs is no work
    of ours.

    >>> with tl.limits(seconds=10):
    ...     f = tl.adjoint(tl.parse("f(x: R) = x * x"))
    """
    for name, given in (("steps", steps), ("seconds", seconds), ("memory", memory)):
        if given is not None and (not isinstance(given, int | float) or given < 0):
            raise ArgumentError(f"{name} must be a number from 0 on, found {given!r}", here(), "tl.limits(seconds=10)")
    outer = _current.get()
    most, longest = (inf if x is None else x for x in (steps, seconds))
    account = _Account("what is done within tl.limits", most, longest, memory, outer)
    token = _current.set(account)
    try:
        yield
    finally:
        _current.reset(token)
        if outer is not None:
            outer.left -= account.portion - account.left


def limited(stage: Callable[P, T]) -> Callable[P, T]:
    """`stage`, a function of a program or a text, run within the default limits unless limits are already in force."""

    @wraps(stage)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if _current.get() is not None:
            return stage(*args, **kwargs)
        given = args[0] if args else None
        nodes = len(given) if isinstance(given, str) else getattr(given, "nodes", 0)
        account = _Account(f"{stage.__name__}", STEPS + STEPS_OF_A_NODE * nodes, inf, MEMORY, None)
        token = _current.set(account)
        try:
            with few_collections:
                return stage(*args, **kwargs)
        finally:
            _current.reset(token)

    return run


class _FewCollections(ContextDecorator):
    """A context in which Python seldom collects cyclic garbage: there is little of it, and each collection goes through
    the many objects that stay. Several threads may be in it at once; the last to leave restores the threshold that the
    first one found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = gc.get_threshold()
                if self._before[0]:
                    gc.set_threshold(max(self._before[0], _COLLECTED), *self._before[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                gc.set_threshold(*self._before)


few_collections = _FewCollections()


def _resident() -> int:
    """The bytes of memory that the process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
