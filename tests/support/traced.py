"""The work of a program if it runs as it is traced: counted in its jaxpr, within milliseconds, without compiling.

XLA may do less, since it fuses, but never does asymptotically more. Operations are arithmetic ones on floating-point
numbers, for each element, as in `tensorlang.measure.count`; elements are those of any instruction's result, whatever
its type, without views and broadcasts. A loop counts as its body times its trips; of several branches the most
expensive one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend import core
from jax.extend.core import jaxprs_in_params
from jax.interpreters import partial_eval

from tensorlang.transforms.primitive import written_out

_VIEWS = {
    *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "rev", "convert_element_type"),
    *("iota", "copy", "stop_gradient", "platform_index", "empty", "full"),
}
_UPDATES = {"dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2, "scatter_add": 2, "scatter_max": 2}
_UPDATES |= {"scatter_min": 2, "scatter_mul": 2, "scatter-max": 2, "scatter-min": 2, "scatter-mul": 2}
_ARITHMETIC = {
    *("add", "sub", "mul", "div", "neg", "max", "min", "pow", "integer_pow", "square", "sqrt", "rsqrt", "exp", "log"),
    *("sin", "cos", "tan", "tanh", "logistic", "erf", "abs", "sign", "log1p", "expm1", "add_any"),
}


@dataclass(frozen=True)
class Work:
    """Arithmetic operations on floating-point numbers, and elements of the results of instructions."""

    operations: int = 0
    elements: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.elements + other.elements)

    def times(self, count: int) -> Work:
        return Work(self.operations * count, self.elements * count)


def work(fn: Callable[..., Any], *arguments: Any) -> Work:
    """The work of `fn` for arguments of these shapes and types."""
    closed = written_out(jax.make_jaxpr(fn)(*arguments))
    needed, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return _of(needed)


def _of(jaxpr: core.Jaxpr) -> Work:
    total = Work()
    for eqn in jaxpr.eqns:
        total += _of_equation(eqn)
    return total


def _of_equation(eqn: Any) -> Work:
    name, params = eqn.primitive.name, eqn.params
    match name:
        case "scan":
            return _of(params["jaxpr"].jaxpr).times(params["length"])
        case "while":
            raise ValueError("a loop whose turns are not known")
        case "cond":
            return max((_of(branch.jaxpr) for branch in params["branches"]), key=lambda w: (w.elements, w.operations))
        case "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            size = _size(eqn.outvars[0])
            depth = prod(eqn.invars[0].aval.shape[k] for k in contracted)
            return Work(2 * size * depth, size)
        case "conv_general_dilated":
            taps = prod(eqn.invars[1].aval.shape) // max(1, params["dimension_numbers"].rhs_spec[0])
            return Work(2 * _size(eqn.outvars[0]) * taps, _size(eqn.outvars[0]))
    inner = params.get("jaxpr") or params.get("call_jaxpr")
    if inner is not None:
        return _of(getattr(inner, "jaxpr", inner))
    if name in _VIEWS:
        return Work()
    if name in _UPDATES:
        size = _size(eqn.invars[_UPDATES[name]])
        return Work(size if name.endswith("add") and _is_number(eqn.outvars[0]) else 0, size)
    size = sum(map(_size, eqn.outvars))
    if name.startswith(("reduce", "arg", "cum", "sort")):
        size = sum(map(_size, eqn.invars))
        return Work(size if _is_number(eqn.outvars[0]) and not name.startswith("sort") else 0, size)
    return Work(size if name in _ARITHMETIC and _is_number(eqn.outvars[0]) else 0, size)


def _size(var: Any) -> int:
    return prod(getattr(var.aval, "shape", ()))


def _is_number(var: Any) -> bool:
    return bool(np.issubdtype(var.aval.dtype, np.inexact))


def conditionals(jaxpr: Any) -> Iterator[Any]:
    """The conditionals in a jaxpr, with those of programs as they run, also in loops and in one another."""
    stack = list(written_out(jaxpr).jaxpr.eqns)
    while stack:
        eqn = stack.pop()
        if eqn.primitive is lax.cond_p:
            yield eqn
        for inner in jaxprs_in_params(eqn.params):
            stack += inner.eqns
