"""Dense equations, which are recognised before a program of them is simplified or derived.

Equations are dense if products are of numbers that are not repeated, and if results are read as a whole by functions
across which no law moves a sum. Then no part of the value is 0, computed twice or unread, and its gradient takes about

    (value of each equation) * (1 + operands with derivatives of a product, or 1 of all else).

Numbers may be scaled by repeated ones before they are multiplied, as the weights of attention are by the inverse of
their sum: a law can take these factors out of the sum, which saves the scaling but not the product. And factors may
themselves be products: in any order of multiplication, the last product still sums over one of the summed indices.
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
"""The largest share of a convolution's taps in the padding, where they read zeros, and of zeros in a padded array."""

_FUNCTIONS = (
    "sin cos tan tanh sinh cosh exp exp2 expm1 log log1p logistic erf erfc sqrt rsqrt cbrt lgamma digamma asin acos "
    "atan asinh acosh atanh"
)
_OPAQUE = frozenset(_FUNCTIONS.split())
_ELEMENTWISE = frozenset(["add", "add_any", "sub", "mul", "div", "neg", "integer_pow", "square", "max", "min"])
_SCALES = frozenset(["add", "add_any", "sub", "mul", "div", "neg"])
_MOVED = (
    "reshape squeeze transpose expand_dims convert_element_type copy copy_p rev broadcast_in_dim tile stop_gradient"
)
_KEEPS = frozenset(_MOVED.split())
_REPEATS = _ELEMENTWISE | {"broadcast_in_dim", "tile"}
"""Primitives that repeat operands smaller than their results."""
_EXTREMA = frozenset(["reduce_max", "reduce_min"])


class _Kind(IntEnum):
    """The content of an array: given numbers; numbers that are each computed once; such numbers with repeated factors
    or terms; sums and products that a law may split; or numbers repeated along an axis."""

    GIVEN = 0
    NUMBERS = 1
    SCALED = 2
    MIXED = 3
    REPEATED = 4


def dense_work(flat: Flat, wanted: Collection[Any]) -> int | None:
    """The operations of the value and its gradient with respect to `wanted`, minus those that a law may save; None if
    the equations may not be dense."""
    kinds = _kinds(flat)
    if kinds is None:
        return None
    saved = _within_products(flat, kinds)
    least: dict[Any, int] = {}  # terms of the sums in factors of products
    active = set(wanted)
    total = 0
    for e in flat.equations:
        read = [v for v in e.invars if not isinstance(v, core.Literal)]
        moved = sum(v in active for v in read)
        if moved and e.primitive.name != "stop_gradient":
            active.update(e.outvars)
        spent = work([e]).total if saved.isdisjoint(e.outvars) else 0
        fewest = min((least[v] for v in read if v in least), default=0)
        if e.primitive.name == "dot_general":
            terms = _terms(e)
            fewest = min(terms, fewest or terms)
            spent = spent * fewest // terms
        if fewest and kinds.get(e.outvars[0]) is _Kind.MIXED:
            least[e.outvars[0]] = fewest
        total += spent * (1 + (moved if e.primitive.name in PRODUCTS else moved > 0))
    return total


def _within_products(flat: Flat, kinds: dict[Any, _Kind]) -> set[Any]:
    """The scaled numbers and the products that are multiplied; a law may compute the whole product without them."""
    found: set[Any] = set()
    for e in reversed(flat.equations):
        if e.primitive.name in PRODUCTS or not found.isdisjoint(e.outvars):
            read = [v for v in e.invars if not isinstance(v, core.Literal)]
            found.update(v for v in read if kinds.get(v, _Kind.GIVEN) >= _Kind.SCALED)
    return found


def _terms(e: Any) -> int:
    """The number of terms in each sum of a dot_general."""
    (summed, _), _ = e.params["dimension_numbers"]
    return math.prod(e.invars[0].aval.shape[d] for d in summed)


def _kinds(flat: Flat) -> dict[Any, _Kind] | None:
    """The kinds of the variables; None if the equations may not be dense."""
    kinds: dict[Any, _Kind] = {v: _Kind.GIVEN for v in (*flat.inputs, *flat.constants)}
    for e in flat.equations:
        given = []
        for v in e.invars:
            if not isinstance(v, core.Literal) and v in kinds:
                given.append(kinds[v])
                if e.primitive.name in _REPEATS and _size(v) < _size(e.outvars[0]):
                    if kinds[v] >= _Kind.SCALED:
                        return None
                    given[-1] = _Kind.REPEATED
        found = _kind(e, given)
        if found is None:
            return None
        if given:  # results made only from literals are like literals
            kinds.update((v, found) for v in e.outvars)
    return kinds


def _kind(e: Any, given: list[_Kind]) -> _Kind | None:
    """The kind of the results of `e`, given those of its operands except literals; None if it may not be dense."""
    name = e.primitive.name
    most = max(given, default=_Kind.GIVEN)
    if name in _KEEPS or (name == "pad" and _pads_little(e)):
        return most
    if name == "slice":
        return most if most is _Kind.GIVEN else None
    if name == "dot_general":
        return _Kind.MIXED
    if name in PRODUCTS:
        return _Kind.MIXED if most <= _Kind.SCALED and not _is_padded(e) else None
    if name == "reduce_sum":
        return _Kind.NUMBERS if most <= _Kind.NUMBERS else None
    if name in _EXTREMA:
        return _Kind.NUMBERS if most <= _Kind.MIXED else None
    if name in _OPAQUE or has_rule(e) or (name in ("max", "min") and len(given) == 1):
        return _Kind.NUMBERS if most <= _Kind.MIXED else None
    if name in _ELEMENTWISE or name == "concatenate":
        if most <= _Kind.NUMBERS:
            return _Kind.NUMBERS
        if min(given) is _Kind.REPEATED:
            return None
        return _Kind.SCALED if name in _SCALES and _Kind.MIXED not in given else _Kind.MIXED
    return None


def _size(v: Any) -> int:
    return math.prod(v.aval.shape)


def _pads_little(e: Any) -> bool:
    """Whether `e` is a pad that cuts nothing off, and adds few zeros around or between the numbers."""
    kept = all(low >= 0 and high >= 0 for low, high, _ in e.params["padding_config"])
    return kept and _size(e.invars[0]) >= (1 - PADDED) * _size(e.outvars[0])


def _is_padded(e: Any) -> bool:
    """Whether `e` is a convolution with many taps in the padding: the outermost tap reads all of it, the others
    proportionally less."""
    if e.primitive.name != "conv_general_dilated":
        return False
    p = e.params
    lengths = [e.invars[0].aval.shape[d] for d in p["dimension_numbers"].lhs_spec[2:]]
    ends = zip(lengths, p["lhs_dilation"] or (1,) * len(lengths), p["padding"], strict=True)
    return sum((max(0, low) + max(0, high)) / (2 * n * apart) for n, apart, (low, high) in ends) > PADDED
