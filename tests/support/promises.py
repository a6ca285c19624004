"""The package's promises about every program, each as a check of one program at one set of arguments.

Meaning and cost are judged by `tests.support.pointwise`, derivatives by dual numbers: nothing is compared with itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import numpy as np

from tensorlang.costs.cost import cost
from tensorlang.derivatives.adjoint import adjoint_steps
from tensorlang.derivatives.total import total_derivative
from tensorlang.language.evaluate import evaluate
from tensorlang.language.function import Function
from tensorlang.language.functions import operations
from tensorlang.language.grammar import Choice, Compared, Var
from tensorlang.language.predicates import Predicate, conjunction, disjunction
from tensorlang.language.types import R, leaves, shape
from tensorlang.lowering.lower import lower
from tensorlang.normal import eliminate_pairs, let_lift, normal_ssa, push_out_gen, to_ssa
from tensorlang.normal.as_program import to_function
from tensorlang.normal.forms import why_not_gen_outermost, why_not_let_lifted, why_not_pair_free, why_not_ssa
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Comparison,
    Contraction,
    Map,
    Selection,
    Statement,
    inner_ranges,
    own_ranges,
)
from tensorlang.normal.tidy import tidy
from tensorlang.pipeline import adjoint, derivative
from tensorlang.sets.check import check
from tensorlang.sets.scopes import postorder
from tensorlang.simplification import simplify, simplify_ssa
from tensorlang.surface.parse import parse
from tests.support import pointwise
from tests.support.alike import alike
from tests.support.dual import paired, tangent
from tests.support.programs import Scalars, input_sizes, random_arguments, random_function, random_sizes, relation_data
from tests.support.ssa_lists import random_ssa

PASSES = (
    (let_lift, why_not_let_lifted),
    (eliminate_pairs, why_not_pair_free),
    (push_out_gen, why_not_gen_outermost),
    (to_ssa, why_not_ssa),
)


@dataclass(frozen=True)
class Case:
    """A program, and arguments by name."""

    f: Function
    sizes: dict[str, int]
    values: dict[str, Any]
    rng: random.Random
    ssa: SSA | None = None

    @property
    def has_no_empty_size(self) -> bool:
        """Whether every size is at least 1: passes that choose the cheaper of two ways compare costs at such sizes."""
        return all(n > 0 for n in self.sizes.values())

    def told(self, f: Function) -> dict[str, int]:
        """The sizes of `f` that no parameter's type determines."""
        known = {s for a in input_sizes(f) for s in a.sizes}
        return {s.name: self.sizes[s.name] for s in f.sizes if s not in known}

    @property
    def relations(self) -> dict[str, Any]:
        return relation_data(self.f, self.values)

    def means(self, f: Function, more: dict[str, Any] | None = None) -> Any:
        """The value of `f` at the case's arguments and `more`."""
        return pointwise.meaning(f, self.sizes, {**self.values, **(more or {})})

    def costs(self, f: Function) -> int:
        return pointwise.cost(f, self.sizes, self.values)

    def fresh(self, f: Function) -> dict[str, Any]:
        """Random arguments for the parameters of `f` that the case's program does not have."""
        made = random_arguments(f, self.rng, self.sizes)
        return {name: value for name, value in made.items() if name not in self.values}


def random_case(
    rng: random.Random,
    scalars: Scalars = "powers",
    fuel: int = 14,
    exact: bool = True,
    chooses: bool = False,
    numbers: bool = False,
    compares: bool = False,
) -> Case:
    """A random program with random arguments; `chooses`, `numbers` and `compares` as for `random_function`."""
    f = random_function(rng, scalars=scalars, fuel=fuel, chooses=chooses, numbers=numbers, compares=compares)
    sizes = random_sizes(f, rng)
    return Case(f, sizes, random_arguments(f, rng, sizes, exact=exact), rng)


def random_ssa_case(rng: random.Random) -> Case:
    """A random list of SSA statements with random arguments."""
    s = random_ssa(rng)
    f = to_function(s)
    sizes = random_sizes(f, rng)
    return Case(f, sizes, random_arguments(f, rng, sizes), rng, s)


