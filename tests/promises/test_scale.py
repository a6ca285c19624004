"""Long and deep programs go through every stage without exhausting Python's stack, in time that grows like n log n.

Time is counted in steps, not seconds: the Python calls that a stage makes, the resumptions of generators among
them. A stage that is linear takes twice as many steps for a program twice as long.
"""

from __future__ import annotations

import gc
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest

from tensorlang.costs.cost import cost
from tensorlang.language.affine import Affine, Index, Size, atom_affine, constant
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.functions import function
from tensorlang.language.grammar import (
    Access,
    Add,
    Bracket,
    Call,
    Expr,
    Gen,
    Let,
    MakePair,
    Mul,
    Proj,
    Sum,
    Var,
    access,
    number,
)
from tensorlang.language.latex import function_latex
from tensorlang.language.predicates import less
from tensorlang.language.show import unicode_text
from tensorlang.language.types import Array, R
from tensorlang.lowering.lower import lower
from tensorlang.memory import clear_caches
from tensorlang.normal import eliminate_pairs, let_lift, normal_ssa, push_out_gen, to_ssa
from tensorlang.normal.contraction import settled
from tensorlang.normal.ssa import live, operands
from tensorlang.normal.tidy import tidy
from tensorlang.pipeline import adjoint, derivative, derive
from tensorlang.sets.check import check
from tensorlang.sets.solve import simplify_numbered
from tensorlang.simplification import simplify
from tensorlang.simplification.plans import plans
from tensorlang.surface.parse import parse
from tests.support.sampling import one_in

n = atom_affine(Size("n"))


def plain(i: Index) -> Affine:
    return atom_affine(i)


def long_program(length: int) -> Function:
    """`length` statements let y = gen i:n. x * y_before + [..] * y_earlier."""
    x = Var("x", Array(n, R))
    before = earlier = x
    bindings: list[tuple[Var, Expr]] = []
    for k in range(length):
        i = Index("i")
        here = plain(i)
        product = Mul(access(x, here), access(before, here))
        shifted = Bracket(less(here + 1, n), access(earlier, here + 1))
        value = Gen(i, n, Add(product, shifted, 1 if k % 2 else -1))
        bindings.append((Var("y", value.type), value))
        earlier, before = before, bindings[-1][0]
    return _with_lets("long", (x,), bindings, total(before))


def scalar_program(length: int) -> Function:
    """`length` statements let y = sin(y_before) * x, all scalar."""
    x = Var("x", R)
    before = x
    bindings: list[tuple[Var, Expr]] = []
    for _ in range(length):
        bindings.append((Var("y", R), Mul(Call(function("sin"), (before,)), x)))
        before = bindings[-1][0]
    return _with_lets("scalars", (x,), bindings, before)


def deep_sum(depth: int) -> Function:
    """x + (x * (x + (x * ...)))."""
    x = Var("x", R)
    e: Expr = x
    for k in range(depth):
        e = Mul(x, e) if k % 2 else Add(x, e, 1)
    return Function("deep", (x,), e)


def deep_calls(depth: int) -> Function:
    """sin(sin(...))."""
    x = Var("x", R)
    e: Expr = x
    for _ in range(depth):
        e = Call(function("sin"), (e,))
    return Function("calls", (x,), e)


def deep_lets(depth: int) -> Function:
    """let y = (let y = (..) in y * x) in y * x: lets nested in the values that lets bind."""
    x = Var("x", R)
    e: Expr = x
    for _ in range(depth):
        y = Var("y", R)
        e = Let(y, e, Mul(y, x))
    return Function("lets", (x,), e)


def deep_brackets(depth: int) -> Function:
    """gen i:n. [i < n - 1] * (1 + [i < n - 2] * (1 + ...))."""
    x, i = Var("x", Array(n, R)), Index("i")
    e: Expr = access(x, plain(i))
    for k in range(depth):
        e = Bracket(less(plain(i), n - k % 3), Add(access(x, plain(i)), e, 1))
    return Function("brackets", (x,), Gen(i, n, e))


def deep_projections(depth: int) -> Function:
    """fst((fst((.., 1)), 1))."""
    x = Var("x", R)
    e: Expr = x
    for _ in range(depth):
        e = Proj(0, MakePair(e, number(1)))
    return Function("projections", (x,), e)


def deep_accesses(depth: int) -> Function:
    """(gen i:1. (gen i:1. ..)[0])[0]."""
    x = Var("x", R)
    e: Expr = x
    for _ in range(depth):
        e = Access(Gen(Index("i"), constant(1), e), constant(0), None)
    return Function("accesses", (x,), e)


