"""The command line: its output, its errors, and that hostile files do no harm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import tensorlang as tl
from tensorlang.cli import main

LOSS = """\
loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
  let y = gen i:n. sum j:m. x[i + j] * w[j] in
  sum k:n. (y[k] - z[k])^2
"""
TWO = "twice(x: [n]R) = gen i:n. 2 * x[i]\nhalf(x: [n]R) = gen i:n. x[i] / 2\n"
PAIRS = "swap(p: (R, [n]R)) = (snd(p), fst(p))\n"
RELATED = "picked(x: [n]R, r: rel(n)) = sum i:n. [r(i)] * x[i] * x[i]\n"
SIZES = ["--size", "n=100", "--size", "m=5"]

Run = Callable[..., Result]


@pytest.fixture
def tensorlang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in a folder that holds a few programs and arrays."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"loss": LOSS, "two": TWO, "pairs": PAIRS, "related": RELATED}.items():
        Path(f"{name}.tl").write_text(text)
    x, w, z = np.arange(6.0), np.array([1.0, 2.0]), np.zeros(5)
    np.savez("loss.npz", x=x, w=w, z=z)
    np.savez("pairs.npz", **{"p.0": np.float64(3), "p.1": np.array([1.0, 2.0])})
    np.savez("related.npz", x=np.ones(3), r=np.array([True, False, True]))

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=stdin, catch_exceptions=False)

    return run


def failed(result: Result, *parts: str, status: int = 1) -> None:
    """Assert that the command ended with `status`, printed nothing, and complained with all `parts`."""
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: " if status == 1 else "Usage: ")
    for part in parts:
        assert part in result.stderr


def test_adjoint_prints_a_program_that_can_be_read_back(tensorlang: Run) -> None:
    result = tensorlang("adjoint", "loss.tl", "--wrt", "x")
    assert result.exit_code == 0
    assert str(tl.parse(result.stdout)) == str(tl.adjoint(tl.parse(LOSS), wrt="x"))
    counted = tensorlang("cost", "-", *SIZES, stdin=result.stdout)
    assert int(counted.stdout) == tl.cost(tl.adjoint(tl.parse(LOSS), wrt="x"), n=100, m=5)


def test_adjoint_by_several_parameters_and_in_every_notation(tensorlang: Run) -> None:
    assert "w" in tensorlang("adjoint", "loss.tl", "--wrt", "x, w").stdout
    assert "Σ" in tensorlang("adjoint", "loss.tl", "--format", "unicode").stdout
    assert "\\sum" in tensorlang("adjoint", "loss.tl", "--format", "latex").stdout
    described = json.loads(tensorlang("adjoint", "loss.tl", "--wrt", "x", "--format", "json").stdout)
    assert [p["name"] for p in described["params"][:3]] == ["x", "w", "z"]
    assert described["params"][0]["type"] == described["type"] == str(tl.parse(LOSS).variables[0].type)
    assert tl.parse(described["text"])


@pytest.mark.parametrize(("form", "part"), [("unicode", "⟨loss_bar | D["), ("latex", r"\mathbf{D}\left[")])
def test_derive_tells_the_steps_in_the_paper_s_notation(tensorlang: Run, form: str, part: str) -> None:
    result = tensorlang("derive", "loss.tl", "--wrt", "x", *SIZES, "--format", form)
    assert result.exit_code == 0
    assert part in result.stdout


def test_derive_prints_each_step_and_the_costs(tensorlang: Run) -> None:
    result = tensorlang("derive", "loss.tl", "--wrt", "x", *SIZES)
    assert result.exit_code == 0
    for number in ("6.19", "6.28", "6.26"):
        assert number in result.stdout
    assert "ratio" in result.stdout
    described = json.loads(tensorlang("derive", "loss.tl", "--wrt", "x", *SIZES, "--format", "json").stdout)
    assert {"number", "name", "law", "before", "made", "after", "cost"} == set(described["steps"][0])
    assert described["cost"] == tl.cost(tl.parse(LOSS), n=100, m=5)


def test_check_reports_a_line_for_each_definition(tensorlang: Run) -> None:
    assert tensorlang("check", "two.tl").stdout == "twice: ok\nhalf: ok\n"
    assert tensorlang("check", "two.tl:half").stdout == "half: ok\n"
    line = tensorlang("check", "loss.tl", *SIZES).stdout
    f = tl.parse(LOSS)
    cost, adjoint = tl.cost(f, n=100, m=5), tl.cost(tl.adjoint(f), n=100, m=5)
    assert line == f"loss: ok, cost {cost}, adjoint {adjoint}, ratio {adjoint / cost:.2f} at n = 100, m = 5\n"
    described = json.loads(tensorlang("check", "loss.tl", *SIZES, "--format", "json").stdout)
    assert described[0]["adjoint_cost"] == adjoint


def test_check_with_a_bound_fails_only_when_it_is_exceeded(tensorlang: Run) -> None:
    assert tensorlang("check", "loss.tl", "--bound", "4", *SIZES).exit_code == 0
    result = tensorlang("check", "loss.tl", "--bound", "0.5", *SIZES)
    assert result.exit_code == 1
    assert "error: loss: the adjoint costs" in result.stderr


def test_check_with_a_bound_and_no_sizes_certifies_for_all(tensorlang: Run) -> None:
    result = tensorlang("check", "loss.tl", "two.tl", "--bound", "4", "--certificates", "proved")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{name}: ok, at most 4 times, inputs and outputs counted, at all sizes from 1 on"
        for name in ("loss", "twice", "half")
    ]
    assert json.loads(Path("proved/loss.json").read_text())["bound"] == "4"
    result = tensorlang("check", "loss.tl", "two.tl", "--bound", "2", "--json")
    assert result.exit_code == 1
    assert [report["name"] for report in json.loads(result.stdout) if "excess" in report] == ["loss"]
    assert "error: loss: the adjoint of loss costs" in result.stderr
    assert "most of it, " in result.stderr


def test_check_counts_compiled_programs_beside_the_model(tensorlang: Run) -> None:
    lines = tensorlang("check", "loss.tl", "--compiled", *SIZES).stdout.splitlines()
    assert re.fullmatch(r"  compiled program: \d+ operations, \d\.\d\d x the model, \d+ bytes of temporaries", lines[1])
    (report,) = json.loads(tensorlang("check", "loss.tl", "--compiled", *SIZES, "--json").stdout)
    adjoint = report["compiled"]["adjoint"]
    assert adjoint["model"] == report["adjoint_cost"]
    assert 1 <= adjoint["factor"] <= 2
    assert tensorlang("check", "loss.tl", "--compiled").exit_code == 2


def test_check_names_the_place_and_a_witness_of_an_access_out_of_bounds(tensorlang: Run) -> None:
    Path("bad.tl").write_text("bad(x: [n]R) = gen i:n. x[i + 1]\n")
    failed(tensorlang("check", "bad.tl"), "bad.tl:1:25", "x[i + 1]", "hint: ")


def test_cost_counts_at_the_given_sizes(tensorlang: Run) -> None:
    assert tensorlang("cost", "two.tl:twice", "--size", "n=7").stdout == "7\n"
    assert json.loads(tensorlang("cost", "two.tl:twice", "--size", "n=7", "--format", "json").stdout)["cost"] == 7


def test_cost_reads_relations_from_an_archive(tensorlang: Run) -> None:
    assert tensorlang("cost", "related.tl", "--size", "n=3", "--inputs", "related.npz").stdout == "3\n"


def test_lower_prints_source_that_runs(tensorlang: Run) -> None:
    result = tensorlang("lower", "loss.tl")
    assert result.exit_code == 0
    assert "def loss(" in result.stdout
    assert "jax" in tensorlang("lower", "loss.tl", "--adjoint", "--wrt", "x").stdout
    assert "def loss(" in json.loads(tensorlang("lower", "loss.tl", "--format", "json").stdout)["source"]
    assert tensorlang("lower", "loss.tl", "--strict").stdout == f"{tl.lower(tl.parse(LOSS), strict=True).source}"
    failed(tensorlang("lower", "loss.tl", "--target", "fortran"), "'fortran'")
    failed(tensorlang("lower", "loss.tl", "--target", "pallas-gpu", "--strict"), "no strict code", "'pallas-gpu'")


@pytest.mark.parametrize("target", ["jax", "pallas-tpu"])
def test_lower_explains_what_each_step_takes(tensorlang: Run, target: str) -> None:
    explained = ("lower", "loss.tl", "--explain", "--target", target)
    sizes = {"n": 100, "m": 5}
    f = tl.lower(tl.parse(LOSS), target)
    assert tensorlang(*explained).stdout == f"{f.explain()}\n"
    assert tensorlang(*explained, *SIZES).stdout == f"{f.explain(sizes)}\n"
    assert json.loads(tensorlang(*explained, "--format", "json").stdout)["notes"] == [*f.explain().notes]
    failed(tensorlang(*explained, "--size", "n=100"), "the cost depends on m")
    assert "--size goes with --explain" in tensorlang("lower", "loss.tl", *SIZES).output


def test_run_prints_or_writes_what_the_evaluator_says(tensorlang: Run) -> None:
    expected = float(tl.evaluate(tl.parse(LOSS), np.arange(6.0), np.array([1.0, 2.0]), np.zeros(5)))
    assert float(tensorlang("run", "loss.tl", "--inputs", "loss.npz").stdout) == pytest.approx(expected)
    assert float(tensorlang("run", "loss.tl", "--inputs", "loss.npz", "--reference").stdout) == expected
    assert tensorlang("run", "loss.tl", "--inputs", "loss.npz", "--out", "y.npz").stdout == ""
    with np.load("y.npz") as y:
        assert float(y["result"]) == pytest.approx(expected)


def test_run_takes_and_gives_pairs_by_their_components(tensorlang: Run) -> None:
    assert tensorlang("run", "pairs.tl", "--inputs", "pairs.npz", "--out", "y.npz").exit_code == 0
    with np.load("y.npz") as y:
        assert sorted(y.files) == ["result.0", "result.1"]
        assert y["result.0"].tolist() == [1.0, 2.0]
    shown = json.loads(tensorlang("run", "pairs.tl", "--inputs", "pairs.npz", "--format", "json").stdout)
    assert shown == {"result.0": [1.0, 2.0], "result.1": 3.0}


def test_any_name_may_be_a_parameters_name(tensorlang: Run) -> None:
    Path("odd.tl").write_text("f(self: R, args: R, lambda: R, f: R) = self + args + lambda + f\n")
    np.savez("odd.npz", **{"self": 1.0, "args": 2.0, "lambda": 3.0, "f": 4.0})
    assert float(tensorlang("run", "odd.tl", "--inputs", "odd.npz").stdout) == 10
    assert float(tensorlang("run", "odd.tl", "--inputs", "odd.npz", "--reference").stdout) == 10


def test_run_keeps_double_precision(tmp_path: Path) -> None:
    (tmp_path / "same.tl").write_text("same(x: R) = 1 * x")
    np.savez(tmp_path / "x.npz", x=np.float64(1 / 3))
    command = [sys.executable, "-m", "tensorlang", "run", "same.tl", "--inputs", "x.npz"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert float(shown) == pytest.approx(1 / 3, abs=1e-8)


def test_a_result_that_memory_cannot_hold_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "big.tl").write_text("big(x: [n]R) = gen i:n, j:n, k:n. x[i] * x[j] * x[k]")
    np.savez(tmp_path / "x.npz", x=np.zeros(100_000))
    command = [sys.executable, "-m", "tensorlang", "run", "big.tl", "--inputs", "x.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "error: big can't be run" in done.stderr


def test_several_definitions_need_a_name(tensorlang: Run) -> None:
    failed(tensorlang("cost", "two.tl", "--size", "n=3"), "several definitions: twice, half", "two.tl:twice")
    failed(tensorlang("cost", "two.tl:thrice", "--size", "n=3"), "no definition 'thrice'", "twice, half")
    failed(tensorlang("adjoint", "-", stdin=""), "no definition")


def test_errors_in_a_program_show_the_line_and_a_caret(tensorlang: Run) -> None:
    Path("bad.tl").write_text("f(x: R) =\n  x + yy\n")
    failed(tensorlang("adjoint", "bad.tl"), "bad.tl:2:7\n    x + yy\n        ^^")


def test_unknown_names_are_errors(tensorlang: Run) -> None:
    failed(tensorlang("adjoint", "loss.tl", "--wrt", "q"), "'q'", "x, w, z")
    failed(tensorlang("cost", "loss.tl", *SIZES, "--size", "k=3"), "no size k", "sizes are")
    failed(tensorlang("cost", "loss.tl", "--size", "n=3"), "m")


@pytest.mark.parametrize(
    "arguments",
    [
        ["adjoint"],
        ["adjoint", "loss.tl", "--size", "n=3"],
        ["cost", "loss.tl", "--size", "n"],
        ["cost", "loss.tl", "--size", "n=-1"],
        ["cost", "loss.tl", "--size", "n=1", "--size", "n=2"],
        ["lower", "loss.tl", "--wrt", "x"],
        ["check", "loss.tl", "--bound", "-4"],
        ["differentiate", "loss.tl"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error(tensorlang: Run, arguments: list[str]) -> None:
    failed(tensorlang(*arguments), status=2)


def test_files_that_are_no_programs_are_errors(tensorlang: Run) -> None:
    Path("folder").mkdir()
    Path("picture.tl").write_bytes(b"f(x: R) =\n\xff\xfe")
    failed(tensorlang("check", "missing.tl"), "can't read missing.tl: No such file")
    failed(tensorlang("check", "folder"), "can't read folder: Is a directory")
    failed(tensorlang("check", "picture.tl"), "picture.tl is not UTF-8 text: byte 0xff in line 2")
    failed(tensorlang("check", "-", stdin=b"\xff"), "not UTF-8")
    failed(tensorlang("check", "/dev/zero"), "longer than")
    failed(tensorlang("check", "nul\0byte"), "can't read")


def test_archives_that_are_damaged_or_hostile_are_errors(tensorlang: Run) -> None:
    whole = Path("loss.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[: len(whole) // 2])
    Path("text.npz").write_text("not an archive")
    np.save("one.npy", np.zeros(3))
    np.savez("pickled.npz", x=np.array([{}], dtype=object))
    np.savez("words.npz", x=np.array(["a"]), w=np.zeros(2), z=np.zeros(5))
    np.savez("complex.npz", x=np.zeros(6, complex), w=np.zeros(2), z=np.zeros(5))
    np.savez("few.npz", x=np.zeros(6))
    np.savez("short.npz", x=np.zeros(6), w=np.zeros(2), z=np.zeros(4))
    for name in ("missing.npz", "cut.npz", "text.npz", "one.npy", "pickled.npz"):
        failed(tensorlang("run", "loss.tl", "--inputs", name), name)
    failed(tensorlang("run", "loss.tl", "--inputs", "words.npz"), "x holds values of type <U1, expected real numbers")
    failed(tensorlang("run", "loss.tl", "--inputs", "complex.npz"), "complex128")
    failed(tensorlang("run", "loss.tl", "--inputs", "few.npz"), "no array 'w'", "it holds x")
    failed(tensorlang("run", "loss.tl", "--inputs", "short.npz"), "shape")
    failed(tensorlang("run", "loss.tl"), "no array 'x'")


def test_an_archive_with_any_byte_changed_is_read_or_refused(tensorlang: Run) -> None:
    whole = Path("loss.npz").read_bytes()
    random = np.random.default_rng(0)
    for place in random.integers(0, len(whole), 60):
        changed = bytearray(whole)
        changed[place] ^= int(random.integers(1, 256))
        Path("changed.npz").write_bytes(changed)
        result = tensorlang("run", "loss.tl", "--inputs", "changed.npz", "--reference")
        assert result.exit_code in (0, 1)


def test_no_output_file_is_left_half_written(tensorlang: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ["run", "loss.tl", "--inputs", "loss.npz", "--out"]
    Path("folder").mkdir()
    failed(tensorlang(*run, "folder"), "can't write folder")
    failed(tensorlang(*run, "nowhere/y.npz"), "can't write nowhere/y.npz")
    failed(tensorlang(*run, os.devnull), "not a file")
    Path("y.npz").write_text("precious")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    failed(tensorlang(*run, "y.npz"), "can't write y.npz: No space left on device")
    assert Path("y.npz").read_text() == "precious"
    assert not list(Path().glob("*.partial*"))


def test_a_file_whose_name_holds_a_colon_is_found(tensorlang: Run) -> None:
    Path("a:b").write_text("f(x: R) = x * x\n")
    assert tensorlang("cost", "a:b").stdout == "1\n"
    assert tensorlang("cost", "a:b:f").stdout == "1\n"


@pytest.mark.parametrize("command", [[], ["adjoint"], ["derive"], ["check"], ["cost"], ["lower"], ["run"]])
def test_help_shows_an_example(tensorlang: Run, command: list[str]) -> None:
    result = tensorlang(*command, "--help")
    assert result.exit_code == 0
    assert "Example:\n    tensorlang " in result.stdout
