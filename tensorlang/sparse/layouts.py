"""Sparse Jacobians and Hessians: their elements on their supports, and sparse matrix formats made of these.

The support is part of the derived program, so no sparsity is detected, and nothing is coloured, at any size (`pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tensorlang import pipeline
from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Affine, Atom, IndexArray, Lookup, atom_affine
from tensorlang.language.arguments import bind, unpack
from tensorlang.language.function import Function, Parameter
from tensorlang.language.predicates import (
    TRUE,
    And,
    Equal,
    Exists,
    NonNegative,
    Or,
    Predicate,
    Related,
    conjunction,
    equal,
)
from tensorlang.normal import normal_ssa
from tensorlang.normal.contraction import contraction
from tensorlang.normal.pattern import axes
from tensorlang.normal.ssa import Outputs, Selection, Statement, integers, live, output_list, selections
from tensorlang.pipeline import Wrt
from tensorlang.simplification import read_simplified, simplify_ssa
from tensorlang.sparse.pieces import SparsePiece, pieces_of

Elements = tuple[Any, tuple[Any, ...], Any]
"""Elements, their places along each axis of their array, and which of them exist: arrays that broadcast."""


def jacobian(f: Function, wrt: Wrt = None, *, layout: str = "dense") -> Function | Structured:
    """The Jacobian of `f`: for each number of its output the cotangents of `wrt`.

    In the layout "dense" a `Function` that gives arrays of the output's sizes and then the parameter's; a tuple of
    them for several parameters, pairs of these for an output of pairs. In the others a `Structured`, which is called
    with the same arguments and has the same results in that format. Raises `ScopeError` if `wrt` names anything but a
    real-valued parameter, `ArgumentError` for an unknown layout.

    >>> f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]")
    >>> print(tl.jacobian(f, wrt="x"))
    f_jacobian(A: [n][m]R, x: [m]R) = A
    """
    return _laid_out(pipeline.jacobian(f, wrt), layout)


def hessian(f: Function, wrt: Wrt = None, *, layout: str = "dense") -> Function | Structured:
    """The Hessian of a scalar `f`: the Jacobian of its gradient, in the layouts of `jacobian`.

    Of the parameter's sizes twice; for several parameters a tuple, for each of them, of tuples. Raises `TypeMismatch`
    if `f` is not scalar, and what `jacobian` raises.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(tl.hessian(f))
    f_hessian(x: [n]R) = gen i:n, j:n. [i = j] * 2
    """
    return _laid_out(pipeline.hessian(f, wrt), layout)


def _laid_out(f: Function, layout: str) -> Function | Structured:
    if layout not in LAYOUTS:
        raise ArgumentError(f"there is no layout {layout!r}", hint=f"the layouts are {', '.join(LAYOUTS)}")
    return f if layout == "dense" else Structured(f, layout)


class Structured:
    """A program whose results are given as they lie: called with its arguments, in the format `layout`.

    `function` is the program with dense results, `values` the one that runs: it gives the elements of all pieces.
    `pieces` says, for each array of the result, where they are.

    - "structured": for each array a list of (elements, places, which of them are there);
    - "bcoo": `jax.experimental.sparse.BCOO`, also under JAX's transformations; elements that are not there are
      outside of the array, where JAX ignores them;
    - "csr", "dia": SciPy's sparse arrays; "banded": (lower, upper) and the array that `scipy.linalg.solve_banded`
      takes. They are of matrices, so the array needs two axes.

    >>> f = tl.parse("f(x: [n + 1]R) = gen i:n. (x[i + 1] - x[i])^2")
    >>> J = tl.jacobian(f, layout="csr")
    >>> print(J)
    [0] (k, k) for k:n
    [0] (k, k + 1) for k:n
    >>> print(J(np.array([1.0, 2.0, 4.0])).toarray())
    [[-2.  2.  0.]
     [ 0. -4.  4.]]
    """

    def __init__(self, f: Function, layout: str) -> None:
        s = simplify_ssa(normal_ssa(f))
        self.function, self.layout = f, layout
        self.pieces = pieces_of(s)
        self._tree = s.outputs
        looked_up = {k for found in self.pieces for p in found for k in p.looked_up}
        self._chosen = tuple(k for k in selections(s.statements) if k in looked_up and k not in s.params)
        elements = [p.elements for found in self.pieces for p in found]
        elements += (_table(k, s.statements) for k in self._chosen)
        outputs: Outputs | None = None
        for x in reversed(elements):
            outputs = x if outputs is None else (x, outputs)
        wanted = None if outputs is None else live(replace(s, statements=(*s.statements, *elements), outputs=outputs))
        self.values = None if wanted is None else read_simplified(replace(wanted, results=None))

    def __str__(self) -> str:
        return "\n".join(f"[{k}] {p}" for k, found in enumerate(self.pieces) for p in found)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The results for these arguments. Raises `ArgumentError` if they don't fit, or not the layout."""
        bound = bind(self.function, args, kwargs)
        sizes: dict[Atom, int] = {s: n for s, n in bound.sizes.items()}
        *elements, count = *self._elements(args, kwargs), len(self._chosen)
        tables = elements[len(elements) - count :]
        values = dict(bound.values)
        values.update((k, table.astype(np.int32)) for k, table in zip(self._chosen, tables, strict=True))
        places, given = _Places(sizes, values), iter(elements)
        arrays: list[Any] = []
        for found, x in zip(self.pieces, output_list(self._tree), strict=True):
            shape = tuple(max(n.value(sizes), 0) for n in x.shape)
            arrays.append(_FORMATS[self.layout]([(next(given), *places.of(p)) for p in found], shape))
        return unpack(_paired(self._tree, iter(arrays)), self.function.results)

    def _elements(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        if self.values is None:
            return
        found = self._run(*args, **kwargs)
        for _ in range(sum(map(len, self.pieces)) + len(self._chosen) - 1):
            first, found = found
            yield first
        yield found

    @cached_property
    def _run(self) -> Callable[..., Any]:
        from tensorlang.lowering.lower import lower

        assert self.values is not None
        return lower(self.values)


def _table(k: IndexArray, statements: Sequence[Statement]) -> Statement:
    """The elements of an index array that a program chooses, as numbers, where its guard holds."""
    own = axes(0, len(k.sizes))
    x = selections(statements)[k]
    guard = x.guard if isinstance(x, Selection) else TRUE
    numbers = integers(atom_affine(Lookup(k, tuple(map(atom_affine, own)))), k.sizes)
    at = axes(len(own), len(own))
    places = (equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, at, strict=True))
    return contraction(k.sizes, own, [(numbers, at)], {}, conjunction([guard, *places]))


