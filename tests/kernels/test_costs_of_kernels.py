"""What kernels take for all sizes: counted as traced code has it, and within the bound, up to a factor."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from math import prod
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.programs.kernels import KERNELS
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.cost import ArrayCost
from tensorlang.lowering.kernels.ir import Kernel, Plain
from tensorlang.lowering.kernels.run import TRITON_WARNING, Kernels
from tests.support import nests
from tests.support.mixtures import mixture
from tests.support.programs import random_function

TARGETS = ("pallas-tpu", "pallas-triton")
BY_NAME = {case.name: case.function for case in KERNELS}


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="there is no [GT]PU here")
        warnings.filterwarnings("ignore", message=TRITON_WARNING)
        yield


def lowered(f: str | tl.Function, target: str = "pallas-tpu", **options: Any) -> Kernels:
    found = tl.lower(tl.parse(f) if isinstance(f, str) else f, target, **options)
    assert isinstance(found, Kernels)
    return found


def excess(f: tl.Function, target: str) -> str | None:
    """Which costs of the kernels, and of what is left to jax.numpy, outgrow the model's count."""
    made: Any = lowered(f, target)._form(()).made
    found: str | None = made.cost.excess
    return found


def cost(f: tl.Function, sizes: dict[str, int] | None = None) -> ArrayCost:
    """What all steps take, at these sizes or all that are whole tiles."""
    made: Any = lowered(f)._form(()).made
    found: ArrayCost = made.cost
    return found if sizes is None else found.at({s: sizes[s.name] for s in found.function.sizes})


ARITHMETIC = {"add", "sub", "mul", "div", "exp", "log", "max", "integer_pow", "select_n", "neg"}


def traced_operations(jaxpr: Any) -> int:
    """The arithmetic of a kernel's body: of choices the side that takes more."""
    total = 0
    for eqn in jaxpr.eqns:
        size = prod(eqn.outvars[0].aval.shape) if eqn.outvars else 0
        match eqn.primitive.name:
            case "dot_general":
                (contracted, _), _ = eqn.params["dimension_numbers"]
                total += 2 * size * prod(eqn.invars[0].aval.shape[k] for k in contracted)
            case "cond":
                total += max(traced_operations(branch.jaxpr) for branch in eqn.params["branches"])
            case "jit" | "pjit" | "custom_jvp_call":
                total += traced_operations((eqn.params.get("jaxpr") or eqn.params["call_jaxpr"]).jaxpr)
            case "reduce_sum" | "reduce_max":
                total += prod(eqn.invars[0].aval.shape)
            case name if name in ARITHMETIC and np.issubdtype(eqn.outvars[0].aval.dtype, np.floating):
                total += size
    return total


