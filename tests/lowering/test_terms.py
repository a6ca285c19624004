"""Sums of structured matrices: multiplied by vectors term by term, named or not, forward and backward, and never held
whole."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.programs import blank_arguments, random_arguments
from tests.support.promises import close
from tests.support.sampling import one_in
from tests.support.traced import work

PARAMETERS = "t: [2*n]R, u: [n]R, v: [n]R, b: [3][n]R, x: [n]R"
MATRICES = {
    "Toeplitz plus rank one": "t[i - j + n] + u[i] * v[j]",
    "rank two": "u[i] * v[j] + x[i] * u[j]",
    "plus a band": "u[i] * v[j] + [0 <= i - j + 1 < 3] * b[i - j + 1, i]",
    "less a triangle": "u[i] * v[j] - [j <= i] * v[i] * u[j]",
    "all of them": "t[i - j + n] + u[i] * v[j] - [0 <= i - j + 1 < 3] * b[i - j + 1, i] + [i <= j] * u[j]",
}
WAYS = {
    "named": "let A = gen i:n, j:n. {} in gen i:n. sum j:n. A[i, j] * x[j]",
    "in place": "gen i:n. sum j:n. ({}) * x[j]",
    "from the left": "let A = gen i:n, j:n. {} in gen j:n. sum i:n. A[i, j] * x[i]",
}
CASES = [f"{matrix}, {way}" for way in WAYS for matrix in MATRICES]


def program(case: str) -> tl.Function:
    matrix, way = case.split(", ")
    return tl.parse(f"f({PARAMETERS}) = " + WAYS[way].format(MATRICES[matrix]))


TERMS = [
    *("t[i - j + n]", "u[i] * v[j]", "x[j] * u[i]", "v[i]", "t[i + j]", "[i = j] * v[i]"),
    *("[0 <= i - j + 1 < 3] * b[i - j + 1, j]", "0.5 * x[i] * v[j]", "[i + j = n - 1] * x[j]"),
]
READERS = [
    *("gen i:n. sum j:n. A[i, j] * x[j]", "gen j:n. sum i:n. A[i, j] * v[i]", "gen i:n. A[i, i]"),
    *("gen i:n. v[i] * sum j:n. A[i, j] * sin(x[j])", "gen i:n. sum j:n. A[j, i] * x[j]"),
]
TRIANGLE = "[j <= i] * u[i] * x[j]"
OTHERS = ["sum i:n, j:n. u[i] * A[i, j] * x[j]", "gen j:n. sum i:n. A[i, j] * u[i] * v[i]"]
"""Programs some of whose gradients hold matrices, also with this triangle."""


def random_program(rng: random.Random, terms: list[str], readers: list[str]) -> tl.Function:
    """Products of a matrix of some terms with vectors, one or two."""
    matrix = "".join(f" {rng.choice('+-')} {term}" for term in rng.sample(terms, rng.randint(1, 3)))
    read = rng.sample(readers, rng.randint(1, 2))
    results = read[0] if len(read) == 1 else f"({read[0]}, {read[1]})"
    return tl.parse(f"f({PARAMETERS}) = let A = gen i:n, j:n. 0.5 * u[j]{matrix} in {results}")


@pytest.mark.parametrize("seed", one_in(30, range(60)))
def test_random_products_are_right_and_hold_no_matrix(seed: int) -> None:
    f = random_program(random.Random(seed), TERMS, READERS)
    is_right(f)
    holds_no_matrix(f)
    is_right(random_program(random.Random(seed), [*TERMS, TRIANGLE], READERS + OTHERS))


@pytest.mark.parametrize("case", one_in(5, CASES))
def test_products_with_vectors_are_right(case: str) -> None:
    is_right(program(case))


def is_right(f: tl.Function) -> None:
    with jax.enable_x64(True):
        for g in (f, tl.adjoint(f)):
            for n in (1, 2, 9):
                given = random_arguments(g, random.Random(n), {"n": n}, exact=False)
                assert close(tl.lower(g)(**given), tl.evaluate(g, **given))


@pytest.mark.parametrize("case", one_in(5, CASES))
def test_no_matrix_is_held_by_what_jax_differentiates(case: str) -> None:
    holds_no_matrix(program(case))


def holds_no_matrix(f: tl.Function) -> None:
    run = tl.to_jax(f)

    def gradient(*given: np.ndarray) -> tuple[jax.Array, ...]:
        return jax.grad(lambda *given: sum(map(jnp.sum, jax.tree.leaves(run(*given)))), range(5))(*given)

    done = []
    for n in (1024, 2048, 4096):
        given = blank_arguments(f, {"n": n})
        done.append(work(gradient, *(given[p.name] for p in f.params)).elements)
    assert done[2] - done[1] <= 2.6 * (done[1] - done[0]), done
