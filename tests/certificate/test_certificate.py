"""Certificates: every program has one, it states the truth, and a broken rule gets none."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang.certificate import Certificate, certify
from tensorlang.certificate.obligations import obligations
from tensorlang.derivatives import adjoint as rules
from tensorlang.errors import CertificateError, CostBoundExceeded
from tensorlang.language.predicates import Predicate
from tensorlang.testing import assert_cheap_adjoint
from tests.support import GOLDEN, ROOT
from tests.support.programs import random_function
from tests.support.promises import (
    Promise,
    adjoint_is_the_transpose_of_the_derivative,
    bounds_of_theorems_6_1_and_6_35_hold,
    random_ssa_case,
)

PAPER = tl.parse_module((GOLDEN / "paper.tl").read_text())
LOSS = tl.parse(
    """
    loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
      let y = gen i:n. sum j:m. x[i + j] * w[j] in
      sum k:n. (y[k] - z[k])^2
    """
)


@pytest.mark.parametrize("name", PAPER)
def test_every_program_of_the_paper_has_a_certificate_for_all_sizes(name: str) -> None:
    found = certify(PAPER[name])
    assert set(found.compared.values()) == {"all sizes"}
    assert found.program_cost is not None
    assert found.adjoint_cost is not None


@pytest.mark.parametrize("seed", range(24))
def test_every_obligation_of_a_random_program_is_met(seed: int) -> None:
    f = random_function(random.Random(seed), chooses=seed % 2 == 0)
    assert [str(o) for o in obligations(tl.derive(f)) if o.decided == "open"] == []


def test_a_certificate_says_what_the_program_and_its_adjoint_cost() -> None:
    found = certify(LOSS, wrt="w")
    assert found.program_cost is not None
    assert found.adjoint_cost is not None
    assert found.program_cost(n=7, m=3) == tl.cost(LOSS, n=7, m=3)
    assert found.adjoint_cost(n=7, m=3) == tl.cost(tl.adjoint(LOSS, "w"), n=7, m=3)
    assert str(found).startswith(
        "loss: the adjoint by w costs at most 4 times the program, inputs and outputs counted, for all"
    )


def test_each_obligation_names_its_theorem_in_the_proofs() -> None:
    proofs = "".join(path.read_text() for path in (ROOT / "proofs").glob("*.v"))
    for obligation in certify(PAPER["batch"]).obligations:
        assert f" {obligation.theorem} " in proofs


def test_a_saved_certificate_is_the_same_every_time_and_loads_again(tmp_path: Path) -> None:
    path = tmp_path / "loss.json"
    certify(LOSS).save(path)
    assert Certificate.load(path).to_json() == path.read_text() == certify(tl.parse(str(LOSS))).to_json()


def test_an_altered_certificate_does_not_load(tmp_path: Path) -> None:
    path = tmp_path / "loss.json"
    path.write_text(certify(LOSS).to_json().replace('"made": []', '"made": ["y"]', 1))
    with pytest.raises(CertificateError, match="is not the certificate of its program"):
        Certificate.load(path)
    path.write_text("[]")
    with pytest.raises(CertificateError, match="is no certificate"):
        Certificate.load(path)


def test_an_excess_names_sizes_costs_and_the_step_that_costs_most() -> None:
    with pytest.raises(CostBoundExceeded) as caught:
        certify(LOSS, bound=2)
    error = caught.value
    own, adjoint = error.costs
    assert adjoint > 2 * own
    others = 2 * error.sizes["n"] + 2 * error.sizes["m"] - 1 + 1
    assert own == tl.cost(LOSS, **error.sizes) + others
    assert adjoint == tl.cost(tl.adjoint(LOSS), **error.sizes) + others
    assert "6.28 product" in str(error)
    assert "at all sizes it is 3, approached as" in str(error)


def test_a_bound_below_4_is_certified_where_the_largest_ratio_allows_it() -> None:
    f = tl.parse("product(A: [n][m]R, B: [m][k]R) = gen i:n, j:k. sum l:m. A[i, l] * B[l, j]")
    found = certify(f, bound=Fraction(5, 2))
    assert found.supremum is not None
    assert found.supremum.least == found.supremum.most == Fraction(5, 2)
    with pytest.raises(CostBoundExceeded):
        certify(f, bound=Fraction(249, 100))


def test_a_bound_that_can_t_be_decided_is_not_certified() -> None:
    f = tl.parse("form(E: rel(n, n), x: [n]R, y: [n]R) = sum i:n, j:n. [E(i, j)] * x[i] * y[j]")
    assert certify(f).obligations
    with pytest.raises(CertificateError, match="can't be told"):
        certify(f, bound=Fraction(39, 10))


def test_a_bound_that_is_no_number_is_refused() -> None:
    for bound in ("four", "4", True, float("nan"), float("inf"), -1):
        with pytest.raises(tl.ArgumentError, match="a bound is"):
            certify(LOSS, bound=bound)  # type: ignore[arg-type]


def fibonacci(steps: int) -> tl.Function:
    """Each number is the product of the two before it: the tightest known family."""
    lets = "".join(f"let x{k + 2} = x{k + 1} * x{k} in " for k in range(steps))
    return tl.parse(f"power(x0: R, x1: R) = {lets}x{steps + 1}")


@pytest.mark.parametrize("steps", [3, 10, 30, 100])
def test_products_of_the_two_numbers_before_come_as_near_to_4_as_one_likes(steps: int) -> None:
    f = fibonacci(steps)
    own, adjoint = tl.cost(f), tl.cost(tl.adjoint(f))
    assert (own, adjoint) == (steps, 4 * steps - 2)
    assert certify(f).bound == 4
    with pytest.raises(CostBoundExceeded):
        certify(f, bound=Fraction(adjoint + 2, own + 3))  # 3 inputs and outputs


def test_assert_cheap_adjoint_fails_with_what_the_certificate_says() -> None:
    assert_cheap_adjoint(LOSS)
    with pytest.raises(AssertionError, match=r"most of it, .* comes with step"):
        assert_cheap_adjoint(LOSS, bound=2)


Break = Callable[[pytest.MonkeyPatch], None]


def _without_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """6.28 and 6.29 with p in the mask instead of p and P."""
    whole = rules._Rewriting._transposed_contraction

    def broken(self: object, x: object, k: int, dy: object, p: Predicate) -> object:
        return whole(self, x, k, dy, x.pred)  # type: ignore[arg-type, attr-defined]

    monkeypatch.setattr(rules._Rewriting, "_transposed_contraction", broken)


def _without_the_union(monkeypatch: pytest.MonkeyPatch) -> None:
    """6.25 with P0 instead of P0 or P1."""
    monkeypatch.setattr(rules, "disjunction", lambda parts: next(iter(parts)))


BROKEN = {
    "6.28": (
        _without_the_mask,
        "f(x: [n]R) = let y = gen i:n. x[i] * sin(x[i]) in let k = argmax i:n. y[i] in "
        "x[k] + sum i:n. [2*i < n] * exp(y[i])",
    ),
    "6.29": (
        _without_the_mask,
        "f(x: [n]R) = let y = gen i:n. sum j:n. sin(x[i] * x[j]) in let k = argmax i:n. y[i] in "
        "x[k] + sum i:n. [2*i < n] * exp(y[i])",
    ),
    "6.25": (_without_the_union, "f(x: [n + 2]R) = x[0] * x[0] * sin(x[1])"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_gets_no_certificate(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking, text = BROKEN[rule]
    assert certify(tl.parse(text))
    breaking(monkeypatch)
    with pytest.raises(CertificateError, match=rf"step \d+, {rule}: .* could not be shown"):
        certify(tl.parse(text))


@pytest.mark.parametrize(
    ("breaking", "promise", "seeds"),
    [
        (_without_the_mask, bounds_of_theorems_6_1_and_6_35_hold, range(110, 120)),
        (_without_the_union, adjoint_is_the_transpose_of_the_derivative, range(530, 540)),
    ],
)
def test_a_broken_rule_breaks_a_promise_on_random_programs(
    breaking: Break, promise: Promise, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in seeds:
            promise(random_ssa_case(random.Random(seed)))


def test_the_checker_of_a_wheel_finds_and_checks_without_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel has the checker under a name of its own, set in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    shutil.copytree(ROOT / "proofs" / "checker", tmp_path / included["proofs/checker"])
    for name in [name for name in sys.modules if name.split(".")[0] in ("proofs", "tensorlang_checker")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "proofs", None)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "f.json"
    tl.certify(tl.parse("f(x: [n]R) = sum i:n. x[i]^2")).save(path)
    assert json.loads(path.read_text())["transports"]
    command = [sys.executable, "-m", "tensorlang_checker", str(path)]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0 and "decided for all sizes from 1 on" in found.stdout
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorlang_checker"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.slow
def test_a_formula_that_takes_long_to_find_is_left_out() -> None:
    mask = "[2 * j + 3 * k <= i and i <= 5 * j + k]"
    f = tl.parse(f"f(x: [n]R, y: [m]R) = gen i:n. sum j:m, k:m. {mask} * x[i] * y[j] * y[k]")
    with tl.limits(steps=16_000_000):  # its cost alone takes as many steps
        c = tl.certify(f)
    assert c.is_decided
    assert None in list(c.costs.values())
    assert "no closed form" in str(c)
