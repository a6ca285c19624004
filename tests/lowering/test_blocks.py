"""Sums over triangles, bands and other domains that are not boxes: their values and their work."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tensorlang import adjoint
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.ir import Assign
from tensorlang.lowering.costs import VARIABLE
from tensorlang.lowering.lower import lower
from tensorlang.measure.count import Count, count
from tensorlang.surface.parse import parse
from tests.support.growing import agrees
from tests.support.operations import count_of, is_cut

SMALL = {
    "block_rows": 2,
    "blocks": 3,
    "cut_rows": 2,
    "cuts": 3,
    "block_product": 3,
    "block_product_rows": 2,
    "block_products": 2,
    "block_inner": 1,
    "window_rows": 1,
    "band_cells": 3,
    "running_block": 2,
}
"""A cost table by which tiny programs are lowered like large ones."""

PROGRAMS = {
    "triangle": "f(c: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j < i] * c[i, j] * x[j]",
    "triangle times matrix": "f(a: [n][n]R, b: [n][m]R) = gen i:n, k:m. sum j:n. [j <= i] * a[i, j] * b[j, k]",
    "two triangles": "f(a: [n][n]R, b: [n][n]R) = gen i:n, k:n. sum j:n. [k <= j <= i] * a[i, j] * b[j, k]",
    "quadratic form of a triangle": "f(a: [n][n]R, x: [n]R) = sum i:n, j:n. [j <= i] * x[i] * a[i, j] * x[j]",
    "triangle under the other diagonal": "f(a: [n][n]R, x: [n]R) = gen i:n. sum j:n. [i + j <= n] * a[i, j] * x[j]",
    "staircase": "f(a: [m][n]R, x: [n]R) = gen i:m. sum j:n. [j <= 2*i] * a[i, j] * x[j]",
    "wedge": "f(a: [n][m]R, x: [m]R) = gen i:n. sum j:m. [i <= j <= 2*i + 1] * a[i, j] * x[j]",
    "simplex": "f(x: [n]R, a: [n][n]R) = sum i:n, j:n, k:n. [i <= j <= k] * sin(x[i] * x[j]) * a[j, k]",
    "three indices at once": "f(a: [n][n][n]R) = sum i:n, j:n, k:n. [i + j + k <= n] * a[i, j, k]",
    "pairs": "f(x: [n]R) = sum i:n, j:n. [j < i] * exp(-(x[i] - x[j])^2)",
    "logarithms of pairs": "f(x: [n]R) = gen i:n. sum j:n. [j < i] * log(x[i] - x[j]^2 + 2)",
    "narrow band": "f(a: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j - 2 <= i <= j + 1] * a[i, j] * x[j]",
    "band of any width": "f(a: [n][n]R, b: [n][m]R, w: [m]R) ="
    " gen i:n, k:m. sum j:n. [j - m <= i <= j + m] * a[i, j] * b[j, k]",
    "steep band": "f(a: [n][2*n]R, x: [2*n]R, w: [m]R) ="
    " gen i:n. sum j:2*n. [2*i - m <= j <= 2*i + m] * a[i, j] * x[j]",
    "quadratic form of a band": "f(a: [n][n]R, x: [n]R, w: [m]R) ="
    " sum i:n, j:n. [j - m <= i <= j + m] * x[i] * a[i, j] * x[j]",
    "band of a product": "f(a: [n][m]R, b: [n][m]R) = gen i:n, j:n. [j - m <= i <= j + m] * sum k:m. a[i, k] * b[j, k]",
    "band storage": "f(a: [n][5]R, x: [n]R) = gen i:n. sum k:5. [0 <= i + k - 2 < n] * a[i, k] * x[i + k - 2]",
    "running sum": "f(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[j]",
    "running sums of rows": "f(x: [m][n]R) = gen k:m, i:n. sum j:n. [i <= j] * x[k, j]",
    "running sum read with strides": "f(x: [n]R, y: [m]R) = gen i:m. y[i] * sum j:n. [j <= 2*i - 3] * x[j]^2",
}


def inputs(f: Function, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = (shape(p.type)[0] for p in f.params)
    return [rng.uniform(0.5, 1.5, [a.value({s: sizes[s.name] for s in a.sizes}) for a in sh]) for sh in shapes]


def leaves(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        exact = np.asarray(b, float)
        scale = max(1.0, float(np.abs(exact).max(initial=0)))
        np.testing.assert_allclose(np.asarray(a), exact, rtol=tolerance, atol=tolerance * scale)


@pytest.fixture
def small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "costs.json"
    table.write_text(json.dumps(SMALL))
    monkeypatch.setenv(VARIABLE, str(table))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("small_blocks")
def test_every_way_through_the_blocks_agrees_with_the_evaluator(name: str) -> None:
    f = parse(PROGRAMS[name])
    lowered = lower(f)
    for n in (0, 1, 7):
        arguments = inputs(f, {"n": n, "m": min(n, 3)}, n)
        assert_close(lowered(*arguments), evaluate(f, *arguments))


@pytest.mark.parametrize("name", ["triangle", "two triangles", "pairs", "narrow band", "band storage", "running sum"])
@pytest.mark.usefixtures("small_blocks")
def test_adjoints_through_the_blocks_agree_with_the_evaluator(name: str) -> None:
    f = adjoint(parse(PROGRAMS[name]))
    arguments = inputs(f, {"n": 7, "m": 3})
    assert_close(lower(f)(*arguments), evaluate(f, *arguments))


def exactly(name: str, a: list[np.ndarray]) -> np.ndarray:
    """The value of a program, computed by NumPy."""
    n = len(a[0])
    i, j = np.arange(n)[:, None], np.arange(n)
    match name:
        case "triangle":
            return np.where(j < i, a[0], 0) @ a[1]
        case "triangle times matrix":
            return np.where(j <= i, a[0], 0) @ a[1]
        case "pairs":
            return np.where(j < i, np.exp(-((a[0][:, None] - a[0]) ** 2)), 0).sum()
        case "narrow band":
            return np.where((j - 2 <= i) & (i <= j + 1), a[0], 0) @ a[1]
        case "band of any width":
            return np.where(abs(i - j) <= len(a[2]), a[0], 0) @ a[1]
        case "running sum":
            return np.cumsum(a[0])
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "n", "m"),
    [
        ("triangle", 2049, 1),
        ("triangle times matrix", 1153, 33),
        ("pairs", 1153, 1),
        ("narrow band", 2049, 1),
        ("band of any width", 1153, 45),
        ("running sum", 49_999, 1),
    ],
)
def test_large_odd_sizes_agree_with_numpy_in_float64(name: str, n: int, m: int) -> None:
    f = parse(PROGRAMS[name])
    arguments = inputs(f, {"n": n, "m": m})
    assert_close(lower(f)(*(a.astype(np.float32) for a in arguments)), exactly(name, arguments))


def test_the_adjoint_of_a_large_band_agrees_with_numpy_in_float64() -> None:
    f = parse(PROGRAMS["narrow band"])
    a, x = inputs(f, {"n": 1153})
    y = np.cos(np.arange(1153.0))
    i, j = np.arange(1153)[:, None], np.arange(1153)
    inside = (j - 2 <= i) & (i <= j + 1)
    found = lower(adjoint(f))(*(b.astype(np.float32) for b in (a, x, y)))
    assert_close(found, (np.where(inside, y[:, None] * x, 0), y @ np.where(inside, a, 0)))


def counted(f: Function, sizes: Mapping[str, int]) -> Count:
    shapes = [tuple(a.value({s: sizes[s.name] for s in a.sizes}) for a in shape(p.type)[0]) for p in f.params]
    return count(lower(f), *(jax.ShapeDtypeStruct(s, np.float32) for s in shapes))


@pytest.mark.parametrize(
    ("name", "sizes", "model", "factor"),
    [
        ("triangle", {"n": 512}, 512**2, 1.5),
        ("triangle", {"n": 2048}, 2048**2, 1.5),
        ("triangle times matrix", {"n": 2048, "m": 64}, 64 * 2048**2, 1.5),
        ("triangle times matrix", {"n": 1024, "m": 1024}, 1024**3, 1.5),
        ("two triangles", {"n": 1024}, 1024**3 / 3, 2),
        ("triangle under the other diagonal", {"n": 1024}, 1024**2, 1.5),
        ("staircase", {"n": 1024, "m": 512}, 2 * 1024 * 512 / 2, 1.5),
        ("narrow band", {"n": 4096}, 8 * 4096, 1.5),
        ("band of any width", {"n": 1024, "m": 8}, 2 * 17 * 8 * 1024, 2),
        ("band of any width", {"n": 2048, "m": 64}, 2 * 129 * 64 * 2048, 1.5),
        ("quadratic form of a band", {"n": 2048, "m": 32}, 2 * 65 * 2048, 1.5),
        ("pairs", {"n": 1024}, 4 * 1024**2 / 2, 1.5),
    ],
)
def test_the_operations_are_those_of_the_domain(name: str, sizes: dict[str, int], model: float, factor: float) -> None:
    assert counted(parse(PROGRAMS[name]), sizes).arithmetic <= factor * model


def test_a_running_sum_takes_time_in_proportion_to_its_length() -> None:
    short, long = (counted(parse(PROGRAMS["running sum"]), {"n": n}).operations for n in (4096, 32768))
    assert long <= 8.5 * short


def test_the_transcendental_functions_of_pairs_are_those_of_a_triangle() -> None:
    assert counted(parse(PROGRAMS["pairs"]), {"n": 1024}).transcendental <= 1.25 * 1024**2 / 2


def test_a_dense_adjoint_of_a_band_computes_the_band_alone() -> None:
    n, m = 1024, 2
    adjoint_in_a = adjoint(parse(PROGRAMS["band of any width"]), wrt="a")
    assert counted(adjoint_in_a, {"n": n, "m": m}).arithmetic <= 40 * (2 * m + 1) * m * n < n * n * m


def test_a_bracket_hides_infinities_on_the_other_side_of_a_triangle() -> None:
    c = np.where(np.tri(300, k=-1) > 0, 1.0, np.inf).astype(np.float32)
    y = lower(parse(PROGRAMS["triangle"]))(c, np.ones(300, np.float32))
    np.testing.assert_allclose(np.asarray(y), np.arange(300.0))


def test_the_mask_of_a_triangle_goes_on_the_matrix_whose_whole_rows_are_read() -> None:
    transposed = parse("f(c: [n][n]R, y: [n]R) = gen i:n. sum j:n. [i < j] * c[j, i] * y[j]")
    body = lower(transposed).source.split("def f(")[1]
    assert (
        body.count("@") == 1
        and "y[j_start:j_stop] @ jnp.where(j[:, None] > i, c[j_start:j_stop, :j_stop - 1], 0)" in body
    )
    (found,) = inputs(parse("f(c: [n][n]R) = sum i:n. c[i, i]"), {"n": 515})
    y = np.cos(np.arange(515.0))
    wanted = np.tril(found, -1).T @ y
    assert_close(lower(transposed)(found.astype(np.float32), y.astype(np.float32)), wanted)


def test_a_matrix_is_not_masked_beside_what_may_be_infinite() -> None:
    f = parse("f(c: [n][n]R, x: [n]R) = gen i:n. sum j:n. [j < i] * c[i, j] * log(x[j])")
    x = np.linspace(1, 2, 300)
    x[-1] = 0  # no element of the triangle is multiplied by it
    c = np.ones((300, 300))
    wanted = np.tril(c, -1)[:, :-1] @ np.log(x[:-1])
    assert_close(lower(f)(c.astype(np.float32), x.astype(np.float32)), wanted)


def test_matrices_and_their_transposes_in_triangles_are_masked_once() -> None:
    form = adjoint(parse(PROGRAMS["quadratic form of a triangle"]), wrt="x")
    n = 512
    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((n, n), (n,), ())]
    compiled = jax.jit(lower(form)).lower(*shapes).compile().as_text()
    blocks = [line for line in compiled[compiled.index("ENTRY") :].splitlines() if "select" in line.split("(")[0]]
    assert 1 <= len(blocks) <= 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_named_that_no_line_reads(name: str) -> None:
    f = parse(PROGRAMS[name])
    for lowered in (lower(f), lower(adjoint(f))):
        body = lowered.source.split(f"def {lowered.function.name}(")[1]
        code = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("#"))
        named = re.findall(r"^ *(\w+) = (?:max|min|jnp\.arange)\(", code, re.MULTILINE)
        assert all(len(re.findall(rf"\b{x}\b", code)) > 1 for x in named), code


def test_a_guard_at_the_corners_is_no_band() -> None:
    made = lower(adjoint(parse(PROGRAMS["band storage"])))
    assert not count_of(made, "_array_by_windows", "_sum_by_windows", "_band_by_windows")


def test_a_matrix_product_masks_its_factors_and_is_never_multiplied_out() -> None:
    sizes = {"n": 512}
    assert counted(parse(PROGRAMS["two triangles"]), sizes).temporaries <= 20 * 4 * 512**2


@pytest.mark.usefixtures("small_blocks")
def test_what_is_kept_in_blocks_is_put_together_where_a_running_sum_reads_all_of_it() -> None:
    f = parse("""f(A: [n][n]R, x: [n]R) =
      let S = gen i:n, j:n. [j <= i] * exp(A[i, j] * x[j]) in
      let z = gen i:n. sum j:n. [j <= i] * S[i, j] in
      (gen i:n. (sum j:n. [j <= i] * S[i, j] * x[j]) / z[i], gen j:n, i:n. sum k:n. [k <= i] * S[k, j])""")
    lowered = lower(f)
    assert [step.variables[0].name for step in lowered.plan.steps if is_cut(step)] == ["S"]
    assert any("S_whole" in s.names for s in lowered.array_program.definition.body.walk() if isinstance(s, Assign))
    agrees(f, 1, 2, 7)


@pytest.mark.slow
def test_a_sum_in_blocks_within_a_sum_in_blocks_has_its_bounds_where_they_are_read() -> None:
    agrees(
        parse("""f(x: [n]R, t: [n]idx(n), k: [n]idx(3), a: [n][3]R, b: [n][3]R) = gen i:n. sum j:n, l:3.
            [i = t[j] and 0 <= 2*j + l - 1 < n] * cos(a[j, l] * x[j])
              * (b[j, l] + [k[j] = l] * -sum p:3. [0 < 2*j + p <= n] * b[j, p])"""),
        0,
        1,
        2,
        7,
    )
