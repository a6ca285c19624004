"""The promises of the package on random programs: in bulk by seed, and a few that shrink when they fail."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlang.language.predicates import TRUE
from tensorlang.normal.ssa import Addend
from tests.support.bulk import broken
from tests.support.programs import arguments, functions
from tests.support.promises import PROMISES, Case, Promise, case_for

_QUICK = 300
"""Seeds of the programs that are not slow."""


def keep(promise: Promise, seeds: Iterable[int]) -> None:
    for seed in seeds:
        case = case_for(promise, seed)
        try:
            promise.check(case)
        except Exception as error:
            error.add_note(f"seed {seed}, sizes {case.sizes}, program:\n{case.f}")
            raise


@pytest.mark.parametrize("name", PROMISES)
def test_hundreds_of_random_programs_keep(name: str) -> None:
    keep(PROMISES[name], range(0, _QUICK, PROMISES[name].share))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_thousands_of_random_programs_keep(name: str, share: int) -> None:
    keep(PROMISES[name], range(_QUICK, _QUICK + 1500 // share, PROMISES[name].share))


@pytest.mark.parametrize("name", [name for name, promise in PROMISES.items() if promise.share < 40])
def test_shrinking_programs_keep(name: str) -> None:
    promise: Promise = PROMISES[name]

    @settings(max_examples=60)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        chooses = data.draw(st.booleans())
        f = data.draw(functions(scalars=promise.scalars, fuel=promise.fuel, chooses=chooses))
        sizes, values = data.draw(arguments(f))
        promise.check(Case(f, sizes, values, random.Random(0)))

    run()


CORRUPTIONS: list[tuple[str, str, Callable[..., Any], str]] = [
    (
        "brackets lost while lets are lifted (5.9)",
        "tensorlang.normal.let_lift.Bracket",
        lambda p, e: e,
        "passes_keep_meaning_and_never_raise_the_cost",
    ),
    (
        "every difference taken for a sum by the total derivative (6.4)",
        "tensorlang.derivatives.total.Addend",
        lambda sign, p, x: Addend(1, p, x),
        "derivative_agrees_with_dual_numbers",
    ),
    (
        "predicates of inner products forgotten (6.28, 6.29)",
        "tensorlang.derivatives.adjoint.project",
        lambda *arguments: TRUE,
        "bounds_of_theorems_6_1_and_6_35_hold",
    ),
    (
        "a statement's own predicate lost in its transpose (6.26 to 6.29)",
        "tensorlang.derivatives.adjoint.conjunction",
        lambda parts: list(parts)[-1],
        "adjoint_is_the_transpose_of_the_derivative",
    ),
]


@pytest.mark.parametrize(("what", "place", "corrupt", "promise"), CORRUPTIONS, ids=[c[0] for c in CORRUPTIONS])
def test_a_corrupted_pass_is_noticed(
    what: str, place: str, corrupt: Callable[..., Any], promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = place.rsplit(".", 1)
    monkeypatch.setattr(importlib.import_module(module), name, corrupt)
    assert any(broken(promise, seed) for seed in range(400)), f"{what} went unnoticed"
