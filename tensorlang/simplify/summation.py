"""Sums of products of any number of factors, each read at affine places: what chains of contractions stand for.

    gen g. sum s. [p] * X0[a00, ..] * X1[a10, ..] * ..

The equalities of a contraction are solved, so only indices that are really summed over remain, and a contraction is
put in the place of a factor by substitution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, atom_affine
from tensorlang.language.predicates import Predicate, conjunction, equal, substitute
from tensorlang.normal.ssa import (
    Constant,
    Contraction,
    Shape,
    Statement,
    axes,
    factor_indices,
    inner_ranges,
    own_indices,
    own_ranges,
)
from tensorlang.normal.tidy import contraction
from tensorlang.sets.solve import Ranges, simplify_in, solve


@dataclass(frozen=True)
class Factor:
    """X[a0, a1, ..]."""

    operand: Statement
    at: tuple[Affine, ...]

    @property
    def indices(self) -> tuple[Index, ...]:
        """The indices that it depends on."""
        return tuple(dict.fromkeys(i for a in self.at for i in a.indices))


@dataclass(frozen=True)
class Summation:
    """gen g. sum loops. [pred] * factors; g are the canonical axes of `shape`."""

    shape: Shape
    loops: Ranges
    pred: Predicate
    factors: tuple[Factor, ...]

    @property
    def own(self) -> tuple[Index, ...]:
        """g."""
        return axes(0, len(self.shape))

    @property
    def ranges(self) -> dict[Index, Affine]:
        """The ranges of all indices."""
        return {**dict(zip(self.own, self.shape, strict=True)), **self.loops}


def summation(x: Contraction) -> Summation:
    """What `x` stands for, its loops with indices of their own."""
    solution = solve(x.pred, inner_ranges(x), own_ranges(x))
    fresh: dict[Atom, Affine] = {i: atom_affine(Index(i.name)) for i in solution.free}
    inner = inner_ranges(x)
    loops = {a.indices[0]: inner[i] for i, a in zip(solution.free, fresh.values(), strict=True)}

    def place(i: Index) -> Affine:
        return (solution.values.get(i) or atom_affine(i)).substitute(fresh)

    factors = tuple(
        Factor(y, tuple(map(place, indices))) for y, indices in zip(x.factors, factor_indices(x), strict=True)
    )
    return Summation(x.shape, loops, substitute(solution.rest, fresh), factors)


def inlined(s: Summation, k: int) -> Summation:
    """`s` with the contraction that its k-th factor reads in the place of that factor."""
    factor = s.factors[k]
    assert isinstance(factor.operand, Contraction)
    inner = summation(factor.operand)
    here: dict[Atom, Affine] = dict(zip(inner.own, factor.at, strict=True))
    through = tuple(Factor(f.operand, tuple(a.substitute(here) for a in f.at)) for f in inner.factors)
    both = conjunction([s.pred, substitute(inner.pred, here)])
    return _solved(
        replace(s, loops={**s.loops, **inner.loops}, pred=both, factors=(*s.factors[:k], *through, *s.factors[k + 1 :]))
    )


def _solved(s: Summation) -> Summation:
    """`s` without the loops that equalities determine, and with one constant factor at most, the first."""
    own = dict(zip(s.own, s.shape, strict=True))
    solution = solve(s.pred, s.loops, own)
    value = Fraction(1)
    factors = []
    for f in s.factors:
        if isinstance(f.operand, Constant):
            value *= f.operand.value
        else:
            factors.append(Factor(f.operand, tuple(a.substitute(solution.values) for a in f.at)))
    if value != 1 or not factors:
        factors.insert(0, Factor(Constant(value, ()), ()))
    loops = {i: s.loops[i] for i in solution.free}
    return Summation(s.shape, loops, simplify_in(solution.rest, {**own, **loops}), tuple(factors))


def product(own: tuple[Index, ...], ranges: Ranges, factors: Iterable[Factor], pred: Predicate) -> Statement:
    """The contraction gen own. sum .. [pred] * factors, summed over all other indices that occur."""
    given = []
    places = [pred]
    used: dict[Index, None] = {}
    for f in factors:
        at = tuple(Index(i.name) for i in own_indices(f.operand))
        places += [equal(atom_affine(i), a) for i, a in zip(at, f.at, strict=True)]
        given.append((f.operand, at))
        used.update(dict.fromkeys(f.indices))
    summed = {i: n for i, n in ranges.items() if i not in own}
    return contraction(tuple(ranges[i] for i in own), own, given, summed, conjunction(places))
