"""Arrays that XLA is made to store: which arrays they are, and that nothing is computed twice."""

from __future__ import annotations

import random
from collections.abc import Mapping

import jax
import numpy as np
import pytest

from benchmarks.gradbench import _ODE
from tensorlang import adjoint, cost, evaluate
from tensorlang.language.function import Function
from tensorlang.language.types import shape
from tensorlang.lowering.lower import lower
from tensorlang.lowering.plan.ir import StoredArray
from tensorlang.measure.count import count
from tensorlang.simplification import simplify
from tensorlang.surface.parse import parse
from tests.lowering.test_array_programs import agrees
from tests.lowering.test_lower import assert_close
from tests.support.operations import count_of
from tests.support.programs import random_arguments


def steps(count: int) -> str:
    """A stencil applied `count` times."""
    lets = [
        f"let u{k + 1} = gen i:n. [1 <= i < n - 1] * (u{k}[i - 1] + 2*u{k}[i] + u{k}[i + 1]) in" for k in range(count)
    ]
    return f"smooth(u0: [n]R) = {' '.join(lets)} gen i:n. u{count}[i]"


def shapes(f: Function, sizes: Mapping[str, int]) -> list[jax.ShapeDtypeStruct]:
    found = (tuple(a.value({s: sizes[s.name] for s in a.sizes}) for a in shape(p.type)[0]) for p in f.params)
    return [jax.ShapeDtypeStruct(s, np.float32) for s in found]


@pytest.mark.parametrize("f", [parse(steps(8)), adjoint(parse(steps(8)))], ids=["program", "adjoint"])
def test_steps_of_a_stencil_are_computed_once(f: Function) -> None:
    sizes = {"n": 5001}
    assert count(lower(f), *shapes(f, sizes)).operations <= 1.1 * cost(f, **sizes)


def test_steps_of_a_stencil_are_computed_once_under_vmap() -> None:
    f = parse(steps(8))
    rows = jax.ShapeDtypeStruct((3, 5001), np.float32)
    assert count(jax.vmap(lower(f)), rows).operations <= 1.1 * 3 * cost(f, n=5001)


def test_steps_of_a_stencil_agree_with_numpy_in_float64() -> None:
    n = 20_003
    x = np.cos(np.arange(n))
    found = lower(parse(steps(3)))(x.astype(np.float32))
    for _ in range(3):
        x = np.pad(x[:-2] + 2 * x[1:-1] + x[2:], 1)
    np.testing.assert_allclose(np.asarray(found), x, rtol=1e-5, atol=1e-5)


def _forced(f: Function) -> set[str]:
    """The arrays that XLA must write to memory."""
    return {s.variable.name for s in lower(f).plan.steps if isinstance(s, StoredArray) and s.forced}


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        # each of several loops computes it from values that it reads anyway
        ("let y = gen i:n. ((x[i] + 1)*x[i] + 2)^2*z[i] in (gen i:n. y[i]*z[i], gen i:n. y[i] + z[i])", ()),
        # once in a loop, though two of its statements read it
        (
            "let y = gen i:n. (((x[i] + 1)*x[i] + 2)*x[i] + 3)*x[i] + 4 in "
            "let a = gen i:n. y[i]*z[i] in let b = gen i:n. y[i] + z[i] in gen i:n. a[i]*b[i] + a[i]/b[i]",
            (),
        ),
        # at two places
        ("let y = gen i:n. ((x[i] + 1)*x[i] + 2)^2*z[i] + 3 in gen i:n. y[i] + [i + 1 < n] * y[i + 1]*z[i]", ("y",)),
        ("let y = gen i:n. x[i] + 1 in gen i:n. y[i] + [i + 1 < n] * y[i + 1]*z[i]", ()),
        # in two pieces, which are computed one by one
        (
            "let y = gen i:n. ((x[i] + 1)*x[i] + 2)^2*z[i] + 3 in gen i:n, j:2. [j = 0] * y[i]^2 + [j = 1] * y[i]*z[i]",
            ("y",),
        ),
        # a slow function of each element, in two loops; not a fast one, or one of a few elements
        ("let y = gen i:n. sin(x[i]) in (gen i:n. y[i]*z[i], gen i:n. y[i] + z[i])", ("y",)),
        ("let y = gen i:n. exp(x[i]) in (gen i:n. y[i]*z[i], gen i:n. y[i] + z[i])", ()),
        ("let y = gen i:9. sin(w[i]) in (gen i:n. y[2]*z[i], gen i:n. y[1] + z[i])", ()),
        ("let a = gen i:n. sin(x[i]) in (max i:n. a[i]*z[i], gen i:n. a[i] + z[i])", ("a",)),
        ("let y = gen i:n. sin(x[i]) in (gen i:n. y[0]*z[i], gen i:n. y[0] + z[i])", ()),
        # a few elements
        (
            "let y = gen i:9. ((x[0] + w[i])*x[1] + 2)^2*w[i] + x[2]^3 in gen i:n, j:9. y[j]*z[i] + y[8 - j]",
            (),
        ),
    ],
)
def test_what_is_stored_saves_work(program: str, wanted: tuple[str, ...]) -> None:
    f = parse(f"f(x: [n + 3]R, z: [n + 1]R, w: [9]R) = {program}")
    assert _forced(simplify(f)) & {"y", "a", "b"} == {*wanted}


