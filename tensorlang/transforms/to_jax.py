"""A program as a JAX function whose derivatives, and whose batches, are programs too."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tensorlang.errors import ArgumentError, placed
from tensorlang.language.affine import IndexArray
from tensorlang.language.arguments import bind as matched
from tensorlang.language.arguments import from_leaves, to_leaves, unpack
from tensorlang.language.function import Function
from tensorlang.language.given import apart, spread, together
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.routines import with_rule
from tensorlang.lowering.checked import check_traced
from tensorlang.lowering.coordinates import Coordinates, points_or_mask
from tensorlang.lowering.plan.kept import require_store
from tensorlang.lowering.run import Lowered, are_arrays, check_extrema
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.transforms.flat import flat
from tensorlang.transforms.linear import FlatProgram, once
from tensorlang.transforms.primitive import CodeOptions, bind


def to_jax(f: Function, check: bool = False, strict: bool = False, store: str = "needed") -> Callable[..., Any]:
    """`f` as a JAX function, to be used inside of any JAX program, with derivatives that are tensor programs.

    It takes the arrays that `f` takes, by position or by name, pairs as tuples, and gives what calling `f` gives.
    Under `jax.grad`, `jax.vjp`, `jax.jvp` and all that is made of them it is differentiated by our rules, as often as
    one likes: a derivative costs what the adjoint's bound allows, and reads what the value has stored. Only
    cotangents that are asked for are computed, and only differentials that are not zero are pushed forward. Mapped by
    `jax.vmap` it is a program with an axis more, and so are the derivatives of that. Real arrays are brought to one
    floating-point type, which is the results'; relations and index arrays have no derivative. A relation that is not
    traced itself and holds at few points is computed with at these, which become part of the compiled program.

    A size that no shape determines is a keyword, as in calling `f`; under `jax.jit` it must not be traced.

    Calling the function raises `ArgumentError` if the arguments don't fit, or an extremum has no point at their sizes,
    under tracing as well. Only elements of
    index arrays that are traced themselves are not known then. With `check` there is a `checkify.check` that they are
    in their ranges, which `jax.experimental.checkify.checkify` turns into an error to be thrown when the code has run.

    What brackets hide must be finite, or it may make nan of what does not read it. With `strict` it has no influence,
    whatever it is, on values and on derivatives of any order. `store` says what recurrences keep of their steps for
    their derivatives. Both are as for `tensorlang.lower`.

    >>> import jax
    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> jax.grad(tl.to_jax(f))(np.array([1.0, 2.0], np.float32))
    Array([2., 4.], dtype=float32)
    """
    require_store(store)
    return _to_jax(f, check, strict, store)


@once
def program_of(f: Function) -> FlatProgram:
    """The flat program that JAX runs, maps and differentiates for `f`."""
    return FlatProgram(flat(with_rule(f)))


@once
def _to_jax(f: Function, check: bool, strict: bool, store: str) -> Callable[..., Any]:
    program = program_of(f)
    params = {p.name: p for p in f.params}
    recurrent = has_recurrences(with_rule(f))

    compiled: list[Lowered] = []

    def lowered() -> Lowered:
        if not compiled:
            compiled.append(Lowered(f, check=check, strict=strict, store=store))
        return compiled[0]

    @placed
    def call(*args: Any, **kwargs: Any) -> Any:
        # compiled code by shapes and dtypes, which is called if nothing is traced
        if not kwargs and are_arrays(args) and _are_stored(args):
            return lowered()(*args)
        in_place, by_name = spread(f, args, kwargs)
        if _are_data(in_place, by_name):
            return lowered()(*in_place, **by_name)
        by_position, mapping = apart(in_place)
        args, kwargs = tuple(by_position), together(mapping, by_name)
        given = [_weak(x) if isinstance(p, Var) else x for p, x in zip(f.params, args, strict=False)]
        named = {name: _weak(x) if isinstance(params.get(name), Var) else x for name, x in kwargs.items()}
        _require_known(f, [*args, *kwargs.values()], {k: x for k, x in kwargs.items() if k not in params})
        bound = matched(f, [*given, *args[len(given) :]], named)
        check_extrema(f, bound.sizes)
        arrays: list[Any] = []
        points: list[tuple[Relation, Coordinates]] = []
        for p in f.params:
            value = bound.values[p]
            if isinstance(p, Var):
                arrays += [_real(p.name, x) for x in to_leaves(p.type, value)]
            elif isinstance(p, IndexArray):
                if check:
                    check_traced(p, value, bound.sizes)
                arrays.append(jnp.asarray(value, jnp.int32))
            elif recurrent:
                arrays.append(jnp.asarray(value.toarray() if hasattr(value, "toarray") else value, bool))
            elif isinstance(found := points_or_mask(value), Coordinates):
                points.append((p, found))
                arrays.append(np.zeros([0] * len(p.sizes), bool))
            else:
                arrays.append(jnp.asarray(found, bool))
        places = [k for k, p in enumerate(program.params) if isinstance(p, Var)]
        dtype = jnp.result_type(float, *(arrays[k] for k in places))
        for k in places:
            arrays[k] = arrays[k].astype(dtype)
        results = bind(program, arrays, tuple(bound.sizes.items()), CodeOptions(dtype, tuple(points), strict, store))
        return unpack(from_leaves(f.type, iter(results)), f.results)

    call.__name__ = call.__qualname__ = f.name
    call.__doc__ = str(f)
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in params):
        arguments = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in params]
        sizes = inspect.Parameter("sizes_", inspect.Parameter.VAR_KEYWORD)
        call.__signature__ = inspect.Signature([*arguments, sizes])  # type: ignore[attr-defined]
    return call


def _are_data(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether these are arrays, and sizes by name, none of which is traced or lies on several devices."""
    leaves = jax.tree.leaves((args, [x for x in kwargs.values() if type(x) is not int]))
    return all(_is_stored(x) if isinstance(x, jax.Array) else isinstance(x, np.ndarray) for x in leaves) and all(
        x.dtype.kind in "biuf" or x.dtype == jnp.bfloat16 for x in leaves
    )


