"""The meaning of the names in `table`: packages, arrays of a size, and how a layer becomes a function of its
parameters."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.packages.table import TABLE


class Missing(Exception):
    """A package is not installed."""


MODULES = {
    "optax": "optax", "eqx": "equinox", "linen": "flax.linen", "nnx": "flax.nnx", "hk": "haiku", "jaxopt": "jaxopt",
    "rlax": "rlax", "distrax": "distrax", "npd": "numpyro.distributions", "tinygp": "tinygp",
    "tfd": "tensorflow_probability.substrates.jax.distributions",
    "tfk": "tensorflow_probability.substrates.jax.math.psd_kernels",
    "tfb": "tensorflow_probability.substrates.jax.bijectors", "energy": "jax_md.energy", "space": "jax_md.space",
    "hmm": "dynamax.hidden_markov_model", "ssm": "dynamax.linear_gaussian_ssm", "chex": "chex",
}  # fmt: skip
"""The modules that expressions name; their first words are the packages."""

FEATURES = 16


@dataclass(frozen=True)
class Made:
    """A scalar JAX function at one size, and arguments. It is differentiated by all floats among them."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]

    @property
    def wanted(self) -> tuple[int, ...]:
        """The arguments that hold floats."""
        return tuple(
            k
            for k, x in enumerate(self.args)
            if any(jnp.issubdtype(jnp.asarray(leaf).dtype, np.floating) for leaf in jax.tree.leaves(x))
        )


@dataclass(frozen=True)
class PackageFunction:
    """A function of a package: an expression in the names of the pool; `source` is the function or class that it
    calls."""

    code: str

    @property
    def source(self) -> str:
        """The name of the function or class, such as optax.huber_loss."""
        found = re.search(r"\b(" + "|".join(MODULES) + r")\.([\w.]+)", self.code)
        assert found is not None, self.code
        return f"{MODULES[found[1]]}.{found[2]}"

    @property
    def package(self) -> str:
        """The package's name for import."""
        return self.source.split(".")[0]

    def make(self, n: int) -> Made:
        """The function and arguments of the size n. Raises `Missing`."""
        names = arrays(n)
        known = {**{name: _module(MODULES[name]) for name in self._named()}, **_TOOLS, "n": n}
        code, _, inputs = self.code.partition(" | ")
        if inputs:
            return _layer(self._named()[0], lambda: eval(code, known), [names[word] for word in inputs.split()])
        compiled = compile(code, "<table>", "eval")
        used = [name for name in names if name in code_names(compiled)]

        def call(*given: Any) -> Any:
            return eval(compiled, {**known, **dict(zip(used, given, strict=True))})

        return Made(_scalar(call), tuple(names[name] for name in used))

    def _named(self) -> list[str]:
        """The modules that the code names, in order."""
        found = re.findall(r"\b(\w+)\.", self.code)
        return [name for name in dict.fromkeys(found) if name in MODULES]


def code_names(code: Any) -> set[str]:
    """The names that compiled code reads, in functions within it too."""
    found = set(code.co_names)
    for part in code.co_consts:
        if hasattr(part, "co_names"):
            found |= code_names(part)
    return found


def functions() -> list[PackageFunction]:
    """All functions of the table."""
    return [PackageFunction(line.strip()) for line in TABLE.splitlines() if line.strip() and line.strip()[0] != "#"]


