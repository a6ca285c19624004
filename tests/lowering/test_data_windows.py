"""Sums between bounds from data run in linear time, forward and backward, and mean what they say."""

from __future__ import annotations

import random
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.sampling import one_in
from tests.support.traced import work
from tests.support.windows import random_windows

WINDOWS = {
    "from a to b": "f(x: [n]R, a: [q]idx(n), b: [q]idx(n + 1)) = gen i:q. sum j:n. [a[i] <= j < b[i]] * x[j]",
    "up to b": "f(x: [n]R, b: [q]idx(n + 1)) = gen i:q. sum j:n. [j < b[i]] * x[j]",
    "from a on": "f(x: [n]R, a: [q]idx(n)) = gen i:q. sum j:n. [a[i] <= j] * x[j]",
    "of one width": "f(x: [n]R, a: [q]idx(n)) = gen i:q. sum j:n. [a[i] - 3 <= j <= a[i] + 2] * x[j]",
    "of rows": "f(x: [n][d]R, a: [q]idx(n), b: [q]idx(n + 1)) = gen i:q, c:d. sum j:n. [a[i] <= j < b[i]] * x[j, c]",
    "with factors": """f(x: [n]R, w: [n]R, a: [q]idx(n), b: [q]idx(n + 1)) =
        gen i:q. w[a[i]] * sum j:n. [a[i] <= j < b[i]] * x[j] * w[j]""",
    "from a fixed place": "f(x: [n]R, b: [q]idx(n + 1)) = gen i:q. sum j:n. [2 <= j < b[i]] * x[j]",
    "of squares": "f(x: [n]R, a: [q]idx(n), b: [q]idx(n + 1)) = sum i:q. (sum j:n. [a[i] <= j < b[i]] * x[j]^2)^2",
    "of variances": """f(x: [n]R, a: [q]idx(n), b: [q]idx(n + 1)) =
        let m = gen i:q. sum j:n. [a[i] <= j < b[i]] * x[j] in
        gen i:q. (sum j:n. [a[i] <= j < b[i]] * x[j]^2) - m[i]^2""",
}


