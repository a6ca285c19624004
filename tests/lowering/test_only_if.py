"""Sums in steps of recurrences that are only due at some times: they are computed then, and counted for these."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.traced import conditionals

PRODUCT = "(sum j:n. W[i, j] * sin(s[j]))"
PROGRAMS = {
    "at first": f"fold t:T with s = x. gen i:n. s[i] + [t = 0] * {PRODUCT}",
    "at the first few": f"fold t:T with s = x. gen i:n. s[i] + [t < 3] * {PRODUCT}",
    "every third time": f"fold t:T with s = x. gen i:n. s[i] + [exists q:T. t = 3*q] * {PRODUCT}",
    "if a state is small": f"fold t:T with s = x. gen i:n. if s[0] < 0.5 then 0.3 * {PRODUCT} else 0.9 * s[i]",
    "if one of data says so": f"fold t:T with s = x. gen i:n. if z[t] > 0 then {PRODUCT} else s[i]",
    "by an index array": f"fold t:T with s = x. gen i:n. s[i] + [p[t] = 1] * {PRODUCT}",
    "by a relation": f"fold t:T with s = x. gen i:n. s[i] + [E(t)] * {PRODUCT}",
    "the greatest": "fold t:T with s = x. gen i:n. s[i] + [t = 1 and 0 < n] * sin(max j:n. W[i, j] * s[j])",
    "one in the other": f"fold t:T with s = x. if z[t] > 0 then (if z[t] < 1 then gen i:n. {PRODUCT} "
    "else gen i:n. 0.5 * s[i]) else s",
    "at some times for some elements": f"fold t:T with s = x. gen i:n. s[i] + [t = 2 and i = p[t]] * {PRODUCT}",
    "in a recurrence in a step": "fold t:T with s = x. gen i:n. s[i] + [t = 1] * "
    "(fold q:n with y = s[i]. sin(y) + [q = 2] * sum j:n. W[i, j] * y)",
}


def program(name: str) -> tl.Function:
    return tl.parse(f"f(x: [n]R, W: [n][n]R, z: [T]R, p: [T]idx(n), E: rel(T)) = {PROGRAMS[name]}")


def arguments(n: int, steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(n + steps)
    numbers = {"x": rng.normal(size=n), "W": rng.normal(size=(n, n)), "z": rng.normal(size=steps)}
    return {**numbers, "p": rng.integers(0, max(n, 1), steps), "E": rng.random(steps) < 0.5}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_program(name: str) -> None:
    f = program(name)
    g = tl.adjoint(f, wrt=["x", "W", "z"])
    for n, steps in ((3, 4), (1, 1), (4, 0), (5, 7)):
        given = arguments(n, steps)
        bar = np.random.default_rng(0).normal(size=n)
        with jax.enable_x64(True):
            assert np.allclose(tl.lower(f)(**given), tl.evaluate(f, **given))
            found, wanted = tl.lower(g)(**given, f_bar=bar), tl.evaluate(g, **given, f_bar=bar)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert np.allclose(a, b)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "recurrence" not in name])  # which runs always
def test_sums_are_in_conditionals(name: str) -> None:
    made = jax.make_jaxpr(tl.lower(program(name)))(**arguments(5, 7))
    assert any("dot_general" in str(eqn) or "reduce_max" in str(eqn) for eqn in conditionals(made))


def test_costs_are_those_of_the_times_at_which_they_are_due() -> None:
    for name, most in (("at first", 2), ("at the first few", 6)):
        for f in (program(name), tl.adjoint(program(name), wrt="x")):
            cost = tl.lower(f).explain(n=100, T=1000).notes
            operations = int(str(cost[0]).partition(" operations")[0].rpartition(" ")[2].replace(",", ""))
            assert most * 100**2 <= operations <= 4 * most * 100**2 + 10 * 100 * 1000, cost


def test_what_fails_at_a_fixed_number_of_times_is_masked() -> None:
    f = tl.parse(f"f(x: [n]R, W: [n][n]R) = fold t:T with s = x. gen i:n. s[i] + [0 < t and t + 2 < T] * {PRODUCT}")
    assert "_only_if" not in tl.lower(f).source


def test_a_batch_is_each_of_its_members() -> None:
    for name in ("at first", "if a state is small"):
        f = tl.to_jax(program(name))
        members = [arguments(3, 4) | {"x": np.random.default_rng(k).normal(size=3)} for k in range(3)]
        given = members[0]
        batch = jnp.stack([jnp.asarray(m["x"], jnp.float32) for m in members])
        run = lambda x, given=given, f=f: jnp.sum(f(x, given["W"], given["z"], given["p"], given["E"]) ** 2)
        for g in (run, jax.grad(run), jax.grad(lambda x, run=run: jnp.sum(jax.grad(run)(x) ** 2))):
            assert np.allclose(jax.vmap(g)(batch), [g(x) for x in batch], rtol=1e-4, atol=1e-5)
