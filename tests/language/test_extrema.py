"""max and min over ranges, argmax and argmin: in text and in Python, and their meaning."""

# the programs here are written as users write them, lambdas and mistakes included

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import Size, atom_affine
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.grammar import Choice, Extremum, Let, MakePair, Var, number
from tensorlang.language.latex import function_latex
from tensorlang.language.show import unicode_text
from tensorlang.language.types import BoundedIndex
from tensorlang.surface.parse import parse
from tests.support import pointwise
from tests.support.alike import alike

n, m = tl.sizes("n m")


def same(f: Function, text: str) -> None:
    """Assert that `f` is the program of `text`."""
    expected = parse(text)
    assert str(f) == str(expected)
    assert alike(f, expected)


# -- text


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R) = max i:n. x[i]",
        "f(x: [n][m]R) = gen i:n. min j:m where j <= i. x[i, j] + max(1, x[i, 0])",
        "f(x: [n][m]R) = max i:n, j:m. x[i, j]",
        "f(x: [n][m]R) = max i:n. min j:m. x[i, j]",
        "f(x: [n]R) = (max i:n. x[i]) * (min i:n. x[i]) - max i:n. -x[i]",
        "f(x: [n]R) = max i:n where i = 0 or exists j:n. i = 2*j. x[i]",
        "f(x: [n]R, r: rel(n)) = max i:n where r(i). x[i]",
        "f(x: [n]R) = let k = argmin i:n where i < 3. x[i] in x[k]",
        "f(x: [n][m]R) = let k = gen i:n. argmax j:m. x[i, j] in gen i:n. x[i, k[i]]",
        "f(x: [n]R) = let k = let t = gen i:n. x[i] * 2 in argmax i:n. t[i] in x[k]",
        "f(x: [n]R) = let k = [0 < n] * argmax i:n. x[i] in [0 < n] * x[k]",
    ],
)
def test_a_reduction_parses_and_prints_as_it_was_written(text: str) -> None:
    f = parse(text)
    assert str(f).split() == text.split()
    assert alike(parse(str(f)), f)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("sum i:n where i < 2. x[i] * 3", "sum i:n. [i < 2] * x[i] * 3"),
        ("sum i:n, j:n where i <= j. x[i] * x[j]", "sum i:n, j:n. [i <= j] * (x[i] * x[j])"),
        ("max i:n, j:n where i < 2. x[j]", "max i:n where i < 2. max j:n. x[j]"),
        ("max i:n, j:n where j < 2 and i = 0. x[j]", "max i:n where i = 0. max j:n where j < 2. x[j]"),
        ("max i:n, j:n where j <= i. x[j]", "max i:n where exists j:n. j <= i. max j:n where j <= i. x[j]"),
    ],
)
def test_a_condition_of_several_indices_means_the_points_at_which_it_holds(short: str, long: str) -> None:
    same(parse(f"f(x: [n]R) = {short}"), f"f(x: [n]R) = {long}")


def test_other_notations_of_reductions() -> None:
    f = parse("f(x: [n]R) = let k = argmax i:n where i < 3. x[i] in (min i:n. x[i]) * x[k]")
    assert "argmax i:n where i < 3. x[i]" in unicode_text(f)
    latex = function_latex(f)
    assert r"\mathop{\mathrm{argmax}}\limits_{\substack{i < n \\ i < 3}}" in latex
    assert r"\min\limits_{i < n}" in latex


def test_a_long_condition_breaks_its_line() -> None:
    text = "f(x: [n]R) = max i:n where " + " and ".join(f"i != {k}" for k in range(30)) + ". x[i]"
    printed = str(parse(text))
    assert max(map(len, printed.splitlines())) <= 100
    assert alike(parse(printed), parse(text))


