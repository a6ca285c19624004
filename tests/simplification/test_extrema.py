"""Maxima and minima that are read back from choices, under conditions on the values chosen from and of readers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorlang import adjoint, evaluate, simplify
from tensorlang.errors import EmptyExtremum
from tensorlang.surface.parse import parse

CONDITIONS = ("i = n - 1", "i < 5", "j < i", "i <= j", "j = i", "j <= 2", "i + j < n", "j = b[i]", "i = b[j]",
              "i < n - 2", "2 <= j and j <= i", "j < i or i = 0")  # fmt: skip
VALUES = ("e[j]", "exp(e[j])", "e[i] * e[j]", "m[i, b[j]]", "m[i, j]", "m[b[i], j]", "m[j, i]")
BODIES = (
    "gen i:n. max j:n. [P] * V",
    "gen i:n. [R] * max j:n. [P] * V",
    "let t = gen i:n. max j:n. [P] * V in gen i:n. [R] * t[i]",
    "let u = gen i:n, j:n. [Q] * V in gen i:n. max j:n. [P] * u[i, j]",
    "gen i:n. max j:n where P. [Q] * V",
    "let k = gen i:n. argmax j:n. [P] * V in let u = gen i:n, j:n. [Q] * V in gen i:n. u[i, k[i]]",
    "let k = gen i:n. argmax j:n. V in let u = gen i:n, j:n. [Q] * V in gen i:n. u[i, k[i]] + u[k[i], k[i]]",
)


@pytest.mark.parametrize("condition, wanted", [("i = n - 1", "i + 1 = n"), ("i < 5", "i < 5")])
def test_an_extremum_of_what_is_zero_for_some_is_zero_for_these(condition: str, wanted: str) -> None:
    f = simplify(parse(f"f(e: [n]R) = gen i:n. max j:n. [{condition}] * e[j]"))
    assert f"[{wanted}] * " in str(f) and "argmax" not in str(f)
    np.testing.assert_array_equal(evaluate(f, [1, 3, 2, 0, -1, 1, 2]), [3 * eval(c) for c in _at(condition, 7)])


def _at(condition: str, n: int) -> list[str]:
    return [condition.replace(" = ", " == ").replace("n", str(n)).replace("i", str(i)) for i in range(n)]


def keeps_its_meaning(seed: int) -> None:
    rng = random.Random(seed)
    said = {"P": rng.choice(CONDITIONS), "Q": rng.choice(CONDITIONS), "V": rng.choice(VALUES)}
    said["R"] = rng.choice([p for p in CONDITIONS if "j" not in p])
    text = "".join(said.get(c, c) for c in rng.choice(BODIES))
    if rng.random() < 0.5:
        text = text.replace("max", "min")
    try:
        f = parse(f"f(e: [n]R, m: [n][n]R, b: [n]idx(n)) = {text}")
    except EmptyExtremum:
        return
    simple, derived = simplify(f), adjoint(f)
    for n in (1, 2, 5, 7):
        draw = np.random.default_rng(seed)
        given = {"e": draw.normal(size=n), "m": draw.normal(size=(n, n)), "b": draw.integers(0, n, n)}
        try:
            value = evaluate(f, **given)
        except EmptyExtremum:
            continue
        np.testing.assert_allclose(evaluate(simple, **given), value, err_msg=text)
        rate = [draw.normal(size=np.shape(x)) for x in (given["e"], given["m"])]
        near = {"e": given["e"] + 1e-6 * rate[0], "m": given["m"] + 1e-6 * rate[1], "b": given["b"]}
        found = evaluate(derived, **given, **{derived.params[-1].name: np.ones(n)})
        moved = np.sum(np.subtract(evaluate(f, **near), value, dtype=float)) / 1e-6
        by_adjoint = sum(np.sum(np.asarray(x, float) * r) for x, r in zip(found, rate, strict=True))
        np.testing.assert_allclose(by_adjoint, moved, rtol=1e-3, atol=1e-3, err_msg=text)


@pytest.mark.parametrize("seed", range(3))
def test_a_few_random_extrema_keep_their_meaning(seed: int) -> None:
    keeps_its_meaning(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 150))
def test_random_extrema_keep_their_meaning(seed: int) -> None:
    keeps_its_meaning(seed)
