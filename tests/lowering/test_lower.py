"""Lowering to jax.numpy: the generated code against the reference evaluator, its shape, and its behaviour under JAX."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlang.errors import ArgumentError, EvaluationError, LimitError
from tensorlang.language.affine import Index, Size, atom_affine
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.functions import call, register
from tensorlang.language.grammar import Add, Let, Mul, Var, access, gen, number, sums
from tensorlang.language.predicates import Relation
from tensorlang.language.types import R, array, leaves, shape
from tensorlang.lowering.arrays import program as lowering
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.lower import lower
from tensorlang.lowering.run import Lowered
from tensorlang.normal import eliminate_pairs, let_lift, push_out_gen
from tensorlang.surface.parse import parse
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.sampling import one_in

PROGRAMS = {
    "correlation": "f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
    "its adjoint in x": "f(dy: [n]R, w: [m]R) = gen k:n + m - 1. sum j:m. [0 <= k - j < n] * dy[k - j] * w[j]",
    "its adjoint in x before simplification":
        "f(dy: [n]R, w: [m]R) = gen k:n + m - 1. sum i:n, j:m. [k = i + j] * dy[i] * w[j]",
    "its adjoint in w": "f(x: [n + m - 1]R, dy: [n]R) = gen j:m. sum i:n. x[i + j] * dy[i]",
    "correlation of a function": "f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. sin(x[i + j] - w[j])",
    "two dimensions": "f(x: [n + 2][m + 2]R, w: [3][3]R) = gen i:n, j:m. sum a:3, b:3. x[i + a, j + b] * w[a, b]",
    "two dimensions, adjoint in w":
        "f(x: [n + 2][m + 2]R, dy: [n][m]R) = gen a:3, b:3. sum i:n, j:m. x[i + a, j + b] * dy[i, j]",
    "strided correlation": "f(x: [2*n + m]R, w: [m]R, y: [n]R) = gen i:n. y[i] * sum j:m. x[2*i + j] * w[j]",
    "its adjoint in x, strided":
        "f(dy: [n]R, w: [m]R) = gen k:2*n + m. sum j:n. [0 <= k - 2*j < m] * dy[j] * w[k - 2*j]",
    "reversal": "f(x: [n]R) = gen i:n. x[n - 1 - i]",
    "stride": "f(x: [2*n]R) = gen i:n. x[2*i + 1] * x[2*n - 1 - 2*i]",
    "stride's adjoint": "f(y: [n]R, z: [2*n]R) = gen k:2*n. sum i:n. [k = 2*i + 1] * y[i] * z[k]",
    "stride's adjoint, backwards": "f(y: [n]R) = gen k:2*n. sum i:n. [k = 2*n - 2 - 2*i] * y[i]",
    "shift": "f(x: [n]R) = gen i:n. [i > 0] * x[i - 1] + [i + 2 < n] * x[i + 2]",
    "window": "f(x: [n]R, y: [n]R) = gen i:n. [2 <= i < n - 1] * (x[i] * y[i - 2] + sin(x[i]))",
    "one place": "f(x: [n]R) = gen i:n. [i = 3] * exp(x[i]) + [i = n - 1] * x[0]",
    "read of one place": "f(x: [n]R) = sum i:n. [i = 3] * x[i]^2",
    "diagonal": "f(A: [n][n]R) = gen i:n. A[i, i]",
    "trace of a product": "f(A: [n][m]R, B: [m][n]R) = sum i:n, j:m. A[i, j] * B[j, i]",
    "write of a diagonal": "f(x: [n]R, y: [n]R) = gen i:n, j:n. [i = j] * sin(x[i]) * y[j]",
    "write of a diagonal beside": "f(x: [n]R, y: [m]R) = gen i:n, j:m. [i = j + 1] * x[i] * y[j]",
    "matrix product": "f(A: [n][m]R, B: [m][n]R) = gen i:n, j:n. sum l:m. A[i, l] * B[l, j]",
    "three factors": "f(A: [n][m]R, x: [n]R, y: [m]R) = sum i:n, j:m. x[i] * A[i, j] * y[j]",
    "sum of a product and a number": "f(A: [n][m]R, x: [m]R, c: R) = gen i:n. sum j:m. (A[i, j]*x[j] - c*x[j] + 1/3)",
    "sum over what repeats": "f(x: [n]R, c: R) = gen i:n. sum j:n + 1, k:3. c * x[i]",
    "leading axis of a product": "f(x: [n]R, z: [n][3][m]R) = gen j:3, k:m. sum i:n. x[i] * z[i, j, k]",
    "leading axis of a stored product":
        "f(x: [n][m]R, z: [n][3][m]R) = let p = gen i:n, j:3, k:m. x[i, k] * z[i, j, k] in"
        " gen j:3, k:m. sum i:n. p[i, j, k]",
    "columns": "f(x: [n][m]R, y: [m]R) = gen j:m. sum i:n. exp(x[i, j]) * y[j]",
    "columns and planes": "f(x: [n][m][3]R, y: [3]R) = gen k:3. sum i:n, j:m. x[i, j, k] * y[k]",
    "triangle": "f(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j <= i] * A[i, j] * x[j]",
    "triangle of a product": "f(A: [n][n]R, B: [n][m]R) = gen i:n, k:m. sum j:n. [j <= i] * A[i, j] * B[j, k]",
    "pairs": "f(x: [n]R, y: [n]R) = sum i:n, j:n. [i < j] * x[i] * y[j]",
    "band": "f(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [0 <= i - j < 3] * A[i, j] * x[j]",
    "moving sum": "f(x: [n]R) = gen i:n + 3. sum j:n. [0 <= i - j < 4] * x[j]",
    "logsumexp": "f(A: [n][m]R) = gen i:n. log(1 + sum j:m. exp(A[i, j]))",
    "distances": "f(x: [n]R, y: [m]R) = gen i:n. sum j:m. (x[i] - y[j])^2",
    "hankel": "f(x: [n + m]R, y: [n]R) = gen i:n, j:m. x[i + j] * y[i]",
    "toeplitz under a bracket": "f(x: [n]R) = gen i:n, j:n. [i >= j] * x[i - j] + [i < j] * x[j - i]^2",
    "or, exists": "f(x: [n]R) = gen i:n. [i < 2 or i = n - 1 or exists k:n. i = 3*k + 1] * x[i]",
    "exists over a box": "f(x: [n]R) = gen i:n. [exists k:3, l:2. i = 2*k + l or i = 7] * x[i]",
    "relation": "f(r: rel(n, m), x: [m]R) = gen i:n. sum j:m. [r(i, j) and j != 1] * x[j]",
    "relation at a place": "f(r: rel(n, m), x: [m]R) = gen i:n + 1. [r(i - 1, 2)] * sum j:m. x[j]",
    "relation with its adjoint": "f(r: rel(n, m), x: [m]R, y: [n]R) = sum i:n, j:m. [r(i, j)] * x[j] * y[i]",
    "numbers": "f(c: R, d: R) = (c / d, (c - d)^3 - -2 * c)",
    "pairs in, pairs out": "f(p: (R, [n](R, R))) = (gen i:n. fst(p) * snd(snd(p)[i]), snd(p))",
    "nothing but constants": "f(x: [n]R) = (gen i:n, j:2. [i <= j] * 5, 1/3)",
    "lets": "f(x: [n]R) = let y = gen i:n. x[i]^2 in let s = sum i:n. y[i] in gen i:n. let t = y[i] / (1 + s) in t * t",
    "kinks": "f(x: [n]R) = gen i:n. relu(x[i]) + max(x[i], 0.5) * abs(x[i]) - min(x[i], x[n - 1])",
    "more functions": "f(x: [n]R) = gen i:n. tanh(x[i]) * sigmoid(x[i]) + erf(x[i]) + logaddexp(x[i], 1)^2",
}  # fmt: skip

SIZES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (5, 3), (70, 9), (9, 70), (90, 81)]


def sized(f: Function, n: int, m: int, rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Any] | None:
    """Arguments of these sizes; None where a parameter can't have them."""
    sizes = {Size("n"): n, Size("m"): m}
    values: dict[str, Any] = {}
    for p in f.params:
        parts = []
        for _, kind in [((), None)] if isinstance(p, Relation) else leaves(p.type):
            dims = [a.value(sizes) for a in (p.sizes if kind is None else shape(kind)[0])]
            if min(dims, default=0) < 0:
                return None
            parts.append(rng.normal(size=dims) < 0.3 if kind is None else rng.normal(size=dims).astype(dtype))
        while len(parts) > 1:
            parts[-2:] = [(parts[-2], parts[-1])]
        values[p.name] = parts[0]
    return values


