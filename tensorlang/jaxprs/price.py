"""The cost of the gradient of some equations: JAX's, that of their program, and that of the program's code.

JAX's gradient and the code are jaxprs, which are measured in the same way. The program's cost is known earlier. It
counts elements that are not 0; the code computes all elements under some masks and fewer under others, whichever is
faster at these sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from tensorlang.jaxprs.flatten import Flat, evaluate, flatten, moving, needed, read
from tensorlang.jaxprs.importer import Program, array_of
from tensorlang.jaxprs.work import JaxprWork, inner_jaxprs, program_cost, runs, work
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.pipeline import adjoint
from tensorlang.transforms.primitive import written_out
from tensorlang.transforms.recurrences import cotangents
from tensorlang.transforms.to_jax import program_of, to_jax

Run = Callable[..., list[Any]]

SCATTERED = 128
"""The operations that take as long as one number scattered by a step of a loop that scatters to several places."""


def as_function(sub: Flat) -> Run:
    """The equations as a JAX function of their inputs."""

    def run(*inputs: Any) -> list[Any]:
        env = {**sub.constants, **dict(zip(sub.inputs, inputs, strict=True))}
        evaluate(sub.equations, env)
        return [read(v, env) for v in sub.outputs]

    return run


def as_program(program: Program) -> Callable[[dict[Any, Any]], list[Any]]:
    """The program as a JAX function of the values of variables, including those that it reads."""
    call = to_jax(program.function)
    dtype = program.flat.outputs[0].aval.dtype

    def run(env: dict[Any, Any]) -> list[Any]:
        found = call(**{name: array_of(s, env, dtype) for name, s in program.sources.items()})
        return list(found) if isinstance(found, tuple) else [found]

    return run


def traffic(sub: Flat, wanted: Sequence[Any]) -> int:
    """The numbers that are read and written."""
    return sum(math.prod(v.aval.shape) for v in (*sub.inputs, *sub.outputs, *wanted))


def gradient_work(sub: Flat, wanted: Sequence[Any]) -> JaxprWork:
    """The work of JAX's gradient of these equations with respect to `wanted`."""
    return _work_of_gradient(as_function(sub), sub, wanted, copies=True)


def derivable(sub: Flat, wanted: Sequence[Any]) -> list[Any]:
    """The variables among `wanted` for which JAX can compute a gradient of these equations, all at once.

    JAX differentiates a multiplying scatter only with respect to the array that it multiplies, unless its places are
    promised to be distinct.
    """
    found: list[Any] = []
    for v in wanted:
        try:
            gradient_work(sub, [*found, v])
        except Exception:  # JAX has no single class for such errors, and a user's rules may raise anything
            continue
        found.append(v)
    return found


def code_work(program: Program, wanted: Sequence[Any]) -> JaxprWork:
    """The work of the code of the program's gradient with respect to `wanted`."""
    sub = program.flat
    beforehand = needed(sub.equations, [v for s in program.sources.values() for v in s.reads])
    run = as_program(program)

    def at(*inputs: Any) -> list[Any]:
        env = {**sub.constants, **dict(zip(sub.inputs, inputs, strict=True))}
        evaluate(beforehand, env)
        return run(env)

    return _work_of_gradient(at, sub, wanted, scattered=SCATTERED)


def _work_of_gradient(
    run: Run, sub: Flat, wanted: Sequence[Any], copies: bool = False, scattered: int = 0
) -> JaxprWork:
    """The work that depends on inputs, as everything else is constant when it is compiled; but all equations count."""
    places = [sub.inputs.index(v) for v in wanted]

    def pulled(inputs: list[Any], cotangents: list[Any]) -> Any:
        def of(*moved: Any) -> Any:
            given = list(inputs)
            for k, x in zip(places, moved, strict=True):
                given[k] = x
            return run(*given)

        return jax.vjp(of, *(inputs[k] for k in places))[1](cotangents)

    closed = jax.make_jaxpr(pulled)([v.aval for v in sub.inputs], [v.aval for v in sub.outputs])
    flat = flatten(written_out(closed), lambda equation: True)
    moved = moving(flat)
    found = work(moved, copies=copies)
    found.operations["?", 0] += scattered * _scattered(moved)
    found.equations += len(flat.equations) - len(moved)
    return found


def _scattered(equations: Iterable[Any], times: int = 0) -> int:
    """The numbers that steps of loops scatter to several places at once, which XLA does one after the other."""
    found = 0
    for e in equations:
        if e.primitive.name.startswith("scatter") and math.prod(e.invars[1].aval.shape[:-1]) > 1:
            found += times * math.prod(e.invars[2].aval.shape)
        again = runs(e) * max(times, 1) if e.primitive.name == "scan" else times
        found += sum(_scattered(part.eqns, again) for part in inner_jaxprs(e))
    return found


def derived_work(program: Program, wanted: Sequence[Any]) -> int:
    """The cost of the program's adjoint for `wanted`, with inputs and outputs; relations count as full."""
    by_var = {s.var: name for name, s in program.sources.items() if s.how == "given"}
    f, names = program.function, [by_var[v] for v in wanted if v in by_var]
    if has_recurrences(f):  # the program that JAX will need, as deriving it takes long
        whole = program_of(f)
        derived = cotangents(whole, tuple(k for k, p in enumerate(whole.params) if p.name in names)).function
    else:
        derived = adjoint(f, tuple(names))
    return program_cost(derived, {}) + traffic(program.flat, wanted)
