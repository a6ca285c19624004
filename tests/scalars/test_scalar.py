"""Python functions of numbers, read from their source, as programs with conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl

n = tl.sizes("n")
LIMIT = 1.5


@tl.scalar
def safe_root(x: Any) -> Any:
    if x > 0:
        return math.sqrt(x)
    return 0.1 * x


@tl.scalar
def huber(x: Any) -> Any:
    """The robust loss."""
    a = abs(x)
    if a <= LIMIT:
        return 0.5 * x * x
    else:
        return LIMIT * (a - 0.5 * LIMIT)


@tl.scalar
def several(x: Any) -> Any:
    y = x
    for k in range(4):
        y += x**k / math.factorial(k)
    if x < -1:
        z = -x
    elif x < 1 and x != 0:
        z = y * 2 if y > 1 else y / 2
    else:
        z = np.log(x + 3)
    return z + safe_root(x) * (0 < x < 2)


@tl.scalar
def newton(x: Any) -> Any:
    r = 1.0
    for _ in range(5):
        if abs(r * r - x * x) < 1e-9:
            return r
        r = 0.5 * (r + x * x / r)
    return r


@tl.scalar
def polar(x: Any) -> Any:
    r, angle = math.sqrt(x * x + 1), math.atan2(x, 1.0)
    r, angle = angle, r
    if x > 1:
        return r, -angle
    return angle, r


FUNCTIONS = [safe_root, huber, several, newton]
POINTS = np.array([-3.1, -1.2, -0.4, 0.3, 0.9, 1.7, 2.6])


def slope(f: Callable[[float], float], x: float) -> float:
    return (f(x + 1e-6) - f(x - 1e-6)) / 2e-6


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_program_computes_what_python_does_and_its_derivative(f: Any) -> None:
    program = tl.function(lambda x: tl.gen(n, lambda i: f(x[i])), x=tl.R[n])
    want = np.array([f(float(x)) for x in POINTS])
    assert np.allclose(tl.evaluate(program, POINTS), want)
    assert np.allclose(program(POINTS), want, rtol=1e-4, atol=1e-6)
    slopes = np.array([slope(f, float(x)) for x in POINTS])
    for found in (
        tl.evaluate(tl.adjoint(program), POINTS, np.ones(len(POINTS))),
        tl.lower(tl.adjoint(program))(POINTS, np.ones(len(POINTS))),
    ):
        assert np.allclose(found, slopes, rtol=1e-3, atol=1e-4)


def test_several_results_are_several_values() -> None:
    program = tl.function(polar, x=tl.R)
    for x in (0.5, 2.0):
        assert np.allclose(tl.evaluate(program, x), polar(x))


def test_what_is_not_taken_leaves_no_nan() -> None:
    program = tl.function(lambda x: tl.sum(n, lambda i: safe_root(x[i])), x=tl.R[n])
    assert np.allclose(tl.evaluate(tl.grad(program), np.array([4.0, 0.0, -1.0])), [0.25, 0.1, 0.1])


def test_terms_that_are_closed_over_have_their_derivatives() -> None:
    def body(x: Any, scale: Any) -> Any:
        @tl.scalar
        def scaled(v: Any) -> Any:
            return scale * v if v > 0 else v

        return tl.sum(n, lambda i: scaled(x[i]))

    program = tl.function(body, x=tl.R[n], scale=tl.R)
    _, slope_of_scale = tl.evaluate(tl.grad(program), np.array([2.0, -1.0]), 3.0)
    assert slope_of_scale == 2


def endless(x: Any) -> Any:
    while True:
        x = x / 2
    return x


def missing(x: Any) -> Any:
    if x > 0:
        y = x
    return y


def nothing(x: Any) -> Any:
    if x > 0:
        return x


def unknown(x: Any) -> Any:
    return math.gcd(x, 2)


def element(x: Any) -> Any:
    return x[0]


@pytest.mark.parametrize(
    ("body", "message", "line"),
    [
        (endless, "a loop without an end", 1),
        (missing, "y has no value on every path", 3),
        (nothing, "the other runs to the end", 1),
        (unknown, "gcd is no function of numbers", 1),
        (element, "an element of something", 1),
    ],
)
def test_what_is_no_function_of_numbers_is_refused_at_its_line(body: Any, message: str, line: int) -> None:
    with pytest.raises(tl.TypeMismatch, match=message) as caught:
        tl.function(tl.scalar(body), x=tl.R)
    assert caught.value.hint
    assert getattr(caught.value.place, "line", None) == body.__code__.co_firstlineno + line
