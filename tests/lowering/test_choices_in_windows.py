"""Conditions on states, which are computed window by window, like the values that they choose."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import benchmarks.through_time as benchmark
import tensorlang as tl
from tensorlang.language.types import shape
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Turn
from tests.lowering.test_in_step import bytes_needed
from tests.support.sampling import one_in

SCAN = "f(x: [T][n]R) = let s = scan t:T with s = gen i:n. 0. gen i:n. sin(s[i]) + x[t, i] in "
PROGRAMS = {
    "of own states": SCAN + "sum t:T, i:n. if s[t, i] > 0.2 then s[t, i] * s[t, i] else x[t, i]",
    "for rows": SCAN + "let z = gen t:T, i:n. if s[t, i] > x[t, i] then s[t, i] else x[t, i] * s[t, i] in "
    "sum t:T, i:n. z[t, i] * z[t, i]",
    "of the state before": SCAN + "sum t:T, i:n. [0 < t] * (if s[t - 1, i] > 0.2 then s[t, i] * s[t, i] else x[t, i])",
    "from the end": SCAN + "gen t:T, i:n. if s[T - 1 - t, i] > 0.2 then s[T - 1 - t, i] * x[t, i] else x[t, i]",
    "in steps": "f(x: [T][n]R) = let s = fold t:T with s = gen i:n. 0. "
    "gen i:n. (if s[i] > x[t, i] then sin(s[i]) + x[t, i] else s[i] * x[t, i]) in sum i:n. s[i] * s[i]",
    "in steps and outside": "f(x: [T][n]R) = let s = scan t:T with s = gen i:n. 0. (let m = sum j:n. s[j] in "
    "gen i:n. if m > x[t, i] then sin(s[i]) + x[t, i] else s[i] * x[t, i]) in "
    "sum t:T, i:n. if s[t, i] > 0.1 then s[t, i] * s[t, i] else 2 * s[t, i]",
    "where some hold": SCAN + "sum t:T. [exists k:n. s[t, k] > 0.2] * sum i:n. s[t, i] * x[t, i]",
    "in windows and after them": SCAN + "let z = gen t:T, i:n. if s[t, i] > 0.2 then s[t, i] * x[t, i] else x[t, i] in "
    "let m = sum i:n. [0 < T] * z[0, i] in (m, gen t:T, i:n. if s[t, i] > 0.2 then m else s[t, i])",
}


@pytest.mark.parametrize("name", one_in(12, PROGRAMS))
def test_what_a_condition_on_states_chooses_is_what_it_is(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for g in (f, tl.adjoint(f)):
            runs = [tl.lower(g, store=store) for store in ("needed", "sqrt")]
            for steps, n in ((0, 2), (1, 1), (2, 3), (7, 2), (30, 1)):
                given: list[Any] = [rng.normal(size=(steps, n))]
                if g is not f:
                    given.append(jax.tree.map(lambda v: rng.normal(size=np.shape(v)), tl.evaluate(f, *given)))
                wanted = jax.tree.leaves(tl.evaluate(g, *given))
                for run in runs:
                    for x, y in zip(jax.tree.leaves(run(*given)), wanted, strict=True):
                        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_a_recurrence_that_ends_by_a_condition_reads_nothing_of_all_times_in_a_window() -> None:
    (program,) = (p for p in benchmark.PROGRAMS if p.name == "Newton until")
    g = tl.grad(tl.parse(program.text))
    (back,) = (part for part in staged(tl.simplify(g)).parts if isinstance(part, Turn) and part.rest is not None)
    assert back.rest is not None
    read = [shape(p.type)[0] for p in back.rest.function.params if not hasattr(p, "sizes")]
    assert [str(a) for sizes in read for a in sizes if str(a) != "window"] == []
    given = benchmark.arguments(g, {"T": 2000})
    theirs = jax.grad(program.jax, (0, 1, 2))
    assert bytes_needed(tl.lower(g), *given) < 1.3 * bytes_needed(theirs, *given)


LIKE_TIMES = {
    "as others": "sum i:n, j:n. fold t:n with s = y[i]. if z[j] < s then tanh(s) else s",
    "from the end": "sum i:n, j:n. fold t:n with s = y[i] until s * s < 0.05. "
    "if z[n - 1 - j] < s then tanh(y[i]) else s",
    "both reversed": "sum i:n, j:n. fold reversed t:n with s = y[i]. if z[j] < s then tanh(y[i]) * x[t] else s",
    "beside the time": "sum i:n. fold t:n with s = y[i]. if z[i] < z[t] then tanh(s) else s * z[i]",
    "chosen": "let a = argmin j:n. z[j]^2 in sum i:n. fold t:n with s = y[i]. if z[a] < s then tanh(s) else s * z[a]",
}
"""Recurrences that compare states of an earlier one at places that are not times, though there are as many."""


@pytest.mark.parametrize("name", LIKE_TIMES)
def test_states_of_an_earlier_recurrence_are_compared_at_all_its_times(name: str) -> None:
    f = tl.parse(f"f(x: [n]R, y: [n]R) = let z = scan t:n with s = 0.3. sin(s + x[t]) in {LIKE_TIMES[name]}")
    g = tl.adjoint(f)
    for n in (1, 2, 5, 8, 11):
        rng = np.random.default_rng(n)
        given = {"x": rng.normal(size=n), "y": rng.normal(size=n), "f_bar": 0.7}
        with jax.enable_x64(True):
            for found, wanted in zip(tl.lower(g)(**given), tl.evaluate(g, **given), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
