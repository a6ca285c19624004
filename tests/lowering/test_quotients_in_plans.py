"""Programs that read at quotients, or compare them: the code is right, and its work grows with the number of points."""

from __future__ import annotations

import random

import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.sampling import one_in

PARAMS = "x: [4*n + 8]R, y: [4*n + 8]R, p: [4*n + 8]idx(n + 2), w: [3]R"
PROGRAMS = {
    "a maximum of neighbours": "gen i:4*n. max k:8. x[i // 2 + k]",
    "a sum of neighbours": "gen i:4*n. sum k:8. exp(x[i // 2 + k] - y[i])",
    "neighbours that are there": "gen i:4*n. max k:8 where i // 2 - k >= 0. x[i // 2 - k]",
    "neighbours of elements": "gen i:4*n. max k:2 where p[i] // 2 - k >= 0. x[p[i] // 2 - k] * y[i]",
    "taps": "gen i:4*n. sum k:3. w[k] * x[(i + k) // 3] * y[i]",
    "the greatest of a block": "gen i:4*n. x[i] - max k:4*n where k // 4 = i // 4. x[k]",
    "shares of a block": "gen i:4*n. exp(x[i]) / sum k:4*n. [k // 4 = i // 4] * exp(x[k])",
    "pairs of a block": "gen i:4*n. sum k:4*n. [k // 4 = i // 4] * exp(x[k] * y[i])",
    "earlier ones of a block": "gen i:4*n. sum k:4*n. [k // 4 = i // 4 and k <= i] * exp(x[k] - x[i])",
    "the least of pairs of a block": "gen i:4*n. min k:4*n where k // 4 = i // 4. x[k] * y[i]",
    "the greatest before in a block": "gen i:4*n. max k:4*n where k // 4 = i // 4 and k <= i. x[k]",
    "blocks of elements": "gen i:4*n. sum k:4*n. [p[k] // 2 = p[i] // 2] * exp(x[k])",
    "the greatest of a group": "gen i:4*n. exp(x[i] - max k:4*n where p[k] = p[i]. x[k])",
    "shares of a group": "gen i:4*n. y[i] / sum k:4*n. [p[k] = p[i]] * exp(x[k])",
    "blocks of different widths": "gen i:4*n. sum k:4*n. [k // 3 = i // 5] * x[k]",
    "remainders": "gen i:4*n. sum k:4*n. [k % 3 = i % 3 and i - 3 <= k <= i] * x[k] * y[i]",
    "blocks of a matrix": "sum i:4*n. x[i] * sum k:4*n. [k // 4 = i // 4] * x[k] * y[i]",
}


def random_program(rng: random.Random) -> str:
    """A sum or an extremum over indices with the same quotient as i, as they are or after a shift."""
    c, shift = rng.choice([2, 3, 4]), rng.choice(["", "", " + 1", f" + {rng.randint(2, 5)}"])
    condition = f"(k{shift}) // {c} = (i{shift}) // {c}" + rng.choice(["", "", " and k <= i", " and i <= k"])
    body = rng.choice(["x[k]", "x[k] * y[i]", "exp(x[k] - y[i])", f"x[k // {c}]", "w[k % 3] * x[k]", "x[k]^2 * x[i]"])
    word = rng.choice(["sum", "max", "min"])
    e = f"sum k:4*n. [{condition}] * {body}" if word == "sum" else f"{word} k:4*n where {condition}. {body}"
    if rng.random() < 0.3:
        e = f"exp(x[i]) * ({e})"
    return rng.choice(["gen", "gen", "sum"]) + f" i:4*n. {e}"


@pytest.mark.parametrize("name", one_in(8, PROGRAMS))
def test_what_runs_is_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}")
    agrees(f, 0, 1, 2, 5)


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
def test_what_runs_grows_with_the_points(name: str) -> None:
    grows_linearly(tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}"))


@pytest.mark.parametrize("seed", one_in(6, range(24)))
def test_random_ones_are_right_and_grow_with_the_points(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(f"f({PARAMS}) = {random_program(rng)}")
    agrees(f, 0, 1, 3, rng=rng)
    grows_linearly(f)


@pytest.mark.parametrize("there", ["2*k = i and k <= j and j <= 3*k", "i <= 2*k and 3*k <= j"])
def test_multiples_that_exist_are_decided_without_division(there: str) -> None:
    agrees(tl.parse(f"f(x: [n]R, y: [n]R) = gen i:n, j:n. [exists k:n. {there}] * x[i] * y[j]"), 0, 1, 2, 7)
