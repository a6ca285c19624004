"""Elements that are computed where they are read."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import adjoint
from tensorlang.language.evaluate import evaluate
from tensorlang.lower import lower
from tensorlang.surface.parse import parse

BAND = "band(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [-2 <= i - j <= 2] * A[i, j] * x[j]"


def test_a_band_is_written_without_an_array_of_its_diagonals() -> None:
    source = lower(adjoint(parse(BAND))).source
    assert "A_bar" not in source and "* band_bar[i] * x[j] : [n][n]R" in source


@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_what_is_computed_elsewhere_is_what_it_was(n: int) -> None:
    g = adjoint(parse(BAND))
    rng = np.random.default_rng(n)
    a, x, y = rng.normal(size=(n, n)), rng.normal(size=n), rng.normal(size=n)
    for found, wanted in zip(lower(g)(a, x, y), evaluate(g, a, x, y), strict=True):
        np.testing.assert_allclose(found, np.asarray(wanted, float).reshape(found.shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R, y: [m]R) = let t = gen i:n, j:m. x[i] * y[j] in"
        " gen i:n, j:m, k:n. [i <= k] * t[k - i, j] + [k < i] * t[i - k, j]",
        "f(x: [n]R, y: [m]R) = let t = gen i:n + m. [i < n] * 2 * x[i] in gen i:n, j:m. t[i + j] * y[j]",
    ],
    ids=["read twice", "an element read often"],
)
def test_other_arrays_are_computed_first(text: str) -> None:
    assert "# t = gen i" in lower(parse(text)).source


def test_elements_at_chosen_places_are_computed_there() -> None:
    kmeans = parse("f(c: [K][d]R, x: [n][d]R) = sum i:n. min k:K. sum j:d. (x[i, j] - c[k, j])^2")
    source = lower(adjoint(kmeans)).source
    assert "c[k[i], " in source
