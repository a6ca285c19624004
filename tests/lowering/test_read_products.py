"""Products that steps store anyway, read in place of their factors, and products whose factors are read."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import benchmarks.through_time as benchmark
import tensorlang as tl
from tensorlang.language.types import shape
from tensorlang.lowering.plan.recurrences import staged, thinner
from tensorlang.lowering.plan.stages import Turn
from tensorlang.normal import function_of, normal_ssa
from tests.lowering.test_in_step import bytes_needed, given
from tests.support.sampling import one_in

HEAD = """
f(x: [T][n]R, p: [n]R) =
  let H = states t:T with s = p, f = gen i:n. 0, w = 0.
    let f = gen i:n. sin(s[i]) + x[t, i] in let w = 1 / (2 + sum i:n. f[i] * f[i]) in (gen i:n. w * f[i], (f, w)) in
  let s = gen t:T, i:n. fst(H[t])[i] in let f = gen t:T, i:n. fst(snd(H[t + 1]))[i] in
  let w = gen t:T. snd(snd(H[t + 1])) in
"""
BACK = "let b = fold t:T with b = p. gen i:n. "
READ = {
    "times the number, within a sum": BACK + "cos(b[i]) + [0 < t] * w[T - 1 - t] * "
    "(sum j:n. b[j] * f[T - 1 - t, j]) in (s, b)",
    "times its square": BACK + "cos(b[i]) - [0 < t] * (w[T - 1 - t] * w[T - 1 - t]) * "
    "(sum j:n. b[j] * f[T - 1 - t, j]) * s[T - 1 - t, i] in (s, b)",
    "in two products": BACK + "cos(b[i]) + [0 < t] * w[T - 1 - t] * (sum j:n. b[j] * f[T - 1 - t, j]) "
    "+ [0 < t] * b[i] * w[T - 1 - t] * f[T - 1 - t, i] in (s, b)",
}
KEPT = {
    "after the last step, whose state is not stored": BACK + "cos(b[i]) + w[T - 1 - t] * "
    "(sum j:n. b[j] * f[T - 1 - t, j]) in (s, b)",
    "without the number": BACK
    + "cos(b[i]) + [0 < t] * w[T - 1 - t] * (sum j:n. b[j] * sin(f[T - 1 - t, j])) in (s, b)",
    "at another time": BACK + "cos(b[i]) + [0 < t] * w[t] * (sum j:n. b[j] * f[T - 1 - t, j]) in (s, b)",
    "by the result": BACK + "cos(b[i]) + [0 < t] * w[T - 1 - t] * (sum j:n. b[j] * f[T - 1 - t, j]) in (s, (f, b))",
}


def stored(f: tl.Function) -> int:
    """The number of arrays over time, each as large as the state, that the first recurrence stores."""
    first = next(part for part in staged(tl.simplify(f)).parts if isinstance(part, Turn))
    return len({(place, word) for v, place, word in first.gives if word != "fold" and len(shape(v.type)[0]) == 2})


@pytest.mark.parametrize("name", {**READ, **KEPT})
def test_a_stored_product_is_read_in_the_place_of_its_factors(name: str) -> None:
    f = tl.parse(HEAD + {**READ, **KEPT}[name])
    assert stored(f) == (1 if name in READ else 2)
    run = tl.lower(f)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 1), (1, 3), (2, 3), (5, 2), (4, 0)):
            x = given(f, {"T": steps, "n": n})
            for ours, wanted in zip(jax.tree.leaves(run(*x)), jax.tree.leaves(tl.evaluate(f, *x)), strict=True):
                np.testing.assert_allclose(ours, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", one_in(2, ["HMM forward", "CTC"]))
def test_an_adjoint_of_a_state_that_is_divided_by_its_sum_stores_a_third_less(name: str) -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == name)
    f = tl.parse(program.text)
    g = tl.grad(f)
    assert str(tl.memory_polynomial(g)) == "2*T*n + 2*n*window + T"
    before = normal_ssa(tl.simplify(g))
    costs = [tl.cost_polynomial(function_of(s)) for s in (before, thinner(before))]
    for steps, n in ((1, 1), (2, 1), (2, 3), (60, 7)):
        was, now = (cost(T=steps, n=n) for cost in costs)
        assert now == was - (steps - 1)
    x = benchmark.arguments(f, {"T": 200, "n": 32})
    wrt = tuple(range(len(x)))
    assert bytes_needed(tl.lower(g), *x) < 0.8 * bytes_needed(jax.grad(program.jax, wrt), *x)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 3), (4, 3)):
            x = [jnp.asarray(y, float) for y in benchmark.arguments(f, {"T": steps, "n": n})]
            for ours, theirs in zip(tl.lower(g)(*x), jax.grad(program.jax, wrt)(*x), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
