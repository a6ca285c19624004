"""What a process keeps saves work and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import memory, pipeline
from tensorlang.lowering import lower
from tensorlang.lowering.emit import recurrences
from tensorlang.memory import Latest

TEXT = (
    "f(x: [n]R, p: [m]idx(n)) = let y = gen i:n. sum j:n. [j <= i] * sin(x[j]) in sum k:m. exp(y[p[k]]) * x[p[k]] ^ 3"
)
OPERATORS: list[Callable[[tl.Function], tl.Function]] = [
    tl.adjoint,
    tl.derivative,
    tl.grad,
    tl.value_and_grad,
    tl.hvp,
    tl.jacobian,
    tl.hessian,
]


@pytest.fixture(autouse=True)
def nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_CACHE", "off")
    tl.clear_caches()


def fail(*_: Any, **__: Any) -> Any:
    raise AssertionError("made anew")


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.__name__)
def test_the_same_program_gets_the_same_result(
    operator: Callable[[tl.Function], tl.Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    f = tl.parse(TEXT)
    made = operator(f)
    for name in ("normal_ssa", "simplify_ssa", "adjoint_steps", "read_simplified"):
        monkeypatch.setattr(pipeline, name, fail)
    assert operator(f) is made
    tl.clear_caches()
    with pytest.raises(AssertionError, match="made anew"):
        operator(f)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.__name__)
def test_the_same_text_gets_an_equal_result_of_its_own_parameters(
    operator: Callable[[tl.Function], tl.Function], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = operator(tl.parse(TEXT))
    for name in ("normal_ssa", "simplify_ssa", "adjoint_steps", "read_simplified"):
        monkeypatch.setattr(pipeline, name, fail)
    f = tl.parse(TEXT)
    again = operator(f)
    assert (str(again), again.results, again.nodes) == (str(made), made.results, made.nodes)
    assert {*f.params} <= {*again.params}


def test_code_of_the_same_text_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tl.lower(tl.grad(tl.parse(TEXT)))
    monkeypatch.setattr(recurrences, "source", fail)
    again = tl.lower(tl.grad(tl.parse(TEXT)))
    assert again._form(()).made.runnable == first._form(()).made.runnable
    x, p = np.linspace(0, 1, 5, dtype=np.float32), np.array([3, 0, 3])
    np.testing.assert_array_equal(again(x, p), first(x, p))


def test_a_gradient_that_is_asked_for_in_each_step_is_compiled_once() -> None:
    f = tl.parse(TEXT)
    x, p = np.linspace(0, 1, 5, dtype=np.float32), np.array([3, 0, 3])
    before = lower._compiled.cache_info().misses
    for _ in range(5):
        x = x - 0.01 * np.asarray(tl.grad(f)(x, p))
    assert lower._compiled.cache_info().misses == before + 1


def test_a_rule_that_is_declared_later_is_used() -> None:
    f = tl.parse("f(x: [n]R) = sum i:n. x[i] * x[i]")
    n = tl.sizes("n")
    before = tl.grad(f)

    @tl.adjoint_of(f)
    def rule(x: tl.R[n], y: tl.R, y_bar: tl.R):  # type: ignore[no-untyped-def, valid-type]
        return tl.gen(n, lambda i: (x[i] + x[i] + 0 * y) * y_bar)

    assert tl.grad(f) is not before


def test_other_costs_and_options_have_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse("c(x: [n]R, w: [m]R) = gen i:n - m + 1. sum j:m. x[i + j] * w[j]")

    def source(exact: bool) -> str:
        return tl.lower(f, exact=exact)._form(()).made.runnable

    known = [source(exact) for exact in (False, True, False, True)]
    assert known[:2] == known[2:]
    assert known[0] != known[1]
    table = tmp_path / "costs.json"
    table.write_text(json.dumps({"fft_taps": 77}))
    monkeypatch.setenv("TENSORLANG_COSTS", str(table))
    assert "77" in source(False)


def test_the_latest_answers_are_kept_within_their_bounds() -> None:
    kept: Latest[int, str] = Latest(10)
    try:
        kept.put(0, "a", 4)
        kept.put(1, "b", 4)
        assert kept.get(0) == "a"  # the latest now
        kept.put(2, "c", 4)
        assert (kept.get(0), kept.get(1), kept.get(2)) == ("a", None, "c")
        kept.put(2, "d", 7)
        assert (kept.get(0), kept.get(2)) == (None, "d")
        kept.put(3, "e", 11)
        assert (kept.get(2), kept.get(3)) == (None, None)
        kept.put(4, "f", 10)
        kept.clear()
        assert kept.get(4) is None
        for k in range(2 * memory._MOST_PROGRAMS):
            kept.put(k, "g", 0)
        assert [k for k in range(2 * memory._MOST_PROGRAMS) if kept.get(k)] == [
            *range(memory._MOST_PROGRAMS, 2 * memory._MOST_PROGRAMS)
        ]
    finally:
        memory._latest.remove(kept)


def test_threads_get_what_one_gets() -> None:
    texts = [TEXT.replace("3", str(k)) for k in range(2, 6)]
    alone = [str(tl.grad(tl.parse(text))) for text in texts]
    tl.clear_caches()
    found: list[list[str]] = [[] for _ in range(4)]

    def work(k: int) -> None:
        for _ in range(3):
            found[k] = [str(tl.grad(tl.parse(text))) for text in texts]

    threads = [Thread(target=work, args=(k,)) for k in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * len(found)
