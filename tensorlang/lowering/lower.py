"""`lower`: a program for a target, and the compiled program that a call of a `Function` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import jax

from tensorlang.budget import limited
from tensorlang.errors import ArgumentError
from tensorlang.language.function import Function
from tensorlang.lowering.plan.kept import require_store
from tensorlang.lowering.plan.numbers import has_numbers
from tensorlang.lowering.run import Lowered
from tensorlang.memory import cached_whole
from tensorlang.normal.recurrences import has_recurrences
from tensorlang.surface.inline import opened

if TYPE_CHECKING:
    from tensorlang.lowering.mesh.run import Distributed, Partitioned

TARGETS = ("jax", "pallas-tpu", "pallas-gpu", "pallas-triton")


@overload
def lower(
    f: Function,
    target: str = "jax",
    exact: bool = False,
    sizes: Mapping[str, int] | None = None,
    mesh: None = None,
    sharding: None = None,
    blocks: Mapping[str, int] | None = None,
    check: bool = False,
    strict: bool = False,
    store: str = "needed",
) -> Lowered: ...


@overload
def lower(
    f: Function,
    target: str = "jax",
    exact: bool = False,
    sizes: Mapping[str, int] | None = None,
    *,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    sharding: Mapping[str, str | tuple[str, ...]],
    check: bool = False,
    strict: bool = False,
    store: str = "needed",
) -> Distributed | Partitioned: ...


@limited
def lower(
    f: Function,
    target: str = "jax",
    exact: bool = False,
    sizes: Mapping[str, int] | None = None,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None = None,
    sharding: Mapping[str, str | tuple[str, ...]] | None = None,
    blocks: Mapping[str, int] | None = None,
    check: bool = False,
    strict: bool = False,
    store: str = "needed",
) -> Lowered | Distributed | Partitioned:
    """`f` as Python source for `target`, ready to be called.

    Long correlations are computed by Fourier transforms, which round differently: their error is relative to the
    largest result. With `exact` they are sums of products. Products of several factors are ordered by what they cost at
    `sizes`, as by `simplify`; the program runs at others too.

    With a `mesh` it runs on all of its devices. `sharding` says along which axes of the mesh indices are cut into
    blocks, by their names in `f`, or by the names of the sizes that they run over: {"i": "data", "n": ("x", "y")}.
    `tensorlang.lowering.mesh` describes how each array is then cut, and what the devices send each other. In programs
    with recurrences, numbers of indices, functions from outside or choices that other devices look up, only parameters
    and results are laid out like this, and XLA distributes the rest.

    What brackets hide must be finite, or it may turn results that don't read it into nan: compiled code multiplies by
    zero where that is fastest. With `strict`, an element that no true bracket reads for a result has no influence on
    the result, whatever it is: this is finite if all that it reads is, as by `evaluate`. Sums of products that turn out
    not to be finite are computed again, by ways that select, and none by Fourier transforms. JAX's own derivative of
    such code is not strict: lower a derivative, or use `to_jax`.

    The targets "pallas-tpu" and "pallas-gpu" are kernels over tiles: see `tensorlang.lowering.kernels.run.Kernels`.
    Kernels for GPUs use Mosaic GPU where JAX and the GPU have it, else Triton; "pallas-triton" always uses Triton.
    A recurrence is one kernel that goes over the time, with its states in fast memory, if possible, and else a
    `lax.scan`; `explain()` says why.
    `blocks` has lengths of tiles along axes, by the sizes of these: {"n": 256}.

    `store` says what a recurrence keeps of its steps for one that goes back over them, such as that of an adjoint:

        "needed"  all values that are read later; nothing is computed twice
        "states"  the states, from which a step computes the rest again
        "sqrt"    the states at about the root of all times, from which the others are computed again
        "log"     the states at halves, quarters and so on of the time, as many as the binary logarithm of their number

    `tl.memory_polynomial` counts what that is. States that something else reads, too, are kept anyway.

    Calling it checks that the elements of index arrays are in their ranges, except where JAX is tracing them. With
    `check` a traced array is checked by `checkify.check`, which `jax.experimental.checkify.checkify` turns into an
    error to be thrown when the code has run.

    Raises `ArgumentError` for an unknown target, for a name that is not a size of `f`, for a `sharding`
    that names no index or size of `f`, or no axis of the mesh, for `blocks` that are invalid or of another target, and
    for `strict` code for a mesh or as kernels, for the times of a recurrence cut along a mesh, and for an unknown
    `store`.

    >>> f = tl.parse("f(x: [n]R) = sum i:n. x[i]^2")
    >>> print(tl.lower(f).explain()["result"].cost)
    2*n operations
    """
    if target not in TARGETS:
        hint = "the target 'jax' runs on every device; the others are kernels for one kind"
        raise ArgumentError(f"programs can be lowered to {', '.join(TARGETS)}, found the target {target!r}", hint=hint)
    require_store(store)
    if strict and (target != "jax" or mesh is not None or sharding is not None):
        where = "a mesh" if target == "jax" else f"the target {target!r}"
        hint = "what brackets hide must be finite there; the target 'jax' on one device takes strict=True"
        raise ArgumentError(f"no strict code is made for {where}", hint=hint)
    if mesh is None and sharding is None and target != "jax":
        from tensorlang.lowering.kernels.run import Kernels

        return Kernels(f, target, exact, sizes, blocks, check, store)
    if blocks is not None:
        hint = "the targets 'pallas-tpu' and 'pallas-gpu' are kernels"
        raise ArgumentError(f"only kernels have blocks, found the target {target!r}", hint=hint)
    if mesh is None and sharding is None:
        return Lowered(f, exact, sizes, check, strict, store)
    if mesh is None or sharding is None:
        raise ArgumentError("a mesh and a sharding are needed, or neither of them", hint='sharding={"n": "x"}')
    if target != "jax":
        raise ArgumentError(f"programs run on a mesh by the target 'jax', found {target!r}", hint="target='jax'")
    from tensorlang.lowering.mesh.run import Distributed, Partitioned, sends_choices

    if has_recurrences(opened(f)) or has_numbers(f) or sends_choices(f, mesh, sharding, sizes):
        return Partitioned(f, mesh, sharding, exact, sizes, check, store)
    return Distributed(f, mesh, sharding, exact, sizes, check)


@cached_whole
def _compiled(f: Function) -> Lowered:
    return lower(f)


def call(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of `f`, compiled once, at these arguments; `NotImplemented` where JAX traces them."""
    if any(map(_is_traced, args)) or any(map(_is_traced, kwargs.values())):
        return NotImplemented
    return _compiled(f)(*args, **kwargs)


def _is_traced(x: Any) -> bool:
    if isinstance(x, tuple | list | dict):
        return any(isinstance(part, jax.core.Tracer) for part in jax.tree.leaves(x))
    return isinstance(x, jax.core.Tracer)
