"""Sums multiplied out into products, in which equal elements have the same form.

    a * (b + c)                                    ->  a * b + a * c
    sum j. [y[j] = y[i]] * X[j]                    ->  sum j. [y[j] = y[i]] * X<y[i]>
    [i = k[j] and p[i] = p[j]] * ..                ->  [i = k<p[i]> and p[i] = p[j]] * ..

where X and k depend on their index only through an element of an index array, and X<a> is their value where that
element is a. The conditions under which elements were chosen are added to those in which they occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.predicates import FALSE, Predicate, conjunction, equal, exists, substitute
from tensorlang.normal.contraction import folded
from tensorlang.normal.pattern import Pattern, axes, renamed
from tensorlang.normal.ssa import Addend, Addition, Constant, Contraction, Selection, Statement, own_indices
from tensorlang.sets.encode import alpha_normal
from tensorlang.sets.solve import Ranges, project, simplify_in
from tensorlang.simplification.chosen import certainly_read, what_was_chosen, where_chosen
from tensorlang.simplification.dependence import Dependence
from tensorlang.simplification.equalities import Equalities
from tensorlang.simplification.summation import ProductSum, Scheme, inlined, scheme

_MOST_TERMS, _MOST_FACTORS = 16, 12

Places = dict[Atom, Affine]
Element = tuple[Statement, tuple[Affine, ...]]
"""X<a0, ..>: the element of X where what X depends on (`Multiplied.through`) is a0, .."""


@dataclass(frozen=True)
class Product:
    """gen own. number * sum loops. [pred] * X0<a00, ..> * X1<a10, ..> * .., over ranges."""

    number: Fraction
    own: Ranges
    loops: Ranges
    pred: Predicate
    factors: tuple[Element, ...]

    @property
    def ranges(self) -> Ranges:
        """The ranges of all indices."""
        return {**self.own, **self.loops}

    def equalities(self, last: Collection[Index] = ()) -> Equalities:
        """Its condition, solved; the elements that stay depend on few of the `last` and of the loops."""
        return Equalities(self.pred, self.ranges, self.loops, last)

    def settled(self, last: Collection[Index] = ()) -> Product:
        """The same, with equal elements replaced by one of them."""
        known = self.equalities(last)
        factors = tuple((y, tuple(map(known.value, at))) for y, at in self.factors)
        return replace(self, pred=alpha_normal(simplify_in(known.condition, self.ranges)), factors=factors)

    def at(self, places: Places, loops: Ranges) -> Product:
        """The same with other indices, which are summed over `loops`."""
        factors = tuple((y, tuple(a.substitute(places) for a in at)) for y, at in self.factors)
        return replace(self, loops=loops, pred=substitute(self.pred, places), factors=factors)

    def where_exists(self, binders: Ranges, p: Predicate) -> Product:
        """The same where there are `binders` such that `p`."""
        if self.equalities().holds(exists(binders.items(), p)):
            return self
        return replace(self, pred=conjunction([self.pred, project(binders, p, self.ranges)]))


class Multiplied:
    """Statements multiplied out. Call `define` for earlier statements first, since they may define index arrays."""

    def __init__(self) -> None:
        self._dependence = Dependence()
        self._selections: dict[IndexArray, Selection] = {}
        self._through: dict[Statement, tuple[Atom, ...]] = {}
        self._by_elements: dict[IndexArray, IndexArray] = {}

    def define(self, x: Statement) -> None:
        """Take note of `x`, which may define an array that statements after it look up."""
        self._dependence.define(x)
        if isinstance(x, Selection):
            self._selections[x.array] = x

    def through(self, x: Statement) -> tuple[Atom, ...]:
        """The atoms that `x` depends on: its own indices, and elements of index arrays at these."""
        if x not in self._through:
            self._through[x] = self._dependence.atoms(x)
        return self._through[x]

    def products(self, x: Statement) -> list[Product] | None:
        """`x` as a sum of products of statements that are no sums or products; None if there are too many."""
        rank = len(x.shape)
        here = conjunction(
            equal(atom_affine(i), atom_affine(j)) for i, j in zip(axes(0, rank), axes(rank, rank), strict=True)
        )
        pending = [(1, ProductSum(Pattern(here, (x.shape,), (), x.shape), (x,)))]
        found: list[Product] = []
        while pending:
            sign, s = pending.pop()
            k = next((k for k, y in enumerate(s.factors) if isinstance(y, Addition | Contraction)), None)
            if k is None:
                p = self._product(sign, s)
                if p.pred is not FALSE:
                    found.append(p)
            elif isinstance(y := s.factors[k], Addition):
                pending += [(sign * t.sign, _with_term(s, k, t)) for t in y.terms]
            else:
                pending.append((sign, inlined(s, k)))
            if len(pending) + len(found) > _MOST_TERMS or len(s.factors) > _MOST_FACTORS:
                return None
        return found

    def _product(self, sign: int, s: ProductSum) -> Product:
        pattern, factors = folded(s.pattern, s.factors)
        x = scheme(pattern)
        number = Fraction(sign)
        read = list(zip(factors, x.reads, strict=True))
        if isinstance(factors[0], Constant):
            number *= factors[0].value
            del read[0]
        own = {i: x.ranges[i] for i in x.own}
        loops = {i: n for i, n in x.ranges.items() if i not in own}
        facts, chosen = self._chosen_in(x, [a for _, r in read for a in r.at])
        pred = substitute(conjunction([x.pred, *facts]), chosen)
        elements = tuple((y, self._element(y, [a.substitute(chosen) for a in r.at])) for y, r in read)
        return Product(number, own, loops, pred, elements).settled()

    def _element(self, x: Statement, at: Sequence[Affine]) -> tuple[Affine, ...]:
        """The values of the atoms that `x` depends on, for its element at `at`."""
        here: Places = dict(zip(own_indices(x), at, strict=True))
        return tuple(atom_affine(atom).substitute(here) for atom in self.through(x))

    def _chosen_in(self, x: Scheme, read: list[Affine]) -> tuple[list[Predicate], Places]:
        """The conditions under which the elements that `x` looks up were chosen, and a replacement for each of them."""
        found = dict.fromkeys([*certainly_read(x.pred), *(lookup for a in read for lookup in a.lookups)])
        known = Equalities(x.pred, x.ranges, x.ranges)
        facts: list[Predicate] = []
        values: Places = {}
        for lookup in sorted(found, key=lambda lookup: lookup.depth):
            y = self._selections.get(lookup.array)
            free = {i for a in lookup.at for i in a.indices}
            if y is not None and free <= x.ranges.keys() and known.holds(where_chosen(lookup, y)):
                facts += what_was_chosen(lookup, y)
                at = self._element(y, [a.substitute(values) for a in lookup.at])
                values[lookup] = atom_affine(Lookup(self._by_element(y), at))
        return facts, values

    def _by_element(self, x: Selection) -> IndexArray:
        """The array that `x` defines, indexed by the values of the atoms that its elements depend on instead."""
        if x.array not in self._by_elements:
            ranges: dict[Atom, Affine] = dict(zip(own_indices(x), x.shape, strict=True))
            through = self.through(x)
            sizes = tuple(a.array.size if isinstance(a, Lookup) else ranges[a] for a in through)
            self._by_elements[x.array] = IndexArray(x.array.name, sizes, x.array.size)
        return self._by_elements[x.array]


def signs_by_factors(x: Statement) -> dict[frozenset[tuple[Statement, int]], set[bool]] | None:
    """The multisets of statements that the `products` of `x` multiply, wherever these are read, with whether such
    products are added, subtracted, or both. None if there are too many."""
    pending: list[tuple[Fraction, tuple[Statement, ...]]] = [(Fraction(1), (x,))]
    found: dict[frozenset[tuple[Statement, int]], set[bool]] = {}
    while pending:
        number, factors = pending.pop()
        k = next((k for k, y in enumerate(factors) if isinstance(y, Addition | Contraction | Constant)), None)
        if k is None:
            found.setdefault(frozenset(Counter(factors).items()), set()).add(number > 0)
            continue
        y, others = factors[k], (*factors[:k], *factors[k + 1 :])
        if isinstance(y, Addition):
            pending += [(number * t.sign, (*others, t.operand)) for t in y.terms]
        elif isinstance(y, Contraction):
            pending.append((number, (*others, *y.factors)))
        elif isinstance(y, Constant) and y.value:
            pending.append((number * y.value, others))
        if len(pending) > _MOST_TERMS or len(factors) > _MOST_FACTORS:
            return None
    return found


def _with_term(s: ProductSum, k: int, t: Addend) -> ProductSum:
    """`s` with its k-th factor, an addition, replaced by one of its terms."""
    x = s.pattern
    there = renamed(t.pred, own_indices(s.factors[k]), x.places[k])
    pattern = Pattern(conjunction([x.pred, there]), x.factors, x.summed, x.shape)
    return ProductSum(pattern, (*s.factors[:k], t.operand, *s.factors[k + 1 :]))