IN_TEXT = {
    "argmax i:n. x[i]": r"the value of f must be a value, found an index, of type idx\(n\)\nhint: a let names it",
    "gen j:n. argmax i:n. x[i]": r"the value of f must be a value, found an index, of type \[n\]idx\(n\)",
    "1 + argmax i:n. x[i]": r"the right side of \+ must be a value, found an index",
    "(argmax i:n. x[i], 1)": "a part of a pair must be a value, found an index",
    "sin(argmin i:n. x[i])": "an argument of sin must be a value, found an index",
    "(gen j:n. argmax i:n. x[i])[0]": "what is accessed must be a value, found an index",
    "[argmax i:n. x[i] = 2]": "no index or size is called argmax here\nhint: a let names it",
    "let k = gen j:n. argmax i:n. x[i] in k": r"expected a value, found the index array k\nhint: .* x\[k\[i\]\]",
    "argmax i:n, j:n. x[i]": "argmax chooses one index, found 2 of them",
    "max i:n. x": r"the body of max must be a number, found a value of type \[n\]R",
    "gen i:n where i < 2. x[i]": r"expected ',' or '\.', found the keyword where\nhint: where a bracket is false",
    "max i:n where i. x[i]": "expected a predicate, found an index expression",
    "max i:n where i < 2 x[i]": r"expected `and`, `or` or '\.', found 'x'",
    "sum i:n where j < 2. x[i]": "no index or size is called j here",
    "max x": r"max is a scalar function and needs its arguments\nhint: max\(a, b\), or max i:n\. e",
}


@pytest.mark.parametrize("body", IN_TEXT)
def test_a_misused_reduction_is_an_error_with_its_place(body: str) -> None:
    with pytest.raises(tl.TensorlangError, match=IN_TEXT[body]) as caught:
        parse(f"f(x: [n]R) = {body}")
    assert caught.value.place is not None


def test_an_index_is_no_part_of_a_pair_and_no_value_of_a_variable() -> None:
    f = parse("f(x: [n]R) = let k = argmax i:n. x[i] in x[k]")
    assert isinstance(f.body, Let)
    choice = f.body.value
    assert isinstance(choice, Choice) and choice.type is BoundedIndex(atom_affine(Size("n")))
    with pytest.raises(tl.TypeMismatch, match="a part of a pair must be a value"):
        MakePair(choice, number(1))
    with pytest.raises(tl.TypeMismatch, match="which an index array is to hold"):
        Let(Var("k", choice.type), choice, number(1))


# -- Python


def test_reductions_in_python_are_those_in_text() -> None:
    same(
        tl.function(lambda x: tl.max((n, m), lambda i, j: x[i, j], where=lambda i, j: j <= i), x=tl.R[n, m]),
        "f(x: [n][m]R) = max i:n, j:m where j <= i. x[i, j]",
    )
    same(
        tl.function(lambda x: tl.min(n, lambda i: x[i], where=lambda i: i < 2) + tl.max(n, lambda i: x[i]), x=tl.R[n]),
        "f(x: [n]R) = (min i:n where i < 2. x[i]) + max i:n. x[i]",
    )
    same(
        tl.function(lambda x: tl.sum((n, n), lambda i, j: x[i] * x[j], where=lambda i, j: i < j), x=tl.R[n]),
        "f(x: [n]R) = sum i:n, j:n where i < j. x[i] * x[j]",
    )


def test_a_reduction_used_twice_is_computed_once() -> None:
    @tl.function
    def logsumexp(x: tl.R[n]):
        top = tl.max(n, lambda i: x[i])
        return tl.log(tl.sum(n, lambda i: tl.exp(x[i] - top))) + top

    same(logsumexp, "logsumexp(x: [n]R) = let top = max i:n. x[i] in log(sum i:n. exp(x[i] - top)) + top")


def test_a_chosen_index_is_named_by_a_let_where_it_is_used() -> None:
    @tl.function
    def f(x: tl.R[n, m]):
        def row(i: Any) -> Any:
            best = tl.argmax(m, lambda j: x[i, j])
            return x[i, best] + tl.sum(m, lambda j: (j == best) * x[i, j])

        return tl.gen(n, row)

    same(
        f,
        """f(x: [n][m]R) =
             gen i:n. let best = argmax j:m. x[i, j] in x[i, best] + sum j:m. [best = j] * x[i, j]""",
    )


