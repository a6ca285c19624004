"""Kernels for GPUs by Mosaic GPU, without one: run on a GPU that JAX simulates, lowered for Hopper and Blackwell."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.case import Case
from benchmarks.kernels import BOUNDS, CARDS, Subject, answer, as_if_on, cast, error, lowered_for_gpu
from benchmarks.programs.kernels import KERNELS
from tensorlang.language.types import shape
from tensorlang.lowering.emit.mosaic.memory import SHARED
from tensorlang.lowering.kernels.check import why_not as why_malformed
from tensorlang.lowering.kernels.ir import Kernel
from tensorlang.lowering.kernels.layouts import MatrixProduct, Placed, Units, why_not
from tensorlang.lowering.kernels.run import matrix_units
from tests.kernels.test_conditions_in_kernels import AROUND, DERIVED, PROGRAMS, SUMMED, check, products, shapes_of
from tests.kernels.test_scalar_loops_in_kernels import endless, newton
from tests.support.sampling import one_in

pytestmark = [
    pytest.mark.skipif(matrix_units() is None, reason="JAX before 0.12 has no Mosaic GPU that can be interpreted"),
    pytest.mark.filterwarnings("ignore:there is no GPU here"),
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated"),
]

_QUICK = {"triangle times matrix", "HM-LSTM cell", "softmax cross-entropy"}
PRODUCT = "f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. sum j:m. A[i, j] * B[j, k]"


def _each(names: set[str] = _QUICK) -> list[Any]:
    """Programs and adjoints; those of `names` are quick."""
    return [
        pytest.param(
            Subject(case, of), id=f"{case.name}, {of}", marks=() if case.name in names else (pytest.mark.slow,)
        )
        for case in KERNELS
        for of in ("program", "adjoint")
    ]


def _named(name: str) -> Case:
    return next(case for case in KERNELS if case.name == name)


def _alone(source: str) -> dict[str, Any]:
    """The definitions of the source, run without our package."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<generated>", "exec"), namespace)
    return namespace


def _source(f: tl.Function, card: str, blocks: dict[str, int] | None = None) -> str:
    """The kernels of a program as they are made on this card."""
    with as_if_on(card):
        return tl.lower(f, target="pallas-gpu", blocks=blocks or {}).source


@pytest.fixture
def simulated() -> Iterator[Any]:
    """Run a lowered program on a simulated GPU, and assert at the end of each run that no two accesses raced."""
    from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call as interpreter
    from jax.experimental.pallas import mosaic_gpu

    def run(f: tl.Function, *arguments: Any, card: str = "NVIDIA H100", **blocks: int) -> Any:
        source = _source(f, card, blocks)
        assert "mosaic_gpu.kernel(" in source
        found = _alone(source)[f.name](*arguments, interpret=mosaic_gpu.InterpretGPUParams(detect_races=True))
        found = jax.block_until_ready(found)
        races = interpreter.get_races()
        assert races is not None and not races.races_found
        return found

    yield run
    interpreter.reset_gpu_interpret_mode_state()


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("subject", _each())
def test_kernels_agree_with_double_precision_and_nothing_races(subject: Subject, card: str, simulated: Any) -> None:
    arguments = cast(subject.arguments(subject.case.odd, 3), "float32")
    assert error(simulated(subject.function, *arguments, card=card), answer(subject, arguments)) < 1e-6


@pytest.mark.parametrize("subject", _each())
def test_arrays_of_one_element_are_computed_as_well(subject: Subject, simulated: Any) -> None:
    arguments = cast(subject.arguments(dict.fromkeys(subject.case.odd, 1), 5), "float32")
    assert error(simulated(subject.function, *arguments), answer(subject, arguments)) < 1e-6


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("subject", _each({"triangle times matrix"})[:4])
def test_operands_of_half_the_length_are_summed_in_single_precision(
    subject: Subject, card: str, simulated: Any
) -> None:
    arguments = cast(subject.arguments(subject.case.odd, 4), "bfloat16")
    found = simulated(subject.function, *arguments, card=card)
    assert all(x.dtype == jnp.bfloat16 for x in jax.tree.leaves(found))
    assert error(found, answer(subject, arguments)) < BOUNDS["bfloat16"]


