"""A newcomer's first hour: each task is short, and right against JAX."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from tests.support import ROOT

SCRIPT = ROOT / "examples" / "first_hour.py"
TASKS = [
    "logistic regression",
    "perceptron",
    "spline",
    "graph network",
    "window attention",
    "heat inversion",
    "hidden Markov model",
    "Huber loss",
    "conv net with pooling",
    "particles with a cut-off",
    "sparse regression",
    "a solve inside a loss",
]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_all_tasks_are_there_and_each_takes_at_most_fifteen_lines(script: dict[str, Any]) -> None:
    assert list(script["TASKS"]) == TASKS
    for name, task in script["TASKS"].items():
        assert 0 < script["lines"](task) <= 15, name


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_the_values_and_gradients_of_jax(name: str, script: dict[str, Any]) -> None:
    assert script["compare"](script["TASKS"][name]) < 2e-4


@pytest.mark.slow
def test_the_script_prints_a_line_for_each_task(script: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    script["main"]()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(TASKS)
    assert all(line.startswith(name) for name, line in zip(TASKS, printed[1:], strict=True))
