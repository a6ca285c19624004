"""Fuzzing: whatever the texts, archives and costs, each stage returns a result or raises a `TensorlangError`, within
limits.

`TENSORLANG_FUZZ` is the number of inputs of each kind; without it, there are enough for about a minute.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorlang as tl
from tensorlang.errors import TensorlangError
from tensorlang.files import arguments, read_arrays
from tensorlang.surface.parse import parse_module
from tests.promises.test_hostile import WORDS
from tests.support.programs import random_function

EXAMPLES = int(os.environ.get("TENSORLANG_FUZZ", "150"))
STEPS = 200_000

fuzzing = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))

NUMBERS = ["0", "1", "2", "3", "7", "11", "13", "97", "1000003", "99999999999", "1e400", "0.1", "1/3", "1e-400"]
FRAGMENTS = [
    *WORDS,
    *NUMBERS,
    "^ 999999",
    "pow(x, 1e10)",
    "(x, x)",
    "let p = (x, x) in",
    "exists a:n, b:n.",
    "[i < n] *",
]

names = st.sampled_from(["i", "j", "k", "l", "n", "m"])
indices = st.sampled_from(["i", "j", "k", "l", "i2"])
ends = st.sampled_from(["n", "m", "3", "n + m", "2*n - 1"])
numbers = st.sampled_from(["1", "2", "3", "5", "7", "11", "29", "1000003", "461168601842738790"])
atoms = st.one_of(names, numbers, st.builds(lambda k, x: f"{k}*{x}", numbers, names), st.just("y[i]"))
affine = st.lists(atoms, min_size=1, max_size=4).map(" + ".join) | st.builds(lambda a, b: f"{a} - {b}", atoms, atoms)
comparisons = st.builds(
    lambda parts, signs: "".join(f"{a} {s} " for a, s in zip(parts, signs, strict=False)) + parts[-1],
    st.lists(affine, min_size=2, max_size=4),
    st.lists(st.sampled_from(["<", "<=", "=", "!=", ">", ">="]), min_size=3, max_size=3),
)
relation = st.builds(lambda a, b: f"r({a}, {b})", affine, affine)
predicates = st.recursive(
    comparisons | relation,
    lambda p: st.one_of(
        st.builds(lambda a, b: f"({a} and {b})", p, p),
        st.builds(lambda a, b: f"({a} or {b})", p, p),
        st.builds(lambda i, n, a: f"(exists {i}:{n}. {a})", indices, ends, p),
    ),
    max_leaves=8,
)
scalars = st.recursive(
    st.sampled_from(
        ["1", "3/7", "x[i]", "z[i, j]", "x[n - 1 - i]", "w", "x[y[i]]", "[i + j < n and k < m] * z[i + j, k]", "1e30"]
    ),
    lambda e: st.one_of(
        st.builds(lambda p, a: f"[{p}] * {a}", predicates, e),
        st.builds(lambda o, a, b: f"({a} {o} {b})", st.sampled_from("+-*/"), e, e),
        st.builds(lambda f, a: f"{f}({a})", st.sampled_from(["sin", "exp", "sqrt", "relu", "fst"]), e),
        st.builds(lambda a, k: f"({a}) ^ {k}", e, st.sampled_from(["2", "17", "-3", "999999", "9999999999"])),
        st.builds(lambda w, i, n, a: f"({w} {i}:{n}. {a})", st.sampled_from(["sum", "max", "min"]), indices, ends, e),
        st.builds(lambda a, b: f"(let w = {a} in {b})", e, e),
        st.builds(lambda i, a: f"(gen {i}:n. {a})[n - 1 - i]", indices, e),
    ),
    max_leaves=6,
)
programs = st.builds(
    lambda e, p: f"f(x: [n]R, z: [n][m]R, w: R, y: [n]idx(n), r: rel(n, m)) = sum i:n, j:m, k:n, l:m. [{p}] * {e}",
    scalars,
    predicates,
)

STAGES: list[Callable[[tl.Function], Any]] = [
    str,
    tl.unicode_text,
    tl.normalize,
    tl.simplify,
    tl.derivative,
    tl.derive,
    tl.jacobian,
    tl.cost_polynomial,
    tl.certify,
    lambda f: tl.lower(f).source,
    lambda f: tl.cost(f, {k: v for k, v in data(f).items() if k in "yr"}, n=3, m=2),
    lambda f: tl.evaluate(f, **data(f)),
]


def data(f: tl.Function) -> dict[str, Any]:
    """Arguments for the parameters that the programs above have."""
    n, m = 3, 2
    every = {
        "x": np.ones(n), "z": np.ones((n, m)), "w": 2.0, "y": np.array([2, 0, 1]), "r": np.eye(n, m, dtype=bool),
    }  # fmt: skip
    return {p.name: every[p.name] for p in f.params if p.name in every}


def is_worked_on_or_refused(text: str) -> None:
    """Assert that every stage does its work, or says why not, within limits."""
    try:
        with tl.limits(steps=STEPS):
            functions = list(parse_module(text).values())
    except TensorlangError as error:
        assert str(error)
        return
    for f in functions:
        for stage in STAGES:
            try:
                with tl.limits(steps=STEPS), np.errstate(all="ignore"):
                    stage(f)
            except TensorlangError as error:
                assert str(error)


@st.composite
def edited(draw: st.DrawFn) -> str:
    """The text of a random program, with a few edits."""
    text = str(random_function(random.Random(draw(st.integers(0, 10_000)))))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 8])))
        text = f"{text[:start]} {draw(st.sampled_from(FRAGMENTS))} {text[end:]}"
    return text


def test_a_few_texts_are_worked_on_or_refused() -> None:
    few = settings(fuzzing, max_examples=6, derandomize=True)
    few(given(programs)(is_worked_on_or_refused))()
    few(given(edited())(is_worked_on_or_refused))()


@pytest.mark.slow
@fuzzing
@given(programs)
def test_programs_are_worked_on_or_refused(text: str) -> None:
    is_worked_on_or_refused(text)


@pytest.mark.slow
@fuzzing
@given(edited())
def test_edited_programs_are_worked_on_or_refused(text: str) -> None:
    is_worked_on_or_refused(text)


@settings(fuzzing, max_examples=50)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(" ".join) | st.text(max_size=60))
def test_soups_are_refused_or_read(text: str) -> None:
    is_worked_on_or_refused(text)
    is_worked_on_or_refused("f(x: [n]R) = " + text)


COST = tl.parse("f(x: [n]R, z: [n][m]R, r: rel(n, m)) = sum i:n, j:m. [r(i, j)] * x[i] * z[i, j]")
cost_atoms = st.one_of(names, numbers, st.sampled_from(["nnz(r)", "floor(n/2)", "points(i:n. i < m)", "nnz(x)", "0"]))
cost_texts = st.recursive(
    cost_atoms,
    lambda e: st.one_of(
        st.builds(lambda a, b: f"({a} + {b})", e, e),
        st.builds(lambda a, b: f"{a} * {b}", e, e),
        st.builds(lambda a, k: f"({a})^{k}", e, st.sampled_from(["2", "9", "1000", "99999999"])),
        st.builds(lambda a, k: f"floor({a}/{k})", e, numbers),
        st.builds(lambda p, a: f"[{p}] * {a}", predicates, e),
        st.builds(lambda a, k: f"{a} / {k}", e, st.sampled_from(["0", "2", "7"])),
    ),
    max_leaves=10,
)


@settings(fuzzing, max_examples=max(50, EXAMPLES))
@given(cost_texts | st.lists(st.sampled_from([*FRAGMENTS, "nnz(", "floor(", "points("]), max_size=12).map(" ".join))
def test_texts_of_costs_are_read_or_refused(text: str) -> None:
    try:
        with tl.limits(steps=STEPS):
            found = tl.read_cost(text, COST)
            assert tl.read_cost(str(found), COST).cells
    except TensorlangError as error:
        assert str(error)


def archive(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


ARCHIVES = [
    archive(x=np.ones(3), z=np.ones((3, 2)), r=np.eye(3, 2, dtype=bool)),
    archive(x=np.ones(3, np.float16), z=np.zeros((0, 2)), r=np.array("text")),
    archive(),
]
edits = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6), st.integers(0, 6)), max_size=5)


@settings(fuzzing, max_examples=max(200, EXAMPLES))
@given(st.sampled_from(ARCHIVES), edits, st.booleans())
def test_archives_are_read_or_refused(tmp_path_factory: Any, whole: bytes, changes: Any, cut: bool) -> None:
    bytes_ = whole
    for where, new, gone in changes:
        at = int(where * len(bytes_))
        bytes_ = bytes_[:at] + new + (b"" if cut and gone == 6 else bytes_[at + gone :])
    path = Path(tmp_path_factory.getbasetemp()) / "fuzzed.npz"
    path.write_bytes(bytes_)
    try:
        with tl.limits(memory=1 << 28):
            arguments(COST, read_arrays(str(path)), str(path))
    except TensorlangError as error:
        assert str(error)
