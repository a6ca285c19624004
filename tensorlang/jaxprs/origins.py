"""The origins of arrays that repeat the elements of others along further axes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jax.extend import core

from tensorlang.jaxprs.flatten import Flat

FEW = 1024
"""The number of pairs up to which comparing them is faster than sorting."""

COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
_OF_SIGN = frozenset(["abs", "max", "min", "custom_jvp_call"])


class End(NamedTuple):
    """The elements of a variable along one `axis`, which a derived array has along its axis `along`."""

    var: Any
    axis: int
    along: int


class Origins:
    """The equations that make variables, and the origins that follow."""

    def __init__(self, flat: Flat) -> None:
        self._equations = flat.equations
        self._made = {v: e for e in flat.equations for v in e.outvars}

    def repeated(self, v: Any, axis: int) -> tuple[Any, int]:
        """The variable, and its axis, whose elements `v` repeats along this axis; `v` itself if it repeats none."""
        while (e := self._made.get(v)) is not None and e.primitive.name == "broadcast_in_dim":
            of, dims = e.invars[0], e.params["broadcast_dimensions"]
            if isinstance(of, core.Literal) or axis not in dims:
                break
            if of.aval.shape[dims.index(axis)] != v.aval.shape[axis]:
                break
            v, axis = of, dims.index(axis)
        return v, axis

    def difference(self, v: Any) -> tuple[End, End] | None:
        """The two ends if `v` has the differences of all pairs of elements along two distinct axes; else None."""
        e = None if isinstance(v, core.Literal) else self._made.get(v)
        if e is None or e.primitive.name != "sub":
            return None
        ends = [self._end(w) for w in e.invars]
        if ends[0] is None or ends[1] is None or ends[0].along == ends[1].along:
            return None
        return ends[0], ends[1]

    def compares_pairs(self) -> bool:
        """Whether more than a few pairs of elements are compared: all of one array with all of another one."""
        for e in self._equations:
            name = e.primitive.name
            shape = e.outvars[0].aval.shape
            if all(isinstance(n, int) for n in shape) and math.prod(shape) <= FEW:
                continue
            if name in COMPARISONS and all(self._end(v) is not None for v in e.invars):
                return True
            if name in _OF_SIGN and any(self.difference(v) is not None for v in e.invars):
                return True
        return False

    def _end(self, v: Any) -> End | None:
        if isinstance(v, core.Literal):
            return None
        if (k := _only_long(v)) is not None:
            return End(*self.repeated(v, k), k)
        e = self._made.get(v)
        if e is None or e.primitive.name != "broadcast_in_dim" or isinstance(e.invars[0], core.Literal):
            return None
        of, dims = e.invars[0], e.params["broadcast_dimensions"]
        if (k := _only_long(of)) is None or of.aval.shape[k] != v.aval.shape[dims[k]]:
            return None
        return End(*self.repeated(of, k), dims[k])


def _only_long(v: Any) -> int | None:
    """The only axis along which `v` has more than one element."""
    long = [k for k, n in enumerate(v.aval.shape) if not (isinstance(n, int) and n == 1)]
    return long[0] if len(long) == 1 else None
