"""The page of limits on pairs: code looks at all pairs in these programs, and no longer in others."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tests.lowering.test_decays_in_order import sized_work

HEAD = "f(x: [n]R, y: [n]R, l: [n]R, t: [n]R, p: [n]idx(n), q: [n]idx(n))"
BOTH = {
    "pairs of a group": "sum i:n, j:n. [p[j] = p[i]] * sin(x[i] * x[j])",
    "pairs in order": "sum i:n, j:n. [p[j] <= p[i]] * sin(x[i] * x[j])",
    "all others": "sum i:n. sin(sum j:n. [i != j] * exp(x[j] - x[i]))",
    "values compared": "sum i:n. log(1 + sum j:n. if t[i] <= t[j] then exp(x[j]) else 0)",
    "under values": "sum i:n. sin(sum j:n. if x[j] > 0 then [j <= i] * exp(l[i] - l[j]) else 0)",
    "absolute values": "sum i:n, j:n. abs(x[i] - x[j])",
    "margins": "sum i:n, j:n. max(0, 1 + y[j] - x[i])",
    "both ways": "sum i:n. sin(sum j:n. exp(-y[0] * abs(t[i] - t[j])))",
    "rows of alternatives": "let z = gen i:n, j:n. [i = j or j = 0] * sin(x[i] * x[j]) in sum k:n, j:n. z[p[k], j]^2",
    "a table in steps": "let z = gen i:n, j:n. sin(x[i] * x[j]) in fold k:n with s = 0. cos(s) * z[p[k], q[k]]",
}
VALUE = {"squares in a group": "sum i:n, j:n. [p[j] = p[i]] * (x[i] - x[j])^2"}
GRADIENT = {
    "near one another": "sum k:n, m:n. [0 <= p[k] - q[m] and p[k] - q[m] <= 1] * sin(x[p[k]] + x[q[m]])",
    "a differentiated top": """sum i:n. let top = max j:n where i <= j. x[j] in
        sin(sum j:n. [i <= j] * exp(x[j] - top))""",
}
NEITHER = {
    "greatest beside zeros": "sum i:n. max j:n. [i - 1 <= j and j <= i] * x[i] * x[j]",
    "greatest of alternatives": "sum i:n. max j:n where i - 1 <= j and j <= i or j = 0. x[i] * x[j]",
    "overlapping blocks": "sum i:n, j:n. [j // 4 = i // 4 or j // 3 = i // 3] * sin(x[i] * y[j])",
    "sums in a group": "sum i:n. sin(sum j:n. [p[j] = p[i]] * x[j])",
    "exponentials in a group": "sum i:n. sin(sum j:n. [p[j] = p[i]] * exp(x[j] - y[i]))",
    "ranks compared": "sum i:n. log(1 + sum j:n. [p[i] <= p[j]] * exp(x[j]))",
    "other groups": "sum i:n. sin(sum j:n. [p[i] != p[j]] * x[j])",
    "a window or a column": "sum i:n, j:n. [i - 1 <= j and j <= i or j = 0] * sin(x[i] * x[j])",
    "a top that cancels": """let top = gen i:n. max j:n where i <= j. x[j] in
        sum i:n. top[i] + log(sum j:n. [i <= j] * exp(x[j] - top[i]))""",
}


def growth(f: tl.Function) -> float:
    """The ratio of the elements added when 512 rows become 1024 to those added when 256 become 512."""
    small, middle, large = (sized_work(f, {"n": n}) for n in (256, 512, 1024))
    return (large - middle) / (middle - small)


@pytest.mark.parametrize("name", [*BOTH, *VALUE, *GRADIENT, *NEITHER])
def test_all_pairs_are_looked_at_where_the_page_says_so(name: str) -> None:
    e = (BOTH | VALUE | GRADIENT | NEITHER)[name]
    f = tl.parse(f"{HEAD} = {e}".replace("y[0]", "(sum i:n. y[i])"))
    value, gradient = growth(f), growth(tl.grad(f))
    assert (value > 3) == (name in BOTH or name in VALUE), value
    assert (gradient > 3) == (name in BOTH or name in GRADIENT), gradient
