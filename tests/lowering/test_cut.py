"""Arrays that are zero outside of a triangle, held in blocks of rows: which arrays are, their values, and their
work."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from tensorlang import adjoint, cost, grad
from tensorlang.language.evaluate import evaluate
from tensorlang.lowering.arrays.ir import Assign
from tensorlang.lowering.emit.helpers import _FOUND
from tensorlang.lowering.lower import lower
from tensorlang.measure.count import count
from tensorlang.surface.parse import parse
from tests.lowering.test_blocks import assert_close, inputs, leaves, small_blocks
from tests.support.operations import is_cut

__all__ = ["small_blocks"]

CUT = {
    "rows and columns": "f(x: [n]R) = let t = gen i:n, j:n. [i <= j] * exp(x[i]*x[j]) in"
    " gen i:n. (sum j:n. [i <= j] * t[i, j] * x[j]) + sum j:n. [j <= i] * t[j, i]",
    "one after the other": "f(x: [n]R) = let t = gen i:n, j:n. [j < i] * exp(x[i]*x[j]) in"
    " let u = gen i:n, j:n. [j < i] * (t[i, j] - x[i]) in sum i:n, j:n. [j < i] * u[i, j] * t[i, j]",
    "a staircase": "f(x: [n]R, y: [m]R) = let t = gen i:n, j:m. [j <= 2*i] * exp(x[i]*y[j]) in"
    " let s = gen i:n. sum j:m. [j <= 2*i] * t[i, j] in gen j:m. sum i:n. [j <= 2*i] * t[i, j] * s[i]",
    "several triangles": "f(x: [3][n]R) = let t = gen h:3, i:n, j:n. [j < i] * exp(x[h, i]*x[h, j]) in"
    " let s = gen h:3, i:n. sum j:n. [j < i] * t[h, i, j] in gen h:3, j:n. sum i:n. [j < i] * t[h, i, j] * s[h, i]",
    "a simplex": "f(x: [n]R) = let t = gen i:n, j:n, k:n. [i <= j <= k] * sin(x[i]*x[j]*x[k]) in"
    " sum i:n, j:n, k:n. [i <= j <= k] * t[i, j, k]^2 * t[i, j, k]",
    "a row at once": "f(x: [n]R) = let t = gen i:n, j:n. [j <= i] * exp(x[i]*x[j]) in"
    " let u = gen i:n, j:n. [j <= i] * t[i, j] * sum k:n. [k <= i] * t[i, k] in"
    " gen j:n. sum i:n. [j <= i] * u[i, j] * t[i, j]",
    "the greatest of a row": "f(x: [n]R) = let t = gen i:n, j:n. [j <= i] * sin(3*x[i]*x[j]) in"
    " let m = gen i:n. max j:n where j <= i. t[i, j] in"
    " let p = gen i:n, j:n. [j <= i] * exp(t[i, j] - m[i]) in gen i:n. sum j:n. [j <= i] * p[i, j] * x[j]",
}
"""Programs all of whose triangles are held in blocks."""

WHOLE = {
    "a result": "f(x: [n]R) = let t = gen i:n, j:n. [i <= j] * exp(x[i]*x[j]) in"
    " (gen i:n. sum j:n. [i <= j] * t[i, j], t)",
    "a diagonal": "f(x: [n]R) = let t = gen i:n, j:n. [i <= j] * exp(x[i]*x[j]) in"
    " (gen i:n. sum j:n. [i <= j] * t[i, j], gen i:n. t[i, i])",
    "turned around": "f(x: [n]R) = let t = gen i:n, j:n. [j <= i] * exp(x[i]*x[j]) in"
    " let u = gen i:n, j:n. [i <= j] * t[j, i] * x[i] in gen i:n. sum j:n. [i <= j] * (u[i, j]^2 * t[j, i])",
    "the greatest of a column": "f(x: [n]R) = let t = gen i:n, j:n. [j <= i] * sin(3*x[i]*x[j]) in"
    " let m = gen j:n. max i:n where j <= i. t[i, j] in gen i:n. m[i] + sum j:n. [j <= i] * t[i, j] * x[j]",
}
"""Programs with a triangle that is read in a way incompatible with its blocks."""


@pytest.mark.parametrize("name", [*CUT, *WHOLE])
@pytest.mark.usefixtures("small_blocks")
def test_blocks_of_rows_agree_with_the_evaluator(name: str) -> None:
    f = parse({**CUT, **WHOLE}[name])
    lowered = lower(f)
    for n in (1, 7):
        arguments = inputs(f, {"n": n, "m": 2 * n}, n)
        assert_close(leaves(lowered(*arguments)), leaves(evaluate(f, *arguments)))


@pytest.mark.parametrize("name", CUT)
@pytest.mark.usefixtures("small_blocks")
def test_adjoints_in_blocks_of_rows_agree_with_the_evaluator(name: str) -> None:
    f = adjoint(parse(CUT[name]))
    arguments = inputs(f, {"n": 7, "m": 14})
    assert_close(leaves(lower(f)(*arguments)), leaves(evaluate(f, *arguments)))


@pytest.mark.parametrize("name", CUT)
def test_triangles_read_by_rows_are_never_put_together(name: str) -> None:
    made = lower(parse(CUT[name]))
    assert any(map(is_cut, made.plan.steps))
    assigned = [s for s in made.array_program.definition.body.walk() if isinstance(s, Assign)]
    assert not any(x.endswith("_whole") for s in assigned for x in s.names)


def test_a_triangle_of_no_rows_is_empty() -> None:
    found = lower(parse(CUT["rows and columns"]))(np.zeros(0, np.float32))
    assert found.shape == (0,)


def test_what_is_read_everywhere_is_not_cut() -> None:
    text = "f(x: [n]R) = let t = gen i:n, j:n. exp(x[i]*x[j]) in gen i:n. sum j:n. (t[i, j] + [j <= i] * t[i, j]^2)"
    assert not any(map(is_cut, lower(parse(text)).plan.steps))


PAIRS = "f(x: [n]R) = sum i:n, j:n. [j < i] * exp(-(x[i] - x[j])^2)"


@pytest.mark.parametrize("n", [512, 2048])
def test_the_gradient_of_pairs_computes_a_triangle(n: int) -> None:
    f = grad(parse(PAIRS))
    found = count(lower(f), jax.ShapeDtypeStruct((n,), np.float32))  # type: ignore[no-untyped-call]
    # adding up the elements is a product with ones, which counts twice
    assert found.operations <= 1.25 * (cost(f, n=n) + n**2)
    assert found.transcendental <= 1.25 * n**2 / 2
    assert found.temporaries <= 4 * (0.75 * n**2)


def test_the_gradient_of_pairs_agrees_with_numpy_in_float64() -> None:
    x = np.cos(np.arange(1153.0))
    d = x[:, None] - x
    wanted = (-2 * d * np.exp(-(d**2))).sum(1)
    assert_close(lower(grad(parse(PAIRS)))(x.astype(np.float32)), wanted)


def test_infinities_on_the_other_side_of_a_triangle_are_hidden_from_blocks() -> None:
    n = 300
    text = (
        "f(c: [n][n]R, x: [n]R) = let t = gen i:n, j:n. [j < i] * exp(x[i]*x[j]) in"
        " gen i:n. sum j:n. [j < i] * (t[i, j] * c[i, j] + t[i, j])"
    )
    below = np.tri(n, k=-1) > 0
    x = np.linspace(0, 1, n)
    found = lower(parse(text))(np.where(below, 1.0, np.inf).astype(np.float32), x.astype(np.float32))
    assert_close(found, np.where(below, 2 * np.exp(np.outer(x, x)), 0).sum(1))


@pytest.mark.usefixtures("small_blocks")
def test_blocks_of_rows_work_under_vmap() -> None:
    f = parse(CUT["rows and columns"])
    lowered, x = lower(f), np.linspace(0.1, 1, 14, dtype=np.float32).reshape(2, 7)
    assert_close(jax.vmap(lowered)(x), np.stack([np.asarray(lowered(row)) for row in x]))


def test_functions_that_generated_code_brings_along_have_names_of_their_own() -> None:
    names = [f.name for f, _ in _FOUND]
    assert len(set(names)) == len(names)


def test_blocks_that_are_zero_together_are_multiplied_without_a_mask() -> None:
    f = parse(
        "f(x: [n]R, A: [n][n]R) = let t = gen i:n, j:n. [j <= i] * exp(x[i]*x[j]) in"
        " let u = gen i:n, j:n. [j <= i] * (t[i, j] - x[i]) in let v = gen i:n, j:n. [j <= i] * t[i, j] * u[i, j] in"
        " gen i:n. (sum j:n. [j <= i] * v[i, j] * x[j]) * (sum j:n. [j <= i] * t[i, j] * v[i, j])"
    )
    source = lower(f).source
    assert "return t_block * u_block" in source and "jnp.sum(t_block * v_block1, 1)" in source


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("hidden", [np.inf, np.nan])
def test_what_a_triangle_hides_is_not_seen_beside_its_blocks(hidden: float) -> None:
    f = parse(
        "f(x: [n]R, A: [n][n]R) = let t = gen i:n, j:n. [j <= i] * exp(x[i]*x[j]) in"
        " let u = gen i:n, j:n. [j <= i] * t[i, j] * A[i, j] in"
        " gen i:n. (sum j:n. [j <= i] * u[i, j] * t[i, j]) + sum j:n. [j <= i] * t[i, j] * A[i, j]"
    )
    x, a = inputs(f, {"n": 9}, 0)
    wanted = lower(f)(x, np.tril(a))
    np.testing.assert_allclose(lower(f)(x, np.where(np.tri(9, dtype=bool), a, hidden)), wanted, rtol=1e-5)
