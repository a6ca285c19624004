"""Scalar functions as GPUs have them: by functions of the library where a backend lacks JAX's.

    log1p(x)   ->   _log1p(x), a formula of exp, log, +, -, * and /

What a function with loops computes is rewritten in the same way. Mosaic GPU sums a tile to a number one axis after the
other, so whether a loop has ended everywhere is asked so.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tensorlang.interning import shared
from tensorlang.language.grammar import Call, Expr, ScalarFunction
from tensorlang.language.rebuilt import rewrite
from tensorlang.lower.kernels.ir import Kernel
from tensorlang.lower.plan.dependence import variable

_BY = {
    "jax.scipy.special.erf": "_erf",
    "jax.nn.softplus": "_softplus",
    **{f"jnp.{name}": f"_{name}" for name in ("tan", "log1p", "expm1", "sinh", "cosh", "logaddexp")},
    "jnp.logical_not": "_no",
}
_ALL_ENDED = ("jnp.max(state[0], initial=0) > 0", "_in_some_place(state[0] > 0)")
_NAMES = re.compile(r"\b(?:jnp|jax(?:\.\w+)+)\.\w+")
_PLAIN = frozenset(
    {"abs", "broadcast_arrays", "cos", "exp", "full_like", "inf", "log", "log2", "logical_and", "logical_or", "maximum"}
    | {"minimum", "nan", "ones", "result_type", "sign", "sin", "sqrt", "tanh", "where", "zeros_like"}
)
"""What Mosaic GPU has of `jax.numpy`, beside operators."""
_NOT_IN_TRITON = frozenset(
    {*(f"jax.scipy.special.{name}" for name in ("digamma", "erfc", "gammaln", "polygamma")), "jnp.round"}
)


def for_gpus(kernel: Kernel) -> Kernel:
    """`kernel`, its functions as GPUs have them."""

    def made(_: Expr, new: Expr) -> Expr:
        return Call(_spelled(new.function), new.arguments) if isinstance(new, Call) else new

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
def _spelled(f: ScalarFunction) -> ScalarFunction:
    changed = f if (source := _with_ours(f.source)) == f.source else replace(f, source=source)
    if f.shared is None:
        return changed
    of, place = f.shared
    name = f"{of.name}_on_gpu"  # beside those of steps that are left to jax.numpy
    value, joint = (_with_ours(code).replace(f"def _{of.name}", f"def _{name}", 1) for code in (of.value, of.joint))
    return replace(changed, shared=(replace(of, name=name, value=value, joint=joint), place))


def _with_ours(code: str) -> str:
    return _NAMES.sub(lambda found: _BY.get(found[0], found[0]), code).replace(*_ALL_ENDED)


def beyond_mosaic(f: ScalarFunction) -> str | None:
    """What the code of a function with loops, as it is spelled here, has that Mosaic GPU lacks; None if it has all."""
    lacking = [name for name in _named(f) if name.removeprefix("jnp.") not in _PLAIN]
    lacking += [operator.strip() for operator in (" // ", " % ") if operator in _code(f)]
    return lacking[0] if lacking else None


def beyond_triton(f: ScalarFunction) -> str | None:
    """What Triton lacks to compute `f`; None if it has all."""
    lacking = [name for name in _named(f) if name in _NOT_IN_TRITON]
    if not lacking:
        return None
    return f.name if f.shared is None else f"{lacking[0]}, which {f.name} takes"


def _code(f: ScalarFunction) -> str:
    return f.source if f.shared is None else f.shared[0].value + f.shared[0].joint


def _named(f: ScalarFunction) -> list[str]:
    """What a function takes of JAX."""
    return list(dict.fromkeys(_NAMES.findall(_code(f))))
