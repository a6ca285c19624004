"""Random programs that read tables of all pairs at listed pairs, given by data."""

from __future__ import annotations

import random

import tensorlang as tl

ELEMENTS = (
    "x[i] * y[j]",
    "x[i] - y[j]",
    "sin(x[i] * y[j])",
    "exp(0.1 * (x[i] - y[j]))",
    "(x[i] - y[j])^2",
    "max(x[i], y[j])",
    "sum c:3. sin(0.5 * x[i] * y[j])",
    "[i <= j] * x[i] * y[j]",
    "[i != j] / (1 + (x[i] - y[j])^2)",
)
FURTHER = (
    "A[i, j]",
    "A[i, j]^2",
    "A[i, j] / (2 + A[i, j]^2)",
    "cos(A[i, j]) * y[i]",
    "A[j, i] + A[i, j]",
    "max(A[i, j], 0.1)",
    "[i < j] * A[i, j] * A[j, i]",
)
READS = (
    "a[l], b[l]",
    "b[l], a[l]",
    "l, a[l]",
    "a[l], l",
    "a[b[l]], b[l]",
    "l, l",
    "a[l], b[n - 1 - l]",
)
BODIES = (
    "gen l:n. T[P]",
    "sum l:n. sin(T[P])",
    "gen l:n. T[P] * S[Q]",
    "sum l:n. [l < n - 1] * T[P]^2 + S[Q]",
    "gen l:n. max m:3. T[l, r[l, m]] * x[r[l, m]]",
    "gen l:n. sum m:3. T[l, r[l, m]] * y[l]",
    "sum l:n, m:3. [r[l, m] != l] * T[l, r[l, m]] * S[r[l, m], l]",
    "let g = gen l:n. T[P] in gen k:n. sum l:n. [a[l] = k] * g[l] * S[Q]",
)
IN_STEPS = "fold k:3 with h = y. gen l:n. 0.5 * h[a[l]] + T[P] * S[Q] * h[l]"


def random_listed(rng: random.Random, body: str = "") -> tl.Function:
    """A program of x and y, of lists a, b and r of indices, and of one size n."""
    tables = f"let A = gen i:n, j:n. {rng.choice(ELEMENTS)} in let B = gen i:n, j:n. {rng.choice(FURTHER)} in "
    body = body or rng.choice(BODIES)
    for old, new in (("T", rng.choice("AB")), ("S", rng.choice("AB")), ("P", rng.choice(READS))):
        body = body.replace(old, new)
    body = body.replace("Q", rng.choice(READS))
    return tl.parse(f"f(x: [n]R, y: [n]R, a: [n]idx(n), b: [n]idx(n), r: [n][3]idx(n)) = {tables}{body}")
