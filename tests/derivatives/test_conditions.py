"""Conditions on values: brackets and branches decided by data, without a trace of the side that is not taken."""

from __future__ import annotations

import itertools
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.language.grammar import Compared, Let
from tests.support import promises
from tests.support.promises import PROMISES, random_case

n, m = tl.sizes("n m")

HIDDEN = [
    ("sqrt(x[i])", "x[i] > 0", [-1.0, 0.0], [4.0, 0.25]),
    ("log(x[i])", "x[i] > 0", [-1.0, 0.0], [4.0, 0.25]),
    ("1 / x[i]", "x[i] != 0", [0.0, -0.0], [4.0, -0.25]),
    ("x[i]^-3", "x[i] > 0", [0.0, -1.0], [4.0, 0.25]),
    ("pow(x[i], 3/2)", "x[i] > 0", [0.0, -1.0], [4.0, 0.25]),
    ("pow(x[i], -1/2)", "x[i] > 0", [0.0, -1.0], [4.0, 0.25]),
    ("tan(x[i])", "x[i] < 1", [np.pi / 2, 1.0], [0.5, -0.3]),
    ("exp(x[i])", "x[i] < 1", [1e4, 800.0], [0.5, -0.3]),
    ("log(log(x[i]))", "x[i] > 1", [0.0, 0.5, 1.0, -1.0], [4.0, 1.25]),
    ("x[i]", "x[i] = x[i]", [np.nan], [4.0, 0.25]),
]
"""Values, the conditions under which they are taken, points where the conditions fail and points where they hold."""

FORMS = [
    "gen i:n. [{c}] * {e} + [not {c}] * 2 * z[i]",
    "gen i:n. if not {c} then z[i] else {e}",
    "let y = gen i:n. {e} in gen i:n. if {c} then y[i] * y[i] else 3 * z[i]",
    "gen i:n. sum j:n. [i = j and {c}] * {e} * z[j]",
    "gen j:n. sum i:n. [{c}] * {e} * z[i] * z[j]",
]


JAX = "jax"
"""In the names of promises that are checked by JAX; JAX differentiates all of several equal maxima."""


def ways(f: Any) -> dict[str, Any]:
    """The values and derivatives of `f` of two vectors, each a function of these."""
    h = tl.to_jax(f)
    weighted = lambda x, z: jnp.sum(h(x, z) * jnp.arange(1.0, 1 + len(x)))
    bar = lambda x: np.arange(1.0, 1 + len(x))
    return {
        "value": h,
        "compiled": f,
        "evaluated": lambda x, z: tl.evaluate(f, x, z),
        "evaluated adjoint": lambda x, z: tl.evaluate(tl.adjoint(f), x, z, bar(x)),
        "gradient": jax.grad(weighted, (0, 1)),
        "gradient under jit": jax.jit(jax.grad(weighted, (0, 1))),
        "gradient under vmap": lambda x, z: jax.vmap(jax.grad(weighted, (0, 1)))(x[None], z[None]),
        "jvp": lambda x, z: jax.jvp(h, (x, z), (jnp.ones_like(x), jnp.ones_like(z)))[1],
        "hessian": jax.hessian(weighted, (0, 1)),
        "gradient of the gradient": jax.grad(lambda x, z: jnp.sum(jax.grad(weighted)(x, z) ** 2), (0, 1)),
    }


def all_finite(values: Any) -> bool:
    return all(bool(np.isfinite(np.asarray(leaf)).all()) for leaf in jax.tree.leaves(values))


def no_trace_of_what_is_hidden(kind: int, form: str, names: tuple[str, ...] | None = None) -> None:
    e, c, hidden, taken = HIDDEN[kind]
    f = tl.parse(f"f(x: [n]R, z: [n]R) = {form.format(e=e, c=c)}")
    x = np.array(hidden + taken)
    z = np.linspace(0.5, 1.5, len(x))
    for name, way in ways(f).items():
        if names is None or name in names:
            assert all_finite(way(x, z)), f"{name} of {f}"


@pytest.mark.parametrize("kind", range(len(HIDDEN)), ids=[e for e, *_ in HIDDEN])
def test_the_side_that_is_not_taken_leaves_no_nan(kind: int) -> None:
    no_trace_of_what_is_hidden(kind, FORMS[kind % 2], ("value", "evaluated adjoint", "gradient under jit"))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "form"), list(itertools.product(range(len(HIDDEN)), FORMS)))
