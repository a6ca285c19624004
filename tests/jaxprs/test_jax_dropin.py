"""`tl.jax`: the values and gradients of JAX, for any JAX function, inside and around JAX's transformations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import tensorlang as tl
from tensorlang.jaxprs.rewrite import rewritten
from tensorlang.measure.count import count
from tests.support.jax_programs import made, random_jax
from tests.support.sampling import one_in

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def scaled(x: Any, a: Any) -> Any:
    return jnp.sum((jnp.diag(x) @ a) ** 2)


X, A = normal(40), normal(40, 40)


def same(got: Any, want: Any, rtol: float = 1e-4) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * max(1.0, float(np.max(np.abs(w), initial=0))))


# -- the interface of JAX


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
def test_argnums_are_those_of_jax(argnums: Any) -> None:
    same(tl.jax.grad(scaled, argnums)(X, A), jax.grad(scaled, argnums)(X, A))
    same(tl.jax.value_and_grad(scaled, argnums)(X, A), jax.value_and_grad(scaled, argnums)(X, A))


def test_arguments_are_pytrees_and_keywords_and_auxiliary_results_are_passed() -> None:
    def f(p: Any, power: int, *, by: Any) -> Any:
        y = jnp.diag(p["x"]) @ p["more"][0] * by
        return jnp.sum(y**power), {"y": y, "name": jnp.int32(3)}

    p = {"x": X, "more": [A]}
    same(tl.jax.grad(f, has_aux=True)(p, 2, by=2.0), jax.grad(f, has_aux=True)(p, 2, by=2.0))
    same(tl.jax.value_and_grad(f, has_aux=True)(p, 2, by=X), jax.value_and_grad(f, has_aux=True)(p, 2, by=X))


@pytest.mark.slow
def test_vjp_jacobian_and_hessian_are_those_of_jax() -> None:
    def f(x: Any) -> Any:
        return (jnp.diag(x) @ A[:12, :12]).sum(0) ** 2

    x = X[:12]
    y, pull = tl.jax.vjp(f, x)
    z, other = jax.vjp(f, x)
    same((y, pull(y)), (z, other(z)))
    same(tl.jax.jacobian(f)(x), jax.jacobian(f)(x))
    same(tl.jax.hessian(lambda x: f(x).sum())(x), jax.hessian(lambda x: f(x).sum())(x))


def test_what_is_not_differentiated_may_be_anything() -> None:
    def f(x: Any, mask: Any, how: str) -> Any:
        return jnp.sum(x[mask] ** 2) if how == "masked" else jnp.sum(x)

    mask = jnp.arange(40) < 7
    same(tl.jax.grad(f)(X, mask, "masked"), jax.grad(f)(X, mask, "masked"))


def test_errors_are_those_of_jax() -> None:
    with pytest.raises(TypeError, match="scalar"):
        tl.jax.grad(lambda x: x * 2)(X)
    with pytest.raises(TypeError):
        tl.jax.grad(lambda x: x**2)(3)


# -- inside and around transformations

WAYS = {
    "jit around": lambda f, g: jax.jit(g(f))(X, A),
    "jit inside": lambda f, g: g(jax.jit(f))(X, A),
    "vmap around": lambda f, g: jax.vmap(g(f), (0, None))(jnp.stack([X, 2 * X, X + 1]), A),
    "vmap inside": lambda f, g: g(lambda x, a: jax.vmap(f, (0, None))(x * jnp.ones((3, 1)), a).sum())(X, A),
    "grad around": lambda f, g: jax.grad(lambda x: jnp.sum(g(f)(x, A) ** 2))(X),
    "grad of itself": lambda f, g: g(lambda x: jnp.sum(g(f)(x, A) ** 2))(X),
    "jvp around": lambda f, g: jax.jvp(lambda x: g(f)(x, A), (X,), (2 * X,)),
    "checkpoint around": lambda f, g: jax.grad(jax.checkpoint(lambda x: jnp.sum(g(f)(x, A))))(X),
    "checkpoint inside": lambda f, g: g(jax.checkpoint(f))(X, A),
    "in a scan": lambda f, g: jax.lax.scan(lambda c, a: (c - 0.001 * g(f)(c, a), f(c, a)), X, jnp.stack([A, A]) / 9),
    "a scan in it": lambda f, g: g(
        lambda x, a: jnp.sum(jax.lax.scan(lambda c, r: (jnp.tanh(jnp.diag(c) @ r).sum(1), f(c, r)), x, a)[0])
    )(X, jnp.ones((100, 40, 40)) / 50),
    "a branch in it": lambda f, g: g(lambda x, a: jax.lax.cond(x[0] > 0, f, lambda x, a: f(a[0], a), x, a))(X, A),
    "a while loop in it": lambda f, g: jax.jvp(
        lambda x: g(lambda y, a: f(jax.lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x) * y, a))(X, A), (X,), (X,)
    ),
    "a closure": lambda f, g: jax.grad(lambda x: jnp.sum(g(lambda a: f(x, a))(A)))(X),
}


QUICK = {"jit around", "vmap around", "grad around", "in a scan"}


@pytest.mark.parametrize("way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
def test_it_works(way: str) -> None:
    derived = WAYS[way](scaled, tl.jax.grad)
    same(derived, WAYS[way](scaled, jax.grad), rtol=1e-3)


def test_a_decorated_function_is_the_function_with_derived_derivatives() -> None:
    f = tl.jax.differentiable(scaled)
    assert f.__name__ == "scaled"
    same(f(X, A), scaled(X, A))
    same(jax.jit(jax.grad(f))(X, A), jax.grad(scaled)(X, A))
    jaxpr = str(jax.make_jaxpr(jax.grad(tl.jax.differentiable(strict=True)(scaled)))(X, A))
    assert "dot_general" not in jaxpr


def test_a_function_may_change_what_it_closes_over() -> None:
    factor = [1.0]

    def f(x: Any, a: Any) -> Any:
        return factor[0] * scaled(x, a)

    g = tl.jax.grad(f)
    first = g(X, A)
    factor[0] = 3.0
    same(g(X, A), 3 * first)


# -- what stays JAX


def test_the_rule_of_a_custom_vjp_is_kept() -> None:
    @jax.custom_vjp
    def odd(x: Any) -> Any:
        return x**2

    odd.defvjp(lambda x: (odd(x), x), lambda x, t: (100 * t,))

    def f(x: Any, a: Any) -> Any:
        return scaled(odd(x), a)

    same(tl.jax.grad(f)(X, A), jax.grad(f)(X, A))


def test_the_rule_of_a_custom_jvp_is_kept() -> None:
    @jax.custom_jvp
    def odd(x: Any) -> Any:
        return x**2

    odd.defjvp(lambda x, t: (odd(*x), 100 * t[0]))

    def f(x: Any, a: Any) -> Any:
        return scaled(odd(x), a)

    same(tl.jax.grad(f)(X, A), jax.grad(f)(X, A))


def test_the_rule_of_a_custom_vjp_is_kept_in_bodies_that_are_rewritten() -> None:
    @jax.custom_vjp
    def odd(x: Any) -> Any:
        return x**2

    odd.defvjp(lambda x: (odd(x), x), lambda x, t: (100 * t * x,))

    def f(x: Any, a: Any) -> Any:
        def step(c: Any, r: Any) -> Any:
            return jnp.tanh(jnp.sum(jnp.diag(odd(c) / 9) @ r, 1)), scaled(c, r)

        return jnp.sum(jax.lax.scan(step, x, a)[1])

    a = normal(3, 40, 40)
    assert tl.jax.explain(f, X, a).programs
    same(tl.jax.grad(f, (0, 1))(X, a), jax.grad(f, (0, 1))(X, a), rtol=1e-3)


def test_bodies_of_while_loops_are_derived_for_forward_mode() -> None:
    def f(x: Any, a: Any) -> Any:
        def step(c: Any) -> Any:
            return c[0] + 1, jnp.tanh(jnp.sum(jnp.diag(c[1]) @ a, 1))

        return jax.lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1]

    g = tl.jax.differentiable(f)
    same(jax.jvp(g, (X, A), (2 * X, A)), jax.jvp(f, (X, A), (2 * X, A)))
    theirs, ours = (count(jax.jacfwd(h), X, A).operations for h in (f, g))
    assert 10 * ours < theirs


def test_bodies_that_are_not_differentiated_stay_as_they_are() -> None:
    def f(x: Any, a: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return (jnp.tanh(jnp.sum(jnp.diag(c[0]) @ a, 1)), 1 - c[1]), None  # not a counter: the loop stays

        return jnp.sum(x * jax.lax.scan(step, (a[0], 0), length=200)[0][0])

    assert tl.jax.explain(f, X, A, argnums=1).programs
    told = tl.jax.explain(f, X, A, argnums=0)
    assert not told.programs
    same(tl.jax.grad(f)(X, A), jax.grad(f)(X, A))


def test_rules_of_functions_that_look_the_same_are_told_apart() -> None:
    def made(factor: float) -> Any:
        @jax.custom_vjp
        def odd(x: Any) -> Any:
            return x**2

        odd.defvjp(lambda x: (odd(x), x), lambda x, t: (factor * t,))
        return lambda x, a: scaled(odd(x), a)

    for factor in (2.0, 5.0):
        same(tl.jax.grad(made(factor))(X, A), jax.grad(made(factor))(X, A))


def test_what_has_no_rule_stays_jax_between_regions() -> None:
    def f(x: Any, a: Any) -> Any:
        b = jnp.diag(x) @ a
        spectrum = jnp.abs(jnp.fft.rfft(jnp.sum(b, 1)))[:8]
        return jnp.sum((jnp.diag(x) @ b) ** 2) + jnp.sum(spectrum)

    same(tl.jax.grad(f, (0, 1))(X, A), jax.grad(f, (0, 1))(X, A))
    told = str(tl.jax.explain(f, X, A))
    assert "fft" in told and "derived" in told


@pytest.mark.slow
def test_structure_is_seen_by_what_reads_it_behind_what_stays_jax() -> None:
    def f(x: Any, a: Any) -> Any:
        d = jnp.diag(x)
        return jnp.sum((d @ jnp.linalg.cholesky(a, symmetrize_input=False)) ** 2)

    a = A @ A.T + 40 * jnp.eye(40)
    same(tl.jax.grad(f, (0, 1))(X, a), jax.grad(f, (0, 1))(X, a))
    (program,) = tl.jax.explain(f, X, a).programs
    assert tl.cost(tl.adjoint(program)) < 20 * 40**2


def test_regions_that_do_not_pay_stay_jax() -> None:
    def mlp(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2)

    told = tl.jax.explain(mlp, A, A)
    assert not told.programs
    assert "as cheap" in str(told)
    jaxpr = str(jax.make_jaxpr(tl.jax.grad(mlp))(A, A))
    assert jaxpr.count("dot_general") == str(jax.make_jaxpr(jax.grad(mlp))(A, A)).count("dot_general")


def test_numbers_of_half_precision_stay_jax() -> None:
    x, a = X.astype(jnp.bfloat16), A.astype(jnp.bfloat16)
    same(tl.jax.grad(scaled)(x, a), jax.grad(scaled)(x, a))
    assert not tl.jax.explain(scaled, x, a).programs


def test_strict_refuses_what_stays_jax_and_what_is_assumed() -> None:
    with pytest.raises(tl.ImportRefused, match="cholesky"):
        tl.jax.grad(lambda a: jnp.sum(jnp.linalg.cholesky(a)), strict=True)(A @ A.T)
    with pytest.raises(tl.ImportRefused, match="only if"):
        tl.jax.grad(jax.nn.logsumexp, strict=True)(X)


def test_checks_find_places_that_are_out_of_range() -> None:
    def f(x: Any, i: Any) -> Any:
        return jnp.sum(jnp.diag(x) @ A @ jnp.diag(x[i]))

    g = checkify.checkify(jax.jit(tl.jax.grad(f, check=True)), errors=checkify.user_checks)
    error, _ = g(X, jnp.arange(40))
    error.throw()
    error, _ = g(X, jnp.arange(40) + 1)
    with pytest.raises(Exception, match="places that lie in it"):
        error.throw()


# -- semantics


@pytest.mark.slow
def test_equal_numbers_share_the_cotangent_as_in_jax() -> None:
    x = jnp.array([1.0, 3.0, 3.0, -2.0, 0.0, 0.0])
    for f in (
        lambda x: jnp.max(x) * 3,
        lambda x: jnp.sum(jnp.maximum(x, 0)),
        lambda x: jnp.sum(jnp.minimum(x, 3) * x),
        lambda x: jnp.sum(jnp.clip(x, 0, 3)),
        lambda x: jnp.sum(jnp.abs(x)),
        lambda x: jnp.sum(jax.nn.relu(x)),
        lambda x: jnp.sum(jax.nn.relu6(2 * x)),
        lambda x: jax.nn.logsumexp(x) + jnp.sum(jax.nn.softmax(x) ** 2),
        lambda x: jnp.min(x**2),
    ):
        same(jax.value_and_grad(rewritten(f, gain=None))(x), jax.value_and_grad(f)(x))


@pytest.mark.parametrize("mode", ["clip", "drop", None])
def test_indices_out_of_range_are_treated_as_in_jax(mode: Any) -> None:
    i = jnp.array([0, 5, -1, -9, 3, 3])

    def f(x: Any) -> Any:
        y = x.at[i].add(x[1], mode=mode)
        return jnp.sum(y**2) + jnp.sum(jnp.take(x, i, mode="clip") ** 2) + jnp.sum(x.at[9].set(2.0))

    x = normal(4)
    same(jax.value_and_grad(rewritten(f, gain=None))(x), jax.value_and_grad(f)(x))


def test_untaken_sides_make_no_nan() -> None:
    i = jnp.arange(5)

    def f(x: Any) -> Any:
        return jnp.sum(jnp.where(i > 0, jnp.sqrt(x), 0.0))

    x = jnp.array([0.0, 1.0, 4.0, 9.0, 16.0])
    assert np.isnan(jax.grad(f)(x)[0])
    np.testing.assert_allclose(jax.grad(rewritten(f, gain=None))(x), [0, 1 / 2, 1 / 4, 1 / 6, 1 / 8], rtol=1e-5)


def test_sides_that_conditions_on_numbers_rule_out_make_no_nan() -> None:
    def f(x: Any, a: Any) -> Any:
        y = jnp.where(x > 0, jnp.sqrt(x), 2 * x) + jnp.where(x == 0, 1.0, jnp.sin(x) / x)
        return jnp.sum((jnp.diag(y) @ a) ** 2)

    x = X.at[:3].set(jnp.array([-1.0, 0.0, 4.0]))
    ours, theirs = tl.jax.grad(f)(x, A), jax.grad(f)(x, A)
    assert np.isnan(theirs[1]) and np.isfinite(ours).all()
    same(ours[x > 0], theirs[x > 0])
    assert ours[1] == pytest.approx(float(4 * jnp.sum(A[1] ** 2)), rel=1e-4)


def test_branches_whose_derivative_is_bounded_stay_functions() -> None:
    program = tl.from_jax(lambda x: jnp.sum(jnp.where(x > 0, x, 0.1 * x) * jax.nn.relu(x)), "n").function
    assert "where_gt" in str(tl.adjoint(program)) and "let c" not in str(tl.adjoint(program))


# -- random programs


def agrees(seed: int) -> None:
    source, arguments = random_jax(seed)
    f = made(source)
    want = jax.value_and_grad(f, (0, 1))(*arguments)
    if all(np.isfinite(w).all() for w in jax.tree.leaves(want)):
        got = jax.value_and_grad(rewritten(f, gain=None), (0, 1))(*arguments)
        try:
            same(got, want, rtol=2e-3)
        except AssertionError as error:
            error.add_note(f"seed {seed}:\n{source}")
            raise


@pytest.mark.parametrize("seed", range(2))
def test_a_few_random_functions_have_the_gradients_of_jax(seed: int) -> None:
    agrees(seed)


@pytest.mark.slow
@pytest.mark.seeds(100, 70)
def test_random_functions_have_the_gradients_of_jax(seed: int) -> None:
    agrees(seed)


def test_an_explanation_is_shown_as_a_table_in_notebooks() -> None:
    def f(x: Any, a: Any) -> Any:
        return scaled(x, a) + jnp.sum(jnp.linalg.cholesky(a @ a.T + jnp.eye(40)))

    told = tl.jax.explain(f, X, A)
    page = told._repr_html_()
    assert page.count("<tr>") == 1 + len(told.rows)
    assert "cholesky: there is no rule for it" in page
    assert "times" in str(told)


def test_with_sizes_that_have_names_an_explanation_says_what_grows() -> None:
    def dense(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w))

    told = str(tl.jax.explain(scaled, "n", "n n"))
    assert "times at 192" in told and "at 48: it grows with the sizes" in told
    assert "grows" not in str(tl.jax.explain(dense, "n n", "m n"))
    assert "at 48" not in str(tl.jax.explain(scaled, X, A))


# -- functions that JAX derives by some of their arguments only


def multiplied_at(places: Any, grown: Any) -> Any:
    """A function of x and y that multiplies by y at `places`. JAX derives it by x, and by y only where the places are
    distinct."""

    def f(x: Any, y: Any) -> Any:
        return grown(x).at[places].multiply(y)

    return f


def windowed(x: Any) -> Any:
    i = jnp.arange(len(x))
    near = jnp.abs(i[:, None] - i[None, :]) <= 1
    return jnp.sum(jnp.where(near, jnp.sin(x[:, None] * x[None, :]), 0.0), 1)


def doubled(x: Any) -> Any:
    return jnp.sum(jnp.outer(x, x), 1) * 2


PLACES = {"repeated": jnp.arange(40) // 2, "distinct": jnp.arange(40)[::-1], "one": jnp.zeros(1, int)}


@pytest.mark.parametrize("grown", [windowed, doubled])
@pytest.mark.parametrize("places", one_in(3, PLACES))
def test_only_those_arguments_are_derived_whose_tangents_are_asked_for(grown: Any, places: str) -> None:
    f = multiplied_at(PLACES[places], grown)
    ours = tl.jax.differentiable(f)
    x, y = X, normal(len(PLACES[places]))
    xs = jnp.stack([x, 2 * x])

    def by_x(f: Any) -> Any:
        return lambda x: f(x, y)

    def along(f: Any) -> Any:
        return lambda x: jax.jvp(by_x(f), (x,), (x,))

    same(ours(x, y), f(x, y))
    same(along(ours)(x), along(f)(x))
    same(jax.vjp(by_x(ours), x)[1](x), jax.vjp(by_x(f), x)[1](x))
    same(jax.jit(along(ours))(x), along(f)(x))
    same(jax.jvp(jax.jit(by_x(ours)), (x,), (x,)), along(f)(x))
    same(jax.vmap(along(ours))(xs), jax.vmap(along(f))(xs))
    same(jax.jvp(jax.vmap(by_x(ours)), (xs,), (xs,)), jax.jvp(jax.vmap(by_x(f)), (xs,), (xs,)))
    same(jax.grad(lambda x: jnp.sum(ours(x, y)))(x), jax.grad(lambda x: jnp.sum(f(x, y)))(x))


@pytest.mark.parametrize("grown", [windowed, doubled])
def test_what_jax_cannot_derive_fails_with_its_own_error(grown: Any) -> None:
    x, y = X, normal(40)
    f = tl.jax.differentiable(multiplied_at(PLACES["repeated"], grown))
    for attempt in (
        lambda: jax.jvp(lambda y: f(x, y), (y,), (y,)),
        lambda: jax.jvp(f, (x, y), (x, y)),
        lambda: jax.vjp(f, x, y),
        jax.jit(lambda: jax.jvp(f, (x, y), (x, y))),
        lambda: jax.grad(lambda x, y: jnp.sum(f(x, y)), (0, 1))(x, y),
    ):
        with pytest.raises(NotImplementedError, match="unique_indices"):
            attempt()


def test_what_jax_cannot_derive_by_any_argument_has_its_value() -> None:
    @jax.custom_jvp
    def own(x: Any) -> Any:
        return x * 2

    @own.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise RuntimeError("it has no derivative")

    def f(x: Any) -> Any:
        return jnp.sum(jnp.outer(own(x), x), 1).at[jnp.arange(40)].multiply(x)

    same(tl.jax.differentiable(f)(X), f(X))
    with pytest.raises((RuntimeError, NotImplementedError)):
        tl.jax.grad(lambda x: jnp.sum(f(x)))(X)
