"""Loop fission: values that depend on no state are computed before a loop, and values that no step reads after it.

Computed before the loop, for all times at once, are integers and conditions that depend on data and counters, and
remainders of counters: so steps read places and masks, which are parameters of a program, instead of making them.
Computed after it are products that steps only output, which are faster together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import source_info_util
from jax.extend import core

from tensorlang.jaxprs.flatten import Flat, evaluate, flatten, inner_jaxpr, moving, needed, read, scanned
from tensorlang.jaxprs.refusal import Unsupported
from tensorlang.jaxprs.sizes import affine

LARGEST = 64
"""The most numbers that may be stored for each step by code before a loop, unless each step already has more."""

NAMED = 64
"""The value assumed for named sizes when numbers of elements are compared."""

STORED = 4
"""Code after a loop may store at most this many times as much as each step already has."""


def fissioned(flat: Flat) -> Flat:
    """`flat` with its loops split."""
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
    """The number by which each step increases the integer `state`, whose value `after` the step is given; None if a
    step does anything else."""
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
    """Whether a constant is a number or evenly spaced numbers, which don't count as data."""
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):
        return True
    value = np.asarray(x)
    return value.ndim == 0 or (value.ndim == 1 and len(np.unique(np.diff(value.astype(np.float64)))) <= 1)


def _is_discrete(v: Any) -> bool:
    dtype = v.aval.dtype
    return bool(dtype == np.dtype(bool) or jnp.issubdtype(dtype, np.integer))


class _Steps:
    """The body of a scan, in parts: `before` computes `early` for each step, `inside` the states, `after` the rest."""

    def __init__(self, equation: Any, is_data: Sequence[bool]) -> None:
        self.params = equation.params
        constants, self.carried = scanned(equation)
        self.body = fissioned(flatten(inner_jaxpr(equation), lambda _: False))
        first = constants + self.carried
        inputs = self.body.inputs
        self.fixed, self.states, self.rows = inputs[:constants], inputs[constants:first], inputs[first:]
        self.given = self.body.outputs[self.carried :]
        self.counters = {
            v: n
            for v, after in zip(self.states, self.body.outputs, strict=False)
            if _is_discrete(v) and (n := increment(self.body, v, after))
        }
        there = _elements([*self.rows, *self.given])
        self.before, self.early, self.inside = self._early(is_data, max(LARGEST, there))
        self.after, self.late, self.stored = self._late(STORED * there)

    def _early(self, is_data: Sequence[bool], most: int) -> tuple[list[Any], list[Any], list[Any]]:
        """The equations of integers and conditions that depend on data, those of their results that the rest reads, and
        all other equations."""
        body = self.body
        known = {v for v in (*self.fixed, *self.rows, *self.counters, *body.constants) if _is_discrete(v)}
        data = {v for v, found in zip(body.inputs, is_data, strict=True) if found and v in known}
        data |= {v for v, x in body.constants.items() if v in known and not _is_even(x)}
        made, kept = [], []
        for e in body.equations:
            operands = [v for v in e.invars if not isinstance(v, core.Literal)]
            as_numbers = e.primitive.name == "convert_element_type" and any(v in data for v in operands)
            discrete = as_numbers or all(map(_is_discrete, e.outvars))
            if e.effects or not discrete or not all(v in known for v in operands):
                kept.append(e)
                continue
            known.update(filter(_is_discrete, e.outvars))
            made.append(e)
            if any(v in data for v in operands) or self._wraps(e):
                data.update(e.outvars)
            else:
                kept.append(e)  # counters are better computed in place, where they are recognised
        used = _read(kept, body.outputs)
        early = [v for e in made for v in e.outvars if v in data and v in used]
        if _elements(early) > most:
            return [], [], body.equations
        return needed(made, early), early, kept

    def _wraps(self, e: Any) -> bool:
        """Whether `e` is a remainder or quotient that is no affine function of a counter, as in a ring buffer."""
        if e.primitive.name not in ("rem", "div"):
            return False
        by, length = self._number(e.invars[-1]), self.params.get("length")
        return by is not None and not (isinstance(length, int) and length <= by)

    def _number(self, v: Any) -> int | None:
        """The value of `v`, if it is a constant."""
        equations = needed(self.body.equations, [v])
        made = {w for e in equations for w in e.outvars}
        if any(w not in made for w in (*_reads(equations), *([] if isinstance(v, core.Literal) else [v]))):
            return None
        env: dict[Any, Any] = {}
        with jax.ensure_compile_time_eval():
            evaluate(equations, env)
            return int(read(v, env))

    def _late(self, most: int) -> tuple[list[Any], list[Any], list[Any]]:
        """The equations, with products, of results that no step reads; those results; and the values that the equations
        read from a step."""
        states = self.body.outputs[: self.carried]
        inside = set(map(id, needed(self.inside, states)))

        def has_products(v: Any) -> bool:
            return any(e.primitive.name == "dot_general" for e in needed(self.inside, [v]) if id(e) not in inside)

        given = dict.fromkeys(v for v in self.given if not isinstance(v, core.Literal))
        late = [v for v in given if has_products(v)]
        inside = set(map(id, needed(self.inside, [*states, *(v for v in given if v not in late)])))
        after = [e for e in needed(self.inside, late) if id(e) not in inside]
        made = {v for e in after for v in e.outvars}
        late = [v for v in late if v in made]
        there = {*self.fixed, *self.rows, *self.early, *self.body.constants}
        stored = [v for v in dict.fromkeys(_reads(after)) if v not in made and v not in there]
        if (
            not late
            or not (self.rows or stored)
            or _elements(stored) > most
            or not all(jnp.issubdtype(v.aval.dtype, np.floating) for v in stored)
        ):
            return [], [], []
        self.inside = [e for e in self.inside if id(e) in inside]
        return after, late, stored

    def run(self, *inputs: Any) -> list[Any]:
        """The results of the scan."""
        a, b = len(self.fixed), len(self.fixed) + self.carried
        fixed = {**self.body.constants, **dict(zip(self.fixed, inputs[:a], strict=True))}
        first, sequences = dict(zip(self.states, inputs[a:b], strict=True)), tuple(inputs[b:])
        given = [k for k, v in enumerate(self.given) if isinstance(v, core.Literal) or v not in self.late]
        length, reverse, unroll = (self.params.get(name) for name in ("length", "reverse", "unroll"))

        def early(done: Any, now: Sequence[Any]) -> list[Any]:
            env = {**fixed, **dict(zip(self.rows, now, strict=True))}
            env.update((v, first[v] + (done * n).astype(v.aval.dtype)) for v, n in self.counters.items())
            return _made(self.before, env, self.early)

        def step(state: Any, now: Any) -> Any:
            env = {**fixed, **dict(zip(self.states, state, strict=True)), **dict(zip(self.rows, now[0], strict=True))}
            env.update(zip(self.early, now[1], strict=True))
            out = [*self.body.outputs[: self.carried], *(self.given[k] for k in given), *self.stored]
            found = _made(self.inside, env, out)
            return tuple(found[: self.carried]), tuple(found[self.carried :])

        def late(now: Sequence[Any], table: Sequence[Any], stored: Sequence[Any]) -> list[Any]:
            pairs = ((self.rows, now), (self.early, table), (self.stored, stored))
            env = {**fixed, **{v: x for vs, xs in pairs for v, x in zip(vs, xs, strict=True)}}
            return _made(self.after, env, self.late)

        table: tuple[Any, ...] = ()
        if self.early:
            times = jnp.arange(length)
            table = tuple(jax.vmap(early)(times[::-1] if reverse else times, sequences))
        steps = None if sequences or table else length  # a named size is the length of a sequence
        last, found = jax.lax.scan(step, tuple(inputs[a:b]), (sequences, table), steps, reverse, unroll or 1)
        rows = dict(zip(given, found[: len(given)], strict=True))
        if self.late:
            made = dict(zip(self.late, jax.vmap(late)(sequences, table, found[len(given) :]), strict=True))
            rows.update((k, made[v]) for k, v in enumerate(self.given) if k not in rows)
        return [*last, *(rows[k] for k in range(len(self.given)))]


