"""Figure 6: the cost of a program."""

import random
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tensorlang.costs.cost import charges, cost
from tensorlang.errors import ArgumentError, LimitError
from tensorlang.language.affine import Index, Size, atom_affine, constant
from tensorlang.language.function import Function
from tensorlang.language.grammar import Access, Add, Expr, Gen, Let, Mul, Sum, Var, bracket
from tensorlang.language.predicates import at_most, equal
from tensorlang.language.types import R, array
from tensorlang.surface.parse import parse
from tests.support import pointwise
from tests.support.programs import random_arguments, random_function, random_sizes, relation_data

n = atom_affine(Size("n"))


def counted(text: str, **sizes: Any) -> int:
    return cost(parse(text), **sizes)


@pytest.mark.parametrize(
    ("equation", "text", "wanted"),
    [
        ("4.22", "f(x: R) = x", 0),
        ("4.23", "f() = 5", 0),
        ("4.24", "f(x: R) = x + 1", 1),
        ("4.24, both brackets true", "f(x: [n]R) = gen i:n. [i < 4] * x[i] + [2 <= i] * x[i]", 2),
        ("4.24, one bracket", "f(x: [n]R) = gen i:n. [i < 4] * x[i] + x[i]", 4),
        ("4.24, nested brackets", "f(x: [n]R) = gen i:n. [i < 4] * [i > 0] * x[i] + [i < 2] * x[i]", 1),
        ("4.24, subtraction", "f(x: [n]R) = gen i:n. [i < 4] * x[i] - [i < 2] * x[i]", 2),
        ("4.24, subtraction from nothing", "f(x: [n]R) = gen i:n. [i < 0] * x[i] - [i < 2] * x[i]", 2),
        ("4.25", "f(x: R) = x * (x * 3)", 2),
        ("4.25, a sign", "f(x: R) = -x", 1),
        ("4.26", "f(x: R) = sin(x + 1)", 2),
        ("4.26, a declared cost", "f(x: R) = erf(x) + x^5", 2 + 3 + 1),
        ("4.27", "f(x: R) = (x + 1, x + 2)", 2),
        ("4.28", "f(x: R) = fst((x + 1, x + 2))", 2),
        ("4.29", "f(x: [n]R) = gen i:n. x[i] + 1", 6),
        ("4.30", "f(x: [n]R) = sum i:n. x[i]", 5),
        ("4.30, of sums", "f(x: [n]R) = sum i:n, j:n. x[i]", 35),
        ("4.30, a bracket", "f(x: [n]R) = sum i:n. [2 <= i] * x[i]", 3),
        ("4.30, no point", "f(x: [n]R) = sum i:n. [i < 0] * x[i]", 0),
        ("4.30, an empty range", "f(x: [n]R) = gen i:n. sum j:n - 6. x[j] * 2", 0),
        ("4.30, jointly through brackets", "f(x: [n]R) = sum i:n. [i > 2] * sum j:n. [j <= i] * x[j]", 14),
        ("4.30, not through an operation", "f(x: [n]R) = sum i:n. 2 * sum j:n. x[j]", 5 + 6 * (1 + 5)),
        ("4.31", "f(x: [n + 3]R) = (gen i:n + 3. x[i] + 1)[2]", 9),
        ("4.32", "f(x: R) = let y = x * x in y + y", 2),
        ("4.32, an unused value", "f(x: R) = let y = x * x in 1", 1),
        ("4.33", "f(x: [n]R) = gen i:n. [i < 0] * (x[i] * x[i])", 0),
        ("4.34", "f(x: [n]R) = gen i:n. [i < 2] * (x[i] * x[i])", 2),
    ],
)
def test_every_equation_of_figure_6(equation: str, text: str, wanted: int) -> None:
    f = parse(text)
    assert cost(f, **{s.name: 6 for s in f.sizes}) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f() = gen i:3. [i = 0] * 5", 0),
        ("f(x: [6]R) = sum j:6. [j = 0] * x[j]", 0),
        ("f(x: [6]R) = gen i:6. sum j:6. [i = j] * x[j]", 0),
        ("f(x: [6]R) = gen i:6. tanh(x[i])", 6),
        # the derivative of tanh is within the bound since a subtraction is one operation
        ("f(y: R, t: R) = (1 - y * y) * t", 3),
    ],
)
def test_what_the_rules_say_of_their_examples(text: str, wanted: int) -> None:
    assert counted(text) == wanted


