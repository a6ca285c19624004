"""Data relations by their points, and index arrays: values, work in proportion to the points, sums in order."""

from __future__ import annotations

import gc
import weakref
from fractions import Fraction
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from tensorlang.errors import ArgumentError
from tensorlang.language.affine import IndexArray
from tensorlang.language.arguments import bind
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.predicates import Relation
from tensorlang.language.types import shape
from tensorlang.lowering import coordinates as coordinates_module
from tensorlang.lowering import run as run_module
from tensorlang.lowering.arrays.program import ArrayProgram
from tensorlang.lowering.emit.library.relations import _add_at, _add_sorted
from tensorlang.lowering.emit.module import Source
from tensorlang.lowering.lower import lower
from tensorlang.lowering.plan.ir import AtPoints, StoredArray
from tensorlang.measure.count import count
from tensorlang.pipeline import adjoint
from tensorlang.simplification import simplify
from tensorlang.surface.parse import parse
from tensorlang.transforms.to_jax import to_jax
from tests.support.operations import count_of
from tests.support.sampling import one_in

RELATIONS = {
    "matrix times vector": "f(E: rel(n, m), A: [n][m]R, x: [m]R) = gen i:n. sum j:m. [E(i, j)] * A[i, j] * x[j]",
    "bilinear": "f(E: rel(n, m), A: [n][m]R, x: [n]R, y: [m]R) = sum i:n, j:m. [E(i, j)] * x[i] * A[i, j] * y[j]",
    "sampled product":
        "f(E: rel(n, m), U: [n][k]R, V: [m][k]R) = gen i:n, j:m. [E(i, j)] * sum l:k. U[i, l] * V[j, l]",
    "differences": "f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j) and i < j] * (x[i] - x[j])^2",
    "attention along edges":
        "f(E: rel(n, n), U: [n][k]R, V: [n][k]R) ="
        " let s = gen i:n, j:n. [E(i, j)] * exp(sum l:k. U[i, l] * V[j, l]) in"
        " gen i:n, l:k. sum j:n. [E(i, j)] * s[i, j] * V[j, l]",
    "beside the diagonal": "f(E: rel(n, n), x: [n]R) = gen i:n. [i + 1 < n] * ([E(i, i + 1)] * x[i] * x[i + 1])",
    "two relations": "f(E: rel(n, m), F: rel(n, m), x: [m]R) = gen i:n. sum j:m. [E(i, j) and F(i, j)] * x[j]^2",
    "one relation, both ways": "f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j) and E(j, i)] * x[i] * x[j]^2",
    "triangles": "f(E: rel(n, n), x: [n]R) = sum i:n, j:n, k:n. [E(i, j) and E(j, k) and E(i, k)] * x[i] * x[j] * x[k]",
    "rank one": "f(E: rel(n), A: [n][m]R) = gen i:n, j:m. [E(i)] * sin(A[i, j])",
    "rank three": "f(E: rel(n, m, k), x: [k]R) = gen j:m, i:n. sum l:k. [E(i, j, l)] * x[l]^2",
    "or": "f(E: rel(n, m), x: [m]R, y: [n]R) = gen i:n. y[i] + sum j:m. [E(i, j) or j = 0] * x[j]",
    "exists": "f(E: rel(n, m), x: [m]R, y: [n]R) = gen i:n. [exists j:m. E(i, j)] * exp(y[i])",
    "one row": "f(E: rel(n, m), x: [m]R, y: [n]R) = gen j:m. sum i:n. [i = 1 and E(i, j)] * exp(x[j]) * y[i]",
    "chained": "f(E: rel(n, n), x: [n]R) = let y = gen i:n. sum j:n. [E(i, j)] * x[j] in"
               " sum i:n, j:n. [E(i, j)] * y[i] * y[j]^2",
    "greatest of rows":
        "f(E: rel(n, m), x: [n][m]R) = gen i:n. [exists j:m. E(i, j)] * max j:m where E(i, j). x[i, j]",
    "least of neighbours after":
        "f(E: rel(n, n), x: [n][k]R) = gen i:n, l:k. [exists j:n. E(i, j) and i < j] *"
        " min j:n where E(i, j) and i < j. x[j, l] - x[i, l]",
    "greatest of rows backwards":
        "f(E: rel(n, n), x: [n]R) = gen i:n. [exists j:n. E(i, n - 1 - j) and 1 <= j] *"
        " max j:n where E(i, n - 1 - j) and 1 <= j. x[j]^2",
    "greatest of a box":
        "f(E: rel(n, m, k), x: [n][k]R) = gen j:m, i:n. [exists l:k. E(i, j, l)] * max l:k where E(i, j, l). x[i, l]",
    "at looked up places": "f(E: rel(n, m), x: [n]R, y: [k]idx(n)) = sum i:k, j:m. [E(y[i], j)] * x[y[i]]",
}  # fmt: skip

