"""The code that runs keeps the bound: random programs on graphs, and their gradients, compiled and counted at three
sizes.

Each program does work in proportion to nodes and edges. So does its gradient, and so does the code of both: no
predicate, guard or choice makes an array of pairs.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import log2, prod
from typing import Any

import jax
import numpy as np
import pytest
from scipy import sparse

import tensorlang as tl
from tensorlang.lowering.arrays.sums import strategies
from tensorlang.measure.count import count
from tests.support.graphs import arguments, random_program
from tests.support.promises import close
from tests.support.sampling import one_in
from tests.support.traced import Work, work

_LADDER = tuple({"n": 300 * k, "e": 500 * k, "m": 20 * k} for k in (1, 2, 4))
_EXPONENT = 1.1
_RATIO = 8
"""The most operations of a gradient, relative to those of its program, inputs and outputs counted."""
_ELEMENTS = 12
"""The same for all elements that are ever computed, including integers and booleans."""


def programs(first: int, last: int) -> Iterator[tuple[int, tl.Function, tl.Function]]:
    """Random programs with their adjoints by one of the parameters. At most one in a hundred is beyond the limits."""
    beyond = []
    for seed in range(first, last):
        rng = random.Random(seed)
        f = random_program(rng)
        try:
            gradient = tl.adjoint(f, wrt=rng.choice(["x", "z", "w", "T"]))
        except tl.LimitError:
            beyond.append(seed)
            continue
        yield seed, f, gradient
    assert len(beyond) * 100 <= last - first, beyond


@contextmanager
def told(seed: int, f: tl.Function) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"seed {seed}, program:\n{f}")
        raise


def called(f: tl.Function, sizes: dict[str, int]) -> tuple[Callable[..., Any], list[Any], int]:
    """The compiled program as a function of arrays, the arrays' shapes, and the number of numbers that they hold."""
    given = arguments(f, sizes)
    relations = {name: sparse.csr_array(v) for name, v in given.items() if v.dtype == bool}
    names = [name for name in given if name not in relations]
    shapes = [jax.ShapeDtypeStruct(given[x].shape, given[x].dtype.kind + "4") for x in names]
    lowered = tl.lower(f)

    def call(*values: Any) -> Any:
        return lowered(**dict(zip(names, values, strict=True)), **relations, m=sizes["m"])

    return call, shapes, sum(prod(shape.shape) for shape in shapes)


def exponent(small: int, large: int) -> float:
    """The exponent of growth of a count when sizes are doubled."""
    return log2((1 + large) / (1 + small))


def least_exponent(counts: list[int]) -> float:
    """The least growth at a doubling. XLA's method may change at thresholds of its own, which adds a step at one
    doubling; a count that really grows faster does so at each."""
    return min(exponent(a, b) for a, b in pairwise(counts))


def grows_with_the_program(f: tl.Function, gradient: tl.Function) -> None:
    value: list[Work] = []
    derived: list[Work] = []
    numbers = 0
    for sizes in _LADDER:
        run, shapes, numbers = called(f, sizes)
        value.append(work(run, *shapes))
        run, shapes, _ = called(gradient, sizes)
        derived.append(work(run, *shapes))
    for works in (value, derived):
        assert exponent(works[1].operations, works[2].operations) <= _EXPONENT
        assert exponent(works[1].elements, works[2].elements) <= _EXPONENT
    assert derived[2].operations <= _RATIO * (value[2].operations + numbers)
    assert derived[2].elements <= _ELEMENTS * (value[2].elements + numbers)


def agrees_with_the_evaluator(f: tl.Function, gradient: tl.Function, sizes: dict[str, int]) -> None:
    for program in (f, gradient):
        given = arguments(program, sizes)
        expected = tl.evaluate(program, **given, m=sizes["m"])
        assert close(tl.lower(program)(**given, m=sizes["m"]), expected, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", one_in(8, range(8)))
def test_gradients_on_graphs_grow_no_faster_than_their_programs(chunk: int) -> None:
    for seed, f, gradient in programs(25 * chunk, 25 * chunk + 25):
        with told(seed, f):
            grows_with_the_program(f, gradient)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(2))
def test_hundreds_of_gradients_on_graphs_grow_no_faster_than_their_programs(chunk: int, share: int) -> None:
    first = 200 + 200 * chunk
    for seed, f, gradient in programs(first, first + 200 // share):
        with told(seed, f):
            grows_with_the_program(f, gradient)


@pytest.mark.parametrize("sizes", [{"n": 5, "e": 7, "m": 3}, {"n": 1, "e": 1, "m": 1}], ids=str)
def test_compiled_gradients_on_graphs_are_right(sizes: dict[str, int]) -> None:
    for seed, f, gradient in programs(0, 12):
        with told(seed, f):
            agrees_with_the_evaluator(f, gradient, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(4))
def test_many_compiled_gradients_on_graphs_are_right(chunk: int, share: int) -> None:
    first = 12 + 40 * chunk
    for seed, f, gradient in programs(first, first + 40 // share):
        with told(seed, f):
            agrees_with_the_evaluator(f, gradient, {"n": 5, "e": 9, "m": 3})


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(4))
def test_what_xla_makes_of_gradients_on_graphs_keeps_the_bound(chunk: int, share: int) -> None:
    first = 12 * chunk
    for seed, f, gradient in programs(first, first + 12 // share):
        counted = []
        for sizes in _LADDER:
            run, shapes, numbers = called(f, sizes)
            value = count(run, *shapes)
            run, shapes, _ = called(gradient, sizes)
            counted.append((value, count(run, *shapes), numbers))
        with told(seed, f):
            derived = [d for _, d, _ in counted]
            assert least_exponent([d.operations for d in derived]) <= _EXPONENT
            assert least_exponent([d.traffic for d in derived]) <= _EXPONENT
            value, large, numbers = counted[-1]
            assert large.operations <= _RATIO * (value.operations + numbers)


def test_rows_of_a_relation_that_elements_ask_for_are_added_up_once() -> None:
    f = tl.parse("f(a: [e]idx(n), y: [n]idx(m), x: [n]R, E: rel(n, n)) = sum i:e. (sum j:n. [E(j, a[i])] * x[j])^2")
    grows_with_the_program(f, tl.adjoint(f))
    agrees_with_the_evaluator(f, tl.adjoint(f), {"n": 5, "e": 9, "m": 1})


def test_a_guard_that_is_asked_at_each_edge_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse("f(x: [n]R, a: [e]idx(n), b: [e]idx(n)) = sum p:e. [exists k:e. b[k] = a[p]] * x[a[p]]")
    monkeypatch.setattr(importlib.import_module("tensorlang.lowering.arrays.masks"), "tabled", lambda *_: _none())
    monkeypatch.setattr(
        strategies, "STRATEGIES", tuple(s for s in strategies.STRATEGIES if s.name != "shared segments")
    )
    counts = []
    for n in (200, 400):
        shapes = [np.zeros(n, np.float32), np.zeros(n, np.int32), np.zeros(n, np.int32)]
        counts.append(work(tl.lower(f), *shapes).elements)
    assert exponent(*counts) > 1.5


def _none() -> Any:
    return None
    yield
