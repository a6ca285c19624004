"""Kernels for GPUs by Triton, without one: numbers by Pallas' interpreter, Triton's code, machine code for Hopper."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.case import Case
from benchmarks.kernels import BOUNDS, Subject, answer, cast, error, lowered_for_gpu
from benchmarks.programs.kernels import KERNELS
from tensorlang.lowering.emit.library.triton import _intervals, _lists, _rescaling
from tensorlang.lowering.kernels import run as pallas
from tensorlang.lowering.kernels.run import TRITON_WARNING
from tests.support.triton_code import compiled_for_hopper, triton_kernels

_QUICK = {"triangle times matrix", "HM-LSTM cell", "softmax cross-entropy"}
_SMALL = dict.fromkeys(("n", "m", "p", "c", "o"), 16)
_SHARED = 227 * 1024
"""Bytes of shared memory that a block of threads can have on Hopper."""


def _each(names: set[str] = _QUICK) -> list[Any]:
    """Programs and adjoints; those of `names` are quick."""
    marks = {case.name: () if case.name in names else (pytest.mark.slow,) for case in KERNELS}
    return [
        pytest.param(Subject(case, of), marks=marks[case.name], id=f"{case.name}, {of}")
        for case in KERNELS
        for of in ("program", "adjoint")
    ]


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="there is no GPU here")
        warnings.filterwarnings("ignore", message=TRITON_WARNING)
        yield


def _lowered(f: tl.Function, **blocks: int) -> Any:
    known = {size.name for size in f.sizes}
    return tl.lower(f, target="pallas-triton", blocks={name: n for name, n in blocks.items() if name in known})


def _module(source: str) -> dict[str, Any]:
    """The definitions of the source, run without our package."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<generated>", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("subject", _each())
def test_kernels_agree_with_double_precision_at_odd_sizes(subject: Subject) -> None:
    arguments = cast(subject.arguments(subject.case.odd, 3), "float32")
    found = _lowered(subject.function, **_SMALL)(*arguments)
    assert error(found, answer(subject, arguments)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("subject", _each(set()))
def test_operands_of_half_the_length_are_summed_in_single_precision(subject: Subject) -> None:
    arguments = cast(subject.arguments(subject.case.odd, 4), "bfloat16")
    found = _lowered(subject.function, **_SMALL)(*arguments)
    assert all(x.dtype == jnp.bfloat16 for x in jax.tree.leaves(found))
    assert error(found, answer(subject, arguments)) < BOUNDS["bfloat16"]


@pytest.mark.parametrize("subject", _each(_QUICK | {"causal attention", "2-D convolution", "block-sparse product"}))
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
def test_all_kernels_become_code_of_triton(subject: Subject, dtype: str) -> None:
    lowered = _lowered(subject.function)
    run = _module(lowered.source)[subject.function.name]
    made = triton_kernels(run, *cast(subject.arguments(subject.case.odd, 0), dtype))
    kernels = [step for step in lowered.program.steps if hasattr(step, "axes")]
    assert len(made) == len(kernels) > 0


def _named(name: str) -> Case:
    return next(case for case in KERNELS if case.name == name)


def _tables(f: tl.Function, shapes: list[tuple[int, ...]]) -> list[np.ndarray[Any, Any]]:
    """The tables of visited tiles that are passed to the kernels of `f`, which are not run."""
    namespace = _module(tl.lower(f, target="pallas-triton").source)
    tables: list[np.ndarray[Any, Any]] = []

    def call(_: Any, out_shape: Any, **__: Any) -> Any:
        def launch(*arguments: Any) -> Any:
            tables.append(np.asarray(arguments[-1]))
            return [jnp.zeros(x.shape, x.dtype) for x in out_shape]

        return launch

    namespace["pl"] = SimpleNamespace(**{**vars(namespace["pl"]), "pallas_call": call})
    namespace[f.name](*(np.zeros(shape, np.float32) for shape in shapes))
    return tables


def test_the_adjoint_of_causal_attention_visits_little_more_than_half_of_the_tiles() -> None:
    f = _named("causal attention").derived
    n = 32 * 128
    tables = _tables(f, [(1, n, 16)] * 4)
    assert len(tables) == 3
    for table in tables:
        assert table.shape == (32, 4)
        visited = np.sum(table[:, 3] - table[:, 0])
        assert visited / (32 * 64) <= 0.55
        assert np.sum(table[:, 2] - table[:, 1]) >= 0.9 * visited - 32


def test_a_sliding_window_visits_tiles_in_proportion_to_its_width() -> None:
    counts = []
    for tiles in (32, 64):
        (table,) = _tables(_named("sliding-window attention").function, [(1, tiles * 128, 16)] * 3)
        counts.append(np.sum(table[:, 3] - table[:, 0]))
        assert counts[-1] <= tiles * (512 / 64 + 3)
    assert counts[1] <= 2.1 * counts[0]


def test_results_are_the_same_in_every_run_to_the_last_bit() -> None:
    subject = Subject(_named("triangle times matrix"), "adjoint")
    arguments = cast(subject.arguments({"n": 40, "p": 9}, 5), "float32")
    run = _lowered(subject.function, n=16)
    for a, b in zip(run(*arguments), run(*arguments), strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))


