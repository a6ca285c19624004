"""From equations to a program: rules applied in order, with values that JAX computes beforehand as parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from tensorlang.errors import PythonLine
from tensorlang.jaxprs import scalars
from tensorlang.jaxprs.axes import whole
from tensorlang.jaxprs.builder import Builder
from tensorlang.jaxprs.flatten import Flat, evaluate, needed, read
from tensorlang.jaxprs.inputs import ParameterSource
from tensorlang.jaxprs.origins import COMPARISONS, Origins
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.rules.table import RULES
from tensorlang.jaxprs.values import WIDE, Bool, Int, RealNumbers
from tensorlang.jaxprs.work import MOVES
from tensorlang.language.affine import SHORT, Affine
from tensorlang.language.census import expressions
from tensorlang.language.function import Function
from tensorlang.language.grammar import Let, MakePair, Var
from tensorlang.language.lets import under
from tensorlang.language.names import free_names
from tensorlang.sets.check import check


@dataclass(frozen=True)
class Program:
    """The program of some equations: its function, how each parameter is computed, and what was assumed."""

    function: Function
    sources: dict[str, ParameterSource]
    assumptions: tuple[str, ...]
    lines: dict[str, PythonLine | None]
    flat: Flat = field(repr=False)

    def arguments(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """The arrays of the function's parameters, by name, given those of the equations' inputs."""
        env: dict[Any, Any] = dict(zip(self.flat.inputs, inputs, strict=True))
        env.update(self.flat.constants)
        evaluate(needed(self.flat.equations, [v for s in self.sources.values() for v in s.reads]), env)
        kinds = [v.aval.dtype for v in self.flat.outputs]
        return {name: array_of(source, env, kinds[0]) for name, source in self.sources.items()}


def array_of(source: ParameterSource, env: dict[Any, Any], dtype: Any) -> Any:
    """The array of a parameter, made from the values that JAX has computed."""
    x = jnp.asarray(read(source.var, env))
    size = source.size.constant if isinstance(source.size, Affine) else source.size
    match source.how:
        case "numbers":
            return x.astype(dtype)
        case "mask" | "unmask":
            x = x.reshape(x.shape or (1,))
            return x if source.how == "mask" else ~x
        case "clip":
            least = -source.shift if jnp.issubdtype(x.dtype, jnp.signedinteger) else 0
            x = jnp.clip(x.reshape(x.shape or (1,)), least, size - 1 - source.shift)
            return x.astype(jnp.int32) + source.shift
        case "drop":
            x = x.reshape(x.shape or (1,))
            return jnp.where((x >= 0) & (x < size), x, size).astype(jnp.int32)
        case "inside":
            x = x.reshape(x.shape or (1,))
            return ((x >= 0) & (x < size)).astype(jnp.int32)
        case "permutation":
            return jnp.argsort(x, axis=size, stable=True).astype(jnp.int32)
        case "rank":
            values = [_along(read(v, env), axis) for v, axis in source.among]
            ordered = lax.stop_gradient(jnp.sort(jnp.concatenate(values)))
            return jnp.searchsorted(ordered, lax.stop_gradient(_along(x, size))).astype(jnp.int32)
    return x


def _along(x: Any, axis: int) -> Any:
    """The elements of `x` along an axis, at the first place of the others."""
    return jnp.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])[0] if x.size else jnp.zeros(x.shape[axis], x.dtype)


def translate(
    flat_: Flat,
    name: str,
    hints: dict[Any, str],
    exact: bool,
    active: Callable[[Any], bool] | None = None,
    recompute: bool = True,
    ranks: bool = True,
    signs: bool = False,
) -> Program:
    """The program of `flat_`, called `name`, with names for its inputs from `hints`.

    `active` says which inputs have derivatives; JAX may compute values that depend on none of these. Unless
    `recompute`, it does not compute values that depend on other numbers computed by the equations. With `ranks`,
    comparisons of all pairs of elements of two arrays use their ranks, which JAX computes; with `signs`, absolute
    values of differences and the like are made from such comparisons. Raises `Unsupported`.
    """
    scalars.ensure()
    ahead = _Ahead(flat_, active, recompute)
    origins = Origins(flat_) if ranks else None
    b = Builder(exact, ahead.can_compute, _shifts(flat_), origins, signs, _greatest_shift(flat_))
    b.hints = dict(hints)
    b.constants = flat_.constants
    env: dict[Any, Any] = {}
    for var in flat_.inputs:
        if jnp.issubdtype(var.aval.dtype, np.floating):
            env[var] = b.data(var)
    _one_type(flat_, exact)
    _interpret(b, flat_, env, ahead)
    results = [whole(b, _value(b, flat_, env, v)) for v in flat_.outputs]
    body = results[-1]
    for e in reversed(results[:-1]):
        body = MakePair(e, body)
    body = under(b.statements, body)
    order = {v: k for k, v in enumerate(flat_.inputs)}
    used = free_names(body)
    kept = [p for p in b.params if p in used or (isinstance(p, Var) and b.sources[p.name].var in order)]
    params = tuple(sorted(kept, key=lambda p: order.get(b.sources[p.name].var, len(order))))
    kind = None if len(results) == 1 else (None,) * len(results)
    function = check(Function(b.name(name), params, body, kind))
    sources = {p.name: b.sources[p.name] for p in params}
    names = {e.var.name for e in expressions(body) if isinstance(e, Let)} | set(sources)
    lines = {name: line for name, line in b.lines.items() if name in names}
    return Program(function, sources, tuple(b.assumed), lines, flat_)


def _one_type(flat_: Flat, exact: bool) -> None:
    """Refuse numbers of less than single precision if `exact`, where JAX's rounding must be kept."""
    for equation in flat_.equations:
        for v in (*equation.outvars, *equation.invars):
            if exact and v.aval.dtype in (jnp.bfloat16, jnp.float16):
                raise Unsupported(f"numbers of type {v.aval.dtype}", equation)


