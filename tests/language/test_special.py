"""More elementary functions: their values and derivatives against JAX's, at the ends of their domains, too."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.functions import functions, operations
from tensorlang.language.grammar import Var
from tensorlang.language.types import R

INSIDE = np.array([0.1, 0.25, 0.7, 0.9])
CASES: dict[str, tuple[Any, Any]] = {
    "log1p": (jnp.log1p, [*INSIDE, 1e-12, -0.5, 3.0]),
    "expm1": (jnp.expm1, [*INSIDE, 1e-12, -3.0, 0.0]),
    "log2": (jnp.log2, [*INSIDE, 4.0]),
    "log10": (jnp.log10, [*INSIDE, 4.0]),
    "asin": (jnp.arcsin, [*INSIDE, -0.5, 0.0]),
    "acos": (jnp.arccos, [*INSIDE, -0.5, 0.0]),
    "atan": (jnp.arctan, [*INSIDE, -5.0, 0.0]),
    "asinh": (jnp.arcsinh, [*INSIDE, -5.0, 0.0]),
    "acosh": (jnp.arccosh, 1 + INSIDE),
    "atanh": (jnp.arctanh, [*INSIDE, -0.5, 0.0]),
    "cbrt": (jnp.cbrt, [*INSIDE, -8.0]),
    "lgamma": (jax.scipy.special.gammaln, [*INSIDE, 1.0, 2.0, 5.5]),
    "digamma": (jax.scipy.special.digamma, [*INSIDE, 1.0, 2.0, 5.5]),
    "rsqrt": (jax.lax.rsqrt, [*INSIDE, 4.0]),
    "erfc": (jax.scipy.special.erfc, [*INSIDE, -1.0, 0.0]),
    "erfinv": (jax.scipy.special.erfinv, [*INSIDE, -0.5, 0.0]),
    "floor": (jnp.floor, [0.3, -1.7, 2.5]),
    "ceil": (jnp.ceil, [0.3, -1.7, 2.5]),
    "round": (jnp.round, [0.3, -1.7, 2.5, 1.5]),
}
PAIRS: dict[str, tuple[Any, Any]] = {
    "mod": (jnp.mod, [(5.5, 2.0), (-5.5, 2.0), (5.5, -2.0), (0.5, 3.0)]),
    "atan2": (jnp.arctan2, [(1.0, 2.0), (-1.0, 2.0), (1.0, -2.0), (0.0, 1.0), (3.0, 0.0)]),
    "power": (jnp.power, [(2.0, 3.0), (0.5, -1.5), (4.0, 0.5), (3.0, 0.0)]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_one_number_and_its_derivative_are_jaxs(name: str) -> None:
    known, points = CASES[name]
    f = tl.parse(f"f(x: [n]R) = gen i:n. {name}(x[i])")
    g = tl.parse(f"f(x: [n]R) = sum i:n. {name}(x[i])")
    x = np.asarray(points, float)
    with jax.enable_x64(True):
        value, slope = known(x), jax.vmap(jax.grad(known))(x)
        assert np.allclose(tl.evaluate(f, x), value, rtol=1e-12)
        assert np.allclose(tl.evaluate(tl.grad(g), x), slope, rtol=1e-10)
        assert np.allclose(tl.to_jax(f)(x), value, rtol=1e-12)
        assert np.allclose(jax.jit(jax.grad(tl.to_jax(g)))(x), slope, rtol=1e-10)


@pytest.mark.parametrize("name", PAIRS)
def test_a_function_of_two_numbers_and_its_derivatives_are_jaxs(name: str) -> None:
    known, points = PAIRS[name]
    f = tl.parse(f"f(x: [n]R, y: [n]R) = gen i:n. {name}(x[i], y[i])")
    g = tl.parse(f"f(x: [n]R, y: [n]R) = sum i:n. {name}(x[i], y[i])")
    x, y = np.array(points, float).T
    with jax.enable_x64(True):
        slopes = jax.vmap(jax.grad(known, (0, 1)))(x, y)
        assert np.allclose(tl.evaluate(f, x, y), known(x, y), rtol=1e-12)
        assert np.allclose(tl.to_jax(f)(x, y), known(x, y), rtol=1e-12)
        for found in (tl.evaluate(tl.grad(g), x, y), jax.grad(tl.to_jax(g), (0, 1))(x, y)):
            assert all(np.allclose(a, b, rtol=1e-10) for a, b in zip(found, slopes, strict=True))


@pytest.mark.parametrize("name", [*CASES, *PAIRS])
def test_a_derivative_costs_at_most_three_times_the_function(name: str) -> None:
    f = functions()[name]
    xs = tuple(Var(f"x{k}", R) for k in range(f.arity))
    parts = [e for e in f.transpose(xs, Var("y", R), Var("t", R)) if e is not None]
    assert sum(map(operations, parts)) + f.arity - 1 <= 3 * f.cost
    arguments = ", ".join(f"{x.name}[i]" for x in xs)
    declared = ", ".join(f"{x.name}: [n]R" for x in xs)
    program = tl.parse(f"f({declared}) = gen i:n. {name}({arguments})")
    assert program._repr_latex_() and str(tl.certify(program))


def test_exponents_may_be_numbers_of_a_program() -> None:
    texts = ["x[i] ^ y[i]", "pow(x[i], y[i])", "x[i] ^ (y[i] + 0) ", "power(x[i], y[i])"]
    x, y = np.array([0.5, 2.0, 3.0]), np.array([2.0, -1.5, 0.0])
    for text in texts:
        f = tl.parse(f"f(x: [n]R, y: [n]R) = sum i:n. {text}")
        assert str(tl.parse(str(f))) == str(f)
        assert np.allclose(tl.evaluate(f, x, y), (x**y).sum())
        dx, dy = tl.grad(f)(x, y)
        assert np.allclose(dx, y * x ** (y - 1), rtol=1e-5)
        assert np.allclose(dy, x**y * np.log(x), rtol=1e-5)
    n = tl.sizes("n")
    g = tl.function(lambda x, y: tl.sum(n, lambda i: x[i] ** y[i] + 2 ** y[i] + 2**i), x=tl.R[n], y=tl.R[n])
    assert np.allclose(g(x, y), (x**y + 2**y + 2.0 ** np.arange(3)).sum(), rtol=1e-5)


def test_constant_exponents_are_powers_as_before() -> None:
    assert str(tl.parse("f(x: R) = pow(x, 3/2) + pow(x, -2) + x ^ (2)")) == str(
        tl.parse("f(x: R) = pow(x, 3/2) + recip(x ^ 2) + x ^ 2")
    )


def test_gamma_functions_have_poles_where_they_have() -> None:
    with np.errstate(all="ignore"):
        assert tl.evaluate(tl.parse("f(x: R) = lgamma(x)"), 0.0) == np.inf
        assert not np.isfinite(tl.evaluate(tl.parse("f(x: R) = digamma(x)"), -1.0))
    f = tl.parse("f(x: [n]R) = sum i:n. if x[i] > 0 then lgamma(x[i]) else 0")
    assert np.isfinite(tl.evaluate(tl.grad(f), np.array([0.0, -1.0, 2.5]))).all()


def test_atan2_is_right_on_the_axes_and_has_no_derivative_at_the_origin() -> None:
    f = tl.parse("f(y: R, x: R) = atan2(y, x)")
    for y, x in [(1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (-0.0, -1.0), (0.0, 1.0)]:
        assert tl.evaluate(f, y, x) == np.arctan2(y, x)
        dy, dx = tl.evaluate(tl.grad(f), y, x)
        assert (dy, dx) == (x, -y)
    with np.errstate(all="ignore"):
        assert np.isnan(tl.evaluate(tl.grad(f), 0.0, 0.0)).all()
    guarded = tl.parse("f(y: R, x: R) = if x * x + y * y > 0 then atan2(y, x) else 0")
    assert tl.evaluate(tl.grad(guarded), 0.0, 0.0) == (0, 0)


@pytest.mark.parametrize("name", ["floor", "ceil", "round"])
def test_roundings_are_exact_and_have_the_derivative_0(name: str) -> None:
    f = tl.parse(f"f(x: R) = {name}(x) * x")
    assert tl.evaluate(tl.grad(f), 2.5) == tl.evaluate(f, 2.5) / 2.5
    assert tl.evaluate(f, 5, exact=True) == 25


def test_the_ends_of_domains_can_be_hidden() -> None:
    f = tl.parse("f(x: [n]R) = sum i:n. if -1 < x[i] and x[i] < 1 then asin(x[i]) + atanh(x[i]) else 0")
    x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
    assert np.isfinite(tl.evaluate(tl.grad(f), x)).all()
    assert np.isfinite(np.asarray(jax.grad(tl.to_jax(f))(x))).all()


ACTIVATIONS: dict[str, Any] = {
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "elu": jax.nn.elu,
    "leaky_relu": lambda x: jax.nn.leaky_relu(x, 0.01),
    "clip": lambda x: jnp.clip(x, -0.5, 0.5),
    "huber": lambda x: jnp.where(jnp.abs(x) <= 1, x * x / 2, jnp.abs(x) - 0.5),
}
MORE = {"leaky_relu": ", 0.01", "clip": ", -0.5, 0.5", "huber": ", 1"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_functions_of_the_library_that_branch_are_jaxs(name: str) -> None:
    f = tl.parse(f"f(x: [n]R) = gen i:n. {name}(x[i]{MORE.get(name, '')})")
    g = tl.parse(f"f(x: [n]R) = sum i:n. {name}(x[i]{MORE.get(name, '')})")
    x = np.array([-3.0, -0.7, -0.1, 0.3, 0.9, 2.0, 40.0, -40.0])
    with jax.enable_x64(True):
        assert np.allclose(tl.to_jax(f)(x), ACTIVATIONS[name](x), atol=1e-12)
        assert np.allclose(tl.evaluate(tl.grad(g), x), jax.vmap(jax.grad(ACTIVATIONS[name]))(x), atol=1e-10)


def test_xlogy_is_0_at_0_and_so_is_its_derivative() -> None:
    f = tl.parse("f(x: [n]R, y: [n]R) = sum i:n. xlogy(x[i], y[i])")
    x, y = np.array([0.0, 0.5, 0.0]), np.array([0.0, 2.0, 3.0])
    assert np.allclose(tl.evaluate(f, x, y), 0.5 * np.log(2))
    assert all(np.isfinite(part).all() for part in tl.evaluate(tl.grad(f), x, y))
