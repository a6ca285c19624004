"""What steps of a recurrence compute that depends on neither time nor state is computed once, before the first one."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tests.promises.test_mixtures import same
from tests.support.traced import work

HEAD = "f(x: [n]R, y: [n]R, A: [n][n]R, c: R, T: [m]R, k: [n]idx(n), E: rel(n, n)) = "

ONCE = {
    "a sum": ("fold t:m with s = y. gen i:n. tanh(s[i] * T[t] - sum j:n. exp(x[i] * x[j]))", "exp"),
    "a greatest value": ("scan t:m with s = y. gen i:n. tanh(s[i] * T[t] - max j:n. A[i, j] * x[j])", "max"),
    "a matrix of parameters": ("fold t:m with s = y. gen i:n. sum j:n. sin(A[i, j]) * s[j]", "sin"),
    "a number": ("fold t:m with s = c. tanh(s * T[t] + sum j:n. exp(x[j]))", "exp"),
    "what is chosen": (
        "let a = gen i:n. argmin j:n. x[i] * A[i, j] in fold t:m with s = y. gen i:n. tanh(s[i] + T[t] * exp(y[a[i]]))",
        "exp",
    ),
    "what a condition compares": (
        "fold t:m with s = y. gen i:n. tanh(s[i] - (if x[i] < y[i] then exp(x[i]) else sum j:n. sin(x[i] * A[i, j])))",
        "exp",
    ),
    "sums that a condition compares": (
        "fold t:m with s = y. gen i:n. if (sum j:n. exp(A[i, j] * x[j])) < 9 then tanh(s[i] * T[t]) else s[i] / 2",
        "exp",
    ),
    "sums of which a step takes the least": (
        "fold t:m with s = y. (let a = gen i:n. argmin j:n. x[i] * (sum l:n. exp(A[j, l])) "
        "in gen i:n. tanh(s[a[i]] * T[t] - s[i]))",
        "exp",
    ),
    "sums in groups": ("fold t:m with s = y. gen i:n. tanh(s[i] - sum j:n. [k[j] = i] * exp(x[j]))", "exp"),
    "sums over neighbours": ("fold t:m with s = y. gen i:n. tanh(s[i] - sum j:n. [E(i, j)] * exp(x[j]))", "exp"),
    "within a recurrence within": (
        "fold t:m with s = y. gen i:n. (fold u:n with v = s[i]. tanh(v * T[t] - sum j:n. exp(x[i] * A[i, j])))",
        "exp",
    ),
    "reversed": ("scan reversed t:m with s = y. gen i:n. tanh(s[i] * T[t] - sum j:n. exp(x[i] * x[j]))", "exp"),
}


def arguments(n: int, m: int) -> dict[str, Any]:
    rng = np.random.default_rng(n + 10 * m)
    given: dict[str, Any] = {name: rng.normal(size=n) for name in "xy"}
    given |= {"A": rng.normal(size=(n, n)), "c": 0.3, "T": rng.normal(size=m), "E": rng.random((n, n)) < 0.4}
    return given | {"k": rng.integers(0, max(n, 1), size=n)}


@pytest.mark.parametrize("name", ONCE)
def test_it_stands_before_the_recurrence(name: str) -> None:
    body, function = ONCE[name]
    text = str(tl.simplify(tl.parse(HEAD + body)))
    before, step = text.split(" = fold " if " = fold " in text else " = scan ", 1)
    assert function in before, text
    assert function not in step, text


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 2), (1, 1), (3, 0), (4, 3)])
@pytest.mark.parametrize("name", ONCE)
def test_values_and_gradients_are_right(name: str, n: int, m: int) -> None:
    f = tl.parse(HEAD + ONCE[name][0])
    given = arguments(n, m)
    value = tl.evaluate(f, **given)
    g = tl.adjoint(f, ("x", "y", "A", "c"))
    asked = given | {"f_bar": np.random.default_rng(0).normal(size=np.shape(value))}
    with jax.enable_x64(True):
        assert same(tl.lower(f)(**given), value)
        assert same(tl.evaluate(tl.simplify(f), **given), value)
        assert same(tl.lower(g)(**asked), tl.evaluate(g, **asked))
    way = {x: np.random.default_rng(1).normal(size=np.shape(given[x])) for x in ("x", "y", "A", "c")}

    def along(h: float) -> Any:
        return tl.evaluate(f, **given | {x: given[x] + h * d for x, d in way.items()})

    slope = np.sum(asked["f_bar"] * (along(1e-6) - along(-1e-6)) / 2e-6)
    found = sum(np.sum(a * way[x]) for x, a in zip(way, jax.tree.leaves(tl.evaluate(g, **asked)), strict=True))
    assert np.allclose(found, slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ONCE)
def test_more_steps_do_no_more_of_it(name: str) -> None:
    f = tl.parse(HEAD + ONCE[name][0])
    for g in (f, tl.adjoint(f, ("x", "y", "A", "c"))):
        spent = []
        for m in (1, 65):
            given = arguments(24, m)
            value = tl.evaluate(f, **given)
            asked = [given.get(p.name, np.ones_like(value)) for p in g.params]
            spent.append(work(tl.lower(g), *asked).elements)
        steps = (spent[1] - spent[0]) / 64
        whole = 24**2 if name in ("within a recurrence within", "a matrix of parameters") else 24
        assert steps <= 60 * whole, (spent, str(g))


def test_the_cost_says_so() -> None:
    f = tl.parse(HEAD + ONCE["a sum"][0])
    assert str(tl.cost_polynomial(tl.simplify(f))) == "[0 < m] * (3*m*n + 3*n^2 - n)"
    assert str(tl.cost_polynomial(f)) == "3*m*n^2 + 2*m*n"


def test_what_is_larger_than_all_that_the_steps_read_stays() -> None:
    # the step adds up n^2 terms without a matrix for them
    f = tl.parse("f(x: [n]R, y: [n]R) = fold t:n with s = y. gen i:n. sum j:n. exp(x[i] * x[j]) * s[j]")
    assert str(tl.simplify(f)).count("let") == 1
    numbers = tl.parse(
        "f(x: [1500]R, y: [1500]R) = fold t:9 with s = y. gen i:1500. sum j:1500. exp(x[i] * x[j]) * s[j]"
    )
    assert str(tl.simplify(numbers)).count("let") == 1
    read = tl.parse("f(x: [n]R, y: [n]R) = fold t:n with s = y. gen i:n. sum j:n. exp(x[i]) * exp(x[j]) * s[j]")
    assert str(tl.simplify(read)).count("exp") == 1


def test_what_some_times_or_states_decide_stays() -> None:
    for part in ("[t = 3] * exp(x[i])", "(if 0 < s[i] then exp(x[i]) else 0)", "exp(x[i] + real(t))"):
        f = tl.parse(f"f(x: [n]R, y: [n]R) = fold t:n with s = y. gen i:n. tanh(s[i] + {part})")
        assert "exp" in str(tl.simplify(f)).split("fold", 1)[1], part
