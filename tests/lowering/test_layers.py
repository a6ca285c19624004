"""Stacks of layers that choose, pool, gather and scatter: conditions on the data of a layer recur in the layers below
it.

So conditions on data grow with each layer. The code must not evaluate them, since they hide only zeros.
`tests/promises/test_scale.py` tests how the steps of deriving grow.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import jax
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.affine import IndexArray
from tensorlang.language.census import expressions
from tensorlang.language.grammar import Bracket, Expr
from tensorlang.language.predicates import Predicate, conjuncts
from tensorlang.lowering.plan.dependence import places, reads, variable
from tensorlang.lowering.plan.ir import Step, StoredArray
from tensorlang.lowering.plan.passes import plan
from tensorlang.lowering.plan.unread_masks import asks_data
from tests.support.programs import random_arguments
from tests.support.traced import work

Layer = Callable[[str, str, int], str]

LAYERS: dict[str, Layer] = {
    "convolution": lambda y, n, k: f"gen i:{n}. tanh(sum q:3. [0 <= i + q - 1 < {n}] * {y}[i + q - 1] * w{k}[q])",
    "rectified": lambda y, n, k: f"gen i:{n}. relu({y}[i] * w{k}[0] + w{k}[1])",
    "pooled": lambda y, n, k: f"gen i:{n}. max q:3 where 0 <= i + q - 1 < {n}. {y}[i + q - 1] * w{k}[q]",
    "gathered": lambda y, n, k: f"gen i:{n}. tanh(w{k}[0] * {y}[a[i]])",
    "scattered": lambda y, n, k: f"gen i:{n}. tanh(sum p:{n}. [b[p] = i] * {y}[a[p]] * w{k}[1])",
    "greatest": lambda y, n, k: f"gen i:{n}. [exists p:{n}. b[p] = i] * w{k}[2] * max p:{n} where b[p] = i. {y}[a[p]]",
    "residual": lambda y, n, k: f"gen i:{n}. {y}[i] + sin(w{k}[0] * {y}[b[i]])",
}


def stack(kinds: list[str], halves: bool = False) -> tl.Function:
    """A program of these layers, one on top of the other; if `halves`, each has twice the neurons of the next."""
    text, y, n = "", "x", f"{2 ** len(kinds)}*n" if halves else "n"
    for k, kind in enumerate(kinds):
        text += f"let y{k} = {LAYERS[kind](y, n, k)} in "
        y = f"y{k}"
        if halves:
            n = f"{2 ** (len(kinds) - k - 1)}*n"
            text += f"let z{k} = gen i:{n}. max q:2. {y}[2*i + q] in "
            y = f"z{k}"
    size = f"{2 ** len(kinds)}*n" if halves else "n"
    weights = ", ".join(f"w{k}: [3]R" for k in range(len(kinds)))
    data = "" if halves else ", a: [n]idx(n), b: [n]idx(n)"
    return tl.parse(f"layers(x: [{size}]R, {weights}{data}) = {text} sum i:{n}. {y}[i]^2")


def random_stack(rng: Random) -> tl.Function:
    halves = rng.random() < 0.3
    kinds = ["convolution", "rectified", "pooled"] if halves else list(LAYERS)
    return stack([rng.choice(kinds) for _ in range(rng.randint(2, 4))], halves)


def are_right(f: tl.Function, rng: Random) -> None:
    g = tl.grad(f)
    for n in (1, 2, 5):
        given = random_arguments(f, rng, {"n": n}, exact=False)
        with jax.enable_x64(True):
            found = jax.tree.leaves(tl.lower(g)(**given))
        for a, b in zip(found, jax.tree.leaves(tl.evaluate(g, **given)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def asked_of_data(f: tl.Function) -> set[Predicate]:
    """The conditions on data, with quantifiers, under which the plan of `f` computes something."""
    found = [e for step in plan(tl.simplify(f)).steps for value in step_values(step) for e in expressions(value)]
    return {q for e in found if isinstance(e, Bracket) for q in conjuncts(e.pred) if asks_data(q)}


def step_values(step: Step) -> tuple[Expr, ...]:
    return (step.value,) if isinstance(step, StoredArray) else step.values


def are_cheap(f: tl.Function) -> None:
    """Assert that the work is in proportion to n, within 4 times the value's, inputs and outputs counted, and without
    masks of zeros."""
    g = tl.grad(f)
    done = []
    for n in (128, 512):
        given = random_arguments(f, Random(0), {"n": n}, exact=False)
        numbers = sum(np.size(a) for a in given.values())
        value, gradient = (work(lambda h=h, given=given: tl.lower(h)(**given)) for h in (f, g))
        assert gradient.operations + numbers + 1 <= 4 * (value.operations + numbers + 1)
        done.append(gradient.elements)
    assert done[1] <= 4.2 * done[0]
    assert len(asked_of_data(g)) <= len(asked_of_data(f))


@pytest.mark.seeds(0, 40)
def test_random_stacks_are_right_and_cheap(seed: int) -> None:
    rng = Random(seed)
    f = random_stack(rng)
    are_right(f, rng)
    are_cheap(f)


WINDOWS = {
    "of one axis": "f(x: [2*n]R, w: [3]R) = let y = gen i:n. max q:2. sin(x[2*i + q]) in "
    "sum i:n. (sum q:3. [i + q < n] * y[i + q] * w[q])^2",
    "turned round": "f(x: [n][4]R, w: [3]R) = let y = gen i:n. max q:4. x[i, q] in "
    "sum i:n. (sum q:3. [q <= i] * y[i - q] * w[q])^3",
    "of what is read at data": "f(x: [n][4]R, w: [3]R, a: [m]idx(n)) = let y = gen i:n. max q:4. x[i, q] in "
    "sum j:m. (sum q:3. [a[j] + q < n] * y[a[j] + q] * w[q])^2",
    "with steps": "f(x: [3*n][4]R, w: [2]R) = let y = gen i:3*n. max q:4. x[i, q] in "
    "sum i:n. (sum q:2. y[3*i + q] * w[q])^2",
    "of rows and columns": "f(x: [n][n][2]R, w: [2][2]R) = let y = gen i:n, j:n. max q:2. x[i, j, q]^2 in "
    "sum i:n, j:n. (sum p:2, q:2. [i + p < n and j + q < n] * y[j + q, i + p] * w[p, q])^2",
    "of greatest and least": "f(x: [n][4]R, w: [3]R) = let y = gen i:n. (max q:4. x[i, q]) - min q:4. x[i, q] in "
    "sum i:n. (sum q:3. [i + q < n] * y[i + q] * w[q])^2",
    "of places chosen by other numbers": "f(x: [n][4]R, z: [n][4]R, w: [3]R) = let k = gen i:n. argmax q:4. z[i, q] in "
    "sum i:n. (sum q:3. [i + q < n] * x[i + q, k[i + q]] * z[i + q, k[i + q]] * w[q])^2",
}

NETWORK = """
network(x: [b][14][14]R, v: [3][3][c]R, w: [3][3][c][d]R, D: [2][2][d][5]R, y: [b]idx(5)) =
  let h = gen s:b, i:12, j:12, u:c. relu(sum p:3, q:3. x[s, i + p, j + q] * v[p, q, u]) in
  let g = gen s:b, i:6, j:6, u:c. max p:2, q:2. h[s, 2*i + p, 2*j + q, u] in
  let k = gen s:b, i:4, j:4, u:d. relu(sum p:3, q:3, r:c. g[s, i + p, j + q, r] * w[p, q, r, u]) in
  let m = gen s:b, i:2, j:2, u:d. max p:2, q:2. k[s, 2*i + p, 2*j + q, u] in
  let z = gen s:b, o:5. sum i:2, j:2, u:d. m[s, i, j, u] * D[i, j, u, o] in
  sum s:b. log(sum o:5. exp(z[s, o])) - z[s, y[s]]
