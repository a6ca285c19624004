"""The command for control flow: branches and loops on values, ours against JAX's.

    python -m benchmarks.control [--quick] [--out FILE]

`hm_lstm_cell` is the update of an HM-LSTM cell, equation 4 of the paper on mixed-mode differentiation of broadcasts,
with its partial derivatives by c, f, i and g, in float32, n rows of n with boundary states for each row: ours against
`jax.vjp` of the same formula by `jnp.where`; `mixed` is the mixed mode of that paper, dual numbers within the reverse
pass.

`newton` is a loop that data end, and its gradient: ours by dual numbers and by the stored reverse pass, against
`jax.vjp` of a `lax.scan` of as many steps as the bound, each masked, since JAX refuses the reverse mode of
`lax.while_loop`. `loop` and `pow` are the loops of Zygote's paper, on one number, and the other rows of its table 2 are
gradients with their values against `jax.value_and_grad`. `guard` is the gradient of sqrt(x) where x > 0: against
`jnp.where`, whose gradient is nan elsewhere ("apart" says so), and `lax.cond` under `jax.vmap`.

Times are taken in turns, and given as medians of ratios; temporaries are those that the compiled code needs by XLA's
account.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tensorlang as tl

BOUND = 40
n = tl.sizes("n")


@tl.scalar
def hm_lstm_cell(c: Any, f: Any, i: Any, g: Any, before: Any, below: Any) -> Any:
    """Equation 4: update, copy or flush, by the boundary states of the step before and of the layer below."""
    if before == 0:
        if below == 1:
            return tl.sigmoid(f) * c + tl.sigmoid(i) * tl.tanh(g)
        return c
    return tl.sigmoid(i) * tl.tanh(g)


def cells(one: Any = hm_lstm_cell) -> tl.Function:
    """The cells of a layer, one for each element."""
    types: dict[str, Any] = {name: tl.R[n, n] for name in "cfig"}

    def body(c: Any, f: Any, i: Any, g: Any, before: Any, below: Any) -> Any:
        return tl.gen(n, lambda r: tl.gen(n, lambda k: one(c[r, k], f[r, k], i[r, k], g[r, k], before[r], below[r])))

    return tl.function(body, **types, before=tl.R[n], below=tl.R[n])


def cells_of_jax(c: Any, f: Any, i: Any, g: Any, before: Any, below: Any) -> Any:
    """The same by `jnp.where`."""
    new = jax.nn.sigmoid(i) * jnp.tanh(g)
    z0, z1 = before[:, None], below[:, None]
    return jnp.where(z0 == 0, jnp.where(z1 == 1, jax.nn.sigmoid(f) * c + new, c), new)


def newton(a: Any, x: Any) -> Any:
    """The square root of a, from x on."""
    while abs(x * x - a) > 1e-4 * a:
        x = 0.5 * (x + a / x)
    return x


def newton_of_jax(a: Any, x: Any) -> Any:
    """The same as a scan, which JAX can reverse."""

    def step(x: Any, _: Any) -> tuple[Any, None]:
        return jnp.where(jnp.abs(x * x - a) > 1e-4 * a, 0.5 * (x + a / x), x), None

    return lax.scan(step, jnp.broadcast_to(x, a.shape), None, BOUND)[0]


@tl.scalar(bound=1000)
def power_loop(x: Any, k: int) -> Any:
    """Zygote's pow: x ** k by multiplications."""
    r = 1.0
    while k > 0:
        k -= 1
        r *= x
    return r


@tl.scalar(bound=1000)
def decay_loop(x: Any, y: Any, k: int) -> Any:
    """A loop of multiplications and additions."""
    for _ in range(k):
        x = x * y + y
    return x


