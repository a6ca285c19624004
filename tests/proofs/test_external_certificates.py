"""Certificates of programs that call external functions: assumptions are reported, all else is decided or refused."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from proofs.checker.__main__ import main
from proofs.checker.certificate import check
from proofs.checker.trees import Refused
from tests.support import externals  # noqa: F401  declares the functions that the programs call
from tests.support.sampling import one_in

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
STEPS = (
    "steps(x: [n]R) = let y = fold t:T with s = x. gen i:n. sines(s)[i] in sum i:n. y[i]",
    "scaled(x: [n]R, u: [T]R) = let y = scan t:T with s = x. gen i:n. s[i] + u[t] * sines(s)[i] in "
    "sum t:T, i:n. y[t, i]^2",
    "implicit(A: [n][n]R, x: [n]R, b: [T][n]R) = let y = fold t:T with s = x. "
    "gen i:n. solve(A, gen j:n. s[j] + b[t, j])[i] in sum i:n. y[i]^2",
    "nested(x: [n]R) = let y = fold t:T with s = x. (let z = sines(s) in "
    "gen i:n. z[i] * sines(gen j:n. z[j] * s[j])[i]) in sum i:n. y[i]",
    "pairs(x: [n]R, y: [n]R) = let z = fold t:T with s = (x, y). fft(fst(s), snd(s)) in "
    "sum i:n. fst(z)[i]^2 + snd(z)[i]^2",
    "looked(x: [n]R, k: [n]idx(n)) = let y = fold t:T with s = x. gen i:n. [2*i <= n] * sines(s)[k[i]] + x[i] in "
    "sum i:n. y[i] * x[i]",
    "rowwise(x: [m][n]R, w: [n]R) = let y = fold t:T with s = x. gen j:m, i:n. sines(s[j])[i] * w[i] in "
    "sum j:m, i:n. y[j, i]",
)
"""Programs in which steps of recurrences call external functions of their states."""
READ_AFTER = (
    "applied(A: [n][n]R, x: [n]R) = let y = fold t:T with s = x. times(A, s) in sum i:n. y[i]^2",
    "between(A: [n][m]R, B: [m][n]R, x: [m]R) = let y = fold t:T with s = x. times(B, times(A, s)) in sum j:m. y[j]",
    "squeezed(A: [n][n]R, x: [n]R) = let y = scan t:T with s = x. gen i:n. sin(times(A, s)[i]) in "
    "sum t:T, i:n. y[t, i]^2",
)
"""Programs whose adjoints call functions of the states before and after a step, with several cotangents for each."""


@cache
def certified(text: str) -> str:
    return tl.certify(tl.parse(text)).to_json()


def genuine(text: str) -> Held:
    held: Held = json.loads(certified(text))
    held["costs"] = dict.fromkeys(held["costs"])
    held["supremum"] = None
    return held


@pytest.mark.parametrize("text", (*PROGRAMS, *STEPS, *READ_AFTER), ids=lambda text: text.partition("(")[0])
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


# ---- changed declarations: refused, or reported


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
"""Programs whose adjoints have an array in a line of its own."""


@pytest.mark.parametrize("text", one_in(8, IN_LINES), ids=lambda text: text.partition("(")[0])
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


FORGED = (
    (0, "cos(s1[T - r - 1, i])", "cos(s1[r, i])"),
    (0, "cos(s1[T - r - 1, i])", "cos(s1[T - r - 1, n - i - 1])"),
    (0, "* bar[i]", "* bar[i] * [r != 50]"),
    (0, "prescan t:T with s = x. let sines1 = sines(s)", "prescan t:T with s = x. let sines1 = sines(x)"),
    (1, "[r + 1 < T]", "[r + 2 < T]"),
    (1, "cos(fst(s_v0[T - r - 1])", "cos(fst(s_v0[T - r])"),
    (1, "u[T - r - 1]", "u[r]"),
    (1, "bar2[T - i - 1, j] * snd(s_v0[i + 1])", "bar2[T - i - 1, j] * snd(s_v0[i])"),
    (2, "A[j, i], fst(bar)", "A[i, j], fst(bar)"),
    (2, "= (gen i:n. t0 * s2[T, i]", "= (gen i:n. [i != 9] * t0 * s2[T, i]"),
    (2, "* s2[k + 1, j]", "* s2[k, j]"),
    (2, "-snd(bar[T - i])", "-snd(bar[T - i - 1])"),
    (2, "-snd(bar[T - i])", "[i != 20] * -snd(bar[T - i])"),
    (3, "fst(snd(s_v0_v1_v2[T - r]))[i]) in", "fst(snd(s_v0_v1_v2[T - r - 1]))[i]) in"),
    (3, "t0[i] * fst(s_v0_v1_v2[T - r - 1])", "t0[i] * fst(s_v0_v1_v2[T - r])"),
    (4, "gen i:n. -snd(bar)[i]", "gen i:n. snd(bar)[i]"),
    (4, "t0 * snd(s)[i]", "t0 * fst(s)[i]"),
    (6, "cos(", "2 * cos("),
    (7, "gen i:n. s3[T - r, i], fst(bar)", "gen i:n. s3[T - r - 1, i], fst(bar)"),
    (7, "gen i:n. s3[T - r, i], fst(bar)", "gen i:n. [r != 50] * s3[T - r, i], fst(bar)"),
    (7, "snd(bar[k + 1])", "snd(bar[k])"),
    (8, "gen i:m. fst(s_v[T - r])[i], fst(bar)", "gen i:m. fst(s_v[T - r - 1])[i], fst(bar)"),
    (8, "B, gen i:n. snd(s_v0[T - r])", "B, gen i:n. snd(s_v0[T - r - 1])"),
    (9, "snd(s_v0[T - r])[i],", "snd(s_v0[T - r - 1])[i],"),
)


@pytest.mark.parametrize("place", one_in(6, range(len(FORGED))))
def test_wrong_gradients_of_steps_are_not_decided(place: int) -> None:
    which, before, after = FORGED[place]
    held = genuine((*STEPS, *READ_AFTER)[which])
    assert before in held["adjoint"], held["adjoint"]
    held["adjoint"] = held["adjoint"].replace(before, after, 1)
    tl.parse(held["adjoint"])
    held["transports"] = {}
    try:
        report = check(json.dumps(held))
    except Refused as refused:  # a difference before any step is found at small sizes
        assert "<dY | D f(x) dx> and <adjoint | dx> differ" in str(refused)
        return
    assert not report.findings[0].decided


@pytest.mark.slow
def test_other_rules_costs_and_bounds_of_functions_in_steps_are_not_decided_or_refused() -> None:
    for text in STEPS:
        own = genuine(text)
        changes = ("cos(x[i])", "sin(x[i])"), ("-b_bar[i] * y[j]", "b_bar[i] * y[j]"), ("-snd(z_bar)", "snd(z_bar)")
        told = own["external"][0]["adjoint"]
        before, after = next(change for change in changes if change[0] in told)
        forged = [{**own["external"][0], "adjoint": told.replace(before, after)}, *own["external"][1:]]
        report = check(json.dumps({**own, "external": forged}))
        assert not report.findings[0].decided
        with pytest.raises(Refused, match="the adjoint costs"):
            check(json.dumps({**own, "bound": "1/2", "transports": {}}))


def test_another_cost_of_what_a_step_of_the_adjoint_calls_is_refused() -> None:
    text = (
        "moved(A: [n][m]R, B: [m][n]R, x: [m]R) = let y = fold t:T with s = x. times(B, times(A, s)) in sum j:m. y[j]"
    )
    held = json.loads(tl.certify(tl.parse(text), wrt="x").to_json())
    held["costs"], held["supremum"] = dict.fromkeys(held["costs"]), None
    assert check(json.dumps(held)).decided
    back = next(f for f in held["external"] if f["signature"].startswith("pulled"))
    for cost, transports in product(([[30, ["n", "m"]]], [[3, ["n", "m", "m"]]]), (held["transports"], {})):
        back["cost"] = cost
        with pytest.raises(Refused, match="the adjoint costs"):
            check(json.dumps({**held, "transports": transports}))
