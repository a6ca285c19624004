"""Narrowing, factorisation and assembly: the resulting programs, which never cost more."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.costs.bounds import at_sizes, never_above, points
from tensorlang.costs.polynomial import Polynomial
from tensorlang.language.affine import Affine, Index, Size, atom_affine
from tensorlang.language.predicates import TRUE, at_most
from tensorlang.normal import normal_ssa
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.normal.tidy import tidy
from tensorlang.simplification import passes, simplify_ssa
from tensorlang.simplification.cases import in_cases
from tensorlang.simplification.read_back import read_back
from tests.support.alternatives import random_alternatives
from tests.support.programs import random_arguments, random_function

N, M = atom_affine(Size("n")), atom_affine(Size("m"))
ROW, COLUMN = Index("i"), Index("j")

PRODUCTS = {
    "quadratic form": "f(a: [n][n]R, x: [n]R) = sum i:n, j:n. x[i] * a[i, j] * x[j]",
    "bilinear form": "f(x: [n]R, a: [n][m]R, y: [m]R) = sum i:n, j:m. x[i] * a[i, j] * y[j]",
    "Mahalanobis distance": """f(s: [n][n]R, x: [n]R, mu: [n]R) =
        sum i:n, j:n. (x[i] - mu[i]) * s[i, j] * (x[j] - mu[j])""",
    "product with a vector": "f(a: [p][q]R, b: [q][r]R, x: [r]R) = gen i:p. sum j:q, k:r. a[i, j] * b[j, k] * x[k]",
    "chain": """f(a: [p][q]R, b: [q][r]R, c: [r][s]R) =
        gen i:p, l:s. sum j:q, k:r. a[i, j] * b[j, k] * c[k, l]""",
    "trace of three": "f(a: [p][q]R, b: [q][r]R, c: [r][p]R) = sum i:p, j:q, k:r. a[i, j] * b[j, k] * c[k, i]",
    "scaled dot": "f(a: [n]R, b: [n]R, c: R) = sum i:n. c * a[i] * b[i]",
    "outer sum": "f(a: [n]R, b: [m]R) = sum i:n, j:m. a[i] * b[j]",
    "triangle": "f(l: [n][n]R, x: [n]R) = sum i:n, j:n. [j <= i] * x[i] * l[i, j] * x[j]",
    "band": "f(a: [n][n]R, x: [n]R) = sum i:n, j:n. [i <= j <= i + 1] * x[i] * a[i, j] * x[j]",
    "scaled correlation": "f(x: [n + m]R, w: [m]R, c: R) = gen i:n. sum j:m. c * x[i + j] * w[j]",
    "shared product": """f(l: [k][d]R, t: [n][k]R) = let p = gen i:n, j:k, c:d. t[i, j] * l[j, c] in
        (gen j:k, c:d. sum i:n. p[i, j, c], gen i:n, c:d. sum j:k. p[i, j, c])""",
    "differences": "f(a: [n]R, b: [m]R) = sum i:n, j:m. (a[i] - b[j]) ^ 2",
}


def at(f: tl.Function, values: list[int]) -> dict[str, int]:
    return dict(zip((size.name for size in f.sizes), values, strict=False))


def cheap(f: tl.Function, **sizes: int) -> int:
    return tl.cost(tl.simplify(f), **sizes)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_several_factors_is_never_dearer_and_means_the_same(name: str) -> None:
    f = tl.parse(PRODUCTS[name])
    made = tl.simplify(f)
    rng = random.Random(name)
    for _ in range(30):
        sizes = at(f, [rng.choice((1, 1, 2, 3, 5, 9)) for _ in f.sizes])
        assert tl.cost(made, **sizes) <= tl.cost(f, **sizes), sizes
    values = {x.name: integers(rng, x, sizes) for x in f.variables}
    for a, b in zip(flat(tl.evaluate(made, **values)), flat(tl.evaluate(f, **values)), strict=True):
        np.testing.assert_array_equal(a, b)


def integers(rng: random.Random, x: Any, sizes: dict[str, int]) -> Any:
    shape, kind = [], x.type
    while hasattr(kind, "size"):
        shape.append(kind.size.value({size: sizes[size.name] for size in kind.size.sizes}))
        kind = kind.element
    return np.array([rng.randint(-3, 3) for _ in range(int(np.prod(shape)))], float).reshape(shape)


def flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    ("name", "sizes", "spent"),
    [
        ("quadratic form", {"n": 10}, 2 * 100 - 10 + 2 * 10 - 1),
        ("product with a vector", {"p": 10, "q": 10, "r": 10}, 2 * (2 * 100 - 10)),
        ("trace of three", {"p": 10, "q": 10, "r": 10}, 2 * 1000 - 100 + 2 * 100 - 1),
        ("scaled dot", {"n": 10}, 2 * 10),
        ("outer sum", {"n": 10, "m": 10}, 9 + 9 + 1),
        ("triangle", {"n": 10}, 2 * 55 - 10 + 2 * 10 - 1),
    ],
)
def test_what_does_not_depend_on_an_index_leaves_its_sum(name: str, sizes: dict[str, int], spent: int) -> None:
    assert cheap(tl.parse(PRODUCTS[name]), **sizes) == spent


def test_a_sum_that_no_product_makes_cheaper_stays() -> None:
    f = tl.parse(PRODUCTS["differences"])
    assert str(tl.simplify(f)).split("=", 1)[1] == str(f).split("=", 1)[1]


def test_sizes_that_are_given_choose_the_order_of_a_chain() -> None:
    f = tl.parse(PRODUCTS["chain"])
    wide, thin = {"p": 2, "q": 30, "r": 20, "s": 9}, {"p": 9, "q": 30, "r": 20, "s": 2}
    for here, there in ((wide, thin), (thin, wide)):
        made = tl.simplify(f, **here)
        assert tl.cost(made, **here) < tl.cost(tl.simplify(f, **there), **here)
        assert tl.lower(f, sizes=here).source == tl.lower(made).source


def test_a_product_is_computed_by_each_of_its_readers_where_that_is_cheaper() -> None:
    f, sizes = tl.parse(PRODUCTS["shared product"]), {"n": 10, "k": 10, "d": 10}
    assert cheap(f, **sizes) == 3 * 1000 - 200  # at n = 1 the other way is more expensive
    assert tl.cost(tl.simplify(f, **sizes), **sizes) == 100 - 10 + 100 + 2 * 1000 - 100


def test_sizes_of_other_names_are_refused() -> None:
    with pytest.raises(tl.ArgumentError, match=r"f has no size z; its sizes are p, q, r, s"):
        tl.simplify(tl.parse(PRODUCTS["chain"]), z=3)


def test_a_statement_that_several_read_is_computed_once() -> None:
    f = tl.parse("""f(a: [n][m]R, x: [m]R, y: [n]R) = let b = gen i:n. sum j:m. a[i, j] * x[j] in
        (sum i:n. b[i] * y[i], gen i:n. b[i] * y[i])""")
    assert cheap(f, n=10, m=10) <= 2 * 100 - 10 + 10 + 9


@pytest.mark.parametrize(
    ("text", "spent"),
    [
        ("let c = gen i:n, j:n. sum k:n. a[i, k] * b[k, j] in sum i:n. c[i, i]", lambda n: 2 * n**2 - 1),
        ("let c = gen i:n, j:n. sum k:n. a[i, k] * b[k, j] in gen i:n. c[i, i]", lambda n: 2 * n**2 - n),
        ("let c = gen i:n, j:n. sin(a[i, j]) in [2 < n] * c[0, 2]", lambda n: 1),
        (
            "let c = gen i:n, j:n. sin(a[i, j]) in let d = gen i:n, j:n. cos(c[i, j]) in sum i:n. d[i, i] * d[i, i]",
            lambda n: 2 * n + 2 * n - 1,
        ),
        (
            "let c = gen i:n, j:n. sin(a[i, j]) in (gen i:n. c[i, i], gen i:n. [i + 1 < n] * c[i, i + 1])",
            lambda n: n + n - 1,
        ),
        (
            "let c = gen i:n, j:n. sin(a[i, j]) in gen i:n, j:n. [i <= j <= i + 1] * c[i, j] * b[i, j]",
            lambda n: 2 * (n + n - 1),
        ),
    ],
)
def test_a_statement_computes_only_what_is_read_of_it(text: str, spent: Any) -> None:
    f = tl.parse(f"f(a: [n][n]R, b: [n][n]R) = {text}")
    for n in (3, 7):
        assert cheap(f, n=n) == spent(n)


def test_what_is_read_in_full_anywhere_is_not_computed_twice() -> None:
    f = tl.parse("f(a: [n][n]R) = let c = gen i:n, j:n. sin(a[i, j]) in (c, sum i:n. c[i, i])")
    assert cheap(f, n=5) == 25 + 4


def test_an_adjoint_computes_only_what_it_reads_of_the_program() -> None:
    f = tl.parse("""f(a: [n + 1][n + 1]R, b: [n + 1]R) = let c = gen i:n + 1. sum k:n + 1. a[i, k] * b[k] in
        let d = gen i:n + 1. sin(c[i]) in d[0]""")
    assert tl.cost(tl.adjoint(f), n=9) == 2 * 10 - 1 + 2 + 10 + 10


def test_many_guarded_terms_are_one_flat_sum() -> None:
    k = 40
    f = tl.parse(f"f(x: [n + {k}]R) = " + " + ".join(f"sin(x[{i}])" for i in range(0, k, 2)))
    adjoint = tl.adjoint(f)
    assembly = str(adjoint).rsplit(" in\n", 1)[1]
    assert assembly.count("[i = ") == k // 2
    assert " or " not in assembly
    assert "([" not in assembly
    assert tl.cost(adjoint, n=5) == 2 * (k // 2)


def test_many_reads_of_one_array_share_the_cotangent_s_bracket() -> None:
    f = tl.parse("f(x: [n + 50]R) = " + " + ".join(f"x[{i}]" for i in range(0, 50, 2)))
    adjoint = tl.adjoint(f)
    assert "let" not in str(adjoint)
    assert tl.cost(adjoint, n=5) == 0
    np.testing.assert_array_equal(tl.evaluate(adjoint, np.zeros(60), 2.0)[:50:2], 2.0)


def test_a_sum_of_sums_is_one_statement() -> None:
    f = tl.parse("f(x: [n]R, y: [n]R, z: [n]R) = gen i:n. [i < 2] * (x[i] - y[i]) - (z[i] - (x[i] + y[i]))")
    assert len([s for s in simplify_ssa(normal_ssa(f)).statements if type(s).__name__ == "Addition"]) == 1


def test_a_sign_costs_nothing_in_a_sum() -> None:
    f = tl.parse("f(x: [n]R, y: [n]R) = let z = gen i:n. -x[i] in gen i:n. z[i] + y[i]")
    assert cheap(f, n=5) == 5


def test_disjoint_terms_add_nothing_however_many_there_are() -> None:
    terms = " + ".join(f"[i = {k}] * x" for k in range(0, 60, 2))
    f = tl.parse(f"f(x: R) = gen i:60. {terms}")
    assert tl.cost(f) == 0
    assert tl.cost(tl.parse(f"f(x: R) = gen i:60. {terms} + [i < 10] * x")) == 5


# -- numbers of points


def test_a_box_has_the_product_of_its_sizes() -> None:
    assert same(points({ROW: N, COLUMN: M + 1}, TRUE), lambda n, m: n * (m + 1))


def same(p: Polynomial, value: Any) -> bool:
    return all(
        at_sizes(p, {Size("n"): n, Size("m"): m}).terms.get((), 0) == value(n, m)
        for n in range(1, 5)
        for m in range(1, 5)
    )


def test_a_triangle_is_counted_at_sizes_and_is_no_smaller_than_its_shadow() -> None:
    triangle = points({ROW: N, COLUMN: N}, at_most(atom_affine(COLUMN), atom_affine(ROW)))
    assert same(triangle, lambda n, m: n * (n + 1) // 2)
    assert never_above(points({ROW: N}, TRUE), triangle)
    assert not never_above(triangle, points({ROW: N}, TRUE))


@pytest.mark.parametrize(
    ("small", "large", "known"),
    [((N,), (N, N), True), ((N, M), (N, N), False), ((N + 1,), (N, N), False), ((N - 1, N - 1), (N, N), True)],
)
def test_one_polynomial_is_below_another_only_if_it_is_at_all_sizes(
    small: tuple[Affine, ...], large: tuple[Affine, ...], known: bool
) -> None:
    def box(sizes: tuple[Affine, ...]) -> Polynomial:
        return points({Index("i"): n for n in sizes}, TRUE)

    assert never_above(box(small), box(large)) is known


@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_of_other_programs_changes_no_result(seed: int) -> None:
    random_programs = [random_function(random.Random(100 * seed + k), chooses=k % 2 == 1) for k in range(6)]
    together = [str(tl.adjoint(f)) for f in random_programs]
    for f, text in zip(random_programs, together, strict=True):
        tl.clear_caches()
        assert str(tl.adjoint(f)) == text


def test_passes_give_the_program_itself_where_they_change_nothing() -> None:
    f = tl.parse("f(x: [n]R, A: [n][n]R) = let y = gen i:n. sum j:n. A[i, j] * sin(x[j]) in sum i:n. y[i] * exp(y[i])")
    s = simplify_ssa(normal_ssa(tl.grad(f)))
    for change in passes():
        assert change(s) is s


# -- alternatives


def taken_in_cases(f: tl.Function) -> tl.Function:
    if has_recurrences(f):
        return f
    s = tidy(normal_ssa(f))
    t = in_cases(s)
    return f if t is s else read_back(t)


def costs_the_same_in_cases(f: tl.Function, rng: random.Random) -> None:
    for g in (f, tl.adjoint(f, wrt="x")):
        whole = tl.simplify(g)
        made = taken_in_cases(whole)
        for n in (1, 2, 3, 5, 8):
            given = random_arguments(g, rng, {"n": n}, exact=False)
            known = given if "argmax" in str(g) else {"t": given["t"], "n": n}
            assert tl.cost(made, known) <= tl.cost(whole, known), f"n = {n}\n{whole}\n{made}"


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 40))])
def test_alternatives_taken_apart_are_never_more_expensive(seed: int) -> None:
    rng = random.Random(seed)
    costs_the_same_in_cases(random_alternatives(rng), rng)


def test_a_window_or_columns_are_sums_of_their_own() -> None:
    f = tl.parse("f(x: [n]R) = gen i:n. sum j:n. [i - 2 <= j <= i + 2 or j < 2] * sin(x[i] * x[j])")
    made = str(taken_in_cases(tl.simplify(f)))
    assert " or " not in made
    assert made.count("sum j:") == 2


def test_alternatives_that_are_one_band_or_have_many_points_stay_together() -> None:
    for condition in ("i = j or i = j + 1", "j < i - 2 or j = 0", "j = i or i < j + 2", "j < 5"):
        f = tl.simplify(tl.parse(f"f(x: [n]R) = gen i:n. sum j:n. [{condition}] * sin(x[i] * x[j])"))
        assert taken_in_cases(f) is f


def test_what_holds_at_each_place_of_a_list_is_not_said_of_its_first_one() -> None:
    """Whatever the summed k is, 0 <= b[k] - i says nothing about b[0]."""
    f = tl.parse("""f(x: [9]R, y: [9]R, a: [9]idx(9), b: [9]idx(9)) =
        let A = gen i:9, j:9. [i = j] * x[i] + [i + 1 = j] * y[j] in sum i:9. sum r:9. A[a[i], r] * A[r, b[i]]""")
    g = tl.grad(f)
    assert "[0]" not in str(g)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9))
    a, b = np.array([0, 4, 4, 5, 8, 2, 1, 6, 3]), np.array([1, 4, 6, 6, 8, 3, 3, 6, 2])

    def natural(x: Any, y: Any) -> Any:
        matrix = jnp.diag(x) + jnp.diag(y[1:], 1)
        return jnp.sum((matrix @ matrix)[a, b])

    with jax.enable_x64(True):
        for ours, theirs in zip(tl.evaluate(g, x, y, a, b), jax.grad(natural, (0, 1))(x, y), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
