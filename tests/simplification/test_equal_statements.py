"""Equal statements are one, up to the order of axes, shifts and diagonals, and the laws of a ring save operations."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tensorlang as tl

ALIKE = {
    "a transposed map": (
        "f(a: [n][m]R) = let s = gen i:n, j:m. sin(a[i, j]) in let t = gen j:m, i:n. sin(a[i, j]) in "
        "sum i:n, j:m. s[i, j] * t[j, i]",
        lambda n, m: 3 * n * m - 1,
    ),
    "a transposed product": (
        "f(a: [n][m]R) = let p = gen i:n, j:n. sum k:m. a[i, k] * a[j, k] in "
        "let q = gen i:n, j:n. sum k:m. a[j, k] * a[i, k] in gen i:n, j:n. sin(p[i, j]) * cos(q[i, j])",
        lambda n, m: (2 * m - 1) * n * n + 3 * n * n,
    ),
    "a diagonal": (
        "f(a: [n]R, b: [n]R) = let s = gen i:n, j:n. exp(a[i] * b[j]) in let t = gen i:n. exp(a[i] * b[i]) in "
        "gen i:n, j:n. s[i, j] * t[j]",
        lambda n, m: 3 * n * n,
    ),
    "a diagonal that comes first": (
        "f(a: [n]R, b: [n]R) = let t = gen i:n. exp(a[i] * b[i]) in let s = gen i:n, j:n. exp(a[i] * b[j]) in "
        "gen i:n, j:n. s[i, j] * t[j]",
        lambda n, m: 3 * n * n,
    ),
    "a shift": (
        "f(a: [n + 1]R) = let s = gen i:n + 1. sin(a[i]) in let t = gen i:n. sin(a[i + 1]) in gen i:n. s[i] * t[i]",
        lambda n, m: n + 1 + n,
    ),
    "differences at two ends": (
        "f(a: [n + 1]R) = let s = gen i:n. a[i + 1] - a[i] in let t = gen i:n. [0 < i] * (a[i] - a[i - 1]) in "
        "gen i:n. [0 < i] * s[i] * t[i]",
        lambda n, m: n + n - 1,
    ),
    "products of columns with one another": (
        "f(a: [n][m]R) = (gen i:m. sum k:n. a[k, i]^2, gen i:m, j:m. sum k:n. a[k, i] * a[k, j])",
        lambda n, m: n * m + (n - 1) * m + (2 * n - 1) * m * m,
    ),
}

RING = {
    "equal products": ("f(a: [n]R, b: [n]R) = gen i:n. a[i] * b[i] - b[i] * a[i]", lambda n, m: 0),
    "equal functions": ("f(a: [n]R) = gen i:n. sin(a[i]) - sin(a[i])", lambda n, m: 0),
    "a multiple less the value": ("f(a: [n]R) = gen i:n. 2 * a[i] - a[i]", lambda n, m: 0),
    "multiples": ("f(a: [n]R) = gen i:n. 2 * a[i] + 3 * a[i]", lambda n, m: n),
    "a common factor": ("f(a: [n]R, b: [n]R, c: [n]R) = gen i:n. a[i] * b[i] + a[i] * c[i]", lambda n, m: 2 * n),
    "a common factor on either side": (
        "f(a: [n]R, b: [n]R, c: [n]R) = gen i:n. c[i] * a[i] - b[i] * c[i]",
        lambda n, m: 2 * n,
    ),
    "a common factor of three": (
        "f(a: [n]R, b: [n]R, c: [n]R, d: [n]R) = gen i:n. a[i] * b[i] + a[i] * c[i] - a[i] * d[i]",
        lambda n, m: 3 * n,
    ),
    "a common matrix": (
        "f(a: [n][m]R, b: [m]R, c: [m]R) = gen i:n. (sum j:m. a[i, j] * b[j]) + sum j:m. c[j] * a[i, j]",
        lambda n, m: m + (2 * m - 1) * n,
    ),
    "a common factor under a condition": (
        "f(a: [n]R, b: [n]R, c: [n]R) = gen i:n. [0 < i] * (a[i] * b[i] + a[i] * c[i])",
        lambda n, m: 2 * (n - 1),
    ),
    "a quotient by a number": ("f(a: [n]R) = gen i:n. a[i] / 4", lambda n, m: n),
    "numbers in brackets": ("f(a: [n]R) = gen i:n. [i < 1] * abs(-2) + a[i] + 3 - 3", lambda n, m: 1),
    "a function of numbers in brackets": (
        "f(a: [n]R) = let c = gen i:n. [i < 1] * 2 in gen i:n. abs(c[i] * -3) * a[i]",
        lambda n, m: 1,
    ),
}

KEPT = {
    "a product that others read": (
        "f(a: [n]R, b: [n]R, c: [n]R) = let p = gen i:n. a[i] * b[i] in "
        "(gen i:n. p[i] + a[i] * c[i], gen i:n. sin(p[i]))",
        lambda n, m: 4 * n,
    ),
    "other conditions": ("f(a: [n]R) = gen i:n. [i < 2] * sin(a[i]) - sin(a[i])", lambda n, m: 2 * n),
    "a number without a reciprocal": ("f(a: [n]R) = gen i:n. a[i] * recip(0)", lambda n, m: n + 1),
    "factors of other indices": (
        "f(a: [n]R, b: [n]R, c: [m]R) = gen i:n, j:m. sin(a[i] * b[i] + a[i] * c[j])",
        lambda n, m: n + 3 * n * m,
    ),
}
"""Programs to which no law applies, with their cost when each value is computed once."""


def shapes(f: tl.Function, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    found = []
    for x in f.variables:
        shape, kind = [], x.type
        while hasattr(kind, "size"):
            shape.append(kind.size.value({size: sizes[size.name] for size in kind.size.sizes}))
            kind = kind.element
        found.append(tuple(shape))
    return found


def flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]


def same_value(f: tl.Function, g: tl.Function, exact: bool, seed: int, **sizes: int) -> None:
    rng = np.random.default_rng(seed)
    told = {size.name: sizes[size.name] for size in f.sizes}
    given = [rng.integers(-3, 4, shape) for shape in shapes(f, told)]
    for a, b in zip(*(flat(tl.evaluate(h, *given, exact=exact)) for h in (f, g)), strict=True):
        if exact:
            assert np.array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_computed_elsewhere_is_read_there(name: str) -> None:
    text, spent = ALIKE[name]
    f = tl.parse(text)
    g = tl.simplify(f)
    for n, m in ((3, 4), (7, 2), (1, 1)):
        sizes = {size.name: {"n": n, "m": m}[size.name] for size in f.sizes}
        assert tl.cost(g, **sizes) == spent(n, m), g
        same_value(f, g, exact=False, seed=n, n=n, m=m)


@pytest.mark.parametrize("name", RING)
def test_laws_of_a_ring_save_what_they_can(name: str) -> None:
    text, spent = RING[name]
    f = tl.parse(text)
    g = tl.simplify(f)
    for n, m in ((3, 4), (7, 2), (1, 1)):
        sizes = {size.name: {"n": n, "m": m}[size.name] for size in f.sizes}
        assert tl.cost(g, **sizes) == spent(n, m), g
        same_value(f, g, exact="sin" not in text, seed=n, n=n, m=m)


@pytest.mark.parametrize("name", KEPT)
def test_no_law_is_applied_that_saves_nothing(name: str) -> None:
    text, spent = KEPT[name]
    f = tl.parse(text)
    sizes = {size.name: {"n": 5, "m": 4}[size.name] for size in f.sizes}
    assert tl.cost(tl.simplify(f), **sizes) == spent(5, 4)


class Writer:
    """Random programs of a few lets with many similar parts: few inputs, few functions, and any order of axes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.matrices, self.vectors = ["A", "B"], ["x", "y"]

    def program(self) -> str:
        lets = []
        for k in range(self.rng.randint(2, 5)):
            if self.rng.random() < 0.6:
                lets.append(f"let m{k} = gen i:n, j:n. {self.condition('ij')}{self.term('ij', 2)} in")
                self.matrices.append(f"m{k}")
            else:
                lets.append(f"let v{k} = gen i:n. {self.condition('i')}{self.term('i', 2)} in")
                self.vectors.append(f"v{k}")
        lets.append(f"gen i:n, j:n. {self.term('ij', 2)}")
        return "f(A: [n][n]R, B: [n][n]R, x: [n]R, y: [n]R) =\n  " + "\n  ".join(lets)

    def condition(self, indices: str) -> str:
        if self.rng.random() < 0.6:
            return ""
        i, j = self.rng.choice(indices), self.rng.choice([*indices, "0", "1"])
        return f"[{i} {self.rng.choice(['<=', '<', '='])} {j}] * "

    def element(self, indices: str) -> str:
        i, j = self.rng.choice(indices), self.rng.choice(indices)
        if self.rng.random() < 0.6:
            return f"{self.rng.choice(self.matrices[-4:])}[{i}, {j}]"
        return f"{self.rng.choice(self.vectors[-4:])}[{i}]"

    def term(self, indices: str, depth: int) -> str:
        kind = self.rng.randrange(8)
        if depth == 0 or kind == 0:
            return self.element(indices)
        if kind == 1:
            return str(self.rng.choice([0, 1, 2, 3]))
        if kind == 2:
            return f"abs({self.term(indices, depth - 1)})"
        if kind == 3 and len(indices) < 3:
            inner = self.term(indices + "k", depth - 1)
            return f"(sum k:n. {self.condition(indices + 'k')}{inner})"
        a, b = self.term(indices, depth - 1), self.term(indices, depth - 1)
        return f"({a} {self.rng.choice('+-**')} {b})"


