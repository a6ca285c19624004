"""Sums over the same range that don't depend on one another: one loop adds them up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tensorlang import adjoint
from tensorlang.language.evaluate import evaluate
from tensorlang.lowering import costs
from tensorlang.lowering.lower import lower
from tensorlang.lowering.plan.ir import FusedSums
from tensorlang.measure.count import count
from tensorlang.surface.parse import parse
from tests.support.operations import count_of

MOMENTS = """
  moments(x: [n]R, y: [n]R) =
    let a = sum i:n. x[i] in
    let b = sum i:n. y[i] in
    let c = sum i:n. x[i] * y[i] in
    let d = exp(-0.1 * sum i:n. x[i]^2) + 0.1 * a in
    let e = sum i:n. sin(d * x[i]) in
    let f = sum i:n. x[i] * cos(d * y[i]) in
    let g = (sum i:n. tanh(d * y[i])) * (sum i:n. sigmoid(d * x[i])) in
    gen k:4. [k = 0] * (a + b) + [k = 1] * (c + d * e) + [k = 2] * f * g + [k = 3] * sin(g)
"""


def test_sums_that_need_no_others_are_one_loop() -> None:
    made = lower(parse(MOMENTS))
    order = [[x.name for x in step.variables] for step in made.plan.steps]
    first, second = (k for k, step in enumerate(made.plan.steps) if isinstance(step, FusedSums))
    assert first < order.index(["d"]) < second
    assert order[first] == ["a", "b", "c", "d_part"] and order[second] == ["e", "f", "g_part", "g_part"]
    assert count_of(made, "_sums") == 2


def test_few_sums_are_left_alone() -> None:
    three = "f(x: [n]R) = (sum i:n. x[i]) * (sum i:n. x[i]^2) * (sum i:n. exp(x[i]))"
    assert not count_of(lower(parse(three)), "_sums")
    apart = "f(x: [n]R, y: [m]R) = (sum i:n. x[i]) * (sum i:n. x[i]^2) * (sum i:m. y[i]) * (sum i:m. exp(y[i]))"
    assert not count_of(lower(parse(apart)), "_sums")


@pytest.mark.parametrize("n", [0, 1, 5, 40])
@pytest.mark.parametrize("most", [0, 2**14])
def test_joint_sums_are_those_of_each(n: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(costs.COSTS, "joint_sums", most)
    f = parse(MOMENTS)
    rng = np.random.default_rng(n)
    x, y, z = rng.normal(size=n), rng.normal(size=n), rng.normal(size=4)
    np.testing.assert_allclose(lower(f)(x, y), np.asarray(evaluate(f, x, y), float), rtol=2e-4, atol=1e-4)
    g = adjoint(f)
    for found, wanted in zip(lower(g)(x, y, z), evaluate(g, x, y, z), strict=True):
        np.testing.assert_allclose(found, np.asarray(wanted, float), rtol=1e-3, atol=1e-3)


def test_joint_sums_can_be_mapped_and_differentiated_by_jax() -> None:
    f = lower(parse(MOMENTS))
    x, y = (np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(
        jax.vmap(f)(x, y), jnp.stack([f(a, b) for a, b in zip(x, y, strict=True)]), rtol=1e-4, atol=1e-4
    )
    gradient = jax.grad(lambda a: jnp.sum(f(a, y[0])))(x[0])
    tangent = jax.jvp(lambda a: f(a, y[0]), (x[0],), (y[1],))[1]
    step = 1e-3
    wanted = (f(x[0] + step * y[1], y[0]) - f(x[0] - step * y[1], y[0])) / (2 * step)
    np.testing.assert_allclose(tangent, wanted, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(gradient @ y[1], jnp.sum(tangent), rtol=1e-3, atol=1e-3)


def test_a_sum_in_one_loop_takes_the_operations_of_each() -> None:
    f, n = lower(parse(MOMENTS)), 1000
    x = jnp.ones(n)
    assert count(f, x, x).arithmetic <= 40 * n


def test_joint_sums_of_the_parts_of_a_pair() -> None:
    sums = "(sum i:n. fst(p)[i]) * (sum i:n. snd(p)[i]) * (sum i:n. fst(p)[i]^2) * (sum i:n. exp(snd(p)[i]))"
    f = parse(f"f(p: ([n]R, [n]R)) = let s = {sums} in (s, s^2)")
    assert count_of(lower(f), "_sums")
    x, y = np.arange(1.0, 4), np.array([0.1, -0.2, 0.3])
    expected = x.sum() * y.sum() * (x**2).sum() * np.exp(y).sum()
    np.testing.assert_allclose(lower(f)((x, y)), (expected, expected**2), rtol=1e-5)
