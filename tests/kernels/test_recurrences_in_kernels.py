"""Recurrences as kernels over time: results, the contents of fast memory, and code for accelerators without having
one."""

from __future__ import annotations

import re
from functools import partial
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

import tensorlang as tl
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.emit.library.tiles import _steps_at_once
from tensorlang.lowering.kernels.ir import Kernel, Plain, Recurrence
from tensorlang.lowering.kernels.run import Kernels
from tests.derivatives.test_recurrences import PROGRAMS, arguments, value_of
from tests.support.recurrences import parsed, recurrent

pytestmark = [
    pytest.mark.filterwarnings("ignore::tensorlang.lowering.kernels.run.InterpretedWarning"),
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated"),
]

TARGETS = ("pallas-tpu", "pallas-triton")
N = tl.sizes("n")

GATES = """let i = gen a:p, k:n. sigmoid(x[t, a, k] + sum j:n. A[k, j] * h[a, j]) in
  let f = gen a:p, k:n. sigmoid(b[k] + sum j:n. B[k, j] * h[a, j]) in
  let g = gen a:p, k:n. tanh(sum j:n. C[k, j] * h[a, j]) in
  let d = gen a:p, k:n. f[a, k] * c[a, k] + i[a, k] * g[a, k] in
  (gen a:p, k:n. f[a, k] * tanh(d[a, k]), d)"""

CELLS = {
    "RNN": """f(W: [n][n]R, U: [n][m]R, b: [n]R, x: [T][m]R, h0: [n]R) =
      let h = scan t:T with h = h0. gen i:n. tanh((sum j:n. W[i, j] * h[j]) + (sum j:m. U[i, j] * x[t, j]) + b[i]) in
      sum t:T, i:n. h[t, i]^2""",
    "RNN of examples": """f(W: [n][n]R, U: [n][m]R, b: [n]R, x: [T][p][m]R, h0: [p][n]R) =
      let h = scan t:T with h = h0.
        gen a:p, i:n. tanh((sum j:n. W[i, j] * h[a, j]) + (sum k:m. U[i, k] * x[t, a, k]) + b[i]) in
      sum t:T, a:p, i:n. h[t, a, i]^2""",
    "examples before the time": """f(W: [n][n]R, x: [p][T][n]R, h0: [p][n]R) =
      let h = fold t:T with h = h0. gen a:p, i:n. tanh((sum j:n. W[i, j] * h[a, j]) + x[a, t, i]) in
      sum a:p, i:n. h[a, i]^2""",
    "LSTM": f"""f(A: [n][n]R, B: [n][n]R, C: [n][n]R, b: [n]R, x: [T][p][n]R, h0: [p][n]R, c0: [p][n]R) =
      let z = fold t:T with h = h0, c = c0. {GATES} in sum a:p, k:n. fst(z)[a, k]^2""",
    "GRU": """f(A: [n][n]R, B: [n][n]R, x: [T][n]R, h0: [n]R) =
      let h = fold t:T with h = h0.
        let r = gen i:n. sigmoid(x[t, i] + sum j:n. A[i, j] * h[j]) in
        let c = gen i:n. tanh(x[t, i] + sum j:n. B[i, j] * (r[j] * h[j])) in
        gen i:n. (1 - r[i]) * h[i] + r[i] * c[i] in
      sum i:n. h[i]^2""",
    "a vector and a number": """f(W: [n][n]R, h0: [n]R, x: [T][n]R) =
      let z = fold t:T with h = h0, s = 0.
        (gen i:n. tanh((sum j:n. W[i, j] * h[j]) + x[t, i]), s + sum i:n. h[i]^2 * x[t, i]) in snd(z)""",
    "backwards": """f(W: [n][n]R, h0: [n]R, x: [T][n]R) =
      let h = fold reversed t:T with h = h0. gen i:n. tanh((sum j:n. W[i, j] * h[j]) + x[t, i]) in
      [0 < n] * (h[0] * h[n - 1])""",
    "elements at numbers": """f(u: [T][n + 1]R, x: [T]R, b: [n + 1]R) =
      let z = prescan t:T with s = b[0], v = b. (tanh(x[t] + u[t, n]), gen i:n + 1. s * v[i] + u[t, 0]) in
      (sum t:T. fst(z[t])) * (sum t:T, i:n + 1. snd(z[t])[i]^2)""",
    "a number": "f(a: [T]R, s0: R) = fold t:T with s = s0. sin(a[t] * s) + s",
}
"""Programs that both targets have as kernels, with their adjoints."""

