"""Loops hidden by conditions make no trip, in values and derivatives, whatever is around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import tensorlang as tl
from tests.lowering.test_array_programs import agrees
from tests.support.sampling import one_in

FUNCTIONS = """
scalar climb(a) =
  loop x = a at most 100 times
  while x < 8
  do x + 1 + 0 * x * a

scalar settle(a) =
  loop x = a
  while abs(x - 6) > 1
  do 0.5 * (x + 6)
"""
"""Where their values are read, they take at most 3 trips; at 0, and at 1, which stands for hidden values, they take
more."""
MOST = 3

PROGRAMS = {
    "a gen": "gen i:n. [x[i] > 5] * climb(x[i])",
    "a sum": "sum i:n. [x[i] > 5] * settle(x[i])",
    "a choice": "gen i:n. if x[i] > 5 then climb(x[i]) else x[i]",
    "choices in choices": """sum i:n. if x[i] > 5 then (if x[i] > 6 then climb(x[i]) else settle(x[i] + 0.5))
      else (if x[i] > -1 then x[i] else settle(6 - x[i]))""",
    "no side runs": "gen i:n. if x[i] > 5 then (if x[i] < 4 then climb(-x[i]) else x[i]) else 0",
    "a product of sums": "sum i:n, j:n. [j <= i] * [x[i] > 5] * climb(x[i]) * x[j]",
    "a comparison of two": "sum i:n, j:n. [x[j] > 5] * [i < j] * settle(x[j] + 0.1 * x[i] * x[i])",
    "one number": "gen i:n. [x[0] > 9] * climb(x[i])",
    "a lookup": "gen i:n. [k[i] > 0] * [x[k[i]] > 5] * climb(x[k[i]])",
    "indices and values": "gen i:n. [i > 1] * [x[i - 1] > 5] * settle(x[i - 1])",
    "a greatest": "max i:n. if x[i] > 5 then climb(x[i]) else x[i]",
    "an inner let": "sum i:n. let y = [x[i] > 5] * climb(x[i]) in y * y",
}
DATA: dict[str, Any] = {"x": np.array([5.5, 0.25, -0.5, 6.5, 1.0, 7.75, 2.0]), "k": np.array([3, 0, 5, 1, 6, 0, 2])}


def program(name: str) -> tl.Function:
    return tl.parse(f"{FUNCTIONS}\nf(x: [n]R, k: [n]idx(n)) = {PROGRAMS[name]}")


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of trips of each loop that runs."""
    found: list[int] = []

    def loop(test: Any, body: Any, state: Any) -> Any:
        found.append(0)
        while test(state):
            state = body(state)
            found[-1] += 1
            assert found[-1] < 200
        return state

    monkeypatch.setattr(jax.lax, "while_loop", loop)
    with jax.disable_jit():
        yield found


def cotangent(f: tl.Function) -> list[Any]:
    shape = np.shape(tl.evaluate(f, **DATA))
    return [np.cos(np.arange(7.0))] if shape else [1.0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_hidden_makes_no_trip_and_values_and_derivatives_are_right(name: str, trips: list[int]) -> None:
    f = program(name)
    np.testing.assert_allclose(tl.lower(f)(**DATA), tl.evaluate(f, **DATA), rtol=1e-5)
    bar = cotangent(f)
    adjoint = tl.adjoint(f, wrt="x")
    found = tl.lower(adjoint)(*DATA.values(), *bar)
    np.testing.assert_allclose(found, tl.evaluate(adjoint, *DATA.values(), *bar), rtol=1e-4, atol=1e-6)
    assert max(trips, default=0) <= MOST
    if name not in ("no side runs", "one number"):
        assert trips and max(trips) > 0


@pytest.mark.parametrize("name", one_in(6, PROGRAMS))
def test_hidden_loops_under_jit_vmap_and_second_derivatives(name: str) -> None:
    f = program(name)
    g = tl.to_jax(f)
    x, k = DATA["x"], DATA["k"]
    weights = jnp.asarray(cotangent(f)[0])

    def total(v: Any) -> Any:
        return jnp.sum(g(v, k) * weights)

    adjoint = tl.adjoint(f, wrt="x")
    want = tl.evaluate(adjoint, x, k, *cotangent(f))
    np.testing.assert_allclose(jax.jit(jax.grad(total))(jnp.asarray(x)), want, rtol=1e-4, atol=1e-5)
    batch = jnp.stack([jnp.asarray(x), jnp.asarray(x[::-1].copy())])
    turned = tl.evaluate(adjoint, x[::-1], k, *cotangent(f))
    np.testing.assert_allclose(jax.vmap(jax.grad(total))(batch), [want, turned], rtol=1e-4, atol=1e-5)
    hessian = jax.jacobian(jax.grad(total))(jnp.asarray(x))
    step = 1e-6
    near = [
        (tl.evaluate(adjoint, x + step * e, k, *cotangent(f)) - tl.evaluate(adjoint, x - step * e, k, *cotangent(f)))
        / (2 * step)
        for e in np.eye(7)
    ]
    np.testing.assert_allclose(hessian, np.transpose(near), rtol=1e-2, atol=1e-4)


def test_a_hidden_loop_that_would_not_end_ends_and_one_that_passes_its_bound_is_no_error() -> None:
    f = tl.parse(
        "scalar halve(a) = loop x = a while x != 16 do x / 2\n"
        "scalar few(a) = loop x = a at most 3 times while x != 16 do x / 2\n"
        "f(x: [n]R) = gen i:n. if x[i] > 15 then halve(x[i]) + few(x[i]) else x[i]"
    )
    x = np.array([16.0, 3.0, 64.0, 1.0, 0.0])
    want = [32.0, 3.0, 32.0, 1.0, 0.0]
    error, found = checkify.checkify(jax.jit(tl.to_jax(f)), errors=checkify.float_checks)(x)
    assert error.get() is None
    np.testing.assert_allclose(found, want)
    np.testing.assert_allclose(tl.adjoint(f)(x, np.ones(5)), [2, 1, 0.5, 1, 1])


@pytest.mark.parametrize("size", [0, 1])
def test_hidden_loops_of_no_and_of_one_element(size: int) -> None:
    for name in ("a gen", "a sum", "choices in choices"):
        f = program(name)
        given: dict[str, Any] = {"x": np.full(size, -2.0), "k": np.zeros(size, int)}
        np.testing.assert_allclose(tl.lower(f)(**given), tl.evaluate(f, **given))
        bar = np.ones(np.shape(tl.evaluate(f, **given)))
        assert tl.adjoint(f, wrt="x")(*given.values(), bar).shape == (size,)


@pytest.mark.parametrize("name", ["a choice", "choices in choices", "a comparison of two"])
def test_array_programs_have_the_value_where_loops_are_hidden(name: str) -> None:
    agrees(program(name), DATA)
