"""Recurrences: fold, scan, prescan and states, from text and Python to derivatives and compiled code."""

from __future__ import annotations

from itertools import cycle, islice
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tests.support.recurrences import Recurrent, parsed, recurrent
from tests.support.sampling import one_in
from tests.support.traced import work

RNN = """rnn(W: [n][n]R, u: [T][n]R, h: [n]R) =
  fold t:T with s = h. gen i:n. tanh(u[t, i] + sum j:n. W[i, j] * s[j])"""
LOSS = "let s = fold t:T with s = h. gen i:n. tanh(u[t, i] + sum j:n. W[i, j] * s[j]) in sum i:n. s[i] * s[i]"

PROGRAMS = {
    "rnn": f"rnn(W: [n][n]R, u: [T][n]R, h: [n]R) = {LOSS}",
    "cumulative sum": "f(x: [T]R) = scan t:T with s = 0. s + x[t]",
    "cumulative product": "f(x: [T]R) = scan t:T with s = 1. s * x[t]",
    "horner": "f(a: [T]R, x: R) = fold t:T with s = 0. s * x + a[t]",
    "two states, backwards": "f(x: [T]R, b: R) = scan reversed t:T with s = b, r = 1. (s * r + sin(x[t]), r * s)",
    "broadcast of one element": "f(h: [n]R, u: [T]R) = "
    "let s = fold t:T with s = h. gen i:n. s[0] * u[t] in sum i:n. s[i]",
    "one element a step": "f(h: [n]R, u: [T]R) = "
    "fold t:T with s = h. gen i:n. [i = t] * sin(s[0] * u[t]) + [i != t] * s[i]",
    "shift register": "f(h: [n]R, u: [T]R) = fold t:T with s = h. gen i:n. [0 < i] * s[i - 1] + [i = 0] * u[t]",
    "reversal": "f(h: [n]R, u: [T]R) = fold t:T with s = h. gen i:n. u[t] * s[n - 1 - i]",
    "swap of states": "f(a: R, b: [T]R) = fold t:T with p = a, q = 1. (q * b[t], p)",
    "heat": "f(h: [n]R, k: R, z: [T]R) = let s = states t:T with s = h. gen i:n. s[i] + k * z[t] * ([0 < i] * s[i - 1] "
    "+ [i + 1 < n] * s[i + 1] - 2 * s[i]) in gen t:T + 1. [0 < n] * s[t, 0]",
    "under a gen": "f(x: [n][T]R, c: R) = gen i:n. fold t:T with s = c. sin(s * x[i, t]) + real(i)",
    "under a sum": "f(x: [n][T]R, c: R) = sum i:n. fold t:T with s = c. sin(s * x[i, t])",
    "under a bracket": "f(x: [n][T]R, c: R) = gen i:n. [0 < i] * (fold t:T with s = c. sin(s * x[i - 1, t]))",
    "a trace under a gen": "f(x: [n][T]R, c: R) = gen i:n. states t:T with s = c. sin(s * x[i, t])",
    "nested": "f(x: [T]R, A: [n][n]R, b: [n]R) = fold t:T with s = b. gen i:n. x[t] * "
    "(fold q:n with z = s[i]. tanh(z * A[i, q] + s[q]))",
    "scan in a step": "f(x: [T]R, b: [n]R) = fold t:T with s = b. "
    "let p = scan q:n with z = x[t]. z * s[q] in gen i:n. sin(p[i])",
    "one after the other": "f(x: [T]R, b: R) = let s = scan t:T with s = b. sin(s * x[t]) in "
    "fold t:T with z = 0. z * s[t] + s[T - 1 - t]",
    "pairs": "f(p: (R, [T]R), b: R) = let s = scan t:T with s = (b, fst(p)). (snd(s) * snd(p)[t], sin(fst(s)) + b) in "
    "sum t:T. fst(s[t]) * snd(s[t])",
    "matrices": "f(A: [n][n]R, x: [n]R, m: [T]R) = fold t:T with L = gen i:n, j:n. [i <= j] * A[i, j]. "
    "gen i:n, j:n. L[j, i] * x[i] + sin(m[t])",
    "hidden Markov model": "f(a: [n][n]R, e: [T][n]R, p: [n]R) = let f = fold t:T with s = p. gen j:n. e[t, j] * "
    "(sum i:n. s[i] * a[i, j]) in log(1 + (sum j:n. f[j] * f[j]))",
    "leapfrog": "f(x: [2]R, k: R, z: [T]R) = "
    "fold t:T with q = x[0], p = x[1]. (q + 0.1 * p, p - 0.1 * k * z[t] * sin(q))",
    "edit distance": "f(c: [T][n]R, g: R) = let r = fold t:T with r = gen i:n. g * real(i). "
    "let p = scan j:n with z = real(t) * g. -log(exp(-z - g) + exp(-r[j] - g) + exp(-r[j] - c[t, j])) in p "
    "in [0 < n] * r[n - 1]",
}
"""Programs with recurrences, by name."""

