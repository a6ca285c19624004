"""Random JAX functions, written as source: jax.numpy calls on arrays of small, odd sizes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]

UNARY = ["jnp.sin({0})", "jnp.tanh({0})", "jnp.exp(-{0} ** 2)", "{0} ** 2", "jax.nn.relu({0})", "jnp.abs({0})",
         "jax.nn.sigmoid({0})", "jnp.log1p({0} ** 2)", "jnp.sqrt({0} ** 2 + 1)", "jax.nn.softplus({0})", "-{0}",
         "jnp.where({0} > 0.1, {0}, 0.3 * {0})", "jnp.clip({0}, -0.7, 0.9)", "jnp.arctan({0})", "jax.nn.gelu({0})",
         "jnp.maximum({0}, 0.2)", "{0} / (1 + {0} ** 2)", "jnp.square({0} - 0.5)", "jax.nn.silu({0})", "1 - {0}",
         "jnp.expm1(0.3 * {0})", "jax.lax.stop_gradient({0}) * {0}", "jax.nn.elu({0})",
         "jnp.cos({0}) * {0}"]  # fmt: skip
BINARY = ["{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} / (1 + {1} ** 2)", "jnp.maximum({0}, {1})",
          "jnp.where({1} < 0, {0}, {1})", "jnp.minimum({0}, {1})", "jnp.hypot({0} + 2.1, {1})",
          "jnp.logaddexp({0}, {1})",
          "jnp.where({0} >= {1}, {0} * {1}, 0)", "jnp.arctan2({0}, {1} ** 2 + 0.5)"]  # fmt: skip


@dataclass
class Writer:
    """A function in the making: names of arrays, their shapes, and the lines."""

    rng: random.Random
    arrays: list[tuple[str, Shape]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, code: str, shape: Shape) -> None:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {code}")
        self.arrays.append((name, shape))

    def pick(self, rank: int | None = None) -> tuple[str, Shape] | None:
        found = [a for a in self.arrays if rank is None or len(a[1]) == rank]
        return self.rng.choice(found[-6:] if self.rng.random() < 0.8 else found) if found else None

    def step(self) -> None:
        kinds = ["unary", "binary", "reduce", "move", "matrix", "place", "mask", "update", "scan", "softmax"]
        getattr(self, self.rng.choice([*kinds, "unary", "binary", "matrix"]))()

    def unary(self) -> None:
        name, shape = self.pick() or ("x", ())
        self.add(self.rng.choice(UNARY).format(name), shape)

    def binary(self) -> None:
        a, shape = self.pick() or ("x", ())
        others = [n for n, s in self.arrays if s == shape or (s and shape[-len(s) :] == s) or not s]
        b = self.rng.choice(others)
        self.add(self.rng.choice(BINARY).format(a, b), shape)

    def reduce(self) -> None:
        a, shape = self.pick() or ("x", ())
        if not shape:
            return
        d = self.rng.randrange(len(shape))
        op = self.rng.choice(["sum", "mean", "max", "min", "sum", "var", "logsumexp", "prod", "cumsum", "norm"])
        rest = shape[:d] + shape[d + 1 :]
        if op == "cumsum":
            self.add(f"jnp.cumsum({a}, axis={d})", shape)
        elif op == "logsumexp":
            self.add(f"jax.nn.logsumexp({a}, axis={d})", rest)
        elif op == "norm":
            self.add(f"jnp.sqrt(jnp.sum({a} ** 2, axis={d}) + 0.1)", rest)
        else:
            self.add(f"jnp.{op}({a}, axis={d})", rest)

    def softmax(self) -> None:
        a, shape = self.pick() or ("x", ())
        if shape:
            self.add(
                f"jax.nn.{self.rng.choice(['softmax', 'log_softmax'])}({a}, axis={self.rng.randrange(len(shape))})",
                shape,
            )

    def move(self) -> None:
        a, shape = self.pick() or ("x", ())
        if not shape:
            self.add(f"{a} * jnp.ones(3)", (3,))
            return
        d, n = 0, shape[0]
        choice = self.rng.randrange(11)
        if choice == 0 and len(shape) == 2:
            self.add(f"{a}.T", shape[::-1])
        elif choice == 1 and n > 1:
            self.add(f"{a}[1:]", (n - 1, *shape[1:]))
        elif choice == 2:
            self.add(f"jnp.flip({a}, {d})", shape)
        elif choice == 3:
            self.add(f"jnp.concatenate([{a}, 2 * {a}], axis={d})", (2 * n, *shape[1:]))
        elif choice == 4:
            self.add(f"jnp.pad({a}, {[(1, 0)] + [(0, 0)] * (len(shape) - 1)})", (n + 1, *shape[1:]))
        elif choice == 5:
            self.add(f"{a}.reshape(-1)", (int(np.prod(shape)),))
        elif choice == 6:
            self.add(f"jnp.stack([{a}, jnp.sin({a})], axis={len(shape)})", (*shape, 2))
        elif choice == 7:
            self.add(f"{a}[::2]", ((n + 1) // 2, *shape[1:]))
        elif choice == 8:
            self.add(f"jnp.roll({a}, 1, axis={d})", shape)
        elif choice == 9 and len(shape) == 1:
            self.add(f"jnp.tile({a}, 2)", (2 * n,))
        elif choice == 10 and len(shape) == 1:
            self.add(f"jnp.repeat({a}, 2)", (2 * n,))

    def matrix(self) -> None:
        a, shape = self.pick(2) or (None, ())
        if a is None:
            v, s = self.pick(1) or ("x", (1,))
            self.add(
                self.rng.choice(["jnp.diag({0})", "jnp.outer({0}, {0})", "{0}[:, None] - {0}"]).format(v), (s[0], s[0])
            )
            return
        m, n = shape
        b = self.rng.choice([name for name, s in self.arrays if s == shape])
        choice = self.rng.randrange(7)
        if choice == 0:
            self.add(f"{a} @ {b}.T / {n}", (m, m))
        elif choice == 1:
            self.add(f"jnp.einsum('ij,ij->i', {a}, {b})", (m,))
        elif choice == 2 and m == n:
            self.add(f"jnp.trace({a})", ())
        elif choice == 3 and m == n:
            self.add(f"jnp.diagonal({a})", (m,))
        elif choice == 4:
            self.add(f"jnp.tril({a}, {self.rng.randint(-1, 1)})", shape)
        elif choice == 5:
            self.add(f"jnp.einsum('ij,kj->ikj', {a}, {b}).sum(0)", (m, n))
        elif choice == 6:
            self.add(f"jnp.triu({a})", shape)

    def place(self) -> None:
        a, shape = self.pick() or ("x", ())
        if not shape:
            return
        choice = self.rng.randrange(8)
        if choice == 0:
            self.add(f"{a}[i % {shape[0]}]", (4, *shape[1:]))
        elif choice == 1:
            self.add(f"{a}[{self.rng.randrange(-1, 2)}]", shape[1:])
        elif choice == 2:
            self.add(f"jnp.take({a}, i, axis=0, mode='clip')", (4, *shape[1:]))
        elif choice == 3:
            self.add(f"jnp.sort({a}, axis=0)", shape)
        elif choice == 4:
            self.add(f"jax.ops.segment_sum({a}[i % {shape[0]}], i, 3)", (3, *shape[1:]))
        elif choice == 5 and len(shape) == 2:
            self.add(f"{a}[jnp.arange({shape[0]}), jnp.argmax({a}, axis=1)]", (shape[0],))
        elif choice == 6 and shape[0] > 1:
            self.add(f"jax.lax.dynamic_slice_in_dim({a}, i[0], 1, 0)", (1, *shape[1:]))
        elif choice == 7:
            self.add(f"{a}[jnp.array([0, -1, 0])]", (3, *shape[1:]))

    def mask(self) -> None:
        a, shape = self.pick(2) or (None, ())
        if a is None:
            v, s = self.pick(1) or ("x", (1,))
            self.add(f"jnp.where(jnp.arange({s[0]}) > 0, {v}, 0)", s)
            return
        m, n = shape
        near = f"jnp.abs(jnp.arange({m})[:, None] - jnp.arange({n})) <= 1"
        choice = self.rng.randrange(4)
        if choice == 0:
            self.add(f"jnp.where({near}, {a}, 0)", shape)
        elif choice == 1 and m <= n:
            self.add(f"jax.nn.softmax(jnp.where({near}, {a}, -jnp.inf), axis=1)", shape)
        elif choice == 2:
            self.add(f"jnp.where(jnp.eye({m}, {n}, dtype=bool), 0, {a})", shape)
        elif choice == 3:
            self.add(f"jnp.where(({near}) & ({a} > 0), {a} ** 2, -{a})", shape)

    def update(self) -> None:
        a, shape = self.pick() or ("x", ())
        if not shape:
            return
        choice = self.rng.randrange(4)
        if choice == 0:
            self.add(f"{a}.at[i].add(0.5 * jnp.ones((4, *{shape[1:]})) )", shape)
        elif choice == 1:
            self.add(f"{a}.at[0].set({a}[-1] * 2)", shape)
        elif choice == 2:
            self.add(f"{a}.at[0].multiply(3.0)", shape)
        elif choice == 3:
            self.add(f"jax.lax.dynamic_update_slice_in_dim({a}, jnp.sin({a}[:1]), 0, 0)", shape)

    def scan(self) -> None:
        a, shape = self.pick() or ("x", ())
        if len(shape) >= 1:
            code = f"jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c * r), jnp.zeros({shape[1:]}), {a})"
            self.add(f"{code}[{self.rng.randrange(2)}]", shape[1:])
            if "[1]" in self.lines[-1][-3:]:
                self.arrays[-1] = (self.arrays[-1][0], shape)


def random_jax(seed: int, steps: int = 8) -> tuple[str, list[Any]]:
    """The source of a function f(x, y, i) and its arguments: a matrix, a vector, and indices, some out of range."""
    rng = random.Random(seed)
    m, n = rng.choice([1, 2, 3, 5]), rng.choice([1, 2, 3, 4])
    w = Writer(rng, [("x", (m, n)), ("y", (n,))])
    for _ in range(steps):
        w.step()
    used = [name for name, _ in w.arrays[-3:]]
    total = " + ".join(f"jnp.sum({name} * jnp.cos({name}))" for name in used)
    body = "\n    ".join(w.lines)
    source = f"def f(x, y, i):\n    {body}\n    return {total}\n"
    data = np.random.default_rng(seed)
    # halves, so that ties are frequent
    x = (data.integers(-4, 5, (m, n)) / 2).astype(np.float32)
    y = data.normal(size=n).astype(np.float32)
    i = data.integers(-2, 6, 4).astype(np.int32)
    return source, [jnp.asarray(x), jnp.asarray(y), jnp.asarray(i)]


def made(source: str) -> Any:
    """The function of that source."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(compile(source, "<random>", "exec"), names)
    return names["f"]
