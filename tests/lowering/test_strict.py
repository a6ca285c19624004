"""Strict code: values that brackets hide have no influence, whatever they are. Elements are poisoned with nan, inf and
numbers that overflow, both elements that nothing reads and any others; the reference evaluator determines the
result."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import tensorlang as tl
from benchmarks.case import Case, dense
from benchmarks.programs import CASES
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.arguments import from_leaves, leaf_shapes
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.measure.count import count
from tests.support.masked import SIZES, masked_arguments, masked_text
from tests.support.poison import anywhere, hidden, poisoned
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.sampling import one_in

POISONS = (np.nan, np.inf, 1e300)

SMALL_COSTS = {
    **{"slice_taps": 2, "fused_terms": 3, "sum_outputs": 1, "sum_terms": 2, "conv_outputs": 2, "interleaved_terms": 2},
    **{"fft_taps": 4, "fft_square": 4, "fft_taps_2d": 4, "block_rows": 2, "blocks": 4, "cut_rows": 2, "cuts": 4},
    **{"block_product": 3, "block_product_rows": 2, "block_products": 3, "block_inner": 1, "window_rows": 1},
    **{"band_cells": 4, "running_block": 3, "joint_sums": 3, "conv_channels": 2},
}
"""A cost table by which arrays of ten elements are taken apart like large ones."""

_INPUTS = "x: [n]R, z: [n]R, w: [k]R, A: [n][n]R, B: [n][k]R, E: rel(n, n), y: [n]idx(n)"

SUMS = {
    "prefix sums": "gen i:n. sum j:n. [j <= i] * x[j]",
    "suffix sums": "gen i:n. sum j:n. [i < j] * x[j] * z[j]",
    "triangle times vector": "gen i:n. sum j:n. [j <= i] * A[i, j] * x[j]",
    "triangle times matrix": "gen i:n, l:k. sum j:n. [j <= i] * A[i, j] * B[j, l]",
    "band": "gen i:n. sum j:n. [j - 2 <= i <= j + 1] * A[i, j] * x[j]",
    "stored band": "let t = gen i:n, j:n. [i <= j < i + 3] * A[i, j] * z[i] in gen i:n. sum j:n. t[i, j] * x[j]",
    "relation": "gen i:n. sum j:n. [E(i, j)] * A[i, j] * x[j]",
    "relation times matrix": "gen i:n, l:k. sum j:n. [E(i, j)] * A[i, j] * B[j, l] * x[j]",
    "bilinear form": "sum i:n, j:n. [E(i, j)] * x[i] * z[j]",
    "outer product in a triangle": "gen i:n, j:n. [j < i] * x[i] * exp(z[j])",
    "convolution": "gen i:n. sum j:k. [0 <= i + j - 1 < n] * x[i + j - 1] * w[j]",
    "Toeplitz": "gen i:n. sum j:n. [j <= i] * x[i - j] * z[j]",
    "strided": "gen i:n. sum j:k. [2*i + j < n] * x[2*i + j] * w[j]",
    "windows": "gen i:n. sum j:n. [i - 3 <= j <= i] * x[j]",
    "windows, scaled": "gen i:n. sum j:n. [i - 3 <= j <= i - 1] * z[i] * x[j]",
    "segments": "gen i:n. sum j:n. [i = y[j] and j < n - 1] * x[j] * z[i]",
    "compared data": "gen i:n. sum j:n. [y[i] <= y[j]] * x[i] * z[j]",
    "over nothing": "gen i:n. sum j:n. [n <= j] * x[i] * z[j]",
    "sizes": "gen i:n. (sum j:k. w[j]) * exp(x[i]) + [3 < k] * x[i] * z[i]",
    "logarithms": "gen i:n. sum j:n. [j < i] * log(x[j]^2) * (1 / z[i])",
    "an extremum": "gen i:n. max j:n where j <= i. x[j] * z[j]",
    "attention": """
      let e = gen i:n, j:n. [j <= i] * exp(A[i, j]) in
      gen i:n, l:k. (sum j:n. [j <= i] * e[i, j] * B[j, l]) / sum j:n. [j <= i] * e[i, j]""",
}
"""For each way of computing sums, a program that uses it."""


@pytest.fixture
def _small_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let small sizes be taken apart, too."""
    (tmp_path / "costs.json").write_text(json.dumps(SMALL_COSTS))
    monkeypatch.setenv("TENSORLANG_COSTS", str(tmp_path / "costs.json"))


