"""The promises of the package on random programs: in bulk by seed, and a few that shrink when they fail."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import arguments, functions
from tests.promises import PROMISES, Case, Promise, case_for


@pytest.mark.parametrize("name", PROMISES)
def test_thousands_of_random_programs_keep(name: str, program_count: int) -> None:
    promise = PROMISES[name]
    for seed in range(0, program_count, promise.share):
        case = case_for(promise, seed)
        try:
            promise.check(case)
        except Exception as error:
            error.add_note(f"seed {seed}, sizes {case.sizes}, program:\n{case.f}")
            raise


@pytest.mark.parametrize("name", [name for name, promise in PROMISES.items() if promise.share < 40])
def test_shrinking_programs_keep(name: str) -> None:
    promise: Promise = PROMISES[name]

    @settings(max_examples=25)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        f = data.draw(functions(scalars=promise.scalars, fuel=promise.fuel))
        sizes, values = data.draw(arguments(f))
        promise.check(Case(f, sizes, values, random.Random(0)))

    run()
