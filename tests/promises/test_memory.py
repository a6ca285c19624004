"""A process that meets ever new programs does not grow: its caches are bounded, and nothing else stays."""

from __future__ import annotations

import functools
import gc
import inspect
import subprocess
import sys
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import memory
from tensorlang.memory import MOST, clear_caches
from tests.support import ROOT

BY_PLACE = {
    "axis",
    "axes",
    "place",
    "box_index",
    "_place",
    "_index",
    "_bound_name",
    "_division",
    "_numbered",
    "_bernoulli",
}
"""Caches without a bound: an index, or a number, for each of the first few natural numbers."""


def texts(start: int, count: int) -> Iterator[str]:
    """Programs no two of which have a name, a size, an offset or a constant in common."""
    for k in range(start, start + count):
        yield (
            f"f{k}(x{k}: [n{k}]R) = let y{k} = gen i{k}:n{k}. [{k} <= i{k}] * x{k}[i{k} - {k}] ^ {k + 2} "
            f"in sum j{k}:n{k}. sin({k}/7 * y{k}[j{k}])"
        )


def work(start: int, count: int) -> None:
    """Everything that is done with programs, except running them."""
    for text in texts(start, count):
        f = tl.parse(text)
        g = tl.grad(f)
        tl.cost_polynomial(f)
        tl.unicode_text(g)
        assert tl.lower(g).source


def objects() -> int:
    """The number of objects that the collector knows, once nothing more goes.

    A collection lets go of tuples of numbers, the next one of tuples of those, and so on.
    """
    known, before = len(gc.get_objects()), -1
    while known != before:
        gc.collect()
        known, before = len(gc.get_objects()), known
    return known


def test_every_memory_is_bounded() -> None:
    work(0, 1)
    gc.unfreeze()
    caches = [c for c in gc.get_objects() if isinstance(c, functools._lru_cache_wrapper)]
    gc.freeze()
    ours = [c for c in caches if (c.__module__ or "").split(".")[0] == "tensorlang"]
    assert len(ours) > 40
    for cache in ours:
        size = cache.cache_parameters()["maxsize"]
        holds_one = not inspect.signature(cache).parameters
        assert holds_one or cache.__name__ in BY_PLACE if size is None else size <= MOST, cache.__wrapped__


@pytest.mark.slow
def test_programs_leave_nothing_but_what_is_remembered() -> None:
    work(100_000, 20)
    clear_caches()
    before = objects()
    work(200_000, 100)
    clear_caches()
    assert objects() - before < 20  # not one each


def test_a_compiled_program_goes_with_its_last_user() -> None:
    lowered = tl.lower(tl.parse("f(x: [n]R) = sum i:n. 3/17 * sin(x[i])"))
    lowered(np.ones(5))
    compiled = weakref.ref(lowered._form(()).run)
    gone = weakref.ref(lowered)
    del lowered
    gc.collect()
    assert gone() is None
    assert compiled() is None


@pytest.mark.slow
def test_thousands_of_programs_take_no_more_memory_than_half_of_them() -> None:
    """With caches of an eighth of their usual size, an eighth of the programs fills them."""
    code = (
        "import tensorlang.memory as memory\n"
        "memory.MOST //= 8\nmemory._MOST_PROGRAMS //= 8\n"
        "from tests.promises.test_memory import grown\n"
        "grown(400)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def grown(count: int) -> None:
    """Assert that `count` further programs leave nothing behind once the caches are full."""
    work(0, count)
    assert max(cache.cache_info().currsize for cache in memory._caches) == memory.MOST
    before = objects()
    work(count, count)
    assert objects() - before < count // 20  # not one each