def test_a_row_of_which_no_tile_is_visited_is_zero() -> None:
    f = tl.parse("f(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j + 40 <= i] * A[i, j] * B[j, k]")
    a, b = np.random.default_rng(0).normal(size=(2, 60, 60)).astype(np.float32)
    found = np.asarray(_lowered(f, n=16)(a, b))
    assert np.all(found[:40] == 0)
    assert np.allclose(found, np.tril(a.astype(float), -40) @ b, atol=1e-5)


def test_functions_that_triton_lacks_are_left_to_jax_numpy_and_the_source_says_so() -> None:
    f = tl.parse("f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. erfc(sum j:m. A[i, j] * B[j, k])")
    lowered = tl.lower(f, target="pallas-triton")
    assert "Triton has no erfc" in lowered.source
    assert "pallas_call" not in lowered.source


_CALLS = (
    *("exp({})", "log({})", "sin({})", "cos({})", "tan({})", "tanh({})", "sinh({})", "cosh({})", "sigmoid({})"),
    *("sqrt({})", "relu({})", "abs({})", "sign({})", "softplus({})", "logaddexp({}, A[i, 0])", "max({}, A[i, 0])"),
    *("{}^3", "1 / {}"),
)


@pytest.mark.parametrize("call", _CALLS)
def test_scalar_functions_become_code_of_triton(call: str) -> None:
    f = tl.parse(f"f(A: [n][m]R, B: [n][m]R) = gen i:n, k:m. B[i, k] * {call.format('A[i, k]')}")
    run = _module(tl.lower(f, target="pallas-triton").source)["f"]
    x = jax.ShapeDtypeStruct((32, 32), jnp.float32)
    assert len(triton_kernels(run, x, x)) == 1


def test_tiles_of_other_lengths_than_powers_of_two_are_refused() -> None:
    f = tl.parse("f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. A[i, j] * B[j, k]")
    with pytest.raises(tl.ArgumentError, match="a power of 2 long, found 48 along n"):
        tl.lower(f, target="pallas-triton", blocks={"n": 48})


def test_tables_list_the_tiles_of_each_row() -> None:
    rng = np.random.default_rng(0)
    visited = rng.random((20, 9)) < 0.5
    whole = visited & (rng.random((20, 9)) < 0.5)
    for row, v, w in zip(np.asarray(_lists(visited, whole)), visited, whole, strict=True):
        assert (row[0], row[1]) == (w.sum(), v.sum())
        assert list(row[2 : 2 + row[0]]) == list(np.flatnonzero(w))
        assert list(row[2 + row[0] : 2 + row[1]]) == list(np.flatnonzero(v & ~w))


