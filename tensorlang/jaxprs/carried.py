"""States of loops that steps both read and change in part: XLA copies these in each step of a gradient.

    lax.scan(lambda r, k: (r.at[k].add(f(r[k])), None), r, ks)

A step reads the same part of a state several times: for the values that it writes, for the next step, and for those
that it stores for the gradient. XLA does not see that all these reads precede the write, and writes into a copy.
"""

from __future__ import annotations

import math
from typing import Any

from jax.extend import core

from tensorlang.jaxprs.flatten import flatten, scanned

_UPDATES = frozenset(["scatter", "scatter-add", "scatter_add", "dynamic_update_slice"])
_ADDITIONS = frozenset(["add", "add_any"])


def copied(equation: Any) -> int:
    """The number of elements of states that each step of `equation`, a loop, copies to write into them."""
    if equation.primitive.name != "scan":
        return 0
    flat = flatten(equation.params["jaxpr"])
    constants, count = scanned(equation)
    own: dict[Any, int] = {v: k for k, v in enumerate(flat.inputs[constants : constants + count])}
    changed: set[int] = set()
    read: set[int] = set()
    spread: set[Any] = set()
    """Values scattered into zeros, which XLA adds to a state in place."""
    for e in flat.equations:
        given = [v for v in e.invars if not isinstance(v, core.Literal)]
        states = [own[v] for v in given if v in own]
        name = e.primitive.name
        if name in _UPDATES and given and given[0] in own:
            changed.add(states[0])
            own[e.outvars[0]] = states[0]
            read.update(states[1:])
        elif name in _UPDATES:
            spread.update(e.outvars)
            read.update(states)
        elif name in _ADDITIONS and len(states) == 1 and any(v in spread for v in given):
            changed.add(states[0])
            own[e.outvars[0]] = states[0]
        else:
            read.update(states)
    return sum(math.prod(flat.inputs[constants + k].aval.shape) for k in changed & read)
