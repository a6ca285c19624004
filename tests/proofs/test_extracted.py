"""The program extracted from the proofs against the package, where Coq and OCaml are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from proofs.diff import compare as statements
from proofs.diff import programs
from proofs.diff.compare import driver
from proofs.diff.dump import answers
from tests.support import ROOT

PROGRAMS = 600

extracted = pytest.mark.skipif(
    not (shutil.which("coqc") and shutil.which("ocamlfind")), reason="needs coqc and ocamlfind"
)


@pytest.mark.slow
@extracted
def test_random_programs_have_the_costs_and_gradients_that_are_proved() -> None:
    driver()
    told, found = statements.compare(range(PROGRAMS))
    assert not found, "\n".join(found)
    assert told["compared"] > PROGRAMS * 0.9, told


@pytest.mark.slow
@extracted
def test_random_programs_of_figure_3_have_the_values_costs_and_gradients_of_what_the_proofs_compile() -> None:
    driver()
    told, found = programs.compare(range(PROGRAMS))
    assert not found, "\n".join(found)
    assert told["compared"] > PROGRAMS * 0.8, told
    assert told["of them with conditions"] > PROGRAMS * 0.08, told


@pytest.mark.slow
@extracted
@pytest.mark.parametrize(("expression", "accepted"), [
    ("sum i 3 access var x index i", 1),
    ("sum i 4 access var x index i", 0),
    ("sum i 4 bracket less index i number 3 access var x index i", 1),
    ("sum i 3 bracket at_most number 1 index i access var x plus index i number -1", 1),
    ("sum i 3 access var x plus index i number -1", 0),
    ("var x", 0),
    ("let y gen i 2 access var x index i access var y number 1", 1),
    ("let y gen i 2 access var x index i access var y number 2", 0),
    ("sum i 0 access var x number 7", 1),
])  # fmt: skip
def test_the_proofs_accept_what_is_well_typed_and_in_bounds(expression: str, accepted: int) -> None:
    text = f"program p 0 0 0 1 x array 3 real 2 1 3 1 2 3 0 1 real 0 {expression}"
    output = subprocess.run([driver()], input=text, capture_output=True, text=True, check=False).stdout
    assert f"accepted {accepted} " in output


@pytest.mark.slow
@extracted
def test_scalar_functions_have_the_costs_and_derivatives_that_are_proved() -> None:
    run = [sys.executable, "-m", "proofs.diff.functions"]
    told = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_every_scalar_function_is_in_the_proofs() -> None:
    asked = "from tensorlang.language.functions import functions; print(*functions())"  # without those that tests add
    told = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    registered = {name.replace("_", "") for name in told.split()}
    listed = re.search(r"Inductive builtin :=(.*?)\.\s", (ROOT / "proofs" / "Functions.v").read_text(), re.DOTALL)
    assert listed is not None
    named = {word.lower() for word in re.findall(r"\|\s*(\w+)", listed[1])}
    named = (named - {"power", "realpower", "powerof"}) | {"power"}  # power(x, y) is PowerOf, x ^ 2 is Power
    assert named == registered


def test_every_difference_from_what_is_proved_is_told() -> None:
    mine = statements.expected(5)
    counts = {"cost": mine.cost, "needed": mine.adjoint_cost, "adjoint": 0, "inputs": 0, "output": 0}
    counts |= {"forward": mine.forward_cost, "dcost": mine.forward_cost}
    lines = [f"gradient {' '.join(map(str, np.ravel(g)))}" for g in mine.gradients]
    lines += [f"tangent {' '.join(map(str, np.ravel(g)))}" for g in mine.tangents]

    def told(**changed: int) -> list[str]:
        said = {**counts, "touched": 0, "all_touched": 0, **changed}
        said_of = " ".join(f"{what} {n}" for what, n in said.items())
        (answer,) = answers("\n".join([f"case 5 {said_of}", *lines]))
        return list(statements.objections(mine, answer))

    assert not told()
    assert len(told(cost=mine.cost + 1)) == 1
    assert len(told(needed=mine.adjoint_cost - 1)) == 1
    assert len(told(adjoint=mine.cost + mine.forward_cost + 1)) == 1
    assert len(told(forward=mine.forward_cost - 1)) == 1
    assert len(told(forward=mine.cost + mine.forward_cost + 1)) == 1
    assert len(told(all_touched=1)) == 1
    mine.gradients[0] = mine.gradients[0] + 1
    assert len(told()) == 1
    mine.tangents[0] = mine.tangents[0] + 1
    assert len(told()) == 2


def test_every_difference_of_a_program_from_what_is_proved_is_told() -> None:
    mine = programs.expected(19)
    counts = {"accepted": 1, "cost": mine.cost, "compiled": mine.cost, "adjoint": 0, "inputs": 0, "output": 0}
    lines = [f"value {' '.join(map(str, np.ravel(g)))}" for g in mine.value]
    lines += [f"gradient {' '.join(map(str, np.ravel(g)))}" for g in mine.gradients]

    def told(**changed: int) -> list[str]:
        said = " ".join(f"{what} {n}" for what, n in {**counts, **changed}.items())
        (answer,) = answers("\n".join([f"program 19 {said}", *lines]))
        return list(programs.objections(mine, answer))

    assert not told()
    assert len(told(cost=mine.cost + 1, compiled=mine.cost + 1)) == 1
    assert len(told(compiled=mine.cost + 1)) == 1
    assert len(told(adjoint=4 * mine.cost + 1)) == 1
    assert len(told(accepted=0)) == 1
    mine.value[0] = mine.value[0] + 1
    assert len(told()) == 1
    mine.gradients[0] = mine.gradients[0] + 1
    assert len(told()) == 2
