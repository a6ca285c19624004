"""A JAX function with regions replaced by tensor programs: an equal function, with derived derivatives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jax.extend import core

from tensorlang.budget import few_collections
from tensorlang.errors import ImportRefused
from tensorlang.jaxprs.fission import fissioned
from tensorlang.jaxprs.flatten import evaluate, flatten, has_rule, inner_jaxpr, read, scanned
from tensorlang.jaxprs.importer import Program
from tensorlang.jaxprs.price import as_program
from tensorlang.jaxprs.refusal import line_of
from tensorlang.jaxprs.regions import GAIN, JaxprPartition, Refused, Region, is_float, is_patient, partition
from tensorlang.jaxprs.work import inner_jaxprs, runs
from tensorlang.memory import cached_whole
from tensorlang.transforms.primitive import varying, varying_axes


@dataclass
class RewritePlan:
    """A plan for running a flat jaxpr: steps, each an equation, an equation with a rewritten body, or a region."""

    partition: JaxprPartition
    steps: list[Callable[[dict[Any, Any]], None]] = field(default_factory=list)
    bodies: list[tuple[Any, RewritePlan]] = field(default_factory=list)
    """The equations whose bodies are rewritten, with the bodies' plans."""

    @property
    def kept(self) -> list[Region]:
        """The regions that are tensor programs, including those in bodies."""
        own = [r for r in self.partition.regions if r.why is None]
        return own + [r for _, body in self.bodies for r in body.kept]

    @property
    def spent(self) -> tuple[int, int]:
        """The operations of JAX's gradients of these regions and of the derived ones, times their numbers of runs."""
        found = [(1, r.jax_work, r.derived_work) for r in self.partition.regions if r.why is None]
        found += [(runs(e), *body.spent) for e, body in self.bodies]
        return sum(n * theirs for n, theirs, _ in found), sum(n * ours for n, _, ours in found)

    @property
    def refused(self) -> list[tuple[str, Refused]]:
        """The equations that stay JAX and compute numbers, each after words for the bodies that contain it."""
        rewritten = {id(e) for e, _ in self.bodies}
        own = [r for r in self.partition.refused if id(r.equation) not in rewritten]
        found = [("", r) for r in own if any(is_float(v) for v in r.equation.outvars)]
        return found + [(within(e) + words, r) for e, body in self.bodies for words, r in body.refused]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs."""
        flat = self.partition.flat
        env = {**flat.constants, **dict(zip(flat.inputs, inputs, strict=True))}
        for step in self.steps:
            step(env)
        return [read(v, env) for v in flat.outputs]


def within(equation: Any) -> str:
    """The prefix of messages about a part of the body of `equation`."""
    return f"in the body of {equation.primitive.name}, "


def plan(closed: Any, active: Sequence[bool], gain: float | None = GAIN, check: bool = False) -> RewritePlan:
    """The plan for a closed jaxpr, whose inputs marked `active` are differentiated."""
    with few_collections:
        return _planned(_Traced(closed, _fingerprint(closed)), tuple(active), gain, check, is_patient())


@dataclass(frozen=True)
class _Traced:
    """A closed jaxpr that is equal to others with the same fingerprint, which compute the same."""

    closed: Any = field(compare=False)
    fingerprint: str


def _fingerprint(closed: Any) -> str:
    """A hash that distinguishes jaxprs with different results."""
    found = hashlib.sha256(str(closed.jaxpr).encode())
    stack = [closed.jaxpr]
    while stack:
        for equation in stack.pop().eqns:
            stack += inner_jaxprs(equation)
            found.update(str(_unwritten(equation)).encode())
    for c in closed.consts:
        found.update(str(jax.typeof(c)).encode())
        with jax.ensure_compile_time_eval():
            found.update(np.asarray(jax.random.key_data(c) if _is_key(c) else c).tobytes())
    return found.hexdigest()


def _unwritten(equation: Any) -> list[tuple[str, int]]:
    """The identities of parameters of `equation` that their text doesn't show: functions, which the cache keeps alive,
    and devices."""
    functions = () if has_rule(equation) else [(k, id(f)) for k, f in equation.params.items() if callable(f)]
    placed = (jax.sharding.Mesh, jax.sharding.Sharding)
    devices = [(k, hash(where)) for k, where in equation.params.items() if isinstance(where, placed)]
    return [*functions, *devices]


def _is_key(c: Any) -> bool:
    """Whether `c` is a key of JAX's random numbers, which hides its bits."""
    return isinstance(c, jax.Array) and jnp.issubdtype(c.dtype, jax.dtypes.prng_key)