LOOKUPS = {
    "chosen of each row": "f(p: [n][m]R, y: [n]idx(m)) = sum i:n. p[i, y[i]]",
    "embedding": "f(V: [m][k]R, y: [n]idx(m)) = gen i:n, l:k. sin(V[y[i], l])",
    "columns": "f(V: [k][m]R, y: [n]idx(m)) = gen i:n, l:k. V[l, y[i]]^2",
    "segments": "f(d: [n][k]R, y: [n]idx(m), z: [m]R) = gen j:m, l:k. sum i:n. [y[i] = j] * d[i, l] * z[j]",
    "one of each row": "f(x: [n][m]R, y: [n]idx(m)) = gen i:n, j:m. [j = y[i]] * exp(x[i, j])",
    "of two dimensions": "f(x: [m]R, y: [n][k]idx(m)) = gen i:n. sum l:k. x[y[i, l]]^2",
    "moved": "f(x: [m + 2]R, y: [n]idx(m)) = gen i:n. x[y[i] + 2] * x[y[i]]",
    "strided": "f(x: [2*m]R, y: [n]idx(m)) = sum i:n. [y[i] < i] * x[2*y[i] + 1]^2",
    "added to an index": "f(x: [n + m]R, y: [n]idx(m)) = gen i:n. x[i + y[i]]",
    "one of each pair": "f(x: [2*n]R, y: [n]idx(2)) = gen i:n. x[2*i + y[i]]^2",
    "nested": "f(x: [m]R, y: [n]idx(m), z: [k]idx(n)) = gen i:k. x[y[z[i]]]^2",
}


