"""The independent checker: it accepts the package's certificates, and refuses any alteration of them."""

from __future__ import annotations

import ast
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tensorlang as tl
from benchmarks.programs import CASES
from proofs.checker.budget import Budget, TooLarge
from proofs.checker.certificate import check
from proofs.checker.polygamma import polygamma
from proofs.checker.semantics import Dual, Function, Semantics, Undefined
from proofs.checker.syntax import expression
from proofs.checker.trees import (
    Refused,
)
from tensorlang.certificate import certify
from tests.certificate.test_certificate import BROKEN, PAPER
from tests.support import ROOT
from tests.support.nests import random_nest
from tests.support.programs import random_function

TEXTS = (
    "loss(x: [n + m - 1]R, w: [m]R) = sum k:n. sin(sum j:m. x[k + j] * w[j])^2",
    "f(E: rel(n, n), x: [n]R, y: [n]R) = sum i:n, j:n. [E(i, j) and j <= i] * (x[i] - 3*y[j]) * exp(y[j])",
    "f(x: [n][m + 1]R, y: [n]idx(m + 1)) = (sum i:n. x[i, y[i]]^2, gen i:n. max j:m + 1. x[i, j])",
)


def test_the_checker_shares_no_code_with_the_package() -> None:
    for path in (ROOT / "proofs" / "checker").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level <= 1, path  # from the checker itself, under whatever name
                names += [node.module or ""] if not node.level else []
            allowed = {"__future__", "islpy", *sys.stdlib_module_names}
            assert {name.split(".")[0] for name in names} <= allowed, path


@pytest.mark.parametrize("name", PAPER)
def test_certificates_of_the_paper_s_programs_hold(name: str) -> None:
    report = check(certify(PAPER[name]).to_json())
    assert report.decided
    assert report.samples
    assert set(report.sets) <= {"for all sizes"}


@pytest.mark.parametrize("text", TEXTS)
def test_certificates_with_data_and_scalar_functions_hold(text: str) -> None:
    report = check(certify(tl.parse(text)).to_json())
    assert report.steps
    assert report.decided


@pytest.mark.parametrize("seed", range(12))
def test_certificates_of_random_programs_hold(seed: int) -> None:
    f = random_function(random.Random(seed), scalars="powers", chooses=seed % 2 == 0, numbers=seed % 3 == 0)
    assert check(certify(f).to_json()).decided


@pytest.mark.slow
@pytest.mark.parametrize("seed", [21, pytest.param(13, marks=pytest.mark.slow)])
def test_elements_that_are_read_where_other_conditions_hold_are_in_bounds(seed: int) -> None:
    assert check(certify(tl.parse(random_nest(random.Random(seed)).text)).to_json()).samples


def test_a_process_that_has_run_for_long_samples_no_less(monkeypatch: pytest.MonkeyPatch) -> None:
    text = certify(tl.parse(TEXTS[1])).to_json()
    now = time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: now() + 3600)
    assert check(text).samples == check(text).samples > 0


def test_costs_are_compared_where_they_are_claimed() -> None:
    # the maximum of nothing has no cost at n = 0
    text = "f(x: [n]R) = let c = max i:n. x[i] in gen i:n. exp(x[i] - c)"
    assert check(certify(tl.parse(text)).to_json()).decided


def test_a_program_that_has_no_value_somewhere_is_no_counterexample() -> None:
    # its normal form takes the root only of the chosen value
    report = check(certify(tl.parse("f(x: [n]R) = sum i:n. where_gt(x[i], 0, sqrt(x[i]))")).to_json())
    assert report.samples


NUMBERS = (
    "f(x: [n]R) = sum i:n, j:n. real(i + 2*j) * x[i] * x[j]^2 / n",
    "f(x: [n]R, k: size) = (sum i:n. [i < k] * x[i]^2 * k, gen i:n. i * x[i])",
    "f(x: [n]R, a: [n]idx(m)) = sum i:n. exp(real(2*a[i] + 1) * x[i])",
    "f(x: [n][m]R) = let a = gen i:n. argmax j:m. x[i, j] in sum i:n. x[i, a[i]]^2 * real(a[i] + i)",
    "f(x: [n]R, y: [n]R) = gen i:n. sum j:n. exp(real(i - j) * x[j]) * real(i - j) * y[i]",
    "f(x: [n]R) = gen i:n. x[i]^2 + (let k = argmax j:n. x[j] in real(k)) + (let k = argmin j:n. x[j] in real(k - 1))",
)
"""Programs with numbers that are index expressions, or sizes."""


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_from_indices_and_sizes_are_decided(text: str) -> None:
    report = check(valid(text))
    assert report.decided, str(report)


