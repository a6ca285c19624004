"""Every benchmark program: right at awkward sizes, and its compiled derivative does the work that the model counts.

Operations are counted in XLA's optimised HLO, an einsum as 2 for each point. With P the program's cost, D its
derivative's and IO the inputs and outputs, all by the cost model, the compiled derivative may do at most FACTOR times
4 P + IO, and at most FACTOR times D and one pass over what it writes; its temporaries may take at most SPACE times
the 4 bytes of inputs, outputs, and D.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

import tensorlang as tl
from benchmarks.case import Case, Sizes, points
from benchmarks.programs import CASES
from benchmarks.reference import answers, distance
from tensorlang.measure.count import Count, count

pytestmark = pytest.mark.slow

FACTOR = 1.5
AT_MOST = 2
SPACE = 1
TOLERANCE = 1e-5
_MODERATE = 3  # sizes at which we count


def marks(case: Case, check: str, which: int | None = None) -> list[pytest.MarkDecorator]:
    """What marks a check of `case`, at one of its sizes perhaps, as failing where its `limits` say that it fails."""
    reason = case.limits.get(check) or case.limits.get(f"{check} {which}")
    return [pytest.mark.xfail(reason=reason, strict=True)] if reason else []


def test_programs_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_limits_name_checks_that_there_are() -> None:
    assert {check.split()[0] for case in CASES for check in case.limits} <= {"value", "cost", "model", "space"}


@pytest.mark.parametrize("case", [pytest.param(case, marks=marks(case, "value"), id=case.name) for case in CASES])
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


_counted: dict[tuple[str, int], tuple[Count, tuple[int, int, int, int]]] = {}


def counted(case: Case, which: int) -> tuple[Count, tuple[int, int, int, int]]:
    """What the compiled derivative does at the `which`th size, and the model's counts there."""
    key = case.name, which
    if key not in _counted:
        sizes: Sizes = case.sizes[which]
        shapes = case.shapes(sizes)
        _counted[key] = count(tl.lower(case.derived), *shapes), case.model(sizes, shapes)
    return _counted[key]


def at_sizes(check: str) -> list[Any]:
    """All cases at their first sizes: (case, which size)."""
    found = []
    for case in CASES:
        for which in range(len(case.sizes[:_MODERATE])):
            sizes = " ".join(f"{k}={n}" for k, n in case.sizes[which].items())
            found.append(pytest.param(case, which, marks=marks(case, check, which), id=f"{case.name}, {sizes}"))
    return found


@pytest.mark.parametrize(("case", "which"), at_sizes("cost"))
def test_compiled_gradients_cost_at_most_four_times_the_program(case: Case, which: int) -> None:
    if case.what != "gradient":
        pytest.skip("the bound is on gradients")
    found, (program, _, inputs, outputs) = counted(case, which)
    assert found.operations <= FACTOR * (4 * program + inputs + outputs)


@pytest.mark.parametrize(("case", "which"), at_sizes("model"))
def test_compiled_derivatives_do_what_the_model_counts(case: Case, which: int) -> None:
    found, (_, derived, _, outputs) = counted(case, which)
    assert found.operations <= AT_MOST * derived + outputs


@pytest.mark.parametrize(("case", "which"), at_sizes("space"))
def test_compiled_derivatives_hold_no_more_than_they_compute(case: Case, which: int) -> None:
    found, (_, derived, inputs, outputs) = counted(case, which)
    assert found.temporaries <= SPACE * 4 * (inputs + outputs + derived)
