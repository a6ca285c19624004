"""Index arrays: in text and in Python, as arguments, and the meaning of their elements."""

# the programs here are written as users write them, lambdas and mistakes included
# ruff: noqa: PLW0108

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import Index, IndexArray, Lookup, Size, atom_affine, constant
from tensorlang.language.arguments import bind, size_values
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Gen, Sum, Var, access, number, sums
from tensorlang.language.latex import function_latex
from tensorlang.language.predicates import (
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
from tensorlang.language.show import predicate_text, unicode_text
from tensorlang.surface.parse import parse
from tests.support import pointwise
from tests.support.alike import alike
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.promises import same as same_values

n, m, k = tl.sizes("n m k")

NLL = "nll(logp: [n][m]R, y: [n]idx(m)) = sum i:n. logp[i, y[i]]"


def same(f: Function, text: str) -> None:
    """Assert that `f` is the program of `text`."""
    expected = parse(text)
    assert str(f) == str(expected)
    assert alike(f, expected)


# -- text


@pytest.mark.parametrize(
    "text",
    [
        NLL,
        "f(x: [m]R, i: idx(m)) = x[i]",
        "f(x: [m]R, y: [n]idx(m), z: [k][2]idx(n)) = gen i:k. x[y[z[i, 1]]]",
        "f(x: [2*m]R, y: [n]idx(m)) = gen i:n. x[2*y[i] + 1]",
        "f(x: [m]R, y: [n]idx(m)) = gen j:m. sum i:n. [j = y[i] and 0 < i] * x[j]",
        "f(y: [n]idx(m + 1)) = sum i:n. [0 < y[i] < m] * [exists j:m. 2*j = y[i]]",
        "f(y: [n]idx(m), r: rel(n, m)) = sum i:n. [r(i, y[i])]",
        "f(argmax: [n]R, argmin: R) = argmin * sum i:n. argmax[i]",
        "f(a: R, b: R) = max(a, min(b, 1)) * max(a, b)",
    ],
)
def test_an_index_array_parses_and_prints_as_it_was_written(text: str) -> None:
    f = parse(text)
    assert str(f).split() == text.split()
    assert alike(parse(str(f)), f)


def test_rows_of_an_index_array_are_indexed_one_by_one_or_together() -> None:
    same(
        parse("f(x: [m]R, z: [n][k]idx(m)) = gen i:n, j:k. x[z[i][j]]"),
        "f(x: [m]R, z: [n][k]idx(m)) = gen i:n, j:k. x[z[i, j]]",
    )


def test_other_notations_read_elements_as_the_text_does() -> None:
    assert unicode_text(parse(NLL)) == "nll(logp: [n][m]ℝ, y: [n]idx(m)) = Σ i:n. logp[i, y[i]]"
    assert function_latex(parse("f(x: [2*m]R, y: [n]idx(m)) = gen i:n. x[2*y[i]]")).endswith(r"x[2\,y[i]]")
    assert r"y: [n]\mathrm{idx}(m)" in function_latex(parse(NLL))


def test_an_index_array_and_an_index_are_never_printed_alike() -> None:
    y = IndexArray("i", (), atom_affine(Size("n")))
    assert predicate_text(equal(atom_affine(Lookup(y, ())), atom_affine(Index("i")))) == "i = i1"


IN_TEXT = {
    "f(x: [m]R, y: [n]idx(m)) = y": "expected a value, found the index array y",
    "f(x: [m]R, y: [n]idx(m)) = sum i:n. y[i] * x[0]": "expected a value, found the index array y",
    "f(x: [m]R, y: [n]idx(m)) = x[y]": r"expected an element of y, which is of type \[n\]idx\(m\), found no index",
    "f(x: [m]R, y: [n]idx(m)) = sum i:n. x[y[i, i]]": "found 2 indices after it\nhint: y\\[i\\]",
    "f(x: [m]R, k: idx(m)) = x[k[0]]": r"which is of type idx\(m\), found 1 index after it",
    "f(y: [n]idx(m)) = sum i:y[0]. 1": r"expected a size, found the index y\[0\]",
    "f(y: [n]idx) = 1": r"expected '\(' and the number of values that the indices have, found '\)'",
    "f(y: [n]int) = 1": r"hint: indices that are less than m are of the type idx\(m\)",
    "f(y: ([n]idx(m), R)) = 1": r"a part of a pair is a value, found the type \[n\]idx\(m\)",
    "f(y: [n]idx(n)) = gen y:n. 1": "y is an index array already; an index needs another name",
    "f(y: [n]idx(y)) = 1": "y is a size already; an index array needs another name",
    "f(y: [n]idx(m)) = [yy[0] = 2]": "no index or size is called yy here\nhint: did you mean y",
}


@pytest.mark.parametrize("text", IN_TEXT)
def test_a_misused_index_array_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(tl.TensorlangError, match=IN_TEXT[text]) as caught:
        parse(text)
    assert caught.value.place is not None


def test_elements_are_nested_only_so_deep() -> None:
    def nested(depth: int) -> str:
        return f"f(x: [n]R, y: [n]idx(n)) = [0 < n] * x[{'y[' * depth}0{']' * depth}]"

    assert str(parse(nested(60))).count("y[") == 60
    with pytest.raises(tl.LimitError, match="nested at most 64 deep"):
        parse(nested(2000))


# -- substitution


def test_a_part_of_an_index_array_stands_for_an_index_array() -> None:
    size = atom_affine(Size("n"))
    y, z = IndexArray("y", (size,), size), IndexArray("z", (size, size), size)
    i, j = Index("i"), Index("j")
    a = atom_affine(Lookup(y, (atom_affine(i) + 1,))) * 2 + atom_affine(i)
    replaced = a.substitute({Lookup(y, ()): atom_affine(Lookup(z, (atom_affine(j),))), i: atom_affine(j)})
    assert replaced is atom_affine(Lookup(z, (atom_affine(j), atom_affine(j) + 1))) * 2 + atom_affine(j)


def test_substitution_reaches_elements_under_quantifiers_and_captures_nothing() -> None:
    size = atom_affine(Size("n"))
    y, z = IndexArray("y", (size,), size), IndexArray("z", (size, size), size)
    i, j = Index("i"), Index("j")
    p = exists([(j, size)], equal(atom_affine(Lookup(y, (atom_affine(j),))), atom_affine(i)))
    q = substitute(p, {Lookup(y, ()): atom_affine(Lookup(z, (atom_affine(j),)))})
    (lookup,) = lookups(q)
    assert lookup.array is z and lookup.at[0] is atom_affine(j) and lookup.at[1] is not atom_affine(j)


# -- Python


def test_an_index_array_in_python_is_the_one_in_text() -> None:
    @tl.function
    def nll(logp: tl.R[n, m], y: tl.idx(m)[n]):
        return tl.sum(n, lambda i: logp[i, y[i]])

    same(nll, NLL)
    assert repr(tl.idx(m)[n, k]) == "[n][k]idx(m)"


def test_elements_take_part_in_index_arithmetic_and_conditions() -> None:
    @tl.function
    def f(x: tl.R[2 * m], y: tl.idx(m)[n], z: tl.idx(n)[k, n], q: tl.idx(k)):
        return tl.gen(
            (k, m),
            lambda a, j: tl.sum(n, lambda i: x[2 * y[z[a, i]] + 1], where=lambda i: (y[i] == j) & (z[a][i] <= q)),
        )

    same(
        f,
        """f(x: [2*m]R, y: [n]idx(m), z: [k][n]idx(n), q: idx(k)) =
             gen a:k, j:m. sum i:n where y[i] = j and z[a, i] <= q. x[2*y[z[a, i]] + 1]""",
    )


def test_a_call_puts_index_arrays_parts_of_them_and_single_indices_in_place() -> None:
    @tl.function
    def pick(x: tl.R[n], i: tl.idx(n)):
        return x[i]

    @tl.function
    def rows(x: tl.R[m, n], y: tl.idx(n)[m]):
        return tl.gen(m, lambda r: pick(x[r], y[r]))

    @tl.function
    def f(x: tl.R[m, n], z: tl.idx(n)[k, m]):
        def one(a: Any, r: Any) -> Any:
            return rows(x, z[a])[r] + pick(x[r], z[a, r]) + (n > 0) * pick(x[r], 0 * r)

        return tl.gen((k, m), one)

    same(
        f,
        """f(x: [m][n]R, z: [k][m]idx(n)) =
             gen a:k, r:m. (gen r:m. x[r, z[a, r]])[r] + x[r, z[a, r]] + [0 < n] * x[r, 0]""",
    )


def test_a_call_inside_another_program_keeps_the_sizes_of_its_index_arrays() -> None:
    nll = parse(NLL)

    @tl.function
    def f(x: tl.R[k, 3], z: tl.idx(3)[2, k]):
        return nll(x, z[0]) * nll(x, z[1])

    same(
        f,
        "f(x: [k][3]R, z: [2][k]idx(3)) = (sum i:k. x[i, z[0, i]]) * (sum i:k. x[i, z[1, i]])",
    )


IN_PYTHON: dict[str, tuple[Callable[[], Any], str]] = {
    "a value": (lambda: tl.function(lambda y: y, y=tl.idx(n)[n]), "found the index array y, of type"),
    "a part": (
        lambda: tl.function(lambda y: y[0] & 1, y=tl.idx(3)[2]),
        "combine conditions, found the index expression y",
    ),
    "too many places": (lambda: tl.function(lambda y: y[0, 0], y=tl.idx(n)[n]), r"of type \[n\]idx\(n\), found 2"),
    "iteration": (lambda: tl.function(lambda y: list(y), y=tl.idx(n)[n]), "an index array can't be iterated over"),
    "a size": (lambda: tl.function(lambda y: tl.sum(y, lambda i: 1), y=tl.idx(n)), "found the index y in y"),
    "an argument of another type": (
        lambda: tl.function(lambda x, y: parse(NLL)(x, y), x=tl.R[n, m], y=tl.idx(m)[n, n]),
        r"the argument y of nll must have type \[n\]idx\(m\), found the index array y, of type \[n\]\[n\]idx\(m\)",
    ),
    "an argument of another size": (
        lambda: tl.function(lambda x, y: parse(NLL)(x, y), x=tl.R[n, m], y=tl.idx(n)[n]),
        "the argument y of nll must have size m, found n",
    ),
    "an argument that is no array": (
        lambda: tl.function(lambda x: parse(NLL)(x, 3), x=tl.R[n, m]),
        r"the argument y of nll must have type \[n\]idx\(m\), found 3",
    ),
}


@pytest.mark.parametrize("what", IN_PYTHON)
def test_a_misused_index_array_is_refused_at_the_python_line(what: str) -> None:
    make, message = IN_PYTHON[what]
    with pytest.raises(tl.TensorlangError, match=message) as caught:
        make()
    assert "test_index_arrays.py" in str(caught.value)


# -- arguments

LOOKUP = parse("f(x: [m]R, y: [n]idx(m), q: idx(m)) = sum i:n. x[y[i]] + x[q]")


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_integers_of_any_width_are_indices(dtype: Any) -> None:
    assert evaluate(LOOKUP, [1.0, 2.0], np.array([0, 1, 1], dtype), dtype(0)) == 8.0


def test_an_array_of_jax_holds_indices_too() -> None:
    assert evaluate(LOOKUP, jnp.array([1.0, 2.0]), jnp.array([0, 1, 1]), jnp.array(0)) == 8.0


def test_an_empty_list_is_an_empty_index_array() -> None:
    assert bind(LOOKUP, ([1.0], [], 0), {}).values[LOOKUP.params[1]].dtype == np.int64


WRONG: dict[str, tuple[Any, str]] = {
    "floats": ([0.0, 1.0], "y must hold indices, which are integers, found dtype float64"),
    "booleans": (np.array([True, False]), "found dtype bool\nhint: a mask is a relation"),
    "too large": ([0, 5, 1], r"y\[1\] is 5, expected an index into a range of size m = 2"),
    "counted from one": ([1, 2], r"y\[1\] is 2, .*\nhint: indices count from 0"),
    "negative": (jnp.array([0, -1]), r"y\[1\] is -1, expected an index into a range of size m = 2"),
    "of another shape": ([[0, 1]], r"y has shape \(1, 2\), expected 1 axis, \[n\]"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_array_of_indices_is_refused(what: str) -> None:
    y, message = WRONG[what]
    with pytest.raises(tl.ArgumentError, match=message):
        bind(LOOKUP, ([1.0, 2.0], y, 0), {})


def test_a_single_index_out_of_range_is_refused() -> None:
    with pytest.raises(tl.ArgumentError, match=r"q is 2, expected an index into a range of size m = 2"):
        bind(LOOKUP, ([1.0, 2.0], [0], 2), {})


def test_nothing_is_checked_of_an_index_array_that_jax_traces() -> None:
    seen = []

    @jax.jit
    def traced(y: Any) -> Any:
        seen.append(bind(LOOKUP, (jnp.ones(2), y, 0), {}))
        return y

    traced(jnp.array([0, 7]))
    assert len(seen) == 1


def test_the_range_of_indices_is_read_off_other_arguments_or_given() -> None:
    f = parse("f(y: [n]idx(m)) = sum i:n. [y[i] = m - 1]")
    with pytest.raises(tl.ArgumentError, match="m can't be read off the arguments"):
        evaluate(f, [0, 2])
    assert evaluate(f, [0, 2], m=3) == 1.0


def test_costs_take_the_data_of_index_arrays_by_name() -> None:
    f = parse("f(x: [m]R, y: [n]idx(m)) = sum i:n. [y[i] = 0] * x[0]")
    assert {s.name: v for s, v in size_values(f, y=[0, 1, 0], m=2).sizes.items()} == {"m": 2, "n": 3}
    with pytest.raises(tl.ArgumentError, match=r"y\[1\] is 1"):
        size_values(f, y=[0, 1], m=1)


# -- meaning


def test_elements_are_read_in_places_and_in_conditions() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.integers(0, 3, 5)
    assert evaluate(parse(NLL), x, y) == pytest.approx(x[np.arange(5), y].sum())
    counts = evaluate(parse("f(y: [n]idx(m)) = gen j:m. sum i:n. [y[i] = j]"), y, m=3)
    assert counts.tolist() == [(y == j).sum() for j in range(3)]


def test_elements_are_found_under_quantifiers() -> None:
    f = parse("f(y: [n]idx(m)) = gen j:m. [exists i:n. y[i] = j and (exists l:n. y[l] = i)]")
    y = np.array([2, 0, 2])
    assert evaluate(f, y, m=4).tolist() == [float(j in {y[i] for i in y}) for j in range(4)]


def test_a_condition_on_an_element_that_is_not_there_is_false() -> None:
    f = parse("f(y: [n]idx(m)) = (sum i:n, j:m. [i + 1 < n and y[i + 1] = j], sum i:n. [i + 1 < n and y[i + 1] <= m])")
    assert evaluate(f, [1, 0, 1], m=2) == (2.0, 2.0)


def test_neither_side_of_a_comparison_with_an_element_that_is_not_there_is_true() -> None:
    f = Function("f", parse("f(y: [n]idx(m)) = 1").params, number(1))
    (y,) = f.params
    assert isinstance(y, IndexArray)
    one_past = atom_affine(Lookup(y, (atom_affine(Size("n")),)))
    for p in (less(one_past, constant(9)), less(constant(-1), one_past), equal(one_past, constant(0))):
        g = Function("g", f.params, Bracket(p, number(1)))
        assert evaluate(g, [0], m=2) == pointwise.meaning(g, {"n": 1, "m": 2}, {"y": np.array([0])}) == 0


def test_reading_at_an_element_that_is_not_there_is_an_error() -> None:
    f = parse("f(x: [m]R, y: [n]idx(m)) = sum i:n. x[y[i]]")
    x, y = f.params
    assert isinstance(x, Var) and isinstance(y, IndexArray)
    i = Index("i")
    past = atom_affine(Lookup(y, (atom_affine(i) + 1,)))
    g = Function("g", f.params, sums([(i, atom_affine(Size("n")))], access(x, past)))
    with pytest.raises(tl.OutOfBounds, match=r"looks up y\[i \+ 1\], which y has not at i = 1, n = 2") as caught:
        evaluate(g, [1.0, 2.0], [0, 1])
    assert caught.value.witness == {"i": 1, "n": 2}


def test_the_evaluator_and_an_interpreter_agree_on_random_programs() -> None:
    looked_up = 0
    for seed in range(120):
        rng = random.Random(seed)
        f = random_function(rng, scalars="exact", chooses=True)
        sizes = random_sizes(f, rng)
        values = random_arguments(f, rng, sizes)
        looked_up += "idx(" in str(f)
        assert same_values(evaluate(f, exact=True, **values), pointwise.meaning(f, sizes, values)), f"seed {seed}: {f}"
    assert looked_up > 40


# -- places beyond the array, in code


@pytest.mark.parametrize(
    "condition",
    [
        "i + 1 = l and l < n and k[l] + l <= n",
        "i + 1 = l and l < n and k[l] = 0 or i = l and l < n and k[l] = 0",
        "l < n and k[k[l]] = 0 and i <= l",
        "exists j:n + 2. j < n and l = i + 2*k[j] and j = i + 1",
        "l < n and r(l, k[l])",
    ],
)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_code_compares_no_element_where_there_is_none(condition: str, size: int) -> None:
    """Simplified programs leave out a condition that a comparison implies: that the element exists."""
    whole = parse(f"f(x: [n + 2]R, k: [n]idx(n), r: rel(n, n)) = gen i:n. sum l:n + 2. [{condition}] * x[l]")
    rng = np.random.default_rng(size)
    given = {"x": rng.normal(size=size + 2), "k": rng.integers(0, min(2, size), size=size)}
    given["r"] = np.ones((size, size), bool)

    def without(p: Predicate) -> Predicate:
        match p:
            case And(parts) | Or(parts):
                left = [without(q) for q in parts if str(q) not in ("l < n", "j < n")]
                return (conjunction if isinstance(p, And) else disjunction)(left)
            case Exists(index, bound, body):
                return Exists(index, bound, without(body))
        return p

    match whole.body:
        case Gen(i, n, Sum(j, m, Bracket(p, e))):
            assert without(p) is not p
            f = replace(whole, body=Gen(i, n, Sum(j, m, Bracket(without(p), e))))
        case _:
            raise AssertionError(whole)
    want = evaluate(whole, **given)
    np.testing.assert_allclose(evaluate(f, **given), want)
    np.testing.assert_allclose(np.asarray(tl.lower(f)(**given)), want, rtol=1e-5, atol=1e-6)


BEYOND = [
    "f(x: [n]R, p: [n]idx(n + 1)) = sum i:n, j:n. [i = p[j]] * x[j]",
    "f(x: [n]R, p: [n]idx(2*n)) = gen j:n. sum i:n. [i = p[j]] * x[i]^2 * x[j]",
    "f(x: [2]R, p: [1]idx(3)) = gen i:1. sum j:1. [i = p[j]] * x[j]",
]


@pytest.mark.parametrize("text", BEYOND)
def test_an_element_is_no_index_of_the_range_of_its_place(text: str) -> None:
    """An index equal to p[j] is below n only where p[j] is, although j is below n."""
    f = tl.parse(text)
    given = {"x": np.array([1.0, 2.0]), "p": np.array([2, 0])[: 1 if "[1]" in text else 2]}
    value = tl.evaluate(f, **given)
    for g in (tl.simplify(f), tl.parse(str(tl.simplify(f)))):
        np.testing.assert_allclose(tl.evaluate(g, **given), value)
    np.testing.assert_allclose(tl.lower(f)(**given), value)
    bar = np.ones(np.shape(value))
    moved = [tl.evaluate(f, **(given | {"x": given["x"] + 1e-6 * np.eye(2)[k]})) for k in range(2)]
    slope = [np.sum(y - value) / 1e-6 for y in moved]
    np.testing.assert_allclose(tl.adjoint(f, "x")(**given, f_bar=bar), slope, rtol=1e-4, atol=1e-5)
