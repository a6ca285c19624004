"""The types T of Figure 3, and that of an index."""

from __future__ import annotations

from dataclasses import field

from tensorlang.errors import LimitError
from tensorlang.interning import interned
from tensorlang.language.affine import Affine
from tensorlang.recursion import Deep, call, run
from tensorlang.shown import Shown

MOST_PARTS = 1 << 17
"""The most parts of a pair, whose parts may be pairs: each becomes a statement of its own sooner or later."""


@interned
class Real(Shown):
    """A real number."""

    def __str__(self) -> str:
        return "R"


def _parts(kind: Type) -> int:
    return kind.parts if isinstance(kind, Pair | Array) else 1


@interned
class Pair(Shown):
    """T0 x T1. Raises `LimitError` if it has too many parts: they double where a pair is of one value twice."""

    first: Type
    second: Type
    parts: int = field(init=False)
    """The number of its parts that are no pairs; an array of pairs has the parts of one."""

    def __post_init__(self) -> None:
        parts = _parts(self.first) + _parts(self.second)
        if parts > MOST_PARTS:
            raise LimitError(f"a pair has at most {MOST_PARTS:,} parts, found one of {parts:,}")
        object.__setattr__(self, "parts", parts)

    def __str__(self) -> str:
        return _text(self)


@interned
class Array(Shown):
    """[n]T: n values of type T."""

    size: Affine
    element: Type
    parts: int = field(init=False)
    """The number of parts of its elements."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(self.element))

    def __str__(self) -> str:
        return _text(self)


@interned
class BoundedIndex(Shown):
    """An index: an integer from 0 to size - 1. Only arrays of indices are of this type, and choices."""

    size: Affine

    def __str__(self) -> str:
        return f"idx({self.size})"


Type = Real | Pair | Array | BoundedIndex

R = Real()


_LONGEST = 200


def array(sizes: tuple[Affine, ...], element: Type) -> Type:
    """[n0][n1]...T."""
    for size in reversed(sizes):
        element = Array(size, element)
    return element


def shape(kind: Type) -> tuple[tuple[Affine, ...], Type]:
    """The sizes of the arrays around `kind`'s first element that is not an array, and that element's type."""
    sizes: list[Affine] = []
    while isinstance(kind, Array):
        sizes.append(kind.size)
        kind = kind.element
    return tuple(sizes), kind


def of_indices(kind: Type) -> bool:
    """Whether `kind` is an index, or an array of indices."""
    return isinstance(shape(kind)[1], BoundedIndex)


def struct_of_arrays(kind: Type) -> Type:
    """The isomorphic type with pairs outside arrays: [n](T0 x T1) becomes [n]T0 x [n]T1 (section 5.2)."""
    return run(_struct_of_arrays(kind))


def _struct_of_arrays(kind: Type) -> Deep[Type]:
    sizes, element = shape(kind)
    if not isinstance(element, Pair):
        return kind
    first: Type = yield from call(_struct_of_arrays(array(sizes, element.first)))
    second: Type = yield from call(_struct_of_arrays(array(sizes, element.second)))
    return Pair(first, second)


def leaves(kind: Type) -> list[tuple[tuple[int, ...], Type]]:
    """The projections that lead through the pairs of a struct-of-arrays type to its arrays and numbers."""
    found: list[tuple[tuple[int, ...], Type]] = []
    stack: list[tuple[tuple[int, ...], Type]] = [((), struct_of_arrays(kind))]
    while stack:
        path, part = stack.pop()
        if isinstance(part, Pair):
            stack += [((*path, 1), part.second), ((*path, 0), part.first)]
        else:
            found.append((path, part))
    return found


def _text(kind: Type) -> str:
    """`kind` as text, for messages: cut where it gets long, since a type's size can be exponential in the program's."""
    out: list[str] = []
    stack: list[Type | str] = [kind]
    while stack:
        if len(out) > _LONGEST:
            return "".join([*out, "..."])
        match stack.pop():
            case str(text):
                out.append(text)
            case Real():
                out.append("R")
            case BoundedIndex(size):
                out.append(f"idx({size})")
            case Pair(first, second):
                stack += [")", second, ", ", first, "("]
            case Array(size, element):
                stack += [element, f"[{size}]"]
    return "".join(out)