@pytest.mark.parametrize("subject", _each(_QUICK | {"matrix product", "block-sparse product", "2-D convolution"}))
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("card", CARDS)
def test_all_kernels_are_lowered_within_the_shared_memory(subject: Subject, card: str, dtype: str) -> None:
    with as_if_on(card):
        lowered = tl.lower(subject.function, target="pallas-gpu")
        source = lowered.source
    text = lowered_for_gpu(
        _alone(source)[subject.function.name], cast(subject.arguments(subject.case.odd, 0), dtype), card
    ).as_text()
    units = {card: name for card, name in zip(CARDS, ("wgmma", "tcgen05"), strict=True)}
    assert ("tcgen05.mma" in text) is ("_by_tcgen05" in source)
    assert all(name not in source for other, name in units.items() if other != card)
    by = [step.computed for step in lowered.explain().steps if "no kernel" not in step.text]
    assert text.count("@mosaic_gpu_v2(") == sum("by Mosaic GPU" in each for each in by) > 0
    assert text.count("@__gpu$xla.gpu.triton") == sum("by Triton, since" in each for each in by)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("subject", _each(set()))
def test_what_is_counted_of_shared_memory_suffices_at_the_largest_sizes(subject: Subject, dtype: str) -> None:
    shapes = subject.case.shapes(subject.case.sizes[-1])
    shapes = shapes[:-1] if subject.of == "program" and subject.case.takes_cotangent else shapes
    given = [jax.ShapeDtypeStruct(a.shape, dtype if a.dtype == np.float32 else a.dtype) for a in shapes]
    text = lowered_for_gpu(
        _alone(tl.lower(subject.function, target="pallas-gpu").source)[subject.function.name], given
    ).as_text()
    assert "@mosaic_gpu_v2(" in text or "gpu.triton" in text


@pytest.mark.parametrize("n", [1, 64, 65])
def test_sizes_may_be_one_a_tile_or_one_more(n: int, simulated: Any) -> None:
    f = tl.parse(PRODUCT)
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)).astype(np.float32), rng.normal(size=(n, 1)).astype(np.float32)
    assert error(simulated(f, a, b), a.astype(float) @ b.astype(float)) < 1e-6


