"""Programs inside JAX programs: every transformation against the natural jnp program, and their operations, counted."""

from __future__ import annotations

import inspect
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.experimental import checkify

import tensorlang as tl
from tensorlang.measure.count import count
from tensorlang.transforms import linear
from tests.support import ROOT
from tests.support.documents import blocks
from tests.support.programs import random_arguments, random_function, random_sizes
from tests.support.sampling import one_in

README = ROOT / "README.md"
Array = jax.Array
Use = Callable[[Callable[..., Any]], Any]

CELL = tl.parse("cell(x: [n]R, w: [n][n]R, b: [n]R) = gen i:n. sin((sum j:n. w[i, j] * x[j]) + b[i])")
LOSS = tl.parse("""
loss(x: [n + m - 1]R, w: [m]R, z: [n]R) =
  let y = gen i:n. sum j:m. x[i + j] * w[j] in
  sum k:n. exp(y[k] - z[k])
""")


def natural_cell(x: Array, w: Array, b: Array) -> Array:
    return jnp.sin(w @ x + b)


def natural_loss(x: Array, w: Array, z: Array) -> Array:
    return jnp.sum(jnp.exp(jnp.convolve(x, w[::-1], "valid") - z))


def normal(*shape: int, seed: int = 0) -> Array:
    return jnp.asarray(np.random.default_rng(seed + 100 * len(shape)).normal(size=shape) * 0.5, jnp.float32)


X, W, B = normal(5), normal(5, 5), normal(5, seed=1)
SX, SW, SZ = normal(12), normal(3), normal(10, seed=1)


