"""Whether equations are dense, which is known before a program of them is simplified or derived.

They are where products are of numbers that are not repeated, and where what comes out is read whole by functions that
no law moves a sum across. Then no part of the value is 0, computed twice or unread, and its gradient takes about

    (value of each equation) * (1 + operands with derivatives of a product, or 1 of all else).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import IntEnum
from typing import Any

from jax.extend import core

from tensorlang.jaxprs.flatten import Flat, has_rule
from tensorlang.jaxprs.work import PRODUCTS, work

PADDED = 0.2
"""The share of a convolution's taps that may lie in the padding, where they read zeros."""

_FUNCTIONS = (
    "sin cos tan tanh sinh cosh exp exp2 expm1 log log1p logistic erf erfc sqrt rsqrt cbrt lgamma digamma asin acos "
    "atan asinh acosh atanh"
)
_OPAQUE = frozenset(_FUNCTIONS.split())
_ELEMENTWISE = frozenset(["add", "add_any", "sub", "mul", "div", "neg", "integer_pow", "square", "max", "min"])
_MOVED = "reshape squeeze transpose expand_dims convert_element_type copy copy_p rev broadcast_in_dim tile"
_KEEPS = frozenset(_MOVED.split())
_REPEATS = _ELEMENTWISE | {"broadcast_in_dim", "tile"}
"""Primitives that repeat what is smaller than their results."""
_REDUCES = frozenset(["reduce_sum", "reduce_max", "reduce_min"])


class _Kind(IntEnum):
    """What an array holds: given numbers, others of which each is computed once, sums and products that a law may take
    apart, numbers that are repeated along an axis."""

    GIVEN = 0
    NUMBERS = 1
    MIXED = 2
    REPEATED = 3


def is_dense(flat: Flat) -> bool:
    """Whether these equations are dense."""
    kinds: dict[Any, _Kind] = {v: _Kind.GIVEN for v in (*flat.inputs, *flat.constants)}
    for e in flat.equations:
        given = []
        for v in e.invars:
            if not isinstance(v, core.Literal) and v in kinds:
                given.append(kinds[v])
                if e.primitive.name in _REPEATS and _size(v) < _size(e.outvars[0]):
                    if kinds[v] >= _Kind.MIXED:
                        return False
                    given[-1] = _Kind.REPEATED
        found = _kind(e, given)
        if found is None:
            return False
        if given:  # what is made of literals alone is one
            kinds.update((v, found) for v in e.outvars)
    return True


def _kind(e: Any, given: list[_Kind]) -> _Kind | None:
    """What the results of `e` are, where what it is given that is no literal is this; None if it may not be dense."""
    name = e.primitive.name
    most = max(given, default=_Kind.GIVEN)
    if name in _KEEPS:
        return most
    if name == "slice":
        return most if most is _Kind.GIVEN else None
    if name in PRODUCTS:
        return _Kind.MIXED if most <= _Kind.NUMBERS and not _is_padded(e) else None
    if name in _REDUCES:
        return _Kind.NUMBERS if most <= _Kind.NUMBERS else None
    if name in _OPAQUE or has_rule(e) or (name in ("max", "min") and len(given) == 1):
        return _Kind.NUMBERS if most <= _Kind.MIXED else None
    if name in _ELEMENTWISE or name == "concatenate":
        if most <= _Kind.NUMBERS:
            return _Kind.NUMBERS
        return _Kind.MIXED if min(given) < _Kind.REPEATED else None
    return None


def _size(v: Any) -> int:
    return math.prod(v.aval.shape)


def _is_padded(e: Any) -> bool:
    """Whether `e` is a convolution of which many taps lie in the padding: of the last one all that are padded, of the
    others fewer in proportion."""
    if e.primitive.name != "conv_general_dilated":
        return False
    p = e.params
    lengths = [e.invars[0].aval.shape[d] for d in p["dimension_numbers"].lhs_spec[2:]]
    ends = zip(lengths, p["lhs_dilation"] or (1,) * len(lengths), p["padding"], strict=True)
    return sum((max(0, low) + max(0, high)) / (2 * n * apart) for n, apart, (low, high) in ends) > PADDED


def dense_work(flat: Flat, wanted: Collection[Any]) -> int:
    """The operations of the gradient by `wanted`, with those of the value, if the equations are dense."""
    active = set(wanted)
    total = 0
    for e in flat.equations:
        moved = sum(v in active for v in e.invars if not isinstance(v, core.Literal))
        if moved:
            active.update(e.outvars)
        total += work([e]).total * (1 + (moved if e.primitive.name in PRODUCTS else moved > 0))
    return total
