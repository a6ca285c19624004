"""Prefix sums: with factors, of moments, up to limits that data give."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from benchmarks.case import Case
from benchmarks.programs.by_hand import Array

_SIZES = ({"n": 1000}, {"n": 20_000}, {"n": 400_000})


def _suffixes(x: Array) -> Array:
    return jnp.cumsum(x[::-1])[::-1]


def _spread(xp: Any, x: Any) -> Any:
    return xp.sum(xp.cumsum(x**2, 0) - xp.cumsum(x, 0) ** 2)


def _spread_by_hand(x: Array) -> Array:
    n = x.shape[0]
    return 2 * x * jnp.arange(n, 0, -1) - 2 * _suffixes(jnp.cumsum(x))


def _limited(xp: Any, x: Any, a: Any, w: Any) -> Any:
    return xp.sum(w * xp.cumsum(x, 0)[a] ** 2)


def _limited_by_hand(x: Array, a: Array, w: Array) -> Array:
    y_bar = 2 * w * jnp.cumsum(x)[a]
    return _suffixes(jnp.zeros_like(x).at[a].add(y_bar, mode="promise_in_bounds"))


CASES = [
    Case(
        name="weighted prefix sums",
        suite="structured",
        text="weighted(x: [n]R, v: [n]R) = gen i:n. sum j:n. [j <= i] * v[j] * x[j]",
        wrt=("x",),
        program=lambda xp, x, v: xp.cumsum(v * x, 0),
        by_hand=lambda x, v, y: v * _suffixes(y),
        sizes=_SIZES,
        odd={"n": 1003},
    ),
    Case(
        name="semiseparable matrix times vector",
        suite="structured",
        text="semi(x: [n]R, u: [n]R, v: [n]R) = gen i:n. sum j:n. [j <= i] * u[i] * v[j] * x[j]",
        wrt=("x",),
        program=lambda xp, x, u, v: u * xp.cumsum(v * x, 0),
        by_hand=lambda x, u, v, y: v * _suffixes(u * y),
        sizes=_SIZES,
        odd={"n": 1003},
    ),
    Case(
        name="running moments",
        suite="structured",
        text="moments(x: [n]R) = sum i:n. (sum j:n. [j <= i] * x[j]^2) - (sum j:n. [j <= i] * x[j])^2",
        program=_spread,
        by_hand=_spread_by_hand,
        sizes=({"n": 1000}, {"n": 20_000}),
        odd={"n": 1003},
    ),
    Case(
        name="sums up to given limits",
        suite="structured",
        text="limited(x: [n]R, a: [q]idx(n), w: [q]R) = sum i:q. w[i] * (sum j:n. [j <= a[i]] * x[j])^2",
        wrt=("x",),
        program=_limited,
        by_hand=_limited_by_hand,
        sizes=({"n": 1000, "q": 500}, {"n": 4000, "q": 4000}),
        odd={"n": 1003, "q": 501},
    ),
]