def assert_close(got: Any, want: Any, tolerance: float) -> None:
    if isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_close(a, b, tolerance)
    else:
        assert np.shape(got) == np.shape(want)
        scale = max(1.0, float(np.max(np.abs(want), initial=0)))
        np.testing.assert_allclose(np.asarray(got, float), want, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
def test_generated_code_agrees_with_the_evaluator_at_all_sizes(name: str) -> None:
    f = parse(PROGRAMS[name])
    run = lower(f)
    rng = np.random.default_rng(0)
    for n, m in SIZES if len(f.sizes) > 1 else sorted({(n, 0) for n, _ in SIZES}):
        values = sized(f, n, m, rng)
        if values is not None:
            assert_close(run(**values), evaluate(f, **values), 2e-4)


LARGE = {
    "columns": (50_001, 5),
    "columns and planes": (5_001, 5),
    "leading axis of a product": (3, 50_001),
    "leading axis of a stored product": (3, 50_001),
    "correlation": (50_001, 5),
    "its adjoint in x": (5, 50_001),
    "its adjoint in w": (50_001, 70),
    "strided correlation": (20_001, 5),
    "its adjoint in x, strided": (20_001, 5),
    "matrix product": (3, 50_001),
    "sum of a product and a number": (3, 50_001),
    "distances": (3, 50_001),
    "shift": (50_001, 0),
    "stride's adjoint": (50_001, 0),
    "moving sum": (50_001, 0),
    "lets": (50_001, 0),
}


@pytest.mark.parametrize("name", LARGE)
def test_single_precision_holds_at_tens_of_thousands(name: str) -> None:
    f = parse(PROGRAMS[name])
    values = sized(f, *LARGE[name], np.random.default_rng(1))
    assert values is not None
    with jax.enable_x64(True):
        want = lower(f)(**{k: np.asarray(v, np.float64) for k, v in values.items()})
    assert_close(lower(f)(**values), np.asarray(want), 2e-4)


def test_a_loop_runs_over_whichever_index_is_shorter() -> None:
    run = lower(parse(PROGRAMS["correlation"]))
    for n, m in ((2000, 3), (3, 2000), (300, 200)):
        x, w = np.random.default_rng(0).normal(size=(2, n + m - 1)).astype(np.float32)
        text = str(jax.make_jaxpr(run)(x, w[:m]))
        assert_close(run(x, w[:m]), np.correlate(x.astype(float), w[:m].astype(float)), 1e-4)
        assert str(n * m) not in text


def all_sizes(f: Lowered, *args: Any) -> list[int]:
    """The sizes of all arrays in the traced program, those in inner programs included."""
    found = []
    stack = [jax.make_jaxpr(f)(*args).jaxpr]
    while stack:
        jaxpr = stack.pop()
        for equation in jaxpr.eqns:
            found += [v.aval.size for v in equation.outvars if hasattr(v.aval, "size")]
            stack += [p.jaxpr for p in equation.params.values() if hasattr(p, "jaxpr")]
    return found


def ones(*dims: int) -> jax.Array:
    return jnp.ones(dims)


@pytest.mark.parametrize(
    ("text", "shapes", "most"),
    [
        ("f(A: [n][n]R, x: [n]R) = gen i:n. sum j:n. [i = j] * A[i, j] * x[j]", [(50, 50), (50,)], 100),
        ("f(x: [n]R, y: [n]R) = sum i:n, j:n. [i = j] * x[i] * y[j]", [(50,), (50,)], 50),
        ("f(x: [n]R, y: [n]R) = gen i:n. sum j:n. [j = 3] * x[i] * y[j]", [(50,), (50,)], 50),
        ("f(x: [n]R) = gen k:2*n. sum i:n. [k = 2*i + 1] * x[i]", [(50,)], 100),
        ("f(x: [n]R, w: [m]R) = gen k:2*n + m. sum i:n, j:m. [k = 2*i + j] * x[i] * w[j]", [(50,), (4,)], 110),
        ("f(A: [n][m]R, B: [m][k]R) = gen i:n, j:k. sum l:m. A[i, l] * B[l, j]", [(9, 50), (50, 9)], 450),
        ("f(x: [n]R, y: [n]R) = gen i:n. sum j:n. [0 <= i - j < 3] * x[i] * y[j]", [(50,), (50,)], 52),
        ("f(x: [n]R) = gen i:n. [i < 5] * sum j:n. [j < 5] * x[i] * x[j]", [(50,)], 50),
    ],
)
def test_nothing_is_stored_beyond_its_support(text: str, shapes: list[tuple[int, ...]], most: int) -> None:
    assert max(all_sizes(lower(parse(text)), *(ones(*s) for s in shapes))) <= most


def test_source_is_readable_and_self_contained() -> None:
    f = parse(
        "loss(x: [n + m - 1]R, w: [m]R, z: [n]R) ="
        " let y = gen i:n. sum j:m. x[i + j] * w[j] in sum k:n. (y[k] - z[k])^2"
    )
    source = lower(f).source
    assert "    # y = gen i:n. sum j:m. x[i + j] * w[j] : [n]R" in source
    assert "    result = jnp.sum((y - z) ** 2)" in source
    assert set(re.findall(r"^(?:import|from) (\w+)", source, re.M)) == {"jax"}
    space: dict[str, Any] = {}
    exec(source, space)
    x, w, z = np.ones(6), np.ones(3), np.zeros(4)
    assert float(space["loss"](x, w, z)) == 36


def test_sizes_are_solved_for_when_no_axis_is_one() -> None:
    f = parse("f(x: [n + m]R, y: [n - m]R) = gen i:n. x[i]")
    assert lower(f)(np.arange(6.0), np.zeros(2)).shape == (4,)
    g = parse("g(x: [2*n + 3]R) = gen i:n. x[2*i]")
    assert "n = (x.shape[0] - 3) // 2" in lower(g).source


def test_a_size_that_no_shape_gives_is_passed_by_name() -> None:
    x, n = Var("x", R), Size("n")
    f = Function("f", (x,), gen([(Index("i"), atom_affine(n))], x))
    assert lower(f)(2.0, n=3).tolist() == [2, 2, 2]
    assert "def f(x, *, n):" in lower(f).source


def test_names_that_mean_something_to_python_are_changed() -> None:
    names = ["lambda", "jnp", "__import__", "print", "dtype", "_over", "x y\nimport os", "é", "n", ""]
    params = tuple(Var(name, R) for name in names)
    body = params[0]
    for p in params[1:]:
        body = Add(body, p, 1)
    v = Var("jax", R)
    f = Function("class", params, Let(v, body, Mul(v, v)))
    source = lower(f).source
    head = re.search(r"^def (\w+)\((.*)\):$", source, re.M)
    assert head is not None and head[1] == "class_"
    found = head[2].split(", ")
    assert len(set(found)) == len(names)
    assert not {"lambda", "jnp", "__import__", "print", "dtype", "_over"} & set(found)
    assert all(name.isidentifier() and name.isascii() for name in found)
    assert "import os" not in re.sub(r"#.*", "", source)
    assert float(lower(f)(*range(10))) == 45**2


def test_two_names_alike_stay_two() -> None:
    a, b = Var("y", R), Var("y", R)
    f = Function("f", (Var("x", R),), Let(a, number(2), Let(b, Mul(a, number(3)), Add(a, b, -1))))
    assert float(lower(f)(0.0)) == -4


def test_single_and_double_precision_follow_the_inputs() -> None:
    f = parse("f(x: [n]R, c: R) = (gen i:n. [i = 0] * 2, (gen i:n. x[i] / c, 1/3))")
    for dtype in (np.float32, np.float16):
        assert [a.dtype for a in jax.tree.leaves(lower(f)(np.ones(2, dtype), dtype(3)))] == [dtype] * 3
    assert lower(f)(np.ones(2, int), 3)[1][0].dtype == np.float32
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            assert [a.dtype for a in jax.tree.leaves(lower(f)(np.ones(2, dtype), dtype(3)))] == [dtype] * 3


@pytest.mark.parametrize("e", ["where_gt(x[i], 0, 1)", "[2 < i] * where_ge(x[i], 0, 2) + 1", "where_gt(x[i], 1, 1)^2"])
def test_results_of_comparisons_are_numbers(e: str) -> None:
    for text in (f"f(x: [n]R) = gen i:n. {e}", f"f(x: [n]R) = sum i:n. {e}"):
        found = lower(parse(text))(np.arange(5, dtype=np.float32))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, evaluate(parse(text), np.arange(5.0)))


