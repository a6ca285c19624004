"""Array programs: the stage of lowering before text. They are run by NumPy here, without a compiler."""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.case import Case
from benchmarks.programs import CASES
from tensorlang.language.affine import Affine, Size
from tensorlang.language.arguments import bind
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import leaves, shape, struct_of_arrays
from tensorlang.lowering.arrays import meaning
from tensorlang.lowering.arrays.check import why_not
from tensorlang.lowering.arrays.cost import ArrayCost, cost_of
from tensorlang.lowering.arrays.interpret import interpret
from tensorlang.lowering.arrays.ir import (
    ArrayOperation,
    Assign,
    Block,
    Define,
    EinsumSpec,
    Name,
    Number,
    Return,
    Transpose,
)
from tensorlang.lowering.arrays.meaning import MEANING
from tensorlang.lowering.arrays.program import ArrayProgram
from tensorlang.lowering.arrays.shapes import SHAPES
from tensorlang.lowering.arrays.work import OF_INTEGERS
from tensorlang.lowering.emit.helpers import HELPERS
from tensorlang.lowering.emit.module import Source
from tensorlang.lowering.emit.python import text
from tensorlang.measure.count import count
from tensorlang.normal.recurrences import has_recurrences
from tests.lowering import test_ordered_groups
from tests.support import graphs, nests
from tests.support.documents import blocks
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.promises import close


def array_program(f: tl.Function, strict: bool = False) -> ArrayProgram:
    return Source(tl.simplify(f), strict=strict).program


def values(f: tl.Function, given: Mapping[str, Any]) -> list[Any]:
    """The arguments in order, as arrays."""
    bound = bind(f, (), dict(given))
    dense = lambda x: np.asarray(x.toarray() if hasattr(x, "toarray") else x)
    return [jax.tree.map(dense, bound.values[p]) for p in f.params]


def agrees(f: tl.Function, given: Mapping[str, Any], strict: bool = False) -> None:
    """Assert that the array program of `f` is well formed, and has the evaluator's result."""
    program = array_program(f, strict)
    assert why_not(program.definition, HELPERS) is None, str(program)
    sizes = bind(f, (), dict(given)).sizes
    found, _ = interpret(program.definition, values(f, given), {x: sizes[s] for s, x in program.told.items()})
    wanted = tl.evaluate(f, **given)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        got, expected = np.asarray(a, float), np.asarray(b, float)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8, err_msg=str(program))


@pytest.mark.parametrize("seed", range(12))
def test_array_programs_of_random_programs_mean_what_these_do(seed: int) -> None:
    rng = random.Random(seed)
    f = random_function(rng)
    for strict in (False, True):
        agrees(f, random_arguments(f, rng, random_sizes(f, rng), exact=False), strict)


@pytest.mark.parametrize("seed", range(8))
def test_array_programs_on_graphs_mean_what_these_do(seed: int) -> None:
    f = graphs.random_program(random.Random(seed))
    for g in (f, tl.adjoint(f, wrt="x")):
        agrees(g, on_graph(g, {"n": 4, "e": 6, "m": 3}))


@pytest.mark.parametrize("seed", range(6))
def test_array_programs_of_sums_in_groups_mean_what_these_do_and_grow_no_faster(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(f"f({test_ordered_groups.PARAMS}) = {test_ordered_groups.random_program(rng)}")
    for g in (f, tl.adjoint(f, wrt="x")):
        given = random_arguments(g, rng, {"n": 5}, exact=False)
        for strict in (False, True):
            agrees(g, given, strict)
        assert cost(g).excess is None


FEW_POINTS = (
    "f(k: [m]idx(n), l: [m]idx(n), x: [n]R) = gen i:m. sum j:n. [j = k[i] or j = l[i]] * x[j]",
    "f(k: [m]idx(n), x: [n]R) = gen i:m. sum j:n. [(j = k[i] and 0 < i) or j = i or j + 1 = k[i]] * x[j]^2",
    "f(k: [m]idx(n), x: [n][m]R) = sum i:m, j:n. [j = k[i] or j = i or j = 0] * x[j, i]^2",
    "f(x: [n][n]R) = gen i:n. max j:n where j = i or j = 0. x[i, j]",
    "f(x: [n][n]R) = gen i:n. min j:n where (j = i and 1 < i) or j + 1 = i or j = 0. x[i, j] * x[j, i]",
    "f(x: [n]R) = gen i:n. max j:n where j = i or j = i + 1. x[j]",
    "f(k: [m]idx(n), l: [m]idx(n), x: [n]R) = gen i:m. max j:n where j = k[i] or j = l[i]. sin(x[j])",
    "f(x: [n][n]R) = gen i:n. max j:n where j = i. x[i, j]",
    "f(x: [n]R) = gen i:n. max j:5 where 0 <= i + j - 2 < n. x[i]",
    "f(x: [n]R, z: [m]R) = gen i:n. max j:m where j <= i and i < j + n. z[j] * x[i]",
    "f(k: [m]idx(n), x: [n]R) = let l = gen i:m. argmax j:n where j = k[i]. x[j] in gen i:m. x[l[i]]^2",
)


@pytest.mark.parametrize("text", FEW_POINTS)
@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (4, 2)], ids=str)
def test_sums_and_extrema_over_few_points_are_right_and_no_larger_than_these(text: str, sizes: tuple[int, int]) -> None:
    f, rng = tl.parse(text), random.Random(text)
    for g in (f, tl.adjoint(f, wrt="x")):
        given = random_arguments(g, rng, dict(zip(("n", "m"), sizes, strict=True)), exact=False)
        for strict in (False, True):
            agrees(g, given, strict)
        assert "argmax" in str(g) or "argmin" in str(g) or cost(g).excess is None


