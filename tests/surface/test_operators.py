"""Derivatives inside of programs: their values, what they may differentiate, and that nested ones are not confused."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.function import type_text
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.promises import close


def value(text: str, **given: Any) -> Any:
    return tl.evaluate(tl.parse(text), given)


@pytest.mark.parametrize("seed", range(30))
def test_the_adjoint_of_an_expression_is_that_of_the_program_whose_value_it_is(seed: int) -> None:
    rng = random.Random(seed)
    f = random_function(rng, scalars="exact", chooses=seed % 2 == 0, numbers=seed % 3 == 0, compares=seed % 5 == 0)
    if not f.variables:
        pytest.skip("nothing to differentiate by")
    adjoint = tl.adjoint(f)
    head, _, body = str(f).partition(") =")
    cotangent = type_text(adjoint.params[-1])
    names = ", ".join(x.name for x in f.variables)
    g = tl.parse(f"{head}, dy: {cotangent}) = adjoint {names} with dy. ({body})")
    sizes = random_sizes(adjoint, rng)
    data = random_arguments(adjoint, rng, sizes)
    renamed = {**data, "dy": data[adjoint.params[-1].name]}
    values = []
    for h, given in ((adjoint, data), (g, renamed)):
        names_of = {p.name for p in h.params}
        told = {s.name: sizes[s.name] for s in h.sizes}
        values.append(tl.evaluate(h, {k: x for k, x in given.items() if k in names_of}, **told))
    first, second = map(jax.tree.leaves, values)
    assert close(tuple(first), tuple(second))


def test_what_is_free_in_the_expression_is_constant_but_for_the_variables() -> None:
    x, y = np.array([0.5, -2.0, 3.0]), np.array([2.0, 1.0])
    text = "f(x: [n]R, y: [m]R) = gen i:n. let r = x[i] in grad r. sum j:m. sin(r * y[j]) * real(i + 1) * x[i]"
    expected = [sum(np.cos(r * b) * b for b in y) * (i + 1) * r for i, r in enumerate(x)]
    assert np.allclose(value(text, x=x, y=y), expected)
    text = "f(x: [n]R) = let z = gen i:n. x[i]^2 in grad x. sum i:n. z[i] * x[i]"
    assert np.allclose(value(text, x=x), x**2)


def test_nested_operators_are_not_confused() -> None:
    # the classic: d/dx (x * d/dy (x + y)) is 1, and 2 where the two differentials are taken for one
    assert value("f(x: R) = grad x. x * (let y = 1 in grad y. x + y)", x=3.0) == 1
    assert value("f(x: R) = grad x. x * grad x. x^3", x=2.0) == 9 * 4
    both = "f(x: R, y: R) = grad x. (grad y. x^2 * y^3) * (grad x. x * y)"
    g = jax.grad(lambda x, y: (jax.grad(lambda y: x**2 * y**3)(y)) * (jax.grad(lambda x: x * y)(x)))
    assert np.isclose(value(both, x=2.0, y=3.0), g(2.0, 3.0))


@pytest.mark.slow
def test_operators_are_those_of_jax() -> None:
    x, d = np.array([0.3, -1.2, 2.0]), np.array([1.0, 0.5, -1.0])
    energy = lambda x: jnp.sum(jnp.sin(x[1:] * x[:-1])) + jnp.sum(x**3)
    text = "(sum i:n - 1. sin(x[i + 1] * x[i])) + sum i:n. x[i]^3"
    assert np.allclose(tl.parse(f"f(x: [n]R) = grad x. {text}")(x), jax.grad(energy)(x), atol=1e-4)
    assert np.allclose(tl.parse(f"f(x: [n]R) = hessian x. {text}")(x), jax.hessian(energy)(x), atol=1e-4)
    cumulative = "gen i:n. sum j:n where j <= i. x[j]^2"
    of = lambda x: jnp.cumsum(x**2)
    assert np.allclose(tl.parse(f"f(x: [n]R) = jacobian x. {cumulative}")(x), jax.jacobian(of)(x), atol=1e-4)
    forward = tl.parse(f"f(x: [n]R, d: [n]R) = derivative x = d. {cumulative}")
    assert np.allclose(forward(x, d), jax.jvp(of, (x,), (d,))[1], atol=1e-4)


def test_a_step_may_follow_a_gradient() -> None:
    text = """descent(A: [n][n]R, b: [n]R, steps: size, rate: R) = fold t:steps with x = gen i:n. 0.
        let g = grad x. sum i:n. ((sum j:n. A[i, j] * x[j]) - b[i])^2 in gen i:n. x[i] - rate * g[i]"""
    rng = np.random.default_rng(0)
    A, b = np.eye(4) + 0.1 * rng.normal(size=(4, 4)), rng.normal(size=4)
    f = tl.parse(text)
    assert np.allclose(f(A, b, steps=200, rate=0.3), np.linalg.solve(A, b), atol=1e-3)
    by_b = jax.jacobian(lambda b: _descended(A, b, 5))(b)
    assert np.allclose(tl.jacobian(f, wrt="b")(A, b, steps=5, rate=0.3), by_b, atol=1e-4)


def _descended(A: Any, b: Any, steps: int) -> Any:
    x = jnp.zeros(4)
    for _ in range(steps):
        x = x - 0.3 * jax.grad(lambda x: jnp.sum((A @ x - b) ** 2))(x)
    return x


def test_relations_index_arrays_and_conditions_are_known() -> None:
    text = """f(x: [n]R, a: [n]idx(n), E: rel(n, n)) =
        gen k:n. let y = x[k] in grad y. sum i:n. [E(i, k) and x[i] > 0] * x[a[i]] * y^2"""
    rng = np.random.default_rng(1)
    x, a, E = rng.normal(size=5), rng.integers(0, 5, 5), rng.random((5, 5)) < 0.5
    expected = [2 * x[k] * sum(x[a[i]] for i in range(5) if E[i, k] and x[i] > 0) for k in range(5)]
    assert np.allclose(value(text, x=x, a=a, E=E), expected)


def test_pairs_have_the_derivatives_of_their_parts() -> None:
    found = value(
        "f(x: [n](R, R)) = grad x. sum i:n. fst(x[i]) * snd(x[i])^2", x=(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    )
    assert np.allclose(found, ([9, 16], [6, 16]))


def test_derivatives_cost_what_those_of_programs_do() -> None:
    body = "sum k:n. sin(sum j:m. x[k + j] * w[j])^2"
    f = tl.parse(f"f(x: [n + m - 1]R, w: [m]R) = {body}")
    g = tl.parse(f"g(x: [n + m - 1]R, w: [m]R) = grad x, w. {body}")
    assert tl.cost_polynomial(g) == tl.cost_polynomial(tl.grad(f))
    conditional = tl.parse("f(x: [n]R) = jacobian x. gen i:n. sum j:n. [x[j] > 0] * x[i] * x[j]")
    x = np.ones(100)
    assert tl.cost(conditional, x=x) <= 5 * 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f(x: [n]R) = grad x. x", "must be a number"),
        ("f(x: [n]R) = grad n. x[0]", "found a size"),
        ("f(x: [n]R) = grad y. x[0]", "no variable is called y"),
        ("f(x: [n]R, a: [n]idx(n)) = grad a. x[a[0]]", "found the index array a"),
        ("f(x: R) = grad x, x. x", "stands here twice"),
        ("f(x: [n + 1]R) = grad x. x[n + 3]", "has n \\+ 1 = 2 elements"),
        ("f(x: [n]R, d: [m]R) = derivative x = d. gen i:n. exp(x[i])", "must have size n, found m"),
        ("f(x: R) = adjoint x. x", "expected ',' or `with`"),
        ("f(x: R) = hessian x: x", "follows a point: hessian x. e"),
        ("f(x: R) = grad(x^2)", "grad x. e"),
    ],
)
def test_errors_have_a_place(text: str, said: str) -> None:
    with pytest.raises(tl.TensorlangError, match=said) as caught:
        tl.parse(text)
    assert caught.value.place is not None


def test_the_words_may_be_names() -> None:
    assert value("f(grad: [n]R, hessian: R) = sum i:n. grad[i] * hessian", grad=np.ones(3), hessian=2.0) == 6