def deep_sharing(depth: int) -> Function:
    """e * e of e * e of ...: 2 ^ depth operations written with `depth` nodes."""
    x = Var("x", R)
    e: Expr = x
    for _ in range(depth):
        e = Mul(e, e)
    return Function("shared", (x,), e)


def total(y: Var) -> Expr:
    i = Index("i")
    return Sum(i, n, access(y, plain(i)))


def stencil(steps: int) -> Function:
    """`steps` times the sum of both neighbours inside, and the old values at both ends: the whole array, in three
    pieces."""
    step = (
        "let v{next} = gen i:n + 2. [1 <= i <= n] * (v{k}[i - 1] + v{k}[i + 1])"
        " + [i = 0] * v{k}[i] + [i = n + 1] * v{k}[i] in "
    )
    lets = "".join(step.format(k=k, next=k + 1) for k in range(steps))
    return parse(f"stencil(v0: [n + 2]R) = {lets} sum i:n + 2. v{steps}[i]^2")


def layers(count: int) -> Function:
    """`count` times the product of the same matrix with the vector before."""
    step = "let y{next} = gen i:n. sum j:n. a[i, j] * y{k}[j] in "
    lets = "".join(step.format(k=k, next=k + 1) for k in range(count))
    return parse(f"layers(a: [n][n]R, y0: [n]R) = {lets} sum i:n. y{count}[i]")


