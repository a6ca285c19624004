"""Indices and sizes as numbers: real(a), x[i] * i, 1/n. They cost nothing and have no differential."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.grammar import Var
from tensorlang.language.latex import function_latex
from tensorlang.language.types import leaves, shape
from tensorlang.lowering.plan.numbers import has_numbers
from tests.support.alike import alike
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.promises import PROMISES, random_case

PROGRAMS = [
    "mean(x: [n]R) = (sum i:n. x[i]) / n",
    "var(x: [n]R) = let m = (sum i:n. x[i]) / n in (sum i:n. (x[i] - m)^2) / n",
    "weighted(x: [n]R) = gen i:n. x[i] * i",
    "centred(x: [n]R) = sum i:n. x[i] * real(2*i - n + 1)",
    "both(x: [n][m]R) = gen i:n. sum j:m. x[i, j] * real(i + j)",
    "positions(w: [d]R) = gen i:n, k:d. sin(i * w[k])",
    "grid(x: R) = gen i:n. x * (i / n)",
    "labels(x: [n]R, y: [n]idx(m)) = sum i:n. (x[i] - real(y[i]))^2",
    "chosen(x: [n + 1]R) = let k = argmax i:n + 1. x[i] in real(k) * x[k]",
    "largest(x: [n + 1]R) = max i:n + 1. x[i] * i",
    "masked(x: [n]R) = sum i:n. [i < 2] * i * x[i] + [2 <= i] * x[i]",
    "windows(x: [n + m - 1]R, w: [m]R) = gen i:n. sum j:m. x[i + j] * w[j] * real(i - j)",
    "counted(x: R) = sum i:n. i * x",
    "alone(x: R) = gen i:n. i",
    "size(x: [n]R) = n",
    "pairs(p: (R, [n]R)) = (fst(p) / n, gen i:n. snd(p)[i] * i)",
]


@pytest.mark.parametrize("name", PROMISES)
@pytest.mark.parametrize("chooses", [False, True])
def test_random_programs_with_numbers_of_indices_keep(name: str, chooses: bool) -> None:
    promise = PROMISES[name]
    for seed in range(0, 2000, promise.share * 16):
        case = random_case(random.Random(seed), promise.scalars, promise.fuel, chooses=chooses, numbers=True)
        try:
            promise.check(case)
        except Exception as error:
            error.add_note(f"seed {seed}, sizes {case.sizes}, program:\n{case.f}")
            raise


def test_most_random_programs_with_numbers_have_some() -> None:
    made = [random_function(random.Random(seed), numbers=True) for seed in range(40)]
    assert sum(map(has_numbers, made)) > 20


@pytest.mark.parametrize("text", PROGRAMS)
def test_its_text_parses_back(text: str) -> None:
    f = tl.parse(text)
    assert alike(tl.parse(str(f)), f)
    for g in (tl.adjoint(f), tl.derivative(f), tl.simplify(f), tl.to_ssa(tl.normalize(f))):
        assert alike(tl.parse(str(g)), g)


def arguments(f: tl.Function, seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Arguments, and the sizes that they don't determine."""
    rng = random.Random(seed)
    sizes = {name: n + 1 for name, n in random_sizes(f, rng).items()}
    axes = [a for p in f.params if not isinstance(p, Var) for a in p.sizes]
    axes += [a for p in f.variables for _, kind in leaves(p.type) for a in shape(kind)[0]]
    told = {name: n for name, n in sizes.items() if name not in {s.name for a in axes for s in a.sizes}}
    return random_arguments(f, rng, sizes, exact=False), told


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize("target", ["jax", "pallas-tpu", "pallas-gpu"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_compiled_it_means_the_same(text: str, target: str) -> None:
    f = tl.parse(text)
    for seed in range(2):
        given, told = arguments(f, seed)
        want = tl.evaluate(f, **given, **told)
        got = tl.lower(f, target=target)(**given, **told)
        for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for text in PROGRAMS if "pairs" not in text])
def test_under_the_transformations_of_jax_it_is_a_function_like_any_other(text: str) -> None:
    f = tl.parse(text)
    given, told = arguments(f, 3)
    x = f.variables[0].name

    def value(a: Any) -> Any:
        return jnp.sum(jnp.square(tl.to_jax(f)(**{**given, x: a}, **told)))

    def by_jax(a: Any) -> Any:
        return jnp.sum(jnp.square(tl.lower(f)(**{**given, x: a}, **told)))

    with jax.enable_x64(True):
        start = jnp.asarray(given[x])
        np.testing.assert_allclose(jax.grad(value)(start), jax.grad(by_jax)(start), atol=1e-8)
        np.testing.assert_allclose(jax.hessian(value)(start), jax.hessian(by_jax)(start), atol=1e-8)
        several = jnp.stack([start, 2 * start])
        mapped = jax.jit(jax.vmap(value))(several)
        np.testing.assert_allclose(mapped, [value(start), value(2 * start)], rtol=1e-6)


def test_a_mapped_index_array_gives_numbers_of_its_own() -> None:
    f = tl.to_jax(tl.parse("f(x: [n]R, y: [n]idx(m)) = sum i:n. x[i] * real(y[i])"))
    x, y = np.arange(3.0), np.array([[0, 1, 2], [3, 0, 1]])
    assert jax.vmap(lambda k: f(x, k, m=4))(y).tolist() == (y @ x).tolist()


def test_the_number_itself_costs_nothing() -> None:
    for text, cost in (
        ("f(x: R) = gen i:n. real(2*i + n - 1)", 0),
        ("f(x: [n]R) = gen i:n. x[i] * i", 5),
        ("f(x: [n]R) = (sum i:n. x[i]) / n", 4 + 2),
    ):
        f = tl.parse(text)
        assert tl.cost(f, n=5) == tl.cost_polynomial(f)(n=5) == cost


