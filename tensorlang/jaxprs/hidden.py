"""Masks of a finite number, such as `jnp.where(mask, s, -1e9)`: where they are, and the function with -inf instead.

Softmax of such numbers is 0 only by rounding, so derivatives look at every element. Of -inf it is 0, and derivatives
look at the others alone. But in a row in which everything is hidden it is nan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import source_info_util
from jax.extend import core

from tensorlang.errors import PythonLine, python_line
from tensorlang.jaxprs.flatten import evaluate, flatten, read

_LOW = -1e4
"""Numbers from here on down, in a choice by a mask, are taken to hide elements."""


@dataclass(frozen=True)
class Hiding:
    """A number that hides elements, and its line."""

    number: float
    line: PythonLine | None

    def __str__(self) -> str:
        where = "" if self.line is None else f"{self.line.filename}:{self.line.line}: "
        return f"{where}{self.number:g} hides elements here"


def with_infinity(fun: Callable[..., Any], shapes: Any) -> tuple[Callable[..., Any], tuple[Hiding, ...]] | None:
    """`fun`, which gives one number, with -inf for numbers that hide elements, and these; None if there are none."""
    closed = jax.make_jaxpr(fun)(*shapes)
    flat = flatten(closed, lambda _: False)
    made = {e.outvars[0]: k for k, e in enumerate(flat.equations) if e.primitive.name in _COPIES}
    hidden: dict[Hiding, None] = {}
    equations = list(flat.equations)
    for k, e in enumerate(flat.equations):
        for place, v in enumerate(e.invars[1:], 1) if e.primitive.name == "select_n" else ():
            at, where = (k, place) if isinstance(v, core.Literal) else (made.get(v), 0)
            while at is not None and not isinstance(source := equations[at].invars[where], core.Literal):
                at, where = made.get(source), 0
            if at is None:
                continue
            number = float(np.asarray(source.val)) if np.ndim(source.val) == 0 else 0
            if -np.inf < number <= _LOW:
                invars = list(equations[at].invars)
                invars[where] = _LITERAL(np.asarray(-np.inf, source.aval.dtype), source.aval)
                equations[at] = equations[at].replace(invars=invars)
                frame = source_info_util.user_frame(e.source_info.traceback)
                hidden[Hiding(number, python_line(frame.file_name, frame.start_line) if frame else None)] = None
    if not hidden:
        return None

    def infinite(*args: Any) -> Any:
        env = {**flat.constants, **dict(zip(flat.inputs, jax.tree.leaves(args), strict=True))}
        for e in equations:
            with source_info_util.user_context(e.source_info.traceback):
                evaluate([e], env)
        return read(flat.outputs[0], env)

    return infinite, tuple(hidden)


_LITERAL: Any = core.Literal
_COPIES = ("broadcast_in_dim", "convert_element_type", "reshape", "squeeze")
