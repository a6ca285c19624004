"""Functions of published packages: JAX's gradients at every size, with the functions imported where they can be."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import pytest

from benchmarks.packages import Missing, PackageFunction, functions
from benchmarks.packages.figures import apart, linted
from tensorlang.jaxprs.rewrite import rewritten

ALL = functions()
QUICK = {"optax.huber_loss(x, y)", "optax.ntxent(x, labels)"}
SLOW = ALL[::5]
"""A fifth of the functions, of all packages; `python -m benchmarks.packages` takes them all."""


def made(f: PackageFunction, n: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of packages that are older than this JAX
        try:
            return f.make(n)
        except Missing as why:
            pytest.skip(str(why))


def test_there_are_hundreds_of_them_of_many_packages() -> None:
    assert len({f.code for f in ALL}) == len(ALL) >= 300
    assert len({f.package for f in ALL}) >= 10


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "f",
    [
        pytest.param(f, id=f.code[:60], marks=[] if f.code in QUICK else [pytest.mark.slow])
        for f in ALL
        if f.code in QUICK or f in SLOW
    ],
)
def test_the_gradient_is_that_of_jax_with_all_imported_that_can_be(f: PackageFunction) -> None:
    m = made(f, 9)
    want = jax.jit(jax.grad(m.fun, m.wanted))(*m.args)
    got = jax.jit(jax.grad(rewritten(m.fun, m.wanted, gain=None), m.wanted))(*m.args)
    assert apart(got, want) < 2e-3


@pytest.mark.filterwarnings("ignore")
def test_losses_of_dense_models_are_fine() -> None:
    f = PackageFunction("optax.softmax_cross_entropy(x @ chain, onehot)")
    made(f, 8)
    assert str(linted(f, (16, 64), compiled=False)).startswith("optax.softmax_cross_entropy: fine, ")
