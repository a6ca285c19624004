"""What array programs of recurrences cost for all sizes: at least what JAX does, and no more than the model says."""

from __future__ import annotations

from random import Random

import jax
import numpy as np
import pytest

import tensorlang as tl
from benchmarks import through_time
from tensorlang.lowering.arrays.cost import ArrayCost
from tensorlang.lowering.emit.recurrences import Recurrent, source
from tensorlang.simplification import simplify
from tests.derivatives.test_recurrences import PROGRAMS, arguments
from tests.support.recurrences import recurrent
from tests.support.traced import work

MOVING = {"broadcast of one element", "shift register"}
"""Programs whose states are moved in each step, which the model does not count."""

GROWING = {(what, seed) for what in ("value", "adjoint") for seed in (80, 140, 263)}
"""Random programs whose code grows faster than they do: recurrences in a step, under a condition on its time, are run
at all places."""


def cost(f: tl.Function) -> ArrayCost:
    made = source(simplify(f))
    assert isinstance(made, Recurrent)
    return made.cost


@pytest.mark.parametrize("name", PROGRAMS)
def test_costs_are_between_the_arithmetic_that_jax_does_and_all_that_it_writes(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    for g in (f, tl.adjoint(f)):
        found = cost(g)
        assert (found.excess is not None) == (name in MOVING)
        for n in (5, 20):
            sizes = {s.name: n for s in g.sizes}
            done = work(tl.lower(g), *arguments(g, 0, **sizes))
            assert done.operations <= found.operations(**sizes) <= done.operations + done.elements + 2


@pytest.mark.parametrize("p", through_time.PROGRAMS, ids=lambda p: p.name)
def test_code_of_recurrences_grows_no_faster_than_programs(p: through_time.Recurrence) -> None:
    f = tl.parse(p.text)
    assert cost(f).excess is None
    assert cost(tl.value_and_grad(f)).excess is None


@pytest.mark.slow
@pytest.mark.parametrize("block", range(15))
def test_code_of_random_recurrences_grows_no_faster_than_programs(block: int) -> None:
    for seed in range(20 * block, 20 * (block + 1)):
        f = tl.parse(recurrent(Random(seed)).text)
        for what, g in (("value", f), ("adjoint", tl.adjoint(f))):
            made = source(simplify(g))
            if isinstance(made, Recurrent):
                assert (made.cost.excess is not None) == ((what, seed) in GROWING), f"{what} {seed}"


def test_explanations_of_recurrences_have_the_costs_of_all_of_them() -> None:
    lowered = tl.lower(tl.parse(PROGRAMS["rnn"]))
    assert "takes 2*T*n^2 + 3*T*n + 2*n operations" in lowered.explain().notes[0]
    assert "takes 270 operations" in lowered.explain(n=5, T=4).notes[0]
    with pytest.raises(tl.ArgumentError, match="the cost depends on T"):
        lowered.explain(n=5)


def test_explanations_tell_where_states_that_are_moved_cost_more_than_the_model_counts() -> None:
    notes = tl.lower(tl.parse(PROGRAMS["shift register"])).explain().notes
    assert any("The bound does not hold in what runs: operations grow as O(T*n)" in note for note in notes)


def test_numbers_of_elements_of_data_are_made_of_the_data() -> None:
    f = tl.parse("f(a: [m]idx(n), x: [m]R, y: [n]R) = gen k:m. real(a[k]) * x[k]")
    assert "arange" not in tl.lower(f).definition
    x = [0.5, 2.0, 3.0]
    assert tl.lower(f)([2, 0, 3], x, [1.0] * 4).tolist() == [1.0, 0.0, 9.0]


def test_explanations_say_that_steps_that_are_made_again_count_once() -> None:
    gradient = tl.grad(tl.parse(PROGRAMS["horner"]))
    said = "Steps that are made again count once."
    assert [said in tl.lower(gradient, store=store).explain().notes for store in ("needed", "sqrt")] == [False, True]


ASKED = {
    "numbers": "gen i:n. fold t:n with s = x[i]. if y[t] < x[i] then tanh(x[i] * y[t]) else s",
    "later times first": "gen i:n. fold reversed t:n with s = x[i]. if y[t] < x[i] then tanh(x[i] * y[t]) else s",
    "a relation, too": "gen i:n. fold t:n with s = x[i]. if r(t, i) and y[t] < x[i] then tanh(x[i] * y[t]) else s",
    "all states": "scan t:n with s = x. if y[t] < 0.5 then (gen i:n. [x[i] < y[t]] * sin(s[i] * x[t])) else s",
    "outcomes by name": "let c = gen t:n, i:n. y[t] * x[i] < 0.3 in gen i:n. "
    "fold t:n with s = x[i]. if c[t, i] then sin(s + y[t]) else s * x[i]",
}
"""Recurrences whose steps ask what is known before: 0 or 1 for each time and state, and all of them in each window."""


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("wrt", ["x", "y"])
def test_what_windows_ask_is_computed_in_windows(name: str, wrt: str) -> None:
    f = tl.parse(f"f(x: [n]R, y: [n]R, r: rel(n, n)) = {ASKED[name]}")
    g = tl.adjoint(f, wrt)
    done = []
    for n in (48, 192):
        rng = np.random.default_rng(n)
        given = {"x": rng.normal(size=n), "y": rng.normal(size=n), "r": rng.random((n, n)) < 0.5}
        bar = np.ones((n, n) if "scan" in ASKED[name] else n)
        done.append(work(tl.lower(g), *(given.get(p.name, bar) for p in g.params)).elements)
    assert done[1] <= 17 * done[0]
    given = {k: v[(slice(7),) * v.ndim] for k, v in given.items()}
    bar = rng.normal(size=(7, 7) if "scan" in ASKED[name] else 7)
    with jax.enable_x64(True):
        found, wanted = tl.lower(g)(**given, f_bar=bar), tl.evaluate(g, **given, f_bar=bar)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
