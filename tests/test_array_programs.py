"""Array programs: what lowering makes before text. They are run by NumPy here, without a compiler."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest

import tensorlang as tl
from benchmarks.case import Case
from benchmarks.programs import CASES
from tensorlang.language.arguments import bind
from tensorlang.language.predicates import Relation
from tensorlang.lower.arrays.check import why_not
from tensorlang.lower.arrays.cost import Counted, at_sizes, counted, excess
from tensorlang.lower.arrays.interpret import interpret
from tensorlang.lower.arrays.ir import Apply, Assign, Block, Define, Name, Number, Return, Text, Transpose
from tensorlang.lower.arrays.program import ArrayProgram
from tensorlang.lower.emit.helpers import HELPERS
from tensorlang.lower.emit.module import Source
from tests import graphs, nests
from tests.programs import random_arguments, random_function, random_sizes


def array_program(f: tl.Function, strict: bool = False) -> ArrayProgram:
    return Source(tl.simplify(f), strict=strict).program


def values(f: tl.Function, given: Mapping[str, Any]) -> list[Any]:
    """The arguments in order, as arrays."""
    bound = bind(f, (), dict(given))
    dense = lambda x: np.asarray(x.toarray() if hasattr(x, "toarray") else x)
    return [jax.tree.map(dense, bound.values[p]) for p in f.params]


def agrees(f: tl.Function, given: Mapping[str, Any], strict: bool = False) -> None:
    """The array program of `f` is well formed, and gives what the evaluator does."""
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
    """Arguments of a program on a graph, with the sizes that no array has."""
    return {**graphs.arguments(f, sizes), **{s.name: sizes[s.name] for s in array_program(f).told}}


def counts(case: Case, f: tl.Function, m: int) -> Counted:
    sizes = {s.name: m for s in case.function.sizes}
    given = {p.name: a for p, a in zip(f.params, case.arguments(sizes), strict=False)}
    program = array_program(f)
    return counted(f, program, {**given, **{s.name: sizes[s.name] for s in program.told}})


SLOW = ("packed triangle",)  # its index arrays are of a size that others determine


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c.name not in SLOW], ids=lambda case: case.name)
def test_no_array_program_of_a_benchmark_grows_faster_than_the_model(case: Case) -> None:
    for f in (case.function, case.derived):
        small, large = counts(case, f, 16), counts(case, f, 32)
        assert excess(small, large) is None, f"{small}\n{large}\n{array_program(f)}"


@pytest.mark.parametrize("seed", range(6))
def test_no_array_program_on_a_graph_grows_faster_than_the_model(seed: int) -> None:
    f = graphs.random_program(random.Random(seed))
    for g in (f, tl.adjoint(f, wrt="x")):
        program = array_program(g)
        small, large = (counted(g, program, on_graph(g, {"n": 9 * k, "e": 15 * k, "m": 4 * k})) for k in (2, 4))
        assert excess(small, large) is None, f"{small}\n{large}\n{program}"


LARGER = {
    ("nest", 2): "a sum where one point or another is chosen by data is taken over all points",
}
"""Random programs that grow faster than the model counts, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_array_program_of_a_random_program_grows_faster_than_the_model(seed: int) -> None:
    nest = tl.parse(nests.random_nest(random.Random(seed)).text)
    programs = [("random", random_function(random.Random(seed))), ("nest", nest), ("nest", tl.adjoint(nest))]
    for kind, f in programs:
        if (kind, seed) not in LARGER:
            program = array_program(f)
            small, large = (at_sizes(f, program, {s.name: m for s in f.sizes}) for m in (12, 24))
            assert excess(small, large) is None, f"{small}\n{large}\n{f}\n{program}"


def test_work_that_the_model_does_not_count_is_noticed() -> None:
    program = array_program(tl.parse("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]"))
    outer = Apply("sum", (Apply("einsum", (Text("i,j->ij"), Name("x"), Name("y"))),))
    *before, _, result = program.definition.body.statements
    wasteful = Block([*before, Assign(("result",), outer), result])
    f = tl.parse("f(x: [n]R, y: [n]R) = sum i:n. x[i] * y[i]")
    program.definition = Define("f", ("x", "y"), wasteful)
    found = [counted(f, program, {"x": np.ones(n), "y": np.ones(n)}) for n in (16, 32)]
    assert excess(*found) is not None


WRONG = {
    "y is read before it is assigned": [Return(Name("y"))],
    "it returns before its end": [Return(Name("x")), Assign(("y",), Name("x"))],
    "it returns nothing": [Assign(("y",), Name("x"))],
    "no operation is called colour": [Return(Apply("colour", (Name("x"),)))],
    "an einsum of 2 terms has 1 arrays": [Return(Apply("einsum", (Text("i,i->"), Name("x"))))],
    "it has a line of text": ["return x", Return(Name("x"))],
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
