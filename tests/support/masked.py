"""Random programs of sums of products under brackets of all kinds, which hide much of the data from some elements."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.language.function import Function

SIZES = ({"n": 5, "k": 3}, {"n": 9, "k": 4}, {"n": 1, "k": 2}, {"n": 12, "k": 5}, {"n": 2, "k": 0}, {"n": 0, "k": 1})
_INPUTS = "x: [n]R, z: [n]R, w: [k]R, A: [n][n]R, B: [n][k]R, E: rel(n, n), y: [n]idx(n)"
_COMPARISONS = (
    "x[{0}] < z[{1}]",
    "not A[{0}, {1}] > 1",
    "(x[{0}] > 1 or A[{1}, {0}] <= z[{1}])",
    "(exists q:n. A[{0}, q] > 1 and q <= {1})",
    "{0} <= {1}",
    "{0} < {1}",
    "{1} <= {0} + 1",
    "{1} - 2 <= {0} <= {1} + 1",
    "{0} + {1} < n",
    "E({0}, {1})",
    "E({1}, {0})",
    "{0} = {1}",
    "{0} = y[{1}]",
    "{0} = 2*{1}",
    "{0} = {1} + 1",
    "y[{0}] <= {1}",
    "({0} < {1} or E({0}, {1}))",
    "(exists q:n. E({0}, q) and q <= {1})",
    "y[{0}] != y[{1}]",
)
_ALONE = (
    "x[{0}] > 1",
    "z[{0}] != x[{0}]",
    "2 <= {0}",
    "{0} < n - 2",
    "{0} = 1",
    "E({0}, {0})",
    "y[{0}] = 0",
    "(exists q:n. E({0}, q))",
    "1 < k",
)
_SCALARS = ("{0}", "{0}", "{0}", "exp({0})", "(1 / {0})", "log({0})", "tanh({0})", "({0})^2", "sqrt({0})")


def masked_function(rng: random.Random) -> Function:
    """A random program of the arrays x, z, w, A, B, a relation E and an index array y."""
    return tl.parse(masked_text(rng))


def masked_text(rng: random.Random, elementwise: bool = False) -> str:
    """The text of such a program; with `elementwise` one without sums, where products under brackets are arguments of a
    scalar function."""
    builder = _Builder(rng, elementwise)
    lets = [builder.statement(f"t{k}") for k in range(rng.randrange(3))]
    binders, body = builder.array(rng.choice((1, 2) if elementwise else (0, 1, 1, 2)))
    return f"f({_INPUTS}) =\n" + "".join(f"  {line} in\n" for line in lets) + f"  {binders}{body}"


def masked_arguments(rng: random.Random, sizes: dict[str, int]) -> dict[str, Any]:
    """Arguments of such a program, by name."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    n, k = sizes["n"], sizes["k"]
    real = lambda *shape: numbers.uniform(0.5, 2, shape) * numbers.choice([1, 1, -1], shape)
    return {
        "x": real(n),
        "z": real(n),
        "w": real(k),
        "A": real(n, n),
        "B": real(n, k),
        "E": numbers.random((n, n)) < 0.4,
        "y": numbers.integers(max(n, 1), size=n),
    }


class _Builder:
    def __init__(self, rng: random.Random, elementwise: bool) -> None:
        self.rng = rng
        self.elementwise = elementwise
        self.made: list[tuple[str, int]] = []
        self.fresh = iter(f"{letter}{k}" if k else letter for k in range(9) for letter in "ijlpqrs")

    def statement(self, name: str) -> str:
        dims = self.rng.choice((1, 1, 2))
        binders, body = self.array(dims)
        self.made.append((name, dims))
        return f"let {name} = {binders}{body}"

    def array(self, dims: int) -> tuple[str, str]:
        """The binders and the element of an array over n, n, .."""
        own = [next(self.fresh) for _ in range(dims)]
        binders = f"gen {', '.join(f'{i}:n' for i in own)}. " if own else ""
        terms = [self.term(own) for _ in range(self.rng.choice((1, 1, 1, 2)))]
        return binders, self.rng.choice((" + ", " - ")).join(terms)

    def term(self, own: list[str]) -> str:
        """A sum, or a product under a bracket."""
        summed = [next(self.fresh) for _ in range(self.rng.choice((0, 1, 1, 1, 2) if own else (1, 1, 2)))]
        short = next(self.fresh) if self.rng.random() < 0.2 else None
        if self.elementwise:
            summed, short = [], None
        indices = own + summed
        guards: list[str] = []
        factors = [self.factor(indices, short, guards) for _ in range(self.rng.choice((1, 2, 2, 3)))]
        if self.elementwise and len(factors) > 1:
            factors.append(f"exp({self.factor(indices, short, guards)})")
        conditions = guards + [self.condition(indices) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        self.rng.shuffle(conditions)
        body = " * ".join(factors)
        body = f"[{' and '.join(conditions)}] * {body}" if conditions else body
        binders = [f"{i}:n" for i in summed] + ([f"{short}:k"] if short else [])
        return f"(sum {', '.join(binders)}. {body})" if binders else f"({body})"

    def condition(self, indices: list[str]) -> str:
        if len(indices) > 1 and self.rng.random() < 0.85:
            return self.rng.choice(_COMPARISONS).format(*self.rng.sample(indices, 2))
        return self.rng.choice(_ALONE).format(self.rng.choice(indices))

    def factor(self, indices: list[str], short: str | None, guards: list[str]) -> str:
        rng, i, j = self.rng, self.rng.choice(indices), self.rng.choice(indices)
        kinds = ["x[{i}]", "z[{j}]", "A[{i}, {j}]", "A[{i}, {j}]", "x[y[{i}]]", "A[{i}, y[{j}]]", "2", "shift", "inner"]
        if self.elementwise:
            kinds.remove("inner")
        kinds += [f"{name}[{{i}}]" if dims == 1 else f"{name}[{{i}}, {{j}}]" for name, dims in self.made] * 2
        kinds += ["w[{short}]", "B[{i}, {short}]", "B[{j}, {short}]"] if short else []
        kind = rng.choice(kinds)
        if kind == "shift":
            place = rng.choice(("{i} + {j} - 1", "{i} - {j}", "2*{i}", "{i} + 1", "{j} - 1", "n - 1 - {i}"))
            if short and rng.random() < 0.5:
                place = rng.choice(("{i} + {short}", "{i} - {short}", "2*{i} + {short} - 1", "{i} + 2*{short}"))
            place = place.format(i=i, j=j, short=short)
            guards.append(f"0 <= {place} < n")
            kind = f"{rng.choice('xz')}[{place}]"
        elif kind == "inner":
            q = next(self.fresh)
            condition = rng.choice(("{q} <= {i}", "E({q}, {i})", "{i} < {q}", "{q} - 1 <= {i} <= {q} + 1"))
            kind = f"(sum {q}:n. [{condition.format(q=q, i=i)}] * A[{j}, {q}] * x[{q}])"
        return rng.choice(_SCALARS).format(kind.format(i=i, j=j, short=short))
