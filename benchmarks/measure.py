"""Timing peers in turns: in each round every peer runs once, so that a disturbance affects all of them."""

from __future__ import annotations

import random
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax

import tensorlang as tl
from benchmarks.case import Case, Sizes
from benchmarks.peers import JAX_PROGRAM, OURS, PEERS, PROGRAM, NotApplicable, Prepared
from benchmarks.reference import as_tuple, distance

ROUNDS = 15
PATIENCE = 90
"""Seconds after which a peer that isn't ready is abandoned."""
_LEAST = 2e-3  # seconds that a peer runs in each round, repeatedly if one run takes less
FAILURES = (
    tl.TensorlangError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TimeoutError,
    TypeError,
    ValueError,
)
"""The errors that a peer may raise for a case that it can't do; the row says so, and the run goes on."""


@dataclass
class Timed:
    """The times of a peer: seconds of each round; seconds to compile; and how far its result is from ours."""

    seconds: list[float] = field(default_factory=list)
    compiling: float = 0.0
    differs: float | None = None

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)


@dataclass
class Row:
    """A case at one size: the times of each peer, or why it has none; at the largest size also the least time that the
    machine needs (`limits`)."""

    case: str
    suite: str
    sizes: Mapping[str, int]
    timed: dict[str, Timed] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    deriving: float | None = None
    limit: float | None = None

    def ratio(self, ours: str, theirs: str) -> float | None:
        """The median over the rounds of the time of `ours` divided by that of `theirs`."""
        if ours not in self.timed or theirs not in self.timed:
            return None
        pairs = zip(self.timed[ours].seconds, self.timed[theirs].seconds, strict=False)
        return statistics.median(a / b for a, b in pairs)


def derive_time(case: Case) -> float:
    """Seconds to read, differentiate, simplify and generate a case afresh."""
    start = time.perf_counter()
    fresh = Case(**{name: getattr(case, name) for name in case.__dataclass_fields__})
    tl.lower(fresh.derived)
    return time.perf_counter() - start


def measure(case: Case, sizes: Sizes, peers: Sequence[str], rounds: int, budget: float) -> Row:
    """The row of `case` at `sizes`: `rounds` rounds, fewer if that would take more than `budget` seconds."""
    row = Row(case.name, case.suite, dict(sizes))
    try:
        arguments = case.arguments(sizes)
    except FAILURES as error:
        row.missing = dict.fromkeys(peers, reason(error))
        return row
    ready: dict[str, Prepared] = {}
    results: dict[str, Any] = {}
    for name in peers:
        try:
            with _patience():
                ready[name] = PEERS[name](case, arguments)
                results[name] = jax.tree.map(_host, ready[name].run())
            row.timed[name] = Timed(compiling=ready[name].seconds)
        except FAILURES as error:
            row.missing[name] = reason(error)
            ready.pop(name, None)
    if OURS in results:
        for name in results.keys() - {PROGRAM, JAX_PROGRAM}:
            row.timed[name].differs = distance(results[name], as_tuple(results[OURS]))
    del results
    _take_turns(ready, row, rounds, budget)
    return row


def _take_turns(ready: Mapping[str, Prepared], row: Row, rounds: int, budget: float) -> None:
    names = list(ready)
    once = {name: min(_timed(ready[name], 1) for _ in range(2)) for name in names}
    repeats = {name: max(1, min(200, int(_LEAST / once[name]))) for name in names}
    order = random.Random(0)  # a peer must not follow the same other one in all rounds
    start = time.perf_counter()
    for _ in range(rounds):
        for name in order.sample(names, len(names)):
            row.timed[name].seconds.append(_timed(ready[name], repeats[name]))
        if time.perf_counter() - start > budget:
            break


@contextmanager
def _patience() -> Iterator[None]:
    """A context that raises `TimeoutError` in code that takes longer than `PATIENCE`, as soon as Python runs again."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not ready after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _timed(peer: Prepared, repeats: int) -> float:
    """Seconds of one run. Several runs are preceded by one more, so that each finds the caches as a run leaves them."""
    if repeats > 1:
        peer.run()
    start = time.perf_counter()
    for _ in range(repeats):
        peer.run()
    return (time.perf_counter() - start) / repeats


def _host(array: Any) -> Any:
    return array.detach().numpy() if hasattr(array, "detach") else array


def reason(error: BaseException) -> str:
    """Why a peer has no figure, in a line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, NotApplicable) else f"{type(error).__name__}: {text[:200]}"
