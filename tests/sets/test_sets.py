"""Predicates as integer sets, against enumeration over small boxes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlang.language.affine import Affine, Atom, Index, Size, atom_affine, constant, total
from tensorlang.language.function import Function
from tensorlang.language.grammar import number
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Equal,
    NonNegative,
    Predicate,
    Related,
    Relation,
    at_most,
    conjunction,
    conjuncts,
    disjunction,
    equal,
    exists,
    free_atoms,
    less,
    not_equal,
    within,
)
from tensorlang.language.predicates import Exists as ExistsNode
from tensorlang.sets.eliminate import length
from tensorlang.sets.encode import Row
from tensorlang.sets.isl import forced_equalities, implies, is_empty, sample
from tensorlang.sets.rows import has_point
from tensorlang.sets.simplify import simplify
from tests.support.pointwise import Point

I, J, K, L = (Index(name) for name in "ijkl")  # noqa: E741
N, M = Size("n"), Size("m")
i, j, k, n, m = (atom_affine(a) for a in (I, J, K, N, M))
zero, one = constant(0), constant(1)
r, s = Relation("r", (n, m)), Relation("s", (n,))
HOST = Function("host", (r, s), number(0))

SMALL = range(-3, 4)
BOX = conjunction(q for a in (i, j) for q in (at_most(constant(SMALL[0]), a), at_most(a, constant(SMALL[-1]))))
BOX = conjunction([BOX, at_most(n, constant(3)), at_most(m, constant(3))])
RANGES = conjunction([within(i, n), within(j, m)])


def points(full: bool = True) -> Iterator[Point]:
    """Every point of the box, with relations that hold everywhere, or here and there."""
    for sizes in itertools.product(range(4), repeat=2):
        rng = np.random.default_rng(sizes)
        data = {"r": np.ones(sizes, bool), "s": np.ones(sizes[:1], bool)}
        if not full:
            data = {name: rng.random(held.shape) < 0.5 for name, held in data.items()}
        at = Point(HOST, {"n": sizes[0], "m": sizes[1]}, data)
        for at.atoms[I], at.atoms[J] in itertools.product(SMALL, repeat=2):
            yield at


def affines(*atoms: Atom) -> st.SearchStrategy[Affine]:
    """Small affine expressions of some of `atoms`."""
    terms = st.lists(st.tuples(st.sampled_from(atoms), st.sampled_from((1, -1, 1, 2, -2, 3))), min_size=1, max_size=3)
    return st.builds(lambda terms, c: total((atom_affine(a), x) for a, x in terms) + c, terms, st.integers(-3, 3))


def _comparisons(a: Affine) -> st.SearchStrategy[Predicate]:
    return st.sampled_from([equal(a, zero), at_most(zero, a), at_most(zero, a), not_equal(a, zero)])


@st.composite
def predicates(draw: st.DrawFn, depth: int = 3, bound: tuple[Index, ...] = (), data: bool = True) -> Predicate:
    """Random predicates of i, j, n, m: strides, disjunctions, quantifiers, data relations."""
    atoms = (I, J, N, M, *bound, *bound)
    kind = draw(st.sampled_from(["compare", "compare", "relate", "and", "and", "or", "exists"]))
    if kind == "relate" and data:
        given_ = draw(st.sampled_from([r, s]))
        return Related(given_, tuple(draw(affines(*atoms)) for _ in given_.sizes))
    if depth == 0 or kind in ("compare", "relate"):
        return draw(_comparisons(draw(affines(*atoms))))
    if kind == "exists":
        size = draw(st.sampled_from([n, m, n + m - 1, constant(2), n - 1, n * 2]))
        index = Index(draw(st.sampled_from("ik")))
        return exists([(index, size)], draw(predicates(depth - 1, (*bound, index), data)))
    parts = [draw(predicates(depth - 1, bound, data)) for _ in range(draw(st.integers(2, 3)))]
    return conjunction(parts) if kind == "and" else disjunction(parts)


contexts = st.one_of(st.just(TRUE), st.just(RANGES), predicates(1), predicates(2))
many = settings(max_examples=60, deadline=None)


@many
@given(predicates(), contexts)
def test_a_predicate_is_empty_when_no_point_of_a_box_is_in_it(p: Predicate, context: Predicate) -> None:
    inside = any(at.holds(p) and at.holds(context) for at in points())
    assert is_empty(p, conjunction([BOX, context])) == (not inside)


@many
@given(predicates(), predicates(2))
def test_one_predicate_implies_another_when_every_point_says_so(p: Predicate, q: Predicate) -> None:
    claimed = implies(conjunction([BOX, p]), q)
    if claimed:
        assert all(at.holds(q) for full in (True, False) for at in points(full) if at.holds(p))


@many
@given(predicates(data=False), predicates(2, data=False))
def test_without_relations_implication_is_exact(p: Predicate, q: Predicate) -> None:
    assert implies(conjunction([BOX, p]), q) == all(at.holds(q) for at in points() if at.holds(p))


@many
@given(predicates(), contexts)
def test_a_simplified_predicate_says_the_same_in_its_context_and_is_no_longer(p: Predicate, context: Predicate) -> None:
    q = simplify(p, context)
    assert length(q) <= length(p)
    for full in (True, False):
        assert all(at.holds(p) == at.holds(q) for at in points(full) if at.holds(context))


@many
@given(predicates(), contexts)
def test_simplifying_keeps_to_its_word(p: Predicate, context: Predicate) -> None:
    q = simplify(p, context)
    assert (q is FALSE) == is_empty(p, context)
    if q is FALSE:
        return
    if implies(context, p):
        assert q is TRUE
    for part in conjuncts(q):
        rest = conjunction([context, *(other for other in conjuncts(q) if other is not part)])
        assert q is TRUE or not implies(rest, part)


@many
@given(predicates())
def test_a_sample_is_a_point_of_the_predicate(p: Predicate) -> None:
    found = sample(p)
    assert (found is None) == is_empty(p)
    if found is not None:
        sizes = {"n": found.get(N, 1), "m": found.get(M, 1)}
        data = {"r": np.ones((sizes["n"], sizes["m"]), bool), "s": np.ones(sizes["n"], bool)}
        at = Point(HOST, sizes, data)
        at.atoms.update({I: 0, J: 0} | found)
        assert all(value >= 0 for value in sizes.values())
        assert at.holds(p)


@many
@given(predicates(), contexts)
def test_forced_equalities_hold_at_every_point(p: Predicate, context: Predicate) -> None:
    forced = forced_equalities(p, context)
    assert all(a.value(at.atoms) == 0 for at in points() if at.holds(p) and at.holds(context) for a in forced)


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(-6, 6),
            st.lists(st.tuples(st.integers(0, 2), st.sampled_from([-3, -2, -1, 1, 2, 3])), max_size=3).map(tuple),
        ),
        max_size=6,
    )
)
def test_elimination_finds_a_point_just_where_there_is_one(rows: list[Row]) -> None:
    box = [(False, 3, ((d, k),)) for d in range(3) for k in (1, -1)]

    def holds(row: Row, point: tuple[int, ...]) -> bool:
        equality, value, terms = row
        value += sum(k * point[d] for d, k in terms)
        return value == 0 if equality else value >= 0

    def some(rows: Iterable[Row]) -> bool:
        return any(all(holds(row, point) for row in rows) for point in itertools.product(SMALL, repeat=3))

    found = has_point((*rows, *box))
    assert (found if isinstance(found, bool) else some(found)) is some(rows)
    assert not some(rows) or has_point(tuple(rows)) is not False


@pytest.mark.parametrize(
    ("rows", "some"),
    [
        (((False, -1, ((0, 2),)), (False, 1, ((0, -2),))), False),  # 1 <= 2*i <= 1
        (((True, 0, ((0, 1), (1, -2))), (False, -3, ((0, 1),)), (False, 3, ((0, -1),))), False),  # i = 2*j and i = 3
        (((True, 0, ((0, 1), (1, -2))), (False, -4, ((0, 1),)), (False, 4, ((0, -1),))), True),
        (((False, -5, ((0, 3), (1, 1))), (False, 0, ((0, -1),))), True),  # 3*i + j >= 5, i <= 0, j unbounded
        (((True, 1, ((0, 2), (1, 4))),), False),  # 2*i + 4*j + 1 = 0
    ],
)
def test_elimination_knows_integers_from_fractions(rows: tuple[Row, ...], some: bool) -> None:
    assert has_point(rows) is some


def test_ranges_alone_say_that_a_size_is_not_zero() -> None:
    assert implies(within(i, n), less(zero, n))


def test_sizes_are_never_negative() -> None:
    assert is_empty(less(n, zero))
    assert implies(TRUE, at_most(zero, n + m))
    assert not implies(TRUE, at_most(zero, n - 1))


def test_a_binder_of_negative_size_ranges_over_nothing() -> None:
    assert is_empty(exists([(K, n - 3)], equal(i, k)), less(n, constant(3)))


@pytest.mark.parametrize(
    ("p", "simple"),
    [
        (conjunction([at_most(i, j), at_most(j, i)]), equal(i, j)),
        (at_most(n - 1, i), equal(i, n - 1)),
        (conjunction([less(i, j), at_most(i, j), at_most(zero, i)]), less(i, j)),
        (disjunction([less(i, constant(3)), equal(i, constant(3)), equal(i, constant(4))]), less(i, constant(5))),
        (disjunction([equal(i, j), not_equal(i, j)]), TRUE),
        (conjunction([less(i, j), less(j, i)]), FALSE),
        (at_most(constant(3), i * 2), at_most(constant(2), i)),
        (equal(i * 2, constant(3)), FALSE),
        (exists([(K, m)], conjunction([equal(j, k), less(k, n)])), less(j, n)),
        (exists([(K, n)], conjunction([at_most(k, i), at_most(i, k)])), TRUE),
        (exists([(K, n)], conjunction([at_most(j, k), at_most(k, i)])), at_most(j, i)),
        (conjunction([Related(r, (i, j)), Related(r, (i, j)), within(i, n)]), Related(r, (i, j))),
        (disjunction([Related(s, (i,)), conjunction([Related(s, (i,)), less(i, j)])]), Related(s, (i,))),
        (
            disjunction([conjunction([less(i, j), Related(s, (i,))]), conjunction([at_most(j, i), Related(s, (i,))])]),
            Related(s, (i,)),
        ),
        (Related(r, (i - n, j)), FALSE),
    ],
)
def test_what_a_predicate_becomes_in_the_ranges_of_its_indices(p: Predicate, simple: Predicate) -> None:
    assert simplify(p, RANGES) is simple


def test_a_stride_stays_as_it_is_written() -> None:
    stride = exists([(K, n)], equal(i, k * 2))
    assert simplify(conjunction([stride, at_most(zero, i)]), RANGES) is stride


def test_a_quantified_relation_stays_and_bounds_its_arguments() -> None:
    p = exists([(K, m)], Related(r, (i, k)))
    assert simplify(p, within(i, n)) is p
    assert implies(p, within(i, n))
    assert is_empty(p, less(i, zero))


def test_quantified_relations_are_the_same_whatever_their_bound_index_is_called() -> None:
    p = ExistsNode(K, m, Related(r, (i, k)))
    q = ExistsNode(L, m, Related(r, (i, atom_affine(L))))
    assert p is not q
    assert implies(p, q)


def test_different_relations_imply_nothing_of_each_other() -> None:
    assert not implies(Related(r, (i, j)), Related(s, (i,)))
    assert not implies(Related(r, (i, j)), Related(r, (j, i)))
    assert not implies(RANGES, Related(r, (i, j)))


def test_a_sample_prefers_small_sizes_that_are_not_zero() -> None:
    assert sample(conjunction([within(i, n), less(i, j)])) == {I: 0, N: 1, J: 1}
    assert sample(at_most(n, i)) == {N: 1, I: 1}
    assert sample(less(n, one)) == {N: 0}
    assert sample(less(i, zero)) == {I: -1}


def test_a_sample_may_be_far_away() -> None:
    assert sample(equal(i, constant(10**6))) == {I: 10**6}


def test_a_sample_is_found_whatever_the_order_of_the_conjuncts() -> None:
    parts = [within(i, n + m - 1), within(j, n - 1), equal(i, j * 2), at_most(i + 1, n), less(m, i - j + 1)]
    for order in itertools.permutations(parts):
        found = sample(conjunction(order))
        assert found is not None
        assert all(a.value(found) >= 0 for a in (i, j, n - 1 - i, n - 2 - j, i - j - m))
        assert found[I] == 2 * found[J]


def test_what_a_bound_and_a_range_force() -> None:
    assert forced_equalities(at_most(n - 1, i), RANGES) == [i - n + 1]
    assert forced_equalities(equal(i, j), RANGES) == []
    assert forced_equalities(FALSE) == []


def test_a_question_beyond_reason_gets_the_safe_answer() -> None:
    names = [Index(f"i{k}") for k in range(12)]
    apart = conjunction(not_equal(atom_affine(a), atom_affine(b)) for a, b in itertools.combinations(names, 2))
    crowded = conjunction([apart, *(within(atom_affine(a), constant(11)) for a in names)])
    assert not is_empty(crowded)
    assert not implies(crowded, less(atom_affine(names[0]), zero))
    assert sample(crowded) is None
    assert simplify(crowded) is not FALSE


def test_a_nest_of_ten_thousand_parts_is_left_alone() -> None:
    p: Predicate = equal(i, zero)
    for depth in range(10_000):
        part = at_most(constant(depth), j)
        p = disjunction([p, part]) if depth % 2 else conjunction([p, part])
    assert not is_empty(p)
    assert simplify(p, RANGES) is not FALSE


def test_huge_numbers_are_exact() -> None:
    huge = 10**40
    assert implies(equal(i, constant(huge)), less(constant(huge - 1), i))
    assert is_empty(conjunction([equal(i * huge, j), less(zero, j), less(j, constant(huge))]))


def test_a_quantifier_captures_no_index_of_an_opened_one() -> None:
    opened = exists([(K, n)], equal(i, k))
    assert isinstance(opened, ExistsNode)
    free = atom_affine(opened.index)
    assert opened.index in free_atoms(exists([(Index("k"), n)], conjunction([opened.body, less(free, i)])))
    assert opened.index in free_atoms(exists([(K, n)], conjunction([opened.body, less(k, free)])))


def test_comparisons_are_recognised_whatever_their_sign() -> None:
    assert implies(Equal(j - i), equal(i, j))
    assert simplify(NonNegative(i * 2 - j * 2 - 1), TRUE) is less(j, i)