STENCILS = {
    "wave": """f(u0: [n]R, v0: [n]R, c: [n]R, z: [T]R) =
      let w = fold t:T with u = u0, v = v0.
        (gen i:n. 2 * u[i] - v[i] + c[i] * z[t] * ([1 <= i] * u[i - 1] - 2 * u[i] + [i + 1 < n] * u[i + 1]), u) in
      sum i:n. fst(w)[i]^2 * snd(w)[i]""",
    "heat in two dimensions": """f(u0: [n][m]R, z: [T]R) =
      let u = fold t:T with u = u0. gen i:n, j:m. u[i, j] + 0.1 * z[t] * ([1 <= i] * u[i - 1, j]
        + [i + 1 < n] * u[i + 1, j] + [1 <= j] * u[i, j - 1] + [j + 1 < m] * u[i, j + 1] - 4 * u[i, j]) in
      sum i:n, j:m. u[i, j]^2""",
}
"""Programs that only TPUs have as kernels, since they need shifts that registers of GPUs lack."""

PLACES = {
    "later ones": ("u: [T][n + 1]R", "s[i] + u[t, i + 1]"),
    "backwards at the time": ("u: [T][m]R", "s[i] + [i < m] * u[t, m - i - 1]"),
    "every other one": ("u: [T][2*n]R", "s[i] + u[t, 2*i + 1]"),
    "backwards": ("u: [n]R", "s[i] + u[n - 1 - i]"),
    "columns backwards": ("u: [n][n]R", "sum j:n. u[i, n - 1 - j] * s[j]"),
    "rows backwards": ("u: [n][n]R", "sum j:n. u[n - 1 - i, j] * s[j]"),
    "sums of indices": ("u: [2*n]R", "sum j:n. u[i + j] * s[j]"),
    "beyond a size": ("u: [n + m]R, x: [m]R", "s[i] + u[i + m]"),
    "of the state, backwards": ("u: [T]R", "u[t] + s[n - 1 - i]"),
    "of a relation, backwards": ("E: rel(n, n)", "sum j:n. [E(n - 1 - i, j)] * s[j]"),
    "of a relation, beyond a size": ("E: rel(n, n + m), x: [m]R", "sum j:n. [E(i, j + m)] * s[j]"),
}
"""Places of which steps read elements; not all can be read in a kernel."""

SIZES = [
    {"T": 0, "n": 3, "m": 2, "p": 3},
    {"T": 1, "n": 1, "m": 1, "p": 1},
    {"T": 7, "n": 5, "m": 3, "p": 2},
    {"T": 37, "n": 7, "m": 4, "p": 9},
]


def kernels(f: tl.Function, target: str, **options: Any) -> Kernels:
    found = tl.lower(f, target, **options)
    assert isinstance(found, Kernels)
    return found


def over_time(lowered: Kernels) -> list[Recurrence]:
    return [step for step in lowered.program.steps if isinstance(step, Recurrence)]


def left(lowered: Kernels) -> list[str]:
    """The reasons why recurrences are not kernels."""
    steps = lowered.program.steps
    return [step.reason for step in steps if isinstance(step, Plain) and step.by != "jax.numpy"]


def given(f: tl.Function, sizes: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(sum(sizes.values()))
    return jax.tree.map(lambda x: np.asarray(x, np.float32) - 0.5, [value_of(p.type, sizes, rng) for p in f.variables])


def close(found: Any, wanted: Any, within: float = 3e-5) -> bool:
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True))
    assert [np.shape(x) for x, _ in pairs] == [np.shape(y) for _, y in pairs]
    return all(np.allclose(x, y, rtol=0, atol=within * (1 + np.max(np.abs(y), initial=0))) for x, y in pairs)


def exact(f: tl.Function, values: list[Any]) -> Any:
    return tl.evaluate(f, *jax.tree.map(lambda x: np.asarray(x, np.float64), values))


def function(lowered: Kernels) -> Any:
    """The function that the source defines, run on its own."""
    namespace: dict[str, Any] = {}
    exec(lowered.source, namespace)
    return namespace[lowered.function.name]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("RNN", "a vector and a number", "a number") else pytest.mark.slow)
        for name in CELLS
    ],
)
def test_cells_and_their_gradients_are_kernels_that_agree_with_double_precision(name: str, target: str) -> None:
    f = tl.parse(CELLS[name])
    for g, least in ((f, 1), (tl.value_and_grad(f), 2)):
        lowered = kernels(g, target)
        assert len(over_time(lowered)) >= least
        assert not left(lowered)
        for sizes in SIZES:
            values = given(g, sizes)
            assert close(lowered(*values), exact(g, values))


