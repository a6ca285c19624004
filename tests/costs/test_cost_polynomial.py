"""Costs for all sizes: the counts of Figure 6 as piecewise quasi-polynomials."""

import random
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner

import tensorlang as tl
from tensorlang.cli import main
from tensorlang.costs.counting import by_barvinok, number_of_points
from tensorlang.costs.domains import in_one_order
from tensorlang.costs.polynomial import Polynomial, affine
from tensorlang.costs.quasi import quotient, reduced, unrounded
from tensorlang.language.affine import Affine, Index, Size, atom_affine, constant
from tensorlang.language.grid import Setting, count
from tensorlang.language.predicates import (
    TRUE,
    Exists,
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
)
from tensorlang.sets.isl import counts_everything
from tensorlang.sets.solve import ranges_predicate
from tests.support.programs import random_arguments, random_function, random_sizes, relation_data

n, m = Size("n"), Size("m")
N, M = atom_affine(n), atom_affine(m)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f() = 5", "0"),
        ("f(x: R) = x * x + 1", "2"),
        ("f(x: [n]R) = gen i:n. x[i] * 2", "n"),
        ("f(x: [n]R) = sum i:n. x[i]", "[0 < n] * (n - 1)"),
        ("f(x: [n]R) = 1 + sum i:n. x[i]", "[0 < n] * (n)\n+ [n = 0] * (1)"),
        ("f(a: [n][k]R, b: [k][m]R) = gen i:n, j:m. sum l:k. a[i, l] * b[l, j]", "[0 < k] * (2*k*m*n - m*n)"),
        ("f(x: [n]R) = gen i:n, j:n. [i < j] * (x[i] * x[j])", "(n^2 - n)/2"),
        ("f(x: [n]R) = gen i:n, j:n, k:n. [i < j and j < k] * (x[i] * x[k])", "(n^3 - 3*n^2 + 2*n)/6"),
        ("f(x: [n]R) = gen i:n, j:n. [j <= i <= j + 2] * (x[i] * x[j])", "[2 <= n] * (3*n - 3)\n+ [n = 1] * (1)"),
        ("f(x: [n]R) = gen i:n. [exists j:n. i = 2*j] * (x[i] * 2)", "n - floor(n/2)"),
        ("f(x: [n]R) = gen i:n, j:n. [3*i = 2*j] * (x[i] * x[j])", "floor((n + 2)/3)"),
        ("f(x: [n]R) = gen i:n, j:n. [2*j <= i] * (x[i] * x[j])", "(n - floor(n/2))*(floor(n/2) + 1)"),
        ("f(x: [n]R, y: [m]R) = gen i:n - m. x[i] * 2", "[m < n] * (-m + n)"),
        ("f(x: [n]R, y: [m]R) = gen i:n, j:m. [i = j] * (x[i] * y[j])", "[m < n] * (m)\n+ [n <= m] * (n)"),
        ("f(x: [m]R, E: rel(n, m)) = gen i:n. sum j:m. [E(i, j)] * x[j] * x[j]", None),
        ("f(u: [N][d]R, y: [N]idx(C)) = gen i:C, j:d. sum k:N. [i = y[k]] * u[k, j]", None),
        ("f(u: [N]R, y: [N]idx(C)) = gen i:N, j:C. [j = y[i]] * (u[i] * 2)", "N"),
    ],
)
def test_costs_read_as_they_would_by_hand(text: str, wanted: str | None) -> None:
    f = tl.parse(text)
    found = tl.cost_polynomial(f)
    if wanted is None:
        wanted = {
            "E": "2*nnz(E) - points(i0:n. exists k0:m. E(i0, k0))",
            "y": "N*d - d*points(i0:C. exists k0:N. i0 = y[k0])",
        }[f.params[1].name]
    assert str(found) == wanted or found == tl.read_cost(wanted, f)


def agree(f: tl.Function, rng: random.Random, times: int, reads_back: bool = True) -> None:
    """Assert that the polynomial equals the cost at random sizes, and can be read back from its text."""
    polynomial = tl.cost_polynomial(f)
    assert not reads_back or str(tl.read_cost(str(polynomial), f)) == str(polynomial)
    for _ in range(times):
        sizes = random_sizes(f, rng)
        data = relation_data(f, random_arguments(f, rng, sizes))
        try:
            wanted = tl.cost(f, data, **sizes)
        except tl.EmptyExtremum:
            continue
        assert polynomial(data, **sizes) == wanted, f"{sizes}: {f}"


