"""Terms that are never nonzero at the same place: selected, not added up."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import benchmarks.through_time as benchmark
import tensorlang as tl
from tensorlang.measure.count import count
from tests.lowering.test_in_step import given
from tests.support.growing import agrees

APART = {
    "at a place and elsewhere": "gen i:n. [i = t] * x[t, i] + [i != t] * s[i]",
    "on both sides of a place, and there": "gen i:n. [i < t] * s[i] + [t < i] * x[t, i] + [i = t] * y[t]",
    "at two places and elsewhere": "gen i:n. ([i != t and i != t + 1] * s[i] + [i = t] * x[t, i]) + [i = t + 1] * y[t]",
}
"""Programs in which nothing is added."""
TOGETHER = {
    "that meet": "gen i:n. [i <= t] * x[t, i] + [t <= i] * s[i]",
    "of which one is subtracted": "gen i:n. [i <= t] * s[i] - [t < i] * x[t, i]",
}
"""Programs with one operation for each element."""


@pytest.mark.parametrize("name", {**APART, **TOGETHER})
def test_terms_are_added_where_they_may_meet_alone(name: str) -> None:
    step = {**APART, **TOGETHER}[name]
    f = tl.parse(f"f(x: [T][n]R, y: [T]R, z: [n]R) = fold t:T with s = z. {step}")
    run = tl.lower(f)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 1), (3, 3), (5, 2), (2, 5)):
            x = given(f, {"T": steps, "n": n})
            np.testing.assert_allclose(run(*x), tl.evaluate(f, *x), rtol=1e-12)
    x = given(f, {"T": 7, "n": 100})
    added = 700 if name in TOGETHER else 0
    assert added <= count(run, *x).operations < added + 100


@pytest.mark.parametrize(
    "body",
    [
        "gen i:n. [i = 0] * 3 + [i + 1 = n and 0 < i] * y[i] + [0 < i < n - 1] * x[i]",
        "gen i:n. [i = 0] * sin(y[0]) + [i + 1 = n and 0 < i] * y[i]",
        "gen i:n, j:n. ([3 <= i and i = j] * y[i] + [i + 1 = j] * 2) + [i = j and i < 3] * (x[i] + y[j])",
        "fold t:n with s = y. gen i:n. [i = t and 2 <= t] * x[t] + [i != t] * s[i] + [i = t and t < 2] * y[i]",
    ],
)
def test_a_term_is_selected_where_its_whole_condition_holds(body: str) -> None:
    agrees(tl.parse(f"f(x: [n]R, y: [n]R) = {body}"), 1, 2, 3, 4, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Cholesky", "triangular solve"])
def test_a_gradient_of_an_elimination_takes_no_more_operations_than_that_of_jax(name: str) -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == name)
    f = tl.parse(program.text)
    x = benchmark.arguments(f, {"T": 64})
    theirs = jax.jit(jax.grad(program.jax, tuple(range(len(x)))))
    assert count(tl.lower(tl.grad(f)), *x).operations <= count(theirs, *x).operations