def test_chosen_indices_of_every_row_are_an_index_array() -> None:
    @tl.function
    def f(x: tl.R[n, m]):
        best = tl.gen(n, lambda i: tl.argmin(m, lambda j: x[i, j] ** 2, where=lambda j: j <= i))
        return tl.gen(
            n, lambda i: x[i, best[i]] + x[0, best[0]] * tl.sum(m, lambda j: x[i, j], where=lambda j: j != best[i])
        )

    (let,) = [e for e in [f.body] if isinstance(e, Let)]
    assert let.var.name == "best"
    assert str(let.value.type) == "[n]idx(m)"
    assert str(f).count("argmin") == 1


def test_a_choice_is_made_only_where_it_is_looked_at() -> None:
    @tl.function
    def f(x: tl.R[n, m]):
        def row(i: Any) -> Any:
            best = tl.argmax(m, lambda j: x[i, j], where=lambda j: j < i)
            return (i > 0) * x[i, best] + ((i > 1) & (best == 1)) * x[i, 0]

        return tl.gen(n, row)

    same(
        f,
        """f(x: [n][m]R) =
             gen i:n.
               let best = [0 < i] * argmax j:m where j < i. x[i, j] in
               [0 < i] * x[i, best] + [1 < i and best = 1] * x[i, 0]""",
    )


def test_a_value_under_a_condition_on_a_choice_gets_its_let_there() -> None:
    @tl.function
    def f(x: tl.R[n]):
        best = tl.argmax(n, lambda i: x[i])
        e = x[best] * x[best]
        return (best == 2) * (e * tl.sin(e))

    same(f, "f(x: [n]R) = let best = argmax i:n. x[i] in [best = 2] * let e = x[best] * x[best] in e * sin(e)")


def test_one_choice_may_depend_on_another() -> None:
    @tl.function
    def f(x: tl.R[n], w: tl.R[n, n]):
        first = tl.argmax(n, lambda i: x[i])
        second = tl.argmax(n, lambda i: w[first, i])
        return w[first, second]

    same(
        f,
        """f(x: [n]R, w: [n][n]R) =
             let first = argmax i:n. x[i] in let second = argmax i:n. w[first, i] in w[first, second]""",
    )


def test_a_called_program_brings_its_choices_along() -> None:
    best = parse("best(x: [n]R, y: [n]idx(m), w: [m]R) = let k = argmax i:n. x[i] in w[y[k]]")

    @tl.function
    def f(x: tl.R[m, n], z: tl.idx(m)[m, n], w: tl.R[m]):
        return tl.gen(m, lambda r: best(x[r], z[r], w) * 2)

    same(
        f,
        """f(x: [m][n]R, z: [m][n]idx(m), w: [m]R) =
             gen r:m. (let k = argmax i:n. x[r, i] in w[z[r, k]]) * 2""",
    )


def test_a_chosen_index_array_is_an_argument() -> None:
    pick = parse("pick(x: [n][m]R, y: [n]idx(m)) = sum i:n. x[i, y[i]]")
    f = tl.function(lambda x: pick(x, tl.gen(n, lambda i: tl.argmax(m, lambda j: x[i, j]))), x=tl.R[n, m])
    same(f, "f(x: [n][m]R) = let k = gen i:n. argmax j:m. x[i, j] in sum i:n. x[i, k[i]]")