def measured(
    ours: Callable[..., Any], theirs: Callable[..., Any], given: tuple[Any, ...], rounds: int
) -> dict[str, Any]:
    """Median time of each, the median of their ratios, temporaries, and the largest difference of their results."""
    made = [jax.jit(f) for f in (ours, theirs)]
    results = [jax.tree.leaves(f(*given)) for f in made]
    # on the host, where the maximum of nans is nan
    apart = max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in zip(*results, strict=True))
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for f, took in zip(made, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(f(*given))
            took.append(time.perf_counter() - start)
    memory = [f.lower(*given).compile().memory_analysis() for f in made]
    return {
        "ours_ms": 1e3 * statistics.median(times[0]),
        "jax_ms": 1e3 * statistics.median(times[1]),
        "ratio": statistics.median(a / b for a, b in zip(*times, strict=True)),
        "ours_temporaries": int(memory[0].temp_size_in_bytes),
        "jax_temporaries": int(memory[1].temp_size_in_bytes),
        "apart": apart,
    }


def cell_row(size: int, rounds: int, mixed: bool = False) -> dict[str, Any]:
    """One row of the experiment on cells, in mixed mode or as statements of the program."""
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.normal(size=(size, size)), jnp.float32) for _ in range(5)]
    states = [jnp.asarray(rng.integers(0, 2, size), jnp.float32) for _ in range(2)]
    f = cells(tl.scalar(mode="dual")(hm_lstm_cell.body) if mixed else hm_lstm_cell)
    value, adjoint = tl.lower(f), tl.lower(tl.adjoint(f, wrt=("c", "f", "i", "g")))

    def ours(*given: Any) -> Any:
        return value(*given[:6]), adjoint(*given)

    def theirs(*given: Any) -> Any:
        made, back = jax.vjp(lambda *x: cells_of_jax(*x, *given[4:6]), *given[:4])
        return made, back(given[6])

    return measured(ours, theirs, (*arrays[:4], *states, arrays[4]), rounds)


def newton_row(mode: str, size: int, rounds: int) -> dict[str, Any]:
    """One row of the experiment on loops."""
    f_scalar = tl.scalar(bound=BOUND, mode=mode)(newton)
    f = tl.function(lambda a, x: tl.gen(n, lambda i: f_scalar(a[i], x[i])), a=tl.R[n], x=tl.R[n])
    adjoint = tl.lower(tl.adjoint(f))
    rng = np.random.default_rng(0)
    a, ones = jnp.asarray(rng.uniform(0.5, 100, size), jnp.float32), jnp.ones(size, jnp.float32)

    def theirs(a: Any, x: Any, t: Any) -> Any:
        return jax.vjp(newton_of_jax, a, x)[1](t)

    return measured(adjoint, theirs, (a, ones, ones), rounds)


def loop_row(name: str, rounds: int) -> dict[str, Any]:
    """One row on Zygote's loops: the gradient at one number, 100 trips, against JAX's of a scan."""
    trips = 100.0
    if name == "pow":
        f = tl.function(power_loop, x=tl.R, k=tl.R)
        plain = lambda x: lax.scan(lambda r, _: (r * x, None), jnp.ones_like(x), None, int(trips))[0]
    else:
        f = tl.function(lambda x, k: decay_loop(x, 0.5, k), x=tl.R, k=tl.R)
        plain = lambda x: lax.scan(lambda r, _: (r * 0.5 + 0.5, None), x, None, int(trips))[0]
    gradient = tl.lower(tl.grad(f, wrt="x"))
    return measured(lambda x: gradient(x, trips), jax.grad(plain), (jnp.float32(0.99),), rounds)