def test_a_false_bracket_hides_values_that_are_not_finite() -> None:
    f = parse("f(x: [n]R, y: [n]R) = gen i:n. [i > 0 and i != 2] * log(x[i]) * y[i]")
    x, y = np.array([0, 1, -1, 4], np.float32), np.array([np.nan, 1, np.inf, 1], np.float32)
    assert_close(lower(f)(x, y), np.array([0, 0, 0, np.log(4)]), 1e-6)
    g = parse("g(x: [n]R, y: [n]R) = sum i:n. [i != 2] * x[i] * y[i]")
    assert float(lower(g)(x, np.array([1, 1, np.nan, 1], np.float32))) == 5


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R) = sum i:n. [i != 2] * log(x[i])",
        "f(x: [n]R) = sum i:n. [i = 0 or i > 2] * sqrt(x[i]) / x[i]",
        "f(x: [n]R) = sum i:n, j:n. [i < j and j != 2 and i != 2] * log(x[i]) * recip(x[j])",
        "f(x: [n]R) = sum i:n. [i != 2] * pow(x[i], 1.5) * x[i]",
        "f(x: [n]R) = sum i:n. [i > 2] * log(x[i - 3]) + [i < n - 2] * x[i]",
    ],
)
def test_derivatives_through_a_false_bracket_are_finite(text: str) -> None:
    run = lower(parse(text))
    x = np.array([1.5, 2, 0, 3, 4], np.float32)
    value, slope = jax.value_and_grad(run)(x)
    assert np.isfinite(value) and np.isfinite(slope).all()
    with jax.enable_x64(True):
        for k in (0, 1, 3, 4):
            step = np.eye(5)[k] * 1e-5
            want = (run(x + step) - run(x - step)) / 2e-5
            assert slope[k] == pytest.approx(float(want), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    "name", ["correlation", "band", "its adjoint in x, strided", "triangle", "shift", "or, exists"]
)
def test_vmap_and_grad_of_generated_code_are_right(name: str) -> None:
    f = parse(PROGRAMS[name])
    run = lower(f)
    rng = np.random.default_rng(2)
    several = [sized(f, *((70, 66) if name == "correlation" else (31, 5)), rng) for _ in range(2)]
    stacked = {k: np.stack([s[k] for s in several if s is not None]) for k in (several[0] or {})}
    batched = jax.vmap(lambda kwargs: run(**kwargs))(stacked)
    for got, values in zip(batched, several, strict=True):
        assert_close(got, evaluate(f, **(values or {})), 2e-4)
    with jax.enable_x64(True):
        values = {k: v.astype(float) for k, v in (several[0] or {}).items()}
        first = next(iter(values))
        way = rng.normal(size=values[first].shape)
        loss = lambda x: jnp.sum(jnp.sin(run(**{**values, first: x})))
        slope = jnp.sum(jax.jit(jax.grad(loss))(values[first]) * way)
        step = (loss(values[first] + 1e-5 * way) - loss(values[first] - 1e-5 * way)) / 2e-5
        assert float(slope) == pytest.approx(float(step), rel=1e-5, abs=1e-6)