def check(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        chooses = seed % 4 == 3
        f = random_function(rng, chooses=chooses)
        if chooses:
            f = tl.let_lift(f)  # choices within a gen have no name by which a cost could be stated
        # nor do two index arrays of the same name
        agree(f, rng, 3, reads_back=not chooses)
        if f.variables:
            agree(tl.adjoint(f), rng, 3, reads_back=not chooses)


@pytest.mark.parametrize("block", range(4))
def test_random_programs_and_their_adjoints_cost_what_is_counted(block: int) -> None:
    check(range(15 * block, 15 * block + 15))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_programs_and_their_adjoints_cost_what_is_counted(block: int, share: int) -> None:
    check(range(10_000 + 100 * block, 10_000 + 100 * block + 100 // share))


def random_condition(rng: random.Random, indices: list[Index], depth: int) -> Predicate:
    if depth and rng.random() < 0.5:
        parts = [random_condition(rng, indices, depth - 1) for _ in range(2)]
        return rng.choice([conjunction, disjunction])(parts)
    if depth and rng.random() < 0.3:
        k = Index("k")
        return Exists(k, rng.choice([N, M, constant(3)]), random_condition(rng, [*indices, k], depth - 1))
    a = sum((atom_affine(i) * rng.choice([-2, -1, 0, 1, 1, 3]) for i in indices), rng.choice([N, M, constant(1)]))
    return rng.choice([equal, at_most, less])(a, constant(rng.randrange(-2, 3)))


def test_points_of_random_conditions_are_counted_exactly() -> None:
    for seed in range(25):
        rng = random.Random(seed)
        indices = [Index(name) for name in "ijl"[: rng.randrange(1, 4)]]
        ranges = {i: rng.choice([N, M, N * 2 - 1, M + 1]) for i in indices}
        p = random_condition(rng, indices, 2)
        cells = number_of_points(ranges, p)
        for size, other in product(range(6), range(5)):
            setting = Setting({n: size, m: other})
            assert evaluated(cells, {n: size, m: other}) == count(list(ranges.items()), p, setting), f"seed {seed}"


def evaluated(cells: Any, sizes: dict[Size, int]) -> Fraction:
    """The sum of the cells that hold, by the definition of a quotient."""

    def at(a: Affine) -> int:
        return a.constant + sum(k * of(x) for x, k in a.terms)

    def of(x: Any) -> int:
        return sizes[x] if isinstance(x, Size) else at(x.numerator) // x.divisor

    def holds(p: Any) -> bool:
        parts = p.parts if hasattr(p, "parts") else (p,)
        return all(at(q.difference) == 0 if hasattr(q, "difference") else at(q.value) >= 0 for q in parts)

    return sum((a.value({x: of(x) for x in a.unknowns}) for p, a in cells if holds(p)), Fraction(0))


def test_quotients_are_what_they_say_however_they_are_written() -> None:
    rng = random.Random(0)
    for _ in range(60):
        k, c, d = rng.randrange(-9, 10), rng.randrange(-9, 10), rng.randrange(1, 6)
        a = quotient(N * k + c, d)
        outer = quotient(a + rng.randrange(3), 2)
        bound = at_most(a, constant(rng.randrange(-3, 4)))
        for size in range(7):
            assert evaluated([(TRUE, affine(a))], {n: size}) == (k * size + c) // d
            assert evaluated([(TRUE, reduced(affine(a) * affine(outer)))], {n: size}) == evaluated(
                [(TRUE, affine(a) * affine(outer))], {n: size}
            )
            one = Polynomial({(): Fraction(1)})
            assert evaluated([(bound, one)], {n: size}) == evaluated([(unrounded(bound), one)], {n: size})


def test_equal_quotients_are_written_alike() -> None:
    half = affine(quotient(N, 2))
    assert affine(quotient(N + 1, 2)) == affine(N) - half
    assert quotient(quotient(N, 2) + 1, 3) is quotient(N + 2, 6)
    assert quotient(N * 2, 4) is quotient(N, 2)
    # where n is even, n / 2 is n - n / 2: products of quotients of the same number become sums
    assert all(monomial.count(x) < 2 for monomial in reduced(half * half).terms for x in monomial if x is not n)


def test_costs_form_a_ring() -> None:
    f = tl.parse("f(x: [n]R, y: [m]R) = gen i:n, j:m. [i <= j] * (x[i] * y[j])")
    g = tl.parse("g(x: [n]R, y: [m]R) = sum i:n, j:m. x[i] * y[j]")
    p, q = tl.cost_polynomial(f), tl.cost_polynomial(g)
    for size, other in product(range(5), range(5)):
        a, b = tl.cost(f, n=size, m=other), tl.cost(g, n=size, m=other)
        assert (p + q)(n=size, m=other) == a + b
        assert (3 * q - p)(n=size, m=other) == 3 * b - a
        assert (p * q)(n=size, m=other) == a * b
    assert p + q == q + p and p * q - q * p == p * 0 and p != q


def test_equal_costs_are_equal_however_they_are_counted() -> None:
    upper = tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n, j:n. [i < j] * (x[i] * x[j])"))
    lower = tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n, j:n. [n <= i + j] * (x[i] * x[j])"))
    assert upper == lower
    even = tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n, j:n. [i = 2*j] * (x[i] * x[j])"))
    odd = tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n, j:n. [i = 2*j + 1] * (x[i] * x[j])"))
    assert even != odd
    assert str(even + odd) == "n"


def test_numbers_of_points_of_data_are_unknowns() -> None:
    text = """
    f(x: [m]R, E: rel(n, m)) =
      let y = gen i:n. sum j:m. [E(i, j)] * x[j] * x[j] in
      gen i:n, j:m. [E(i, j) and i <= j] * (y[i] * x[j])
    """
    f = tl.parse(text)
    cost = tl.cost_polynomial(f)
    wanted = "2*nnz(E) + points(i0:n, i1:m. E(i0, i1) and i0 <= i1) - points(i0:n. exists k0:m. E(i0, k0))"
    assert str(cost) == wanted
    data = scipy.sparse.random_array((7, 9), density=0.3, rng=np.random.default_rng(0)).toarray() > 0
    assert cost(E=data) == tl.cost(f, E=data) == cost(E=data, n=7, m=9)
    with pytest.raises(tl.ArgumentError, match="needs the data of the relation E"):
        cost(n=7, m=9)
    transposed = tl.parse("f(x: [m]R, E: rel(n, m)) = gen j:m, i:n. [E(i, j)] * (x[j] * x[j])")
    assert str(tl.cost_polynomial(transposed)) == "nnz(E)"


def test_growth_is_told_in_words() -> None:
    f = tl.parse("f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]")
    assert tl.cost_polynomial(f).leading == "2*m*n"
    assert tl.cost_polynomial(f).growth == "O(m*n): linear in m, linear in n"
    triangle = tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n, j:n. [2*j <= i] * (x[i] * x[j])"))
    assert (triangle.leading, triangle.growth) == ("n^2/4", "O(n^2): quadratic in n")
    least = tl.cost_polynomial(tl.parse("f(x: [n]R, y: [m]R) = gen i:n, j:m. [i = j] * (x[i] * y[j])"))
    assert least.growth in ("O(m): linear in m", "O(n): linear in n", "O(m + n): linear in m, linear in n")
    data = tl.cost_polynomial(tl.parse("f(x: [n]R, E: rel(n, n)) = sum i:n, j:n. [E(i, j)] * x[i] * x[j]"))
    assert data.growth == "O(nnz(E)): linear in nnz(E)"
    assert tl.cost_polynomial(tl.parse("f(x: R) = x")).growth == "O(1): constant"
    window = tl.parse("f(x: [n]R, y: [w]R) = gen i:n. max j:n where 0 <= i - j < w. x[j]")
    assert tl.cost_polynomial(window).growth == "O(n*w): linear in n, linear in w"


def test_costs_are_expressions_of_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    f = tl.parse("f(x: [n]R, y: [m]R) = 1 + sum i:n, j:m. [2*j <= i] * x[i] * y[j]")
    cost = tl.cost_polynomial(f)
    symbols = {x.name: x for x in cost.expr.free_symbols}
    for size, other in product(range(7), range(5)):
        values = {symbols["n"]: size, symbols["m"]: other}
        assert cost.expr.subs(values) == tl.cost(f, n=size, m=other)
    assert tl.cost_polynomial(tl.parse("f(x: [n]R) = gen i:n. x[i] * 2")).expr == sympy.Symbol(
        "n", integer=True, nonnegative=True
    )


def test_costs_are_shown_in_notebooks() -> None:
    f = tl.parse("f(x: [n]R, E: rel(n, n)) = 1 + (sum i:n. x[i]) + sum i:n. [exists j:n. i = 2*j] * x[i]")
    shown = tl.cost_polynomial(f)._repr_latex_()
    assert shown.startswith(r"$\displaystyle \begin{cases}2 \, n - \left\lfloor \frac{n}{2} \right\rfloor & 0 < n")
    g = tl.parse("f(x: [n]R, E: rel(n, n)) = gen i:n, j:n. [E(i, j)] * (x[i] * x[j]) + x[i]")
    assert r"\mathrm{nnz}(E)" in tl.cost_polynomial(g).latex


@pytest.mark.skipif(counts_everything(), reason="this islpy may count them")
def test_points_too_intricate_to_count_are_an_error_that_says_so() -> None:
    f = tl.parse("f(x: [n]R) = gen i:n, j:n, k:n. [997*i + 991*j <= 983*k] * (x[i] * x[j])")
    with pytest.raises(
        tl.CountingError, match="no closed form was found for the number of points i:n, j:n, k:n"
    ) as caught:
        tl.cost_polynomial(f)
    assert "tensorlang[symbolic]" in str(caught.value)
    assert tl.cost(f, n=20) == np.count_nonzero(
        np.array([997 * i + 991 * j <= 983 * k for i, j, k in product(range(20), repeat=3)])
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2*n +", "expected an index, a size or an integer"),
        ("2*q", "no index or size is called q"),
        ("[n * 2", r"expected a predicate|expected"),
        ("[exists i:n. i = 2] * n", "comparisons of sizes"),
        ("nnz(x)", "expected"),
        ("n / 0", "expected a divisor other than 0"),
        ("n m", "expected an operator or the end"),
        ("(n + [n < 2] * n)", "without brackets"),
    ],
)
def test_other_text_is_no_cost(text: str, message: str) -> None:
    f = tl.parse("f(x: [n]R, E: rel(n, n)) = sum i:n. x[i]")
    with pytest.raises(tl.TensorlangError, match=message):
        tl.read_cost(text, f)


def test_the_command_prints_the_polynomial(tmp_path: Any) -> None:
    program = tmp_path / "f.tl"
    program.write_text("f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]\n")
    result = CliRunner().invoke(main, ["cost", str(program), "--polynomial"])
    assert result.output == "[0 < m] * (2*m*n - n)\nO(m*n): linear in m, linear in n\n"
    refused = CliRunner().invoke(main, ["cost", str(program), "--polynomial", "--size", "n=3"])
    assert refused.exit_code == 2 and "for all sizes" in refused.output


@pytest.mark.skipif(not counts_everything(), reason="needs an islpy with barvinok, which tensorlang[symbolic] is for")
def test_barvinok_counts_the_same_points() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        indices = [Index(name) for name in "ijl"[: rng.randrange(1, 4)]]
        ranges = {i: rng.choice([N, M, N * 2 - 1, M + 1]) for i in indices}
        p = conjunction([ranges_predicate(ranges), random_condition(rng, indices, 2)])
        cells, wanted = by_barvinok(p), number_of_points(ranges, p)
        for size, other in product(range(7), range(6)):
            sizes = {n: size, m: other}
            assert evaluated(cells, sizes) == evaluated(wanted, sizes), f"seed {seed}"


def test_many_indices_of_which_the_same_is_said_have_an_order_at_once() -> None:
    """There are too many orders to list: 14!."""
    n = atom_affine(Size("n"))
    binders = {Index("i"): n for _ in range(14)}
    assert len(in_one_order(binders, TRUE).binders) == 14
