"""Values that steps both store and read, if they are short sums of a state: computed from the stored states instead.

    H = Loop(.. s, l = gen g. s[g - 1] + s[g + 1] - 2 * s[g] ..)    ->    H = Loop(.. s ..)
    .. H.l[t, g] ..                                                       .. S[t, g - 1] + S[t, g + 1] - 2 * S[t, g] ..

where S, the states before each step, is as large as l, and l is read at all times, and by no other recurrence. A step
has its state in memory anyway, whereas XLA computes twice a value that a step both stores and reads, and materialises
what that value reads in several places: the gradient of a wave equation waits for these arrays.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.predicates import Equal, conjuncts
from tensorlang.normal.contraction import is_determined
from tensorlang.normal.recurrences import merged, step_ssa
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Input,
    Statement,
    States,
    looked_up,
    operands,
    output_list,
)
from tensorlang.normal.tidy import map_outputs
from tensorlang.simplification.leaving import AllTimes
from tensorlang.simplification.recurrences import tidy_recurrences

_MOST = 4
"""The most operations for each element that are repeated."""


def read_states(s: SSA) -> SSA:
    """`s`, whose recurrences store their states instead of short sums of their elements."""
    outputs = set(output_list(s.outputs))
    change: dict[Statement, Statement] = {}
    for x in s.statements:
        if isinstance(x, States) and x.word == "scan" and x not in outputs and _is_read_on(x) and _is_short_sum(x):
            readers = [y for y in s.statements if x in operands(y)]
            made = AllTimes(x.loop, from_states=True).timed(x.loop.step.outputs[x.place])
            if made is not None and all(map(_reads_all, readers)):
                change[x] = made
    if not change:
        return s
    new = merged(s.statements, {}, change)
    names = {new[y]: name for y, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return tidy_recurrences(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _reads_all(y: Statement) -> bool:
    """Whether `y` is computed from elements at all times, and under no condition except equalities."""
    return isinstance(y, Contraction) and all(isinstance(q, Equal) for q in conjuncts(y.pred))


def _is_read_on(x: States) -> bool:
    """Whether steps read the value that they store as `x`, and not the one stored before."""
    step = x.loop.step
    before, now = Input(step.states[x.place], (), x.shape[1:]), step.outputs[x.place]
    read = {y for z in step_ssa(step).statements for y in operands(z)}
    return before not in read and before not in step.outputs and now in read and step.outputs.count(now) == 1


def _is_short_sum(x: States) -> bool:
    """Whether the value stored as `x` is a sum of a few elements, with constants, of one state of the same shape."""
    loop = x.loop
    own = {Input(v, (), init.shape) for v, init in zip(loop.step.states, loop.inits, strict=True)}
    read: set[Statement] = set()
    operations, seen, stack = 0, set(), [loop.step.outputs[x.place]]
    while stack:
        y = stack.pop()
        if y in seen or isinstance(y, Constant):
            continue
        seen.add(y)
        if y in own:
            read.add(y)
            continue
        if looked_up(y) or y.shape != x.shape[1:]:
            return False
        if isinstance(y, Contraction) and is_determined(y.pattern):
            operations += len(y.factors) - 1
        elif isinstance(y, Addition):
            operations += len(y.terms) - 1
        else:
            return False
        stack += operands(y)
    return len(read) == 1 and all(y.shape == x.shape[1:] for y in read) and 0 < operations <= _MOST
