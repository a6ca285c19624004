"""Where an expression is evaluated: the axes in scope, the loops around it, and what hides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorlang.language.affine import Affine, Atom, Index, Lookup
from tensorlang.language.predicates import Predicate, free_atoms, substitute
from tensorlang.lowering.arrays.integers import ZERO, Range
from tensorlang.lowering.arrays.ir import Block
from tensorlang.lowering.arrays.values import Axes, Value


@dataclass(frozen=True)
class Scope:
    """Where an expression is evaluated.

    `domain` holds the indices that are axes of arrays, `loops` those that Python or XLA iterates over, `env`
    those that an equality has eliminated. `masks` are predicates that hide the expression where they are false.
    `block` takes the lines that the expression needs, `fixed` those that no loop should repeat.
    """

    domain: Mapping[Index, Range]
    loops: Mapping[Index, Range]
    env: Mapping[Atom, Affine]
    masks: tuple[Predicate, ...]
    block: Block
    fixed: Block
    memo: dict[Any, Value] = field(default_factory=dict)

    @property
    def order(self) -> Axes:
        """The axes in order, the outermost first."""
        return tuple(self.domain)

    def axes(self, a: Affine) -> Axes:
        """The axes on which `a` depends."""
        free = a.free
        return tuple(i for i in self.domain if i in free)

    def masks_without(self, axes: Axes) -> tuple[Predicate, ...]:
        """The masks that do not depend on these axes."""
        return tuple(p for p in self.masks if free_atoms(substitute(p, self.env)).isdisjoint(axes))

    def is_static(self, a: Affine) -> bool:
        """Whether no loop and no data change `a`."""
        return not any(atom in self.loops or isinstance(atom, Lookup) for atom in a.atoms)

    def bounds(self, a: Affine) -> tuple[Affine, Affine]:
        """The least and the greatest value of `a` over the axes and loops that it depends on."""
        low = high = a
        # lookups come first: their places have some of the same axes
        for i, k in sorted(a.terms, key=lambda term: not isinstance(term[0], Lookup)):
            r = self.range_of(i)
            if r is not None:
                first: dict[Atom, Affine] = {i: r.start if k > 0 else r.last}
                last: dict[Atom, Affine] = {i: r.last if k > 0 else r.start}
                low, high = low.substitute(first), high.substitute(last)
        return low, high

    def range_of(self, atom: Atom) -> Range | None:
        """The range of an axis, a loop or the elements of an index array; None for a size."""
        match atom:
            case Index():
                return self.domain.get(atom) or self.loops.get(atom)
            case Lookup(array, _):
                return Range(ZERO, array.size)
            case _:
                return None


FIELDS = ("domain", "loops", "env", "masks", "block", "fixed")
