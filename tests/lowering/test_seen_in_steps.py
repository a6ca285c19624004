"""Arrays that are computed before a recurrence: only the parts that its steps read are computed."""

from __future__ import annotations

import random

import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.sampling import one_in

STEPS = {
    "a band": "0.1 * sum j:n. [i - 1 <= j <= i + 1] * b[i, j] * h[j]",
    "columns": "0.1 * sum j:n. [j < 2] * b[i, j] * h[j]",
    "a diagonal": "0.1 * b[i, i] * sin(h[i])",
    "two diagonals": "0.1 * b[i, i] * sin(h[i]) + sum j:n. [j = i + 1] * b[i, j] * h[j]",
    "windows at data": "0.1 * sum j:n. [t[i] - 1 <= j <= t[i]] * b[i, j] * sin(h[j])",
    "what states choose": "0.1 * sum j:n. [i - 1 <= j <= i + 1 and h[j] > 0] * b[i, j] * h[j]",
    "what the time chooses": "0.1 * sum j:n. [i - 1 <= j <= i + 1 and j != k] * b[i, j] * h[j]",
}
BEFORE = "let b = gen i:n, j:n. exp(-(x[i] - y[j])^2) in"


def program(step: str, word: str = "fold", after: str = "c") -> tl.Function:
    return tl.parse(f"""f(x: [n]R, y: [n]R, z: [n]R, t: [n]idx(n)) = {BEFORE}
        let c = {word} k:3 with h = z. gen i:n. {step} in {after}""")


@pytest.mark.parametrize("name", one_in(3, STEPS))
def test_only_what_steps_read_is_computed(name: str) -> None:
    f = program(STEPS[name])
    grows_linearly(f)
    agrees(f, 0, 1, 2, 7)


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_second_derivatives_compute_no_more(name: str) -> None:
    f = tl.grad(program(STEPS[name], after="sum i:n. c[i]^2"), wrt="x")
    grows_linearly(f)
    agrees(f, 0, 1, 2, 7)


@pytest.mark.slow
def test_two_recurrences_read_one_array_of_what_both_see() -> None:
    again = f"fold k:2 with h = c. gen i:n. {STEPS['two diagonals']}"
    f = program(STEPS["a band"], after=again)
    grows_linearly(f)
    agrees(f, 0, 1, 2, 7)


@pytest.mark.parametrize("after", ["gen i:n. c[i] + sum j:n. b[i, j]", "(c, b)"])
def test_what_others_read_as_well_is_computed_for_them(after: str) -> None:
    f = program(STEPS["a band"], after=after)
    assert "b = gen i:n, j:n. exp" in str(tl.simplify(f))
    agrees(f, 0, 1, 2, 7)


@pytest.mark.parametrize("seed", one_in(6, range(18)))
def test_random_steps_are_right(seed: int) -> None:
    rng = random.Random(seed)
    step = " + ".join(f"({step})" for step in rng.sample(list(STEPS.values()), 2))
    after = rng.choice(["c", "gen i:n. c[i] * b[i, i]", "gen i:n. sum j:n. [j = i] * b[i, j] * c[j]"])
    agrees(program(step, after=after), 0, 1, 2, 7)


def test_alternatives_of_which_one_asks_for_outcomes_that_exist_there_alone() -> None:
    f = tl.parse(
        "f(x: [n]R, y: [n]R, z: [n]R, t: [n]idx(n)) = let b = gen i:n, j:n. exp(-(x[i] - y[j])^2) in "
        "fold k:3 with h = z. gen i:n. 0.1 * (sum j:n. [0 <= j - t[i] + 1 < 2] * b[i, j] * sin(h[j])) "
        "+ 0.1 * sum j:n. [0 <= j - i + 1 < 3 and 0 < h[j]] * b[i, j] * h[j]"
    )
    agrees(f, 0, 1, 2, 5, 7)
