"""The ways to compute a case's gradient, each prepared for given arguments: compiled, warm, and ready to be timed."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import tensorlang as tl
from benchmarks.case import Case, dense, points
from benchmarks.reference import blocks, gradient

OURS = "tensorlang"
PROGRAM = "tensorlang, program"
JAX = "jax.grad"
JAX_PROGRAM = "jax.jit, program"
BY_HAND = "JAX by hand"
Run = Callable[[], Any]

_MOST_BYTES = 8 * 2**30


class NotApplicable(ValueError):
    """A peer that can't compute this case, or isn't installed; the message says why."""


@dataclass(frozen=True)
class Prepared:
    """A peer ready to run: `run` waits for the result and returns it. Compiling took `seconds`."""

    run: Run
    seconds: float


Peer = Callable[[Case, Sequence[Any]], Prepared]


def _compiled(fn: Callable[..., Any], arguments: Sequence[Any]) -> Prepared:
    """`fn` compiled by XLA; results are waited for."""
    arrays = jax.tree.map(jnp.asarray, list(arguments))
    start = time.perf_counter()
    compiled = jax.jit(fn).lower(*arrays).compile()
    seconds = time.perf_counter() - start
    held: Any = compiled.memory_analysis()
    needed = held.temp_size_in_bytes + held.output_size_in_bytes
    if needed > _MOST_BYTES:
        raise NotApplicable(f"it would take {needed / 2**30:.3g} GiB of memory")
    return Prepared(lambda: jax.block_until_ready(compiled(*arrays)), seconds)


def _lowered(f: tl.Function, arguments: Sequence[Any]) -> Prepared:
    """Our generated code. The code is specialised to sparse relations; the other arguments are passed to `jax.jit`."""
    lowered, sparse = tl.lower(f), [scipy.sparse.issparse(a) for a in arguments]

    def on_points(*rest: Any) -> Any:
        given = iter(rest)
        return lowered(*(a if fixed else next(given) for a, fixed in zip(arguments, sparse, strict=True)))

    if not any(sparse):
        return _compiled(lowered, arguments)
    return _compiled(on_points, [a for a, fixed in zip(arguments, sparse, strict=True) if not fixed])


def ours(case: Case, arguments: Sequence[Any]) -> Prepared:
    """The derivative that this package derives."""
    return _lowered(case.derived, arguments)


def program(case: Case, arguments: Sequence[Any]) -> Prepared:
    """The program itself, lowered; the derivative's time is measured relative to its time."""
    return _lowered(case.function, arguments[:-1] if case.takes_cotangent else arguments)


def jax_program(case: Case, arguments: Sequence[Any]) -> Prepared:
    """The natural program under `jax.jit`."""
    given = arguments[:-1] if case.takes_cotangent else arguments
    return _compiled(lambda *args: case.program(jnp, *args), [dense(a) for a in given])


def jax_gradient(case: Case, arguments: Sequence[Any]) -> Prepared:
    """`jax.jit(jax.grad(...))` of the natural program; `vjp`, `jacfwd` or `hessian` where those are meant."""
    return _compiled(gradient(case), [dense(a) for a in arguments])


def jax_reverse(case: Case, arguments: Sequence[Any]) -> Prepared:
    """Jacobians by reverse mode."""
    if case.what != "jacobian":
        raise NotApplicable("for Jacobians only")
    fn = jax.jacrev(lambda *args: case.program(jnp, *args), case.argnums)
    return _compiled(fn, [dense(a) for a in arguments])


def jax_with_refs(case: Case, arguments: Sequence[Any]) -> Prepared:
    """`vjp(...).with_refs`: cotangents accumulated in mutable arrays."""
    if case.what != "gradient" or case.suite != "structured":
        raise NotApplicable("for gradients of the structured suite only")

    def fn(*args: Any) -> Any:
        given, cotangent = (args[:-1], args[-1]) if case.takes_cotangent else (args, jnp.float32(1))
        chosen = [given[k] for k in case.argnums]

        def of_chosen(*some: Any) -> Any:
            every = list(given)
            for k, x in zip(case.argnums, some, strict=True):
                every[k] = x
            return case.program(jnp, *every)

        refs = [jax.new_ref(jnp.zeros_like(x)) for x in chosen]
        pulled_back: Any = jax.vjp(of_chosen, *chosen)[1]
        pulled_back.with_refs(*refs)(cotangent)
        return tuple(ref[...] for ref in refs)

    return _compiled(fn, [dense(a) for a in arguments])


def by_hand(case: Case, arguments: Sequence[Any]) -> Prepared:
    """The best gradient that we can write in JAX."""
    if case.by_hand is None:
        raise NotApplicable("nobody has written one")
    return _compiled(case.by_hand, [points(a) for a in arguments])


def torch_eager(case: Case, arguments: Sequence[Any]) -> Prepared:
    """PyTorch, operation by operation."""
    return _torch(case, arguments, lambda fn: fn)


def torch_compiled(case: Case, arguments: Sequence[Any]) -> Prepared:
    """PyTorch, by `torch.compile`."""
    if case.what != "gradient":
        raise NotApplicable("for gradients only")
    torch = _installed("torch")
    return _torch(case, arguments, lambda fn: torch.compile(fn, dynamic=False))


