"""Parameters and arguments in records: NamedTuples, dataclasses and dicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tensorlang as tl

n, m = tl.sizes("n m")


class Layer(NamedTuple):
    w: tl.R[m, n]  # type: ignore[valid-type]
    b: tl.R[m]  # type: ignore[valid-type]


@jax.tree_util.register_dataclass
@dataclass
class Model:
    layer: Layer
    scale: tl.R  # type: ignore[valid-type]


def apply(layer: Any, x: Any) -> Any:
    return tl.gen(m, lambda i: tl.tanh(layer.b[i] + tl.sum(n, lambda j: layer.w[i, j] * x[j])))


@tl.function
def by_tuple(p: Layer, x: tl.R[n]):  # type: ignore[no-untyped-def, valid-type]
    y = apply(p, x)
    return tl.sum(m, lambda i: y[i] ** 2)


@tl.function
def by_dataclass(x: tl.R[n], p: Model):  # type: ignore[no-untyped-def, valid-type]
    y = apply(p.layer, x)
    return p.scale * tl.sum(m, lambda i: y[i] ** 2)


by_dict = tl.function(
    lambda p, x: tl.sum(n, lambda i: p["a"] * x[i] + p["b"]["c"]), p={"a": tl.R, "b": {"c": tl.R}}, x=tl.R[n]
)

rng = np.random.default_rng(0)
w, b, x = rng.standard_normal((3, 4)), rng.standard_normal(3), rng.standard_normal(4)


def natural(w: Any, b: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(b + w @ x) ** 2)


def test_each_field_is_a_parameter() -> None:
    assert str(by_tuple).startswith("by_tuple(w: [m][n]R, b: [m]R, x: [n]R)")
    assert [p.name for p in by_dataclass.params] == ["x", "w", "b", "scale"]
    assert [p.name for p in by_dict.params] == ["a", "c", "x"]


def test_records_are_arguments_by_position_and_by_name() -> None:
    want = natural(w, b, x)
    layer = Layer(w, b)
    calls = [
        by_tuple(layer, x),
        by_tuple(x=x, p=layer),
        by_tuple(layer, x=x),
        by_tuple({"w": w, "b": b}, x),
        by_tuple(w, b, x),
        tl.evaluate(by_tuple, layer, x),
        by_dataclass(x, Model(layer, 1.0)),
        by_dataclass(Model(layer, 1.0), x),
        tl.to_jax(by_tuple)(layer, x),
    ]
    for found in calls:
        np.testing.assert_allclose(found, want, rtol=1e-5)
    assert tl.evaluate(by_dict, {"a": 2.0, "b": {"c": 1.0}}, np.ones(3)) == 9


def test_jax_differentiates_by_records() -> None:
    found = jax.grad(tl.to_jax(by_tuple))(Layer(w, b), x)
    assert isinstance(found, Layer)
    for ours, theirs in zip(found, jax.grad(natural, (0, 1))(w, b, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    model = jax.grad(tl.to_jax(by_dataclass), argnums=1)(x, Model(Layer(w, b), 2.0))
    assert isinstance(model, Model)
    np.testing.assert_allclose(model.scale, natural(w, b, x), rtol=1e-5)


def test_derivatives_take_the_records_of_the_program() -> None:
    dw, db = tl.grad(by_tuple, wrt=("w", "b"))(Layer(w, b), x)
    for ours, theirs in zip((dw, db), jax.grad(natural, (0, 1))(w, b, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    np.testing.assert_allclose(tl.adjoint(by_tuple, wrt="b")(Layer(w, b), x, 1.0), db, rtol=1e-5)


def test_a_program_is_called_with_records_of_terms() -> None:
    f = tl.function(lambda p, x: by_tuple(p, x) + by_tuple(p, x), p=Layer, x=tl.R[n])
    np.testing.assert_allclose(f(Layer(w, b), x), 2 * natural(w, b, x), rtol=1e-5)


def test_a_pair_may_be_a_named_tuple() -> None:
    class Pair(NamedTuple):
        first: Any
        second: Any

    f = tl.parse("f(p: ([n]R, R)) = snd(p) * sum i:n. fst(p)[i]")
    assert tl.evaluate(f, Pair(np.ones(3), 2.0)) == 6


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: tl.function(lambda p, w: p.w * w, p=NamedTuple("P", [("w", tl.R)]), w=tl.R), "two parameters are"),
        (lambda: tl.function(lambda p: p["w"], p={"w": float}), "the type of the parameter w must be one"),
        (lambda: by_tuple(Layer(w, b), x, x), "has 1 parameters beside w, b, found 2 arguments"),
        (lambda: by_tuple(Layer(w, b), {"b": b}), "twice"),
        (lambda: by_tuple(Layer(w, b)), "needs x too"),
        (lambda: tl.function(lambda p: p.q, p=Layer), "q"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(mistake: Any, message: str) -> None:
    with pytest.raises((tl.TensorlangError, AttributeError), match=message):
        mistake()
