"""Scalar functions that GPUs lack: formulas, compared with double precision, and in kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import tensorlang as tl
from benchmarks.kernels import lowered_for_gpu
from tensorlang.language.functions import function
from tensorlang.language.special import BUILT_IN
from tensorlang.lowering.emit.library import scalars
from tensorlang.lowering.kernels.run import matrix_units
from tests.support.sampling import one_in

pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated")

EXACT: dict[str, Callable[..., Any]] = {
    "erf": special.erf,
    "tan": np.tan,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "softplus": lambda x: np.logaddexp(0, x),
}
ROUNDINGS = 8
"""The most error of a formula, in units of half of the last place."""


def points(name: str) -> np.ndarray[Any, Any]:
    """Numbers of single precision: near 0, over the range, and in both tails."""
    sizes = np.concatenate([10.0 ** np.linspace(-37, 38, 3001), np.linspace(1e-3, 90, 20001), [88.9, 89.3, 16, 1, 4]])
    found = np.concatenate([sizes, -sizes]).astype(np.float32)
    if name == "tan":  # beyond, the rounding of the argument leads to another number
        found = found[abs(found) < 100]
    return found[found > -1] if name == "log1p" else found


def roundings(found: Any, exact: Any, scale: Any = None) -> float:
    """The largest error in half places of single precision, where the exact value is a normal number."""
    limits = np.finfo(np.float32)
    normal = (abs(exact) > limits.tiny) & (abs(exact) < limits.max)
    error = abs(np.asarray(found, float)[normal] - exact[normal]) / abs(exact if scale is None else scale)[normal]
    return float(error.max()) / 2.0**-24


@pytest.mark.parametrize("name", EXACT)
def test_formulas_are_right_to_a_few_roundings_in_both_tails(name: str) -> None:
    x = points(name)
    found = jax.jit(getattr(scalars, f"_{name}"))(x)
    with np.errstate(over="ignore"):
        exact = EXACT[name](x.astype(float))
    assert roundings(found, exact) <= ROUNDINGS
    assert np.all(np.isinf(found) == (abs(exact) > np.finfo(np.float32).max))


def test_logaddexp_is_right_to_a_few_roundings_of_its_arguments() -> None:
    x = points("logaddexp")
    x = x[abs(x) < 1e37]
    a, b = np.repeat(x[::40], 30), np.tile(x[:: len(x) // 30][:30], len(x[::40]))
    for left, right in ((a, b), (x, x), (x, np.zeros_like(x)), (x, np.nextafter(x, np.float32(0)))):
        exact = np.logaddexp(left.astype(float), right.astype(float))
        found = jax.jit(scalars._logaddexp)(left, right)
        assert roundings(found, exact, np.maximum(abs(exact), np.maximum(abs(left), abs(right)))) <= ROUNDINGS


@pytest.mark.parametrize("name", EXACT)
def test_formulas_are_the_functions_at_infinity_and_nan(name: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0, -1], np.float32)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(float))
    np.testing.assert_allclose(getattr(scalars, f"_{name}")(jnp.asarray(x)), exact, rtol=1e-6)


def test_logaddexp_is_the_function_at_infinity_and_nan() -> None:
    ends = np.array([np.inf, -np.inf, 0, 3, np.nan], np.float32)
    a, b = (x.ravel() for x in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(scalars._logaddexp(jnp.asarray(a), jnp.asarray(b)), np.logaddexp(a, b), rtol=1e-6)


def test_every_function_of_the_language_is_lowered_for_a_gpu_or_left_to_jax_numpy() -> None:
    left = set()
    for name in sorted(BUILT_IN):
        arguments = ", ".join(["A[i, j]", "u[j]", "s"][: function(name).arity])
        f = tl.parse(f"f(A: [n][m]R, u: [m]R, s: R) = gen i:n, j:m. {name}({arguments}) * u[j] * s")
        source = tl.lower(f, target="pallas-gpu").source
        namespace: dict[str, Any] = {}
        exec(source, namespace)
        lowered_for_gpu(namespace["f"], [np.ones(size, np.float32) for size in ((9, 70), 70, ())])
        if f"Triton has no {name}" in source:
            left.add(name)
    assert left == {"digamma", "erfc", "lgamma", "pentagamma", "round", "tetragamma", "trigamma"}


CALLS = [f"{name}(A[i, j]) * u[j]" for name in EXACT] + ["logaddexp(A[i, j], u[j])"]


@pytest.mark.parametrize("call", one_in(3, CALLS))
def test_kernels_for_gpus_have_these_functions_and_their_adjoints(call: str) -> None:
    f = tl.parse(f"f(A: [n][m]R, u: [m]R) = gen i:n, j:m. {call}")
    rng = np.random.default_rng(0)
    given = [rng.normal(size=(9, 70)), rng.normal(size=70), rng.normal(size=(9, 70))]
    given[0] = abs(given[0]) - 0.5
    for g, arguments in ((f, given[:2]), (tl.adjoint(f), given)):
        for target in ("pallas-gpu", "pallas-triton"):
            made = tl.lower(g, target=target)
            assert "Left to jax.numpy" not in made.source.replace("Left to jax.numpy: it is of vectors alone", "")
            by_mosaic = matrix_units() is not None and target == "pallas-gpu"
            assert (", by Mosaic GPU" in str(made.explain())) is by_mosaic
            single = [x.astype(np.float32) for x in arguments]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = jax.tree.leaves(made(*single))
            for a, b in zip(found, jax.tree.leaves(tl.evaluate(g, *arguments)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            namespace: dict[str, Any] = {}
            exec(made.source, namespace)
            text = lowered_for_gpu(namespace[g.name], single).as_text()
            assert ("@mosaic_gpu_v2(" if by_mosaic else "triton") in text
