"""Supports of the cotangents of a recurrence's states: cotangents are computed only there, whatever the number of
steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.derivatives.derivation import RECURRENCE
from tensorlang.surface.parse import reread
from tests.derivatives.test_recurrences import arguments, assert_close

EXACT = {
    "a front that moves": "f(h: [n]R, u: [T]R) = let s = fold t:T with s = h. "
    "gen i:n. s[i] + u[t] * ([0 < i] * s[i - 1]) in [0 < n] * s[n - 1]",
    "a cone": "f(h: [n + 9]R, u: [T]R) = let s = fold t:T with s = h. "
    "gen i:n + 9. s[i] + u[t] * ([0 < i] * s[i - 1] + [i + 1 < n + 9] * s[i + 1]) in s[4]",
    "reversals": "f(h: [n + 3]R, u: [T]R) = "
    "let s = fold t:T with s = h. gen i:n + 3. u[t] * s[n + 2 - i] in s[0] + s[1] + s[2]",
    "swaps": "f(a: [n]R, b: [n]R, u: [T]R) = "
    "let s = fold t:T with s = a, r = b. (gen i:n. u[t] * r[i], s) in sum i:n. fst(s)[i]",
    "rotations of three": "f(a: [n]R, b: [n]R, c: [n]R, u: [T]R) = "
    "let s = fold t:T with s = a, r = b, q = c. (gen i:n. u[t] * r[i], (q, s)) in sum i:n. fst(s)[i]",
    "a shift": "f(h: [n]R, u: [T]R) = "
    "let s = fold t:T with s = h. gen i:n. [0 < i] * u[t] * s[i - 1] in [0 < n] * s[n - 1]",
    "a shift, one element of each time": "f(h: [n + 1]R, u: [T]R) = let s = scan t:T with s = h. "
    "gen i:n + 1. [0 < i] * u[t] * s[i - 1] in gen t:T. s[t, n]",
    "one element a step, of which one is read": "f(h: [n]R, u: [T]R) = let s = fold t:T with s = h. "
    "gen i:n. [i = t] * sin(s[0] * u[t]) + [i != t] * s[i] in [0 < n] * s[n - 1]",
    "a broadcast": "f(h: [n]R, u: [T]R) = let s = fold t:T with s = h. gen i:n. s[0] * u[t] in sum i:n. s[i]",
    "one element a step": "f(h: [n]R, u: [T]R) = "
    "fold t:T with s = h. gen i:n. [i = t] * sin(s[0] * u[t]) + [i != t] * s[i]",
}
FULL = (
    "f(h: [n]R, r: rel(n, n)) = let s = fold t:T with s = h. gen i:n. sum j:n. [r(i, j)] * s[j] in [0 < n] * s[n - 1]"
)


def is_exact(f: tl.Function) -> bool:
    """Whether the supports of all recurrences are proved."""
    rules = [step.rule for step in tl.derive(f).steps if step.rule.number == RECURRENCE.number]
    assert rules
    return all(rule is RECURRENCE for rule in rules)


QUICK = ("a cone", "reversals", "a shift")
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXACT]


@pytest.mark.parametrize("name", NAMES)
def test_only_what_reaches_the_result_is_computed_whatever_the_number_of_steps(name: str) -> None:
    f = tl.parse(EXACT[name])
    assert is_exact(f)
    value, adjoint = tl.cost_polynomial(f), tl.cost_polynomial(tl.adjoint(f))
    for steps in (0, 1, 2, 10, 10_000):
        for n in (1, 7, 30_000):
            sizes = {"T": steps, "n": n}
            io = sum(np.prod([a.value({s: sizes[s.name] for s in a.sizes}) for a in shape]) for shape in shapes(f))
            assert adjoint(**sizes) + io <= 4 * (value(**sizes) + io)


def shapes(f: tl.Function) -> list[tuple[object, ...]]:
    """The shapes of all arguments and results of `f`."""
    from tensorlang.language.arguments import leaf_shapes

    return [shape for kind in (*(p.type for p in f.variables), f.type) for shape in leaf_shapes(kind)]


@pytest.mark.parametrize("name", NAMES)
def test_its_values_are_those_of_jax(name: str) -> None:
    f = tl.parse(EXACT[name])
    a = tl.adjoint(f)
    with jax.enable_x64(True):
        for steps, n in ((4, 3), (5, 6)):
            given = list(map(jnp.asarray, arguments(f, T=steps, n=n)))
            y, pull = jax.vjp(tl.lower(f), *given)
            assert_close(a(*given, jnp.ones_like(y)), pull(jnp.ones_like(y)))


def test_supports_of_every_other_time_are_written_with_ranges_that_are_sizes() -> None:
    text = (
        "f(x: [n]R, y: [n]R) = let h = fold t:n with s = y, z = 1. (gen i:n. tanh(z), sin(sum j:n. s[t])) "
        "in sum i:n. fst(h)[i] * x[i]"
    )
    once = tl.adjoint(tl.parse(text), "y")
    assert "exists" in str(once)
    given = {"x": np.ones(4), "y": np.linspace(-1, 1, 4), "f_bar": 2.0}
    found = tl.evaluate(once, **given)
    np.testing.assert_allclose(tl.evaluate(reread(str(once)), **given), found)
    twice = tl.adjoint(once, "y")
    bar = np.linspace(1, 2, 4)
    np.testing.assert_allclose(
        tl.lower(twice)(**given, f_adjoint_bar=bar), tl.evaluate(twice, **given, f_adjoint_bar=bar), rtol=1e-5
    )


def test_where_no_support_is_proved_the_derivation_says_that_the_cost_is_only_counted() -> None:
    f = tl.parse(FULL)
    assert not is_exact(f)
    assert "6.R1 recurrence, on all of its states: its cost is counted" in str(tl.derive(f))


@pytest.mark.slow
def test_supports_that_data_change_at_every_step_are_found_or_given_up_early() -> None:
    text = (
        "f(c: R, k: [T]idx(n + 1)) = fold t:T with s = gen i:n + 1. 0. "
        "(prescan j:n + 1 with z = c. [0 < j] * z * ([j != k[t]] * s[j]))"
    )
    f = tl.parse(text)
    tl.clear_caches()
    with tl.limits(steps=20_000_000):
        a = tl.adjoint(f)
    with jax.enable_x64(True):
        for c, k in ((0.5, [0, 2, 1, 3]), (2.0, [3, 3, 3]), (1.5, [])):
            given = jnp.asarray(c), jnp.asarray(k, jnp.int32)
            _, pull = jax.vjp(lambda c, k=given[1]: tl.lower(f)(c, k, n=3), given[0])
            assert_close(a(*given, jnp.arange(1.0, 5)), pull(jnp.arange(1.0, 5))[0])
