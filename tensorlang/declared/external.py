"""Functions of JAX arrays as functions of the language: `tl.external`.

    @tl.external(cost="n^3")
    def solve(A: tl.R[n, n], b: tl.R[n]) -> tl.R[n]:
        return jnp.linalg.solve(A, b)

Called with arrays, it is the Python function. Called with values of a program, it is a part of the program, in text as
well: `solve(A, b)`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.declared.costs import declared_cost, require_enough
from tensorlang.errors import ArgumentError, PythonLine, TensorlangError, TypeMismatch, here
from tensorlang.language import functions, routines
from tensorlang.language.affine import Atom, Size
from tensorlang.language.function import Function
from tensorlang.language.grammar import Routine, Var
from tensorlang.language.types import Pair, R, Type, leaves, shape
from tensorlang.surface.embed import annotations_of, known_names_of, place_of
from tensorlang.surface.inline import applied, results_of
from tensorlang.surface.parameter_types import value_type_of
from tensorlang.surface.scope import Surface, valid_name
from tensorlang.surface.terms import as_term


class External:
    """A function of arrays that programs call. `routine` is what the language knows of it.

    >>> n = tl.sizes("n")
    >>> @tl.external(cost="n^3")
    ... def cumulative(x: tl.R[n]) -> tl.R[n]:
    ...     import jax.numpy as jnp
    ...     return jnp.cumsum(x)
    >>> cumulative(np.array([1.0, 2.0]))
    Array([1., 3.], dtype=float32)
    >>> cumulative
    <the external function cumulative(x: [n]R)>
    """

    def __init__(self, body: Callable[..., Any], routine: Routine) -> None:
        functools.update_wrapper(self, body)
        self.body = body
        self.routine = routine

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The value at these arrays, or at these values of a program. Raises `TypeMismatch` or `SizeMismatch` for
        values of a program that don't fit."""
        if not any(isinstance(x, Surface) for x in (*arguments, *named.values())):
            return self.body(*arguments, **named)
        try:
            bound = inspect.signature(self.body).bind(*arguments, **named)
        except TypeError as error:
            raise TypeMismatch(f"{self.routine.name}: {error}", here(), self.routine.signature) from None
        return results_of(applied(self.routine, [as_term(x) for x in bound.args]), self.routine.results)

    def __repr__(self) -> str:
        return f"<the external function {self.routine.signature}>"


def external(*, cost: str | int, trusted: bool = False) -> Callable[[Callable[..., Any]], External]:
    """A decorator that makes a Python function of JAX arrays a part of programs, whole: a solver, a transform, a model.

    Its parameters, and what it returns, have types as annotations: `tl.R`, `tl.R[n, m]`, and for several results a
    tuple of them. Each size of its types must stand alone in the type of a parameter. It has to be a function that JAX
    can trace, of its arguments alone; `jax.pure_callback` makes one of any other.

    `cost` is what a call is declared to cost, a polynomial in the sizes: "n^3 + 2*n^2". What XLA's code does is counted
    at small sizes, as far as it can be, and must not be more, unless the cost is `trusted`. `tl.adjoint_of` declares
    the adjoint, without which there is no derivative. Raises `AdjointError` for a cost that is too low, `TypeMismatch`
    for types that are missing, or are not what the function gives.

    >>> n = tl.sizes("n")
    >>> @tl.external(cost="n^3")
    ... def cumulative(x: tl.R[n]) -> tl.R[n]:
    ...     import jax.numpy as jnp
    ...     return jnp.cumsum(x)
    >>> print(tl.function(lambda x: tl.sum(n, lambda i: cumulative(x)[i]), x=tl.R[n]))
    f(x: [n]R) =
      let t = [0 < n] * cumulative(x) in
      sum i:n. t[i]
    """

    def decorate(body: Callable[..., Any]) -> External:
        place = place_of(body)
        try:
            return _external(body, cost, trusted, place)
        except TensorlangError as error:
            raise error.at(place) from None

    return decorate


