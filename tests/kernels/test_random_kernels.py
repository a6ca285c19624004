"""Kernels of programs that a machine wrote, and of sums and extrema within one another, agree with the evaluator."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.grammar import Var
from tensorlang.language.types import shape
from tensorlang.lowering.kernels.run import TRITON_WARNING
from tests.support import nests
from tests.support.mixtures import mixed_data, mixture
from tests.support.programs import random_arguments, random_function, random_sizes

TARGETS = ("pallas-tpu", "pallas-triton")

NESTED = {
    "least of windows of two axes": "sum i:n - 1, j:m - 1. (min a:2, b:2. x[a + i, b + j])^2",
    "greatest at neighbours, of least": "gen i:n. min a:n. max b:m where r(i, b) or b = 0. x[a, b]",
    "least, times a factor": "gen i:n. min a:n. v[i] * max b:m where r(a, b) or b = 0. x[a, b]",
    "sums of greatest under an order": "gen i:n. sum a:n. v[i] * max b:m where b <= a. x[a, b]",
    "functions of sums under an order": "gen i:n. max a:n. sin(v[i] * sum b:m. [b <= a] * v[i] * x[a, b])",
    "functions of sums over neighbours": "gen i:n. max a:n. sin(v[i] * sum b:m. [r(a, b)] * v[i] * x[a, b])",
    "neighbours outside and inside": """gen i:n. max a:n where r(i, 0) or a = 0.
      sin(v[i] * sum b:m. [r(a, b)] * v[i] * x[a, b])""",
    "an index that only a condition reads": "gen i:n, j:n. max p:n, s:n where p = s or s = 0. v[s] * v[i] * v[j]",
    "a sum of such": "gen i:n, j:n. sum p:n, s:n. [p <= s or s = 3] * sin(v[s] * v[i] * v[j])",
    "greatest of greatest": """gen i:n, j:n. max p:n. max q:3. max s:n where p = s or s = 0. max u:n.
      v[u] * v[i] * v[j]""",
    "one number, in a row": "gen i:n. [i = 0] * (max j:1, k:3. w[j, k])",
    "conditions on what is taken at once": "gen i:n. min j:n. min k:3 where 3 <= i + k or k = 0. v[j] * w[0, k]",
    "an own index in a condition alone": "gen i:n, j:n. min k:n where near(j, k) or k = 0. v[k]",
    "a sum at once, in one over tiles": "gen i:n, j:n. sum p:n. sin(v[p] * v[i] * v[j]) * sum s:n. [near(s, i)] * v[j]",
}


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="there is no [GT]PU here")
        warnings.filterwarnings("ignore", message=TRITON_WARNING)
        yield


def close(found: Any, wanted: Any) -> bool:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    return all(np.allclose(x, y, rtol=1e-3, atol=1e-3 * (1 + np.abs(y).max(initial=0))) for x, y in pairs)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NESTED)
def test_reductions_in_reductions(name: str, target: str) -> None:
    f = tl.parse(f"f(x: [n][m]R, v: [n]R, w: [1][3]R, r: rel(n, m), near: rel(n, n)) = {NESTED[name]}")
    for n, m in ((3, 3), (5, 7), (140, 5)):
        rng, known = np.random.default_rng(n), {size: {"n": n, "m": m}[size.name] for size in f.sizes}

        def drawn(p: Any, rng: Any = rng, known: Any = known) -> Any:
            if isinstance(p, Var):
                return rng.normal(size=[a.value(known) for a in shape(p.type)[0]])
            return rng.random([a.value(known) for a in p.sizes]) < 0.5

        given = [drawn(p) for p in f.params]
        # all points of 140 are too many for the evaluator; tiles end within them
        wanted = tl.evaluate(f, *given) if n < 10 else tl.lower(f)(*given)
        blocks = {} if target == "pallas-tpu" else {"n": 32}
        assert close(tl.lower(f, target, blocks=blocks)(*given), wanted), (n, m)


FORMS = {
    "places that data choose": "f(x: [n][m]R, k: [m]idx(n), z: idx(m)) = gen i:n, j:m. [i = k[z]] * x[i, j]",
    "one number for all of an axis": """f(x: [n + 2][2*n]R) =
      let t = gen i:n + 2, j:2*n. min a:1. [0 < 2*n] * min b:2*n. x[a + i, a + b] in
      gen i:2*n. min j:2, a:3, b:2. t[j, i]""",
    "conditions on sizes alone": "f(x: [2][m]R, w: [n]R) = [n != 2] * gen j:m. sum i:2. x[i, j]",
    "an axis of no elements, read under a condition": """f(x: [n][m]R, y: [n - m][m]R) =
      gen i:n, j:m. x[i, j] + [m < n] * y[0, j]""",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_programs(name: str, target: str) -> None:
    f = tl.parse(FORMS[name])
    for n, m in ((3, 3), (2, 1), (5, 2)):
        for g in (f, tl.adjoint(f)):
            sizes = {size.name: {"n": n, "m": m}[size.name] for size in g.sizes}
            given = random_arguments(g, random.Random(n), sizes, exact=False)
            assert close(tl.lower(g, target)(**given), tl.evaluate(g, **given)), (n, m)


def checked(seed: int, kind: str, target: str) -> None:
    rng = random.Random(seed)
    if kind == "mixture":
        f, n = tl.parse(mixture(seed, depth=2)), (3, 2, 1, 5, 4)[seed % 5]
        sizes, given = {"n": n}, mixed_data(n, seed)
    else:
        smooth = "smooth" if seed % 2 else "powers"
        chooses, compares = seed % 4 == 1, seed % 5 == 0
        f = (
            tl.parse(nests.random_nest(rng).text)
            if kind == "nest"
            else random_function(rng, scalars=smooth, chooses=chooses, compares=compares)
        )
        sizes = {name: max(1, n) for name, n in random_sizes(f, rng).items()}
        sizes["n"] = max(sizes.get("n", 1), sizes.get("m", 1))  # some have axes of n - m
        given = random_arguments(f, rng, sizes, exact=False)
    draw, value = np.random.default_rng(seed), None
    for g in (f, tl.adjoint(f)):
        told = {s.name: sizes[s.name] for s in (*g.sizes, *g.further)}
        asked = {p.name: given[p.name] for p in g.params if p.name in given}
        if g is not f:
            asked[g.params[-1].name] = jax.tree.map(lambda x: draw.normal(size=np.shape(x)), value)
        value = tl.evaluate(g, **asked, **told)
        assert close(tl.lower(g, target)(**asked, **told), value), g


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["random", "mixture", "nest"])
@pytest.mark.parametrize("block", range(8))
def test_random_programs_have_the_values_of_the_evaluator(block: int, kind: str, target: str, share: int) -> None:
    for seed in range(12 * block, 12 * block + 12 // share):
        checked(seed, kind, target)
