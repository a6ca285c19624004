"""A term that is added where a maximum is attained is left out if it is 0: derivatives of shifted exponentials."""

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

_SEGMENTS = """
  let t = gen k:m. [exists i:n. y[i] = k] * max i:n where y[i] = k. x[i] in
  let e = gen i:n. exp(x[i] - t[y[i]]) in
  let s = gen k:m. sum i:n. [y[i] = k] * e[i] in
"""
_GROUPS = "let t = gen i:n. max j:n where y[j] = y[i]. x[j] in"
OF_DATA = {
    "softmax in segments": f"{_SEGMENTS} sum i:n. w[i] * e[i] / s[y[i]]",
    "log-softmax in segments": f"{_SEGMENTS} sum i:n. w[i] * (x[i] - t[y[i]] - log(s[y[i]]))",
    "logsumexp in segments": f"{_SEGMENTS} sum k:m. [exists j:n. y[j] = k] * (t[k] + log(s[k]))^2",
    "entropy in segments": f"{_SEGMENTS} let p = gen i:n. e[i] / s[y[i]] in sum i:n. p[i] * log(p[i])",
    "softmax in groups": f"{_GROUPS} sum i:n. w[i] * exp(x[i] - t[i]) / sum j:n. [y[j] = y[i]] * exp(x[j] - t[i])",
    "logsumexp in groups": f"{_GROUPS} sum i:n. w[i] * (t[i] + log(sum j:n. [y[j] = y[i]] * exp(x[j] - t[i])))",
    "softmax in groups by two arrays": """
      let t = gen i:n. max j:n where y[j] = y[i] and z[j] = z[i]. x[j] in
      sum i:n. w[i] * exp(x[i] - t[i]) / sum j:n. [y[j] = y[i] and z[j] = z[i]] * exp(x[j] - t[i])
    """,
    "least value in segments": """
      let t = gen k:m. [exists i:n. y[i] = k] * min i:n where y[i] = k. x[i] in
      let e = gen i:n. exp(t[y[i]] - x[i]) in
      sum i:n. w[i] * e[i] / sum j:n. [y[j] = y[i]] * e[j]
    """,
}

KEPT_OF_DATA = {
    "a maximum of segments that may be empty": """
      let t = max i:n. x[i] in
      let s = gen k:m. sum i:n. [y[i] = k] * exp(w[i] - t) in
      sum k:m. t + [exists i:n. y[i] = k] * log(s[k])
    """,
    "another segment's maximum": f"{_SEGMENTS} sum i:n. w[i] * exp(x[i] - t[z[i]]) / s[y[i]]",
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


def of_data(body: str) -> tl.Function:
    return tl.parse(f"f(x: [n]R, w: [n]R, y: [n]idx(m), z: [n]idx(m), of: [m]R) = {body}")


@pytest.mark.parametrize("name", OF_DATA)
def test_what_is_shifted_in_segments_and_groups_asks_for_no_argmax(name: str) -> None:
    g = tl.grad(of_data(OF_DATA[name]), wrt=("x",))
    assert ("max" in str(g) or "min" in str(g)) and "argm" not in str(g)


@pytest.mark.parametrize("n, m", [(1, 1), (2, 5), (9, 4)])
@pytest.mark.parametrize("name", [*OF_DATA, *KEPT_OF_DATA])
def test_derivatives_of_shifts_by_data_are_those_of_differences(name: str, n: int, m: int) -> None:
    f = of_data({**OF_DATA, **KEPT_OF_DATA}[name])
    rng = np.random.default_rng(n)
    x, w, of = rng.normal(size=n), rng.normal(size=n), np.zeros(m)
    y, z = rng.integers(0, m, n), rng.integers(0, m, n)
    z = y[rng.permutation(n)] if name in KEPT_OF_DATA else z
    g = tl.grad(f, wrt=("x",))
    step = 1e-6 * np.eye(n)
    wanted = [(tl.evaluate(f, x + e, w, y, z, of) - tl.evaluate(f, x - e, w, y, z, of)) / 2e-6 for e in step]
    np.testing.assert_allclose(tl.evaluate(g, x, w, y, z, of), wanted, atol=1e-5)


def test_a_maximum_that_is_never_of_nothing_is_one_scatter() -> None:
    for name in ("softmax in segments", "softmax in groups"):
        source = tl.lower(tl.grad(of_data(OF_DATA[name]), wrt=("x",))).definition
        assert source.count("_greatest_at(") == 1 and "_greatest_at_or" not in source and "some" not in source


def test_a_maximum_that_may_be_of_nothing_is_what_its_bracket_says() -> None:
    f = of_data("gen k:m. [exists i:n. y[i] = k] * max i:n where y[i] = k. x[i]")
    y = np.array([2, 2, 0])
    found = tl.lower(f)(np.array([-np.inf, -np.inf, 3.0]), np.ones(3), y, y, np.zeros(4))
    assert np.asarray(found).tolist() == [3.0, 0.0, -np.inf, 0.0]
