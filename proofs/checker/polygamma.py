"""The derivatives of the logarithm of gamma: by the recurrence, up to where the asymptotic series has all digits."""

from __future__ import annotations

import math

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_FAR = 15
_LEAST = -10_000


def polygamma(m: int, x: float) -> float:
    """The m-th derivative of digamma. Raises `ArithmeticError` at the poles 0, -1, -2, .., and where the recurrence is
    too long."""
    x = float(x)
    if not x > _LEAST or (x <= 0 and x == math.floor(x)):
        raise ArithmeticError(f"polygamma has no value at {x}")
    sign, total = -1 if m % 2 == 0 else 1, 0.0
    while x < _FAR:
        total += sign * math.factorial(m) / x ** (m + 1)
        x += 1
    main = -math.log(x) if m == 0 else math.factorial(m - 1) / x**m
    series = main + math.factorial(m) / (2 * x ** (m + 1))
    for k, b in enumerate(_BERNOULLI, 1):
        series += b * math.factorial(2 * k + m - 1) / math.factorial(2 * k) / x ** (2 * k + m)
    return total + sign * series
