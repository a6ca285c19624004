"""Tables of all pairs that are read at pairs listed by data: only these pairs are computed, forward and backward."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.listed import IN_STEPS, random_listed
from tests.support.sampling import one_in
from tests.support.traced import work

TABLES = {
    "a function": "let A = gen i:n, j:n. sin(x[i] * y[j]) in gen l:n. A[a[l], b[l]]",
    "two tables": """let A = gen i:n, j:n. sin(x[i] * y[j]) in let B = gen i:n, j:n. A[i, j]^2 + A[i, j] in
        gen l:n. B[a[l], b[l]] * A[a[l], b[l]]""",
    "both ways, and a diagonal": """let A = gen i:n, j:n. x[i] * y[j] in
        gen l:n. A[a[l], b[l]] * A[b[l], a[l]] + A[l, l]""",
    "neighbours": "let A = gen i:n, j:n. 1 / ((x[i] - x[j])^2 + 1) in sum i:n, k:3. A[i, r[i, k]]^2",
    "other neighbours": """let A = gen i:n, j:n. 1 / ((x[i] - x[j])^2 + [i != j]) in
        sum i:n, k:3. [r[i, k] != i] * A[i, r[i, k]]""",
    "a condition": """let A = gen i:n, j:n. x[i] - y[j] in
        sum l:n. (if A[a[l], b[l]] > 0 then A[a[l], b[l]]^2 else exp(A[b[l], a[l]]))""",
    "greatest values of two": "let A = gen i:n, j:n. max(x[i], y[j]) in sum l:n. A[a[l], b[l]]^2",
    "sums": "let A = gen i:n, j:n. sum k:3. sin(x[i] + y[j]) in gen l:n. exp(0.1 * A[a[l], b[l]])",
    "one list after the other": "let A = gen i:n, j:n. sin(x[i] * y[j]) in gen l:n. A[a[b[l]], r[l, 1]]",
    "greatest values in windows": """let m = gen i:n, k:n. max j:n where a[i] - 2 <= j <= a[i]. x[k] * y[j] in
        gen i:n. sum k:n. [b[i] - 1 <= k <= b[i]] * m[i, k]""",
}
PARAMETERS = "x: [n]R, y: [n]R, a: [n]idx(n), b: [n]idx(n), r: [n][3]idx(n)"


@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_tables_are_computed_where_they_are_read(name: str) -> None:
    grows_linearly(tl.parse(f"f({PARAMETERS}) = {TABLES[name]}"))


@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_they_mean_what_they_say_wherever_pairs_are_listed_twice(name: str) -> None:
    agrees(tl.parse(f"f({PARAMETERS}) = {TABLES[name]}"), *((2, 7) if "r[" in TABLES[name] else (1, 2, 7)))


def test_random_tables_mean_what_they_say_and_grow_with_their_lists() -> None:
    check(random_listed(random.Random(1)))


@pytest.mark.slow
@pytest.mark.seeds(2, 120)
def test_more_random_tables_mean_what_they_say_and_grow_with_their_lists(seed: int) -> None:
    check(random_listed(random.Random(seed)))


def check(f: tl.Function) -> None:
    agrees(f, 1, 2, 3, 7)
    grows_linearly(f)


@pytest.mark.slow
@pytest.mark.seeds(0, 24)
def test_what_steps_read_of_tables_is_right(seed: int) -> None:
    agrees(random_listed(random.Random(seed), IN_STEPS), 1, 3)


def test_lists_of_any_length_are_followed() -> None:
    f = tl.parse("""f(x: [n]R, y: [m]R, a: [q]idx(n), b: [q]idx(m)) =
      let A = gen i:n, j:m. exp(x[i] - y[j]) in sum l:q. A[a[l], b[l]]^2""")
    rng = np.random.default_rng(0)
    for g in (f, tl.adjoint(f)):
        done = []
        for n in (64, 128):
            given = [rng.normal(size=n), rng.normal(size=n + 1), rng.integers(0, n, 3 * n), rng.integers(0, n, 3 * n)]
            done.append(work(tl.lower(g), *given, *([1.0] if g is not f else [])).elements)
        assert done[1] <= 2.2 * done[0]


def test_what_all_pairs_are_needed_for_is_computed_for_all_pairs() -> None:
    f = tl.parse("""f(x: [n]R, y: [n]R, a: [n]idx(n), b: [n]idx(n)) =
      let A = gen i:n, j:n. exp(x[i] - y[j]) in let z = gen i:n. sum j:n. A[i, j] in
      gen l:n. A[a[l], b[l]] / z[a[l]]""")
    assert "let A = gen i:n, j:n." in str(tl.simplify(f))
    assert "A" in {x.name for x in tl.lower(f).plan.variables()}
    agrees(f, 1, 2, 7)


@pytest.mark.slow
def test_gradients_are_those_of_jax() -> None:
    def f(x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        d = jnp.sum((x[:, None] - x) ** 2, -1)
        return jnp.sum(jnp.exp(-d[a, b]))

    h = tl.to_jax(
        tl.parse("""f(x: [n][3]R, a: [q]idx(n), b: [q]idx(n)) =
      let d = gen i:n, j:n. sum c:3. (x[i, c] - x[j, c])^2 in sum l:q. exp(-d[a[l], b[l]])""")
    )
    rng = np.random.default_rng(0)
    x, a, b = rng.normal(size=(9, 3)), rng.integers(0, 9, 30), rng.integers(0, 9, 30)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.grad(h)(x, a, b), jax.grad(f)(x, a, b), rtol=1e-9, atol=1e-9)
        again = jax.grad(lambda x: jnp.sum(jax.grad(h)(x, a, b) ** 2))
        wanted = jax.grad(lambda x: jnp.sum(jax.grad(f)(x, a, b) ** 2))
        np.testing.assert_allclose(again(x), wanted(x), rtol=1e-9, atol=1e-9)
        several = jnp.stack([x, 2 * x])
        found = jax.vmap(jax.grad(h), (0, None, None))(several, a, b)
        np.testing.assert_allclose(found, [jax.grad(f)(z, a, b) for z in several], rtol=1e-9, atol=1e-9)
