"""Scalar functions of numbers of a program, those too that `tl.scalar_function` registered.

>>> import tensorlang as tl
>>> n = tl.sizes("n")
>>> print(tl.function(lambda x: tl.sum(n, lambda i: tl.fn.abs(x[i])), x=tl.R[n]))
f(x: [n]R) = sum i:n. abs(x[i])

Those whose names are no builtins of Python's are names of the package as well: `tl.sin`.
"""

from functools import partial
from typing import Any

from tensorlang.language.functions import functions
from tensorlang.surface.scalars import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    call,
    cbrt,
    ceil,
    cos,
    cosh,
    erf,
    erfc,
    erfinv,
    exp,
    expm1,
    floor,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    maximum,
    minimum,
    mod,
    power,
    recip,
    relu,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    softplus,
    sqrt,
    tan,
    tanh,
    where_ge,
    where_gt,
)

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "maximum",
    "minimum",
    "mod",
    "power",
    "recip",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "tan",
    "tanh",
    "where_ge",
    "where_gt",
]


def __getattr__(name: str) -> Any:
    if name not in functions():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return partial(call, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *functions()})
