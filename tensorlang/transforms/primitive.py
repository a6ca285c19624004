"""A program as a JAX primitive: how it runs, and how JAX's transformations act on it.

    jvp        the value with what it stores, and a linear program of the differentials that are not zero
    transpose  of a linear program, for the inputs that need a cotangent and the results that have one
    vmap       the program with a further size (`batch`), so derivatives of mapped programs are programs as well; one
               element of the batch after the other where many elements are put in an order that data give
    checkify   the code, with the checks that are asked for
    shard_map  arguments that are the same on all devices are made varying first; transposed, that is a sum over devices

All real arguments and results have the floating-point type `dtype`. The sizes are given, so no array is needed to
determine them. Relations known by their points are part of the code, and need no array either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import checkify
from jax.extend.core import Literal, Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import AxisType

from tensorlang.language.affine import Affine, Index
from tensorlang.language.arguments import to_leaves
from tensorlang.language.census import expressions
from tensorlang.language.grammar import Bracket, Choice, Extremum, Var
from tensorlang.language.predicates import NonNegative, Relation, conjuncts
from tensorlang.language.types import shape
from tensorlang.lowering.coordinates import Coordinates
from tensorlang.lowering.emit.runnable import Runnable, runnable
from tensorlang.lowering.namespace import defined
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.transforms.batch import batched
from tensorlang.transforms.linear import FlatProgram, Linear, Linearized, Sizes, linearized, once, transposable
from tensorlang.transforms.recurrences import Rates, rates
from tensorlang.transforms.recurrences import cotangents as adjoint_of

Operation = FlatProgram | Linear | Rates

_MOST_PAIRS = 2**16
"""The most pairs that are compared for the whole batch at once, rather than sorting for one element at a time."""

Given = tuple[tuple[Relation, Coordinates], ...]
"""Relations that are not traced but known, with their points."""


@dataclass(frozen=True)
class CodeOptions:
    """Options of the code for an operation: its floating-point type, the relations known by their points, whether it is
    strict, so that values hidden by brackets never have an influence, and what recurrences store."""

    dtype: Any
    points: Given
    strict: bool
    store: str = "needed"


program_p = Primitive("tensorlang")
program_p.multiple_results = True


def bind(op: Operation, args: Sequence[Any], sizes: Sizes, how: CodeOptions) -> list[Any]:
    """The results of `op`, computed or traced by JAX. `args` has an entry for relations known by their points, too,
    which is not read."""
    needed = set(op.sizes)
    own = tuple(sorted(((s, n) for s, n in sizes if s in needed), key=lambda each: each[0].name))
    how = replace(how, points=tuple((p, where) for p, where in how.points if p in op.params))
    found: list[Any] = program_p.bind(  # type: ignore[no-untyped-call]
        *_equally_varying(args), op=op, sizes=own, how=how
    )
    return found


def _equally_varying(args: Sequence[Any]) -> list[Any]:
    """The arguments, made varying over the same axes of the mesh within a `shard_map`."""
    every = frozenset[Any]().union(*(varying_axes(jax.typeof(x)) for x in args))
    return [varying(x, every) for x in args]


def varying(x: Any, axes: frozenset[Any]) -> Any:
    """`x`, made varying over these axes of the mesh as well within a `shard_map`."""
    missing = tuple(axes - varying_axes(jax.typeof(x)))
    return lax.pcast(x, missing, to="varying") if missing else x


def varying_axes(kind: Any) -> frozenset[Any]:
    """The axes of the mesh over which arrays of this type vary within a `shard_map`."""
    found = getattr(kind, "manual_axis_type", None)
    return frozenset() if found is None else frozenset(found.varying)


@partial(jax.jit, static_argnames=("op", "sizes", "how"), inline=True)
def _execute(*args: Any, op: Operation, sizes: Sizes, how: CodeOptions) -> list[Any]:
    made = _source(op, frozenset(p for p, _ in how.points), how.strict, how.store)
    run, values = _defined(made), dict(sizes)
    with jax.ensure_compile_time_eval():  # they are kept for later, so they must not belong to the current trace
        on_points: dict[Any, Any] = {p: where.given(made.orders[p]) for p, where in how.points}

    def code(*args: Any) -> list[Any]:
        given = [on_points.get(p, x) for p, x in zip(op.params, args, strict=True)]
        with jax.named_scope(op.name):
            result = run(*given, **{name: values[size] for size, name in made.told.items()})
        return [jnp.asarray(x, how.dtype) for x in to_leaves(op.function.type, result)]

    layout = _layout(op, [jax.typeof(x) for x in args])
    return code(*args) if layout is None else jax.sharding.auto_axes(code, out_sharding=layout)(*args)


def _layout(op: Operation, kinds: Sequence[Any]) -> list[jax.NamedSharding] | None:
    """The shardings of the results on a mesh with explicit axes: each axis like an argument's axis of the same size."""
    mesh = next((x.sharding.mesh for x in kinds if AxisType.Explicit in x.sharding.mesh.axis_types), None)
    if mesh is None:
        return None
    lies: dict[Affine, Any] = {}
    for p, kind in zip(op.params, kinds, strict=True):
        sizes = shape(p.type)[0] if isinstance(p, Var) else p.sizes
        lies.update((a, along) for a, along in zip(sizes, kind.sharding.spec, strict=True) if along is not None)
    layout = []
    for sizes in op.shapes:
        spec: list[Any] = []
        for a in sizes:
            along = lies.get(a)
            spec.append(None if along in spec else along)
        layout.append(jax.NamedSharding(mesh, jax.P(*spec)))  # type: ignore[no-untyped-call]
    return layout


