"""States that steps change at a few places: only these are written, in gradients as well, and nothing reads the
rest."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tensorlang.language.arguments import bind
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape
from tensorlang.lowering.arrays.check import why_not
from tensorlang.lowering.arrays.interpret import interpret
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.module import Source
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Turn
from tensorlang.measure.count import count
from tensorlang.normal.recurrences import has_recurrences
from tests.support.traced import work

LINE = "f(s0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) = let s = fold t:T with s = s0. gen i:n. {} in sum i:n. s[i]^2"
TABLE = (
    "f(s0: [n][d]R, v: [T][d]R, k: [T]idx(n), m: [T]idx(n)) = let s = fold t:T with s = s0. gen i:n, j:d. {} in "
    "sum i:n, j:d. s[i, j]^2"
)
SQUARE = (
    "f(s0: [n][n]R, v: [T][n]R, k: [T]idx(n), m: [T]idx(n)) = let s = fold t:T with s = s0. gen i:n, j:n. {} in "
    "sum i:n, j:n. s[i, j]^2"
)
STEPS = {
    "added at a place": LINE.format("s[i] + [i = k[t]] * v[t]"),
    "what another place says is added": LINE.format("s[i] + [i = k[t]] * sin(v[t] * s[m[t]])"),
    "put in a place": LINE.format("[i != k[t]] * s[i] + [i = k[t]] * sin(v[t] * s[k[t]])"),
    "taken away": LINE.format("[i != k[t]] * s[i] - [i = m[t]] * s[m[t]] * v[t]"),
    "at two places, which may be the same": LINE.format("s[i] + [i = k[t]] * s[m[t]] + [i = m[t]] * v[t] * s[k[t]]"),
    "two places change what they have": LINE.format(
        "[i != k[t] and i != m[t]] * s[i] + [i = k[t]] * v[t] * s[m[t]] + [i = m[t] and m[t] != k[t]] * s[k[t]]"
    ),
    "under a condition on data": LINE.format(
        "[i = k[t] and m[t] = 0] * sin(v[t] * s[i]) + [not (i = k[t] and m[t] = 0)] * s[i]"
    ),
    "the place after that of the step before": LINE.format("s[i] + [0 < t and i = k[t - 1]] * sin(v[t] * s[k[t]])"),
    "where the next step is, if there is one": LINE.format("s[i] + [t + 1 < T and i = k[t + 1]] * sin(v[t] * s[m[t]])"),
    "a place that a number says": LINE.format("[0 < i] * s[i] + [i = 0] * sin(v[t] * s[0])"),
    "beside a place": LINE.format("s[i] + [i = k[t]] * sin(v[t] * ([0 < k[t]] * s[k[t] - 1]))"),
    "the greater of two": LINE.format("[i != k[t]] * s[i] + [i = k[t]] * max(s[k[t]], v[t] + s[m[t]])"),
    "added to a row": TABLE.format("s[i, j] + [i = k[t]] * tanh(v[t, j] * s[m[t], j])"),
    "a row without its first element": TABLE.format("s[i, j] + [i = k[t] and 0 < j] * v[t, j] * s[m[t], j - 1]"),
    "a row is put in": TABLE.format("[i != k[t]] * s[i, j] + [i = k[t]] * tanh(v[t, j] * s[m[t], j])"),
    "a row and a column": SQUARE.format("s[i, j] + [i = k[t]] * v[t, j] * s[m[t], j] - [j = m[t]] * s[i, k[t]]"),
    "an element": SQUARE.format("s[i, j] + [i = k[t] and j = m[t]] * sin(v[t, i] * s[m[t], k[t]])"),
    "an element is put in": SQUARE.format(
        "[not (i = k[t] and j = m[t])] * s[i, j] + [i = k[t] and j = m[t]] * sin(v[t, i] * s[m[t], k[t]])"
    ),
    "the diagonal": SQUARE.format("s[i, j] + [i = j] * sin(v[t, i] * s[i, j])"),
    "a column for which each row has another place": """
        f(s0: [b][n]R, v: [T][b]R, k: [T][b]idx(n), m: [T][b]idx(n)) =
          let s = fold t:T with s = s0. gen c:b, i:n. s[c, i] + [i = k[t, c]] * sin(v[t, c] * s[c, m[t, c]]) in
          sum c:b, i:n. s[c, i]^2""",
    "at several places, which may be the same": """
        f(s0: [n][d]R, v: [T][q][d]R, k: [T][q]idx(n)) =
          let s = fold t:T with s = s0.
            gen i:n, j:d. s[i, j] + sum a:q. [i = k[t, a]] * tanh(v[t, a, j] * s[k[t, a], j]) in
          sum i:n, j:d. s[i, j]^2""",
    "two states": """
        f(s0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) =
          let s = fold t:T with s = (s0, 0).
            (gen i:n. fst(s)[i] + [i = k[t]] * sin(v[t] * fst(s)[m[t]]), snd(s) + fst(s)[m[t]] * fst(s)[k[t]]) in
          snd(s)""",
    "two states that change what the other one says": """
        f(s0: [n][d]R, r0: [n][d]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) =
          let s = fold t:T with s = s0, r = r0.
            let e = v[t] - sum j:d. s[k[t], j] * r[m[t], j] in
            (gen i:n, j:d. s[i, j] + [i = k[t]] * (0.1 * e * r[m[t], j] + sin(s[k[t], j])),
             gen i:n, j:d. [i != m[t]] * r[i, j] + [i = m[t]] * (0.1 * e * s[k[t], j] + sin(r[m[t], j]))) in
          sum i:n, j:d. fst(s)[i, j] * snd(s)[i, j]""",
    "under a condition on values": LINE.format("if v[t] < 0 then s[i] else s[i] + [i = k[t]] * v[t] * s[m[t]]"),
    "the place of the greatest": """
        f(s0: [n]R, v: [T]R) =
          let s = fold t:T with s = s0.
            let k = argmax j:n. s[j] in gen i:n. [i != k] * s[i] + [i = k] * sin(v[t] * s[k]) in
          sum i:n. s[i]^2""",
    "with a recurrence in the step": """
        f(s0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) =
          let s = fold t:T with s = s0.
            let w = fold u:T with w = 1. w * sin(v[u] + s[k[u]]) in gen i:n. s[i] + [i = k[t]] * w * s[m[t]] in
          sum i:n. s[i]^2""",
    "where data are related": """
        f(E: rel(n, n), s0: [n]R, v: [T]R, k: [T]idx(n)) =
          let s = fold t:T with s = s0. gen i:n. s[i] + [i = k[t] and E(i, 0)] * v[t] * s[i] in
          sum i:n. s[i]^2""",
    "with an index of the name that what is written gets": """
        f(s0: [n][n]R, v: [T][n]R) =
          let s = fold t:T with s = s0.
            gen new:n, new1:n. s[new, new1] + [new = new1] * sin(v[t, new] * s[new, new1]) in
          sum i:n, j:n. s[i, j]^2""",
    "two places beside each other": LINE.format("s[i] + [k[t] <= i and i <= k[t] + 1] * v[t] * s[m[t]]"),
    "a window is put in": LINE.format(
        "[i < k[t] or k[t] + 2 < i] * s[i] + [k[t] <= i and i <= k[t] + 2] * sin(v[t] * s[i])"
    ),
    "a window that ends before the array": LINE.format(
        "[i < k[t] or k[t] + 2 < i] * s[i] + [k[t] <= i and i <= k[t] + 2 and i + 1 < n] * v[t] * s[i + 1]"
    ),
    "the first elements": LINE.format("[2 < i] * s[i] + [i <= 2] * sin(v[t] * s[m[t]] + s[i])"),
    "a block of rows": TABLE.format("s[i, j] + [k[t] <= i and i < k[t] + 2] * tanh(v[t, j] * s[m[t], j])"),
    "a part of a row": SQUARE.format("s[i, j] + [i = k[t] and m[t] <= j and j <= m[t] + 1] * v[t, j] * s[j, i]"),
    "a square": SQUARE.format(
        "s[i, j] + [k[t] <= i and i <= k[t] + 1 and m[t] <= j and j <= m[t] + 1] * v[t, j] * sin(s[j, i])"
    ),
    "a window of each row": SQUARE.format("s[i, j] + [i <= j and j <= i + 1] * v[t, j] * sin(s[j, i])"),
    "what is in a window changes": LINE.format("s[i] + [k[t] <= i and i < k[t] + 3] * v[t] * sin(s[i])"),
    "a window of rows changes": TABLE.format("s[i, j] + [k[t] <= i and i < k[t] + 2] * v[t, j] * s[i, j] * s[m[t], j]"),
    "one or another stays": LINE.format(
        "[i != k[t] and i != m[t]] * s[i] + [i = k[t]] * s[i] + [m[t] <= i and i < m[t] + 2] * sin(v[t] * s[k[t]])"
    ),
    "two places at all times": """
        f(s0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) =
          let s = prescan t:T with s = s0. gen i:n. s[i] + [i = k[t]] * v[t] * s[m[t]] in
          sum t:T. s[t, k[t]] * sin(s[t, m[t]])""",
    "windows at all times": """
        f(s0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) =
          let s = scan t:T with s = s0. gen i:n. s[i] + [k[t] <= i and i < k[t] + 3] * v[t] * sin(s[i]) in
          sum t:T, i:n. [m[t] <= i and i < m[t] + 2] * s[t, i]^2""",
    "the greatest in a window": LINE.format(
        "s[i] + [i = k[t]] * (max j:n where m[t] <= j and j < m[t] + 3. s[j] * v[t])"
    ),
    "a place that the step finds": LINE.format(
        "s[i] + [i = k[t]] * s[m[t]] * v[t] + [i = m[t]] * (max j:2. s[m[t]] * j + v[t])"
    ),
}
LARGE = sorted(
    {*STEPS}
    - {"a row and a column", "an element", "an element is put in", "the diagonal"}  # their states are squares
    - {"with an index of the name that what is written gets", "a part of a row", "a square", "a window of each row"}
    - {"the place of the greatest", "with a recurrence in the step"}  # these read more than they change
    - {"the greatest in a window"}  # the gradient of this one does
)


def arguments(f: tl.Function, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    number = lambda a: a.value({s: sizes[s.name] for s in a.sizes})
    given: list[Any] = []
    for p in f.params:
        if isinstance(p, Relation):
            given.append(rng.random([number(a) for a in p.sizes]) < 0.5)
        elif isinstance(p, IndexArray):
            given.append(rng.integers(0, max(number(p.size), 1), [number(a) for a in p.sizes]).astype(np.int32))
        else:
            given.append(rng.normal(size=[number(a) for a in shape(p.type)[0]]))
    return given


def is_right(f: tl.Function, sizes: dict[str, int], seed: int = 0) -> None:
    x = arguments(f, sizes, seed)
    for g in (f, tl.grad(f)):
        wanted = jax.tree.leaves(tl.evaluate(g, *x))
        for a, b in zip(jax.tree.leaves(tl.lower(g)(*x)), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(g))


@pytest.mark.parametrize("name", STEPS)
def test_what_steps_write_into_their_states_is_right(name: str) -> None:
    f = tl.parse(STEPS[name])
    with jax.enable_x64(True):
        for n, steps in ((5, 6), (1, 3), (2, 4), (3, 1), (4, 0)):
            is_right(f, {"n": n, "T": steps, "d": 2, "b": 3, "q": 4}, seed=n)


@pytest.mark.parametrize("name", STEPS)
def test_array_programs_of_such_steps_mean_what_these_do(name: str) -> None:
    for g in (tl.parse(STEPS[name]), tl.grad(tl.parse(STEPS[name]))):
        for turn in (part for part in staged(tl.simplify(g)).parts if isinstance(part, Turn)):
            if has_recurrences(turn.step):
                continue
            program = Source(turn.step, in_step=True).program
            assert why_not(program.definition, HELPERS) is None, str(program)
            given = arguments(turn.step, SIZES)
            bound = bind(turn.step, given, {})
            told = {x: bound.sizes[s] for s, x in program.told.items()}
            found, _ = interpret(program.definition, [bound.values[p] for p in turn.step.params], told)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(tl.evaluate(turn.step, *given)), strict=True):
                np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-6, atol=1e-8)


SMALL_AND_LARGE = (512, 32), (1024, 32), (512, 64), (1024, 64)
SIZES = {"n": 5, "T": 6, "d": 2, "b": 3, "q": 4, "window": 4}


@pytest.mark.parametrize("name", LARGE)
def test_steps_take_what_they_change_and_not_their_states(name: str) -> None:
    f = tl.parse(STEPS[name])
    for g in (f, tl.grad(f)):
        elements = [
            work(tl.to_jax(g), *arguments(g, {"n": n, "T": steps, "d": 2, "b": 3, "q": 4})).elements
            for n, steps in SMALL_AND_LARGE
        ]
        assert elements[3] - elements[2] == elements[1] - elements[0], elements  # no part grows as n * T


@pytest.mark.parametrize("name", LARGE)
def test_no_step_copies_its_state(name: str) -> None:
    f = tl.parse(STEPS[name])
    for g in (f, tl.grad(f)):
        copied = [
            count(tl.lower(g), *arguments(g, {"n": 1009, "T": steps, "d": 2, "b": 3, "q": 4})).copied
            for steps in (60, 120)
        ]
        assert copied[1] - copied[0] < 60 * 100, copied


def test_the_greatest_in_a_window_is_looked_for_there() -> None:
    f = tl.parse(STEPS["the greatest in a window"])
    elements = [work(tl.to_jax(f), *arguments(f, {"n": n, "T": steps})).elements for n, steps in SMALL_AND_LARGE]
    assert elements[3] - elements[2] == elements[1] - elements[0], elements


def test_explanations_say_what_is_written_into_the_state() -> None:
    explained = tl.lower(tl.parse(STEPS["put in a place"])).explain()
    assert "what changes is written into the state" in str(explained)
    assert "what changes" not in str(tl.lower(tl.parse(LINE.format("s[i] * v[t]"))).explain())


PLACES = (
    "i = k[t]",
    "i = m[t]",
    "i = n - 1 - k[t]",
    "i = t",
    "i = 0",
    "i = k[t] + 1",
    "k[t] <= i and i <= k[t] + 1",
    "m[t] - 1 <= i and i < m[t] + 2",
)
FURTHER = ("", "", " and 0 < t", " and m[t] < k[t]", " and i < 3", " and t + 1 < T")
VALUES = ("v[t]", "s[m[t]]", "sin(v[t] * s[k[t]])", "s[m[t]] * s[k[t]]", "s[i]", "v[t] * s[n - 1 - m[t]]")
KEPT = (
    "",
    "",
    "[i != {}] * ",
    "[i != {} and i != m[t]] * ",
    "[not (i = {} and 0 < t)] * ",
    "[i < {} or {} + 1 < i] * ",
)


READ = (
    "s[t, k[t]]",
    "sin(s[t, m[t]])",
    "exp(s[t, n - 1 - k[t]])",
    "v[t]",
    "(sum i:n. [k[t] <= i and i < k[t] + 3] * s[t, i])",
    "(sum i:n. [m[t] - 1 <= i and i <= m[t]] * s[t, i]^2)",
    "[{0}] * s[t, k[t]]",
    "(if {1} then s[t, m[t]] else s[t, k[t]])",
)
TIMES = ("0 < t", "m[t] < k[t]", "t + 1 < T")


def random_step(rng: random.Random, state: str = "s", other: str = "s") -> str:
    """An update of `state`, computed from it and another state."""
    kept = rng.choice(KEPT).replace("{}", rng.choice(("k[t]", "m[t]", "0", "n - 1")))
    count = rng.randint(0 if kept else 1, 3)
    terms = []
    for _ in range(count):
        value = rng.choice(VALUES).replace("s[", f"{rng.choice((state, other))}[")
        terms.append(f"[{rng.choice(PLACES)}{rng.choice(FURTHER)}] * {value}")
    return " ".join([f"{kept}{state}[i]", *(f"{rng.choice('+-')} {term}" for term in terms)])


def random_text(rng: random.Random) -> str:
    """A program of one state, at the end or at all times, or of two states, each changed as the other one says."""
    kind = rng.random()
    if kind < 0.4:
        return LINE.format(random_step(rng))
    if kind < 0.6:
        read = " * ".join(rng.choices(READ, k=rng.randint(1, 3)))
        step = f"{rng.choice(('scan', 'prescan'))} t:T with s = s0. gen i:n. {random_step(rng)}"
        return (
            f"f(s0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) = let s = {step} in "
            f"sum t:T. {read.format(*rng.choices(TIMES, k=2))}"
        )
    return (
        "f(s0: [n]R, r0: [n]R, v: [T]R, k: [T]idx(n), m: [T]idx(n)) = let s = fold t:T with s = s0, r = r0. "
        f"(gen i:n. {random_step(rng, 's', 'r')}, gen i:n. {random_step(rng, 'r', 's')}) in "
        "sum i:n. fst(s)[i] * snd(s)[i]"
    )


@pytest.mark.parametrize("seed", range(24))
def test_random_steps_that_write_are_right(seed: int) -> None:
    f = tl.parse(random_text(random.Random(seed)))
    with jax.enable_x64(True):
        for n, steps in ((4, 5), (1, 2), (6, 3)):
            is_right(f, {"n": n, "T": steps}, seed)


@pytest.mark.parametrize("seed", range(24))
def test_random_steps_do_not_copy_their_states(seed: int) -> None:
    f = tl.parse(random_text(random.Random(seed)))
    for g in (f, tl.grad(f)):
        copied = [count(tl.lower(g), *arguments(g, {"n": 1009, "T": steps})).copied for steps in (60, 120)]
        assert copied[1] - copied[0] < 60 * 100, copied
