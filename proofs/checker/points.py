"""Questions about predicates over ranges, decided by `facts` for all sizes from 1 on and whatever the data.

Undecided questions are compared point by point at small sizes with random data, and the answer says that only this was
done.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from . import trees
from .budget import Budget, TooLarge
from .facts import Facts
from .predicates import within
from .semantics import NoIndex, Semantics, names_in
from .trees import TRUE, Affine, All, Pred, Refused

Ranges = Sequence[tuple[str, Affine]]
"""Indices with their sizes."""

FOR_ALL = "for all sizes"
AT_SMALL = "at small sizes"
_SMALL = 3
_LARGER = (4, 5, 7, 8, 13, 20)
_SECONDS = 2.0


@dataclass(frozen=True)
class Data:
    """The types of the data: the sizes of each relation, and the sizes of each index array with the size of its
    elements."""

    relations: Mapping[str, tuple[Affine, ...]]
    arrays: Mapping[str, tuple[tuple[Affine, ...], Affine]]
    optional: Mapping[str, tuple[tuple[str, ...], Pred]] = field(default_factory=dict)
    """Index arrays of choices that may be among none, and the places at which their elements exist."""


class Sets:
    """Decides questions about predicates over the data of one certificate."""

    def __init__(self, data: Data, budget: Budget) -> None:
        self.data = data
        self.budget = budget
        self.facts = Facts(budget)
        self.facts.relations.update(data.relations)
        self.facts.arrays.update({x: ((), size) for x, (_, size) in data.arrays.items()})
        self.facts.optional.update(data.optional)

    def equal(self, p: Pred, q: Pred, ranges: Ranges, what: str) -> str:
        """How `p` and `q` were found to hold at the same points of `ranges`. Raises `Refused` if they don't."""
        return self._decided(p, q, ranges, what, both=True)

    def subset(self, p: Pred, q: Pred, ranges: Ranges, what: str) -> str:
        """How every point of `p` was found to be in `q`. Raises `Refused` if it isn't."""
        return self._decided(p, q, ranges, what, both=False)

    def empty(self, p: Pred, ranges: Ranges) -> bool:
        """Whether `p` has no points in `ranges`, whatever the data."""
        return self.facts.empty((*self._around(ranges), p))

    @staticmethod
    def _around(ranges: Ranges) -> list[Pred]:
        return [within(trees.name(i), n) for i, n in ranges]

    def _decided(self, p: Pred, q: Pred, ranges: Ranges, what: str, both: bool) -> str:
        around = self._around(ranges)
        if self.facts.implies((*around, p), q) and (not both or self.facts.implies((*around, q), p)):
            return FOR_ALL
        self._compared(p, q, ranges, what, both)
        return AT_SMALL

    def _compared(self, p: Pred, q: Pred, ranges: Ranges, what: str, both: bool) -> None:
        """Compare two predicates point by point. Raises `Refused` where they differ."""
        asked = All((p, q, *self._around(ranges)))
        data = [*self.data.relations.values(), *((*dims, size) for dims, size in self.data.arrays.values())]
        names = set(names_in(asked)).union(*(names_in(a) for sizes in data for a in sizes))
        sizes = sorted(names - {i for i, _ in ranges} - set(self.data.relations) - set(self.data.arrays))
        meaning = Semantics({}, self.budget.part(_SECONDS))
        larger = ((k,) * len(sizes) for k in _LARGER)
        for values in chain(product(range(1, _SMALL + 1), repeat=len(sizes)), larger):
            rng = random.Random(str(values))
            env: dict[str, Any] = dict(zip(sizes, values, strict=True))
            env.update(self.draw(env, rng))
            try:
                for at in meaning.points(ranges, TRUE, env):
                    first, second = meaning.holds(p, at), meaning.holds(q, at)
                    if first > second or (both and first != second):
                        raise Refused(f"{what}: the sets differ at {values}")
            except NoIndex:
                continue
            except TooLarge:
                self.budget.spend()
                return

    def draw(self, sizes: Mapping[str, int], rng: random.Random) -> dict[str, Any]:
        """Random data at some sizes: sets of points and nested lists of indices; data that need other sizes are left
        out."""
        meaning = Semantics({}, self.budget)
        env: dict[str, Any] = {}
        density = rng.choice((0.2, 0.5, 0.9))
        for relation, dims in self.data.relations.items():
            if all(names_in(a) <= sizes.keys() for a in dims):
                places = product(*(range(meaning.index(a, sizes)) for a in dims))
                env[relation] = {at for at in places if rng.random() < density}
        for array, (dims, size) in self.data.arrays.items():
            if all(names_in(a) <= sizes.keys() for a in (*dims, size)):
                bounds = [meaning.index(a, sizes) for a in dims]
                env[array] = _indices(bounds, meaning.index(size, sizes), rng)
        return env


def _indices(bounds: list[int], size: int, rng: random.Random) -> Any:
    if bounds:
        return [_indices(bounds[1:], size, rng) for _ in range(bounds[0])]
    return rng.randrange(size) if size > 0 else 0
