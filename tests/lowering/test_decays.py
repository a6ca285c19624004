"""Sums over earlier rows with decays or differences between the rows: in chunks, forward and backward."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tests.lowering.test_linear_attention import compare
from tests.support.sampling import one_in
from tests.support.traced import work

PROGRAMS = {
    "an intensity": """f(t: [n]R, m: [n]R, b: R) =
        sum i:n. log(9 + (sum j:n. [j < i] * m[j] * b * exp(-b * (t[i] - t[j])))^2)""",
    "of a time scale": "f(t: [n]R, s: R) = gen i:n. sum j:n. [j < i] * exp((t[j] - t[i]) / (1 + s^2))",
    "several kernels": """f(t: [n]R, m: [h]R, b: [h]R) =
        sum i:n. sin(sum j:n, k:h. [j < i] * m[k] * exp(-b[k] * (t[i] - t[j])))""",
    "powers": "f(x: [n]R, g: R) = gen i:n. sum j:n. [j <= i] * power(g, real(i - j)) * x[j]",
    "returns": "f(x: [n]R, g: R) = gen i:n. sum j:n. [i <= j] * power(g, real(j - i)) * x[j]",
    "retention": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, g: [h]R) =
        gen c:h, i:n, b:e. sum a:d, j:n. [j <= i] * exp(-g[c] * real(i - j)) * Q[i, a] * K[j, a] * V[j, b]""",
    "for each feature": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, l: [n][d]R) =
        gen i:n, b:e. sum a:d, j:n. [j <= i] * exp(l[i, a] - l[j, a]) * Q[i, a] * K[j, a] * V[j, b]""",
    "shared by heads": """f(Q: [n][d]R, K: [n][d]R, V: [h][n][e]R, l: [h][n]R) =
        gen c:h, i:n, b:e. sum a:d, j:n. [j <= i] * exp(l[c, i] - l[c, j]) * Q[i, a] * K[j, a] * V[c, j, b]""",
    "two at once": """f(x: [n]R, l: [n]R, k: [n]R) =
        gen i:n. sum j:n. [j <= i] * exp(l[i] - l[j]) * exp(k[i] - k[j]) * x[j]""",
    "of many columns": """f(x: [n][d][e]R, l: [n]R) =
        gen i:n, a:d, b:e. sum j:n. [j <= i] * exp(l[i] - l[j]) * x[j, a, b]""",
    "of some rows": "f(x: [n]R, l: [n]R) = gen i:n. [2 <= i] * sum j:n. [j <= i and 1 <= j] * exp(l[i] - l[j]) * x[j]",
    "read at data": """f(x: [n]R, l: [n]R, p: [n]idx(n)) =
        let y = gen i:n. sum j:n. [j <= i] * exp(l[i] - l[j]) * x[j] in sum k:n. y[p[k]]^2""",
    "greatest": "f(x: [n]R, l: [n]R) = max i:n. sum j:n. [j <= i] * exp(l[i] - l[j]) * x[j]",
    "running softmax": """f(x: [n]R, l: [n]R) = let m = gen i:n. max j:n where j <= i. l[j] in
        gen i:n. (sum j:n. [j <= i] * exp(l[j] - m[i]) * x[j]) / (sum j:n. [j <= i] * exp(l[j] - m[i]))""",
    "weighed differences": """f(x: [n]R, l: [n]R, y: [n]R) =
        gen i:n. sum j:n. [j <= i] * exp(l[i] - l[j]) * (y[i] - y[j])^2 * x[j]""",
    "squares of differences": "f(x: [n]R) = gen i:n. sum j:n. [j <= i] * (x[i] - x[j])^2",
}


def arguments(f: tl.Function, n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = {"n": n, "d": 3, "e": 2, "h": 2}
    given = []
    for x in f.params:
        if isinstance(x, IndexArray):
            given.append(rng.integers(0, n, size=n))
            continue
        shape = [sizes[part[0]] for part in str(x.type).split("[")[1:]]
        if x.name in ("t", "g", "b"):  # times and their factors
            given.append(np.cumsum(rng.uniform(0, 1, size=shape)) if x.name == "t" else rng.uniform(0.1, 1, size=shape))
        else:
            given.append(rng.normal(size=shape) / 2)
    return given


def check(f: tl.Function, n: int) -> None:
    given = arguments(f, n)
    with jax.enable_x64(True):
        wanted = tl.evaluate(f, *given)
        compare(tl.lower(f)(*given), wanted)
        bar = jax.tree.map(lambda y: np.random.default_rng(1).normal(size=np.shape(y)), wanted)
        g = tl.adjoint(f)
        compare(tl.lower(g)(*given, bar), tl.evaluate(g, *given, bar))


def grows(f: tl.Function) -> float:
    """The factor by which the elements of the value and the adjoint grow at 4 times the rows."""
    found = []
    for n in (512, 2048):
        given = arguments(f, n)
        bar = jax.tree.map(lambda y: np.ones(y.shape), jax.eval_shape(tl.lower(f), *given))
        found.append(work(tl.lower(f), *given).elements + work(tl.lower(tl.adjoint(f)), *given, bar).elements)
    return found[1] / found[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_adjoints_are_right_and_take_work_in_proportion_to_the_rows(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    check(f, 9)
    assert grows(f) <= 4.2


@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
@pytest.mark.parametrize("n", [1, 2, pytest.param(150, marks=pytest.mark.slow)])
def test_so_they_are_at_any_number_of_rows(name: str, n: int) -> None:
    check(tl.parse(PROGRAMS[name]), n)


def random_program(seed: int) -> str:
    """Sums in some order of products of decays, differences, and elements of the row and of the summed rows."""
    r = random.Random(seed)
    after = r.random() < 0.4
    early, late = ("i", "j") if after else ("j", "i")
    order = r.choice([f"{early} <= {late}", f"{early} < {late}", f"{early} + 2 <= {late}"])
    if r.random() < 0.3:
        order += r.choice([" and 1 <= j", " and 2 <= i", " and j + 1 < n"])
    decays = r.sample(
        [
            f"exp(-b * (t[{late}] - t[{early}]))",
            f"exp((t[{early}] - t[{late}]) / (1 + b))",
            f"power(g, real({late} - {early}))",
            f"exp(-b * real({late} - {early}))",
            f"exp(l[{late}] - l[{early}])",
            f"exp(l[{late}] - l[{early}] - y[j])",
            f"exp(y[{late}] - x[{early}])",
        ],
        r.choice([1, 1, 2]),
    )
    beside = r.sample(["(y[i] - y[j])", "(t[i] - t[j])", "x[j]", "y[i]", "x[j]^2", "sin(y[j])"], r.choice([0, 1, 2]))
    inner = r.random() < 0.4
    pairs = ["w[i, a] * w[j, a]"] if inner else []
    column = r.random() < 0.3
    columns = ["w[j, c]"] if column else []
    product = " * ".join([*decays, *beside, *pairs, *columns])
    total = f"sum j:n{', a:d' if inner else ''}. [{order}] * {product}"
    of = r.choice(["{}", "tanh({})", "y[i] * ({})", "({})^2"]).format(f"({total})")
    head = "x: [n]R, y: [n]R, l: [n]R, t: [n]R, w: [n][d]R, b: R, g: R"
    return f"f({head}) = {r.choice(['sum', 'gen'])} i:n{', c:d' if column else ''}. {of}"


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 60))])
def test_random_sums_of_what_decays(seed: int) -> None:
    f = tl.parse(random_program(seed))
    for n in (1, 8):
        check(f, n)
    assert grows(f) <= 4.2, random_program(seed)


def test_late_times_lose_nothing_in_single_precision() -> None:
    f = tl.parse("f(t: [n]R, b: R) = gen i:n. sum j:n. [j < i] * exp(-b * (t[i] - t[j]))")
    times = np.cumsum(np.random.default_rng(0).integers(1, 16, size=500)) / 16 + 2**18
    with jax.enable_x64(True):
        apart = np.where(np.tri(500, k=-1), times[:, None] - times, np.inf)
        by_b = -np.where(apart < np.inf, apart, 0) * np.exp(-apart)
    given = jnp.asarray(times, jnp.float32), jnp.float32(1)
    np.testing.assert_allclose(tl.lower(f)(*given), np.exp(-apart).sum(1), rtol=2e-6, atol=1e-6)
    found = tl.lower(tl.adjoint(f, "b"))(*given, np.ones(500, np.float32))
    np.testing.assert_allclose(found, by_b.sum(), rtol=2e-6)


@pytest.mark.parametrize("g", [-0.7, 0.0, 0.9, 1.01])
def test_powers_of_distances_are_those_of_any_base(g: float) -> None:
    f = tl.parse(PROGRAMS["powers"])
    x = np.random.default_rng(0).normal(size=300)
    apart = np.arange(300)[:, None] - np.arange(300)
    with jax.enable_x64(True):
        wanted = np.where(apart >= 0, np.power(g, np.maximum(apart, 0)), 0) @ x
        np.testing.assert_allclose(tl.lower(f)(x, g), wanted, rtol=1e-9, atol=1e-9)


def test_rows_do_not_see_what_comes_later_in_strict_code() -> None:
    f = tl.parse(PROGRAMS["two at once"])
    x = np.ones(200)
    x[150] = np.nan
    found = tl.lower(f, strict=True)(x, np.zeros(200), np.zeros(200))
    np.testing.assert_allclose(found[:150], np.arange(1, 151))
    assert np.isnan(found[150:]).all()


def test_derivatives_of_derivatives_are_right_and_linear() -> None:
    f = tl.grad(tl.parse(PROGRAMS["an intensity"]), "b")
    check(f, 7)
    assert grows(f) <= 4.2
