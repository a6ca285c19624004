"""The evaluations of GradBench, ours and JAX's: the same answers at small sizes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from benchmarks.gradbench import EVALUATIONS, Evaluation, leaves
from benchmarks.reference import distance

SMALL = {
    "gmm": {"n": 7, "d": 3, "K": 4},
    "ba": {"n": 3, "m": 5, "p": 9},
    "kmeans": {"n": 30, "d": 3, "K": 4},
    "lse": {"n": 11},
    "llsq": {"n": 20, "m": 5},
    "ode": {"n": 4, "s": 6},
    "lstm": {"T": 5, "d": 3},
    "det": {"n": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("evaluation", EVALUATIONS, ids=lambda e: e.name)
def test_both_implementations_give_the_same(evaluation: Evaluation) -> None:
    given = [jnp.asarray(x) for x in evaluation.arguments(**SMALL[evaluation.name])]
    found = leaves(jax.jit(evaluation.ours())(*given))
    assert distance(found, leaves(jax.jit(evaluation.jax)(*given))) < 1e-3
