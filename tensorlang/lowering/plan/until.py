"""When a recurrence is over before its last step: as soon as all of its states stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tensorlang.language.affine import IndexArray
from tensorlang.language.predicates import FALSE, TRUE, Predicate, conjunction, free_atoms, lookups
from tensorlang.normal.ssa import (
    Addend,
    Addition,
    Constant,
    Defining,
    Input,
    LoopStep,
    Statement,
    States,
    looked_up,
    needs,
    operands,
)
from tensorlang.sets.isl import implies


def end_of(step: LoopStep) -> Statement | None:
    """1 where all states stay the same from then on, and else 0; None if no predicate shows that they will.

    It must be a predicate on the states, not on the time, under which each output equals its state.
    """
    own = {Input(v, (), x.shape): x for v, x in zip(step.states, step.outputs, strict=True)}
    made = {x.array: x for x in step.choices if isinstance(x, Defining)}
    tried: dict[Predicate, None] = {}
    stack = list(step.outputs)
    while stack:
        x = stack.pop()
        if isinstance(x, Addition):
            tried.update((t.pred, None) for t in x.terms if t.pred is not TRUE)
            stack += operands(x)
    for p in tried:
        if _is_of_states(p, step, made) and all(_is_kept(x, state, p) for state, x in own.items()):
            return Addition((Addend(1, p, Constant(Fraction(1), ())),), ())
    return None


def _is_kept(x: Statement, state: Statement, p: Predicate) -> bool:
    """Whether `x` is the state where `p` holds."""
    while isinstance(x, Addition):
        left = [t for t in x.terms if not implies(conjunction([p, t.pred]), FALSE)]
        if len(left) != 1 or left[0].sign < 0 or not implies(p, left[0].pred):
            return False
        x = left[0].operand
    return x is state


def _is_of_states(p: Predicate, step: LoopStep, made: Mapping[IndexArray, Defining]) -> bool:
    """Whether `p` is a condition on states and values, and does not depend on the time."""
    seen: set[Statement] = set()
    stack: list[Statement] = []
    if free_atoms(p):
        return False
    for a in lookups(p):
        if a.at or a.array not in made:  # the time is not
            return False
        stack.append(made[a.array])
    while stack:
        x = stack.pop()
        if x not in seen:
            seen.add(x)
            if isinstance(x, States) or step.time in looked_up(x):
                return False
            stack += needs(x, made)
    return True
