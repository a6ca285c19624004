"""Choices that are the same in all steps of a recurrence are made before it, in what runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Stage, Turn
from tests.promises.test_mixtures import same

NEAREST = "let a = gen i:n. argmin j:n. (x[i] - y[j])^2 in"

PROGRAMS = {
    "read by a fold": f"""{NEAREST}
      let h = fold t:n with s = y. gen i:n. tanh(s[a[i]] * x[t]) in sum i:n. h[i]""",
    "two of the same form": """
      let g = fold t:n with s = y. let a = gen i:n. argmin j:n. (x[i] - y[j])^2 in gen i:n. tanh(s[a[i]] * x[t]) in
      let h = fold t:n with s = y. let a = gen i:n. argmin j:n. (x[i] - z[j])^2 in gen i:n. tanh(s[a[i]] * x[t]) in
      sum i:n. g[i] * h[i]""",
    "read by two folds, and after them": f"""{NEAREST}
      let g = fold t:n with s = y. gen i:n. tanh(s[a[i]] * x[t]) in
      let h = fold t:n with s = z. gen i:n. tanh(s[a[i]] * x[t] + z[a[t]]) in
      sum i:n. g[i] * h[i] * y[a[i]]""",
    "read by a scan and its sum": f"""{NEAREST}
      let g = scan t:n with s = y. gen i:n. tanh(s[a[i]] * x[t]) in sum t:n, i:n. g[t, a[i]] * z[i]""",
    "between two recurrences": """
      let g = scan t:n with s = 0. tanh(s + x[t]) in
      let a = gen i:n. argmin j:n. (g[i] - y[j])^2 in
      let h = fold t:n with s = z. gen i:n. tanh(s[a[i]] * x[t]) in sum i:n. h[i]""",
    "under a condition on another one": f"""{NEAREST}
      let b = gen i:n. argmin j:n where a[j] <= a[i]. x[j] * y[i] in
      let h = fold t:n with s = z. gen i:n. tanh(s[b[i]] * x[t]) in sum i:n. h[i]""",
    "beside a comparison": f"""{NEAREST}
      let h = fold t:n with s = z. gen i:n. if z[a[i]] < x[i] then tanh(s[a[i]] * x[t]) else s[i] in sum i:n. h[i]""",
    "as numbers": f"""{NEAREST}
      let h = fold t:n with s = z. gen i:n. tanh(s[a[i]] * x[t] + real(a[i]) / 10) in sum i:n. h[i] * real(a[i])""",
    "in windows": """
      let h = fold t:n with s = z.
        let a = gen i:n. argmin j:n where i - 1 <= j and j <= i + 1. (x[i] - y[j])^2 in gen i:n. tanh(s[a[i]] * x[t]) in
      sum i:n. h[i]""",
    "within groups": """
      let a = gen i:n. argmin j:n where k[j] = k[i]. (x[i] - y[j])^2 in
      let h = fold t:n with s = z. gen i:n. sum j:n. [a[j] = a[i]] * tanh(s[j] * x[t]) in sum i:n. h[i]""",
    "greatest values": """
      let h = fold t:n with s = z. gen i:n. tanh(s[i] * x[t] - max j:n. x[i] * y[j]) in
      sum i:n. h[i] * (max j:n. x[i] * y[j])""",
    "beside one of the state": f"""{NEAREST}
      let h = fold t:n with s = z. let b = argmin j:n. s[j]^2 in gen i:n. tanh(s[a[i]] * x[t] + s[b]) in
      sum i:n. h[i]""",
}


def program(name: str) -> tl.Function:
    return tl.parse(f"f(x: [n]R, y: [n]R, z: [n]R, k: [n]idx(n)) = {PROGRAMS[name]}")


def arguments(f: tl.Function, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    given = {name: rng.normal(size=n) for name in "xyz"} | {"k": rng.integers(0, max(n, 1), size=n)}
    return {p.name: given.get(p.name, 1.0) for p in f.params}


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_adjoints_are_right(name: str, n: int) -> None:
    f = program(name)
    with jax.enable_x64(True):
        for g in (f, tl.adjoint(f, ("x", "y", "z"))):
            given = arguments(g, n)
            wanted = tl.evaluate(g, **given)
            assert same(tl.lower(g)(**given), wanted)
            assert same(tl.lower(g, strict=True)(**given), wanted)
            for store in ("states", "sqrt"):
                assert same(tl.lower(g, store=store)(**given), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_makes_them(name: str) -> None:
    f = program(name)
    for g in (f, tl.adjoint(f, ("x", "y", "z"))):
        assert "does not hold" not in str(tl.lower(g).explain())
    for part in staged(tl.simplify(f)).parts:
        if isinstance(part, Turn):
            read = str(part.step)
            assert ("argmin" in read or "max" in read) == (name == "beside one of the state"), read


def test_one_that_several_read_is_made_once() -> None:
    stages = [
        p for p in staged(tl.simplify(program("read by two folds, and after them"))).parts if isinstance(p, Stage)
    ]
    assert sum(str(stage.function).count("argmin") for stage in stages) == 1


def test_what_is_passed_on_are_integers() -> None:
    f = tl.parse("f(x: [n]R, y: [m]R) = let a = argmin j:m. y[j] in fold t:n with s = y. gen j:m. s[a] * x[t]")
    first = staged(tl.simplify(f)).parts[0]
    assert isinstance(first, Stage) and first.indices
    y = np.zeros(2_100, np.float16)
    y[2_049] = -1  # halves can't tell it from 2,048
    assert np.all(tl.lower(f)(np.ones(3, np.float16), y) == -1)
    made = tl.lower(f).source.partition("def f(x, y):")[2].partition("def f_step0")[0]
    assert "a = " in made and "arange" not in made  # their elements are no numbers


def test_a_batch_is_each_of_its_members() -> None:
    f = tl.parse(f"f(x: [n]R, y: [n]R, z: [n]R) = {PROGRAMS['read by two folds, and after them']}")
    run = tl.to_jax(f)
    rng = np.random.default_rng(0)
    x, y, z = (rng.normal(size=(3, 5)) for _ in range(3))
    for g in (run, jax.grad(run), jax.grad(lambda *a: jnp.sum(jax.grad(run)(*a) ** 2))):
        found = jax.vmap(g)(x, y, z)
        assert np.allclose(found, [g(*a) for a in zip(x, y, z, strict=True)], rtol=1e-4, atol=1e-5)
