"""Scalar functions as GPUs have them: by functions of the library where a backend lacks JAX's.

    log1p(x)   ->   _log1p(x), a formula of exp, log, +, -, * and /

The code of a function with loops is written with the same functions (`emit/scalars.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from tensorlang.interning import shared
from tensorlang.language.grammar import Call, Expr, ScalarFunction
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.scalar_code import Shared
from tensorlang.language.templates import named, operators, renamed
from tensorlang.lowering.kernels.ir import Kernel
from tensorlang.lowering.plan.dependence import variable
from tensorlang.scalars.code import Op, operations
from tensorlang.scalars.ops import called

_BY = {
    "jax.scipy.special.erf": "_erf",
    "jax.nn.softplus": "_softplus",
    **{f"jnp.{name}": f"_{name}" for name in ("tan", "log1p", "expm1", "sinh", "cosh", "logaddexp")},
}
_PLAIN = frozenset(
    {"abs", *_BY.values()}
    | {f"jnp.{name}" for name in ("abs", "cos", "exp", "inf", "log", "log2", "maximum", "minimum", "nan", "sign")}
    | {f"jnp.{name}" for name in ("sin", "sqrt", "tanh", "where")}
)
"""The part of `jax.numpy` that Mosaic GPU has, beside operators."""
_NOT_IN_TRITON = frozenset(
    {*(f"jax.scipy.special.{name}" for name in ("digamma", "erfc", "gammaln", "polygamma")), "jnp.round"}
)
_BESIDE = {"//": "//", "%": "%", "trunc": "jnp.trunc"}
"""Operations of functions with loops that Mosaic GPU lacks, as they are written."""


def for_gpus(kernel: Kernel) -> Kernel:
    """`kernel`, its functions as GPUs have them."""

    def made(_: Expr, new: Expr) -> Expr:
        return Call(spelled(new.function), new.arguments) if isinstance(new, Call) else new

    def with_spelled(e: Expr) -> Expr:
        return rewrite(e, lambda old: old if variable(old) is not None else None, made)

    return replace(
        kernel,
        accumulators=tuple(
            replace(acc, value=with_spelled(acc.value), tests=tuple(map(with_spelled, acc.tests)))
            for acc in kernel.accumulators
        ),
        outputs=tuple(replace(output, value=with_spelled(output.value)) for output in kernel.outputs),
    )


@shared
def spelled(f: ScalarFunction) -> ScalarFunction:
    """`f` with a source that GPUs can compute, where only that of JAX's own function is beyond them."""
    if f.shared is not None:
        return replace(f, shared=(_on_gpus(f.shared[0]), f.shared[1]))
    source = renamed(f, _BY)
    return f if source == f.source else replace(f, source=source)


@shared
def _on_gpus(of: Shared) -> Shared:
    return replace(of, name=f"{of.name}_on_gpu", on_gpus=True)  # beside those of steps that are left to jax.numpy


def beyond_mosaic(f: ScalarFunction) -> str | None:
    """What Mosaic GPU lacks to compute `f`, a function with loops, as it is spelled here; None if nothing."""
    assert f.shared is not None
    lacking = [_BESIDE[op.f] for op in _operations(f.shared[0]) if op.f in _BESIDE]
    for g in map(spelled, _called(f)):
        lacking += [name for name in named(g) if name not in _PLAIN]
        lacking += ["//" if op is ast.FloorDiv else "%" for op in operators(g) if op in (ast.FloorDiv, ast.Mod)]
    return lacking[0] if lacking else None


def beyond_triton(f: ScalarFunction) -> str | None:
    """What Triton lacks to compute `f`; None if it has all."""
    lacking = [name for g in _called(f) for name in named(g) if name in _NOT_IN_TRITON]
    if not lacking:
        return None
    return f.name if f.shared is None else f"{lacking[0]}, which {f.name} takes"


def _called(f: ScalarFunction) -> list[ScalarFunction]:
    """The functions of the table that compute `f`."""
    if f.shared is None:
        return [f]
    return list(dict.fromkeys(g for op in _operations(f.shared[0]) if (g := called(op)) is not None))


def _operations(of: Shared) -> Iterator[Op]:
    return (op for code in (of.value, of.joint) for op in operations(code.body))