IN_PYTHON: dict[str, tuple[Callable[[], Any], str]] = {
    "two numbers": (lambda: tl.function(lambda x: tl.max(x[0], x[1]), x=tl.R[2]), r"hint: tl\.maximum\(a, b\)"),
    "a body that is no number": (
        lambda: tl.function(lambda x: tl.min(n, lambda i: x), x=tl.R[n]),
        r"the body of min must be a number, found a value of type \[n\]R",
    ),
    "a condition that is none": (
        lambda: tl.function(lambda x: tl.max(n, lambda i: x[i], where=lambda i: i), x=tl.R[n]),
        "the condition of max must be a condition, found the index expression i",
    ),
    "a condition of fewer indices": (
        lambda: tl.function(lambda x: tl.max((n, n), lambda i, j: x[i], where=lambda i: i > 1), x=tl.R[n]),
        "the condition of max needs a function of 2 parameters",
    ),
    "several sizes": (
        lambda: tl.function(lambda x: tl.argmax((n, n), lambda i, j: x[i]), x=tl.R[n]),
        "argmax chooses one index, found 2 sizes",
    ),
    "a choice in the condition": (
        lambda: tl.function(
            lambda x: tl.max(n, lambda i: x[i], where=lambda i: tl.argmax(n, lambda j: x[j]) == i), x=tl.R[n]
        ),
        r"the condition of max chooses an index inside itself\nhint: choose before",
    ),
    "a choice outside of programs": (
        lambda: tl.argmax(n, lambda i: 1),
        "an index is chosen while a program is written",
    ),
}


@pytest.mark.parametrize("what", IN_PYTHON)
def test_a_misused_reduction_is_refused_at_the_python_line(what: str) -> None:
    make, message = IN_PYTHON[what]
    with pytest.raises(tl.TensorlangError, match=message) as caught:
        make()
    assert "test_extrema.py" in str(caught.value)


# -- meaning

X = np.random.default_rng(1).normal(size=(5, 4))


def test_extrema_are_those_of_numpy() -> None:
    assert evaluate(parse("f(x: [n][m]R) = gen i:n. max j:m. x[i, j]"), X).tolist() == X.max(1).tolist()
    assert evaluate(parse("f(x: [n][m]R) = gen j:m. min i:n. x[i, j]"), X).tolist() == X.min(0).tolist()
    assert evaluate(parse("f(x: [n][m]R) = max i:n, j:m where j <= i. x[i, j]"), X) == X[np.tril_indices(5, 0, 4)].max()


def test_of_equals_the_first_is_chosen() -> None:
    f = parse(
        "f(x: [n]R) = let a = argmax i:n. x[i] in let b = argmin i:n. x[i] in (sum i:n. [i < a], sum i:n. [i < b])"
    )
    x = [1.0, 3.0, 0.0, 3.0, 0.0]
    assert evaluate(f, x) == (1.0, 2.0)
    assert pointwise.meaning(f, {"n": 5}, {"x": np.array([Fraction(v) for v in x])}) == (1, 2)


def test_the_first_of_equals_is_that_of_the_least_index_however_its_points_are_found() -> None:
    f = parse("f(x: [n]R, r: rel(n)) = let k = argmax i:n where r(n - 1 - i). x[i] in sum i:n. [i < k]")
    assert evaluate(f, np.zeros(4), np.array([True, True, True, False])) == 1.0


def test_exact_values_stay_exact() -> None:
    f = parse("f(x: [n]R) = let k = argmax i:n. x[i] in x[k] / 3 + min i:n. x[i]")
    assert evaluate(f, [Fraction(1, 3), Fraction(1, 2)], exact=True) == Fraction(1, 6) + Fraction(1, 3)


def test_nan_is_the_extremum_and_its_first_place_the_choice() -> None:
    f = parse("f(x: [n]R) = let k = argmin i:n. x[i] in (max i:n. x[i], sum i:n. [i < k])")
    x = np.array([2.0, np.nan, 1.0, np.nan])
    value, place = evaluate(f, x)
    assert np.isnan(value) and place == np.argmin(x) == 1


def test_choices_of_a_row_are_looked_up_row_by_row() -> None:
    f = parse("f(x: [n][m]R) = gen i:n. let k = argmin j:m. x[i, j] in sum j:m where j != k. x[i, j]")
    assert evaluate(f, X) == pytest.approx(X.sum(1) - X.min(1))


def test_a_choice_between_brackets_is_index_0_where_they_are_false() -> None:
    f = parse("f(x: [n]R) = let k = gen i:n. [0 < i] * argmax j:n where j < i. x[j] in gen i:n. x[k[i]]")
    assert evaluate(f, [5.0, 1.0, 7.0]).tolist() == [5.0, 5.0, 5.0]


