"""Many terms that differ in constants: one gather, one statement, one assembly, whatever their number."""

from __future__ import annotations

import random

import jax.numpy as jnp
import numpy as np
import pytest

from tensorlang.language.affine import constant
from tensorlang.language.evaluate import evaluate
from tensorlang.lowering.arrays.ir import ArrayOperation, Elementwise, Name, Slice
from tensorlang.lowering.lower import lower
from tensorlang.lowering.plan.reroll import FEWEST, reroll
from tensorlang.measure.count import count
from tensorlang.pipeline import adjoint
from tensorlang.surface.parse import parse

PLACES = sorted(random.Random(0).sample(range(40), 9))


def _sum(term: str) -> str:
    return " + ".join(term.replace("#", str(p)) for p in PLACES)


PROGRAMS = {
    "reads": f"f(x: [40]R) = {_sum('x[#]')}",
    "reads with factors": f"f(x: [40]R) = {_sum('# * sin(x[#])')}",
    "reads in steps": "f(x: [40]R) = " + " + ".join(f"x[{3 * k + 1}]^2" for k in range(12)),
    "reads backwards": f"f(x: [n]R) = {_sum('[# < n] * x[n - 1 - #]')}",
    "differences": f"f(x: [40]R) = {_sum('x[#]').replace(' + ', ' - ')}",
    "one-hots": f"f(x: [40]R) = gen i:40. {_sum('[i = #] * exp(x[39 - #])')}",
    "one-hots beside an array": f"f(x: [40]R) = gen i:40. x[i] + {_sum('[i = #] * x[#]^2')}",
    "one-hots at the same place": "f(x: [40]R) = gen i:40. " + " + ".join(f"[i = 7] * sin(x[{p}])" for p in PLACES),
    "one-hots that may be outside": f"f(x: [40]R) = gen i:n. {_sum('[i = #] * x[#]')}",
    "one-hot rows": f"f(x: [40][3]R) = gen i:40, j:3. {_sum('[i = #] * x[39 - #, j]')}",
    "one of many": f"f(x: [40]R) = gen i:40. [{' or '.join(f'i = {p}' for p in PLACES)}] * exp(x[i])",
    "sums": f"f(x: [40][3]R) = {_sum('(sum j:3. x[#, j])^2')}",
    "a stencil": "f(x: [40]R) = gen i:31. " + " + ".join(f"x[i + {k}]" for k in range(10)),
    "statements": "f(x: [40]R) = "
    + " ".join(f"let t{p} = sin(x[{p}]) in" for p in PLACES)
    + " gen i:40. "
    + " + ".join(f"[i = {p}] * t{p} * t{p}" for p in PLACES),
    "a chain of statements": "f(x: [40]R) = let y0 = x[0] in "
    + " ".join(f"let y{k + 1} = sin(y{k} + x[{k + 1}]) in" for k in range(10))
    + " y10",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rolled_programs_and_their_adjoints_are_as_the_evaluator_says(name: str) -> None:
    f = parse(PROGRAMS[name])
    for g in (f, adjoint(f)):
        rng = np.random.default_rng(0)
        values = {}
        for p in g.params:
            dims = [] if p.name == "f_bar" and "gen" not in PROGRAMS[name] else [40]
            if p.name == "x" and "[40][3]R" in PROGRAMS[name]:
                dims = [40, 3]
            if p.name == "f_bar" and "i:40, j:3" in PROGRAMS[name]:
                dims = [40, 3]
            if p.name == "f_bar" and "i:31" in PROGRAMS[name]:
                dims = [31]
            values[p.name] = rng.normal(size=dims)
        sizes = {s.name: 40 for s in g.sizes} if name == "one-hots that may be outside" and g is f else {}
        got = lower(g)(**values, **sizes)
        np.testing.assert_allclose(np.asarray(got), evaluate(g, **values, **sizes), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["reads", "reads with factors", "one-hots", "statements"])
def test_what_is_alike_is_written_once(name: str) -> None:
    nodes = [*lower(parse(PROGRAMS[name])).array_program.definition.body.nodes()]
    slow = [x for x in nodes if isinstance(x, Elementwise) and x.function.name in ("sin", "exp")]
    reads = [
        x for x in nodes if isinstance(x, ArrayOperation) and x.operation == "_take" and x.arguments[0] == Name("x")
    ]
    assert len(slow) <= 1 and len(reads) == 1


def test_reads_in_arithmetic_progression_are_a_slice() -> None:
    nodes = lower(parse(PROGRAMS["reads in steps"])).array_program.definition.body.nodes()
    assert Slice(constant(1), constant(37), 3) in nodes


def test_fewer_than_some_are_left_as_they_are() -> None:
    f = parse("f(x: [n]R) = gen i:n. " + " + ".join(f"[i = {k * k}] * x[i]" for k in range(FEWEST - 1)))
    assert not reroll(f).places


def test_a_chain_is_not_rolled_for_each_link_needs_the_one_before() -> None:
    source = lower(parse(PROGRAMS["a chain of statements"])).source
    assert source.count("jnp.sin(") == 10


def test_the_source_does_not_grow_with_the_number_of_terms() -> None:
    def statements(k: int) -> int:
        terms = " + ".join(f"[i = {p * p}] * sin(x[{p}])" for p in range(k))
        made = lower(parse(f"f(x: [1000]R) = gen i:1000. {terms}"))
        return len([*made.array_program.definition.body.walk()])

    assert statements(24) == statements(31)


def test_one_hots_are_assembled_with_the_work_of_their_number() -> None:
    n = 10_000
    f = parse(f"f(x: [{n}]R) = gen i:{n}. " + " + ".join(f"[i = {p * p}] * sin(x[{p}])" for p in range(20)))
    x = jnp.asarray(np.random.default_rng(0).normal(size=n), jnp.float32)
    run = lower(f)
    want = np.zeros(n)
    want[np.arange(20) ** 2] = np.sin(np.asarray(x[:20], float))
    np.testing.assert_allclose(np.asarray(run(x)), want, rtol=1e-5, atol=1e-6)
    work = count(run, x)
    assert work.operations <= 3 * 20
