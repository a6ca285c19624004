"""States of which only a part is kept over time, and states that are kept whole."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import benchmarks.through_time as benchmark
import tensorlang as tl
from tensorlang.language.types import shape
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Turn
from tests.lowering.test_in_step import bytes_needed, given

HEAD = "f(A: [n][n]R, u: [T]R) = let H = {} t:T with S = A. gen i:n, j:n. sin(S[i, j] + u[t] * S[j, i]) in "
PARTS = {
    "a column at each time": ("scan", "gen t:T, i:n. [t < n] * H[t, i, t]", 2),
    "a row before each step, from the end": ("prescan", "gen t:T, i:n. [t < n] * H[t, n - 1 - t, i]", 2),
    "the diagonal's next element": ("prescan", "gen t:T. [t + 1 < n] * H[t, t + 1, t]", 1),
    "a fixed row, which may not be there": ("scan", "sum t:T, i:n. [2 < n] * H[t, 2, i] * H[t, 2, i]", 2),
    "a column, backwards": ("scan", "gen t:T, i:n. [t < n] * H[T - 1 - t, i, t]", 2),
    "read in the steps of another one": (
        "prescan",
        "fold t:T with r = gen i:n. 0. gen i:n. cos(r[i]) + [t < n] * H[T - 1 - t, i, t]",
        2,
    ),
    "read there and outside": (
        "scan",
        "let r = fold t:T with r = gen i:n. 0. gen i:n. cos(r[i]) + [t < n] * H[t, i, t] in "
        "gen t:T, i:n. r[i] * [t < n] * H[t, i, t]",
        2,
    ),
    "two columns": ("scan", "gen t:T, i:n. [t + 1 < n] * (H[t, i, t] + H[t, i, t + 1])", 2),
    "each second column": ("scan", "gen t:T, i:n. [2 * t < n] * H[t, i, 2 * t]", 2),
    "a row and a column": ("scan", "gen t:T, i:n. [t < n] * (H[t, i, t] + H[t, t, i])", 2),
}
WHOLE = {
    "the result itself": ("scan", "(gen t:T, i:n. [t < n] * H[t, i, t], H)", 3),
    "a column that something else says": ("scan", "gen t:T, i:n, l:n. H[t, i, l]", 3),
}


def kept(f: tl.Function) -> list[int]:
    """The ranks of the arrays over time that recurrences output and other statements read."""
    turns = [part for part in staged(tl.simplify(f)).parts if isinstance(part, Turn)]
    found = {v for turn in turns for v, _, word in turn.gives if word != "fold" and v in turn.stored}
    found |= {v for turn in turns for v in turn.local}
    found |= {v for turn in turns if turn.rest is not None for v in turn.rest.windows}
    return sorted({len(shape(v.type)[0]) for v in found})


@pytest.mark.parametrize("name", {**PARTS, **WHOLE})
def test_what_is_kept_of_states_is_the_part_that_is_read(name: str) -> None:
    word, body, rank = {**PARTS, **WHOLE}[name]
    f = tl.parse(HEAD.format(word) + body)
    assert kept(f) == [rank]
    run = tl.lower(f)
    with jax.enable_x64(True):
        for steps, n in ((0, 3), (1, 1), (3, 3), (4, 2), (2, 5), (7, 3), (3, 0)):
            x = given(f, {"T": steps, "n": n})
            for ours, wanted in zip(jax.tree.leaves(run(*x)), jax.tree.leaves(tl.evaluate(f, *x)), strict=True):
                np.testing.assert_allclose(ours, wanted, rtol=1e-12)


def test_steps_with_a_recurrence_carry_the_states_that_they_read() -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == "soft edit distance")
    parts = staged(tl.simplify(tl.grad(tl.parse(program.text)))).parts
    carried = [(part.carried, len(part.inits)) for part in parts if isinstance(part, Turn)]
    assert [places for places, _ in carried] == [(0,), (0,)]
    assert all(count > 4 for _, count in carried)


@pytest.mark.slow
def test_an_adjoint_of_an_elimination_keeps_the_columns_that_it_reads() -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == "Cholesky")
    f = tl.parse(program.text)
    g = tl.grad(f)
    assert str(tl.memory_polynomial(g)) == "2*T^2 + 2*T"
    x = benchmark.arguments(f, {"T": 48})
    assert bytes_needed(tl.lower(g), *x) < bytes_needed(jax.grad(program.jax), *x) / 4


@pytest.mark.slow
def test_an_adjoint_keeps_a_row_and_a_column_where_it_reads_both() -> None:
    f = tl.parse("""
      det(A: [n][n]R) =
        let U = fold k:n with B = A. gen i:n, j:n. B[i, j] - [k < i] * B[i, k] * B[k, j] / B[k, k] in
        fold k:n with p = 1. p * U[k, k]
    """)
    g = tl.grad(f)
    assert str(tl.memory_polynomial(g)) == "3*n^2 + 2*n + window"
    run = tl.lower(g)
    with jax.enable_x64(True):
        for n in (0, 1, 2, 5):
            A = np.random.default_rng(n).normal(size=(n, n))
            np.testing.assert_allclose(run(A), jax.grad(jnp.linalg.det)(A) if n else A, rtol=1e-8)


@pytest.mark.slow
def test_a_gradient_of_an_elimination_is_right_again_differentiated_for_many_and_however_stored() -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == "Cholesky")
    f = tl.parse(program.text)
    theirs = jax.grad(program.jax)
    with jax.enable_x64(True):
        for store in ("needed", "states", "sqrt", "log"):
            run = tl.lower(tl.grad(f), store=store)
            assert run(jnp.zeros((0, 0))).shape == (0, 0)
            for steps in (1, 2, 5):
                (x,) = (jnp.asarray(y, float) for y in benchmark.arguments(f, {"T": steps}))
                np.testing.assert_allclose(run(x), theirs(x), rtol=1e-9, atol=1e-12)
        run = tl.lower(tl.grad(f))
        many = jnp.stack([x, 2 * x])
        np.testing.assert_allclose(jax.vmap(run)(many), jax.vmap(theirs)(many), rtol=1e-9, atol=1e-12)
        again = [jax.grad(lambda x, h=h: jnp.sum(jnp.sin(h(x))))(x) for h in (run, theirs)]
        np.testing.assert_allclose(*again, rtol=1e-9, atol=1e-12)
