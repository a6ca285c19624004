"""Sums of exponentials in groups and up to limits given by data: right, and in time in proportion to the rows."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tests.support.operations import count_of
from tests.support.sampling import one_in
from tests.support.traced import work

PROGRAMS = {
    "a risk set": "f(r: [n]R, x: [n]R, p: [n]idx(k)) = gen i:n. sum j:n. [p[i] <= p[j]] * exp(r[j] - x[i])",
    "what comes before": "f(r: [n]R, p: [n]idx(k)) = gen i:n. sum j:n. [p[j] < p[i]] * exp(r[j] - r[i])",
    "two rankings": """f(r: [n]R, x: [m]R, p: [n]idx(k), q: [m]idx(k)) =
        gen i:m. sum j:n. [p[j] < q[i]] * exp(r[j] - x[i])""",
    "under a condition": "f(r: [n]R, p: [n]idx(k)) = gen i:n. sum j:n. [p[j] <= p[i] and 2 <= j] * exp(r[j] - r[i])",
    "weighed": "f(r: [n]R, v: [n]R, p: [n]idx(k)) = gen i:n. sum j:n. [p[j] <= p[i]] * exp(r[j] - r[i]) * v[j] * v[i]",
    "up to rows": "f(l: [n]R, p: [q]idx(n)) = gen k:q. sum j:n. [j <= p[k]] * exp(l[p[k]] - l[j])",
    "from rows on": "f(l: [n]R, p: [q]idx(n)) = gen k:q. sum j:n. [p[k] < j] * exp(l[p[k]] - l[j])",
    "in groups": "f(r: [n]R, x: [n]R, p: [n]idx(m)) = gen i:n. sum j:n. [p[j] = p[i]] * exp(r[j] - x[i])",
    "in strata": """f(r: [n]R, x: [n]R, p: [n]idx(m), q: [n]idx(k)) =
        gen i:n. sum j:n. [p[j] = p[i] and q[i] <= q[j]] * exp(r[j] - x[i])""",
    "in packed sequences": """f(r: [n]R, v: [n]R, p: [n]idx(m)) =
        gen i:n. sum j:n. [p[j] = p[i] and j < i] * exp(r[j] - r[i]) * v[j]""",
}
COLUMNS = """f(r: [n]R, v: [n][d]R, p: [n]idx(k)) =
    gen i:n, c:d. sum j:n. [p[j] <= p[i]] * exp(r[j] - r[i]) * v[j, c]"""


def arguments(f: tl.Function, sizes: dict[str, int], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    given: list[Any] = []
    for x in f.params:
        if isinstance(x, IndexArray):
            (n,), below = (a.value({s: sizes[s.name] for s in a.sizes}) for a in x.sizes), x.size
            given.append(rng.integers(0, sizes[str(below)], n).astype(np.int32))
        else:
            given.append(rng.normal(size=[sizes[part[0]] for part in str(x.type).split("[")[1:]]))
    return given


def further(f: tl.Function, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes that no shape determines."""
    told = " ".join(str(x.type) for x in f.params if not isinstance(x, IndexArray))
    told += "".join(f"[{s}]" for x in f.params if isinstance(x, IndexArray) for s in x.sizes)
    return {s.name: sizes[s.name] for s in f.sizes if f"[{s.name}]" not in told}


def summed(text: str) -> str:
    """A program that sums the result of `text`, so that it has a gradient."""
    head, _, body = text.partition(" =")
    return f"{head} = let y = {body.strip()} in sum o:{body.strip().split('.')[0].split(':')[1]}. sin(y[o])"


def is_right(f: tl.Function, sizes: dict[str, int], seed: int = 0) -> None:
    given = arguments(f, sizes, seed)
    wanted = jax.tree.leaves(tl.evaluate(f, *given, **further(f, sizes)))
    for a, b in zip(jax.tree.leaves(tl.lower(f)(*given, **further(f, sizes))), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=str(f))


def sized_work(f: tl.Function, sizes: dict[str, int]) -> int:
    """The number of elements that the code of `f` computes at these sizes."""
    run = lambda *xs: tl.to_jax(f)(*xs, **further(f, sizes))
    return work(run, *arguments(f, sizes)).elements


