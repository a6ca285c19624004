"""Integers and conditions of loops that no state decides, computed before the loops for all times: so steps read places
of data and masks, which are parameters of a program, and make none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import source_info_util
from jax.extend import core

from tensorlang.jaxprs.flatten import Flat, evaluate, flatten, inner_jaxpr, moving, needed, read, scanned

LARGEST = 64
"""So many numbers may be stored for each step, and more if a step reads more of what there is for each time."""


def hoisted(flat: Flat) -> Flat:
    """`flat`, from whose loops such integers and conditions are taken out."""
    data = {v for e in moving(flat) for v in e.outvars} | set(flat.inputs)
    data |= {v for v, x in flat.constants.items() if not _is_even(x)}
    equations: list[Any] = []
    constants = dict(flat.constants)
    renamed: dict[Any, Any] = {}

    def new(v: Any) -> Any:
        return v if isinstance(v, core.Literal) else renamed.get(v, v)

    for equation in flat.equations:
        is_data = [not isinstance(v, core.Literal) and v in data for v in equation.invars]
        found = _apart(equation, is_data) if equation.primitive.name == "scan" else None
        if found is None:
            equations.append(equation.replace(invars=[new(v) for v in equation.invars]))
            continue
        renamed.update(zip(found.inputs, map(new, equation.invars), strict=True))
        for e in found.equations:
            equations.append(e.replace(invars=[new(v) for v in e.invars], source_info=equation.source_info))
        constants.update(found.constants)
        renamed.update((v, new(w)) for v, w in zip(equation.outvars, found.outputs, strict=True))
    return Flat(flat.inputs, [new(v) for v in flat.outputs], equations, constants)


def increment(body: Flat, state: Any, after: Any) -> int | None:
    """The number by which each step raises the integer `state`, which is `after` a step; None if it does something
    else."""
    made = next((e for e in body.equations if e.outvars[0] is after), None)
    if made is None or made.primitive.name not in ("add", "sub"):
        return None
    first, second = made.invars
    if made.primitive.name == "add" and second is state:
        first, second = second, first
    if first is not state or not isinstance(second, core.Literal):
        return None
    return int(second.val) if made.primitive.name == "add" else -int(second.val)


def _is_even(x: Any) -> bool:
    """Whether what is known is a number, or numbers in even steps, which are no data."""
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):
        return True
    value = np.asarray(x)
    return value.ndim == 0 or (value.ndim == 1 and len(np.unique(np.diff(value.astype(np.float64)))) <= 1)


def _is_discrete(v: Any) -> bool:
    dtype = v.aval.dtype
    return bool(dtype == np.dtype(bool) or jnp.issubdtype(dtype, np.integer))


def _apart(equation: Any, is_data: Sequence[bool]) -> Flat | None:
    """What computes integers and conditions of the steps of a scan that follow from data, and the scan, which reads
    them; None if there are none, or too many. `is_data` says which inputs are no mere counters."""
    constants, carried = scanned(equation)
    rows = constants + carried
    body = hoisted(flatten(inner_jaxpr(equation), lambda _: False))
    states = dict(zip(body.inputs[constants:rows], body.outputs, strict=False))
    counters = {v: n for v, after in states.items() if _is_discrete(v) and (n := increment(body, v, after))}
    given = [v for v in body.inputs if v not in states and _is_discrete(v)]
    known = {*given, *counters, *(v for v in body.constants if _is_discrete(v))}
    data = {v for v, found in zip(body.inputs, is_data, strict=True) if found and v in known}
    data |= {v for v, x in body.constants.items() if v in known and not _is_even(x)}
    made, kept = [], []
    for e in body.equations:
        read_here = [v for v in e.invars if not isinstance(v, core.Literal)]
        if e.effects or not all(v in known for v in read_here) or not all(map(_is_discrete, e.outvars)):
            kept.append(e)
            continue
        known.update(e.outvars)
        made.append(e)
        if any(v in data for v in read_here):
            data.update(e.outvars)
        else:
            kept.append(e)  # counters are better computed in place, where they are seen to be such
    used = {v for e in kept for v in e.invars if not isinstance(v, core.Literal)}
    used.update(v for v in body.outputs if not isinstance(v, core.Literal))
    stored = [v for e in made for v in e.outvars if v in data and v in used]
    sizes = [math.prod(v.aval.shape) for v in stored]
    row = sum(math.prod(v.aval.shape) for v in body.inputs[rows:])
    if not stored or not sum(sizes) <= max(LARGEST, row):
        return None
    before = needed(made, stored)
    length, reverse = equation.params["length"], equation.params["reverse"]

    def run(*inputs: Any) -> list[Any]:
        fixed = {**body.constants, **dict(zip(body.inputs[:constants], inputs[:constants], strict=True))}

        def one(done: Any, now: Sequence[Any]) -> list[Any]:
            env = {**fixed, **dict(zip(body.inputs[rows:], now, strict=True))}
            first = dict(zip(states, inputs[constants:rows], strict=True))
            env.update((v, first[v] + (done * n).astype(v.aval.dtype)) for v, n in counters.items())
            evaluate(before, env)
            return [env[v] for v in stored]

        def step(state: Any, now: Any) -> Any:
            env = {
                **fixed,
                **dict(zip(states, state, strict=True)),
                **dict(zip(body.inputs[rows:], now[0], strict=True)),
            }
            env.update(zip(stored, now[1], strict=True))
            for e in kept:
                with source_info_util.user_context(e.source_info.traceback):
                    evaluate([e], env)
            found = [read(v, env) for v in body.outputs]
            return tuple(found[:carried]), tuple(found[carried:])

        times = jnp.arange(length)
        done = times[::-1] if reverse else times
        sequences = tuple(inputs[rows:])
        table = jax.vmap(one)(done, sequences)
        last, given = jax.lax.scan(step, tuple(inputs[constants:rows]), (sequences, tuple(table)), reverse=reverse)
        return [*last, *given]

    return flatten(jax.make_jaxpr(run)(*(v.aval for v in equation.invars)), lambda _: False)