def _apart(equation: Any, is_data: Sequence[bool]) -> Flat | None:
    """A scan split into parts, with `is_data` for its inputs that are more than counters; None if it is not split."""
    steps = _Steps(equation, is_data)
    if not (steps.early or steps.late):
        return None
    return flatten(jax.make_jaxpr(steps.run)(*(v.aval for v in equation.invars)), lambda _: False)


def _made(equations: Iterable[Any], env: dict[Any, Any], wanted: Iterable[Any]) -> list[Any]:
    """The values `wanted`, computed by `equations`, which keep their source lines."""
    for e in equations:
        with source_info_util.user_context(e.source_info.traceback):
            evaluate([e], env)
    return [read(v, env) for v in wanted]


def _reads(equations: Iterable[Any]) -> list[Any]:
    return [v for e in equations for v in e.invars if not isinstance(v, core.Literal)]


def _read(equations: Iterable[Any], outputs: Iterable[Any]) -> set[Any]:
    return {*_reads(equations), *(v for v in outputs if not isinstance(v, core.Literal))}


def _elements(variables: Iterable[Any]) -> int:
    """The number of elements, with `NAMED` for all named sizes."""
    return sum(math.prod(map(_number, v.aval.shape)) for v in variables)


def _number(dim: Any) -> int:
    if isinstance(dim, int):
        return dim
    try:
        size = affine(dim)
    except Unsupported:
        return NAMED
    return size.value(dict.fromkeys(size.sizes, NAMED))
