"""Branches that steps of JAX's loops choose: imported, and taken at the times at which they are chosen only."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tensorlang as tl
from tensorlang.jaxprs.regions import patience
from tests.support.jax_branches import random_branches
from tests.support.traced import conditionals

N, T = 24, 40
RNG = np.random.default_rng(0)
W, V = (jnp.asarray(RNG.normal(size=(N, N)) / N**0.5, jnp.float32) for _ in range(2))
X = jnp.asarray(RNG.uniform(size=N) / 2, jnp.float32)
NUMBERS = jnp.asarray(RNG.normal(size=T), jnp.float32)
INTEGERS = jnp.asarray(RNG.integers(-1, 5, T), jnp.int32)

Step = Callable[[Any, Any, Any, Any], Any]


def loss(step: Step, rows: Any) -> Callable[..., Any]:
    """The squares of the last state after steps step(W, V, state, row)."""

    def f(W: Any, V: Any, x: Any) -> Any:
        last, _ = lax.scan(lambda s, row: (step(W, V, s, row), None), x, rows)
        return jnp.sum(last**2)

    return f


def product(W: Any) -> Callable[[Any], Any]:
    return lambda s: jnp.tanh(W @ s)


def fewer(s: Any) -> Any:
    return 0.9 * s


PROGRAMS = {
    "by the counter": loss(lambda W, V, s, t: lax.cond(t % 7 == 0, product(W), fewer, s), jnp.arange(T)),
    "by data": loss(lambda W, V, s, v: lax.cond(v > 1, product(W), fewer, s), NUMBERS),
    "by the state": loss(lambda W, V, s, v: lax.cond(s[0] > 0.3, product(W), lambda s: s + v, s), NUMBERS),
    "by integers": loss(
        lambda W, V, s, k: lax.switch(k, [product(W), product(V), fewer, lambda s: s + 0.1], s), INTEGERS
    ),
    "one in the other": loss(
        lambda W, V, s, v: lax.cond(v > 0, lambda s: lax.cond(s[0] > 0.3, product(W), product(V), s), fewer, s), NUMBERS
    ),
    "by both": loss(lambda W, V, s, v: lax.cond((s[0] > 0) & (v > 0) | (s[1] < 0.1), product(W), fewer, s), NUMBERS),
    "in an inner loop": loss(
        lambda W, V, s, v: lax.scan(lambda q, k: (lax.cond(k == 2, product(W), fewer, q), None), s, jnp.arange(6))[0],
        NUMBERS,
    ),
    "around an inner loop": loss(
        lambda W, V, s, v: lax.cond(
            v > 0, lambda s: lax.scan(lambda q, _: (jnp.tanh(W @ q), None), s, jnp.arange(5))[0], fewer, s
        ),
        NUMBERS,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_jax(name: str) -> None:
    f = PROGRAMS[name]
    want = jax.grad(f, (0, 1, 2))(W, V, X)
    with patience():
        found = jax.jit(tl.jax.grad(f, (0, 1, 2)))(W, V, X)
        in_batches = jax.vmap(tl.jax.grad(f, 2), (None, None, 0))(W, V, jnp.stack([X, X + 1]))
    whole = jax.grad(tl.from_jax(f, W, V, X), (0, 1, 2))(W, V, X)
    for g, w, i in zip(found, want, whole, strict=True):
        scale = float(jnp.max(jnp.abs(w)))
        np.testing.assert_allclose(g, w, rtol=2e-3, atol=1e-4 * scale)
        np.testing.assert_allclose(i, w, rtol=2e-3, atol=1e-4 * scale)
    for k in range(2):
        np.testing.assert_allclose(in_batches[k], jax.grad(f, 2)(W, V, X + k), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "around an inner loop"])  # that runs always
def test_products_are_computed_where_their_branch_is_taken(name: str) -> None:
    found = tl.from_jax(PROGRAMS[name], W, V, X)
    for f in (found, jax.grad(found, 2)):
        made = jax.make_jaxpr(f)(W, V, X)
        assert any("dot_general" in str(eqn) for eqn in conditionals(made))


def test_a_branch_that_is_rarely_taken_pays_for_deriving() -> None:
    """JAX adds a matrix to the cotangent of W in each step, whichever branch was taken."""
    many, rows = 96, jnp.arange(200)
    f = loss(lambda W, V, s, t: lax.cond(s[0] > 0.9, product(W), fewer, s), rows)
    given = (jnp.eye(many), jnp.eye(many), jnp.ones(many))
    with patience():
        assert "1 part with a derived gradient" in str(tl.jax.explain(f, *given))


def test_a_branch_outside_of_loops_stays_jax() -> None:
    def f(W: Any, x: Any) -> Any:
        return jnp.sum(lax.cond(x[0] > 0, product(W), fewer, x))

    with pytest.raises(tl.ImportRefused, match="a branch that data choose"):
        tl.from_jax(f, W, X)
    np.testing.assert_allclose(tl.jax.grad(f, 1)(W, X), jax.grad(f, 1)(W, X), rtol=1e-5)


def agrees_with_jax(seed: int) -> None:
    """Assert that the gradient of the import of a random function, and of what `tl.jax.grad` makes of it, is JAX's."""
    loop = random_branches(random.Random(seed))
    want = jax.grad(loop.function, (0, 1, 2))(*loop.arguments)
    with patience():
        found = [tl.jax.grad(loop.function, (0, 1, 2))(*loop.arguments)]
    try:
        whole = tl.from_jax(loop.function, *loop.arguments, exact=True)
        found.append(jax.grad(whole, (0, 1, 2))(*loop.arguments))
    except tl.ImportRefused as refused:
        assert "integers" in refused.message or "indices" in refused.message, (refused.message, loop.text)
    for got in found:
        for g, w in zip(got, want, strict=True):
            scale = float(jnp.max(jnp.abs(w)))
            np.testing.assert_allclose(g, w, rtol=2e-3, atol=2e-4 * scale + 1e-7, err_msg=loop.text)


@pytest.mark.parametrize("seed", range(6))
def test_random_branches_agree_with_jax(seed: int) -> None:
    agrees_with_jax(seed)


@pytest.mark.slow
@pytest.mark.seeds(100, 60)
def test_many_random_branches_agree_with_jax(seed: int) -> None:
    agrees_with_jax(seed)
