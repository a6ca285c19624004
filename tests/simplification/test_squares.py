"""Squares multiplied out on demand: the same function, as matrix products, rounded differently."""

from __future__ import annotations

import random

import jax
import numpy as np
import pytest

import tensorlang as tl
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.traced import work

POINTS = "f(x: [n][d]R, c: [m][d]R"
DISTANCES = {
    "nearest": f"{POINTS}) = gen i:n. min k:m. sum j:d. (x[i, j] - c[k, j])^2",
    "weighted": f"{POINTS}, s: [m][d]R) = gen i:n, k:m. exp(-sum j:d. (s[k, j] * (x[i, j] - c[k, j]))^2)",
    "named": f"""{POINTS}) = let t = gen i:n, k:m, j:d. x[i, j] + 2 * c[k, j] in
        gen i:n, k:m. sum j:d. t[i, k, j] * t[i, k, j]""",
    "masked": f"{POINTS}) = gen i:n, k:m. sum j:d. [j <= i] * (x[i, j] - c[k, j])^2",
    "three terms": f"{POINTS}, b: [d]R) = gen i:n, k:m. sum j:d. (x[i, j] - c[k, j] - b[j])^2",
}


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_become_products_of_matrices_of_the_same_value(name: str) -> None:
    f = tl.parse(DISTANCES[name])
    rng = np.random.default_rng(0)
    sizes = {"n": 5, "m": 4, "d": 3}
    given = [rng.normal(size=[sizes[part[0]] for part in str(x.type).split("[")[1:]]) for x in f.variables]
    e = tl.expand_squares(f)
    assert "- c" not in str(e)
    np.testing.assert_allclose(tl.evaluate(e, *given), tl.evaluate(f, *given), atol=1e-12)
    with jax.enable_x64(True):
        np.testing.assert_allclose(tl.lower(e)(*given), tl.evaluate(f, *given), atol=1e-12)


@pytest.mark.parametrize("name", [name for name in DISTANCES if name != "masked"])
def test_no_array_has_an_element_for_each_term_of_a_sum(name: str) -> None:
    e = tl.expand_squares(tl.parse(DISTANCES[name]))
    n = {"n": 40, "m": 40, "d": 40}
    given = [np.ones([n[part[0]] for part in str(x.type).split("[")[1:]]) for x in e.variables]
    assert work(tl.lower(e), *given).elements < 40**3


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R, c: [n]R) = sum i:n. (x[i] - c[i])^2",
        "f(x: [n]R, c: [m]R) = gen i:n, k:m. (x[i] - c[k])^2",
        "f(x: [n][d]R, c: [m][d]R) = gen i:n, k:m. sum j:d. exp(x[i, j] - c[k, j])^2",
    ],
)
def test_what_would_gain_nothing_is_left_as_it_is(text: str) -> None:
    f = tl.simplify(tl.parse(text))
    assert str(tl.expand_squares(f)) == str(f)


def test_the_gradient_of_k_means_reads_distances_that_are_products_of_matrices() -> None:
    f = tl.parse("f(c: [K][d]R, x: [n][d]R) = sum i:n. min k:K. sum j:d. (x[i, j] - c[k, j])^2")
    g = tl.grad(f, "c")
    e = tl.expand_squares(g)
    rng = np.random.default_rng(0)
    c, x = rng.normal(size=(3, 4)), rng.normal(size=(30, 4))
    np.testing.assert_allclose(tl.evaluate(e, c, x), tl.evaluate(g, c, x), atol=1e-12)
    assert "x @ c.T" in tl.lower(e).definition


@pytest.mark.parametrize("seed", range(12))
def test_programs_mean_the_same_afterwards(seed: int) -> None:
    rng = random.Random(seed)
    f = random_function(rng)
    given = random_arguments(f, rng, random_sizes(f, rng))
    found, wanted = tl.evaluate(tl.expand_squares(f), **given), tl.evaluate(f, **given)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.array_equal(a, b)
