"""Coverage of JAX's libraries: imported functions, as users call them, with the value and gradient of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.jaxprs.rewrite import rewritten

optax = pytest.importorskip("optax")

RNG = np.random.default_rng(0)
NAMES = {
    "jax": jax, "jnp": jnp, "lax": jax.lax, "nn": jax.nn, "optax": optax, "stats": stats, "special": jax.scipy.special,
    "i": jnp.array([3, 0, 2]), "onehot": jax.nn.one_hot(jnp.array([1, 0, 3, 2]), 5), "np": np,
    "labels": jnp.array([1, 0, 3, 2]), "mask": jnp.asarray(RNG.random((4, 5)) < 0.5),
}  # fmt: skip
X = jnp.asarray(RNG.normal(size=(4, 5)), jnp.float32)
Y = jnp.asarray(RNG.uniform(0.2, 0.9, size=5), jnp.float32)

IMPORTED = """
    jnp.sum(x, 0); jnp.mean(x); jnp.var(x, 1); jnp.std(x, 0); jnp.prod(x, 0); jnp.max(x, 1); jnp.min(x)
    jnp.ptp(x, 0); jnp.dot(x, y); jnp.vdot(x[0], y); jnp.inner(x, y); jnp.outer(y, y); jnp.matmul(x, x.T)
    jnp.tensordot(x, x, 2); jnp.kron(y[:2], y[:3]); jnp.einsum('ij,kj->ik', x, x); jnp.trace(x @ x.T); jnp.diag(y)
    jnp.diagonal(x @ x.T); jnp.tril(x); jnp.triu(x, 1); jnp.eye(4) * x[:, :4]; jnp.where(x > 0, x, y)
    jnp.maximum(x, y); jnp.minimum(x, 0.1); jnp.clip(x, -0.5, 0.5); jnp.abs(x); jnp.sign(x) * x; jnp.square(x)
    jnp.sqrt(y); jnp.exp(x); jnp.exp2(x); jnp.expm1(x); jnp.log(y); jnp.log1p(y); jnp.log2(y); jnp.log10(y)
    jnp.sin(x); jnp.cos(x); jnp.tan(x); jnp.arcsin(y); jnp.arccos(y); jnp.arctan(x); jnp.sinh(x); jnp.cosh(x)
    jnp.tanh(x); jnp.arcsinh(x); jnp.arccosh(1 + y); jnp.arctanh(y); jnp.arctan2(x, y); jnp.hypot(x, y)
    jnp.power(y, x); y ** 3; y ** 0.5; y ** -2; jnp.reciprocal(y); x / y; jnp.logaddexp(x, y); jnp.floor(x) * x
    jnp.ceil(x) * x; jnp.round(x) * x; jnp.concatenate([x, x], 1); jnp.stack([x, x]); jnp.hstack([x, x])
    jnp.vstack([x, y]); jnp.split(x, 2)[1]; jnp.tile(y, 3); jnp.repeat(x, 2, axis=1); jnp.roll(x, 2, 1); jnp.flip(x)
    jnp.rot90(x); jnp.pad(x, 1); jnp.pad(y, 2, mode='edge'); jnp.pad(y, 2, mode='reflect'); jnp.reshape(x, (5, 4))
    jnp.ravel(x); jnp.transpose(x); jnp.swapaxes(x, 0, 1); jnp.moveaxis(x, 0, 1); jnp.expand_dims(x, 1)
    jnp.squeeze(x[:1]); jnp.broadcast_to(y, (3, 5)); x[1]; x[:, 2]; x[-1]; x[1:3, ::2]; x[i]; x[i, i]; x[:, i]
    jnp.take(x, i, 1); jnp.take_along_axis(x, labels[:, None], 1); x[::-1]; x.at[0].set(y); x.at[i].add(y)
    x.at[:, 1].multiply(2.0); x.at[0, 0].set(0); x[jnp.arange(4), labels]; jnp.cumsum(x, 1); jnp.diff(x, axis=1)
    jnp.convolve(y, y[:3]); jnp.correlate(y, y[:2]); jnp.gradient(y); jnp.sort(x, 1); jnp.median(y)
    jnp.argmax(x, 1) * x[:, 0]; jnp.linalg.norm(x); jnp.linalg.norm(x, axis=1); jnp.cross(x[:, :3], y[:3])
    jnp.vander(y, 3); jnp.meshgrid(y, y)[0]; jnp.average(x, weights=y, axis=1); jnp.cov(x); jnp.nansum(x)
    jnp.trapezoid(y); jnp.interp(0.3, jnp.arange(5.0), y); jnp.piecewise(x, [x < 0], [0.0, 1.0]) * x
    jnp.select([x > 1, x > 0], [x, 2 * x], -x); jnp.logical_and(x > 0, y > 0.5) * x; jnp.isfinite(x) * x
    (x > y) * x; jnp.unravel_index(3, (4, 5))[0] * x; jnp.linspace(y[0], y[1], 4); jnp.array([y[0], y[1]])
    jnp.zeros(3) + y[0]; x[jnp.triu_indices(4)]; x[jnp.tril_indices(4, 0, 5)]; x[np.array([0, 2])]; mask * x
    jnp.where(mask, x, 0); jnp.sum(x, where=mask); jnp.max(x, where=mask, initial=-9.0); x % 0.7
    jnp.floor_divide(x, 0.7) * x; jnp.fmod(x, 0.7); jnp.any(x > 0) * x; jnp.all(mask, 1) @ x; jnp.cumprod(y)
    lax.cummax(y); jnp.nan_to_num(x); nn.relu(x); nn.relu6(x); nn.sigmoid(x); nn.softplus(x); nn.silu(x); nn.gelu(x)
    nn.gelu(x, approximate=False); nn.elu(x); nn.selu(x); nn.celu(x); nn.leaky_relu(x); nn.log_sigmoid(x)
    nn.hard_tanh(x); nn.hard_sigmoid(x); nn.hard_swish(x); nn.mish(x); nn.glu(x[:, :4]); nn.soft_sign(x)
    nn.squareplus(x); nn.softmax(x); nn.log_softmax(x); nn.logsumexp(x, 1); nn.standardize(x)
    nn.one_hot(labels, 5) * x; nn.softmax(x, where=mask | (x < 9))
    nn.dot_product_attention(x[:, None, :4], x[:, None, :4], x[:, None, :4]); nn.silu(x) * nn.sigmoid(y)
    lax.dynamic_slice(x, (1, 1), (2, 2)); lax.dynamic_update_slice(x, x[:2, :2], (0, 1)); lax.rsqrt(y); lax.erf(x)
    lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), 'VALID')
    lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), 'VALID')
    lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), 'SAME')
    lax.fori_loop(0, 3, lambda k, c: jnp.sin(c) + y, y); lax.scan(lambda c, r: (c * r, c + r), y, x)[1]
    lax.map(lambda r: r * y, x); lax.cond(True, jnp.sin, jnp.cos, x); jax.vmap(lambda r: r[1:] * y[:-1])(x)
    jax.vmap(lambda r, k: r[k])(x, labels); jax.checkpoint(jnp.sin)(x)
    jax.vmap(lambda r, k: r.at[k].add(1.0))(x, labels) * x; jax.vmap(jnp.diag)(x); lax.expand_dims(y, (0,))
    special.logsumexp(x); special.gammaln(y); special.digamma(y); special.erf(x); special.erfc(x)
    special.xlogy(y, y); special.expit(x); special.logit(y); special.entr(y); special.softmax(x)
    special.log_softmax(x); special.betaln(y, y); stats.norm.logpdf(x, 0.1, 0.9); stats.cauchy.logpdf(x)
    stats.laplace.logpdf(x); stats.gamma.logpdf(y, 2.0); stats.beta.logpdf(y, 2.0, 3.0); stats.expon.logpdf(y)
    stats.t.logpdf(x, 3.0); stats.logistic.logpdf(x); stats.poisson.logpmf(3, y); stats.bernoulli.logpmf(1, y)
    stats.dirichlet.logpdf(y / y.sum(), jnp.ones(5)); optax.l2_loss(x, 0 * x + y); optax.huber_loss(x, y)
    optax.log_cosh(x, y); optax.cosine_similarity(x, y); optax.sigmoid_binary_cross_entropy(x, onehot)
    optax.softmax_cross_entropy(x, onehot); optax.hinge_loss(x, onehot)
    optax.softmax_cross_entropy_with_integer_labels(x, labels); optax.squared_error(x, 2 * x + y)
    optax.kl_divergence(x, onehot); optax.smooth_labels(onehot, 0.1) * x; optax.safe_norm(x, 1e-6)
    optax.sigmoid_focal_loss(x, onehot); optax.ntxent(x, labels)
