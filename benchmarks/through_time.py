"""`python -m benchmarks.through_time`: gradients of recurrences against `jax.grad` through `lax.scan`.

For each program, at three lengths: the operations of XLA's code for the value, for our gradient and for JAX's, our
gradient's per operation, input and output of the value, which is to be at most 4, and both times and temporary memories
as ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorlang as tl
from tensorlang.language.types import shape
from tensorlang.measure.count import count

_ROUNDS = 7


@dataclass(frozen=True)
class Recurrence:
    """A program that gives a number, the same in JAX, and its sizes but for T, the length."""

    name: str
    text: str
    jax: Callable[..., Any]
    sizes: Mapping[str, int]
    lengths: tuple[int, int, int] = (20, 200, 2000)


def _rnn(W: Any, u: Any, h: Any) -> Any:
    s, _ = lax.scan(lambda s, x: (jnp.tanh(W @ s + x), None), h, u)
    return jnp.sum(s * s)


def _heat(h: Any, k: Any, z: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        left, right = jnp.concatenate([jnp.zeros(1), s[:-1]]), jnp.concatenate([s[1:], jnp.zeros(1)])
        return s + k * (left + right - 2 * s) + x, None

    s, _ = lax.scan(step, h, z)
    return jnp.sum(s * s)


def _lstm(A: Any, B: Any, C: Any, D: Any, x: Any, h: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, o, g = (
            jax.nn.sigmoid(A @ h + x),
            jax.nn.sigmoid(B @ h + x),
            jax.nn.sigmoid(C @ h + x),
            jnp.tanh(D @ h + x),
        )
        c = f * c + i * g
        return (o * jnp.tanh(c), c), None

    (s, _), _ = lax.scan(step, (h, h), x)
    return jnp.sum(s * s)


def _gru(A: Any, B: Any, C: Any, x: Any, h: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        z, r = jax.nn.sigmoid(A @ h + x), jax.nn.sigmoid(B @ h + x)
        return (1 - z) * h + z * jnp.tanh(C @ (r * h) + x), None

    s, _ = lax.scan(step, h, x)
    return jnp.sum(s * s)


def _hmm(a: Any, e: Any, p: Any) -> Any:
    def step(state: Any, e: Any) -> Any:
        s, total = state
        f = e * (s @ a)
        z = jnp.sum(f)
        return (f / z, total + jnp.log(z)), None

    (_, total), _ = lax.scan(step, (p, 0.0), e)
    return total


def _attention(q: Any, k: Any, v: Any, g: Any) -> Any:
    def step(S: Any, x: Any) -> Any:
        q, k, v = x
        S = g * S + jnp.outer(k, v)
        return S, q @ S

    n = q.shape[1]
    _, y = lax.scan(step, jnp.zeros((n, n)), (q, k, v))
    return jnp.sum(y * y)


def _horner(a: Any, x: Any) -> Any:
    return lax.scan(lambda s, a: (s * x + a, None), 0.0, a)[0]


def _products(x: Any) -> Any:
    y = lax.scan(lambda s, x: (s * x, s * x), 1.0, x)[1]
    return jnp.sum(y * y)


def _edits(c: Any, g: Any) -> Any:
    n = c.shape[1]

    def row(r: Any, x: Any) -> Any:
        t, c = x

        def cell(z: Any, x: Any) -> Any:
            up, c, j = x
            diagonal = jnp.where(j > 0, r[j - 1], t * g)
            z = -jnp.log(jnp.exp(-z - g) + jnp.exp(-up - g) + jnp.exp(-diagonal - c))
            return z, z

        return lax.scan(cell, (t + 1) * g, (r, c, jnp.arange(n)))[1], None

    first = g * (1 + jnp.arange(n, dtype=jnp.float32))
    r, _ = lax.scan(row, first, (jnp.arange(c.shape[0], dtype=jnp.float32), c))
    return r[n - 1]


def _gate(name: str, x: str = "h[j]") -> str:
    return f"x[t, i] + sum j:n. {name}[i, j] * {x}"


PROGRAMS = (
    Recurrence(
        "tanh RNN",
        "f(W: [n][n]R, u: [T][n]R, h: [n]R) = let s = fold t:T with s = h. "
        "gen i:n. tanh(u[t, i] + sum j:n. W[i, j] * s[j]) in sum i:n. s[i] * s[i]",
        _rnn,
        {"n": 64},
    ),
    Recurrence(
        "heat equation",
        "f(h: [n]R, k: R, z: [T][n]R) = let s = fold t:T with s = h. gen i:n. s[i] + k * ([0 < i] * s[i - 1] + "
        "[i + 1 < n] * s[i + 1] - 2 * s[i]) + z[t, i] in sum i:n. s[i] * s[i]",
        _heat,
        {"n": 256},
    ),
    Recurrence(
        "LSTM",
        "f(A: [n][n]R, B: [n][n]R, C: [n][n]R, D: [n][n]R, x: [T][n]R, h: [n]R) = let s = fold t:T with h = h, c = h. "
        f"let p = gen i:n. sigmoid({_gate('A')}) in let f = gen i:n. sigmoid({_gate('B')}) in "
        f"let o = gen i:n. sigmoid({_gate('C')}) in let g = gen i:n. tanh({_gate('D')}) in "
        "let d = gen i:n. f[i] * c[i] + p[i] * g[i] in (gen i:n. o[i] * tanh(d[i]), d) in "
        "sum i:n. fst(s)[i] * fst(s)[i]",
        _lstm,
        {"n": 64},
    ),
    Recurrence(
        "GRU",
        "f(A: [n][n]R, B: [n][n]R, C: [n][n]R, x: [T][n]R, h: [n]R) = let s = fold t:T with h = h. "
        f"let z = gen i:n. sigmoid({_gate('A')}) in let r = gen i:n. sigmoid({_gate('B')}) in "
        "let q = gen i:n. r[i] * h[i] in "
        f"gen i:n. (1 - z[i]) * h[i] + z[i] * tanh({_gate('C', 'q[j]')}) in sum i:n. s[i] * s[i]",
        _gru,
        {"n": 64},
    ),
    Recurrence(
        "HMM forward",
        "f(a: [n][n]R, e: [T][n]R, p: [n]R) = snd(fold t:T with s = p, l = 0. "
        "let f = gen j:n. e[t, j] * sum i:n. s[i] * a[i, j] in let z = sum j:n. f[j] in "
        "let w = 1 / z in (gen j:n. f[j] * w, l + log(z)))",
        _hmm,
        {"n": 32},
    ),
    Recurrence(
        "linear attention",
        "f(q: [T][n]R, k: [T][n]R, v: [T][n]R, g: R) = let S = scan t:T with S = gen i:n, j:n. 0. "
        "gen i:n, j:n. g * S[i, j] + k[t, i] * v[t, j] in "
        "let y = gen t:T, j:n. sum i:n. q[t, i] * S[t, i, j] in sum t:T, j:n. y[t, j] * y[t, j]",
        _attention,
        {"n": 32},
    ),
    Recurrence("Horner", "f(a: [T]R, x: R) = fold t:T with s = 0. s * x + a[t]", _horner, {}),
    Recurrence(
        "cumulative product",
        "f(x: [T]R) = let y = scan t:T with s = 1. s * x[t] in sum t:T. y[t] * y[t]",
        _products,
        {},
    ),
    Recurrence(
        "soft edit distance",
        "f(c: [T][n]R, g: R) = let r = fold t:T with r = gen i:n. g * real(i + 1). "
        "scan j:n with z = real(t + 1) * g. -log(exp(-z - g) + exp(-r[j] - g) + "
        "([0 < j] * exp(-r[j - 1] - c[t, j]) + [j = 0] * exp(-real(t) * g - c[t, j]))) in [0 < n] * r[n - 1]",
        _edits,
        {"n": 16},
        (4, 16, 64),
    ),
)


def _arguments(f: tl.Function, sizes: Mapping[str, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    found = []
    for p in f.variables:
        dims = [a.value({s: sizes[s.name] for s in a.sizes}) for a in shape(p.type)[0]]
        scale = 1 / max(dims[-1], 1) if len(dims) == 2 and dims[0] == dims[1] else 1
        found.append(jnp.asarray(rng.uniform(0.3, 0.95, dims) * scale, jnp.float32))
    return found


def _median(run: Callable[[], Any]) -> float:
    jax.block_until_ready(run())
    found = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        jax.block_until_ready(run())
        found.append(time.perf_counter() - start)
    return float(np.min(found))


def main() -> None:
    """Print a row for each program and length."""
    print("program | T | value | gradient | JAX's | gradient / (value + in + out) | of JAX's | time | memory")
    for program in PROGRAMS:
        f = tl.parse(program.text)
        value, ours = jax.jit(tl.lower(f)), jax.jit(tl.lower(tl.grad(f)))
        for length in program.lengths:
            given = _arguments(f, {**program.sizes, "T": length})
            theirs = jax.jit(jax.grad(program.jax, tuple(range(len(given)))))
            for x, y in zip(jax.tree.leaves(ours(*given)), jax.tree.leaves(theirs(*given)), strict=True):
                np.testing.assert_allclose(x, y, rtol=2e-2, atol=1e-4 * float(jnp.max(jnp.abs(y))))
            operations = [count(run, *given).operations for run in (value, ours, theirs)]
            io = sum(x.size for x in given) + 1
            memory = [run.lower(*given).compile().memory_analysis().temp_size_in_bytes for run in (ours, theirs)]
            times = [_median(lambda run=run, given=given: run(*given)) for run in (ours, theirs)]  # type: ignore[misc]
            print(
                f"{program.name} | {length} | {operations[0]:,} | {operations[1]:,} | {operations[2]:,} | "
                f"{operations[1] / (operations[0] + io):.2f} | {operations[1] / operations[2]:.2f} | "
                f"{times[0] / times[1]:.2f} | {memory[0] / max(memory[1], 1):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
