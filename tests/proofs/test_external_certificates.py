"""Certificates of programs that call external functions: what is assumed is told, all else is decided or refused."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from proofs.checker.__main__ import main
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tests.support import externals  # noqa: F401  declares the functions that the programs call

n, m = tl.sizes("n m")
Held = dict[str, Any]


PROGRAMS = (
    "solved(A: [n][n]R, b: [n]R) = sum i:n. solve(A, b)[i]^2",
    "twice(A: [n][n]R, b: [n]R, c: [n]R) = sum i:n. solve(A, gen j:n. solve(A, b)[j] * c[j])[i]^2",
    "powers(x: [n]R, y: [n]R) = let z = fft(x, y) in sum i:n. fst(z)[i]^2 + snd(z)[i]^2",
    "rows(x: [n][m]R) = sum i:n, j:m. sines(x[i])[j] * sines(gen k:m. x[i, k] * x[i, k])[j]",
    "outside(A: [n][m]R, x: [m]R) = sum i:n. times(A, x)[i]^2",
    "wide(x: [n + m]R) = let y = sines(gen i:n. x[i + m]) in sum i:n. y[i] * x[i]",
    "data(x: [n]R, k: [n]idx(n), E: rel(n, n)) = let y = sines(gen i:n. [exists j:n. E(i, j)] * x[k[i]] + "
    "(max j:n. x[j])) in sum i:n. [2*i < n] * y[i]^2",
    "chosen(x: [n]R, k: [n]idx(m)) = gen j:m. sum i:n. [k[i] = j] * sines(x)[i]",
    "after(A: [n][n]R, b: [n]R) = let y = fold t:T with s = b. gen i:n. s[i] * b[i] in sum i:n. y[i] * solve(A, y)[i]",
    "before(x: [n]R, u: [T]R) = let w = sines(x) in fold t:T with s = sum i:n. w[i]. u[t] * sin(s)",
    "read(x: [5][n]R) = sum i:n. sines(x[2])[i] * sines(x[4])[i]",
)


@cache
def certified(text: str) -> str:
    return tl.certify(tl.parse(text)).to_json()


def genuine(text: str) -> Held:
    held: Held = json.loads(certified(text))
    held["costs"] = dict.fromkeys(held["costs"])
    held["supremum"] = None
    return held


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda text: text.partition("(")[0])
def test_all_but_what_is_declared_is_decided(text: str) -> None:
    report = check(certified(text))
    assert report.decided
    assert any("an external function: " in what for what in report.assumptions)
    assert any(what.startswith("that a call of ") for what in report.assumptions)


def test_files_are_saved_loaded_and_checked_from_the_shell(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "solved.json"
    tl.certify(tl.parse(PROGRAMS[0])).save(path)
    assert tl.Certificate.load(path).to_json() == path.read_text()
    assert main([str(path)]) == 0
    out = capfd.readouterr().out
    assert "assuming: the adjoint of solve(A: [n][n]R, b: [n]R): [n]R, an external function: solve_adjoint(" in out
    assert "assuming: that a call of solve costs n^3 + n^2" in out


def test_what_can_be_neither_decided_nor_sampled_is_told_and_has_its_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    held = genuine(PROGRAMS[0])
    held["adjoint"] = held["adjoint"].replace("-", "", 1)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(held))
    assert main(["--accept-sampled", str(path)]) == 4
    out = capfd.readouterr().out
    assert "NOT decided for all sizes, nor sampled: that the adjoint is the gradient" in out


def test_a_step_that_calls_one_is_not_decided() -> None:
    text = "steps(x: [n]R) = let y = fold t:T with s = x. gen i:n. sines(s)[i] in sum i:n. y[i]"
    report = check(certified(text))
    assert not report.decided
    assert not report.sampled


# ---- what is declared, changed: refused, or told


def test_another_cost_is_told_and_decides() -> None:
    held = genuine(PROGRAMS[0])
    held["external"][0]["cost"] = [[7, ["n"]]]
    held["transports"] = {}
    assert "that a call of solve costs 7*n" in check(json.dumps(held)).assumptions
    held = genuine(PROGRAMS[4])
    back = next(f for f in held["external"] if f["signature"].startswith("pulled"))
    back["cost"] = [[30, ["n", "m"]]]
    with pytest.raises(Refused, match="the adjoint costs"):
        check(json.dumps(held))


def test_another_adjoint_is_not_the_gradient() -> None:
    for before, after in (("-b_bar[i] * y[j]", "b_bar[i] * y[j]"), ("A[j, i]", "A[i, j]"), ("y[j]", "b[j]")):
        held = genuine(PROGRAMS[0])
        told = held["external"][0]["adjoint"]
        assert before in told
        held["external"][0]["adjoint"] = told.replace(before, after)
        report = check(json.dumps(held))
        assert not report.decided
        assert any(after in what for what in report.assumptions)


def test_both_adjoints_changed_alike_stand_in_the_report() -> None:
    held = genuine("f(x: [n]R) = sum i:n. sines(x)[i]")
    held["external"][0]["adjoint"] = held["external"][0]["adjoint"].replace("cos", "sin")
    held["adjoint"] = held["adjoint"].replace("cos", "sin")
    held["functions"] = [
        {"name": "sin", "arity": 1, "cost": 1, "components": ["cos(x0) * t"]},
        {"name": "cos", "arity": 1, "cost": 1, "components": ["-sin(x0) * t"]},
    ]
    report = check(json.dumps(held))
    assert report.decided
    assert any("sin(x[i]) * y_bar[i]" in what for what in report.assumptions)


WRONG = (
    ("signature", "solve(A: [n][m]R, b: [n]R): [n]R"),
    ("signature", "solve(A: [n][n]R, b: [n]R): [n][n]R"),
    ("signature", "solve(A: [n][n]R): [n]R"),
    ("signature", "solve(A: [n][n]R, b: [n]R): [k]R"),
    ("signature", "solve(A: [n][n]R, b: [n]idx(n)): [n]R"),
    ("signature", "other(A: [n][n]R, b: [n]R): [n]R"),
    ("signature", "solve"),
    ("signature", 7),
    ("cost", [[-1, ["n"]]]),
    ("cost", [[1000, ["n"]], [-1, ["n", "n"]]]),
    ("cost", [[1, ["k"]]]),
    ("cost", [[0.5, ["n"]]]),
    ("cost", [[True, ["n"]]]),
    ("cost", "n^3"),
    ("cost", None),
    ("adjoint", "rule(A: [n][n]R, b: [n]R, y: [n]R) = (A, b)"),
    ("adjoint", "rule(A: [n][n]R, b: [n]R, y: [n]R, y_bar: [n]R) = b"),
    ("adjoint", "rule(A: [n][n]R, b: [n]R, y: [n]R, y_bar: [n]R) = (A, gen i:n + 1. 1)"),
    ("adjoint", "rule(A: [n][n]R, b: [n]R, y: [n]R, y_bar: [n]R) = (A, unknown(b))"),
    ("adjoint", "rule(A: [n][n]R, b: [n]R, y: [n]R, y_bar: [n]R) = (A, gen i:n. b[i + 1])"),
)


@pytest.mark.parametrize(("key", "value"), WRONG, ids=[f"{key}: {value}" for key, value in WRONG])
def test_what_does_not_fit_is_refused(key: str, value: Any) -> None:
    held = genuine(PROGRAMS[0])
    held["external"][0][key] = value
    with pytest.raises(Refused):
        check(json.dumps(held))


def test_functions_that_are_left_out_named_twice_or_never_called_are_refused() -> None:
    for text in PROGRAMS[:5]:
        own = genuine(text)
        spare = genuine(PROGRAMS[5])["external"] if "sines" not in text else genuine(PROGRAMS[0])["external"]
        for other in ([], own["external"] * 2, own["external"] + spare):
            with pytest.raises(Refused):
                check(json.dumps({**own, "external": other}))
        without = [{**f, "adjoint": None} for f in own["external"]]
        try:
            report = check(json.dumps({**own, "external": without}))
        except Refused:
            continue
        assert not report.decided


def test_no_function_is_scalar_and_external_and_no_derivation_has_one() -> None:
    held = genuine(PROGRAMS[0])
    scalar = {"name": "solve", "arity": 2, "cost": 1, "components": ["t", "t"]}
    with pytest.raises(Refused, match="one function"):
        check(json.dumps({**held, "functions": [*held["functions"], scalar]}))
    with pytest.raises(Refused, match="no derivation"):
        check(json.dumps({**held, "derivation": held["program"]}))


CHANGES = (
    ("[{i} != 3] * ({e})"),
    ("({e}) + [{i} = 4] * 1/1000"),
    ("[{i} <= 17] * ({e})"),
    ("2 * ({e})"),
    ("[n <= 40] * ({e})"),
)


IN_LINES = [text for text in PROGRAMS if not text.startswith(("wide", "read"))]
"""Those whose adjoints have an array in a line of its own."""


@pytest.mark.parametrize("text", IN_LINES, ids=lambda text: text.partition("(")[0])
def test_adjoints_that_are_wrong_somewhere_are_never_decided(text: str) -> None:
    rng = random.Random(text)
    for change in CHANGES:
        held = genuine(text)
        lines = held["adjoint"].splitlines()
        fits = [k for k, line in enumerate(lines) if "gen " in line and ". " in line and "(gen" not in line]
        k = fits[-1] if rng.random() < 0.7 else rng.choice(fits)
        head, _, e = lines[k].partition(". ")
        tail = " in" if e.endswith(" in") else ""
        index = head.rpartition(":")[0].split()[-1]
        lines[k] = head + ". " + change.format(i=index, e=e.removesuffix(" in")) + tail
        held["adjoint"] = "\n".join(lines)
        try:
            report = check(json.dumps(held))
        except Refused:
            continue
        assert not report.decided, held["adjoint"]