def assert_alike(got: Any, want: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def scanned(h: Callable[..., Array], step: Callable[..., Any] = lambda f: f) -> Callable[..., Array]:
    def total(x: Array, w: Array, b: Array) -> Array:
        last, sums = lax.scan(step(lambda c, each: (h(c, w, each), c.sum())), x, jnp.stack([b, 2 * b, -b]))
        return last.sum() + (sums**2).sum()

    return total


def either(h: Callable[..., Array]) -> Callable[..., Array]:
    def total(x: Array, w: Array, b: Array) -> Array:
        return lax.cond(x[0] > 0, lambda: h(x, w, b).sum(), (h(b, w, x) ** 2).sum)

    return total


def squares(h: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: (h(*args) ** 2).sum()


def repeated(h: Callable[..., Array]) -> Callable[[Array], Array]:
    return lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (h(c[0], W, B), c[1] + 1), (x, 0))[0]


ALL = (0, 1, 2)
TWO_X, TWO_W, TWO_B = jnp.stack([X, -X]), jnp.stack([W, W.T], 2), jnp.stack([B, 3 * B])

CELL_USES: dict[str, Use] = {
    "by name": lambda h: h(b=B, x=X, w=W),
    "vjp": lambda h: jax.vjp(h, X, W, B)[1](X),
    "jvp of one": lambda h: jax.jvp(lambda w: h(X, w, B), (W,), (W.T,)),
    "linearize": lambda h: jax.linearize(h, X, W, B)[1](B, W.T, X),
    "jacfwd": lambda h: jax.jacfwd(h, ALL)(X, W, B),
    "jacrev": lambda h: jax.jacrev(h, ALL)(X, W, B),
    "vmap": lambda h: jax.vmap(h, (1, None, None), 1)(TWO_X.T, W, B),
    "vmap of vmap": lambda h: jax.vmap(jax.vmap(h, (0, None, None)), (None, 2, 0))(TWO_X, TWO_W, TWO_B),
    "grad of vmap of vmap": lambda h: jax.grad(
        lambda w: (jax.vmap(jax.vmap(h, (0, None, None)), (None, 2, 0))(TWO_X, w, TWO_B) ** 3).sum()
    )(TWO_W),
    "vmap of vjp": lambda h: jax.vmap(jax.vjp(h, X, W, B)[1])(jnp.eye(5)),
    "grad of vmap of grad": lambda h: jax.grad(
        lambda w: jax.vmap(jax.grad(squares(lambda x: h(x, w, B))))(TWO_X).sum()
    )(W),
    "stop_gradient": lambda h: jax.grad(lambda x: (h(lax.stop_gradient(x), W, B) * x).sum())(X),
    "grad of scan": lambda h: jax.jit(jax.grad(scanned(h), ALL))(X, W, B),
    "grad of scan of checkpoint": lambda h: jax.jit(jax.grad(scanned(h, jax.checkpoint), ALL))(X, W, B),
    "hessian of scan": lambda h: jax.hessian(scanned(h), 0)(X, W, B),
    "vmap of grad of scan": lambda h: jax.vmap(jax.grad(scanned(h), (0, 1)), (0, None, 0))(TWO_X, W, TWO_B),
    "grad of cond": lambda h: jax.grad(either(h), ALL)(X, W, B),
    "jvp of while": lambda h: jax.jvp(repeated(h), (X,), (B,)),
    "grad of fori": lambda h: jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: h(c, W, B) * (i + 1), x).sum())(X),
    "grad in a tree": lambda h: jax.grad(lambda p: h(p["x"], *p["wb"]).sum())({"x": X, "wb": (W, B)}),
    "integers for reals": lambda h: jax.grad(lambda w: h(jnp.arange(5), w, B).sum())(W),
    "ahead of time": lambda h: jax.jit(jax.grad(squares(h))).lower(X, W, B).compile()(X, W, B),
    "donation": lambda h: jax.jit(lambda x, w, b: h(x, w, b) + x, donate_argnums=0)(X + 0, W, B),
    "an empty batch": lambda h: jax.vmap(jax.grad(squares(h)), (0, None, None))(jnp.zeros((0, 5)), W, B),
}
LOSS_USES: dict[str, Use] = {
    "value_and_grad": lambda h: jax.jit(jax.value_and_grad(h, ALL))(SX, SW, SZ),
    "hessian": lambda h: jax.jit(jax.hessian(h, (0, 1)))(SX, SW, SZ),
    "hvp, forward over reverse": lambda h: jax.jvp(lambda w: jax.grad(h, 1)(SX, w, SZ), (SW,), (SW[::-1],)),
    "hvp, reverse over reverse": lambda h: jax.grad(lambda w: jax.grad(h, 1)(SX, w, SZ) @ SW[::-1])(SW),
    "hvp, reverse over forward": lambda h: jax.grad(lambda w: jax.jvp(lambda w: h(SX, w, SZ), (w,), (SW[::-1],))[1])(
        SW
    ),
    "third order": lambda h: jax.jacfwd(jax.jacrev(jax.grad(h, 1), 1), 1)(SX, SW, SZ),
    "per-example gradients": lambda h: jax.vmap(jax.grad(h, (0, 1)), (0, None, 1))(
        jnp.stack([SX, -SX]), SW, jnp.stack([SZ, SZ / 2], 1)
    ),
}


@pytest.fixture(scope="module")
def cell() -> Callable[..., Array]:
    return tl.to_jax(CELL)


@pytest.fixture(scope="module")
def loss() -> Callable[..., Array]:
    return tl.to_jax(LOSS)


@pytest.mark.parametrize("use", one_in(2, CELL_USES))
def test_transformations_give_what_they_give_for_the_natural_program(use: str, cell: Callable[..., Array]) -> None:
    assert_alike(CELL_USES[use](cell), CELL_USES[use](natural_cell))


@pytest.mark.parametrize("use", one_in(2, LOSS_USES))
def test_derivatives_of_derivatives_are_right(use: str, loss: Callable[..., Array]) -> None:
    assert_alike(LOSS_USES[use](loss), LOSS_USES[use](natural_loss))