def test_single_precision_is_kept_through_products_in_bfloat16(simulated: Any) -> None:
    """Also where the terms of a sum cancel to a thousandth of their size."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20, 40)).astype(np.float32) * 1e3
    a[:, 20:] = -a[:, :20]
    b = rng.normal(size=(40, 9)).astype(np.float32)
    b[20:] = b[:20] * np.float32(1.001)
    exact = a.astype(float) @ b.astype(float)
    scale = np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert np.max(np.abs(np.asarray(simulated(tl.parse(PRODUCT), a, b)) - exact) / scale) < 2e-7


def test_tiles_that_are_ruled_out_are_not_read(simulated: Any) -> None:
    f = tl.parse("f(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j + 150 <= i] * A[i, j] * B[j, k]")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(200, 200)).astype(np.float32), rng.normal(size=(200, 3)).astype(np.float32)
    exact = np.tril(a.astype(float), -150) @ b
    b[64:] = np.nan
    found = np.asarray(simulated(f, a, b))
    assert np.all(found[:150] == 0)
    assert np.allclose(found, exact, atol=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("what", DERIVED)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "product" else pytest.mark.slow) for name in PROGRAMS]
)
def test_what_values_do_not_choose_has_no_influence_even_if_it_is_nan(name: str, what: str) -> None:
    """Infinite operands of products without conditions are left out: such a product is nan."""
    f = DERIVED[what](tl.parse(PROGRAMS[name]))
    lowered = tl.lower(f, target="pallas-gpu")
    lowered_for_gpu(_alone(lowered.source)[f.name], shapes_of(f))
    by = str(lowered.explain())
    assert (", by Mosaic GPU" in by) is ((name, what) != ("extrema", "adjoint"))
    infinite = what == "program" and name not in ("scores", "products of products")
    for planted in (False, True):
        check(f, lowered, {"n": 37, "m": 73, "p": 5, "d": 3}, planted, infinite)


BOTH_COMPUTED = [
    "exp(0.1 * A[i, j]) * tanh(B[k, j])",
    "[j <= i] * exp(0.1 * A[i, j]) * tanh(B[k, j] + v[j])",
    "[A[i, j] > v[j]] * [B[k, j] > v[j]] * A[i, j] * v[j] * B[k, j]",
    "[E(i, j)] * [A[i, j] > 0] * [B[k, j] < 1] * log(A[i, j]) * B[k, j]",
]


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("summed", one_in(2, BOTH_COMPUTED))
def test_both_factors_of_a_product_may_be_computed_or_chosen_from(summed: str, card: str, simulated: Any) -> None:
    f = tl.parse(f"""f(A: [n][m]R, B: [p][m]R, v: [m]R, E: rel(n, m), D: [n][p]R) =
      gen i:n, k:p. D[i, k] * (sum j:m. {summed})""")
    draw = np.random.default_rng(0)
    given = [draw.normal(size=size).astype(np.float32) for size in ((66, 70), (5, 70), (70,))]
    given += [draw.random((66, 70)) < 0.5, draw.normal(size=(66, 5)).astype(np.float32)]
    wide = [x.astype(float) if x.dtype == np.float32 else x for x in given]
    with np.errstate(invalid="ignore"):  # hidden elements
        value, exact = tl.evaluate(f, *wide), tl.evaluate(tl.adjoint(f), *wide, np.ones((66, 5)))
    cotangent = np.ones((66, 5), np.float32)
    for g, arguments, wanted in ((f, given, value), (tl.adjoint(f), [*given, cotangent], exact)):
        source = _source(g, card)
        assert "triton" not in source
        for a, b in zip(jax.tree.leaves(simulated(g, *arguments, card=card)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * (1 + np.abs(b).max()))
        lowered_for_gpu(_alone(source)[g.name], [jnp.asarray(x) for x in arguments], card)


@pytest.mark.parametrize("text", [SUMMED, AROUND], ids=["summed", "around a sum"])
def test_tiles_in_which_a_condition_on_values_holds_nowhere_are_not_multiplied(text: str) -> None:
    run = tl.lower(tl.parse(text), target="pallas-gpu")
    A, B, F = np.full((192, 256), -1, np.float32), np.ones((256, 64), np.float32), np.ones((192, 64), np.float32)
    rest = (B,) if text == SUMMED else (F, B)
    helper = "_matrix_product_where" if text == SUMMED else "_matrix_product"
    assert products(run, helper, A, *rest) == 0
    A[5, 3] = A[150, 255] = 2
    assert products(run, helper, A, *rest) == 2
    assert products(run, helper, np.abs(A), *rest) == 12


@pytest.mark.parametrize("name", ["bounded", pytest.param("products", marks=pytest.mark.slow), "two branches"])
def test_functions_with_loops_are_lowered_for_hopper_and_nothing_races(name: str, simulated: Any) -> None:
    n, m = tl.sizes("n m")
    root = tl.scalar(bound=20)(newton)
    bounded = tl.function(lambda a: tl.gen((n, m), lambda i, j: root(a[i, j], a[i, j])), a=tl.R[n, m])
    f = {**endless(), "bounded": bounded}[name]
    draw = np.random.default_rng(0)
    x, r = (draw.uniform(low, high, (66, 5)).astype(np.float32) for low, high in ((1, 5), (0.1, 0.9)))
    r.flat[1::3] = 1.5  # no loop ends there
    given = [x, r, draw.normal(size=(5, 66)).astype(np.float32)][: len(f.params)]
    value = tl.evaluate(f, *(a.astype(float) for a in given))
    for g, arguments in ((f, given), (tl.adjoint(f), [*given, np.ones_like(value, np.float32)])):
        text = lowered_for_gpu(_alone(tl.lower(g, target="pallas-gpu").source)[g.name], arguments).as_text()
        assert "@mosaic_gpu_v2(" in text and "triton" not in text
        exact = jax.tree.leaves(tl.evaluate(g, *(a.astype(float) for a in arguments)))
        for a, b in zip(jax.tree.leaves(simulated(g, *arguments)), exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4 * (1 + np.abs(b).max()))


def test_functions_with_loops_of_what_mosaic_gpu_lacks_are_by_triton() -> None:
    def rounded(x: Any) -> Any:
        while x > 1:
            x = tl.floor(0.5 * x)
        return x

    n, m = tl.sizes("n m")
    halved = tl.scalar(rounded)
    f = tl.function(lambda a: tl.gen((n, m), lambda i, j: halved(a[i, j])), a=tl.R[n, m])
    assert (
        "# By Triton, since Mosaic GPU has no jnp.floor, which rounded takes."
        in tl.lower(f, target="pallas-gpu").source
    )


def test_results_are_the_same_in_every_run_to_the_last_bit(simulated: Any) -> None:
    subject = Subject(_named("triangle times matrix"), "adjoint")
    arguments = cast(subject.arguments({"n": 70, "p": 9}, 5), "float32")
    for a, b in zip(simulated(subject.function, *arguments), simulated(subject.function, *arguments), strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))


ROWS = [case for case in KERNELS if case.name in ("logsumexp", "softmax cross-entropy", "layer norm")]


@pytest.mark.parametrize("of", ["program", "adjoint"])
@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_rows_too_long_to_be_held_are_taken_in_passes(case: Case, of: str, simulated: Any) -> None:
    """Whether passes are needed is decided when the shapes are known."""
    subject = Subject(case, of)
    lowered = tl.lower(subject.function, target="pallas-gpu")
    kernels = [step for step in lowered.program.steps if isinstance(step, Kernel)]
    more = sum(len(step.passes) - 1 for step in kernels if step.passes)
    assert "triton" not in lowered.source and "over longer rows" in str(lowered.explain())
    for m, count in ((256, len(kernels)), (257, len(kernels) + more)):
        arguments = cast(subject.arguments({"n": 5, "m": m}, 3), "float32")
        text = lowered_for_gpu(_alone(lowered.source)[subject.function.name], arguments).as_text()
        assert text.count("@mosaic_gpu_v2(") == count
    assert error(simulated(subject.function, *arguments), answer(subject, arguments)) < 1e-6


def _of_rows(rng: random.Random, depth: int = 0) -> str:
    """A sum or an extremum along a row, perhaps of other ones, with conditions of all kinds."""
    q = f"q{depth}"
    row = f"x[i, {q}]"
    bodies = [row, f"exp(0.3 * {row})", f"{row} * y[i, {q}]", f"v[{q}] * {row}", f"tanh(y[i, {q}]) + u[i]"]
    if depth < 2:
        bodies += [f"exp({row} - {_of_rows(rng, depth + 1)})", f"({row} - {_of_rows(rng, depth + 1)}) ^ 2"]
    kind, body = rng.choice(["sum", "sum", "max", "min"]), rng.choice(bodies)
    if kind != "sum":
        return f"({kind} {q}:m{rng.choice(['', f' where {q} <= i + 300'])}. {body})"
    pred = rng.choice(["", "", f"[{q} <= i] * ", f"[E(i, {q})] * ", f"[c[{q}] = i] * ", f"[{row} > 0] * "])
    return f"(sum {q}:m. {pred}{body})"


@pytest.mark.parametrize("seed", [0, 7, *(pytest.param(k, marks=pytest.mark.slow) for k in range(8, 20))])
def test_passes_over_rows_that_a_machine_wrote_are_right_and_race_free(seed: int) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    a, b = _of_rows(rng), _of_rows(rng)
    elements = (f"{a} * u[i] + {b}", f"x[i, j] * {a}", f"exp(0.1 * x[i, j]) * u[i] + {a} * {b} + [j = c[j]] * v[j]")
    body = rng.choice(elements)
    f = tl.parse(f"""f(x: [n][m]R, y: [n][m]R, u: [n]R, v: [m]R, E: rel(n, m), c: [m]idx(n)) =
      gen i:n{", j:m" * ("j]" in body)}. {body}""")
    n, m = rng.choice([1, 3, 65]), rng.choice([1, 2, 64, 65, 130, 260])
    given = [np.asarray(0.7 * draw.normal(size=s), np.float32) for s in ((n, m), (n, m), (n,), (m,))]
    given += [draw.random((n, m)) < 0.5, draw.integers(0, n, m).astype(np.int32)]
    wide = [x.astype(float) if x.dtype == np.float32 else x for x in given]
    cotangent = draw.normal(size=np.shape(tl.evaluate(f, *wide))).astype(np.float32)
    for g, more in ((f, []), (tl.adjoint(f), [cotangent])):
        lowered = tl.lower(g, target="pallas-gpu")
        source = lowered.source
        # data may choose places, which do not exist, and so may extrema that conditions bound
        is_kernel = "[c[" not in body and "chooses points" not in str(lowered.explain())
        assert "# In passes" in source or g is not f or not is_kernel
        run = _alone(source.replace("> 256)", "> 0)"))[g.name]  # all rows are too long
        found = jax.tree.leaves(run(*given, *more, interpret=True))
        exact = jax.tree.leaves(tl.evaluate(g, *wide, *(x.astype(float) for x in more)))
        for p, q in zip(found, exact, strict=True):
            assert np.allclose(np.asarray(p, float), q, rtol=1e-3, atol=1e-4 * (1 + np.abs(q).max())), g


def test_passes_that_do_not_make_what_the_kernel_makes_are_malformed() -> None:
    program = tl.lower(_named("logsumexp").derived, target="pallas-gpu").program
    (kernel,) = program.steps
    assert isinstance(kernel, Kernel)
    assert why_malformed(program) is None
    lost = replace(kernel, passes=kernel.passes[:1])
    assert why_malformed(replace(program, steps=(lost,))) == "result: result is not made in passes"
    early = replace(kernel, passes=kernel.passes[1:])
    assert "is read before it is made" in str(why_malformed(replace(program, steps=(early,))))


def test_features_too_long_to_be_held_are_left_to_triton_when_the_shapes_are_known() -> None:
    lowered = tl.lower(_named("causal attention").function, target="pallas-gpu")
    assert "By Triton, where an axis is longer than can be held from end to end" in lowered.source
    for d, count in ((192, 1), (257, 0)):
        given = [jax.ShapeDtypeStruct((1, 5, d), jnp.bfloat16)] * 3
        text = lowered_for_gpu(_alone(lowered.source)["attention"], given).as_text()
        assert (text.count("@mosaic_gpu_v2("), "gpu.triton" in text) == (count, not count)


def test_kernels_are_mapped_over_batches_and_called_in_compiled_code() -> None:
    product = tl.lower(tl.parse(PRODUCT), target="pallas-gpu")
    a, b = np.random.default_rng(0).normal(size=(2, 2, 5, 5)).astype(np.float32)
    assert np.allclose(jax.vmap(product)(a, b), a @ b, atol=1e-5)
    assert np.allclose(jax.jit(lambda a, b: 2 * product(a, b))(a[0], b[0]), 2 * a[0] @ b[0], atol=1e-5)


REFUSED = {
    "Mosaic GPU has no atan": ("f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. atan(sum j:m. A[i, j] * B[j, k])", {}),
    "tiles of 16 along n are no multiple of 64": (PRODUCT, {"n": 16}),
    "it reads along a diagonal of a tile": ("f(A: [n][n]R, B: [n][n]R) = gen i:n, j:n. A[i, j] * B[i, i]", {}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_mosaic_gpu_cannot_express_is_by_triton_and_source_and_explanation_say_why(reason: str) -> None:
    text, blocks = REFUSED[reason]
    f = tl.parse(text)
    lowered = tl.lower(f, target="pallas-gpu", blocks=blocks)
    assert f"# By Triton, since {reason}." in lowered.source
    assert f"by Triton, since {reason}" in str(lowered.explain())
    rng = np.random.default_rng(0)
    given = [rng.uniform(-0.1, 0.1, [9] * len(shape(p.type)[0])).astype(np.float32) for p in f.params]
    assert np.allclose(lowered(*given), tl.evaluate(f, *(x.astype(float) for x in given)), atol=1e-5)


def test_a_kernel_is_not_made_beyond_the_shared_memory_and_says_how_much_it_would_take() -> None:
    f = tl.parse(PRODUCT)
    assert "104 KiB of 227 KiB of shared memory" in str(tl.lower(f, target="pallas-gpu").explain())
    larger = tl.lower(f, target="pallas-gpu", blocks={"n": 256, "m": 256})
    assert "# By Triton, since its tiles take" in larger.source
    assert SHARED == 227 * 1024


def test_how_tiles_lie_in_shared_memory_is_decided_when_a_kernel_is_made_and_explained() -> None:
    f = tl.parse("f(A: [n][n]R, v: [n]R) = gen i:n, k:n. (sum j:n. A[i, j] * A[j, k]) + v[k]")
    wanted = {
        "NVIDIA H100": "A_tile 128, A_tile1 128, result_tile 128",
        "NVIDIA B200": "A_tile 128, A_tile1 64, result_tile 128",
    }
    for card, swizzles in wanted.items():
        with as_if_on(card):
            assert f"swizzled by bytes: {swizzles}" in str(tl.lower(f, target="pallas-gpu").explain())


SQUARE = Placed("A", (64, 64), 128)
BROKEN = {
    "A 128 is no matrix, and has no pieces": ([replace(SQUARE, lengths=(64,))], [], Units.WGMMA),
    "pieces are 128, 64, 32 bytes wide, not as those of A 16": ([replace(SQUARE, swizzle=16)], [], Units.WGMMA),
    "64 by 48 elements are no whole number of pieces of A 128": ([replace(SQUARE, lengths=(64, 48))], [], Units.WGMMA),
    "60 by 64 elements are no whole number of pieces of A 128": ([replace(SQUARE, lengths=(60, 64))], [], Units.WGMMA),
    "A is multiplied, and does not lie in pieces": (
        [],
        [MatrixProduct(replace(SQUARE, swizzle=0), SQUARE, (False, False))],
        Units.WGMMA,
    ),
    "wgmma takes factors of one swizzle, not A 128 and A 64": (
        [],
        [MatrixProduct(SQUARE, replace(SQUARE, swizzle=64), (False, False))],
        Units.WGMMA,
    ),
    "tcgen05 adds up 64 rows at a time, not 32": (
        [],
        [MatrixProduct(replace(SQUARE, lengths=(64, 32), swizzle=64), SQUARE, (True, False))],
        Units.TCGEN05,
    ),
    "tcgen05 takes whole pieces of half of 64 columns, not A 128": (
        [],
        [MatrixProduct(SQUARE, SQUARE, (False, True))],
        Units.TCGEN05,
    ),
}


@pytest.mark.parametrize("law", BROKEN)
def test_layouts_that_the_hardware_does_not_take_are_refused_with_the_law(law: str) -> None:
    tiles, products, units = BROKEN[law]
    assert why_not(tiles, products, units, (2, 4)) == law


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("swizzles", [(128, 128), (128, 64), (64, 64), (32, 32), (128, 32)])
def test_the_laws_of_layouts_are_those_of_jax(swizzles: tuple[int, int], columns: int, card: str) -> None:
    """JAX can lower exactly the layouts that the laws allow."""
    f = tl.parse(PRODUCT)
    made = Units.WGMMA if card == "NVIDIA H100" else Units.TCGEN05
    shapes, laid = ((64, 64), (64, columns)), []
    source = _source(f, card, {"p": columns} if columns > 64 else {})
    for name, usual, swizzle, lengths in zip("AB", made.swizzles, swizzles, shapes, strict=True):
        (line,) = (line for line in source.splitlines() if line.strip().startswith(f"({name}_ref, ("))
        assert line.endswith(f", {usual}),")
        source = source.replace(line, line.removesuffix(f"{usual}),") + f"{swizzle}),")
        laid.append(Placed(name, lengths, swizzle))
    law = why_not(laid, [MatrixProduct(laid[0], laid[1], (False, False))], made, (2,))
    given = [jax.ShapeDtypeStruct((64, 64), "bfloat16"), jax.ShapeDtypeStruct((64, columns), "bfloat16")]
    with nullcontext() if law is None else pytest.raises(ValueError, match="layout"):
        assert "@mosaic_gpu_v2(" in lowered_for_gpu(_alone(source)["f"], given, card).as_text()


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("n", [130, 64])
def test_factors_may_be_transposed_and_tiles_longer(n: int, card: str, simulated: Any) -> None:
    f = tl.parse("f(A: [m][n]R, B: [p][m]R) = gen i:n, k:p. sum j:m. A[j, i] * B[k, j]")
    rng = np.random.default_rng(n)
    for dtype, bound in (("float32", 1e-6), ("bfloat16", BOUNDS["bfloat16"])):
        a, b = cast([rng.normal(size=(70, n)).astype(np.float32), rng.normal(size=(9, 70)).astype(np.float32)], dtype)
        exact = np.asarray(a, float).T @ np.asarray(b, float).T
        assert error(simulated(f, a, b, card=card, n=128), exact) < bound
        lowered_for_gpu(_alone(_source(f, card, {"n": 128}))["f"], [a, b], card)


def test_triton_is_not_used_where_mosaic_gpu_has_all() -> None:
    source = tl.lower(_named("HM-LSTM cell").derived, target="pallas-gpu").source
    assert "mosaic_gpu.kernel(" in source and "triton" not in source.lower()


def _made(rng: random.Random) -> str:
    """A program with a sum, or an extremum, that can be a kernel: operands read in any order, or computed; conditions,
    relations and index arrays; and an epilogue."""
    left = rng.choice(["A[i, j]", "A[i, j]", "At[j, i]", "A[i, j] * u[i]", "A[i, j] * v[j]", "tanh(A[i, j]) + u[i]"])
    right = rng.choice(["B[j, k]", "B[j, k]", "Bt[k, j]", "B[j, k] * w[k]", "B[j, k] * v[j]", "exp(0.1 * Bt[k, j])"])
    pred = rng.choice(
        ["", "", "[j <= i] * ", "[i <= j + 3] * ", "[i + 9 <= j or j = i] * ", "[E(i, j)] * ", "[c[j] = i] * "]
    )
    summed = f"(sum j:m. {pred}{left} * {right})"
    epilogue = rng.choice(["{}", "{}", "exp(0.1 * {}) + w[k]", "{} * D[i, k]", "tanh({}) - Dt[k, i]", "s * {} + u[i]"])
    rows = (
        "gen i:n. max j:m. A[i, j] + v[j]",
        "gen i:n. sum j:m. exp(A[i, j]) * v[j]",
        "gen j:m. sum i:n. A[i, j] * u[i]",
    )
    body = rng.choice([f"gen i:n, k:p. {epilogue.format(summed)}"] * 5 + list(rows))
    return f"""f(A: [n][m]R, At: [m][n]R, B: [m][p]R, Bt: [p][m]R, D: [n][p]R, Dt: [p][n]R, u: [n]R, v: [m]R, w: [p]R,
      s: R, E: rel(n, m), c: [m]idx(n)) = {body}"""


@pytest.mark.parametrize(
    ("capability", "by"),
    [
        ("8.0", "Triton"),
        ("9.0", "Mosaic GPU, products by wgmma:"),
        ("10.0", "Mosaic GPU, products by tcgen05:"),
        ("10.3", "Mosaic GPU, products by tcgen05:"),
        ("12.0", "Triton"),
    ],
)
def test_mosaic_gpu_is_for_hopper_and_blackwell(capability: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability=capability)])
    assert f", by {by}" in str(tl.lower(tl.parse(PRODUCT), target="pallas-gpu").explain())


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 12))])
def test_programs_that_a_machine_wrote_are_right_race_free_and_lowered(seed: int, simulated: Any) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    f = tl.parse(_made(rng))
    n, m, p = (rng.choice([1, 3, 64, 65, 70]) for _ in range(3))
    shapes = [(n, m), (m, n), (m, p), (p, m), (n, p), (p, n), (n,), (m,), (p,), ()]
    given = [np.asarray(0.5 * draw.normal(size=x), np.float32) for x in shapes]
    given += [draw.random((n, m)) < 0.5, draw.integers(0, n, m).astype(np.int32)]
    wide = [x.astype(float) if x.dtype == np.float32 else x for x in given]
    adjoint = tl.adjoint(f)
    value = tl.evaluate(f, *wide)
    cotangent = draw.normal(size=np.shape(value)).astype(np.float32)
    for g, more in ((f, []), (adjoint, [cotangent])):
        source = tl.lower(g, target="pallas-gpu").source
        run = _alone(source)[g.name]
        lowered_for_gpu(run, [jnp.asarray(x) for x in (*given, *more)])
        found = jax.tree.leaves(run(*given, *more, interpret=True))
        exact = jax.tree.leaves(tl.evaluate(g, *wide, *(x.astype(float) for x in more)))
        for a, b in zip(found, exact, strict=True):
            assert np.allclose(np.asarray(a, float), b, rtol=1e-4, atol=2e-5 * (1 + np.abs(b).max())), g