def _torch(case: Case, arguments: Sequence[Any], compile: Callable[[Any], Any]) -> Prepared:
    torch = _installed("torch")
    tensors = [torch.tensor(np.asarray(dense(a))) for a in arguments]
    tensors = [t.long() if t.dtype == torch.int32 else t for t in tensors]
    fn = compile(case.torch or (lambda *args: case.program(torch, *args)))
    if case.what == "gradient":
        given, cotangent = (tensors[:-1], tensors[-1]) if case.takes_cotangent else (tensors, torch.tensor(1.0))
        chosen = [given[k].requires_grad_() for k in case.argnums]
        run = lambda: torch.autograd.grad(fn(*given), chosen, cotangent)
    elif case.what == "hessian":
        run = lambda: torch.func.hessian(fn, case.argnums[0])(*tensors)
    else:
        jacobian = torch.func.jacfwd(fn, case.argnums)
        if case.what == "blocks" and tensors[case.argnums[0]].numel() ** 2 > _MOST_BYTES // 4:
            raise NotApplicable("it would make a dense Jacobian")
        run = lambda: (
            tuple(blocks(torch, j) for j in jacobian(*tensors)) if case.what == "blocks" else jacobian(*tensors)
        )
    start = time.perf_counter()
    run()
    return Prepared(run, time.perf_counter() - start)


def tensorflow_compiled(case: Case, arguments: Sequence[Any]) -> Prepared:
    """TensorFlow's gradient tape over its NumPy functions, compiled by its XLA."""
    tf = _installed("tensorflow")
    if case.what != "gradient":
        raise NotApplicable("for gradients only")
    tf.experimental.numpy.experimental_enable_numpy_behavior()
    tensors = [tf.constant(np.asarray(dense(a))) for a in arguments]

    def taped(*args: Any) -> Any:
        given, cotangent = (args[:-1], args[-1]) if case.takes_cotangent else (args, None)
        chosen = [given[k] for k in case.argnums]
        with tf.GradientTape() as tape:
            tape.watch(chosen)
            value = case.program(tf.experimental.numpy, *given)
        return tape.gradient(value, chosen, output_gradients=cotangent)

    fn = tf.function(taped, jit_compile=True)
    start = time.perf_counter()
    fn(*tensors)
    return Prepared(lambda: [g.numpy() for g in fn(*tensors)], time.perf_counter() - start)


def pytensor_compiled(case: Case, arguments: Sequence[Any]) -> Prepared:
    """PyTensor's gradient of the program, a graph, compiled to C."""
    pytensor = _installed("pytensor")
    if case.what != "gradient":
        raise NotApplicable("for gradients only")
    arrays = [np.asarray(dense(a)) for a in arguments]
    symbols = [pytensor.tensor.TensorType(str(a.dtype), (None,) * a.ndim)() for a in arrays]
    given, cotangent = (symbols[:-1], symbols[-1]) if case.takes_cotangent else (symbols, None)
    value = case.program(pytensor.tensor, *given)
    scalar = value if cotangent is None else (value * cotangent).sum()
    start = time.perf_counter()
    fn = pytensor.function(symbols, pytensor.grad(scalar, [given[k] for k in case.argnums]), on_unused_input="ignore")
    fn(*arrays)
    return Prepared(lambda: fn(*arrays), time.perf_counter() - start)


def halide_compiled(case: Case, arguments: Sequence[Any]) -> Prepared:
    """Halide's reverse mode, scheduled by its autoscheduler for gradients."""
    hl = _installed("halide")
    if case.what != "gradient":
        raise NotApplicable("for gradients only")
    from benchmarks.rivals.halide_programs import gradient

    start = time.perf_counter()
    try:
        pipeline, filled = gradient(hl, case, arguments)
    except LookupError as error:
        raise NotApplicable(str(error)) from error
    seconds = time.perf_counter() - start
    buffers = [hl.Buffer(a) for a in filled]
    shapes = [np.shape(arguments[k]) for k in case.argnums]

    def run() -> Any:
        try:
            pipeline.realize(buffers)
        except hl.HalideError as error:  # a plain Exception, no subclass
            raise NotApplicable(f"Halide: {' '.join(str(error).split())}") from error
        return tuple(a.reshape(shape) for a, shape in zip(filled, shapes, strict=True))

    return Prepared(run, seconds)


def tensorgrad_compiled(case: Case, arguments: Sequence[Any]) -> Prepared:
    """tensorgrad's symbolic derivative, compiled by it to PyTorch's operations."""
    tg, torch = _installed("tensorgrad"), _installed("torch")
    if not hasattr(torch.Tensor, "names"):
        raise NotApplicable("tensorgrad isn't usable: it needs a PyTorch whose tensors have names, before 2.13")
    from benchmarks.rivals.tensorgrad_programs import derivative

    start = time.perf_counter()
    try:
        run = derivative(tg, torch, case, arguments)
    except LookupError as error:
        raise NotApplicable(str(error)) from error
    run()
    return Prepared(lambda: tuple(run()), time.perf_counter() - start)


def _installed(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise NotApplicable(f"{name} isn't installed")
    return importlib.import_module(name)


PEERS: dict[str, Peer] = {
    OURS: ours,
    PROGRAM: program,
    JAX: jax_gradient,
    JAX_PROGRAM: jax_program,
    "jax.jacrev": jax_reverse,
    "vjp.with_refs": jax_with_refs,
    BY_HAND: by_hand,
    "PyTorch": torch_eager,
    "PyTorch compiled": torch_compiled,
    "TensorFlow": tensorflow_compiled,
    "PyTensor": pytensor_compiled,
    "Halide": halide_compiled,
    "tensorgrad": tensorgrad_compiled,
}
"""By name; the first two are ours."""

QUICK = (OURS, PROGRAM, JAX, BY_HAND)
"""The peers of a quick run."""