@pytest.mark.parametrize("seed", (2, 3))
def test_random_programs_are_mapped_and_differentiated_alike_in_every_order(seed: int) -> None:
    rng = random.Random(seed)
    f = random_function(rng, scalars="smooth", fuel=9)
    sizes = random_sizes(f, rng)
    real = {x.name for x in f.variables}
    both = [random_arguments(f, rng, sizes, exact=False) for _ in range(2)]
    rows = [{k: jax.tree.map(np.asarray, v) for k, v in each.items()} for each in both]
    stacked = jax.tree.map(lambda *each: np.stack(each), *rows)
    h = tl.to_jax(f)

    def total(given: dict[str, Any], data: dict[str, Any]) -> Array:
        return sum((jnp.sin(y).sum() for y in jax.tree.leaves(h(**given, **data, **sizes))), jnp.zeros(()))

    def parted(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return {k: values[k] for k in real}, {k: values[k] for k in values if k not in real}

    with jax.enable_x64(True):
        for row in rows:
            assert_alike(
                h(**row, **sizes), jax.tree.map(lambda v: np.asarray(v, float), tl.evaluate(f, **row, **sizes))
            )
        want = [jax.grad(total)(*parted(row)) for row in rows]
        one_by_one = jax.tree.map(lambda *each: jnp.stack(each), *want)
        given, data = parted(stacked)
        assert_alike(jax.vmap(jax.grad(total))(given, data), one_by_one)
        assert_alike(jax.grad(lambda given: jax.vmap(total)(given, data).sum())(given), one_by_one)
        way = jax.tree.map(jnp.cos, given)
        pushed = jax.jvp(lambda given: jax.vmap(total)(given, data).sum(), (given,), (way,))[1]
        dots = jax.tree.map(jnp.vdot, one_by_one, way)
        assert_alike(pushed, sum(jax.tree.leaves(dots), jnp.zeros(())))


@pytest.mark.slow
def test_pairs_come_and_go_as_tuples() -> None:
    f = tl.parse(
        "f(p: (R, [n](R, [m]R)), q: R) = (fst(p) * q, gen i:n. (fst(snd(p)[i]), sum j:m. snd(snd(p)[i])[j]^2))"
    )
    p = (jnp.float32(2), (normal(3), normal(3, 4)))
    natural = lambda p, q: (p[0] * q, (p[1][0], (p[1][1] ** 2).sum(1)))
    for transform in (lambda h: h, lambda h: jax.jacrev(h, ALL[:2]), jax.jacfwd):
        assert_alike(transform(tl.to_jax(f))(p, 3.0), transform(natural)(p, 3.0))


@pytest.mark.slow
def test_index_arrays_and_relations_are_mapped_but_not_differentiated() -> None:
    pick = tl.parse(
        "pick(x: [n][m]R, y: [n]idx(m), r: rel(n, m)) = sum i:n. x[i, y[i]]^2 + sum j:m. [r(i, j)] * sin(x[i, j])"
    )

    def natural(x: Array, y: Array, r: Array) -> Array:
        return (x[jnp.arange(len(y)), y] ** 2).sum() + jnp.where(r, jnp.sin(x), 0).sum()

    h = tl.to_jax(pick)
    x, y, r = normal(4, 3), jnp.asarray([2, 0, 2, 1]), normal(4, 3, seed=2) > 0
    many = (jnp.stack([y, y[::-1]]), jnp.stack([r, ~r]))
    assert_alike(*(jax.vmap(jax.value_and_grad(g), (None, 0, 0))(x, *many) for g in (h, natural)))
    assert_alike(*(jax.grad(lambda x, g=g: jax.vmap(g, (None, 0, 0))(x, *many).sum())(x) for g in (h, natural)))
    assert jax.grad(h, (0, 1), allow_int=True)(x, y, r)[1].dtype == jax.dtypes.float0


def test_choices_are_made_again_for_each_of_a_batch() -> None:
    h = tl.to_jax(tl.parse("pool(x: [n + 2]R) = sum i:n. max j:3. x[i + j]^2"))
    natural = lambda x: (jnp.stack([x[:-2], x[1:-1], x[2:]]) ** 2).max(0).sum()
    x = normal(3, 9)
    assert_alike(jax.vmap(jax.value_and_grad(h))(x), jax.vmap(jax.value_and_grad(natural))(x))


def test_a_linear_program_is_transposed_and_another_is_refused(cell: Callable[..., Array]) -> None:
    product = tl.to_jax(tl.parse("product(w: [n][m]R, x: [m]R) = gen i:n. sum j:m. w[i, j] * x[j]"))
    w, y = normal(4, 3), normal(4)
    assert_alike(jax.linear_transpose(partial(product, w), normal(3))(y), (y @ w,))
    with pytest.raises(tl.TypeMismatch, match="cell is not linear in x, so it can't be transposed"):
        jax.linear_transpose(lambda x: cell(x, W, B), X)(X)


def test_an_optimiser_trains_with_it() -> None:
    net = tl.parse("""
    net(x: [b][n]R, y: [b]R, w: [n][h]R, v: [h]R) =
      sum i:b. ((sum k:h. v[k] * tanh(sum j:n. x[i, j] * w[j, k])) - y[i])^2
    """)
    x = normal(64, 3)
    y = jnp.sin(x[:, 0] * 3) + x[:, 1] * x[:, 2]

    def natural(x: Array, y: Array, w: Array, v: Array) -> Array:
        return ((jnp.tanh(x @ w) @ v - y) ** 2).sum()

    def trained(h: Callable[..., Array]) -> list[float]:
        optimiser = optax.adam(0.03)

        @partial(jax.jit, donate_argnums=(0, 1))
        def step(params: Any, state: Any) -> Any:
            value, slope = jax.value_and_grad(lambda p: h(x, y, p["w"], p["v"]))(params)
            updates, state = optimiser.update(slope, state, params)
            return optax.apply_updates(params, updates), state, value

        params = {"w": normal(3, 16), "v": normal(16)}
        state = optimiser.init(params)
        values = []
        for _ in range(60):
            params, state, value = step(params, state)
            values.append(float(value))
        return values

    ours, theirs = trained(tl.to_jax(net)), trained(natural)
    np.testing.assert_allclose(ours, theirs, rtol=1e-2)
    assert ours[-1] < ours[0] / 4


# -- types and shapes


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_results_and_cotangents_have_the_types_of_what_they_belong_to(dtype: Any, cell: Callable[..., Array]) -> None:
    x, w, b = (a.astype(dtype) for a in (X, W, B))
    assert jax.eval_shape(cell, x, w, b) == jax.ShapeDtypeStruct((5,), dtype)
    slopes = jax.grad(lambda *args: cell(*args).astype(jnp.float32).sum(), ALL)(x, w, B)
    assert [slope.dtype for slope in slopes] == [dtype, dtype, jnp.float32]
    want = jax.grad(lambda *args: natural_cell(*args).sum(), ALL)(X, W, B)
    for slope, other in zip(slopes, want, strict=True):
        np.testing.assert_allclose(slope.astype(jnp.float32), other, rtol=0.1, atol=0.05)


def test_double_precision_is_kept_and_a_python_number_does_not_ask_for_it(loss: Callable[..., Array]) -> None:
    scaled = tl.to_jax(tl.parse("scaled(x: [n]R, c: R) = sum i:n. c * exp(x[i])"))
    with jax.enable_x64(True):
        args = [np.asarray(a, float) for a in (SX, SW, SZ)]
        slopes = jax.grad(loss, ALL)(*args)
        want = jax.grad(natural_loss, ALL)(*args)
        for a, b in zip(slopes, want, strict=True):
            assert a.dtype == float
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert scaled(X, 2).dtype == jnp.float32
        assert jax.grad(scaled, 1)(X, 2.0).dtype == float
        assert jax.grad(scaled)(X, np.float64(2)).dtype == jnp.float32


@pytest.mark.slow
def test_what_has_no_elements_has_no_derivative_whatever_its_size() -> None:
    tail = tl.parse(
        "tail(x: [n]R, w: R) = let y = gen i:n - 3. exp(w * x[i + 3]) in (y, (sum i:n - 3. y[i]^2) + w * w)"
    )
    h = tl.to_jax(tail)
    natural = lambda x, w: (jnp.exp(w * x[3:]), (jnp.exp(w * x[3:]) ** 2).sum() + w * w)
    for n in (2, 5):
        assert_alike(jax.jacrev(h, ALL[:2])(normal(n), 2.0), jax.jacrev(natural, ALL[:2])(normal(n), 2.0))
    second = lambda h: jax.jacfwd(jax.jacrev(h, 1), 1)
    assert_alike(second(h)(normal(2), 2.0), second(natural)(normal(2), 2.0))


def test_a_size_that_no_shape_tells_is_a_keyword() -> None:
    head = tl.to_jax(tl.parse("head(x: [n + m]R) = sum i:n. x[i]^2"))
    x = normal(5)
    want = jnp.concatenate([2 * x[:3], jnp.zeros(2)])
    assert_alike(jax.jit(jax.grad(partial(head, m=2)))(x), want)
    assert_alike(jax.jit(lambda x, n: jax.grad(head)(x, n=n), static_argnames="n")(x, n=3), want)
    assert_alike(jax.vmap(jax.grad(partial(head, n=3)))(jnp.stack([x, -x])), jnp.stack([want, -want]))
    with pytest.raises(tl.ArgumentError, match=r"can.t be read off the arguments"):
        jax.jit(head)(x)
    with pytest.raises(
        tl.ArgumentError, match=r"the size n of head must be known when it is traced\nhint: .*static_arg"
    ):
        jax.jit(lambda x, n: head(x, n=n))(x, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h: h(X, W), r"cell\(x, w, b\) needs b too"),
        (lambda h: h(X, W, B[:3]), r"b has shape \(3,\), expected \[n\] = 5 with n = 5 \(from x\)"),
        (lambda h: jax.vmap(h)(W, W, W), r"w has shape \(5,\), expected 2 axes, \[n\]\[n\]"),
        (lambda h: h(X, W.astype(complex), B), "w must hold real numbers, found the dtype complex64"),
        (lambda h: h(X, W, jax.random.key(0)), r"b has shape \(\), expected 1 axis"),
        (lambda h: h(X, W, np.zeros(5, jax.dtypes.float0)), "b must hold real numbers"),
        (lambda h: h(X, W, np.array([1, 2, 3, 4, "a"], object)), "b must hold real numbers"),
        (lambda h: h(X, W, "b"), "b must be an array or a number, found a str"),
        (lambda h: h(X, W, (B, B)), "b must be an array or a number, found a tuple of 2"),
        (lambda h: h(X, W, B, b=B), "b is given twice"),
        (lambda h: h(X, W, B, B), r"takes 3 arguments, found 4"),
        (lambda h: h(X, W, B, k=B), "has no parameter or size called k"),
    ],
)
def test_arguments_that_do_not_fit_are_told_when_traced(call: Use, message: str, cell: Callable[..., Array]) -> None:
    with pytest.raises(tl.ArgumentError, match=message):
        jax.eval_shape(lambda: jax.vjp(lambda: call(cell)))