def _are_stored(args: tuple[Any, ...]) -> bool:
    """Whether none of these arrays lies on several devices."""
    return all(type(x) is np.ndarray or (_are_stored(x) if type(x) is tuple else len(x.devices()) == 1) for x in args)


def _is_stored(x: jax.Array) -> bool:
    return not isinstance(x, jax.core.Tracer) and len(x.devices()) == 1


def _require_known(f: Function, arrays: Sequence[Any], sizes: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for sizes that are not plain numbers when `f` is traced."""
    for name, value in sizes.items():
        if isinstance(value, jax.core.Tracer):
            hint = f"under jax.jit, name it among static_argnames, or pass functools.partial({f.name}, {name}=...)"
            raise ArgumentError(f"the size {name} of {f.name} must be known when it is traced", hint=hint)
    for x in jax.tree.leaves(arrays):
        dims = getattr(x, "shape", ())
        if isinstance(dims, tuple) and not all(isinstance(n, int | np.integer) for n in dims):
            message = f"the sizes of {f.name} must be known when it is traced, found the shape {dims}"
            raise ArgumentError(message, hint="shapes of plain numbers; programs are traced once for each")


def _weak(value: Any) -> Any:
    """A Python number as a weakly typed array, which takes the type of the others."""
    if isinstance(value, tuple):
        return tuple(map(_weak, value))
    return jnp.asarray(float(value)) if isinstance(value, bool | int | float) else value


def _real(name: str, value: Any) -> Any:
    """The array of a real parameter. Raises `ArgumentError` for data of another kind."""
    if value.dtype == object:
        try:
            value = np.asarray(value, float)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name} must hold real numbers", hint="floats or integers") from None
    kinds = (np.floating, np.integer, np.bool_)
    if not any(jnp.issubdtype(value.dtype, kind) for kind in kinds):
        hint = "complex numbers are two parameters: x.real and x.imag" if value.dtype.kind == "c" else None
        raise ArgumentError(f"{name} must hold real numbers, found the dtype {value.dtype}", hint=hint)
    return jnp.asarray(value)
