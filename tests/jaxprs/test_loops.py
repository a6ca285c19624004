"""JAX's loops as recurrences: the right value and gradient for all lengths, at the cost of programs written by hand."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tensorlang as tl
from benchmarks.through_time import PROGRAMS, Recurrence, arguments
from tensorlang.jaxprs.fission import fissioned
from tensorlang.jaxprs.flatten import evaluate, flatten, read
from tensorlang.language.affine import IndexArray
from tensorlang.language.census import expressions
from tensorlang.language.grammar import Recur
from tensorlang.language.types import shape
from tests.jaxprs.test_from_jax import near, single, spent
from tests.support.jax_loops import random_loop
from tests.support.recurrences import recurrent

RNG = np.random.default_rng(0)


def numbers(*dims: int) -> Any:
    return jnp.asarray(RNG.uniform(0.3, 0.95, dims), jnp.float32)


def same_gradient(found: Any, fun: Any, *given: Any) -> None:
    """Assert that the value and the gradient of an import are those of JAX at these arguments."""
    near(found(*given), fun(*given))
    got = tl.grad(found.function)(**found.arguments(*given))
    want = jax.grad(fun, tuple(k for k, x in enumerate(given) if jnp.issubdtype(x.dtype, jnp.floating)))(*given)
    for g, w in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-3, atol=1e-4 * float(jnp.max(jnp.abs(w))))


def rnn(W: Any, u: Any, h: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        return jnp.tanh(W @ s + x), None

    return jnp.sum(lax.scan(step, h, u)[0])


def test_a_loop_is_a_recurrence_of_as_many_steps_as_a_size_says() -> None:
    found = tl.from_jax(rnn, "n n", "T n", "n")
    assert str(found) == (
        "rnn(W: [n][n]R, u: [T][n]R, h: [n]R) =\n"
        "  let loop = fold t:T with state = h.\n"
        "    let dot = gen i:n. sum r:n. W[i, r] * state[r] in\n"
        "    let add = gen i:n. dot[i] + u[t, i] in let tanh_ = gen i:n. tanh(add[i]) in tanh_ in\n"
        "  let total = sum r:n. loop[r] in\n"
        "  total"
    )
    line = found.lines["dot"]
    assert line is not None and line.code == "return jnp.tanh(W @ s + x), None"
    tl.certify(found.function)  # raises if the adjoint may cost more than 4 times the program
    for steps in (1, 2, 40):
        same_gradient(found, rnn, numbers(3, 3), numbers(steps, 3), numbers(3))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_a_natural_loop_gets_the_gradient_of_the_recurrence_by_hand(program: Recurrence) -> None:
    by_hand = tl.parse(program.text)
    sizes = {**program.sizes, "T": 6}
    given = arguments(by_hand, sizes, program.scale)
    specs = [spec(p) for p in by_hand.params]
    found = tl.from_jax(program.jax, *(given if program.name == "soft edit distance" else specs))
    assert any(isinstance(e, Recur) for e in expressions(found.function.body))
    same_gradient(found, program.jax, *given)
    try:
        data = [
            {p.name: x for p, x in zip(f.params, (*given,), strict=False) if isinstance(p, IndexArray)}
            for f in (found.function, by_hand)
        ]
        mine, theirs = (
            tl.cost(tl.grad(f), {**{s: sizes[s] for s in named(f)}, **known})
            for f, known in zip((found.function, by_hand), data, strict=True)
        )
    except tl.CountingError:  # what data decide
        return
    assert mine <= 1.05 * theirs


def spec(p: Any) -> str:
    """The shape of a parameter by the names of sizes, with a dtype where that is not float32."""
    sizes = " ".join(str(n).replace(" ", "") for n in (p.sizes if isinstance(p, IndexArray) else shape(p.type)[0]))
    return f"{sizes}: int32" if isinstance(p, IndexArray) else sizes


def named(f: tl.Function) -> list[str]:
    return [size.name for size in f.sizes]


def both_ways(W: Any, u: Any, h: Any) -> Any:
    """Outputs of the state before and after each step, and of a value that is not a state; forwards and backwards."""
    first, (a, b) = lax.scan(lambda s, x: (jnp.tanh(W @ s + x), (s, jnp.sum(s) * x)), h, u)
    second, (c, d) = lax.scan(lambda s, x: (jnp.sin(W @ s + x), (s, jnp.sum(s) * x)), h, u, reverse=True)
    return jnp.sum(a * c) + jnp.sum(b[0] * d[-1]) + jnp.sum(first * second) + jnp.sum(d[0] * c[0])


def counted(x: Any, a: Any) -> Any:
    """A loop that counts up by two, and carries an array that stays."""

    def step(s: Any, _: Any) -> Any:
        k, kept, y = s
        return (2 + k, kept, y * kept[k + 1] + jnp.sin(kept[k]) + k), None

    return jnp.sum(lax.scan(step, (0, a, x), length=10)[0][2])


def in_place(x: Any) -> Any:
    """An array in which each step writes an element that the next one reads."""
    y = lax.fori_loop(1, 20, lambda i, y: y.at[i].set(jnp.sin(y[i - 1]) + x[i]), x)
    return jnp.sum(y * y)


def nested(x: Any, y: Any) -> Any:
    """Rows of cells, as dynamic programs have them."""

    def row(before: Any, a: Any) -> Any:
        def cell(left: Any, seen: Any) -> Any:
            up, corner, b = seen
            found = (a - b) ** 2 + jnp.log(jnp.exp(-left) + jnp.exp(-up) + jnp.exp(-corner))
            return found, found

        first = 2.0
        return jnp.append(first, lax.scan(cell, first, (before[1:], before[:-1], y))[1]), None

    return lax.scan(row, jnp.append(0.0, 0 * y + 2.0), x)[0][-1]


def viterbi(t: Any) -> Any:
    """Maxima whose ties share the cotangent."""
    return jnp.max(lax.fori_loop(0, 9, lambda _, s: jnp.max(s[:, None] + t, 0), jnp.zeros(4)))


def products(x: Any, y: Any) -> Any:
    return jnp.sum(jnp.cumprod(x) * lax.cumprod(x, reverse=True)) + jnp.sum(jnp.cumprod(y, 1)) + jnp.prod(y)


@pytest.mark.parametrize(
    ("fun", "dims"),
    [
        (both_ways, ((3, 3), (5, 3), (3,))),
        (both_ways, ((1, 1), (7, 1), (1,))),
        (counted, ((4,), (30,))),
        (in_place, ((20,),)),
        (nested, ((9,), (7,))),
        (viterbi, ((4, 4),)),
        (products, ((20,), (3, 18))),
    ],
)
def test_what_loops_carry_and_give(fun: Any, dims: Any) -> None:
    given = [numbers(*d) for d in dims]
    for exact in (False, True):
        found = tl.from_jax(fun, *given, exact=exact)
        assert any(isinstance(e, Recur) for e in expressions(found.function.body))
        same_gradient(found, fun, *given)


def tokens(E: Any, W: Any, words: Any) -> Any:
    """Steps that read the rows of a table that data name, from the end if negative."""
    return jnp.sum(lax.scan(lambda h, k: (jnp.tanh(W @ h + E[k]), None), E[0], words)[0])


def ragged(x: Any, W: Any, lengths: Any) -> Any:
    """Sequences of different lengths, whose states stay unchanged after their last step."""

    def step(h: Any, now: Any) -> Any:
        t, row = now
        return jnp.where((t < lengths)[:, None], jnp.tanh(h @ W + row), h), None

    return jnp.sum(lax.scan(step, 0 * x[0], (jnp.arange(len(x)), x))[0])


def places(x: Any, p: Any) -> Any:
    """Reads in nested loops at places determined by a counter and by data."""

    def row(s: Any, i: Any) -> Any:
        return lax.fori_loop(0, p.shape[1], lambda j, s: jnp.sin(s) * x[(p[i, j] + j) % len(x)], s), None

    return lax.scan(row, x[0], jnp.arange(len(p)), reverse=True)[0]


@pytest.mark.parametrize(
    ("fun", "dims", "data"),
    [
        (tokens, ((9, 3), (3, 3)), RNG.integers(-9, 9, 12)),
        (ragged, ((9, 4, 3), (3, 3)), np.array([2, 9, 5, 0])),
        (places, ((11,),), RNG.integers(0, 11, (6, 7))),
    ],
)
def test_integers_and_conditions_that_no_state_decides_are_data(fun: Any, dims: Any, data: Any) -> None:
    given, data = [numbers(*d) for d in dims], jnp.asarray(data)
    moved = tuple(range(len(given)))
    found = tl.from_jax(fun, *given, data, exact=True)
    near(found(*given, data), fun(*given, data))
    want = jax.grad(fun, moved)(*given, data)
    full = found.arguments(*given, data)
    derived = tl.grad(found.function)(**full)
    for got in (derived if len(given) > 1 else (derived,), tl.jax.grad(fun, moved)(*given, data)):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-5)
    line = found.lines["loop"]
    assert line is not None and line.code.startswith("return")


def are_taken_out_of_steps(seed: int) -> None:
    """Assert that moving computations out of steps changes no value, and that the resulting import has the right
    gradient."""
    loop = random_loop(random.Random(seed))
    want, slope = loop.function(*loop.arguments), jax.grad(loop.function)(*loop.arguments)
    flat = fissioned(flatten(jax.make_jaxpr(loop.function)(*loop.arguments), lambda _: False))
    env = {**flat.constants, **dict(zip(flat.inputs, loop.arguments, strict=True))}
    evaluate(flat.equations, env)
    np.testing.assert_allclose(read(flat.outputs[0], env), want, rtol=1e-5)
    np.testing.assert_allclose(tl.jax.grad(loop.function)(*loop.arguments), slope, rtol=1e-3, atol=1e-4)
    try:
        found = tl.from_jax(loop.function, *loop.arguments, exact=True)
    except tl.ImportRefused as refused:
        assert "integers" in refused.message or "indices" in refused.message, refused.message
        return
    np.testing.assert_allclose(found(*loop.arguments), want, rtol=1e-4)
    full = found.arguments(*loop.arguments)
    np.testing.assert_allclose(tl.grad(found.function, "x")(**full), slope, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_random_integers_are_taken_out_of_steps(seed: int) -> None:
    are_taken_out_of_steps(seed)


@pytest.mark.slow
@pytest.mark.seeds(100, 40)
def test_many_random_integers_are_taken_out_of_steps(seed: int) -> None:
    are_taken_out_of_steps(seed)


def test_a_table_is_read_at_places_of_data_for_all_sizes() -> None:
    found = tl.from_jax(tokens, "m n", "n n", "T: int32")
    assert "E[words[t], i]" in str(found)
    given = numbers(5, 2), numbers(2, 2), jnp.arange(8) % 5
    near(found(*given), tokens(*given))
    found = tl.from_jax(ragged, "T b n", "n n", "b: int32")
    assert "[t < lengths[i]]" in str(found)
    given = numbers(6, 2, 3), numbers(3, 3), jnp.array([2, 6])
    near(found(*given), ragged(*given))


def test_sizes_of_loops_have_names() -> None:
    found = tl.from_jax(both_ways, "n n", "T n", "n")
    for steps, n in ((1, 1), (2, 3), (9, 2)):
        same_gradient(found, both_ways, numbers(n, n), numbers(steps, n), numbers(n))
    found = tl.from_jax(products, "n", "n m")
    for n, m in ((1, 1), (2, 3), (20, 2)):
        same_gradient(found, products, numbers(n), numbers(n, m))


def outputs(a: Any, B: Any, C: Any, x: Any) -> Any:
    """Outputs from states, and from the states before; a part of an output is not a product."""

    def step(h: Any, now: Any) -> Any:
        new = a * h + B @ now
        return new, (C @ new, jnp.log(jnp.sum(jnp.exp(C @ h))), new[0])

    _, (y, z, first) = lax.scan(step, jnp.zeros_like(a), x)
    return jnp.sum(y * y) + jnp.sum(z) + jnp.sum(first * z)


def measured(a: Any, B: Any, C: Any, x: Any) -> Any:
    def step(h: Any, now: Any) -> Any:
        h = a * h + B @ now
        return h, C @ h

    return jnp.sum(lax.scan(step, jnp.zeros_like(a), x)[1] ** 2)


def test_products_that_steps_only_give_are_one_product() -> None:
    found = tl.from_jax(outputs, "n", "n m", "k n", "T m")
    for steps in (1, 2, 9):
        same_gradient(found, outputs, numbers(3), numbers(3, 2), numbers(4, 3), numbers(steps, 2))
    by_hand = tl.parse(
        "f(a: [n]R, B: [n][m]R, C: [n]R, x: [T][m]R) = let h = scan t:T with h = gen i:n. 0. "
        "gen i:n. a[i] * h[i] + sum j:m. B[i, j] * x[t, j] in "
        "let y = gen t:T. sum i:n. C[i] * h[t, i] in sum t:T. y[t] * y[t]"
    )
    natural = tl.from_jax(measured, "n", "n m", "n", "T m").function
    assert "row" not in str(natural)
    sizes = {"n": 6, "m": 5, "T": 30}
    assert tl.cost(tl.grad(natural), sizes) <= tl.cost(tl.grad(by_hand), sizes)


def test_loops_that_are_short_or_carry_integers_are_written_out() -> None:
    def turned(x: Any, steps: int) -> Any:
        return lax.scan(lambda s, _: ((jnp.sin(s[0]) * s[1], 1 - s[1]), None), (x, 1), length=steps)[0][0]

    def loops(fun: Any) -> bool:
        return any(isinstance(e, Recur) for e in expressions(tl.from_jax(fun, "").function.body))

    assert not loops(lambda x: lax.fori_loop(0, 4, lambda _, s: jnp.sin(s), x))
    assert loops(lambda x: lax.fori_loop(0, 5, lambda _, s: jnp.sin(s), x))
    assert not loops(lambda x: turned(x, 20))
    with pytest.raises(tl.ImportRefused, match="integers which are no counters") as refused:
        tl.from_jax(lambda x: turned(x, 1000), "")
    assert "lax.scan" in str(refused.value)


def test_what_data_of_a_step_decide_is_refused() -> None:
    def sorted_(x: Any, u: Any) -> Any:
        return jnp.sum(lax.scan(lambda s, v: (jnp.sort(s) * v, None), x, u)[0])

    with pytest.raises(tl.ImportRefused, match="an order of values that are computed here"):
        tl.from_jax(sorted_, "5", "10")
    given = numbers(5), numbers(10)
    np.testing.assert_allclose(tl.jax.grad(sorted_)(*given), jax.grad(sorted_)(*given), rtol=1e-5)


def test_long_loops_in_loops_stay_short_programs() -> None:
    def statements(n: int) -> int:
        f = tl.from_jax(nested, numbers(n), numbers(n)).function
        return sum(1 for _ in expressions(f.body))

    assert statements(40) == statements(10)


def is_imported_again(seed: int) -> None:
    """Assert that the code of a random recurrence, imported, has its values and gradients, at about its cost."""
    rng = random.Random(seed)
    program = recurrent(rng, steps=rng.choice((5, 6, 7)))
    f = tl.parse(program.text)
    run = tl.lower(f)
    given = [jax.tree.map(single, program.arguments[p.name]) for p in f.params]
    try:
        found = tl.from_jax(partial(run), *given, exact=True)
    except tl.ImportRefused as refused:  # conditions on numbers and data, and loops that these end
        assert any(word in refused.message for word in ("integers", "indices chosen by data", "while")), refused.message
        return
    want = run(*given)
    for g, w in zip(jax.tree.leaves(found(*given)), jax.tree.leaves(want), strict=True):
        near(g, w)
    names = tuple(p.name for p in found.function.variables)
    if not names:
        return
    full = found.arguments(*given)
    derived = tl.adjoint(found.function, names)
    own = tl.adjoint(f, tuple(p.name for p in f.variables))
    data = {p.name: x for p, x in zip(f.params, given, strict=True)}
    got = derived(**full, **{derived.params[-1].name: jax.tree.map(np.ones_like, found(*given))})
    moved = {p.name: data[p.name] for p in f.variables}
    (wanted,) = jax.vjp(lambda m: run(**{**data, **m}), moved)[1](jax.tree.map(jnp.ones_like, want))
    for g, name in zip(got if len(names) > 1 else (got,), names, strict=True):
        kept = [v.name for v in f.variables if v.name == name or f"a_{v.name}" == name]
        if kept:
            np.testing.assert_allclose(g, wanted[kept[0]], rtol=1e-3, atol=1e-4)
    try:
        mine = spent(derived, full, {})
        theirs = spent(own, data, {"T": program.steps, "n": len(program.arguments["b"]) - 1})
    except (tl.ArgumentError, tl.CountingError):
        return  # decided by float data
    assert mine <= theirs * 5 // 4 + 2 * program.steps  # a function of constants may be computed at each step


@pytest.mark.parametrize("seed", range(4))
def test_a_random_recurrence_is_imported_again_from_its_jax_code(seed: int) -> None:
    is_imported_again(seed)


@pytest.mark.slow
@pytest.mark.seeds(100, 30)
def test_many_random_recurrences_are_imported_again_from_their_jax_code(seed: int) -> None:
    is_imported_again(seed)


def gru(A: Any, B: Any, C: Any, x: Any, h: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        z, r = jax.nn.sigmoid(A @ h + x), jax.nn.sigmoid(B @ h + x)
        return (1 - z) * h + z * jnp.tanh(C @ (r * h) + x), None

    return jnp.sum(lax.scan(step, h, x)[0] ** 2)


def test_the_gradient_of_a_network_is_derived_since_products_leave_its_loop() -> None:
    given = tuple(RNG.normal(size=s).astype(np.float32) / 8 for s in ((64, 64), (64, 64), (64, 64), (70, 64), (64,)))
    assert tl.jax.explain(gru, *given).programs
    *weights, x, h = given

    def transformed(gradient: Any) -> Any:
        g = gradient(gru, (0, 3))
        rows = np.stack([x, 2 * x])
        again = jax.grad(lambda A: jnp.sum(g(A, *weights[1:], x, h)[1] ** 2))
        return g(*given), jax.jit(g)(*given), jax.vmap(lambda x: g(*weights, x, h))(rows), again(weights[0])

    for a, b in zip(*(jax.tree.leaves(transformed(g)) for g in (tl.jax.grad, jax.grad)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * float(np.max(np.abs(b))))


def test_a_loop_of_work_on_each_number_stays_jax() -> None:
    def heat(u: Any) -> Any:
        return jnp.sum(lax.fori_loop(0, 100, lambda _, u: u + 0.1 * (jnp.roll(u, 1) - u), u))

    assert not tl.jax.explain(heat, numbers(32)).programs