@pytest.mark.parametrize(
    "text",
    [
        "f(h: R, s: R) = -s^2 - sin(h)",
        "f(x: [n]R, y: [n]R) = gen i:n. -x[i]^2 - exp(y[i])",
        "f(J: [n][n]R, h: [n]R, s: [n]R) = -(sum i:n, j:n where i < j. J[i, j] * s[i] * s[j]) - sum i:n. h[i] * s[i]",
        "f(x: R, y: R, a: [T]R) = -(fold t:T with s = x. s * a[t]) - fold t:T with s = y. s + a[t]",
    ],
)
def test_a_cotangent_of_two_statements_is_made_once(text: str) -> None:
    d = tl.derive(tl.parse(text))
    made = [x for step in d.steps for x in step.made]
    assert len(made) == len(set(made))
    assert check(valid(text)).samples


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R, o: [n]idx(4)) = sum i:n. [i + o[i] < n] * x[i + o[i]]^2",
        "f(x: [n]R, o: [n]idx(n), c: R) = sum i:n. [i < o[i]] * x[o[i]]^2 * c",
        "f(x: [n]R, o: [1]idx(4)) = sum i:n. [o[0] < n] * sin(x[i])^2",
        "f(x: [n]R, o: [1]idx(4), c: R) = sum i:n. [o[0] < n] * x[o[0]] * c * x[i]",
    ],
)
def test_where_elements_of_index_arrays_are_bounds_there_may_be_no_points(text: str) -> None:
    assert check(valid(text)).decided


CONDITIONS = (
    "f(x: [n]R) = sum i:n. [x[i] > 0] * x[i]^2",
    "f(x: [n]R, y: [n]R) = sum i:n. [not x[i] <= y[i] and i < 3] * exp(x[i]) * y[i]",
    "f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m where A[i, j] != 0. A[i, j] * x[j]",
    "f(x: [n]R) = gen i:n. [x[i] > sum j:n. x[j]] * x[i]",
)
"""Programs with conditions on values."""


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_on_values_are_decided(text: str) -> None:
    report = check(valid(text))
    assert report.decided, str(report)


@pytest.mark.parametrize(("old", "new"), [("0 < x[i]", "x[i] < 0"), ("[c = 1]", "[c = 0]"), ("[c = 1] * ", "")])
def test_another_condition_on_values_is_refused(old: str, new: str) -> None:
    held = json.loads(valid(CONDITIONS[0]))
    held["costs"], held["supremum"] = dict.fromkeys(held["costs"]), None
    assert old in held["program"]
    with pytest.raises(Refused):
        check(json.dumps({**held, "program": held["program"].replace(old, new)}))


@pytest.mark.parametrize(
    ("old", "new"),
    [("real(i + 2*j)", "real(i + 3*j)"), ("real(i + 2*j)", "real(2*i + j)"), ("/ n", "/ real(n + 1)")],
)
def test_another_number_from_indices_is_refused(old: str, new: str) -> None:
    held = json.loads(valid(NUMBERS[0]))
    held["costs"], held["supremum"] = dict.fromkeys(held["costs"]), None
    assert old in held["program"]
    with pytest.raises(Refused):
        check(json.dumps({**held, "program": held["program"].replace(old, new)}))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_certificates_of_benchmark_programs_are_decided_for_all_sizes(case: Any) -> None:
    found = certify(case.function, wrt=case.wrt or None)
    assert found.obligations
    report = check(found.to_json())
    assert report.decided, str(report)


