"""Derivations as values: each step keeps the value, never raises the extended cost, and consumes the products that it
rewrites."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.derivatives.derivation import RULES, Derivation, InnerProduct, Side
from tensorlang.derivatives.ledger import Ledger
from tensorlang.derivatives.total import with_differentials
from tensorlang.language.function import Function
from tensorlang.language.grammar import bracket, gen, number
from tensorlang.normal.as_program import to_function
from tensorlang.normal.ssa import SSA, Outputs, live, own_ranges
from tests.support.pointwise import meaning
from tests.support.programs import random_arguments, random_function, random_sizes, relation_data

SEEDS = range(150)
WITHOUT_ARRAYS = ("6.14", "6.15", "6.16", "6.18", "6.24")


def example(seed: int) -> tuple[Derivation, dict[str, int], dict[str, Any]]:
    rng = random.Random(seed)
    f = random_function(rng)
    sizes = random_sizes(f, rng)
    return tl.derive(f), sizes, random_arguments(f, rng, sizes)


def numbers_like(x: Any, rng: random.Random) -> Any:
    if isinstance(x, tuple):
        return tuple(numbers_like(part, rng) for part in x)
    data = np.empty(np.shape(x), dtype=object)
    for place in np.ndindex(*data.shape):
        data[place] = Fraction(rng.randint(-3, 3))
    return data if data.shape else data[()]


def unpaired(value: Any, count: int) -> list[Any]:
    """The `count` values that are held in pairs nested to the right."""
    found = []
    for _ in range(count - 1):
        first, value = value
        found.append(first)
    return [*found, value]


class Values:
    """The values of all statements and differentials of a derivation, at random arguments."""

    def __init__(self, d: Derivation, sizes: dict[str, int], data: dict[str, Any]) -> None:
        rng = random.Random(0)
        forward, self.differentials = with_differentials(d.program, d.wrt)
        self.params = tuple(dict.fromkeys((*d.result.params, *forward.params)))
        self.sizes, self.given = sizes, dict(data)
        for p, x in zip(forward.params[len(d.program.params) :], d.wrt, strict=True):
            self.given[p.name] = numbers_like(data[x.name], rng)
        output = self._value(d.function)
        self.given[d.result.params[-1].name] = numbers_like(output, rng)
        made = (x for step in d.steps for x in step.made)
        read = (q.left for step in d.steps for q in (*step.before, *step.after))
        wanted = list(dict.fromkeys((*forward.statements, *d.result.statements, *made, *read)))
        outputs: Outputs = wanted[-1]
        for x in reversed(wanted[:-1]):
            outputs = (x, outputs)
        everything = live(SSA("everything", self.params, tuple(wanted), outputs))
        self.of = dict(zip(wanted, unpaired(self._value(to_function(everything)), len(wanted)), strict=True))

    def _value(self, f: Function) -> Any:
        return meaning(f, self.sizes, self.given)

    def inner_product(self, q: InnerProduct) -> Fraction:
        """sign * sum g. [p] * e[g] * dX[g], whatever stage its right side is in."""
        if q.right not in self.differentials:
            return Fraction(0)
        mask = self._value(
            Function("mask", self.params, gen(list(own_ranges(q.right).items()), bracket(q.pred, number(1))))
        )
        product = np.asarray(self.of[q.left]) * np.asarray(self.of[self.differentials[q.right]])
        return q.sign * np.sum(np.where(np.asarray(mask) == 1, product, Fraction(0)), initial=Fraction(0))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_step_keeps_the_value(seed: int) -> None:
    d, sizes, data = example(seed)
    values = Values(d, sizes, data)
    for step in d.steps:
        if step.rule.number not in WITHOUT_ARRAYS:
            before, after = (sum(map(values.inner_product, qs)) for qs in (step.before, step.after))
            assert before == after, step.rule


@pytest.mark.parametrize("seed", SEEDS)
def test_no_step_raises_the_extended_cost(seed: int) -> None:
    d, sizes, data = example(seed)
    ledger = Ledger(d, {**{s.name: sizes[s.name] for s in d.function.sizes}, **relation_data(d.function, data)})
    for step in d.steps:
        if step.rule.number != "6.17":  # masking costs nothing, and keeps its inner product
            before, after = ledger.step(step)
            assert after <= before, step.rule


@pytest.mark.parametrize("seed", SEEDS)
def test_each_inner_product_is_rewritten_once(seed: int) -> None:
    d, _, _ = example(seed)
    open_now: dict[InnerProduct, None] = {}
    for step in d.steps:
        for q in step.before:
            if q not in open_now:
                assert step.rule.number in ("6.21", "6.22", "6.23")  # those of the outputs, where the derivation starts
                assert q.side is Side.VARIABLE
            open_now.pop(q, None)
        open_now.update(dict.fromkeys(step.after))
    assert all(q.side is Side.DIFFERENTIAL for q in open_now)
    assert len({q.right for q in open_now}) == len(open_now)


def test_every_rule_of_figures_15_and_16_has_its_number() -> None:
    assert list(RULES) == [f"6.{k}" for k in range(14, 30)]
