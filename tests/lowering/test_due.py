"""Recurrences in steps that only run if a condition holds, as all of their states are zero otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Turn
from tests.lowering.test_costs_of_recurrences import cost
from tests.promises.test_mixtures import same
from tests.support.traced import conditionals

HEAD = "f(W: [n][n]R, h: [n]R, u: [T]R, p: [T]idx(n), E: rel(T)) = "
INNER = "(fold q:n with r = s. gen i:n. tanh(sum j:n. W[i, j] * r[j]))"

DUE = {
    "at first": f"fold t:T with s = h. if t = 0 then {INNER} else gen i:n. s[i] * u[t]",
    "if one of data says so": f"fold t:T with s = h. if 0 < u[t] then {INNER} else gen i:n. s[i] * u[t]",
    "if the state says so": f"fold t:T with s = h. if (sum i:n. s[i]) < 0.1 then {INNER} else gen i:n. s[i] + u[t]",
    "by an index array": f"fold t:T with s = h. if p[t] = 1 then {INNER} else s",
    "by a relation": f"scan t:T with s = h. if E(t) then {INNER} else gen i:n. s[i] * u[t]",
    "either of two": f"""fold t:T with s = h. if 0 < u[t] then {INNER}
      else fold q:n with r = s. gen i:n. sin(u[t] * r[i])""",
    "one in the other": """fold t:T with s = h. if t = 1 then (fold q:n with r = s.
      gen i:n. (fold v:n with z = r[i]. sin(z) + u[t])) else s""",
    "its own conditions": """fold t:T with s = h. if t = 1 then (fold q:n with r = s.
      gen i:n. r[i] + [q = 0] * sum j:n. W[i, j] * r[j]) else s""",
    "greatest values": """fold t:T with s = h. if 0 < u[t] then (fold q:n with r = s.
      gen i:n. [0 < n] * (max j:n. W[i, j] + r[j])) else s""",
    "all of its states": """scan t:T with s = h. if 0 < u[t] then
      (let y = scan q:n with r = s. (gen i:n. sin(r[i] + W[q, i])) in gen i:n. sum q:n. y[q, i] * W[i, q]) else s""",
    "its states": """fold t:T with s = (h, h). if t = 2 then (fold q:n with r = s.
      (gen i:n. snd(r)[i] * W[q, i], gen i:n. sin(fst(r)[i]))) else s""",
}

ALWAYS = {
    "added": "fold t:T with s = h. gen i:n. [t = 0] * s[i] + (fold q:n with r = u[t]. sin(r) + W[q, i])",
    "from zero": """fold t:T with s = h. let a = fold q:n with r = gen i:n. 0. (gen i:n. cos(r[i]) + s[i]) in
      let b = fold q:n with r = (a, gen i:n. [0 < u[t]] * s[i]).
        (gen i:n. sin(fst(r)[i]), gen i:n. fst(r)[i] * snd(r)[i]) in gen i:n. fst(b)[i] + snd(b)[i]""",
    "at some places": "fold t:T with s = h. gen i:n. s[i] + [i < t] * (fold q:n with r = u[t]. sin(r) + W[q, i])",
}

PROGRAMS = DUE | ALWAYS


def program(name: str) -> tl.Function:
    return tl.parse(HEAD + PROGRAMS[name])


def arguments(n: int, steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(n + 10 * steps)
    given: dict[str, Any] = {"W": rng.normal(size=(n, n)), "h": rng.normal(size=n), "u": rng.normal(size=steps)}
    return given | {"p": rng.integers(0, max(n, 1), steps), "E": rng.random(steps) < 0.5}


def inner(f: tl.Function) -> Iterator[Turn]:
    """The recurrences in steps."""
    for part in staged(f).parts:
        if isinstance(part, Turn):
            yield from (turn for turn in staged(part.step, windows=False, in_step=True).parts if isinstance(turn, Turn))


@pytest.mark.parametrize("name", PROGRAMS)
def test_conditions_are_found_in_programs_and_adjoints(name: str) -> None:
    for f in (program(name), tl.adjoint(program(name), ("W", "h", "u"))):
        turns = list(inner(tl.simplify(f)))
        assert turns
        assert all((turn.asked is not None) == (name in DUE) for turn in turns)


@pytest.mark.parametrize(("n", "steps"), [(0, 0), (1, 1), (3, 0), (3, 4), (4, 7)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_program(name: str, n: int, steps: int) -> None:
    f = program(name)
    g, given = tl.adjoint(f, ("W", "h", "u")), arguments(n, steps)
    with jax.enable_x64(True):
        value = tl.evaluate(f, **given)
        assert same(tl.lower(f)(**given), value)
        bar = jax.tree.map(lambda x: np.random.default_rng(0).normal(size=np.shape(x)), value)
        assert same(tl.lower(g)(**given, f_bar=bar), tl.evaluate(g, **given, f_bar=bar))


@pytest.mark.parametrize("name", ["if one of data says so", "either of two", "all of its states"])
def test_batches_and_gradients_of_gradients(name: str) -> None:
    of = tl.to_jax(program(name))
    given = arguments(3, 5)

    def f(W: Any, h: Any, u: Any) -> Any:
        return (of(W, h, u, given["p"], given["E"]) ** 2).sum()

    gradient = jax.grad(f, (0, 1, 2))
    with jax.enable_x64(True):
        x = [given[name] for name in "Whu"]
        other = [x[0], x[1], -x[2]]  # whose conditions differ
        found = jax.jit(jax.vmap(gradient))(*map(np.stack, zip(x, other, strict=True)))
        for k, one in enumerate((x, other)):
            assert same([y[k] for y in found], gradient(*one))
        way = [np.random.default_rng(k).normal(size=np.shape(y)) for k, y in enumerate(x)]

        def along(*y: Any) -> Any:
            return sum((a * b).sum() for a, b in zip(way, gradient(*y), strict=True))

        second = jax.grad(along, (0, 1, 2))(*x)
        ahead, behind = (gradient(*(y + e * d for y, d in zip(x, way, strict=True))) for e in (1e-5, -1e-5))
        for a, b, c in zip(second, ahead, behind, strict=True):
            np.testing.assert_allclose(a, (b - c) / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DUE)
def test_they_are_in_conditionals(name: str) -> None:
    made = jax.make_jaxpr(tl.lower(program(name)))(**arguments(3, 4))
    assert any("scan" in str(eqn) or "while" in str(eqn) for eqn in conditionals(made))


def test_costs_are_those_of_the_times_at_which_they_are_due() -> None:
    for f in (program("at first"), tl.adjoint(program("at first"), "h")):
        made = cost(f)
        assert made.excess is None
        assert made.operations(n=100, T=1000) < 8 * 100**3 + 20 * 100 * 1000
