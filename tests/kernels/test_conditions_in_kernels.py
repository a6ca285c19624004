"""Conditions on values in kernels: masks of tiles. Values that are not chosen have no influence, and take no
products."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

import tensorlang as tl
from benchmarks.kernels import lowered_for_gpu
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape
from tensorlang.lowering.kernels.ir import Kernel, Plain
from tensorlang.lowering.kernels.run import Kernels
from tests.support.sampling import one_in

pytestmark = [
    pytest.mark.filterwarnings("ignore::tensorlang.lowering.kernels.run.InterpretedWarning"),
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated"),
]

TARGETS = ("pallas-tpu", "pallas-triton")

PROGRAMS = {
    "elements": "f(A: [n][m]R) = gen i:n, j:m. if A[i, j] > 0 and j <= i then sqrt(A[i, j]) else 2 * A[i, j]",
    "negations": "f(A: [n][m]R, v: [n]R) = gen i:n, j:m. [not (i = 1 or A[i, j] > v[i])] * log(v[i] - A[i, j])",
    "rows": "f(A: [n][m]R) = gen i:n. sum j:m. [A[i, j] > 0] * log(A[i, j])",
    "columns": "f(A: [n][m]R) = gen j:m. sum i:n. [A[i, j] > 0] * log(A[i, j])",
    "product": "f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. [A[i, j] > 0] * log(A[i, j]) * B[j, k]",
    "triangle": "f(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j <= i and A[i, j] > 0] * log(A[i, j]) * B[j, k]",
    "both sides": """f(A: [n][m]R, B: [m][p]R) =
        gen i:n, k:p. sum j:m. [A[i, j] > 0 and B[j, k] > 0] * log(A[i, j]) * log(B[j, k])""",
    "two vectors": """f(u: [n]R, v: [m]R, B: [m][p]R) =
        gen i:n, k:p. sum j:m. [u[i] <= v[j]] * sqrt(v[j] - u[i]) * B[j, k]""",
    "scores": """f(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
        let s = gen i:n, j:n. sum a:d. Q[i, a] * K[j, a] in
        gen i:n, a:d. sum j:n. [s[i, j] > 0] * log(s[i, j]) * V[j, a]""",
    "products of products": """f(W: [n][d]R, X: [d][m]R) =
        let s = gen i:n, j:m. sum a:d. W[i, a] * X[a, j] in gen i:n, j:m. [s[i, j] > 0] * log(s[i, j])""",
    "no relation": "f(E: rel(n, m), A: [n][m]R) = gen i:n, j:m. [not E(i, j)] * exp(A[i, j])",
    "extrema": """f(A: [n][m]R) =
        let b = gen i:n. max j:m where A[i, j] > -1. A[i, j] in
        gen i:n. sum j:m. [A[i, j] > -1] * exp(A[i, j] - b[i])""",
}
DERIVED = {"program": lambda f: f, "adjoint": tl.adjoint}


def kernels(f: tl.Function, target: str, **blocks: int) -> Kernels:
    sizes = {str(s) for s in f.sizes}
    lengths = {name: n for name, n in blocks.items() if name in sizes}
    found = tl.lower(f, target=target, blocks=lengths if target == "pallas-triton" else None)
    assert isinstance(found, Kernels)
    return found


def given(f: tl.Function, sizes: dict[str, int], planted: bool, infinite: bool = True) -> list[Any]:
    """Arguments; if `planted`, with nan among the elements, and if `infinite`, also inf."""
    rng = np.random.default_rng(0)
    known = {s: sizes[str(s)] for s in f.sizes}
    found: list[Any] = []
    for p in f.params:
        if isinstance(p, Relation):
            found.append(rng.random([a.value(known) for a in p.sizes]) < 0.4)
            continue
        x = rng.normal(size=[a.value(known) for a in shape(p.type)[0]]).astype(np.float32)
        if planted:
            x.flat[rng.integers(x.size, size=1 + x.size // 40)] = np.nan
            x.flat[rng.integers(x.size)] = np.inf if infinite else np.nan
        found.append(x)
    return found


def check(f: tl.Function, run: Any, sizes: dict[str, int], planted: bool, infinite: bool = True) -> None:
    arguments = given(f, sizes, planted, infinite)
    with np.errstate(all="ignore"):
        exact = tl.evaluate(f, *(x.astype(float) if x.dtype == np.float32 else x for x in arguments))
    for a, b in zip(jax.tree.leaves(run(*arguments)), jax.tree.leaves(exact), strict=True):
        size = np.nan_to_num(np.abs(b), nan=0, posinf=0).max(initial=1)
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-3, atol=1e-4 * size)


THREE = "three tiles are multiplied, of which values choose elements"
LEFT = {
    ("extrema", "adjoint"): "it chooses points",
    ("both sides", "adjoint"): THREE,
}
LEFT_ON = {"both sides": "pallas-tpu"}
_QUICK = ("elements", "two vectors")


@pytest.mark.parametrize("what", DERIVED)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow) for name in PROGRAMS]
)
@pytest.mark.parametrize("target", TARGETS)
def test_what_values_do_not_choose_has_no_influence_even_if_it_is_nan(target: str, name: str, what: str) -> None:
    f = DERIVED[what](tl.parse(PROGRAMS[name]))
    run = kernels(f, target, n=16, m=64)
    check(f, run, {"n": 37, "m": 73, "p": 5, "d": 3}, planted=True)
    check(f, run, {"n": 1, "m": 1, "p": 1, "d": 1}, planted=False)
    plain = {step.reason for step in run.program.steps if isinstance(step, Plain)}
    assert plain == ({LEFT[name, what]} if (name, what) in LEFT and target == LEFT_ON.get(name, target) else set())


ASKED = {
    "somewhere in a row": "[exists k:n. A[i, k] > v[j]] * log(A[i, j])",
    "of two computed tiles": "[exists k:n. A[i, k] < A[k, j]] * A[i, j]",
    "beside a relation": "if exists k:n. (E(i, k) and v[k] > 0.5 and k < j) then A[i, j] else u[i]",
    "of a row of one": "[v[i] < u[0] and (exists k:1. v[k] < A[i, j]) or not E(0, i)] * A[i, j]",
    "a relation at a number": "[E(0, 0) or not E(n - 1, 0)] * A[i, j]",
    "numbers": "[s > 0 and not E(0, 0)] * A[i, j]",
    "a relation backwards": "[not E(n - 1 - i, j)] * A[i, j]",
    "an index array": "[c[i] <= j and not E(c[i], j)] * A[i, j]",
}
WITHIN = {
    "elements": "gen i:n, j:n. {e}",
    "sums": "gen i:n. sum j:n. {e}",
    "an extremum": "gen i:n. max j:n. {e}",
    "products": "gen i:n, k:p. sum j:n. {e} * B[j, k]",
}


@pytest.mark.parametrize("within", [pytest.param(w, marks=() if w == "products" else pytest.mark.slow) for w in WITHIN])
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("target", TARGETS)
def test_conditions_may_ask_of_other_places_than_those_of_the_tile(target: str, name: str, within: str) -> None:
    f = tl.parse(f"""f(A: [n][n]R, B: [n][p]R, u: [n]R, v: [n]R, s: R, E: rel(n, n), c: [n]idx(n)) =
        {WITHIN[within].format(e=f"({ASKED[name]})")}""")
    run = kernels(f, target, n=16)
    for n in (1, 19):
        rng = np.random.default_rng(n)
        reals = [rng.uniform(0.1, 1, size) for size in ((n, n), (n, 3), n, n, ())]
        asked = [rng.random((n, n)) < 0.5, rng.integers(0, n, n).astype(np.int32)]
        found = run(*(np.asarray(x, np.float32) for x in reals), *asked)
        np.testing.assert_allclose(np.asarray(found), tl.evaluate(f, *reals, *asked), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("e", ["max k:n. A[i, k] + B[k, j]", "[exists k:n. A[i, k] < B[k, j]] * A[i, j]"])
def test_no_tile_has_three_axes_of_which_an_extremum_is_taken(e: str) -> None:
    f = tl.parse(f"f(A: [n][n]R, B: [n][n]R) = gen i:n, j:n. {e}")
    lowered = tl.lower(f, target="pallas-tpu")
    assert "Left to jax.numpy: an extremum is taken of tiles with three axes." in lowered.source
    a, b = np.random.default_rng(0).normal(size=(2, 9, 9)).astype(np.float32)
    np.testing.assert_allclose(lowered(a, b), tl.evaluate(f, a.astype(float), b.astype(float)), rtol=1e-5)


DATA = "sum j:n. [E({at})] * A[i, j] * B[j, k]"


@pytest.mark.parametrize("at", ["0, 0", "j, 0", "i, i", "n - 1 - j, i", "c[j], i", "j, i"])
@pytest.mark.parametrize("target", TARGETS)
def test_relations_may_be_asked_at_any_places(target: str, at: str) -> None:
    f = tl.parse(f"f(A: [n][n]R, B: [n][p]R, E: rel(n, n), c: [n]idx(n)) = gen i:n, k:p. {DATA.format(at=at)}")
    n, rng = 37, np.random.default_rng(0)
    a, b, c = rng.normal(size=(n, n)), rng.normal(size=(n, 3)), rng.integers(0, n, n).astype(np.int32)
    for e in (rng.random((n, n)) < 0.5, np.tri(n, dtype=bool)):
        found = kernels(f, target, n=16)(a.astype(np.float32), b.astype(np.float32), e, c)
        np.testing.assert_allclose(np.asarray(found), tl.evaluate(f, a, b, e, c), rtol=1e-3, atol=1e-4)


def products(run: tl.Lowered, helper: str, *arguments: Any) -> int:
    """How often the kernels multiply matrices by this function of the library."""
    namespace: dict[str, Any] = {}
    exec(run.source, namespace)
    found, own = [0], namespace[helper]

    def visited() -> None:
        found[0] += 1

    def counted(*given: Any) -> Any:
        jax.debug.callback(visited)
        return own(*given)

    namespace[helper] = counted
    jax.block_until_ready(namespace[run.function.name](*arguments, interpret=True))
    jax.effects_barrier()
    return found[0]


SUMMED = "f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. [A[i, j] > 0] * log(A[i, j]) * B[j, k]"
AROUND = "f(A: [n][m]R, F: [n][p]R, B: [m][p]R) = gen i:n, j:m. [A[i, j] > 0] * sum k:p. F[i, k] * B[j, k]"
MULTIPLIES = {
    "pallas-tpu": {SUMMED: "_dot_of_kept", AROUND: "_dot"},
    "pallas-triton": {SUMMED: "_product_where", AROUND: "_product"},
}


@pytest.mark.parametrize("text", [SUMMED, AROUND], ids=["summed", "around a sum"])
@pytest.mark.parametrize("target", TARGETS)
def test_tiles_in_which_a_condition_on_values_holds_nowhere_are_not_multiplied(target: str, text: str) -> None:
    f = tl.parse(text)
    run = tl.lower(f, target=target, blocks=dict.fromkeys("nmp", 128))
    assert isinstance(run, Kernels)
    A, B, F = np.full((384, 512), -1, np.float32), np.ones((512, 128), np.float32), np.ones((384, 128), np.float32)
    rest = (B,) if text == SUMMED else (F, B)
    helper = MULTIPLIES[target][text]
    run.explain()
    assert products(run, helper, A, *rest) == 0
    A[5, 3] = A[300, 511] = 2
    assert products(run, helper, A, *rest) == 2
    assert products(run, helper, np.abs(A), *rest) == 12
    (kernel,) = run.program.steps
    assert isinstance(kernel, Kernel)
    assert ", in tiles with less(0, A[i, " in "\n".join(kernel.formulas())


def test_a_sum_that_is_also_read_without_the_condition_is_computed_everywhere() -> None:
    f = tl.parse("""f(A: [n][m]R, F: [n][p]R, B: [m][p]R) =
        let s = gen i:n, j:m. sum k:p. F[i, k] * B[j, k] in
        (gen i:n, j:m. [A[i, j] > 0] * s[i, j], gen i:n, j:m. s[i, j])""")
    for target in TARGETS:
        check(f, kernels(f, target), {"n": 21, "m": 9, "p": 6}, planted=False)


def random_condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.6:
        left, right = (random_condition(rng, depth - 1) for _ in range(2))
        return rng.choice([f"({left} and {right})", f"({left} or {right})", f"not ({left})"])
    values = ["A[i, j] > 0", "A[i, j] <= v[j]", "v[j] < 0.3", "u[i] = v[j]", "u[i] + A[i, j] > B[j, i]", "E(i, j)"]
    return rng.choice([*values, "j <= i", "i != j", "i + j < n", "2 <= i"])


RANDOM = {
    "elements": "gen i:n, j:n. [{c}] * log(A[i, j]) + (if {d} then u[i] else A[i, j])",
    "products": "gen i:n, k:p. sum j:n. [({c}) and {e}] * sqrt(A[i, j]) * C[j, k]",
    "rows": "gen i:n. sum j:n. if {c} then log(A[i, j]) else B[j, i]",
}


@pytest.mark.parametrize("kind", one_in(4, RANDOM))
@pytest.mark.parametrize("target", TARGETS)
def test_random_conditions_are_the_same_in_kernels_as_in_the_evaluator(target: str, kind: str) -> None:
    rng = random.Random(f"{kind} of {target}")
    head = "f(A: [n][n]R, B: [n][n]R, C: [n][p]R, u: [n]R, v: [n]R, E: rel(n, n)) = "
    for _ in range(2):
        c, d = random_condition(rng), random_condition(rng)
        f = tl.parse(head + RANDOM[kind].format(c=c, d=d, e=rng.choice(["C[j, k] > 0", "v[j] < 0.5"])))
        check(f, kernels(f, target, n=16), {"n": 21, "p": 4}, planted=True)
        g = tl.adjoint(f)
        check(g, kernels(g, target, n=16), {"n": 19, "p": 1}, planted=False)


LARGE = {"n": 1100, "m": 700, "p": 300, "d": 64}


def shapes_of(f: tl.Function, sharding: Any = None) -> list[jax.ShapeDtypeStruct]:
    known = {s: LARGE[str(s)] for s in f.sizes}
    found = []
    for p in f.params:
        extents = p.sizes if isinstance(p, Relation) else shape(p.type)[0]
        kind = bool if isinstance(p, Relation) else np.float32
        found.append(jax.ShapeDtypeStruct(tuple(a.value(known) for a in extents), kind, sharding=sharding))
    return found


def function(run: Kernels) -> Any:
    namespace: dict[str, Any] = {}
    exec(run.source, namespace)
    return jax.jit(namespace[run.function.name])


@pytest.mark.parametrize("what", DERIVED)
@pytest.mark.parametrize("name", [pytest.param(x, marks=() if x == "product" else pytest.mark.slow) for x in PROGRAMS])
def test_masks_become_code_of_triton(name: str, what: str) -> None:
    f = DERIVED[what](tl.parse(PROGRAMS[name]))
    lowered = lowered_for_gpu(function(kernels(f, "pallas-triton")), shapes_of(f))
    assert "triton" in lowered.as_text() or (name, what) == ("extrema", "adjoint")


@pytest.mark.slow
@pytest.mark.parametrize("what", DERIVED)
@pytest.mark.parametrize("name", PROGRAMS)
def test_masks_compile_for_tpus(name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libtpu", reason="the compiler for TPUs comes with the extra tpu")
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    chip = SingleDeviceSharding(topologies.get_topology_desc("v5e:2x2", "tpu").devices[0])
    f = DERIVED[what](tl.parse(PROGRAMS[name]))
    compiled = function(kernels(f, "pallas-tpu")).lower(*shapes_of(f, chip)).compile()
    assert "tpu_custom_call" in compiled.as_text() or (name, what) in LEFT
