"""Kernels as values: their printed form, their well-formedness, and explanations of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tensorlang as tl
from benchmarks.programs.kernels import KERNELS
from tensorlang.language.affine import Index, atom_affine, constant
from tensorlang.language.grammar import Expr, Sum, Var, access
from tensorlang.language.types import R, array, shape
from tensorlang.lowering.kernels.check import why_not
from tensorlang.lowering.kernels.ir import Kernel, KernelProgram, Plain, Role
from tensorlang.lowering.kernels.run import Kernels
from tensorlang.lowering.kernels.terms import reduction
from tests.support.programs import random_function

TARGETS = ("pallas-tpu", "pallas-triton")
PRODUCT = "f(A: [n][m]R, B: [m][p]R) = gen i:n, j:p. exp(sum k:m. A[i, k] * B[k, j])"


def lowered(f: str | tl.Function, target: str = "pallas-triton") -> Kernels:
    found = tl.lower(tl.parse(f) if isinstance(f, str) else f, target)
    assert isinstance(found, Kernels)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_of_kernels_is_printed_in_the_words_of_its_grammar(target: str) -> None:
    length = 512 if target == "pallas-tpu" else 128
    assert str(lowered(PRODUCT, target).program).splitlines() == [
        "kernel result",
        f"  for each tile of i:n by {length}, j:p by {length} (parallel)",
        f"  for each tile of k:m by {512 if target == 'pallas-tpu' else 64} (reduced)",
        "    result_sum[i, j] += A[i, k] * B[k, j]",
        "    result[i, j] = exp(result_sum[i, j])",
        "",
        "return result",
    ]


def test_tiles_that_are_left_out_are_printed_as_conditions_on_their_numbers() -> None:
    f = "f(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j <= i] * A[i, j] * B[j, k]"
    assert "  tiles visited where k_tile <= 2*i_tile + 1; masked where " in str(lowered(f).program)


def test_what_is_left_to_numpy_is_printed_with_the_reason() -> None:
    f = "f(A: [n][m]R, B: [m][p]R) = gen i:n, k:p. erfc(sum j:m. A[i, j] * B[j, k])"
    assert str(lowered(f).program).startswith("jax.numpy, since Triton has no erfc\n    result = gen i:n, j:p. erfc(")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_all_kernels_are_well_formed_and_explained(case: object, target: str) -> None:
    f = tl.adjoint(getattr(case, "function"))  # noqa: B009
    found = lowered(f, target)
    assert why_not(found.program) is None
    explained = found.explain()
    assert len(explained.steps) == len(found.program.steps)
    for step, shown in zip(found.program.steps, explained.steps, strict=True):
        formulas = () if isinstance(step, Plain) else tuple(step.formulas())
        assert shown.parts == formulas
        assert all(line in str(explained) for line in formulas)


def test_an_explanation_says_why_two_kernels_are_not_one() -> None:
    causal = next(case for case in KERNELS if case.name == "causal attention")
    *_, last = lowered(tl.adjoint(causal.function)).explain().steps
    assert dict(last.apart)["t1"] == "it reads z before it is complete"
    assert "    not with    t1: it reads z before it is complete" in list(last.lines())


def _kernel(program: KernelProgram) -> Kernel:
    (kernel,) = program.steps
    assert isinstance(kernel, Kernel)
    return kernel


def _changed(change: Callable[[Kernel], Kernel]) -> Callable[[KernelProgram], KernelProgram]:
    return lambda program: replace(program, steps=(change(_kernel(program)),))


def _with_value(value: Callable[[Kernel], Expr]) -> Callable[[KernelProgram], KernelProgram]:
    return _changed(lambda k: replace(k, outputs=(replace(k.outputs[0], value=value(k)),)))


def _reduced(k: Kernel) -> Index:
    return k.of_role(Role.REDUCED)[0].index


def _read_at(k: Kernel, *indices: Index) -> Expr:
    return access(k.accumulators[0].var, *map(atom_affine, indices))


_OTHER = Var("other", array((), R))

WRONG: dict[str, Callable[[KernelProgram], KernelProgram]] = {
    "the result result is not made": lambda program: replace(program, steps=()),
    "result is made twice": lambda program: replace(program, steps=program.steps * 2),
    "result: an index has two axes": _changed(lambda k: replace(k, axes=k.axes + k.axes[:1])),
    "result: i is parallel, in tiles of 0": _changed(
        lambda k: replace(k, axes=(replace(k.axes[0], block=0), *k.axes[1:]))
    ),
    "result: result_sum has an axis that is reduced": _changed(
        lambda k: replace(k, accumulators=(replace(k.accumulators[0], axes=(_reduced(k),)),))
    ),
    "result: result_sum depends on j": _changed(
        lambda k: replace(k, accumulators=(replace(k.accumulators[0], axes=k.accumulators[0].axes[:1]),))
    ),
    "result: result depends on k": _with_value(lambda k: k.accumulators[0].value),
    "result: other is read before it is made": _with_value(lambda k: _OTHER),
    "result: result_sum is read before it is made": _changed(lambda k: replace(k, accumulators=())),
    "result: result_sum is read of another tile": _with_value(lambda k: _read_at(k, *reversed(k.accumulators[0].axes))),
    "result: k is summed in a tile, and is not whole or unrolled": _with_value(
        lambda k: Sum(_reduced(k), k.axes[-1].extent, k.accumulators[0].value)
    ),
    "result: result_sum is scaled by other, which is no maximum of the kernel": _changed(
        lambda k: replace(k, accumulators=(replace(k.accumulators[0], shift=_OTHER),))
    ),
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_malformed_program_of_kernels_is_refused_with_the_reason(reason: str) -> None:
    program = lowered(PRODUCT).program
    assert why_not(program) is None
    assert why_not(WRONG[reason](program)) == reason


def test_a_softmax_is_scaled_by_a_maximum_of_its_own_kernel() -> None:
    program = lowered(next(case for case in KERNELS if case.name == "causal attention").function).program
    kernel = _kernel(program)
    largest, total, *others = kernel.accumulators
    assert total.shift is largest.var
    swapped = replace(kernel, accumulators=(total, largest, *others))
    assert why_not(replace(program, steps=(swapped,))) == "result: z_sum is scaled before t1_max is taken in"


@pytest.mark.parametrize("target", TARGETS)
def test_random_programs_become_well_formed_kernels_or_say_why_not(target: str) -> None:
    for seed in (198, 235, 298, *range(8)):
        found = lowered(random_function(random.Random(seed)), target)
        assert why_not(found.program) is None
        assert all(step.reason for step in found.program.steps if isinstance(step, Plain))


NAMED_ALIKE = """f(x: [n]R, A: [n][m]R) =
  let x = sum i:n. x[i] in
  gen i:n, j:m. x * A[i, j]"""
DIAGONAL = "f(A: [n][n]R, B: [n][n]R) = gen i:n, j:n. A[i, j] * B[i, i]"


def test_a_sum_around_another_of_the_same_index_counts_it() -> None:
    i = Index("i")
    inner = Sum(i, constant(3), access(Var("v", array((constant(3),), R)), atom_affine(i)))
    r = reduction(Sum(i, constant(3), inner))
    assert r.indices == (i,)
    assert r.factors == (inner,)


@pytest.mark.parametrize("text", [NAMED_ALIKE, DIAGONAL])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore::tensorlang.lowering.kernels.run.InterpretedWarning")
def test_arrays_of_one_name_and_diagonals_are_read_as_they_are_meant(text: str, target: str) -> None:
    f = tl.parse(text)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=[9] * len(shape(p.type)[0])).astype(np.float32) for p in f.params if isinstance(p, Var)]
    assert np.allclose(lowered(f, target)(*given), tl.evaluate(f, *(x.astype(float) for x in given)), atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_left_alone_may_have_many_results(target: str) -> None:
    g = tl.adjoint(tl.parse("f(A: [n][m]R, v: [m]R, w: [m]R) = gen i:n. max j:m. A[i, j] + v[j] * w[j]"))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=size).astype(np.float32) for size in ((5, 7), 7, 7, 5)]
    found, exact = lowered(g, target)(*given), tl.evaluate(g, *(x.astype(float) for x in given))
    for a, b in zip(found, exact, strict=True):
        assert np.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_over_different_tiles_are_no_one_kernel(target: str) -> None:
    """A kernel goes over the tiles of all its reduced axes, so each sum would be taken once for each tile of the other
    sum's axis."""
    f = tl.parse(
        "f(A: [n][n]R, B: [n][m]R) = gen i:n, k:n. (sum j:n. A[i, j] * A[j, k]) + (sum j:m. B[i, j] * B[k, j])"
    )
    lowered = tl.lower(f, target=target, blocks={"n": 128, "m": 128})
    for n, m in ((200, 5), (5, 200), (140, 130)):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(n, n)), rng.normal(size=(n, m))
        np.testing.assert_allclose(lowered(a, b), a @ a + b @ b.T, rtol=1e-3, atol=1e-3)
    assert "its sums go over different tiles" in str(lowered.explain())
