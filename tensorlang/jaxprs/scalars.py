"""Scalar functions that JAX programs need: with JAX's derivatives at ties, and values without a derivative."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tensorlang.language.functions import call, functions, register
from tensorlang.language.grammar import Add, Expr, Mul, number

_LISTED = "fmod times_log xlog1py frozen right_abs even_max even_min"
NAMES = frozenset(_LISTED.split())
"""Their names. They are registered once a JAX function has been imported."""


def _special(name: str) -> Any:
    def evaluate(*x: Any) -> Any:
        import jax

        with jax.ensure_compile_time_eval():  # it is also needed inside of other traces
            return np.asarray(getattr(jax.scipy.special, name)(*x))

    return evaluate


def ensure() -> None:
    """Register them, unless the language has them already."""
    one = number(1)
    mul = Mul
    known = functions()

    def add(a: Expr, b: Expr) -> Expr:
        return Add(a, b, 1)

    def have(name: str, **rest: Any) -> None:
        if name not in known:
            register(name, **rest)

    have("fmod", arity=2, cost=4, evaluate=np.fmod, source="jnp.fmod({0}, {1})", transpose=_fmod)
    have("times_log", arity=2, cost=3, evaluate=_special("xlogy"), source="jax.scipy.special.xlogy({0}, {1})",
         transpose=lambda x, y, t: [mul(call("log", x[1]), t), mul(mul(x[0], call("recip", x[1])), t)])  # fmt: skip
    have("xlog1py", arity=2, cost=3, evaluate=_special("xlog1py"), source="jax.scipy.special.xlog1py({0}, {1})",
         transpose=lambda x, y, t: [mul(call("log1p", x[1]), t),
                                    mul(mul(x[0], call("recip", add(one, x[1]))), t)])  # fmt: skip
    # its value, without a derivative
    have("frozen", evaluate=lambda x: x, exact=lambda x: x, source="jax.lax.stop_gradient({0})",
         transpose=lambda x, y, t: [None])  # fmt: skip
    # the derivative at 0 is that from the right, as in JAX
    have("right_abs", evaluate=np.abs, exact=abs, source="jnp.abs({0})",
         transpose=lambda x, y, t: [Add(call("where_ge", x[0], number(0), t),
                                        call("where_gt", number(0), x[0], t), -1)])  # fmt: skip
    # the greater and the lesser; equal arguments share the cotangent
    have("even_max", arity=2, cost=3, evaluate=np.maximum, exact=max, source="jnp.maximum({0}, {1})",
         transpose=lambda x, y, t: [_share(x[0], x[1], t), _share(x[1], x[0], t)])  # fmt: skip
    have("even_min", arity=2, cost=3, evaluate=np.minimum, exact=min, source="jnp.minimum({0}, {1})",
         transpose=lambda x, y, t: [_share(x[1], x[0], t), _share(x[0], x[1], t)])  # fmt: skip


def _share(a: Expr, b: Expr, t: Expr) -> Expr:
    """t where a > b, half of it where they are equal."""
    return Mul(number(Fraction(1, 2)), Add(call("where_ge", a, b, t), call("where_gt", a, b, t), 1))


def _fmod(x: tuple[Expr, ...], y: Expr, t: Expr) -> list[Expr]:
    ratio = Mul(x[0], call("recip", x[1]))
    return [t, Mul(Mul(number(-1), t), Mul(call("sign", ratio), call("floor", call("abs", ratio))))]
