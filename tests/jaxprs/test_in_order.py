"""JAX functions that sum over earlier rows: their derived gradients take work in proportion to the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.sampling import one_in
from tests.support.traced import work


def hawkes(t: Any, mu: Any, a: Any, b: Any) -> Any:
    before = jnp.tri(t.shape[0], k=-1, dtype=bool)
    kernel = jnp.where(before, jnp.exp(-b * jnp.where(before, t[:, None] - t, 0)), 0)
    return jnp.sum(jnp.log(mu + a * b * kernel.sum(1)))


def retention(q: Any, k: Any, v: Any, g: Any) -> Any:
    i = jnp.arange(q.shape[0])
    decay = jnp.where(i[:, None] >= i, g ** jnp.maximum(i[:, None] - i, 0), 0)
    return jnp.sum(((q @ k.T * decay) @ v) ** 2)


def gated(q: Any, k: Any, v: Any, f: Any) -> Any:
    logs = jnp.cumsum(jax.nn.log_sigmoid(f))
    apart = jnp.where(jnp.tri(q.shape[0], dtype=bool), logs[:, None] - logs, -jnp.inf)
    return jnp.sum(((q @ k.T * jnp.exp(apart)) @ v) ** 2)


def state_space_duality(x: Any, a: Any, b: Any, c: Any) -> Any:
    logs = jnp.cumsum(a, 0)
    there = jnp.tri(x.shape[0], dtype=bool)[..., None]
    decays = jnp.exp(jnp.where(there, logs[:, None] - logs, -jnp.inf))
    return jnp.sum(jnp.einsum("is,js,ijh,jhp->ihp", c, b, decays, x) ** 2)


def discounted(r: Any, g: Any) -> Any:
    i = jnp.arange(r.shape[0])
    weights = jnp.where(i >= i[:, None], g ** (i - i[:, None]).astype(r.dtype), 0)
    return jnp.sum((weights @ r) ** 2)


def spread(x: Any, w: Any) -> Any:
    return jnp.sum(jnp.where(jnp.tri(x.shape[0], dtype=bool), (x[:, None] - x) ** 2, 0).sum(1) * w)


FUNCTIONS: dict[Callable[..., Any], str] = {
    hawkes: "times 1 1 1",
    gated: "n8 n8 n8 n",
    state_space_duality: "n24 falls2 n3 n3",
    retention: "n8 n8 n8 1",
    discounted: "n 1",
    spread: "n n",
}


def arguments(what: str, n: int) -> list[jax.Array]:
    rng = np.random.default_rng(0)
    made = {
        "1": lambda: np.float64(rng.uniform(0.5, 0.9)),
        "n": lambda: rng.normal(size=n),
        "n3": lambda: rng.normal(size=(n, 3)),
        "n8": lambda: rng.normal(size=(n, 8)),
        "n24": lambda: rng.normal(size=(n, 2, 4)),
        "falls2": lambda: -rng.uniform(size=(n, 2)),
        "times": lambda: np.cumsum(rng.uniform(size=n)),
    }
    return [jnp.asarray(made[kind]()) for kind in what.split()]


@pytest.mark.parametrize("f", one_in(6, FUNCTIONS))
def test_gradients_are_jaxs_and_grow_as_the_rows(f: Callable[..., Any]) -> None:
    by = range(len(FUNCTIONS[f].split()))
    with jax.enable_x64(True):
        given = arguments(FUNCTIONS[f], 600)
        for ours, theirs in zip(tl.jax.grad(f, by)(*given), jax.grad(f, by)(*given), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
        small, large = (work(tl.jax.grad(f, by), *arguments(FUNCTIONS[f], n)).elements for n in (1024, 4096))
    assert large <= 4.2 * small
