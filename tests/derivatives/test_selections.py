"""Index arrays, extrema and choices between parsing and lowering: sets, normal forms, cost, derivatives."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.costs.extrema import empty_extremum
from tensorlang.errors import ArgumentError, EmptyExtremum, LimitError, OutOfBounds
from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.grammar import Choice, Gen, Let, Mul
from tensorlang.language.predicates import (
    TRUE,
    Exists,
    Or,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    exists,
    less,
    not_equal,
    within,
)
from tensorlang.normal import normal_ssa, push_out_gen, to_ssa
from tensorlang.normal.forms import why_not_ssa
from tensorlang.normal.ssa import Selection, live, selections
from tensorlang.sets.eliminate import eliminate
from tensorlang.sets.isl import implies, is_empty
from tensorlang.sets.simplify import simplify as simplified
from tensorlang.sets.solve import determines, project, solve

N, M = atom_affine(Size("n")), atom_affine(Size("m"))
ROW, COLUMN = Index("i"), Index("j")
i, j = atom_affine(ROW), atom_affine(COLUMN)
Y = IndexArray("y", (N,), M)
Z = IndexArray("z", (N,), N)


def element(array: IndexArray, *at: Affine) -> Affine:
    return atom_affine(Lookup(array, at))


# -- sets


def test_an_element_is_known_to_be_in_its_range_and_nothing_else_is() -> None:
    y = element(Y, i)
    assert implies(TRUE, within(y, M))
    assert implies(TRUE, less(y, M + 1))
    assert not implies(TRUE, at_most(constant(1), y))
    assert is_empty(equal(y, M))
    assert not is_empty(not_equal(element(Y, i), element(Y, j)))
    assert simplified(conjunction([within(y, M), equal(y, j)])) is equal(y, j)


def test_an_equality_gives_an_index_the_value_of_an_element() -> None:
    solution = solve(equal(j, element(Y, i)), {COLUMN: M}, {ROW: N})
    assert solution.values == {COLUMN: element(Y, i)} and solution.rest is TRUE and not solution.free


@pytest.mark.parametrize("p", [equal(i, element(Z, i)), equal(i, element(Z, element(Z, i)) + 1)])
def test_an_index_is_not_solved_for_by_what_it_looks_up(p: Predicate) -> None:
    assert solve(p, {ROW: N}, {}).free == (ROW,)
    assert not determines(p, [ROW])
    eliminated = eliminate(ROW, N, [p])
    assert eliminated is None


def test_a_looked_up_index_has_no_bounds_to_eliminate_it_by() -> None:
    assert eliminate(ROW, N, [at_most(element(Z, i), j)]) is None


def test_elements_are_determined_once_their_places_are() -> None:
    assert determines(conjunction([equal(i, constant(0)), equal(j, element(Z, i))]), [ROW, COLUMN])
    assert not determines(conjunction([equal(i, element(Z, j)), equal(j, element(Z, i))]), [ROW, COLUMN])


def test_what_is_looked_up_at_a_bound_place_implies_itself_alone() -> None:
    somewhere = exists([(ROW, N)], equal(element(Y, i), j))
    elsewhere = exists([(ROW, N)], equal(element(Y, i), j + 1))
    assert implies(somewhere, somewhere) and implies(somewhere, within(j, M))
    assert not implies(elsewhere, somewhere) and not implies(within(j, M), somewhere) and not is_empty(somewhere)
    projected = project({ROW: N}, equal(element(Y, i), j), {COLUMN: M})
    assert implies(projected, somewhere) and implies(somewhere, projected)


def test_alternatives_that_are_asked_of_data_are_quantified_one_by_one() -> None:
    either = disjunction([equal(element(Y, i), j), equal(element(Y, i), j + 1)])
    projected = project({ROW: N}, conjunction([either, at_most(constant(1), i)]), {COLUMN: M})
    assert isinstance(projected, Or)
    assert all(isinstance(q, Exists) and not isinstance(q.body, Or) for q in projected.parts)
    values = [exists([(ROW, N)], conjunction([q, at_most(constant(1), i)])) for q in either.parts]
    assert implies(projected, disjunction(values)) and implies(disjunction(values), projected)


# -- the bounds check

OUT_OF_BOUNDS = {
    "f(x: [m]R, y: [n]idx(m + 1)) = sum i:n. x[y[i]]": r"x\[y\[i\]\] reads x\[1\] at i = 0, m = 1, n = 1, y\[i\] = 1",
    "f(x: [m]R, y: [n]idx(m)) = sum i:n. x[y[i + 1]]": r"y\[i \+ 1\] reads y\[1\] at i = 0, .* y has n = 1 elements",
    "f(x: [n]R, y: [n]idx(m)) = sum i:n. [y[i + 1] = 0] * x[i]": r"reads y\[1\](.|\n)*beside it.*i \+ 1 < n",
    "f(x: [n]R) = gen i:n. let k = argmax s:3 where 0 <= i + s - 1 < n. x[i + s - 1] in x[i + k]": "reads x.1.",
    "f(x: [n]R, y: [n]idx(m)) = sum i:n. max j:n where y[j + 1] = 0. x[j]": r"y\[j \+ 1\] reads y\[1\]",
}


@pytest.mark.parametrize("text", OUT_OF_BOUNDS)
def test_a_place_out_of_bounds_is_found_with_the_element_that_leads_there(text: str) -> None:
    with pytest.raises(OutOfBounds, match=OUT_OF_BOUNDS[text]):
        tl.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n][m]R, y: [n]idx(m)) = sum i:n. x[i, y[i]]",
        "f(x: [m]R, y: [n]idx(m), z: [m]idx(m)) = sum i:m. [z[i] < n] * x[y[z[i]]]",
        "f(x: [n]R, y: [n]idx(m)) = sum i:n. [i + 1 < n and y[i + 1] = i] * x[i]",
        "f(x: [n]R, y: [n]idx(m)) = sum i:n, j:n. [y[j - i] < j - i] * x[i]",
        "f(x: [n]R) = gen i:n. let k = argmax s:3 where 0 <= i + s - 1 < n. x[i + s - 1] in x[i + k - 1]",
        "f(x: [n]R) = gen i:n. [i > 0] * let k = argmax s:n where s < i. x[s] in x[i - k - 1]",
        "f(x: [n]R) = gen i:n. [i > 0] * max j:n where j < i. x[j]",
        "f(x: [n]R) = max j:n - 1. x[j]",
        "f(x: [n]R, y: [n]idx(n)) = gen i:n. max j:n where y[j] = i. x[j]",
    ],
)
def test_what_ranges_and_conditions_prove_is_in_bounds(text: str) -> None:
    tl.parse(text)


def test_a_witness_that_no_array_can_be_is_none() -> None:
    with pytest.raises(LimitError, match="too involved"):
        tl.parse("f(x: [m]R, y: [n]idx(m)) = sum i:n, j:n. [i = j and y[i] < y[j]] * x[m]")


def test_an_extremum_that_can_be_over_no_point_is_found() -> None:
    with pytest.raises(EmptyExtremum, match="max j:n where j < i is over no point at i = 0, n = 1") as found:
        tl.parse("f(x: [n]R) = gen i:n. max j:n where j < i. x[j]")
    assert found.value.witness == {"i": 0, "n": 1}


@pytest.mark.parametrize("p", ["n <= j", "n <= j and j < i", "n = j", "1 = 0", "n <= j and c[j] = 0"])
def test_an_extremum_that_is_never_over_a_point_is_found(p: str) -> None:
    with pytest.raises(EmptyExtremum, match="is over no point at i = 0, n = 1"):
        tl.parse(f"f(x: [n]R, c: [n]idx(n)) = gen i:n. max j:n where {p}. x[j]")
    tl.parse(f"f(x: [n]R, c: [n]idx(n)) = gen i:n. [i < 0] * max j:n where {p}. x[j]")


def test_what_is_traced_is_searched_for_extrema_over_no_point() -> None:
    f = tl.parse("f(x: [n][m]R, s: R) = let c = s < 0 in gen i:n. max j:m where c = 0. x[i, j]")
    run = jax.jit(tl.to_jax(f))
    assert run(np.ones((2, 1)), 1.0).tolist() == [1.0, 1.0]
    assert run(np.ones((0, 0)), 1.0).tolist() == []
    with pytest.raises(tl.ArgumentError, match="max j:m where c = 0 is over no point at i = 0, n = 2, m = 0"):
        run(np.ones((2, 0)), 1.0)


def test_an_extremum_over_no_point_is_found_at_given_sizes() -> None:
    f = tl.parse("f(x: [n][m]R) = gen i:n. [i > 0] * max j:m. x[i, j]")
    n, m = f.sizes
    wrong = [empty_extremum(f, {n: a, m: b}) for a, b in ((0, 0), (1, 0), (2, 0), (2, 1), (10**6, 10**6))]
    assert wrong == [None, None, "max j:m is over no point at i = 1, n = 2, m = 0", None, None]


# -- normal forms


def test_equal_choices_are_one_statement_whether_extrema_or_named() -> None:
    s = normal_ssa(
        tl.parse(
            "f(x: [n][m]R) = let k = gen i:n. argmax j:m. x[i, j] in "
            "gen i:n. (max j:m. x[i, j]) * x[i, k[i]] + max l:m. x[i, l]"
        )
    )
    assert len(selections(s.statements)) == 1 and len([x for x in s.statements if isinstance(x, Selection)]) == 1


def test_a_selection_comes_before_what_looks_its_array_up_and_goes_with_the_last() -> None:
    f = tl.parse("f(x: [m]R, w: [m]R) = let k = argmax j:m. x[j] in (w[k], w[0 + k])")
    s = live(normal_ssa(f))
    (chosen,) = selections(s.statements).values()
    assert s.statements.index(chosen) < min(s.statements.index(y) for y in (s.outputs[0], s.outputs[1]))  # type: ignore[index, arg-type]
    unused = tl.parse("f(x: [m]R) = let k = argmax j:m. x[j] in [m > 0] * x[0]")
    assert not selections(live(normal_ssa(unused)).statements)


def test_a_choice_of_what_is_no_plain_access_is_not_in_ssa() -> None:
    f = push_out_gen(tl.parse("f(x: [m]R) = let k = argmax j:m. x[j] * x[j] in x[k]"))
    assert isinstance(f.body, Let) and isinstance(f.body.value, Choice) and isinstance(f.body.value.body, Mul)
    assert why_not_ssa(f) == "the right-hand side of k is none of the statements of Figure 10"
    assert why_not_ssa(to_ssa(f)) is None


def test_a_choice_inside_is_lifted_with_the_indices_around_it() -> None:
    f = tl.let_lift(tl.parse("f(x: [n][m]R) = gen i:n. let k = argmax j:m. x[i, j] in [k > 0] * x[i, k]"))
    lifted = "f(x: [n][m]R) = let k = gen i:n. argmax j:m. x[i, j] in gen i:n. [0 < k[i]] * x[i, k[i]]"
    assert " ".join(str(f).split()) == lifted
    assert isinstance(f.body, Let) and isinstance(f.body.var, IndexArray) and isinstance(f.body.value, Gen)
    assert f.body.var.sizes == (f.body.value.size,)


# -- cost


def test_an_extremum_costs_its_points_less_one_for_each_result_and_a_lookup_nothing() -> None:
    assert tl.cost(tl.parse("f(x: [n][m]R) = gen i:n. max j:m where j <= i. x[i, j]"), n=3, m=5) == 0 + 1 + 2
    assert tl.cost(tl.parse("f(x: [n][m]R, y: [n]idx(m)) = gen i:n. x[i, y[i]]"), n=3, m=5) == 0


def test_a_cost_that_depends_on_choices_needs_what_they_are_made_by() -> None:
    f = tl.parse("f(x: [n]R, w: [n]R) = let k = argmax i:n. x[i] in sum i:n. [i <= k] * w[i]")
    x = np.array([1.0, 3.0, 7.0, 5.0])
    assert tl.cost(f, x=x, w=x) == 3 + 2
    with pytest.raises(ArgumentError, match=r"the cost depends on the elements of k\nhint: .*the arrays of all"):
        tl.cost(f, n=4)


def test_a_choice_made_again_and_again_is_counted_once_it_is_an_array() -> None:
    f = tl.parse("f(x: [n][m]R) = gen i:n. let k = argmax j:m. x[i, j] in sum j:m. [j <= k] * x[i, j]")
    x = np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 2.0]])
    with pytest.raises(ArgumentError, match="lift it out by let_lift"):
        tl.cost(f, x=x)
    assert tl.cost(tl.let_lift(f), x=x) == 2 * 2 + 1 + 0


def test_segments_are_counted_with_their_data() -> None:
    f = tl.parse("f(x: [n]R, y: [n]idx(m)) = gen j:m. sum i:n. [y[i] = j] * x[i]")
    assert tl.cost(f, y=np.array([0, 2, 2, 2]), m=3) == 4 - 2


# -- derivatives and reading back

ADJOINTS = {
    "f(p: [n][m]R, y: [n]idx(m)) = sum i:n. p[i, y[i]]": "gen i:n, j:m. [j = y[i]] * f_bar",
    "f(x: [m][c]R, y: [n]idx(m)) = gen i:n, j:c. x[y[i], j]": "gen i:m, j:c. sum k:n. [i = y[k]] * f_bar[k, j]",
    "f(x: [n + 2]R) = gen i:n. max s:3. x[i + s]": (
        "let k = gen i:n. argmax j:3. x[i + j] in\n  gen i:n + 2. sum j:n. [i = j + k[j]] * f_bar[j]"
    ),
    "f(x: [n]R) = min i:n. x[i]": "let k = argmin i:n. x[i] in\n  gen i:n. [i = k] * f_bar",
}


@pytest.mark.parametrize("text", ADJOINTS)
def test_an_adjoint_puts_the_cotangent_where_the_program_looked(text: str) -> None:
    assert str(tl.adjoint(tl.parse(text))).split(" =", 1)[1].strip() == ADJOINTS[text]


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n + 2]R) = gen i:n. max j:3. x[i + j]",
        "f(x: [n]R) = gen i:n. max j:3 where 0 <= i + j - 1 < n. x[i + j - 1]",
        "f(x: [n]R) = gen i:n. [0 < i] * max j:n where j < i. x[j]",
        "f(x: [n][m]R) =\n  let t = gen i:n. max j:m. x[i, j] in\n  gen i:n. t[i] + log(sum j:m. exp(x[i, j] - t[i]))",
        "f(x: [n][m]R, w: [m]R) =\n  let best = gen i:n. argmax j:m. x[i, j] in\n  gen i:n. w[best[i]] * x[i, best[i]]",
    ],
)
def test_a_program_with_choices_reads_back_as_it_was_written(text: str) -> None:
    assert str(tl.simplify(tl.parse(text))) == text


def test_a_stable_logsumexp_and_its_adjoint_ask_for_the_maximum_once_and_not_where_it_is() -> None:
    f = tl.parse("f(x: [m]R) = let t = max j:m. x[j] in t + log(sum j:m. exp(x[j] - t))")
    text = str(tl.value_and_grad(f))
    assert text.count("argmax") == 0 and text.count("max") == 1


def test_only_the_nearest_centre_has_a_gradient_and_it_costs_no_search() -> None:
    f = tl.parse("f(x: [n][d]R, c: [k][d]R) = sum i:n. min j:k. sum l:d. (x[i, l] - c[j, l])^2")
    sizes = {"n": 7, "d": 3, "k": 5}
    data = {"x": np.arange(21.0).reshape(7, 3), "c": np.arange(15.0).reshape(5, 3) * 1.5, "f_bar": np.array(1.0)}
    program = tl.cost(f, **sizes)
    assert tl.cost(tl.adjoint(f), data) - program < 6 * 7 * 3 < program


def test_a_step_of_a_derivation_is_counted_with_the_choices_of_the_program() -> None:
    f = tl.parse("f(x: [n + 2]R) = sum i:n. (max s:3. x[i + s])^2")
    x = np.array([1.0, 5.0, 2.0, 0.0, 4.0])
    d = tl.derive(f)
    counted = [step.cost for step in d.tell(x=x, n=3) if step.cost is not None and step.rule.number != "6.17"]
    assert len(counted) > 5 and all(after <= before for before, after in counted)


SEGMENTS = """
f(x: [n]R, y: [n]idx(m), w: [n]R) =
  let top = gen k:m. [exists i:n. y[i] = k] * max i:n where y[i] = k. x[i] in
  let e = gen i:n. exp(x[i] - top[y[i]]) in
  sum i:n. w[i] * e[i] + [1 <= y[i]] * top[y[i] - 1 + 1]^2
