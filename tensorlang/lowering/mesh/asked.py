"""The axes of a mesh along which `sharding` asks for the indices of a program, and its arrays, to be laid out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import Affine, Index, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Choice, Expr, Extremum, Gen, Sum, children
from tensorlang.lowering.mesh.statements import Scan, program
from tensorlang.lowering.plan.dependence import Key
from tensorlang.lowering.plan.statements import leaves_of
from tensorlang.normal import eliminate_pairs, let_lift, push_out_gen

Along = tuple[str, ...]
"""The axes of a mesh along which something is laid out: one device after the other along the last; none: it is whole
on every device."""


class Mesh(Protocol):
    """The part of JAX's `Mesh` and `AbstractMesh` that is needed."""

    @property
    def shape(self) -> Mapping[str, int]:
        """The number of devices along each axis."""
        ...


@dataclass(frozen=True)
class Asked:
    """The axes of the mesh for names of indices and sizes, and how many devices there are along each axis."""

    along: Mapping[str, Along]
    devices: Mapping[str, int]

    def of_size(self, size: Affine) -> Along:
        """The axes for an index that runs over `size`, if all sizes in it that are named have the same ones."""
        found = {self.along[s.name] for s in size.sizes if s.name in self.along}
        return found.pop() if len(found) == 1 else ()

    def of_index(self, index: Index, size: Affine) -> Along:
        """The axes for an index of the program as it was given."""
        return self.along[index.name] if index.name in self.along else self.of_size(size)

    def count(self, along: Along) -> int:
        """How many devices there are along these axes."""
        return prod(self.devices[name] for name in along)


def asked(f: Function, mesh: Mesh, sharding: Mapping[str, str | Along]) -> Asked:
    """`sharding` as names of indices or sizes of `f`, each with axes of `mesh`.

    Raises `ArgumentError` for a name that is neither, for an axis that the mesh does not have, or one given twice.
    """
    devices = dict(mesh.shape)
    indices, sizes = _indices(f.body), {s.name for s in f.sizes}
    found: dict[str, Along] = {}
    for name, axes in sharding.items():
        if name not in indices and name not in sizes:
            known = f"its indices are {', '.join(sorted(indices)) or 'none'}, its sizes {', '.join(sorted(sizes))}"
            raise ArgumentError(f"{f.name} has no index or size called {name!r}", hint=known)
        along = (axes,) if isinstance(axes, str) else tuple(axes)
        for k, axis in enumerate(along):
            if axis not in devices:
                raise ArgumentError(f"the mesh has no axis {axis!r}; its axes are {', '.join(devices) or 'none'}")
            if axis in along[:k]:
                raise ArgumentError(f"sharding[{name!r}] names the axis {axis!r} twice")
        found[name] = along
    return Asked(found, devices)


def _indices(e: Expr) -> set[str]:
    found: set[str] = set()
    seen, stack = {e}, [e]
    while stack:
        part = stack.pop()
        if isinstance(part, Gen | Sum | Extremum | Choice):
            found.add(part.index.name)
        fresh = [child for child in children(part) if child not in seen]
        seen.update(fresh)
        stack += fresh
    return found


@dataclass(frozen=True)
class Wanted:
    """How arrays are to be laid out: a program's parameters, what its lets name, and its results.

    An axis of an array is laid out as the index that makes it, or else as the first index that it is read at.
    """

    parameters: Mapping[tuple[str, tuple[int, ...]], tuple[Along, ...]]
    named: Mapping[tuple[str, tuple[Affine, ...]], tuple[Along, ...]]
    results: Sequence[tuple[Along, ...]]


class Layouts:
    """The axes along which each axis of arrays of these `shapes` is laid out, as it is found out."""

    def __init__(self, asked: Asked, shapes: Mapping[Key, tuple[Affine, ...]]) -> None:
        self.asked, self.shapes = asked, shapes
        self.found: dict[Key, list[Along]] = {key: [()] * len(sizes) for key, sizes in shapes.items()}

    def note(self, array: Key, k: int, along: Along) -> None:
        """Lay out the k-th axis, unless it is already, or another axis of the array is along the same axes."""
        layout = self.found[array]
        if not layout[k] and not any(set(along) & set(other) for other in layout):
            layout[k] = along

    def read(self, reads: Iterable[tuple[Key, tuple[Affine, ...], Mapping[Index, Affine]]]) -> None:
        """Lay out arrays as the indices at which they are read, of these ranges."""
        reads = list(reads)
        for plain in (True, False):  # a place that is an index alone says more than one that moves it
            for array, places, ranges in reads:
                for k, a in enumerate(places):
                    at = {i: self.asked.of_index(i, ranges[i]) for i in a.indices if i in ranges}
                    moved = [i for i, along in at.items() if along]
                    if len(moved) == 1 and (a is atom_affine(moved[0])) is plain:
                        self.note(array, k, at[moved[0]])

    def fill(self, arrays: Iterable[Key]) -> None:
        """Lay out what is left of `arrays` by their sizes."""
        for key in arrays:
            for k, size in enumerate(self.shapes[key]):
                self.note(key, k, self.asked.of_size(size))


def wanted(f: Function, asked: Asked) -> Wanted:
    """The layouts of the arrays of `f` that follow from those asked for the indices that make and read them."""
    p = program(push_out_gen(eliminate_pairs(let_lift(f))))
    shapes = p.shapes | {s.key: tuple(b.size for b in s.own) for s in p.statements}
    layouts = Layouts(asked, shapes)
    for s in p.statements:
        for k, b in enumerate(s.own):
            layouts.note(s.key, k, asked.of_index(b.index, b.size))
    reads = [read for s in p.statements for read in Scan(s).reads]
    layouts.read((read.array, read.at, {i: b.size for i, b in read.scope.items()}) for read in reads)
    layouts.fill(p.shapes)
    found = {key: tuple(layout) for key, layout in layouts.found.items()}
    return Wanted(
        {(x.name, path): found[x, path] for x, path in p.shapes},
        {(s.array.name, shapes[s.key]): found[s.key] for s in p.statements},
        [found[key] for key in leaves_of(p.results)],
    )
