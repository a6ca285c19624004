"""Counting compiled programs: known programs, known counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax import lax

from tensorlang.errors import CountError
from tensorlang.measure.count import Count, count
from tensorlang.measure.hlo import read_module


def ones(*dims: int) -> jax.Array:
    return jnp.ones(dims)


def steps(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 10, lambda k, s: jnp.sin(s) * s[k] + x, x)


def nested(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 5, lambda _, s: steps(s), x)


def scanned(x: jax.Array) -> Any:
    return lax.scan(lambda s, v: (s * v + jnp.exp(v), s), jnp.float32(0), x)


def branches(x: jax.Array) -> jax.Array:
    return lax.cond(x[0] > 0, lambda x: x * x, lambda x: (x * x + 1) * (x + 2), x)


KNOWN: dict[str, tuple[Callable[..., Any], tuple[jax.Array, ...], int, int]] = {
    "product": (lambda a, b: a @ b, (ones(30, 20), ones(20, 10)), 2 * 30 * 20 * 10, 0),
    "large product": (lambda a, b: a @ b, (ones(300, 200), ones(200, 100)), 2 * 300 * 200 * 100, 0),
    "matrix times vector": (lambda a, x: a @ x, (ones(300, 200), ones(200)), 2 * 300 * 200, 0),
    "batched": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (ones(7, 30, 20), ones(7, 20, 10)), 84_000, 0),
    "elementwise": (lambda x: jnp.sin(x) * x + 1, (ones(100_003),), 2 * 100_003, 100_003),
    "sum of squares": (lambda x: jnp.sum(x * x), (ones(100_003),), 2 * 100_003 - 1, 0),
    "row sums": (lambda x: jnp.sum(x, 1), (ones(31, 40),), 31 * 39, 0),
    "column sums": (lambda x: jnp.sum(x, 0), (ones(31, 40),), 30 * 40, 0),
    "maximum": (lambda x: jnp.max(x, 1), (ones(31, 40),), 31 * 39, 0),
    "argmax": (lambda x: jnp.argmax(x, 1), (ones(31, 40),), 31 * 39, 0),
    "selection": (lambda x, y: jnp.where(x > 1, x, y).astype(jnp.float16), (ones(50), ones(50)), 0, 0),
    "indices": (lambda x: x[2 * jnp.arange(20) + 3], (ones(50),), 0, 0),
    "convolution": (lambda x, w: jnp.convolve(x, w, mode="valid"), (ones(1000), ones(10)), 2 * 991 * 10, 0),
    "channels": (
        lambda x, w: lax.conv(x, w, (1, 1), "VALID"),
        (ones(2, 3, 20, 20), ones(5, 3, 4, 4)),
        2 * (2 * 5 * 17 * 17) * (3 * 4 * 4),
        0,
    ),
    "window sums": (lambda x: lax.reduce_window(x, 0.0, lax.add, (5,), (1,), "VALID"), (ones(100),), 96 * 4, 0),
    "loop": (steps, (ones(50),), 10 * 2 * 50, 10 * 50),
    "loop in a loop": (nested, (ones(50),), 5 * 10 * 2 * 50, 5 * 10 * 50),
    "scan": (scanned, (ones(200),), 400, 200),
    "dearest branch": (branches, (ones(50),), 4 * 50, 0),
    "scatter": (lambda x, y: x.at[jnp.arange(20) // 2].add(y), (ones(50), ones(20)), 20, 0),
    "mapped": (lambda x: lax.map(jnp.dot(x, x).__mul__, x), (ones(50),), 3 * 50 - 1, 0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_programs_have_known_counts(name: str) -> None:
    fn, args, arithmetic, transcendental = KNOWN[name]
    found = count(fn, *args)
    assert (found.arithmetic, found.transcendental) == (arithmetic, transcendental)
    assert found.operations == arithmetic + transcendental


def test_what_a_fusion_does_not_read_is_not_computed() -> None:
    both = lambda x: (x * 2 + 1, jnp.sin(x))
    found = count(lambda x: [jnp.concatenate([p[10:20], p[50:55]]) for p in both(x)], ones(10_000))
    assert (found.arithmetic, found.transcendental) == (2 * 15, 15)


def test_fourier_transforms_cost_n_log_n() -> None:
    found = count(lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), ones(1024))
    assert found.arithmetic == 2 * 2.5 * 1024 * 10
    assert count(jnp.fft.fft, jnp.ones(1024, jnp.complex64)).arithmetic == 5 * 1024 * 10


def test_sorting_is_comparisons_and_no_arithmetic() -> None:
    found = count(jnp.argsort, ones(3, 1000))
    assert found.arithmetic == 0
    assert found.comparisons == 3000 * 10


def test_memory_is_what_xla_holds() -> None:
    found = count(lambda x: (x @ x) @ x, ones(100, 100))
    assert (found.inputs, found.outputs, found.temporaries) == (40_000, 40_000, 40_000)


def test_traffic_counts_slices_as_slices_and_loops_as_often_as_they_turn() -> None:
    assert count(lambda x: x[3:13] * 2, ones(10_000)).traffic <= 200
    assert count(lambda x: x * 2, ones(10_000)).traffic == 80_000
    updated = count(scanned, ones(1000)).traffic
    assert 1000 * 4 * 2 <= updated <= 1000 * 4 * 20


def test_arguments_that_cannot_be_traced_are_handed_on() -> None:
    matrix = scipy.sparse.csr_matrix(np.eye(5))
    assert count(lambda m, x: x * m.nnz, matrix, ones(7)).arithmetic == 7


def test_pairs_and_names_are_arguments_too() -> None:
    assert count(lambda p, *, c: p[0] * c + p[1], (ones(7), ones(7)), c=2.0) == Count(14, 0, 0, 88, 0, 60, 28)


def test_a_loop_that_runs_until_its_data_say_so_is_refused() -> None:
    with pytest.raises(CountError, match="loop"):
        count(lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: s * 2, x), ones(5))


def test_operations_of_libraries_are_refused() -> None:
    with pytest.raises(CountError, match="custom-call"):
        count(jnp.linalg.svd, ones(5, 5))


def test_text_that_is_no_module_is_refused() -> None:
    with pytest.raises(ValueError, match="no entry computation"):
        read_module("hello")


def test_a_state_that_steps_read_and_write_is_copied_at_each_step() -> None:
    def copied(steps: int, step: Callable[[Any, Any], Any]) -> int:
        return count(lambda x: lax.scan(step, x, jnp.arange(steps)), jnp.ones(1000)).copied

    both = lambda x, k: (x.at[k].set(jnp.sin(x[k])), x[k])
    assert copied(80, both) - copied(40, both) >= 40 * 1000
    written = lambda x, k: (x.at[k].add(1.0), None)
    assert copied(80, written) - copied(40, written) < 40 * 100