"""


def test_nothing_asks_of_a_choice_for_what_it_was_chosen_under() -> None:
    g = tl.grad(tl.parse(SEGMENTS), wrt="x")
    text = str(g)
    assert "y[k[" not in text, text
    assert "k[y[i]]" in text  # a segment's cotangent goes to where its maximum is


def test_what_was_chosen_is_known_only_where_there_is_a_choice() -> None:
    f = tl.parse(SEGMENTS)
    rng = np.random.default_rng(0)
    y = np.array([4, 0, 4, 4, 2])  # two segments are empty
    x, w = rng.normal(size=5), rng.normal(size=5)
    g = tl.grad(f, wrt="x")
    step = 1e-6
    for k in range(5):
        d = step * np.eye(5)[k]
        ends = [float(tl.evaluate(f, x=x + s * d, y=y, w=w, m=5)) for s in (1, -1)]
        np.testing.assert_allclose(tl.evaluate(g, x=x, y=y, w=w, m=5)[k], (ends[0] - ends[1]) / (2 * step), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(tl.lower(g)(x, y, w, m=5)), tl.evaluate(g, x=x, y=y, w=w, m=5), rtol=1e-5)


@pytest.mark.parametrize(
    ("read", "by_hand"),
    [
        ("x[k]", lambda x, r, k: x[k]),
        ("[2*k < n] * x[k]^2", lambda x, r, k: (2 * k < 3) * x[k] ** 2),
        ("[r(k, k)] * 3", lambda x, r, k: 3.0 * r[k, k]),
        ("sum i:n. [not r(k, i)] * x[i]", lambda x, r, k: x @ ~r[k]),
        ("sum i:n. [i = k] * x[i]", lambda x, r, k: x[k]),
        ("sum i:n. [k = 0] * x[i]", lambda x, r, k: (k == 0) * x.sum()),
    ],
)
def test_an_element_that_was_not_chosen_is_0_whoever_looks_it_up(read: str, by_hand: Callable[..., float]) -> None:
    f = tl.parse(f"f(x: [n]R, r: rel(n, n)) = let k = [exists i:n. r(i, i)] * argmax i:n where r(i, i). x[i] in {read}")
    x = np.array([3.0, 5.0, 4.0])
    for r in np.zeros((3, 3), bool), np.eye(3, dtype=bool):
        k = 1 if r.any() else 0
        for g in f, tl.simplify(f):
            assert tl.evaluate(g, x=x, r=r) == tl.lower(g)(x=x, r=r) == by_hand(x, r, k)
        got = tl.adjoint(f)(x=x, r=r, f_bar=1.0)
        np.testing.assert_allclose(got, jax.grad(by_hand)(jnp.asarray(x), r, k), rtol=1e-6)