@pytest.mark.slow
def test_a_convolution_with_seven_sizes_is_decided() -> None:
    text = (
        "conv(x: [b][c][h + p - 1][w + q - 1]R, k: [d][c][p][q]R) = "
        "gen s:b, o:d, i:h, j:w. sum e:c, u:p, v:q. x[s, e, i + u, j + v] * k[o, e, u, v]"
    )
    report = check(valid(text))
    assert report.decided, str(report)


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("coqc") and shutil.which("ocamlfind")), reason="Coq is not installed")
def test_the_extracted_adjoint_is_asked_where_it_is_built() -> None:
    subprocess.run(["make", "-s", "-C", str(ROOT / "proofs" / "diff"), "driver"], check=True, capture_output=True)
    for text in (str(PAPER["loss"]), TEXTS[2]):
        assert check(certify(tl.parse(text)).to_json()).extracted > 3


@pytest.mark.parametrize("rule", BROKEN)
def test_the_derivation_of_a_broken_rule_is_refused(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking, text = BROKEN[rule]
    breaking(monkeypatch)
    monkeypatch.setattr("tensorlang.certificate.certificate.obligations", lambda derivation: ())
    with pytest.raises(Refused, match=rf"step \d+, {rule}"):
        check(certify(tl.parse(text)).to_json())


@cache
def valid(text: str) -> str:
    return certify(tl.parse(text)).to_json()


Place = tuple[str | int, ...]


def leaves(held: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every plain value and every list that is not empty in a JSON object, with its place."""
    if isinstance(held, dict):
        for key, value in held.items():
            yield from leaves(value, (*path, key))
    elif isinstance(held, list):
        if held:
            yield path, held
        for k, value in enumerate(held):
            yield from leaves(value, (*path, k))
    else:
        yield path, held


def with_leaf(text: str, path: Place, value: Any) -> str:
    held = json.loads(text)
    place = held
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(held)


def altered(path: Place, value: Any, choose: Any) -> Any:
    """Another value in place of `value`, with another meaning."""
    match value:
        case None:
            return "where0" if path[-1] == "theorem" else "t"
        case list():
            if len(value) > 1 and choose(2):
                return value[1:] if path[-1] != "wrt" else value[::-1]
            return [*value, value[0]]
        case bool() | int():
            return value + 1 + choose(3)
    if path[0] == "compared":
        return "some sizes" if value == "all sizes" else "all sizes"
    if path[0] == "bound":
        return "1/2"
    if path == ("supremum", "most") and value is None:
        return "1/2"
    if path[0] in ("program", "adjoint", "derivation", "costs"):
        return altered_text(value, choose)
    return value[:-1] + ("1" if value[-1] != "1" else "2")


_CHANGES = {"+": "-", "-": "+", "*": "+", "=": "<=", "<=": "<", "<": "<=", "sin": "cos", "exp": "sin", "max": "min"}


def altered_text(text: str, choose: Any) -> str:
    """The text with one number, sign, comparison or function exchanged for another."""
    tokens = [m for m in re.finditer(r"<=|<|(?<![<>!])=(?= \w)|(?<=\s)[-+*](?=\s)|\b\d+\b|\b(?:sin|exp|max)\b", text)]
    chosen = tokens[choose(len(tokens))]
    new = str(int(chosen[0]) + 1) if chosen[0].isdigit() else _CHANGES[chosen[0]]
    return text[: chosen.start()] + new + text[chosen.end() :]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_an_altered_certificate_is_refused(data: Any) -> None:
    text = valid(data.draw(st.sampled_from(TEXTS)))
    choose = lambda n: data.draw(st.integers(0, n - 1))
    hints = ("matches", "transports")
    places = [place for place in leaves(json.loads(text)) if place[0][0] not in hints]
    path, value = places[choose(len(places))]
    other = altered(path, value, choose)
    with pytest.raises(Refused):
        note(f"{path}: {value} becomes {other}\n{check(with_leaf(text, path, other))}")


WEIRD = (
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "1/0",
    "-1",
    "1e99999999",
    "\u0663",
    [],
    [None],
    [[]],
    {},
    {"a": None},
    "x[",
    "f(",
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data())
def test_whatever_a_file_holds_the_answer_is_no_traceback(data: Any) -> None:
    text = valid(data.draw(st.sampled_from(TEXTS)))
    places = [place for place in leaves(json.loads(text)) if place[0]]
    path, value = places[data.draw(st.integers(0, len(places) - 1))]
    other = data.draw(st.sampled_from([x for x in WEIRD if x != value]))
    with contextlib.suppress(Refused, TooLarge):
        check(with_leaf(text, path, other), seconds=10)


@pytest.mark.parametrize(
    "changed",
    [
        {"bound": "1/0"},
        {"bound": "1e99999999"},
        {"bound": "9" * 10_000},
        {"steps": [None]},
        {"steps": [{}]},
        {"wrt": [["x"]]},
        {"matches": {"program": [["y"]], "adjoint": []}},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = 1e99999999"},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = x[0] ^ 99999999999"},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = 2 ^ 99999999999"},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = sum a:1000000000. x[0]"},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = " + "(" * 3000 + "1" + ")" * 3000},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = 1/0"},
        {"program": "loss(x: [n + m - 1]R, w: [m]R) = x[0] ^ y"},
    ],
)
def test_what_is_hostile_is_refused_or_too_large(changed: dict[str, Any]) -> None:
    with pytest.raises((Refused, TooLarge)):
        check(json.dumps({**json.loads(valid(TEXTS[0])), **changed}), seconds=5)


def test_json_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(Refused):
        check("[" * 200_000)
    with pytest.raises(Refused):
        check('{"a":' * 50_000 + "1" + "}" * 50_000)


def test_an_index_array_of_an_index_array_is_decided() -> None:
    text = "twice(x: [n]R, y: [n]R, k: [m]idx(n), l: [p]idx(m)) = sum i:p. x[k[l[i]]] * y[k[l[i]]]"
    assert check(valid(text)).decided


@pytest.mark.parametrize("key", ["format", "bound", "program", "steps", "costs"])
def test_a_certificate_without_one_of_its_parts_is_refused(key: str) -> None:
    held = json.loads(valid(TEXTS[0]))
    del held[key]
    with pytest.raises(Refused, match=key):
        check(json.dumps(held))
    with pytest.raises(Refused, match="no keys but"):
        check(json.dumps({**json.loads(valid(TEXTS[0])), "note": "believe me"}))


def test_the_command_reports_and_says_what_it_refuses(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(valid(TEXTS[0]))
    bad.write_text("{")
    command = [sys.executable, "-m", "proofs.checker", str(good), str(bad)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("loss: ")
    assert "costs at most 4 times the program, inputs and outputs counted" in done.stdout
    assert done.stderr == f"{bad}: refused: this is no JSON: {done.stderr.split('JSON: ')[1]}"


def test_a_user_s_function_stands_in_a_certificate_with_its_body_or_as_an_assumption() -> None:
    tl.scalar_function(
        "swish_for_test",
        derivative=lambda x, y: tl.sigmoid(x) + y * (1 - tl.sigmoid(x)),
        evaluate=lambda x: x / (1 + np.exp(-x)),
        source="jax.nn.silu({0})",
        cost=2,
    )
    tl.scalar_function(
        "bump_for_test",
        derivative=lambda x, y: -2 * x * y,
        evaluate=lambda x: np.exp(-x * x),
        source="jnp.exp(jnp.cumsum(-{0} * {0}) * 0 - {0} * {0}) if False else jnp.exp2(-{0} * {0} * 1.442695040888963)",
        cost=3,
    )
    held = json.loads(certify(tl.parse("f(x: [n]R) = sum i:n. swish_for_test(x[i])")).to_json())
    report = check(json.dumps(held))
    assert report.decided
    assert not report.assumptions
    (function,) = (f for f in held["functions"] if f["name"] == "swish_for_test")
    function["components"] = ["(sigmoid(x0) + y * (1 - sigmoid(x0)) + where_gt(x0, 6, 1)) * t"]
    with pytest.raises(Refused):
        check(json.dumps(held))
    report = check(certify(tl.parse("f(x: [n]R) = sum i:n. bump_for_test(x[i])")).to_json())
    assert report.decided
    assert "the derivative of bump_for_test" in report.assumptions
    assert "assuming: the derivative of bump_for_test" in str(report)


def test_the_derivatives_of_lgamma_are_known_up_to_the_last_which_is_assumed() -> None:
    for f in ("lgamma", "digamma", "trigamma", "tetragamma"):
        report = check(certify(tl.parse(f"f(x: [n]R) = sum i:n. x[i] * {f}(x[i])")).to_json())
        assert report.decided
        assert report.samples
        assert not report.assumptions
    held = json.loads(certify(tl.parse("f(x: [n]R) = sum i:n. lgamma(x[i])")).to_json())
    (function,) = (f for f in held["functions"] if f["name"] == "digamma")
    function["components"] = ["-trigamma(x0) * t"]
    with pytest.raises(Refused, match="component 0 of digamma is not its derivative"):
        check(json.dumps(held))
    report = check(certify(tl.parse("f(x: [n]R) = sum i:n. pentagamma(x[i])")).to_json())
    assert report.assumptions == ("the derivative of pentagamma, for which log(-1) stands",)


@pytest.mark.parametrize("order", range(4))
def test_the_checker_s_polygammas_are_those_of_scipy(order: int) -> None:
    xs = np.concatenate([np.linspace(-20.3, 40.1, 301), [1e-9, 1e9, -99.5]])
    found = [polygamma(order, x) for x in xs]
    np.testing.assert_allclose(found, scipy.special.polygamma(order, xs), rtol=1e-11, atol=1e-13)
    for x in (0, -1, -7, float("nan"), float("-inf"), -1e300):
        with pytest.raises(ArithmeticError):
            polygamma(order, x)


def test_bodies_of_functions_of_special_functions_are_compared_with_what_is_declared() -> None:
    tl.scalar_function(
        "ratio_for_test",
        derivative=lambda x, y: tl.digamma(x) - tl.digamma(x + 1),
        evaluate=lambda x: scipy.special.gammaln(x) - scipy.special.gammaln(x + 1),
        source="jax.scipy.special.gammaln({0}) - jax.scipy.special.gammaln({0} + 1)",
        cost=3,
    )
    held = json.loads(certify(tl.parse("f(x: [n]R) = sum i:n. ratio_for_test(x[i])")).to_json())
    report = check(json.dumps(held))
    assert report.decided
    assert not report.assumptions
    (function,) = (f for f in held["functions"] if f["name"] == "ratio_for_test")
    function["components"] = ["(digamma(x0) - digamma(x0 + 2)) * t"]
    with pytest.raises(Refused, match="component 0 of ratio_for_test is"):
        check(json.dumps(held))


def test_a_reciprocal_whose_derivative_underflows_is_no_counterexample() -> None:
    meaning = Semantics({"recip": Function("recip", 1, 1, (expression("-(y * y) * t"),))}, Budget(10))
    assert meaning.value(expression("1e140 * recip(x)"), {"x": Dual(1e140, 1.0)}).slope == pytest.approx(-1e-140)
    with pytest.raises(Undefined):
        meaning.value(expression("1e200 * recip(x)"), {"x": Dual(1e200, 1.0)})


def status(tmp_path: Path, held: dict[str, Any], *options: str) -> tuple[int, str]:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(held))
    command = [sys.executable, "-m", "proofs.checker", str(path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


PRODUCT = "product(A: [n][m]R, B: [m][n]R) = gen i:n, j:n. sum l:m. A[i, l] * B[l, j]"


def test_the_exit_status_is_0_only_if_all_was_decided(tmp_path: Path) -> None:
    held = json.loads(valid(PRODUCT))
    assert status(tmp_path, held)[0] == 0
    code, said = status(tmp_path, held, "--seconds", "0.05")
    assert code == 4
    assert "too large to decide" in said


@pytest.mark.slow
def test_the_exit_status_is_3_where_something_was_only_sampled(tmp_path: Path) -> None:
    held = json.loads(valid(PRODUCT))
    held["costs"], held["supremum"] = dict.fromkeys(held["costs"]), None
    held["bound"] = "2499/1000"  # the ratio approaches 5/2 only at sizes that are not tried
    code, said = status(tmp_path, held)
    assert code == 3
    assert said.startswith("product: NOT decided for all sizes, only sampled: the cost")
    assert status(tmp_path, held, "--accept-sampled")[0] == 0
    assert status(tmp_path, {**held, "bound": "2"})[0] == 1
