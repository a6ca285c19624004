"""Reports of slow gradients that users wrote to trackers: reproduced, linted, and derived.

    python -m benchmarks.reports [--only WORD ..] [--rounds N]

For each: XLA's operations of `jax.grad` and of `tl.jax.grad` at two sizes, the best of their times in turns at the
larger one, and what the linter says at a quarter of these sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tensorlang as tl
from benchmarks.packages.figures import apart, in_turns, operations, text
from benchmarks.packages.pool import Made
from tensorlang.jaxprs.lint import judged


@dataclass(frozen=True)
class Report:
    """A program as a user wrote it: where it was reported, its pattern, a scalar function of arrays, and the arrays."""

    where: str
    pattern: str
    fun: Callable[..., Any]
    arrays: Callable[[int], tuple[Any, ...]]
    sizes: tuple[int, int]

    def made(self, n: int) -> Made:
        """The function at a size."""
        return Made(self.fun, self.arrays(n))


def _normal(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


def _places(count: int, below: int) -> Any:
    return jnp.asarray(np.random.default_rng(1).integers(0, below, count), jnp.int32)


def _conv(x: Any, w: Any, **options: Any) -> Any:
    lines = ("NHC", "HIO", "NHC")
    return jax.lax.conv_general_dilated(x, w, options.pop("strides", (1,)), "SAME", dimension_numbers=lines, **options)


def reads_in_a_loop(x: Any, places: Any) -> Any:
    """Elements read one after the other."""
    total = jnp.float32(0)
    for k in range(places.shape[0]):
        total = total + jnp.sin(x[places[k]])
    return total


def reads_in_a_scan(x: Any) -> Any:
    """A scan that in each step reads one element of an array that it closes over."""
    step = lambda total, i: (total * 0.9 + jnp.sin(x[i]), None)
    return jax.lax.scan(step, jnp.float32(0), jnp.arange(x.shape[0]))[0]


def windows_in_a_scan(x: Any) -> Any:
    """A scan that in each step reads a window of an array that it closes over."""
    step = lambda total, i: (total * 0.9 + jnp.sum(jnp.sin(jax.lax.dynamic_slice_in_dim(x, i, 4))), None)
    return jax.lax.scan(step, jnp.float32(0), jnp.arange(x.shape[0] - 4))[0]


def reads_in_a_counted_loop(x: Any) -> Any:
    """A loop by a counter that reads one element in each step."""
    return jax.lax.fori_loop(0, x.shape[0], lambda i, total: total * 0.9 + jnp.sin(x[i]), jnp.float32(0))


def updates_in_a_loop(x: Any, y: Any) -> Any:
    """Rows that are set one after the other."""
    for k in range(24):
        x = x.at[k].set(jnp.sin(y[k]))
    return jnp.sum(x**2)


def wave(u: Any) -> Any:
    """Steps of the wave equation by slices."""
    for _ in range(4):
        u = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return jnp.sum(u**2)


def diagonal_times_matrix(x: Any, a: Any) -> Any:
    """A diagonal, written as a matrix."""
    return jnp.sum((jnp.diag(x) @ a) ** 2)


def diagonal_of_a_product(j: Any) -> Any:
    """The diagonal of J^T J."""
    return jnp.sum(jnp.sin(jnp.diag(j.T @ j)))


def trace_of_a_product(a: Any, b: Any) -> Any:
    """The trace of A B."""
    return jnp.sin(jnp.trace(a @ b))


def trace_by_a_mask(a: Any, b: Any) -> Any:
    """The same, by a mask."""
    return jnp.sin(jnp.sum(jnp.eye(a.shape[0]) * (a @ b)))


def take_and_contract(table: Any, w: Any, rows: Any, columns: Any) -> Any:
    """Rows of one matrix times rows of another."""
    return jnp.sum(jnp.sin(jnp.einsum("kd,kd->k", table[rows], w[columns])))


def score_of_edges(u: Any, v: Any, rows: Any, columns: Any) -> Any:
    """A product of which only few elements are read."""
    return jnp.sum(jnp.sin((u @ v.T)[rows, columns]))


def window_as_mask(q: Any, k: Any) -> Any:
    """Scores in a sliding window, by a mask."""
    n = q.shape[0]
    apart = jnp.arange(n)[:, None] - jnp.arange(n)[None]
    scores = jnp.where((apart >= 0) & (apart < 16), q @ k.T, 0.0)
    return jnp.sum(scores**2)


def embedding(table: Any, rows: Any) -> Any:
    """Few rows of a large table."""
    return jnp.sum(jnp.sin(table[rows]))


def running_sum(x: Any) -> Any:
    """A cumulative sum."""
    return jnp.sum(jnp.sin(jnp.cumsum(x)))


def transposed(x: Any, w: Any) -> Any:
    """A transposed convolution of stride 8."""
    return jnp.sum(jnp.sin(jax.lax.conv_transpose(x, w, (8,), "SAME", dimension_numbers=("NHC", "HIO", "NHC"))))


def grouped(x: Any, w: Any) -> Any:
    """A depthwise convolution."""
    return jnp.sum(jnp.sin(_conv(x, w, feature_group_count=x.shape[2])))


def dilated(x: Any, w: Any) -> Any:
    """A convolution of large dilation."""
    return jnp.sum(jnp.sin(_conv(x, w, rhs_dilation=(64,))))


def large_kernel(x: Any, w: Any) -> Any:
    """A convolution with a kernel as long as the signal."""
    return jnp.sum(jnp.sin(_conv(x, w)))


def repeated_indices(a: Any) -> Any:
    """An einsum with a repeated index."""
    return jnp.sum(jnp.sin(jnp.einsum("ii->i", a)))


REPORTS = (
    Report("jax#824, #891", "reads of single elements in a loop", reads_in_a_loop,
           lambda n: (_normal(n), _places(30, n)), (4096, 65536)),
    Report("jax#15906, #17640", "a scan that reads x[i]", reads_in_a_scan, lambda n: (_normal(n),), (512, 4096)),
    Report("jax#17640", "a scan that reads windows", windows_in_a_scan, lambda n: (_normal(n),), (512, 4096)),
    Report("jax#15906", "fori_loop that reads x[i]", reads_in_a_counted_loop, lambda n: (_normal(n),), (512, 4096)),
    Report("jax#1832", "a loop of indexed updates", updates_in_a_loop,
           lambda n: (_normal(n, 64), _normal(24, 64)), (512, 4096)),
    Report("jax#6872", "slices, the wave equation", wave, lambda n: (_normal(n),), (16384, 262144)),
    Report("jax#20600, #1563", "diag(J^T J)", diagonal_of_a_product, lambda n: (_normal(n, n),), (128, 512)),
    Report("jax#1032", "diag(x) A", diagonal_times_matrix, lambda n: (_normal(n), _normal(n, n)), (128, 512)),
    Report("jax PR#102", "trace of a product", trace_of_a_product,
           lambda n: (_normal(n, n), _normal(n, n)), (128, 512)),
    Report("jax PR#20970", "trace by a mask", trace_by_a_mask, lambda n: (_normal(n, n), _normal(n, n)), (128, 512)),
    Report("autograd#115", "einsum with a repeated index", repeated_indices, lambda n: (_normal(n, n),), (256, 2048)),
    Report("jax#3206", "take and einsum", take_and_contract,
           lambda n: (_normal(n, 32), _normal(n, 32), _places(n, n), _places(n, n)), (1024, 16384)),
    Report("dgl#3729", "few elements of a product", score_of_edges,
           lambda n: (_normal(n, 32), _normal(n, 32), _places(4 * n, n), _places(4 * n, n)), (128, 1024)),
    Report("axlearn PR#758", "a sliding window as a mask", window_as_mask,
           lambda n: (_normal(n, 32), _normal(n, 32)), (256, 1024)),
    Report("jax#38806", "few rows of an embedding", embedding,
           lambda n: (_normal(n, 64), _places(64, n)), (1024, 16384)),
    Report("jax#1212, #2418", "cumulative sums", running_sum, lambda n: (_normal(n),), (16384, 262144)),
    Report("jax#31662, equinox PR#1259", "transposed convolution", transposed,
           lambda n: (_normal(4, n, 8), _normal(8, 8, 8)), (128, 1024)),
    Report("jax#13800, #859", "depthwise convolution", grouped,
           lambda n: (_normal(4, 256, n), _normal(5, 1, n)), (16, 128)),
    Report("xla PR#32231, tensorflow#54279", "dilated convolution", dilated,
           lambda n: (_normal(4, n, 8), _normal(5, 8, 8)), (512, 4096)),
    Report("jax#23085", "convolution with a large kernel", large_kernel,
           lambda n: (_normal(1, n, 1), _normal(n, 1, 1)), (512, 4096)),
)  # fmt: skip


def main() -> None:
    """Print a line for each report."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks.reports", description=__doc__)
    asked.add_argument("--only", nargs="*", default=[])
    asked.add_argument("--rounds", type=int, default=15)
    given = asked.parse_args()
    print("| report | pattern | size | XLA's operations, jax.grad | derived | time of jax.grad | derived | linter |")
    print("|---|---|---|---|---|---|---|---|")
    for report in REPORTS:
        if not given.only or any(word in f"{report.where} {report.pattern}" for word in given.only):
            print(line(report, given.rounds), flush=True)


