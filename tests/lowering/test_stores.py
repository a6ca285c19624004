"""What recurrences keep from their steps, and what they recompute."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.derivatives.test_recurrences import PROGRAMS, RNN, arguments, assert_close
from tests.support.sampling import one_in

STORES = ("needed", "states", "sqrt", "log")
MANY = [*range(6), 8, 24, 31]


def agrees(name: str, steps: int, *stores: str) -> None:
    """Assert that the adjoint does not depend on what is stored."""
    f = tl.parse(PROGRAMS[name])
    a = tl.adjoint(f)
    with jax.enable_x64(True):
        given = arguments(f, T=steps, n=3)
        y = tl.evaluate(f, *given)
        bar = jax.tree.map(lambda v: np.random.default_rng(1).normal(size=np.shape(v)), y)
        wanted = tl.evaluate(a, *given, bar)
        for store in stores:
            assert_close(tl.lower(a, store=store)(*given, bar), wanted)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", one_in(3, ["rnn", "two states, backwards", "heat"]))
def test_the_adjoint_does_not_depend_on_what_is_stored(name: str, store: str) -> None:
    for steps in (0, 7, 24):
        agrees(name, steps, store)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_adjoint_does_not_depend_on_what_is_stored_whatever_the_number_of_steps(name: str) -> None:
    for place, steps in enumerate(MANY):
        agrees(name, steps, *STORES[1 + place % 3 :: 3])


def temporary(f: tl.Function, store: str, given: list[Any]) -> int:
    """The bytes that compiled code needs besides arguments and results."""
    compiled = jax.jit(tl.lower(f, store=store)).lower(*given).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


@pytest.mark.slow
def test_less_is_kept_by_each_store_than_by_the_one_before() -> None:
    f = tl.parse("f(u: [T][n]R, h: [n]R) = let s = fold t:T with s = h. gen i:n. sin(u[t, i] * s[i] * s[i]) in s")
    g = tl.adjoint(f)
    given = [jnp.ones((4096, 8)), jnp.ones(8), jnp.ones(8)]
    sizes = [temporary(g, store, given) for store in STORES]
    # besides what is kept there are the results of a window, 64 of 4096 times, or 8
    assert sizes[0] > 1.5 * sizes[1]
    assert sizes[1] > 6 * sizes[2]
    assert sizes[2] > 2 * sizes[3]
    first, *others = (tl.lower(g, store=store)(*given) for store in STORES)
    for other in others:
        for x, y in zip(first, other, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5)


def test_what_is_kept_is_a_polynomial_for_all_lengths() -> None:
    g = tl.grad(tl.parse(PROGRAMS["rnn"]))
    kept = {store: str(tl.memory_polynomial(g, store)) for store in STORES}
    assert kept == {
        "needed": "2*T*n + n*window",
        "states": "T*n + 3*n*window",
        "sqrt": "3*n*window + n*windows",
        "log": "halves*n + 3*n*window",
    }
    assert tl.memory_polynomial(g, "sqrt")(T=100, n=5, window=10, windows=10) == 200


def test_a_sum_over_the_time_is_added_up_window_by_window() -> None:
    """The states of the backward recurrence never exist all at once."""
    g = tl.grad(tl.parse(PROGRAMS["rnn"]), "W")
    given = [jnp.ones((8, 8)), jnp.ones((4096, 8)), jnp.ones(8)]
    states = 4 * 4096 * 8
    assert temporary(g, "needed", given) < 2.3 * states
    assert "window by window" in str(tl.lower(g).explain())
    assert "computed again" in str(tl.lower(g, store="sqrt").explain())


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES[1:])
def test_a_store_is_taken_by_derivatives_under_jax(store: str) -> None:
    f = tl.parse(PROGRAMS["rnn"])
    with jax.enable_x64(True):
        given = tuple(map(jnp.asarray, arguments(f, T=11, n=2)))
        run, plain = tl.to_jax(f, store=store), tl.to_jax(f)
        assert_close(jax.jit(jax.grad(run, (0, 1, 2)))(*given), jax.grad(plain, (0, 1, 2))(*given))
        many = (given[0], jnp.stack([given[1], 2 * given[1]]), given[2])
        assert_close(*(jax.vmap(jax.grad(h), (None, 0, None))(*many) for h in (run, plain)))


def test_a_store_that_there_is_none_of_is_refused() -> None:
    f = tl.parse(RNN)
    for wrong in (
        lambda: tl.lower(f, store="all"),
        lambda: tl.to_jax(f, store="all"),
        lambda: tl.memory_polynomial(f, "all"),
    ):
        with pytest.raises(tl.ArgumentError, match="store is one of needed, states, sqrt, log"):
            wrong()
