"""Elements of index arrays that a condition equates, replaced by one representative.

    y[i] = y[j] and y[j] = y[l] and R(y[l])   ->   y[j] = y[i] and y[l] = y[i] and R(y[i])

The representative depends on few summed indices and, if possible, on none of those that are to be eliminated. Equations
are solved by Gauss-Jordan elimination, so equivalent conditions come out in the same form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    Exists,
    Predicate,
    conjunction,
    conjuncts,
    equal,
    lookups,
    substitute,
)
from tensorlang.sets.encode import alpha_normal
from tensorlang.sets.isl import obvious
from tensorlang.sets.solve import Ranges, in_range

_MOST_STEPS = 64

_Equation = tuple[Predicate, Lookup, Affine]


class Equalities:
    """The equalities in `p`, over the indices of `ranges`, solved; the elements that stay depend on few of `last`, and
    then on few of `loops`."""

    def __init__(self, p: Predicate, ranges: Ranges, loops: Collection[Index], last: Collection[Index] = ()) -> None:
        self._ranges, self._loops, self._last = ranges, frozenset(loops), frozenset(last)
        self._values: dict[Atom, Affine] = {}
        left = list(conjuncts(p))
        for _ in range(_MOST_STEPS):
            found = min(self._solvable(left), key=lambda found: found[1].depth, default=None)
            if found is None:
                break
            equation, x, value = found
            change: dict[Atom, Affine] = {x: value}
            again = [a for a in self._values if x in atom_affine(a).lookups]  # their places are replaced
            left = [q for q in left if q is not equation]
            left += [equal(atom_affine(a), self._values.pop(a)) for a in again]
            left = [substitute(q, change) for q in left]
            self._values = {a: value.substitute(change) for a, value in self._values.items()} | change
        solved = (equal(atom_affine(a), value) for a, value in self._values.items())
        self._parts = conjuncts(conjunction([*map(self.replaced, left), *solved]))
        self._parts = tuple(q for q in self._parts if not isinstance(q, Exists) or not self._has_witness(q))

    @property
    def condition(self) -> Predicate:
        """The same as `p`."""
        return conjunction(self._parts)

    def _solvable(self, parts: Iterable[Predicate]) -> Iterator[_Equation]:
        """The equations that can be solved for an element, each with that element and its value."""
        for q in parts:
            found = [x for x in q.difference.atoms if isinstance(x, Lookup)] if isinstance(q, Equal) else []
            if isinstance(q, Equal) and found:
                x = max(found, key=self._order)  # in a tie the first by name
                k = q.difference.coefficient(x)
                value = atom_affine(x) - q.difference * k
                if abs(k) == 1 and x not in value.lookups and x not in self._values:
                    yield q, x, value

    def _order(self, x: Lookup) -> tuple[int, int, int]:
        free = set(atom_affine(x).indices)
        return len(free & self._last), len(free & self._loops), x.depth

    def value(self, a: Affine) -> Affine:
        """`a`, with elements replaced."""
        for _ in range(_MOST_STEPS):
            if (b := a.substitute(self._values)) is a:
                break
            a = b
        return a

    def replaced(self, p: Predicate) -> Predicate:
        """`p`, with elements replaced and bound indices renamed canonically."""
        for _ in range(_MOST_STEPS):
            if (q := substitute(p, self._values)) is p:
                break
            p = q
        return alpha_normal(p)

    def holds(self, p: Predicate) -> bool:
        """Whether `p` obviously follows."""
        parts = conjuncts(self.replaced(p))
        return all(obvious(self._parts, q) or (isinstance(q, Exists) and self._has_witness(q)) for q in parts)

    def _has_witness(self, p: Exists) -> bool:
        """Whether an index or an element is obviously a witness of `p`."""
        return any(self._holds_at(substitute(p.body, {p.index: w})) for w in self._below(p.size))

    def _holds_at(self, p: Predicate) -> bool:
        """Whether `p` obviously follows, and all elements that it looks up exist."""
        return all(x in self._there or self._is_inside(x) for x in lookups(p)) and self.holds(p)

    def _is_inside(self, x: Lookup) -> bool:
        return all(in_range(a, n, self._ranges) is TRUE for a, n in zip(x.at, x.array.sizes, strict=True))

    def _below(self, size: Affine) -> Iterator[Affine]:
        """Values that are obviously indices below `size`."""
        yield from (atom_affine(i) for i, n in self._ranges.items() if n is size)
        yield from (atom_affine(x) for x in self._there if x.array.size is size and not x.array.partial)

    @cached_property
    def _there(self) -> dict[Lookup, None]:
        """Elements that exist because the condition compares them."""
        found = (x for q in self._parts if isinstance(q, Equal) for x in q.difference.lookups)
        return {x: None for x in found if set(atom_affine(x).indices) <= self._ranges.keys()}
