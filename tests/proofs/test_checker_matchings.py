"""Pairing the factors of two products: the right ones are paired at once, however long the products are."""

from __future__ import annotations

import random
from itertools import islice, pairwise

import pytest

from proofs.checker.matchings import Atom, matchings
from proofs.checker.trees import name, number


def chain(names: list[str]) -> list[Atom]:
    """F[a, b] * F[b, c] * .."""
    return [("F", (name(a), name(b))) for a, b in pairwise(names)]


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_of_ten_equal_factors_is_found_among_all_orders(seed: int) -> None:
    first, second = [f"%a{k}" for k in range(11)], [f"%b{k}" for k in range(11)]
    shuffled = chain(second)
    random.Random(seed).shuffle(shuffled)
    (pairs,) = matchings(chain(first), shuffled, first)
    assert {tuple(map(str, x)): tuple(map(str, y)) for x, y in pairs} == {
        tuple(map(str, x)): tuple(map(str, y)) for (_, x), (_, y) in zip(chain(first), chain(second), strict=True)
    }


def test_equal_factors_are_paired_once_and_symmetric_ones_in_every_way() -> None:
    same = [("x", (name("i"),))] * 3
    assert len(list(matchings(same, same, ()))) == 1
    apart = [("x", (name(f"%a{k}"),)) for k in range(3)]
    assert len(list(matchings(apart, [("x", (name(f"%b{k}"),)) for k in range(3)], [f"%a{k}" for k in range(3)]))) == 6


def test_products_of_other_structure_have_no_agreeing_matching_and_a_bounded_search() -> None:
    first = chain([f"%a{k}" for k in range(9)])
    star = [("F", (name("%b"), name(f"%c{k}"))) for k in range(8)]
    assert list(islice(matchings(first, star, [f"%a{k}" for k in range(9)]), 1)) == []


def test_an_index_that_is_shifted_is_known_by_where_it_stands() -> None:
    first: list[Atom] = [("x", (name("%a") + number(1),)), ("y", (name("%a"),))]
    second: list[Atom] = [("x", (name("%b"),)), ("y", (name("%b") - number(1),))]
    assert len(list(matchings(first, second, ["%a"]))) == 1
