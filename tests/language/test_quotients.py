"""Quotients and remainders of indices by constants, in text and in Python: i // 2 and i % 2."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.support.alike import alike

n, m = tl.sizes("n m")
x = np.array([1.0, 2.5, -3.0, 4.0, 0.5, 7.0])

CASES: dict[str, tuple[Callable[[int, Any], Any], tuple[Any, ...]]] = {
    "f(x: [n]R) = gen i:2*n. x[i // 2]": (lambda n, x: [x[i // 2] for i in range(2 * n)], (x,)),
    "f(x: [n]R) = gen i:n. x[i // 2 // 2]": (lambda n, x: [x[i // 4] for i in range(n)], (x,)),
    "f(x: [3]R) = gen i:7. x[i % 3]": (lambda n, x: [x[i % 3] for i in range(7)], (x[:3],)),
    "f(x: [n]R) = gen i:n. x[2*(i // 2)]": (lambda n, x: [x[i // 2 * 2] for i in range(n)], (x,)),
    "f(x: [n]R) = gen i:n. [3 <= i] * x[(i - 3) // 2]": (
        lambda n, x: [x[(i - 3) // 2] * (i >= 3) for i in range(n)],
        (x,),
    ),
    "f(x: [n]R) = gen i:n. x[(n - 1 - i) // 3] * ((i - 4) % 3)": (
        lambda n, x: [x[(n - 1 - i) // 3] * ((i - 4) % 3) for i in range(n)],
        (x,),
    ),
    "f(x: [n]R) = gen i:n. if i % 2 = 0 then x[i] else -x[i]": (
        lambda n, x: [x[i] if i % 2 == 0 else -x[i] for i in range(n)],
        (x,),
    ),
    "f(x: [n]R) = gen i:n. if i // 2 < (n - i) % 3 and i != 4 then x[i] else 1": (
        lambda n, x: [x[i] if i // 2 < (n - i) % 3 and i != 4 else 1 for i in range(n)],
        (x,),
    ),
    "f(x: [n]R) = gen i:n. max j:n where j % 2 = i % 2. x[j]": (
        lambda n, x: [max(x[j] for j in range(n) if j % 2 == i % 2) for i in range(n)],
        (x,),
    ),
    "f(x: [n]R) = sum i:n, j:n. [(i + 2*j) % 3 = 1] * x[i] * x[(i + j) // 2]": (
        lambda n, x: sum(x[i] * x[(i + j) // 2] for i in range(n) for j in range(n) if (i + 2 * j) % 3 == 1),
        (x,),
    ),
    "f(x: [n]R, y: [m]idx(n)) = gen i:2*m. x[y[i // 2] // 2]": (
        lambda n, x, y: [x[y[i // 2] // 2] for i in range(2 * len(y))],
        (x, np.array([5, 0, 3])),
    ),
    "f(x: [n]R, E: rel(n, n)) = gen i:n. [E(i // 2, i % 2) and not E(i % 3, i)] * x[i]": (
        lambda n, x, E: [x[i] * (E[i // 2, i % 2] and not E[i % 3, i]) for i in range(n)],
        (x, np.arange(36).reshape(6, 6) % 5 < 3),
    ),
    "f(A: [4][n][m]R) = gen i:2*n, j:2*m. A[2*(i % 2) + j % 2, i // 2, j // 2]": (
        lambda n, A: [[A[i % 2 * 2 + j % 2, i // 2, j // 2] for j in range(4)] for i in range(6)],
        (np.arange(24.0).reshape(4, 3, 2),),
    ),
    "f(A: [n][m]R) = gen i:2*n. mean(A[i // 2])": (
        lambda n, A: np.repeat(A.mean(1), 2),
        (np.arange(12.0).reshape(3, 4),),
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_they_are_those_of_python(text: str) -> None:
    by_python, arguments = CASES[text]
    f = tl.parse(text)
    wanted = by_python(6, *arguments)
    np.testing.assert_allclose(tl.evaluate(f, *arguments), wanted)
    np.testing.assert_allclose(np.asarray(f(*arguments)), wanted, rtol=1e-5)
    g = tl.parse(str(f))
    np.testing.assert_allclose(tl.evaluate(g, *arguments), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("text", CASES)
def test_their_adjoints_are_those_of_the_derivative(text: str) -> None:
    f = tl.parse(text)
    arguments = CASES[text][1]
    rng = np.random.default_rng(0)
    dx, others = rng.standard_normal(arguments[0].shape), arguments[1:]
    y = np.asarray(tl.evaluate(f, *arguments))
    y_bar = rng.standard_normal(y.shape)
    name = f.params[0].name
    pushed = tl.evaluate(tl.derivative(f, wrt=name), *arguments, dx)
    pulled = tl.evaluate(tl.adjoint(f, wrt=name), *arguments, y_bar)
    pushed = pushed[-1] if isinstance(pushed, tuple) else pushed
    assert np.isclose(np.sum(y_bar * pushed), np.sum(np.asarray(pulled) * dx))
    assert tl.certify(f).bound == 4
    assert others is not None


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R) = gen i:2*n. x[i // 2]",
        "f(x: [3]R) = gen i:n. x[i % 3]",
        "f(x: [n][3]R) = gen i:3*n. x[i // 3, i % 3]",
    ],
)
def test_they_cost_nothing_and_their_code_is_linear(text: str) -> None:
    f = tl.parse(text)
    assert str(tl.cost_polynomial(f)) == "0"
    steps = [tl.lower(f).explain(n=size).steps for size in (64, 128)]
    small, large = (sum(int(str(step.cost).split(" ")[0].replace(",", "")) for step in found) for found in steps)
    assert large <= 2 * small + 8


def test_both_ways_to_write_make_the_same_program() -> None:
    text = tl.parse("f(x: [n][2]R) = gen i:2*n. if i // 2 < i % 3 then x[i // 2, i % 2] else real(i % 2)")

    @tl.function
    def f(x: tl.R[n, 2]):  # type: ignore[no-untyped-def, valid-type]
        return tl.gen(2 * n, lambda i: tl.where(i // 2 < i % 3, x[i // 2, i % 2], tl.real(i % 2)))

    assert alike(f, text)


def test_they_are_given_to_other_programs() -> None:
    programs = tl.parse_module("g(x: [n]R, y: idx(n)) = x[y] * x[y]  f(x: [n]R) = gen i:2*n. g(x, i // 2)")
    np.testing.assert_allclose(tl.evaluate(programs["f"], x), np.repeat(x, 2) ** 2)


def test_they_stand_in_steps_of_recurrences() -> None:
    text = tl.parse("f(x: [n]R) = fold t:2*n with s = 0 . 0.5 * s + x[t // 2] * (t % 3)")
    python = tl.function(
        lambda x: tl.fold(2 * n, 0, lambda t, s: 0.5 * s + x[t // 2] * (t % 3)),
        x=tl.R[n],
    )
    wanted = 0.0
    for t in range(12):
        wanted = 0.5 * wanted + x[t // 2] * (t % 3)
    assert np.isclose(tl.evaluate(text, x), wanted)
    assert np.isclose(tl.evaluate(python, x), wanted)
    gradient = np.asarray(tl.grad(text)(x))
    np.testing.assert_allclose(
        gradient, [sum(0.5 ** (11 - t) * (t % 3) for t in (2 * i, 2 * i + 1)) for i in range(6)], rtol=1e-5
    )


def test_a_quotient_of_a_multiple_is_exact() -> None:
    assert str(tl.parse("f(x: [n]R) = gen i:n. x[(2*i + 1) // 2] + (4*i + 3) % 2")).endswith("gen i:n. x[i] + 1")


class _Made:
    """Random index expressions with quotients and conditions on them, as Python writes them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def index(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(["i", "j", "n", "2", "(-1)"])
        a, b, c = self.index(depth - 1), self.index(0), self.random.randint(1, 4)
        return self.random.choice([f"({a} + {b})", f"({a} - {b})", f"({a} // {c})", f"({a} % {c})", f"{c}*{a}"])

    def condition(self) -> str:
        a, b = self.index(3), self.index(2)
        asked = f"{a} {self.random.choice(['<', '<=', '==', '!=', '>', '>='])} {b}"
        return asked if self.random.random() < 0.5 else f"not ({asked})"


@pytest.mark.parametrize("seed", range(40))
def test_random_ones_hold_where_python_says(seed: int) -> None:
    made = _Made(seed)
    condition, at = f"{made.condition()} or {made.condition()}", made.index(3)
    text = f"f(n: size) = gen i:n, j:3. if {condition} then real({at}) + 0.5 else 0"
    f = tl.parse(text.replace("==", "="))
    for n in (0, 1, 4):
        found = np.asarray(tl.evaluate(f, n=n))
        for i, j in product(range(n), range(3)):
            names = {"i": i, "j": j, "n": n}
            assert found[i, j] == (eval(at, names) + 0.5 if eval(condition, names) else 0), (text, names)
