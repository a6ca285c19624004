"""Each rule of Figures 7 to 12 takes its left side to its right side, keeps the meaning and never raises the cost."""

from __future__ import annotations

import random

import pytest

from tensorlang.costs.cost import cost
from tensorlang.language.evaluate import evaluate
from tensorlang.normal.rules import PASS_RULES, PassRule
from tensorlang.surface.parse import parse
from tests.support.alike import alike
from tests.support.programs import random_arguments

each_rule = pytest.mark.parametrize("rule", PASS_RULES, ids=lambda rule: rule.number)


@each_rule
def test_the_left_side_becomes_the_right_side(rule: PassRule) -> None:
    found = rule.apply(parse(rule.before))
    assert alike(found, parse(rule.after)), f"{found}\nis not\n{rule.after}"


@each_rule
def test_both_sides_mean_and_cost_the_same(rule: PassRule) -> None:
    left, right = parse(rule.before), parse(rule.after)
    rng = random.Random(rule.number)
    sizes = {size.name: 3 for size in left.sizes}
    values = random_arguments(left, rng, sizes, exact=False)
    first, second = evaluate(left, **values), evaluate(right, **values)
    assert str(first) == str(second)
    assert cost(right, **sizes) <= cost(left, **sizes)


def test_the_numbers_are_those_of_the_paper() -> None:
    numbers = [rule.number for rule in PASS_RULES]
    printed = [f"5.{k}" for k in range(1, 35) if k not in (19, 20)]  # 5.18 to 5.20 are the lines of one rule
    assert [n for n in numbers if n != "5.24'"] == printed
