"""Entries on disk save work and change nothing: an entry equals what would be made anew, or it is not used."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import CliRunner

import tensorlang as tl
from benchmarks.programs import CASES, named
from tensorlang import disk, pipeline
from tensorlang.cli import main
from tensorlang.errors import LimitError
from tensorlang.language import recall
from tensorlang.language.affine import Size, atom_affine
from tensorlang.language.census import expressions
from tensorlang.language.encoded import Encoding, EncodingRefused
from tensorlang.language.function import Function
from tensorlang.language.grammar import Integer, Mul, Var, number
from tensorlang.language.types import R
from tensorlang.lowering.emit import recurrences
from tests.support.programs import random_function

NAMES = [case.name for case in CASES]
TEXT = "f(x: [n]R, w: [m]R) = sum i:n, j:m. [i < j] * sin(x[i]) * w[j]"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of our own, in which everything is kept, however little time it took to make. This process keeps
    nothing else."""
    where = tmp_path / "cache"
    monkeypatch.setenv(disk.VARIABLE, str(where))
    monkeypatch.setattr(recall, "LEAST", 0.0)
    for kept in (recall._results, recall._encoded):
        monkeypatch.setattr(kept, "_most", 0)
    return where


@pytest.fixture
def nothing_is_made(cache: Path) -> Callable[[], None]:
    """A function after whose call it fails to derive a program, to simplify one, or to generate code."""
    patch = pytest.MonkeyPatch()

    def begin() -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise AssertionError("made anew")

        for name in ("normal_ssa", "simplify_ssa", "adjoint_steps", "read_simplified"):
            patch.setattr(pipeline, name, fail)
        patch.setattr(recurrences, "source", fail)

    yield begin
    patch.undo()


def entries(where: Path) -> list[Path]:
    return sorted(path for path in where.glob("*/*") if path.is_file())


def source(f: tl.Function) -> str:
    return tl.lower(f)._form(()).made.runnable


def check_what_is_read(f: tl.Function, deeper: bool = False) -> None:
    """Assert that the adjoint of `f` and its code are read as they were made, and that results made from what was read
    are the same."""

    def found(f: tl.Function) -> list[str]:
        g = tl.adjoint(f) if f.variables else f
        made = [str(g), source(g), tl.lower(g).source]
        return [*made, str(tl.derivative(g))] if deeper and g.variables else made

    first = found(f)
    assert found(f) == first


@pytest.mark.parametrize("name", NAMES[::10])
def test_what_is_read_of_benchmarks_is_what_is_made(name: str, cache: Path) -> None:
    check_what_is_read(named(name).function)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_of_all_benchmarks_is_what_is_made(name: str, cache: Path) -> None:
    check_what_is_read(named(name).function)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_of_random_programs_is_what_is_made(seed: int, cache: Path) -> None:
    rng = random.Random(seed)
    for kind in ({}, {"scalars": "smooth"}, {"chooses": True}, {"numbers": True}, {"compares": True}):
        check_what_is_read(random_function(rng, **kind), deeper=seed < 3)


def test_numbers_of_thousands_of_digits_do_no_harm(cache: Path) -> None:
    x, large = Var("x", R), number(Fraction(10**6000 + 1, 3))
    for _ in range(2):
        assert large in expressions(tl.adjoint(Function("f", (x,), Mul(large, x))).body)
    kept = entries(cache)
    assert len(kept) == 1
    assert tl.adjoint(Function("f", (x,), Mul(Integer(atom_affine(Size("n")) + 10**6000), x))).params[0] is x
    assert entries(cache) == kept  # Python would not write it


def test_what_predicates_bind_comes_back_as_it_was(cache: Path) -> None:
    """An index that is the same in several predicates shares an array of a relation's elements."""
    check_what_is_read(random_function(random.Random(10088), scalars="smooth"))


def test_programs_come_back_with_all_that_they_share() -> None:
    rng = random.Random(7)
    for k in range(60):
        f = random_function(rng, chooses=k % 2 == 0, compares=k % 3 == 0)
        asked, read = Encoding(), Encoding()
        assert asked.encode((f.params, "x")) == read.encode((f.params, "x"))
        g = read.decode(asked.encode(f))
        assert g.params == f.params  # the same objects
        assert (str(g), g.nodes, g.results, g.further) == (str(f), f.nodes, f.results, f.further)


