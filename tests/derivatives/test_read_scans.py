"""Gradients of what is computed of the states of a `scan`: under conditions on them, and at places that data give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tensorlang as tl
from tensorlang.measure.count import count


def scan(step: Callable[..., Any], first: Any, x: Any) -> Any:
    return lax.scan(lambda s, x: (step(s, x),) * 2, first, x)[1]


def one(x: Any) -> Any:
    return scan(lambda s, x: 0.5 * s + x, 0.0, x)


def two(x: Any) -> Any:
    return scan(lambda s, x: (0.5 * s[0] + x * s[1], 0.9 * s[1] + s[0]), (0.0, 1.0), x)


def masked(p: Any, x: Any) -> Any:
    return jnp.sum(jnp.where(p, x, 0))


def one_of_two(x: Any) -> Any:
    s, c = two(x)
    return jnp.sum(jnp.where(c > 0.4, c, s))


def products(x: Any) -> Any:
    s, c = two(x)
    return masked(s > 0.4, s * c)


def in_turn(x: Any) -> Any:
    s = one(x)
    r = scan(lambda r, s: 0.3 * r + jnp.where(s > 0.1, s, 0.5 * s), 0.0, s)
    return masked(r < 0.5, r * s)


ONE = "let s = scan t:T with s = 0. 0.5 * s + x[t] in "
TWO = "let s = scan t:T with s = 0, c = 1. (0.5 * s + x[t] * c, 0.9 * c + s) in "
CONDITIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "positive states": (ONE + "sum t:T where s[t] > 0. s[t]", lambda x: masked(one(x) > 0, one(x))),
    "states that grow": (
        ONE + "sum t:T where 0 < t and s[t] > s[t - 1]. s[t]^2",
        lambda x: masked(one(x)[1:] > one(x)[:-1], one(x)[1:] ** 2),
    ),
    "one of two states": (TWO + "sum t:T. if snd(s[t]) > 0.4 then snd(s[t]) else fst(s[t])", one_of_two),
    "products of two states": (TWO + "sum t:T where fst(s[t]) > 0.4. fst(s[t]) * snd(s[t])", products),
    "another scan": (
        ONE + "let r = scan t:T with r = 0. 0.3 * r + (if s[t] > 0.1 then s[t] else 0.5 * s[t]) in "
        "sum t:T where r[t] < 0.5. r[t] * s[t]",
        in_turn,
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_on_states_have_the_derivatives_of_jax(name: str) -> None:
    text, g = CONDITIONS[name]
    f = tl.parse(f"f(x: [T]R) = {text}")
    with jax.enable_x64(True):
        for steps in (0, 1, 2, 7):
            x = jnp.asarray(np.random.default_rng(steps).normal(size=steps))
            value, gradient = tl.value_and_grad(f)(x)
            np.testing.assert_allclose(value, g(x), rtol=1e-10, atol=1e-12)
            for found in (gradient, tl.grad(f)(x), tl.evaluate(tl.grad(f), x)):
                np.testing.assert_allclose(found, jax.grad(g)(x), rtol=1e-9, atol=1e-12)
        wanted = jax.jvp(jax.grad(g), (x,), (x[::-1],))[1]
        np.testing.assert_allclose(tl.hvp(f)(x, x[::-1]), wanted, rtol=1e-8, atol=1e-10)


PLACES = {
    "every other time": "f(x: [2*n]R) = let s = scan t:2*n with s = 0. 0.5 * s + x[t] in sum i:n. s[2*i]^2",
    "at places": f"f(x: [T]R, at: [m]idx(T)) = {ONE} sum k:m. s[at[k]]",
    "functions at places": "f(x: [T]R, at: [m]idx(T)) = let s = scan t:T with s = 0. s + exp(x[t]) in "
    "sum k:m. log(s[at[k]])",
    "running sums at places": f"f(x: [T]R, at: [m]idx(T)) = {ONE} let y = gen t:T. sum u:T. [u <= t] * s[u] in "
    "sum k:m. y[at[k]]^2",
    "greatest of three": f"f(x: [T]R) = {ONE} sum t:T. max u:T where t <= u < t + 3. s[u]",
}


@pytest.mark.parametrize("name", PLACES)
def test_backward_steps_do_not_look_through_all_places(name: str) -> None:
    f = tl.parse(PLACES[name])
    g = tl.lower(tl.grad(f, "x"))
    work = []
    for steps in (400, 800):
        at = np.random.default_rng(0).integers(0, steps, steps // 2)
        done = count(g, np.ones(steps), *[at for p in f.params[1:]])
        work.append(done.operations + done.comparisons)
    assert work[1] < 2.3 * work[0], work


def test_steps_of_two_recurrences_that_read_one_array_have_separate_sums() -> None:
    f = tl.parse("f(x: [n]R) = fold i:n with a = 1. 0.9 * a + 0.1 * fold k:n with c = a. tanh(c * x[k] + x[i])")
    g = tl.lower(tl.grad(f))
    work = [count(g, np.ones(n)).operations for n in (60, 120)]
    assert work[1] < 4.5 * work[0], work


def test_a_gradient_of_loops_of_numbers_at_size_0() -> None:
    f = tl.parse(
        "scalar root(y, h) = loop z = y at most 50 times while abs(z + h * z * z - y) > 1e-9 do "
        "z - (z + h * z * z - y) / (1 + 2 * h * z)  f(x: [n]R, h: R) = sum i:n. root(x[i], h)"
    )
    assert [x.shape for x in tl.grad(f)(np.zeros(0), 0.1)] == [(0,), ()]


def test_a_recurrence_whose_steps_turn_out_to_change_nothing_is_compiled() -> None:
    f = tl.parse("f(x: [T]R) = fold t:T with s = 0. (max i:3. s) - x[t]")
    g = tl.adjoint(f)
    assert np.allclose(tl.lower(g)(np.ones(4), 2.0), [-2, -2, -2, -2])


def test_states_that_windows_of_other_times_read_are_stored() -> None:
    f = tl.parse("""f(x: [T]R, u: [T][m]R, c: R) = prescan reversed t:T with s = 0 until s * s < 0.25.
      (fold i:m with z = x[T - 1 - t]. z * u[t, i] + x[t]) + c""")
    rng = np.random.default_rng(0)
    given = [rng.normal(size=3), rng.normal(size=(3, 2)), 1.5, rng.normal(size=3)]
    g = tl.adjoint(f)
    with jax.enable_x64(True):
        for found, wanted in zip(
            jax.tree.leaves(tl.lower(g)(*given)), jax.tree.leaves(tl.evaluate(g, *given)), strict=True
        ):
            assert np.allclose(found, wanted)
