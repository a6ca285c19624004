"""Names in the code of a kernel for GPUs, and the arrays that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorlang.language.affine import Affine, Atom, Index, Lookup
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import lookups
from tensorlang.lowering.arrays.integers import StaticIntegers
from tensorlang.lowering.arrays.ir import Name, Node, Tuple
from tensorlang.lowering.arrays.names import Names
from tensorlang.lowering.arrays.values import apply
from tensorlang.lowering.kernels.ir import Kernel, TileAxis
from tensorlang.lowering.kernels.operands import Array, expressions_of, relations_of
from tensorlang.lowering.kernels.terms import conditions, reads


@dataclass(frozen=True)
class GpuNaming:
    """Names: of sizes, as `integers` has them, of the arrays that are read and made, and for each axis of its places in
    a tile, of a tile's length, and of a tile's number."""

    integers: StaticIntegers
    arrays: Mapping[Array, str]
    outputs: Mapping[Var, str]
    places: Mapping[Index, str]
    lengths: Mapping[Index, str]
    numbers: Mapping[Index, str]
    twins: Mapping[Index, Index] = field(default_factory=dict)
    """Other indices of the same axes, which have their names."""

    @property
    def names(self) -> Names:
        """All names that are in use."""
        return self.integers.names

    def node(self, a: Affine, numbers: Mapping[Atom, Node] | None = None) -> Node:
        """An affine combination of sizes, and of `numbers`."""
        return self.integers.position(a, numbers or {})

    def count(self, axis: TileAxis) -> Node:
        """How many tiles an axis is cut into."""
        n = self.node(axis.extent)
        return apply("pl.cdiv", n, Name(self.lengths[axis.index])) if axis.index in self.lengths else n

    def extents(self, axes: Sequence[Index]) -> Tuple:
        """The extents of a tile over these axes."""
        return Tuple(tuple(Name(self.lengths[i]) for i in axes))

    def reference(self, array: Array) -> Name:
        """The reference to an array that is read."""
        return Name(f"{self.arrays[array]}_ref")


def with_twins(naming: GpuNaming, twins: Mapping[Index, Index]) -> GpuNaming:
    """`naming` with other indices of some axes."""

    def more(names: Mapping[Index, str]) -> Mapping[Index, str]:
        return {**names, **{twin: names[i] for i, twin in twins.items() if i in names}}

    return replace(
        naming, places=more(naming.places), lengths=more(naming.lengths), numbers=more(naming.numbers), twins=twins
    )


def inputs(kernel: Kernel) -> tuple[Array, ...]:
    """The arrays, relations and index arrays that a kernel reads."""
    expressions = expressions_of(kernel)
    made = {acc.var for acc in kernel.accumulators}
    found: dict[Array, None] = {}
    waiting: list[Lookup] = []
    for x, places in reads(*expressions):
        if x not in made:
            found[x] = None
            waiting += [lookup for a in places for lookup in a.lookups]
    for p in [*(acc.pred for acc in kernel.accumulators), *conditions(*expressions)]:
        waiting += lookups(p)
    for related in relations_of(kernel):
        found[related.relation] = None
        waiting += [lookup for a in related.arguments for lookup in a.lookups]
    found.update((lookup.array, None) for lookup in waiting)
    return tuple(found)
