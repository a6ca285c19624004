"""Random JAX functions of pairs under masks: bands, blocks, rows, columns, masks given by data, and unions of these."""

from __future__ import annotations

import random
from typing import Any

import jax.numpy as jnp
import numpy as np

THIN = (
    "jnp.abs(i - j) <= 2", "i == j", "j == a[:, None]", "j == 0", "j >= n - 2", "i == n - 1", "(i >= j) & (i < j + 3)",
    "i // 8 == j // 8", "i == b[None]", "j - i == 5", "i < 2", "(i + 1) // 4 == j // 4",
    "(j >= s[:, None]) & (j < s[:, None] + 3)", "j == s[:, None] + 1", "j - s[:, None] == 2",
    "(i >= j) & (i // 4 == j // 4)",
    "(j > s[:, None] - 2) & (j <= s[:, None])", "(j - s[:, None] >= 0) & (j - s[:, None] < 4)",
)  # fmt: skip
"""Masks of some points in each row or column."""

OTHERS = (
    "i <= j", "j < s[:, None]", "j <= s[:, None]", "s[:, None] <= j", "(j >= s[:, None]) & (j < e[:, None])",
    "i >= s[None]", "2 * j < s[:, None]", "j != s[:, None]", "~(j < s[:, None])", "~(i // 8 == j // 8)",
    "(i - j) % 4 == 0", "i % 4 == j % 4", "jnp.mod(i + j, 3) == 1", "i - i % 4 <= j", "i // 3 <= j // 3", "j // 2 < i",
    "i == 2 * j", "i + j == n - 1", "i // 2 == j", "i // 4 * 4 == j", "(n - 1 - i) // 4 == j // 4",
    "jnp.abs(i // 4 - j // 4) <= 1", "k[:, None] <= j", "(j + k[:, None] >= 2) & (j + k[:, None] < 5)",
    "j < jnp.minimum(s, 5)[:, None]",
    "s[:, None] == s[None]", "s[:, None] // 2 == j", "(i <= j) & (j < i // 2 + s[:, None])",
    "(i % 2 == 0) & (j == i + 1)",
)  # fmt: skip
"""Other masks of indices and of integers of all kinds, most of which hold at a share of all points."""

PAIRS = ("x[:, None] * y[None]", "jnp.sin(x[:, None] * y[None])", "(x[:, None] - y[None]) ** 2",
         "jnp.exp(-x[:, None] * y[None])", "jnp.tanh(x[:, None] + y[None])")  # fmt: skip
MEANS = (
    "jax.nn.softmax(m, 1) @ x",
    "jax.nn.logsumexp(m, 1)",
    "jax.nn.softmax(m, 1)[a, b]",
    "jax.nn.softmax(m, 1).sum(0)",
)
SUMS = ("m.sum(0)", "m.sum(1)", "m @ x", "(m**2).sum(1)", "m[a, b]", "m.T @ y", "jnp.diagonal(m)", "jnp.tanh(m).sum(0)")


def union(rng: random.Random, masks: tuple[str, ...], most: int = 3) -> str:
    """Some of these masks, joined."""
    return " | ".join(f"({p})" for p in rng.sample(masks, rng.randint(1, most)))


def source(mask: str, pairs: str, result: str, fill: str = "0") -> str:
    """A function of numbers and integer data: a sum of `result` applied to `pairs` where `mask` holds."""
    return f"""def f(x, y, a, b, s, e, k):
    n = len(x)
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None]
    m = jnp.where({mask}, {pairs}, {fill})
    return jnp.sum(jnp.sin({result}) * y)
"""


def thin(rng: random.Random) -> str:
    """A function of a few pairs for each row, or column."""
    if rng.random() < 0.5:
        return source(f"{union(rng, THIN, 2)} | (i == j)", rng.choice(PAIRS), rng.choice(MEANS), "-jnp.inf")
    return source(union(rng, THIN), rng.choice(PAIRS), rng.choice(SUMS))


def any_mask(rng: random.Random) -> str:
    """A function of pairs under some masks."""
    mask = union(rng, THIN + OTHERS, 2)
    if rng.random() < 0.4:
        mask = f"({mask}) & ({union(rng, OTHERS, 1)})"
    if rng.random() < 0.3:
        return source(f"{mask} | (i == j)", rng.choice(PAIRS), rng.choice(MEANS), "-jnp.inf")
    return source(mask, rng.choice(PAIRS), rng.choice(SUMS), rng.choice(("0", "0", "0", "1.5", "x[:, None]")))


FILLS = ("1.5", "x[:, None]", "y[None]", "2 * x[:, None] ** 2", "0")
OF_FILLED = (
    *MEANS, *SUMS, "m.max(1)", "m.min(0)", "(m - m.max(1, keepdims=True)).sum(1)", "jnp.exp(m).sum(1)",
    "jnp.cos(m) @ x",
)  # fmt: skip


def filled(rng: random.Random) -> str:
    """A function of few pairs, and of one value for all others in a row, or in a column."""
    mask = union(rng, THIN, 1 if rng.random() < 0.7 else 2)
    result = rng.choice(OF_FILLED)
    fill = rng.choice(("-1e9", "-10000.0", *FILLS[:2]) if result in MEANS else FILLS)
    return source(mask, rng.choice(PAIRS), result, fill)


def data(n: int, seed: int = 0) -> list[Any]:
    """Arguments: s has places before and beyond the array, e has ends, k has integers of few bits."""
    rng = np.random.default_rng(seed)
    whole = lambda low, high, kind=np.int32: jnp.asarray(rng.integers(low, high, n), kind)
    numbers = [jnp.asarray(rng.normal(size=n)) for _ in range(2)]
    return [*numbers, whole(0, n), whole(0, n), whole(-3, n + 3), whole(0, n + 1), whole(-2, 3, np.int8)]
