"""Correlations and sums over windows: every way to compute them, at all sizes, and their cost when compiled."""

from __future__ import annotations

import gc
import itertools
import json
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import tensorlang as tl
from tensorlang.cli import main
from tensorlang.errors import CostTableError
from tensorlang.language.affine import Atom
from tensorlang.language.types import shape
from tensorlang.lowering import costs
from tensorlang.lowering.arrays import meaning
from tensorlang.lowering.emit.library import correlations, windows
from tensorlang.measure import tuning
from tensorlang.measure.count import count
from tests.support.operations import count_of
from tests.support.sampling import one_in

_PARTS: Any = correlations
_WINDOWS: Any = windows

PROGRAMS = {
    "convolution": "f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
    "full": "f(x: [n]R, w: [m]R) = gen i:n + m - 1. sum j:m. [0 <= i - j < n] * x[i - j] * w[j]",
    "causal": "f(x: [n]R, w: [m]R) = gen i:n. sum j:m. [j <= i] * x[i - j] * w[j]",
    "strided": "f(x: [2*n + m - 2]R, w: [m]R) = gen i:n. sum j:m. x[2*i + j] * w[j]",
    "dilated": "f(x: [n + 3*m - 3]R, w: [m]R) = gen i:n. sum j:m. x[i + 3*j] * w[j]",
    "strided and dilated alike": "f(x: [2*n + 2*m]R, w: [m]R) = gen i:n. sum j:m. x[2*i + 2*j] * w[j]",
    "strided and dilated": "f(x: [2*n + 3*m]R, w: [m]R) = gen i:n. sum j:m. x[2*i + 3*j] * w[j]",
    "strided backwards and dilated": "f(x: [3*n + 2*m]R, w: [m]R) = gen i:n. sum j:m. x[3*n - 3*i + 2*j] * w[j]",
    "steps within windows": "f(x: [n]R, y: [m]R) = gen i:m. y[i] * sum j:n. [0 <= 3*i - 2*j < 7] * x[j]",
    "plane": "f(x: [n + k][n + k]R, c: [k][k]R) = gen i:n, j:n. sum a:k, b:k. x[i + a, j + b] * c[a, b]",
    "strided plane": (
        "f(x: [2*n + k][2*n + k]R, c: [k][k]R) = gen i:n, j:n. sum a:k, b:k. x[2*i + a, 2*j + b] * c[a, b]"
    ),
    "channels": (
        "f(x: [b][c][n + k][n + k]R, w: [d][c][k][k]R) ="
        " gen q:b, r:d, i:n, j:n. sum e:c, s:k, t:k. x[q, e, i + s, j + t] * w[r, e, s, t]"
    ),
    "each with its own taps": "f(x: [b][n + m]R, w: [b][m]R) = gen k:b, i:n. sum j:m. x[k, i + j] * w[k, j]",
    "Toeplitz": "f(t: [2*n - 1]R, x: [n]R) = gen i:n. sum j:n. t[i - j + n - 1] * x[j]",
    "Hankel matrix times matrix": "f(t: [n + m]R, x: [m][k]R) = gen i:n, l:k. sum j:m. t[i + j] * x[j, l]",
    "with itself": "f(x: [n]R) = gen i:n. sum j:n. [i + j < n] * x[i + j] * x[j]",
    "of functions": "f(x: [n + m]R, w: [m]R, z: [n]R) = gen i:n. z[i] * sum j:m. exp(x[i + j]) * x[i + j + 1] * w[j]",
    "pooling": "f(x: [2*n][2*m]R) = gen i:n, j:m. sum a:2, b:2. 0.25 * x[2*i + a, 2*j + b]",
    "overlapping pools": "f(x: [2*n + 1]R) = gen i:n. sum a:3. x[2*i + a]",
    "moving sum": "f(x: [n]R) = gen i:n. sum a:n. [-3 <= a - i <= 3] * x[a]",
    "sum of a loss": "f(x: [n + m - 1]R, w: [m]R, z: [n]R) = sum i:n. ((sum j:m. x[i + j] * w[j]) - z[i])^2",
}


def force(monkeypatch: pytest.MonkeyPatch, path: Path, table: dict[str, int]) -> None:
    """Lower by this cost table."""
    path.write_text(json.dumps(table))
    monkeypatch.setenv(costs.VARIABLE, str(path))