@pytest.mark.parametrize("name", STENCILS)
def test_stencils_over_time_are_kernels_for_tpus_and_are_left_to_scan_on_gpus(name: str) -> None:
    g = tl.value_and_grad(tl.parse(STENCILS[name]))
    for target in TARGETS:
        lowered = kernels(g, target)
        assert len(over_time(lowered) if target == "pallas-tpu" else left(lowered)) == 2
        for sizes in SIZES:
            values = given(g, sizes)
            assert close(lowered(*values), exact(g, values))


_QUICK = {"broadcast of one element", "shift register", "swap of states", "under a gen", "nested", "pairs"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow) for name in PROGRAMS]
)
def test_every_recurrence_is_lowered_and_right(name: str, target: str) -> None:
    f = tl.adjoint(tl.parse(PROGRAMS[name]))
    lowered = kernels(f, target)
    for T, n in ((1, 1), (5, 3)):
        values = arguments(f, seed=T, T=T, n=n)
        told = {size.name: {"T": T, "n": n}[size.name] for size in f.sizes if size.name in _told(lowered)}
        assert close(lowered(*values, **told), tl.evaluate(f, *values, **told))


def _told(lowered: Kernels) -> set[str]:
    return set(lowered._form(()).made.told.values())


LEFT = {
    "may end before": "f(a: [T]R, x: R) = fold t:T with s = x until s < 0.1. 0.5 * s * cos(a[t])",
    "a recurrence in its steps": PROGRAMS["nested"],
    "numbers that indices are": "f(x: [n]R, a: [T]R) = fold t:T with s = x. gen i:n. a[t] * s[i] + real(i)",
    "not one time of each step": "f(E: [k][n]R, w: [T]idx(k), x: [n]R) = "
    "fold t:T with s = x. gen i:n. tanh(s[i] + E[w[t], i])",
    "is read at the time": PROGRAMS["one element a step"]
    .replace("s[0] * u[t]", "s[i] * u[t]")
    .replace("f(h: [n]R, u: [T]R) =", "f(h: [T]R, u: [T]R) =")
    .replace("gen i:n. [i = t] * sin(s[i]", "gen i:T. [i != t] * sin(s[t]"),
}


@pytest.mark.parametrize("reason", LEFT)
def test_what_is_no_kernel_is_left_to_jax_with_the_reason(reason: str) -> None:
    f = tl.parse(LEFT[reason])
    rng = np.random.default_rng(0)
    sizes = {"T": 4, "n": 3, "k": 5}
    values: list[Any] = []
    for p in f.params:
        if isinstance(p, tl.language.affine.IndexArray):
            values.append(rng.integers(0, 5, 4))
        else:
            values.append(value_of(p.type, sizes, rng))
    for target in TARGETS:
        lowered = kernels(f, target)
        assert any(reason in found for found in left(lowered)), left(lowered)
        assert reason in str(lowered.explain())
        assert f"# Left to lax.{'while_loop' if 'end' in reason else 'scan'}: " in lowered.source
        assert close(lowered(*values), tl.evaluate(f, *values))


@tl.external(cost="n^3 + n^2")
def solve(A: tl.R[N, N], b: tl.R[N]) -> tl.R[N]:  # type: ignore[valid-type]
    return jnp.linalg.solve(A, b)


@tl.adjoint_of(solve)
def solve_adjoint(A, b, y, y_bar):  # type: ignore[no-untyped-def]
    b_bar = solve(tl.gen((N, N), lambda i, j: A[j, i]), y_bar)
    return tl.gen((N, N), lambda i, j: -b_bar[i] * y[j]), b_bar


@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_users_are_called_between_kernels(target: str) -> None:
    f = tl.value_and_grad(tl.function(lambda A, b: tl.sum(N, lambda i: solve(A, b)[i] ** 2), A=tl.R[N, N], b=tl.R[N]))
    values = [np.eye(4) * 3 + np.arange(16.0).reshape(4, 4) / 9, np.ones(4)]
    lowered = kernels(f, target)
    assert any(isinstance(step, Kernel) for step in lowered.program.steps)
    assert close(lowered(*values), f(*values))


