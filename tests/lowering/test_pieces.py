"""Sums of terms with disjoint supports: one assembly of pieces, right at every size."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.ir import ArrayOperation, Assign
from tensorlang.lowering.lower import lower
from tensorlang.measure.count import count
from tensorlang.pipeline import adjoint
from tensorlang.surface.parse import parse
from tests.support.operations import count_of

BESIDE = {
    "two vectors": "f(x: [n]R, y: [m]R) = gen i:n + m. [i < n] * x[i] + [n <= i] * y[i - n]",
    "turned around": "f(x: [n]R, y: [m]R) = gen i:n + m. [n <= i] * y[n + m - 1 - i] + [i < n] * x[n - 1 - i]",
    "borders": "f(x: [n]R, y: R) = gen i:n + 2. [i = 0] * 3 + [1 <= i <= n] * sin(x[i - 1]) - [i = n + 1] * y",
    "rows": "f(x: [n][m]R, y: [m]R) = gen i:n + 1, j:m. [i < n] * x[i, j] + [i = n] * y[j]",
    "columns": "f(x: [n][m]R, y: [m]R) = gen j:m, i:n + 1. [i < n] * x[i, j] * y[j] - [i = n] * y[j]",
    "a frame": "f(x: [n][m]R, y: [m]R) = gen i:n + 2, j:m + 2. [1 <= i <= n and 1 <= j <= m] * x[i - 1, j - 1]"
    " + [i = 0 and 1 <= j <= m] * y[j - 1] + [i = n + 1 and 1 <= j <= m] * y[m - j] + [j = 0] * 2",
    "terms at the same place": "f(x: [n]R, y: [m]R) = gen i:n + m. [i < n] * x[i] + [n <= i] * y[i - n] - [i < n] * 2",
    "sums": "f(x: [n][m]R, y: [m]R) = gen i:n + 1. [i < n] * (sum j:m. x[i, j] * y[j]) + [i = n] * sum j:m. y[j]",
    "products under a sum": "f(x: [n]R, y: [m]R) = sum i:n + m. ([i < n] * x[i] + [n <= i] * y[i - n])^2",
    "constants": "f(x: [n]R, y: [m]R) = gen i:n + m. [i < n] * 2 + [n <= i] * 5",
}
APART = {
    "gaps": "f(x: [n]R, y: [m]R) = gen i:n + m + 5. [1 <= i < n] * x[i] + [n + 3 <= i < n + m] * y[i - n]",
    "ends that can meet": "f(x: [n]R) = gen i:n. [i = 0] * x[i] + [0 < i < n - 1] * 2 * x[i] + [i = n - 1] * x[i]^2",
    "outside at some sizes": "f(x: [n]R) = gen i:n. [i = 0] * exp(x[i]) + [i = 3] * x[i] + [i = 5] * x[i - 1]",
}
TURNS = {
    "two": "f(x: [n]R, y: [n]R) = gen i:2*n. (sum j:n. [i = 2*j] * x[j]) + sum j:n. [i = 2*j + 1] * y[j]",
    "the same twice": "f(x: [n]R, y: [n + 1]R) = gen i:2*n + 1. (sum j:n. [i = 2*j] * x[j])"
    " + (sum j:n. [i = 2*j + 1] * x[j]) + sum j:n. [i = 2*j + 2] * y[j]",
    "two of three": "f(x: [n]R, y: [n]R) = gen i:m. (sum j:n. [i = 3*j + 1] * x[j]) - sum j:n. [i = 3*j - 1] * y[j]",
    "backwards": "f(x: [n]R, y: [n]R) = gen i:2*n. (sum j:n. [i = 2*n - 1 - 2*j] * x[j]) + sum j:n. [i = 2*j] * y[j]",
    "sums": "f(x: [n][m]R, y: [n]R) = gen i:2*n. (sum j:n, k:m. [i = 2*j] * x[j, k]) + sum j:n. [i = 2*j + 1] * y[j]",
}
PROGRAMS = {**BESIDE, **APART, **{f"turns: {name}": text for name, text in TURNS.items()}}


SIZES = [(0, 2), (1, 1), (2, 3), (7, 4)]


def _arguments(f: Function, n: int, m: int) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    rng = np.random.default_rng(n)
    sizes = {s: {"n": n, "m": m}[s.name] for s in f.sizes}
    values = {p.name: rng.normal(size=[a.value(dict(sizes)) for a in shape(p.type)[0]]) for p in f.variables}
    return values, {s.name: v for s, v in sizes.items()}


def _agree(f: Function, n: int, m: int) -> None:
    values, sizes = _arguments(f, n, m)
    got, expected = lower(f)(**values, **sizes), evaluate(f, **values, **sizes)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b, float), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_are_where_the_evaluator_says_at_every_size(name: str) -> None:
    f = parse(PROGRAMS[name])
    for n, m in SIZES:
        _agree(f, n, m)
    _agree(adjoint(f), 7, 4)


@pytest.mark.parametrize("name", BESIDE)
def test_pieces_that_fill_an_axis_are_concatenated(name: str) -> None:
    made = lower(parse(BESIDE[name]))
    assert count_of(made, "concatenate") >= 1
    assert not count_of(made, "_over", "where", "arange")


@pytest.mark.parametrize("name", APART)
def test_pieces_with_gaps_or_that_may_meet_are_placed_when_traced(name: str) -> None:
    made = lower(parse(APART[name]))
    assert count_of(made, "_side_by_side") == 1
    statements = made.array_program.definition.body.statements
    (result,) = (s.value for s in statements if isinstance(s, Assign) and s.names == ("result",))
    assert not any(isinstance(node, ArrayOperation) and node.operation in ("_over", "where") for node in result.walk())


@pytest.mark.parametrize("name", TURNS)
def test_strides_that_alternate_are_stacked(name: str) -> None:
    made = lower(parse(TURNS[name]))
    assert count_of(made, "_in_turns") == 1
    assert not count_of(made, "_spread")


OVERLAPPING = [
    "f(x: [n]R) = gen i:n + 1. [i < n] * x[i] - [0 < i] * x[i - 1]",
    "f(x: [n]R, y: [n]R) = gen i:n. [3 <= i] * x[i] + y[i]",
    "f(x: [n]R, y: [n]R) = gen i:2*n. (sum j:n. [i = 2*j] * x[j]) + sum j:n. [i = 3*j] * y[j]",
]


@pytest.mark.parametrize("text", OVERLAPPING)
def test_terms_at_the_same_places_are_added_up(text: str) -> None:
    assert not count_of(lower(parse(text)), "concatenate", "_side_by_side", "_in_turns")


def test_an_assembly_is_right_at_size_and_writes_nothing_but_its_result() -> None:
    f = parse("f(a: R, x: [n]R) = gen i:n + 2. [i = 0] * a + [1 <= i <= n] * x[i - 1] + [i = n + 1] * a * a")
    x = np.random.default_rng(0).normal(size=40_001)
    expected = np.concatenate([[1.5], x, [2.25]])
    np.testing.assert_allclose(np.asarray(lower(f)(1.5, x)), expected, rtol=1e-6)
    done = count(lower(f), 1.5, x)
    assert done.arithmetic <= 1
    assert done.temporaries <= 100


def test_derivatives_of_windows_in_steps_are_taken_in_turns() -> None:
    f = adjoint(parse("f(x: [2*n]R) = sum i:n. sin(x[2*i]) * x[2*i + 1]"))
    assert count_of(lower(f), "_in_turns")
    x = np.random.default_rng(0).normal(size=30_002)
    got = np.asarray(lower(f)(x, 1.0))
    expected = np.stack([np.cos(x[::2]) * x[1::2], np.sin(x[::2])], 1).reshape(-1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_what_is_zero_anyway_where_a_size_is_zero_is_not_guarded() -> None:
    f = parse(
        "f(x: [b][d]R, w: [d][h]R, v: [h][k]R) = sum i:b, j:k. (sum l:h. tanh(sum p:d. x[i, p] * w[p, l]) * v[l, j])^2"
    )
    g = adjoint(f)
    assert "[0 < k]" in str(g)
    assert not count_of(lower(g), "_if", "where")


@pytest.mark.parametrize("n", [0, 3])
def test_a_guard_that_asks_for_sizes_alone_is_decided_when_traced(n: int) -> None:
    f = parse("f(x: [m]R, y: [n]R) = gen i:m. [0 < n] * exp(x[i])")
    assert count_of(lower(f), "_if")
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(np.asarray(lower(f)(x, np.zeros(n))), np.exp(x) * (n > 0), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 40])
def test_alternatives_that_exclude_one_another_are_pieces(n: int) -> None:
    f = parse("f(x: [n]R, y: [n]R) = gen i:n. [i < 2 or i > 4] * x[i] * y[i]")
    g = lower(f)
    assert not count_of(g, "where")
    x, y = np.random.default_rng(n).normal(size=(2, n))
    i = np.arange(n)
    np.testing.assert_allclose(np.asarray(g(x, y)), ((i < 2) | (i > 4)) * x * y, rtol=1e-6)


def test_alternatives_that_may_meet_at_some_size_are_a_mask() -> None:
    f = parse("f(x: [n]R) = gen i:n. [i = 0 or i = n - 1] * x[i]")
    np.testing.assert_array_equal(np.asarray(lower(f)(np.array([3.0]))), [3])