def test_shapes_that_are_not_numbers_are_refused(cell: Callable[..., Array]) -> None:
    (n,) = jax.export.symbolic_shape("n")
    vector, matrix = jax.ShapeDtypeStruct((n,), jnp.float32), jax.ShapeDtypeStruct((n, n), jnp.float32)
    with pytest.raises(
        tl.ArgumentError, match=r"sizes of cell must be known when it is traced, found the shape \(n,\)"
    ):
        jax.export.export(jax.jit(cell))(vector, matrix, vector)


def test_it_looks_like_a_function_written_by_hand(cell: Callable[..., Array]) -> None:
    assert cell.__name__ == "cell"
    assert cell.__doc__ == str(CELL)
    assert [*inspect.signature(cell).parameters][:3] == ["x", "w", "b"]
    assert_alike(jax.jit(cell, donate_argnames="b")(X, w=W, b=B + 0), natural_cell(X, W, B))
    assert "op=cell_adjoint" in str(jax.make_jaxpr(jax.grad(squares(cell)))(X, W, B))


def test_the_readmes_example_runs() -> None:
    first, *others = blocks(README.read_text(), "python")
    (example,) = (code for code in others if "to_jax" in code)
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(first + example, names)
    natural = lambda x, w, z: jnp.sum((jnp.convolve(x, w[::-1], "valid") - z) ** 2)
    assert_alike(names["step"](SX, SW, SZ), jax.value_and_grad(natural, 1)(SX, SW, SZ))
    two = jnp.stack([SX, -SX]), SW, jnp.stack([SZ, SZ])
    assert_alike(names["by_example"](*two), jax.vmap(jax.grad(natural), (0, None, 0))(*two))
    assert jax.eval_shape(names["curvature"], SX, SW, SZ).shape == (3, 3)


