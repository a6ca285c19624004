"""Programs of one size n: checks that the code that runs is right, and that its work grows with n."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import tensorlang as tl
from tensorlang.language.grammar import Var
from tests.support.programs import blank_arguments, random_arguments
from tests.support.promises import close
from tests.support.traced import work


def derivatives(f: tl.Function) -> list[tl.Function]:
    """`f` and its gradient by all of its real arrays."""
    return [f, tl.adjoint(f)]


def agrees(f: tl.Function, *sizes: int, rng: random.Random | None = None) -> None:
    """Assert that the code of `f` and of its gradient computes what they mean, at these sizes."""
    with jax.enable_x64(True):
        for n in sizes:
            data = rng or random.Random(n)
            for g in derivatives(f):
                given = random_arguments(g, data, {"n": n}, exact=False)
                try:
                    wanted = tl.evaluate(g, **given)
                except tl.EmptyExtremum:
                    continue
                assert close(tl.lower(g)(**given), wanted), f"n = {n}\n{g}"


def grows_linearly(f: tl.Function, derived: bool = True, least: int = 64, power: int = 1) -> None:
    """Assert that XLA's work for `f`, and if `derived` for its gradient, also when JAX takes it, grows with n, or the
    given power of n, at three sizes from `least` on.

    From 2048 on a triangle is not cut into more blocks.
    """
    for g in derivatives(f) if derived else [f]:
        _grows(g, tl.lower(g), least, power)
    if derived:
        run = tl.to_jax(f)
        reals = [k for k, p in enumerate(f.params) if isinstance(p, Var)]

        def gradient(*arguments: Any) -> Any:
            return jax.grad(lambda *given: jnp.sum(run(*given)), reals)(*arguments)

        _grows(f, gradient, least, power)


def _grows(f: tl.Function, run: Callable[..., Any], least: int, power: int) -> None:
    done = []
    for n in (least, 2 * least, 4 * least):
        given = blank_arguments(f, {"n": n})
        done.append(work(run, *(given[p.name] for p in f.params)).elements)
    assert done[2] - done[1] <= 1.3 * 2**power * (done[1] - done[0]), f"{done}\n{f}"
