"""Figures 4 and 5: the meaning of a program."""

import math
import random
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tensorlang.errors import ArgumentError, EvaluationError, LimitError, OutOfBounds, PythonLine
from tensorlang.language.affine import Index, Size, atom_affine, constant
from tensorlang.language.arguments import to_leaves
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.functions import call
from tensorlang.language.grammar import Access, Add, Bracket, Expr, Gen, Let, Mul, Sum, Var, access, bracket, number
from tensorlang.language.grid import Setting, affine_at, count, expand, holds
from tensorlang.language.points import Points, Tuples
from tensorlang.language.predicates import FALSE, TRUE, Related, Relation, at_most, conjunction, equal, less
from tensorlang.language.types import R, array
from tensorlang.surface.parse import parse
from tests.support import pointwise
from tests.support.programs import random_arguments, random_function, random_sizes

n = atom_affine(Size("n"))


def value(text: str, *args: Any, **kwargs: Any) -> Any:
    return evaluate(parse(text), *args, **kwargs)


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return np.shape(found) == np.shape(wanted) and bool(np.all(np.asarray(found) == np.asarray(wanted)))


@pytest.mark.parametrize(
    ("equation", "text", "args", "wanted"),
    [
        ("4.1", "f(x: R) = x", (3,), 3),
        ("4.2", "f() = 5", (), 5),
        ("4.3", "f(x: R, y: R) = x + y", (3, 4), 7),
        ("4.3, subtraction", "f(x: R, y: R) = x - y", (3, 4), -1),
        ("4.4", "f(x: R, y: R) = x * y", (3, 4), 12),
        ("4.5", "f(x: R, y: R) = max(x, y)", (3, 4), 4),
        ("4.6", "f(x: R, y: R) = (y, (x, x))", (3, 4), (4, (3, 3))),
        ("4.7", "f(x: R) = gen i:3. [i = 1] * x", (3,), [0, 3, 0]),
        ("4.8", "f(x: [n]R) = sum i:n. x[i]", ([3, 4],), 7),
        ("4.9", "f(x: R) = let y = x * x in y + y", (3,), 18),
        ("4.10", "f(x: (R, (R, R))) = fst(snd(x))", ((3, (4, 5)),), 4),
        ("4.11", "f(x: [2][n]R) = x[1]", ([[3, 4], [5, 6]],), [5, 6]),
        ("4.12", "f(x: [n]R) = gen i:n. [i > 0] * x[i]", ([3, 4],), [0, 4]),
        ("4.12, an array", "f(x: [n]R) = gen i:2. [i = 1] * x", ([3, 4],), [[0, 0], [3, 4]]),
        ("4.13 to 4.17", "f(x: [2*n + 1]R) = gen i:n. x[2*i - n + n + 1]", ([3, 4, 5, 6, 7],), [4, 6]),
        ("4.18", "f() = gen i:4. ([i < 2] + [i <= 2] + [i = 2])", (), [2, 2, 2, 0]),
        ("4.19", "f() = gen i:4. ([i > 0 and i < 2] + [i = 0 or i > 2])", (), [1, 1, 0, 1]),
        ("4.20", "f(r: rel(n, m)) = gen i:n. sum j:m. [r(i, j)]", ([[True, True], [False, True]],), [2, 1]),
        ("4.21", "f() = gen i:5. [exists k:3. i = 2*k]", (), [1, 0, 1, 0, 1]),
    ],
)
def test_every_equation_of_figures_4_and_5(equation: str, text: str, args: tuple[Any, ...], wanted: Any) -> None:
    assert same(value(text, *args), wanted)
    exact = value(text, *args, exact=True)
    assert same(exact, wanted)
    assert all(isinstance(x, Fraction) for leaf in to_leaves(parse(text).type, exact) for x in np.ravel(leaf))


def test_a_sum_of_no_terms_is_a_floating_point_number() -> None:
    f = parse("f(x: [n]R) = fold t:n with s = (sum i:n. [n = 1] * x[i]). s + x[t]")
    assert evaluate(f, [0.5, 0.25]) == 0.75
    assert evaluate(f, [0.5, 0.25], exact=True) == Fraction(3, 4)