# -- values


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, exactly."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if np.shape(a) != np.shape(b):
        return False
    return bool(np.all(np.asarray(a, dtype=object) == np.asarray(b, dtype=object)))


def close(a: Any, b: Any, tolerance: float = 1e-6) -> bool:
    """Whether two values are equal up to rounding."""
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple) and len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
        )
    if np.shape(a) != np.shape(b):
        return False
    return np.allclose(np.asarray(a, dtype=float), np.asarray(b, dtype=float), rtol=tolerance, atol=tolerance)


def inner(a: Any, b: Any) -> Any:
    """<a | b>."""
    if isinstance(a, tuple):
        return sum((inner(x, y) for x, y in zip(a, b, strict=True)), Fraction(0))
    return sum((x * y for x, y in zip(np.ravel(a), np.ravel(b), strict=True)), Fraction(0))


def numbers_in(a: Any) -> int:
    """|a|: the number of numbers that a value holds."""
    return sum(map(numbers_in, a)) if isinstance(a, tuple) else int(np.size(a))


def flat(value: Any, count: int) -> tuple[Any, ...]:
    """The `count` values that pairs nested to the right hold."""
    found = []
    for _ in range(count - 1):
        first, value = value
        found.append(first)
    return (*found, value)


# -- the promises


def text_parses_back_to_the_same_program(case: Case) -> None:
    text = str(case.f)
    again = parse(text)
    assert alike(case.f, again), text
    assert str(again) == text


def every_access_is_proved_in_bounds(case: Case) -> None:
    f = check(case.f)
    for transform, _ in PASSES[:3]:
        f = check(transform(f))
    check(simplify(case.f))


def evaluator_and_counter_agree_with_the_figures(case: Case) -> None:
    assert same(evaluate(case.f, exact=True, **case.values, **case.told(case.f)), case.means(case.f))
    # choices and conditions that a gen would repeat are counted where they form an array
    f = let_lift(case.f) if any(isinstance(p, Choice | Compared) for p in postorder(case.f.body)) else case.f
    assert cost(f, case.relations, **dict[str, Any](case.sizes)) == case.costs(f)


def passes_keep_meaning_and_never_raise_the_cost(case: Case) -> None:
    f, want, spent = case.f, case.means(case.f), case.costs(case.f)
    for transform, why_not in PASSES:
        f = transform(f)
        assert why_not(f) is None, f"{transform.__name__}: {why_not(f)}"
        assert same(case.means(f), want), f"{transform.__name__} changes the value"
        now = case.costs(f)
        assert now <= spent, f"{transform.__name__} raises the cost from {spent} to {now}"
        spent = now


def simplify_keeps_meaning_and_never_raises_the_cost(case: Case) -> None:
    want = case.means(case.f)
    spent = case.costs(case.f)
    s = case.ssa or normal_ssa(case.f)
    for made in (to_function(tidy(s)), to_function(simplify_ssa(s)), simplify(case.f)):
        assert same(case.means(made), want), "the value changes"
        if case.has_no_empty_size:
            assert case.costs(made) <= spent, f"the cost rises from {spent} to {case.costs(made)}"


def derivative_agrees_with_dual_numbers(case: Case) -> None:
    df = derivative(case.f)
    tangents = case.fresh(df)
    by_arithmetic = tangent(case.means(case.f, _moved(case, tangents)))
    assert same(case.means(df, tangents), by_arithmetic)


def adjoint_is_the_transpose_of_the_derivative(case: Case) -> None:
    adjoint_is_transpose(case, case.f)


def second_derivatives_are_derivatives(case: Case) -> None:
    first = derivative(case.f)
    adjoint_is_transpose(Case(first, case.sizes, {**case.values, **case.fresh(first)}, case.rng), first)
    first = adjoint(case.f)
    adjoint_is_transpose(Case(first, case.sizes, {**case.values, **case.fresh(first)}, case.rng), first)


