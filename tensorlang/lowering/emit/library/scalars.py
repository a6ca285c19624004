"""Functions of numbers in kernels for GPUs, of what these have. In single precision each is right to a few roundings
relative to its value, wherever that is a finite number (`tests/kernels/test_functions_on_gpus.py` measures it)."""

import jax.numpy as jnp


def _no(condition):
    """Where a condition does not hold. Mosaic GPU has no `logical_not`."""
    return jnp.logical_xor(condition, True)


def _in_some_place(mask):
    """Whether a mask holds at some place of a tile."""
    found = jnp.where(mask, 1.0, 0.0)
    while found.ndim:
        found = jnp.max(found, found.ndim - 1)
    return found > 0


def _tan(x):
    """The tangent."""
    return jnp.sin(x) / jnp.cos(x)


def _log1p(x):
    """log(1 + x): near 0 by the series 2 (s + s**3 / 3 + s**5 / 5 + ..) where s = x / (2 + x), of which |s| < 1 / 3."""
    inner = jnp.where(abs(x) < 0.5, x, 0.0)
    twice = inner / (1 + 0.5 * inner)
    total = jnp.full_like(twice, 1 / 17)
    for k in range(15, 0, -2):
        total = total * (0.25 * twice * twice) + 1 / k
    return jnp.where(abs(x) < 0.5, twice * total, jnp.log(1 + x))


def _expm1(x):
    """exp(x) - 1."""
    return jnp.tanh(0.5 * x) * (jnp.exp(x) + 1)


def _sinh(x):
    """The hyperbolic sine. Where exp(-x) is rounded away, exp(x / 2) ** 2 / 2 has no larger number than the result."""
    size = abs(x)
    y, root = _expm1(jnp.minimum(size, 16.0)), jnp.exp(0.5 * size)
    found = jnp.where(size < 16, 0.5 * (y + y / (y + 1)), (0.5 * root) * root)
    return jnp.where(x < 0, -found, found)


def _cosh(x):
    """The hyperbolic cosine, as `_sinh`."""
    size = abs(x)
    y, root = jnp.exp(jnp.minimum(size, 16.0)), jnp.exp(0.5 * size)
    return jnp.where(size < 16, 0.5 * (y + 1 / y), (0.5 * root) * root)


def _softplus(x):
    """log(1 + exp(x))."""
    return jnp.maximum(x, 0.0) + _log1p(jnp.exp(-abs(x)))


def _logaddexp(a, b):
    """log(exp(a) + exp(b))."""
    return jnp.maximum(a, b) + _log1p(jnp.exp(jnp.where(a == b, 0.0, -abs(a - b))))


def _erf(x):
    """The error function: below 1 a polynomial of x * x times x, beyond 1 - exp(-x * x) times one of 1 / (1 + x / 2).
    Both are interpolated at Chebyshev's points; beyond 4 it is 1."""
    small = (1.128379167, -0.3761263848, 0.1128378262, -0.02686543831, 0.005221053412, -0.0008484396538)
    large = (-0.0001604576232, 0.285005538, 0.2591044716, 0.3498076169, -0.1076931775, 0.5681912623, -0.4744579976)

    def polynomial(z, *coefficients):
        total = coefficients[-1]
        for c in coefficients[-2::-1]:
            total = total * z + c
        return total

    size = jnp.minimum(abs(x), 4.0)
    near = x * polynomial(x * x, *small, 0.000112682538, -9.673590507e-06)
    tail = jnp.exp(-size * size) * polynomial(1 / (1 + 0.5 * size), *large, 0.120262109)
    return jnp.where(size < 1, near, jnp.where(x < 0, tail - 1, 1 - tail))