@cache
def _module(path: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of packages that are older than this JAX
        try:
            return importlib.import_module(path)
        except ImportError as why:
            raise Missing(f"{path} is not installed: {why}") from None


def arrays(n: int) -> dict[str, Any]:
    """The arrays that expressions name, of the size n.

    x, y, z: n by 16; v, w: n; a, b, c: n positive ones; u: n between 0 and 1; s: n by n; positive definite: spd;
    X: n points in 3 dimensions on a lattice that is disturbed; img: 4 channels of 16 by n; seq: n steps of 8 numbers;
    k, labels: whole numbers up to 15; t: one number; simplex: n by 16 that add up to 1, chain: 16 by 16 of them.
    """
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    def uniform(lo: float, hi: float, *shape: int) -> Any:
        return jnp.asarray(rng.uniform(lo, hi, size=shape), jnp.float32)

    m = FEATURES
    s = normal(n, n)
    side = int(np.ceil(n ** (1 / 3)))
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    whole = jnp.asarray(rng.integers(0, m, size=n), jnp.int32)
    return {
        "x": normal(n, m), "y": normal(n, m), "z": normal(n, m), "v": normal(n), "w": normal(n), "r": normal(n),
        "a": uniform(0.5, 2, n), "b": uniform(0.5, 2, n), "c": uniform(2.5, 4, n), "u": uniform(0.1, 0.9, n),
        "s": s, "spd": s @ s.T / n + jnp.eye(n), "tril": jnp.tril(s) / n + jnp.eye(n), "tall": normal(n, 4),
        "X": jnp.asarray(lattice * 1.3 + rng.normal(size=(n, 3)) * 0.05, jnp.float32), "img": normal(4, m, n),
        "batch": normal(8, m, n, 4), "seq": normal(n, 8), "seqs": normal(4, n, 8), "signal": normal(4, n),
        "k": whole, "labels": whole, "t": jnp.float32(0.7), "t2": jnp.float32(1.3),
        "simplex": jax.nn.softmax(normal(n, m)), "chain": jax.nn.softmax(normal(m, m)),
        "start": jax.nn.softmax(normal(m)),
        "onehot": jax.nn.one_hot(whole, m), "signs": jnp.sign(normal(n)), "bits": jnp.asarray(rng.integers(0, 2, n)),
        "means": normal(m), "state": (normal(m), normal(m)), "scales": uniform(0.5, 2, m),
        "cube": normal(m, m, 8), "small": uniform(0.1, 0.9, n, m),
        "discounts": uniform(0.8, 1, n), "times": jnp.asarray(np.sort(rng.uniform(0, n / 4, n)), jnp.float32),
        "bins": jnp.linspace(-3.0, 3.0, m), "probs": jax.nn.softmax(normal(m)), "volume": normal(4, m, 8, n),
    }  # fmt: skip


def _scalar(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself if its result is a number, else the sum of the sines of its results, which no normalisation
    cancels."""

    def scalar(*args: Any) -> Any:
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(fun(*args))]
        leaves = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, np.floating)]
        if len(leaves) == 1 and leaves[0].ndim == 0:
            return leaves[0]
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in leaves)

    return scalar


def _layer(module: str, build: Callable[[], Any], given: list[Any]) -> Made:
    """A layer as a function of its parameters and inputs."""
    key = jax.random.key(0)
    apply: Callable[..., Any]
    match module:
        case "nnx":
            nnx = _module(MODULES[module])
            graph, params, rest = nnx.split(build(), nnx.Param, ...)
            apply = lambda p, *xs: nnx.merge(graph, p, rest)(*xs)
        case "linen":
            layer = build()
            variables = dict(layer.init(key, *given))
            params = variables.pop("params", {})
            apply = lambda p, *xs: layer.apply({"params": p, **variables}, *xs, mutable=list(variables))[0]
        case "hk":
            hk = _module(MODULES[module])
            pure = hk.transform_with_state(lambda *xs: build()(*xs))  # noqa: PLW0108  (modules are built within)
            params, state = pure.init(key, *given)
            apply = lambda p, *xs: pure.apply(p, state, key, *xs)[0]
        case _:
            eqx = _module("equinox")
            params, static = eqx.partition(build(), eqx.is_inexact_array)
            apply = lambda p, *xs: eqx.combine(p, static)(*xs)
    return Made(_scalar(apply), (params, *given))


_TOOLS: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "key": jax.random.key(0)}