def calls(jaxpr: Any) -> Iterator[Any]:
    """The kernels in traced code."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn
        for value in eqn.params.values():
            if hasattr(value, "jaxpr") and eqn.primitive.name != "pallas_call":
                yield from calls(value.jaxpr)


def traced(f: tl.Function, sizes: dict[str, int]) -> list[Any]:
    known: Any = {size: sizes[size.name] for size in f.sizes}
    given = [
        jax.ShapeDtypeStruct([a.value(known) for a in shape(p.type)[0]], np.float32)
        for p in f.params
        if isinstance(p, Var)
    ]
    run = lowered(f)._form(()).run
    return list(calls(jax.make_jaxpr(lambda *arrays: run(*arrays, interpret=True))(*given).jaxpr))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matrix product", {"n": 1024, "m": 1536, "p": 1024}),
        ("triangle times matrix", {"n": 1024, "p": 512}),
        ("band times matrix", {"n": 2048, "p": 512}),
        ("causal attention", {"n": 1024, "d": 64, "h": 2}),
        ("sliding-window attention", {"n": 2048, "d": 64, "h": 2}),
        ("logsumexp", {"n": 1024, "m": 512}),
    ],
)
def test_operations_are_those_of_the_traced_kernels(name: str, sizes: dict[str, int]) -> None:
    for f in (BY_NAME[name], tl.adjoint(BY_NAME[name])):
        own = {size.name: sizes[size.name] for size in f.sizes}
        counted = cost(f, own).operations(own)
        bodies = traced(f, own)
        total = sum(prod(e.params["grid_mapping"].grid) * traced_operations(e.params["jaxpr"]) for e in bodies)
        # the side of each choice that takes more counts as traced: masked tiles, and tiles that store
        assert 0.5 * total < counted < 1.1 * total


def test_bytes_are_those_of_the_blocks_that_are_fetched_and_written() -> None:
    sizes = {"n": 1024, "m": 1536, "p": 2048}
    f = BY_NAME["matrix product"]
    (eqn,) = traced(f, sizes)
    mapping = eqn.params["grid_mapping"]
    *inputs, _ = mapping.block_mappings
    blocks = [4 * prod(d.block_size for d in block.block_shape) for block in inputs]
    assert cost(f, sizes).read(sizes) == prod(mapping.grid) * sum(blocks)  # neighbours in the grid share no block
    assert cost(f, sizes).written(sizes) == 4 * 1024 * 2048


def test_numbers_at_sizes_are_those_of_the_polynomials_at_whole_tiles() -> None:
    for f in (BY_NAME["sliding-window attention"], tl.adjoint(BY_NAME["2-D convolution"])):
        sizes = {size.name: 4096 + 512 * k for k, size in enumerate(f.sizes)}
        sizes |= {"h": 4096, "w": 4096} if "w" in sizes else {}
        whole, at = cost(f), cost(f, sizes)
        for name in ("operations", "read", "written"):
            assert getattr(whole, name)(sizes) == getattr(at, name)(sizes)


def test_explanations_tell_what_each_step_takes() -> None:
    found = lowered("f(A: [n][n]R, B: [n][p]R) = gen i:n, k:p. sum j:n. [j <= i] * A[i, j] * B[j, k]")
    assert found.explain()["result"].cost == "n^2*p + 512*n*p operations"
    note = found.explain(n=4096, p=512).notes[0]
    assert note.startswith("At n = 4096, p = 512 all of it takes 9,663,676,416 operations and reads ")
    with pytest.raises(tl.errors.ArgumentError, match="the cost depends on p"):
        found.explain(n=4096)
    rnn = """f(W: [n][n]R, x: [T][p][n]R, h0: [p][n]R) =
      fold t:T with h = h0. gen a:p, i:n. tanh(x[t, a, i] + sum j:n. W[i, j] * h[a, j])"""
    assert lowered(rnn).explain().steps[0].cost == "2*T*n^2*p + 2*T*n*p operations"


LEFT = {
    "running sums of columns": (
        "gen i:n, k:d. sum j:n. [j <= i] * x[j, k]",
        "in tiles it takes O(d*n^2), which jax.numpy does not",
    ),
    "running sums times a factor": (
        "gen i:n, k:d. sum j:n. [j <= i] * x[i, k] * exp(x[j, k])",
        "in tiles it takes O(d*n^2), which jax.numpy does not",
    ),
    "sums at one place": (
        "gen i:n, j:d. [i = 0 = j] * sum k:n. w",
        "in tiles it takes O(d*n^2), which jax.numpy does not",
    ),
    "running sums that are read along one axis": (
        "gen i:n, k:d. sum j:n, a:d. [j <= i] * x[j, a] * u[a]",
        "it is of vectors alone, which XLA handles as well",
    ),
}
"""What takes less as jax.numpy: by running sums, or since it is 0 almost everywhere; and the reason that is given."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LEFT)
def test_what_takes_less_than_tiles_is_left_to_numpy(name: str, target: str) -> None:
    f = tl.parse(f"f(x: [n][d]R, u: [d]R, w: R) = {LEFT[name][0]}")
    x = np.random.default_rng(0).normal(size=(37, 5))
    assert [step.reason for step in lowered(f, target).program.steps if isinstance(step, Plain)] == [LEFT[name][1]]
    assert excess(f, target) is None
    assert excess(tl.adjoint(f), target) is None
    found = lowered(f, target)(x, x[0], 0.5)
    assert np.allclose(found, tl.evaluate(f, x, x[0], 0.5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(1, 2, 5, 4), (6, 5, 2, 3), (1, 1, 1, 1)])