def _paired(tree: Outputs, arrays: Iterator[Any]) -> Any:
    """The arrays, in pairs like the outputs."""
    if isinstance(tree, tuple):
        first = _paired(tree[0], arrays)
        return first, _paired(tree[1], arrays)
    return next(arrays)


@dataclass(frozen=True)
class _Places:
    """The places of elements as numbers, at these sizes and data."""

    sizes: Mapping[Atom, int]
    values: Mapping[Parameter, Any]

    def of(self, p: SparsePiece) -> tuple[tuple[Any, ...], Any]:
        """The places of the elements of `p` along each axis, and which of them exist."""
        extents = [n.value(self.sizes) for n in p.axes.values()]
        grids = np.meshgrid(*map(np.arange, extents), indexing="ij", sparse=True)
        known: dict[Atom, Any] = {**self.sizes, **dict(zip(p.axes, grids, strict=True))}
        return tuple(self._affine(a, known) for a in p.at), self._holds(p.pred, known)

    def _affine(self, a: Affine, known: Mapping[Atom, Any]) -> Any:
        value: Any = a.constant
        for atom, k in a.terms:
            value = value + k * (self._element(atom, known) if isinstance(atom, Lookup) else known[atom])
        return value

    def _element(self, x: Lookup, known: Mapping[Atom, Any]) -> Any:
        return self.values[x.array][tuple(self._affine(a, known) for a in x.at)]

    def _holds(self, p: Predicate, known: Mapping[Atom, Any]) -> Any:
        match p:
            case Equal(a):
                return self._affine(a, known) == 0
            case NonNegative(a):
                return self._affine(a, known) >= 0
            case And(parts):
                found: Any = True
                for part in parts:
                    found = found & self._holds(part, known)
                return found
            case Or(parts):
                found = False
                for part in parts:
                    found = found | self._holds(part, known)
                return found
            case Related() | Exists():
                return True  # conditions on data only hide elements that are 0