def test_a_function_runs_compiled_when_it_is_called() -> None:
    f = parse("f(x: [n]R, c: R) = gen i:n. c * x[i]")
    assert np.asarray(f(np.ones(3), c=2)).tolist() == [2, 2, 2]
    assert jax.jit(f)(jnp.ones(3), 2.0).tolist() == [2, 2, 2]
    assert jax.grad(lambda c: f(jnp.ones(3), c).sum())(1.0) == 3


def test_arguments_that_do_not_fit_are_refused() -> None:
    run = lower(parse("f(x: [n]R, y: [n]R) = gen i:n. x[i] + y[i]"))
    with pytest.raises(ArgumentError, match="y has shape"):
        run(np.ones(3), np.ones(4))
    with pytest.raises(ArgumentError, match="real numbers"):
        run(np.ones(3), np.ones(3) * 1j)
    with pytest.raises(ArgumentError, match="needs y"):
        run(np.ones(3))
    with pytest.raises(ArgumentError, match="target"):
        lower(run.function, target="fortran")


def test_a_relation_may_be_a_sparse_matrix() -> None:
    f = parse(PROGRAMS["relation"])
    r, x = np.random.default_rng(0).random((4, 5)) < 0.5, np.arange(5.0)
    assert_close(lower(f)(scipy.sparse.csr_matrix(r), x), np.asarray(lower(f)(r, x)), 0)


