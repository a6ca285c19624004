"""Index arrays in Python: their elements are indices; argmax and argmin make new ones."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.language.affine import Affine, IndexArray, Lookup, atom_affine
from tensorlang.language.grammar import Expr, type_of
from tensorlang.language.types import BoundedIndex, array, shape
from tensorlang.surface.scope import NO_BINDERS, Binders, Surface, built, current, refuse, remember, together
from tensorlang.surface.terms import Idx, as_at


class Indices(Surface):
    """An index array, or a part of one. With a place for each of its axes it is an index.

    >>> n, m = tl.sizes("n m")
    >>> print(tl.function(lambda x, k: tl.sum(m, lambda i: x[k[i]]), x=tl.R[n], k=tl.idx(n)[m]))
    f(x: [n]R, k: [m]idx(n)) = sum i:m. x[k[i]]
    """

    __slots__ = ("array", "at")

    def __init__(self, array: IndexArray, at: tuple[Affine, ...], binders: Binders = NO_BINDERS) -> None:
        self.array = array
        self.at = at
        self.binders = binders

    def __repr__(self) -> str:
        return f"<{self.described()}>"

    def described(self) -> str:
        """A description, for a message."""
        part = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        kind = array(self.array.sizes[len(self.at) :], BoundedIndex(self.array.size))
        return f"the index array {self.array.name}{part}, of type {kind}"

    def __getitem__(self, at: object) -> Idx | Indices:
        parts = [as_at(a) for a in (at if isinstance(at, tuple) else (at,))]
        places = (*self.at, *(a.affine for a in parts))
        if len(places) > len(self.array.sizes):
            many = f"{len(places)} {'index' if len(places) < 2 else 'indices'}"
            refuse(f"{self.array.name} is of type {type_of(self.array)}, found {many} after it")
        return looked_up(self.array, places, self, *parts)

    def __iter__(self) -> Iterator[Idx | Indices]:
        refuse("an index array can't be iterated over", "write tl.gen(n, lambda i: ..) or tl.sum(n, lambda i: ..)")


def looked_up(whole: IndexArray, at: tuple[Affine, ...], *parts: Surface) -> Idx | Indices:
    """whole[at], made of `parts`: an index, if it has as many places as `whole` has axes."""
    if len(at) < len(whole.sizes):
        return Indices(whole, at, together(*parts))
    return Idx(atom_affine(built(Lookup, whole, at)), together(*parts))


def chosen(e: Expr, *parts: Surface) -> Idx | Indices:
    """The indices that `e`, made of `parts`, chooses, as a new index array."""
    definition = current.get()
    if definition is None:
        refuse("an index is chosen while a program is written", "define the program with tl.function")
    remember(e)
    sizes, element = shape(e.type)
    assert isinstance(element, BoundedIndex)
    made = IndexArray(definition.names.get(e, "k"), sizes, element.size)
    definition.choices[made] = e
    return looked_up(made, (), *parts)


def choice(value: object) -> Expr | None:
    """The expression whose choices `value` is as a whole; None if it is anything else."""
    definition = current.get()
    match value:
        case Indices(array=whole, at=()) | Idx(affine=Affine(((Lookup(whole, ()), 1),), 0)):
            return None if definition is None else definition.choices.get(whole)
        case _:
            return None