def test_it_has_no_differential() -> None:
    assert str(tl.derivative(tl.parse("f(x: [n]R) = sum i:n. i * x[i]"))).endswith("sum i:n. i * dx[i]")
    assert tl.evaluate(tl.grad(tl.parse("f(x: R) = sum i:n. real(i)^2")), 1.0) == 0


@pytest.mark.parametrize("text", PROGRAMS)
def test_its_adjoint_is_certified(text: str) -> None:
    f = tl.parse(text)
    assert tl.certify(f).bound == 4


def test_in_latex_it_is_the_index_itself() -> None:
    assert r"\sin\left(i \cdot w[k]\right)" in function_latex(tl.parse(PROGRAMS[5]))
    assert r"\left(2\,i - n + 1\right)" in function_latex(tl.parse(PROGRAMS[3]))


def test_in_python_indices_and_sizes_are_numbers_beside_numbers() -> None:
    n = tl.sizes("n")
    x = tl.R[n]
    for body, text in (
        (lambda x: tl.sum(n, lambda i: x[i]) / n, "(sum i:n. x[i]) / n"),
        (lambda x: tl.gen(n, lambda i: i * x[i] + (i + 1)), "gen i:n. i * x[i] + real(i + 1)"),
        (lambda x: tl.gen(n, lambda i: 0.5 * i - x[i] / (2 * i + 1)), "gen i:n. 0.5 * i - x[i] / real(2*i + 1)"),
        (lambda x: tl.gen(n, lambda i: (i / n) ** 2), "gen i:n. (i / n) ^ 2"),
        (lambda x: tl.gen(n, lambda i: tl.sin(i) + np.cos(i) + abs(i)), "gen i:n. sin(i) + cos(i) + abs(i)"),
        (lambda x: tl.gen(n, lambda i: tl.real(i) * tl.real(n)), "gen i:n. i * n"),
        (lambda x: tl.gen(n, lambda i: (i < 2) * i), "gen i:n. [i < 2] * i"),
        (lambda x: tl.gen(n, lambda i: i), "gen i:n. i"),
        (lambda x: 1 / n, "1 / n"),
    ):
        f = tl.function(body, x=x)
        assert alike(f, tl.parse(f"f(x: [n]R) = {text}")), (str(f), text)
    place = tl.function(lambda x: tl.argmax(n + 1, lambda i: x[i]), x=tl.R[n + 1])
    assert tl.evaluate(place, np.array([2.0, 1.0, 3.0])) == tl.lower(place)(np.array([2.0, 1.0, 3.0])) == 2
    chosen = tl.function(lambda x: tl.argmax(n + 1, lambda i: x[i]) * x[0], x=tl.R[n + 1])
    assert tl.evaluate(chosen, np.array([2.0, 1.0, 3.0])) == 4.0


def test_other_programs_can_be_called_with_sizes_of_their_own() -> None:
    mean = tl.parse(PROGRAMS[0])
    n, m = tl.sizes("n m")
    f = tl.function(lambda x: tl.sum(n, lambda i: mean(x[i])), x=tl.R[n, m + 1])
    assert tl.evaluate(f, np.arange(6.0).reshape(2, 3)) == 1 + 4


def test_an_element_that_is_not_there_is_no_number() -> None:
    with pytest.raises(tl.OutOfBounds, match=r"y\[i \+ 1\] reads"):
        tl.parse("f(x: [n]R, y: [n]idx(m)) = sum i:n. x[i] * real(y[i + 1])")
    with pytest.raises(tl.ScopeError):
        tl.parse("f(x: [n]R) = sum i:n. x[i] * real(j)")


# -- sizes that neither a type nor a range determines


def test_a_size_that_only_predicates_and_numbers_use_is_given_by_name() -> None:
    f = tl.parse("first(x: [n]R, k: size) = sum i:n. [i < k] * x[i] / k")
    assert alike(tl.parse(str(f)), f)
    n, k = tl.sizes("n k")
    g = tl.function(lambda x: tl.sum(n, lambda i: (i < k) * x[i] / k), x=tl.R[n])
    assert str(g) == "f(x: [n]R, k: size) = sum i:n. [i < k] * x[i] / k"
    assert r"k: \mathbb{N}" in function_latex(f)
    x = np.array([1.0, 2.0, 4.0])
    for count, want in ((1, 1.0), (2, 1.5), (4, 1.75)):
        for program in (f, tl.lower(f), tl.to_jax(f)):
            assert program(x, k=count) == want
        assert tl.evaluate(f, x, k=count) == want
        assert tl.evaluate(tl.grad(f), x, k=count).tolist() == [(i < count) / count for i in range(3)]
        assert tl.cost(f, n=3, k=count) == tl.cost_polynomial(f)(n=3, k=count)
    assert tl.certify(f).bound == 4
    mapped = jax.vmap(lambda a: tl.to_jax(f)(a, k=2))(np.stack([x, x + 1]))
    assert mapped.tolist() == [1.5, 2.5]
    with pytest.raises(tl.ArgumentError, match="k can't be read off"):
        f(x)


def test_it_is_given_by_name_to_a_program_that_is_called_by_another_too() -> None:
    first = tl.parse("first(x: [n]R, k: size) = sum i:n. [i < k] * x[i]")
    n = tl.sizes("n")
    f = tl.function(lambda x: first(x, k=n - 1), x=tl.R[n])
    assert tl.evaluate(f, np.array([1.0, 2.0, 4.0])) == 3.0
