"""Functions of numbers as text: printed, read back, called by programs, and refused with the place of the mistake."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.scalars.code import Code
from tensorlang.scalars.count import run
from tensorlang.scalars.text import code_text
from tensorlang.surface.parse import module_of
from tests.scalars.test_scalar_loops import code_of, newton
from tests.support.real_functions import FUNCTIONS
from tests.support.scalar_functions import random_function

TEXT = """
scalar root(a, x) by reverse =
  let r, k = loop y = x, k = 0 at most 60 times
    while abs(y * y - a) > 1e-6 * a
    do (0.5 * (y + a / y), k + 1) in
  r
scalar huber(x, d) = if abs(x) <= d then 0.5 * x ^ 2 else d * (abs(x) - 0.5 * d)
f(a: [n]R) = sum i:n. root(a[i], 1) * huber(a[i], 2)
"""


def again(code: Code) -> Code:
    """`code`, read back from its text."""
    return module_of(code_text(code), "<code>")[1][code.name].code


def test_random_functions_are_read_back_as_they_are_printed_with_the_same_paths() -> None:
    found = 0
    for seed in range(150):
        _, body = random_function(seed)
        try:
            code = code_of(tl.scalar(body), 5 if seed % 2 else 50)
        except tl.TypeMismatch:
            continue
        found += 1
        read = again(code)
        assert code_text(read) == code_text(code)
        rng = random.Random(seed)
        for _ in range(3):
            point = [*(rng.uniform(-2, 2) for _ in range(3)), rng.randint(0, 4)]
            named = dict(zip("abck", point, strict=True))
            paths = [run(c, [named[p] for p in c.params]) for c in (code, read)]
            np.testing.assert_array_equal(paths[0].results, paths[1].results)
            assert paths[0].operations == paths[1].operations
    assert found > 100


@pytest.mark.parametrize(("function", "domain"), FUNCTIONS, ids=lambda x: getattr(x, "name", None))
def test_functions_of_real_code_are_read_back_as_they_are_printed(function: Any, domain: Any) -> None:
    code = code_of(function, function.bound)
    assert code_text(again(code)) == code_text(code)


def test_programs_call_functions_that_their_text_defines() -> None:
    f = tl.parse(TEXT)
    a = np.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(f(a), 1 * 0.5 + 2 * 6 + 3 * 16, rtol=1e-5)
    np.testing.assert_allclose(tl.grad(f)(a), [1.0, 0.25 * 6 + 2 * 2, 16 / 6 + 3 * 2], rtol=1e-3)
    assert list(tl.parse_module(TEXT)) == ["root", "huber", "f"]
    root = tl.parse(TEXT.partition("scalar huber")[0])
    np.testing.assert_allclose(root(2.0, 1.0), math.sqrt(2), rtol=1e-5)
    assert "stored" not in str(f) and tl.cost_polynomial(f).growth.startswith("O(n + trips(")
    poisoned = tl.parse("scalar g(x) = loop y = x at most 3 times while y > 1 do y - 1 f(x: R) = g(x)")
    assert poisoned(3.5) == 0.5 and math.isnan(poisoned(9.5)) and math.isnan(tl.grad(poisoned)(9.5))


def test_a_text_calls_the_functions_that_it_defines_whatever_others_have_defined() -> None:
    text = "scalar halved(a) = loop x = a at most 60 times while x > {} do x / 2 f(x: R) = halved(x)"
    first, second = tl.parse(text.format(1)), tl.parse(text.format(10))
    assert (first(16.0), second(16.0), tl.grad(second)(16.0)) == (1, 8, 0.5)
    third = tl.parse("scalar halved(a, b) = loop x = a at most 60 times while x > b do x / 2 f(x: R) = halved(x, 5)")
    assert third(16.0) == 4
    program = tl.parse_module("halved(x: R) = 3 * x f(x: R) = halved(x)")["f"]
    assert program(2.0) == 6


def test_a_function_by_tl_scalar_prints_itself() -> None:
    text = str(newton)
    assert text.startswith("scalar newton(") and "at most 60 times" in text
    f = tl.parse(f"{text}\nf(a: R) = newton(a, 1)".replace("newton", "again"))
    np.testing.assert_allclose(f(2.0), math.sqrt(2), rtol=1e-5)


def test_what_is_infinite_or_no_number_is_so_without_loops() -> None:
    f = tl.parse(
        "scalar g(x) = if x > 0 then sqrt(x) else nan scalar h(x) = if x > 1 then g(x) else inf f(x: R) = h(x)"
    )
    assert f(4.0) == 2 and f(0.5) == math.inf and tl.grad(f)(4.0) == 0.25


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("scalar f(x) = x + y", tl.ScopeError, "1:19\n.*\n.*\nno number is called y"),
        ("scalar f(x) = x > 1", tl.TypeMismatch, "a result is a number, found a condition"),
        ("scalar f(x) = if x then 1 else 2", tl.TypeMismatch, "if needs a condition"),
        ("scalar f(x) = loop y = x while y do y", tl.TypeMismatch, "while needs a condition"),
        ("scalar f(x) = let a, b = x in a", tl.TypeMismatch, "expected 2 values, found one value"),
        ("scalar f(x, x) = x", tl.ScopeError, "two parameters called x"),
        ("scalar f(x) = foo(x)", tl.ScopeError, "no function of numbers is called foo"),
        ("scalar f(x) = sin(x, x)", tl.TypeMismatch, "sin takes 1 argument, found 2"),
        ("scalar f(x) = loop y = x while y > 1 do (y, y)", tl.TypeMismatch, "carries one value, and do gives 2"),
        ("scalar f(x) = if x > 1 then (x, x) else x", tl.TypeMismatch, "then gives 2 values, and else one"),
        ("scalar f(x) = x // 2", tl.TypeMismatch, "// is of whole numbers"),
        ("scalar f(x) = x and x > 1", tl.TypeMismatch, "and joins conditions"),
        ("scalar f(x) = x + (x > 1)", tl.TypeMismatch, "expected a number, found a condition"),
        ("scalar f(x) = where(x, 1, 2)", tl.TypeMismatch, "where needs a condition"),
        ("scalar sin(x) = x", tl.ScopeError, "sin is defined already"),
        ("scalar f(loop) = 1", tl.ScopeError, "loop means something else"),
        ("scalar f() = 1", tl.ParseError, "f has no parameters"),
        ("scalar f(x) = x +", tl.ParseError, "expected a number, a name or '\\('"),
        ("scalar f(x) by magic = x", tl.ParseError, "by dual or reverse, found magic"),
        ("scalar f(x: R) = x", tl.ParseError, "expected int"),
        ("scalar f(x) = (x, x) + 1", tl.ParseError, "an operator or a definition"),
        ("scalar f(x) = loop y = x at most 3 while y > 1 do y", tl.ParseError, "'times'"),
        (
            "scalar f(x) by reverse = loop y = x while y > 1 do y - 1",
            tl.ScalarFunctionError,
            "1:8\n.*\n.*\nf has a loop",
        ),
        ("scalar f(x) = x f(x: R) = x", tl.ScopeError, "f is defined twice"),
    ],
)
def test_what_is_no_function_of_numbers_is_refused_at_its_place(text: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        tl.parse_module(text)