SIZES = [
    {"n": n, "m": m, "k": k, "q": q, "d": 2}
    for n, m, k, q in ((1, 1, 1, 2), (7, 4, 3, 5), (37, 50, 6, 40), (0, 1, 2, 0), (40, 70_000, 70_000, 3))
]


@pytest.mark.parametrize("name", one_in(3, PROGRAMS))
def test_values_and_gradients_are_right_and_take_work_in_proportion_to_the_rows(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    g = tl.grad(tl.parse(summed(PROGRAMS[name])))
    for h in (f, g):
        with jax.enable_x64(True):
            for sizes in SIZES:
                is_right(h, sizes)
        elements = [sized_work(h, {"n": n, "m": n, "k": n, "q": n}) for n in (512, 1024, 2048)]
        assert elements[2] - elements[1] <= 2.2 * (elements[1] - elements[0]), elements


def test_values_of_several_columns_are_right() -> None:
    with jax.enable_x64(True):
        for sizes in SIZES:
            is_right(tl.parse(COLUMNS), sizes)


@pytest.mark.parametrize("seed", one_in(8, range(40)))
def test_random_sums_of_exponentials_in_order(seed: int) -> None:
    rng = random.Random(seed)
    limit = rng.choice(("q[j] <= q[i]", "q[i] < q[j]", "q[j] < q[i]", "j <= q[i]", "q[i] < j", "j <= i", "i < j"))
    group = rng.choice(("", "", "p[j] = p[i]", "p[i] = p[j]"))
    parts = [part for part in (group, limit, rng.choice(("", "1 <= j", "j + 1 < n"))) if part]
    rng.shuffle(parts)
    exponent = rng.choice(("r[j] - x[i]", "x[i] - r[j]", "r[i] - r[j]", "r[j] + x[i]", "-x[j] - r[i]"))
    weight = "".join(rng.choices((" * v[j]", " * x[i]", " * sin(v[j])", ""), k=2))
    text = (
        "f(r: [n]R, x: [n]R, v: [n]R, p: [n]idx(m), q: [n]idx(k)) = "
        f"gen i:n. sum j:n. [{' and '.join(parts)}] * exp({exponent}){weight}"
    )
    with jax.enable_x64(True):
        for h in (tl.parse(text), tl.grad(tl.parse(summed(text)))):
            for sizes in ({"n": 1, "m": 1, "k": 1}, {"n": 33, "m": 3, "k": 40}):
                is_right(h, sizes, seed)


def test_exponents_far_from_0_do_not_overflow() -> None:
    f = tl.parse("""f(r: [n]R, p: [n]idx(n)) = gen i:n.
        let top = max j:n where p[i] <= p[j]. r[j] in top + log(sum j:n. [p[i] <= p[j]] * exp(r[j] - top))""")
    rng = np.random.default_rng(0)
    r, p = (1000 * rng.normal(size=200)).astype(np.float32), rng.integers(0, 200, 200)
    there = np.where(p[:, None] <= p, r.astype(np.float64), -np.inf)
    wanted = there.max(1) + np.log(np.exp(there - there.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(tl.lower(f)(r, p), wanted, rtol=1e-6)
    assert count_of(tl.lower(f), "_decaying_in_order")


def test_derivatives_of_derivatives_are_right() -> None:
    f = tl.parse(summed(PROGRAMS["a risk set"]))
    with jax.enable_x64(True):
        r, x, p = arguments(f, {"n": 20, "k": 7}, 3)
        run = lambda r: tl.to_jax(f)(r, x, p, k=7)
        dense = lambda r: np.sin((np.exp(r - x[:, None]) * (p[:, None] <= p)).sum(1)).sum()

        def natural(r: Any) -> Any:
            return jnp.sum(jnp.sin(jnp.sum(jnp.where(p[:, None] <= p, jnp.exp(r - x[:, None]), 0), 1)))

        np.testing.assert_allclose(run(r), dense(r))
        np.testing.assert_allclose(jax.hessian(run)(r), jax.hessian(natural)(r), rtol=1e-9, atol=1e-10)
        batch = np.stack([r, 2 * r, -r])
        np.testing.assert_allclose(jax.vmap(jax.grad(run))(batch), jax.vmap(jax.grad(natural))(batch), rtol=1e-9)
