"""Lowered programs: generated source, run under JAX."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from types import ModuleType
from typing import Any

import jax
import numpy as np

from tensorlang.cost.extrema import empty_extremum
from tensorlang.errors import ArgumentError, LimitError
from tensorlang.language.affine import Size
from tensorlang.language.arguments import bind, from_leaves, to_leaves
from tensorlang.language.function import Function, call_handlers
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Type
from tensorlang.lower.coordinates import coordinates
from tensorlang.lower.source import Source
from tensorlang.simplify import simplify

TARGETS = ("jax",)

_BUILTINS = (
    "abs",
    "all",
    "any",
    "bool",
    "enumerate",
    "float",
    "int",
    "isinstance",
    "len",
    "list",
    "max",
    "min",
    "range",
    "reversed",
    "slice",
    "sorted",
    "sum",
    "tuple",
    "zip",
)


class Lowered:
    """A program as Python that uses `jax.numpy`.

    `source` is that Python: self-contained, one function named after the program that takes its parameters in order,
    reads the sizes off their shapes, and gives the results as tuples. Calling a `Lowered` checks the arguments and
    runs it compiled by `jax.jit`; under JAX's own transformations it is traced like any JAX function.

    It takes relations as boolean arrays. One that is given as SciPy sparse matrix or boolean array that is not itself
    being traced, and holds at few enough points, is taken by these instead, at a cost that is theirs: see
    `source_on_points`. It is compiled anew then for every number of points.
    """

    def __init__(self, f: Function, exact: bool = False, sizes: Mapping[str, int] | None = None) -> None:
        self.function = f
        self._exact = exact
        self._simplified = simplify(f, **(sizes or {}))
        self._forms: dict[frozenset[Relation], _Form] = {}
        self.source = self._form(frozenset()).made.text

    @property
    def source_on_points(self) -> str:
        """The source for relations that are given by their points, in one order or several, as index arrays."""
        return self._form(frozenset(p for p in self.function.params if isinstance(p, Relation))).made.text

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The value of the program for these arguments.

        Raises `ArgumentError` if they don't fit, or leave an extremum without a point.
        """
        bound = bind(self.function, args, kwargs)
        self._has_extrema(bound.sizes)
        points = {p: coordinates(value) for p, value in bound.values.items() if isinstance(p, Relation)}
        sparse = {p: found for p, found in points.items() if found is not None and found.is_sparse}
        form = self._form(frozenset(sparse))
        values = []
        for p in self.function.params:
            value = bound.values[p]
            if isinstance(p, Var):
                value = _numbers(p.name, p.type, value)
            elif isinstance(p, Relation):
                value = sparse[p].listings(form.made.listings[p]) if p in sparse else _dense(value)
            values.append(value)
        return form.run(*values, **{name: bound.sizes[size] for size, name in form.made.told.items()})

    def _has_extrema(self, sizes: Mapping[Size, int]) -> None:
        """Raise `ArgumentError` if at these sizes there is an extremum over no point. What data decides gives nan."""
        try:
            wrong = empty_extremum(self.function, sizes)
        except LimitError:  # too many points to look at each
            wrong = None
        if wrong is not None:
            raise ArgumentError(wrong)

    def _form(self, on_points: frozenset[Relation]) -> _Form:
        """The program for these relations given by their points, the others as boolean arrays."""
        if on_points not in self._forms:
            made = Source(self._simplified, on_points, self._exact)
            run = jax.jit(defined(made), static_argnames=list(made.told.values()))
            self._forms[on_points] = _Form(made, run)
        return self._forms[on_points]


@dataclass(frozen=True)
class _Form:
    """The program for one way to give the relations."""

    made: Source
    run: Callable[..., Any]


def lower(f: Function, target: str = "jax", exact: bool = False, sizes: Mapping[str, int] | None = None) -> Lowered:
    """`f` as Python source for `target`, ready to be called.

    Long correlations are computed by Fourier transforms, which round differently: absolutely to the largest result.
    With `exact` they are sums of products. Products of several factors are ordered by what they cost at `sizes`, as
    by `simplify`; the program runs at others too.

    Raises `ArgumentError` for a target that there is none of, and for a name that is no size of `f`.
    """
    if target not in TARGETS:
        raise ArgumentError(f"programs can be lowered to {', '.join(TARGETS)}, found the target {target!r}")
    return Lowered(f, exact, sizes)


def defined(source: Source) -> Any:
    """The function that `source` defines, which sees nothing but JAX and a few builtins."""
    allowed: dict[str, Any] = {name: getattr(builtins, name) for name in _BUILTINS}
    namespace: dict[str, Any] = {"__builtins__": {**allowed, "__import__": _import}, "__name__": "tensorlang.lowered"}
    exec(compile(source.text, f"<lowered {source.name}>", "exec"), namespace)
    return namespace[source.name]


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: tuple[str, ...] | None = (),
    level: int = 0,
) -> ModuleType:
    if name not in {"jax", "jax.numpy"} or level:
        raise ImportError(f"lowered code imports JAX alone, not {name}")
    return __import__(name, globals, locals, fromlist or (), level)


def _numbers(name: str, kind: Type, value: Any) -> Any:
    """A parameter's arrays; exact numbers become floating-point ones. Raises `ArgumentError` for other data."""
    leaves = to_leaves(kind, value)
    for k, part in enumerate(leaves):
        if isinstance(part, np.ndarray) and part.dtype.kind == "O":
            if not all(isinstance(x, Real) for x in part.flat):
                raise ArgumentError(f"{name} must hold real numbers")
            leaves[k] = part.astype(float)
        elif np.dtype(part.dtype).kind not in "biufV":
            raise ArgumentError(f"{name} must hold real numbers, found the dtype {part.dtype}")
    return from_leaves(kind, iter(leaves))


def _dense(value: Any) -> Any:
    """A relation's data as a dense array; a sparse matrix is made dense."""
    return value.toarray() if hasattr(value, "toarray") else value


@lru_cache(maxsize=1024)
def _compiled(f: Function) -> Lowered:
    return lower(f)


def _call(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _compiled(f)(*args, **kwargs)


call_handlers.append(_call)
