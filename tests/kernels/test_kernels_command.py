"""The command that times kernels on a GPU, tried out on the CPU at tiny sizes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import kernels
from benchmarks.kernels import OURS, PLAIN, TARGETS, XLA, Limits, Row, Subject, error, limits, main, measure, table
from benchmarks.programs.kernels import KERNELS
from tensorlang.lowering.kernels.run import TRITON_WARNING


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="there is no GPU here")
        warnings.filterwarnings("ignore", message=TRITON_WARNING)
        yield


def test_without_a_gpu_the_command_says_what_it_could_check(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--only", "logsumexp", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "There is no GPU here" in result.output
    assert "nothing was timed" in (tmp_path / "kernels.md").read_text()
    rows = json.loads((tmp_path / "kernels.json").read_text())["rows"]
    assert [row["of"] for row in rows] == ["program", "adjoint"]
    assert all(row["errors"]["odd"] < 1e-6 and not row["missing"] for row in rows)


@pytest.mark.slow
def test_as_on_a_gpu_kernels_are_compared_and_timed_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "has_gpu", lambda: True)
    monkeypatch.setattr(kernels, "limits", lambda: limits(64))
    monkeypatch.setattr(kernels, "_ROUNDS", 2)
    case = next(case for case in KERNELS if case.name == "logsumexp")
    monkeypatch.setattr(kernels, "KERNELS", [replace(case, sizes=({"n": 8, "m": 9}, {"n": 24, "m": 20}))])
    result = CliRunner().invoke(main, ["--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "kernels.json").read_text())["rows"]
    assert len(rows) == 4  # the program and the adjoint, in two dtypes
    for row in rows:
        assert {name: len(seconds) for name, seconds in row["seconds"].items()} == {OURS: 2, PLAIN: 2, XLA: 2}
        assert row["errors"].keys() == {"odd", "timed"}
        assert row["moved"] > 0 and row["operations"] > 0 and not row["missing"]


def test_a_program_that_cannot_be_run_is_a_row_with_its_reason() -> None:
    case = next(case for case in KERNELS if case.name == "logsumexp")
    row = measure(Subject(replace(case, draw={"x": lambda *_: 1 / 0}), "program"), case.sizes[0], "float32", 0)
    assert not row.seconds
    assert "ZeroDivisionError" in row.missing[OURS]
    assert "ZeroDivisionError" in table([row], None)


def test_the_table_says_which_targets_are_met() -> None:
    (case, dtype), (rival, wanted) = next(iter(TARGETS.items()))
    fast = Row(case, "program", dtype, {"n": 1}, seconds={OURS: [1.0, 2.0], rival: [wanted, 2 * wanted]})
    slow = Row(case, "adjoint", dtype, {"n": 1}, seconds={OURS: [1.0], rival: [wanted / 2]}, errors={"odd": 1.0})
    text = table([fast, slow], Limits("a card", 1e12, {"float32": 1e12, "bfloat16": 1e13}))
    assert f"{case}, program, {dtype}: {wanted:.2f} times as fast as {rival}, wanted {wanted}: met" in text
    assert ": MISSED" in text and "WRONG" in text


def test_a_result_that_is_not_finite_or_of_another_shape_is_infinitely_wrong() -> None:
    assert error([float("nan")], [1.0]) == float("inf")
    assert error([[1.0, 2.0]], [[1.0]]) == float("inf")
    assert error([[3.0, 4.0]], [[3.0, 4.0]]) == 0