def test_the_side_that_is_not_taken_leaves_no_nan_in_any_derivative(kind: int, form: str) -> None:
    no_trace_of_what_is_hidden(kind, form)


def test_what_where_gt_does_not_take_has_no_derivative() -> None:
    for text in ("where_gt(x[i], 0, sqrt(x[i]))", "let s = log(x[i]) in where_ge(x[i], 1, s * s)"):
        f = tl.parse(f"f(x: [n]R) = sum i:n. {text}")
        x = np.array([4.0, -1.0, 0.0])
        assert all_finite(tl.evaluate(tl.grad(f), x)) and all_finite(tl.grad(f)(x))


def test_a_branch_is_one_selection_in_the_code() -> None:
    f = tl.parse("f(x: [n]R) = gen i:n. if x[i] > 0 then x[i] * x[i] else if x[i] < -1 then 3 * x[i] else sin(x[i])")
    source = tl.lower(f).source
    assert "jnp.where(c == 1, x * x, jnp.where(c1 == 1, 3 * x, jnp.sin(x)))" in source


def test_ties_take_the_branch_that_is_taken_and_nan_the_complement() -> None:
    f = tl.parse("f(x: [n]R) = gen i:n. if x[i] > 0 then 3 * x[i] else 5 * x[i]")
    g = tl.parse("f(x: [n]R) = gen i:n. if x[i] >= 0 then 3 * x[i] else 5 * x[i]")
    x = np.array([0.0, np.nan])
    assert np.array_equal(tl.to_jax(f)(x)[:1], [0]) and np.isnan(tl.to_jax(f)(x)[1])
    for h, slopes in ((f, [5, 5]), (g, [3, 5])):
        assert np.allclose(tl.evaluate(tl.adjoint(h), x, np.ones(2)), slopes)
        assert np.allclose(tl.lower(tl.adjoint(h))(x, np.ones(2)), slopes)
    both = tl.parse("f(x: [n]R) = gen i:n. [x[i] > 0] + 2 * [not x[i] > 0]")
    assert np.array_equal(both(x), [2, 2])


def test_a_condition_and_its_negation_add_nothing() -> None:
    f = tl.parse("f(x: [n]R, y: [n]R) = gen i:n. [x[i] > 0] * (2 * y[i]) + [not x[i] > 0] * (3 * y[i])")
    assert str(tl.cost_polynomial(f)) == "2*n"
    assert tl.cost(f, x=np.array([1.0, -1.0, 2.0]), y=np.ones(3)) == 6


@pytest.mark.parametrize(
    "text",
    [
        "f(x: [n]R) = gen i:n. [i > 0 and x[i - 1] > x[i]] * x[i - 1]",
        "f(x: [n]R) = gen i:n. [i = 0 or x[i - 1] > 0] * x[i]",
        "f(x: [n]R, r: rel(n)) = gen i:n. [not r(i)] * x[i] + [r(i)] * 2",
        "f(x: [n]R) = max i:n where x[i] < 5. x[i] * x[i]",
        "f(x: [n]R, y: [m]R) = gen i:n. [exists j:m. y[j] > x[i]] * x[i]",
        "f(x: [n]R, y: [m]R) = sum i:n, j:m where x[i] < y[j]. x[i] * y[j]",
        "f(x: [n]R, y: [m]R) = gen i:n. sum j:m. [x[i] > 0] * x[i] * y[j]",
        "f(x: [n]R) = let c = gen i:n. x[i] >= 0 in sum i:n. [c[i] and i < 3] * sqrt(x[i])",
        "f(x: [n]R) = gen i:n. [0 < x[i] <= 1 and not (i = 3 or x[i] = 0.25)] * x[i]",
        "f(x: [n]R) = gen i:n. [(x[i] + 1) * 2 > 1 and (i < 2 or (x[i] != 0))] * x[i]",
        "f(x: [n]R) = gen i:n. [sum j:n. [x[j] > x[i]] < 2] * x[i]",
        "f(x: [n]R) = gen i:n. let k = argmax j:n where x[j] < x[i] + 1. x[j] in x[k] * x[i]",
        "f(x: [n]R) = gen i:n. [not exists k:n. i = 2*k] * x[i]",
    ],
)
def test_conditions_stand_wherever_predicates_do(text: str) -> None:
    f = tl.parse(text)
    assert str(tl.parse(str(f))) == str(f)
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=5), "y": rng.normal(size=4), "r": rng.random(5) > 0.5}
    given = {p.name: data[p.name] for p in f.params}
    want = tl.evaluate(f, **given)
    assert np.allclose(tl.evaluate(tl.normalize(f), **given), want)
    assert np.allclose(f(**given), want, rtol=1e-5)
    for shown in (str(f), f._repr_latex_(), str(tl.adjoint(f)), str(tl.derive(f))):
        assert shown


