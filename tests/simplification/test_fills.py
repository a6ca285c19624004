"""Arrays that vary along an axis at few places only: taken apart, with the same values, and less work."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import EmptyExtremum
from tensorlang.lowering.arrays.cost import cost_of
from tensorlang.lowering.emit.module import source_of
from tensorlang.normal import normal_ssa
from tensorlang.normal.tidy import tidy
from tensorlang.simplification import simplify_ssa
from tensorlang.simplification.fills import in_fills
from tensorlang.simplification.read_back import read_back

FEW = (
    ("i - 2 <= j <= i", "j < i - 2 or i < j"),
    ("j = i", "j != i"),
    ("j < 2", "2 <= j"),
    ("j = b[i]", "j != b[i]"),
    ("b[i] <= j < b[i] + 2", "j < b[i] or b[i] + 2 <= j"),
    ("i = n - 1", "i < n - 1"),
    ("j = i or j = 0", "j != i and j != 0"),
)
THERE = ("m[i, j]", "e[i] * e[j]", "exp(e[j])")
FILLS = ("1.5", "e[i]", "-1000", "e[j]", "0")
READERS = (
    "gen i:n. sum j:n. exp(t[i, j])",
    "gen i:n. sum j:n. t[i, j] * e[j]",
    "gen i:n. max j:n. t[i, j]",
    "let s = gen i:n. max j:n. t[i, j] in gen i:n. sum j:n. exp(t[i, j] - s[i]) * e[j]",
    "gen i:n. sum j:n. (if t[i, j] > e[i] then cos(t[i, j]) else 2)",
    "gen j:n. sum i:n. sin(t[i, j])^2",
    "gen i:n. t[i, b[i]] + t[b[i], i] + sum j:n. tanh(t[j, j])",
    "let s = gen i:n. min j:n. t[i, j] in gen i:n. sum j:n. [i <= j] * (t[i, j] - s[i])^2",
)


def program(few: tuple[str, str], there: str, fill: str, reader: str) -> tl.Function:
    """A reader of an array that is `fill` except for the few."""
    array = f"gen i:n, j:n. [{few[0]}] * {there} + [{few[1]}] * {fill}"
    return tl.parse(f"f(e: [n]R, m: [n][n]R, b: [n]idx(n)) = let t = {array} in {reader}")


def taken_apart(f: tl.Function) -> tl.Function:
    s = tidy(normal_ssa(tl.simplify(f)))
    t = in_fills(s)
    return f if t is s else read_back(simplify_ssa(t))


def means_the_same(f: tl.Function, seed: int) -> None:
    for g in (f, tl.adjoint(f)):
        made = taken_apart(g)
        for n in (1, 2, 3, 7):
            draw = np.random.default_rng(seed)
            given = {"e": draw.normal(size=n), "m": draw.normal(size=(n, n)), "b": draw.integers(0, n, n)}
            given |= {p.name: draw.normal(size=n) for p in g.params if p.name not in given}
            try:
                value = tl.evaluate(g, **given)
            except EmptyExtremum:
                continue
            for x, y in zip(_leaves(tl.evaluate(made, **given)), _leaves(value), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9, err_msg=f"n = {n}\n{g}\n{made}")
            for x, y in zip(_leaves(tl.lower(g)(**given)), _leaves(value), strict=True):
                np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4, err_msg=f"n = {n}\n{g}")


def _leaves(x: object) -> list[object]:
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 120))])
def test_programs_taken_apart_mean_the_same(seed: int) -> None:
    rng = random.Random(seed)
    f = program(rng.choice(FEW), rng.choice(THERE), rng.choice(FILLS), rng.choice(READERS))
    means_the_same(f, seed)


@pytest.mark.parametrize("fill", ["1.5", "e[i]", "-1000"])
@pytest.mark.parametrize("reader", [READERS[0], READERS[2], READERS[3]])
def test_no_array_of_all_pairs_is_left(reader: str, fill: str) -> None:
    f = program(FEW[0], "e[i] * e[j]", fill, reader)
    for g in (f, tl.adjoint(f, wrt="e")):
        simple = tl.simplify(g)
        made = source_of(simple)
        found = cost_of(simple, made.program)
        for count in (found.operations, found.written):
            assert count({"n": 1600}) < 2.2 * count({"n": 800}), made.text


def test_what_varies_everywhere_is_left_as_it_is() -> None:
    for fill in ("m[j, i]", "e[i] * e[j]"):
        f = tl.simplify(program(FEW[0], "exp(m[i, j])", fill, "gen i:n. sum j:n. exp(t[i, j])"))
        assert taken_apart(f) is f