def _coordinates(pieces: Sequence[Elements], shape: tuple[int, ...]) -> tuple[Any, list[Any], Any]:
    """All elements in sequence, their places along each axis, and which of them exist."""
    import jax.numpy as jnp

    def joined(parts: Iterable[Any], dtype: Any) -> Any:
        spread = [np.asarray(part) if isinstance(part, int | bool | np.generic) else part for part in parts]
        xp: Any = np if all(isinstance(part, np.ndarray) for part in spread) else jnp
        flat = [xp.ravel(xp.broadcast_to(x, values.shape)) for x, (values, _, _) in zip(spread, pieces, strict=True)]
        return xp.concatenate([*flat, np.zeros(0, dtype)])

    data = jnp.concatenate([jnp.ravel(values) for values, _, _ in pieces] or [jnp.zeros(0)])
    at = [joined((places[k] for _, places, _ in pieces), np.int32) for k in range(len(shape))]
    return data, at, joined((there for _, _, there in pieces), bool)


def _structured(pieces: Sequence[Elements], shape: tuple[int, ...]) -> Any:
    return list(pieces)


def _bcoo(pieces: Sequence[Elements], shape: tuple[int, ...]) -> Any:
    import jax.numpy as jnp
    from jax.experimental.sparse import BCOO

    data, at, there = _coordinates(pieces, shape)
    # places that don't depend on data are constants of the compiled code
    xp: Any = np if all(isinstance(place, np.ndarray) for place in (*at, there)) else jnp
    inside = [xp.where(there, place, n) for place, n in zip(at, shape, strict=True)]
    indices = xp.stack(inside, -1).astype(np.int32) if shape else np.zeros((len(data), 0), np.int32)
    return BCOO((data, jnp.asarray(indices)), shape=shape)


def _coo(pieces: Sequence[Elements], shape: tuple[int, ...]) -> Any:
    from scipy.sparse import coo_array

    if len(shape) != 2:
        raise ArgumentError(
            f"this layout is of matrices, but the array has {len(shape)} axes",
            hint='"bcoo" and "structured" have any number',
        )
    data, at, there = _coordinates(pieces, shape)
    there = np.asarray(there)
    row, column = (np.asarray(place)[there] for place in at)
    return coo_array((np.asarray(data)[there], (row, column)), shape=shape)


def _banded(pieces: Sequence[Elements], shape: tuple[int, ...]) -> Any:
    matrix = _coo(pieces, shape)
    matrix.sum_duplicates()
    offsets = matrix.col - matrix.row
    lower, upper = max(0, -int(offsets.min(initial=0))), max(0, int(offsets.max(initial=0)))
    band = np.zeros((lower + upper + 1, shape[1]), matrix.dtype)
    band[upper - offsets, matrix.col] = matrix.data
    return (lower, upper), band


_FORMATS: dict[str, Callable[[Sequence[Elements], tuple[int, ...]], Any]] = {
    "structured": _structured,
    "bcoo": _bcoo,
    "csr": lambda pieces, shape: _coo(pieces, shape).tocsr(),
    "dia": lambda pieces, shape: _coo(pieces, shape).todia(),
    "banded": _banded,
}
LAYOUTS = ("dense", *_FORMATS)