_EACH = MOVES | frozenset(["add", "div", "exp", "integer_pow", "log", "max", "min", "mul", "neg", "sub", "tanh"])
"""Primitives that are cheap enough to be computed twice for each element."""


class _Ahead:
    """The values that JAX can compute before the program runs."""

    def __init__(self, flat_: Flat, active: Callable[[Any], bool] | None, recompute: bool) -> None:
        self._flat = flat_
        self._given = frozenset(flat_.inputs)
        self._recompute = recompute
        self._numbers: set[Any] = set()
        """The variables that depend on numbers computed by these equations."""
        self._expensive: set[Any] = set()
        """Those of them that cost more than a pass over the elements of the inputs."""
        self._made = {v for equation in flat_.equations for v in equation.outvars}
        self._active = {
            v for v in flat_.inputs if jnp.issubdtype(v.aval.dtype, np.floating) and (active is None or active(v))
        }
        for equation in flat_.equations:
            given = [v for v in equation.invars if not isinstance(v, core.Literal)]
            tied = any(v in self._active for v in given)
            for v in equation.outvars:
                floating = jnp.issubdtype(v.aval.dtype, np.floating)
                if tied and floating and equation.primitive.name != "stop_gradient":
                    self._active.add(v)
                if floating or any(w in self._numbers for w in given):
                    self._numbers.add(v)
                    if equation.primitive.name not in _EACH or any(w in self._expensive for w in given):
                        self._expensive.add(v)

    def can_compute(self, v: Any, as_order: bool = False) -> bool:
        """Whether `v` is an input or constant, or has no derivative, or needs none as only its order counts."""
        if isinstance(v, core.Literal) or v in self._given or v in self._flat.constants:
            return True
        if v not in self._made:  # within a loop or a branch
            return False
        if as_order:
            return self._recompute or v not in self._expensive
        return v not in self._active and (self._recompute or v not in self._numbers)


def _greatest_shift(flat_: Flat) -> int:
    """The largest of the small numbers that are compared with integers, added to or subtracted from them."""
    sums = [e.invars for e in flat_.equations if e.primitive.name in ("add", "sub") or e.primitive.name in COMPARISONS]
    added = [
        int(v.val) for given in sums for v in given if isinstance(v, core.Literal) and np.asarray(v.val).dtype in WIDE
    ]
    return max((abs(k) for k in added if abs(k) <= SHORT), default=0)


def _shifts(flat_: Flat) -> Callable[[Any, Any], bool]:
    sums = {e.outvars[0]: e.invars for e in flat_.equations if e.primitive.name == "add"}
    return lambda x, y: x in sums and any(v is y for v in sums[x])


def interpret(b: Builder, flat_: Flat, arguments: list[Any]) -> list[Any]:
    """The results of equations at these abstract values."""
    env: dict[Any, Any] = dict(zip(flat_.inputs, arguments, strict=True))
    _interpret(b, flat_, env, None)
    return [_value(b, flat_, env, v) for v in flat_.outputs]


def _value(b: Builder, flat_: Flat, env: dict[Any, Any], v: Any) -> Any:
    if isinstance(v, core.Literal):
        return b.scalar(v.val)
    if v not in env:
        if v in flat_.constants:
            b.constants[v] = flat_.constants[v]
            env[v] = b.constant(flat_.constants[v], v)
        else:
            env[v] = b.data(v)
    return env[v]


def _interpret(b: Builder, flat_: Flat, env: dict[Any, Any], ahead: _Ahead | None) -> None:
    outer, b.read = b.read, flat_.read
    for equation in flat_.equations:
        around, b.equation = b.equation, equation
        try:
            found = _apply(b, equation, [_value(b, flat_, env, v) for v in equation.invars])
        except Unsupported as why:
            if ahead is None or not all(ahead.can_compute(v) for v in equation.outvars):
                raise why.at(equation) from None
            found = [b.data(v) for v in equation.outvars]
        b.equation = around
        env.update(zip(equation.outvars, found, strict=True))
    b.read = outer


def _apply(b: Builder, equation: Any, given: list[Any]) -> list[Any]:
    name = equation.primitive.name
    if name not in RULES:
        raise Unsupported("there is no rule for it")
    found = RULES[name](b, equation, *given)
    results = found if isinstance(found, list) else [found]
    for x in results:
        _probe(b, x)
    return results


def _probe(b: Builder, x: Any) -> None:
    """Make an element of `x`, so that a value without elements is refused here."""
    place, _ = b.indices(x.axes)
    if isinstance(x, Int):
        x.cases(place)
    elif isinstance(x, Bool) and x.holds is not None:
        x.holds(place)
    elif isinstance(x, RealNumbers) and not x.infinite and x.variable is None:
        x.at(place)
