"""What is called what in the code of a kernel for GPUs, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, Lookup, Size, render
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import lookups
from tensorlang.lower.arrays.names import Names
from tensorlang.lower.kernels.kernel import Axis, Kernel
from tensorlang.lower.kernels.operands import Array, expressions_of, relations_of
from tensorlang.lower.kernels.terms import conditions, reads


@dataclass(frozen=True)
class Naming:
    """Names: of sizes, of the arrays that are read and made, and for each axis of its places in a tile, of a tile's
    length, and of a tile's number."""

    sizes: Mapping[Size, str]
    arrays: Mapping[Array, str]
    outputs: Mapping[Var, str]
    places: Mapping[Index, str]
    lengths: Mapping[Index, str]
    numbers: Mapping[Index, str]
    names: Names

    def code(self, a: Affine, numbers: Mapping[Index, str] | None = None) -> str:
        """An affine combination of sizes, and of `numbers`."""

        def name(atom: Atom) -> str:
            return self.sizes[atom] if isinstance(atom, Size) else (numbers or {})[atom]  # type: ignore[index]

        return render(a, name, " * ")

    def count(self, axis: Axis) -> str:
        """How many tiles an axis is cut into."""
        n = self.code(axis.extent)
        if axis.index in self.lengths:
            return f"pl.cdiv({n}, {self.lengths[axis.index]})"
        return n if n.isidentifier() or n.isdigit() else f"({n})"

    def extents(self, axes: Sequence[Index]) -> str:
        """The extents of a tile over these axes, as a tuple."""
        return listed([self.lengths[i] for i in axes])


def listed(codes: Sequence[str]) -> str:
    """A tuple."""
    return f"({', '.join(codes)}{',' * (len(codes) == 1)})"


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
