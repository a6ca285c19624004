"""The parts of a jaxpr that become tensor programs: convex regions, kept where JAX's own gradient costs more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

import tensorlang.jaxprs.rules  # noqa: F401  (fills the table)
from tensorlang.budget import limits, spend
from tensorlang.errors import LimitError, PythonLine, TensorlangError
from tensorlang.jaxprs.dense import dense_work
from tensorlang.jaxprs.flatten import Flat, moving, needed
from tensorlang.jaxprs.importer import Program, translate
from tensorlang.jaxprs.origins import Origins
from tensorlang.jaxprs.price import code_work, derivable, derived_work, gradient_work
from tensorlang.jaxprs.price import traffic as traffic_of
from tensorlang.jaxprs.refusal import Unsupported, line_of
from tensorlang.jaxprs.rules.table import RULES
from tensorlang.jaxprs.work import MOVES, JaxprWork, all_equations, program_cost, work
from tensorlang.language.census import expressions
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket
from tensorlang.language.predicates import NonNegative, conjuncts
from tensorlang.simplification import is_filled, simplify

GAIN = 1.25
"""A region is kept if JAX's own gradient does at least this many times the work of the derived one."""

PRODUCTS = 4
"""The operations of matrix products and convolutions that take as long as one other operation, in weighted counts."""

LEAST = 5000
"""The fewest operations that a region must save."""

LEAST_BY_TRAFFIC = 3
"""The fewest operations that a region must save for each number that it reads or writes."""

BUSY = 4
"""The fewest operations of JAX's gradient for each number that it reads or writes; below this, the region stays JAX."""

LEAST_BY_EQUATION = 100
"""The fewest operations that a region must save for each equation of JAX's gradient: the more equations, the longer the
derivation takes, and the savings must pay for it."""

SHARE = 5
"""A region must save at least the operations of the whole value divided by this, else the gradient is hardly faster."""

_STRUCTURED = (
    "iota slice dynamic_slice dynamic_update_slice pad concatenate gather split rev sort cumsum scatter scatter-add "
    "scan dot_general conv_general_dilated reduce_window reduce_window_sum reduce_window_max reduce_window_min"
)
_STRUCTURE = frozenset(_STRUCTURED.split())
"""Primitives whose gradient may be cheaper than JAX's even if no array is larger than the inputs and outputs."""

_SHOWN = frozenset(["iota", "dot_general", "slice", "split", "concatenate", "scan"])
"""Those of them whose structure already shows in the cost of the value: slices if the arrays cut are no larger than the
inputs, and loops if this holds for their bodies."""

WRITTEN = 2
"""Where only the code shows that fills are cheap, JAX's gradient writes at least this many times the elements that the
code writes, or saves as many operations: masks and comparisons are no operations."""

LARGEST = 600
"""The most equations in a region; larger ones are left to JAX, which differentiates them quickly."""

STEPS = 650
"""The steps of work allowed for deriving a region, for each equation of JAX's gradient: about the time that JAX takes
to trace and compile the equation."""

FIRST_STEPS = 40_000
"""The additional steps for any region: about the time that JAX takes for the smallest gradient."""

OPERATIONS = 100
"""The operations of JAX's gradient that allow one further step, which is paid back after some hundreds of runs."""

OUTSIDE_PRODUCTS = 15
"""The same for operations outside of matrix products, which take longer."""

PATIENCE = 10_000_000
"""The steps that a region may always take if it is only analysed: some seconds."""

_patient: ContextVar[bool] = ContextVar("patient", default=False)


@contextmanager
def patience() -> Iterator[None]:
    """A context in which regions are derived even if that never pays: for functions that are analysed at representative
    sizes, and not run at them."""
    token = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(token)


def is_patient() -> bool:
    """Whether the current context is one of `patience`."""
    return _patient.get()


_AS_CHEAP = "JAX's gradient is as cheap"
_AS_CHEAP_CODE = "JAX's gradient is as cheap as the code of the derived one"
_IN_PRODUCTS = "most of JAX's work is in products, which are fast"