def test_an_extremum_over_no_point_is_an_error_that_says_where() -> None:
    f = parse("f(x: [n][m]R) = gen i:n. [0 < i] * max j:m where j < i. x[i, j]")
    assert evaluate(f, X[:, :1]).tolist() == [0.0, *X[1:, 0]]
    with pytest.raises(tl.EmptyExtremum, match=r"max j:m where j < i is over no point at i = 1, m = 0") as caught:
        evaluate(f, np.zeros((3, 0)))
    assert caught.value.witness == {"i": 1, "m": 0}
    g = parse("f(x: [n]R) = let k = argmin i:n. x[i] in sum j:n. x[k]")
    with pytest.raises(tl.EmptyExtremum, match="argmin i:n is over no point at n = 0\nhint: a bracket hides it"):
        evaluate(g, [])


def test_nothing_is_asked_of_an_extremum_under_a_false_bracket() -> None:
    f = parse("f(x: [n]R) = [0 < n] * (max i:n. x[i] * recip(x[i]))")
    assert evaluate(f, []) == 0.0


def test_an_extremum_costs_one_less_than_its_points() -> None:
    f = parse("f(x: [n][m]R) = gen i:n. [0 < i] * max j:m where j < i. x[i, j] * 2")
    assert pointwise.cost(f, {"n": 4, "m": 3}, {}) == tl.cost(f, n=4, m=3) == sum(2 * min(i, 3) - 1 for i in (1, 2, 3))


def test_a_choice_that_a_let_names_is_counted_once() -> None:
    f = parse("f(x: [n]R) = let k = argmax i:n. x[i] in x[k] + x[k]")
    assert pointwise.cost(f, {"n": 5}, {"x": np.arange(5)}) == tl.cost(f, n=5) == 5


def test_several_extrema_in_one_condition_are_one_extremum() -> None:
    f = parse("f(x: [n][m]R) = max i:n, j:m where i = j. x[i, j]")
    assert isinstance(f.body, Extremum) and isinstance(f.body.body, Extremum)
    assert evaluate(f, X) == np.diag(X).max()
    assert tl.cost(f, n=5, m=4) == pointwise.cost(f, {"n": 5, "m": 4}, {}) == 3


def test_what_is_the_extremum_of_two_choices_is_read_by_one_of_them() -> None:
    f = parse("""
        f(x: [b][m][m + 1]R) =
          let k = gen h:b, i:m, j:m. argmin l:2. x[h, i, j + l] in
          let k1 = gen h:b, i:m, j:m. [i = j or j = 0] * argmax l:m where i <= l. x[h, j, k[h, j, l] + l] in
          let k2 = gen h:b, i:m.
            argmax j:m where i = j or j = 0. [i <= k1[h, i, j]] * x[h, j, k1[h, i, j] + k[h, j, k1[h, i, j]]] in
          gen h:b, i:m. x[h, k2[h, i], k1[h, i, k2[h, i]] + k[h, k2[h, i], k1[h, i, k2[h, i]]]]
    """)
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    np.testing.assert_allclose(evaluate(tl.simplify(f), x), evaluate(f, x))
    np.testing.assert_allclose(tl.lower(f)(x), evaluate(f, x), rtol=1e-6)


def test_a_point_of_an_empty_range_is_equal_to_nothing() -> None:
    f = parse("f(x: [n]R, w: [m]R) = [m < n and 0 < m] * let k = argmin j:n - m. x[j] in [k = 0] * w[0]")
    lifted = tl.let_lift(f)
    unguarded = tl.parse(
        "f(x: [n]R, w: [m]R) = let k = [m < n and 0 < m] * argmin j:n - m. x[j] in [k = 0 and 0 < m] * w[0]"
    )
    for g in (f, lifted, unguarded):
        assert evaluate(g, [1.0], [1.0]) == 0.0
        assert pointwise.meaning(g, {"n": 1, "m": 1}, {"x": np.ones(1), "w": np.ones(1)}) == 0
        assert evaluate(g, [1.0, 1.0], [1.0]) == 1.0
