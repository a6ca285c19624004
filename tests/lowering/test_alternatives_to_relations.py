"""Relations or something else, such as a graph with an edge from each node to itself: work for each point."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.sparse

import tensorlang as tl
from tensorlang.measure.count import count

SELF = "E(i, j) or i = j"
PROGRAMS = {
    "sums": f"sum i:n. sin(sum j:n. [{SELF}] * sin(x[i] * x[j]))",
    "greatest values": f"sum i:n. sin(max j:n where {SELF}. x[i] * x[j])",
    "a column": "sum i:n. sin(sum j:n. [E(i, j) or j = 0] * sin(x[i] * x[j]))",
    "two alternatives": f"sum i:n. sin(sum j:n. [{SELF} or j = 0] * sin(x[i] * x[j]))",
    "a softmax": f"let m = gen i:n. max j:n where {SELF}. x[i] * x[j] in "
    f"let z = gen i:n. sum j:n. [{SELF}] * exp(x[i] * x[j] - m[i]) in sum i:n. m[i] + log(z[i])",
    "steps": f"let h = fold t:2 with h = x. gen i:n. 0.3 * sum j:n. [{SELF}] * h[j]^2 in sum i:n. sin(h[i])",
}


@pytest.mark.parametrize("what", ["value", "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_alternatives_to_points_take_work_for_each_of_them(name: str, what: str) -> None:
    f = tl.parse(f"f(E: rel(n, n), x: [n]R) = {PROGRAMS[name]}")
    g = f if what == "value" else tl.grad(f, "x")
    run, rng, work = tl.lower(g), np.random.default_rng(0), []
    with jax.enable_x64(True):
        for n in (1, 2, 9):
            e, x = scipy.sparse.random(n, n, 0.3, "csr", random_state=n) != 0, rng.normal(size=n)
            for given in (e, e.toarray()):
                np.testing.assert_allclose(run(given, x), tl.evaluate(g, e.toarray(), x), rtol=1e-10)
    for n in (300, 600):
        e = scipy.sparse.random(n, n, 3 / n, "csr", random_state=1) != 0
        done = count(lambda x, e=e: run(e, x), rng.normal(size=n))
        work.append(done.operations + done.comparisons)
    assert work[1] <= 2.1 * work[0], work