@pytest.fixture(params=[pytest.param("default", marks=pytest.mark.slow), "small"])
def _costs(request: pytest.FixtureRequest) -> None:
    """Both cost tables."""
    if request.param == "small":
        request.getfixturevalue("_small_costs")


@pytest.fixture(autouse=True)
def _doubles() -> Iterator[None]:
    with jax.enable_x64(True):
        yield
    jax.clear_caches()


def flat(values: Any) -> list[np.ndarray]:
    return [np.asarray(x, float) for x in jax.tree.leaves(values)]


def agrees(found: Any, wanted: Any) -> bool:
    """Whether all elements that should be finite have the wanted values."""
    for got, x in zip(flat(found), flat(wanted), strict=True):
        seen = np.isfinite(x)
        scale = max([1.0, *np.abs(x[seen])])
        if got.shape != x.shape or not np.allclose(got[seen], x[seen], rtol=1e-6, atol=1e-9 * scale):
            return False
    return True


def complete(f: Function, arguments: dict[str, Any], sizes: dict[str, int], seed: int) -> dict[str, Any]:
    """The arguments among `arguments` that `f` has, random values for the others, and the sizes that no shape
    determines."""
    values: Any = {Size(name): n for name, n in sizes.items()}
    rng = np.random.default_rng(seed)
    named: dict[str, Any] = {}
    for p in f.params:
        if p.name in arguments:
            named[p.name] = arguments[p.name]
        elif isinstance(p, Var):
            arrays = (rng.normal(size=[a.value(values) for a in dims]) for dims in leaf_shapes(p.type))
            named[p.name] = from_leaves(p.type, arrays)
    return {**named, **{s.name: sizes[s.name] for s in f.sizes}}


def cases_of(f: Function, arguments: dict[str, Any], seed: int) -> Iterator[tuple[dict[str, Any], Any]]:
    """Poisoned arguments, and the program's results for them."""
    clean = tl.evaluate(f, **arguments)
    unread = hidden(f, arguments)
    for value in POISONS:
        given = poisoned(f, arguments, unread, value)
        wanted = tl.evaluate(f, **given)
        for before, after in zip(flat(clean), flat(wanted), strict=True):
            np.testing.assert_array_equal(before, after)
        yield given, wanted
    rng = np.random.default_rng(seed)
    for value in POISONS:
        given = poisoned(f, arguments, anywhere(unread, rng), value)
        yield given, tl.evaluate(f, **given)


def is_strict(f: Function, arguments: dict[str, Any], seed: int = 0, strict: bool = True) -> bool:
    """Whether the code of `f` agrees with the evaluator for poisoned arguments, wherever the result is finite."""
    lowered = tl.lower(f, strict=strict)
    return all(agrees(lowered(**given), wanted) for given, wanted in cases_of(f, arguments, seed))


def derivatives(f: Function) -> dict[str, Callable[[], Function]]:
    return {
        "value": lambda: f,
        "adjoint": lambda: tl.adjoint(f),
        "forward": lambda: tl.derivative(f),
        "second": lambda: tl.adjoint(tl.adjoint(f)),
    }


def sum_called(name: str) -> Function:
    return tl.parse(f"f({_INPUTS}) = {SUMS[name]}")


