"""Outer products that steps make themselves, and those that stay arrays over time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import benchmarks.through_time as benchmark
import tensorlang as tl
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.plan.recurrences import staged, thinner
from tensorlang.lowering.plan.stages import Stage, Turn
from tensorlang.measure.count import count
from tensorlang.normal import function_of, normal_ssa

BACKWARDS = """
f(p: [T][n]R, q: [T][m]R, a: R) = let x = gen t:T, i:n, j:m. p[t, i] * q[t, j] in
    fold t:T with s = gen i:n, j:m. 0. gen i:n, j:m.
        a * s[i, j] + sin(x[T - 1 - t, i, j] * s[i, j] + x[T - 1 - t, i, j])
"""
FIRST = """
f(p: [T][n]R, q: [T][n]R) = let y = gen t:T, i:n. sin(p[t, i]) in let x = gen i:n, t:T, j:n. y[t, i] * q[t, j] in
    fold t:T with s = gen i:n, j:n. [0 < T] * x[i, 0, j]. gen i:n, j:n. s[i, j] * s[j, i] + [t + 1 < T] * x[i, t + 1, j]
"""
STAYING = {
    "read at two places": "fold t:T with s = gen i:n, j:n. 0. gen i:n, j:n. "
    "sin(s[i, j]) + x[t, i, j] * s[j, i] + [0 < t] * x[t - 1, i, j]",
    "read at half of the times twice": "fold t:2 * T with s = gen i:n, j:n. 0. gen i:n, j:n. sin(s[i, j]) + [t < T] * "
    "x[t, i, j] + [T <= t] * x[t - T, i, j]",
    "read by the result": "let s = fold t:T with s = gen i:n, j:n. 0. gen i:n, j:n. sin(s[i, j]) + x[t, i, j] in "
    "(s, x)",
    "read at all times": "let s = fold t:T with s = gen i:n, j:n. 0. gen i:n, j:n. sin(s[i, j]) + x[t, i, j] in "
    "gen i:n. s[i, i] + (sum t:T. sin(x[t, i, i]))",
    "the first state reads what a step does": "fold t:T with s = gen i:n, j:n. [0 < T] * x[0, i, j]. gen i:n, j:n. "
    "sin(s[i, j]) + x[t, i, j]",
    "read by two recurrences": "let s = fold t:T with s = gen i:n, j:n. 0. gen i:n, j:n. sin(s[i, j]) + x[t, i, j] in "
    "fold t:T with r = s. gen i:n, j:n. cos(r[i, j]) + x[t, i, j]",
}
SAME = "f(p: [T][n]R, q: [T][n]R) = let x = gen t:T, i:n, j:n. p[t, i] * q[t, j] in "


def made(f: tl.Function, rank: int = 3) -> list[str]:
    """The arrays of this rank that stages pass on."""
    parts = staged(tl.simplify(f)).parts
    names = [v for part in parts if isinstance(part, Stage) for v in part.gives]
    names += [v for part in parts if isinstance(part, Turn) and part.rest is not None for v in part.rest.rows]
    return [v.name for v in names if isinstance(v, Var) and len(shape(v.type)[0]) == rank]


def given(f: tl.Function, sizes: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=[a.value({s: sizes[s.name] for s in a.sizes}) for a in shape(p.type)[0]]) for p in f.variables
    ]


@pytest.mark.parametrize("text", [BACKWARDS, FIRST], ids=["backwards", "first"])
def test_an_outer_product_that_a_recurrence_alone_reads_is_made_in_its_steps(text: str) -> None:
    f = tl.parse(text)
    assert not made(f)
    for steps, n, m in ((0, 2, 3), (1, 1, 1), (1, 2, 3), (2, 3, 1), (5, 0, 2), (6, 3, 2)):
        x = given(f, {"T": steps, "n": n, "m": m})
        with jax.enable_x64(True):
            np.testing.assert_allclose(tl.lower(f)(*x), tl.evaluate(f, *x), rtol=1e-12)


@pytest.mark.parametrize("name", STAYING)
def test_what_steps_would_make_twice_stays_an_array(name: str) -> None:
    f = tl.parse(SAME + STAYING[name])
    assert made(f) == ["x"]
    x = given(f, {"T": 4, "n": 3})
    with jax.enable_x64(True):
        for found, wanted in zip(jax.tree.leaves(tl.lower(f)(*x)), jax.tree.leaves(tl.evaluate(f, *x)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["backwards", "first", "linear attention", "state-space model", "Cholesky"])
def test_no_operation_is_counted_that_was_not_there(name: str) -> None:
    texts = {"backwards": BACKWARDS, "first": FIRST}
    if name in texts:
        f = tl.parse(texts[name])
    else:
        f = tl.grad(tl.parse(next(p.text for p in benchmark.PROGRAMS if p.name == name)))
    before = normal_ssa(tl.simplify(f))
    after = thinner(before)
    assert after is not before
    costs = [tl.cost_polynomial(function_of(s)) for s in (before, after)]
    for steps, n, m in ((1, 1, 1), (1, 3, 2), (2, 1, 4), (5, 4, 3), (60, 7, 5)):
        was, now = (cost(**{s.name: {"T": steps, "n": n, "m": m}[s.name] for s in f.sizes}) for cost in costs)
        assert now <= was


def bytes_needed(run: Any, *x: Any) -> int:
    return int(jax.jit(run).lower(*x).compile().memory_analysis().temp_size_in_bytes)


@pytest.mark.parametrize("name", ["linear attention", "state-space model"])
def test_an_adjoint_keeps_no_more_than_that_of_jax(name: str) -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == name)
    f = tl.parse(program.text)
    g = tl.grad(f)
    steps, n = 100, 16
    x = benchmark.arguments(f, {"T": steps, "n": n, "m": 4})
    theirs = jax.grad(program.jax, tuple(range(len(x))))
    states = 4 * steps * n * (n if name == "linear attention" else 1)
    assert bytes_needed(tl.lower(g), *x) < min(1.1 * bytes_needed(theirs, *x), 2.5 * states)
    assert count(tl.lower(g), *x).operations < count(theirs, *x).operations


@pytest.mark.slow
def test_a_gradient_of_linear_attention_is_right_again_differentiated_and_for_many() -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == "linear attention")
    f = tl.parse(program.text)
    run, wrt = tl.lower(tl.grad(f)), (0, 1, 2, 3)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 1), (3, 1), (4, 3)):
            x = [jnp.asarray(y, float) for y in benchmark.arguments(f, {"T": steps, "n": n})]
            for ours, theirs in zip(run(*x), jax.grad(program.jax, wrt)(*x), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        many = [jnp.stack([y, 2 * y]) for y in x]
        for ours, theirs in zip(jax.vmap(run)(*many), jax.vmap(jax.grad(program.jax, wrt))(*many), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        total = [
            jax.grad(lambda *x, h=h: sum(jnp.sum(jnp.sin(y)) for y in h(*x)), wrt)
            for h in (run, jax.grad(program.jax, wrt))
        ]
        for ours, theirs in zip(total[0](*x), total[1](*x), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