def test_another_process_makes_nothing(nothing_is_made: Callable[[], None]) -> None:
    f = tl.parse(TEXT)
    before = [
        str(tl.grad(f)),
        str(tl.value_and_grad(f)),
        str(tl.hvp(f, "x")),
        str(tl.derivative(f)),
        source(tl.grad(f)),
    ]
    nothing_is_made()
    f = tl.parse(TEXT)
    after = [str(tl.grad(f)), str(tl.value_and_grad(f)), str(tl.hvp(f, "x")), str(tl.derivative(f)), source(tl.grad(f))]
    assert after == before
    g = tl.grad(f)
    assert g.params == f.params  # and they belong together
    assert np.isfinite(g(np.ones(3, np.float32), np.ones(4, np.float32))[0]).all()
    with pytest.raises(AssertionError, match="made anew"):
        tl.grad(f, "w")


def test_the_parts_of_to_jax_are_kept(cache: Path) -> None:
    texts = [TEXT, "g(x: [n]R) = fold t:n with s = 0. sin(s) + x[t]"]
    x, w = np.linspace(0, 1, 5, dtype=np.float32), np.ones(4, np.float32)

    def values() -> list[Any]:
        tl.clear_caches()
        jax.clear_caches()
        f, g = map(tl.parse, texts)
        found = [jax.grad(tl.to_jax(f), (0, 1))(x, w), jax.grad(tl.to_jax(g))(x)]
        return [np.asarray(part).tobytes() for part in jax.tree.leaves(found)]

    first = values()
    kept = entries(cache)
    assert len(kept) > 5
    assert values() == first
    assert entries(cache) == kept


def test_what_is_not_the_same_question_has_another_answer(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i] ^ 2")
    texts = {str(tl.grad(f, wrt)) for wrt in (None, "x", "y", ("y", "x"))}
    assert len(texts) == 4
    assert str(tl.grad(tl.parse("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i] ^ 3"))) not in texts
    assert str(tl.grad(tl.parse("f(x: [n]R, z: [n]R) = sum i:n. x[i] * z[i] ^ 2"))) not in texts
    product = tl.parse("c(x: [n]R, w: [m]R) = gen i:n - m + 1. sum j:m. x[i + j] * w[j]")
    sources = [tl.lower(product, exact=exact)._form(()).made.runnable for exact in (False, True, False, True)]
    assert sources[:2] == sources[2:]
    assert sources[0] != sources[1]
    count = len(entries(cache))
    table = cache.with_name("costs.json")
    table.write_text(json.dumps({"fft_taps": 77}))
    monkeypatch.setenv("TENSORLANG_COSTS", str(table))
    assert "77" in source(product)
    assert len(entries(cache)) == count + 1
    begun = disk._begun
    assert begun is not None
    for k in range(len(begun)):  # from another version, or with another JAX
        monkeypatch.setattr(disk, "_begun", (*begun[:k], "another", *begun[k + 1 :]))
        monkeypatch.setattr(disk, "_sources", lambda: disk._begun[-1])
        before = len(entries(cache))
        tl.grad(f)
        assert len(entries(cache)) == before + 1


def test_nothing_is_kept_once_the_sources_have_changed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_sources", lambda: "edited")
    tl.grad(tl.parse(TEXT))
    assert not cache.exists()


def test_programs_that_call_functions_of_users_are_not_kept(cache: Path) -> None:
    name = f"cubed{time.time_ns()}"
    source = "({0} * {0} * {0})"
    tl.scalar_function(name, derivative=lambda x, y: 3 * x * x, cost=2, evaluate=lambda x: x**3, source=source)
    tl.grad(tl.function(lambda x: tl.sum(3, lambda i: tl.call(name, x[i])), x=tl.R[3]))
    assert not cache.exists()
    f = tl.parse("f(x: [n]R) = sum i:n. x[i] * x[i]")
    n = tl.sizes("n")

    @tl.adjoint_of(f)
    def rule(x: tl.R[n], y: tl.R, y_bar: tl.R):  # type: ignore[no-untyped-def, valid-type]
        return tl.gen(n, lambda i: 2 * y_bar * x[i] + 0 * y)

    kept = entries(cache)  # from the check of the rule
    made = tl.grad(f)
    assert entries(cache) == kept
    other = tl.parse("f(x: [n]R) = sum i:n. x[i] * x[i]")  # of the same text
    assert tl.grad(other)(np.ones(2, np.float32))[0] == made(np.ones(2, np.float32))[0] == 2
    assert len(entries(cache)) > len(kept)