"""
"""Expressions of x, a matrix, and y, a vector of numbers between 0 and 1. Each is a program as a whole, or stays
JAX."""


REFUSED = {
    "jnp.select([x > 1, x > 0], [x, 2 * x], -x)": "a choice among several by a number",
    "optax.ntxent(x, labels)": "a sum of numbers that are -inf under a mask",
}
"""The expressions among these that `tl.from_jax` refuses, and why."""


def expressions() -> list[str]:
    return [part.strip() for line in IMPORTED.strip().splitlines() for part in line.strip().split("; ") if part.strip()]


def function(code: str) -> Any:
    return eval(f"lambda x, y: {code}", NAMES)


@pytest.mark.parametrize(
    "code",
    [code if k % 30 == 0 else pytest.param(code, marks=pytest.mark.slow) for k, code in enumerate(expressions())],
)
def test_the_gradient_is_that_of_jax(code: str) -> None:
    f = function(code)

    def scalar(x: Any, y: Any) -> Any:
        found = f(x, y)
        return jnp.sum(found * jnp.cos(found))

    if code not in REFUSED:
        tl.from_jax(scalar, X, Y)
    want = jax.jit(jax.value_and_grad(scalar, (0, 1)))(X, Y)  # compiled once, not operation by operation
    got = jax.value_and_grad(rewritten(scalar, gain=None), (0, 1))(X, Y)
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-3, atol=2e-4)
