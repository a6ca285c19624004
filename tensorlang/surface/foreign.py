"""Answers to Python, NumPy, JAX and PyTorch when they use a value of a program that is being written."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np

from tensorlang.errors import TypeMismatch, here, python_line
from tensorlang.language.functions import functions
from tensorlang.surface.words import WORDS

OUTSIDE = "the scalar functions are tl.sin, tl.exp, ..; jnp works on arrays, and so does tl.to_jax(f), inside of JAX"

_ELEMENTWISE: dict[str, str] = {
    **{name: name for name in ("exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "sign", "logaddexp")},
    **{name: name for name in ("log1p", "expm1", "log2", "log10", "cbrt", "floor", "ceil")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    "rint": "round",
    "absolute": "abs",
    "fabs": "abs",
    "reciprocal": "recip",
    "maximum": "max",
    "fmax": "max",
    "minimum": "min",
    "fmin": "min",
}
"""The scalar functions that NumPy has as well."""

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "float_power": operator.pow,
    "negative": operator.neg,
    "positive": operator.pos,
    "square": lambda x: x * x,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "logical_and": operator.and_,
    "logical_or": operator.or_,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "logical_not": operator.invert,
    "invert": operator.invert,
    "matmul": operator.matmul,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
}
"""NumPy's names of Python's operators."""


_makers: dict[str, Callable[..., Any]] = {}


def terms_are_made_by(apply: Callable[..., Any], where: Callable[..., Any]) -> None:
    """Set the functions that apply a named scalar function to values of a program, and choose between two of them."""
    _makers.update(apply=apply, where=where)


def applied(value: Any, ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of an elementwise NumPy function for `inputs`, of which `value` is one. Raises `TypeMismatch`."""
    name = ufunc.__name__
    if method != "__call__" or options:
        refused(value, f"np.{name}.{method}" if method != "__call__" else f"np.{name}", "sum" if method else name)
    for x in inputs:
        if isinstance(x, np.ndarray) and x.ndim:
            raise TypeMismatch(f"found a Python ndarray of shape {x.shape} in a program", here(), captured(x.ndim))
    plain = [x.item() if isinstance(x, np.generic | np.ndarray) else x for x in inputs]
    if name in _OPERATORS:
        return _OPERATORS[name](*plain)
    if name in _ELEMENTWISE:
        return _makers["apply"](_ELEMENTWISE[name], *plain)
    refused(value, f"np.{name}", name)


def where(condition: Any, a: Any, b: Any) -> Any:
    """The result of np.where for values of a program."""
    return _makers["where"](condition, a, b)


def refused(value: Any, function: str, name: str) -> NoReturn:
    """Raise `TypeMismatch` for a function of another library that was applied to `value`."""
    raise TypeMismatch(f"{function} is no function of programs, found {value.described()}", here(), mend(name))


def mend(name: str) -> str:
    """The replacement for a word of another library."""
    if name in WORDS:
        return WORDS[name].python
    if name in functions():
        return f"tl.{name}(x)"
    close = get_close_matches(name, [*functions(), *WORDS], n=1, cutoff=0.8)
    if close:
        return WORDS[close[0]].python if close[0] in WORDS else f"tl.{close[0]}(x)"
    return "tl has tl.gen, tl.sum, tl.max, tl.let and scalar functions; tl.scalar_function registers more of these"


def captured(axes: int) -> str:
    """A hint for data that a program being written captures."""
    sizes = ", ".join("nmkl"[:axes]) if 0 < axes <= 4 else "n"
    return f"data are given when the program is called: make it a parameter, data: tl.R[{sizes}]"


def translated(error: Exception, filename: str) -> TypeMismatch | None:
    """The error to raise in place of an error by Python or a library about a value of a program; else None.

    It is placed at the innermost line of the file called `filename`.
    """
    text = str(error)
    place, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            place = python_line(filename, trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, IndexError) and "valid indices" in text:
        return TypeMismatch("an array of numbers was read at an index of a program", place, captured(1))
    names = ("Term", "Idx", "Cond", "Rel", "Indices")
    if any(f"'{name}'" in text or f"surface.terms.{name}" in text or f"lookups.{name}" in text for name in names):
        if "Error interpreting argument" in text:
            return TypeMismatch("functions of JAX take arrays, found a value of a program", place, OUTSIDE)
        for name, what in zip(names, ("a value", "an index", "a condition", "a relation", "indices"), strict=True):
            text = text.replace(f"'{name}'", f"{what} of a program")
        hint = "tl has tl.gen, tl.sum, tl.max, tl.let, the scalar functions, and Python's + - * / **"
        return TypeMismatch(text.splitlines()[0], place, hint)
    return None