# -- operations, counted


def equations(f: Callable[..., Any], *args: Any) -> Iterator[Any]:
    """The equations of `f` that bind our programs, also in inner jaxprs."""
    stack = [jax.make_jaxpr(f)(*args).jaxpr]
    while stack:
        jaxpr = stack.pop()
        for equation in jaxpr.eqns:
            if equation.primitive.name == "tensorlang":
                yield equation
            stack += [p.jaxpr for p in equation.params.values() if hasattr(p, "jaxpr")]


@pytest.mark.parametrize("by", [0, 1, (0, 2), ALL])
def test_only_the_cotangents_that_are_asked_for_are_computed(by: Any, loss: Callable[..., Array]) -> None:
    value, adjoint = equations(jax.grad(loss, by), SX, SW, SZ)
    assert str(value.params["op"]) == "loss"
    assert len(adjoint.outvars) == (len(by) if isinstance(by, tuple) else 1)


def test_only_differentials_that_are_not_zero_are_pushed_forward(loss: Callable[..., Array]) -> None:
    pushed = [*equations(lambda w: jax.jvp(lambda w: loss(SX, w, SZ), (w,), (w,)), SW)]
    assert [len(e.params["op"].inputs) for e in pushed if "derivative" in str(e.params["op"])] == [1]


