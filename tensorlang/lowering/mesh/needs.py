"""What a device needs of an array: all of an axis, or the region of it that is read at a block of an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorlang.language.affine import Affine, Atom, IndexArray, Size, atom_affine, constant
from tensorlang.lowering.arrays.integers import ZERO
from tensorlang.lowering.mesh.asked import Along
from tensorlang.lowering.mesh.statements import IndexBinder, Ranges, Read
from tensorlang.lowering.plan.dependence import Key


@dataclass(frozen=True)
class NeededRegion:
    """The elements at step * i + r, for all i in a device's block of an index of this size, and all r from `low` to
    `high`. The index is cut into blocks along the axes `along` of the mesh."""

    along: Along
    size: Affine
    step: int = 1
    low: Affine = ZERO
    high: Affine = ZERO

    def first(self, block: Affine) -> Affine:
        """The first of them on the first device, where a block has `block` indices."""
        return self.low + ((block - 1) * self.step if self.step < 0 else ZERO)

    def length(self, block: Affine) -> Affine:
        """How many elements there are from the first to the last."""
        return (block - 1) * abs(self.step) + self.high - self.low + 1


Needs = tuple[NeededRegion | None, ...]
"""For each axis of an array the part that is needed; None if all of it is."""


def stored(along: tuple[Along, ...], shape: tuple[Affine, ...]) -> Needs:
    """An array that is cut into blocks along axes of the mesh, as the devices have it."""
    return tuple(NeededRegion(axes, size) if axes else None for axes, size in zip(along, shape, strict=True))


def needed(read: Read, mapped: Mapping[IndexBinder, Along]) -> Needs:
    """What a read needs on a device that has a block of each index that is `mapped`."""
    found = tuple(_needed(a, read.scope, mapped) for a in read.at)
    if isinstance(read.array[0], IndexArray):
        # an element that doesn't exist fulfils no comparison; a zero in its place might
        sizes = read.array[0].sizes
        found = tuple(
            p if p is None or p == NeededRegion(p.along, n) else None for p, n in zip(found, sizes, strict=True)
        )
    return found


def _needed(a: Affine, scope: Ranges, mapped: Mapping[IndexBinder, Along]) -> NeededRegion | None:
    moved = [i for i in a.indices if scope.get(i) in mapped]
    if a.lookups or len(moved) != 1:
        return None
    step = a.coefficient(moved[0])
    low = high = a - atom_affine(moved[0]) * step
    for i in low.indices:
        if i not in scope:
            return None
        ends: list[dict[Atom, Affine]] = [{i: constant(0)}, {i: scope[i].size - 1}]
        if a.coefficient(i) < 0:
            ends.reverse()
        low, high = low.substitute(ends[0]), high.substitute(ends[1])
    binder = scope[moved[0]]
    return NeededRegion(mapped[binder], binder.size, step, low, high)


@dataclass
class Merged:
    """What a statement needs of arrays: reads that are near one another are served by one part of the array."""

    found: dict[Key, list[Needs]] = field(default_factory=dict)

    def add(self, array: Key, needs: Needs) -> None:
        """Note that `needs` of the array are read."""
        groups = self.found.setdefault(array, [])
        for k, other in enumerate(groups):
            both = _both(needs, other)
            if both is not None:
                groups[k] = both
                return
        groups.append(needs)

    def of(self, array: Key, needs: Needs) -> Needs:
        """The noted needs that include `needs`."""
        return next(group for group in self.found[array] if _both(needs, group) == group)


def _both(p: Needs, q: Needs) -> Needs | None:
    """The needs that include both `p` and `q`, if they are known whatever the sizes."""
    merged: list[NeededRegion | None] = []
    for a, b in zip(p, q, strict=True):
        if a is None or b is None:
            if a is not b:
                return None
            merged.append(None)
            continue
        low = _least(a.low, b.low)
        high = _least(-a.high, -b.high)
        if (a.along, a.size, a.step) != (b.along, b.size, b.step) or low is None or high is None:
            return None
        merged.append(NeededRegion(a.along, a.size, a.step, low, -high))
    return tuple(merged)


def _least(a: Affine, b: Affine) -> Affine | None:
    return a if is_nonnegative(b - a) else b if is_nonnegative(a - b) else None


def is_nonnegative(a: Affine) -> bool:
    """Whether a >= 0 whatever the sizes, as far as its signs tell."""
    return a.constant >= 0 and all(k >= 0 and isinstance(atom, Size) for atom, k in a.terms)
