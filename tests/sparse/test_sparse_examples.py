"""Sparse derivatives of real programs: bundle adjustment, grids, and the programs of the benchmark beside asdex."""

from __future__ import annotations

import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.sparse import PROGRAMS, Program, flat, ours
from tests.support import ROOT
from tests.support.sampling import one_in

EXAMPLES = ROOT / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dense(p: Program, x: Any) -> np.ndarray[Any, Any]:
    derivative = jax.hessian(p.program) if p.what == "hessian" else jax.jacobian(p.program)
    made = np.asarray(derivative(x), float).ravel()
    (at,) = np.nonzero(made)
    return np.stack([at, made[at]])


@pytest.mark.parametrize("p", one_in(3, PROGRAMS), ids=lambda p: p.name)
def test_programs_of_the_benchmark_have_the_derivatives_of_jax(p: Program) -> None:
    smallest = tuple(min(n, 8) for n in p.shapes[0])
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=smallest) / 2)
        found, wanted = flat(ours(p)(x), x.size), dense(p, x)
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", PROGRAMS, ids=lambda p: p.name)
def test_as_many_elements_are_stored_as_there_are_other_than_0(p: Program) -> None:
    """At most a half more are stored: a block of several unknowns at a place is stored as a whole."""
    shape = tuple(n if n == 2 else min(n, 34) for n in p.shapes[0])
    x = jnp.asarray(np.random.default_rng(0).normal(size=shape) / 2, jnp.float32)
    stored = ours(p)(x).data.size
    assert stored <= 1.5 * np.count_nonzero(flat(ours(p)(x), x.size)[1])


def test_a_grid_has_a_piece_for_each_neighbour() -> None:
    (p,) = (p for p in PROGRAMS if p.name == "a nonlinear Poisson equation")
    (pieces,) = tl.structure(tl.jacobian(tl.parse(p.text)))
    assert len(pieces) == 5, [str(piece) for piece in pieces]
    assert all(len(piece.axes) == 2 for piece in pieces)


def test_bundle_adjustment_converges_with_sparse_normal_equations() -> None:
    bundle = example("bundle")
    cameras, points, a, b, z = bundle.scene(6, 40, 3)
    before = float(np.square(bundle.residuals(cameras, points, a, b, z)).sum())
    for _ in range(3):
        cameras, points, normal = bundle.step(cameras, points, a, b, z, 1e-4)
    assert float(np.square(bundle.residuals(cameras, points, a, b, z)).sum()) < 1e-6 * before
    pairs = {(c, 6 + p) for c, p in zip(a, b, strict=True)}
    pairs |= {(p, c) for c, p in pairs} | {(k, k) for k in range(6 + 40)}
    blocks = {(i // 3, j // 3) for i, j in zip(*normal.nonzero(), strict=True)}
    assert blocks == pairs


def test_jacobians_of_bundle_adjustment_have_the_elements_of_each_observation_alone() -> None:
    bundle = example("bundle")
    assert str(bundle.jacobians).splitlines() == [
        "[0] (i4, i5, a[i4], i6) for i4:m, i5:2, i6:3",
        "[1] (i4, i5, b[i4], i6) for i4:m, i5:2, i6:3",
    ]
    cameras, points, a, b, z = bundle.scene(3, 5, 2)
    with jax.enable_x64(True):
        made = bundle.matrix(bundle.jacobians(cameras, points, a, b, z)).toarray()

        def program(c: Any, x: Any) -> Any:
            d = x[b] - c[a]
            return (d[:, :2] / d[:, 2:] - z).ravel()

        wanted = np.concatenate(
            [np.asarray(j).reshape(made.shape[0], -1) for j in jax.jacobian(program, (0, 1))(cameras, points)], 1
        )
    np.testing.assert_allclose(made, wanted, rtol=1e-9, atol=1e-12)