@once
def _source(op: Operation, on_points: frozenset[Relation], strict: bool, store: str) -> Runnable:
    sparse = tuple(p for p in op.params if isinstance(p, Relation) and p in on_points)
    return runnable(op.function, None, sparse, False, strict, store)


@once
def _defined(made: Runnable) -> Any:
    return defined(made)


def _results(*args: Any, op: Operation, sizes: Sizes, how: CodeOptions) -> list[Any]:
    """The types of the results. Where JAX tracks shardings, they are found by tracing the code."""
    if not all(_is_plain(x) for x in args):
        found: list[Any] = _execute.trace(*args, op=op, sizes=sizes, how=how).jaxpr.out_avals
        return found
    values: dict[Any, int] = dict(sizes)
    return [jax.core.ShapedArray(tuple(max(0, a.value(values)) for a in axes), how.dtype) for axes in op.shapes]


def _lying_like(x: Any, kind: Any) -> Any:
    """`x`, resharded on a mesh with explicit axes like values of type `kind`, to which it belongs."""
    if AxisType.Explicit not in kind.sharding.mesh.axis_types or jax.typeof(x).sharding == kind.sharding:
        return x
    return jax.sharding.reshard(x, kind.sharding)  # type: ignore[no-untyped-call]


def _is_plain(x: Any) -> bool:
    return bool(x.sharding.mesh.empty)