@pytest.mark.parametrize("name", one_in(2, SUMS))
@pytest.mark.usefixtures("_costs")
def test_what_a_bracket_hides_has_no_influence_whatever_the_way_of_summing(name: str) -> None:
    f = sum_called(name)
    for seed, sizes in enumerate(({"n": 9, "k": 4}, {"n": 2, "k": 0})):
        arguments = masked_arguments(random.Random(seed), sizes)
        assert is_strict(f, complete(f, arguments, sizes, seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["adjoint", "forward", "second"])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.usefixtures("_small_costs")
def test_what_a_bracket_hides_has_no_influence_on_derivatives(name: str, which: str) -> None:
    f, sizes = derivatives(sum_called(name))[which](), {"n": 7, "k": 3}
    assert is_strict(f, complete(f, masked_arguments(random.Random(0), sizes), sizes, 0))


def test_the_poison_is_noticed_in_code_that_is_not_strict() -> None:
    sizes = {"n": 9, "k": 4}
    for name in ("prefix sums", "triangle times vector", "relation times matrix", "segments"):
        f = sum_called(name)
        arguments = complete(f, masked_arguments(random.Random(0), sizes), sizes, 0)
        assert is_strict(f, arguments, strict=False) == (name == "segments"), name


def test_relations_given_by_their_points_select() -> None:
    sizes = {"n": 9, "k": 4}
    for name in ("relation", "relation times matrix", "bilinear form"):
        for f in (sum_called(name), tl.adjoint(sum_called(name))):
            arguments = complete(f, masked_arguments(random.Random(1), sizes), sizes, 0)
            lowered = tl.lower(f, strict=True)
            for given, wanted in cases_of(f, arguments, 0):
                assert agrees(lowered(**{**given, "E": scipy.sparse.csr_matrix(given["E"])}), wanted)


def masked_is_strict(seed: int, which: str) -> None:
    rng = random.Random(seed)
    text, sizes = masked_text(rng), rng.choice(SIZES)
    f = derivatives(tl.parse(text))[which]()
    arguments = complete(f, masked_arguments(rng, sizes), sizes, seed)
    try:
        tl.evaluate(f, **arguments)
    except tl.TensorlangError:
        return
    assert is_strict(f, arguments, seed), f"seed {seed}, sizes {sizes}, the {which} of\n{text}"


@pytest.mark.parametrize("seed", range(6))
def test_random_masked_sums_are_strict(seed: int) -> None:
    masked_is_strict(seed, "value")


@pytest.mark.slow
@pytest.mark.parametrize(("which", "seeds"), [("value", 40), ("adjoint", 6), ("forward", 6), ("second", 2)], ids=str)
@pytest.mark.usefixtures("_small_costs")
def test_many_random_masked_sums_and_their_derivatives_are_strict(which: str, seeds: int, share: int) -> None:
    for seed in range(100, 100 + max(2, seeds // share)):
        masked_is_strict(seed, which)
        if seed % 50 == 49:
            jax.clear_caches()


def random_is_strict(seed: int, which: str) -> None:
    rng = random.Random(seed)
    f = random_function(rng, scalars=("powers", "exact", "smooth")[seed % 3], chooses=seed % 2 == 1)  # type: ignore[arg-type]
    f = derivatives(f)[which]()
    sizes = random_sizes(f, rng)
    arguments = {**random_arguments(f, rng, sizes, exact=False), **sizes}
    try:
        tl.evaluate(f, **arguments)
    except tl.TensorlangError:
        return
    assert is_strict(f, arguments, seed), f"seed {seed}, sizes {sizes}, the {which}:\n{f}"


def test_random_programs_are_strict() -> None:
    for seed in range(12):
        random_is_strict(seed, "value")


@pytest.mark.slow
@pytest.mark.parametrize(("which", "seeds"), [("value", 80), ("adjoint", 25)], ids=str)
def test_many_random_programs_and_their_adjoints_are_strict(which: str, seeds: int, share: int) -> None:
    for seed in range(1000, 1000 + seeds // share):
        random_is_strict(seed, which)
        if seed % 50 == 49:
            jax.clear_caches()


def benchmark_is_strict(case: Case, f: Function) -> None:
    ranges = {s.name for p in f.params if isinstance(p, IndexArray) and p.name in case.draw for s in p.size.sizes}
    sizes = {name: n if name in ranges else min(n, 9) for name, n in case.odd.items()}
    given = dict(zip((p.name for p in f.params), map(dense, case.arguments(sizes)), strict=False))
    assert is_strict(f, {**given, **{s.name: sizes[s.name] for s in f.sizes}})


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
@pytest.mark.usefixtures("_small_costs")
def test_benchmark_programs_and_their_derivatives_are_strict(case: Case) -> None:
    benchmark_is_strict(case, case.function)
    benchmark_is_strict(case, case.derived)


# under JAX


def gradients(f: Function, arguments: dict[str, Any], given: dict[str, Any], g: Callable[..., Any]) -> Iterator[Any]:
    """Pairs of JAX's gradients of `g` for clean and for poisoned arguments."""
    names = [v.name for v in f.variables]
    results = flat(tl.evaluate(f, **arguments))
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.normal(size=x.shape)) for x in results]

    def loss(values: list[Any], others: dict[str, Any]) -> Any:
        found = jax.tree.leaves(g(**others, **dict(zip(names, values, strict=True))))
        return sum(jnp.vdot(a, b) for a, b in zip(weights, found, strict=True))

    def both(what: Callable[..., Any]) -> tuple[Any, Any]:
        def of(a: dict[str, Any]) -> Any:
            values = [jnp.asarray(a[name]) for name in names]
            return what(values, {k: x for k, x in a.items() if k not in names})

        return of(arguments), of(given)

    ones = lambda values: [jnp.ones_like(x) for x in values]
    hvp = lambda values, others: jax.grad(
        lambda values: sum(map(jnp.sum, jax.grad(loss)(values, others)))  # type: ignore[arg-type]
    )(values)
    yield both(jax.grad(loss))
    yield both(lambda values, others: jax.jit(lambda values: jax.grad(loss)(values, others))(values))
    yield both(lambda values, others: jax.jvp(lambda values: loss(values, others), (values,), (ones(values),)))
    yield both(hvp)


@pytest.mark.parametrize("name", ["triangle times vector", "convolution"])
def test_derivatives_in_jax_of_strict_functions_see_nothing_hidden(name: str) -> None:
    derivatives_in_jax_see_nothing_hidden(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUMS)
def test_all_derivatives_in_jax_of_strict_functions_see_nothing_hidden(name: str) -> None:
    derivatives_in_jax_see_nothing_hidden(name)


def derivatives_in_jax_see_nothing_hidden(name: str) -> None:
    f, sizes = sum_called(name), {"n": 6, "k": 3}
    arguments = complete(f, masked_arguments(random.Random(0), sizes), sizes, 0)
    unread = hidden(f, arguments)
    for value in (np.nan, np.inf):
        given = poisoned(f, arguments, unread, value)
        for clean, found in gradients(f, arguments, given, tl.to_jax(f, strict=True)):
            assert all(np.isfinite(x).all() for x in flat(found)) and agrees(found, clean)


def test_strict_functions_are_strict_when_mapped() -> None:
    sizes = {"n": 6, "k": 3}
    for name in ("triangle times vector", "relation times matrix", "convolution"):
        f = sum_called(name)
        g = tl.to_jax(f, strict=True)
        arguments = complete(f, masked_arguments(random.Random(0), sizes), sizes, 0)
        pairs = list(cases_of(f, arguments, 0))
        names = [v.name for v in f.variables]
        stacked = [jnp.stack([given[name] for given, _ in pairs]) for name in names]
        others = {k: x for k, x in arguments.items() if k not in names}
        found = jax.vmap(lambda *values: g(**others, **dict(zip(names, values, strict=True))))(*stacked)  # noqa: B023
        for k, (_, wanted) in enumerate(pairs):
            assert agrees(found[k], wanted), name


# what it costs


@pytest.mark.parametrize("name", ["prefix sums", "convolution", "relation times matrix"])
def test_strict_code_does_at_most_a_few_times_as_much(name: str) -> None:
    f = sum_called(name)
    for n in (64, 256, 1024):
        arguments = masked_arguments(random.Random(0), {"n": n, "k": 8})
        given = [
            jax.ShapeDtypeStruct(np.shape(arguments[p.name]), np.asarray(arguments[p.name]).dtype) for p in f.params
        ]
        default, strict = (count(tl.lower(f, exact=True, strict=s), *given) for s in (False, True))
        assert strict.operations <= 3 * default.operations + 4 * n
        assert strict.temporaries <= 3 * (default.temporaries + default.inputs + default.outputs)


# uses without strict code


def test_kernels_and_meshes_take_no_strict_code() -> None:
    f = sum_called("prefix sums")
    for target in ("pallas-tpu", "pallas-gpu"):
        with pytest.raises(tl.ArgumentError, match=f"no strict code is made for the target '{target}'"):
            tl.lower(f, target=target, strict=True)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    with pytest.raises(tl.ArgumentError, match="no strict code is made for a mesh"):
        tl.lower(f, mesh=mesh, sharding={"i": "d"}, strict=True)


def test_strict_code_has_no_fourier_transforms() -> None:
    source = tl.lower(sum_called("Toeplitz"), strict=True).source
    assert '"fft_taps": 2**62' in source
