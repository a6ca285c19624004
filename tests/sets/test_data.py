"""Conditions on elements of index arrays, against all data of small sizes."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import number
from tensorlang.language.predicates import (
    TRUE,
    Exists,
    Predicate,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    exists,
    free_atoms,
    less,
    substitute,
    within,
)
from tensorlang.sets.isl import implies
from tensorlang.sets.simplify import simplify
from tensorlang.sets.solve import project, simplify_in
from tests.support.pointwise import Point

I, J, K = (Index(name) for name in "ijk")  # noqa: E741
i, j, k = map(atom_affine, (I, J, K))
n = atom_affine(Size("n"))
A, B, C = IndexArray("a", (n,), n), IndexArray("b", (n,), n), IndexArray("c", (n, n), n)
HOST = Function("host", (A, B, C), number(0))
RANGES = conjunction([within(i, n), within(j, n)])
many = settings(max_examples=150, deadline=None)


def at(array: IndexArray, *places: Affine) -> Affine:
    return atom_affine(Lookup(array, places))


@cache
def everything() -> tuple[Point, ...]:
    """Every i and j in their ranges with all data at n = 1 and 2, and some at 3."""
    found = []
    for size in (1, 2, 3):
        rng = np.random.default_rng(size)
        every = [np.array(v) for v in itertools.product(range(size), repeat=size)]
        tables = [np.reshape(v, (size, size)) for v in itertools.product(range(size), repeat=size * size)][::7]
        data = [{"a": a, "b": b, "c": c} for a in every for b in every for c in tables]
        if size == 3:
            data = [data[d] for d in rng.integers(len(data), size=40)]
        for held in data:
            for values in itertools.product(range(size), repeat=2):
                point = Point(HOST, {"n": size}, held)
                point.atoms[I], point.atoms[J] = values
                found.append(point)
    return tuple(found)


def elements(draw: st.DrawFn, atoms: tuple[Index, ...]) -> Affine:
    """An element of an array at some of `atoms`, or at another element."""
    place = [atom_affine(draw(st.sampled_from(atoms))) for _ in range(2)]
    kind = draw(st.integers(0, 4))
    return [at(A, place[0]), at(B, place[0]), at(C, *place), at(A, at(B, place[0])), at(C, place[0], at(B, place[1]))][
        kind
    ]


@st.composite
def predicates(draw: st.DrawFn, depth: int = 3, bound: tuple[Index, ...] = (), either: bool = True) -> Predicate:
    """Random conditions of i and j on data: equalities of elements, bounds, quantifiers, and alternatives."""
    atoms = (I, J, *bound, *bound)
    kind = draw(st.sampled_from(["equal", "equal", "less", "and", "and", "exists", "exists", "or"]))
    if depth == 0 or kind in ("equal", "less") or (kind == "or" and not either):
        one = elements(draw, atoms)
        other = atom_affine(draw(st.sampled_from(atoms))) + draw(st.integers(-1, 1))
        return less(one, other) if kind == "less" else equal(one, other)
    if kind == "exists":
        index = Index(draw(st.sampled_from("kl")))
        return exists([(index, n)], draw(predicates(depth - 1, (*bound, index), either)))
    parts = [draw(predicates(depth - 1, bound, either)) for _ in range(draw(st.integers(2, 3)))]
    return conjunction(parts) if kind == "and" else disjunction(parts)


def weaker(draw: st.DrawFn, p: Predicate) -> Predicate:
    """A predicate that `p` implies: without some conjuncts, and with `exists` in place of given indices."""
    parts = [weaker_part(draw, q) for q in conjuncts(p) if draw(st.integers(0, 3))]
    made = conjunction(parts)
    if draw(st.booleans()):
        made = exists([(K, n)], substitute(made, {draw(st.sampled_from([I, J])): k}))
    return made


def weaker_part(draw: st.DrawFn, q: Predicate) -> Predicate:
    if isinstance(q, Exists):
        own = Index("m")
        return exists([(own, q.size)], weaker(draw, substitute(q.body, {q.index: atom_affine(own)})))
    return q


@many
@given(st.data())
def test_what_is_implied_holds_at_every_point(data: st.DataObject) -> None:
    p = data.draw(predicates())
    q = data.draw(predicates(2)) if data.draw(st.booleans()) else weaker(data.draw, p)
    if implies(conjunction([RANGES, p]), q):
        assert all(point.holds(q) for point in everything() if point.holds(p))


@many
@given(st.data())
def test_conditions_that_stand_among_others_are_found_there(data: st.DataObject) -> None:
    p = data.draw(predicates(either=False))
    assert implies(conjunction([RANGES, p]), weaker(data.draw, p))


@many
@given(predicates())
def test_simplified_conditions_say_the_same(p: Predicate) -> None:
    q = simplify(p, RANGES)
    assert all(point.holds(p) == point.holds(q) for point in everything())


@many
@given(predicates(2, (K,)), st.booleans())
def test_a_projection_says_that_there_is_an_index(p: Predicate, both: bool) -> None:
    binders = {K: n, J: n} if both else {K: n}
    q = project(binders, p, {atom: n for atom in (I, J) if atom not in binders})
    assert free_atoms(q).isdisjoint(binders)
    whole = exists(binders.items(), p)
    assert all(point.holds(whole) == point.holds(q) for point in everything())


def test_what_exists_in_several_alternatives_is_not_the_same() -> None:
    some = exists([(K, n)], equal(at(A, k), i))
    either = disjunction(exists([(K, n)], equal(at(B, k), a)) for a in (j, j + 1))
    one = exists([(K, n)], conjunction([equal(at(A, k), i), disjunction(equal(at(B, k), a) for a in (j, j + 1))]))
    assert not implies(conjunction([RANGES, some, either]), one)
    assert implies(conjunction([RANGES, one]), conjunction([some, either]))


def chain(length: int, last: Predicate) -> Predicate:
    """i = a[k0] + c[k0, a[k0]], k0 = a[k1] + c[k1, a[k1]], and so on, where the last of these fulfils `last`."""
    p, place = last, i
    for _ in range(length):
        own = Index("k")
        here = atom_affine(own)
        said = conjunction([equal(place, at(A, here) + at(C, here, at(A, here)))])
        p = exists([(own, n)], conjunction([said, substitute(p, {I: here})]))
    return p


def test_long_chains_are_found_in_one_another() -> None:
    known, wanted = chain(12, conjunction([less(at(B, i), j), at_most(constant(1), i)])), chain(12, less(at(B, i), j))
    assert implies(conjunction([RANGES, known]), wanted)
    assert not implies(conjunction([RANGES, wanted]), known)


def test_of_an_element_that_is_there_one_of_all_cases_holds() -> None:
    steps = Size("T")
    t, row = Index("t"), Index("i")
    two = IndexArray("e", (atom_affine(steps),), constant(2))
    any_of = IndexArray("p", (atom_affine(steps),), n)
    e, p = (atom_affine(Lookup(x, (atom_affine(t),))) for x in (two, any_of))
    there = within(atom_affine(t), atom_affine(steps))
    either = disjunction([equal(e, constant(0)), equal(e, constant(1))])
    assert implies(there, either)
    assert simplify_in(either, {t: atom_affine(steps)}) is TRUE
    assert not implies(within(atom_affine(t), atom_affine(steps) + 1), either)  # the last element may not exist
    assert not implies(there, disjunction([equal(e, constant(0)), equal(e, constant(2))]))
    split = disjunction([less(p, atom_affine(row)), equal(p, atom_affine(row)), less(atom_affine(row), p)])
    assert implies(conjunction([there, within(atom_affine(row), n)]), split)
    assert not implies(TRUE, disjunction([equal(e, constant(0)), equal(e, constant(1))]))
    partial = IndexArray("c", (), constant(2), partial=True)
    c = atom_affine(Lookup(partial, ()))
    assert not implies(TRUE, disjunction([equal(c, constant(0)), equal(c, constant(1))]))  # it may not be chosen
