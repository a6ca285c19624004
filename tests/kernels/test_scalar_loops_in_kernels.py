"""Functions of numbers with loops in kernels: one kernel for the value and all partial derivatives, on both targets."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from benchmarks import control
from tests.support.sampling import one_in

n, m = tl.sizes("n m")


def newton(a: Any, x: Any) -> Any:
    while abs(x * x - a) > 1e-5 * a:
        x = 10.0 if x > 100 else 0.5 * (x + a / x)
    return x


def launches(source: str) -> int:
    """The number of kernels, of any backend."""
    return source.count("pl.pallas_call(") + source.count("mosaic_gpu.kernel(")


def interpreted(f: tl.Lowered, *arrays: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*arrays)


@pytest.mark.parametrize(
    ("target", "mode"), [("pallas-tpu", "dual"), ("pallas-tpu", "reverse"), ("pallas-gpu", "dual")]
)
def test_value_and_all_partial_derivatives_are_one_kernel(target: str, mode: str) -> None:
    root = tl.scalar(bound=20, mode=mode)(newton)
    f = tl.function(lambda a, x: tl.gen((n, m), lambda i, j: root(a[i, j], x[i, j])), a=tl.R[n, m], x=tl.R[n, m])
    both = tl.function(lambda a, x, t: (f(a, x), tl.adjoint(f)(a, x, t)), a=tl.R[n, m], x=tl.R[n, m], t=tl.R[n, m])
    made = tl.lower(both, target=target)
    assert launches(made.source) == 1 and "Left to jax.numpy" not in made.source
    assert made.source.count("= _newton") == 1, "one call for the value and both derivatives"
    rng = np.random.default_rng(0)
    a, x, t = (rng.uniform(low, high, (9, 33)).astype(np.float32) for low, high in ((1.1, 60), (150, 200), (-1, 1)))
    value, bars = interpreted(made, a, x, t)
    expected = np.array(
        [[newton(float(p), float(q)) for p, q in zip(*rows, strict=True)] for rows in zip(a, x, strict=True)]
    )
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    _, exact = tl.evaluate(both, a, x, t)
    for found, right in zip(bars, exact, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("target", ["pallas-tpu", "pallas-gpu"])
def test_a_passed_bound_is_nan_in_a_kernel(target: str) -> None:
    root = tl.scalar(bound=2)(newton)
    f = tl.function(lambda a: tl.gen((n, m), lambda i, j: root(a[i, j], 1.0)), a=tl.R[n, m])
    a = np.full((9, 17), 50, np.float32)
    a[3, 4] = 1
    value = interpreted(tl.lower(f, target=target), a)
    assert np.isnan(np.asarray(value)).sum() == a.size - 1 and value[3, 4] == 1


def decay(x: Any, r: Any) -> Any:
    s = 0.0
    while x > 1e-3:  # the loop has no end where r >= 1
        s = s + x * x
        x = x * r
    return s


def endless() -> dict[str, tl.Function]:
    f = tl.scalar(decay)
    types = {"x": tl.R[n, m], "r": tl.R[n, m]}
    summed = {**types, "b": tl.R[m, n]}
    return {
        "elements": tl.function(lambda x, r: tl.gen((n, m), lambda i, j: (r[i, j] < 1) * f(x[i, j], r[i, j])), **types),
        "rows": tl.function(lambda x, r: tl.gen(n, lambda i: tl.sum(m, lambda j: f(x[i, j], r[i, j] / 2))), **types),
        "products": tl.function(
            lambda x, r, b: tl.gen(
                (n, n), lambda i, k: tl.sum(m, lambda j: (r[i, j] < 1) * f(x[i, j], r[i, j]) * b[j, k])
            ),
            **summed,
        ),
        "two branches": tl.function(
            lambda x, r: tl.gen(
                (n, m),
                lambda i, j: tl.where(x[i, j] > 2, f(x[i, j], 0.5), (r[i, j] < 1) * (i + j < m) * f(x[i, j], r[i, j])),
            ),
            **types,
        ),
    }


@pytest.mark.parametrize("target", ["pallas-tpu", "pallas-gpu"])
@pytest.mark.parametrize("name", one_in(4, ["elements", "rows", "products", "two branches"]))
def test_loops_without_a_bound_run_in_kernels_where_their_values_count(name: str, target: str) -> None:
    f = endless()[name]
    adjoint = tl.adjoint(f)
    for rows, columns in ((9, 33), (1, 1)) if name in ("elements", "products") else ((9, 33),):
        rng = np.random.default_rng(0)
        x, r = (rng.uniform(low, high, (rows, columns)) for low, high in ((1, 5), (0.1, 0.9)))
        r.flat[1::3] = 1.5  # no loop ends there, nor in lanes beyond the arrays, which hold leftovers
        shapes = {"elements": (rows, columns), "rows": rows, "products": (rows, rows), "two branches": (rows, columns)}
        given = [x, r, rng.normal(size=(columns, rows))][: len(f.params)]
        for g, arguments in ((f, given), (adjoint, [*given, rng.normal(size=shapes[name])])):
            made = tl.lower(g, target=target)
            assert "Left to jax.numpy" not in made.source
            found = jax.tree.leaves(interpreted(made, *(a.astype(np.float32) for a in arguments)))
            for a, b in zip(found, jax.tree.leaves(tl.evaluate(g, *arguments)), strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4 * (1 + np.abs(b).max()))


@pytest.mark.parametrize("target", ["pallas-tpu", "pallas-gpu"])
def test_the_value_and_all_derivatives_of_a_loop_without_a_bound_are_one_kernel_and_one_call(target: str) -> None:
    root = tl.scalar(newton)
    f = tl.function(lambda a, x: tl.gen((n, m), lambda i, j: root(a[i, j], x[i, j])), a=tl.R[n, m], x=tl.R[n, m])
    both = tl.function(lambda a, x, t: (f(a, x), tl.adjoint(f)(a, x, t)), a=tl.R[n, m], x=tl.R[n, m], t=tl.R[n, m])
    made = tl.lower(both, target=target)
    assert launches(made.source) == 1 and "Left to jax.numpy" not in made.source
    assert made.source.count("= _newton") == 1


def test_triton_leaves_what_stores_to_jax() -> None:
    root = tl.scalar(bound=20, mode="reverse")(newton)
    f = tl.function(lambda a: tl.sum(n, lambda i: tl.sum(m, lambda j: root(a[i, j], a[i, j]))), a=tl.R[n, m])
    assert 'mode="dual"' in str(tl.lower(tl.grad(f), target="pallas-gpu").source)


@pytest.mark.parametrize("target", ["pallas-tpu", "pallas-gpu"])
def test_the_cell_of_the_paper_on_mixed_mode_is_one_kernel_with_its_four_derivatives(target: str) -> None:
    types = {**dict.fromkeys("cfig", tl.R[n, n]), "before": tl.R[n], "below": tl.R[n]}
    written, called = control.cells(), control.cells(tl.scalar(mode="dual")(control.hm_lstm_cell.body))
    inputs = ("c", "f", "i", "g")

    def both(c: Any, f: Any, i: Any, g: Any, before: Any, below: Any, t: Any) -> Any:
        given = c, f, i, g, before, below
        return called(*given), tl.adjoint(called, wrt=inputs)(*given, t)

    made = tl.lower(
        tl.function(both, **{k: tl.R[n, n] if k in inputs else v for k, v in types.items()}, t=tl.R[n, n]),
        target=target,
    )
    assert launches(made.source) == 1 and "Left to jax.numpy" not in made.source
    rng = np.random.default_rng(0)
    arrays = [
        *(rng.normal(size=(9, 9)) for _ in inputs),
        *(rng.integers(0, 2, 9) for _ in range(2)),
        rng.normal(size=(9, 9)),
    ]
    value, bars = interpreted(made, *(x.astype(np.float32) for x in arrays))
    np.testing.assert_allclose(value, tl.evaluate(written, *arrays[:6]), rtol=1e-5, atol=1e-6)
    for found, right in zip(bars, tl.evaluate(tl.adjoint(written, wrt=inputs), *arrays), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6)
