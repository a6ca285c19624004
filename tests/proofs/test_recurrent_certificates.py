"""Certificates of programs with recurrences: the checker derives the gradient on its own, for any number of steps."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pytest

import tensorlang as tl
from benchmarks import through_time
from proofs.checker.budget import TooLarge
from proofs.checker.certificate import check
from proofs.checker.report import Report
from proofs.checker.trees import Refused
from tests.derivatives.test_recurrences import CHOOSING, PROGRAMS, RNN
from tests.support.recurrences import recurrent
from tests.support.sampling import one_in

DECIDED = sorted(
    PROGRAMS.keys()
    - {
        "scan in a step",  # its adjoint costs more than 4 times the program
        "edit distance",  # below, for it takes longer
    }
)
"""The recurrences about which everything is decided for all sizes."""
MORE = {
    "a condition on values": "f(x: [T]R) = fold t:T with s = 0. if x[t] > 0 then s + x[t] * x[t] else s",
    "a condition on the state": "f(x: [T]R, c: R) = fold t:T with s = c. if s > x[t] then s * x[t] else sin(s)",
    "an index array": "f(x: [n]R, k: [T]idx(n)) = fold t:T with s = 1. s * x[k[t]]",
    "a relation": "f(x: [n]R, w: [T]R, r: rel(T, n)) = "
    "fold t:T with s = x. gen i:n. [r(t, i)] * w[t] * s[i] + s[n - 1 - i]",
    "relu": "f(W: [n][n]R, h: [n]R) = fold t:T with s = h. gen i:n. relu(sum j:n. W[i, j] * s[j])",
    "greatest": "f(x: [T][n]R) = fold t:T with s = 0. s * 2 + [0 < n] * (max i:n. x[t, i] * s)",
    "from zero": "f(x: [T][n]R, w: [n][n]R) = let s = fold t:T with s = gen i:n. 0. "
    "gen i:n. tanh((sum j:n. w[i, j] * s[j]) + x[t, i]) in sum i:n. s[i]^2",
    "two that are read together": "f(x: [T]R) = let a = scan t:T with s = 0. s * 2 + x[t] in "
    "let b = scan t:T with s = 1. s * x[t] in sum t:T. a[t] * b[t]",
}


@cache
def certified(text: str) -> str:
    return tl.certify(tl.parse(text)).to_json()


def checked(text: str) -> Report:
    return check(certified(text))


@pytest.mark.parametrize("name", DECIDED)
def test_the_gradient_and_its_cost_are_decided_for_all_numbers_of_steps(name: str) -> None:
    report = checked(PROGRAMS[name])
    assert report.decided, str(report)
    assert not report.searched  # the certificate says how costs are carried


@pytest.mark.slow
def test_recurrences_within_steps_are_decided_as_well() -> None:
    assert checked(PROGRAMS["edit distance"]).decided


@pytest.mark.parametrize("name", [*MORE, *CHOOSING])
def test_data_conditions_and_extrema_may_be_in_steps_and_of_states(name: str) -> None:
    report = checked((MORE | CHOOSING)[name])
    assert report.findings[0].decided, str(report)


MEASURED = {p.name: p.text for p in through_time.PROGRAMS if "n = 256" not in p.name}
OPEN = ("Elo ratings", "online factorisation")
"""Programs that are not decided: data determine where their states change, and whether two of these places coincide."""


@pytest.mark.parametrize("name", one_in(4, [name for name in MEASURED if name not in OPEN]))
def test_the_recurrences_that_are_measured_are_decided(name: str) -> None:
    report = checked(MEASURED[name])
    assert report.decided, str(report)


@pytest.mark.slow
def test_of_states_that_data_change_it_is_said_what_is_not_decided() -> None:
    report = checked(MEASURED["Elo ratings"])
    assert [finding.decided for finding in report.findings] == [True, False], str(report)
    assert "NOT decided for all sizes, only sampled: the cost" in str(report)


def test_a_certificate_says_what_was_decided() -> None:
    certificate = tl.certify(tl.parse(PROGRAMS["cumulative product"]))
    assert certificate.is_decided
    assert str(certificate).startswith("f: the adjoint by x costs at most 4 times the program")
    assert "that the adjoint is the gradient is for a checker to derive" in str(certificate)
    assert "derived by the checker: decided for all sizes" in str(check(certificate.to_json()))


def test_what_is_not_decided_is_said_first() -> None:
    report = checked(MEASURED["Elo ratings"])
    assert report.findings[0].decided and not report.findings[1].decided
    assert str(report).splitlines()[0].endswith("only sampled: the cost")


def test_a_bound_below_that_of_the_theorem_is_decided_by_the_texts() -> None:
    f = tl.parse("f(x: [T]R) = fold t:T with s = 1. s * x[t]")
    assert check(tl.certify(f, bound=2).to_json()).decided
    with pytest.raises(tl.CostBoundExceeded):
        tl.certify(f, bound=1.5)


def changed(held: dict[str, Any], **parts: Any) -> str:
    return json.dumps({**held, "costs": dict.fromkeys(held["costs"]), "supremum": None, **parts})


FALSE = {
    "only at the last time": ("products", r"gen i:T\. bar", "gen i:T. [i + 1 < T] * bar"),
    "only from the fifth step on": ("products", r"gen i:T\. bar", "gen i:T. [i <= 4] * bar"),
    "only for many steps": ("products", r"gen i:T\. bar", "gen i:T. [T <= 12] * bar"),
    "in what a step does": ("rnn", r"1 - s", "2 - s"),
    "in where it starts": ("rnn", r"\(rnn_bar", "(gen i:n. 2 * rnn_bar[i]"),
    "in the time": ("products", r"\[T - i - 1\]", "[i]"),
    "in a state": ("swing", r"cos", "sin"),
}
GENUINE = {
    "products": "products(x: [T]R) = scan t:T with s = 1. s * x[t]",
    "rnn": RNN,
    "swing": "swing(x: R, k: R, dt: [T]R) = fold t:T with q = x, p = 0. (q + dt[t] * p, p - dt[t] * k * sin(q))",
}


@pytest.mark.parametrize("how", FALSE)
def test_an_adjoint_that_is_wrong_is_refused(how: str) -> None:
    name, was, now = FALSE[how]
    held = json.loads(certified(GENUINE[name]))
    text = re.sub(was, now, held["adjoint"], count=1)
    assert text != held["adjoint"]
    with pytest.raises(Refused):
        check(changed(held, adjoint=text))


def test_an_adjoint_that_costs_more_than_it_may_is_refused_at_large_sizes() -> None:
    held = json.loads(certified(GENUINE["products"]))
    text = held["adjoint"].replace("gen i:T. bar", "gen i:T. 0 * (sum k:T, l:T. [40 < T] * x[k] * x[l]) + bar", 1)
    assert text != held["adjoint"]
    with pytest.raises(Refused, match="costs"):
        check(changed(held, adjoint=text))


def test_steps_are_checked_for_types_and_bounds() -> None:
    held = json.loads(certified(GENUINE["products"]))
    for was, now in (("x[T - r - 1]", "x[T - r]"), ("bar * x", "(bar, bar) * x"), ("with bar", "with x")):
        assert was in held["adjoint"]
        with pytest.raises(Refused):
            check(changed(held, adjoint=held["adjoint"].replace(was, now)))


@pytest.mark.slow
def test_random_recurrences_are_never_refused_and_mostly_decided(share: int) -> None:
    rng, count = Random(7), 120 // share
    open_ = 0
    for example in islice(iter(lambda: recurrent(rng), None), count):
        try:
            text = certified(example.text)
        except tl.CostBoundExceeded:
            continue
        try:
            open_ += not check(text, 20).decided
        except TooLarge:
            open_ += 1
    assert 3 * open_ <= count
