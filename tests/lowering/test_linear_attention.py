"""Causal linear attention and similar programs: computed in chunks, forward and backward, with no array of n by n."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tests.support.sampling import one_in
from tests.support.traced import work

PROGRAMS = {
    "attention": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [j <= i] * Q[i, a] * K[j, a] * V[j, b]""",
    "of what came before": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [j < i] * Q[i, a] * K[j, a] * V[j, b]""",
    "of what comes after": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [i <= j] * Q[i, a] * K[j, a] * V[j, b]""",
    "scores that are named": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in gen i:n, b:e. sum j:n. s[i, j] * V[j, b]""",
    "normalised": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in
        let z = gen i:n. 2 + sum j:n. s[i, j] in
        gen i:n, b:e. (sum j:n. s[i, j] * V[j, b]) / (1 + z[i]^2)""",
    "of features": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [j <= i] * exp(Q[i, a]) * exp(K[j, a]) * V[j, b]""",
    "heads": """f(Q: [h][n][d]R, K: [h][n][d]R, V: [h][n][e]R) =
        gen g:h, i:n, b:e. sum a:d, j:n. [j <= i] * Q[g, i, a] * K[g, j, a] * V[g, j, b]""",
    "of one value": """f(Q: [n][d]R, K: [n][d]R, v: [n]R) =
        gen i:n. sum a:d, j:n. [j <= i] * Q[i, a] * K[j, a] * v[j]""",
    "interactions of two features": """f(x: [e][n]R, w: [n][d]R, y: [e]R) =
        sum b:e. ((sum i:n, j:n. [j < i] * (sum a:d. w[i, a] * w[j, a]) * x[b, i] * x[b, j]) - y[b])^2""",
    "of what came long before": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [j + 3 <= i] * Q[i, a] * K[j, a] * V[j, b]""",
    "of what comes next, too": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [j <= i + 1] * Q[i, a] * K[j, a] * V[j, b]""",
    "scores that are named, and weights of rows": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, u: [n]R) =
        let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in
        gen i:n, b:e. sum j:n. s[i, j] * u[j] * V[j, b]""",
    "sums of two triangles' products": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, W: [n][e]R) =
        let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in
        let t = gen i:n, j:n. [j < i] * sum b:e. V[i, b] * W[j, b] in
        gen i:n. sum j:n. s[i, j] * t[i, j]""",
    "gated": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, l: [n]R) =
        let s = gen i:n, j:n. [j <= i] * exp(l[i] - l[j]) * sum a:d. Q[i, a] * K[j, a] in
        gen i:n, b:e. sum j:n. s[i, j] * V[j, b]""",
    "gated, of what came before": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, l: [n]R) =
        gen i:n, b:e. sum a:d, j:n. [j + 3 <= i] * exp(l[i] - l[j]) * Q[i, a] * K[j, a] * V[j, b]""",
    "gated, of what comes after": """f(Q: [n][d]R, K: [n][d]R, v: [n]R, l: [n]R) =
        gen i:n. sum a:d, j:n. [i <= j] * exp(l[i] - l[j]) * Q[i, a] * K[j, a] * v[j]""",
    "gated heads": """f(Q: [h][n][d]R, K: [h][n][d]R, V: [h][n][e]R, l: [h][n]R) =
        gen g:h, i:n, b:e. sum a:d, j:n. [j <= i] * exp(l[g, i] - l[g, j]) * Q[g, i, a] * K[g, j, a] * V[g, j, b]""",
    "values that decay": """f(x: [n][e]R, l: [n]R) = gen i:n, b:e. sum j:n. [j < i] * exp(l[i] - l[j]) * x[j, b]""",
    "an intensity that decays": """f(t: [n]R, m: [n]R) =
        gen i:n. log(9 + (sum j:n. [j < i] * m[j] * exp(t[j] - t[i]))^2)""",
    "scores of words, that are named": """f(W: [w][d]R, K: [n][d]R, V: [n][e]R, u: [w]R, p: [n]idx(w)) =
        let s = gen i:n, j:n. [j < i] * sum a:d. W[p[i], a] * K[j, a] in
        gen i:n, b:e. sum j:n. s[i, j] * V[j, b] * u[p[j]]""",
}

OTHERWISE = {
    "scores that are read": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in
        (gen i:n, b:e. sum j:n. s[i, j] * V[j, b], s)""",
    "scores of which functions are taken": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum j:n. [j <= i] * exp(sum a:d. Q[i, a] * K[j, a]) * V[j, b]""",
    "a weight for each pair": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R, w: [n][n]R) =
        gen i:n, b:e. sum a:d, j:n. [j <= i] * Q[i, a] * K[j, a] * V[j, b] * w[i, j]""",
    "every other row": """f(Q: [n][d]R, K: [n][d]R, V: [n][e]R) =
        gen i:n, b:e. sum a:d, j:n. [2 * j <= i] * Q[i, a] * K[j, a] * V[j, b]""",
}


