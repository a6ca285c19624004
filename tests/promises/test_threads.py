"""Threads that work side by side: equal values are one object, and results are the same as in one thread."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from random import Random
from threading import Barrier, Thread
from typing import Any, TypeVar

import pytest

import tensorlang as tl
from tensorlang.budget import few_collections
from tensorlang.interning import Alive, shared
from tensorlang.language.affine import Size, atom_affine, constant
from tensorlang.language.functions import raise_to
from tensorlang.language.grammar import Add, Const, Mul
from tensorlang.language.predicates import less
from tensorlang.normal.pattern import axis
from tensorlang.normal.ssa import Addend, Addition, Constant, Statement, selection
from tensorlang.sets.isl import implies, sample
from tests.support.programs import random_function

T = TypeVar("T")

THREADS = 4


@pytest.fixture(autouse=True)
def nothing_goes_wrong_unseen() -> Iterator[None]:
    """Let threads switch as often as possible, and lose no exception, such as in finalisers."""
    lost: list[Any] = []
    interval, hook = sys.getswitchinterval(), sys.unraisablehook
    sys.setswitchinterval(1e-6)
    sys.unraisablehook = lost.append
    yield
    sys.setswitchinterval(interval)
    sys.unraisablehook = hook
    assert not lost


def at_once(work: Callable[[int], T]) -> list[T]:
    """The results of `work` in each of several threads, which begin at the same time."""
    start = Barrier(THREADS)
    results: dict[int, T] = {}
    errors: list[Exception] = []

    def begin(number: int) -> None:
        start.wait()
        try:
            results[number] = work(number)
        except Exception as error:  # whatever the error is, the test fails with it
            errors.append(error)

    threads = [Thread(target=begin, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(THREADS)]


def values(k: int) -> list[Any]:
    """Values of all kinds that nothing else has made; two calls make equal ones."""
    n = atom_affine(Size(f"n{k}"))
    c = Const(Fraction(k, 7))
    p = less(constant(k), n)
    one: Statement = Constant(Fraction(k), (n,))
    several = Addition((Addend(1, p, one), Addend(-1, p, one)), (n,))
    power = raise_to(c, k + 2)
    return [n, c, Mul(c, Add(c, c, 1)), p, several, power, selection(1, p, p, several)]


def test_equal_values_are_one_object_in_all_threads() -> None:
    for turn in range(400):
        first, *others = at_once(lambda _, turn=turn: [x for k in range(4) for x in values(4 * turn + k)])  # type: ignore[misc]
        for other in others:
            assert all(x is y for x, y in zip(first, other, strict=True))


def test_values_that_go_and_come_back_are_one_object_in_all_threads() -> None:
    def again(_: int) -> int:
        wrong = 0
        for turn in range(2000):
            x, y = Constant(Fraction(turn % 3, 11), ()), Constant(Fraction(turn % 3, 11), ())
            wrong += x is not y
        return wrong

    assert at_once(again) == [0] * THREADS


def test_what_is_made_once_is_one_object_in_all_threads() -> None:
    class Thing:
        pass

    made = shared(lambda k: Thing())
    for turn in range(300):
        things = at_once(lambda _, turn=turn: made(turn))  # type: ignore[misc]
        assert len(set(map(id, things))) == 1
    assert len({id(i) for i in at_once(lambda _: axis(1234))}) == 1


def test_objects_leave_nothing_behind() -> None:
    alive: Alive[int, Size] = Alive()
    at_once(lambda t: [alive.enter(k, Size(f"x{t}_{k}")) for k in range(500)])
    gc.collect()
    assert not alive.refs
    made = alive.enter(0, Size("there"))
    assert alive.enter(0, Size("late")) is made is alive.get(0)


def test_the_collector_is_left_as_it_is() -> None:
    seen: list[bool] = []

    def watch(phase: str, info: dict[str, int]) -> None:
        seen.append(gc.isenabled())

    before = gc.get_threshold()
    tl.clear_caches()  # a cached result allocates nothing
    gc.callbacks.append(watch)
    gc.set_threshold(10)
    try:
        tl.lower(tl.grad(tl.parse("f(x: [n]R) = sum i:n. [i < 3] * sin(x[i])")))
    finally:
        gc.callbacks.remove(watch)
        gc.set_threshold(*before)
    assert len(seen) > 10
    assert all(seen)


def test_threads_leave_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    both = Barrier(2)

    def enter(late: bool) -> int:
        with few_collections:
            both.wait()  # the first thread that leaves is not the last
            seen = gc.get_threshold()[0]
            if late:
                both.wait()
        if not late:
            both.wait()
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert all(seen > before[0] for seen in pool.map(enter, [False, True]))
    assert gc.get_threshold() == before


def results(seed: int) -> list[str]:
    """A random program as text, its adjoint, their costs, and the code that runs it."""
    text = str(random_function(Random(seed)))
    f = tl.parse(text)
    if not f.variables:
        return [text]
    g = tl.adjoint(f)
    return [text, str(g), str(tl.lower(g).source)]


@pytest.mark.slow
def test_threads_derive_and_lower_what_one_thread_does() -> None:
    for seed in range(0, 40):
        first, *others = at_once(lambda _, seed=seed: results(seed))  # type: ignore[misc]
        assert all(other == first for other in others)
        assert results(seed) == first


def test_integer_sets_are_asked_by_one_thread_at_a_time() -> None:
    def ask(t: int) -> list[Any]:
        n = atom_affine(Size(f"m{t}"))
        found: list[Any] = []
        for k in range(60):
            p = less(n * 3 + k, atom_affine(Size("q")) * 5)
            found += [implies(p, less(n, atom_affine(Size("q")) * 2)), list((sample(p) or {}).values())]
        return found

    first, *others = at_once(ask)
    assert all(other == first for other in others)
