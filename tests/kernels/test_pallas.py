"""Kernels: their results, the tiles that they visit, and self-contained code; without an accelerator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

import tensorlang as tl
from benchmarks.case import Case, dense
from benchmarks.programs.kernels import KERNELS
from tensorlang.lowering.kernels import run as pallas
from tensorlang.lowering.kernels.ir import Kernel, Plain
from tensorlang.lowering.kernels.run import InterpretedWarning, Kernels
from tests.support.sampling import one_in

pytestmark = pytest.mark.filterwarnings("ignore::tensorlang.lowering.kernels.run.InterpretedWarning")

SIZES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "matrix product": ({"n": 140, "m": 130, "p": 20}, {"n": 128, "m": 128}),
    "triangle times matrix": ({"n": 300, "p": 20}, {"n": 128}),
    "band times matrix": ({"n": 390, "p": 20}, {"n": 128}),
    "causal attention": ({"h": 2, "n": 45, "d": 17}, {"n": 16}),
    "sliding-window attention": ({"h": 1, "n": 600, "d": 5}, {"n": 128}),
    "HM-LSTM cell": ({"n": 140}, {"n": 128}),
    "block-sparse product": ({"n": 3, "m": 5, "p": 140}, {"p": 128}),
    "segment sums": ({"n": 140, "m": 150, "d": 17}, {"n": 128, "m": 128}),
    "logsumexp": ({"n": 45, "m": 37}, {"n": 8}),
    "softmax cross-entropy": ({"n": 45, "m": 37}, {"n": 8}),
    "layer norm": ({"n": 45, "m": 37}, {"n": 16}),
}
"""Sizes at which there are several tiles, and the lengths of the tiles; other programs run at their odd sizes."""

DERIVED: dict[str, Callable[[Case], tl.Function]] = {
    "program": lambda case: case.function,
    "adjoint": lambda case: tl.adjoint(case.function, case.wrt or None),
}


def named(name: str) -> Case:
    return next(case for case in KERNELS if case.name == name)


def lowered(f: tl.Function, blocks: dict[str, int] | None = None) -> Kernels:
    found = tl.lower(f, target="pallas-tpu", blocks=blocks)
    assert isinstance(found, Kernels)
    return found


def alone(kernels: Kernels) -> dict[str, Any]:
    """The definitions of the source, run on their own."""
    namespace: dict[str, Any] = {}
    exec(kernels.source, namespace)
    return namespace


def arguments(case: Case, sizes: dict[str, int], what: str) -> list[Any]:
    found = [dense(x) for x in case.arguments(sizes)]
    return found if what == "adjoint" else found[: len(case.function.params)]


def exact(f: tl.Function, given: list[Any]) -> list[Any]:
    """The results in double precision."""
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in given]
    return jax.tree.leaves(tl.evaluate(f, *wide))


def close(found: Any, wanted: list[Any]) -> bool:
    parts = jax.tree.leaves(found)
    assert [x.shape for x in parts] == [np.shape(x) for x in wanted]
    return all(
        np.allclose(x, y, rtol=1e-4, atol=1e-4 * (1 + np.abs(y).max())) for x, y in zip(parts, wanted, strict=True)
    )


CASES = [(case.name, what) for case in KERNELS for what in DERIVED]


@pytest.mark.parametrize("case", one_in(3, CASES), ids=" ".join)
def test_kernels_agree_with_double_precision(case: tuple[str, str]) -> None:
    name, what = case
    case = named(name)
    sizes, blocks = SIZES.get(name, (dict(case.odd), {}))
    f = DERIVED[what](case)
    given = arguments(case, sizes, what)
    if what == "adjoint" and not case.takes_cotangent:
        given.append(np.float32(1))
    assert close(lowered(f, blocks)(*given), exact(f, given))


@pytest.mark.parametrize(("name", "what"), CASES)
def test_what_a_kernel_can_express_is_a_kernel(name: str, what: str) -> None:
    plain = [step for step in lowered(DERIVED[what](named(name))).program.steps if isinstance(step, Plain)]
    assert [step.reason for step in plain] == ["it is a single number"] * (name == "layer norm")


def test_the_adjoint_of_a_cell_is_one_kernel_of_four_results() -> None:
    (kernel,) = lowered(DERIVED["adjoint"](named("HM-LSTM cell"))).program.steps
    assert isinstance(kernel, Kernel)
    assert {output.var.name for output in kernel.outputs} == {"c_bar", "f_bar", "i_bar", "g_bar"}


def test_softmax_is_taken_up_in_one_pass() -> None:
    (kernel,) = lowered(named("causal attention").function).program.steps
    assert isinstance(kernel, Kernel)
    largest, *shifted = kernel.accumulators
    assert len(shifted) == 2
    assert all(acc.shift is largest.var for acc in shifted)


def tables(kernels: Kernels, shapes: list[Any]) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """For each kernel, the tiles that it visits because they are not empty, and the table of its steps."""
    namespace = alone(kernels)
    listed = namespace["_steps"]
    found = []

    def recorded(some: Any, full: Any, outer: int) -> Any:
        found.append((some, listed(some, full, outer)))
        return found[-1][1]

    namespace["_steps"] = recorded
    jax.eval_shape(namespace[kernels.function.name], *shapes)
    yield from found


def shapes(case: Case, sizes: dict[str, int], what: str) -> list[Any]:
    return case.shapes(sizes)[: None if what == "adjoint" else len(case.function.params)]


def test_causal_attention_s_adjoint_visits_half_of_the_tiles() -> None:
    case = named("causal attention")
    kernels = lowered(DERIVED["adjoint"](case), {"n": 16})
    given = [jax.ShapeDtypeStruct((1, 32 * 16, 8), np.float32)] * 4
    counts = [steps.shape[1] for _, steps in tables(kernels, given)]
    assert len(counts) == 3
    assert all(count <= 0.55 * 32 * 32 for count in counts)


@pytest.mark.parametrize("tiles", [16, 32, 64])
def test_sliding_windows_visit_tiles_in_proportion_to_the_window(tiles: int) -> None:
    kernels = lowered(DERIVED["adjoint"](named("sliding-window attention")), {"n": 256})
    given = [jax.ShapeDtypeStruct((1, tiles * 256, 8), np.float32)] * 4
    counts = [steps.shape[1] for _, steps in tables(kernels, given)]
    assert all(count == 3 * tiles - 3 for count in counts), "a window of two tiles touches three"


PREDICATES = [
    "j <= i",
    "i < j",
    "i + j < n",
    "-5 <= i - j <= 9",
    "2*i <= j",
    "j <= i and i <= j + 20",
    "n <= i + j",
]


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("n", [8, 29, 64])
def test_a_tile_is_visited_if_and_only_if_a_point_of_it_counts(predicate: str, n: int) -> None:
    text = f"f(B: [n][d]R) = gen i:n, k:d. sum j:n. [{predicate}] * exp(sum a:d. B[i, a] * B[j, a]) * B[j, k]"
    kernels = lowered(tl.parse(text), {"n": 8})
    ((some, steps),) = tables(kernels, [jax.ShapeDtypeStruct((n, 3), np.float32)])
    points = tl.evaluate(tl.parse(f"g(x: [n]R) = gen i:n, j:n. [{predicate}]"), np.ones(n)) > 0
    count = -(-n // 8)
    padded = np.zeros((count * 8, count * 8), bool)
    padded[:n, :n] = points
    blocks = padded.reshape(count, 8, count, 8).transpose(0, 2, 1, 3)
    assert (some == blocks.any((2, 3))).all()
    full = {(i, j) for *_, i, j, flags in steps.T if flags & 12 == 12}
    rows = np.arange(count * 8) < n
    true = (blocks | ~rows.reshape(count, 1, 8, 1)).all((2, 3))
    assert full == {(i, j) for i in range(count) for j in range(count) if true[i, j]}


def test_results_are_the_same_to_the_last_bit_each_time() -> None:
    case = named("causal attention")
    kernels = lowered(DERIVED["adjoint"](case), {"n": 16})
    given = arguments(case, {"h": 1, "n": 45, "d": 9}, "adjoint")
    first, second = kernels(*given), kernels(*given)
    assert all((np.asarray(a) == np.asarray(b)).all() for a, b in zip(first, second, strict=True))


_RACED = [
    pytest.param(name, what, marks=() if name in ("triangle times matrix", "HM-LSTM cell") else pytest.mark.slow)
    for name, what in CASES
]


@pytest.mark.parametrize(("name", "what"), _RACED)
def test_tiles_in_memory_spaces_are_free_of_races(name: str, what: str, capfd: pytest.CaptureFixture[str]) -> None:
    case = named(name)
    sizes, blocks = SIZES.get(name, (dict(case.odd), {}))
    f = DERIVED[what](case)
    given = arguments(case, sizes, what)
    if what == "adjoint" and not case.takes_cotangent:
        given.append(np.float32(1))
    found = alone(lowered(f, blocks))[f.name](*given, interpret=pltpu.InterpretParams(detect_races=True))
    assert close(found, exact(f, given))
    assert "RACE DETECTED" not in capfd.readouterr().out.upper()


def test_bfloat16_is_multiplied_as_it_is_and_added_up_in_single_precision() -> None:
    case = named("causal attention")
    given = [x.astype(jax.numpy.bfloat16) for x in arguments(case, {"h": 1, "n": 45, "d": 9}, "program")]
    found = lowered(case.function, {"n": 16})(*given)
    assert found.dtype == jax.numpy.bfloat16
    wanted = exact(case.function, [np.asarray(x, np.float64) for x in given])[0]
    assert np.abs(np.asarray(found, np.float64) - wanted).max() < 0.02


def test_interpreting_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pallas, "_warned", set())
    f = lowered(named("logsumexp").function)
    x = np.ones((3, 4), np.float32)
    with pytest.warns(InterpretedWarning, match="there is no TPU here"):
        f(x)
    with pytest.warns(UserWarning, match="nothing but this") as said:
        f(x)
        import warnings

        warnings.warn("nothing but this", stacklevel=1)
    assert len(said) == 1


def test_kernels_run_within_jit_and_where_there_is_nothing() -> None:
    f = lowered(named("matrix product").function)
    a, b = np.ones((5, 3), np.float32), np.ones((3, 4), np.float32)
    assert (jax.jit(f)(a, b) == 3).all()
    assert f(a[:, :0], b[:0]).tolist() == np.zeros((5, 4)).tolist()


def test_what_is_left_to_numpy_says_why() -> None:
    f = tl.adjoint(tl.parse("embedded(t: [C][d]R, y: [N]idx(C)) = gen i:N, a:d. t[y[i], a]"))
    found = lowered(f)
    assert "# Left to jax.numpy: it adds up at places that data choose." in found.source
    y = np.array([2, 0, 2], np.int32)
    given = [np.ones((4, 2)), y, np.ones((3, 2), np.float32)]
    assert close(found(*given), exact(f, given))


def test_tiles_that_registers_can_t_hold_are_refused() -> None:
    f = named("matrix product").function
    with pytest.raises(tl.ArgumentError, match="must be a multiple of 128 long, found 64"):
        tl.lower(f, target="pallas-tpu", blocks={"p": 64})
    with pytest.raises(tl.ArgumentError, match="a multiple of 8 long, found n=7"):
        tl.lower(f, target="pallas-tpu", blocks={"n": 7})
    with pytest.raises(tl.ArgumentError, match="only kernels have blocks"):
        tl.lower(f, blocks={"n": 128})