def arguments(f: tl.Function, n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = {"n": n, "d": 3, "e": 2, "h": 2, "w": 4}
    given = []
    for x in f.params:
        if isinstance(x, IndexArray):
            given.append(rng.integers(0, sizes["w"], size=sizes["n"]))
        else:
            given.append(rng.normal(size=[sizes[part[0]] for part in str(x.type).split("[")[1:]]) / 2)
    return given


def check(f: tl.Function, n: int, **how: Any) -> None:
    given = arguments(f, n)
    with jax.enable_x64(True):
        wanted = tl.evaluate(f, *given)
        compare(tl.lower(f, **how)(*given), wanted)
        rng = np.random.default_rng(1)
        bar = jax.tree.map(lambda y: rng.normal(size=np.shape(y)), wanted)
        g = tl.adjoint(f)
        compare(tl.lower(g, **how)(*given, bar), tl.evaluate(g, *given, bar))


def compare(found: Any, wanted: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERWISE])
def test_values_and_adjoints_are_those_of_the_program(name: str) -> None:
    f = tl.parse({**PROGRAMS, **OTHERWISE}[name])
    check(f, 9)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, pytest.param(150, marks=pytest.mark.slow)])
def test_values_are_right_at_any_number_of_rows(name: str, n: int) -> None:
    f = tl.parse(PROGRAMS[name])
    given = arguments(f, n)
    with jax.enable_x64(True):
        compare(tl.lower(f)(*given), tl.evaluate(f, *given))


def test_several_chunks_with_a_part_of_one_left_give_the_same_as_all_pairs() -> None:
    for name in ("attention", "of what comes after", "of what came before", "heads"):
        f = tl.parse(PROGRAMS[name])
        given = arguments(f, 200)
        with jax.enable_x64(True):
            q, k, v = given
            pairs = np.einsum("...id,...jd->...ij", q, k)
            masks = {"of what comes after": np.triu(pairs), "of what came before": np.tril(pairs, -1)}
            compare(tl.lower(f)(*given), masks.get(name, np.tril(pairs)) @ v)


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_that_are_computed_are_linear_in_the_rows(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    small, large = (elements(f, n) for n in (512, 2048))
    assert large <= 4.2 * small


def elements(f: tl.Function, n: int) -> int:
    given = arguments(f, n)
    bar = jax.eval_shape(tl.lower(f), *given)
    bar = jax.tree.map(lambda y: np.ones(y.shape), bar)
    return work(tl.lower(f), *given).elements + work(tl.lower(tl.adjoint(f)), *given, bar).elements


@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
def test_so_are_those_of_what_jax_differentiates(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    run = tl.to_jax(f)
    of_all = range(len(f.variables))
    found = [
        work(jax.grad(lambda *given: jnp.sum(run(*given)), of_all), *arguments(f, n)).elements for n in (512, 2048)
    ]
    assert found[1] <= 4.2 * found[0]


@pytest.mark.parametrize("spread", [3, 30, 300])
def test_what_decays_overflows_only_where_a_term_of_the_sum_does(spread: int) -> None:
    f = tl.parse(PROGRAMS["gated"])
    q, k, v, _ = arguments(f, 300)
    rng = np.random.default_rng(2)
    falling = -np.cumsum(rng.uniform(0, spread, size=300))
    with jax.enable_x64(True):
        for logs in (falling, falling + rng.normal(size=300) * 60, rng.normal(size=300) * 60):
            pairs = np.einsum("id,jd->ij", q, k) * np.exp(np.tril(logs[:, None] - logs))
            found = tl.lower(f)(q, k, v, logs)
            np.testing.assert_allclose(found, np.tril(pairs) @ v, rtol=1e-9, atol=1e-9 * np.abs(found).max())


def test_what_decays_is_seen_beside_zeros_of_the_greatest_exponential() -> None:
    f = tl.parse("f(x: [n]R, l: [n]R) = gen i:n. sum j:n. [j <= i] * exp(l[i] - l[j]) * x[j]")
    x, logs = np.ones(300, np.float32), np.zeros(300, np.float32)
    x[0], logs[0] = 0, -87.9
    np.testing.assert_allclose(tl.lower(f)(x, logs)[1:], np.arange(1, 300), rtol=1e-6)
    x[0] = 1e-30
    np.testing.assert_allclose(tl.lower(f)(x, logs)[1:], np.arange(1, 300) + np.exp(87.9) * 1e-30, rtol=1e-5)


def test_rows_do_not_see_what_comes_later_in_strict_code() -> None:
    f = tl.parse(PROGRAMS["attention"])
    q, k, v = arguments(f, 130)
    v[100] = np.nan
    found = tl.lower(f, strict=True)(q, k, v)
    assert np.isfinite(found[:100]).all()
    assert np.isnan(found[100:]).all()
    np.testing.assert_allclose(found[:100], (np.tril(q @ k.T) @ np.nan_to_num(v))[:100], rtol=1e-4, atol=1e-4)


def test_derivatives_of_derivatives_are_right() -> None:
    f = tl.parse("""f(Q: [n][d]R, K: [n][d]R, v: [n]R) =
        sum i:n. (sum a:d, j:n. [j <= i] * Q[i, a] * K[j, a] * v[j])^2""")
    check(tl.grad(f, "Q"), 7)
