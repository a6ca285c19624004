"""Calls: arrays of which only shapes and dtypes matter go to compiled code at once, with the same values and errors."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.source_info_util import user_frame

import tensorlang as tl
from benchmarks.programs import CASES
from tensorlang.lowering import run

TEXT = "f(x: [n]R, w: [m]R) = sum i:n. [i < m] * sin(x[i]) * w[i]"
MOST_STEPS = 30
"""The most calls, of Python and of C functions, that a call makes before it enters compiled code."""


def steps(call: Callable[[], object]) -> int:
    count = 0

    def counter(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(counter)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("of", [lambda f: f, tl.to_jax, tl.lower], ids=["function", "to_jax", "lower"])
@pytest.mark.parametrize("module", [np, jnp], ids=["numpy", "jax"])
def test_a_call_takes_few_steps(of: Callable[[tl.Function], Any], module: Any) -> None:
    f = of(tl.parse(TEXT))
    x, w = jnp.ones(10), module.ones(7, np.float32)
    for _ in range(2):
        f(x, w)
    assert steps(lambda: f(x, w)) <= MOST_STEPS


def without_shortcut(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(run, "are_arrays", lambda args: False)
        return call()


@pytest.mark.parametrize("case", CASES[::9], ids=lambda case: case.name)
def test_values_are_those_of_checked_calls(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    args = [x if hasattr(x, "toarray") else jnp.asarray(x) for x in case.arguments(case.odd)]
    lowered = tl.lower(case.derived)
    expected = jax.tree.leaves(without_shortcut(monkeypatch, lambda: lowered(*args)))
    for found, value in zip(jax.tree.leaves(lowered(*args)), expected, strict=True):
        assert np.array_equal(np.asarray(found), np.asarray(value), equal_nan=True)
        assert (found.dtype, found.weak_type) == (value.dtype, value.weak_type)


WRONG: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: (jnp.ones(3), jnp.ones(4))),
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: (jnp.ones(3),)),
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: (jnp.ones(3), jnp.ones(3), jnp.ones(3))),
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: (jnp.ones(3), 1j * jnp.ones(3))),
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: ((jnp.ones(3), jnp.ones(3)), jnp.ones(3))),
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: (jnp.ones((3, 3)), jnp.ones(3))),
    ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", lambda: (jax.random.key(0), jnp.ones(3))),
    ("f(x: [n]R) = max i:n. x[i]", lambda: (jnp.ones(0),)),
    ("f(p: ([n]R, R)) = sum i:n. fst(p)[i] * snd(p)", lambda: (jnp.ones(3),)),
    ("f(p: ([n]R, R)) = sum i:n. fst(p)[i] * snd(p)", lambda: ((jnp.ones(3), jnp.ones(3)),)),
    ("f(x: [n + 2]R) = sum i:n. x[i]", lambda: (jnp.ones(1),)),
    ("f(x: [n]R, m: R) = sum i:n, j:k. x[i] * m", lambda: (jnp.ones(3), jnp.ones(()))),
]


@pytest.mark.parametrize(("text", "arguments"), WRONG)
def test_errors_are_those_of_checked_calls(
    text: str, arguments: Callable[[], tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    f = tl.lower(tl.parse(text))
    args = arguments()

    def error() -> tuple[type, str, str | None]:
        with pytest.raises(tl.TensorlangError) as found:
            f(*args)
        assert "test_calls.py" in str(found.value)  # the place of the call
        return type(found.value), found.value.message, found.value.hint

    assert error() == error() == without_shortcut(monkeypatch, error)


def test_elements_that_matter_are_looked_at_in_every_call() -> None:
    f = tl.parse("f(x: [n]R, k: [m]idx(n)) = sum j:m. x[k[j]]")
    g = tl.parse("g(x: [n]R, r: rel(n)) = sum i:n. [r(i)] * x[i]")
    x, k = jnp.arange(3.0), jnp.array([2, 0])
    for _ in range(3):
        assert f(x, k) == 2
        with pytest.raises(tl.ArgumentError):
            f(x, jnp.array([2, 3]))
        assert g(x, np.array([False, True, True])) == 3
        assert g(x, np.array([False, True, False])) == 1


def test_under_transformations_programs_are_derived_and_mapped() -> None:
    f = tl.parse(TEXT)
    x, w = jnp.ones(5), jnp.ones(3)
    expected = jax.grad(f)(x, w)
    f(x, w)
    assert np.array_equal(jax.grad(f)(x, w), expected)
    assert jax.vmap(f)(jnp.ones((2, 5)), jnp.ones((2, 3))).shape == (2,)
    assert "op=f_adjoint" in str(jax.make_jaxpr(jax.grad(f))(x, w))


def test_a_program_that_was_called_goes_with_its_last_user() -> None:
    lowered = tl.lower(tl.parse("f(x: [n]R) = sum i:n. 5/17 * cos(x[i])"))
    for _ in range(2):
        lowered(jnp.ones(5))
    gone = weakref.ref(lowered)
    compiled = weakref.ref(lowered._form(()).direct)
    del lowered
    gc.collect()
    assert gone() is None
    assert compiled() is None


def test_jax_names_the_line_that_calls_a_program() -> None:
    f = tl.grad(tl.parse("f(x: [n]R) = sum i:n. [i < 3] * sin(x[i])"))
    for call in (tl.lower(f), tl.to_jax(f)):
        traced = jax.make_jaxpr(lambda x, call=call: call(x))(jnp.ones(5))
        frames = [user_frame(equation.source_info.traceback) for equation in traced.eqns]
        assert {frame and frame.file_name for frame in frames} == {__file__}
