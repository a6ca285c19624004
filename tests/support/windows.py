"""Random programs that look at a few elements around places: places given by data, multiples and sums of indices."""

from __future__ import annotations

import random

import tensorlang as tl

WINDOWS = (
    "t[i] - 3 <= j <= t[i]",
    "t[i] <= j <= t[i] + 2",
    "t[i] - 1 <= j and j < t[i] + 2",
    "s[i] + 1 <= j <= s[i] + 2",
    "t[i] - s[i] <= j <= t[i] - s[i] + 1",
    "t[i] + i - 2 <= j <= t[i] + i",
    "t[s[i]] - 1 <= j <= t[s[i]] + 1",
    "s[j] - 1 <= i <= s[j] + 1",
    "2*i - 1 <= j <= 2*i + 1",
    "i - 2 <= 2*j <= i + 3",
    "n - 3 - t[i] <= j <= n - 1 - t[i]",
    "i <= j <= i + 2",
    "t[i] = j",
    "t[i] = j + 1",
)
FURTHER = ("j <= i", "1 <= j", "i != j", "x[i] > y[j]", "x[i] * y[j] > 0", "s[i] <= j + 1")
VALUES = (
    "x[i] * y[j]",
    "sin(x[i] * y[j])",
    "exp(0.1 * (x[i] - y[j])) * y[j]",
    "x[j] + y[i]",
    "sin(x[t[i]] + y[j])",
    "(if x[i] > y[j] then sin(x[i] * y[j]) else y[j])",
    "cos(b0[i, j])",
)
BODIES = (
    "gen i:n. sum j:n. [P] * E",
    "gen i:n. z[i] * sum j:n. [P] * E * z[j]",
    "gen j:n. sum i:n. [P] * E",
    "sum i:n, j:n. [P] * E",
    "gen i:n. max j:n where P. E",
    "gen i:n. sum j:n. [Q] * z[j] * (let b = E in if b > 0 then b else 0.1 * b)",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. b[i, j] * z[j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. b[j, i] * z[j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. b[i, j] * sin(b[i, j]) * z[j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. (if b[i, j] > 0 then b[i, j] else 0) * z[j]",
    "let b = gen i:n, j:n. [P] * E in let c = gen i:n, j:n. [Q] * E in gen i:n. sum j:n. b[i, j] * c[i, j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. sum j:n. sin(b[s[i], j]) * z[j]",
    "let b = gen i:n, j:n. [P] * E in gen i:n. b[i, i] + b[i, t[i]] + sum k:n. b[t[i], k] * z[k]",
    "let b = gen i:n, j:n. [P] * exp(0.1 * E) in gen i:n. (sum j:n. b[i, j] * z[j]) / (1 + sum j:n. b[i, j])",
    "let m = gen i:n. max j:n where P. E in gen i:n. sum j:n. [P] * exp(0.1 * (E - m[i])) * z[j]",
    "gen k:n. sum i:n. [R] * max j:n where P. E",
    "let m = gen i:n, k:n. max j:n where P. E * x[k] in gen i:n. sum j:n. [Q] * m[i, j]",
    "let b = gen i:n, j:n. E in gen i:n. sum j:n. [P] * b[i, j] * sin(b[i, j])",
    """let b = gen i:n, j:n. [P] * E in let c = gen i:n, j:n. [Q] * y[j] in
        gen i:n. sum j:n. sin(b[i, j] + c[i, j]) * z[j]""",
    "let b = gen i:n, j:n. [P] * E in let c = gen i:n, j:n. [Q] * x[i] in sum i:n, j:n. (b[i, j] - c[j, i])^2",
    "fold k:3 with h = z. gen i:n. 0.1 * sum j:n. [P] * E * sin(h[i] * h[j])",
    "let h = scan k:2 with h = x. gen i:n. 0.5 * h[i] + sum j:n. [P] * E * h[j] in gen i:n. h[1, i] * h[0, i]",
)


def random_window(rng: random.Random) -> str:
    """A condition that a few elements fulfil in each row or column."""
    p = rng.choice(WINDOWS)
    return f"{p} and {rng.choice((*FURTHER, rng.choice(WINDOWS)))}" if rng.random() < 0.3 else p


def random_windows(rng: random.Random) -> tl.Function:
    """A program of x, y, z and index arrays t and s, of one size n."""
    body = rng.choice(BODIES)
    value = rng.choice(VALUES)
    if "b0" in value:
        body = f"let b0 = gen i:n, j:n. [{random_window(rng)}] * x[i] * y[j] in {body}"
    rows = random_window(rng).replace("i", "k").replace("j", "i")
    body = body.replace("P", random_window(rng)).replace("Q", random_window(rng)).replace("R", rows)
    body = body.replace("E", f"({value})")
    try:
        return tl.parse(f"f(x: [n]R, y: [n]R, z: [n]R, t: [n]idx(n), s: [n]idx(n)) = {body}")
    except tl.EmptyExtremum:  # of a window that ends outside
        return random_windows(rng)
