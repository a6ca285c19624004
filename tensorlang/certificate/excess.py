"""Sizes at which an adjoint costs more than a bound allows, with both costs, and the step that costs most there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from tensorlang.costs.cost import cost_of_one_trip
from tensorlang.costs.ratio import Supremum
from tensorlang.derivatives.derivation import Derivation
from tensorlang.derivatives.ledger import Ledger
from tensorlang.derivatives.transcript import DerivationNames
from tensorlang.errors import ArgumentError, CertificateError, CostBoundExceeded, CountingError, LimitError
from tensorlang.language.affine import Atom, IndexArray, Size
from tensorlang.language.function import Function
from tensorlang.language.functions import derivative_cost
from tensorlang.language.grammar import Call, Var
from tensorlang.language.predicates import Relation
from tensorlang.language.routines import with_rule
from tensorlang.language.types import Type, leaves, shape
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.sets.scopes import postorder

PROVED = Fraction(4)
"""The bound that holds for every program (Theorem 6.35)."""
_SMALL = (1, 2, 3)
_LARGER = (8, 64)
_MOST_VECTORS = 60
_HINT = "a bound of 4 holds for every program whose adjoint is derived"


class CheapAdjoint:
    """The costs of a derivation's program and adjoint at sizes that are tried."""

    def __init__(self, derivation: Derivation, largest: Supremum | None) -> None:
        self.derivation = derivation
        self.largest = largest
        self.sizes = derivation.function.sizes

    def check(self, bound: Fraction) -> None:
        """Raise `CostBoundExceeded` if at some of the tried sizes the adjoint costs more than `bound` times the
        program, inputs and outputs counted."""
        d = self.derivation
        for values in self._vectors((*_SMALL, *_LARGER)):
            data = self._data(values)
            try:
                own, adjoint = self._cost(d.function, data), self._cost(d.adjoint, data)
            except LimitError:
                continue
            if own is None or adjoint is None:
                continue
            others = self._inputs_and_outputs(values)
            if adjoint + others > bound * (own + others):
                raise self._excess(bound, values, data, own, adjoint, others)

    def decide(self, bound: Fraction) -> None:
        """Raise `CostBoundExceeded` if the adjoint costs more than `bound` times the program as sizes grow, and
        `CertificateError` unless it is known to cost no more at any sizes."""
        name, largest = self.derivation.function.name, self.largest
        if largest is not None and largest.least > bound:
            message = f"the ratio of the adjoint of {name} to the program is {largest}, more than {bound}"
            raise CostBoundExceeded(message, None, _HINT)
        if largest is None or largest.most is None or largest.most > bound:
            told = "no closed form was found of what they cost" if largest is None else f"their ratio is {largest}"
            message = f"whether the adjoint of {name} costs at most {bound} times the program can't be told: {told}"
            raise CertificateError(message, None, _HINT)

    def compare(self, f: Function, g: Function) -> None:
        """Raise `CertificateError` if at some small sizes `f` costs more than `g`."""
        for values in self._vectors(_SMALL):
            data = self._data(values)
            first, second = self._cost(f, data), self._cost(g, data)
            if first is not None and second is not None and first > second:
                where = ", ".join(f"{size.name} = {n}" for size, n in values.items())
                raise CertificateError(f"{f.name} costs {first}, more than what it is made of, {second}, at {where}")

    def _vectors(self, choices: tuple[int, ...]) -> Iterator[dict[Size, int]]:
        """Sizes at which no axis of a parameter has a negative length, small ones first."""
        every = sorted(product(choices, repeat=len(self.sizes)), key=lambda v: (sum(v), v))
        step = max(1, len(every) // _MOST_VECTORS)
        for values in islice(every, 0, None, step):
            chosen = dict(zip(self.sizes, values, strict=True))
            if all(n >= 0 for p in self.derivation.function.params for n in _dims(p, chosen)):
                yield chosen

    def _data(self, values: Mapping[Size, int]) -> dict[str, Any]:
        """The sizes, and random relations and index arrays, by name."""
        rng = np.random.default_rng(random.Random(str(sorted(values.values()))).getrandbits(32))
        data: dict[str, Any] = {size.name: n for size, n in values.items()}
        for p in self.derivation.function.params:
            dims = _dims(p, values)
            if isinstance(p, Relation):
                data[p.name] = rng.random(dims) < 0.5
            elif isinstance(p, IndexArray):
                *dims, size = dims
                data[p.name] = rng.integers(max(size, 1), size=dims)
        return data

    def _cost(self, f: Function, data: Mapping[str, Any]) -> int | None:
        """The cost of `f`; None if it depends on the numbers among which a program chooses."""
        known = {name: value for name, value in data.items() if name in _names(f)}
        try:
            return cost_of_one_trip(f, known)
        except (ArgumentError, CountingError):
            return None

    def _inputs_and_outputs(self, values: Mapping[Size, int]) -> int:
        d = self.derivation
        return sum(_numbers(kind, values) for kind in (d.function.type, *(x.type for x in d.wrt)))

    def _excess(
        self,
        bound: Fraction,
        values: Mapping[Size, int],
        data: Mapping[str, Any],
        own: int,
        adjoint: int,
        others: int,
    ) -> CostBoundExceeded:
        d = self.derivation
        sizes = {size.name: n for size, n in values.items()}
        where = f" at {', '.join(f'{name} = {n}' for name, n in sizes.items())}" if sizes else ""
        message = (
            f"the adjoint of {d.function.name} costs {adjoint} and the program {own}{where}: with the {others} numbers "
            f"of their inputs and outputs {adjoint + others}, more than {_decimal(bound)} * {own + others}"
            f"{self._dearest(data)}"
        )
        least = Fraction(adjoint + others, own + others) if own + others else None
        hints = [f"here the least bound is {_decimal(least)}"] if least is not None else []
        if self.largest is not None and self.largest.is_exact:
            hints.append(f"at all sizes it is {self.largest}")
        elif bound < PROVED:
            hints.append("a bound of 4 holds for every program")
        if calls_slopes(d.function):
            hints.append("of a derivative of a function with loops no bound holds: each runs the loops anew")
        if len(d.wrt) > 1:
            hints.append("by fewer parameters the adjoint costs less")
        return CostBoundExceeded(message, None, "; ".join(hints) or None, sizes, (own + others, adjoint + others))

    def _dearest(self, data: Mapping[str, Any]) -> str:
        """The step whose new statements cost most, in words; empty for a program with recurrences, which has no
        steps."""
        d = self.derivation
        if has_recurrences(with_rule(d.function)):
            return ""
        known = {name: value for name, value in data.items() if name in _names(d.function)}
        ledger = Ledger(d, known)
        steps = [(sum(map(ledger.statement, step.made)), -k, step) for k, step in enumerate(d.steps) if step.made]
        if not steps:
            return ""
        spent, k, step = max(steps, key=lambda found: found[:2])
        told = DerivationNames(d).told(step, None)
        made = "; ".join(" ".join(line.split()) for line in told.made)
        return (
            f"\nmost of it, {spent}, comes with step {-k}, {step.rule.number} {step.rule.name}: {told.before} -> {made}"
        )


def calls_slopes(f: Function) -> bool:
    """Whether `f` calls derivatives of functions with loops: only what they add to the value counts as their cost, so
    no theorem bounds what their own derivatives add to that."""
    called = {e.function for e in postorder(f.body) if isinstance(e, Call)}
    return any(derivative_cost(g) > 3 * g.cost for g in called)


def _dims(p: Any, values: Mapping[Size, int]) -> list[int]:
    """The sizes in the type of a parameter."""
    known: dict[Atom, int] = dict(values.items())
    if isinstance(p, Relation):
        return [a.value(known) for a in p.sizes]
    if isinstance(p, IndexArray):
        return [a.value(known) for a in (*p.sizes, p.size)]
    assert isinstance(p, Var)
    return [a.value(known) for _, part in leaves(p.type) for a in shape(part)[0]]


def _numbers(kind: Type, values: Mapping[Size, int]) -> int:
    """The number of numbers in a value of the type `kind`."""
    known: dict[Atom, int] = dict(values.items())
    return sum(prod(max(0, a.value(known)) for a in shape(part)[0]) for _, part in leaves(kind))


def _names(f: Function) -> set[str]:
    """The names of sizes and data of `f` that `cost` takes."""
    return {size.name for size in f.sizes} | {p.name for p in f.params if not isinstance(p, Var)}


def _decimal(x: Fraction) -> str:
    return str(x) if x.denominator == 1 else f"{float(x):.3g}"