_JAX_OWN = {
    "cumsum": "JAX takes time in proportion to its length, and so for the gradient",
    "cummax": "JAX takes time in proportion to its length, and so for the gradient",
    "cummin": "JAX takes time in proportion to its length, and so for the gradient",
    "cumprod": "JAX takes time in proportion to its length, and so for the gradient",
    "while": "a loop that runs until its data say so",
    "custom_vjp_call": "its derivative is the user's",
    "custom_vjp_call_jaxpr": "its derivative is the user's",
}
"""Primitives that stay JAX although they have a rule, since it refuses them or costs more."""


@dataclass(frozen=True)
class Region:
    """Equations that are, or were considered as, one program. `why` says why they stay JAX, None if the program is
    used.

    `jax_work` counts the operations of JAX's gradient, including the value, and `derived_work` those of the program's
    adjoint, 0 if JAX's gradient was known to be as cheap without deriving it; both include inputs and outputs.
    """

    equations: tuple[Any, ...]
    flat: Flat
    program: Program | None
    why: str | None
    jax_work: int = 0
    derived_work: int = 0

    @property
    def lines(self) -> tuple[PythonLine, ...]:
        """The user's lines that it comes from, in order."""
        found = {line for e in self.equations if (line := line_of(e)) is not None}
        return tuple(sorted(found, key=lambda line: (line.filename, line.line)))


@dataclass(frozen=True)
class Refused:
    """An equation that stays JAX, and why."""

    equation: Any
    why: str


@dataclass
class JaxprPartition:
    """The regions of a flat jaxpr, and the equations outside of them; `active` are the variables that depend on
    differentiated inputs."""

    flat: Flat
    active: set[Any] = field(default_factory=set)
    regions: list[Region] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def is_float(v: Any) -> bool:
    """Whether a variable holds floating-point numbers."""
    return jnp.issubdtype(v.aval.dtype, np.floating)


def partition(flat: Flat, active: Sequence[bool], gain: float | None = GAIN) -> JaxprPartition:
    """The regions of `flat`, whose inputs marked `active` are differentiated.

    If `gain` is None, every region that can be imported is kept.
    """
    refused: dict[int, str] = {}
    for k, equation in enumerate(flat.equations):
        name = equation.primitive.name
        if name in _JAX_OWN:
            refused[k] = _JAX_OWN[name]
        elif name not in RULES and any(is_float(v) for v in equation.outvars):
            refused[k] = "there is no rule for it"
        elif equation.effects:
            refused[k] = "it has effects"
    moved = _active(flat, active)
    places = {id(e): k for k, e in enumerate(flat.equations)}
    done: dict[tuple[int, ...], Region] = {}
    share = weighed(work(flat.equations)) // SHARE
    while True:
        found = JaxprPartition(flat, moved)
        again = False
        for members in _components(flat, refused):
            region = done.get(members)
            if region is None:
                try:
                    region = _region(flat, members, moved, gain, share)
                except Unsupported as why:
                    k = places.get(id(why.outer), -1)
                    if k in members and k not in refused:
                        refused[k] = why.within
                        again = True
                        break
                    region = _left(flat, members, why.what)
                done[members] = region
            found.regions.append(region)
        if not again:
            found.refused = [Refused(flat.equations[k], why) for k, why in sorted(refused.items())]
            return found


def _active(flat: Flat, active: Sequence[bool]) -> set[Any]:
    """The variables that depend on differentiated inputs."""
    found = {v for v, a in zip(flat.inputs, active, strict=True) if a and is_float(v)}
    for equation in flat.equations:
        if equation.primitive.name != "stop_gradient" and any(
            v in found for v in equation.invars if not isinstance(v, core.Literal)
        ):
            found.update(v for v in equation.outvars if is_float(v))
    return found


