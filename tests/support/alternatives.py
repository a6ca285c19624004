"""Random programs under alternatives of few points each: windows, blocks, columns, rows and diagonals."""

from __future__ import annotations

import random

import tensorlang as tl

ALTERNATIVES = (
    "i - 2 <= j <= i + 2",
    "i <= j <= i + 1",
    "i - 1 <= j <= i + 3",
    "2*i <= j <= 2*i + 1",
    "j < 2",
    "j = 0",
    "j = 5",
    "n - 2 <= j",
    "j = n - 1",
    "i = 0",
    "i = 3",
    "i < 3",
    "i = j",
    "i = j + 1",
    "i = 2*j",
    "i + j = n - 1",
    "t[i] = j",
    "t[i] - 1 <= j <= t[i]",
    "j // 4 = i // 4",
    "j // 4 + 1 = i // 4",
)
FURTHER = ("j <= i", "i < n - 1", "1 <= j", "i != j")
VALUES = ("x[i] * y[j]", "sin(x[i] * y[j])", "exp(x[i] - y[j]) * y[j]", "x[j] + y[i]", "x[i]^2 * y[j] + sin(x[i])")
BODIES = (
    "gen i:n. sum j:n. [P] * E",
    "gen i:n. sum j:n. [P] * E * z[i]",
    "gen j:n. sum i:n. [P] * E",
    "sum i:n, j:n. [P] * E",
    "gen i:n, j:n. [P] * E",
    "gen i:n. max j:n. [P] * E",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. b[i, j] * z[j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. b[j, i] * b[i, j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. sin(b[i, j]) * z[j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n, k:n. sum j:n. b[i, j] * b[j, k]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. b[i, i] + sum k:n. b[t[i], k] * z[k]",
    "let b = gen i:n, j:n. [P] * E in (b, gen i:n. sum j:n. b[i, j] * z[j])",
    "let b = gen i:n, j:n. E in gen i:n. sum j:n. [P] * b[i, j] * z[j]",
    """let b = gen i:n, j:n. [P] * E in let c = gen i:n, j:n. b[i, j] * z[j] + sin(b[i, j]) in
        sum i:n, j:n. c[i, j] * b[j, i]""",
    "fold k:3 with s = z. gen i:n. 0.1 * sum j:n. [P] * E * s[j]",
    "fold j:n with s = z. gen i:n. 0.5 * s[i] + [P] * E",
    """let h = scan j:n with s = x. gen i:n. 0.5 * s[i] + [P] * sin(s[i]) * y[j] in
        gen i:n. sum j:n. [P] * h[j, i] * z[j]""",
)


def union(rng: random.Random) -> str:
    """A condition of two to four alternatives."""
    chosen = rng.sample(ALTERNATIVES, rng.choice((2, 2, 3, 3, 4)))
    return " or ".join(chosen)


def random_alternatives(rng: random.Random) -> tl.Function:
    """A program of x, y, z and an index array t, of one size n."""
    p = union(rng)
    if rng.random() < 0.3:
        p = f"({p}) and ({rng.choice((*FURTHER, union(rng)))})"
    body = rng.choice(BODIES).replace("P", p).replace("E", rng.choice(VALUES))
    return tl.parse(f"f(x: [n]R, y: [n]R, z: [n]R, t: [n]idx(n)) = {body}")