@pytest.mark.parametrize("start", range(0, 160, 20))
def test_random_programs_keep_their_values_and_never_get_more_expensive(start: int) -> None:
    for seed in range(start, start + 20):
        text = Writer(seed).program()
        f = tl.parse(text)
        g = tl.simplify(f)
        for n in (1, 2, 3, 5):
            assert tl.cost(g, n=n) <= tl.cost(f, n=n), (seed, text)
        same_value(f, g, exact=True, seed=seed, n=3)


@pytest.mark.slow
def test_adjoints_of_random_programs_keep_their_values() -> None:
    for seed in range(1000, 1060):
        f = tl.parse(Writer(seed).program().replace("abs", "relu"))
        g = tl.adjoint(f)
        for n in (1, 2, 3):
            assert tl.cost(tl.simplify(g), n=n) <= tl.cost(g, n=n), seed
        rng = np.random.default_rng(seed)
        given = [rng.normal(size=shape) for shape in shapes(f, {"n": 3})]
        step = [rng.normal(size=v.shape) * 1e-6 for v in given]
        bar = rng.normal(size=(3, 3))
        there, back = (
            np.asarray(tl.evaluate(f, *(v + s * d for v, d in zip(given, step, strict=True)))) for s in (1, -1)
        )
        wanted = float((bar * (there - back)).sum()) / 2
        found = sum(float((a * d).sum()) for a, d in zip(flat(tl.evaluate(g, *given, bar)), step, strict=True))
        scale = max(1e-6, float(np.abs(there).max() * 1e-6))
        assert abs(found - wanted) <= 1e-3 * max(abs(found), scale), seed


def test_a_term_that_is_summed_by_an_index_array_is_the_one_that_is_read_elsewhere() -> None:
    f = tl.parse("""f(l: [e]R, d: [e]idx(n), h: [e]R) =
        let z = gen i:n. sum p:e. [d[p] = i] * exp(l[p]) in sum p:e. exp(l[p]) / z[d[p]] * h[p]""")
    assert str(tl.grad(f)).count("exp") == str(tl.simplify(f)).count("exp") == 1