def test_a_result_that_nobody_reads_has_no_part_in_the_gradient() -> None:
    two = tl.to_jax(tl.parse("two(x: [n]R) = (sum i:n. x[i]^2, sum i:n. exp(sin(x[i])))"))
    x = normal(1000)
    assert count(jax.grad(lambda x: two(x)[0]), x).transcendental == 0
    assert count(jax.grad(lambda x: two(x)[1]), x).transcendental == 3000
    assert len([*equations(jax.grad(lambda x: two(x)[0]), x)]) == 2


def test_a_parameter_without_influence_has_a_gradient_for_free() -> None:
    first = tl.to_jax(tl.parse("first(x: [n]R, w: [n]R) = sum i:n. x[i] * [i < 0] * w[i] + x[i]"))
    assert [e.params["op"].name for e in equations(jax.grad(first, 1), X, B)] == ["first"]
    assert_alike(jax.grad(first, ALL[:2])(X, B), (jnp.ones(5), jnp.zeros(5)))


@pytest.mark.parametrize("steps", [1, 7])
def test_value_and_gradient_share_what_the_value_stores_in_loops_too(steps: int, loss: Callable[..., Array]) -> None:
    """Nothing is recomputed on the way back, where no compiler could find that both are equal."""

    def total(z: Array, h: Callable[..., Array] = loss) -> Array:
        return lax.scan(lambda c, _: (c + h(SX, SW, c), None), z, length=steps)[0].sum()

    forward, both = count(total, SZ), count(jax.value_and_grad(total), SZ)
    assert forward.transcendental == both.transcendental == steps * len(SZ)
    assert both.operations <= 4 * forward.operations


def test_the_gradient_of_a_diagonal_is_linear_in_time_and_memory() -> None:
    f = tl.parse("f(x: [n]R) = let a = gen i:n, j:n. [i = j] * x[i] in sum k:n. a[k, 0] * a[0, k]")
    x = normal(8192)
    h = tl.to_jax(f)
    for transform in (jax.grad, jax.value_and_grad, lambda h: jax.grad(lambda x: jax.grad(h)(x).sum())):
        work = count(transform(h), x)
        assert work.operations <= 10 and work.temporaries + work.traffic <= 20 * x.size
    mapped = count(jax.vmap(jax.grad(h)), jnp.stack([x, x]))
    assert mapped.operations <= 20 and mapped.temporaries + mapped.traffic <= 40 * x.size
    assert_alike(jax.grad(h)(x), jnp.zeros(8192).at[0].set(2 * x[0]))


def test_the_gradient_costs_at_most_four_times_the_program(loss: Callable[..., Array]) -> None:
    x, w, z = normal(20_006), normal(8), normal(19_999)
    program, slope = count(loss, x, w, z), count(jax.value_and_grad(loss, ALL), x, w, z)
    assert slope.operations <= 4 * program.operations + x.size + w.size + z.size
    with jax.enable_x64(True):
        exact = jax.grad(natural_loss, ALL)(*(np.asarray(a, float) for a in (x, w, z)))
    for a, b in zip(jax.jit(jax.grad(loss, ALL))(x, w, z), exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(b).max()))


