"""Where the cotangents of the states of a recurrence are not 0.

Q(t), for the state before step t, is guessed, and accepted if it fulfils

    Q(n) = P(n)      and      Q(t) = P(t) or (Q(t + 1) pulled back through step t)   for t < n

from which it follows by induction that it is exact. P(t) is where the cotangent of that state is given from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorlang.derivatives.derivation import InnerProduct, Side
from tensorlang.derivatives.supports import Family, guesses
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    conjunction,
    disjunction,
    equal,
    exists,
    less,
    lookups,
    substitute,
)
from tensorlang.normal.pattern import axes
from tensorlang.normal.recurrences import step_ssa
from tensorlang.normal.ssa import SSA, Defining, Input, Loop, Statement, own_ranges
from tensorlang.normal.to_ssa import StatementBuilder
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate, simplify_in

_ZERO = constant(0)

Products = Mapping[Input, InnerProduct]
Rewritten = Callable[[SSA, tuple[Var, ...], list[InnerProduct]], tuple[StatementBuilder, Products, Mapping[Loop, Loop]]]
"""6.20 to 6.29 for inner products with the differentials of a step's outputs; the result is the statements, an inner
product for each variable, and the replacements of the recurrences in the step."""


@dataclass(frozen=True, eq=False)
class ExternalProduct:
    """<left | d(the state in `place`, read as `word` says)>_[pred]; `pred` is over the indices of `left`."""

    place: int
    word: str
    left: Statement
    pred: Predicate
    widened: bool = False
    """Whether `pred` may hold where `left` is 0."""

    def without(
        self, chosen: Collection[IndexArray], masked: Callable[[Statement, Predicate], Statement]
    ) -> ExternalProduct:
        """The same, with no comparison with elements of `chosen` arrays in `pred`, since no step can look them up: they
        are in `left`, which is `masked`."""
        made = {lookup.array for lookup in lookups(self.pred)}.intersection(chosen)
        if not made:
            return self
        return ExternalProduct(self.place, self.word, masked(self.left, self.pred), _widened(self.pred, made), True)


def active_states(
    loop: Loop, is_active: Callable[[Statement], bool], reached: Callable[..., set[Statement]]
) -> list[int]:
    """The states that depend on differentiated values; `reached` is `total.active`."""
    s = step_ssa(loop.step)
    step = loop.step
    frees = [v for v, x in zip(step.frees, loop.frees, strict=True) if is_active(x)]
    found = {k for k, x in enumerate(loop.inits) if is_active(x)}
    while True:
        wrt = (*frees, *(step.states[k] for k in sorted(found)))
        on = reached(s, wrt)
        more = found | {k for k, x in enumerate(step.outputs) if x in on}
        if more == found:
            return sorted(found)
        found = more


class Cotangents:
    """The cotangents of the states in `places` of `loop`, whose step is differentiated with respect to `wrt`, given the
    `external` ones.

    `widened` tells whether a support may be larger than where the cotangent is not 0.
    """

    def __init__(
        self,
        loop: Loop,
        external: Sequence[ExternalProduct],
        places: Sequence[int],
        wrt: tuple[Var, ...],
        rewritten: Rewritten,
    ) -> None:
        self.loop, self.external, self.places, self.wrt, self.rewritten = loop, external, places, wrt, rewritten
        self.step, self.program = loop.step, step_ssa(loop.step)
        self.now = atom_affine(Lookup(self.step.time, ()))
        self.tau = Index("tau")
        self.chosen = {x.array for x in self.step.choices if isinstance(x, Defining)}
        self.widened = any(x.widened for x in external)

    def supports(self) -> tuple[dict[int, Predicate], bool]:
        """Q for each state, over tau and the state's indices, and whether it is exact."""
        outside = {
            k: self._simple(k, disjunction(self._given(x) for x in self.external if x.place == k)) for k in self.places
        }
        if all(p is FALSE for p in outside.values()):
            return outside, True
        size = self.loop.size
        earlier = less(atom_affine(self.tau), size)

        def before(family: Family) -> Family:
            pulled = self._pulled(family)
            return {k: self._simple(k, disjunction([outside[k], pulled[k]])) for k in self.places}

        def same(p: Family, q: Family) -> bool:
            return all(self._same(k, p[k], q[k]) for k in self.places)

        first = {k: self._simple(k, substitute(p, {self.tau: size})) for k, p in outside.items()}
        for found in guesses(first, before, same, self.tau, size):
            guess = {k: self._simple(k, p) for k, p in found.items()}
            pulled = self._pulled(guess)
            wanted = {k: disjunction([outside[k], conjunction([earlier, pulled[k]])]) for k in self.places}
            if same(guess, wanted):
                return guess, not self.widened
        return dict.fromkeys(self.places, TRUE), False

    def _given(self, x: ExternalProduct) -> Predicate:
        """Where the cotangent of the state before step tau is given by `x`."""
        tau, size = atom_affine(self.tau), self.loop.size
        if x.word == "fold":
            return conjunction([equal(tau, size), x.pred])
        rank = len(self.loop.inits[x.place].shape)
        old, own = axes(0, rank + 1), axes(0, rank)
        moved: dict[Atom, Affine] = {old[0]: tau - 1 if x.word == "scan" else tau}
        moved.update((i, atom_affine(j)) for i, j in zip(old[1:], own, strict=True))
        p = substitute(x.pred, moved)
        match x.word:
            case "scan":
                return conjunction([less(_ZERO, tau), p])
            case "prescan":
                return conjunction([less(tau, size), p])
            case _:
                return p

    def _pulled(self, supports: Mapping[int, Predicate]) -> dict[int, Predicate]:
        """The supports pulled back through a step: Q(t + 1) through step t, for tau = t."""
        bars = {k: Var("bar", self.step.states[k].type) for k in self.places if supports[k] is not FALSE}
        _, products, _ = self.through(supports, bars)
        found = {x.param: q.pred for x, q in products.items()}
        back: dict[Atom, Affine] = {Lookup(self.step.time, ()): atom_affine(self.tau)}
        return {k: substitute(self.outside(found.get(self.step.states[k], FALSE)), back) for k in self.places}

    def outside(self, p: Predicate) -> Predicate:
        """`p`, weakened if necessary by dropping its comparisons with elements chosen in a step."""
        made = {lookup.array for lookup in lookups(p)} & self.chosen
        if not made:
            return p
        self.widened = True
        return _widened(p, made)

    def through(
        self, supports: Mapping[int, Predicate], bars: Mapping[int, Var]
    ) -> tuple[StatementBuilder, Products, Mapping[Loop, Loop]]:
        """The rules applied to the cotangents `bars` of the states after a step, which are not 0 at Q(t + 1)."""
        seeds: list[InnerProduct] = []
        for k, bar in bars.items():
            x = self.step.outputs[k]
            later = substitute(supports[k], {self.tau: atom_affine(self.tau) + 1})
            p = simplify_in(later, {**own_ranges(x), self.tau: self.loop.size})
            p = substitute(p, {self.tau: self.now})
            if p is not FALSE:
                seeds.append(InnerProduct(Input(bar, (), x.shape), x, Side.VARIABLE, p))
        return self.rewritten(self.program, self.wrt, seeds)

    def _ranges(self, k: int) -> dict[Index, Affine]:
        return {**own_ranges(self.loop.inits[k]), self.tau: self.loop.size + 1}

    def _simple(self, k: int, p: Predicate) -> Predicate:
        return simplify_in(p, self._ranges(k))

    def _same(self, k: int, p: Predicate, q: Predicate) -> bool:
        known = ranges_predicate(self._ranges(k))
        p, q = conjunction([known, p]), conjunction([known, q])
        return implies(p, q) and implies(q, p)


def _widened(p: Predicate, arrays: set[IndexArray]) -> Predicate:
    """`p`, with comparisons with elements of these arrays replaced by true."""
    match p:
        case And(parts):
            return conjunction(_widened(part, arrays) for part in parts)
        case Or(parts):
            return disjunction(_widened(part, arrays) for part in parts)
        case Exists(index, size, body):
            return exists([(index, size)], _widened(body, arrays))
        case _:
            return TRUE if any(lookup.array in arrays for lookup in lookups(p)) else p
