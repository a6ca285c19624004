"""Patterns: all of a contraction except its factors, of which only the shapes matter.

Programs have many contractions and few patterns, so results for a pattern are computed once.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache

from tensorlang.interning import interned, shared
from tensorlang.language.affine import Affine, Index, atom_affine, canonical
from tensorlang.language.predicates import Predicate, substitute

Shape = tuple[Affine, ...]


@cache
@shared
def axis(k: int) -> Index:
    """The k-th canonical index."""
    return canonical(("i", "j", "k", "l")[k] if k < 4 else f"i{k}")


@cache
def axes(start: int, count: int) -> tuple[Index, ...]:
    """`count` canonical indices from place `start`."""
    return tuple(axis(k) for k in range(start, start + count))


def renamed(p: Predicate, old: tuple[Index, ...], new: tuple[Index, ...]) -> Predicate:
    """`p` with the indices `old` replaced by `new`."""
    return substitute(p, {i: atom_affine(j) for i, j in zip(old, new, strict=True) if i is not j})


def renamed_affine(a: Affine, old: tuple[Index, ...], new: tuple[Index, ...]) -> Affine:
    """`a` with the indices `old` replaced by `new`."""
    return a.substitute({i: atom_affine(j) for i, j in zip(old, new, strict=True) if i is not j})


@interned
class Pattern:
    """gen g. sum i0, i1, s. [pred] * X0[i0] * X1[i1], for factors of these shapes.

    Its indices are the canonical ones: first g, then those of the factors in order, then s.
    """

    pred: Predicate
    factors: tuple[Shape, ...]
    summed: Shape
    shape: Shape
    own: tuple[Index, ...] = field(init=False)
    """g."""
    places: tuple[tuple[Index, ...], ...] = field(init=False)
    """i0, i1."""
    loops: tuple[Index, ...] = field(init=False)
    """s."""

    def __post_init__(self) -> None:
        places = []
        start = len(self.shape)
        for shape in self.factors:
            places.append(axes(start, len(shape)))
            start += len(shape)
        object.__setattr__(self, "own", axes(0, len(self.shape)))
        object.__setattr__(self, "places", tuple(places))
        object.__setattr__(self, "loops", axes(start, len(self.summed)))

    @property
    def indices(self) -> tuple[Index, ...]:
        """All of them."""
        return axes(0, len(self.shape) + sum(map(len, self.factors)) + len(self.summed))

    @property
    def outer(self) -> dict[Index, Affine]:
        """The ranges of g."""
        return dict(zip(self.own, self.shape, strict=True))

    @property
    def read(self) -> dict[Index, Affine]:
        """The ranges of the places at which the factors are read."""
        sizes = [size for shape in self.factors for size in shape]
        return dict(zip(axes(len(self.shape), len(sizes)), sizes, strict=True))

    @property
    def inner(self) -> dict[Index, Affine]:
        """The ranges of i0, i1 and s."""
        return {**self.read, **dict(zip(self.loops, self.summed, strict=True))}