def adjoint_is_transpose(case: Case, f: Function) -> None:
    """<dy | D f dx> = <adjoint dy | dx>, exactly, for some of the parameters."""
    wrt = tuple(x.name for x in f.variables if case.rng.random() < 0.8) or f.variables[0].name
    df, adj = derivative(f, wrt), adjoint(f, wrt)
    dx, dy = case.fresh(df), case.fresh(adj)
    gradients = flat(case.means(adj, dy), len(dx))
    (bar,) = dy.values()
    left = inner(bar, case.means(df, dx))
    right = inner(gradients, tuple(dx.values()))
    assert left == right, f"<dy | D f dx> = {left}, <adjoint dy | dx> = {right}"


def bounds_of_theorems_6_1_and_6_35_hold(case: Case) -> None:
    for s in {case.ssa or normal_ssa(case.f), tidy(case.ssa or normal_ssa(case.f))}:
        _bounds_hold(case, s)


def simplified_derivatives_keep_the_bounds(case: Case) -> None:
    spent = case.costs(to_function(case.ssa or normal_ssa(case.f)))
    forward, reverse = case.costs(derivative(case.f)), case.costs(adjoint(case.f))
    output = numbers_in(case.means(case.f))
    if not case.has_no_empty_size:
        return
    assert forward <= 4 * spent, f"the derivative costs {forward}, the program {spent}"
    assert reverse <= 4 * spent + output, f"the adjoint costs {reverse}, the program {spent}, its output {output}"


def _bounds_hold(case: Case, s: SSA) -> None:
    f = to_function(s)
    at = pointwise.chosen(f, case.sizes, case.values)
    spent = case.costs(f)
    counted = [_table(x, at) for x in s.statements]
    assert spent == sum(c for c, _ in counted), "the table of statement costs disagrees with Figure 6"
    forward = case.costs(to_function(total_derivative(s, f.variables)))
    total = sum(d for _, d in counted)
    assert forward <= spent + total, f"D[S] costs {forward}, more than {spent} + {total}"
    assert spent + total <= 4 * spent
    adjoint_ssa, steps = adjoint_steps(s, f.variables, f.type)
    leaf_points = sum(
        at.count(list(own_ranges(product.right).items()), product.pred)
        for step in steps
        if step.rule.number == "6.17"
        for product in step.before
    )
    reverse = case.costs(to_function(adjoint_ssa))
    output = numbers_in(case.means(f))
    assert reverse + leaf_points <= spent + total + output, (
        f"(B): {reverse} + {leaf_points} (inputs' points) > {spent} + {total} + {output} (output)"
    )
    inputs = sum(
        int(np.prod([n.value(at.atoms) for n in shape(kind)[0]], dtype=int))
        for x in f.variables
        for _, kind in leaves(x.type)
    )
    assert reverse + inputs + output <= 4 * (spent + inputs + output), "Theorem 6.35"


def _table(x: Statement, at: pointwise.Point) -> tuple[int, int]:
    """The cost of a statement, and the most that its differential adds."""
    own = list(own_ranges(x).items())
    match x:
        case Addition(terms, _):
            each = sum(at.count(own, t.pred) for t in terms)
            union = at.count(own, _union(t for t in terms if t.sign > 0))
            negative = sum(at.count(own, t.pred) for t in terms if t.sign < 0)
            return each - union, each - at.count(own, _union(terms)) + negative
        case Map(p, f, _, _):
            xs = tuple(Var(f"x{k}", R) for k in range(f.arity))
            components = f.transpose(xs, Var("y", R), Var("t", R))
            extra = sum(operations(e) for e in components if e is not None) + f.arity - 1
            return at.count(own, p) * f.cost, at.count(own, p) * extra
        case Contraction(p, factors, _, _):
            unknowns = list(inner_ranges(x).items())
            each_g = [at.count(unknowns, p) for _ in at.points(own, conjunction([]))]
            n, g = sum(each_g), sum(1 for c in each_g if c)
            return len(factors) * n - g, (4 * n if len(factors) == 2 else n) - g
        case Comparison(_, _, guard, _, _):
            return at.count(own, guard), 0
        case Selection(_, _, guard, p, operand):
            points = list(own_ranges(operand).items())
            return at.count(points, conjunction([guard, p])) - at.count(own, guard), 0
    return 0, 0