def test_damaged_entries_are_made_anew(cache: Path) -> None:
    f = tl.parse(TEXT)
    g = str(tl.grad(f))
    (path,) = entries(cache)
    whole = path.read_bytes()
    rng = random.Random(0)
    broken = [
        b"",
        whole[:-1],
        whole[: len(whole) // 2],
        whole + b" ",
        whole.replace(b"tensorlang 1", b"tensorlang 2", 1),
    ]
    for _ in range(40):
        k = rng.randrange(len(whole))
        broken.append(whole[:k] + bytes([whole[k] ^ 1 << rng.randrange(8)]) + whole[k + 1 :])
    for data in broken:
        path.write_bytes(data)
        assert str(tl.grad(f)) == g
        assert path.read_bytes() == whole


def test_answers_that_are_none_are_made_anew(cache: Path) -> None:
    """With a correct digest, as if somebody with access had written them."""
    f = tl.parse(TEXT)
    g = str(tl.grad(f))
    (path,) = entries(cache)
    head, body = path.read_bytes().split(b"\n", 1)
    question = body[: int(head.split()[2])]
    answer = json.loads(body[len(question) :])
    rng = random.Random(0)
    wrong: list[Any] = [None, [], 3, [[0, 0, 0], [], [10**9]], [[0, 0, 0], [[99]], [0]], [[0, 0, 0], [[0, 1, 2]], [-2]]]
    wrong += ["[" * 100_000, [[1e9, 0, 0], [], [0]]]
    for _ in range(80):
        rows = [list(row) for row in answer[1]]
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice([None, -1, 10**6, "x", [1, 2], True, 1.5, {}])
        wrong.append([answer[0], rows, answer[2]])
    for each in wrong:
        data = each.encode() if isinstance(each, str) else json.dumps(each).encode()
        disk.write(question, data)
        try:
            read = str(tl.grad(f))
        except tl.TensorlangError as error:
            raise AssertionError(each) from error
        if json.loads(path.read_bytes().split(b"\n", 1)[1][len(question) :] or b"0") == answer:
            assert read == g


def test_the_whole_question_is_compared(cache: Path) -> None:
    f, other = tl.parse(TEXT), tl.parse("g(x: [n]R) = sum i:n. x[i] ^ 3")
    g, h = str(tl.grad(f)), str(tl.grad(other))
    one, two = entries(cache)
    contents = one.read_bytes()
    one.write_bytes(two.read_bytes())  # as if their digests were the same
    two.write_bytes(contents)
    assert (str(tl.grad(f)), str(tl.grad(other))) == (g, h)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_what_others_may_write_to_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse(TEXT)
    tl.grad(f)
    (path,) = entries(cache)
    assert [where.stat().st_mode & 0o777 for where in (cache, path.parent, path)] == [0o700, 0o700, 0o600]
    question = path.read_bytes().split(b"\n", 1)[1]
    question = question[: int(path.read_bytes().split()[2])]
    assert disk.read(question) is not None
    for where, mode, own in [(path, 0o666, 0o600), (path, 0o620, 0o600), (cache, 0o777, 0o700), (cache, 0o770, 0o700)]:
        where.chmod(mode)
        assert disk.read(question) is None
        where.chmod(own)
    linked = cache.with_name("linked")
    path.rename(linked)
    path.symlink_to(linked)
    assert disk.read(question) is None
    path.unlink()
    linked.rename(path)
    cache.with_name("elsewhere").symlink_to(cache)
    monkeypatch.setenv(disk.VARIABLE, str(cache.with_name("elsewhere")))
    assert disk.read(question) is None
    monkeypatch.setenv(disk.VARIABLE, str(cache))
    assert disk.read(question) is not None
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)  # as if somebody else had written it
    assert disk.read(question) is None
    assert disk.directory() is None