@cached_whole
def _planned(traced: _Traced, active: tuple[bool, ...], gain: float | None, check: bool, patient: bool) -> RewritePlan:
    flat = fissioned(flatten(traced.closed, lambda equation: False))
    made = RewritePlan(partition(flat, active, gain))
    owner = {v: r for r in made.partition.regions if r.why is None for v in r.flat.outputs}
    source = {v: e for e in flat.equations for v in e.outvars}
    scheduled: set[int] = set()
    stack: list[tuple[Any, bool]] = [(v, False) for v in reversed(flat.outputs)]
    stack += [(e.outvars[0], False) for e in reversed(flat.equations) if e.effects and e.outvars]
    while stack:
        v, ready = stack.pop()
        if isinstance(v, core.Literal) or v in flat.constants or (v not in owner and v not in source):
            continue
        unit: Any = owner.get(v) or source[v]
        if id(unit) in scheduled:
            continue
        if not ready:
            stack.append((v, True))
            reads = _reads(unit) if isinstance(unit, Region) else unit.invars
            stack += [(w, False) for w in reads]
            continue
        scheduled.add(id(unit))
        made.steps.append(_region_step(unit, check) if isinstance(unit, Region) else _step(unit, made, gain, check))
    silent = [e for e in flat.equations if e.effects and not e.outvars]
    made.steps += [_step(e, made, gain, check) for e in silent]
    return made


def _reads(region: Region) -> list[Any]:
    assert region.program is not None
    read = (v for s in region.program.sources.values() for v in s.reads)
    return [v for v in read if v not in region.flat.constants]


def _region_step(region: Region, check: bool) -> Callable[[dict[Any, Any]], None]:
    program = region.program
    assert program is not None
    run = as_program(program)
    own = region.flat.constants

    def step(env: dict[Any, Any]) -> None:
        given = {v: own[v] if v in own else env[v] for s in program.sources.values() for v in s.reads}
        results = run(given)
        for v, x in zip(region.flat.outputs, results, strict=True):
            env[v] = varying(x.astype(v.aval.dtype), varying_axes(v.aval))
        if check:
            _check(program, {name: given[s.var] for name, s in program.sources.items()}, results)

    return step


def _check(program: Program, given: dict[str, Any], results: Sequence[Any]) -> None:
    """Check the assumptions, as far as numbers that are not finite and places out of range reveal violations."""
    for name, s in program.sources.items():
        if s.promised:
            inside = (given[name] >= 0) & (given[name] < s.size.constant)
            checkify.check(jnp.all(inside), "assumed: an array is read at places that lie in it")
    for what in program.assumptions:
        if "finite" in what or "nan" in what:
            for x in (*results, *(given[name] for name, s in program.sources.items() if s.how == "given")):
                checkify.check(jnp.all(jnp.isfinite(x)), f"assumed: {what}")


def _step(equation: Any, made: RewritePlan, gain: float | None, check: bool) -> Callable[[dict[Any, Any]], None]:
    """A step that runs one equation, with its body rewritten if it depends on differentiated inputs and has regions."""
    rewrite = _REWRITES.get(equation.primitive.name)
    moved = any(v in made.partition.active for v in equation.outvars)
    rewritten = rewrite(equation, made, gain, check) if rewrite is not None and moved else None
    if rewritten is None:
        return lambda env: evaluate([equation], env)

    def step(env: dict[Any, Any]) -> None:
        found = rewritten(*(read(v, env) for v in equation.invars))
        env.update(zip(equation.outvars, found, strict=True))

    return step