def test_conditions_that_look_up_choices_look_where_these_are_stored() -> None:
    f = tl.parse(
        "f(x: [n]R, w: [n]R) = gen t:n. sum j:n. let k = argmax l:n. [j + l < n] * x[j + l] in "
        "let y = [k != t] * (w[j] < 1) in [k != t and y = 0] * w[t]"
    )
    assert tl.certify(f).record  # the program is read back from its text


def test_conditions_in_python() -> None:
    @tl.function
    def f(x: tl.R[n], y: tl.R[m]) -> Any:
        def one(i: Any) -> Any:
            c = x[i] > 0
            r = tl.log(x[i])
            return tl.where(c, r * tl.sqrt(x[i]), 2 * x[i]) + c * r + (~c & (x[i] < -1)) * x[i]

        some = tl.sum(n, lambda i: tl.exists(m, lambda k: y[k] > x[i]) * x[i])
        return tl.gen(n, one), some + tl.max(n, lambda i: x[i], where=lambda i: (i > 0) & (x[i - 1] > x[i]))

    x, y = np.array([0.3, -2.0, -0.5, 0.7, 0.2]), np.array([0.5, 0.6, -1.0])
    first = [np.log(v) * np.sqrt(v) + np.log(v) if v > 0 else 2 * v + (v < -1) * v for v in x]
    second = sum(v for v in x if (y > v).any()) + max(x[1], x[4])
    for values in (tl.evaluate(f, x, y), f(x, y)):
        assert np.allclose(values[0], first, rtol=1e-5)
        assert np.allclose(values[1], second, rtol=1e-5)


def test_numpys_where_is_the_languages() -> None:
    f = tl.function(lambda x: np.where(np.less(x, 1), x, 2 * x), x=tl.R)
    assert str(f) == str(tl.function(lambda x: tl.where(x < 1, x, 2 * x), x=tl.R))


def test_a_comparison_is_no_value() -> None:
    with pytest.raises(tl.TypeMismatch, match="found a comparison") as caught:
        tl.parse("f(x: R, y: R) = x < y")
    assert "if x < y then a else b" in str(caught.value.hint)
    with pytest.raises(tl.TypeMismatch, match="a comparison takes numbers, found an array"):
        tl.function(lambda x: (x > 0) * 1, x=tl.R[n])


def test_a_condition_that_is_asked_twice_is_evaluated_once() -> None:
    f = tl.parse("f(x: [n]R) = gen i:n. [x[i] > 0] * x[i] + [x[i] > 0 and i < 2] * 2")
    assert str(f).count("0 < x[i]") == 1
    g = tl.normalize(f).body
    assert isinstance(g, Let)


