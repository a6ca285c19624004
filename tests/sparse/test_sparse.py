"""Hessians and Jacobians in sparse layouts: cheap, and the same in every layout."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import scipy.linalg
from jax.experimental.sparse import BCOO

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape
from tests.support.promises import close
from tests.support.sampling import one_in

PROGRAMS = {
    "chain": "f(x: [n + 1]R) = sum i:n. (x[i + 1] - x[i])^4",
    "stencil": "f(x: [n + 2]R) = sum i:n. tanh(x[i] + 2 * x[i + 1] + x[i + 2])",
    "along edges": "f(x: [n]R, a: [e]idx(n), b: [e]idx(n)) = sum p:e. exp(x[a[p]] - x[b[p]])",
    "dense": "f(x: [n]R) = (sum i:n. x[i]^2)^2",
    "of the greatest": "f(x: [n][m]R) = sum i:n. (max j:m. x[i, j]^2)^2",
    "two parameters": "f(x: [n]R, y: [m]R) = (sum i:n. sin(x[i])) + sum i:n, j:m. [i = j] * x[i]^2 * y[j]^3",
    "grid": "f(x: [n][m]R) = (sum i:n-1, j:m. (x[i+1, j] - x[i, j])^4) + sum i:n, j:m-1. (x[i, j+1] - x[i, j])^4",
    "of the nearest": "f(x: [n][m]R, c: [k + 1][m]R) = sum i:n. (min j:k + 1. sum l:m. (x[i, l] - c[j, l])^2)^2",
    "of choices of choices": """f(x: [n]R, y: [n][m]R) =
        let a = gen i:n. argmax j:m. y[i, j] in sum i:n. max k:n. x[k]^2 * y[k, a[k]]""",
    "relation": "f(x: [n]R, E: rel(n, n)) = sum i:n, j:n. [E(i, j)] * (x[i] - x[j])^4",
    "linear": "f(x: [n]R) = sum i:n. x[i]",
    "triangle": "f(x: [n]R, y: [k]R) = sum i:n, j:k. [i < j] * x[i]^2 * y[j]",
    "permuted": "f(x: [n]R, a: [n]idx(n)) = sum i:n. x[i]^2 * x[a[i]]",
}

SIZES = [{"n": 6, "m": 4, "e": 9, "k": 5}, {"n": 1, "m": 1, "e": 0, "k": 0}, {"n": 9, "m": 2, "e": 1, "k": 13}]


def arguments(f: tl.Function, named: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    sizes: dict[Any, int] = {s: named[s.name] for s in f.sizes}
    given: dict[str, Any] = {}
    for p in f.params:
        if isinstance(p, Relation):
            given[p.name] = rng.random([n.value(sizes) for n in p.sizes]) < 0.3
        elif isinstance(p, IndexArray):
            given[p.name] = rng.integers(0, p.size.value(sizes), [n.value(sizes) for n in p.sizes]).astype(np.int32)
        else:
            given[p.name] = rng.normal(size=[n.value(sizes) for n in shape(p.type)[0]])
    return given


def arrays(value: Any) -> tuple[Any, ...]:
    return tuple(jax.tree.leaves(value, is_leaf=lambda x: hasattr(x, "todense")))


@pytest.mark.parametrize("sizes", [SIZES[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SIZES[1:])], ids=str)
@pytest.mark.parametrize("name", one_in(4, PROGRAMS))
def test_a_hessian_is_the_same_in_all_layouts(name: str, sizes: dict[str, int]) -> None:
    f = tl.parse(PROGRAMS[name])
    given = arguments(f, sizes)
    expected = arrays(tl.evaluate(tl.hessian(f), **given))
    assert close(arrays(tl.hessian(f)(**given)), expected, 1e-3)
    sparse = tl.hessian(f, layout="bcoo")
    assert close(tuple(x.todense() for x in arrays(sparse(**given))), expected, 1e-3)
    traced = jax.jit(lambda reals: sparse(**{**given, **reals}))({p.name: given[p.name] for p in f.variables})
    assert close(tuple(x.todense() for x in arrays(traced)), expected, 1e-3)
    if all(x.ndim == 2 for x in expected):
        for layout in ("csr", "dia"):
            assert close(tuple(x.todense() for x in arrays(tl.hessian(f, layout=layout)(**given))), expected, 1e-3)


def test_index_arrays_that_are_traced_say_where_elements_are() -> None:
    f = tl.parse(PROGRAMS["along edges"])
    given = arguments(f, SIZES[0])
    found = jax.jit(tl.hessian(f, layout="bcoo"))(*given.values())
    assert close(found.todense(), tl.evaluate(tl.hessian(f), **given), 1e-3)


@pytest.mark.parametrize(
    ("name", "growth"),
    [("chain", "n"), ("stencil", "n"), ("grid", "m*n"), ("two parameters", "n")],
)
def test_hessians_of_sums_of_neighbours_are_linear(name: str, growth: str) -> None:
    costs = tl.cost_polynomial(tl.hessian(tl.parse(PROGRAMS[name])))
    small, large = ({"n": k, "m": k} for k in (1000, 2000))
    names = {s.name for s in tl.parse(PROGRAMS[name]).sizes}
    ratio = costs(**{s: large[s] for s in names}) / costs(**{s: small[s] for s in names})
    assert ratio <= 2.1 ** (growth.count("*") + 1)


def test_elements_are_as_many_as_the_support_has_points() -> None:
    n, e = 1000, 3000
    chain = tl.hessian(tl.parse(PROGRAMS["chain"]), layout="bcoo")(np.arange(n + 1.0))
    assert isinstance(chain, BCOO)
    assert chain.nse == 3 * n + 1
    f = tl.parse(PROGRAMS["along edges"])
    edges = tl.hessian(f, layout="bcoo")(**arguments(f, {"n": n, "e": e}))
    assert edges.nse <= 2 * (n + e)


def test_pieces_say_where_elements_are() -> None:
    f = tl.parse("f(x: [n]R, a: [e]idx(n), b: [e]idx(n)) = gen p:e. x[a[p]] - x[b[p]]")
    (pieces,) = tl.structure(tl.jacobian(f))
    assert sorted(map(str, pieces)) == ["(i, a[i]) for i:e", "(i, b[i]) for i:e"]


def test_a_newton_step_of_a_spline_takes_a_banded_solver() -> None:
    f = tl.parse("f(x: [n + 2]R, y: [n + 2]R) = (sum i:n+2. (x[i] - y[i])^2) + sum i:n. (x[i] - 2*x[i+1] + x[i+2])^2")
    y = np.random.default_rng(1).normal(size=50)
    (lower, upper), band = tl.hessian(f, "x", layout="banded")(y, y)
    assert (lower, upper) == (2, 2)
    step = scipy.linalg.solve_banded((lower, upper), band, np.asarray(tl.grad(f, "x")(y, y)))
    assert np.abs(tl.grad(f, "x")(y - step, y)).max() < 1e-4


def test_jacobians_have_layouts_too() -> None:
    f = tl.parse("f(x: [n + 1]R) = gen i:n. (x[i + 1] - x[i])^2")
    x = np.arange(6.0) ** 2
    assert close(tl.jacobian(f, layout="csr")(x).todense(), tl.jacobian(f)(x))
    ((values, places, _), *_) = tl.jacobian(f, layout="structured")(x)
    assert values.size <= 2 * 6
    assert len(places) == 2


@pytest.mark.parametrize("layout", ["dense", "bcoo", "csr", "dia"])
def test_an_axis_of_a_negative_size_has_no_elements(layout: str) -> None:
    f = tl.parse("f(x: [n]R) = gen i:n - 2. x[i] * x[i + 1] * x[i + 2]")
    for n in range(4):
        assert tl.jacobian(f, layout=layout)(np.ones(n)).shape == (max(n - 2, 0), n)


def test_wrong_layouts_are_refused() -> None:
    f = tl.parse(PROGRAMS["grid"])
    with pytest.raises(tl.ArgumentError, match="no layout 'coo'"):
        tl.hessian(f, layout="coo")
    with pytest.raises(tl.ArgumentError, match="of matrices, but the array has 4 axes"):
        tl.hessian(f, layout="csr")(np.ones((3, 3)))


MASKED = {
    "a relation that comes last": (
        "f(U: [n][k]R, V: [n][k]R, E: rel(n, n)) = let d = gen i:n, j:n. sum a:k. U[i, a] * V[j, a] in"
        " let s = gen i:n, j:n. d[i, j]^2 in sum i:n, j:n. [E(i, j)] * s[i, j]",
        "f(U: [n][k]R, V: [n][k]R, E: rel(n, n)) = sum i:n, j:n. [E(i, j)] * (sum a:k. U[i, a] * V[j, a])^2",
    ),
    "a triangle": (
        "f(x: [n][3]R) = let d = gen i:n, j:n. sum a:3. (x[i, a] - x[j, a])^2 in"
        " let e = gen i:n, j:n. 1 / sqrt(d[i, j] + 1) in sum i:n, j:n. [i < j] * e[i, j]",
        "f(x: [n][3]R) = let d = gen i:n, j:n. [i < j] * sum a:3. (x[i, a] - x[j, a])^2 in"
        " let e = gen i:n, j:n. [i < j] * (1 / sqrt(d[i, j] + 1)) in sum i:n, j:n. [i < j] * e[i, j]",
    ),
    "a mask that comes first": (
        "f(A: [n][n]R, x: [n]R, E: rel(n, n)) = let M = gen i:n, j:n. [E(i, j)] * A[i, j] in"
        " let N = gen i:n, j:n. M[i, j] * x[i] * x[j] in sum i:n, j:n. tanh(N[i, j])^2",
        "f(A: [n][n]R, x: [n]R, E: rel(n, n)) = sum i:n, j:n. [E(i, j)] * tanh([E(i, j)] * A[i, j] * x[i] * x[j])^2",
    ),
    "causal softmax": (
        "f(Q: [n][d]R, K: [n][d]R) = let s = gen i:n, j:n. sum a:d. Q[i, a] * K[j, a] in"
        " let m = gen i:n. max j:n where j <= i. s[i, j] in let e = gen i:n, j:n. exp(s[i, j] - m[i]) in"
        " gen i:n. sum j:n. [j <= i] * e[i, j]",
        "f(Q: [n][d]R, K: [n][d]R) = let s = gen i:n, j:n. [j <= i] * sum a:d. Q[i, a] * K[j, a] in"
        " let m = gen i:n. max j:n where j <= i. s[i, j] in"
        " gen i:n. sum j:n. [j <= i] * exp([j <= i] * (s[i, j] - m[i]))",
    ),
    "a sum of diagonals": (
        "f(x: [n]R, v: [n]R) = let A = gen i:n, j:n. [i = j]*x[i] + [i = j + 1]*x[j]^2 + [j = i + 1]*sin(x[i]) in"
        " gen i:n. sum j:n. A[i, j]^2 * v[j]",
        "f(x: [n]R, v: [n]R) = gen i:n. x[i]^2 * v[i] + [0 < i] * (x[i - 1]^2)^2 * v[i - 1]"
        " + [i + 1 < n] * sin(x[i])^2 * v[i + 1]",
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_what_is_masked_somewhere_costs_as_if_it_were_masked_everywhere(name: str) -> None:
    natural, by_hand = map(tl.parse, MASKED[name])
    named = {"n": 7, "k": 3, "d": 3}
    given = arguments(natural, named)
    assert close(tl.lower(natural)(**given), tl.evaluate(by_hand, **given), 1e-3)
    large = arguments(natural, {"n": 40, "k": 3, "d": 3})
    for derived in (tl.simplify, tl.adjoint):
        cost, least = (tl.cost(derived(f), **_sized(derived(f), large)) for f in (natural, by_hand))
        assert cost <= 1.4 * least


def _sized(f: tl.Function, given: dict[str, Any]) -> dict[str, Any]:
    relations = {p.name: given[p.name] for p in f.params if isinstance(p, Relation)}
    return {**relations, **{s.name: {"n": 40, "k": 3, "d": 3}[s.name] for s in f.sizes}}


CHOSEN = {
    "the greatest in each row": ("f(x: [n][m]R) = gen i:n. max j:m. x[i, j]^3", 6),
    "the greatest in windows": ("f(x: [n + 2]R) = gen i:n. max j:n + 2 where i <= j < i + 3. x[j]^2", 6),
    "the nearest": ("f(x: [m][k]R, c: [n][k]R) = gen i:n. min j:m. sum l:k. (x[j, l] - c[i, l])^2", 60),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_elements_at_places_that_the_program_chooses_come_with_these_places(name: str) -> None:
    text, count = CHOSEN[name]
    f = tl.parse(text)
    given = arguments(f, SIZES[0])
    wanted = arrays(tl.evaluate(tl.jacobian(f), **given))
    sparse = tl.jacobian(f, layout="bcoo")
    for found in (arrays(sparse(**given)), arrays(jax.jit(lambda given: sparse(**given))(given))):
        assert close(tuple(x.todense() for x in found), wanted, 1e-3)
        assert sum(x.nse for x in found) == count