def test_a_relation_is_false_outside_its_range() -> None:
    text = "f(r: rel(n)) = gen i:n + 2. [r(i - 1)]"
    assert same(value(text, np.array([True, False, True])), [0, 1, 0, 1, 0])


def test_a_relation_may_be_sparse() -> None:
    text = "f(x: [n]R, r: rel(n, m)) = gen j:m. sum i:n. [r(i, j)] * x[i]"
    r = np.array([[True, False, True], [True, False, False]])
    for data in (r, scipy.sparse.csr_matrix(r), scipy.sparse.coo_array(r)):
        assert same(value(text, [3, 4], data), [7, 0, 3])


def test_a_large_sparse_relation_is_walked_through_not_searched() -> None:
    size = 1_000_000
    r = scipy.sparse.coo_array((np.ones(3), ([1, 5, 5], [2, 7, size - 1])), shape=(size, size))
    text = "f(x: [n]R, r: rel(n, m)) = sum i:n, j:m. [r(i, j)] * x[i]"
    assert value(text, np.arange(size), r) == 11


@pytest.mark.parametrize("text", ["gen i:n. [i > 0] * log(x[i])", "gen i:n. [i > 0] * (1 / x[i])"])
def test_a_false_bracket_hides_what_a_scalar_function_can_not_take(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = value(f"f(x: [n]R) = {text}", [0.0, 1.0, 2.0])
    assert found[0] == 0 and np.isfinite(found).all()
    assert same(value("f(x: [n]R) = gen i:n. [i > 0] * (1 / x[i])", [0, 1, 2], exact=True), [0, 1, Fraction(1, 2)])


def test_a_scalar_function_is_not_called_under_a_false_bracket() -> None:
    assert value("f(x: R) = [exists k:3. k > 5] * log(x)", -1.0) == 0
    assert value("f(x: [n]R) = sum i:n. [i < 0] * sin(x[i])", [Fraction(1)], exact=True) == 0


def test_a_false_bracket_hides_an_access_out_of_bounds() -> None:
    assert same(value("f(x: [n]R) = gen i:n. [i > 0] * x[i - 1]", [3, 4, 5]), [0, 3, 4])


def test_an_access_out_of_bounds_under_a_true_bracket_is_an_error() -> None:
    x, i, place = Var("x", array((n,), R)), Index("i"), PythonLine("program.py", 3)
    body = Gen(i, n, bracket(less(constant(1), atom_affine(i)), Access(x, atom_affine(i) - n, place)))
    f = Function("f", (x,), body)
    with pytest.raises(OutOfBounds) as caught:
        evaluate(f, np.zeros(4))
    assert caught.value.message == "the access [i - n] reads element -2 of x at i = 2, n = 4, where it has 4 elements"
    assert caught.value.witness == {"i": 2, "n": 4} and caught.value.place is place
    assert same(evaluate(f, np.zeros(2)), [0, 0])


def test_let_and_gen_are_strict_but_not_under_a_false_bracket() -> None:
    text = "f(x: R) = let y = 1 / x in [{p}] * 3"
    with pytest.raises(EvaluationError, match=r"recip\(0\) does not exist"):
        value(text.format(p="1 = 2"), 0, exact=True)
    assert value("f(x: R) = [exists k:0. k = k] * (let y = 1 / x in 3 + y)", 0, exact=True) == 0
    with pytest.raises(EvaluationError):
        value("f(x: [2]R) = (gen i:2. 1 / x[i])[1]", [0, 1], exact=True)
    assert value("f(x: R) = sum i:0. 1 / x", 0, exact=True) == 0


def test_division_by_zero_follows_floating_point() -> None:
    assert value("f(x: R) = 1 / x", 0.0) == math.inf
    assert math.isnan(value("f(x: R) = log(x)", -1.0))


def test_exact_values_stay_exact() -> None:
    third = Fraction(1, 3)
    found = value("f(x: R) = (x + 1/7)^30 - x", third, exact=True)
    assert found == (third + Fraction(1, 7)) ** 30 - third
    big = np.array([10**40, Fraction(1, 10**40)], object)
    assert value("f(x: [2]R) = x[0] * x[1] + x[0]", big) == 1 + 10**40


def test_a_function_without_an_exact_value_is_named() -> None:
    with pytest.raises(EvaluationError, match="sin has no exact value"):
        value("f(x: R) = sin(x)", 1, exact=True)


def test_floating_point_is_double_whatever_comes_in() -> None:
    found = value("f(x: [n]R) = gen i:n. x[i] + 1/3", np.ones(2, np.float32))
    assert found.dtype == np.float64 and found[0] == 1 + 1 / 3


def test_numbers_that_are_not_real_are_refused() -> None:
    with pytest.raises(ArgumentError, match="x must hold real numbers, found dtype complex128"):
        value("f(x: R) = x", 1j)
    with pytest.raises(ArgumentError, match="x must hold fractions"):
        value("f(x: R) = x", math.nan, exact=True)


@pytest.mark.parametrize("exact", [False, True])
def test_empty_arrays_work_everywhere(exact: bool) -> None:
    text = """
    f(x: [n][m](R, R)) =
      let y = gen i:n. sum j:m. fst(x[i, j]) in
      (sum i:n. y[i] * y[i], (gen j:m. sum i:n. snd(x[i, j]), gen i:n, j:m, k:n. y[i] * y[k]))
    """
    for shape in ((0, 0), (0, 3), (3, 0)):
        x = np.ones(shape)
        total, (columns, cube) = value(text, (x, x), exact=exact)
        assert total == 0 and same(columns, np.zeros(shape[1])) and cube.shape == (shape[0], shape[1], shape[0])


def test_a_binder_with_a_negative_size_ranges_over_nothing() -> None:
    assert value("f(x: [n]R) = sum i:n - 3. x[i + 3]", [1]) == 0
    assert value("f(x: [n]R) = gen i:n - 3. x[i + 3]", [1]).shape == (0,)


def test_results_are_unpacked_as_the_function_says() -> None:
    f = parse("f(x: R) = (x, (x + 1, x + 2))")
    assert evaluate(Function(f.name, f.params, f.body, (None, None, None)), 1) == (1, 2, 3)


def test_an_index_bound_again_hides_the_outer_one() -> None:
    x, i, y = Var("x", array((n,), R)), Index("i"), Var("y", R)
    element = Access(x, atom_affine(i), None)
    inner = Sum(i, n, Mul(y, element))  # y keeps the outer i's element, x[i] takes the inner one's
    f = Function("f", (x,), Gen(i, n, Let(y, element, Add(inner, Mul(y, element), 1))))
    v = np.array([1.0, 2.0, 4.0])
    assert same(evaluate(f, v), v * v.sum() + v * v)


def test_a_variable_bound_twice_keeps_its_values_apart() -> None:
    x, y = Var("x", R), Var("y", R)
    body = Mul(y, y)
    inner = Let(y, Add(y, number(1), 1), body)
    for e in (Add(Let(y, x, body), Let(y, number(5), body), 1), Let(y, x, Add(body, inner, 1))):
        assert evaluate(Function("f", (x,), e), 3.0) == pytest.approx(9 + (25 if isinstance(e, Add) else 16))


def test_a_shared_expression_is_evaluated_once_for_each_point() -> None:
    x, i = Var("x", array((n,), R)), Index("i")
    e: Expr = Access(x, atom_affine(i), None)
    for k in range(40):
        low, high = at_most(constant(k % 5), atom_affine(i)), at_most(atom_affine(i), constant(k % 7))
        e = Mul(e, e) if k % 2 else Add(bracket(low, e), bracket(high, e), 1)
    f = Function("f", (x,), Gen(i, n, e))
    assert evaluate(f, np.full(9, 1e-3)).shape == (9,)


def test_ten_thousand_lets_and_a_nest_of_two_thousand_are_no_trouble() -> None:
    x = Var("x", R)
    names = [x, *(Var(f"x{k}", R) for k in range(10_000))]
    e: Expr = names[-1]
    for before, var in zip(names[-2::-1], names[:0:-1], strict=True):
        e = Let(var, Add(before, number(1), 1), e)
    assert evaluate(Function("f", (x,), e), 1) == 10_001
    e = x
    for _ in range(2_000):
        e = call("relu", Bracket(TRUE, e))
    assert evaluate(Function("f", (x,), e), 1) == 1


def test_a_convolution_of_an_image_is_fast() -> None:
    f = parse("f(x: [n + a - 1][m + b - 1]R, w: [a][b]R) = gen i:n, j:m. sum k:a, l:b. x[i + k, j + l] * w[k, l]")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(68, 68)), rng.normal(size=(5, 5))
    found = evaluate(f, x, w)
    wanted = sum(x[p : p + 64, q : q + 64] * w[p, q] for p in range(5) for q in range(5))
    assert np.allclose(found, wanted)


