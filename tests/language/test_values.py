"""Interned values, and what programs know about their expressions."""

from __future__ import annotations

import random
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest

from tensorlang.language.affine import Affine, Size
from tensorlang.language.census import expressions
from tensorlang.language.grammar import Bracket, Call, Choice, Const, Extremum, Mul, Recur, Sum, number
from tensorlang.surface.parse import parse
from tests.support.programs import random_function


def test_equal_fields_give_one_value_and_numbers_of_other_types_another() -> None:
    assert Affine((), 1) is Affine((), 1)
    assert Affine((), 1) is not Affine((), True)
    assert Const(Fraction(2)) is Const(Fraction(2))
    assert Const(Fraction(2)) is not Const(2)  # type: ignore[arg-type]
    assert Mul(number(2), number(3)) is Mul(number(2), number(3))


def test_values_stay_as_they_are() -> None:
    with pytest.raises(FrozenInstanceError):
        Size("n").name = "m"  # type: ignore[misc]


def test_a_wrong_number_of_fields_is_refused() -> None:
    with pytest.raises((TypeError, IndexError)):
        Mul(number(1))  # type: ignore[call-arg]


@pytest.mark.parametrize("seed", range(20))
def test_a_census_is_of_all_expressions(seed: int) -> None:
    f = random_function(random.Random(seed))
    every = set(expressions(f.body))
    assert f.nodes == len(every)
    assert f.census.kinds == set(map(type, every))
    assert f.census.conditions == {e.pred for e in every if isinstance(e, Bracket | Extremum | Choice)}


def test_a_census_has_the_kinds_that_are_there() -> None:
    f = parse("f(x: [n]R) = sum i:n. [i < 3] * sin(x[i])")
    assert f.census.has(Sum)
    assert f.census.has(Recur, Call)
    assert not f.census.has(Recur)