def test_what_does_not_depend_on_the_batch_is_not_repeated_for_it() -> None:
    f = tl.to_jax(tl.parse("f(x: [n]R, w: [n]R) = let e = gen i:n. exp(w[i]) in sum i:n. x[i] * e[i]"))
    x = normal(50, 1000)
    assert count(jax.vmap(f, (0, None)), x, x[0]).transcendental == 1000
    assert count(jax.grad(lambda w: jax.vmap(f, (0, None))(x, w).sum()), x[0]).transcendental == 1000


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs whose adjoints are derived."""
    names: list[str] = []
    derive = linear.adjoint_steps

    def noted(s: Any, *args: Any) -> Any:
        names.append(s.name)
        return derive(s, *args)

    monkeypatch.setattr(linear, "adjoint_steps", noted)
    return names


def test_a_program_is_derived_once_however_often_it_is_traced(derived: list[str]) -> None:
    f = tl.parse("f(x: [n]R) = sum i:n. exp(x[i]) * x[i]")
    for n in (3, 4):
        assert_alike(jax.jit(jax.grad(tl.to_jax(f)))(normal(n)), jnp.exp(normal(n)) * (normal(n) + 1))
        assert jax.grad(tl.to_jax(f))(normal(n)).shape == (n,)
    assert derived == ["f"]


def test_threads_derive_a_program_once_together(derived: list[str]) -> None:
    f = tl.parse("g(x: [n]R) = sum i:n. sin(x[i]) * x[i]")
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(jax.grad(tl.to_jax(f))(X))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for slope in found:
        assert_alike(slope, jnp.sin(X) + X * jnp.cos(X))
    assert len(found) == 6 and derived == ["g"]


# -- several devices


DEVICES = """
import jax, jax.numpy as jnp, numpy as np, tensorlang as tl
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

h = tl.to_jax(tl.parse("loss(x: [n][m]R, w: [m]R, y: [n]R) = sum i:n. (sin(sum j:m. x[i, j] * w[j]) - y[i])^2"))
natural = lambda x, w, y: jnp.sum((jnp.sin(x @ w) - y) ** 2)
x, w, y = (jnp.asarray(np.random.default_rng(0).normal(size=s), jnp.float32) for s in ((16, 8), (8,), (16,)))
want = jax.value_and_grad(natural, (0, 1, 2))(x, w, y)
curved = jax.hessian(natural, 1)(x, w, y)
alike = lambda a, b: jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-4), a, b)

auto = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
rows, same = NamedSharding(auto, P("d")), NamedSharding(auto, P())
lying = jax.device_put(x, rows), jax.device_put(w, same), jax.device_put(y, rows)
got = jax.jit(jax.value_and_grad(h, (0, 1, 2)))(*lying)
alike(got, want)
assert got[1][0].sharding.is_equivalent_to(rows, 2) and got[1][1].sharding.is_fully_replicated
alike(jax.value_and_grad(h, (0, 1, 2))(*lying), want)

for check in (True, False):
    mapped = jax.shard_map(lambda *a: jax.lax.psum(h(*a), "d"), mesh=auto, in_specs=(P("d"), P(), P("d")),
                           out_specs=P(), check_vma=check)
    alike(jax.jit(jax.value_and_grad(mapped, (0, 1, 2)))(x, w, y), want)
    alike(jax.hessian(mapped, 1)(x, w, y), curved)
    alike(jax.vmap(lambda y: mapped(x, w, y))(jnp.stack([y, y])), jnp.stack([want[0]] * 2))
local = jax.shard_map(jax.grad(h, 1), mesh=auto, in_specs=(P("d"), P(), P("d")), out_specs=P())
alike(local(x, w, y), want[1][1])

with jax.set_mesh(jax.make_mesh((8,), ("d",), axis_types=(AxisType.Explicit,))):
    for specs in ((P("d", None), P(), P("d")), (P(None, "d"), P("d"), P())):
        lying = [jax.device_put(a, s) for a, s in zip((x, w, y), specs)]
        got = jax.jit(jax.value_and_grad(h, (0, 1, 2)))(*lying)
        alike(got, want)
        assert [jax.typeof(a) for a in got[1]] == [jax.typeof(a) for a in lying]
        alike(jax.jvp(h, lying, lying)[1], sum(jnp.vdot(a, b) for a, b in zip(want[1], (x, w, y))))
    alike(jax.hessian(h, 1)(jax.device_put(x, P("d")), w, jax.device_put(y, P("d"))), curved)
    many = jax.vmap(jax.grad(h, 1), (0, None, None))(jax.device_put(jnp.stack([x] * 8), P("d")), w, y)
    alike(many, jnp.stack([want[1][1]] * 8))
