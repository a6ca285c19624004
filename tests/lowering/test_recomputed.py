"""Elements that are computed where they are read."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import adjoint
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.lowering.lower import lower
from tensorlang.surface.parse import parse

BAND = "band(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [-2 <= i - j <= 2] * A[i, j] * x[j]"


def made(f: Function) -> set[str]:
    """The names of the arrays that the plan makes."""
    return {x.name for x in lower(f).plan.variables()}


def test_a_band_is_written_without_an_array_of_its_diagonals() -> None:
    assert "A_bar" not in made(adjoint(parse(BAND)))


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
    assert "t" in made(parse(text))


def test_elements_at_chosen_places_are_computed_there() -> None:
    kmeans = parse("f(c: [K][d]R, x: [n][d]R) = sum i:n. min k:K. sum j:d. (x[i, j] - c[k, j])^2")
    assert "c[k[i], j]" in str(lower(adjoint(kmeans)).plan)


@pytest.mark.parametrize(("at", "asked"), [("y[i]", False), ("y[z[i]]", False), ("z[i]", True)])
def test_what_is_asked_of_data_is_not_asked_where_they_choose_the_element(at: str, asked: bool) -> None:
    f = parse(
        "f(x: [n]R, u: [n]R, y: [n]idx(n), z: [n]idx(n)) ="
        " let s = gen k:n. [exists i:n. y[i] = k] * u[k] * u[k] in gen i:n. x[i] + s[" + at + "]"
    )
    lowered = lower(f)
    assert ("exists" in str(lowered.plan.outputs)) == asked
    rng = np.random.default_rng(0)
    for n in (0, 1, 7):
        x, u, y, z = (
            rng.normal(size=n),
            rng.normal(size=n),
            rng.integers(0, max(n, 1), n),
            rng.integers(0, max(n, 1), n),
        )
        np.testing.assert_allclose(lowered(x, u, y, z), np.reshape(evaluate(f, x, u, y, z), n), rtol=1e-5, atol=1e-5)
