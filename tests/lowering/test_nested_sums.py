"""Sums over pairs chosen by conditions: the code is right, and its work grows with n, not with the pairs."""

from __future__ import annotations

import random

import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.sampling import one_in

PARAMS = "p: [n]idx(n), q: [n]idx(n), x: [n]R, y: [n]R, z: [n]R, A: [n][3]R"
PROGRAMS = {
    "earlier ones": "sum i:n, j:n. [j <= i] * x[i] * y[j]",
    "how many earlier ones": "sum i:n, j:n. [j <= i] * x[j]",
    "later ones, in columns": "gen a:3. sum i:n, j:n. [j > i] * A[i, a] * A[j, a] * x[i]",
    "pairs of columns": "gen a:3, b:3. sum i:n, j:n. [j <= i] * A[i, a] * A[j, b] * x[i]",
    "of one group": "sum i:n, j:n. [p[i] = p[j]] * x[i] * y[j]",
    "of one group, in columns": "gen a:3. sum i:n, j:n. [p[i] = p[j]] * A[i, a] * x[j]",
    "up to an element": "sum i:n, j:n. [j <= p[i]] * x[i] * y[j] * x[j]",
    "from an element on": "sum i:n, j:n. [p[j] <= i] * x[i] * y[j]",
    "before one of the group": "gen i:n. sum j:n, k:n. [p[j] = p[i] and k <= j] * x[j] * y[k]",
    "between two elements": "sum i:n, j:n. [p[i] <= j < q[i]] * x[i] * y[j]",
    "within five": "sum i:n, j:n. [i - 5 <= j <= i + 5] * x[i] * sin(y[j])",
    "masks on factors": "sum i:n, j:n. ([j <= i] * x[i]) * ([1 <= j] * y[j])",
}
TIES = ["{b} <= {a}", "{b} < {a}", "{a} <= {b}", "p[{a}] = p[{b}]", "{b} <= p[{a}]", "q[{b}] <= {a}", "q[{b}] = q[{a}]"]
FACTORS = ["x[{}]", "y[{}]", "sin(x[{}])", "x[{}] * z[{}]", "y[{}] ^ 2", "1"]


THREE = {
    "before and after": "gen i:n. sum j:n, k:n. [j <= i and i <= k] * x[j] * y[k]",
    "before, and of the group": "gen i:n. sum j:n, k:n. [j <= i and p[k] = p[i]] * x[j] * y[k]",
    "before one before": "sum i:n, j:n, k:n. [j <= i and k <= j] * x[i] * y[j] * z[k]",
    "of one group": "sum i:n, j:n, k:n. [p[i] = p[j] and p[k] = p[j]] * x[i] * y[j] * z[k]",
}


def random_program(rng: random.Random) -> str:
    """A sum over pairs, for each i or for all, of factors of one index each, and maybe a product of two such sums."""

    def pairs(index: str) -> str:
        factors = [rng.choice(FACTORS).replace("{}", each) for each in ("i", index, index)]
        rng.shuffle(factors)
        return f"[{rng.choice(TIES).format(a='i', b=index)}] * {' * '.join(factors)}"

    if rng.random() < 0.5:
        return f"sum i:n, j:n. {pairs('j')}"
    one = f"sum j:n. {pairs('j')}"
    both = f"(sum j:n. {pairs('j')}) * (sum k:n. {pairs('k')})"
    return f"{rng.choice(['gen', 'sum'])} i:n. {rng.choice([both, both, one])}"


@pytest.mark.parametrize("name", one_in(8, PROGRAMS))
def test_what_runs_is_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}")
    agrees(f, 0, 1, 2, 7)


@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
def test_what_runs_grows_with_n(name: str) -> None:
    grows_linearly(tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}"))


@pytest.mark.parametrize("name", one_in(2, THREE))
def test_sums_over_three_indices_grow_with_n_and_are_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {THREE[name]}")
    agrees(f, 7)
    grows_linearly(f, derived=False)  # their gradients have sums of sums that a condition on both hides


@pytest.mark.parametrize("seed", one_in(36, range(36)))
def test_random_ones_are_right_and_grow_with_n(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(f"f({PARAMS}) = {random_program(rng)}")
    agrees(f, 0, 1, 5, rng=rng)
    grows_linearly(f)
