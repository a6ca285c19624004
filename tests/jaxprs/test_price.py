"""Regions are left to JAX early where that is known to be better, and priced by the operations of their code."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.jaxprs import regions
from tensorlang.jaxprs.dense import dense_work
from tensorlang.jaxprs.flatten import flatten, needed
from tensorlang.jaxprs.importer import translate
from tensorlang.jaxprs.price import derived_work, gradient_work
from tensorlang.jaxprs.rewrite import plan


def normal(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


def planned(fun: Any, *args: Any) -> Any:
    return plan(jax.make_jaxpr(fun)(*args), [True] * len(args))


def depthwise(x: Any, w: Any) -> Any:
    lines = ("NHC", "HIO", "NHC")
    found = jax.lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=lines, feature_group_count=x.shape[2])
    return jnp.sum(jnp.sin(found))


def triangles(a: Any, v: Any, w: Any) -> Any:
    upper, lower = jnp.triu(a), jnp.tril(jnp.eye(a.shape[0]) + jnp.tril(a, -1))
    sizes = jnp.sum(jnp.log(jnp.abs(jnp.diag(upper)))) + jnp.sum(jnp.log(jnp.abs(jnp.diag(lower))))
    return jnp.sum(jnp.sin(lower @ (upper @ v) + w)) + jnp.sin(sizes)


def test_convolutions_of_few_channels_are_left_to_jax_before_there_is_a_program() -> None:
    (region,) = planned(depthwise, normal(4, 128, 8), normal(5, 1, 8)).partition.regions
    assert region.program is None and region.why is not None and "products" in region.why


@pytest.mark.slow
def test_convolutions_of_many_channels_are_derived() -> None:
    x, w = normal(4, 64, 64), normal(5, 1, 64)
    assert planned(depthwise, x, w).kept
    got, want = (jax.jit(grad(depthwise, (0, 1)))(x, w) for grad in (tl.jax.grad, jax.grad))
    for g, e in zip(got, want, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-3)


def test_what_takes_too_long_to_derive_is_left_to_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    def window(q: Any, k: Any) -> Any:
        apart = jnp.arange(q.shape[0])[:, None] - jnp.arange(q.shape[0])[None]
        return jnp.sum(jnp.where((apart >= 0) & (apart < 5), q @ k.T, 0.0) ** 2)

    tl.clear_caches()
    assert planned(window, normal(96, 24), normal(96, 24)).kept
    tl.clear_caches()
    monkeypatch.setattr(regions, "STEPS", 10)
    monkeypatch.setattr(regions, "FIRST_STEPS", 10)
    monkeypatch.setattr(regions, "OPERATIONS", 10**9)
    monkeypatch.setattr(regions, "OUTSIDE_PRODUCTS", 10**9)
    (region,) = planned(window, normal(96, 24), normal(96, 24)).partition.regions
    assert region.why == "it would take longer to derive than is soon paid back at these sizes"
    tl.clear_caches()


def test_parts_that_save_little_of_the_whole_are_left_to_jax() -> None:
    def part(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.sin(jnp.diag(x) @ y))

    def whole(x: Any, y: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            return (jnp.sin(s[0]), 1 - s[1]), None  # not a counter: the loop stays

        return part(x, y) + jax.lax.scan(step, (x, 0), length=100_000)[0][0][0]

    assert planned(part, normal(64), normal(64, 64)).kept
    assert not planned(whole, normal(64), normal(64, 64)).kept


def test_triangles_are_derived_where_the_code_saves_what_the_program_does() -> None:
    """At small sizes the code computes everything under the masks, as JAX does; at large ones blocks of the
    triangle."""
    small, large = (planned(triangles, normal(n, n), normal(n), normal(n)) for n in (128, 2048))
    assert not small.kept
    assert large.kept


@pytest.mark.parametrize(
    ("fun", "dense"),
    [
        (lambda x, y: jnp.sum(jnp.sin(x @ y)), True),
        (lambda x, y: jnp.sum(jnp.tanh(jnp.tanh(x @ y) @ y)), True),
        (lambda x, y: jnp.sum(x @ y), False),
        (lambda x, y: jnp.sum(jnp.sin(x @ y @ y)), True),
        (lambda x, y: jnp.sum(x @ y @ y), False),
        (lambda x, y: jnp.trace(x @ y), False),
        (lambda x, y: jnp.sum(jnp.sin(jnp.tril(x) @ y)), False),
        (lambda x, y: jnp.sum(jnp.sin((x @ y)[:2])), False),
        (lambda x, y: jnp.sum(x[0][:, None] * y[0][None]), False),
        (lambda x, y: jnp.sum(jnp.sin(jnp.broadcast_to(x[:1], y.shape))), False),
        (lambda x, y: jnp.sum((x[:1] * x[:, :1]) @ y), False),
        (lambda x, y: jnp.sum(jnp.sin(jax.nn.softmax(x @ y) @ y)), True),
        (lambda x, y: jnp.sum(jnp.sin((x / x[:, :1] - x[:1]) @ y)), True),
        (lambda x, y: jnp.sum(jnp.sin(jnp.sum(x / x[:, :1], axis=1))), False),
        (lambda x, y: jnp.sum(jnp.sin(jnp.pad(x, ((0, 1), (0, 0))) @ y)), True),
        (lambda x, y: jnp.sum(jnp.sin(jnp.pad(x, ((0, 6), (0, 0))) @ y)), False),
        (lambda x, y: jnp.sum(jnp.sin(jax.lax.pad(x, 0.0, ((-1, 1, 0), (0, 0, 0))) @ y)), False),
    ],
)
def test_equations_are_dense_where_no_law_saves_anything(fun: Any, dense: bool) -> None:
    flat = flatten(jax.make_jaxpr(fun)(normal(6, 6), normal(6, 6)), lambda equation: False)
    assert (dense_work(flat, flat.inputs) is not None) is dense


def test_scaling_that_a_law_takes_out_of_a_product_is_none_of_its_work() -> None:
    def work_of(fun: Any) -> int | None:
        flat = flatten(jax.make_jaxpr(fun)(normal(6, 6), normal(6, 6)), lambda equation: False)
        return dense_work(flat, flat.inputs)

    assert work_of(lambda x, y: jnp.sum(jnp.sin((x / 2 * y[:, :1]) @ y))) == work_of(
        lambda x, y: jnp.sum(jnp.sin((x / 2) @ y))
    )


def test_of_products_of_products_the_last_sums_over_one_of_their_indices() -> None:
    def work_of(fun: Any) -> int | None:
        flat = flatten(jax.make_jaxpr(fun)(normal(6, 6), normal(6, 2)), lambda equation: False)
        return dense_work(flat, flat.inputs)

    one = work_of(lambda x, y: jnp.sum(jnp.sin(x @ x)))
    assert work_of(lambda x, y: jnp.sum(jnp.sin(x @ x @ x))) == one
    narrow = work_of(lambda x, y: jnp.sum(jnp.sin(y @ y.T)))
    assert work_of(lambda x, y: jnp.sum(jnp.sin(y @ y.T @ x))) == narrow
    assert narrow is not None and one is not None and narrow < one


def layers(rng: random.Random) -> tuple[Any, list[Any]]:
    """Random products, functions of numbers and reductions of given matrices, and their arguments."""
    functions = [
        jnp.sin,
        jnp.tanh,
        lambda a: a**2,
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: jnp.concatenate([a, -a]),
        lambda a: jax.nn.softmax(a, axis=a.ndim - 1),
        lambda a: a - jnp.max(a, axis=0, keepdims=True),
        lambda a: jnp.pad(a, ((1, 0), (0, 0))[: a.ndim]),
    ]
    reductions = [jnp.sum, jnp.max, lambda a, axis: jnp.sum(a**2, axis)]
    n = rng.randint(6, 20)
    plans = [(rng.randrange(4), rng.random(), rng.random(), rng.random()) for _ in range(rng.randint(2, 6))]

    def run(*given: Any) -> Any:
        arrays = list(given)
        for kind, which, one, other in plans:
            a = arrays[int(one * len(arrays))]
            others = [b for b in arrays if b is not a and b.shape == a.shape]
            if kind == 0 and others:
                b = others[int(other * len(others))]
                arrays.append([a @ b.T, a.T @ b][int(which * 2)] if a.ndim == 2 else a * b)
            elif kind == 1 and others:
                arrays.append([jnp.add, jnp.multiply, jnp.maximum][int(which * 3)](a, others[int(other * len(others))]))
            elif kind == 2 and a.ndim == 2:
                arrays.append(reductions[int(which * len(reductions))](a, axis=int(other * 2)))
            else:
                arrays.append(functions[int(which * len(functions))](a))
        return sum(jnp.sum(jnp.sin(a)) for a in arrays[-2:])

    return run, [normal(n, n + 1) + k for k in range(3)]


@pytest.mark.slow
def test_gradients_of_dense_equations_are_no_cheaper_when_derived() -> None:
    rng = random.Random(0)
    seen = 0
    while seen < 40:
        fun, args = layers(rng)
        flat = flatten(jax.make_jaxpr(fun)(*args), lambda equation: False)
        flat.equations = needed(flat.equations, flat.outputs)
        if dense_work(flat, flat.inputs) is not None and any(e.primitive.name == "dot_general" for e in flat.equations):
            seen += 1
            program = translate(flat, "dense", {v: f"x{k}" for k, v in enumerate(flat.inputs)}, exact=True)
            traffic = regions.traffic_of(flat, flat.inputs)
            theirs = regions.weighed(gradient_work(flat, flat.inputs)) + traffic
            assert theirs < regions.GAIN * derived_work(program, flat.inputs)