def _union(terms: Iterable[Addend]) -> Predicate:
    return disjunction(t.pred for t in terms)


def _moved(case: Case, tangents: dict[str, Any]) -> dict[str, Any]:
    """The arguments as dual numbers; the differentials are in the order of the parameters."""
    pairs = zip(case.f.variables, tangents.values(), strict=True)
    return {x.name: paired(case.values[x.name], dx) for x, dx in pairs}


def lowered_program_computes_the_value(case: Case) -> None:
    arrays = {name: _floats(value) for name, value in case.values.items()}
    want = Case(case.f, case.sizes, arrays, case.rng).means(case.f)
    for f in (case.f, simplify(case.f)):
        assert close(lower(f)(**arrays, **case.told(f)), want), lower(f).source


def gradient_agrees_with_jax(case: Case) -> None:
    """The adjoint, lowered, against JAX's own vector-Jacobian product of the lowered program."""
    arrays = {name: _floats(value) for name, value in case.values.items()}
    names = [x.name for x in case.f.variables]
    given = {name: value for name, value in arrays.items() if name not in names} | case.told(case.f)
    run = lower(case.f)
    value, transpose = jax.vjp(
        lambda *xs: run(**dict(zip(names, xs, strict=True)), **given), *(arrays[n] for n in names)
    )
    adj = adjoint(case.f)
    atoms: dict[Any, int] = {s: case.sizes[s.name] for s in adj.sizes}
    if any(size.value(atoms) < 0 for size in input_sizes(adj)):
        return  # an output of negative size is empty, but a parameter's size, here the cotangent's, is never negative
    (bar,) = case.fresh(adj).values()
    bar = _floats(bar)
    want = transpose(jax.tree.map(lambda b, v: np.asarray(b, dtype=v.dtype), bar, value))
    got = lower(adj)(**arrays, **{adj.variables[-1].name: bar}, **case.told(adj))
    assert close(got if len(names) > 1 else (got,), want), lower(adj).source


def _floats(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_floats, value))
    given = np.asarray(value)
    return given if given.dtype.kind in "bi" else np.asarray(value, dtype=float)


@dataclass(frozen=True)
class Promise:
    """A check, and the cases to try it on."""

    check: Callable[[Case], None]
    scalars: Scalars = "powers"
    fuel: int = 14
    share: int = 1
    """It is tried on one in this many programs."""
    on_ssa: bool = False
    """Whether to try it on random SSA lists as well."""


PROMISES = {
    promise.check.__name__: promise
    for promise in (
        Promise(text_parses_back_to_the_same_program, "smooth"),
        Promise(every_access_is_proved_in_bounds, share=4),
        Promise(evaluator_and_counter_agree_with_the_figures, "exact"),
        Promise(passes_keep_meaning_and_never_raise_the_cost, "exact"),
        Promise(simplify_keeps_meaning_and_never_raises_the_cost, "exact", share=4, on_ssa=True),
        Promise(derivative_agrees_with_dual_numbers, share=4, on_ssa=True),
        Promise(adjoint_is_the_transpose_of_the_derivative, "exact", share=4, on_ssa=True),
        Promise(bounds_of_theorems_6_1_and_6_35_hold, share=4, on_ssa=True),
        Promise(simplified_derivatives_keep_the_bounds, share=4, on_ssa=True),
        Promise(second_derivatives_are_derivatives, fuel=7, share=40),
        Promise(lowered_program_computes_the_value, "smooth", share=40),
        Promise(gradient_agrees_with_jax, "smooth", share=80),
    )
}


def case_for(promise: Promise, seed: int) -> Case:
    """The case that `promise` is tried on for a seed. Every third is an SSA list, where the promise allows; of the rest
    every other may have index arrays, extrema and choices, and every fourth pair conditions on values."""
    rng = random.Random(seed)
    if promise.on_ssa and seed % 3 == 2:
        return random_ssa_case(rng)
    turn = seed // promise.share
    return random_case(rng, promise.scalars, promise.fuel, chooses=turn % 2 == 1, compares=turn // 2 % 4 == 3)
