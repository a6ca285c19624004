"""JAX functions that compare each element of an array with each element of another: by ranks, without all pairs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.sampling import one_in
from tests.support.traced import work


def cox(risk: Any, time: Any, event: Any) -> Any:
    at_risk = time[None, :] >= time[:, None]
    return -jnp.sum(event * (risk - jax.nn.logsumexp(jnp.where(at_risk, risk, -jnp.inf), axis=1)))


def cox_by_a_product(risk: Any, time: Any, event: Any) -> Any:
    at_risk = (time[:, None] <= time[None, :]).astype(risk.dtype)
    return -jnp.sum(event * (risk - jnp.log(at_risk @ jnp.exp(risk))))


def cox_of_a_table(risk: Any, time: Any, event: Any) -> Any:
    data = jnp.stack([time, event], 1)
    there = data[:, 0][None, :] >= data[:, 0][:, None]
    return -jnp.sum(data[:, 1] * (risk - jnp.log(jnp.sum(jnp.where(there, jnp.exp(risk)[None, :], 0), 1))))


def in_strata(risk: Any, time: Any, label: Any) -> Any:
    there = (time[:, None] <= time[None, :]) & (label[:, None] == label[None, :])
    return jnp.sum(jax.nn.logsumexp(jnp.where(there, risk[None, :], -jnp.inf), axis=1))


def margins(x: Any, label: Any) -> Any:
    return jnp.sum(jnp.where(label[:, None] > label[None, :], x[:, None] - x[None, :], 0) * x[None, :])


def same_label(x: Any, label: Any) -> Any:
    return jnp.sum(jnp.sin(jnp.sum(jnp.where(label[:, None] == label[None, :], x[None, :], 0), 1)))


def differences(x: Any) -> Any:
    return jnp.sum(jnp.where(x[:, None] < x[None, :], x[None, :] - x[:, None], 0))


def of_scaled(x: Any, time: Any) -> Any:
    late = 2 * time + 1
    return jnp.sum(jnp.log(jnp.sum(jnp.where(late[:, None] <= late[None, :], jnp.exp(x)[None, :], 0), 1)))


def two_samples(x: Any, time: Any, other: Any) -> Any:
    return jnp.sum(jnp.sin(jnp.sum(jnp.where(time[:, None] < other[None, :], x[: other.shape[0]], 0), 1)))


FUNCTIONS: dict[Callable[..., Any], str] = {
    cox: "x time event",
    cox_by_a_product: "x time event",
    in_strata: "x time label",
    cox_of_a_table: "x time event",
    margins: "x label",
    same_label: "x label",
    differences: "x",
    of_scaled: "x time",
    two_samples: "x time half",
}


def arguments(what: str, n: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = {
        "x": lambda: rng.normal(size=n),
        "time": lambda: np.round(rng.exponential(size=n), 2),
        "half": lambda: np.round(rng.exponential(size=n // 2), 2),
        "event": lambda: rng.integers(0, 2, n).astype(float),
        "label": lambda: rng.integers(0, 5, n).astype(np.int32),
    }
    return [jnp.asarray(made[kind]()) for kind in what.split()]


@pytest.mark.parametrize("f", one_in(4, FUNCTIONS))
def test_gradients_are_jaxs_and_take_no_work_for_each_pair(f: Callable[..., Any]) -> None:
    with jax.enable_x64(True):
        for n in (1, 2, 37, 60):
            given = arguments(FUNCTIONS[f], n)
            program = tl.from_jax(f, *given)
            ours = jax.grad(lambda *xs, program=program: program(*xs))(*given)
            np.testing.assert_allclose(ours, jax.grad(f)(*given), rtol=1e-9, atol=1e-9)
        given = arguments(FUNCTIONS[f], 6001)
        assert "derived: a tensor program" in str(tl.jax.explain(f, *given))
        ours, theirs = (jax.jit(gradient(f))(*given) for gradient in (tl.jax.grad, jax.grad))
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9 * np.abs(theirs).max())
    elements = [work(tl.jax.grad(f), *arguments(FUNCTIONS[f], n)).elements for n in (6001, 12001)]
    assert elements[1] <= 2.3 * elements[0], elements


def energy(x: Any, y: Any) -> Any:
    between, within = jnp.abs(x[:, None] - y[None, :]), jnp.abs(x[:, None] - x[None, :])
    return 2 * jnp.mean(between) - jnp.mean(within)


def hinge(x: Any, y: Any) -> Any:
    return jnp.mean(jnp.maximum(0, 1 + y[None, :] - x[:, None]))


def hinge_by_relu(x: Any, y: Any) -> Any:
    return jnp.sum(jax.nn.relu(x[None, :] - x[:, None]) * y[None, :])


def least(x: Any, y: Any) -> Any:
    return jnp.sum(jnp.sin(jnp.sum(jnp.minimum(y[None, :] - x[:, None], 0.0) * y[None, :], 1)))


def mixed(x: Any, y: Any) -> Any:
    return jnp.sum(jnp.sin(jnp.sum(jnp.abs(x[:, None] - 2 * x[None, :]) * y[None, :], 1)))


@pytest.mark.parametrize("f", one_in(4, [energy, hinge, hinge_by_relu, least, mixed]))
@pytest.mark.parametrize("digits", [1, 9])
def test_functions_of_signs_have_jaxs_gradients_where_there_are_ties_too(f: Callable[..., Any], digits: int) -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, y = (jnp.asarray(np.round(rng.normal(size=2001), digits)) for _ in range(2))
        assert "derived: a tensor program" in str(tl.jax.explain(f, x, y))
        for k in (0, 1):
            ours, theirs = (jax.jit(gradient(f, k))(x, y) for gradient in (tl.jax.grad, jax.grad))
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10 * np.abs(theirs).max())
    large = [jnp.asarray(rng.normal(size=n), jnp.float32) for n in (2001, 4001)]
    elements = [work(tl.jax.grad(f), x, x).elements for x in large]
    assert elements[1] <= 2.3 * elements[0], elements


def test_infinite_times_zeros_of_both_signs_and_ties() -> None:
    with jax.enable_x64(True):
        for times in ([np.inf, -np.inf, 1.0, 1.0] * 20, [0.0, -0.0] * 40, [3.0] * 80):
            risk, _, event = arguments("x time event", 80)
            given = risk, jnp.asarray(times), event
            program = tl.from_jax(cox, *given)
            np.testing.assert_allclose(
                jax.grad(lambda *xs, program=program: program(*xs))(*given), jax.grad(cox)(*given), rtol=1e-9
            )


def test_for_named_sizes_the_program_has_ranks() -> None:
    program = tl.from_jax(cox, "n", "n", "n")
    assert "rank: [n]idx(n)" in str(program.function)
    assert "no number that is compared is nan" in program.assumptions


def test_hessians_and_batches() -> None:
    with jax.enable_x64(True):
        risk, time, event = arguments("x time event", 40)
        program = tl.from_jax(cox, risk, time, event)
        ours, theirs = (lambda r, f=f: f(r, time, event) for f in (program, cox))
        np.testing.assert_allclose(jax.hessian(ours)(risk), jax.hessian(theirs)(risk), rtol=1e-8, atol=1e-10)
        batch = jnp.stack([risk, -risk]), jnp.stack([time, time[::-1]])
        by_row = [jax.vmap(jax.grad(lambda r, t, f=f: f(r, t, event)))(*batch) for f in (program, cox)]
        np.testing.assert_allclose(*by_row, rtol=1e-9, atol=1e-12)


def test_a_batch_of_gradients_takes_no_work_for_each_pair() -> None:
    with jax.enable_x64(True):
        n = 2500
        risk, time, event = arguments("x time event", n)
        batch = jnp.stack([risk, -risk]), jnp.stack([time, time[::-1]])
        mapped = lambda g: jax.vmap(lambda r, t: g(cox)(r, t, event))
        ours, theirs = (jax.jit(mapped(g))(*batch) for g in (tl.jax.grad, jax.grad))
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
        shared = jax.vmap(lambda r: tl.jax.grad(cox)(r, time, event))(batch[0])
        np.testing.assert_allclose(shared[0], ours[0], rtol=1e-8, atol=1e-10)
        assert work(mapped(tl.jax.grad), *batch).elements < n * n
        program = tl.from_jax(cox, "n", "n", "n")
        by_jax = jax.grad(lambda r: jnp.sum(jax.vmap(lambda r, t: program(r, t, event))(r, batch[1])))(batch[0])
        np.testing.assert_allclose(by_jax, theirs, rtol=1e-8, atol=1e-10)


COMPARED = ("a[:, None] <= a[None]", "a[:, None] > a[None]", "k[:, None] == k[None]", "k[:, None] >= k[None]",
            "a[None] < b[:, None]", "b[:, None] <= b[None]")  # fmt: skip
VALUES = (
    "x[None]",
    "jnp.exp(x)[None]",
    "x[:, None] * y[None]",
    "jnp.exp(x[None] - y[:, None])",
    "x[None] - x[:, None]",
)


@pytest.mark.parametrize("seed", one_in(8, range(40)))
def test_random_sums_under_comparisons(seed: int) -> None:
    rng = random.Random(seed)
    where = " & ".join(f"({c})" for c in rng.sample(COMPARED, rng.randint(1, 2)))
    body = f"jnp.where({where}, {rng.choice(VALUES)}, 0).sum({rng.randint(0, 1)})"
    f = eval(f"lambda x, y, a, b, k: jnp.sum(jnp.sin({body}) * y)", {"jnp": jnp})
    with jax.enable_x64(True):
        for n in (1, 40, 53):
            given = arguments("x x time time label", n, seed)
            program = tl.from_jax(f, *given)
            for k in (0, 1):
                ours, theirs = (jax.grad(g, k)(*given) for g in (lambda *xs, p=program: p(*xs), f))
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=body)