def at_points(mask: np.ndarray[Any, Any], orders: Sequence[Sequence[int]]) -> tuple[np.ndarray[Any, Any], ...]:
    """A relation as the generated code takes it: columns of its points, and the further orders of these."""
    columns = np.nonzero(mask)
    return (*columns, *(np.lexsort([columns[k] for k in reversed(order)]) for order in orders))


@pytest.mark.parametrize("seed", range(8))
def test_array_programs_over_points_mean_the_same(seed: int) -> None:
    f = graphs.random_program(random.Random(seed))
    for g in (f, tl.adjoint(f, wrt="x")):
        relations = [p for p in g.params if isinstance(p, Relation)]
        program = Source(tl.simplify(g), relations).program
        assert why_not(program.definition, HELPERS) is None, str(program)
        given = on_graph(g, {"n": 4, "e": 6, "m": 3})
        arguments = [
            at_points(a, program.orders[p]) if isinstance(p, Relation) else a
            for p, a in zip(g.params, values(g, given), strict=True)
        ]
        sizes = bind(g, (), given).sizes
        found, _ = interpret(program.definition, arguments, {x: sizes[s] for s, x in program.told.items()})
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(tl.evaluate(g, **given)), strict=True):
            np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_array_programs_of_nested_extrema_mean_what_these_do(seed: int) -> None:
    rng = random.Random(seed)
    f = tl.parse(nests.random_nest(rng).text)
    agrees(f, random_arguments(f, rng, {s.name: rng.choice([1, 2, 3]) for s in f.sizes}, exact=False))


def on_graph(f: tl.Function, sizes: dict[str, int]) -> dict[str, Any]:
    """Arguments of a program on a graph, with the sizes that no array determines."""
    return {**graphs.arguments(f, sizes), **{s.name: sizes[s.name] for s in array_program(f).told}}


def cost(f: tl.Function) -> ArrayCost:
    return cost_of(f, array_program(f))


