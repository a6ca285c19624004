"""Arrays of short rows, of which single columns are read: the columns lie one after the other in memory."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import adjoint
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.grammar import type_of
from tensorlang.lowering.lower import lower
from tensorlang.surface.parse import parse
from tests.support.operations import count_of

CROSS = """
  across(X: [n][3]R, c: [3]R, v: [3]R) =
    let Y = gen i:n, a:3. X[i, a] - c[a] in
    gen i:n. (v[1] * Y[i, 2] - v[2] * Y[i, 1]) * (sum a:3. v[a] * Y[i, a]) + sin(Y[i, 0])
"""


def axes(f: Function, name: str) -> str:
    """The type of an array of the plan, whose axes lie in memory in that order."""
    return next(str(type_of(x)) for x in lower(f).plan.variables() if x.name == name)


def test_columns_that_are_read_lie_in_one_piece() -> None:
    assert axes(parse(CROSS), "Y") == "[3][n]R" and "Y" in lower(parse(CROSS)).plan.notes


def test_what_is_chosen_for_each_of_a_few_lies_in_columns() -> None:
    pool = parse("pooled(x: [2*n][2*n]R) = gen i:n, j:n. max a:2, b:2. x[2*i + a, 2*j + b]")
    assert axes(adjoint(pool), "k") == "[2][n][n]idx(2)"
    assert count_of(lower(adjoint(pool)), "select")
    x, y = np.random.default_rng(0).normal(size=(6, 6)), np.arange(9.0).reshape(3, 3)
    expected = np.asarray(evaluate(adjoint(pool), x, y), float)
    np.testing.assert_allclose(lower(adjoint(pool))(x, y), expected, rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_what_is_turned_means_what_it_meant(n: int) -> None:
    f = parse(CROSS)
    rng = np.random.default_rng(0)
    X, c, v, y = (rng.standard_normal(dims) for dims in ((n, 3), 3, 3, n))
    np.testing.assert_allclose(lower(f)(X, c, v), np.asarray(evaluate(f, X, c, v), float), atol=1e-5)
    g = adjoint(f)
    for found, wanted in zip(lower(g)(X, c, v, y), evaluate(g, X, c, v, y), strict=True):
        np.testing.assert_allclose(found, np.asarray(wanted, float), atol=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "f(X: [n][3]R) = let Y = gen i:n, a:3. X[i, a]^2 in (Y, gen i:n. Y[i, 0] * Y[i, 1])",
        "f(X: [n][30]R) = let Y = gen i:n, a:30. X[i, a]^2 in gen i:n. Y[i, 0] * Y[i, 1] + sum a:30. Y[i, a]",
        "f(X: [n][3]R) = let Y = gen i:n, a:3. X[i, a]^2 in gen i:n, a:3. Y[i, a] * (Y[i, 1] + sum b:3. Y[i, b])",
        "f(X: [3][3]R) = let Y = gen i:3, a:3. X[i, a]^2 in gen i:3. Y[i, 0] * Y[i, 1] + sum a:3. Y[i, a]",
    ],
    ids=["a result", "long rows", "one column", "small"],
)
def test_other_arrays_stay_as_they_are(text: str) -> None:
    made = lower(parse(text)).plan
    assert "Y" in {x.name for x in made.variables()} and "Y" not in made.notes
