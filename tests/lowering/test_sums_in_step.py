"""Sums over axes of what steps give, computed in the steps."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.types import shape
from tensorlang.lowering.plan.recurrences import staged, thinner
from tensorlang.lowering.plan.stages import Turn
from tensorlang.normal import function_of, normal_ssa
from tests.lowering.test_in_step import given

STEP = "let H = scan t:T with s = p, d = gen i:n, j:n. 0. let d = gen i:n, j:n. sin(s[j] - s[i]) in "
STEP += "(gen i:n. x[t, i] + sum j:n. d[i, j] * p[j], d) in "
SUMMED = {
    "over rows and the time": "gen j:n. sum t:T, i:n. snd(H[t])[i, j]",
    "over columns, at each time": "gen t:T, i:n. sum j:n. snd(H[t])[i, j] * p[j]",
    "backwards in time": "gen t:T, i:n. sum j:n. snd(H[T - 1 - t])[i, j] * p[i]",
    "over all, where times are odd": "sum t:T, i:n, j:n. [exists k:T. t = 2 * k + 1] * snd(H[t])[i, j]",
    "times the state after the step": "gen j:n. sum t:T, i:n. snd(H[t])[i, j] * fst(H[t])[i]",
    "times the state after a few steps": "gen j:n. sum t:T, i:n. [t < 3 and i < j] * snd(H[t])[i, j] * fst(H[t])[i]",
    "beside an element": "(gen j:n. sum t:T, i:n. snd(H[t])[i, j], gen t:T. sum i:n. [i = 0] * snd(H[t])[i, i])",
    "along a diagonal": "gen t:T. sum i:n. snd(H[t])[i, i]",
    "twice": "(gen j:n. sum t:T, i:n. snd(H[t])[i, j] * fst(H[t])[i], gen i:n. sum t:T, j:n. snd(H[t])[i, j])",
}
KEPT = {
    "as large as the array": "gen i:n, j:n. sum t:T. snd(H[t])[i, j]",
    "of a function of it": "gen j:n. sum t:T, i:n. exp(snd(H[t])[i, j])",
    "times the state at another time": "gen j:n. sum t:T, i:n. snd(H[t])[i, j] * fst(H[T - 1 - t])[i]",
    "which is a result, too": "(gen j:n. sum t:T, i:n. snd(H[t])[i, j], gen t:T, i:n, j:n. snd(H[t])[i, j])",
}


def matrices(f: tl.Function) -> int:
    """The number of matrices that the recurrence gives at each step."""
    (turn,) = (part for part in staged(tl.simplify(f)).parts if isinstance(part, Turn))
    return len({place for v, place, word in turn.gives if word != "fold" and len(shape(v.type)[0]) == 3})


@pytest.mark.parametrize("name", {**SUMMED, **KEPT})
def test_what_is_only_summed_is_summed_in_the_step(name: str) -> None:
    f = tl.parse(f"f(x: [T][n]R, p: [n]R) = {STEP}{ {**SUMMED, **KEPT}[name] }")
    assert matrices(f) == (0 if name in SUMMED else 1)
    before = normal_ssa(tl.simplify(f))
    costs = [tl.cost_polynomial(function_of(s)) for s in (before, thinner(before))]
    run = tl.lower(f)
    with jax.enable_x64(True):
        for steps, n in ((0, 2), (1, 1), (1, 3), (2, 3), (7, 2), (4, 0), (9, 20)):
            assert costs[1](T=steps, n=n) <= costs[0](T=steps, n=n) + steps * (n + 1)  # sums of nothing count
            x = given(f, {"T": steps, "n": n})
            for ours, wanted in zip(jax.tree.leaves(run(*x)), jax.tree.leaves(tl.evaluate(f, *x)), strict=True):
                np.testing.assert_allclose(ours, wanted, rtol=1e-8, atol=1e-9)
