"""Loops of JAX whose steps change a few places of a carried array, which XLA copies at each step of JAX's gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tensorlang as tl
from tensorlang.jaxprs.carried import copied
from tensorlang.jaxprs.lint import lint
from tensorlang.measure.count import count

RNG = np.random.default_rng(0)
STEPS = 60


def elo(r: Any, c: Any, games: Any) -> Any:
    def step(state: Any, game: Any) -> Any:
        r, total = state
        p = jax.nn.sigmoid(r[game[0]] - r[game[1]])
        d = c * (1 - p)
        return (r.at[game[0]].add(d).at[game[1]].add(-d), total - jnp.log(p)), None

    return lax.scan(step, (r, 0.0), games)[0][1]


def values(v: Any, rate: Any, rewards: Any, steps: Any) -> Any:
    def step(v: Any, x: Any) -> Any:
        reward, at = x
        d = reward + 0.9 * v[at[1]] - v[at[0]]
        return v.at[at[0]].add(rate * d), d * d

    return jnp.sum(lax.scan(step, v, (rewards, steps))[1])


def memory(m: Any, c: Any, written: Any, at: Any) -> Any:
    def step(m: Any, x: Any) -> Any:
        w, k = x
        read = m[k[0]]
        return m.at[k[1]].set(c * read + (1 - c) * w), read

    m, read = lax.scan(step, m, (written, at))
    return jnp.sum(read**2) + jnp.sum(m**2)


def table(a: Any, b: Any) -> Any:
    def step(t: Any, d: Any) -> Any:
        return d.at[t].set(jnp.logaddexp(d[t - 1] + a[t], d[t - 2] + b[t]))

    return lax.fori_loop(2, a.shape[0], step, jnp.zeros(a.shape[0]))[-1]


def swaps(x: Any) -> Any:
    def step(t: Any, x: Any) -> Any:
        s = jax.nn.sigmoid(x[t + 1] - x[t])
        return x.at[t].set(s * x[t] + (1 - s) * x[t + 1]).at[t + 1].set(s * x[t + 1] + (1 - s) * x[t])

    return jnp.sum(lax.fori_loop(0, STEPS - 1, step, x) * jnp.arange(x.shape[0]))


def rows(h: Any, w: Any, at: Any) -> Any:
    return jnp.sum(lax.scan(lambda h, k: (h.at[k[0]].set(jnp.tanh(w @ h[k[1]])), None), h, at)[0] ** 2)


def where(h: Any, v: Any, at: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        v, k = x
        new = h[k[0]] + v
        return jnp.where(new > 0.3, h.at[k[0]].set(0.5 * new), h.at[k[1]].add(new)), None

    return jnp.sum(lax.scan(step, h, (v, at))[0] ** 2)


def delayed(a: Any, x: Any, ring: Any) -> Any:
    size = ring.shape[0]

    def step(ring: Any, t: Any) -> Any:
        y = x[t // 2] + a * ring[t % size]
        return ring.at[t % size].set(y), y * jnp.mod(t, 3)

    return jnp.sum(lax.scan(step, ring, jnp.arange(STEPS))[1] ** 2)


def counted(a: Any, x: Any, ring: Any) -> Any:
    size = ring.shape[0]

    def step(t: Any, state: Any) -> Any:
        ring, total = state
        at = lax.rem(3 * t + 1, size)
        return ring.at[at].set(jnp.sin(a * ring[at] + x[t])), total + ring[at]

    ring, total = lax.fori_loop(0, STEPS, step, (ring, 0.0))
    return total + jnp.sum(ring)


def numbers(*shape: int) -> Any:
    return jnp.asarray(RNG.normal(size=shape) * 0.3, jnp.float32)


def places(n: int) -> Any:
    """Places, some of them outside of an array of n elements, at either end."""
    return jnp.asarray(RNG.integers(-n - 2, n + 3, (STEPS, 2)), jnp.int32)


LOOPS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "elo": (elo, lambda n: (numbers(n), jnp.float32(0.1), places(n))),
    "values": (values, lambda n: (numbers(n), jnp.float32(0.1), numbers(STEPS), places(n))),
    "memory": (memory, lambda n: (numbers(n, 3), jnp.float32(0.4), numbers(STEPS, 3), places(n))),
    "table": (table, lambda n: (numbers(n), numbers(n))),
    "swaps": (swaps, lambda n: (numbers(max(n, STEPS)),)),
    "rows": (rows, lambda n: (numbers(n, 3), numbers(3, 3), places(n))),
    "delayed": (delayed, lambda n: (jnp.float32(0.5), numbers(STEPS), numbers(n))),
    "counted": (counted, lambda n: (jnp.float32(0.5), numbers(STEPS), numbers(n))),
    "where": (where, lambda n: (numbers(n), numbers(STEPS), places(n))),
}


def by(x: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(k for k, a in enumerate(x) if jnp.issubdtype(a.dtype, jnp.floating))


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("n", [1, 5, 5000])
def test_the_gradient_is_jax_s_wherever_places_are(name: str, n: int) -> None:
    fun, given = LOOPS[name]
    if name in ("table", "swaps"):
        n = min(n, 300) + 2
    x = given(n)
    theirs, ours = jax.grad(fun, by(x))(*x), tl.jax.grad(fun, by(x))(*x)
    for a, b in zip(jax.tree.leaves(theirs), jax.tree.leaves(ours), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["elo", "values", "memory", "rows"])
def test_no_step_of_a_derived_gradient_copies_what_the_loop_carries(name: str) -> None:
    fun, given = LOOPS[name]
    x = given(200_000)
    theirs, ours = (count(gradient(fun, by(x)), *x).copied for gradient in (jax.grad, tl.jax.grad))
    assert theirs > STEPS * 200_000
    assert ours < 10 * 200_000 * 3


@pytest.mark.parametrize("name", LOOPS)
def test_programs_of_such_loops_have_their_gradients(name: str) -> None:
    fun, given = LOOPS[name]
    x = given(12)
    program = tl.from_jax(fun, *x)
    inside = [jnp.clip(a, 0, 11) if jnp.issubdtype(a.dtype, jnp.integer) else a for a in x]
    wanted = jax.tree.leaves(jax.grad(fun, by(x))(*inside))
    found = jax.tree.leaves(tl.lower(tl.grad(program.function))(**program.arguments(*inside)))
    for a, b in zip(wanted, found[: len(wanted)], strict=True):  # numbers that JAX computes beforehand come last
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_copies_are_of_states_that_steps_read_and_write() -> None:
    def scanned(step: Callable[..., Any], x: Any) -> int:
        closed = jax.make_jaxpr(lambda x: lax.scan(lambda x, k: (step(x, k), None), x, jnp.arange(3)))(x)
        (equation,) = (e for e in closed.jaxpr.eqns if e.primitive.name == "scan")
        return copied(equation)

    x = jnp.ones(7)
    assert scanned(lambda x, k: x.at[k].add(1.0), x) == 0
    assert scanned(lambda x, k: x.at[k].set(jnp.sin(x[k])), x) == 7
    assert scanned(lambda x, k: jnp.sin(x), x) == 0


def test_the_linter_tells_and_confirms_copies() -> None:
    report = lint(elo, "n", "", "n 2: int32", sizes=(1000, 4000), compiled=True)
    (found,) = report.findings
    assert found.primitive == "copies of a loop's state"
    assert found.compiled is not None and found.compiled[1] > 3 * found.compiled[0]
