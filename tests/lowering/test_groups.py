"""Programs over groups, [p[j] = p[i]], whatever is read at i or j: the code is right, and its work grows with n."""

from __future__ import annotations

import random

import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.sampling import one_in

PARAMS = "p: [n]idx(n), q: [n]idx(n), x: [n]R, y: [n]R, z: [n]R"

GREATEST = "(max k:n where p[k] = p[i]. x[k])"
MEAN = "(sum k:n. [p[k] = p[i]] * x[k]) / (sum k:n. [p[k] = p[i]])"
PROGRAMS = {
    "softmax": f"gen i:n. exp(x[i] - {GREATEST}) / (sum j:n. [p[j] = p[i]] * exp(x[j] - {GREATEST}))",
    "softmax of a let": f"let a = gen i:n. {GREATEST} in"
    " gen i:n. exp(x[i] - a[i]) / (sum j:n. [p[j] = p[i]] * exp(x[j] - a[i]))",
    "log-sum-exp": f"let a = gen i:n. {GREATEST} in gen i:n. a[i] + log(sum j:n. [p[j] = p[i]] * exp(x[j] - a[i]))",
    "layer norm": f"let a = gen i:n. {MEAN} in"
    f" gen i:n. (x[i] - a[i]) / sqrt(1 + (sum j:n. [p[j] = p[i]] * (x[j] - a[i]) ^ 2))",
    "an element of the group": "gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j] + y[p[i]])",
    "an element of an element": "gen i:n. sum j:n. [p[j] = p[i]] * sin(x[j] * z[q[p[i]]])",
    "few groups, by twice their number": "gen i:n. sum j:n. [p[j] = p[i] and 0 <= 2*p[j] - n + 2 < 2] * x[j]",
    "groups of elements": "gen i:n. sum j:n. [p[q[j]] = p[q[i]]] * sin(x[j] + y[p[q[i]]])",
    "pairs of elements": "let a = gen i:n, j:n. x[j] * y[p[i]] in sum i:n, j:n. [p[j] = p[i]] * exp(a[i, j])",
    "twice": f"let a = gen i:n. {MEAN} in let b = gen i:n. sum j:n. [p[j] = p[i]] * exp(x[j] - a[i]) in"
    " gen i:n. sum j:n. [p[j] = p[i]] * sin(b[i] * x[j])",
}


def random_program(rng: random.Random) -> str:
    """A sum over the group of i, of functions of elements at j and of values at i that are the same for all of the
    group."""
    kinds = ["max k:n where p[k] = p[i]. {}", "min k:n where p[k] = p[i]. {}", "sum k:n. [p[k] = p[i]] * {}"]
    lets, known = [], ["y[p[i]]", "z[q[p[i]]]"]
    for name in "abc"[: rng.randint(1, 3)]:
        read = rng.choice(["x[k]", "x[k] * y[k]", *(f"{other}[k]" for other in "abc"[: len(lets)])])
        e = rng.choice(kinds).format(read)
        if rng.random() < 0.4:
            e = f"sin({e}) + {rng.choice(known)}"
        lets.append(f"let {name} = gen i:n. {e} in")
        known.append(f"{name}[i]")
    body = rng.choice(["exp(x[j] - {})", "x[j] * {}", "sin({} * z[j])", "tanh({} + x[j]) * x[j]"])
    e = f"sum j:n. [p[j] = p[i]] * {body.format(rng.choice(known[-2:]))}"
    if rng.random() < 0.5:
        e = f"x[i] * ({e})"
    return " ".join([*lets, rng.choice(["gen", "gen", "sum"]), f"i:n. {e}"])


@pytest.mark.parametrize("name", one_in(16, PROGRAMS))
def test_what_runs_is_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}")
    agrees(f, 0, 1, 2, 7)


@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
def test_what_runs_grows_with_n(name: str) -> None:
    grows_linearly(tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}"))


@pytest.mark.parametrize("seed", one_in(24, range(24)))
def test_random_ones_are_right_and_grow_with_n(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(f"f({PARAMS}) = {random_program(rng)}")
    agrees(f, 0, 1, 5, rng=rng)
    grows_linearly(f)