@pytest.mark.slow
def test_index_arrays_and_relations_in_steps() -> None:
    f = tl.parse(
        "f(W: [n][n]R, h: [n]R, E: rel(n, n), k: [n]idx(T), x: [T][n]R) = fold t:T with s = h. "
        "gen i:n. [t <= k[i]] * tanh(x[t, i] + sum j:n. [E(i, j)] * W[i, j] * s[j]) + [k[i] < t] * s[i]"
    )
    rng = np.random.default_rng(1)
    T, n = 6, 5
    values = [rng.normal(size=(n, n)), rng.normal(size=n), rng.random((n, n)) < 0.5, rng.integers(0, T, n)]
    values.append(rng.normal(size=(T, n)))
    for target in TARGETS:
        lowered = kernels(f, target)
        assert len(over_time(lowered)) == 1
        assert close(lowered(*values), tl.evaluate(f, *values))
        g = tl.adjoint(f)
        assert close(kernels(g, target)(*values, np.ones(n)), tl.evaluate(g, *values, np.ones(n)))


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_of_gradients_under_jit(target: str) -> None:
    f = tl.parse(CELLS["a number"])
    g = tl.grad(
        tl.parse("g(a: [T]R, s0: R) = let d = grad s0. (fold t:T with s = s0. sin(a[t] * s) + s) in d * d"), "a"
    )
    values = given(f, {"T": 7})
    lowered = kernels(g, target)
    assert over_time(lowered)
    assert close(jax.jit(lowered.__call__)(*values), exact(g, values))


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_of_examples_end_where_the_examples_end(target: str) -> None:
    g = tl.value_and_grad(tl.parse(CELLS["LSTM"]))
    lowered = kernels(g, target, blocks={"p": 16})
    for step in over_time(lowered):
        (examples,) = [axis for axis in step.step.axes if axis.is_tiled]
        assert str(examples.extent) == "p"
        assert examples.block == 16
    values = given(g, {"T": 3, "n": 5, "p": 37})
    assert close(lowered(*values), exact(g, values))


@pytest.mark.slow
def test_several_blocks_of_steps_in_a_simulated_tpu_do_not_race(capfd: pytest.CaptureFixture[str]) -> None:
    """Unwritten memory holds nan there."""
    for text in (CELLS["RNN of examples"], STENCILS["wave"]):
        g = tl.value_and_grad(tl.parse(text))
        values = given(g, {"T": 67, "n": 5, "m": 3, "p": 9})
        lowered = kernels(g, "pallas-tpu", blocks={"p": 8} if "p:" in text or "a:p" in text else None)
        found = function(lowered)(*values, interpret=pltpu.InterpretParams(detect_races=True))
        assert close(found, exact(g, values))
    assert "RACE" not in capfd.readouterr().out.upper()


def test_matrices_are_fetched_once_and_sequences_in_blocks_of_steps() -> None:
    source = kernels(tl.grad(tl.parse(CELLS["RNN"])), "pallas-tpu").source
    assert source.count("pl.BlockSpec((n, n), lambda time: (0, 0))") == 2  # forwards and backwards
    assert "pl.BlockSpec((steps, 1, m), lambda time: (time, 0, 0))" in source
    assert "pl.BlockSpec((steps, 1, n), lambda time: (blocks - 1 - time, 0, 0))" in source
    assert source.count("pltpu.VMEM((1, n), jnp.float32)") >= 2
    assert "bar_1[::-1].T @ h1" in source  # computations that do not depend on time are outside


def test_what_does_not_fit_into_fast_memory_is_left_to_scan_when_sizes_are_known() -> None:
    assert _steps_at_once(1000, [(128, 128)], [(1, 128)], 0) == 64
    assert _steps_at_once(5, [(128, 128)], [(1, 128)], 0) == 5
    assert _steps_at_once(1000, [(2000, 2000)], [(1, 2000)], 0) == 0
    assert _steps_at_once(1000, [], [], 100) == 5
    f = tl.parse(CELLS["RNN"])
    for target, fits, too_large in (("pallas-tpu", 512, 2048), ("pallas-triton", 128, 256)):
        run = function(kernels(f, target))
        for n, kernel in ((fits, True), (too_large, False)):
            shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((n, n), (n, 3), (n,), (9, 3), (n,))]
            assert ("pallas_call" in str(jax.make_jaxpr(partial(run, interpret=True))(*shapes))) is kernel


@pytest.mark.parametrize("store", ["states", "sqrt", "log"])
def test_what_is_computed_again_is_left_to_scan(store: str) -> None:
    g = tl.value_and_grad(tl.parse(CELLS["RNN"]))
    lowered = kernels(g, "pallas-tpu", store=store)
    assert any("window by window" in reason for reason in left(lowered))
    values = given(g, SIZES[2])
    assert close(lowered(*values), exact(g, values))


@pytest.mark.parametrize("target", TARGETS)
def test_half_precision_keeps_its_states_in_single(target: str) -> None:
    f = tl.parse(CELLS["examples before the time"])
    values = [jnp.asarray(x, jnp.bfloat16) for x in given(f, SIZES[3])]
    found = kernels(f, target)(*values)
    assert found.dtype == jnp.bfloat16
    assert close(np.asarray(found, np.float64), exact(f, values), 0.03)