def _components(flat: Flat, refused: dict[int, str]) -> list[tuple[int, ...]]:
    """Connected, convex sets of equations, by their numbers: no path leaves such a set and enters it again."""
    levels = _levels(flat, refused)
    made: dict[Any, int] = {}
    parent: dict[int, int] = {}

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    for k, equation in enumerate(flat.equations):
        if k not in levels or k in refused:
            continue
        parent[k] = k
        for v in equation.invars:
            if not isinstance(v, core.Literal) and v in made and levels[made[v]] == levels[k]:
                parent[root(made[v])] = root(k)
        made.update((v, k) for v in equation.outvars)
    groups: dict[int, list[int]] = {}
    for k in parent:
        groups.setdefault(root(k), []).append(k)
    return [tuple(group) for group in groups.values()]


def _levels(flat: Flat, refused: dict[int, str]) -> dict[int, int]:
    """Levels of equations, which never decrease towards readers, and increase at refused equations.

    An equation that only moves elements is on the level of its first readers, so that these see the structure. An
    equation that depends on nothing has no level: it is a part of each region that reads it.
    """
    level: dict[Any, int] = {v: 0 for v in flat.inputs}
    found: dict[int, int] = {}
    for k, equation in enumerate(flat.equations):
        known = [level[v] for v in equation.invars if not isinstance(v, core.Literal) and v in level]
        if known or k in refused:
            found[k] = max(known, default=0) + (k in refused)
            level.update((v, found[k]) for v in equation.outvars)
    latest: dict[Any, int] = {}
    for k, equation in reversed(list(enumerate(flat.equations))):
        if k not in found:
            continue
        readers = [latest[v] for v in equation.outvars if v in latest]
        if readers and k not in refused and (equation.primitive.name in MOVES or _widens(equation)):
            found[k] = min(readers)
        here = found[k] - (k in refused)
        for v in equation.invars:
            if not isinstance(v, core.Literal):
                latest[v] = min(here, latest.get(v, here))
    return found


def _widens(equation: Any) -> bool:
    """Whether the result of `equation` is at least as large as each operand, so that computing it later is no worse."""
    size = lambda v: math.prod(v.aval.shape)
    given = max(map(size, equation.outvars))
    return given > 1 and given >= max(map(size, equation.invars), default=0)


def sub_flat(flat: Flat, members: Sequence[int]) -> Flat:
    """The equations `members`, with the constant ones that they need, and their inputs and outputs."""
    own = [flat.equations[k] for k in members]
    inside = {v for e in own for v in e.outvars}
    moved = set(map(id, moving(flat)))
    static = [e for e in flat.equations if id(e) not in moved and not any(v in inside for v in e.outvars)]
    read_here = [v for e in own for v in e.invars if not isinstance(v, core.Literal) and v not in inside]
    chosen = set(map(id, own)) | set(map(id, needed(static, read_here)))
    equations = [e for e in flat.equations if id(e) in chosen]
    made = {v for e in equations for v in e.outvars}
    used = dict.fromkeys(v for e in equations for v in e.invars if not isinstance(v, core.Literal))
    inputs = [v for v in used if v not in made and v not in flat.constants]
    outside = {v for e in flat.equations if id(e) not in chosen for v in e.invars if not isinstance(v, core.Literal)}
    outside.update(v for v in flat.outputs if not isinstance(v, core.Literal))
    outputs = [v for e in own for v in e.outvars if v in outside and is_float(v)]
    return Flat(inputs, outputs, equations, {v: c for v, c in flat.constants.items() if v in used})


def _left(flat: Flat, members: Sequence[int], why: str) -> Region:
    sub = sub_flat(flat, members)
    return Region(tuple(flat.equations[k] for k in members), sub, None, why)


