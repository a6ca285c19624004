"""Programs whose state changes over time, against `jax.grad` through `lax.scan`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.through_time import PROGRAMS, Recurrence, arguments

QUICK = "Newton until"
SIZES = {"n": 5, "m": 3, "d": 2}


@pytest.mark.parametrize(
    "program",
    [p if p.name == QUICK else pytest.param(p, marks=pytest.mark.slow) for p in PROGRAMS],
    ids=lambda p: p.name,
)
def test_its_gradient_is_that_of_jax_and_costs_at_most_four_times_the_program(program: Recurrence) -> None:
    f = tl.parse(program.text)
    g = tl.grad(f)
    store = ("states", "sqrt", "log")[PROGRAMS.index(program) % 3]
    runs = [jax.jit(tl.lower(g, store=store)) for store in ("needed", store)]
    with jax.enable_x64(True):
        for steps, used in ((1, runs[:1]), (9, runs)):
            given = [
                jnp.asarray(x, float) if is_real(x) else x for x in arguments(f, {**SIZES, "T": steps}, program.scale)
            ]
            np.testing.assert_allclose(tl.lower(f)(*given), program.jax(*given), rtol=1e-9)
            wanted = jax.grad(program.jax, tuple(k for k, x in enumerate(given) if is_real(x)))(*given)
            for run in used:
                for x, y in zip(jax.tree.leaves(run(*given)), wanted, strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9)
    if not any(word in program.text for word in ("until", "if ")):
        value, gradient = tl.cost_polynomial(f), tl.cost_polynomial(g)
        for steps in (1, 10, 1000):
            sizes = {s.name: {**SIZES, "T": steps}[s.name] for s in f.sizes}
            given = arguments(f, sizes)
            io = sum(np.size(x) for x in given) + 1
            data = {p.name: x for p, x in zip(f.params, given, strict=True) if not is_real(x)}
            spent = [tl.cost(h, {**sizes, **data}) for h in (f, g)] if data else [value(**sizes), gradient(**sizes)]
            assert spent[1] + io <= 4 * (spent[0] + io)


def is_real(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))