"""


def test_what_was_pooled_is_looked_up_once_for_all_windows_that_read_it() -> None:
    steps = plan(tl.simplify(tl.grad(tl.parse(NETWORK), ("v", "w", "D")))).steps

    def looks_up(step: Step, name: str) -> bool:
        found = [e for value in step_values(step) for e in reads(value) if (x := variable(e)) and x.name == name]
        return any(a.lookups for e in found for a in places(e))

    (made,) = [step for step in steps if looks_up(step, "h") and not is_choice(step)]
    assert isinstance(made, StoredArray)
    read = [step for step in steps if made.variable in {variable(e) for v in step_values(step) for e in reads(v)}]
    assert len(read) == 2  # the next layer, and the gradient by its weights


def is_choice(step: Step) -> bool:
    return isinstance(step, StoredArray) and isinstance(step.variable, IndexArray)


@pytest.mark.parametrize("text", WINDOWS.values(), ids=WINDOWS)
def test_windows_of_chosen_elements_are_right(text: str) -> None:
    f = tl.parse(text)
    g = tl.grad(f)
    for n in (1, 2, 5):
        given = random_arguments(f, Random(n), {"n": n, "m": 3}, exact=False)
        with jax.enable_x64(True):
            found = [*jax.tree.leaves(tl.lower(f)(**given)), *jax.tree.leaves(tl.lower(g)(**given))]
        wanted = [*jax.tree.leaves(tl.evaluate(f, **given)), *jax.tree.leaves(tl.evaluate(g, **given))]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_a_network_for_pictures_asks_no_data_of_what_a_softmax_may_make_infinite() -> None:
    f = tl.parse(NETWORK)
    g = tl.grad(f, ("v", "w", "D"))
    assert not asked_of_data(g)
    given = random_arguments(f, Random(1), {"b": 1, "c": 2, "d": 2}, exact=False)
    with jax.enable_x64(True):
        found = jax.tree.leaves(tl.lower(g)(**given))
    for a, b in zip(found, jax.tree.leaves(tl.evaluate(g, **given)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