def test_intervals_are_those_of_the_visited_tiles_and_of_whole_ones_among_them() -> None:
    rng = np.random.default_rng(1)
    ends = np.sort(rng.integers(0, 10, (30, 2)), 1)
    visited = (np.arange(9) >= ends[:, :1]) & (np.arange(9) < ends[:, 1:])
    whole = visited & (rng.random((30, 9)) < 0.6)
    for (first, start, stop, last), v, w in zip(np.asarray(_intervals(visited, whole)), visited, whole, strict=True):
        assert list(range(first, last)) == list(np.flatnonzero(v))
        assert first <= start <= stop <= last
        assert w[start:stop].all()
        assert (stop > start) == w.any()


def test_sums_are_kept_where_a_maximum_does_not_grow_even_from_nothing() -> None:
    nothing = -np.inf
    assert np.array_equal(_rescaling(jnp.asarray([nothing, nothing, 1.0]), jnp.asarray([nothing, 2.0, 1.0])), [1, 0, 1])


def _as_on_a_gpu() -> None:
    """Run kernels as far as a machine without a GPU allows: until they are compiled."""
    f = tl.parse("f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. A[i, j] * B[j, k]")
    x = jax.ShapeDtypeStruct((32, 32), jnp.float32)
    assert "triton" in lowered_for_gpu(tl.lower(f, target="pallas-triton"), [x, x]).as_text()


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(pallas, "_warned", set())
    with warnings.catch_warnings():
        warnings.resetwarnings()
        yield


@pytest.mark.usefixtures("_gpu")
@pytest.mark.skipif(jax.__version_info__ < (0, 11), reason="Triton is not deprecated in this version of JAX")
def test_where_warnings_are_errors_ours_of_triton_comes_first_and_says_what_lets_it_and_jaxs_pass() -> None:
    warnings.simplefilter("error")
    for _ in range(2):  # the warning is repeated until it is heeded
        with pytest.raises(DeprecationWarning, match=f"{TRITON_WARNING} by JAX {jax.__version__}") as said:
            _as_on_a_gpu()
    advice = re.search(r"warnings\.filterwarnings\(.*\)", str(said.value))
    assert advice is not None
    exec(advice[0])
    _as_on_a_gpu()


@pytest.mark.usefixtures("_gpu")
def test_that_triton_is_deprecated_is_said_once_and_only_where_it_is() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _as_on_a_gpu()
        _as_on_a_gpu()
    assert all(str(w.message).startswith(TRITON_WARNING) for w in said)
    ours = [w for w in said if f"{TRITON_WARNING} by JAX" in str(w.message)]
    assert len(ours) == (jax.__version_info__ >= (0, 11)) and bool(said) == bool(ours)


@pytest.mark.usefixtures("_gpu")
def test_a_program_without_kernels_says_nothing_of_what_runs_them() -> None:
    warnings.simplefilter("error")
    lowered = tl.lower(tl.parse("f(A: [n][m]R) = sum i:n, j:m. A[i, j]"), target="pallas-triton")
    assert "pallas_call" not in lowered.source
    assert lowered(np.eye(3)) == 3


def test_a_jax_without_triton_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("jax.experimental.pallas.triton")
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas.triton", None)
    f = tl.parse("f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. A[i, j] * B[j, k]")
    with pytest.raises(tl.MissingPackage, match=r"can't run the kernels of 'pallas-triton'.*triton"):
        tl.lower(f, target="pallas-triton")(np.ones((3, 4)), np.ones((4, 5)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["matrix product", "causal attention", "HM-LSTM cell"])
def test_machine_code_for_hopper_fits_its_memory_and_uses_its_matrix_units(
    name: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton", reason="the package triton compiles for GPUs that aren't there")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    case = _named(name)
    run = _module(tl.lower(case.function, target="pallas-triton").source)[case.function.name]
    shapes = case.shapes(case.sizes[1])
    given = [jax.ShapeDtypeStruct(a.shape, dtype if a.dtype != bool else bool) for a in shapes]
    for kernel in triton_kernels(run, *(given[:-1] if case.takes_cotangent else given)):
        made = compiled_for_hopper(triton, kernel, tmp_path)
        assert made.shared <= _SHARED
        assert made.spilled == 0
        assert ("wgmma.mma_async" in made.code) == (name != "HM-LSTM cell")
