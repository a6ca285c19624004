"""Conditions with alternatives of few points each: the code looks only at those points, and its results are right."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.emit.module import Source
from tensorlang.lowering.namespace import defined
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.simplification import other_forms
from tests.support.alternatives import random_alternatives
from tests.support.growing import agrees, derivatives, grows_linearly
from tests.support.programs import blank_arguments
from tests.support.traced import Work, work

NEAR = "i - 2 <= j <= i + 2 or j < 2"
LOGSUMEXP = """let s = gen i:n, j:n. sin(x[i] * y[j]) in let t = gen i:n. max j:n where P. s[i, j] in
    gen i:n. t[i] + log(sum j:n. [P] * exp(s[i, j] - t[i]))"""
PROGRAMS = {
    "products": f"gen i:n. sum j:n. [{NEAR}] * x[i] * y[j]",
    "functions": f"gen i:n. sum j:n. [{NEAR}] * sin(x[i] * y[j])",
    "all pairs": f"sum i:n, j:n. [{NEAR}] * sin(x[i] * y[j])",
    "a row": "gen i:n. sum j:n. [i - 2 <= j <= i + 2 or i = 0] * sin(x[i] * y[j])",
    "columns apart": "gen i:n. sum j:n. [j = 0 or j = 5 or n - 2 <= j] * sin(x[i] * y[j])",
    "a cross": "sum i:n, j:n. [j = 0 or i = 0 or i = j] * sin(x[i] * y[j])",
    "two diagonals": "gen i:n. sum j:n. [i = j or i + j = n - 1] * sin(x[i] * y[j])",
    "blocks side by side": "gen i:n. sum j:n. [j // 4 = i // 4 or j // 4 + 1 = i // 4] * sin(x[i] * y[j])",
    "blocks and columns": "gen i:n. sum j:n. [j // 4 = i // 4 or j < 2] * sin(x[i] * y[j])",
    "an array": f"let b = gen i:n, j:n. [{NEAR}] * sin(x[i] * y[j]) in gen i:n. sum j:n. b[i, j] * y[j]",
    "a sum of readers": f"""let b = gen i:n, j:n. [{NEAR}] * sin(x[i] * y[j]) in
        gen i:n. sum j:n. b[i, j]^2 * y[j] + b[i, j] * exp(b[i, j])""",
    "a function of a sum": """let b = gen i:n, j:n. [i - 2 <= j <= i] * sin(x[i] * y[j]) in
        let c = gen i:n, j:n. [j < 2] * y[j] in gen i:n. sum j:n. sin(b[i, j] + c[j, i]) * y[j]""",
    "what is read of an array": f"""let b = gen i:n, j:n. sin(x[i] * y[j]) in
        gen i:n. sum j:n. [{NEAR}] * b[i, j]""",
    "softmax": """gen i:n. (sum j:n. [i - 2 <= j <= i or j < 2] * exp(x[i] * y[j]) * y[j])
        / (sum j:n. [i - 2 <= j <= i or j < 2] * exp(x[i] * y[j]))""",
    "windows and blocks": "gen i:n. sum j:n. [0 <= i - j < 3 or i // 8 = j // 8] * y[j]",
    "two kinds of blocks": "gen i:n. sum j:n. [j // 4 = i // 4 or j // 3 = i // 3] * sin(x[i] * y[j])",
    "blocks that are not aligned": "gen i:n. sum j:n. [(i + 1) // 4 = j // 4 or i = j] * sin(x[i] * y[j])^2",
    "logsumexp of blocks": LOGSUMEXP.replace("P", "i // 4 = j // 4 or j = 0"),
    "logsumexp of rows": LOGSUMEXP.replace("P", "i = n - 1 or i = j"),
}
ROWS = {
    "diagonals side by side": "i = j or i = j + 1",
    "diagonals and a column": "i = j or i = j + 5 or j = 0",
}
QUICK = ("functions", "a cross", "softmax")


def program(name: str) -> tl.Function:
    return tl.parse(f"f(x: [n]R, y: [n]R) = {PROGRAMS[name]}")


EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS]


@pytest.mark.parametrize("name", EACH)
def test_work_is_in_proportion_to_the_points_of_the_alternatives(name: str) -> None:
    grows_linearly(program(name))


@pytest.mark.parametrize("name", EACH)
def test_alternatives_mean_what_they_say(name: str) -> None:
    agrees(program(name), 0, 1, 2, 7, 13)


@pytest.mark.parametrize("name", ROWS)
def test_diagonals_at_rows_that_data_give_are_looked_at_alone(name: str) -> None:
    f = tl.parse(f"""f(x: [n]R, y: [n]R, t: [n]idx(n)) = let b = gen i:n, j:n. [{ROWS[name]}] * x[i] * y[j] in
        gen i:n. sum j:n. b[t[i], j] * y[j]""")
    grows_linearly(f, derived="column" not in name)  # the cotangent of a column is an array of pairs
    agrees(f, 0, 1, 2, 7)


@pytest.mark.slow
def test_of_the_forms_that_alternatives_have_one_whose_code_grows_least_is_taken() -> None:
    f = tl.parse("""f(x: [n]R, y: [n]R, t: [n]idx(n)) =
        let b = gen i:n, j:n. [i - 1 <= j <= i or j = 0] * sin(x[i] * y[j]) in
        sum i:n, j:n. b[t[i], j] * b[i, j] * x[j]""")
    g = tl.adjoint(f, wrt="x")
    simple = tl.simplify(g)
    together, apart, *others = (works(defined(Source(form)), g) for form in (simple, *other_forms(simple)))
    found = works(tl.lower(g), g)
    assert found in others
    assert found[-1].elements < min(together[-1].elements, apart[-1].elements) / 9


def works(code: Any, f: tl.Function) -> list[Work]:
    """The work of the code of `f`, at three sizes."""
    every = [blank_arguments(f, {"n": n}) for n in (64, 128, 256)]
    return [work(code, *(given[p.name] for p in f.params)) for given in every]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_random_programs_under_alternatives_do_no_more_than_without_cases(seed: int) -> None:
    f = random_alternatives(random.Random(seed))
    if has_recurrences(f):
        return
    for g in derivatives(f):
        apart, whole = (works(code, g)[-1] for code in (tl.lower(g), defined(Source(tl.simplify(g)))))
        assert apart.elements + apart.operations <= 1.1 * (whole.elements + whole.operations), f"{apart}, {whole}\n{g}"


def test_a_window_or_a_few_columns_take_few_elements() -> None:
    f = program("functions")
    for g in derivatives(f):
        assert all(found.elements <= 130 * n for n, found in zip((64, 128, 256), works(tl.lower(g), g), strict=True))


def test_columns_are_stored_as_that_many() -> None:
    for condition, width in {"j < 3": 3, "n - 2 <= j": 2, "2 <= j < 6": 4}.items():
        f = tl.parse(f"""f(x: [n]R, y: [n]R) =
            let b = gen i:n, j:n. [{condition}] * sin(x[i] * y[j]) in gen i:n. sum j:n. b[i, j] * cos(b[i, j])""")
        assert f":{width}" in str(tl.simplify(f))
        assert "j:n" not in str(tl.simplify(f))
        agrees(f, 0, 1, 2, 7)


def test_gradients_under_alternatives_are_those_of_jax() -> None:
    def f(x: jax.Array, y: jax.Array) -> jax.Array:
        i, j = jnp.arange(13)[:, None], jnp.arange(13)[None, :]
        near = (abs(i - j) <= 2) | (j < 2)
        return jnp.sum(jnp.where(near, jnp.sin(x[:, None] * y[None, :]), 0.0))

    x, y = np.random.default_rng(0).normal(size=(2, 13))
    with jax.enable_x64(True):
        found = tl.lower(tl.grad(program("all pairs"), wrt="x"))(x, y)
        np.testing.assert_allclose(found, jax.grad(f)(x, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 40))])
def test_random_programs_under_alternatives_mean_what_they_say(seed: int) -> None:
    f = random_alternatives(random.Random(seed))
    sizes = (1, 2, 7, 13) if "max" in str(f) else (0, 1, 2, 7, 13)
    agrees(f, *sizes)