register(
    "test_less_half",
    arity=2,
    cost=2,
    transpose=lambda xs, y, t: [t, Mul(number(Fraction(-1, 2)), t)],
    evaluate=lambda a, b: a - b / 2,
    source="{0} - {1} / 2",
)


def test_a_users_scalar_function_keeps_its_meaning_in_any_place() -> None:
    x = Var("x", R)
    f = Function("f", (x,), Mul(number(3), call("test_less_half", Add(x, number(1), 1), Add(x, number(5), -1))))
    assert float(lower(f)(2.0)) == 3 * (3 - -3 / 2)


def test_coefficients_beyond_32_bits_are_refused_where_they_would_overflow() -> None:
    f = parse("f(x: [n]R) = gen i:n, j:n. [3000000000*i < j] * x[i]")
    with pytest.raises(LimitError, match="32 bits"):
        lower(f)
    g = parse("g(x: [n]R) = gen i:n. [3000000000*i < n] * x[i]")
    assert lower(g)(np.ones(3)).tolist() == [1, 0, 0]


def test_division_by_a_zero_constant_is_left_to_the_arrays() -> None:
    assert float(lower(parse("f(x: R) = x / 0"))(1.0)) == np.inf
    assert float(lower(parse("f(x: [n]R) = 1 / (sum i:n. 1)"))(np.ones(0))) == np.inf