def _body(equation: Any, closed: Any, made: RewritePlan, gain: float | None, check: bool) -> RewritePlan:
    active = [is_float(v) for v in closed.jaxpr.invars]
    found = plan(closed, active, gain, check)
    if found.kept:
        made.bodies.append((equation, found))
    return found


def _scan(equation: Any, made: RewritePlan, gain: float | None, check: bool) -> Callable[..., Any] | None:
    p = equation.params
    body = _body(equation, inner_jaxpr(equation), made, gain, check)
    if not body.kept:
        return None
    constants, carried = scanned(equation)

    def run(*given: Any) -> list[Any]:
        fixed, state, rows = given[:constants], given[constants : constants + carried], given[constants + carried :]

        def one(carry: Any, row: Any) -> Any:
            found = body.run([*fixed, *carry, *row])
            return tuple(found[:carried]), tuple(found[carried:])

        last, stacked = jax.lax.scan(
            one, tuple(state), tuple(rows), length=p["length"], reverse=p["reverse"], unroll=p["unroll"]
        )
        return [*last, *stacked]

    return run


def _while(equation: Any, made: RewritePlan, gain: float | None, check: bool) -> Callable[..., Any] | None:
    """A while loop with its body rewritten, for forward mode, the only one in which JAX differentiates such loops."""
    p = equation.params
    body = _body(equation, p["body_jaxpr"], made, gain, check)
    if not body.kept:
        return None
    asked, fixed = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]

    def run(*given: Any) -> Any:
        def goes_on(state: Any) -> Any:
            return core.jaxpr_as_fun(p["cond_jaxpr"])(*given[:asked], *state)[0]

        return jax.lax.while_loop(goes_on, lambda state: tuple(body.run([*given[asked:fixed], *state])), given[fixed:])

    return run


def _cond(equation: Any, made: RewritePlan, gain: float | None, check: bool) -> Callable[..., Any] | None:
    branches = [_body(equation, branch, made, gain, check) for branch in equation.params["branches"]]
    if not any(branch.kept for branch in branches):
        return None

    def run(which: Any, *given: Any) -> Any:
        return jax.lax.switch(which, [lambda *xs, b=b: b.run(xs) for b in branches], *given)

    return run


def _remat(equation: Any, made: RewritePlan, gain: float | None, check: bool) -> Callable[..., Any] | None:
    p = equation.params
    body = _body(equation, inner_jaxpr(equation), made, gain, check)
    if not body.kept:
        return None
    return jax.checkpoint(lambda *xs: body.run(xs), prevent_cse=p["prevent_cse"], policy=p["policy"])


def _shard_map(equation: Any, made: RewritePlan, gain: float | None, check: bool) -> Callable[..., Any]:
    """The body is planned while it is traced on the mesh, where the names of its axes are known.

    It is compiled, since JAX differentiates some bodies only so: those that are manual in a part of the mesh's axes.
    """
    p = equation.params
    bodies: list[RewritePlan] = []

    def planned(*xs: Any) -> tuple[Any, ...]:
        if not bodies:
            bodies.append(_body(equation, inner_jaxpr(equation), made, gain, check))
        return tuple(bodies[0].run(xs))

    on_mesh = jax.shard_map(
        planned,
        mesh=p["mesh"],
        in_specs=p["in_specs"],
        out_specs=p["out_specs"],
        axis_names=p["newly_manual_axes"],
        check_vma=p["check_vma"],
    )
    jax.eval_shape(on_mesh, *(v.aval for v in equation.invars))
    return jax.jit(on_mesh)


_REWRITES = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "checkpoint": _remat,
    "remat": _remat,
    "remat2": _remat,
    "shard_map": _shard_map,
}
"""The primitives whose bodies are rewritten in place."""

Argnums = int | Sequence[int] | None


