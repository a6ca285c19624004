"""JAX's derivatives for JAX's functions, derived where that is cheaper: `tl.jax.grad` for `jax.grad`.

A function is traced, parts of it become tensor programs, and JAX differentiates the rest. What these functions give are
functions of JAX: they work inside of `jax.jit`, `jax.vmap`, `jax.grad`, `jax.lax.scan` and the like, and around them.

>>> import jax.numpy as jnp
>>> import tensorlang as tl
>>> tl.jax.grad(lambda x: jnp.sum(jnp.outer(x, x)))(jnp.array([1.0, 2.0]))
Array([6., 6.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax

from tensorlang.jaxprs.explain import Explanation, explain
from tensorlang.jaxprs.rewrite import rewritten

__all__ = ["Explanation", "differentiable", "explain", "grad", "hessian", "jacobian", "value_and_grad", "vjp"]

Argnums = int | Sequence[int]


def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    strict: bool = False,
    check: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """The gradient of a scalar function, as `jax.grad` gives it, with its arguments and results.

    With `strict` all of `fun` must be a tensor program for which nothing is assumed; the call raises `ImportRefused`
    otherwise. With `check` assumptions are checked by `jax.experimental.checkify`, which a caller makes into errors.
    Other `options` are those of `jax.grad`.

    >>> import jax.numpy as jnp
    >>> tl.jax.grad(lambda x: jnp.sum(x * x))(np.array([1.0, 2.0], np.float32))
    Array([2., 4.], dtype=float32)
    """
    return jax.grad(rewritten(fun, argnums, strict, check), argnums, has_aux, **options)


def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    strict: bool = False,
    check: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """The value and the gradient of a scalar function, as `jax.value_and_grad` gives them. See `grad`.

    >>> import jax.numpy as jnp
    >>> value, gradient = tl.jax.value_and_grad(lambda x: jnp.sum(x * x))(np.array([1.0, 2.0], np.float32))
    >>> print(value, gradient)
    5.0 [2. 4.]
    """
    return jax.value_and_grad(rewritten(fun, argnums, strict, check), argnums, has_aux, **options)


def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, strict: bool = False, check: bool = False
) -> Any:
    """The value of `fun` at `primals`, and the function from cotangents of it to theirs, as `jax.vjp` gives them.

    `strict` and `check` are those of `grad`.

    >>> value, pull = tl.jax.vjp(lambda x: x * x, np.array([1.0, 2.0], np.float32))
    >>> pull(np.array([1.0, 10.0], np.float32))
    (Array([ 2., 40.], dtype=float32),)
    """
    pull: Any = jax.vjp
    return pull(rewritten(fun, None, strict, check), *primals, has_aux=has_aux)


def jacobian(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    strict: bool = False,
    check: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """The Jacobian of a function, as `jax.jacobian` gives it: arrays of the result's shape and then the argument's.

    See `grad` for the options.

    >>> print(tl.jax.jacobian(lambda x: x * x)(np.array([1.0, 2.0], np.float32)))
    [[2. 0.]
     [0. 4.]]
    """
    return jax.jacobian(rewritten(fun, argnums, strict, check), argnums, has_aux, **options)


def hessian(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    strict: bool = False,
    check: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """The Hessian of a scalar function, as `jax.hessian` gives it, forward over reverse: of the argument's shape twice.

    See `grad` for the options.

    >>> import jax.numpy as jnp
    >>> print(tl.jax.hessian(lambda x: jnp.sum(x * x * x))(np.array([1.0, 2.0], np.float32)))
    [[ 6.  0.]
     [ 0. 12.]]
    """
    return jax.hessian(rewritten(fun, argnums, strict, check), argnums, has_aux, **options)


def differentiable(
    fun: Callable[..., Any] | None = None, *, strict: bool = False, check: bool = False
) -> Callable[..., Any]:
    """A decorator, with or without options: the function, whose derivatives are derived under JAX's transformations.

    See `grad` for the options.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> @tl.jax.differentiable
    ... def loss(x):
    ...     return jnp.sum(x * x)
    >>> jax.grad(loss)(np.array([1.0, 2.0], np.float32))
    Array([2., 4.], dtype=float32)
    """
    if fun is None:
        return lambda f: differentiable(f, strict=strict, check=check)
    return wraps(fun)(rewritten(fun, None, strict, check))