CHOOSING = {
    "the greatest state": "f(x: [T + 1]R, c: R) = let v = scan t:T + 1 with s = c. sin(s * x[t]) in max t:T + 1. v[t]",
    "the least of the states before": "f(x: [T + 1]R, c: R) = "
    "let v = prescan t:T + 1 with s = c. sin(s * x[t]) in min t:T + 1. v[t]",
    "each by where the other is greatest": "f(x: [T + 1]R, c: R) = let u = scan t:T + 1 with s = c. sin(s * x[t]) in "
    "let v = scan reversed t:T + 1 with s = c. cos(s * x[t]) in "
    "let a = argmax t:T + 1. u[t] in let b = argmax t:T + 1. v[t] in u[b] * v[a]",
    "states within a bound": "f(x: [T]R, c: R) = let v = prescan t:T with s = c. sin(s * x[t]) in "
    "sum t:T. [v[T - 1 - t] <= 0.5] * v[T - 1 - t]",
    "chosen in a step": "f(x: [T]R, A: [n + 1][n + 1]R, c: R) = fold t:T with z = c. sin(z) * "
    "let v = scan q:n + 1 with s = z. sin(s * A[q, q] + x[t]) in max q:n + 1. v[q]",
}
"""Programs whose cotangents are nonzero at places that the states themselves choose."""