def line(report: Report, rounds: int) -> str:
    """The figures of one report as a row of a table."""
    counts = []
    for n in report.sizes:
        made = report.made(n)
        theirs, ours = (
            jax.jit(gradient(made.fun, made.wanted)).lower(*made.args).compile() for gradient in (jax.grad, tl.jax.grad)
        )
        counts.append(operations(theirs, ours) or (0, 0))
    assert apart(ours(*made.args), theirs(*made.args)) < 1e-3, report.pattern
    same = text(ours) == text(theirs)
    (theirs_took, ours_took), _ = in_turns(theirs, ours, made, rounds)

    def at(n: int) -> Any:
        found = report.made(n)
        return found.fun, jax.eval_shape(lambda *args: args, *found.args), found.wanted

    told = judged(report.fun.__name__, at, report.sizes, compiled=True)
    verdict = told.findings[0].code if told.findings else "fine"
    cells = [report.where, report.pattern, ", ".join(f"{n:,}" for n in report.sizes)]
    cells += [", ".join(f"{pair[k]:,}" for pair in counts) for k in (0, 1)]
    cells += [f"{1e3 * theirs_took:.3g} ms", "the same code" if same else f"{1e3 * ours_took:.3g} ms"]
    return f"| {' | '.join(cells)} | {verdict} |"


if __name__ == "__main__":
    main()
