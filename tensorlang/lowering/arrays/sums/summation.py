"""A sum that is being lowered, as the modules that take it apart hand it to one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Index
from tensorlang.language.grammar import Expr
from tensorlang.language.predicates import Predicate
from tensorlang.lowering.arrays.integers import Range
from tensorlang.lowering.arrays.scope import Scope
from tensorlang.lowering.arrays.values import Axes


@dataclass(frozen=True)
class Summation:
    """The sum over `summed` of the conjunction of `parts` times `body`.

    `loops` are indices, summed ones or axes of the scope, that are to be iterated over; `whole` forbids any loop. `cut`
    are indices of which only a block is left. In strict code, `selects` says whether hidden values must be left out of
    the computation rather than multiplied by zero; None leaves that open.
    """

    scope: Scope
    summed: Mapping[Index, Range]
    parts: tuple[Predicate, ...]
    body: Expr
    loops: frozenset[Index] = frozenset()
    whole: bool = False
    cut: frozenset[Index] = frozenset()
    selects: bool | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """All that distinguishes it from other sums in the same scope."""
        return (
            "sum",
            tuple(self.summed.items()),
            self.parts,
            self.body,
            self.loops,
            self.whole,
            self.cut,
            self.selects,
        )

    @property
    def ranges(self) -> Mapping[Index, Range]:
        """The axes of the scope and the summed ones, with their ranges."""
        return {**self.scope.domain, **self.summed}

    def axes(self, a: Affine) -> Axes:
        """The indices of `ranges` that occur in `a`."""
        return tuple(i for i in self.ranges if a.coefficient(i))

    def without(self, *indices: Index) -> Mapping[Index, Range]:
        """The summed indices except these."""
        return {i: r for i, r in self.summed.items() if i not in indices}