print("done")
"""


@pytest.mark.slow
def test_it_runs_and_is_differentiated_on_meshes_of_devices() -> None:
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", DEVICES],
        env={**environment, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.stdout == "done\n", run.stderr


def test_outside_of_transformations_compiled_code_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tl.to_jax(tl.parse("f(x: [n]R, y: [m]idx(n), E: rel(n, m)) = sum i:n, j:m. [E(i, j)] * x[i] * x[y[j]]"))
    x, y = np.arange(3.0, dtype=np.float32), np.array([2, 0])
    holds = np.ones((3, 2), bool)
    traced = jax.jit(f)(x, y, holds)
    monkeypatch.setattr("tensorlang.transforms.to_jax.bind", None)
    assert f(x, y, holds) == f(jnp.asarray(x), y=y, E=holds) == traced
    with pytest.raises(tl.ArgumentError, match="y"):
        f(x, np.array([3, 0]), holds)


def test_a_program_that_jax_differentiates_is_derived() -> None:
    f = tl.parse("f(x: [n]R, k: [m]idx(n)) = sum q:m. sin(x[k[q]])")
    x, k = jnp.arange(9.0), np.array([3, 3, 7])
    natural = lambda x: jnp.sum(jnp.sin(x[k]))
    np.testing.assert_allclose(jax.grad(f)(x, k), jax.grad(natural)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.hessian(f))(x, k), jax.hessian(natural)(x), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jax.vmap(f, (0, None))(jnp.stack([x, -x]), k), [natural(x), natural(-x)], rtol=1e-6)
    assert "op=f_adjoint" in str(jax.make_jaxpr(jax.grad(f))(x, k))
    g = tl.parse("g(E: rel(n, n), x: [n]R, c: (R, R)) = sum i:n, j:n. [E(i, j)] * fst(c) * x[i] * x[j]")
    given = np.tri(4) > 0, jnp.arange(4.0), (2.0, 1.0)
    wanted = jax.grad(lambda x: 2 * x @ jnp.tri(4) @ x)(given[1])
    np.testing.assert_allclose(jax.grad(g, 1)(*given), wanted)
    np.testing.assert_allclose(jax.grad(lambda x: g(E=given[0], x=x, c=given[2]))(given[1]), wanted)


def test_checkify_sees_what_a_program_makes() -> None:
    f = tl.parse("f(x: [n]R) = sum i:n. log(x[i])")
    x = jnp.array([1.0, -1.0, 2.0])
    for g, given in ((f, x), (jax.jit(tl.to_jax(f)), x), (jax.vmap(f), x[None])):
        error, _ = checkify.checkify(g, errors=checkify.float_checks)(given)
        assert "nan generated by primitive: log" in str(error.get())
        error, _ = checkify.checkify(g, errors=checkify.float_checks)(abs(given))
        assert error.get() is None


def test_only_orders_of_many_elements_are_mapped_in_turns() -> None:
    n, rng = 300, np.random.default_rng(0)
    x, k = jnp.asarray(rng.normal(size=(3, n))), jnp.asarray(rng.integers(0, n, (3, n)))
    for text, turns in (
        ("gen i:n. sum j:n. [k[i] <= k[j]] * exp(x[j] - x[i])", True),
        ("gen i:n - 1. [k[i] < k[i + 1]] * x[i]", False),
        ("fold t:n with s = 0. s + sin(s) * (sum i:n. [k[t] < k[i]] * x[i])", False),
    ):
        f = tl.parse(f"f(x: [n]R, k: [n]idx(n)) = {text}")
        assert ("scan[" in str(jax.make_jaxpr(jax.vmap(f))(x, k))) == turns
        for mapped, one in zip(jax.vmap(f)(x, k), map(f, x, k), strict=True):
            np.testing.assert_allclose(mapped, one, rtol=1e-4, atol=1e-4)