def pooled(count: int) -> Function:
    """`count` times a convolution, tanh and the maximum of two neighbours: conditions ask for the place of the maximum,
    in each."""
    step = (
        "let h{k} = gen i:{width}*n. tanh(sum q:3. [0 <= i + q - 1 < {width}*n] * y{k}[i + q - 1] * w{k}[q]) in "
        "let y{next} = gen i:{half}*n. max a:2. h{k}[2*i + a] in "
    )
    widths = [2 ** (count - k) for k in range(count)]
    lets = "".join(step.format(k=k, next=k + 1, width=w, half=w // 2) for k, w in enumerate(widths))
    weights = ", ".join(f"w{k}: [3]R" for k in range(count))
    return parse(f"pooled(y0: [{2**count}*n]R, {weights}) = {lets} sum i:n. y{count}[i]^2")


def messages(count: int) -> Function:
    """`count` times the maximum of the values along edges: conditions ask whether there is an edge, in each."""
    step = "let y{next} = gen i:n. tanh(w[i] * [exists p:e. v[p] = i] * max p:e where v[p] = i. y{k}[u[p]]) in "
    lets = "".join(step.format(k=k, next=k + 1) for k in range(count))
    return parse(f"messages(y0: [n]R, w: [n]R, u: [e]idx(n), v: [e]idx(n)) = {lets} sum i:n. y{count}[i]^2")


def _with_lets(name: str, params: tuple[Var, ...], bindings: list[tuple[Var, Expr]], body: Expr) -> Function:
    for x, value in reversed(bindings):
        body = Let(x, value, body)
    return Function(name, params, body)


PROGRAMS: tuple[Callable[[int], Function], ...] = (
    long_program,
    scalar_program,
    deep_sum,
    deep_calls,
    deep_lets,
    deep_brackets,
    deep_projections,
    deep_accesses,
)


def at_size_three(f: Function) -> dict[str, Any]:
    return {s.name: 3 for s in f.sizes}


def arguments(f: Function) -> Any:
    return np.full(3, 0.01) if f.sizes else 0.5


STAGES: dict[str, Callable[[Function], object]] = {
    "text": str,
    "unicode": unicode_text,
    "latex": function_latex,
    "parse": lambda f: parse(str(f)),
    "check": check,
    "evaluate": lambda f: evaluate(f, arguments(f)),
    "cost": lambda f: cost(f, **at_size_three(f)),
    "passes": lambda f: to_ssa(push_out_gen(eliminate_pairs(let_lift(f)))),
    "tidy": lambda f: tidy(normal_ssa(f)),
    "simplify": simplify,
    "derivative": derivative,
    "adjoint": adjoint,
    "derivation": derive,
    "source": lambda f: lower(f).source,
    "source of the adjoint": lambda f: lower(adjoint(f)).source,
}


def steps(stage: Callable[[Function], object], f: Function) -> int:
    """The number of calls, of Python and of C functions, that a stage makes with empty caches."""
    count = 0

    def counter(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    clear_caches()
    gc.disable()  # garbage collection meanwhile is not the stage's work
    sys.setprofile(counter)
    try:
        stage(f)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


STEPS_OF_A_STATEMENT = 16_000

COUNTED = [name for name in STAGES if name not in ("unicode", "derivation")]
"""Unicode does no work beyond that of text, nor the derivation beyond that of the adjoint."""


@pytest.mark.parametrize("stage", one_in(4, COUNTED[1:] + COUNTED[:1]))
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_twice_the_program_takes_twice_the_steps(program: Callable[[int], Function], stage: str) -> None:
    lengths = (40, 80, 160)
    counts = [steps(STAGES[stage], program(k)) for k in lengths]
    # at the depth d of nested gens a point has d coordinates, and the counter's domains name them all
    growth = 4.2 if (program, stage) == (deep_accesses, "cost") else 2.3
    for one, two in itertools.pairwise(counts):
        assert two <= growth * one, f"{stage}: {counts} steps at lengths {lengths}"


@pytest.mark.parametrize("stage", [name for name in COUNTED if name not in ("text", "latex", "parse")])
def test_a_shared_graph_takes_the_steps_of_its_nodes(stage: str) -> None:
    small, large = [steps(STAGES[stage], deep_sharing(k)) for k in (20, 80)]
    assert large <= 4 * 1.3 * small


@pytest.mark.parametrize("stage", ["simplify", "adjoint"])
def test_the_steps_of_a_stencil_do_not_pile_up_the_pieces_of_its_range(stage: str) -> None:
    _, *counts = [steps(STAGES[stage], stencil(k)) for k in (4, 5, 10, 20)]
    for one, two in itertools.pairwise(counts):
        assert two <= 2.3 * one, f"{stage}: {counts}"


@pytest.mark.parametrize("stage", ["adjoint", "source of the adjoint"])
@pytest.mark.parametrize("program", [pooled, messages], ids=lambda program: program.__name__)
def test_conditions_on_data_grow_with_each_layer_but_steps_do_not_multiply(
    program: Callable[[int], Function], stage: str
) -> None:
    counts = [steps(STAGES[stage], program(k)) for k in (1, 2, 3)]
    for one, two in itertools.pairwise(counts):
        assert two <= 3.3 * one, f"{stage}: {counts}"


@pytest.mark.parametrize("questions", [settled, plans, simplify_numbered], ids=lambda asked: asked.__name__)
@pytest.mark.parametrize("program", [layers, stencil], ids=lambda program: program.__name__)
def test_what_is_found_out_about_one_statement_serves_all_that_are_like_it(
    program: Callable[[int], Function], questions: Any
) -> None:
    adjoint(program(10))
    known = questions.cache_info().misses
    adjoint(program(20))
    assert questions.cache_info().misses == known


@pytest.mark.parametrize("program", [layers, stencil], ids=lambda program: program.__name__)
def test_a_statement_like_others_takes_few_steps(program: Callable[[int], Function]) -> None:
    """Counted in addition to the work that the programs have in common; more than this means that something is
    recomputed."""
    few, many = [steps(adjoint, program(k)) for k in (15, 30)]
    assert (many - few) / 15 <= STEPS_OF_A_STATEMENT


def test_what_is_live_is_put_in_order() -> None:
    s = normal_ssa(long_program(5))
    assert live(s).statements == live(replace(s, statements=tuple(reversed(s.statements)))).statements
    for k in range(len(s.statements)):  # one statement comes before another that it reads, which others read as well
        moved = live(replace(s, statements=(s.statements[k], *s.statements[:k], *s.statements[k + 1 :]))).statements
        assert all(moved.index(y) < moved.index(x) for x in moved for y in operands(x))
        assert set(moved) == set(s.statements)
    assert live(replace(s, statements=(*s.statements, *s.statements))).statements == live(s).statements


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "length"),
    [(long_program, 4_000), (scalar_program, 4_000), *((program, 2_000) for program in PROGRAMS[2:])],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_long_and_deep_programs_go_through_every_stage(program: Callable[[int], Function], length: int) -> None:
    """`pytest -s` shows the seconds."""
    f = program(length)
    seconds: dict[str, float] = {}

    def timed(name: str, stage: Callable[[Function], object], of: Function) -> object:
        start = time.perf_counter()
        result = stage(of)
        seconds[name] = time.perf_counter() - start
        return result

    for name in COUNTED:
        if name not in ("adjoint", "source of the adjoint"):
            assert timed(name, STAGES[name], f) is not None
    reverse = timed("adjoint", adjoint, f)
    assert isinstance(reverse, Function)
    assert timed("source of the adjoint", STAGES["source"], reverse)
    print(f"\n{program.__name__} {length}:", *(f"{name} {spent:.1f} s," for name, spent in seconds.items()))


def test_derivatives_of_a_deep_program_are_right() -> None:
    f = deep_sum(2_000)
    x, h = 0.5, 1e-6
    slope = (evaluate(f, x + h) - evaluate(f, x - h)) / (2 * h)
    assert np.isclose(evaluate(adjoint(f), x, 1.0), slope, rtol=1e-6)
    assert np.isclose(evaluate(derivative(f), x, 1.0), slope, rtol=1e-6)
