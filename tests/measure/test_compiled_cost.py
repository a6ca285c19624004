"""Every benchmark program: right at awkward sizes, and its compiled derivative does the work that the model counts.

Operations are counted in XLA's optimised HLO, an einsum as 2 for each point. With P the program's cost, D its
derivative's and IO the inputs and outputs, all by the cost model, the compiled derivative may do at most FACTOR times 4
P + IO, and at most FACTOR times D plus one pass over the arrays that it writes; its temporaries may take at most SPACE
times 4 bytes for each of the inputs, the outputs and D.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

import tensorlang as tl
from benchmarks.case import Case, Sizes, points
from benchmarks.programs import CASES
from benchmarks.reference import answers, distance
from tensorlang.measure.count import count

pytestmark = pytest.mark.slow

FACTOR = 1.5
AT_MOST = 2
SPACE = 1
TOLERANCE = 1e-5
_MODERATE = 3  # sizes at which we count


def test_programs_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_limits_name_checks_that_there_are() -> None:
    assert {check.split()[0] for case in CASES for check in case.limits} <= {"cost", "model", "space"}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_programs_and_their_derivatives_are_right_at_awkward_sizes(case: Case) -> None:
    arguments = case.arguments(case.odd)
    value, wanted = answers(case, arguments)
    given = arguments[:-1] if case.takes_cotangent else arguments
    assert distance(tl.lower(case.function)(*given), (value,)) < TOLERANCE
    assert distance(tl.lower(case.derived)(*arguments), wanted) < TOLERANCE


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CASES])
def test_gradients_written_by_hand_are_right_and_there_is_one_for_each_program(case: Case) -> None:
    assert case.by_hand is not None
    arguments = case.arguments(case.odd)
    found = jax.jit(case.by_hand)(*map(points, arguments))
    assert distance(found, answers(case, arguments)[1]) < TOLERANCE


def small_and_large() -> list[Any]:
    """All cases at their first size, and at the last size at which we count: (case, which size)."""
    found = []
    for case in CASES:
        for which in sorted({0, min(len(case.sizes), _MODERATE) - 1}):
            sizes = " ".join(f"{k}={n}" for k, n in case.sizes[which].items())
            found.append(pytest.param(case, which, id=f"{case.name}, {sizes}"))
    return found


@pytest.mark.parametrize(("case", "which"), small_and_large())
def test_compiled_derivatives_keep_the_bound_the_models_count_and_its_space(case: Case, which: int) -> None:
    sizes: Sizes = case.sizes[which]
    shapes = case.shapes(sizes)
    found = count(tl.lower(case.derived), *shapes)
    program, derived, inputs, outputs = case.model(sizes, shapes)
    kept = {
        "cost": case.what != "gradient" or found.operations <= FACTOR * (4 * program + inputs + outputs),
        "model": found.operations <= AT_MOST * derived + outputs,
        "space": found.temporaries <= SPACE * 4 * (inputs + outputs + derived),
    }
    limits = {check for check in kept if check in case.limits or f"{check} {which}" in case.limits}
    assert {check for check, holds in kept.items() if not holds} == limits