def value_of(kind: Any, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    """A random value of a type."""
    from tensorlang.language.types import Pair, shape

    if isinstance(kind, Pair):
        return value_of(kind.first, sizes, rng), value_of(kind.second, sizes, rng)
    values = {size: sizes[size.name] for a in shape(kind)[0] for size in a.sizes}
    return rng.uniform(0.2, 1.0, size=tuple(a.value(values) for a in shape(kind)[0]))


def arguments(f: tl.Function, seed: int = 0, **sizes: int) -> list[Any]:
    """Random arguments for `f` at these sizes."""
    rng = np.random.default_rng(seed)
    return [value_of(p.type, sizes, rng) for p in f.variables]


def assert_close(a: Any, b: Any) -> None:
    """Assert that both have the same numbers, up to rounding."""
    first, second = (list(map(np.asarray, jax.tree.leaves(x))) for x in (a, b))
    assert [x.shape for x in first] == [x.shape for x in second]
    for x, y in zip(first, second, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)


def count(values: Any) -> int:
    """The number of numbers in `values`."""
    return sum(np.size(x) for x in jax.tree.leaves(values))


def test_a_scan_of_additions_is_a_cumulative_sum() -> None:
    f = tl.parse(PROGRAMS["cumulative sum"])
    x = np.arange(5.0)
    assert_close(tl.evaluate(f, x), np.cumsum(x))
    assert_close(f(x), np.cumsum(x))


def test_fold_scan_prescan_and_trace_give_the_last_the_later_the_earlier_and_all_states() -> None:
    x = np.array([2.0, 3.0, 5.0])
    given = {
        word: tl.parse(f"f(x: [T]R) = {word} t:T with s = 1. s * x[t]")
        for word in ("fold", "scan", "prescan", "states")
    }
    every = [1.0, 2.0, 6.0, 30.0]
    wanted = {"fold": every[-1], "scan": every[1:], "prescan": every[:-1], "states": every}
    for word, f in given.items():
        assert_close(tl.evaluate(f, x), np.array(wanted[word]))
        assert_close(f(x), np.array(wanted[word]))


def test_a_reversed_recurrence_goes_from_the_last_time_to_the_first() -> None:
    x = np.array([2.0, 3.0, 5.0])
    f = tl.parse("f(x: [T]R) = scan reversed t:T with s = 0. 10 * s + x[t]")
    assert_close(tl.evaluate(f, x), np.array([532.0, 53.0, 5.0]))
    T = tl.sizes("T")
    g = tl.function(lambda x: tl.scan(T, 0, lambda t, s: 10 * s + x[t], reverse=True), x=tl.R[T])
    assert_close(g(x), np.array([532.0, 53.0, 5.0]))


def test_python_writes_what_the_text_says() -> None:
    T, n = tl.sizes("T n")

    @tl.function
    def rnn(W: tl.R[n, n], u: tl.R[T, n], h: tl.R[n]):  # type: ignore[no-untyped-def, valid-type]
        return tl.fold(T, h, lambda t, s: tl.gen(n, lambda i: tl.tanh(u[t, i] + tl.sum(n, lambda j: W[i, j] * s[j]))))

    f = tl.parse(RNN)
    assert str(rnn) == str(f)
    given = arguments(f, T=4, n=3)
    assert_close(rnn(*given), f(*given))


def test_several_states_come_one_by_one_or_as_a_tuple() -> None:
    T = tl.sizes("T")
    apart = tl.function(lambda x: tl.fold(T, (0, 1), lambda t, a, b: (b, a + b * x[t])), x=tl.R[T])
    whole = tl.function(lambda x: tl.fold(T, (0, 1), lambda t, s: (s[1], s[0] + s[1] * x[t])), x=tl.R[T])
    x = np.ones(6)
    assert_close(apart(x), (8.0, 13.0))
    assert_close(whole(x), (8.0, 13.0))


def test_a_condition_on_values_in_a_step_that_goes_backwards_is_asked_at_its_time() -> None:
    f = tl.parse("f(x: [T]R, k: [T]idx(T)) = scan reversed t:T with s = 0. if s < x[k[t]] then x[t] else s")
    x, k = np.array([1.0, 4.0, 2.0]), np.array([0, 1, 2])
    assert_close(tl.evaluate(f, x, k), np.array([4.0, 4.0, 2.0]))
    assert_close(f(x, k), np.array([4.0, 4.0, 2.0]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_printed_is_read_as_the_same_program(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    again = tl.parse(str(f))
    assert str(again) == str(f)
    given = arguments(f, T=3, n=2)
    for g in (again, tl.normalize(f), tl.simplify(f), tl.parse(str(tl.simplify(f)))):
        assert_close(tl.evaluate(g, *given), tl.evaluate(f, *given))


@pytest.mark.parametrize("name", one_in(5, [*PROGRAMS, *CHOOSING]))
@pytest.mark.parametrize("steps", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow), 4])
def test_adjoint_and_derivative_are_those_of_jax_through_lax_scan(name: str, steps: int) -> None:
    f = tl.parse((PROGRAMS | CHOOSING)[name])
    with jax.enable_x64(True):
        given = arguments(f, T=steps, n=3)
        y = tl.evaluate(f, *given)
        lowered = tl.lower(f)
        assert_close(lowered(*given), y)
        bar = jax.tree.map(lambda v: np.random.default_rng(1).normal(size=np.shape(v)), y)
        arrays = jax.tree.map(jnp.asarray, given)
        _, pull = jax.vjp(lowered, *arrays)
        a = tl.adjoint(f)
        assert_close(tl.evaluate(a, *given, bar), pull(jax.tree.map(jnp.asarray, bar)))
        assert_close(a(*given, bar), pull(jax.tree.map(jnp.asarray, bar)))
        d = arguments(f, seed=2, T=steps, n=3)
        _, dy = jax.jvp(lowered, tuple(arrays), tuple(jax.tree.map(jnp.asarray, d)))
        assert_close(tl.derivative(f)(*given, *d), dy)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_adjoint_costs_at_most_four_times_the_program_at_three_lengths(name: str) -> None:
    f = tl.parse(PROGRAMS[name])
    a = tl.adjoint(f)
    for steps in (1, 10, 1000):
        sizes = {size.name: {"T": steps, "n": 5}[size.name] for size in f.sizes}
        given = count([value_of(p.type, sizes, np.random.default_rng(0)) for p in f.variables])
        from tensorlang.language.arguments import leaf_shapes

        named = {size: sizes[size.name] for size in f.sizes}
        out = sum(int(np.prod([x.value(named) for x in dims])) for dims in leaf_shapes(f.type))
        io = given + out
        assert tl.cost(a, **sizes) + io <= 4 * (tl.cost(f, **sizes) + io)


def test_the_cost_for_all_lengths_is_a_polynomial() -> None:
    assert str(tl.cost_polynomial(tl.parse(RNN))) == "2*T*n^2 + T*n"
    assert str(tl.cost_polynomial(tl.adjoint(tl.parse(RNN)))) == "[0 < T] * (6*T*n^2 + 3*T*n - n^2)"


def test_the_cotangent_of_a_matrix_is_one_sum_outside_of_the_loop() -> None:
    text = str(tl.adjoint(tl.parse(RNN), "W"))
    *_, last = (line for line in text.splitlines() if "W_bar" in line and "sum" in line)
    assert "let W_bar = gen i:n, j:n. sum" in last
    assert "gen i:n, j:n. 0" not in text  # no accumulator of that size


def test_only_what_reaches_the_result_has_a_cotangent() -> None:
    """With full cotangents of the state, the adjoint would cost T * n."""
    a = tl.adjoint(tl.parse(PROGRAMS["broadcast of one element"]))
    assert tl.cost(a, T=1000, n=100) < 5 * 1000 + 2 * 100


def test_the_derivation_does_not_depend_on_the_length_and_names_the_rule() -> None:
    d = tl.derive(tl.parse(RNN))
    assert any(step.rule.number == "6.R1" for step in d.steps)
    assert "6.R1 recurrence" in str(d)
    assert not next(step for step in d.steps if step.rule.number == "6.R1").rule.theorems


@pytest.mark.slow
def test_what_the_steps_have_chosen_is_read_by_windows_where_numbers_are_kept_by_it() -> None:
    """Then the gradient grows like the program, which has n steps for n numbers."""
    step = "(tanh(x[i] * b), sin(c * x[i]))"
    loop = f"let h = fold t:n with a = y[i], b = x[i] until a * a < 0.05. {step} in fst(h) * snd(h)"
    f = tl.parse(f"f(x: [n]R, y: [n]R, c: R) = sum i:n. {loop}")
    g = tl.grad(f, "x")
    done = []
    for n in (24, 48, 96):
        rng = np.random.default_rng(n)
        given = (rng.normal(size=n), rng.normal(size=n), 0.8)
        done.append(work(tl.lower(g), *given).elements)
    assert done[2] - done[1] <= 4.2 * (done[1] - done[0]), done
    with jax.enable_x64(True):
        assert_close(tl.lower(g)(*given), tl.evaluate(g, *given))


def test_where_data_decide_at_each_time_is_not_searched_long() -> None:
    text = "let v = scan t:T with s = y. gen i:n. sin(s[n - 1 - i] * s[i] + 0.125) in gen t:T. v[t, k[t]]"
    f = tl.parse(f"f(y: [n]R, k: [T]idx(n)) = {text}")
    with tl.limits(steps=8_000_000):
        tl.adjoint(f)


def test_value_and_gradient_share_one_recurrence() -> None:
    f = tl.parse(PROGRAMS["rnn"])
    assert str(tl.value_and_grad(f)).count(" t:T with") == 1


@pytest.mark.slow
def test_second_derivatives_are_those_of_jax() -> None:
    f = tl.parse(PROGRAMS["rnn"])
    with jax.enable_x64(True):
        given = list(map(jnp.asarray, arguments(f, T=3, n=2)))
        d = list(map(jnp.asarray, arguments(f, seed=3, T=3, n=2)))
        run = tl.lower(f)
        plain = jax.grad(run, argnums=(0, 1, 2))
        assert_close(tl.hvp(f)(*given, *d), jax.jvp(plain, tuple(given), tuple(d))[1])
        bar = plain(*given)
        assert_close(tl.adjoint(tl.grad(f))(*given, bar), jax.vjp(plain, *given)[1](bar))
        assert_close(tl.hessian(f, "h")(*given), jax.hessian(lambda h: run(*given[:2], h))(given[2]))


def _scanned(W: Any, u: Any, h: Any) -> Any:
    s, _ = jax.lax.scan(lambda s, x: (jnp.tanh(W @ s + x), None), h, u)
    return jnp.sum(s * s)


TRANSFORMED = {
    "jit": jax.jit,
    "grad": lambda F: jax.grad(F, (0, 1, 2)),
    "jit of grad": lambda F: jax.jit(jax.grad(F)),
    "jvp": lambda F: lambda W, u, h: jax.jvp(F, (W, u, h), (W + 1, 2 * u, h - 1)),
    "vmap": lambda F: lambda W, u, h: jax.vmap(F, (None, 0, None))(W, jnp.stack([u, 2 * u]), h),
    "vmap of grad": lambda F: (
        lambda W, u, h: jax.vmap(jax.grad(F, (0, 1)), (0, None, None))(jnp.stack([W, 2 * W]), u, h)
    ),
    "hessian": lambda F: jax.hessian(F, 2),
    "grad of grad": lambda F: jax.grad(lambda *x: jnp.sum(jax.grad(F)(*x) ** 2)),
}


@pytest.mark.parametrize("how", one_in(2, TRANSFORMED))
def test_a_recurrence_under_jax_is_transformed_as_lax_scan_is(how: str) -> None:
    f = tl.to_jax(tl.parse(PROGRAMS["rnn"]))
    with jax.enable_x64(True):
        given = tuple(map(jnp.asarray, arguments(tl.parse(PROGRAMS["rnn"]), T=3, n=2)))
        assert_close(TRANSFORMED[how](f)(*given), TRANSFORMED[how](_scanned)(*given))


def test_compiled_code_is_one_scan_forwards_and_one_backwards() -> None:
    source = tl.lower(tl.grad(tl.parse(PROGRAMS["rnn"]))).source
    assert source.count("_recur(") == source.count("_sweep(") == 2  # a definition and a call each
    assert "bar_1.T @ s" in source


def test_explain_says_what_is_carried_and_stored() -> None:
    lowered = tl.lower(tl.parse(RNN))
    assert "by lax.scan" in str(lowered.explain())
    with pytest.raises(tl.ArgumentError, match="each part of a program with recurrences has an array program"):
        _ = lowered.plan


REFUSED = {
    "f(x: [T]R) = scan(x)": (tl.ScalarFunctionError, "scan t:n with"),
    "f(x: [T]R) = for t:T x[t]": (tl.ScopeError, "fold t:n with s = 0 . s + x[t]"),
    "f(x: [T]R) = fold t:T s = 0. s + x[t]": (tl.ParseError, "expected `with`"),
    "f(x: [T]R) = fold t:T, q:T with s = 0. s + x[t]": (tl.ParseError, "one index, the time"),
    "f(x: [T]R) = fold t:T with s = 0, s = 1. s": (tl.ScopeError, "two states called s"),
    "f(x: [T]R) = fold t:T with s = 0. gen i:3. s": (tl.TypeMismatch, "has type R, but is made a value by a step"),
    "f(x: [T]R) = fold t:T with s = 0. s + x[t + 1]": (tl.OutOfBounds, "[t + 1 < T] * x[t + 1]"),
    "f(x: [T]R, c: R) = fold t:T - 1 with s = c. s + x[t]": (tl.OutOfBounds, "[0 <= T - 1] * fold t:T - 1 .."),
    "f(x: [T]R) = gen i:T. fold t:i with s = 0. s + x[t]": (tl.TypeMismatch, "found the index i in it"),
    "f(x: [T]R) = let h = fold t:T with s = 0. s + x[t] in s": (tl.ScopeError, "s"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_recurrence_is_refused_with_a_mend(text: str) -> None:
    kind, said = REFUSED[text]
    with pytest.raises(kind) as found:
        tl.parse(text)
    assert said in str(found.value)


def test_what_can_not_be_done_with_a_recurrence_yet_is_refused_in_words() -> None:
    f = tl.parse(RNN)
    with pytest.raises(tl.NormalFormError, match=r"tl\.normalize"):
        tl.eliminate_pairs(tl.let_lift(f))


def test_a_cost_that_depends_on_what_steps_choose_is_not_counted() -> None:
    f = tl.parse("f(x: [T][n + 1]R) = fold t:T with s = 0. if s < x[t, 0] then sin(s) else s")
    with pytest.raises(tl.CountingError, match="chosen inside of its steps"):
        tl.cost(f, T=3, n=2)


def test_a_python_step_must_give_its_states() -> None:
    T = tl.sizes("T")
    with pytest.raises(tl.TypeMismatch, match="2 states must give as many"):
        tl.function(lambda x: tl.fold(T, (0, 1), lambda t, a, b: a + b), x=tl.R[T])
    with pytest.raises(tl.TypeMismatch, match="needs a function of 2 parameters"):
        tl.function(lambda x: tl.fold(T, 0, lambda t: t), x=tl.R[T])


NEWTON = "newton(a: R, w: [T]R) = fold t:T with s = a until abs(s * s - a) < 0.00001. w[t] * (s + a / s)"


def test_until_keeps_the_state_from_the_first_time_at_which_a_condition_on_it_holds() -> None:
    f = tl.parse(NEWTON)
    assert str(tl.parse(str(f))) == str(f)
    assert "lax.while_loop" in tl.lower(f).source
    with jax.enable_x64(True):
        for steps in (0, 1, 3, 12):
            w = np.linspace(0.45, 0.55, steps)
            wanted = 2.0
            for t in range(steps):
                wanted = wanted if abs(wanted * wanted - 2.0) < 0.00001 else w[t] * (wanted + 2.0 / wanted)
            assert_close(tl.evaluate(f, 2.0, w), wanted)
            assert_close(f(2.0, w), wanted)


@pytest.mark.slow
def test_until_is_asked_of_several_states_and_in_python_and_under_jax() -> None:
    T, n = tl.sizes("T n")

    @tl.function
    def f(b: tl.R[n], u: tl.R[T]):  # type: ignore[no-untyped-def, valid-type]
        step = lambda t, s, k: (tl.gen(n, lambda i: b[i] - u[t] * s[i]), k + 1)
        return tl.fold(T, (b, 0), step, until=lambda s, k: tl.sum(n, lambda i: s[i] * s[i]) < 0.1)

    assert "lax.while_loop" in tl.lower(f).source

    def plain(b: Any, u: Any) -> Any:
        def step(state: Any, u: Any) -> Any:
            s, k = state
            done = jnp.sum(s * s) < 0.1
            return (jnp.where(done, s, b - u * s), jnp.where(done, k, k + 1)), None

        return jax.lax.scan(step, (b, 0.0), u)[0]

    with jax.enable_x64(True):
        b, u = jnp.array([0.2, 0.5, 0.1]), jnp.array([0.3, 0.6, 0.9, 0.2])
        assert_close(f(b, u), plain(b, u))
        total = lambda F: lambda b, u: jnp.sum(F(b, u)[0] ** 2)
        pair = (tl.to_jax(f), plain)
        assert_close(*(jax.grad(total(F), (0, 1))(b, u) for F in pair))
        many = jnp.stack([b, 3 * b])
        assert_close(*(jax.vmap(jax.grad(total(F)), (0, None))(many, u) for F in pair))


UNTIL_REFUSED = {
    "f(x: [T]R) = fold t:T with s = 1 until x[t] < s. s": (tl.ScopeError, "no index or size is called t"),
    "f(x: [T]R) = fold t:T with s = 1 until s. s": (tl.ParseError, "expected a comparison"),
    "f(x: [T]R) = fold t:T with s = 1, r = 2 until s < r. s": (tl.TypeMismatch, "2 states"),
    "f(x: [T]R) = fold t:T with s = 1 while s < 3. s": (tl.ParseError, "`until`"),
}


@pytest.mark.parametrize("text", UNTIL_REFUSED)
def test_an_until_that_says_nothing_of_the_states_is_refused(text: str) -> None:
    kind, said = UNTIL_REFUSED[text]
    with pytest.raises(kind) as found:
        tl.parse(text)
    assert said in str(found.value)


def agrees_with_its_unrolled_program(p: Recurrent, store: str | None) -> bool:
    """Whether `p` is within the limits; otherwise assert that it is refused. Compiled code uses this `store`, if
    any."""
    try:
        f, g = parsed(p)
    except tl.OutOfBounds:
        return False
    given = p.arguments
    y = tl.evaluate(f, **given)
    assert_close(y, tl.evaluate(g, **given))
    assert_close(tl.evaluate(tl.simplify(f), **given), y)
    bar = jax.tree.map(lambda v: np.random.default_rng(0).normal(size=np.shape(v)), y)
    try:
        a, b = tl.adjoint(f), tl.adjoint(g)
    except tl.LimitError:
        return False
    first, second = ([given[q.name] for q in h.params] for h in (f, g))
    bars = tl.evaluate(a, *first, bar)
    assert_close(bars, tl.evaluate(b, *second, bar))
    d = [np.random.default_rng(1).normal(size=np.shape(given[q.name])) for q in f.variables]
    assert_close(tl.evaluate(tl.derivative(f), *first, *d), tl.evaluate(tl.derivative(g), *second, *d))
    if store is not None:
        with jax.enable_x64(True):
            assert_close(f(**given), y)
            assert_close(tl.lower(a, store=store)(*first, bar), bars)
    return True


@pytest.mark.parametrize("block", one_in(4, range(4)))
def test_random_recurrences_agree_with_their_unrolled_programs(block: int) -> None:
    stores = dict(zip(range(0, 12, 4), ("needed", "log", "sqrt"), strict=True))
    tried = (agrees_with_its_unrolled_program(recurrent(Random(1000 * block + k)), stores.get(k)) for k in range(12))
    assert sum(islice(tried, 10)) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_recurrences_agree_with_their_unrolled_programs(block: int, share: int) -> None:
    count = 60 // share
    stores = dict(zip(range(0, count, 4), cycle(("needed", "states", "sqrt", "log"))))
    tried = [
        agrees_with_its_unrolled_program(recurrent(Random(10**6 + 1000 * block + k)), stores.get(k))
        for k in range(count)
    ]
    assert sum(tried) >= count // 2


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("f(x: [n]R, y: R) = fold t:n with s = y . s + x[t]^2", "y + sum i:n. x[i] ^ 2"),
        ("f(x: [n]R, y: R) = fold t:0 with s = y . s * x[0]", "y"),
        ("f(x: [n]R) = scan t:n with s = 1 . 2 * x[t]", "gen i:n. 2 * x[i]"),
        ("f(x: [n]R) = prescan t:n with s = 1 . 2 * x[t]", "gen i:n. [i = 0] + [0 < i] * 2 * x[i - 1]"),
        ("f(x: [n + 1]R) = fold t:n + 1 with s = 1 . 2 * x[t]", "2 * x[n]"),
        ("f(x: [n]R) = gen i:n. fold t:n with s = 0 . if t = i then s + x[t] else s", "x"),
        ("f(x: [n]R, y: R) = snd(fold t:n with s = y, r = 0 . (s * x[t], r + sin(x[t])))", "sum i:n. sin(x[i])"),
    ],
)
def test_states_that_need_no_steps_have_none(text: str, simple: str) -> None:
    f = tl.parse(text.replace("x[0]", "y"))
    assert str(tl.simplify(f)).partition(" =")[2].split() == simple.split()
    data = {"x": np.arange(1.0, 5.0), "y": 3.0}
    given = {p.name: data[p.name] for p in f.params}
    assert_close(tl.evaluate(tl.simplify(f), given), tl.evaluate(f, given))


CHOSEN_BEFORE = {
    "in every step": "f(x: [n]R, A: [n][n]R, u: [T]R) = let a = gen i:n. argmin j:n. A[i, j] in "
    "fold t:T with s = x. gen i:n. tanh(s[a[i]] * u[t])",
    "of what is computed": "f(x: [n]R, A: [n][n]R, u: [T]R) = let B = gen i:n, j:n. sin(A[i, j]) * A[j, i] in "
    "let a = gen i:n. argmax j:n. B[i, j] in fold t:T with s = x. gen i:n. tanh(s[a[i]] * u[t]) * B[i, a[i]]",
    "in a recurrence within": "f(x: [n]R, A: [n][n]R, u: [T]R) = let a = gen i:n. argmax j:n. A[i, j] in "
    "fold t:T with s = x. (fold r:T with z = s. gen i:n. tanh(z[a[i]] * u[r] * u[t]))",
}


@pytest.mark.parametrize("name", CHOSEN_BEFORE)
def test_what_is_chosen_whatever_the_states_are_is_chosen_once(name: str) -> None:
    f = tl.parse(CHOSEN_BEFORE[name])
    once, adjoint = tl.simplify(f), tl.adjoint(f)
    for g in (once, adjoint):
        assert str(g).index(" in\n  let s") > str(g).index("arg")
    n, steps = 40, 12
    cost = tl.cost_polynomial(f)(n=n, T=steps)
    given = n * n + n + steps + n
    assert tl.cost_polynomial(once)(n=n, T=steps) <= cost
    worst = 4 * (cost + given)
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=n), "A": rng.normal(size=(n, n)), "u": rng.normal(size=steps), "f_bar": np.ones(n)}
    assert tl.cost(adjoint, **data) + given <= worst
    with jax.enable_x64(True):
        for n, steps in ((0, 0), (3, 0), (1, 2), (4, 3)):
            given = {"x": rng.normal(size=n), "A": rng.normal(size=(n, n)), "u": rng.normal(size=steps)}
            wanted = tl.evaluate(f, **given)
            assert_close(tl.evaluate(tl.parse(str(once)), **given), wanted)
            assert_close(tl.lower(f)(**given), wanted)
            given["f_bar"] = rng.normal(size=n)
            for found, other in zip(tl.lower(adjoint)(**given), tl.evaluate(adjoint, **given), strict=True):
                assert_close(found, other)
