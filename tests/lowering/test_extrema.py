"""Extrema and choices in generated code: values, ties, hidden elements, windows, and empty ranges."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tensorlang.errors import ArgumentError
from tensorlang.language.evaluate import evaluate
from tensorlang.lowering.lower import lower
from tensorlang.measure.count import count
from tensorlang.pipeline import adjoint
from tensorlang.simplification import simplify
from tensorlang.surface.parse import parse
from tests.lowering.test_relations import assert_alike, data
from tests.support.operations import count_of
from tests.support.sampling import one_in

PROGRAMS = {
    "of rows": "f(x: [n][m]R) = gen i:n. max j:m. x[i, j]",
    "of columns": "f(x: [n][m]R) = gen j:m. min i:n. sin(x[i, j])",
    "of a triangle": "f(x: [n]R) = gen i:n. max j:n where j <= i. x[j] * x[i]",
    "of a range": "f(x: [n + 1]R) = [0 < n] * let k = argmin j:n + 1 where 1 <= j. x[j] in x[k]",
    "where it is": "f(x: [n][m]R) = let k = gen i:n. argmax j:m. x[i, j] in gen i:n. x[i, k[i]]^2",
    "pooling": "f(x: [2*n]R) = gen i:n. max a:2. x[2*i + a]",
    "pooling in two dimensions": "f(x: [2*n][2*m]R) = gen i:n, j:m. max a:2, b:2. x[2*i + a, 2*j + b]",
    "pooling of rows": "f(x: [m][2*n + 1]R) = gen i:m, j:n. max a:2. x[i, 2*j + a]",
    "overlapping windows of rows": "f(x: [m][n + 2]R) = gen i:m, j:n. max a:3. x[i, j + a]^2",
    "overlapping windows": "f(x: [n + 2]R) = gen i:n. min a:3. x[i + a]",
    "overlapping pools": "f(x: [2*n + 2][n + 2]R) = gen i:n, j:n. max a:3, b:3. x[2*i + a + 1, j + b]",
    "windows with gaps": "f(x: [3*n]R) = gen i:n. max a:2. x[3*i + a]",
    "dilated windows": "f(x: [n + 4][m]R) = gen i:n, j:m. min a:3. x[i + 2*a, j]",
    "windows that run backwards": "f(x: [2*n]R) = gen i:n. max a:2. x[2*n - 1 - 2*i - a]",
    "windows of any width": "f(x: [n + m]R, w: [m]R) = gen i:n. max a:m. x[i + a] * w[a]",
    "logsumexp": "f(x: [n][m]R) = gen i:n. let M = max j:m. x[i, j] in M + log(sum j:m. exp(x[i, j] - M))",
    "distances": "f(x: [n][k]R, c: [m][k]R) = sum i:n. min a:m. sum l:k. (x[i, l] - c[a, l])^2",
    "where data says": "f(x: [n]R, y: [n]idx(m), z: [m]R) = gen i:n. max j:m where j >= y[i]. x[i] * z[j]",
    "where a relation holds": "f(E: rel(n, m), z: [m]R) = gen i:n. max j:m where E(i, j) or j = 0. z[j]",
    "slices under a relation": "f(E: rel(n, n), x: [n]R) = gen i:n, a:1. max j:n where E(i, j) or j = 0. x[j + a]",
    "wide windows": "f(x: [n]R, z: [n]R) = gen i:n. max j:n where 0 <= i - j < 40. x[j] * z[i]",
    "windows of a width that is a size": "f(x: [n]R, w: [m]R) = gen i:n. min j:n where 0 <= i - j < m. x[j]",
    "windows on both sides": "f(x: [n]R, z: [n]R, w: [k]R) = gen i:n. max j:n where -k < i - j < k. x[j] * z[i]",
    "windows of a band": "f(x: [n][n]R, w: [k]R) = gen i:n. max j:n where 0 <= i - j < k. x[i, j]",
    "windows at steps": "f(x: [2*n]R, w: [k]R) = gen i:n. min j:2*n where 2*i <= j and j < 2*i + k. x[j]",
    "windows that data place": "f(x: [n]R, y: [m]idx(n)) = gen i:m. max j:n where y[i] <= j and j <= y[i] + 2. x[j]",
    "windows of products": (
        "f(Q: [n][k]R, K: [n][k]R, w: [m]R) = gen i:n. max j:n where 0 <= i - j < m. sum a:k. Q[i, a] * K[j, a]"
    ),
    "running": "f(x: [n]R) = gen i:n. max j:n where j <= i. x[j]",
    "running from the end": "f(x: [n]R) = gen i:n. min j:n where i <= j. x[j] * x[j]",
    "running along rows": "f(x: [m][n]R) = gen i:n, a:m. max j:n where j <= i. x[a, j]",
    "running along columns": "f(x: [n][m]R) = gen a:m, i:n. min j:n where i <= j. sin(x[j, a])",
    "running ahead": "f(x: [n + 2]R) = gen i:n. max j:n + 2 where j <= i + 1. x[j]",
    "running as far as data say": "f(x: [n]R, y: [m]idx(n)) = gen i:m. max j:n where j <= y[i]. x[j]",
    "in windows and columns": "f(x: [n]R, z: [n]R) = gen i:n. max j:n where 0 <= i - j < 3 or j = 0. x[i] * z[j]",
    "in rows and columns": "f(x: [n]R) = gen i:n. min j:n where i < 2 or j < 2 or i = j. sin(x[i] * x[j])",
    "in rows that data say": "f(x: [n]R, y: [n]idx(n)) = gen i:n. max j:n where y[j] = i or i = j. sin(x[i] * x[j])",
    "of terms": "f(x: [n]R) = gen i:n. max j:n. [i - 2 <= j <= i] * x[j] + [j < i - 2 or i < j] * x[i]^2",
    "of zeros elsewhere": "f(x: [n]R) = gen i:n. min j:n. [j <= i] * x[j]",
    "of an element that data name, and others": (
        "f(x: [n]R, y: [n]idx(n)) = gen i:n. max j:n. [j = y[i]] * x[j] + [j != y[i]] * x[i]"
    ),
    "where it is among terms": (
        "f(x: [n]R) = let k = gen i:n. argmin j:n. [j < 2] * x[j] + [2 <= j] * x[i] in gen i:n. x[k[i]] * x[i]"
    ),
    "in windows that data say": (
        "f(x: [n]R, y: [n]idx(n)) = gen i:n. max j:n where y[i] <= j and j < y[i] + 2 or i = j. x[i] * x[j]"
    ),
    "of what does not vary": "f(x: [n]R) = sum i:n. max j:n where j < 3. x[i]",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_extrema_and_their_adjoints_are_as_the_evaluator_says(name: str) -> None:
    f = parse(PROGRAMS[name])
    for g in (f, adjoint(f)):
        values = data(g, n=6, m=5, k=3)
        assert_alike(lower(g)(**values), evaluate(g, **values))


@pytest.mark.parametrize("name", one_in(3, (name for name in PROGRAMS if "window" in name or "running" in name)))
def test_windows_and_running_extrema_are_right_among_equals_and_at_any_size(name: str) -> None:
    f = parse(PROGRAMS[name])
    rng = np.random.default_rng(3)
    for g in (f, adjoint(f)):
        for sizes in ({"n": 1, "m": 1, "k": 1}, {"n": 2, "m": 7, "k": 5}, {"n": 29, "m": 4, "k": 2}):
            values = data(g, **sizes)
            for p in g.variables:
                values[p.name] = rng.integers(-2, 3, values[p.name].shape).astype(float)
            assert_alike(lower(g)(**values), evaluate(g, **values))


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("f(x: [n]R) = gen i:n. max j:n where 0 <= i - j < 64. x[j]", 200),
        ("f(x: [n]R, w: [m]R) = gen i:n. max j:n where -m < i - j < m. x[j]", 50),
        ("f(x: [n]R, z: [n]R, w: [m]R) = gen i:n. min j:n where 0 <= i - j < m. x[j] * z[i]", 100),
        ("f(x: [n]R) = gen i:n. max j:n where j <= i. x[j]", 20),
        ("f(x: [n]R, y: [n]idx(n)) = gen i:n. min j:n where y[i] <= j. x[j] * x[j]", 120),
    ],
)
def test_windows_take_work_in_proportion_to_their_width_and_running_extrema_to_their_length(
    text: str, most: int
) -> None:
    f = parse(text)
    for g in (f, adjoint(f)):
        for n in (300, 1000, 3000):
            given = data(g, n=n, m=8)
            assert count(lower(g), **given).operations < most * n


@pytest.mark.parametrize("condition", ["0 <= i - j < 3", "0 <= i - j < 20", "j <= i"])
def test_windows_find_what_they_show_even_if_all_that_is_minus_infinity(condition: str) -> None:
    g = adjoint(parse(f"f(x: [n]R) = gen i:n. max j:n where {condition}. x[j]"))
    x = np.array([-np.inf, -np.inf, 1, 2, -np.inf, -np.inf, -np.inf, *np.zeros(40)])
    cotangent = np.arange(1.0, 48)
    np.testing.assert_allclose(lower(g)(x, cotangent), evaluate(g, x, cotangent))


def test_the_first_among_equals_gets_the_cotangent() -> None:
    f = parse("f(x: [n][m]R) = gen i:n. max j:m. x[i, j]")
    x = np.array([[1.0, 3, 3], [2, 2, 2]])
    np.testing.assert_array_equal(adjoint(f)(x, np.array([5.0, 7])), [[0, 5, 0], [7, 0, 0]])


def test_a_running_choice_takes_the_first_among_equals_too() -> None:
    f = parse("f(x: [2*n]R) = gen i:n. max a:2. x[2*i + a]")
    np.testing.assert_array_equal(adjoint(f)(np.array([4.0, 4, 1, 2]), np.array([5.0, 7])), [5, 0, 0, 7])


def test_what_is_hidden_is_not_chosen_even_where_all_else_is_minus_infinity() -> None:
    f = parse("f(x: [n]R, y: [n]R) = let k = argmax i:n where i != 0 and i != 2. log(x[i]) in y[k]")
    assert f(np.array([9.0, 0, 9, 0]), np.array([1.0, 2, 3, 4])) == 2


def test_nan_wins() -> None:
    f = parse("f(x: [n]R) = max i:n. x[i]")
    g = parse("f(x: [n]R, y: [n]R) = let k = argmin i:n. x[i] in y[k]")
    x = np.array([1.0, np.nan, 3])
    assert np.isnan(f(x))
    assert g(x, np.array([1.0, 2, 3])) == 2


@pytest.mark.parametrize("n", [4095, 4096, 5001])
def test_among_many_the_first_of_the_greatest_is_found(n: int) -> None:
    f = parse("f(x: [m][n]R) = let k = gen i:m. argmax j:n. x[i, j] in gen i:m. x[i, k[i]] + [k[i] = 3]")
    x = np.random.default_rng(n).normal(size=(5, n)).astype(np.float32)
    x[1, [n - 1, n - 2, 7]] = 9
    x[2] = -np.inf
    x[3, [40, n - 1]] = np.nan
    x[4, [3, n - 1]] = 9
    found = np.asarray(f(x))
    np.testing.assert_array_equal(found, [x[0].max(), 9, -np.inf, np.nan, 10])


def test_of_no_point_by_the_sizes_is_an_error_and_by_the_data_nan() -> None:
    f = parse("f(x: [n]R) = max i:n. x[i]")
    with pytest.raises(ArgumentError, match="no point"):
        f(np.zeros(0))
    g = parse("f(E: rel(n, n), x: [n]R) = gen i:n. max j:n where E(i, j). x[j]")
    np.testing.assert_array_equal(g(np.array([[True, False], [False, False]]), np.array([3.0, 4])), [3, np.nan])


def test_an_extremum_under_a_false_bracket_has_no_points_to_find() -> None:
    f = parse("f(x: [n]R) = 1 + [0 < n] * max i:n. x[i]")
    assert f(np.zeros(0)) == 1


@pytest.mark.parametrize("n", [3, 50_001])
def test_extrema_along_a_leading_axis_are_right_at_any_size(n: int) -> None:
    f = parse("f(x: [k]R, z: [k][n]R) = gen j:n. max i:k. x[i] * z[i, j]")
    rng = np.random.default_rng(0)
    x, z, bar = rng.normal(size=3), rng.normal(size=(3, n)), rng.normal(size=n)
    products = x[:, None] * z
    np.testing.assert_allclose(np.asarray(f(x, z)), products.max(0), rtol=1e-5)
    x_bar, z_bar = adjoint(f)(x, z, bar)
    chosen = products.argmax(0) == np.arange(3)[:, None]
    np.testing.assert_allclose(np.asarray(x_bar), (chosen * z * bar).sum(1), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(np.asarray(z_bar), chosen * x[:, None] * bar, rtol=1e-4, atol=1e-5)


def test_pooling_and_its_adjoint_do_no_more_work_than_there_are_elements() -> None:
    f = parse("f(x: [2*n]R) = gen i:n. max a:2. x[2*i + a]^2")
    x, bar = jnp.arange(2000.0), jnp.ones(1000)
    assert count(lower(f), x).arithmetic <= 3000
    work = count(lower(adjoint(f)), x, bar)
    assert work.arithmetic <= 8000
    assert work.comparisons == 0  # nothing is sorted


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (1, 1), (2, 2), (2, 1), (3, 2)])
def test_what_is_chosen_among_none_compares_as_false(n: int, m: int) -> None:
    f = parse(
        "f(w: [1]R, x: [n]R, y: [m]R) = [m < n and 0 < m] * let k = argmin j:n - m. x[j] in [k = 0 or k = 7] * w[0]^2"
    )
    values = {"w": np.ones(1), "x": np.zeros(n), "y": np.zeros(m)}
    for g in (f, simplify(f)):
        assert float(lower(g)(**values)) == evaluate(f, **values) == (0 < m < n)


def test_pooling_of_many_rows_visits_no_row_twice() -> None:
    f = adjoint(parse("f(x: [m][2*n]R) = gen i:m, j:n. max a:2. x[i, 2*j + a]"))
    x = np.random.default_rng(0).permutation(30 * 1000).reshape(30, 1000).astype(float)
    bar = np.random.default_rng(1).normal(size=(30, 500))
    windows = x.reshape(30, 500, 2)
    expected = (windows == windows.max(2, keepdims=True)) * bar[:, :, None]
    np.testing.assert_allclose(np.asarray(lower(f)(x, bar)), expected.reshape(30, 1000), rtol=1e-6)
    assert count(lower(f), x, bar).arithmetic <= 10 * x.size


@pytest.mark.parametrize("m", [3, 36, 37, 60])
def test_windows_of_any_width_are_taken_apart_or_scattered(m: int) -> None:
    f = adjoint(parse(PROGRAMS["windows of any width"]), wrt="x")
    values = data(f, n=50, m=m)
    assert_alike(lower(f)(**values), evaluate(f, **values))
    assert ("scatter-add" in str(jax.make_jaxpr(lower(f))(*values.values()))) == (m > 36)


def test_the_adjoint_of_windows_that_overlap_neither_sorts_nor_scatters() -> None:
    f = adjoint(parse("f(x: [2*n + 1][n + 2]R) = gen i:n, j:n. max a:3, b:3. x[2*i + a, j + b]"))
    assert not count_of(lower(f), "_add_at", "_add_in_order", "_put_at", "_put_in_order", "_take", "_read")


def test_elements_of_short_index_arrays_are_selected() -> None:
    f = parse("f(x: [n][3]R, y: [n]idx(3)) = gen i:n. x[i, y[i]]^2")
    assert count_of(lower(f), "select") and not count_of(lower(f), "_take", "_read")
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(f(x, np.array([2, 0, 1, 2])), np.array([2.0, 3, 7, 11]) ** 2)


COMPUTED = {
    "pooling of what is computed":
        "f(x: [2*n][2*m]R) = let y = gen i:2*n, j:2*m. relu(x[i, j]) in"
        " sum i:n, j:m. (max a:2, c:2. y[2*i + a, 2*j + c])^2",
    "overlapping pools of what is computed":
        "f(x: [2*n + 1][m + 2]R) = let y = gen i:2*n + 1, j:m + 2. sin(x[i, j]) in"
        " sum i:n, j:m. exp(max a:3, c:3. y[2*i + a, j + c])",
    "greatest of least of a computed array":
        "f(x: [n][m + 1]R, w: [m + 1]R) = let y = gen i:n, j:m + 1. relu(x[i, j] * w[j]) in"
        " [0 < n] * max i:n. (min j:m + 1. y[i, j])^2",
    "windows of greatest of rows":
        "f(x: [n + 1][m + 1]R) = gen i:n. max a:n where i <= a and a <= i + 1. max b:m + 1. x[a, b]",
    "windows of windows":
        "f(x: [n + 4]R) = gen i:n. max a:n + 2 where i <= a and a <= i + 2. min b:3. x[a + b]^2",
    "a sum of windows that move along another axis":
        "f(x: [n][2*n + 1]R) = gen i:n. sum s:n. max a:2. (min b:n where i <= b. x[b, s + a])",
    "what is chosen in a window where either of two":
        "f(x: [n][m + 1]R) = gen i:n. max a:n where a = i or a = 0. max b:m + 1. x[a, b]",
    "at places that data give":
        "f(x: [m][k + 1]R, y: [n]idx(m)) = let t = gen i:n. max j:k + 1. relu(x[y[i], j]) in"
        " gen i:n. min a:n where a <= i. t[a] * t[i]",
    "a choice read in a window":
        "f(x: [n][m + 1]R) = let t = gen i:n, j:m + 1. relu(x[i, j]) in"
        " let c = gen i:n. argmax j:m + 1. t[i, j] in gen i:n. max a:n where a <= i. t[i, c[a]]^2",
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_extrema_of_computed_arrays_and_their_adjoints_are_as_the_evaluator_says(name: str) -> None:
    f = parse(COMPUTED[name])
    g = adjoint(f)
    value, back = lower(f), lower(g)
    for sizes in ({"n": 5, "m": 3, "k": 2}, {"n": 1, "m": 1, "k": 0}, {"n": 0, "m": 2, "k": 1}):
        values = data(g, **sizes)
        given = {p.name: values[p.name] for p in f.params}
        assert_alike(value(**given), evaluate(f, **given))
        assert_alike(back(**values), evaluate(g, **values))


def test_the_adjoint_of_two_dimensional_pooling_works_in_proportion_to_the_elements() -> None:
    f = adjoint(parse(COMPUTED["pooling of what is computed"]))
    work = [count(lower(f), jnp.ones((2 * n, 2 * n)), jnp.ones(())).arithmetic / n**2 for n in (20, 60)]
    assert work[1] <= 1.2 * work[0]


@pytest.mark.parametrize(
    "condition", ["i <= k and 1 <= k", "k <= i and 1 <= k", "i <= k and 2 <= k", "i <= k + 1 and 1 <= k"]
)
def test_running_extrema_of_ranges_that_may_be_empty_are_zero_where_they_are(condition: str) -> None:
    f = parse(f"f(x: [n]R) = gen i:n. [exists k:n. {condition}] * max k:n where {condition}. x[k]")
    for n in (0, 1, 2, 3, 7):
        x, y = np.random.default_rng(n).normal(size=(2, n))
        np.testing.assert_allclose(lower(f)(x), np.reshape(evaluate(f, x), n), rtol=1e-6)
        g = adjoint(f)
        np.testing.assert_allclose(lower(g)(x, y), np.reshape(evaluate(g, x, y), n), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("word, found", [("argmax", np.argmax), ("argmin", np.argmin)])
@pytest.mark.parametrize("few, rest, there, fill", [
    ("i - 2 <= j <= i", "j < i - 2 or i < j", "x[j]", "x[i]"),
    ("i = j", "i != j", "x[j]", "0"),
    ("j < 2", "2 <= j", "x[j]", "x[i]"),
    ("j = i or j = 0", "j != i and j != 0", "x[j] + x[i]", "x[i]"),
])  # fmt: skip
def test_the_first_place_among_exclusive_terms(
    few: str, rest: str, there: str, fill: str, word: str, found: Any
) -> None:
    terms = f"[{few}] * ({there}) + [{rest}] * {fill}"
    f = parse(f"f(x: [n]R) = let k = gen i:n. {word} j:n. {terms} in gen i:n. real(k[i])")
    compared = parse(f"f(x: [n]R) = gen i:n, j:n. {terms}")
    assert not count_of(lower(f), "_first_greatest", "_first_least") or "j < 2" in few
    for n in (1, 2, 3, 5, 9):
        for seed in range(4):  # small integers, for ties
            x = np.random.default_rng(seed).integers(-2, 3, n).astype(float)
            x[0] = np.nan if seed == 3 else x[0]
            np.testing.assert_array_equal(f(x), found(lower(compared)(x), 1))
