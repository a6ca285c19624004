"""Programs that mix recurrences, choices, conditions on values, index arrays and derivatives keep the promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.surface.parse import reread
from tests.support.mixtures import REALS, mixed_data, mixture
from tests.support.traced import work

QUICK = (*range(8), 5296)  # the last reads windows of states under a relation that ends some of them
BLOCK = 24


def flat(value: Any) -> np.ndarray[Any, Any]:
    """All numbers of a value."""
    parts = [np.ravel(np.asarray(x, float)) for x in jax.tree.leaves(value)]
    return np.concatenate(parts) if parts else np.zeros(0)


def random_like(value: Any, rng: np.random.Generator) -> Any:
    return jax.tree.map(lambda x: rng.normal(size=np.shape(x)), value)


def same(a: Any, b: Any) -> bool:
    return np.allclose(flat(a), flat(b), rtol=1e-6, atol=1e-8)


def slope(f: Callable[[float], float]) -> float | None:
    """The derivative of `f` at 0 by differences; None if they differ for two step sizes, as beside a kink."""
    a, b = ((f(h) - f(-h)) / (2 * h) for h in (1e-5, 1e-6))
    return a if abs(a - b) < 1e-4 * (1 + abs(a)) else None


def check(seed: int, second: bool = False) -> None:
    """Assert that the code of a program and of its adjoint is right, that the adjoint is the gradient by differences,
    and that its text is a program again."""
    text, n, rng = mixture(seed, depth=2 + seed % 2), (3, 2, 1, 0, 4)[seed % 5], np.random.default_rng(seed)
    f = tl.parse(text)
    given = mixed_data(n, seed)
    value = tl.evaluate(f, **given)
    assert same(tl.lower(f)(**given), value), text
    assert same(tl.evaluate(reread(str(tl.simplify(f))), **given), value), text
    adjoint = tl.adjoint(f, tuple(REALS))
    (bar,) = {p.name for p in adjoint.params} - given.keys()
    asked = given | {bar: random_like(value, rng)}
    found = tl.evaluate(adjoint, **asked)
    assert same(tl.lower(adjoint)(**asked), found), text
    assert same(tl.evaluate(reread(str(adjoint)), **asked), found), text
    way = {x: random_like(given[x], rng) for x in REALS}

    def along(g: tl.Function, at: dict[str, Any], left: Any, wrt: tuple[str, ...]) -> Callable[[float], float]:
        def moved(h: float) -> float:
            there = {x: jax.tree.map(lambda v, d: v + h * d, at[x], way[x]) for x in wrt}
            return float(flat(left) @ flat(tl.evaluate(g, **(at | there))))

        return moved

    expected = slope(along(f, given, asked[bar], tuple(REALS)))
    if expected is not None:
        assert float(flat(found) @ flat(list(way.values()))) == pytest.approx(expected, rel=1e-3, abs=1e-3), text
    if second:
        once = tl.adjoint(f, "x")
        twice = tl.adjoint(once, "y")
        (left,) = {p.name for p in twice.params} - asked.keys()
        asked[left] = rng.normal(size=n)
        found = tl.evaluate(twice, **asked)
        assert same(tl.lower(twice)(**asked), found), text
        expected = slope(along(once, {x: v for x, v in asked.items() if x != left}, asked[left], ("y",)))
        if expected is not None:
            assert float(flat(found) @ way["y"]) == pytest.approx(expected, rel=1e-3, abs=1e-3), text


@pytest.mark.parametrize("seed", QUICK)
def test_mixtures_run_as_they_are_meant_and_have_their_gradients(seed: int) -> None:
    with jax.enable_x64(True):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_mixtures_run_as_they_are_meant_and_have_their_gradients(block: int, share: int) -> None:
    with jax.enable_x64(True):
        for seed in range(100 + block * BLOCK, 100 + block * BLOCK + BLOCK // share):
            check(seed, second=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_gradients_of_mixtures_grow_no_faster_than_the_programs(block: int, share: int) -> None:
    for seed in range(block * BLOCK, block * BLOCK + BLOCK // share):
        if " until " not in mixture(seed, lets=1 + seed % 2):  # the trips of a loop that data end are not counted
            grows(seed)


def grows(seed: int) -> None:
    """Assert that the gradient's work is at most a few times the program's, or that at least the ratio does not
    grow."""
    text = mixture(seed, lets=1 + seed % 2)
    f = tl.parse(text)
    g = tl.adjoint(f, "x")
    found = []
    for n in (24, 48, 96):
        given = mixed_data(n, seed)
        value = tl.lower(f)(**given)
        done = []
        for h in (f, g):
            asked = [given.get(p.name, jax.tree.map(np.ones_like, value)) for p in h.params]
            done.append(work(tl.lower(h), *asked).elements)
        read = sum(np.size(flat(given[x])) for x in given if x in text.split(" = ", 1)[1])
        found.append(done[1] / (done[0] + read + flat(value).size))
    assert found[2] <= max(1.5 * found[0], 4), (found, text)