def arguments(f: tl.Function, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    n, q, d = sizes["n"], sizes["q"], sizes["d"]
    given = {
        "x": rng.normal(size=(n, d) if "x: [n][d]R" in str(f) else n),
        "w": rng.normal(size=n),
        "a": rng.integers(0, max(n, 1), q) if n else np.zeros(0, int),
        "b": rng.integers(0, n + 1, q) if n else np.zeros(0, int),
    }
    return {p.name: given[p.name] for p in f.params}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(
    ("n", "q"), [(40, 90), (5, 0), *(pytest.param(n, q, marks=pytest.mark.slow) for n, q in ((1, 1), (7, 5), (0, 0)))]
)
def test_bounds_from_data_mean_what_they_say(name: str, n: int, q: int) -> None:
    f = tl.parse(WINDOWS[name])
    given = arguments(f, {"n": n, "q": q, "d": 3}, seed=n)
    with jax.enable_x64(True):
        found, wanted = tl.lower(f)(**given), tl.evaluate(f, **given)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
        bar = np.random.default_rng(1).normal(size=np.shape(wanted))
        g = tl.adjoint(f)
        values = [*given.values(), bar]
        for a, b in zip(jax.tree.leaves(tl.lower(g)(*values)), jax.tree.leaves(tl.evaluate(g, *values)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", WINDOWS)
def test_elements_that_are_computed_are_linear_in_values_and_windows(name: str) -> None:
    f = tl.parse(WINDOWS[name])
    small, large = (elements(f, n) for n in (200, 800))
    assert large <= 4.6 * small


def elements(f: tl.Function, n: int) -> int:
    """The number of elements that the program and its adjoint compute in all their steps."""
    given = list(arguments(f, {"n": n, "q": 2 * n, "d": 4}, seed=0).values())
    bar = tl.evaluate(f, *given)
    return work(tl.lower(f), *given).elements + work(tl.lower(tl.adjoint(f)), *given, bar).elements


def test_windows_that_end_before_they_start_are_empty() -> None:
    f = tl.parse(WINDOWS["from a to b"])
    x, a, b = np.arange(1.0, 6.0), np.array([3, 2, 4]), np.array([1, 2, 5])
    np.testing.assert_array_equal(tl.lower(f)(x, a, b), [0, 0, 5])


def test_hidden_nan_stay_hidden_in_strict_code() -> None:
    f = tl.parse(WINDOWS["from a to b"])
    x = np.array([np.nan, 1.0, 2.0, np.inf, 5.0])
    a, b = np.array([1, 4, 0]), np.array([3, 5, 1])
    found = tl.lower(f, strict=True)(x, a, b)
    np.testing.assert_array_equal(found, [3, 5, np.nan])


def test_where_no_window_is_the_gradient_is_exactly_zero() -> None:
    f = tl.parse(WINDOWS["with factors"])
    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.normal(size=50), jnp.float32) for _ in range(2))
    a, b = np.array([3, 20]), np.array([8, 31])
    x_bar, _ = tl.lower(tl.adjoint(f))(x, w, a, b, jnp.ones(2, jnp.float32))
    outside = np.ones(50, bool)
    outside[3:8] = outside[20:31] = False
    assert not np.asarray(x_bar)[outside].any()


@pytest.mark.parametrize("over", ["gen q:n. sum k:n.", "sum q:n, k:n."])
def test_elements_of_two_index_arrays_that_are_near_each_other_find_each_other(over: str) -> None:
    f = tl.parse(f"f(x: [n]R, a: [n]idx(n), b: [n]idx(n)) = {over} [0 <= a[q] - b[k] <= 1] * x[a[q]] * x[b[k]]")
    agrees(f, 1, 2, 3, 7)
    grows_linearly(f)


IMAGES = {
    "a convolution that is pooled": """f(x: [2*n][2*n]R, w: [3][3]R) = sum i:n, j:n. max a:2, b:2. sum p:3, q:3.
        [0 <= 2*i + a + p - 1 < 2*n and 0 <= 2*j + b + q - 1 < 2*n] * x[2*i + a + p - 1, 2*j + b + q - 1] * w[p, q]""",
    "a convolution, rectified and pooled": """f(x: [2*n][2*n]R, w: [3][3]R) =
        let h = gen i:2*n, j:2*n. relu(sum p:3, q:3. [0 <= i + p - 1 < 2*n and 0 <= j + q - 1 < 2*n] *
        x[i + p - 1, j + q - 1] * w[p, q]) in
        sum i:n, j:n. (max a:2, b:2. h[2*i + a, 2*j + b])^2""",
    "a convolution of an image of twice the size": """f(x: [n][n]R, w: [3][3]R, y: [2*n][2*n]R) = sum i:2*n, j:2*n.
        ((sum p:3, q:3. [0 <= i + p - 1 < 2*n and 0 <= j + q - 1 < 2*n] *
        x[(i + p - 1)//2, (j + q - 1)//2] * w[p, q]) - y[i, j])^2""",
    "overlapping pools": """f(x: [2*n + 1][2*n + 1]R, w: [3][3]R) = sum i:n, j:n. max p:3, q:3.
        x[2*i + p, 2*j + q] * w[p, q]""",
    "filters put at places": """f(w: [3][2]R, a: [n][n]idx(n), b: [n][n]idx(n)) = gen i:n, j:n. sum k:n, l:n.
        [0 <= i - a[k, l] < 3 and 0 <= j - b[k, l] < 2] * w[i - a[k, l], j - b[k, l]]""",
    "patches": """f(x: [n][n]R, w: [3][3]R, a: [n]idx(n), b: [n]idx(n)) = gen k:n. sum i:n, j:n.
        [0 <= i - a[k] < 3 and -1 <= j - b[k] < 2] * sin(x[i, j] * w[i - a[k], j - b[k] + 1])""",
    "patches of three axes": """f(x: [n][n][4]R, w: [2][2][2]R, a: [n]idx(n), b: [n]idx(n), c: [n]idx(4)) =
        sum k:n, i:n, j:n, l:4. [0 <= i - a[k] < 2 and 0 <= j - b[k] < 2 and 0 <= l - c[k] < 2] *
        x[i, j, l] * w[i - a[k], j - b[k], l - c[k]]""",
}


@pytest.mark.parametrize("name", one_in(3, IMAGES))
def test_windows_that_data_choose_may_have_several_axes(name: str) -> None:
    f = tl.parse(IMAGES[name])
    agrees(f, 1, 2, 3)
    grows_linearly(f, least=16, power=2)


@pytest.mark.parametrize("name", [name for name in IMAGES if "convolution" in name])
def test_the_cost_of_convolutions_is_known_to_be_that_of_the_image(name: str) -> None:
    told = str(tl.lower(tl.adjoint(tl.parse(IMAGES[name]))).explain())
    (operations,) = re.findall("all of it takes (.*) operations", told)
    assert "n^2" in operations and "n^3" not in operations and "n^4" not in operations


@pytest.mark.slow
def test_layers_of_convolutions_and_pools_ask_no_data_where_there_is_something() -> None:
    layer = """gen i:{m}, j:{m}. max a:2, b:2. {h}[2*i + a, 2*j + b]"""
    rectified = """gen i:2*{m}, j:2*{m}. relu(sum p:3, q:3. [0 <= i + p - 1 < 2*{m} and 0 <= j + q - 1 < 2*{m}] *
        {x}[i + p - 1, j + q - 1] * {w}[p, q])"""
    f = tl.parse(f"""f(x: [4*n][4*n]R, v: [3][3]R, w: [3][3]R) =
        let h = {rectified.format(m="(2*n)", x="x", w="v")} in
        let y = {layer.format(m="2*n", h="h")} in
        let g = {rectified.format(m="n", x="y", w="w")} in
        let z = {layer.format(m="n", h="g")} in
        sum i:n, j:n. z[i, j]^2""")
    agrees(f, 1, 2)
    made = tl.lower(tl.adjoint(f))
    assert "exists" in str(tl.adjoint(f)) and "exists" not in str(made.plan)
    (operations,) = re.findall("all of it takes (.*) operations", str(made.explain()))
    assert "n^2" in operations and "n^3" not in operations


AT_DATA = {
    "a function of both": "sum i:n, j:n. [t[i] - 3 <= j <= t[i]] * sin(x[t[i]] + y[j])",
    "by columns": "gen j:n. sum i:n. [t[i] - 3 <= j <= t[i]] * cos(x[t[i]] + y[j]) * y[i]",
    "an array": """let b = gen i:n, j:n. [t[i] - 3 <= j <= t[i] + 2] * sin(x[i] * y[j]) in
        gen i:n. sum j:n. b[i, j] * b[i, j] * y[j]""",
    "its columns": """let b = gen i:n, j:n. [t[i] - 3 <= j <= t[i] + 2] * sin(x[i] * y[j]) in
        gen i:n. sum j:n. b[j, i] * y[j]""",
    "its rows at data": """let b = gen i:n, j:n. [t[i] - 3 <= j <= t[i] + 2] * sin(x[i] * y[j]) in
        gen i:n. sum j:n. b[s[i], j] * y[j]""",
    "between differences": "gen i:n. sum j:n. [t[i] - s[i] <= j <= t[i] - s[i] + 2] * sin(x[i] * y[j])",
    "multiples": "gen i:n. sum j:n. [2*i - 3 <= j <= 2*i + 2] * sin(x[i] * y[j])",
    "a softmax": """let m = gen i:n. max j:n where t[i] - 3 <= j <= t[i]. x[i] * y[j] in
        let e = gen i:n, j:n. [t[i] - 3 <= j <= t[i]] * exp(x[i] * y[j] - m[i]) in
        gen i:n. (sum j:n. e[i, j] * y[j]) / (sum j:n. e[i, j])""",
    "a condition": "gen i:n. sum j:n. [t[i] - 2 <= j <= t[i] and x[i] > y[j]] * sin(x[i] * y[j])",
    "a rectified array": """let b = gen i:n, j:n. [t[i] - 2 <= j <= t[i]] * x[i] * y[j] in
        gen i:n. sum j:n. (if b[i, j] > 0 then b[i, j] else 0) * y[j]""",
    "a mask that comes last": """let b = gen i:n, j:n. x[i] * y[j] in
        gen i:n. sum j:n. [t[i] - 2 <= j <= t[i]] * (if b[i, j] > 0 then sin(b[i, j]) else y[j])""",
    "greatest values at each": "gen i:n. sum j:n. [i - 1 <= j <= i + 1] * max k:n where k < 3. x[k] * y[i] * y[j]",
    "greatest values near each": """gen i:n. sum j:n. [i - 1 <= j <= i + 1] *
        max k:n where j <= k <= j + 1. sin(x[k] * y[i] * y[j])""",
    "greatest values added up": """gen k:n. sum i:n. [s[k] - 1 <= i <= s[k]] *
        max j:n where t[i] - 2 <= j <= t[i]. x[i] * y[j]""",
    "greatest of the greatest": """let b = gen i:n, j:n. [t[i] - 2 <= j <= t[i]] * sin(x[i] * y[j]) in
        gen k:n. max i:n where s[k] - 1 <= i <= s[k]. max j:n where t[i] - 2 <= j <= t[i]. b[i, j]""",
    "a function of a sum": """let b = gen i:n, j:n. [t[i] - 2 <= j <= t[i]] * x[i] * y[j] in
        let c = gen i:n, j:n. [s[i] - 2 <= j <= s[i]] * x[j] in gen i:n. sum j:n. sin(b[i, j] + c[i, j]) * y[j]""",
    "a band": """let b = gen i:n, j:n. [i - 1 <= j <= i + 1] * (x[i] * y[j]) in
        gen i:n. sum j:n. sin(b[t[i], j]) * y[j]""",
}


def at_data(name: str) -> tl.Function:
    return tl.parse(f"f(x: [n]R, y: [n]R, t: [n]idx(n), s: [n]idx(n)) = {AT_DATA[name]}")


@pytest.mark.parametrize("name", one_in(3, AT_DATA))
def test_functions_in_windows_at_data_grow_with_n(name: str) -> None:
    grows_linearly(at_data(name))


@pytest.mark.parametrize("name", one_in(3, AT_DATA))
def test_functions_in_windows_at_data_mean_what_they_say(name: str) -> None:
    agrees(at_data(name), *((1, 2, 7) if "max" in AT_DATA[name] else (0, 1, 2, 7)))


def test_gradients_in_windows_at_data_are_those_of_jax() -> None:
    def f(x: jax.Array, y: jax.Array, t: jax.Array) -> jax.Array:
        j = jnp.arange(11)
        near = (t[:, None] - 3 <= j) & (j <= t[:, None])
        return jnp.sum(jnp.where(near, jnp.sin(x[t][:, None] + y), 0.0))

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 11))
    t = rng.integers(0, 11, 11)
    with jax.enable_x64(True):
        h = tl.to_jax(at_data("a function of both"))
        found = jax.grad(h, argnums=(0, 1))(x, y, t, t)
        for a, b in zip(found, jax.grad(f, argnums=(0, 1))(x, y, t), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_windows_at_data_are_stored_as_wide_as_they_are() -> None:
    f = tl.simplify(tl.adjoint(at_data("a function of both")))
    assert "gen i:n, j:4." in str(f)
    assert "j:n." not in str(f).replace("sum j:n.", "")


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 60))])
def test_random_programs_in_windows_mean_what_they_say(seed: int) -> None:
    f = random_windows(random.Random(seed))
    agrees(f, *((1, 2, 7) if "max" in str(f) else (0, 1, 2, 7)))
