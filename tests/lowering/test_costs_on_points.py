"""What the code for relations that are given by their points costs, for all sizes and numbers of points."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.predicates import Relation
from tensorlang.lowering.arrays.cost import ArrayCost
from tensorlang.lowering.emit.recurrences import source
from tensorlang.simplification import simplify
from tests.support.traced import work

PROGRAMS = {
    "messages": "f(E: rel(n, m), x: [m]R, y: [n]R) = gen i:n. sum j:m. [E(i, j)] * sin(x[j] * y[i])",
    "differences": "f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j)] * (x[i] - x[j])^2",
    "greatest": "f(E: rel(n, n), x: [n]R) = gen i:n. max j:n. [E(i, j)] * (x[i] - x[j])^2",
    "to oneself": "f(E: rel(n, n), W: [n][n]R, x: [n]R) = gen i:n. sum j:n. [E(i, j) or i = j] * W[i, j] * x[j]",
    "over time": "f(E: rel(n, n), h: [n]R, u: [T]R) = "
    "fold t:T with s = h. gen i:n. sin(u[t] * sum j:n. [E(i, j)] * s[j])",
}


def cost(f: tl.Function) -> ArrayCost:
    return source(simplify(f), [p for p in f.params if isinstance(p, Relation)]).cost


@pytest.mark.parametrize("name", PROGRAMS)
def test_code_on_points_grows_no_faster_than_the_program(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    for g in (f, tl.adjoint(f)):
        assert cost(g).excess is None


def test_costs_count_points() -> None:
    explained = tl.lower(tl.parse(PROGRAMS["messages"])).explain(on_points=True)
    assert "takes 5*E.points operations" in explained.notes[-1]
    assert "the model counts 5*E.points + m + 2*n" in explained.notes[-1]
    at = tl.lower(tl.parse(PROGRAMS["messages"])).explain({"n": 3, "m": 4, "E.points": 7}, on_points=True)
    assert "takes 35 operations" in at.notes[-1]
    with pytest.raises(tl.ArgumentError, match=r"the cost depends on E\.points"):
        tl.lower(tl.parse(PROGRAMS["messages"])).explain(on_points=True, n=3, m=4)


@pytest.mark.parametrize("name", ["messages", "differences"])
def test_costs_are_between_the_arithmetic_that_jax_does_and_all_that_it_writes(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    n, points = 300, 200
    rng = np.random.default_rng(0)
    E = np.zeros((n, n), bool)
    E.flat[rng.choice(n * n, points, replace=False)] = True
    lowered = tl.lower(f)
    done = work(lambda *given: lowered(E, *given), *(rng.random(n) for _ in f.variables))
    found = cost(f).operations({**{s.name: n for s in f.sizes}, "E.points": points})
    assert done.operations <= found <= done.operations + done.elements


def test_products_of_relations_are_told_to_look_at_pairs_of_points() -> None:
    f = tl.parse("f(E: rel(n, n), x: [n]R) = gen i:n, k:n. sum j:n. [E(i, j) and E(j, k)] * x[j]")
    note = tl.lower(f).explain(on_points=True).notes[-1]
    assert "operations grow as O(E.points^2), the model's count as O(E.points*n + n^2)" in note


def test_numbers_of_points_are_not_taken_for_sizes() -> None:
    f = tl.parse("f(E: rel(n, E_points), x: [E_points]R) = gen i:n. sum j:E_points. [E(i, j)] * sin(x[j])")
    assert "takes 3*E.points + 2*E_points operations" in tl.lower(f).explain(on_points=True).notes[-1]
    E = np.zeros((300, 5), bool)
    E[7, 2] = E[250, 4] = True
    np.testing.assert_allclose(tl.lower(f)(E, np.arange(5.0)), E @ np.sin(np.arange(5.0)), rtol=1e-6)
