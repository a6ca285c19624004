"""What holds of a chosen element is known only where it is read, not in the other cases of a condition."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

LEAST = "let t = gen i:2*n, j:2*n. min l:2*n where 0 <= l - i < 2. x[j + 1, l] in "

PROGRAMS = {
    "read twice": LEAST
    + """sum q:2*n + 1, j:2*n. (min l:2*n where 0 <= l - y[j] < 2.
      t[2*n - j - 1, 2*n - j - 1] * t[j, 2*n - l - 1]) ^ 2""",
    "with an idle index": """let t = gen q:2*n + 1, i:2*n, j:2*n. min l:2*n where 0 <= l - i < 2. x[j + 1, l] in
      sum q:2*n + 1, j:2*n. (min l:2*n where 0 <= l - y[j] < 2.
        t[q, 2*n - j - 1, 2*n - j - 1] * t[l, j, 2*n - l - 1]) ^ 2""",
    "greatest of it": LEAST + "sum j:2*n. (max l:2*n where l <= y[j]. t[j, j] * t[2*n - l - 1, j]) ^ 2",
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_what_small_steps_show(name: str, n: int) -> None:
    f = tl.parse(f"f(x: [2*n + 1][2*n]R, y: [2*n]idx(2*n)) = {PROGRAMS[name]}")
    gradient = tl.grad(f)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2 * n + 1, 2 * n)), rng.integers(0, 2 * n, 2 * n)
        way, h = rng.normal(size=x.shape), 1e-6
        ahead, behind = (tl.evaluate(f, x=x + e * way, y=y) for e in (h, -h))
        slope = np.sum(tl.evaluate(gradient, x=x, y=y) * way)
        assert np.isclose(slope, (ahead - behind) / (2 * h), rtol=1e-4, atol=1e-5)
