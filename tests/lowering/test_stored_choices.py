"""Choices that adjoints make of what steps store are made by these steps, which store the places instead."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.plan.recurrences import staged
from tensorlang.lowering.plan.stages import Turn
from tests.promises.test_mixtures import same
from tests.support.traced import work

HEAD = "f(A: [n][n]R, B: [m][n]R, p: [n]R, k: [n]idx(n), E: rel(n, n)) = "

CHOOSING = {
    "greatest": "let l = fold t:m with s = p. gen j:n. B[t, j] + max i:n. s[i] + A[i, j] in sum j:n. l[j]^2",
    "least": "let l = fold t:m with s = p. gen j:n. B[t, j] + min i:n. s[i] * A[i, j] in sum j:n. l[j] * p[j]",
    "both": """let l = fold t:m with s = p. gen j:n. tanh((max i:n. s[i] + A[i, j]) - min i:n. s[i] * A[j, i]) in
      sum j:n. l[j]^2""",
    "at all times": """let l = scan t:m with s = p. gen j:n. B[t, j] + max i:n. s[i] + A[i, j] in
      sum t:m, j:n. l[t, j]^2""",
    "backwards": """let l = scan reversed t:m with s = p. gen j:n. B[t, j] + max i:n. s[i] + A[i, j] in
      sum t:m, j:n. l[t, j] * B[t, j]""",
    "up to each": """let l = fold t:m with s = p. gen j:n. B[t, j] + max i:n where i <= j. s[i] + A[i, j] in
      sum j:n. l[j]^2""",
    "in windows": """let l = fold t:m with s = p.
      gen j:n. B[t, j] + min i:n where j <= i and i <= j + 2. s[i] + A[j, i] in sum j:n. l[j]^2""",
    "among neighbours": """let l = fold t:m with s = p.
      gen j:n. B[t, j] + [exists i:n. E(i, j)] * max i:n where E(i, j). s[i] + A[j, i] in sum j:n. l[j]^2""",
    "at indices": """let l = fold t:m with s = p. gen j:n. B[t, j] + max i:n. s[k[i]] + A[i, k[j]] in
      sum j:n. l[k[j]] * l[j]""",
    "the place itself": """let l = fold t:m with s = p.
      (let a = gen j:n. argmax i:n. s[i] + A[i, j] in gen j:n. s[a[j]] * A[a[j], j] + B[t, j]) in sum j:n. l[j]^2""",
    "of a matrix": """let l = fold t:m with s = A. gen i:n, j:n. (max q:n. s[i, q] * A[q, j]) + B[t, j] in
      sum i:n, j:n. l[i, j]^2""",
    "of pairs": """let l = fold t:m with s = (p, p).
      (gen j:n. B[t, j] + max i:n. snd(s)[i] + A[i, j], gen j:n. fst(s)[j] * max i:n. fst(s)[i]) in
      sum j:n. fst(l)[j] * snd(l)[j]""",
    "one after the other": """let l = scan t:m with s = p. gen j:n. B[t, j] + max i:n. s[i] + A[i, j] in
      let r = fold t:m with s = p. gen j:n. l[t, j] * s[j] + max i:n. s[i] * A[j, i] in sum j:n. r[j]""",
}

OTHERS = {
    "up to the time": """let l = fold t:m with s = p. gen j:n. B[t, j] + max i:n where i <= j + t. s[i] + A[j, i] in
      sum j:n. l[j]^2""",
    "twice from one array": """let l = fold t:m with s = p. (let y = gen i:n, j:n. s[j] * A[j, i] in
      gen i:n. (max j:n. y[i, j]) * (min j:n. y[i, j])) in sum j:n. l[j]""",
    "in a recurrence within": """let l = fold t:m with s = p.
      (fold u:m with r = s. gen j:n. B[t, j] + max i:n. r[i] + A[i, j]) in sum j:n. l[j]^2""",
    "under a condition": """let l = fold t:m with s = p.
      if 0 < (sum q:n. B[t, q]) then s else gen j:n. B[t, j] + max i:n. s[i] + A[i, j] in sum j:n. l[j]^2""",
}

PROGRAMS = CHOOSING | OTHERS


def adjoint(name: str) -> tl.Function:
    return tl.adjoint(tl.parse(HEAD + PROGRAMS[name]), ("A", "B", "p"))


def arguments(n: int, m: int) -> dict[str, Any]:
    rng = np.random.default_rng(n + 10 * m)
    given: dict[str, Any] = {"A": rng.normal(size=(n, n)), "B": rng.normal(size=(m, n)), "p": rng.normal(size=n)}
    return given | {"k": rng.integers(0, max(n, 1), size=n), "E": rng.random((n, n)) < 0.4, "f_bar": 0.7}


@pytest.mark.parametrize("name", CHOOSING)
def test_steps_give_the_places(name: str) -> None:
    g = adjoint(name)
    turns = [part for part in staged(g).parts if isinstance(part, Turn)]
    assert any(turn.chosen for turn in turns)
    assert not any(turn.chosen for turn in staged(g, chooses=False).parts if isinstance(turn, Turn))  # for kernels
    for store in ("states", "sqrt", "log"):  # these promise what they keep, and compute the rest again
        assert not any(turn.chosen for turn in staged(g, store=store).parts if isinstance(turn, Turn))


@pytest.mark.parametrize(("n", "m"), [(0, 0), (0, 2), (1, 0), (1, 1), (2, 3), (4, 0), (7, 5), (26, 4)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_right(name: str, n: int, m: int) -> None:
    g, given = adjoint(name), arguments(n, m)
    if name == "of a matrix" and n > 9:
        return  # the reference takes too much memory
    with jax.enable_x64(True):
        assert same(tl.lower(g)(**given), tl.evaluate(g, **given))


@pytest.mark.parametrize("name", ["greatest", "at all times", "up to each", "of pairs"])
def test_gradients_of_gradients_and_vmap_are_those_of_jax(name: str) -> None:
    given = arguments(5, 4)
    of = tl.to_jax(tl.parse(HEAD + CHOOSING[name]))
    plain = {
        "greatest": lambda s, A, b: b + (s[:, None] + A).max(0),
        "at all times": lambda s, A, b: b + (s[:, None] + A).max(0),
        "up to each": lambda s, A, b: b + jax.numpy.where(np.tri(5).T > 0, s[:, None] + A, -np.inf).max(0),
        "of pairs": lambda s, A, b: (b + (s[1][:, None] + A).max(0), s[0] * s[0].max()),
    }[name]

    def f(A: Any, B: Any, p: Any) -> Any:
        return of(A, B, p, given["k"], given["E"])

    def by_jax(A: Any, B: Any, p: Any) -> Any:
        def step(s: Any, b: Any) -> Any:
            s = plain(s, A, b)
            return s, s

        last, every = jax.lax.scan(step, (p, p) if name == "of pairs" else p, B)
        if name == "of pairs":
            return (last[0] * last[1]).sum()
        return ((every if name == "at all times" else last) ** 2).sum()

    def twice(h: Any) -> Any:
        return jax.grad(lambda *x: sum((g**2).sum() for g in jax.grad(h, (0, 1, 2))(*x)), (0, 1, 2))

    with jax.enable_x64(True):
        x = [given[name] for name in ("A", "B", "p")]
        several = [np.stack([y, 0.9 * y]) for y in x]
        for make in (lambda h: jax.value_and_grad(h, (0, 1, 2)), twice):
            assert same(make(f)(*x), make(by_jax)(*x))
            assert same(jax.jit(jax.vmap(make(f)))(*several), jax.vmap(make(by_jax))(*several))


def test_half_precision_keeps_the_places() -> None:
    g = adjoint("greatest")
    given = {name: x for name, x in arguments(700, 2).items() if name in ("A", "B", "p", "f_bar")}
    half = {name: jax.numpy.asarray(x, jax.numpy.bfloat16) for name, x in given.items()}
    found = tl.lower(g)(**half, k=np.zeros(700, int), E=np.zeros((700, 700), bool))
    s = half["p"]
    for b in half["B"]:
        s, places = b + (s[:, None] + half["A"]).max(0), (s[:, None] + half["A"]).argmax(0)
    rows = np.asarray(found[0] if isinstance(found, tuple) else found, np.float32)
    assert set(np.flatnonzero(rows.any(1))) >= set(np.asarray(places)[np.asarray(s, np.float32) != 0])


def test_what_is_chosen_from_is_not_stored() -> None:
    """Twice the steps write twice as much, and twice the places four times as much."""
    g = tl.lower(adjoint("greatest"))
    kept = tl.memory_polynomial(adjoint("greatest"))
    assert "n^2" not in str(kept), kept
    spent = [work(g, *arguments(n, m).values()).elements for n, m in ((32, 8), (32, 16), (64, 8))]
    assert spent[1] <= 2.1 * spent[0], spent
    assert spent[2] <= 4.2 * spent[0], spent