def _region(flat: Flat, members: tuple[int, ...], active: set[Any], gain: float | None, share: int) -> Region:
    """The region of these equations, which must save at least `share` operations to be kept. Raises `Unsupported`."""
    sub = sub_flat(flat, members)
    own = tuple(flat.equations[k] for k in members)

    def left(why: str) -> Region:
        return Region(own, sub, None, why)

    if not sub.outputs:
        return left("it computes no numbers that are read")
    wanted = [v for v in sub.inputs if v in active]
    if not wanted and gain is not None:
        return left("nothing in it is differentiated")
    if len(members) > LARGEST:
        return left(f"it has {len(members)} operations, more than {LARGEST}")
    kinds = {v.aval.dtype for v in (*sub.inputs, *sub.outputs) if is_float(v)}
    if len(kinds) > 1:
        return left("its numbers are of several types")
    sub.equations = needed(sub.equations, sub.outputs)
    ours = jax_work = by_weight = least = 0
    if gain is not None:
        if _is_elementwise(sub):
            return left("it is work on each number of arrays that are no larger than what it reads and writes")
        try:
            spent = gradient_work(sub, wanted)
        except Exception as error:  # JAX raises it again if that gradient is needed
            wanted = derivable(sub, wanted)
            if not wanted:
                return left(f"JAX has no gradient of it: {(str(error).splitlines() or [type(error).__name__])[0]}")
            spent = gradient_work(sub, wanted)
        traffic = traffic_of(sub, wanted)
        jax_work = spent.total + traffic
        by_weight = weighed(spent) + traffic
        least = max(LEAST, share, LEAST_BY_TRAFFIC * traffic, LEAST_BY_EQUATION * spent.equations)
        if by_weight - traffic < max(least, BUSY * traffic):
            return left("JAX's gradient does little more than read and write")
        paid_back = max(spent.total // OPERATIONS, (spent.total - spent.products) // OUTSIDE_PRODUCTS)
        most = FIRST_STEPS + STEPS * spent.equations + paid_back
        if is_patient():
            most = max(most, PATIENCE)
        if Origins(sub).compares_pairs():
            ranked = _by_ranks(sub, wanted, most)
            if ranked is not None and by_weight - (ours := ranked[1]) >= max(least, (1 - 1 / gain) * by_weight):
                return Region(own, sub, ranked[0], None, by_weight, ours)
            ours = 0
        dense = dense_work(sub, wanted)
        if dense is not None:
            ours = dense + traffic
            if by_weight < gain * ours:
                why = _AS_CHEAP if jax_work < gain * ours else _IN_PRODUCTS
                return Region(own, sub, None, why, jax_work, ours)
    if gain is None:
        program = _program(sub)
        return left(program) if isinstance(program, str) else Region(own, sub, program, None)
    try:
        looped = any(e.primitive.name == "scan" for e in sub.equations)
        with nullcontext() if ours else limits(steps=most):
            program = _program(sub)
            if isinstance(program, str):
                return left(program)
            # code is slower or faster than its operations: sums in order have fewer, outer products leave loops, and
            # steps write into their states without a copy
            leaving = spent.outer_products + spent.copied
            in_order = _sums_in_order(program.function) or (looped and by_weight >= gain * (by_weight - leaving))
            in_code = in_order or is_filled(simplify(program.function))
            if not in_code and _is_as_cheap(program, gain):
                return Region(own, sub, program, _AS_CHEAP, jax_work)
            ours = derived_work(program, wanted)
            code = None
            if in_code and (by_weight < gain * ours or not in_order):
                spend(STEPS * spent.equations, "tracing the code")  # JAX's own steps are not counted
                code = code_work(program, wanted)
                saved = max(spent.elements, by_weight - weighed(code))
                if not in_order and code.elements * WRITTEN > saved:
                    return Region(own, sub, program, _AS_CHEAP_CODE, jax_work, ours)
    except LimitError:
        return left("it would take longer to derive than is soon paid back at these sizes")
    except TensorlangError as error:
        return left(f"what its gradient costs could not be told: {error.message.splitlines()[0]}")
    if code is not None and by_weight >= gain * (weighed(code) + traffic):
        jax_work, ours = by_weight, weighed(code) + traffic
    elif by_weight < gain * ours <= jax_work:
        return Region(own, sub, program, _IN_PRODUCTS, jax_work, ours)
    elif jax_work < gain * ours:
        return Region(own, sub, program, _AS_CHEAP, jax_work, ours)
    elif jax_work - ours >= least:
        code = code_work(program, wanted)
        ours = max(ours, code.total + traffic)
        if jax_work < gain * ours and in_order and by_weight >= gain * (weighed(code) + traffic):
            jax_work, ours = by_weight, weighed(code) + traffic
    if jax_work < gain * ours:
        return Region(own, sub, program, _AS_CHEAP_CODE, jax_work, ours)
    if jax_work - ours < least:
        return Region(own, sub, program, "there is little to gain at these sizes", jax_work, ours)
    return Region(own, sub, program, None, jax_work, ours)


def weighed(spent: JaxprWork) -> int:
    """The number of operations, weighted as those of products are faster."""
    return spent.total - spent.products + spent.products // PRODUCTS


def _is_elementwise(sub: Flat) -> bool:
    """Whether all equations are elementwise or sums, on arrays that are no larger than inputs and outputs."""
    largest = max(math.prod(v.aval.shape) for v in (*sub.inputs, *sub.outputs))
    return all(
        (e.primitive.name not in _STRUCTURE or _is_apart(e))
        and all(math.prod(v.aval.shape) <= largest for v in e.outvars)
        for e in sub.equations
    )


def _is_as_cheap(program: Program, gain: float) -> bool:
    """Whether JAX's gradient needs only a few operations like it for each operation, and the program's value is no
    cheaper than JAX's, so that no part of it is 0 or computed twice. That is known before the adjoint is derived."""
    flat = program.flat
    cut = [e for e in all_equations(flat.equations) if e.primitive.name == "slice"]
    if sum(math.prod(e.invars[0].aval.shape) for e in cut) > sum(math.prod(v.aval.shape) for v in flat.inputs):
        return False
    if any(e.primitive.name in _STRUCTURE - _SHOWN for e in all_equations(flat.equations)):
        return False
    return program_cost(simplify(program.function), {}) * gain > work(flat.equations).total


def _sums_in_order(f: Function) -> bool:
    """Whether conditions compare two indices, one of which may be summed over: the code for such sums, such as prefix
    sums, and for their derivative may do less work than the program's cost."""
    found = {q for e in expressions(f.body) if isinstance(e, Bracket) for q in conjuncts(e.pred)}
    return any(isinstance(q, NonNegative) and not q.value.lookups and len(q.value.indices) == 2 for q in found)


def _is_apart(equation: Any) -> bool:
    """Whether `equation` takes sums or extrema of windows that do not overlap."""
    p = equation.params
    return "window_strides" in p and all(
        width <= step for width, step in zip(p.get("window_dimensions", (math.inf,)), p["window_strides"], strict=False)
    )


def _by_ranks(sub: Flat, wanted: Sequence[Any], most: int) -> tuple[Program, int] | None:
    """The program that compares ranks instead of pairs, and the work of its gradient's code; None if there is none."""
    try:
        with limits(steps=most):
            program = _program(sub, ranks=True)
            if isinstance(program, str) or not any(s.how == "rank" for s in program.sources.values()):
                return None
            return program, weighed(code_work(program, wanted)) + traffic_of(sub, wanted)
    except TensorlangError:
        return None


def _program(sub: Flat, ranks: bool = False) -> Program | str:
    """The program of a region, or the reason why there is none. Raises `Unsupported`."""
    hints = {v: f"x{k}" for k, v in enumerate(sub.inputs)}
    try:
        return translate(sub, "region", hints, exact=True, recompute=False, ranks=ranks, signs=ranks)
    except LimitError:
        raise
    except TensorlangError as error:
        return f"its program is refused: {error.message.splitlines()[0]}"
