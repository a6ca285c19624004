"""Programs cost what their brute-force support costs, up to a stated factor: the points that are nonzero and read.

For each random program of masks, prefix sums, suffixes, windows and sums of diagonals, its matrices are evaluated
densely, and the necessary operations are counted from their points: for each point at which a matrix is nonzero and its
reader reads it, the operations of its right-hand side. The program, simplified, and its adjoint must cost at most
`FACTOR` (`VECTORS` where vectors are made of vectors) and `ADJOINT` times that, inputs and outputs included.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

import tensorlang as tl
from tests.support.traced import work

FACTOR, VECTORS, ADJOINT = 1, 1.25, 4
N = 24

MASKS = {
    "j <= i": lambda i, j: j <= i,
    "i <= j": lambda i, j: i <= j,
    "i - 3 <= j <= i": lambda i, j: (i - 3 <= j) & (j <= i),
    "i - 2 <= j <= i + 2": lambda i, j: abs(i - j) <= 2,
    "i = j": lambda i, j: i == j,
    "i = j + 1": lambda i, j: i == j + 1,
    "i <= 4": lambda i, j: (i <= 4) & (j >= 0),
    "j = 2": lambda i, j: (j == 2) & (i >= 0),
}
ROW, COLUMN = np.indices((N, N))


@dataclass
class Chain:
    """Matrices, each computed from the one before, point by point, under a condition; then a sum of the last."""

    text: str
    needed: int


def chain(seed: int) -> Chain:
    rng = random.Random(seed)
    lets, counts, conditions = [], [], []
    before = "x[i] * y[j]"
    for k in range(rng.randint(1, 4)):
        operations, wrap = rng.choice(
            [(1, "sin({})"), (1, "({}) * z[i, j]"), (2, "tanh({}) * x[j]"), (1, "relu({})"), (1, "({}) ^ 2")]
        )
        operations += k == 0  # the product to start from
        masked = rng.random() < 0.5
        conditions.append(rng.choice(sorted(MASKS)) if masked else None)
        mask = f"[{conditions[-1]}] * " if masked else ""
        lets.append(f"let m{k} = gen i:n, j:n. {mask}{wrap.format(before)} in")
        counts.append(operations)
        before = f"m{k}[i, j]"
    last = rng.choice(sorted(MASKS))
    kind = rng.choice(["all", "rows", "diagonals"])
    support = np.ones((N, N), bool)
    for condition in (*(c for c in conditions if c), last):
        support &= MASKS[condition](ROW, COLUMN)
    points = int(support.sum())
    # every one of these functions is 0 at 0, so nothing is needed outside of the support of all
    needed = points * (sum(counts) + 1)
    if kind == "all":
        end = f"sum i:n, j:n. [{last}] * {before}"
    elif kind == "rows":
        end = f"gen i:n. sum j:n. [{last}] * {before}"
    else:
        other = rng.choice(["i = j", "i = j + 1", "j = i + 1"])
        end = f"gen i:n, j:n. [{last}] * {before} + [{other}] * x[i]"
    text = "f(x: [n]R, y: [n]R, z: [n][n]R) =\n  " + "\n  ".join([*lets, end])
    return Chain(text, needed)


@pytest.mark.parametrize("start", [0, 140, *(pytest.param(k, marks=pytest.mark.slow) for k in range(160, 400, 20))])
def test_programs_and_adjoints_cost_what_their_supports_do(start: int) -> None:
    for seed in range(start, start + 20):
        c = chain(seed)
        f = tl.parse(c.text)
        spent = tl.cost(tl.simplify(f), n=N)
        assert spent <= FACTOR * c.needed + 2 * N, (seed, c.text, spent, c.needed)
        read = 2 * N + c.needed  # inputs and outputs at points of the support
        spent = tl.cost(tl.adjoint(f), n=N)
        assert spent <= ADJOINT * (c.needed + read), (seed, c.text, spent, c.needed)


# vectors

ENDS_OF_SUMS = {
    "j <= i": lambda i, j: j <= i,
    "j < i": lambda i, j: j < i,
    "i <= j": lambda i, j: i <= j,
    "i - 5 <= j <= i": lambda i, j: (i - 5 <= j) & (j <= i),
    "i <= j < i + 3": lambda i, j: (i <= j) & (j < i + 3),
    "i - 8 <= j <= i + 8": lambda i, j: abs(i - j) <= 8,
}
ROWS = {
    "": lambda i: i >= 0,
    "[3 <= i] * ": lambda i: i >= 3,
    "[i + 4 <= n] * ": lambda i: i <= N - 4,
    "[i <= 10] * ": lambda i: i <= 10,
}
TERMS = [("{}[j]", 0, 0), ("y[j] * {}[j]", 1, 0), ("{}[j] * y[i]", 0, 1), ("sin({}[j]) * y[i]", 1, 1)]
"""Terms of a sum over j of the array before, with the operations for each j, and for each sum."""
AROUND = [("{}", 0), ("y[i] * ({})", 1), ("tanh({})", 1), ("({}) * ({})", 1)]
LAST = {
    "gen i:n. {}[i] * y[i]": lambda i: i >= 0,
    "sum i:n. {}[i]^2": lambda i: i >= 0,
    "sum i:n. [i <= 4] * {}[i]^2": lambda i: i <= 4,
    "gen i:n. [n <= i + 3] * {}[i] * y[i]": lambda i: i >= N - 3,
}


def running(seed: int) -> Chain:
    """Vectors, each computed from sums of the one before, up to its place, from its place on, or in a window."""
    rng = random.Random(seed)
    place = np.arange(N)
    lets, steps, before = [], [], "x"
    there = place >= 0  # where the vector before is nonzero
    for k in range(rng.randint(1, 4)):
        ends, (term, of_each, of_sum), (around, of_row) = (
            rng.choice(sorted(ENDS_OF_SUMS)),
            *map(rng.choice, (TERMS, AROUND)),
        )
        mask = rng.choice(sorted(ROWS))
        total = f"sum j:n. [{ends}] * {term.format(before)}"
        lets.append(f"let v{k} = gen i:n. {mask}({around.format(total, total)}) in")
        pairs = ENDS_OF_SUMS[ends](ROW, COLUMN) & there
        there = ROWS[mask](place) & pairs.any(1)
        steps.append((pairs, there, of_each, of_sum + of_row))
        before = f"v{k}"
    end = rng.choice(sorted(LAST))
    wanted = LAST[end](place) & there
    needed = 2 * int(wanted.sum())
    for pairs, there, of_each, of_row in reversed(steps):
        wanted = wanted & there
        used = pairs & wanted[:, None]
        needed += int(used.sum()) + of_each * int(used.any(0).sum()) + of_row * int(wanted.sum())
        wanted = used.any(0)
    return Chain("f(x: [n]R, y: [n]R) =\n  " + "\n  ".join([*lets, end.format(before)]), needed)


@pytest.mark.parametrize("start", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(8, 96, 8))])
def test_running_sums_and_windows_cost_the_points_that_are_read(start: int) -> None:
    """As the model counts them: a point each, whatever runs."""
    for seed in range(start, start + 8):
        c = running(seed)
        f = tl.parse(c.text)
        spent = tl.cost(tl.simplify(f), n=N)
        assert not c.needed or spent <= VECTORS * c.needed + 3 * N, (seed, c.text, spent, c.needed)
        spent = tl.cost(tl.adjoint(f), n=N)
        assert spent <= ADJOINT * (c.needed + 3 * N), (seed, c.text, spent, c.needed)


@pytest.mark.parametrize("start", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 64, 4))])
def test_running_sums_and_windows_run_in_a_few_passes_for_each(start: int) -> None:
    """The code computes some elements for each place of each vector, whatever the ranges of the sums."""
    n, x = 1024, np.ones(1024, np.float32)
    for seed in range(start, start + 4):
        f = tl.parse(running(seed).text)
        vectors = str(f).count("sum") + 1
        bar = x if str(f.type) != "R" else np.float32(1)
        assert work(tl.lower(f), x, x).elements <= 20 * n * vectors, (seed, str(f))
        assert work(tl.lower(tl.adjoint(f)), x, x, bar).elements <= 60 * n * vectors, (seed, str(f))


SUMS = {
    "prefix sums": ("sum j:n. [j <= i] * x[j]", "sum j:n. [i <= j] * x[j]"),
    "suffixes": ("sum j:n. [i <= j] * x[j]", "sum j:n. [j <= i] * x[j]"),
    "windows": ("sum j:n. [i - 5 <= j <= i] * x[j]", "sum j:n. [j - 5 <= i <= j] * x[j]"),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("outer", ["", "y[i] * "])
def test_sums_up_to_their_place_cost_their_points(name: str, outer: str) -> None:
    """As the model counts them: a point each, whatever runs."""
    body, transposed = SUMS[name]
    f = tl.parse(f"f(x: [n]R, y: [n]R) = gen i:n. {outer}{body}")
    points = tl.cost(tl.parse(f"f(x: [n]R) = gen i:n. {body}"), n=N) + N
    assert tl.cost(tl.simplify(f), n=N) == points - N + (N if outer else 0)
    back = tl.cost(tl.parse(f"f(x: [n]R) = gen i:n. {transposed}"), n=N)
    assert tl.cost(tl.adjoint(f, "x"), n=N) == back + (N if outer else 0)