TABLE: dict[str, tuple[str, str, Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "sincos": ("f(x: R) = sin(cos(x))", "x", lambda x: jnp.sin(jnp.cos(x)), {"x": ()}),
    "logsumexp": (
        "f(x: [n]R) = let m = max i:n. x[i] in m + log(sum i:n. exp(x[i] - m))",
        "x",
        jax.nn.logsumexp,
        {"x": (100,)},
    ),
    "logistic": (
        "f(w: [m]R, X: [n][m]R, y: [n]R) = sum i:n. softplus((1 - 2 * y[i]) * sum j:m. X[i, j] * w[j])",
        "w",
        lambda w, X, y: jnp.sum(jax.nn.softplus((1 - 2 * y) * (X @ w))),
        {"w": (10,), "X": (100, 10), "y": (100,)},
    ),
    "MLP": (
        "f(A: [h][m]R, B: [k][h]R, x: [m]R, z: [k]R) = let a = gen i:h. sigmoid(sum j:m. A[i, j] * x[j]) in "
        "let b = gen i:k. sum j:h. B[i, j] * a[j] in sum i:k. (b[i] - z[i])^2",
        "A B",
        lambda A, B, x, z: jnp.sum((B @ jax.nn.sigmoid(A @ x) - z) ** 2),
        {"A": (32, 784), "B": (10, 32), "x": (784,), "z": (10,)},
    ),
}
"""The rows of Zygote's table 2 without loops: the program, the parameters to differentiate by, JAX's function, and
shapes."""


def table_row(name: str, rounds: int) -> dict[str, Any]:
    """A row of Zygote's table 2: the value with its gradient."""
    text, names, plain, shapes = TABLE[name]
    wrt = tuple(names.split())
    f = tl.parse(text)
    ours = tl.lower(tl.value_and_grad(f, wrt=wrt if len(wrt) > 1 else wrt[0]))
    rng = np.random.default_rng(0)
    given = tuple(jnp.asarray(rng.uniform(0.1, 0.9, shape), jnp.float32) for shape in shapes.values())
    places = tuple(range(len(wrt)))
    return measured(ours, jax.value_and_grad(plain, places if len(wrt) > 1 else 0), given, rounds)


def guard_row(by: str, size: int, rounds: int) -> dict[str, Any]:
    """The gradient of sqrt(x) where x > 0, against that of `jnp.where` or `lax.cond`."""
    f = tl.parse("f(x: [n]R) = sum i:n. if x[i] > 0 then sqrt(x[i]) else 0")
    if by == "where":
        plain = lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0))
    else:
        one = lambda x: lax.cond(x > 0, jnp.sqrt, lambda x: 0.0, x)
        plain = lambda x: jnp.sum(jax.vmap(one)(x))
    x = jnp.asarray(np.random.default_rng(0).normal(size=size), jnp.float32)
    return measured(tl.lower(tl.grad(f)), jax.grad(plain), (x,), rounds)


def refusal() -> str:
    """What JAX says of the reverse mode of a loop that data end."""
    try:
        jax.grad(lambda a: lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-3, lambda x: 0.5 * (x + a / x), 1.0))(2.0)
    except ValueError as error:
        return str(error).split(". ")[0]
    return "nothing"


@click.command()
@click.option("--quick", is_flag=True, help="Small sizes, few rounds.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the rows as JSON.")
def main(quick: bool, out: Path | None) -> None:
    """Branches and loops on values: ours against JAX's."""
    rounds = 3 if quick else 25
    rows: dict[str, dict[str, Any]] = {}
    for size in (64,) if quick else (512, 1024, 2048):
        rows[f"cell, n = {size}"] = cell_row(size, rounds)
        rows[f"mixed, n = {size}"] = cell_row(size, rounds, mixed=True)
    for mode in ("dual", "reverse"):
        rows[f"newton, {mode}"] = newton_row(mode, 100 if quick else 100_000, rounds)
    for name in ("loop", "pow"):
        rows[name] = loop_row(name, rounds)
    for name in TABLE:
        rows[name] = table_row(name, rounds)
    for by in ("where", "cond"):
        rows[f"guard, {by}"] = guard_row(by, 100 if quick else 1_000_000, rounds)
    click.echo(f"{'':18} {'ours ms':>9} {'JAX ms':>9} {'ratio':>6} {'temporaries, bytes':>24} {'apart':>8}")
    for name, row in rows.items():
        memory = f"{row['ours_temporaries']:,} / {row['jax_temporaries']:,}"
        click.echo(
            f"{name:18} {row['ours_ms']:9.3f} {row['jax_ms']:9.3f} {row['ratio']:6.2f} {memory:>24} {row['apart']:8.1e}"
        )
    click.echo(f"jax.grad of lax.while_loop: {refusal()}")
    if out is not None:
        out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
