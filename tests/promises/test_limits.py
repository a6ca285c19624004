"""Every stage works within limits: short programs that take forever end in a `LimitError` that says what was too large.

Steps are counted, and times never asserted.
"""

from __future__ import annotations

import io
import itertools
import json
import zipfile
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import budget
from tensorlang.errors import LimitError, TensorlangError
from tensorlang.files import read_arrays
from tensorlang.lowering import costs
from tensorlang.sets import isl

VARIABLES = "abcdefghij"


def binders(count: int) -> str:
    return ", ".join(f"{c}:n" for c in VARIABLES[:count])


CYCLE = " and ".join(f"{k + 2}*{VARIABLES[k]} <= {k + 3}*{VARIABLES[(k + 1) % 7]} + {k}" for k in range(7))

HOSTILE = {
    "five-fold exists": f"f(x: [n]R) = sum i:n. [exists {binders(5)}. 7*a + 11*b + 13*c + 17*d + 19*e = 23*i + 5 "
    "and 3*a + 5*b < 29*c + n and 31*d < 37*e + 2*i] * x[i]",
    "cycle": f"f(x: [n]R) = sum {binders(7)}. [{CYCLE}] * x[a] * x[d]",
    "simplex": f"f(x: [n]R) = sum {binders(10)}. [{' <= '.join(VARIABLES)}] * x[a] * x[j]",
    "squares of a number": f"f(x: [n]R) = let a = 3 in {'let a = a * a in ' * 40} sum i:n. a * x[i]",
    "corner": f"f(x: [n]R) = sum {binders(10)}. [{' + '.join(VARIABLES)} < n] * x[a] * x[j]",
    "corner of a product": f"f(x: [n]R) = sum {binders(10)}. [{' + '.join(VARIABLES)} < n] * "
    + " * ".join(f"x[{i}]" for i in VARIABLES),
}


def chain(count: int) -> tl.Function:
    """A program of `count` statements."""
    kinds = ("sin({x}[i]) * {x}[i]", "{x}[i] + 2 * {x}[i]", "[0 < i] * {x}[i - 1] + {x}[i]", "exp({x}[i]) - {x}[i]")
    lets = "".join(f"let x{k + 1} = gen i:n. {kinds[k % 4].format(x=f'x{k}')} in " for k in range(count))
    return tl.parse(f"f(x0: [n]R) = {lets}sum i:n. x{count}[i]")


def costs_of(f: tl.Function) -> None:
    tl.cost(f, n=4)
    tl.cost_polynomial(f)


