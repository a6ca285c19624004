"""A jaxpr without calls: jit, remat and the like inlined, equal equations merged, unused ones dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import jax
import numpy as np
from jax.extend import core

CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "custom_lin"})
"""Primitives that only call their jaxpr."""

KNOWN_RULES = frozenset({"relu", "relu6", "logaddexp", "xlogy", "xlog1py"})
"""JAX functions with custom derivatives for which the importer has a rule."""


@dataclass
class Flat:
    """Equations in order; variables in `constants` have values, others are inputs or results of equations."""

    inputs: list[Any]
    outputs: list[Any]
    equations: list[Any] = field(default_factory=list)
    constants: dict[Any, Any] = field(default_factory=dict)

    @property
    def read(self) -> set[Any]:
        """The variables that equations or outputs read."""
        found = {v for e in self.equations for v in e.invars if not isinstance(v, core.Literal)}
        return found | {v for v in self.outputs if not isinstance(v, core.Literal)}


def inner_jaxpr(equation: Any) -> Any:
    """The jaxpr that `equation` calls, with its constants, if it calls one."""
    found = equation.params.get("call_jaxpr") or equation.params.get("jaxpr") or equation.params.get("fun_jaxpr")
    if found is None:
        return None
    return found if hasattr(found, "consts") else core.ClosedJaxpr(found, ())


def scanned(equation: Any) -> tuple[int, int]:
    """The numbers of inputs of a scan that are constants of its body and its state; sequences follow."""
    p = equation.params
    if "num_consts" in p:
        return p["num_consts"], p["num_carry"]
    constants, state, _ = p["ft_in"].unpack()  # JAX 0.12 and newer
    return len(constants), len(state)


def is_jax_own(jaxpr: Any) -> bool:
    """Whether `jaxpr` belongs to a function of JAX, whose cached traces have the source lines of their first
    callers."""
    info = getattr(jaxpr, "debug_info", None)
    return "jax" in PurePath(str(getattr(info, "func_filename", "") or "")).parts


def rule_name(equation: Any) -> str | None:
    """The name of the JAX function whose custom derivative `equation`, a custom_jvp_call, has."""
    jaxpr = inner_jaxpr(equation).jaxpr
    return jaxpr.debug_info.func_name if is_jax_own(jaxpr) else None


def has_rule(equation: Any) -> bool:
    """Whether `equation` calls a function with a custom derivative for which the importer has a rule."""
    return equation.primitive.name == "custom_jvp_call" and rule_name(equation) in KNOWN_RULES


def is_opened(equation: Any) -> bool:
    """Whether the importer inlines `equation`, a custom_jvp_call or remat, for lack of a rule."""
    return not has_rule(equation)


def flatten(closed: Any, opened: Callable[[Any], bool] = is_opened) -> Flat:
    """`closed` without calls; `opened` says which custom_jvp_call and remat equations to inline."""
    flat = Flat([], [])
    known: dict[Any, list[Any]] = {}

    def constant(value: Any) -> Any:
        var = core.Var(jax.typeof(value))
        flat.constants[var] = value
        return var

    def inline(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any], caller: Any = None) -> list[Any]:
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, map(constant, constants), strict=True))
        env.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in jaxpr.eqns:
            if caller is not None:
                equation = equation.replace(source_info=caller.source_info)  # noqa: PLW2901
            inputs = [v if isinstance(v, core.Literal) else env[v] for v in equation.invars]
            name = equation.primitive.name
            if name in CALLS or (name in ("custom_jvp_call", "checkpoint", "remat", "remat2") and opened(equation)):
                inner = inner_jaxpr(equation)
                within = equation if caller is not None or is_jax_own(inner.jaxpr) else None
                results = inline(inner.jaxpr, inner.consts, inputs, within)
            else:
                key = _key(equation, inputs)
                results = known.get(key, []) if key is not None else []
                if not results:
                    results = [core.Var(v.aval) for v in equation.outvars]
                    flat.equations.append(equation.replace(invars=inputs, outvars=results))
                    if key is not None:
                        known[key] = results
            env.update(zip(equation.outvars, results, strict=True))
        return [v if isinstance(v, core.Literal) else env[v] for v in jaxpr.outvars]

    flat.inputs = [core.Var(v.aval) for v in closed.jaxpr.invars]
    flat.outputs = inline(closed.jaxpr, closed.consts, flat.inputs)
    flat.equations = needed(flat.equations, flat.outputs)
    return flat


def _key(equation: Any, inputs: Sequence[Any]) -> Any:
    """A key that distinguishes equations with different results; None if there is no such key."""
    if equation.effects or equation.primitive.name.startswith(("random", "threefry")):
        return None
    given = []
    for v in inputs:
        if isinstance(v, core.Literal):
            value = np.asarray(v.val)
            given.append((value.dtype, value.shape, value.tobytes(), getattr(v.aval, "weak_type", False)))
        else:
            given.append(v)
    key = (equation.primitive, tuple(given), tuple(sorted(equation.params.items(), key=lambda kv: kv[0])))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def needed(equations: Sequence[Any], outputs: Iterable[Any]) -> list[Any]:
    """The equations on which `outputs` depend, and those with effects, in order."""
    live = {v for v in outputs if not isinstance(v, core.Literal)}
    kept = []
    for equation in reversed(equations):
        if equation.effects or any(v in live for v in equation.outvars):
            kept.append(equation)
            live.update(v for v in equation.invars if not isinstance(v, core.Literal))
    return kept[::-1]


def moving(flat: Flat) -> list[Any]:
    """The equations that depend on inputs, and those with effects, in order."""
    depends = set(flat.inputs)
    found = []
    for equation in flat.equations:
        if equation.effects or any(v in depends for v in equation.invars if not isinstance(v, core.Literal)):
            depends.update(equation.outvars)
            found.append(equation)
    return found


def evaluate(equations: Iterable[Any], env: dict[Any, Any]) -> None:
    """Run `equations` in JAX, reading and extending `env`."""
    for equation in equations:
        given = [v.val if isinstance(v, core.Literal) else env[v] for v in equation.invars]
        found = equation.primitive.bind(*given, **equation.primitive.get_bind_params(equation.params))
        results = found if equation.primitive.multiple_results else [found]
        env.update(zip(equation.outvars, results, strict=True))


def read(v: Any, env: dict[Any, Any]) -> Any:
    """The value of a variable or literal in `env`."""
    return v.val if isinstance(v, core.Literal) else env[v]
