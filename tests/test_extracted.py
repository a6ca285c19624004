"""The program extracted from the proofs against the package, where Coq and OCaml are installed."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from proofs.diff.compare import compare, driver, expected, objections
from proofs.diff.dump import answers

PROGRAMS = 600


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("coqc") and shutil.which("ocamlfind")), reason="needs coqc and ocamlfind")
def test_random_programs_have_the_costs_and_gradients_that_are_proved() -> None:
    driver()
    told, found = compare(range(PROGRAMS))
    assert not found, "\n".join(found)
    assert told["compared"] > PROGRAMS * 0.9, told


def test_every_difference_from_what_is_proved_is_told() -> None:
    mine = expected(5)
    counts = {"cost": mine.cost, "needed": mine.adjoint_cost, "adjoint": 0, "inputs": 0, "dcost": 0, "output": 0}
    gradients = " ".join("gradient " + " ".join(map(str, np.ravel(g))) + "\n" for g in mine.gradients)

    def told(**changed: int) -> list[str]:
        said = {**counts, "touched": 0, "all_touched": 0, **changed}
        (answer,) = answers(f"case 5 {' '.join(f'{what} {n}' for what, n in said.items())}\n{gradients}")
        return list(objections(mine, answer))

    assert not told()
    assert len(told(cost=mine.cost + 1)) == 1
    assert len(told(needed=mine.adjoint_cost - 1)) == 1
    assert len(told(adjoint=mine.cost + 1)) == 1
    assert len(told(all_touched=1)) == 1
    mine.gradients[0] = mine.gradients[0] + 1
    assert len(told()) == 1