STAGES: dict[str, Callable[[tl.Function], Any]] = {
    "derive": tl.derive,
    "simplify": tl.simplify,
    "normalize": tl.normalize,
    "cost": costs_of,
    "certify": tl.certify,
    "lower": tl.lower,
    "evaluate": lambda f: tl.evaluate(f, np.ones(2)),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_end_where_a_limit_says(name: str, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    spend = budget._Account.refill

    def watched(self: budget._Account, what: str) -> None:
        taken.append(self.portion - self.left)
        spend(self, what)

    tl.clear_caches()
    f = tl.parse(HOSTILE[name])
    monkeypatch.setattr(budget._Account, "refill", watched)
    try:
        with tl.limits(steps=100_000):
            STAGES[stage](f)
    except TensorlangError as error:
        assert str(error)
    assert sum(taken) < 100_000 + 2_000_000  # the most operations of one question about integer sets


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_end_without_being_told(name: str, stage: str) -> None:
    try:
        STAGES[stage](tl.parse(HOSTILE[name]))
    except TensorlangError as error:
        assert str(error)


def pairs(count: int, body: str) -> str:
    lets = "".join(f"let p{k} = (p{k - 1}, p{k - 1}) in " for k in range(1, count))
    return f"f(x: R) = let p0 = (x, x) in {lets}{body}"


@pytest.mark.parametrize("count, body", [(40, "x"), (30, "p29"), (30, "fst(" * 30 + "p29" + ")" * 30)])
def test_pairs_of_pairs_have_a_largest_number_of_parts(count: int, body: str) -> None:
    with pytest.raises(LimitError, match=r"a pair has at most 131,072 parts, found one of 262,144"):
        tl.parse(pairs(count, body))
    assert tl.evaluate(tl.parse(pairs(8, "fst(" * 8 + "p7" + ")" * 8)), 3.0) == 3.0


def test_a_limit_says_what_was_too_large_and_how_to_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    f = chain(50)
    tl.clear_caches()
    with (
        pytest.raises(
            LimitError, match=r"tl.limits takes more than 1,000 steps of work, the last of it for .*"
        ) as caught,
        tl.limits(steps=1_000),
    ):
        tl.grad(f)
    assert "tl.limits(steps=...)" in (caught.value.hint or "")
    with pytest.raises(LimitError, match="takes more than 0 seconds"), tl.limits(seconds=0):
        tl.grad(f)
    monkeypatch.setattr(budget, "_resident", itertools.count(0, 1 << 20).__next__)
    with pytest.raises(LimitError, match="bytes of memory"), tl.limits(memory=1 << 19):
        tl.grad(f)


def test_default_limits_name_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse("f(x: [n]R) = sum i:n. 5/19 * sin(x[i])")
    monkeypatch.setattr(budget, "STEPS", 10)
    monkeypatch.setattr(budget, "STEPS_OF_A_NODE", 0)
    tl.clear_caches()
    for stage in (tl.derive, tl.simplify, tl.lower, tl.cost_polynomial, tl.certify):
        with pytest.raises(LimitError, match=rf"{stage.__name__} takes more than 10 steps"):
            stage(f)  # type: ignore[operator]
    for reader in (tl.parse, tl.parse_module):
        with pytest.raises(LimitError, match=f"{reader.__name__} takes more than 10 steps"):
            reader(str(f))


def test_what_ended_at_a_limit_works_with_a_larger_one() -> None:
    text = str(chain(20))
    f = tl.parse(text)
    want = str(tl.grad(f))
    for steps in range(0, 4_000, 97):
        tl.clear_caches()
        try:
            with tl.limits(steps=steps):
                tl.lower(tl.grad(f))
        except LimitError:
            pass
    assert str(tl.grad(f)) == str(tl.grad(tl.parse(text))) == want


def test_inner_limits_take_of_outer_ones() -> None:
    f = chain(30)
    tl.clear_caches()
    with pytest.raises(LimitError, match="more than 2,000 steps"), tl.limits(steps=2_000), tl.limits(steps=10**9):
        tl.grad(f)
    with tl.limits(steps=10**9):
        with pytest.raises(LimitError, match="more than 500 steps"), tl.limits(steps=500):
            tl.grad(f)
        tl.grad(f)


def test_limits_are_of_one_thread() -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            tl.grad(chain(10))
        except LimitError as error:
            errors.append(error)

    tl.clear_caches()
    with tl.limits(steps=0):
        thread = Thread(target=work)
        thread.start()
        thread.join()
        assert not errors
        inside = Thread(target=copy_context().run, args=(work,))
        inside.start()
        inside.join()
    assert errors


def test_long_programs_stay_far_from_the_limit() -> None:
    for count in (20, 200):
        f = chain(count)
        tl.clear_caches()
        allowed = budget.STEPS_OF_A_NODE * f.nodes
        with tl.limits(steps=allowed // 10):  # the steps that every program may take in addition are not even used
            tl.lower(tl.grad(f))


def test_archives_that_unpack_to_too_much_are_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(bomb, x=np.zeros(10_000_000, np.uint8))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(LimitError, match="unpacks to 10,000,128 bytes, more than 1,048,576"), tl.limits(memory=1 << 20):
        read_arrays(str(bomb))
    assert read_arrays(str(bomb))["x"].shape == (10_000_000,)


def test_archives_that_lie_about_shapes_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**4)})
    lying = tmp_path / "lying.npz"
    with zipfile.ZipFile(lying, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"few")
    with pytest.raises(TensorlangError, match=r"x of shape \(1000000000, 10000\) takes 80,000,000,000,000 bytes"):
        read_arrays(str(lying))


def test_deep_json_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "costs.json"
    monkeypatch.setenv(costs.VARIABLE, str(table))
    for text in ("[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000):
        table.write_text(text)
        with pytest.raises(TensorlangError, match="cost table"):
            costs.load()
        with pytest.raises(TensorlangError, match="is no certificate"):
            tl.Certificate.load(table)
    with pytest.raises(RecursionError):
        json.loads("[" * 100_000)  # so that the above is no accident


@pytest.mark.parametrize(
    "text",
    ["n^99999999", "((9^1000)^1000)^1000", "(n + m)^900", "(" * 9 + "n + m + 1" + ")^2" * 9, "n^1001"],
)
def test_costs_of_huge_powers_are_refused(text: str) -> None:
    f = tl.parse("f(x: [n]R, y: [m]R) = sum i:n, j:m. x[i] * y[j]")
    with pytest.raises(LimitError), tl.limits(steps=2_000_000):
        tl.read_cost(text, f)
    assert tl.read_cost("2*n^1000", f)(n=2, m=1) == 2**1001


def test_exact_powers_of_powers_are_refused() -> None:
    f = tl.parse("f(x: R) = (x ^ 999999) ^ 999999")
    with pytest.raises(LimitError, match="an exact number has at most 16,777,216 bits"):
        tl.evaluate(f, 2, exact=True)
    assert tl.evaluate(f, 1, exact=True) == 1


def test_integer_sets_are_given_up_whatever_isl_was_doing(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = set()
    for operations in range(0, 400, 7):
        monkeypatch.setattr(isl, "_OPERATIONS", (operations, 3 * operations + 1))
        tl.clear_caches()
        try:
            tl.parse("f(x: [n]R) = sum i:n, j:n. [7*i - 1000003*j < 5 or 3*j <= i + 1] * x[i + j]")
        except TensorlangError as error:
            outcomes.add(type(error).__name__)
    monkeypatch.undo()
    tl.clear_caches()
    assert outcomes == {"LimitError", "OutOfBounds"}