def drawn(f: tl.Function, sizes: dict[str, int], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    values: dict[Atom, int] = {s: sizes[s.name] for s in f.sizes}
    return {v.name: rng.standard_normal([n.value(values) for n in shape(v.type)[0]]) for v in f.variables}


SLICES = {"slice_taps": 99, "fused_terms": 99, "conv_channels": 999, "conv_outputs": 99}
SUMS = {"slice_taps": 0, "fused_terms": 2, "conv_channels": 999, "sum_outputs": 99}
SELDOM = {"slice_taps": 0, "fft_taps": 99, "fft_square": 99, "sum_outputs": 0, "interleaved_terms": 0}
LOOPS = {**SELDOM, "fused_terms": 2, "conv_channels": 999, "conv_outputs": 0}
XLA = {**SELDOM, "fused_terms": 1, "conv_channels": 0, "conv_outputs": 99}
FOURIER = {**SELDOM, "fused_terms": 1, "conv_channels": 0, "fft_taps": 1, "fft_square": 1, "fft_taps_2d": 1}


@pytest.mark.parametrize(
    "table", [SLICES, SUMS, LOOPS, XLA, FOURIER], ids=["slices", "sums", "loops", "XLA", "Fourier"]
)
@pytest.mark.parametrize("name", ["full", "strided", "plane", "channels", "Toeplitz"])
def test_every_way_agrees_with_the_evaluator(
    name: str, table: dict[str, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    force(monkeypatch, tmp_path / "costs.json", table)
    f = tl.parse(PROGRAMS[name])
    agree(tl.adjoint(f), {"n": 5, "m": 3, "k": 2, "b": 2, "c": 2, "d": 3})


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_adjoints_agree_with_the_evaluator_at_small_corners(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    few = {"b": 2, "c": 2, "d": 3, "k": 2}
    for sizes in ({"n": 4, "m": 3}, {"n": 2, "m": 5}, {"n": 1, "m": 1}):
        agree(f, {**few, **sizes})
    for sizes in ({"n": 4, "m": 3}, {"n": 1, "m": 2}):
        agree(tl.adjoint(f), {**few, **sizes})


@pytest.mark.parametrize("name", ["convolution", "full", "strided", "dilated", "pooling", "moving sum"])
def test_nothing_of_a_correlation_may_be_there(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    for sizes in ({"n": 0, "m": 2}, {"n": 3, "m": 0} if name not in {"convolution", "strided", "dilated"} else {}):
        if sizes:
            agree(f, sizes)
            agree(tl.adjoint(f), sizes)


def agree(f: tl.Function, sizes: dict[str, int]) -> None:
    sizes = {s.name: sizes[s.name] for s in f.sizes}
    arguments = drawn(f, sizes)
    with jax.enable_x64(True):
        found = jax.tree.leaves(tl.lower(f)(**arguments))
    for a, b in zip(found, jax.tree.leaves(tl.evaluate(f, **arguments, **sizes)), strict=True):
        np.testing.assert_allclose(a, np.asarray(b, float), atol=1e-9, err_msg=str(sizes))


def reference(x: np.ndarray, w: np.ndarray, at: list[tuple[int, int, int, int]]) -> np.ndarray:
    y = np.zeros((x.shape[0], w.shape[0], *(n for *_, n in at)))
    for i in itertools.product(*(range(n) for *_, n in at)):
        for j in itertools.product(*map(range, w.shape[2:])):
            place = tuple(a * p + b * q + c for (a, b, c, _), p, q in zip(at, i, j, strict=True))
            if all(0 <= k < size for k, size in zip(place, x.shape[2:], strict=True)):
                y[(..., *i)] += np.einsum("be,de->bd", x[(..., *place)], w[(..., *j)])
    return y


@pytest.mark.slow
def test_correlations_are_right_whatever_the_thresholds_and_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, numbers = random.Random(0), np.random.default_rng(0)
    for _ in range(30):
        for name in costs.COSTS:
            monkeypatch.setitem(costs.COSTS, name, rng.choice([1, 2, 4, 8, costs.NEVER]))
        rank = rng.choice([1, 1, 2])
        size = lambda rank=rank: rng.randint(1, 20 if rank == 1 else 7)
        compute = _PARTS._line if rank == 1 else _PARTS._plane
        strides = [(rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3])) for _ in range(rank)]
        at = [(a, b, rng.randint(-6, 6), size()) for a, b in strides]
        own, others, inner = (rng.randint(1, 3) for _ in range(3))
        x = numbers.standard_normal((own, inner, *(size() for _ in at)))
        w = numbers.standard_normal((others, inner, *(size() for _ in at)))
        run = jax.jit(lambda x, w, at=at, compute=compute: _PARTS._correlate_in_steps(x, w, at, compute, 0, 1, 1))
        found = run(x.astype(np.float32), w.astype(np.float32))
        np.testing.assert_allclose(found, reference(x, w, at), atol=1e-4, err_msg=f"{x.shape} {w.shape} {at}")


def test_sums_over_windows_are_right_whatever_the_coefficients() -> None:
    rng, numbers = random.Random(0), np.random.default_rng(0)
    steps = [(1, 1), (1, -1), (2, -1), (3, 1), (-1, 1), (-2, -1), (1, 2), (1, -2), (-1, 3), (1, -3), (2, 3), (3, -2)]
    for a, b in steps:
        for width in (2, 30):
            c, n, size = rng.randint(-9, 9), rng.randint(1, 40), rng.randint(1, 60)
            x = numbers.standard_normal((2, size))
            inside = [[0 <= a * i + b * j + c < width for j in range(size)] for i in range(n)]
            found = jax.jit(lambda x, at=[(a, b, c, n, width)]: _WINDOWS._sum_windows(x, at))(x.astype(np.float32))
            np.testing.assert_allclose(found, x @ np.asarray(inside).T, atol=1e-4, err_msg=f"{a, b, c, n, width}")


LARGE = [("convolution", 30_001, 5), ("convolution", 30_001, 40), ("convolution", 30_001, 600), ("full", 777, 1234)]


@pytest.mark.parametrize(("name", "n", "m"), LARGE)
def test_single_precision_holds_at_tens_of_thousands(name: str, n: int, m: int) -> None:
    f = tl.parse(PROGRAMS[name])
    g = tl.adjoint(f)
    given = drawn(g, {"n": n, "m": m})
    x, w, bar = (given[v.name] for v in g.variables)
    mode: Any = "valid" if name == "convolution" else "full"
    if name == "convolution":
        wanted = [np.correlate(x, w, "valid"), np.convolve(bar, w), np.correlate(x, bar, "valid")]
    else:
        wanted = [np.convolve(x, w, mode), np.correlate(bar, w, "valid"), np.correlate(bar, x, "valid")]
    single = {name: a.astype(np.float32) for name, a in given.items()}
    found = [f(single["x"], single["w"]), *g(**single)]
    for a, b in zip(found, wanted, strict=True):
        assert np.abs(np.asarray(a) - b).max() <= 1e-5 * np.abs(b).max()


def test_a_plane_is_right_at_odd_sizes() -> None:
    f = tl.parse(PROGRAMS["plane"])
    g = tl.adjoint(f)
    for n, k in ((251, 5), (131, 11), (67, 17)):
        given = drawn(g, {"n": n, "k": k})
        x, c, bar = (given[v.name] for v in g.variables)
        views = np.lib.stride_tricks.sliding_window_view(x, (k, k))[:n, :n]
        padded = np.lib.stride_tricks.sliding_window_view(np.pad(bar, ((k - 1, k), (k - 1, k))), (k, k))
        x_bar = np.einsum("ijab,ab->ij", padded, c[::-1, ::-1])
        single = {name: a.astype(np.float32) for name, a in given.items()}
        found = [f(single["x"], single["c"]), *g(**single)]
        wanted = [np.einsum("ijab,ab->ij", views, c), x_bar, np.einsum("ijab,ij->ab", views, bar)]
        for a, b in zip(found, wanted, strict=True):
            assert np.abs(np.asarray(a) - b).max() <= 1e-5 * np.abs(b).max()


COUNTED = [
    ("convolution", {"n": 20_001, "m": 5}),
    ("convolution", {"n": 20_001, "m": 100}),
    ("strided", {"n": 10_001, "m": 8}),
    ("dilated", {"n": 10_001, "m": 8}),
    ("plane", {"n": 101, "k": 7}),
    ("strided plane", {"n": 101, "k": 3}),
    ("sum of a loss", {"n": 20_001, "m": 12}),
    ("pooling", {"n": 100, "m": 101}),
    ("overlapping pools", {"n": 10_001}),
    ("moving sum", {"n": 10_001}),
]


@pytest.mark.parametrize(("name", "sizes"), COUNTED)
def test_compiled_code_does_what_the_model_counts(name: str, sizes: dict[str, int]) -> None:
    f = tl.parse(PROGRAMS[name])
    for g in (f, tl.adjoint(f)):
        arguments = {name: a.astype(np.float32) for name, a in drawn(g, sizes).items()}
        told = {s.name: sizes[s.name] for s in g.sizes}
        done = count(jax.jit(tl.lower(g, exact=True)), **arguments)
        assert done.arithmetic <= 1.55 * tl.cost(g, **told) + 1000


def test_outputs_at_combined_steps_are_strides_not_masks_of_everything() -> None:
    f = tl.adjoint(tl.parse(PROGRAMS["strided and dilated"]))
    arguments = {name: a.astype(np.float32) for name, a in drawn(f, {"n": 1000, "m": 7}).items()}
    assert count(jax.jit(tl.lower(f)), **arguments).arithmetic <= 4 * tl.cost(f, n=1000, m=7)


def test_fourier_transforms_do_less_than_the_model_counts_and_exact_code_has_none() -> None:
    f = tl.adjoint(tl.parse(PROGRAMS["Toeplitz"]))
    arguments = {name: a.astype(np.float32) for name, a in drawn(f, {"n": 2001}).items()}
    fast, exact = tl.lower(f), tl.lower(f, exact=True)
    assert "fft" in str(jax.make_jaxpr(fast)(**arguments))
    assert "fft" not in str(jax.make_jaxpr(exact)(**arguments))
    assert count(jax.jit(fast), **arguments).arithmetic < tl.cost(f, n=2001)
    assert '"fft_taps": 2**62,  # never' in exact.source


def test_few_taps_keep_what_is_infinite_to_where_it_is_read() -> None:
    f = tl.parse(PROGRAMS["convolution"])
    x = np.ones(102, np.float32)
    x[50] = np.inf
    y = np.asarray(f(x, np.ones(3, np.float32)))
    assert np.isinf(y[48:51]).all()
    assert np.isfinite(y[:48]).all()
    assert np.isfinite(y[51:]).all()


def test_half_precision_stays_half_precision() -> None:
    f = tl.parse(PROGRAMS["convolution"])
    for m in (3, 40, 600):
        y = f(jnp.ones(2000 + m - 1, jnp.bfloat16), jnp.ones(m, jnp.bfloat16))
        assert y.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(y, float), m, rtol=0.05)


def test_stencils_are_slices_without_masks() -> None:
    f = tl.parse("f(u: [n + 2]R) = gen i:n. u[i] + u[i + 2] - 2 * u[i + 1]")
    for made in (tl.lower(f), tl.lower(tl.adjoint(f))):
        assert not count_of(made, "where", "arange", "dynamic_slice", "dynamic_slice_in_dim")


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n + m]R, w: [n][m]R) = gen i:n. sum j:m. x[i + j] * w[i, j]",
        "f(x: [n + 2*m]R, y: [n + m]R) = gen i:n. sum j:m. x[i + j] * y[i - j + m]",
        "f(x: [n + 2*m]R, w: [m]R) = gen i:n. sum j:m, k:m. x[i + j + k] * w[j] * w[k]",
    ],
    ids=["taps of each place", "two mixtures", "three indices"],
)
def test_what_is_no_correlation_is_left_to_loops(text: str) -> None:
    f = tl.parse(text)
    assert not count_of(tl.lower(f), "_correlate", "_correlate_in_steps")
    agree(f, {"n": 4, "m": 3})