def test_a_recurrence_prints_what_it_does() -> None:
    (step,) = over_time(kernels(tl.parse(CELLS["RNN"]), "pallas-tpu"))
    assert str(step).splitlines() == [
        "kernel f_step0",
        "  for t:T, one after the other",
        "  i:n whole",
        "  j:n whole",
        "  j1:m whole",
        "    x_now is x[t, :]",
        "    h_next[i] = tanh((sum j:n. W[i, j] * h[j]) + (sum j1:m. U[i, j1] * x_now[j1]) + b[i])",
        "    h, h0 at first, becomes h_next",
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PLACES)
def test_elements_at_any_places_are_read(name: str, target: str) -> None:
    params, body = PLACES[name]
    f = tl.parse(f"f(c: [T]R, h: [n]R, {params}) = fold t:T with s = h. gen i:n. tanh(c[t] * ({body}))")
    sizes = {"T": 3, "n": 5, "m": 4}
    rng = np.random.default_rng(0)
    for g in (f, tl.adjoint(f)):
        known = {size: sizes[size.name] for size in g.sizes}
        values = [
            value_of(p.type, sizes, rng)
            if isinstance(p, Var)
            else rng.random(tuple(a.value(known) for a in p.sizes)) < 0.5
            for p in g.params
        ]
        assert close(kernels(g, target)(*values), tl.evaluate(g, *values), 1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_two_states_may_become_the_same(target: str) -> None:
    f = tl.parse("f(x: [n]R, c: R) = fold t:3 with s = x, r = x. let y = gen i:n. c - s[i] * r[i] in (y, y)")
    x = np.linspace(-1, 1, 5)
    assert close(kernels(f, target)(x, 0.5), tl.evaluate(f, x, 0.5), 1e-4)
    assert not left(kernels(f, target))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_random_recurrences_agree_with_the_evaluator(seed: int, target: str) -> None:
    made = recurrent(Random(seed))
    f, _ = parsed(made)
    sizes = {"T": made.steps, "n": len(made.arguments["b"]) - 1}
    rng = np.random.default_rng(seed)
    for g in (f, tl.adjoint(f)):
        values = [
            made.arguments[p.name] if p.name in made.arguments else value_of(p.type, sizes, rng) for p in g.params
        ]
        assert close(kernels(g, target)(*values), tl.evaluate(g, *values), 1e-4)


def _on(chip: str, f: tl.Function, sizes: dict[str, int]) -> list[Any]:
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    device = SingleDeviceSharding(topologies.get_topology_desc(chip, "tpu").devices[0])
    known = {size: sizes[size.name] for size in f.sizes}
    dims = [tuple(a.value(known) for a in shape(p.type)[0]) for p in f.variables]
    return [jax.ShapeDtypeStruct(d, np.float32, sharding=device) for d in dims]


@pytest.mark.parametrize("sizes", [{"T": 400, "n": 512, "m": 64, "p": 600}, {"T": 37, "n": 7, "m": 5, "p": 3}])
@pytest.mark.parametrize("name", ["RNN", "RNN of examples", "a vector and a number", "wave", "heat in two dimensions"])
def test_kernels_over_time_compile_for_tpus(name: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libtpu", reason="the compiler for TPUs comes with the extra tpu")
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    g = tl.value_and_grad(tl.parse({**CELLS, **STENCILS}[name]))
    lowered = kernels(g, "pallas-tpu")
    text = jax.jit(function(lowered)).lower(*_on("v5e:2x2", g, sizes)).compile().as_text()
    calls = [line for line in text.splitlines() if 'custom_call_target="tpu_custom_call"' in line]
    taken = [
        int(size) for line in calls for size in re.findall(r'"memory_space":"1","offset":"\d+","size":"(\d+)"', line)
    ]
    assert len(calls) >= len(over_time(lowered))
    assert all(size <= 2**24 for size in taken)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "a vector and a number"])
def test_kernels_over_time_are_lowered_for_gpus(name: str) -> None:
    from tests.support.triton_code import triton_kernels

    g = tl.value_and_grad(tl.parse(CELLS[name]))
    lowered = kernels(g, "pallas-triton")
    known = {size: {"T": 50, "n": 64, "m": 32, "p": 64}[size.name] for size in g.sizes}
    shapes = [jax.ShapeDtypeStruct([a.value(known) for a in shape(p.type)[0]], np.float32) for p in g.variables]
    found = [kernel.name for kernel in triton_kernels(function(lowered), *shapes)]
    assert sum("over_time" in kernel for kernel in found) == len(over_time(lowered))
