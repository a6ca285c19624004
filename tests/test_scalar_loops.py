"""Functions of numbers with loops that data decide: values, derivatives, and what they cost on each path."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.grammar import Var
from tensorlang.language.types import R
from tensorlang.scalars.black_box import derived, differentiable
from tensorlang.scalars.code import Code
from tensorlang.scalars.count import run
from tensorlang.surface.loops import read
from tensorlang.surface.scalar import ScalarCode
from tensorlang.surface.terms import Term
from tests.scalar_functions import random_function

n = tl.sizes("n")
STEP = 1e-6


def code_of(function: ScalarCode, bound: int | None = None) -> Code:
    """The code of a function all of whose parameters are values of a program."""
    params = function.body.__code__.co_varnames[: function.body.__code__.co_argcount]
    return read(function, {p: Term(Var(p, R)) for p in params}, bound).code


def agree(seed: int) -> float | None:
    """Check one random function at some points; the largest ratio of costs seen, None if it was refused."""
    source, body = random_function(seed)
    try:
        code = code_of(tl.scalar(body), 50)
    except tl.TypeMismatch as error:
        # the only reason: a name that some path has given no value
        assert "no value on every path" in str(error), source
        return None
    rng = random.Random(seed)
    forward, backward = derived(code, "dual"), derived(code, "reverse")
    worst = 0.0
    for _ in range(3):
        point = [*(rng.uniform(-2, 2) for _ in range(3)), rng.randint(0, 4)]
        named = dict(zip("abck", point, strict=True))
        given = [named[p] for p in code.params]
        try:
            true = float(body(*point))
        except (OverflowError, UnboundLocalError):
            continue
        if not math.isfinite(true) or abs(true) > 1e8:
            continue
        value, dual, adjoint = run(code, given), run(forward, given), run(backward, given)
        assert value.results[0] == pytest.approx(true, rel=1e-9), (source, point)
        assert dual.results == pytest.approx(adjoint.results, rel=1e-7, abs=1e-9), (source, point)
        ends = len(given) + 1
        worst = max(worst, (adjoint.operations + ends) / (value.operations + ends))
        for k, p in enumerate(differentiable(code)):
            at = {**named}
            sides = []
            for sign in (1, -1):
                at[p] = named[p] + sign * STEP
                sides.append(float(body(*at.values())))
            slopes = [(sides[0] - true) / STEP, (true - sides[1]) / STEP]
            if abs(slopes[0] - slopes[1]) < 1e-3 * (1 + abs(slopes[0])) and abs(slopes[0]) < 1e4:
                assert dual.results[1 + k] == pytest.approx(sum(slopes) / 2, rel=1e-3, abs=1e-3), (source, point, p)
    assert worst <= 4, source
    return worst


def test_values_duals_adjoints_and_differences_of_random_functions_agree_at_no_more_than_4_times_the_cost() -> None:
    found = [agree(seed) for seed in range(100)]
    assert sum(x is not None for x in found) > 60


@pytest.mark.slow
def test_they_agree_for_10_000_random_functions() -> None:
    found = [agree(seed) for seed in range(10_000)]
    assert sum(x is not None for x in found) > 6_000
    assert max(x for x in found if x is not None) < 4