def test_a_directory_that_cannot_be_written_to_does_no_harm(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file")
    assert tl.grad(tl.parse(TEXT))
    monkeypatch.setenv(disk.VARIABLE, "/proc/nothing/here")
    assert tl.grad(tl.parse(TEXT))
    monkeypatch.setenv(disk.VARIABLE, "x" * 5000)
    assert tl.grad(tl.parse(TEXT))


def test_entries_are_bounded_and_the_oldest_go(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MOST", 16 * 10_000)
    questions = [str(k).encode() for k in range(600)]
    for k, question in enumerate(questions):
        disk.write(question, bytes(1000))
        if k % 50 == 0:
            assert disk.read(questions[0]) is not None  # used entries are kept
            time.sleep(0.01)
    count, taken = disk.usage()
    assert 0 < taken <= disk.MOST
    assert disk.read(questions[-1]) is not None
    assert disk.read(questions[0]) is not None
    disk.write(b"large", bytes(disk.MOST))
    assert disk.read(b"large") is None
    assert count == len(entries(cache))
    disk.clear()
    assert disk.usage() == (0, 0)


def test_it_can_be_turned_off_and_cleared(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.parse(TEXT)
    monkeypatch.setenv(disk.VARIABLE, "off")
    tl.grad(f)
    assert not cache.exists()
    assert CliRunner().invoke(main, ["cache"]).output == "nothing is kept on disk\n"
    monkeypatch.setenv(disk.VARIABLE, str(cache))
    tl.grad(f)
    about = json.loads(CliRunner().invoke(main, ["cache", "--format", "json"]).output)
    assert (about["directory"], about["entries"], about["used"]) == (str(cache), 1, True)
    tl.clear_caches()
    assert entries(cache)
    tl.clear_caches(disk=True)
    assert not entries(cache)
    tl.grad(f)
    assert "1 entries" in CliRunner().invoke(main, ["cache"]).output
    assert "0 entries" in CliRunner().invoke(main, ["cache", "--clear"]).output
    cache.chmod(0o777)
    assert "is not used" in CliRunner().invoke(main, ["cache"]).output


def test_limits_hold_for_what_is_read(cache: Path) -> None:
    f = tl.parse(TEXT)
    tl.grad(f)
    with pytest.raises(LimitError), tl.limits(steps=1):
        tl.grad(f)


def test_what_is_made_quickly_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "LEAST", 1000.0)
    tl.grad(tl.parse(TEXT))
    assert not cache.exists()


def test_what_is_no_program_is_refused() -> None:
    for value in (object(), [1], {"a": 1}, 1.5, b"x", replace):
        with pytest.raises(EncodingRefused):
            Encoding().encode(value)


AGAIN = """
import sys
import tensorlang as tl
from tensorlang.language import recall
from tensorlang.language.affine import Size, atom_affine
recall.LEAST = 0.0
f = tl.grad(tl.parse("f(x: [n]R, w: [m]R) = sum i:n, j:m. [i < j] * sin(x[i]) * w[j]"))
print(f([1.0, 2.0], [1.0, 1.0, 1.0]))
print(*sorted(sys.modules), sep="\\n")
"""


def test_a_second_process_imports_nothing_that_makes_code(cache: Path) -> None:
    first, second = [
        subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]
    assert first[0] == second[0]
    gone = {"tensorlang.lowering.emit.module", "tensorlang.lowering.arrays.program", "tensorlang.lowering.plan.passes"}
    assert gone <= set(first)
    assert not gone & set(second)


PROCESS = """
import random, sys
import tensorlang as tl
from tensorlang import disk
from tensorlang.language import recall
from tensorlang.language.affine import Size, atom_affine
recall.LEAST = 0.0
disk.MOST = 16 * 5_000  # so that entries go while others are read
texts = [f"f{k}(x: [n]R) = sum i:n. [i < {k}] * sin({k} * x[i])" for k in range(8)]
random.Random(int(sys.argv[1])).shuffle(texts)
for text in texts * 3:
    print(tl.grad(tl.parse(text)))
"""


def test_several_processes_share_it(cache: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(k)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for k in range(3)
    ]
    texts = [f"f{k}(x: [n]R) = sum i:n. [i < {k}] * sin({k} * x[i])" for k in range(8)]
    expected = sorted(str(tl.grad(tl.parse(text))) for text in texts * 3)
    for process in running:
        out, err = process.communicate(timeout=120)
        assert not err
        assert sorted(_programs(out)) == expected
    assert not list(cache.glob("*/partial-*"))


def _programs(printed: str) -> list[str]:
    """The programs in the output of a process: a line that is not indented begins one."""
    found: list[str] = []
    for line in printed.splitlines():
        if line.startswith(" "):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found