def test_the_users_cost_table_is_what_code_is_generated_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "costs.json"
    monkeypatch.setenv(costs.VARIABLE, str(path))
    f = tl.parse(PROGRAMS["convolution"])
    assert '"slice_taps": 32,' in tl.lower(f).source
    assert costs.save({"slice_taps": 7}) == path
    assert costs.load() == {**costs.COSTS, "slice_taps": 7}
    assert '"slice_taps": 7,' in tl.lower(f).source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "must be an object, found list"),
        ('{"slice_taps": -1}', "slice_taps must be a whole number of taps"),
        ('{"slice_taps": 1.5}', "slice_taps must be a whole number of taps"),
    ],
)
def test_a_file_that_is_no_cost_table_is_refused(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    monkeypatch.setenv(costs.VARIABLE, str(path))
    with pytest.raises(CostTableError, match=message) as caught:
        tl.lower(tl.parse(PROGRAMS["convolution"]))
    assert str(path) in str(caught.value)


def test_a_threshold_lies_where_both_sides_lose_the_least() -> None:
    make: Callable[[int], Any] = lambda point: None
    upto = tuning.Rivalry("slice_taps", (8, 16, 32), make, inclusive=True)
    start = tuning.Rivalry("fft_taps", (8, 16, 32), make)
    assert tuning.threshold(upto, [(1, 9), (1, 2), (5, 1)]) == 16
    assert tuning.threshold(start, [(1, 9), (1, 2), (5, 1)]) == 32
    assert tuning.threshold(upto, [(3, 1), (3, 1), (3, 1)]) == 0
    assert tuning.threshold(start, [(1, 3), (1, 3), (1, 3)]) == costs.NEVER
    assert tuning.threshold(upto, [(1, 9), (1.1, 1), (1, 2), (5, 1)][:3]) == 32  # one wrong measurement


def test_tune_writes_what_it_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(costs.VARIABLE, str(tmp_path / "costs.json"))
    monkeypatch.setattr(tuning, "duel", lambda first, second, arrays: (1.0, 2.0))
    result = CliRunner().invoke(main, ["tune"])
    assert result.exit_code == 0, result.output
    assert "slice_taps = 64 taps (default 32)" in result.output
    assert "fft_taps = never (default 512)" in result.output
    assert costs.load()["slice_taps"] == 64


@pytest.mark.parametrize("rivalry", tuning.RIVALRIES, ids=lambda r: r.name)
def test_rivals_compute_the_same(rivalry: tuning.Rivalry) -> None:
    first, second, arrays = rivalry.make(rivalry.points[1])
    a, b = np.asarray(jax.jit(first)(*arrays)), np.asarray(jax.jit(second)(*arrays))
    assert np.abs(a - b).max() <= 1e-4 * np.abs(a).max()


def test_few_outputs_of_few_terms_are_sums() -> None:
    f = tl.parse("f(x: [n + m - 1]R, y: [n]R) = gen j:m. sum i:n. x[i + j] * y[i]")

    def convolutions(n: int, m: int) -> int:
        shapes = [jax.ShapeDtypeStruct(dims, np.float32) for dims in ((n + m - 1,), (n,))]
        return jax.jit(tl.lower(f)).lower(*shapes).compile().as_text().count(" convolution(")

    assert convolutions(10_000, 4) == 0
    assert convolutions(100_000, 4) > 0
    x, y = np.sin(np.arange(10_003.0)), np.cos(np.arange(10_000.0) ** 2)
    found = tl.lower(f)(x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(found, np.correlate(x, y, "valid"), atol=1e-2)


def test_zeros_are_put_around_a_column_that_is_read_and_not_around_the_matrix() -> None:
    f = tl.parse(
        "f(A: [n][17]R, y: [n]R) = gen i:n + 16. sum c:17. [0 <= i - c < n] * y[i - c] * A[i - c, c]",
    )
    n = 3001
    shapes = [jax.ShapeDtypeStruct(dims, np.float32) for dims in ((n, 17), (n,))]
    assert count(tl.lower(f), *shapes).temporaries <= 4 * 4 * n
    A, y = np.sin(np.arange(17.0 * n)).reshape(n, 17), np.cos(np.arange(n))
    wanted = sum(np.pad(A[:, c] * y, (c, 16 - c)) for c in range(17))
    np.testing.assert_allclose(tl.lower(f)(A.astype(np.float32), y.astype(np.float32)), wanted, atol=1e-4)


def test_code_that_is_traced_once_does_not_outlive_its_program() -> None:
    lowered = tl.lower(tl.parse("blur(y: [n]R, w: [m]R) = gen i:n. sum j:m. [j <= i] * y[i - j] * w[j]"))
    lowered(jnp.ones(30), jnp.ones(5))
    function = weakref.ref(lowered._form(()).run.__wrapped__)  # type: ignore[attr-defined]
    del lowered
    tl.clear_caches()
    gc.collect()
    assert function() is None


@pytest.mark.parametrize("at", one_in(2, [(1, 1, 0), (8, 1, -3), (1, 3, 2), (2, 3, -5)]))
@pytest.mark.parametrize("sizes", one_in(2, [(3, 9), (8, 8), (9, 3), (40, 8), (9, 9), (1, 5), (5, 1)]))
def test_channels_of_few_taps_or_outputs_are_products_of_matrices(
    at: tuple[int, int, int], sizes: tuple[int, int]
) -> None:
    rng, (taps, n) = np.random.default_rng(0), sizes
    for own, others, inner in ((1, 5, 4), (3, 5, 4), (4, 1, 3), (17, 16, 1)):
        x, w = rng.normal(size=(own, inner, 21)), rng.normal(size=(others, inner, taps))
        with jax.enable_x64(True):
            wanted = meaning.MEANING["_correlate"](x, w, [(*at, n)], None, 0, 1, 1)
            given = _PARTS._correlate_in_steps(x, w, [(*at, n)], _PARTS._line, batch=1, outer=1)
            np.testing.assert_allclose(_PARTS._by_channels(x, w, [(*at, n)]), wanted, atol=1e-12)
        np.testing.assert_allclose(given, wanted, atol=1e-12)
