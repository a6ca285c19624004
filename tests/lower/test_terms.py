"""Matrices that are sums of such with structure: multiplied by vectors term by term, named or not, forward and
backward, and never held whole."""

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


@pytest.mark.parametrize("case", one_in(5, CASES))
def test_products_with_vectors_are_right(case: str) -> None:
    f = program(case)
    with jax.enable_x64(True):
        for g in (f, tl.adjoint(f)):
            for n in (1, 2, 9):
                given = random_arguments(g, random.Random(n), {"n": n}, exact=False)
                assert close(tl.lower(g)(**given), tl.evaluate(g, **given))


@pytest.mark.parametrize("case", one_in(5, CASES))
def test_no_matrix_is_held_by_what_jax_differentiates(case: str) -> None:
    f = program(case)
    run = tl.to_jax(f)

    def gradient(*given: np.ndarray) -> tuple[jax.Array, ...]:
        return jax.grad(lambda *given: jnp.sum(run(*given)), range(5))(*given)

    done = []
    for n in (1024, 2048, 4096):
        given = blank_arguments(f, {"n": n})
        done.append(work(gradient, *(given[p.name] for p in f.params)).elements)
    assert done[2] - done[1] <= 2.6 * (done[1] - done[0]), done
