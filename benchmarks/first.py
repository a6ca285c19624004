"""The time until the first gradient is lowered, beside JAX's: CPU seconds, each figure from a separate process.

    python -m benchmarks.first                        our way, the way of a second process, JAX's; all families
    python -m benchmarks.first --only chain --count 400

    ours      text -> program -> gradient -> code -> traced and lowered
    again     the same in a process that finds on disk what another has made
    to_jax    text -> program -> jax.grad of it, traced and lowered
    JAX       jax.jit(jax.grad(f)) of the same program in JAX, traced and lowered

Neither imports nor JAX's work once per process are counted: a program of the family with two statements goes first.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import jax
import jax.numpy as jnp

import tensorlang as tl
from benchmarks.statements import FAMILIES as TEXTS

WAYS = ("ours", "again", "to_jax", "JAX")


@dataclass(frozen=True)
class Family:
    """Programs with a given number of statements: as text, in JAX, and the shapes of their arguments."""

    text: Callable[[int], str]
    jax: Callable[[int], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    pairs: bool = False


def _chain(k: int) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        y = x * x
        for _ in range(k):
            y = jnp.sin(y) * x
        return y.sum()

    return f


def _layers(k: int) -> Callable[..., Any]:
    def f(a: Any, y: Any) -> Any:
        for _ in range(k):
            y = a @ y
        return y.sum()

    return f


def _stencils(k: int) -> Callable[..., Any]:
    def f(u: Any) -> Any:
        for _ in range(k):
            u = jnp.pad(u[:-2] + u[2:], 1)
        return u.sum()

    return f


def _convolutions_text(k: int) -> str:
    step = "let y{b} = gen i:n. sum j:m. [j <= i] * y{a}[i - j] * w[j] in "
    steps = "".join(step.format(a=i, b=i + 1) for i in range(k))
    return f"convolutions(y0: [n]R, w: [m]R) = {steps} sum i:n. y{k}[i]"


def _convolutions(k: int) -> Callable[..., Any]:
    def f(y: Any, w: Any) -> Any:
        for _ in range(k):
            y = jnp.convolve(y, w)[: len(y)]
        return y.sum()

    return f


def _pairs_text(k: int) -> str:
    step = "let p{b} = (gen i:n. fst(p{a})[i] * snd(p{a})[i], gen i:n. fst(p{a})[i] + snd(p{a})[i]) in "
    steps = "".join(step.format(a=i, b=i + 1) for i in range(k))
    return f"pairs(p0: ([n]R, [n]R)) = {steps} sum i:n. fst(p{k})[i] * snd(p{k})[i]"


def _pairs(k: int) -> Callable[..., Any]:
    def f(p: Any) -> Any:
        for _ in range(k):
            p = p[0] * p[1], p[0] + p[1]
        return (p[0] * p[1]).sum()

    return f


def _attention_text(k: int) -> str:
    step = (
        "let s{b} = gen i:n, j:n. [j <= i] * exp(sum d:m. y{a}[i, d] * y{a}[j, d]) in "
        "let z{b} = gen i:n. sum j:n. s{b}[i, j] in "
        "let y{b} = gen i:n, d:m. sum j:n. s{b}[i, j] * y{a}[j, d] / z{b}[i] in "
    )
    count = max(1, k // 3)
    steps = "".join(step.format(a=i, b=i + 1) for i in range(count))
    return f"attention(y0: [n][m]R) = {steps} sum i:n, d:m. y{count}[i, d]"


def _attention(k: int) -> Callable[..., Any]:
    def f(y: Any) -> Any:
        for _ in range(max(1, k // 3)):
            s = jnp.tril(jnp.exp(y @ y.T))
            y = s @ y / s.sum(1)[:, None]
        return y.sum()

    return f


def _mixture_text(k: int) -> str:
    """The log-density of a mixture of Gaussians, one after the other."""
    step = (
        "let d{b} = gen i:n. sum j:m. (x[i, j] - c[j] * {b})^2 in let e{b} = gen i:n. exp(-d{b}[i] * s) + e{a}[i] in "
    )
    count = max(1, k // 2)
    steps = "".join(step.format(a=i, b=i + 1) for i in range(count))
    return f"mixture(x: [n][m]R, c: [m]R, s: R) = let e0 = gen i:n. 0 in {steps} sum i:n. log(e{count}[i])"


def _mixture(k: int) -> Callable[..., Any]:
    def f(x: Any, c: Any, s: Any) -> Any:
        e = jnp.zeros(len(x))
        for b in range(1, max(1, k // 2) + 1):
            e = jnp.exp(-((x - c * b) ** 2).sum(1) * s) + e
        return jnp.log(e).sum()

    return f


FAMILIES: dict[str, Family] = {
    "chain": Family(TEXTS["chain"], _chain, ((30,),)),
    "layers": Family(TEXTS["layers"], _layers, ((30, 30), (30,))),
    "stencils": Family(TEXTS["stencils"], _stencils, ((32,),)),
    "convolutions": Family(_convolutions_text, _convolutions, ((30,), (5,))),
    "pairs": Family(_pairs_text, _pairs, ((30,), (30,)), True),
    "attention": Family(_attention_text, _attention, ((30, 7),)),
    "mixture": Family(_mixture_text, _mixture, ((30, 7), (7,), ())),
}


def seconds(family: str, count: int, way: str) -> list[float]:
    """CPU seconds of the stages of one way, in this process."""
    found: list[float] = []
    given = FAMILIES[family]
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in given.shapes]
    arguments: tuple[Any, ...] = (tuple(shapes),) if given.pairs else tuple(shapes)
    places = tuple(range(len(arguments)))
    for k in (2, count):
        f = given.jax(k)
        text = given.text(k)
        marks = [time.process_time()]
        if way == "JAX":
            traced = jax.jit(jax.grad(f, places)).trace(*arguments)
        elif way == "to_jax":
            program = tl.parse(text)
            marks.append(time.process_time())
            traced = jax.jit(jax.grad(tl.to_jax(program), places)).trace(*arguments)
        else:
            program = tl.parse(text)
            marks.append(time.process_time())
            gradient = tl.grad(program)
            marks.append(time.process_time())
            lowered = tl.lower(gradient)
            marks.append(time.process_time())
            traced = jax.jit(lowered).trace(*arguments)
        marks.append(time.process_time())
        traced.lower()
        marks.append(time.process_time())
        found = [b - a for a, b in itertools.pairwise(marks)]
    return found


def measured(family: str, count: int, way: str) -> list[float]:
    """The same in a process of its own; for `again` the second of two."""
    if way != "again":
        return _asked(family, count, way, "off")
    with tempfile.TemporaryDirectory() as where:
        _asked(family, count, "ours", where)
        return _asked(family, count, "ours", where)


def _asked(family: str, count: int, way: str, cache: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first", "--one", family, str(count), way],
        env={**os.environ, "TENSORLANG_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


@click.command()
@click.option("--only", default="", help="Only the families whose names contain this.")
@click.option("--count", "counts", multiple=True, type=int, default=(10, 100, 1000), show_default=True)
@click.option("--one", nargs=3, hidden=True)
def main(only: str, counts: tuple[int, ...], one: tuple[str, str, str] | None) -> None:
    """Print the seconds, and how many times JAX's they are."""
    if one is not None:
        click.echo(json.dumps(seconds(one[0], int(one[1]), one[2])))
        return
    click.echo(f"{'family':13}{'statements':>10}" + "".join(f"{way:>16}" for way in WAYS))
    for family in FAMILIES:
        if only in family:
            for count in counts:
                totals = {way: sum(measured(family, count, way)) for way in WAYS}
                cells = [f"{s:8.3f} ({s / totals['JAX']:4.1f})" for s in totals.values()]
                click.echo(f"{family:13}{count:10}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