@pytest.mark.parametrize("name", [name for name, promise in PROMISES.items() if not promise.on_ssa])
def test_random_programs_with_conditions_keep(name: str) -> None:
    promise = PROMISES[name]
    for seed in range(0, 160, max(promise.share, 4)):
        rng = random.Random(seed)
        case = random_case(
            rng, promise.scalars, promise.fuel, chooses=seed % 8 == 0 and "jax" not in name, compares=True
        )
        try:
            promise.check(case)
        except Exception as error:
            error.add_note(f"seed {seed}, sizes {case.sizes}, program:\n{case.f}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_many_random_programs_with_conditions_keep(name: str, share: int) -> None:
    promise = PROMISES[name]
    for seed in range(1000, 1000 + max(10, 1000 // promise.share // share)):
        rng = random.Random(seed)
        case = random_case(
            rng, promise.scalars, promise.fuel, chooses=seed % 2 == 0 and "jax" not in name, compares=True
        )
        try:
            promise.check(case)
        except Exception as error:
            error.add_note(f"seed {seed}, sizes {case.sizes}, program:\n{case.f}")
            raise


def test_random_programs_do_compare() -> None:
    made = [random_case(random.Random(seed), compares=True).f for seed in range(30)]
    assert sum(any(isinstance(e, Compared) for e in promises.postorder(f.body)) for f in made) > 8


@pytest.mark.filterwarnings("ignore::tensorlang.lowering.kernels.run.InterpretedWarning")
@pytest.mark.parametrize("target", ["pallas-tpu", "pallas-gpu"])
def test_kernels_take_conditions(target: Any) -> None:
    f = tl.parse("f(A: [n][m]R, x: [m]R) = gen i:n. sum j:m. [A[i, j] > 0] * sqrt(A[i, j]) * x[j]")
    rng = np.random.default_rng(0)
    data = {"A": rng.normal(size=(37, 21)), "x": rng.normal(size=21), "f_bar": rng.normal(size=37)}
    for h in (f, tl.adjoint(f)):
        given = {p.name: data[p.name] for p in h.params}
        want = jax.tree.leaves(tl.evaluate(h, **given))
        got = jax.tree.leaves(tl.lower(h, target=target)(**given))
        assert all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(want, got, strict=True))


REPORTED = {
    "jax#347": (
        "f(x: [n][m]R) = sum i:n. let s = sum j:m. x[i, j]^2 in if s > 0.25 then sqrt(s) else 1",
        lambda x: jnp.where(jnp.sum(x**2, 1) > 0.25, jnp.sqrt(jnp.sum(x**2, 1)), 1),
        [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]],
    ),
    "jax#1052": (
        "f(a: [n]R) = sum i:n. if i = 1 then 0 else atan2(a[i], a[i])",
        lambda a: jnp.where(jnp.arange(3) == 1, 0.0, jnp.arctan2(a, a)),
        [3.0, 0.0, -5.0],
    ),
    "jax#5798": (
        "f(x: [n]R) = sum i:n. if x[i] < 1 then x[i] else sqrt(x[i])",
        lambda x: jnp.where(x < 1, x, jnp.sqrt(x)),
        [1e-9, 0.0, 4.0],
    ),
    "jax#1538": (
        "f(x: [n]R) = sum i:n. if x[i] > 0 then x[i] else expm1(x[i])",
        lambda x: jnp.where(x > 0, x, jnp.expm1(x)),
        [1e10, -1.0],
    ),
    "jax#654": (
        "f(x: [n][m]R) = sum i:n, j:n. [i != j] * recip(sqrt(sum k:m. (x[i, k] - x[j, k])^2))",
        lambda x: jnp.where(jnp.eye(3) == 0, 1 / jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, -1)), 0),
        [[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]],
    ),
    "tinygrad#12409": (
        "f(x: [n]R) = sum i:n. if x[i] = 0 then 0 else x[i] * sqrt(x[i])",
        lambda x: jnp.where(x == 0, 0, x * jnp.sqrt(x)),
        [0.0, 4.0],
    ),
}
"""Programs whose gradients users of JAX and tinygrad have reported as nan, and the points where."""


@pytest.mark.parametrize("row", REPORTED)
def test_what_users_report_as_nan_has_the_gradient_of_the_branch_that_is_taken(row: str) -> None:
    text, theirs, at = REPORTED[row]
    f, x = tl.parse(text), np.array(at, np.float32)
    elsewhere = np.asarray(jax.grad(lambda x: jnp.sum(theirs(x)))(x))
    assert np.isnan(elsewhere).any()
    for gradient in (tl.grad(f), jax.jit(jax.grad(tl.to_jax(f)))):
        found = np.asarray(gradient(x))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found[np.isfinite(elsewhere)], elsewhere[np.isfinite(elsewhere)], rtol=1e-5)
    assert np.isfinite(tl.hessian(f)(x)).all()


def test_a_statement_is_restricted_by_a_condition_that_is_restricted_itself() -> None:
    f = tl.parse(
        "f(y: [n]R, z: [n]R, k: [n]idx(n), q: [n]idx(n)) = let v = gen i:n. [k[i] = q[i]] * (0.5 + y[i]) in "
        "gen i:n. max j:n. [j / 3 < z[j]] * v[j]"
    )
    adjoint = tl.adjoint(f, "y")
    given = {"y": np.array([1.0, 3.0, 2.0, 4.0]), "z": np.array([1.0, 1.0, 0.0, 2.0])}
    given |= {"k": np.array([0, 1, 2, 3]), "q": np.array([0, 1, 2, 0]), "f_bar": np.ones(4)}
    np.testing.assert_array_equal(tl.evaluate(adjoint, **given), [0, 4, 0, 0])
    np.testing.assert_array_equal(tl.lower(adjoint)(**given), [0, 4, 0, 0])


