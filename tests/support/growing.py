"""Programs of one size n: what runs is right, and grows with n."""

from __future__ import annotations

import random

import jax

import tensorlang as tl
from tests.support.programs import blank_arguments, random_arguments
from tests.support.promises import close
from tests.support.traced import work


def derivatives(f: tl.Function) -> list[tl.Function]:
    """`f` and its gradient by x."""
    return [f, tl.adjoint(f, wrt="x")]


def agrees(f: tl.Function, *sizes: int, rng: random.Random | None = None) -> None:
    """What runs of `f` and of its gradient is what they mean, at these sizes."""
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


def grows_linearly(f: tl.Function, derived: bool = True, least: int = 64) -> None:
    """What XLA does of `f`, and of its gradient if `derived`, grows with n, at three sizes from `least` on.

    From 2048 on a triangle is not cut into more blocks.
    """
    for g in derivatives(f) if derived else [f]:
        done = []
        for n in (least, 2 * least, 4 * least):
            given = blank_arguments(g, {"n": n})
            done.append(work(tl.lower(g), *(given[p.name] for p in g.params)).elements)
        assert done[2] - done[1] <= 2.6 * (done[1] - done[0]), f"{done}\n{g}"
