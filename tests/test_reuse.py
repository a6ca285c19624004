"""Sums of products made of what the program computes anyway."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import adjoint, simplify
from tensorlang.language.evaluate import evaluate
from tensorlang.language.types import shape
from tensorlang.surface.parse import parse

TWICE = """
  f(y: [n][d]R, v: [m][d]R, p: [n][m]R) =
    let a = gen i:n, k:m. sum j:d. y[i, j] * v[k, j] in
    let b = gen i:n. sum j:d. y[i, j] * sum k:m. p[i, k] * v[k, j] in
    gen i:n, k:m. sin(a[i, k]) * b[i]
"""

ATTENTION = """
  attention(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
    let p = gen i:n, j:n. exp(sum a:d. Q[i, a] * K[j, a]) in
    let z = gen i:n. sum j:n. p[i, j] in
    gen i:n, a:d. (sum j:n. p[i, j] * V[j, a]) / z[i]
"""


def test_a_product_that_is_there_is_used_again() -> None:
    f = simplify(parse(TWICE))
    assert str(f).count("v[") == 1
    n, d, m = 50, 40, 30
    assert tl.cost(f, n=n, d=d, m=m) < tl.cost(parse(TWICE), n=n, d=d, m=m)


def test_it_makes_no_circles() -> None:
    # the product that is there needs the sum that could be made of it
    f = """
      f(y: [n][d]R, v: [m][d]R, p: [n][m]R) =
        let b = gen i:n. sum j:d. y[i, j] * sum k:m. p[i, k] * v[k, j] in
        let w = gen i:n, j:d. y[i, j] * b[i] in
        gen i:n, k:m. sum j:d. w[i, j] * v[k, j]
    """
    g = simplify(parse(f))
    rng = np.random.default_rng(0)
    y, v, p = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 4))
    np.testing.assert_allclose(np.asarray(evaluate(g, y, v, p), float), np.asarray(evaluate(parse(f), y, v, p), float))


def test_the_adjoint_of_attention_takes_five_products_of_matrices() -> None:
    g = adjoint(parse(ATTENTION))
    n, d = 64, 32
    # scores, their cotangent twice over, and those of Q, K, V: 5 products of 2 n^2 d operations; exp and the like
    assert tl.cost(g, n=n, d=d) <= 10 * n * n * d + 8 * n * n + 4 * n * d


@pytest.mark.parametrize("text", [TWICE, ATTENTION])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_what_is_used_again_means_what_it_meant(text: str, size: int) -> None:
    f = parse(text)
    rng = np.random.default_rng(size)
    dims = {"n": size, "d": 2, "m": 3}
    arguments = [rng.normal(size=[dims[str(s)] for s in shape(p.type)[0]]) for p in f.params]
    g = adjoint(f)
    bar = rng.normal(size=(size, 3 if text is TWICE else 2))
    wanted = evaluate(g, *arguments, bar)
    for found, expected in zip(tl.lower(g)(*arguments, bar), wanted, strict=True):
        np.testing.assert_allclose(found, np.asarray(expected, float).reshape(np.shape(found)), rtol=1e-4, atol=1e-4)
