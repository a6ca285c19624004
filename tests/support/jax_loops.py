"""Random JAX functions with loops whose steps make integers and conditions from data, counters and states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


@dataclass(frozen=True)
class Loop:
    """A function of numbers `x` and integers, its text, and arguments."""

    text: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def random_loop(rng: Random) -> Loop:
    """A function whose loop carries a number, a counter, and an integer that stays or that steps change."""
    n, steps = rng.choice((3, 7)), rng.choice((1, 5, 6, 20))
    names = ["k", "count", "q", "t", *(["state"] if rng.random() < 0.3 else [])]

    def integer(depth: int) -> str:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([*names, str(rng.randint(0, 3))])
        a, b = integer(depth - 1), integer(depth - 1)
        forms = (
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"jnp.minimum({a}, {b})",
            f"({a} % {n})",
            f"jnp.where({a} < {b}, {a}, {b})",
            f"p[{a} % {n}]",
        )
        return rng.choice(forms)

    lines = [
        "def f(x, p, ks, q):",
        "  def step(carried, row):",
        "    (h, count, state), (k, t, v) = carried, row",
        f"    y = jnp.sin(h) * x[{integer(2)} % {n}] + jnp.where({integer(2)} < {integer(2)}, v, h)",
    ]
    if rng.random() < 0.4:
        lines += [
            f"    inner = lambda g, j: (jnp.cos(g) * x[(j + {integer(1)}) % {n}], g + j)",
            f"    y, given = lax.scan(inner, y, p, reverse={rng.random() < 0.5})",
            "    y = y + given.sum()",
        ]
    after = rng.choice(("state", "state", f"(state + k) % {n}"))
    given = rng.choice(("y * 2", f"jnp.dot(x * y, v + x[{integer(1)} % {n}] * x)", "jnp.dot(h * x, jnp.sin(x)) * y"))
    lines += [
        f"    return (y, count + {rng.choice((1, 2, -1))}, {after}), {given}",
        f"  rows = ks, jnp.arange({steps}), jnp.linspace(0.0, 1.0, {steps})",
        f"  (h, count, _), a = lax.scan(step, (x[0], q, jnp.int32(1)), rows, reverse={rng.random() < 0.4})",
        f"  return h + jnp.sum(a * jnp.arange({steps})) + x[count % {n}]",
    ]
    text = "\n".join(lines)
    scope: dict[str, Any] = {"jnp": jnp, "lax": lax}
    exec(text, scope)
    data = np.random.default_rng(rng.randrange(1 << 30))
    integers = (data.integers(-3, 9, n), data.integers(-3, 9, steps), data.integers(0, 5))
    numbers = jnp.asarray(data.uniform(0.3, 0.9, n), jnp.float32)
    return Loop(text, scope["f"], (numbers, *(jnp.asarray(d, jnp.int32) for d in integers)))