def _in_memory(f: Function) -> list[str]:
    """The same, those of steps included."""
    return [step.name for step in lower(f).explain().steps if step.kept.startswith("written to memory")]


@pytest.mark.slow
def test_steps_store_only_what_saves_much() -> None:
    # one more call in each step costs more than some operations for each element
    gradient = adjoint(parse(_ODE), "x")
    assert not _in_memory(gradient)
    sizes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((1001,), (50,), ())]
    value = count(lower(parse(_ODE)), *sizes[:2]).operations
    assert count(lower(gradient), *sizes).operations <= 4 * (value + 2 * 1001)
    often = f"f(u: [n]R) = fold t:T with s = u. {steps(8).partition('= ')[2].replace('u0', 's')}"
    assert _in_memory(parse(often))


@pytest.mark.parametrize(
    "body",
    [
        "gen i:n, j:n. a[i, j] + a[j, i]",
        "gen i:n, j:n. a[j, i] * b[i, j] + exp(a[i, j])",
        "let t = gen i:n, j:n. sin(a[i, j]) in gen i:n, j:n. [j <= i] * (t[i, j] - t[j, i])",
        "gen i:n, j:n, k:n. c[i, j, k] * c[k, i, j] + c[j, k, i]",
    ],
)
def test_an_array_that_is_read_both_ways_is_turned_by_itself(body: str) -> None:
    f = parse(f"f(a: [n][n]R, b: [n][n]R, c: [n][n][n]R) = {body}")
    assert count_of(lower(f), "_turned")
    for n in (0, 1, 5):
        given = random_arguments(f, random.Random(n), {"n": n}, exact=False)
        assert_close(lower(f)(**given), evaluate(f, **given), 1e-6)
        agrees(f, given)


@pytest.mark.parametrize("n", [3, 23])
def test_an_array_that_is_turned_is_not_overwritten_by_what_reads_it_both_ways(n: int) -> None:
    # jaxlib 0.10.2 does so with an array that nothing else reads later, under names that it takes for two arrays
    text = """f(x: [n]R, a: [n][n]R) = let t = gen i:n, j:n. exp(a[i, j] * x[j]) in
      let u = gen i:n, j:n. t[i, j] + 2 * t[j, i] in gen i:n. sum j:n. u[i, j] * x[j]"""
    f = parse(text)
    assert count_of(lower(f), "_turned")
    given = random_arguments(f, random.Random(n), {"n": n}, exact=False)
    assert_close(jax.jit(lower(f))(**given), evaluate(f, **given), 1e-4)


@pytest.mark.parametrize(
    "body",
    [
        "gen i:n, j:n. a[j, i] + b[i, j]",  # XLA does well with different arrays that one loop reads both ways
        "gen i:n, j:n. a[j, i] + a[j, i]^2",
        "sum i:n, j:n. a[i, j] * a[j, i]",  # and sums as well
        "gen i:n, j:n, k:n. c[i, j, k] * c[j, i, k]",  # along the same axis
    ],
)
def test_others_are_not_turned_by_themselves(body: str) -> None:
    f = parse(f"f(a: [n][n]R, b: [n][n]R, c: [n][n][n]R) = {body}")
    assert not count_of(lower(f), "_turned")


_CHOSEN = "f(x: [n]R, z: [n]R, y: [n]idx(m), v: [m]R) = let s = gen k:m. sum i:n. [y[i] = k] * x[i] in "


@pytest.mark.parametrize(
    "body, wanted",
    [
        # made of as many sums: otherwise each element that is chosen is recomputed, from all that it is made of
        ("let t = gen k:m. exp(s[k]) + v[k] in gen i:n. x[i] * t[y[i]]", True),
        ("let t = gen k:m. s[k] * v[k] in gen i:n. x[i] * t[y[i]]", True),
        # made of parameters, of which only a few elements may be chosen, or of a single array
        ("let t = gen k:m. exp(v[k]) in gen i:n. x[i] * t[y[i]] + s[y[i]]", False),
        ("let t = gen k:m. v[k] * v[k] in gen i:n. x[i] * t[y[i]] + s[y[i]]", False),
        ("let t = gen k:m. 2 * s[k] in gen i:n. x[i] * t[y[i]]", False),
        ("let t = gen k:m. sin(v[k]) in (gen i:n. x[i] * t[y[i]], gen i:n. x[i] + t[y[i]] + s[y[i]])", False),
        # not as many sums as elements
        ("let t = gen k:m, l:n. exp(s[k]) * z[l] in gen i:n. x[i] * t[y[i], i]", False),
    ],
)
def test_what_is_made_of_sums_is_stored_where_data_choose_its_elements(body: str, wanted: bool) -> None:
    f = parse(f"{_CHOSEN}{body}")
    assert ("t" in _forced(f)) == wanted
    for n, m in ((0, 1), (1, 1), (7, 3)):
        given = random_arguments(f, random.Random(n), {"n": n, "m": m}, exact=False)
        assert_close(lower(f)(**given), evaluate(f, **given), 1e-6)
        agrees(f, given)