def test_a_value_too_large_for_memory_is_a_limit_error() -> None:
    with pytest.raises(LimitError, match="takes looking at"):
        value("f(x: [n]R) = gen i:n, j:n. x[i] * x[j]", np.zeros(5_000))
    with pytest.raises(LimitError, match="too large"):
        value("f(x: [n]R) = gen i:n, j:n. x[i] * x[j]", np.zeros(20_000))


def test_a_sum_looks_only_at_the_points_of_its_bracket() -> None:
    text = "f(x: [n]R, y: [n]R) = sum i:n, j:n, k:n. [i = j and j - 1 <= k <= j] * x[i] * y[k]"
    size = 100_000
    assert value(text, np.ones(size), np.ones(size)) == 2 * size - 1


@pytest.mark.parametrize("block", range(5))
def test_random_programs_mean_what_they_mean_point_by_point(block: int) -> None:
    for seed in range(40 * block, 40 * block + 40):
        rng = random.Random(seed)
        f = random_function(rng)
        sizes = random_sizes(f, rng)
        values = random_arguments(f, rng, sizes)
        found = evaluate(f, exact=True, **values, **sizes)
        assert same(found, pointwise.meaning(f, sizes, values)), f"seed {seed}: {f}"


class TestPoints:
    """Figure 5 by itself."""

    i, j = Index("i"), Index("j")

    def table(self, *rows: tuple[int, int]) -> Points:
        columns = np.array(rows, np.int64).reshape(-1, 2).T
        return Points({self.i: columns[0], self.j: columns[1]}, len(rows))

    def test_huge_coefficients_do_not_overflow(self) -> None:
        i, j = atom_affine(self.i), atom_affine(self.j)
        setting, points = Setting({Size("n"): 10**17}), self.table((10**17, 0), (3, 1))
        a = i * 10**17 - j * 10**30 + n
        assert list(affine_at(a, points, setting)) == [10**34 + 10**17, 3 * 10**17 - 10**30 + 10**17]
        assert list(holds(at_most(constant(0), a), points, setting)) == [True, False]

    def test_every_way_of_searching_finds_the_same_points(self) -> None:
        rng = random.Random(7)
        r = Relation("r", (constant(4), constant(5)))
        data = np.array([[rng.random() < 0.4 for _ in range(5)] for _ in range(4)])
        setting = Setting({Size("n"): 5}, {r: Tuples(data)})
        i, j = atom_affine(self.i), atom_affine(self.j)
        for _ in range(300):
            a, b = (i * rng.randint(-2, 2) + j * rng.randint(-2, 2) + rng.randint(-3, 3) for _ in range(2))
            options = [equal(a, constant(0)), at_most(b, n), Related(r, (a, b)), Related(r, (i, j)), less(a, b)]
            p = conjunction(rng.sample(options, 2))
            found, rows = expand(Points({}, 2), [(self.i, n), (self.j, constant(6))], p, setting)
            everywhere = self.table(*((k, m) for k in range(5) for m in range(6)))
            true = everywhere.take(holds(p, everywhere, setting))
            wanted = sorted(zip(true.columns[self.i], true.columns[self.j], strict=True))
            assert count([(self.i, n), (self.j, constant(6))], p, setting) == len(wanted)
            for row in (0, 1):
                one = found.take(rows == row)
                assert sorted(zip(one.columns[self.i], one.columns[self.j], strict=True)) == wanted

    def test_false_is_true_nowhere(self) -> None:
        assert count([(self.i, constant(10))], FALSE, Setting({})) == 0
        assert count([], TRUE, Setting({})) == 1


def test_accesses_to_arrays_of_arrays_read_one_element_at_a_time() -> None:
    x = Var("x", array((n, n), R))
    i, j = Index("i"), Index("j")
    f = Function("f", (x,), Gen(i, n, Gen(j, n, access(x, atom_affine(j), atom_affine(i)))))
    v = np.arange(9.0).reshape(3, 3)
    assert same(evaluate(f, v), v.T)
