"""Declarations of parameters in Python: sizes, and the types of values, indices and relations."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import Any

from tensorlang.errors import ScopeError, here
from tensorlang.language import functions
from tensorlang.language.affine import Affine, Size, atom_affine
from tensorlang.language.types import Pair, Type, array
from tensorlang.language.types import R as REAL
from tensorlang.surface.binders import several
from tensorlang.surface.refusals import described
from tensorlang.surface.scope import refuse, valid_name
from tensorlang.surface.terms import Idx, as_size


@dataclass(frozen=True)
class ValueType:
    """The type of a parameter. T[n, m] is an array of n rows of m values of type T.

    >>> n, m = tl.sizes("n m")
    >>> tl.R[n, m]
    [n][m]R
    """

    type: Type

    def __getitem__(self, size: Any) -> ValueType:
        return ValueType(array(tuple(map(as_size, several(size))), self.type))

    def __call__(self, *sizes: Any) -> Any:
        """Raise `TypeMismatch`: sizes stand in brackets."""
        refuse("a type is not called", f"its sizes stand in brackets: tl.R[{', '.join(map(str, sizes))}]")

    def __repr__(self) -> str:
        return str(self.type)


@dataclass(frozen=True)
class IndexType:
    """The type of a parameter that is an index below `size`, or an array of such: idx(m)[n] for n of them.

    >>> n, m = tl.sizes("n m")
    >>> tl.idx(n)[m]
    [m]idx(n)
    """

    size: Affine
    sizes: tuple[Affine, ...] = ()

    def __getitem__(self, size: Any) -> IndexType:
        return IndexType(self.size, tuple(map(as_size, several(size))) + self.sizes)

    def __repr__(self) -> str:
        return "".join(f"[{size}]" for size in self.sizes) + f"idx({self.size})"


@dataclass(frozen=True)
class RelationType:
    """The type of a parameter that is a data relation.

    >>> n, m = tl.sizes("n m")
    >>> print(tl.relation(n, m).sizes)
    (n, m)
    """

    sizes: tuple[Affine, ...]


R = ValueType(REAL)


def sizes(names: str) -> Any:
    """The sizes called `names`, separated by blanks or commas: a tuple of them, or the only one.

    Raises `ScopeError` for a text that is not a name, or for a keyword, of the language or of Python, or a scalar
    function.

    >>> n, m = tl.sizes("n m")
    >>> n + 2 * m
    2*m + n
    """
    if not isinstance(names, str):
        refuse(f"sizes takes names, found {described(names)}", 'such as n, m = tl.sizes("n m")')
    found: list[Idx] = []
    for name in names.replace(",", " ").split():
        if not valid_name(name) or name in functions.functions():
            hint = "letters, digits and _, and no word or function of the language: n, rows, n_1"
            raise ScopeError(f"a size needs a name of its own, found {name!r}", here(), hint)
        if keyword.iskeyword(name):  # tl.cost(f, for=3) is no Python
            hint = f"sizes are given as keyword arguments, as in tl.cost(f, n=3): {name}_ would do"
            raise ScopeError(f"a size can't be called {name}, a keyword of Python", here(), hint)
        found.append(Idx(atom_affine(Size(name))))
    if not found:
        raise ScopeError("sizes needs at least one name", here(), 'such as sizes("n m")')
    return found[0] if len(found) == 1 else tuple(found)


def pair_type(*parts: Any) -> ValueType:
    """The type of pairs (T0, T1); of more parts, of pairs nested to the right.

    Raises `TypeMismatch` for fewer than two parts, or one that is not a type of values.

    >>> print(tl.function(lambda p: tl.fst(p) * tl.snd(p), p=tl.pair_type(tl.R, tl.R)))
    f(p: (R, R)) = fst(p) * snd(p)
    """
    if len(parts) < 2:
        refuse(f"a pair has at least two parts, found {len(parts)}", "tl.pair_type(tl.R, tl.R[n])")
    return ValueType(value_type_of(tuple(parts), "a part of a pair"))


def relation(*over: Any) -> RelationType:
    """The type of a data relation over indices of the given sizes: a boolean array, or a sparse matrix.

    Raises `TypeMismatch` for no size, or one that is anything but a size or a whole number.

    >>> n = tl.sizes("n")
    >>> print(tl.function(lambda E, x: tl.sum(n, lambda i: E(i, i) * x[i]), E=tl.relation(n, n), x=tl.R[n]))
    f(E: rel(n, n), x: [n]R) = sum i:n. [E(i, i)] * x[i]
    """
    if not over:
        refuse("a relation is over at least one index", "tl.relation(n, m)")
    return RelationType(tuple(map(as_size, over)))


def idx(size: Any) -> IndexType:
    """The type of an index from 0 to size - 1; idx(m)[n] is that of an array of n of them.

    Raises `TypeMismatch` for a `size` that is anything but a size or a whole number.

    >>> n, m = tl.sizes("n m")
    >>> print(tl.function(lambda x, k: tl.gen(m, lambda i: x[k[i]]), x=tl.R[n], k=tl.idx(n)[m]))
    f(x: [n]R, k: [m]idx(n)) = gen i:m. x[k[i]]
    """
    return IndexType(as_size(size))


def value_type_of(kind: Any, what: str) -> Type:
    """The type of values that `kind` denotes. Raises `TypeMismatch` for anything else."""
    if isinstance(kind, ValueType):
        return kind.type
    if isinstance(kind, tuple) and len(kind) >= 2:
        made = value_type_of(kind[-1], what)
        for part in reversed(kind[:-1]):
            made = Pair(value_type_of(part, what), made)
        return made
    refuse(
        f"{what} must be one such as tl.R, tl.R[n, m] or tl.pair_type(tl.R, tl.R), found {described(kind)}",
        "tl.R is a number, tl.R[n, m] an array of them, tl.idx(m)[n] indices",
    )