def test_programs_everyone_knows() -> None:
    matmul = "f(a: [n][k]R, b: [k][m]R) = gen i:n, j:m. sum l:k. a[i, l] * b[l, j]"
    assert counted(matmul, n=4, k=5, m=6) == 4 * 6 * (2 * 5 - 1)
    assert counted(matmul, n=4, k=0, m=6) == 0
    loss = """
    f(x: [n + m - 1]R, w: [m]R, z: [n]R) =
      let y = gen i:n. sum j:m. x[i + j] * w[j] in sum k:n. (y[k] - z[k])^2
    """
    assert counted(loss, n=100, m=7) == 100 * (2 * 7 - 1) + (3 * 100 - 1)
    trace = "f(x: [n][n]R) = sum i:n, j:n. [i = j] * x[i, j]"
    assert counted(trace, n=50) == 49


def test_the_sum_of_products_in_ssa_form_costs_what_it_stands_for() -> None:
    text = """
    f(a: [n][n]R, b: [n][n]R) =
      gen i:n, j:n. sum k:n, p:n, q:n, r:n, s:n. [i = p and k = q and k = r and j = s] * (a[p, q] * b[r, s])
    """
    assert counted(text, n=10**5) == 10**10 * (2 * 10**5 - 1)


def test_a_count_is_exact_however_large() -> None:
    text = "f(x: [n]R, y: [m]R) = gen i:n, j:m. x[i] * y[j]"
    assert counted(text, n=10**6, m=10**6) == 10**12
    assert counted(text, n=10**60, m=3) == 3 * 10**60
    assert counted("f(x: [n]R) = gen i:n, j:n. [i < j] * (x[i] * x[j])", n=10**5) == 10**5 * (10**5 - 1) // 2
    assert counted("f(x: [n]R) = gen i:n. [5 <= i] * (x[i] * 2)", n=10**40) == 10**40 - 5


def test_conditions_on_different_indices_are_counted_apart() -> None:
    image = """
    f(x: [n][n]R, w: [m][m]R) =
      gen i:n, j:n. sum k:m, l:m. [0 <= i - k and 0 <= j - l] * x[i - k, j - l] * w[k, l]
    """
    size, kernel = 100_000, 9
    pairs = sum(min(i + 1, kernel) for i in range(size))
    assert counted(image, n=size, m=kernel) == 2 * pairs * pairs - size * size
    assert counted("f(x: [n]R) = gen i:n, j:n. [i < 5] * x[i] + [j < 7] * x[j]", n=10**6) == 35


def test_points_that_comparisons_tie_together_are_counted_in_closed_form() -> None:
    text = "f(x: [n]R) = gen i:n, j:n, k:n. [i + j < 2*k and j < i + k] * (x[i] * x[j])"
    i, j, k = np.ogrid[:40, :40, :40]
    assert counted(text, n=40) == np.count_nonzero((i + j < 2 * k) & (j < i + k))
    # the number is a quasi-polynomial of degree 3 whose coefficients have period 6 in n
    samples = [counted(text, n=10**6 + 6 * step) for step in range(5)]
    assert np.diff(np.array(samples, object), 4).tolist() == [0]


def test_more_points_of_data_than_memory_holds_are_a_limit_error() -> None:
    text = "f(x: [n]R, y: [n]idx(n)) = gen i:n, j:n, k:n. [y[i] + j < 2*y[k] and j < i + y[k]] * (x[i] * x[j])"
    with pytest.raises(LimitError, match="takes looking at"):
        counted(text, y=np.arange(100_000))


def test_each_element_of_an_index_array_is_looked_up_once() -> None:
    size = 10**6
    y = np.arange(size) * 7 % 1000
    embedding = "f(u: [N][d]R, y: [N]idx(C)) = gen i:C, j:d. sum k:N. [i = y[k]] * u[k, j]"
    assert counted(embedding, C=size, d=10**9, y=y) == 10**9 * (size - 1000)
    both = "f(u: [N]R, y: [N]idx(n), z: [N]idx(n)) = gen i:n, j:n. sum k:N. [i = y[k] and j = z[k]] * u[k]"
    z = np.arange(size) % 500
    assert counted(both, n=1000, y=y, z=z) == size - len(set(zip(y.tolist(), z.tolist(), strict=True)))


def test_chosen_points_are_known_to_satisfy_their_condition() -> None:
    text = """
    f(x: [n][n]R) =
      let k = gen i:n. argmax j:n where j <= i. x[i, j] in
      gen i:n, j:n. [j = k[i] and j <= i] * (x[i, j] * x[i, j])
    """
    assert counted(text, n=10**9) == 10**9 * (10**9 - 1) // 2 + 10**9


def test_windows_that_never_meet_are_not_searched() -> None:
    text = """
    f(x: [2*n]R, y: [n]R) =
      let k = gen i:n. argmax j:2. x[2*i + j] in
      gen i:2*n. sum l:n. [i = 2*l + k[l]] * y[l]
    """
    assert counted(text, n=10**9) == 10**9