WHOLE = {
    "arrays": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then x else y",
    "computed arrays": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then (gen i:n. x[i] * y[i]) else (gen i:n. if x[i] < c "
    "then sin(x[i]) else c)",
    "matrices": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then (gen i:n, j:n. x[i] * y[j]) else gen i:n, j:n. x[j]",
    "pairs": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then (x, c) else (y, c * c)",
    "pairs of pairs": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then (x, (c, y)) else (y, (sum i:n. x[i], x))",
    "arrays of pairs": "f(x: [n]R, y: [n]R, c: R) = gen i:n. if x[i] > y[i] then (x[i], c) else (c * y[i], y[i])",
    "recurrences": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then (scan t:n with s = c. sin(s * x[t])) else y",
    "states": "f(x: [n]R, y: [n]R, c: R) = fold t:n with s = x. if y[t] > 0 then (gen i:n. sin(s[i]) * y[t]) else s",
    "several states": "f(x: [n]R, y: [n]R, c: R) = fold t:n with a = c, b = x. "
    "if y[t] > 0 then (sin(a), gen i:n. a * b[i]) else (a, b)",
    "one in another": "f(x: [n]R, y: [n]R, c: R) = if c > 0 then (if c > 1 then x else y) else gen i:n. 2 * x[i]",
    "sides that exist where they are taken": "f(x: [n]R, y: [n]R, c: R) = if n > 0 then (gen i:n. x[0] * c) else y",
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("c", [-0.5, 0.5, 1.5])
def test_arrays_and_pairs_are_chosen_part_by_part(name: str, c: float) -> None:
    f = tl.parse(WHOLE[name])
    assert str(tl.parse(str(f))) == str(f)
    adjoint, rng = tl.adjoint(f), np.random.default_rng(0)
    with jax.enable_x64(True):
        for n in (0, 1, 5):
            given = {"x": rng.normal(size=n), "y": rng.normal(size=n), "c": c}
            value = tl.evaluate(f, **given)
            bar = jax.tree.map(lambda x: rng.normal(size=np.shape(x)), value)
            way = jax.tree.map(lambda x: rng.normal(size=np.shape(x)), given)
            found = tl.lower(adjoint)(**given, f_bar=bar)

            def along(h: float, given: Any = given, way: Any = way, bar: Any = bar) -> float:
                at = jax.tree.map(lambda a, b: a + h * b, given, way)
                return sum(
                    np.sum(a * b) for a, b in zip(*map(jax.tree.leaves, (tl.evaluate(f, **at), bar)), strict=True)
                )

            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), tl.lower(f)(**given), value)
            slope = sum(np.sum(a * way[x]) for a, x in zip(found, "xyc", strict=True))
            np.testing.assert_allclose(slope, (along(1e-6) - along(-1e-6)) / 2e-6, rtol=1e-6, atol=1e-8)


def test_both_sides_of_a_choice_have_one_type() -> None:
    with pytest.raises(tl.TypeMismatch, match=r"both sides of `if` have one type, found \[n\]R and R") as caught:
        tl.parse("f(x: [n]R, c: R) = if c > 0 then x else 0")
    assert caught.value.hint == "the number everywhere: gen i:n. 0"
    with pytest.raises(tl.TypeMismatch, match=r"both sides of tl.where have one type") as caught:
        tl.function(lambda x: tl.where(x[0] > 0, x, 0), x=tl.R[3])
    assert caught.value.hint == "the number everywhere: tl.gen(3, lambda i: 0)"
    f = tl.function(lambda x: tl.where(x[0] > 0, (x, x[1]), (tl.gen(3, lambda i: -x[i]), 2)), x=tl.R[3])
    np.testing.assert_array_equal(tl.evaluate(f, [-1, 2, 3])[0], [1, -2, -3])


def test_a_step_that_keeps_its_states_at_one_time_goes_on_at_the_next() -> None:
    """A compiled loop may end only where a condition on the states alone keeps them."""
    f = tl.parse("f(x: [n]R, m: [n]R) = fold t:n with s = 1. if m[t] > 0 then s * x[t] else s")
    x, m = np.array([2.0, 3, 5, 7]), np.array([1.0, 0, 0, 1])
    assert tl.evaluate(f, x, m) == tl.lower(f)(x, m) == 14
    assert "while_loop" not in tl.lower(f).source
    until = tl.parse("f(x: [n]R, m: [n]R) = fold t:n with s = 1. if s < 9 then s * x[t] else s")
    assert "while_loop" in tl.lower(until).source
    assert tl.evaluate(until, x, m) == tl.lower(until)(x, m) == 30
