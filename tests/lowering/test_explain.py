"""`explain` reports for each array what was chosen, what was not, and why."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest
from click.testing import CliRunner

import tensorlang as tl
from tensorlang.cli import main
from tensorlang.lowering.arrays import extrema
from tensorlang.lowering.arrays.sums import strategies

EXAMPLES = {
    "scale": "f(y: [m]idx(n), x: [m]R) = gen k:n. sum i:m. [k = y[i]] * -x[i]",
    "points of a relation": "f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j)] * x[i]",
    "group": "f(E: rel(n, k), a: [m]idx(k), x: [m]R) = gen i:n. sum j:m. [E(i, a[j])] * x[j]",
    "eliminate": "f(E: rel(n, m), x: [n]R) = gen j:m. sum i:n. [E(i, j)] * x[i]",
    "one point or another": "f(k: [m]idx(n), l: [m]idx(n), x: [n]R) = gen i:m. sum j:n. [j = k[i] or j = l[i]] * x[j]",
    "separate": "f(p: [n]idx(m), x: [n]R, y: [n]R) = gen i:n. sum j:n, k:n. [j <= i and p[k] = p[i]] * x[j] * y[k]",
    "few points of segments": "f(y: [n]idx(m), a: [q]idx(n), x: [n]R) = "
    "gen k:m. sum i:q, j:n. [k = y[j] and a[i] - 2 <= j <= a[i]] * x[j]",
    "segment sum": "f(y: [m]idx(n), x: [m]R) = gen k:n. sum i:m. [k = y[i]] * x[i]",
    "shared segments": "f(a: [n]idx(k), y: [m]idx(k), x: [m]R) = gen i:n. sum j:m. [a[i] = y[j]] * x[j]",
    "numbered pairs": "f(p: [n]idx(k), q: [n]idx(m), x: [n]R) = gen i:n. sum j:n. [p[j] = p[i] and q[j] = q[i]] * x[j]",
    "spread": "f(x: [n]R) = gen k:2*n. sum s:n. [k = 2*s] * x[s]^2",
    "restrict": "f(x: [n]R) = sum i:n. [1 <= i] * x[i]",
    "correlation": "f(x: [n + m]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j]",
    "band product": "f(x: [n + 2][m]R, w: [n][m]R) = gen i:n, a:3. sum k:m. x[i + a, k] * w[i, k]",
    "stack along a short axis": "f(x: [n + 2][m]R) = gen i:n, a:3. sum k:m. x[i + a, k]",
    "count": "f(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[i]",
    "factor": "f(x: [n]R, y: [n]R) = gen i:n. sum j:n. ([i <= j] * x[j] * y[i] - x[i])",
    "prefix sum": "f(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[j]",
    "sums by value": "f(x: [m]R, y: [m]idx(n)) = gen i:n. sum j:m. [i <= y[j]] * x[j]",
    "running sums in groups": "f(p: [n]idx(k), x: [n]R) = gen i:n. sum j:n. [p[j] = p[i] and j <= i] * x[j]",
    "window": "f(x: [n]R, a: [q]idx(n)) = gen i:q. sum j:n. [a[i] - 2 <= j <= a[i]] * x[j]",
    "diagonals that data give": "f(x: [n]R, y: [q]R, a: [q]idx(n)) = "
    "gen j:n. sum i:q. [a[i] - 2 <= j <= a[i]] * sin(x[j] + y[i])",
    "chunks": "f(q: [n][d]R, k: [n][d]R, v: [n]R) = gen i:n. sum j:n, a:d. [j <= i] * q[i, a] * k[j, a] * v[j]",
    "exponentials in order": "f(x: [n]R, p: [n]idx(n)) = gen i:n. sum j:n. [p[i] <= p[j]] * exp(x[j] - x[i])",
    "nest": "f(x: [n]R, y: [n]R) = sum i:n, j:n. [j <= i] * x[i] * y[j]",
    "blocks of rows": "f(A: [n][n]R) = gen i:n. sum j:n. [j <= i] * A[i, j]",
    "hoist": "f(x: [n]R) = gen i:n. sum j:n. [j <= i] * x[j]",
    "distribute": "f(x: [n]R, A: [n][m]R, z: [m]R) = gen i:n. sum j:m. (A[i, j]^2 + z[j])",
    "expand": "f(t: [2*n]R, u: [n]R, v: [n]R) = gen i:n. sum j:n. (t[i + j] + u[i] * v[j]) * v[j]",
    "loop": "f(x: [m + n]R, w: [n][m]R) = gen i:n. sum j:m. x[i + j] * w[i, j]",
    "sum of a product": "f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. A[i, j] * x[j]",
}
EXTREMA = {
    "one point or another": "f(x: [n][n]R) = gen i:n. max j:n where j = i or j = 0. x[i, j]",
    "one point": "f(x: [n][n]R) = gen i:n. max j:n where j = i. x[i, j]",
    "one window or another": "f(x: [n][n]R) = gen i:n. max j:n where i <= j and j < i + 3 or j = 0. x[i, j]",
    "stack along a short axis": "f(x: [n + 2][m]R) = gen i:n, a:3. max k:m. x[i + a, k]",
    "segments": "f(y: [m]idx(n), x: [m]R) = gen i:n. max j:m where y[j] = i. x[j]",
    "shared segments": "f(y: [m]idx(n), a: [k]idx(n), x: [m]R) = "
    "gen i:k. [exists j:m. y[j] = a[i]] * max j:m where y[j] = a[i]. x[j]",
    "numbered pairs": "f(p: [n]idx(k), q: [n]idx(m), x: [n]R) = "
    "gen i:n. max j:n where p[j] = p[i] and q[j] = q[i]. x[j]",
    "running extrema in groups": "f(p: [n]idx(k), x: [n]R) = gen i:n. max j:n where p[j] = p[i] and j <= i. x[j]",
    "window": "f(x: [n]R) = gen i:n. max j:n where i <= j and j < i + 40. x[j]",
    "running extremum": "f(x: [n]R) = gen i:n. max j:n where i <= j. x[j]",
    "extremum in an order": "f(t: [n]idx(k), x: [n]R) = gen i:n. max j:n where t[j] <= t[i]. x[j]",
    "slice by slice": "f(x: [n + 5]R) = gen i:n. max j:5. x[i + j]",
    "along an axis": "f(x: [n][m]R) = gen i:n. max j:m. x[i, j]",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_way_to_compute_a_sum_is_told_when_it_is_chosen(name: str) -> None:
    explained = tl.lower(tl.parse(EXAMPLES[name])).explain(on_points="rel(" in EXAMPLES[name])
    assert name in {chosen for step in explained.steps for chosen in step.strategies}, str(explained)
    assert f"{name}: " in str(explained)


@pytest.mark.parametrize("name", EXTREMA)
def test_each_way_to_compute_an_extremum_is_told_when_it_is_chosen(name: str) -> None:
    explained = tl.lower(tl.parse(EXTREMA[name])).explain()
    assert name in {chosen for step in explained.steps for chosen in step.strategies}, str(explained)


def test_every_strategy_has_a_law_and_an_example() -> None:
    assert [s.name for s in strategies.STRATEGIES] == list(EXAMPLES)
    assert {s.name for s in extrema.STRATEGIES} == {*EXTREMA, "blocks of rows"}
    assert all(s.law for s in (*strategies.STRATEGIES, *extrema.STRATEGIES))


def test_what_was_tried_before_says_why_it_does_not_apply() -> None:
    (step,) = tl.lower(tl.parse(EXAMPLES["blocks of rows"])).explain().steps
    (decision,) = step.decisions
    assert decision.chosen == "blocks of rows"
    order = [s.name for s in strategies.STRATEGIES]
    assert [name for name, _ in decision.rejected] == order[: order.index("blocks of rows")]
    assert dict(decision.rejected)["restrict"] == "no condition bounds one summed index by sizes alone"


def test_each_array_says_how_it_lies() -> None:
    triangle = """f(A: [n][n]R, x: [n]R) =
      let t = gen i:n, j:n. [j < i] * sin(A[i, j] - x[j]) in gen i:n. sum j:n. [j < i] * t[i, j]^2"""
    explained = tl.lower(tl.parse(triangle)).explain()
    assert explained["t"].storage.startswith("in blocks of rows of i, zero unless j")
    assert explained["result"].storage == "dense"
    graph = """f(E: rel(n, m), x: [n]R, z: [m]R) =
      let y = gen i:n, j:m. [E(i, j)] * sin(x[i] * z[j]) in
      (sum i:n, j:m. [E(i, j)] * y[i, j]^2) + sum i:n, j:m. [E(i, j)] * y[i, j]"""
    assert tl.lower(tl.parse(graph)).explain(on_points=True)["y"].storage.startswith("only at the points of E")


def test_it_is_a_table_in_notebooks_and_text_elsewhere() -> None:
    explained = tl.lower(tl.parse(EXAMPLES["prefix sum"])).explain()
    html = explained._repr_html_()
    assert html is not None
    assert "<table>" in html
    assert "prefix sum" in html
    assert "gen i:n. sum j:n." in str(explained)
    with pytest.raises(KeyError):
        explained["nothing"]


@pytest.mark.parametrize("target", ["pallas-tpu", "pallas-gpu"])
def test_kernels_and_what_is_left_to_jax_are_told_with_the_reason(target: str) -> None:
    product = "f(A: [n][n]R, B: [n][n]R) = gen i:n, j:n. sum k:n. A[i, k] * B[k, j]"
    explained = tl.lower(tl.parse(product), target).explain()
    assert explained.target == target
    assert "kernel" in explained["result"].text
    (left,) = tl.lower(tl.parse("f(x: [n]R) = sum i:n. x[i]"), target).explain().steps
    assert left.computed == "by jax.numpy"
    assert left.kept.startswith("since it is")


def test_a_program_on_a_mesh_tells_how_its_arrays_are_mapped() -> None:
    mesh = jax.sharding.AbstractMesh((4,), ("x",))
    f = tl.parse("f(A: [n][m]R, v: [m]R) = gen i:n. sum j:m. A[i, j] * v[j]")
    explained = tl.lower(f, mesh=mesh, sharding={"j": "x"}).explain()
    assert any("along x" in step.storage for step in explained.steps)
    assert any("along x" in step.kept for step in explained.steps)


def test_costs_are_told_for_all_sizes_beside_those_of_the_model() -> None:
    f = tl.parse("f(A: [n][m]R, x: [m]R) = let t = gen i:n. sum j:m. A[i, j] * x[j] in sum i:n. t[i] * t[i]")
    explained = tl.lower(f).explain()
    assert explained["t"].cost == "2*m*n operations"
    (note,) = explained.notes
    assert note.startswith("At all sizes of at least 1 all of it takes 2*m*n + 2*n operations and writes 8*n bytes;")
    assert note.endswith("the model counts 3*m*n + m + n, inputs and outputs included, for the worst data.")


def test_costs_are_told_at_sizes() -> None:
    f = tl.parse("f(A: [n][m]R, x: [m]R) = let t = gen i:n. sum j:m. A[i, j] * x[j] in sum i:n. t[i] * t[i]")
    explained = tl.lower(f).explain(n=10, m=20)
    assert explained["t"].cost == "400 operations"
    assert any(note.startswith("At n = 10, m = 20 all of it takes 420 operations") for note in explained.notes)
    assert not any("does not hold" in note for note in explained.notes)
    with pytest.raises(tl.ArgumentError, match="the cost depends on m"):
        tl.lower(f).explain(n=10)


def test_the_command_explains(tmp_path: Path) -> None:
    file = tmp_path / "f.tl"
    file.write_text(EXAMPLES["prefix sum"])
    text = CliRunner().invoke(main, ["lower", str(file), "--explain"])
    data = CliRunner().invoke(main, ["lower", str(file), "--explain", "--format", "json"])
    costs = CliRunner().invoke(main, ["lower", str(file), "--explain", "--size", "n=20"])
    assert "prefix sum" in text.output
    assert "operations" in costs.output
    assert json.loads(data.output)["steps"][0]["decisions"][0]["chosen"] == "prefix sum"