def _jvp(
    args: Sequence[Any], tangents: Sequence[Any], *, op: Operation, sizes: Sizes, how: CodeOptions
) -> tuple[list[Any], list[Any]]:
    # an array without elements has no derivative, and sizes can't be determined from it
    op = op.program if isinstance(op, Rates) else op
    by = tuple(k for k, t in enumerate(tangents) if not isinstance(t, ad.Zero) and t.size)
    if isinstance(op, FlatProgram) and has_recurrences(op.function):
        results = bind(op, args, sizes, how)
        if not by:
            return results, [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
        found = bind(rates(op, by), [*args, *(tangents[k] for k in by)], sizes, how)
        return results, [_lying_like(dy, jax.typeof(y)) for dy, y in zip(found, results, strict=True)]
    if isinstance(op, Linear) and by and by[0] >= len(op.known):
        results = bind(op, args, sizes, how)
        place = len(op.known)
        kept = op.restricted(tuple(place + k in by for k in range(len(op.inputs))), (True,) * len(op.outputs))
        linear = bind(kept, [*args[:place], *(tangents[k] for k in by)], sizes, how)
        return results, [_lying_like(dy, jax.typeof(y)) for dy, y in zip(linear, results, strict=True)]
    values: dict[Any, int] = dict(sizes)
    of = tuple(k for k, axes in enumerate(op.shapes) if all(a.value(values) > 0 for a in axes))
    made = _linearized(op, by, of, sizes, frozenset(p for p, _ in how.points)) if by and of else None
    if made is None:
        results = bind(op, args, sizes, how)
        return results, [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    found = bind(made.value, args, sizes, how)
    count = len(op.shapes)
    results = found[:count]
    known = [*args, *found[count:]]
    linear = bind(made.linear, [*(known[k] for k in made.known), *(tangents[k] for k in made.by)], sizes, how)
    out: list[Any] = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    for k, dy in zip(made.of, linear, strict=True):
        out[k] = _lying_like(dy, jax.typeof(results[k]))
    return results, out


@once
def _linearized(
    op: Operation, by: tuple[int, ...], of: tuple[int, ...], sizes: Sizes, on_points: frozenset[Relation]
) -> Linearized | None:
    return linearized(_program(op), by, of, sizes, on_points)


@once
def _program(op: Operation) -> FlatProgram:
    return op if isinstance(op, FlatProgram) else FlatProgram(op.function)


def _transpose(cotangents: Sequence[Any], *args: Any, op: Operation, sizes: Sizes, how: CodeOptions) -> list[Any]:
    by = tuple(k for k, x in enumerate(args) if isinstance(x, ad.UndefinedPrimal))
    known = [x for x in args if not isinstance(x, ad.UndefinedPrimal)]
    if isinstance(op, Rates):
        count = len(op.of.params)
        if all(k >= count for k in by):
            whole = [ad.instantiate_zeros(ct) for ct in cotangents]  # type: ignore[no-untyped-call]
            own = tuple(op.by[k - count] for k in by)
            found = bind(adjoint_of(op.of, own), [*args[:count], *whole], sizes, how)
            bars = dict(zip(by, found, strict=True))
            return [_lying_like(bars[k], x.aval) if k in bars else None for k, x in enumerate(args)]
        op = op.program
    if isinstance(op, FlatProgram) and has_recurrences(op.function):
        filled = [jnp.zeros(x.aval.shape, x.aval.dtype) if isinstance(x, ad.UndefinedPrimal) else x for x in args]
        whole = [ad.instantiate_zeros(ct) for ct in cotangents]  # type: ignore[no-untyped-call]
        bars = dict(zip(by, bind(adjoint_of(op, by), [*filled, *whole], sizes, how), strict=True))
        return [_lying_like(bars[k], x.aval) if k in bars else None for k, x in enumerate(args)]
    if isinstance(op, Linear):
        first = len(op.known)
        known = known[:first]
        op = op.restricted(tuple(first + k in by for k in range(len(op.inputs))), (True,) * len(op.outputs))
    else:
        op = transposable(op, by)
    given = tuple(not isinstance(ct, ad.Zero) and ct.size > 0 for ct in cotangents)
    out: list[Any] = [None] * len(args)
    for k in by:
        out[k] = ad.Zero(args[k].aval.to_ct_aval())
    if any(given):
        op = op.restricted((True,) * len(op.inputs), given).transposed
        found = bind(
            op,
            [*known, *(ct for ct, is_given in zip(cotangents, given, strict=True) if is_given)],
            sizes,
            how,
        )
        for k, x in zip(by, found, strict=True):
            out[k] = _lying_like(x, args[k].aval)
    return out


def _batch(
    args: Sequence[Any], axes: Sequence[int | None], *, op: Operation, sizes: Sizes, how: CodeOptions
) -> tuple[list[Any], list[int | None]]:
    (count, *_) = (x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    if _ordered_pairs(op, sizes) > _MOST_PAIRS:
        return _in_turns(args, axes, lambda given: bind(op, given, sizes, how))
    many = batched(op.program if isinstance(op, Rates) else op, tuple(axis is not None for axis in axes))
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True)]
    grown = (*(each for each in sizes if each[0] is not many.batch), (many.batch, count))
    return bind(many.op, moved, grown, how), [0 if along else None for along in many.mapped]


def _in_turns(
    args: Sequence[Any], axes: Sequence[int | None], run: Callable[[list[Any]], list[Any]]
) -> tuple[list[Any], list[int | None]]:
    mapped = [jnp.moveaxis(x, axis, 0) for x, axis in zip(args, axes, strict=True) if axis is not None]

    def one(given: list[Any]) -> list[Any]:
        now = iter(given)
        return run([x if axis is None else next(now) for x, axis in zip(args, axes, strict=True)])

    found = lax.map(one, mapped)
    return found, [0] * len(found)


def _ordered_pairs(op: Operation, sizes: Sizes) -> int:
    """The most pairs of elements of index arrays that a program compares to sort them."""
    values: dict[Any, int] = dict(sizes)
    return max((a.value(values) * b.value(values) for a, b in _compared(op)), default=0)


@once
def _compared(op: Operation) -> tuple[tuple[Affine, Affine], ...]:
    """The lengths of pairs of index arrays whose elements at two different indices are compared, outside of steps."""
    found = set()
    for e in () if has_recurrences(op.function) else expressions(op.function.body):
        if isinstance(e, Bracket | Extremum | Choice):
            for q in conjuncts(e.pred):
                compared = q.value.lookups if isinstance(q, NonNegative) else ()
                if len({frozenset(i for a in x.at for i in a.free if isinstance(i, Index)) for x in compared}) == 2:
                    found.add((compared[0].array.sizes[-1], compared[1].array.sizes[-1]))
    return tuple(found)


def _with_checks(*given: Any, op: Operation, sizes: Sizes, how: CodeOptions) -> Any:
    *context, error, enabled = given[: len(given) - len(op.params)]  # newer JAX says in which context, too
    args = given[len(given) - len(op.params) :]
    closed = jax.make_jaxpr(partial(_execute, op=op, sizes=sizes, how=how))(*args)
    return checkify.checkify_jaxpr(*context, closed, enabled, error, *args)


def written_out(closed: Any) -> Any:
    """A closed jaxpr with programs replaced by their code."""
    if not any(e.primitive is program_p for e in closed.jaxpr.eqns):
        return closed

    def run(*inputs: Any) -> list[Any]:
        env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(closed.jaxpr.invars, inputs, strict=True))
        for e in closed.jaxpr.eqns:
            given = [v.val if isinstance(v, Literal) else env[v] for v in e.invars]
            if e.primitive is program_p:
                found = _execute(*given, **e.params)
            else:
                found = e.primitive.bind(*given, **e.primitive.get_bind_params(e.params))
            env.update(zip(e.outvars, found if e.primitive.multiple_results else [found], strict=True))
        return [v.val if isinstance(v, Literal) else env[v] for v in closed.jaxpr.outvars]

    return jax.make_jaxpr(run)(*(v.aval for v in closed.jaxpr.invars))


program_p.def_impl(_execute)  # type: ignore[no-untyped-call]
program_p.def_abstract_eval(_results)  # type: ignore[no-untyped-call]
ad.primitive_jvps[program_p] = _jvp
ad.primitive_transposes[program_p] = _transpose
batching.primitive_batchers[program_p] = _batch
checkify.error_checks[program_p] = _with_checks
mlir.register_lowering(program_p, mlir.lower_fun(_execute, multiple_results=True))