def counts_as_it_runs(f: tl.Function, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that the formulas for operations and bytes agree at given sizes with running the program, where blocks are
    whole and windows are rows."""
    monkeypatch.setattr(meaning, "ROWS", 10**9)
    monkeypatch.setattr(meaning, "WINDOW", 1)
    rng = random.Random(seed)
    program, found = array_program(f), cost(f)
    for _ in range(2):
        sizes = {s.name: rng.choice([1, 2, 3, 5]) for s in f.sizes}
        given = random_arguments(f, rng, sizes, exact=False)
        given = {**given, **{s.name: sizes[s.name] for s in undetermined(f)}}
        known = {s.name: n for s, n in bind(f, (), dict(given)).sizes.items()}
        _, ran = interpret(program.definition, values(f, given), {x: known[s.name] for s, x in program.told.items()})
        counted = found.operations(**known), found.written(**known)
        assert counted == (ran.operations, ran.written), f"seed {seed}, {known}\n{program}"
        by_step = {name: found.of_step(name)(**known) for name in ran.by_step}
        assert by_step == ran.by_step, f"seed {seed}, {known}\n{program}"


def undetermined(f: tl.Function) -> list[Size]:
    """The sizes that no parameter determines."""
    told = {s for p in f.params for a in axes(p) for s in a.sizes}
    return [s for s in f.sizes if s not in told]


def axes(p: Any) -> list[Affine]:
    return (
        [a for kind in leaves(struct_of_arrays(p.type)) for a in shape(kind[1])[0]] if isinstance(p, Var) else p.sizes
    )


def random_programs(kind: str, seed: int) -> list[tl.Function]:
    """A random program of this kind, and its adjoint if that is cheap to derive."""
    rng = random.Random(seed)
    if kind == "random":
        return [random_function(rng)]
    f = tl.parse(nests.random_nest(rng).text) if kind == "nest" else graphs.random_program(rng)
    return [f, tl.adjoint(f, wrt="x") if kind == "graph" else tl.adjoint(f)]


QUICK = [(kind, seed) for kind in ("random", "nest", "graph") for seed in range(8)]
SLOW = [(kind, seed) for kind in ("random", "nest", "graph") for seed in range(8, 32)]


@pytest.mark.parametrize(("kind", "seed"), [*QUICK, *(pytest.param(*p, marks=pytest.mark.slow) for p in SLOW)])
def test_costs_for_all_sizes_are_what_runs_at_each(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for f in random_programs(kind, seed):
        counts_as_it_runs(f, seed, monkeypatch)


def test_each_operation_has_a_shape() -> None:
    assert set(MEANING) <= {*SHAPES, *OF_INTEGERS}


FIRST = "which of several points is the first greatest is found by looking at all points"

LARGER = {
    ("nest", 58): {1: FIRST},
}
"""Random programs that grow faster than the model counts, and why; 1 stands for their adjoints."""


@pytest.mark.parametrize(("kind", "seed"), [*QUICK, *(pytest.param(*p, marks=pytest.mark.slow) for p in SLOW)])
def test_no_array_program_of_a_random_program_grows_faster_than_the_model(kind: str, seed: int) -> None:
    for k, f in enumerate(random_programs(kind, seed)):
        excess = cost(f).excess
        if k in LARGER.get((kind, seed), {}):
            assert excess, "it no longer grows faster"
        else:
            assert excess is None, f"{excess}\n{f}\n{array_program(f)}"


UNCOUNTED = {("1000 cosines of elements", 1)}
"""Programs for whose cost in the model no closed form is found within the limits; 1 stands for their adjoints."""

FAST = {case.name for case in CASES[::5]}


WINDOWS = ("0 <= i - j < w", "-w < i - j < w", "i <= j < i + w", "i - w <= j and j <= i", "0 <= a[i] - j < w")
TERMS = ("x[j]", "x[j] * y[i]", "exp(x[j] * y[i])", "A[i, j]", "exp(sum c:d. Q[i, c] * K[j, c]) * x[j]")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("term", [TERMS[1], *(pytest.param(t, marks=pytest.mark.slow) for t in (TERMS[0], *TERMS[2:]))])
def test_windows_whose_width_is_a_size_cost_as_much_as_is_in_them(window: str, term: str) -> None:
    params = "x: [n]R, y: [n]R, A: [n][n]R, Q: [n][d]R, K: [n][d]R, a: [n]idx(n), u: [w]R"
    some = window.replace("j", "k")
    for e in (f"sum j:n. [{window}] * {term}", f"[exists k:n. {some}] * max j:n where {window}. {term}"):
        f = tl.parse(f"f({params}) = gen i:n. {e}")
        for g in (f, tl.adjoint(f)):
            assert cost(g).excess is None, f"{cost(g).excess}\n{g}\n{array_program(g)}"


LARGER_THAN_READ = {
    "rows that a factor has": "gen i:n + m. sum j:n. [i < m] * x[j] * A[j, i]",
    "a few of them": "gen i:n. sum j:n. [i < 3] * x[j] * h[j, i]",
    "two axes": "gen i:n + m, k:n + m. sum j:n. [i < m and k < m] * A[j, i] * A[j, k]",
    "rows that conditions leave": "gen i:n. sum j:n. [i + j < m] * x[j] * sin(z[i + j])",
}


@pytest.mark.parametrize("name", LARGER_THAN_READ)
def test_no_array_program_looks_beyond_what_it_reads(name: str) -> None:
    f = tl.parse(f"f(x: [n]R, z: [m]R, A: [n][m]R, h: [n][3]R) = {LARGER_THAN_READ[name]}")
    for g in (f, tl.adjoint(f)):
        assert cost(g).excess is None, f"{cost(g).excess}\n{g}\n{array_program(g)}"
        for n, m in ((0, 2), (1, 1), (5, 2), (2, 5)):
            given = random_arguments(g, random.Random(n), {"n": n, "m": m}, exact=False)
            assert close(tl.lower(g)(**given), tl.evaluate(g, **given), tolerance=1e-4)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[] if c.name in FAST else pytest.mark.slow) for c in CASES],
    ids=lambda case: case.name,
)
def test_no_array_program_of_a_benchmark_grows_faster_than_the_model(case: Case) -> None:
    for k, f in enumerate((case.function, case.derived)):
        if (case.name, k) in UNCOUNTED:
            with pytest.raises(tl.CountingError):
                _ = cost(f).excess
        else:
            excess = cost(f).excess
            assert excess is None, f"{excess}\n{array_program(f)}"


ROOT = Path(tl.__file__).parents[1]


def documented() -> dict[str, tl.Function]:
    """The programs that pages parse, and those of the library."""
    found = {name: f for name, f in vars(tl.lib).items() if isinstance(f, tl.Function)}
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for code in blocks(page.read_text(), "python"):
            for node in ast.walk(ast.parse(code)):
                match node:
                    case ast.Call(ast.Attribute(attr="parse"), [ast.Constant(str() as text)]):
                        with contextlib.suppress(tl.TensorlangError):  # pages show errors, too
                            found[f"{page.name}: {text}"] = tl.parse(text)
                    case _:
                        pass
    return found


@pytest.mark.slow
def test_no_array_program_of_a_page_grows_faster_than_the_model() -> None:
    programs = documented()
    assert len(programs) > 10
    larger, uncounted = {}, []
    for name, f in programs.items():
        try:
            larger[name] = None if has_recurrences(f) else cost(f).excess
        except tl.CountingError:
            uncounted.append(name)
    assert len(uncounted) <= 2, uncounted
    assert {name: excess for name, excess in larger.items() if excess} == {}


@pytest.mark.parametrize(
    ("text", "growth"),
    [
        ("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]", "O(n)"),
        # only where w is less than n
        ("f(x: [n]R, y: [w]R) = sum i:n. sum j:n. [0 <= i - j < w] * exp(x[j] * x[i])", "O(n*w)"),
    ],
)
def test_work_that_the_model_does_not_count_is_noticed(text: str, growth: str) -> None:
    f = tl.parse(text)
    program = array_program(f)
    outer = ArrayOperation("sum", (ArrayOperation("einsum", (EinsumSpec(("i", "j"), "ij"), Name("x"), Name("x"))),))
    *before, _, result = program.definition.body.statements
    program.definition = Define("f", ("x", "y"), Block([*before, Assign(("result",), outer), result]))
    assert cost_of(f, program).excess == f"operations grow as O(n^2), the model's count as {growth}"


WRONG = {
    "y is read before it is assigned": [Return(Name("y"))],
    "it returns before its end": [Return(Name("x")), Assign(("y",), Name("x"))],
    "it returns nothing": [Assign(("y",), Name("x"))],
    "no operation is called colour": [Return(ArrayOperation("colour", (Name("x"),)))],
    "an einsum of 2 terms has 1 arrays": [Return(ArrayOperation("einsum", (EinsumSpec(("i", "i"), ""), Name("x"))))],
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_malformed_array_program_is_refused_with_the_reason(reason: str) -> None:
    assert why_not(Define("f", ("x",), Block(list(WRONG[reason]))), HELPERS) == f"f: {reason}"


def test_nodes_are_checked_when_they_are_made() -> None:
    with pytest.raises(AssertionError):
        Transpose(Name("x"), (0, 2))
    with pytest.raises(AssertionError):
        Name("x + y")


def test_an_array_program_is_text() -> None:
    program = array_program(tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. [2 <= i] * sum j:m. A[i, j] * x[j]"))
    text = str(program)
    assert text.startswith("define f(A, x)")
    assert "einsum(ij,j->i, A[2:" in text


def test_numbers_keep_their_exact_value() -> None:
    assert Number(Fraction(1, 3)) == Number(Fraction(2, 6))


@pytest.mark.parametrize("first", ["ik", "ki", "k"])
@pytest.mark.parametrize("second", ["kj", "jk", "k"])
def test_a_product_of_matrices_is_written_as_one_and_compiled_as_an_einsum(first: str, second: str) -> None:
    lengths = {"i": 4, "j": 5, "k": 6}
    given = [jnp.ones([lengths[c] for c in term]) for term in (first, second)]
    for result in {first.replace("k", "") + second.replace("k", ""), second.replace("k", "") + first.replace("k", "")}:
        code = text(ArrayOperation("einsum", (EinsumSpec((first, second), result), Name("x"), Name("y"))))
        assert " @ " in code
        written = count(eval(f"lambda x, y: {code}"), *given)
        einsum = count(lambda x, y, result=result: jnp.einsum(f"{first},{second}->{result}", x, y), *given)
        assert (written.operations, written.temporaries) == (einsum.operations, einsum.temporaries)


@pytest.mark.parametrize("spec", ["i,j->ij", "bik,bkj->bij", "ij,ij->", "ii,i->i", "ij,ij->i", "ik,kj->i"])
def test_other_products_are_einsums(spec: str) -> None:
    terms, result = spec.split("->")
    code = text(ArrayOperation("einsum", (EinsumSpec(tuple(terms.split(",")), result), Name("x"), Name("y"))))
    assert code == f'jnp.einsum("{spec}", x, y)'
