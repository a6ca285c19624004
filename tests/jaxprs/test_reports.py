"""Programs from reports of slow gradients: found and made faster where there is something to gain, left alone
otherwise."""

from __future__ import annotations

from typing import Any

import jax
import pytest

import tensorlang as tl
from benchmarks.packages.figures import apart
from benchmarks.reports import REPORTS, Report
from tensorlang.jaxprs.lint import judged

FOUND = {
    "diag(J^T J)",
    "diag(x) A",
    "trace of a product",
    "trace by a mask",
    "few elements of a product",
    "a sliding window as a mask",
    "depthwise convolution",
}
QUICK = {"trace of a product", "few elements of a product"}


@pytest.mark.parametrize(
    "report",
    [pytest.param(r, id=r.pattern, marks=[] if r.pattern in QUICK else [pytest.mark.slow]) for r in REPORTS],
)
def test_a_report_is_found_and_mended_or_fine(report: Report) -> None:
    def made(n: int) -> Any:
        found = report.made(n)
        return found.fun, jax.eval_shape(lambda *args: args, *found.args), found.wanted

    small, large = (n // 4 for n in report.sizes)
    findings = judged(report.fun.__name__, made, (small, large)).findings
    assert [f.code for f in findings[:1]] == (["TL001"] if report.pattern in FOUND else [])
    m = report.made(large)
    want = jax.jit(jax.grad(m.fun, m.wanted))(*m.args)
    assert apart(jax.jit(tl.jax.grad(m.fun, m.wanted))(*m.args), want) < 1e-3