def test_a_kernel_that_takes_more_at_some_sizes_runs_at_the_others(sizes: tuple[int, ...], target: str) -> None:
    f = BY_NAME["2-D convolution"]
    n, m, h, w = sizes
    rng = np.random.default_rng(n)
    x, k = rng.normal(size=(n + h - 1, m + w - 1, 2)), rng.normal(size=(h, w, 2, 3))
    bar = rng.normal(size=(n, m, 3))
    g = tl.adjoint(f)
    (kernel,) = [step for step in lowered(g, target).program.steps if isinstance(step, Kernel) and step.instead]
    assert str(kernel).splitlines()[-3].strip() == "where h <= n and w <= m; elsewhere by jax.numpy"
    assert excess(g, target) is None
    found = lowered(g, target)(x, k, bar)
    for one, other in zip(found, tl.evaluate(g, x, k, bar), strict=True):
        assert np.allclose(one, other, rtol=1e-4, atol=1e-4)


CHOOSING = """
f(x: [n][d]R, W: [d][m]R) =
  let s = gen i:n, j:n. sum a:d. x[i, a] * x[j, a] in let z = gen i:n. sum j:n. exp(s[i, j]) in
  let o = gen i:n, a:d. sum j:n. exp(s[i, j]) / z[i] * x[j, a] in gen b:m. max i:n. sum a:d. o[i, a] * W[a, b]
"""


@pytest.mark.parametrize("target", TARGETS)
def test_points_are_chosen_beside_the_kernels_of_the_rest(target: str) -> None:
    g = tl.adjoint(tl.parse(CHOOSING))
    steps = lowered(g, target).program.steps
    assert next(step.reason for step in steps if isinstance(step, Plain)) == "it chooses points"
    assert sum(isinstance(step, Kernel) and bool(step.accumulators) for step in steps) == 2
    assert excess(g, target) is None
    for n, d, m in ((1, 1, 1), (5, 3, 2), (40, 4, 3)):
        rng = np.random.default_rng(n)
        given = [0.5 * rng.normal(size=shape) for shape in ((n, d), (d, m), (m,))]
        for found, wanted in zip(lowered(g, target)(*given), tl.lower(g)(*given), strict=True):
            assert np.allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_program_that_chooses_points_and_adds_nothing_up_is_left_to_numpy() -> None:
    g = tl.adjoint(tl.parse("f(x: [n][m]R) = gen i:n. max j:m. x[i, j]"))
    assert [type(step) for step in lowered(g).program.steps] == [Plain]


def test_steps_that_take_more_in_tiles_are_left_to_scan() -> None:
    f = "f(x: [n][d]R) = fold t:T with s = x. gen i:n, k:d. sin(sum j:n. [j <= i] * s[j, k])"
    (step, *_) = lowered(f).program.steps
    assert isinstance(step, Plain)
    assert (step.by, step.reason) == ("lax.scan", "in tiles it takes O(d*n^2), which jax.numpy does not")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["random", "mixture", "nest"])
@pytest.mark.parametrize("block", range(8))
def test_random_programs_keep_the_bound(block: int, kind: str, target: str, share: int) -> None:
    for seed in range(12 * block, 12 * block + 12 // share):
        rng = random.Random(seed)
        if kind == "random":
            f = random_function(rng, scalars="smooth" if seed % 2 else "powers", compares=seed % 5 == 0)
        else:
            f = tl.parse(mixture(seed, depth=2) if kind == "mixture" else nests.random_nest(rng).text)
        for g in (f, tl.adjoint(f)):
            try:
                found = excess(g, target)
            except tl.errors.CountingError:
                continue  # no closed form
            assert found is None, f"{kind} {seed}: {found}"