def test_a_shared_graph_takes_linear_time() -> None:
    x = Var("x", R)
    e = Add(x, number(1), 1)
    for _ in range(40):
        e = Mul(e, e)
    source = lower(Function("f", (x,), e)).source
    assert len(source) < 5000
    i, n = Index("i"), Size("n")
    y = Var("y", array((atom_affine(n),), R))
    e = Add(access(y, atom_affine(i)), x, 1)
    for _ in range(40):
        e = Mul(e, e)
    for _ in range(40):
        e = Add(e, e, 1)
    assert len(lower(Function("f", (x, y), sums([(i, atom_affine(n))], e))).source) < 9000


@pytest.mark.slow
def test_deep_expressions_and_long_programs_become_source_that_python_accepts() -> None:
    x = Var("x", R)
    right = left = x
    for k in range(2000):
        right = Add(x, call("sin", right), -1) if k % 2 else Mul(x, right)
        left = Add(left, x, 1) if k % 2 else Mul(left, x)
    lower(Function("f", (x,), Add(right, left, 1)))
    body = last = Var("y9999", R)
    for k in reversed(range(10_000)):
        before = Var(f"y{k - 1}", R) if k else x
        body, last = Let(last, Add(before, x, 1), body), before
    assert len(lower(Function("f", (x,), body)).source) < 1_000_000


def agrees_with_the_evaluator(seed: int, smooth: bool) -> None:
    rng = random.Random(seed)
    f = random_function(rng, scalars="smooth" if smooth else "powers", fuel=12)
    values = random_arguments(f, rng, random_sizes(f, rng), exact=False)
    try:
        want = evaluate(f, **values)
    except EvaluationError:
        return
    with jax.enable_x64(True):
        assert_close(lower(push_out_gen(eliminate_pairs(let_lift(f))))(**values), want, 1e-6)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.booleans())
def test_random_programs_agree_with_the_evaluator(seed: int, smooth: bool) -> None:
    agrees_with_the_evaluator(seed, smooth)


def test_random_programs_agree_when_every_loop_is_rolled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in HELPERS.items():
        rolled = source.replace("32", "2").replace("> 64", "> 1").replace("<= 64", "<= 1")
        monkeypatch.setitem(HELPERS, name, rolled)
    for seed in range(30):
        agrees_with_the_evaluator(seed, seed % 2 == 0)


def test_comments_are_made_when_somebody_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    comment = lowering._comment
    monkeypatch.setattr(lowering, "_comment", lambda e, name: made.append(name) or comment(e, name))
    lowered = lower(parse("f(x: [n]R) = let y = gen i:n. sin(x[i]) * x[i] in sum i:n. y[i] * y[i] * x[i]"))
    assert np.isfinite(lowered(np.ones(3)))
    assert not made
    assert lowered.source.count("\n    # y = gen i:n.") == 1
    assert made.count("y") == 1
    namespace: dict[str, Any] = {}
    exec(lowered.source, namespace)
    assert namespace["f"](np.ones(3)) == lowered(np.ones(3))


def test_a_comment_is_one_line_however_long_its_condition() -> None:
    indices = "abcdefghij"
    read = " * ".join(f"x[{i}]" for i in indices)
    f = parse(f"f(x: [n]R) = sum {', '.join(f'{i}:n' for i in indices)}. [{' + '.join(indices)} < n] * {read}")
    assert lower(f)(np.array([2.0, 3.0])) == 2**10 + 10 * 2**9 * 3
