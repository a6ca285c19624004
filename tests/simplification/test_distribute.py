"""Sums of additions are taken apart where the parts are cheaper, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

APART = {
    "a product": "f(A: [n][k]R, B: [k][m]R, C: [n][m]R) = gen j:m. sum i:n. ((sum l:k. A[i, l] * B[l, j]) + C[i, j])",
    "a difference": "f(A: [n][k]R, B: [k][m]R, C: [n][m]R) = gen j:m. sum i:n. (C[i, j] - sum l:k. A[i, l] * B[l, j])",
    "a multiple": """
      f(A: [n][k]R, B: [k][m]R, C: [n][m]R) = gen j:m. 3 * sum i:n. ((sum l:k. A[i, l] * B[l, j]) + C[i, j])
    """,
    "a triangle": """
      f(A: [n][m]R, B: [m][m]R, C: [n][m]R) =
        gen j:m. sum i:n. ((sum l:m. [l < j] * A[i, l] * B[l, j]) + C[i, j] * B[j, j])
    """,
}

KEPT = {
    "elements": "f(A: [n][m]R, C: [n][m]R) = gen j:m. sum i:n. (A[i, j] + C[i, j])",
    "a product that others read": """
      f(A: [n][k]R, B: [k][m]R, C: [n][m]R) =
        let y = gen i:n, j:m. (sum l:k. A[i, l] * B[l, j]) + C[i, j] in
        (gen j:m. sum i:n. y[i, j], gen i:n, j:m. y[i, j]^2)
    """,
    "products along the sum": "f(A: [n][m]R, C: [n][m]R) = gen j:m. sum i:n. (A[i, j] * C[i, j] + C[i, j])",
}

SIZES = [{"n": n, "m": m, "k": k} for n in (1, 2, 30) for m in (1, 2, 20) for k in (1, 2, 10)]


def sizes_of(f: tl.Function, sizes: dict[str, int]) -> dict[str, int]:
    return {size.name: sizes[size.name] for size in f.sizes}


@pytest.mark.parametrize("name", APART)
def test_products_within_sums_of_additions_get_cheaper(name: str) -> None:
    f = tl.parse(APART[name])
    g = tl.simplify(f)
    costs = [(tl.cost(g, **sizes_of(f, s)), tl.cost(f, **sizes_of(f, s))) for s in SIZES]
    assert all(found <= written for found, written in costs)
    assert costs[-1][0] * 3 < costs[-1][1]


@pytest.mark.parametrize("name", KEPT)
def test_where_nothing_is_gained_additions_are_summed_as_they_are(name: str) -> None:
    f = tl.parse(KEPT[name])
    sizes = sizes_of(f, SIZES[-1])
    assert tl.cost(tl.simplify(f), **sizes) == tl.cost(f, **sizes)
    assert str(tl.simplify(f)).count("sum") == KEPT[name].count("sum")


@pytest.mark.parametrize("text", [*APART.values(), *KEPT.values()])
def test_what_is_taken_apart_has_the_same_value(text: str) -> None:
    f = tl.parse(text)
    rng = np.random.default_rng(0)
    of = {"n": 4, "m": 3, "k": 5}
    shapes = [[of[part[0]] for part in str(p.type).split("[")[1:]] for p in f.variables]
    given = [rng.integers(-3, 4, shape) for shape in shapes]
    found, wanted = (tl.evaluate(g, *given, exact=True) for g in (tl.simplify(f), f))
    parts = zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, wanted)), strict=True)
    assert all(np.array_equal(a, b) for a, b in parts)


def test_a_centre_of_a_mixture_is_moved_out_of_the_product_with_its_matrix() -> None:
    f = tl.parse("""
      f(L: [d][d]R, e: [d]R, m: [d]R, x: [n][d]R) =
        let D = gen a:n, i:d. x[a, i] - m[i] in
        let y = gen a:n, i:d. e[i] * D[a, i] + sum j:d. [j < i] * L[i, j] * D[a, j] in
        sum a:n, i:d. sin(y[a, i])
    """)
    n, d = 1000, 10
    assert tl.cost(tl.grad(f, "m"), n=n, d=d) < tl.cost(f, n=n, d=d) + 10 * n * d