def test_relations_count_by_their_data() -> None:
    text = "f(x: [m]R, r: rel(n, m)) = gen i:n. sum j:m. [r(i, j)] * x[j]"
    r = np.array([[True, True, True], [False, False, False], [True, False, False]])
    assert counted(text, r=r) == 2
    assert counted(text, n=3, m=3, r=scipy.sparse.csr_matrix(r)) == 2
    assert cost(parse(text), {"r": r}) == 2
    size = 10**6
    ones = scipy.sparse.coo_array((np.ones(4), ([0, 0, 0, 7], [5, 6, size - 1, 3])), shape=(size, size))
    assert counted(text, r=ones) == 2


def test_relations_without_data_and_wrong_sizes_are_refused() -> None:
    text = "f(x: [m]R, r: rel(n, m)) = gen i:n. sum j:m. [r(i, j)] * x[j]"
    with pytest.raises(ArgumentError, match="needs the data of the relation r"):
        counted(text, n=3, m=3)
    with pytest.raises(ArgumentError, match="r has shape"):
        counted(text, n=3, m=4, r=np.ones((3, 3), bool))
    with pytest.raises(ArgumentError, match=r"n can't be read off"):
        counted("f(x: [n]R) = sum i:n. x[i]")


def test_each_use_of_a_shared_expression_costs() -> None:
    x = Var("x", R)
    e: Expr = x
    for _ in range(100):
        e = Mul(e, e)
    assert cost(Function("f", (x,), e)) == 2**100 - 1


def test_sharing_under_brackets_is_counted_without_going_through_every_path() -> None:
    x, i = Var("x", array((n,), R)), Index("i")
    e: Expr = Access(x, atom_affine(i), None)
    per_index = [0] * 9
    for k in range(60):
        low, high = k % 5, k % 7
        both = (at_most(constant(low), atom_affine(i)), at_most(atom_affine(i), constant(high)))
        e = Add(bracket(both[0], e), bracket(both[1], e), 1)
        per_index = [c * ((j >= low) + (j <= high)) + (low <= j <= high) for j, c in enumerate(per_index)]
    assert cost(Function("f", (x,), Gen(i, n, e)), n=9) == sum(per_index)
    assert len(charges(Gen(i, n, e))) < 100


def test_an_index_bound_again_hides_the_outer_one() -> None:
    x, i = Var("x", array((n,), R)), Index("i")
    element = Access(x, atom_affine(i), None)
    inner = Sum(i, n, bracket(at_most(atom_affine(i), constant(1)), Mul(element, element)))
    e = Gen(i, n, bracket(equal(atom_affine(i), constant(0)), inner))
    assert cost(Function("f", (x,), e), n=5) == 3


def test_a_chain_of_lets_is_one_charge() -> None:
    x = Var("x", R)
    names = [x, *(Var("y", R) for _ in range(4_000))]
    e: Expr = names[-1]
    for before, var in reversed(list(pairwise(names))):
        e = Let(var, Mul(before, x), e)
    assert cost(Function("f", (x,), e)) == 4_000 and len(charges(e)) == 1


@pytest.mark.parametrize("block", range(5))
def test_random_programs_cost_what_they_cost_point_by_point(block: int) -> None:
    for seed in range(60 * block, 60 * block + 60):
        rng = random.Random(seed)
        f = random_function(rng, chooses=seed % 3 == 2)
        sizes = random_sizes(f, rng)
        data = relation_data(f, random_arguments(f, rng, sizes))
        try:
            found = cost(f, data, **sizes)
        except ArgumentError as error:
            assert "inside of a gen" in str(error)
            continue
        assert found == pointwise.cost(f, sizes, data), f"seed {seed}: {f}"


COMPARISONS = ("i = a[t]", "i < a[t]", "a[t] < i", "i = b[t]", "b[t] <= i + 1", "a[t] = b[t]", "i = 2*t", "a[t] != i")


@pytest.mark.parametrize("seed", range(12))
def test_unions_of_comparisons_with_data_are_counted_as_point_by_point(seed: int, monkeypatch: Any) -> None:
    rng = random.Random(seed)
    alternatives = lambda: [" and ".join(rng.sample(COMPARISONS, rng.randint(1, 2))) for _ in range(rng.randint(2, 4))]
    asked = " and ".join(f"({' or '.join(f'({part})' for part in alternatives())})" for _ in range(rng.randint(1, 2)))
    f = parse(f"f(x: [n]R, a: [T]idx(n), b: [T]idx(n)) = sum t:T, i:n. [{asked}] * sin(x[i])")
    n, steps = rng.randint(3, 9), rng.randint(2, 9)
    given = {name: np.array([rng.randrange(n) for _ in range(steps)]) for name in "ab"}
    found = []
    for large in (0, 1 << 40):
        monkeypatch.setattr(import_module("tensorlang.costs.counter"), "_LARGE", large)
        found.append(cost(f, {"n": n, "T": steps, **given}))
    assert found[0] == found[1]
