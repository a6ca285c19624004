"""JAX functions of pairs under masks: the right gradients, and no work for each pair where masks leave few."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.jaxprs.regions import patience
from tensorlang.jaxprs.rewrite import rewritten
from tests.support import jax_masks
from tests.support.jax_programs import made
from tests.support.traced import work


def has_the_gradients_of_jax(source: str, *sizes: int) -> None:
    f = made(source)
    with jax.enable_x64(True):
        for n in sizes:
            given = jax_masks.data(n, n)
            wanted = jax.value_and_grad(f, (0, 1))(*given)
            if not all(np.isfinite(x).all() for x in jax.tree.leaves(wanted)):
                continue
            for g in (rewritten(f, gain=None), tl.from_jax(f, *given, exact=True)):
                found = jax.jit(jax.value_and_grad(g, (0, 1)))(*given)
                for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9 * (1 + np.abs(y).max()), err_msg=source)


def takes_no_work_for_each_pair(source: str) -> None:
    """Whether it pays to derive it at these sizes or only at larger ones."""
    f = made(source)
    with jax.enable_x64(True), patience():
        less, more = (work(tl.jax.grad(f, (0, 1)), *jax_masks.data(n)).elements for n in (601, 1201))
    assert more <= 2.6 * less, f"{less} {more}\n{source}"


def a_function(mask: str, result: str = "m.sum(1)", fill: str = "0") -> str:
    return jax_masks.source(mask, "jnp.sin(x[:, None] * y[None])", result, fill)


@pytest.mark.parametrize("mask, condition", [
    ("i // 8 == j // 8", "exists q"),
    ("j < s[:, None]", "< s[i]"),
    ("(j >= s[:, None]) & (j < s[:, None] + 3)", "0 <= r - s[i] < 3"),
])  # fmt: skip
def test_integers_are_compared_as_conditions(mask: str, condition: str) -> None:
    program = tl.from_jax(made(a_function(mask)), *jax_masks.data(20))
    assert condition in str(program.function) and "rel(" not in str(program.function)


def test_remainders_are_compared_by_jax() -> None:
    program = tl.from_jax(made(a_function("i % 4 == j % 4")), *jax_masks.data(20))
    assert "mask: rel(20, 20)" in str(program.function)


@pytest.mark.parametrize("mask", ["i // 8 == j // 8", "j <= s[:, None]"])
def test_a_few_masks_have_the_gradients_of_jax(mask: str) -> None:
    has_the_gradients_of_jax(a_function(mask), 1, 9)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_bounds_of_any_type_of_integers(dtype: str) -> None:
    f = made(a_function(f"(j < s.astype('{dtype}')[:, None]) | (j - 1 == s.astype('{dtype}')[:, None])"))
    x, y, a, b, s, *rest = jax_masks.data(40)
    with jax.enable_x64(True):
        for given in ((x, y, a, b, s % 120, *rest), (x[:3], y[:3], a, b, jnp.array([0, 3, 100]), *rest)):
            for g in (rewritten(f, gain=None), tl.from_jax(f, *given, exact=True)):
                np.testing.assert_allclose(g(*given), f(*given), rtol=1e-5)


def test_a_column_is_read_of_a_mask_that_lengths_give() -> None:
    f = made(a_function("j < s[:, None]", "m[:, 3] + m[:, :4].sum(1) + m[2] + m[:, ::2].sum(1)"))
    x, y, a, b, _, *rest = jax_masks.data(20)
    given = (x, y, a, b, jnp.arange(20), *rest)
    with jax.enable_x64(True):
        for g in (rewritten(f, gain=None), tl.from_jax(f, *given, exact=True), tl.from_jax(f, *given)):
            np.testing.assert_allclose(jax.grad(g)(*given), jax.grad(f)(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("result", ["jax.nn.softmax(m, 1) @ x"])
def test_attention_to_neighbours_and_to_some_of_all_takes_no_work_for_each_pair(result: str) -> None:
    source = a_function("(abs(i - j) <= 2) | (j < 2) | (i < 2)", result, "-jnp.inf")
    takes_no_work_for_each_pair(source)
    has_the_gradients_of_jax(source, 1, 2, 23)


@pytest.mark.slow
@pytest.mark.parametrize("mask", jax_masks.THIN + jax_masks.OTHERS)
def test_each_mask_has_the_gradients_of_jax(mask: str) -> None:
    has_the_gradients_of_jax(a_function(mask), 1, 2, 3, 23)
    has_the_gradients_of_jax(a_function(f"({mask}) | (i == j)", "jax.nn.softmax(m, 1)[a, b]", "-jnp.inf"), 1, 23)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_masks_have_the_gradients_of_jax(seed: int) -> None:
    has_the_gradients_of_jax(jax_masks.any_mask(random.Random(seed)), 1, 2, 7, 23)


FOR_EACH_PAIR = {5, 9, 12, 34, 45}
"""Seeds of functions of few pairs whose gradients look at all pairs at these sizes, or take too long to derive (12)."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_few_pairs_take_no_work_for_all(seed: int) -> None:
    source = jax_masks.thin(random.Random(seed))
    has_the_gradients_of_jax(source, 1, 9)
    if seed not in FOR_EACH_PAIR:
        takes_no_work_for_each_pair(source)


@pytest.mark.parametrize("mask", ["(j <= i) & (i - j < 8)", "j == a[:, None]"])
@pytest.mark.parametrize("fill", ["-1e9", "-jnp.inf"])
def test_attention_may_hide_by_large_negative_numbers(mask: str, fill: str) -> None:
    source = a_function(mask, "jax.nn.softmax(m, 1) @ x", fill)
    takes_no_work_for_each_pair(source)
    has_the_gradients_of_jax(source, 1, 2, 23)


BLOCKS = [
    "i // 8 == j // 8",
    "(i // 8 == j // 8) & (j <= i)",
    "(i // 8 == j // 8) | (i // 8 - 1 == j // 8)",
    "abs(i // 8 - j // 8) <= 1",
]


@pytest.mark.parametrize("mask", BLOCKS)
@pytest.mark.parametrize("result", ["jax.nn.softmax(m, 1) @ x", "jax.nn.logsumexp(m, 1)", "m.max(1)"])
def test_attention_within_blocks_may_hide_by_large_negative_numbers(mask: str, result: str) -> None:
    source = a_function(mask, result, "-1e9")
    takes_no_work_for_each_pair(source)
    has_the_gradients_of_jax(source, 1, 2, 23)


@pytest.mark.parametrize("result", ["m.max(1)", "jax.nn.logsumexp(m, 1)", "jnp.cos(m) @ x"])
def test_what_is_the_same_beside_a_diagonal_takes_no_work_for_each_pair(result: str) -> None:
    source = a_function("i == j", result, "x[:, None]")
    takes_no_work_for_each_pair(source)
    has_the_gradients_of_jax(source, 1, 2, 23)


FILLED_FOR_EACH_PAIR = {0, 6, 16, 23}
"""Seeds of functions of filled arrays whose gradients look at all pairs."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_fills_take_no_work_for_all(seed: int) -> None:
    source = jax_masks.filled(random.Random(seed))
    has_the_gradients_of_jax(source, 1, 7, 23)
    if seed not in FILLED_FOR_EACH_PAIR:
        takes_no_work_for_each_pair(source)
