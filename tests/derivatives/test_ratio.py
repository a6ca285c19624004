"""How large the ratio of an adjoint's cost to its program's cost gets, inputs and outputs counted."""

import random
from fractions import Fraction

import pytest

import tensorlang as tl
from tensorlang.costs.ratio import Supremum, numbers_in, supremum
from tests.support.programs import random_function, random_sizes


def sides(f: tl.Function) -> tuple[tl.CostPolynomial, tl.CostPolynomial]:
    """The costs of the adjoint and the program, where both count the output and the inputs by which we
    differentiate."""
    adjoint = tl.adjoint(f)
    others = numbers_in(adjoint, [f.type, *(v.type for v in f.variables)])
    return tl.cost_polynomial(adjoint) + others, tl.cost_polynomial(f) + others


def ratio(text: str) -> Supremum:
    return supremum(*sides(tl.parse(text)))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f(x: R) = x * x", "4/3, at no size matters"),
        ("f(x: [n]R) = sum i:n. x[i]", "1, at n = 1"),
        ("f(x: R) = gen i:n. x", "2, approached as n grows"),
        (
            "f(a: [n][k]R, b: [k][m]R) = gen i:n, j:m. sum l:k. a[i, l] * b[l, j]",
            "5/2, approached as k = 1, m grows, n grows",
        ),
        (
            "f(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
            "2, approached as m grows, n grows",
        ),
        ("f(x: [n]R) = gen i:n, j:n. [2*j <= i] * (x[i] * x[j])", "5/3, at n = 1"),
    ],
)
def test_the_supremum_is_found_with_where_it_is(text: str, wanted: str) -> None:
    assert str(ratio(text)) == wanted


def test_where_sizes_are_ordered_the_larger_one_is_the_smaller_and_the_rest() -> None:
    found = ratio("f(x: [n]R, y: [m]R) = gen i:n - m, j:m. x[i] * y[j]")
    assert found.is_exact and found.most is not None and found.most <= 4


def test_repeated_squaring_comes_close_to_the_bound() -> None:
    for depth in range(1, 6):
        body = "x"
        for _ in range(depth):
            body = f"let y = {body} in y * y"
        found = ratio(f"f(x: R) = {body}")
        assert found.is_exact and found.most is not None and found.most <= 4
        assert found.least >= Fraction(3 * depth + 1, depth + 2)


def test_no_ratio_of_random_programs_is_above_its_supremum() -> None:
    told = 0
    for seed in range(50):
        rng = random.Random(seed)
        f = random_function(rng)
        if not f.variables or len(f.params) > len(f.variables):
            continue
        above, below = sides(f)
        found = supremum(above, below)
        told += found.is_exact
        for _ in range(4):
            sizes = {name: max(n, 1) for name, n in random_sizes(f, rng).items()}
            try:
                value, other = below(**sizes), above(**sizes)
            except tl.ArgumentError:  # an axis of the result would be negative
                continue
            if value and found.most is not None:
                assert other <= found.most * value, f"seed {seed} at {sizes}: {f}"
    assert told > 20


def test_of_data_the_supremum_is_bounded() -> None:
    found = ratio("f(u: [C]R, y: [N]idx(C)) = gen k:N. u[y[k]]")
    assert not found.is_exact and found.most == 2
    assert str(found).startswith("between 0")
