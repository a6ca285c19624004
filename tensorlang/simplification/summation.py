"""Sums of products of any number of factors: the meaning of chains of contractions.

A contraction's pattern has an index for each place at which a factor is read. With its equalities solved, only the
indices that are really summed over remain, and factors are read at affine places.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.predicates import TRUE, Predicate, conjunction, equal, substitute
from tensorlang.normal.contraction import Factors, folded, read_through, solution
from tensorlang.normal.pattern import Pattern, Shape
from tensorlang.normal.ssa import Contraction
from tensorlang.sets.solve import Ranges, simplify_in


@dataclass(frozen=True)
class ProductSum:
    """A contraction of any number of factors."""

    pattern: Pattern
    factors: Factors


def summation(x: Contraction) -> ProductSum:
    """What `x` computes."""
    return ProductSum(x.pattern, x.factors)


def inlined(s: ProductSum, k: int) -> ProductSum:
    """`s` with its k-th factor, a contraction, merged into it; constants are folded into at most one."""
    return ProductSum(*folded(*read_through(s.pattern, s.factors, k)))


@dataclass(frozen=True)
class FactorRead:
    """X[a0, a1, ..], for an X of this shape."""

    shape: Shape
    at: tuple[Affine, ...]

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices that it depends on."""
        return tuple(dict.fromkeys(i for a in self.at for i in a.indices))


@dataclass(frozen=True)
class Scheme:
    """gen own. sum .. [pred] * X0[a00, ..] * X1[a10, ..] * .., summed over the other indices of `ranges`."""

    own: tuple[Index, ...]
    ranges: Ranges
    pred: Predicate
    reads: tuple[FactorRead, ...]


def scheme(x: Pattern) -> Scheme:
    """`x` with its equalities solved."""
    found, inner, outer = solution(x), x.inner, x.outer
    ranges = {**outer, **{i: inner[i] for i in found.free}}
    reads = tuple(
        FactorRead(shape, tuple(found.values.get(i) or atom_affine(i) for i in at))
        for shape, at in zip(x.factors, x.places, strict=True)
    )
    return Scheme(x.own, ranges, simplify_in(found.rest, ranges), reads)


def product(own: tuple[Index, ...], ranges: Ranges, reads: Iterable[FactorRead], pred: Predicate) -> Pattern:
    """The pattern of gen own. sum .. [pred] * the factors that are read, summed over the other indices of `ranges`."""
    reads = tuple(reads)
    summed = {i: n for i, n in ranges.items() if i not in own}
    made = Pattern(TRUE, tuple(r.shape for r in reads), tuple(summed.values()), tuple(ranges[i] for i in own))
    numbered = (*made.own, *made.loops)
    names: dict[Atom, Affine] = {i: atom_affine(j) for i, j in zip((*own, *summed), numbered, strict=True)}
    places = (
        equal(atom_affine(i), a.substitute(names))
        for r, indices in zip(reads, made.places, strict=True)
        for i, a in zip(indices, r.at, strict=True)
    )
    return Pattern(conjunction([substitute(pred, names), *places]), made.factors, made.summed, made.shape)