@pytest.fixture
def by_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take relations by their points, however small and dense they are."""
    monkeypatch.setattr(coordinates_module, "FEWEST_CELLS", 0)
    monkeypatch.setattr(coordinates_module, "CELLS_PER_POINT", 0)


def data(f: Function, density: float = 0.3, **sizes: int) -> dict[str, Any]:
    """Random arguments of these sizes."""
    rng = np.random.default_rng(len(f.params))
    values: dict[str, Any] = {}
    for p in f.params:
        declared = p.sizes if isinstance(p, Relation | IndexArray) else shape(p.type)[0]
        dims = [a.value({s: sizes[s.name] for s in a.sizes}) for a in declared]
        if isinstance(p, Relation):
            values[p.name] = rng.random(dims) < density
        elif isinstance(p, IndexArray):
            values[p.name] = rng.integers(0, p.size.value({s: sizes[s.name] for s in p.size.sizes}), dims)
        else:
            values[p.name] = rng.normal(size=dims).astype(np.float32)
    return values


def assert_alike(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            assert_alike(a, b)
    else:
        np.testing.assert_allclose(np.asarray(got, float), want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", one_in(2, RELATIONS))
@pytest.mark.usefixtures("by_points")
def test_over_points_a_program_and_its_adjoint_are_as_the_evaluator_says(name: str) -> None:
    f = parse(RELATIONS[name])
    for g in (f, adjoint(f)):
        run = lower(g)
        for density in (0.3, 0.0):
            values = data(g, density, n=6, m=5, k=4)
            assert_alike(run(**values), evaluate(g, **values))


@pytest.mark.parametrize("name", LOOKUPS)
def test_elements_of_index_arrays_are_read_and_added_up_as_the_evaluator_says(name: str) -> None:
    f = parse(LOOKUPS[name])
    for g in (f, adjoint(f)):
        run = lower(g)
        for n, m in ((7, 5), (0, 5), (1, 1)):
            values = data(g, n=n, m=m, k=3 if n else 0)
            assert_alike(run(**values), evaluate(g, **values))


def sparse(n: int, m: int, points: int, seed: int = 0) -> scipy.sparse.csr_matrix:
    rng = np.random.default_rng(seed)
    places = np.unique(rng.integers(0, n * m, points))
    return scipy.sparse.csr_matrix((np.ones(len(places)), (places // m, places % m)), shape=(n, m))


def test_a_large_sparse_product_and_its_adjoint_agree_with_scipy() -> None:
    n, m = 30_011, 20_003
    e = sparse(n, m, 150_000)
    x = np.random.default_rng(1).normal(size=m).astype(np.float32)
    f = parse("f(E: rel(n, m), x: [m]R) = gen i:n. sum j:m. [E(i, j)] * x[j]")
    y = f(e, x)
    np.testing.assert_allclose(np.asarray(y), e @ x.astype(float), rtol=1e-4, atol=1e-4)
    back = adjoint(f)(e, x, y)
    np.testing.assert_allclose(np.asarray(back), e.T @ np.asarray(y, float), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_any_sparse_format_will_do_and_stored_zeros_are_false(kind: str) -> None:
    e = scipy.sparse.coo_matrix(([1.0, 2.0, -2.0, 0.0, 1.0], ([0, 5, 5, 7, 90], [3, 6, 6, 1, 99])), shape=(100, 100))
    x = np.arange(100.0)
    f = parse("f(E: rel(n, n), x: [n]R) = gen i:n. sum j:n. [E(i, j)] * (x[j] + 1)")
    want = np.zeros(100)
    want[0], want[90] = 4, 100
    np.testing.assert_array_equal(np.asarray(f(e.asformat(kind), x)), want)


def test_writing_to_a_relation_between_calls_is_seen() -> None:
    f = parse("f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j)] * x[i]")
    e, x = np.zeros((100, 100), bool), np.ones(100)
    e[3, 4] = True
    assert f(e, x) == 1
    e[5, 6] = True
    assert f(e, x) == 2
    s = sparse(100, 100, 20)
    before = f(s, x)
    s.data[0] = 0
    assert f(s, x) == before - 1


def test_what_is_made_of_a_relation_under_a_trace_is_good_outside_of_it() -> None:
    f = parse("f(E: rel(n, n), x: [n]R) = gen i:n. sum j:n. [E(i, j)] * x[j]")
    x = np.arange(100.0)
    for e in (sparse(100, 100, 50), sparse(100, 100, 9000)):
        jax.jit(lambda x, e=e: f(e, x))(x)
        np.testing.assert_allclose(np.asarray(f(e, x)), e.toarray() @ x, rtol=1e-5)


def test_nothing_that_is_kept_keeps_a_relation_alive() -> None:
    f = parse("f(E: rel(n, n), x: [n]R) = sum i:n, j:n. [E(i, j)] * x[i]")
    dense = sparse(100, 100, 20).toarray() != 0
    given = [sparse(100, 100, 20), dense.copy(), jnp.asarray(dense)]
    while given:
        e = given.pop()
        f(e, np.ones(100))
        alive = weakref.ref(e)
        del e
        gc.collect()
        assert alive() is None


def test_a_call_like_one_before_checks_only_what_elements_say(monkeypatch: pytest.MonkeyPatch) -> None:
    run = lower(
        parse("f(p: (R, [n]R), y: [k]idx(n), E: rel(n, n), c: R) = (gen i:k. fst(p) * snd(p)[y[i]] * c, fst(p))")
    )
    e, y = sparse(80, 80, 9).toarray(), jnp.array([1, 2])
    first = run((2.0, np.ones(80)), y=y, c=0.5, E=e)
    bound: list[Any] = []
    monkeypatch.setattr(run_module, "bind", lambda *args: bound.append(args) or bind(*args))
    for c, result in ((0.5, first[0]), (1.5, 3 * first[0])):
        np.testing.assert_allclose(run((2.0, np.ones(80)), y=y, c=c, E=e)[0], result)
    assert not bound
    with pytest.raises(ArgumentError, match=r"y\[1\] is 80"):
        run((2.0, np.ones(80)), y=jnp.array([1, 80]), c=0.5, E=e)
    assert not bound
    with pytest.raises(ArgumentError, match="E"):
        run((2.0, np.ones(80)), y=y, c=0.5, E=e[:4])
    assert bound


def test_arguments_are_told_apart_by_what_they_are() -> None:
    run = lower(parse("f(y: [n]idx(m), x: R) = gen j:m. x * sum i:n. [y[i] = j]"))
    for m in (3, 4):
        assert run([0, 2], 2, m=m).tolist() == [2, 0, 2, 0][:m]
        assert run([0, 2], 3, m=m).tolist() == [3, 0, 3, 0][:m]
        assert run(np.array([0, 2]), Fraction(1, 2), m=m).tolist() == [0.5, 0, 0.5, 0][:m]
    same = lower(parse("f(x: [n]R, y: [n]R) = gen i:n. x[i] - y[i]"))
    x, y = np.ones(3), np.zeros(3)
    assert same(x, x).tolist() == [0, 0, 0]
    assert same(x, y).tolist() == [1, 1, 1]
    assert same(y=x, x=y).tolist() == [-1, -1, -1]


def test_a_relation_that_is_traced_is_a_mask() -> None:
    f = parse("f(E: rel(n, n), x: [n]R) = gen i:n. sum j:n. [E(i, j)] * x[j]")
    e, x = sparse(100, 100, 50).toarray() != 0, np.arange(100.0)
    np.testing.assert_allclose(np.asarray(jax.jit(f)(e, x)), e @ x)


def test_a_relation_of_another_shape_is_refused() -> None:
    f = parse("f(E: rel(n, n), x: [n]R) = gen i:n. sum j:n. [E(i, j)] * x[j]")
    with pytest.raises(ArgumentError, match="E"):
        f(sparse(100, 100, 50), np.ones(99))


def test_work_and_memory_are_those_of_the_points() -> None:
    n = 1000
    e = sparse(n, n, 777)
    x = jnp.ones(n)
    f = parse("f(E: rel(n, n), A: [n][n]R, x: [n]R, y: [n]R) = sum i:n, j:n. [E(i, j)] * x[i] * A[i, j] * y[j]")
    a = jnp.ones((n, n))
    points = e.nnz
    for g, bar in ((f, ()), (adjoint(f, wrt=("x", "y")), (1.0,))):
        run = lower(g)
        # a relation that is not traced is known when the program is traced
        work = count(lambda a, x, y, run=run, bar=bar: run(e, a, x, y, *bar), a, x, x)
        assert work.arithmetic <= 8 * points + 4 * n
        assert work.temporaries <= 4 * 16 * (points + n)


@pytest.mark.usefixtures("by_points")
def test_the_first_of_the_greatest_at_points_is_chosen() -> None:
    places = "let k = gen i:n. argmax j:n where E(i, j). x[j] in gen i:n. c[k[i]]"
    chosen = lower(parse(f"f(E: rel(n, n), x: [n]R, c: [n]R) = {places}"))
    e = np.array([[0, 1, 1, 1], [1, 0, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]], bool)
    x = np.array([-np.inf, 2.0, 2.0, -np.inf])
    assert chosen(e, x, np.arange(4.0)).tolist() == [1, 0, 2, 1]
    x[3] = np.nan
    assert chosen(e, x, np.arange(4.0)).tolist() == [3, 3, 3, 3]
    greatest = parse("f(E: rel(n, n), x: [n]R) = gen i:n. max j:n where E(i, j). x[j]")
    e[1] = False
    np.testing.assert_array_equal(np.asarray(lower(greatest)(e, np.arange(4.0))), [3, np.nan, 3, 3])


def test_extrema_over_points_look_at_no_others() -> None:
    n = 1000
    e = sparse(n, n, 777)
    f = parse("f(E: rel(n, n), x: [n][n]R) = gen i:n. max j:n where E(i, j). x[i, j]")
    work = count(lambda x: lower(f)(e, x), jnp.ones((n, n)))
    assert work.arithmetic <= 8 * e.nnz + 4 * n
    assert work.temporaries <= 4 * 16 * (e.nnz + n)


def _on_points(f: Function) -> ArrayProgram:
    """The array program of `f` for relations that are given by their points."""
    g = simplify(f)
    return Source(g, [p for p in g.params if isinstance(p, Relation)]).program


def test_what_is_only_read_where_a_relation_holds_is_held_there() -> None:
    f = parse(RELATIONS["attention along edges"])
    program = _on_points(f)
    (s,) = (step for step in program.plan.steps if isinstance(step, StoredArray))
    assert s.variable.name == "s" and isinstance(s.storage, AtPoints) and s.forced
    assert not count_of(program, "_put_at", "_put_in", "_put_in_order", "_put_in_windows")


@pytest.mark.parametrize("count", [30, 9000])
def test_no_two_values_are_added_in_place_out_of_order(count: int) -> None:
    y, d = np.arange(count) % 7, np.ones(count, np.float32)
    f = lower(adjoint(parse("f(x: [m]R, y: [n]idx(m)) = gen i:n. x[y[i]]")))
    # a CPU adds them up one after the other, in a loop if they are many; on other machines they are sorted and added up
    # by a scatter that knows they are sorted
    for platform in ("cpu", "cuda"):
        exported = jax.export.export(jax.jit(f), platforms=[platform])(np.ones(7, np.float32), y, d)
        text = exported.mlir_module()
        loops = platform == "cpu" and count > 4096
        assert ("stablehlo.sort" in text, "stablehlo.while" in text) == (platform == "cuda", loops)
        assert text.count('"stablehlo.scatter"(') == (not loops)
        assert text.count("indices_are_sorted = true") == (platform == "cuda")
    spmv = parse("f(E: rel(n, m), x: [m]R) = gen i:n. sum j:m. [E(i, j)] * x[j]")
    # the order of the columns comes with the points
    assert set(_on_points(adjoint(spmv)).orders.values()) == {((1, 0),)}


@pytest.mark.parametrize("count", [0, 1, 7, 50_001])
@pytest.mark.parametrize("dims", one_in(2, [(), (3,), (2, 6), (4, 5)]))
def test_one_by_one_or_sorted_sums_of_what_has_the_same_place_are_equal(count: int, dims: tuple[int, ...]) -> None:
    rng = np.random.default_rng(count)
    values = rng.normal(size=(count, *dims)).astype(np.float32)
    at = rng.integers(-2, 13, count).astype(np.int32)
    want = np.zeros((11, *dims))
    inside = (at >= 0) & (at < 11)
    np.add.at(want, at[inside], values[inside].astype(float))
    for sums in (_add_at(values, (at,), (11,)), _add_sorted(jnp.asarray(values), jnp.asarray(at), 11)):
        np.testing.assert_allclose(np.asarray(sums), want, rtol=1e-4, atol=2e-3)
    both = np.where(inside, at // 4, -1), np.where(inside, at % 4, 0)
    sums = _add_at(values, both, (3, 4)).reshape((12, *dims))
    np.testing.assert_allclose(np.asarray(sums)[:11], want, rtol=1e-4, atol=2e-3)


def test_sums_over_index_arrays_are_the_same_whatever_the_machine_does_first() -> None:
    rng = np.random.default_rng(0)
    y, d = rng.integers(0, 7, 50_001), rng.normal(size=(50_001, 3)).astype(np.float32)
    f = parse("f(d: [n][k]R, y: [n]idx(m), z: [m]R) = gen j:m, l:k. sum i:n. [y[i] = j] * d[i, l] * z[j]")
    z = np.ones(7, np.float32)
    want = np.zeros((7, 3))
    np.add.at(want, y, d.astype(float))
    got = np.asarray(f(d, y, z))
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(got, np.asarray(f(d, y, z)))


def test_elements_outside_of_an_index_array_s_range_are_refused() -> None:
    f = parse("f(x: [m]R, y: [n]idx(m)) = gen i:n. x[y[i]]")
    with pytest.raises(ArgumentError, match="y"):
        f(np.ones(3), np.array([0, 3]))


def test_inside_of_jax_programs_a_relation_that_is_not_traced_is_taken_by_its_points() -> None:
    f = to_jax(
        parse(
            "f(E: rel(n, m), x: [n]R, y: [m]R) ="
            " let s = gen i:n, j:m. [E(i, j)] * exp(x[i] * y[j]) in gen i:n. sum j:m. [E(i, j)] * s[i, j]^2 * y[j]"
        )
    )
    rng = np.random.default_rng(0)
    given = scipy.sparse.random(1500, 1201, 0.002, format="csr", random_state=1)
    dense = given.toarray() != 0
    x, y, c = rng.normal(size=1500), rng.normal(size=1201), rng.normal(size=1500)
    s = np.where(dense, np.exp(np.outer(x, y)), 0)
    grad = jax.grad(lambda x, E: jnp.vdot(f(E, x, y), c))
    expected = c * (s**2 * 2 * y**2).sum(1)
    np.testing.assert_allclose(np.asarray(f(given, x, y)), (s**2 * y).sum(1), rtol=1e-4, atol=1e-4)
    on_points = jax.jit(lambda x: grad(x, given))
    for found in (on_points(x), grad(x, dense), jax.jit(grad)(x, dense)):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4)
    mapped = jax.vmap(on_points)(np.stack([-x, x]))
    np.testing.assert_allclose(np.asarray(mapped[1]), expected, rtol=1e-4, atol=1e-4)
    second = jax.jvp(on_points, (x,), (np.ones(1500),))[1]
    np.testing.assert_allclose(np.asarray(second), c * (s**2 * 4 * y**3).sum(1), rtol=1e-4, atol=1e-3)
    done = count(on_points, x)
    assert done.arithmetic <= 30 * given.nnz + 10 * 2701
    assert done.temporaries <= 40 * (given.nnz + 2701)  # bytes: no array of all cells is stored


def test_relations_one_after_the_other_are_asked_one_after_the_other() -> None:
    some = "exists k:n. (exists l:n. (exists p:e. a[p] = l) and E(k, l)) and E(i, k)"
    f = parse(f"f(x: [n]R, a: [e]idx(n), E: rel(n, n)) = gen i:n. [{some}] * x[i]")
    told = str(lower(f).explain())
    assert "n^3" not in told and "does not hold" not in told
    rng = np.random.default_rng(0)
    given = [np.ones(9), rng.integers(0, 9, 3), rng.random((9, 9)) < 0.2]
    np.testing.assert_array_equal(np.asarray(lower(f)(*given)), evaluate(f, *given))


def test_alternatives_with_a_condition_in_common_share_it() -> None:
    both = "a[i] = j and 0 < i and b[i] = 3 or a[i] = j and exists k:n. b[k] = i"
    f = parse(f"f(x: [n]R, a: [n]idx(n), b: [n]idx(n)) = gen i:n. sum j:n. [{both}] * x[j]")
    assert "sum" not in str(simplify(f)) and "x[a[i]]" in str(simplify(f))
