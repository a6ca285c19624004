"""What is added where a maximum is attained is left out where it is 0: derivatives of shifted exponentials."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

STABLE = {
    "logsumexp": (
        "f(x: [n]R) = let m = max i:n. x[i] in m + log(sum i:n. exp(x[i] - m))",
        "f(x: [n]R) = log(sum i:n. exp(x[i]))",
    ),
    "softmax": (
        """
        f(x: [n]R) =
          let m = max i:n. x[i] in
          let p = gen i:n. exp(x[i] - m) in
          let z = sum i:n. p[i] in
          gen i:n. p[i] / z
        """,
        "f(x: [n]R) = let z = sum i:n. exp(x[i]) in gen i:n. exp(x[i]) / z",
    ),
    "attention": (
        """
        f(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
          let s = gen i:n, j:n. sum a:d. Q[i, a] * K[j, a] in
          let m = gen i:n. max j:n. s[i, j] in
          let p = gen i:n, j:n. exp(s[i, j] - m[i]) in
          let z = gen i:n. sum j:n. p[i, j] in
          gen i:n, a:d. (sum j:n. p[i, j] * V[j, a]) / z[i]
        """,
        """
        f(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
          let p = gen i:n, j:n. exp(sum a:d. Q[i, a] * K[j, a]) in
          let z = gen i:n. sum j:n. p[i, j] in
          gen i:n, a:d. (sum j:n. p[i, j] * V[j, a]) / z[i]
        """,
    ),
    "causal attention": (
        """
        f(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
          let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in
          let m = gen i:n. max j:n where j <= i. s[i, j] in
          let p = gen i:n, j:n. [j <= i] * exp(s[i, j] - m[i]) in
          let z = gen i:n. sum j:n. [j <= i] * p[i, j] in
          gen i:n, a:d. (sum j:n. [j <= i] * p[i, j] * V[j, a]) / z[i]
        """,
        """
        f(Q: [n][d]R, K: [n][d]R, V: [n][d]R) =
          let p = gen i:n, j:n. [j <= i] * exp(sum a:d. Q[i, a] * K[j, a]) in
          let z = gen i:n. sum j:n. [j <= i] * p[i, j] in
          gen i:n, a:d. (sum j:n. [j <= i] * p[i, j] * V[j, a]) / z[i]
        """,
    ),
}

KEPT = {
    "a maximum that is more than a shift": "f(x: [n]R) = let m = max i:n. x[i] in 2 * m + log(sum i:n. exp(x[i] - m))",
    "a shift by twice the maximum": "f(x: [n]R) = let m = max i:n. x[i] in m + log(sum i:n. exp(x[i] - 2 * m))",
    "a sum of other elements": "f(x: [n]R) = let m = max i:n. x[i] in m + log(sum i:n. [i > 0] * exp(x[i] - m))"
    " - log(sum i:n. exp(x[i] - m))",
    "a maximum of squares": "f(x: [n]R) = max i:n. x[i]^2",
}


def arguments(f: tl.Function) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(5,) if str(p.type).count("[") == 1 else (5, 3)) for p in f.variables]


@pytest.mark.parametrize("name", STABLE)
def test_the_derivative_of_what_is_shifted_asks_for_the_maximum_but_not_where_it_is(name: str) -> None:
    g = tl.adjoint(tl.parse(STABLE[name][0]))
    assert "max" in str(g)
    assert "argmax" not in str(g)


@pytest.mark.parametrize("name", STABLE)
def test_the_derivative_of_what_is_shifted_is_that_of_what_is_not(name: str) -> None:
    shifted, plain = map(tl.parse, STABLE[name])
    given = arguments(shifted)
    bar = np.random.default_rng(1).normal(size=np.shape(tl.evaluate(plain, *given)))
    found, wanted = (tl.evaluate(tl.adjoint(f), *given, bar) for f in (shifted, plain))
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, wanted)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_cancel_is_still_added_where_the_maximum_is(name: str) -> None:
    f = tl.parse(KEPT[name])
    g = tl.grad(f)
    assert "argmax" in str(g)
    x = arguments(f)[0]
    step = 1e-6 * np.eye(5)
    wanted = [(tl.evaluate(f, x + e) - tl.evaluate(f, x - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(tl.evaluate(g, x), wanted, atol=1e-6)