def _external(body: Callable[..., Any], cost: str | int, trusted: bool, place: PythonLine | None) -> External:
    name = getattr(body, "__name__", "")
    if not valid_name(name) or name in functions.functions():
        raise ArgumentError(f"an external function can't be called {name!r}", hint="a def with a name of its own")
    hints = annotations_of(body, known_names_of(body), place)
    missing = next((x for x in (*inspect.signature(body).parameters, "return") if x not in hints), None)
    if missing is not None:
        what = "its value" if missing == "return" else f"its parameter {missing}"
        raise TypeMismatch(f"{name} says no type of {what}", hint=f"def {name}(x: tl.R[n]) -> tl.R[n]: ..")
    params = tuple(Var(x, value_type_of(hints[x], f"the type of {x}")) for x in inspect.signature(body).parameters)
    kind = value_type_of(hints["return"], "the type of the value")
    count = len(hints["return"]) if isinstance(hints["return"], tuple) else 1
    require_plain(name, params, kind)
    probe = Function(name, params, params[0])
    made = Routine(
        name,
        params,
        kind,
        compute=_computed(name, body, params, kind),
        cost=declared_cost(name, cost, probe),
        results=None if count == 1 else (None,) * count,
    )
    require_enough(made, trusted)
    return External(body, routines.add(made))


def require_plain(name: str, params: tuple[Var, ...], kind: Type) -> None:
    """Raise `TypeMismatch` unless the parameters are arrays or numbers whose shapes determine all sizes, and the value
    consists of arrays and numbers, perhaps in pairs."""
    if not params:
        raise TypeMismatch(f"{name} has no parameters", hint="a constant needs no function")
    for p in params:
        if shape(p.type)[1] is not R:
            raise TypeMismatch(
                f"the parameter {p.name} of {name} has type {p.type}", hint="arrays and numbers; a pair is two of them"
            )
    stack = [kind]
    while stack:
        part = stack.pop()
        if isinstance(part, Pair):
            stack += [part.first, part.second]
        elif shape(part)[1] is not R:
            raise TypeMismatch(f"{name} gives an array of pairs, {part}", hint="pairs of arrays instead")
    told: set[Atom] = set()
    named: dict[Atom, None] = {}
    for p in params:
        for n in shape(p.type)[0]:
            named.update(dict.fromkeys(n.atoms))
            told.update(n.atoms if len(n.terms) == 1 and not n.constant and n.terms[0][1] == 1 else ())
    for _, part in leaves(kind):
        named.update(dict.fromkeys(atom for n in shape(part)[0] for atom in n.atoms))
    for atom in named:
        if atom not in told:
            raise TypeMismatch(
                f"the size {atom} of {name} is that of no axis of a parameter", hint=f"an array of the size {atom}"
            )


def _computed(name: str, body: Callable[..., Any], params: tuple[Var, ...], kind: Type) -> Callable[..., Any]:
    """A function that computes the arrays of the value; in double precision for NumPy arrays."""
    import jax
    import jax.numpy as jnp

    def compute(*arrays: Any) -> tuple[Any, ...]:
        if all(isinstance(x, np.ndarray | np.generic) for x in arrays):
            with jax.enable_x64(True):
                return tuple(np.asarray(x) for x in parts(*(jnp.asarray(x, float) for x in arrays)))
        return parts(*arrays)

    def parts(*arrays: Any) -> tuple[Any, ...]:
        sizes: dict[Atom, int] = {}
        for p, x in zip(params, arrays, strict=True):
            for n, length in zip(shape(p.type)[0], jnp.shape(x), strict=True):
                if len(n.terms) == 1 and not n.constant and n.terms[0][1] == 1:
                    sizes[n.terms[0][0]] = length
        found = jax.tree.leaves(body(*arrays))
        wanted = [tuple(n.value(sizes) for n in shape(part)[0]) for _, part in leaves(kind)]
        if [jnp.shape(x) for x in found] != wanted:
            shapes = ", ".join(f"{s}={k}" for s, k in sizes.items() if isinstance(s, Size)) or "these arguments"
            raise TypeMismatch(
                f"{name} gives arrays of the shapes {[jnp.shape(x) for x in found]} at {shapes}, where its type {kind} "
                f"says {wanted}",
                hint="the annotation of its value is what it returns",
            )
        return tuple(found)

    return compute


__all__ = ["External", "external", "require_plain"]
