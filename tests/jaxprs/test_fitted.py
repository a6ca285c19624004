"""Named sizes where JAX traces only at numbers: programs at several sizes are fitted, and nothing else is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl

RNG = np.random.default_rng(0)

FITTED = {
    "convolution": (lambda x, w: jnp.mean(jnp.convolve(x, w) ** 2), ("n", "m")),
    "correlation": (lambda x: jnp.sum(jnp.correlate(x, x[:3]) ** 2), ("n",)),
    "constants that depend on the size": (lambda x: jnp.sum(x[np.arange(len(x))[::-1]] * np.arange(len(x))), ("n",)),
    "halves": (lambda x: jnp.sum(jnp.prod(x.reshape(2, -1), 0) ** 2), ("2*n",)),
    "differences": (lambda x: jnp.sum(jnp.gradient(x) ** 2), ("n",)),
    "a shift": (lambda x: jnp.sum(jnp.roll(x, 2) * x), ("n",)),
    "a reflected edge": (lambda x: jnp.sum(jnp.pad(x, (2, 3), mode="reflect") ** 3), ("n",)),
}


@pytest.mark.parametrize(
    "name", [name if name in ("a shift", "halves") else pytest.param(name, marks=pytest.mark.slow) for name in FITTED]
)
def test_a_function_that_jax_traces_at_numbers_only_is_fitted(name: str) -> None:
    f, specs = FITTED[name]
    found = tl.from_jax(f, *specs)
    assert any("the same form at all sizes" in what for what in found.assumptions)
    gradient = tl.grad(found.function)
    for n, m in ((7, 5), (30, 3)):
        given = [jnp.asarray(RNG.normal(size=eval(spec, {"n": n, "m": m})), jnp.float32) for spec in specs]
        np.testing.assert_allclose(found(*given), f(*given), rtol=1e-3)
        got = jax.tree.leaves(gradient(**found.arguments(*given)))
        for g, w in zip(got, jax.grad(f, tuple(range(len(given))))(*given), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4)


def test_a_fit_that_holds_for_one_order_of_sizes_says_so_and_is_not_used_in_the_other() -> None:
    f, specs = FITTED["convolution"]
    found = tl.from_jax(f, *specs)
    assert any("where n > m" in what for what in found.assumptions)
    with pytest.raises(tl.ArgumentError, match="another program"):
        found(jnp.ones(3), jnp.ones(9))
    with pytest.raises(tl.ImportRefused, match="the same form"):
        tl.from_jax(f, *specs, strict=True)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: sum(x[i] ** 2 for i in range(x.shape[0])), "another form at n = 13 than at n = 11"),
        (lambda x: jnp.sum(x * np.sqrt(x.shape[0])), "no affine expression of the sizes"),
    ],
)
def test_what_does_not_fit_is_refused(f: Any, why: str) -> None:
    with pytest.raises(tl.ImportRefused, match=why):
        tl.from_jax(f, "n")
