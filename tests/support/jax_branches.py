"""Random JAX functions with loops whose steps choose among branches by counters, data and states."""

from __future__ import annotations

from random import Random
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.support.jax_loops import Loop


def random_branches(rng: Random) -> Loop:
    """A function of two matrices and a vector whose loop carries a vector and a number."""
    n, steps = rng.choice((1, 2, 5)), rng.choice((5, 6, 9))

    def condition() -> str:
        forms = (
            f"t % {rng.choice((2, 3))} == 0",
            f"t < {rng.randint(0, steps)}",
            "v > 0.4",
            "k == 1",
            "k <= 2",
            "s[0] > 0.1",
            "h < jnp.max(s)",
            "(s[-1] > 0.0) & (v > 0.3)",
            "(h > 0.2) | (t == 1)",
            "jnp.sum(s) > h",
        )
        return rng.choice(forms)

    def vector(depth: int) -> str:
        forms = [
            "W @ s",
            "jnp.tanh(V @ s + v)",
            "jnp.sin(s) * h",
            "0.9 * s",
            "s - jnp.mean(s)",
            "s.at[0].set(h)",
            "jnp.exp(-jnp.abs(W @ s))",
            "jnp.where(s > v, s, -s)",
            "lax.scan(lambda g, w: (jnp.cos(g) * w[0], None), s, V)[0]",
        ]
        if depth and rng.random() < 0.7:
            return chosen(depth - 1, vector)
        return rng.choice(forms)

    def number(depth: int) -> str:
        if depth and rng.random() < 0.4:
            return chosen(depth - 1, number)
        return rng.choice(("jnp.sin(h) + v", "jnp.dot(s, s) * 0.1", "h * 0.5", "jnp.max(s)", "jnp.float32(1) * v"))

    def chosen(depth: int, one: Any) -> str:
        if rng.random() < 0.3:
            which = rng.choice(("k", "t % 3", "jnp.clip(k + t, 0, 2)"))
            branches = ", ".join(f"lambda s, h: {one(depth)}" for _ in range(3))
            return f"lax.switch({which}, [{branches}], s, h)"
        return f"lax.cond({condition()}, lambda s, h: {one(depth)}, lambda s, h: {one(depth)}, s, h)"

    lines = [
        "def f(W, V, x, ks):",
        "  def step(carried, row):",
        "    (s, h), (k, t, v) = carried, row",
        f"    s_next = {vector(2)}",
        f"    return (s_next, {number(1)}), {number(1)}",
        f"  rows = ks, jnp.arange({steps}), jnp.linspace(0.0, 1.0, {steps}, dtype=x.dtype)",
        f"  (s, h), a = lax.scan(step, (x, x[0]), rows, reverse={rng.random() < 0.3})",
        "  return jnp.sum(jnp.sin(s)) + h + jnp.sum(jnp.cos(a))",
    ]
    text = "\n".join(lines)
    scope: dict[str, Any] = {"jnp": jnp, "lax": lax}
    exec(text, scope)
    data = np.random.default_rng(rng.randrange(1 << 30))
    matrices = (jnp.asarray(data.normal(size=(n, n)) / n**0.5, jnp.float32) for _ in range(2))
    vector_ = jnp.asarray(data.uniform(0.1, 0.9, n), jnp.float32)
    return Loop(text, scope["f"], (*matrices, vector_, jnp.asarray(data.integers(-1, 5, steps), jnp.int32)))