def traced(
    fun: Callable[..., Any], args: Any, kwargs: Any, argnums: Argnums = None
) -> tuple[Any, list[Any], list[bool], Any]:
    """The closed jaxpr of a call, its inputs, which of them are differentiated, and the tree of its outputs.

    Arrays are inputs; Python numbers and everything else are part of the function, as under `jax.grad`. If the values
    of arrays determine what is computed, known arrays are part of it as well. Values of an outer trace are inputs.
    """
    leaves, tree = jax.tree.flatten((args, kwargs))
    chosen = range(len(args)) if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    moved = [k in chosen or k - len(args) in chosen for k, x in enumerate(args) for _ in jax.tree.leaves(x)]
    moved += [argnums is None] * (len(leaves) - len(moved))
    arrays = [k for k, x in enumerate(leaves) if isinstance(x, jax.Array | np.ndarray | np.generic) and _is_number(x)]
    try:
        return _traced(fun, leaves, tree, arrays, moved)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError,
            jax.errors.TracerIntegerConversionError, jax.errors.NonConcreteBooleanIndexError):  # fmt: skip
        moving = [k for k in arrays if isinstance(leaves[k], jax.core.Tracer)]
        return _traced(fun, leaves, tree, moving, moved)


def _is_number(x: Any) -> bool:
    return not (isinstance(x, np.ndarray) and x.dtype == object)


def _traced(
    fun: Callable[..., Any], leaves: list[Any], tree: Any, places: list[int], moved: list[bool]
) -> tuple[Any, list[Any], list[bool], Any]:
    def call(*arrays: Any) -> Any:
        given = list(leaves)
        for k, x in zip(places, arrays, strict=True):
            given[k] = x
        args, kwargs = jax.tree.unflatten(tree, given)
        return fun(*args, **kwargs)

    inputs = [leaves[k] for k in places]
    active = [moved[k] for k in places]
    closed, shape = jax.make_jaxpr(call, return_shape=True)(*inputs)
    moving = [k for k, c in enumerate(closed.consts) if isinstance(c, jax.core.Tracer)]
    if moving:
        jaxpr = closed.jaxpr
        still = [k for k in range(len(closed.consts)) if k not in moving]
        taken = [jaxpr.constvars[k] for k in moving]
        info = jaxpr.debug_info._replace(arg_names=None) if hasattr(jaxpr.debug_info, "_replace") else jaxpr.debug_info
        jaxpr = jaxpr.replace(
            constvars=[jaxpr.constvars[k] for k in still], invars=[*taken, *jaxpr.invars], debug_info=info
        )
        inputs = [*(closed.consts[k] for k in moving), *inputs]
        active = [False] * len(moving) + active
        closed = core.ClosedJaxpr(jaxpr, [closed.consts[k] for k in still])
    return closed, inputs, active, jax.tree.structure(shape)


def rewritten(
    fun: Callable[..., Any],
    argnums: Argnums = None,
    strict: bool = False,
    check: bool = False,
    gain: float | None = GAIN,
) -> Callable[..., Any]:
    """`fun`, with those regions as tensor programs for which that pays when the arguments `argnums` are differentiated.

    With `strict`, all of it must be programs without assumptions; otherwise it raises `ImportRefused`.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        closed, inputs, active, out = traced(fun, args, kwargs, argnums)
        found = plan(closed, active, None if strict else gain, check)
        if strict:
            _require_whole(getattr(fun, "__name__", "the function"), found)
        results = found.run(inputs) if found.kept else core.jaxpr_as_fun(closed)(*inputs)
        return jax.tree.unflatten(out, results)

    run.__name__ = getattr(fun, "__name__", "f")
    run.__doc__ = fun.__doc__
    return run


def _require_whole(name: str, found: RewritePlan) -> None:
    for refused in found.partition.refused:
        if any(is_float(v) for v in refused.equation.outvars):
            message = f"{name} is no tensor program: {refused.equation.primitive.name}: {refused.why}"
            raise ImportRefused(message, line_of(refused.equation), "without strict, this stays JAX")
    for region in found.partition.regions:
        if region.why is not None and region.flat.outputs:
            place = region.lines[0] if region.lines else None
            raise ImportRefused(f"{name} is no tensor program: {region.why}", place, "without strict, this stays JAX")
        if region.program is not None and region.program.assumptions:
            message = f"{name} is a tensor program only if {'; '.join(region.program.assumptions)}"
            raise ImportRefused(message, hint="without strict, that is assumed; check=True checks it when it runs")
