"""Indices that are out of range, under JAX's transformations: the results, and how the mistake is detected."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import tensorlang as tl

F = tl.parse("f(x: [m]R, y: [n]idx(m)) = sum i:n. x[y[i]]^2")
X = np.array([1.0, 2.0, 4.0, 8.0])
GOOD, HIGH, LOW = jnp.array([0, 3, 3]), jnp.array([0, 4, 1]), jnp.array([2, 1, -1])

MADE = {"lower": tl.lower(F, check=True), "to_jax": tl.to_jax(F, check=True)}


@pytest.fixture(params=MADE)
def checked(request: pytest.FixtureRequest) -> Any:
    return MADE[request.param]


def thrown(f: Any, *args: Any) -> str:
    """The error that the checks of `f`, compiled, report."""
    error, _ = jax.jit(checkify.checkify(f))(*args)
    return error.get() or ""


def test_out_of_range_is_our_error_where_nothing_is_traced(checked: Any) -> None:
    for y, what in ((HIGH, r"y\[1\] is 4"), (LOW, r"y\[2\] is -1")):
        with pytest.raises(tl.ArgumentError, match=f"{what}, expected an index into a range of size m = 4"):
            checked(X, y)
        with pytest.raises(tl.ArgumentError, match=what):
            jax.grad(checked)(X, y)
    assert checked(X, GOOD) == 129


def test_a_check_tells_under_jit(checked: Any) -> None:
    assert "y[1] is 4, expected an index into a range of size 4" in thrown(checked, X, HIGH)
    assert "y[2] is -1, expected an index into a range of size 4" in thrown(checked, X, LOW)
    error, value = jax.jit(checkify.checkify(checked))(X, GOOD)
    error.throw()
    assert value == 129
    with pytest.raises(checkify.JaxRuntimeError, match=r"y\[1\] is 4"):
        checkify.checkify(jax.jit(checked))(X, HIGH)[0].throw()


def test_a_check_tells_under_grad_and_its_grad(checked: Any) -> None:
    assert thrown(jax.grad(checked), X, GOOD) == ""
    assert "y[1] is 4" in thrown(jax.grad(checked), X, HIGH)
    second = lambda x, y: jax.grad(lambda x: jax.grad(checked)(x, y).sum())(x)
    assert "y[2] is -1" in thrown(second, X, LOW)
    error, found = jax.jit(checkify.checkify(jax.grad(checked)))(X, GOOD)
    error.throw()
    np.testing.assert_allclose(found, [2, 0, 0, 32])


def test_a_check_tells_under_vmap(checked: Any) -> None:
    batch = jnp.stack([GOOD, GOOD, HIGH])
    each = jax.vmap(checked, in_axes=(None, 0))
    assert "y[1] is 4" in thrown(each, X, batch)
    assert thrown(each, X, batch[:2]) == ""
    gradients = jax.vmap(jax.grad(checked), in_axes=(None, 0))
    assert "y[1] is 4" in thrown(gradients, X, batch)
    assert thrown(gradients, X, batch[:2]) == ""
    assert "y[1] is 4" in thrown(lambda x, ys: jax.lax.map(lambda y: checked(x, y), ys), X, batch)


@pytest.mark.parametrize(
    ("text", "y", "what"),
    [
        ("f(x: [m]R, y: idx(m)) = x[y]", 7, "y is 7"),
        ("f(x: [m]R, y: [n][k]idx(m)) = sum i:n, j:k. x[y[i, j]]", [[0, 1], [9, 2]], "y[1, 0] is 9"),
        ("f(x: [m]R, y: [n]idx(m)) = max i:n. x[y[i]]", [0, 1, 5], "y[2] is 5"),
        ("f(x: [m]R, y: [n]idx(m)) = sum i:n, j:m. [y[i] = j] * x[j]", [0, 1, 5], "y[2] is 5"),
    ],
)
def test_a_check_names_the_first_place(text: str, y: Any, what: str) -> None:
    for f in (tl.lower(tl.parse(text), check=True), tl.to_jax(tl.parse(text), check=True)):
        assert what in thrown(f, X, jnp.array(y))


@pytest.mark.filterwarnings("ignore::tensorlang.lowering.kernels.run.InterpretedWarning")
def test_kernels_and_programs_on_a_mesh_have_checks_too() -> None:
    mesh = jax.make_mesh((1,), ("d",))
    for f in (
        tl.lower(F, mesh=mesh, sharding={"n": "d"}, check=True),
        tl.lower(F, "pallas-tpu", check=True),
    ):
        with pytest.raises(tl.ArgumentError, match=r"y\[1\] is 4"):
            f(X, HIGH)
        assert "y[1] is 4" in thrown(f, X, HIGH)


def test_no_element_and_no_tracing_need_no_check() -> None:
    f = tl.to_jax(F, check=True)
    assert thrown(f, X, jnp.zeros(0, int)) == ""
    assert jax.jit(lambda x: f(x, GOOD))(X) == 129
    assert jax.jit(jax.grad(lambda x: f(x, GOOD)))(X).tolist() == [2, 0, 0, 32]


def test_without_checks_the_nearest_element_is_read_and_gets_no_cotangent() -> None:
    read = tl.to_jax(tl.parse("f(x: [m]R, y: [n]idx(m)) = gen i:n. x[y[i]]"))
    value, transpose = jax.vjp(jax.jit(read), X, jnp.array([0, 4, -1]))
    np.testing.assert_array_equal(value, [1, 8, 1])
    np.testing.assert_array_equal(transpose(jnp.ones(3))[0], [1, 0, 0, 0])


def test_without_checks_what_goes_nowhere_is_left_out_and_gets_the_nearest_cotangent() -> None:
    added = tl.to_jax(tl.parse("f(x: [n]R, z: [m]R, y: [n]idx(m)) = gen j:m. sum i:n. [y[i] = j] * x[i] * z[j]"))
    value, transpose = jax.vjp(jax.jit(added), X, np.arange(1.0, 4), jnp.array([0, 3, -1, 2]))
    np.testing.assert_array_equal(value, [1, 0, 24])
    np.testing.assert_array_equal(transpose(jnp.array([5.0, 6, 7]))[0], [5, 21, 5, 21])
