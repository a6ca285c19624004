"""Statements of one form are written once, with the same results."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.arrays.program import ArrayProgram
from tests.support.sampling import one_in

BLOCKS = {
    "attention": (
        "f(y0: [n][m + 1]R, w: [n][n]R) = ",
        "let s{b} = gen i:n, j:n. [j <= i] * exp(sum d:m + 1. y{a}[i, d] * y{a}[j, d] * 0.1) in "
        "let z{b} = gen i:n. sum j:n. s{b}[i, j] in "
        "let y{b} = gen i:n, d:m + 1. sum j:n. s{b}[i, j] * y{a}[j, d] / z{b}[i] in ",
        "sum i:n, d:m + 1. y{a}[i, d]",
    ),
    "windows of products": (
        "f(y0: [n][m + 1]R, w: [n][n]R) = ",
        "let v{b} = gen i:n, d:m + 1. sum j:n. [i - 2 <= j <= i + 1] * w[i, j] * y{a}[j, d] in "
        "let y{b} = gen i:n, d:m + 1. tanh(v{b}[i, d]) + [0 < i] * y{a}[i - 1, d] in ",
        "gen i:n. sum d:m + 1. y{a}[i, d]",
    ),
    "maxima and conditions": (
        "f(y0: [n][m + 1]R, w: [n][n]R) = ",
        "let u{b} = gen i:n. max j:n. w[i, j] * y{a}[j, 0] in "
        "let y{b} = gen i:n, d:m + 1. if u{b}[i] < y{a}[i, d] then u{b}[i] * y{a}[i, d] else y{a}[i, d] in ",
        "sum i:n, d:m + 1. y{a}[i, d]",
    ),
    "diagonals beside arrays": (
        "f(y0: [n][m + 1]R, w: [n][n]R) = ",
        "let d{b} = gen i:n, j:n. [i = j] * w[i, j] in "
        "let y{b} = gen i:n, k:m + 1. (sum j:n. d{b}[i, j] * y{a}[j, k]) + (sum j:n. w[i, j] * y{a}[j, k]) in ",
        "sum i:n, d:m + 1. y{a}[i, d]",
    ),
}


def repeated(name: str, count: int) -> tl.Function:
    """A program of `count` equal blocks."""
    head, block, tail = BLOCKS[name]
    blocks = "".join(block.format(a=k, b=k + 1) for k in range(count))
    return tl.parse(head + blocks + tail.format(a=count))


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, BLOCKS))
def test_repeated_blocks_are_what_they_are(name: str) -> None:
    f = repeated(name, 3)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for g in (f, tl.adjoint(f)):
            run = tl.lower(g)
            for n, m in ((1, 0), (2, 1), (7, 2), (23, 0)):
                given: list[Any] = [rng.normal(size=(n, m + 1)), rng.normal(size=(n, n))]
                if g is not f:
                    given.append(rng.normal(size=np.shape(tl.evaluate(f, *given))))
                for x, y in zip(jax.tree.leaves(run(*given)), jax.tree.leaves(tl.evaluate(g, *given)), strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)


# choices have a form of their own
@pytest.mark.parametrize("name", [name for name in BLOCKS if "max " not in BLOCKS[name][1]])
def test_as_many_statements_are_written_for_many_blocks_as_for_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = ArrayProgram._written

    def noting(self: Any, held: Any, *given: Any) -> Any:
        written.append(held.name)
        return write(self, held, *given)

    monkeypatch.setattr(ArrayProgram, "_written", noting)
    numbers = []
    for count in (6, 12):
        written.clear()
        steps = tl.lower(repeated(name, count)).explain().steps
        numbers.append(len(written))
        assert len(steps) >= count
    assert numbers[0] == numbers[1]


def test_what_repeats_is_explained_as_what_it_reads() -> None:
    steps = tl.lower(repeated("windows of products", 4)).explain().steps
    texts = [line for step in steps for line in step.lines() if "computed" in line]
    assert any("y3" in line for line in texts)
    assert all(step.strategies for step in steps if step.name.startswith("v"))
