"""Relations that steps of recurrences read: by their points, where these are known."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse

import tensorlang as tl
from tensorlang.measure.count import count

STEP = "gen i:K. 0.1 * h[i] + "
PROGRAMS = {
    "sums": f"fold t:T with h = x. {STEP} sum j:K. [E(i, j)] * sin(h[i] * h[j])",
    "sums of columns": f"fold t:T with h = x. {STEP} u[t] * sum j:K. [E(j, i)] * h[j]^2",
    "greatest values": f"fold t:T with h = x. {STEP} u[t] * ([exists j:K. E(i, j)] * max j:K where E(i, j). h[j])",
    "at all times": f"let h = scan t:T with h = x. {STEP} sum j:K. [E(j, i)] * h[j] in gen i:K. sum t:T. h[t, i]^2",
    "outside, too": "let d = gen i:K. sum j:K. [E(i, j)] * x[j] in let h = scan t:T with h = d. "
    f"{STEP} u[t] * sum j:K. [E(j, i)] * sin(h[i] + h[j]) in gen i:K. sum t:T, j:K. [E(i, j)] * h[t, i] * h[t, j]",
    "a loop in a loop": f"fold t:T with h = x. fold q:2 with h = h. {STEP} u[t] * sum j:K. [E(j, i)] * h[j]^2",
    "asked at places": "fold t:T with h = x. gen i:K. h[i] + [E(a[t], a[t]) and i = a[t]] * sin(h[a[t]])",
    "and data": f"fold t:T with h = x. {STEP} sum j:K. [E(i, j) and i < j] * h[a[t]] * h[j]",
}


def program(name: str) -> tl.Function:
    return tl.parse(
        f"f(E: rel(K, K), x: [K]R, u: [T]R, a: [T]idx(K)) = let s = {PROGRAMS[name]} in sum i:K. s[i] * s[i]"
    )


def data(size: int, steps: int, each: float) -> tuple[scipy.sparse.csr_matrix, list[Any]]:
    rng = np.random.default_rng(size)
    e = scipy.sparse.random(size, size, min(1, each / max(size, 1)), "csr", random_state=1)
    e.data[:] = 1
    return e, [rng.normal(size=size), rng.normal(size=steps), rng.integers(0, max(size, 1), steps)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_read_relations_by_their_points(name: str) -> None:
    f = program(name)
    both = tl.lower(tl.value_and_grad(f, ("x", "u")))
    with jax.enable_x64(True):
        for size, steps in ((0, 0), (1, 1), (7, 3), (20, 0), (20, 2)):
            e, given = data(size, steps, 3)
            mask = e.toarray() != 0
            wanted = jax.tree.leaves(tl.evaluate(tl.value_and_grad(f, ("x", "u")), mask, *given))
            for relation in (e, mask):
                for x, y in zip(jax.tree.leaves(both(relation, *given)), wanted, strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def growth(f: tl.Function) -> float:
    """The ratio of the work for 600 elements to that for 300, bytes counted."""
    run, work = tl.lower(f), []
    for size in (300, 600):
        e, (x, u, a) = data(size, 2, 3)
        done = count(lambda x, u, e=e, a=a: run(e, x, u, a), x, u)
        work.append(done.operations + done.comparisons + done.traffic + 1000)
    return work[1] / work[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_take_work_for_each_point(name: str) -> None:
    assert growth(program(name)) < 2.3


@pytest.mark.parametrize("name", ["sums of columns", "greatest values", "a loop in a loop"])
def test_so_do_gradients_of_steps_that_store_no_matrix(name: str) -> None:
    assert growth(tl.grad(program(name), "x")) < 2.3


def test_what_a_step_stores_under_a_relation_is_a_matrix_as_the_page_of_limits_says() -> None:
    assert growth(tl.grad(program("sums"), "x")) > 3


ASKED = """
f(x: [n]R, q: [n]idx(n), s: [n]idx(n), z: idx(n), r: rel(n, n)) = [0 < n] *
  let h = fold t:n with h = x.
    gen i:n. sin(h[i]) + [exists k:n. r(k, t) and i = q[k]] * x[i]
      + sum j:n. [exists k:n. r(k, n - t - 1) and q[k] = j and j <= t] * h[j] in
  let c = argmax i:n. x[i] in
  gen i:n. h[i] + [exists k:n. r(k, z) and i = q[k]] + [exists k:n. q[k] = s[c] and r(k, i)] * x[i]
    + [exists k:n. q[k] = s[z]] * x[i] + [exists k:n. r(k, s[c]) and q[k] = s[z]]
"""


def test_steps_ask_whether_data_have_a_point_at_their_own_time() -> None:
    f = tl.parse(ASKED)
    for g in (f, tl.adjoint(f)):
        source: Any = tl.lower(g)._form(()).made
        assert getattr(source, "whole", source).cost.excess is None  # n^2; with a table for all times it is n^3
        for n in (1, 4, 9):
            rng = np.random.default_rng(n)
            x, mask = rng.normal(size=n), rng.random((n, n)) < 0.3
            given = {"x": x, "q": rng.integers(0, n, n), "s": rng.integers(0, n, n), "z": n - 1, "r": mask}
            given |= {"f_bar": rng.normal(size=n)} if g is not f else {}
            with jax.enable_x64(True):
                for r in (mask, scipy.sparse.coo_array(mask)):
                    found = tl.lower(g)(**given | {"r": r})
                    np.testing.assert_allclose(found, tl.evaluate(g, **given), rtol=1e-9, atol=1e-12)
