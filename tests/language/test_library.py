"""The standard library, and programs that call one another by name in text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.surface.parse import library

rng = np.random.default_rng(0)


def given(*shape: int) -> Any:
    return rng.standard_normal(shape)


def conv2d(x: Any, k: Any) -> Any:
    return jax.lax.conv_general_dilated(x[None], k, (1, 1), "VALID")[0]


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T / np.sqrt(q.shape[1]), axis=1) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.where(np.tri(len(q), dtype=bool), q @ k.T / np.sqrt(q.shape[1]), -jnp.inf)
    return jax.nn.softmax(scores, axis=1) @ v


def cross_entropy(scores: Any, labels: Any) -> Any:
    return -jnp.sum(jax.nn.log_softmax(scores, axis=1)[np.arange(len(labels)), labels])


def layer_norm(x: Any, scale: Any, shift: Any, epsilon: Any) -> Any:
    return (x - x.mean()) / jnp.sqrt(x.var() + epsilon) * scale + shift


K = np.array([2, 0, 2])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int]]] = {
    "total": (jnp.sum, (given(4),), {}),
    "mean": (jnp.mean, (given(4),), {}),
    "var": (jnp.var, (given(4),), {}),
    "norm": (jnp.linalg.norm, (given(4),), {}),
    "prod": (jnp.prod, (given(4),), {}),
    "cumprod": (jnp.cumprod, (given(4),), {}),
    "prefix_sum": (jnp.cumsum, (given(4),), {}),
    "linspace": (lambda a, b: jnp.linspace(a, b, 5), (1.0, 3.0), {"n": 5}),
    "dot": (jnp.dot, (given(4), given(4)), {}),
    "outer": (jnp.outer, (given(4), given(3)), {}),
    "matvec": (jnp.matmul, (given(4, 3), given(3)), {}),
    "matmul": (jnp.matmul, (given(4, 3), given(3, 2)), {}),
    "transposed": (jnp.transpose, (given(4, 3),), {}),
    "identity": (lambda: jnp.eye(3), (), {"n": 3}),
    "trace": (jnp.trace, (given(4, 4),), {}),
    "diagonal": (jnp.diag, (given(4, 4),), {}),
    "diagonal_matrix": (jnp.diag, (given(4),), {}),
    "logsumexp": (jax.nn.logsumexp, (given(4),), {}),
    "softmax": (jax.nn.softmax, (given(4),), {}),
    "cross_entropy": (cross_entropy, (given(3, 4), K), {}),
    "layer_norm": (layer_norm, (given(4), given(4), given(4), 0.1), {}),
    "one_hot": (lambda k: jax.nn.one_hot(k, 4), (K,), {"n": 4}),
    "embedding": (lambda table, k: table[k], (given(4, 2), K), {}),
    "segment_sum": (lambda x, k: jax.ops.segment_sum(x, k, 4), (given(3), K), {"n": 4}),
    "conv1d": (lambda x, w: jnp.correlate(x, w, "valid"), (given(6), given(3)), {}),
    "conv1d_transposed": (jnp.convolve, (given(4), given(3)), {}),
    "depthwise_conv2d": (
        lambda x, k: convolved(x, k[:, None], groups=2),
        (given(2, 6, 5), given(2, 3, 2)),
        {},
    ),
    "max_pool": (lambda x: x.reshape(2, 2, 2, 3, 2).max((2, 4)), (given(2, 4, 6),), {}),
    "avg_pool": (lambda x: x.reshape(2, 2, 2, 3, 2).mean((2, 4)), (given(2, 4, 6),), {}),
    "conv2d": (conv2d, (given(2, 6, 5), given(3, 2, 3, 2)), {}),
    "squared_distances": (lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), (given(4, 2), given(3, 2)), {}),
    "attention": (attention, (given(4, 2), given(3, 2), given(3, 5)), {}),
    "causal_attention": (causal, (given(4, 2), given(4, 2), given(4, 5)), {}),
}


def pooled(x: Any, start: float, combine: Any, window: int, stride: int, padding: int) -> Any:
    around = [(0, 0), (padding, padding), (padding, padding)]
    return jax.lax.reduce_window(x, start, combine, (1, window, window), (1, stride, stride), around)


def convolved(x: Any, k: Any, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Any:
    axes, around = k.ndim - 2, [(padding, padding)] * (k.ndim - 2)
    dilations = (dilation,) * axes
    return jax.lax.conv_general_dilated(
        x[None], k, (stride,) * axes, around, rhs_dilation=dilations, feature_group_count=groups
    )[0]


def windowed(q: Any, k: Any, v: Any, window: int) -> Any:
    near = np.tri(len(q), dtype=bool) & ~np.tri(len(q), k=-window, dtype=bool)
    scores = jnp.where(near, q @ k.T / np.sqrt(q.shape[1]), -jnp.inf)
    return jax.nn.softmax(scores, axis=1) @ v


IMAGE, KERNEL = given(4, 7, 6), given(6, 4, 3, 2)
OPTIONS: dict[str, tuple[str, tuple[Any, ...], dict[str, int], Callable[..., Any]]] = {
    "every other step": ("conv2d", (IMAGE, KERNEL), {"stride": 2}, lambda x, k: convolved(x, k, 2)),
    "padding": ("conv2d", (IMAGE, KERNEL), {"padding": 1}, lambda x, k: convolved(x, k, 1, 1)),
    "all at once": (
        "conv2d",
        (given(4, 9, 8), given(6, 2, 3, 2)),
        {"stride": 3, "padding": 2, "dilation": 2, "groups": 2},
        lambda x, k: convolved(x, k, 3, 2, 2, 2),
    ),
    "by channel": (
        "depthwise_conv2d",
        (IMAGE, given(4, 3, 3)),
        {"stride": 2, "padding": 1},
        lambda x, k: convolved(x, k[:, None], 2, 1, groups=4),
    ),
    "of a line": (
        "conv1d",
        (given(9), given(3)),
        {"stride": 2, "padding": 2, "dilation": 2},
        lambda x, w: convolved(x[None], w[None, None], 2, 2, 2)[0],
    ),
    "transposed": (
        "conv1d_transposed",
        (given(4), given(3)),
        {"stride": 2},
        lambda y, w: jnp.convolve(jnp.zeros(7).at[::2].set(y), w),
    ),
    "greatest": ("max_pool", (IMAGE,), {}, lambda x: pooled(x, -np.inf, jax.lax.max, 2, 2, 0)),
    "greatest with padding": (
        "max_pool",
        (IMAGE,),
        {"window": 3, "stride": 2, "padding": 1},
        lambda x: pooled(x, -np.inf, jax.lax.max, 3, 2, 1),
    ),
    "average": (
        "avg_pool",
        (IMAGE,),
        {"window": 3, "padding": 1},
        lambda x: pooled(x, 0.0, jax.lax.add, 3, 3, 1) / 9,
    ),
    "near": (
        "causal_attention",
        (given(6, 2), given(6, 2), given(6, 3)),
        {"window": 3},
        lambda q, k, v: windowed(q, k, v, 3),
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_are_those_of_jax(case: str) -> None:
    name, arguments, options, by_jax = OPTIONS[case]
    with jax.enable_x64(True):
        f = getattr(tl.lib, name)
        np.testing.assert_allclose(f(*arguments, **options), by_jax(*arguments), atol=1e-10)
        named = dict(zip((p.name for p in f.params), arguments, strict=True))
        np.testing.assert_allclose(f(**named, **options), by_jax(*arguments), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("case", OPTIONS)
def test_options_in_text_have_derivatives_as_in_jax(case: str) -> None:
    name, arguments, options, by_jax = OPTIONS[case]
    parameters = ", ".join(f"x{k}: {''.join(f'[{n}]' for n in a.shape)}R" for k, a in enumerate(arguments))
    given_options = "".join(f", {option}={value}" for option, value in options.items())
    call = f"{name}({', '.join(f'x{k}' for k in range(len(arguments)))}{given_options})"
    f = tl.parse(f"f({parameters}) = {call}")
    every = tuple(range(len(arguments)))
    with jax.enable_x64(True):
        ours, theirs = (
            jax.grad(lambda *xs, g=g: jnp.sum(jnp.sin(g(*xs))), every)(*arguments) for g in (tl.to_jax(f), by_jax)
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8)
    assert tl.certify(f).bound == 4


def test_options_are_whole_numbers_that_make_sense() -> None:
    conv = tl.lib.conv1d
    x, w = given(6), given(3)
    for wrong, message in [
        (lambda: conv(x, w, stride=0), "stride of conv1d is a whole number of at least 1, found 0"),
        (lambda: conv(x, w, padding=0.5), "padding of conv1d is a whole number of at least 0, found 0.5"),
        (lambda: conv(x, w, strides=2), "strides"),
        (lambda: conv(x, given(2, 2), stride=2), "w must have"),
        (lambda: conv(x, stride=2), "needs w"),
        (lambda: tl.parse("f(x: [n]R, w: [m]R) = conv1d(x, w, stride=2)"), "leaves over what its sizes do not tell"),
    ]:
        with pytest.raises(tl.TensorlangError, match=message):
            wrong()
    assert "s" not in str(conv.with_options(stride=2)).split("=")[0].split("(")[1]
    with pytest.raises(tl.ArgumentError, match="no option strid"):
        conv.with_options(strid=2)


def test_every_program_of_the_library_is_tested() -> None:
    of_numbers = {"silu", "gelu", "elu", "leaky_relu", "huber", "clip", "xlogy"}  # tested in `test_special`
    assert set(CASES) | of_numbers == set(library()) == set(dir(tl.lib))


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_numpy_and_jax_do(name: str) -> None:
    by_jax, arguments, sizes = CASES[name]
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            tl.evaluate(getattr(tl.lib, name), *arguments, **sizes), by_jax(*arguments), atol=1e-10
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiled_it_and_its_derivatives_are_those_of_jax(name: str) -> None:
    by_jax, arguments, sizes = CASES[name]
    with jax.enable_x64(True):
        f = tl.to_jax(getattr(tl.lib, name))
        np.testing.assert_allclose(f(*arguments, **sizes), by_jax(*arguments), atol=1e-10)
        reals = tuple(k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f")
        if reals:
            gradients = [
                jax.grad(lambda *xs, g=g: jnp.sum(jnp.sin(g(*xs))), reals)(*arguments)
                for g in (lambda *xs: f(*xs, **sizes), by_jax)
            ]
            for a, b in zip(*gradients, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_its_adjoint_is_certified(name: str) -> None:
    f = getattr(tl.lib, name)
    if f.variables:
        assert tl.certify(f).bound == 4


def test_it_is_called_by_name_in_text() -> None:
    f = tl.parse(
        "f(A: [n][m]R, y: [n]idx(m), x: [m]R) = cross_entropy(gen i:n. softmax(A[i]), y) + dot(x, x) / mean(x)"
    )
    A, y, x = given(2, 3), np.array([2, 0]), np.abs(given(3))
    want = cross_entropy(jax.nn.softmax(A, axis=1), y) + x @ x / x.mean()
    np.testing.assert_allclose(tl.evaluate(f, A, y, x), want, rtol=1e-5)
    g = tl.parse("g(x: [m]R) = dot(linspace(0, 1, n=m), x)")
    assert np.isclose(tl.evaluate(g, x), np.linspace(0, 1, 3) @ x)
    h = tl.parse("h(x: [m]R) = matvec(identity(n=m), x)")
    assert np.allclose(tl.evaluate(h, x), x)


def test_it_is_called_on_terms_in_python() -> None:
    n, m = tl.sizes("n m")
    f = tl.function(lambda A: tl.gen(n, lambda i: tl.lib.mean(A[i])), A=tl.R[n, m])
    A = given(2, 3)
    assert np.allclose(tl.evaluate(f, A), A.mean(1))


def test_a_program_calls_those_before_it() -> None:
    programs = tl.parse_module("""
      square(x: R) = x * x
      near(E: rel(n, n), x: [n]R, i: idx(n)) = sum j:n. [E(i, j)] * square(x[j])
      all(E: rel(n, n), x: [n]R) = sum i:n. near(E, x, i) * mean(x)
      mean(x: [n]R) = sum i:n. x[i]
      again(x: [n]R) = mean(x)
    """)
    E, x = np.array([[True, False], [True, True]]), np.array([2.0, 3.0])
    assert tl.evaluate(programs["all"], E, x) == (4 + 4 + 9) * 2.5
    assert tl.evaluate(programs["again"], x) == 5.0  # a user's own program takes precedence over that of the library
    with pytest.raises(tl.ScalarFunctionError, match="called later"):
        tl.parse_module("f(x: R) = later(x)  later(x: R) = x")


def test_names_of_the_library_are_names_like_others() -> None:
    f = tl.parse("dot(mean: [n]R, norm: [n]R) = let total = sum i:n. mean[i] * norm[i] in total")
    assert tl.evaluate(f, np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 11.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(x: [n]R, y: [m]R) = dot(x, y)", "the argument y of dot must have size n, found m"),
        ("f(x: [n]R) = dot(x)", "dot is not given its parameter y"),
        ("f(x: [n]R) = mean(x, x)", "mean has 1 parameters, found 2"),
        ("f(x: R) = mean(x)", r"must have type \[n\]R, found R"),
        ("f(x: [n]R) = mean(x, q=n)", "no parameter 'q'"),
        ("f(k: [p]idx(n)) = one_hot(k, n=p)", "must have size n = p, found n"),
    ],
)
def test_a_wrong_call_is_refused_in_its_place(text: str, message: str) -> None:
    with pytest.raises(tl.TensorlangError, match=message) as caught:
        tl.parse(text, "name.tl")
    assert str(caught.value).startswith("name.tl:1:")
