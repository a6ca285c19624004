"""Sums over pairs and triples of values read at elements: values and gradients are right, and their work grows with
n."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.growing import agrees, grows_linearly
from tests.support.programs import random_arguments
from tests.support.sampling import one_in

PARAMS = "p: [n]idx(n), q: [n]idx(n), t: [n]idx(n), x: [n]R, y: [n]R, z: [n]R"
GROUP = "p[j] = p[i]"
PROGRAMS = {
    "an element and a square's difference": f"sum i:n, j:n. [{GROUP}] * (x[p[i]] - y[j]) * x[q[j]]",
    "for each of a group": f"gen i:n. sum j:n. [{GROUP}] * (x[q[i]] - y[j]) * x[q[j]]",
    "elements of both": f"sum i:n, j:n. [{GROUP}] * x[q[i]] * x[q[j]]",
    "in order": "gen i:n. sum j:n. [j <= i] * (x[q[i]] - x[t[j]]) * y[j]",
    "in a function": f"gen i:n. sin(sum j:n. [{GROUP}] * (x[q[i]] - y[j]) * x[q[j]])",
    "of both groups": "sum i:n, j:n. [p[j] = p[i] and q[j] = q[i]] * (x[t[i]] - x[t[j]]) * x[t[i]]",
    "of another group": "sum i:n, j:n. [p[j] = q[i]] * (x[t[i]] - x[j]) * x[t[j]] * y[i]",
    "blocks of different widths": "gen i:n. x[i] - x[i // 3] * (sum k:n. [k // 3 = i // 5] * x[k // 2])",
    "two blocks": "gen i:n. sum k:n, j:n. [k // 4 = i // 2 and j // 3 = i // 4] * x[k] * x[j]",
    "all pairs of two blocks": "sum i:n, k:2*n. [k // 4 = i // 2] * y[k // 2] * x[i] * x[k // 2]",
    "three of a chain": "sum i:n, j:n, k:n. [p[i] = p[j] and q[k] = q[j]] * x[i] * x[j] * x[k]",
    "differences in a chain": "sum i:n, j:n, k:n. [p[i] = p[j] and q[k] = q[j]] * (x[i] - x[j]) * x[k]",
    "three, one of them later": "sum i:n, j:n, k:n. [p[i] = p[j] and k <= j] * x[i] * x[j] * x[k]",
    "a difference, each tied to each": "gen i:n. sum j:n, k:n. [p[j] = p[i] and p[k] = p[i]] * (x[j] - x[k]) * y[k]",
    "a function, each tied to each": "gen i:n. sum j:n, k:n. [p[j] = p[i] = p[k]] * exp(x[j]) * (y[k] - x[i])",
    "a difference over a chain": "gen i:n. sum j:n, k:n. [p[j] = p[i] and q[k] = q[j]] * (x[i] - x[k]) * y[j] * x[k]",
    "in order and in a group": "gen i:n. sum j:n, k:n. [p[j] = p[i] and j <= i and p[k] = p[i]] * y[j] * (x[i] + x[k])",
    "two around one": "gen i:n. sum j:n, k:n. [p[j] = p[i] and q[k] = q[i]] * x[j] * x[k] * x[i]",
    "before and after": "gen i:n. sum j:n, k:n. [j <= i and i <= k] * x[j] * x[k]",
    "between elements": "sum i:n, j:n, k:n. [j <= p[i] and q[k] <= j] * x[i] * x[j] * x[k]",
    "four": "sum i:n, j:n, k:n, l:n. [p[i] = p[j] and q[k] = q[j] and k <= l] * x[i] * x[j] * x[k] * x[l]",
}
SQUARES = {
    "in a group": f"sum i:n, j:n. [{GROUP}] * (x[q[i]] - x[q[j]])^2",
    "in order": "sum i:n, j:n. [j <= i] * (x[q[i]] - x[j])^2",
    "in a group, in order": f"sum i:n, j:n. [{GROUP} and j < i] * (x[t[i]] - x[t[j]])^2",
    "of another group": "sum i:n, j:n. [p[j] = q[i]] * (x[t[i]] - x[j])^2 * y[i]",
    "in blocks of different widths": "sum i:n, k:n. [k // 4 = i // 2] * (x[k] - x[i])^2",
}
TIES = {
    "p[{a}] = p[{b}]": lambda d, a, b: d["p"][a] == d["p"][b],
    "q[{a}] = q[{b}]": lambda d, a, b: d["q"][a] == d["q"][b],
    "p[{a}] = q[{b}]": lambda d, a, b: d["p"][a] == d["q"][b],
    "{a} <= {b}": lambda d, a, b: a <= b,
    "{b} < {a}": lambda d, a, b: b < a,
    "p[{a}] = p[{b}] and {a} <= {b}": lambda d, a, b: (d["p"][a] == d["p"][b]) & (a <= b),
    "{a} // 3 = {b} // 2": lambda d, a, b: a // 3 == b // 2,
    "p[{a} // 2] = q[{b}]": lambda d, a, b: d["p"][a // 2] == d["q"][b],
}
READ = {
    "x[{}]": lambda d, i: d["x"][i],
    "x[p[{}]]": lambda d, i: d["x"][d["p"][i]],
    "x[t[{}]]": lambda d, i: d["x"][d["t"][i]],
    "x[{} // 2]": lambda d, i: d["x"][i // 2],
    "y[{}]": lambda d, i: d["y"][i],
    "sin(x[{}])": lambda d, i: jnp.sin(d["x"][i]),
}
Dense = Callable[[dict[str, Any]], Any]


def random_program(rng: random.Random, count: int) -> tuple[str, Dense]:
    """A sum over indices that are connected in pairs, as a tree, of factors of one index each and of a difference of
    two; and dense code that computes the same."""
    names = ["i", "j", "k"][:count]
    ties = []
    for m in range(1, count):
        pair = [rng.choice(names[:m]), names[m]]
        rng.shuffle(pair)
        ties.append((rng.choice(list(TIES)), pair))
    factors = [(rng.choice(list(READ)), i) for i in names for _ in range(rng.choice([0, 1, 1, 2]))]
    sign = rng.choice([0, 1, -1])
    tied = rng.choice(ties)[1]
    both = [(rng.choice([read for read in READ if not read.startswith("sin")]), i) for i in tied]
    parts = [read.format(i) for read, i in factors]
    if sign:
        parts.append(f" {'+' if sign > 0 else '-'} ".join(read.format(i) for read, i in both).join("()"))
    where = " and ".join(tie.format(a=a, b=b) for tie, (a, b) in ties)
    free = rng.random() < 0.5
    summed = ", ".join(f"{i}:n" for i in names[free:])
    text = f"{'gen i:n. ' if free else ''}sum {summed}. [{where}] * {' * '.join(parts) or '1'}"

    def dense(d: dict[str, Any]) -> Any:
        n = len(d["x"])
        at = {i: jnp.arange(n).reshape([-1 if i == k else 1 for k in names]) for i in names}
        value = jnp.ones([n] * count)
        for read, i in factors:
            value = value * READ[read](d, at[i])
        if sign:
            first, second = (READ[read](d, at[i]) for read, i in both)
            value = value * (first + sign * second)
        for tie, (a, b) in ties:
            value = value * TIES[tie](d, at[a], at[b])
        return value.sum(tuple(range(int(free), count)))

    return text, dense


def agrees_with_dense_code(f: tl.Function, dense: Dense, n: int) -> None:
    """Assert that the gradient of `f` by x equals JAX's gradient of `dense`."""
    g = tl.adjoint(f, wrt="x")
    with jax.enable_x64(True):
        given = random_arguments(g, random.Random(n), {"n": n}, exact=False)
        d = {name: jnp.asarray(given[name]) for name in "pqtxyz"}
        value, back = jax.vjp(lambda x: dense(d | {"x": x}), d["x"])
        np.testing.assert_allclose(tl.lower(f)(**d), value, rtol=1e-9, atol=1e-9 * n)
        (wanted,) = back(jnp.asarray(given["f_bar"]))
        np.testing.assert_allclose(tl.lower(g)(**given), wanted, rtol=1e-9, atol=1e-7 * n)


@pytest.mark.parametrize("name", one_in(16, PROGRAMS))
def test_what_runs_is_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}")
    agrees(f, 0, 1, 2, 7)


@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
def test_what_runs_grows_with_n(name: str) -> None:
    grows_linearly(tl.parse(f"f({PARAMS}) = {PROGRAMS[name]}"), least=2048)


@pytest.mark.parametrize("name", one_in(3, SQUARES))
def test_gradients_of_squares_grow_with_n_and_are_right(name: str) -> None:
    f = tl.parse(f"f({PARAMS}) = {SQUARES[name]}")
    grows_linearly(tl.adjoint(f, wrt="x"), derived=False, least=2048)
    agrees(f, 0, 1, 2, 7)


@pytest.mark.parametrize("seed", one_in(16, range(16)))
@pytest.mark.parametrize("count", [2, 3])
def test_random_ones_are_right_and_grow_with_n(count: int, seed: int) -> None:
    rng = random.Random(seed)
    text, dense = random_program(rng, count)
    f = tl.parse(f"f({PARAMS}) = {text}")
    agrees(f, 0, 1, 2, 7, rng=rng)
    agrees_with_dense_code(f, dense, 101 if count == 2 else 31)
    grows_linearly(f, least=2048)
