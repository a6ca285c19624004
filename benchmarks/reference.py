"""A case's gradient in double precision, by JAX's own rules, with XLA's faulty fusions switched off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.case import Case, dense

_OPTIONS: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}
"""jaxlib 0.10.2 compiles some sums of products wrongly on a CPU, except with these options."""


def gradient(case: Case) -> Callable[..., tuple[Any, ...]]:
    """JAX's gradient of the case's natural program, with respect to its `argnums`; a tuple."""
    return gradient_of(case, case.program)


def gradient_of(case: Case, natural: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """The same for another program with the same meaning."""
    program = lambda *args: natural(jnp, *args)
    if case.what == "hessian":
        return lambda *args: (jax.hessian(program, case.argnums[0])(*args),)
    if case.what == "jacobian":
        return jax.jacfwd(program, case.argnums)
    if case.what == "blocks":
        return lambda *args: tuple(blocks(jnp, j) for j in jax.jacfwd(program, case.argnums)(*args))
    if case.is_scalar:
        return jax.grad(program, case.argnums)

    def pulled_back(*args: Any) -> tuple[Any, ...]:
        *given, cotangent = args

        def of_some(*some: Any) -> Any:
            every = list(given)
            for k, x in zip(case.argnums, some, strict=True):
                every[k] = x
            return program(*every)

        return jax.vjp(of_some, *(given[k] for k in case.argnums))[1](cotangent)

    return pulled_back


def blocks(xp: Any, jacobian: Any) -> Any:
    """J[i, a, i, b] of the Jacobian J of one two-dimensional array by another."""
    return xp.einsum("iaib->iab", jacobian)


def answers(case: Case, arguments: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The program's value and its gradient at `arguments`, as arrays of doubles."""
    with jax.enable_x64(True):
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in map(np.asarray, map(dense, arguments))]
        values = wide[:-1] if case.takes_cotangent else wide
        natural = case.reference or case.program
        value = _run(lambda *args: natural(jnp, *args), values)
        return value, _run(gradient_of(case, natural), wide)


def _run(fn: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    return jax.tree.map(np.asarray, jax.jit(fn).lower(*arguments).compile(compiler_options=_OPTIONS)(*arguments))


def as_tuple(result: Any) -> tuple[Any, ...]:
    """A gradient as a tuple; a single array becomes a tuple of one."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def distance(found: Any, wanted: Sequence[Any]) -> float:
    """The largest error of a gradient's arrays, each relative to its largest element.

    Infinite if a shape is wrong or an element isn't finite.
    """
    worst = 0.0
    parts = as_tuple(found)
    if len(parts) != len(wanted):
        return float("inf")
    for a, b in zip(parts, wanted, strict=True):
        if np.shape(a) != np.shape(b):
            return float("inf")
        error = np.max(np.abs(np.asarray(a, np.float64) - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-30)
        worst = max(worst, float(error)) if np.isfinite(error) else float("inf")
    return worst
