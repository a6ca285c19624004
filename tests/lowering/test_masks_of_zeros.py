"""Data-dependent masks that hide only zeros are left out of the computation, and no others."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.plan.masks_of_zeros import without_masks_of_zeros

SCATTERED = "let t = gen i:n. sum k:m. [y[k] = i] * w[k] in"
THERE = "exists k:m. y[k] = i"

LEFT_OUT = {
    "of what is scattered": f"{SCATTERED} gen i:n. [{THERE}] * t[i] * x[i]",
    "of a function of it": f"{SCATTERED} gen i:n. [{THERE}] * relu(t[i]) * max(x[i], 1)",
    "of one that is 0 there": f"{SCATTERED} gen i:n. [{THERE}] * tanh(t[i]) * x[i]",
    "at other places": f"{SCATTERED} gen i:n. sum j:3. [i + j < n and exists k:m. y[k] = i + j] * t[i + j] * x[i]",
    "in sums": f"{SCATTERED} sum i:n. [{THERE}] * t[i] * t[i]",
    "of two of which one is 0 there": f"{SCATTERED} gen i:n. [{THERE}] * (t[i] + 2*t[i]*x[i])",
    "of one place or another": "let t = gen i:n. sum k:m. [y[k] = i or z[k] = i] * w[k] in "
    "gen i:n. [exists k:m. y[k] = i or z[k] = i] * t[i] * x[i]",
    "of what is scattered twice": "let s = gen i:n. sum l:m. [z[l] = i] * w[l] in "
    "let t = gen i:n. sum k:m. [y[k] = i] * s[y[k]] in "
    "gen i:n. [exists k:m. y[k] = i and exists l:m. z[l] = i] * t[i] * x[i]",
    "of what may be infinite where it is scattered": "let t = gen i:n. sum k:m. [y[k] = i] * log(w[k]) in "
    f"gen i:n. [{THERE}] * t[i] * x[i]",
    "of sums of products with it": "let t = gen i:n. sum k:m. [y[k] = i] * log(w[k]) in "
    "gen i:n. [exists j:2, k:m. y[k] + j = i] * sum j:2. [j <= i] * t[i - j] * x[j]",
    "of both": "let t = gen i:n. sum k:m, l:m. [y[k] = i and y[l] = i] * w[k] * w[l] in "
    f"gen i:n. [{THERE}] * t[i] * x[i]",
}

KEPT = {
    "of something else": f"gen i:n. [{THERE}] * x[i]",
    "of the same twice": f"gen i:n. [{THERE}] * ([{THERE}] * x[i])",
    "of a sum with something else": f"{SCATTERED} gen i:n. [{THERE}] * (t[i] + x[i])",
    "of what may be infinite": f"{SCATTERED} gen i:n. [{THERE}] * t[i] * log(x[i])",
    "of a function that is not 0 at 0": f"{SCATTERED} gen i:n. [{THERE}] * cos(t[i])",
    "of other elements": f"{SCATTERED} gen i:n. [i + 1 < n and exists k:m. y[k] = i] * t[i + 1]",
    "of other data": f"{SCATTERED} gen i:n. [exists k:m. z[k] = i] * t[i]",
    "of some of them": f"{SCATTERED} gen i:n. [exists k:m. y[k] = i and z[k] = i] * t[i]",
    "of what is infinite elsewhere": "let t = gen i:n. sum k:m. [y[k] = i and z[k] < y[k]] * log(w[k]) in "
    f"gen i:n. [{THERE}] * t[i] * x[i]",
    "of quotients with what is 0": f"{SCATTERED} gen i:n. [{THERE}] * t[i] / x[i]",
}


def program(body: str) -> tl.Function:
    return tl.parse(f"f(x: [n]R, w: [m]R, y: [m]idx(n), z: [m]idx(n)) = {body}")


@pytest.mark.parametrize("name", LEFT_OUT)
def test_masks_of_zeros_are_left_out(name: str) -> None:
    f = program(LEFT_OUT[name])
    assert "exists" in str(f)
    assert "exists" not in str(without_masks_of_zeros(f))


@pytest.mark.parametrize("name", KEPT)
def test_other_masks_stay(name: str) -> None:
    assert "exists" in str(without_masks_of_zeros(program(KEPT[name])))


@pytest.mark.parametrize("name", [*LEFT_OUT, *KEPT])
def test_values_and_gradients_are_those_of_the_program(name: str) -> None:
    f = program({**LEFT_OUT, **KEPT}[name])
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (5, 3), (4, 9)):
        given = [rng.uniform(0.5, 2, n), rng.normal(size=m) ** 2 + 0.1, rng.integers(0, n, m), rng.integers(0, n, m)]
        bar = rng.normal(size=np.shape(tl.evaluate(f, *given)))
        for made, arguments in ((f, given), (tl.adjoint(f), [*given, bar])):
            with jax.enable_x64(True):
                found = jax.tree.leaves(tl.lower(made)(*arguments))
                for a, b in zip(found, jax.tree.leaves(tl.evaluate(made, *arguments)), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*LEFT_OUT, *KEPT])
def test_what_is_infinite_elsewhere_does_not_reach_what_is_hidden(name: str) -> None:
    f = program({**LEFT_OUT, **KEPT}[name])
    for y, z in (([1, 1], [0, 1]), ([0, 3], [1, 3])):
        given = [np.array([1.0, 0.0, 2.0, 3.0]), np.zeros(2), np.array(y), np.array(z)]
        with np.errstate(all="ignore"), jax.enable_x64(True):
            wanted = tl.evaluate(f, *given)
            np.testing.assert_allclose(tl.lower(f)(*given), wanted, rtol=1e-9)


def test_strict_programs_keep_them() -> None:
    f = program(LEFT_OUT["of what is scattered"])
    x, w = np.array([1.0, np.inf, 2.0]), np.ones(1)
    y = np.zeros(1, int)
    assert np.isfinite(tl.lower(f, strict=True)(x, w, y, y)[1])
