"""Choices in the steps of recurrences that don't depend on time or state: made once, before the first step.

    H = Loop(n, s: let K = gen i. argmin j. x[i, j] in .. s[K[i]] .., x = X)
        ->   K = gen i. argmin j. X[i, j];  H = Loop(n, s: .. s[K[i]] .., x = X)

In tensor SSA a step defines the index arrays that it looks up, except parameters. Here it is given K like one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorlang.language.predicates import TRUE
from tensorlang.language.types import shape
from tensorlang.normal.invariant import invariant, looking_up
from tensorlang.normal.recurrences import choices_of, step_ssa
from tensorlang.normal.ssa import Input, Loop, LoopStep, Selection, Statement
from tensorlang.normal.tidy import with_operands


@dataclass(frozen=True, eq=False)
class ChosenBefore:
    """A `loop` that is given the index arrays of `choices`, which `statements`, operands first, make before it."""

    loop: Loop
    choices: tuple[Selection, ...] = ()
    statements: tuple[Statement, ...] = ()


def chosen_before(loop: Loop, read: Sequence[Statement], around: Sequence[Statement]) -> ChosenBefore:
    """`loop`, whose operands are `read`, with the choices that are the same in all of its steps made before it, if not
    by the statements `around` it."""
    step = loop.step
    if not any(isinstance(x, Selection) for x in step.choices):
        return ChosenBefore(loop)
    program = step_ssa(step)
    given: dict[Statement, Statement] = {
        Input(v, (), shape(v.type)[0]): x for v, x in zip(step.frees, read[len(loop.inits) :], strict=True)
    }
    before = invariant(program, step.time, given, TRUE, around)
    choices = {x: y for x, y in before.items() if isinstance(x, Selection) and isinstance(y, Selection)}
    if not choices:
        return ChosenBefore(loop)
    new: dict[Statement, Statement] = {}
    renamed = {x.array: y.array for x, y in choices.items()}
    for x in program.statements:
        if x not in choices:
            new[x] = with_operands(looking_up(x, renamed), new)
    outputs = tuple(new[x] for x in step.outputs)
    left = LoopStep(step.states, step.frees, step.time, outputs, choices_of(new.values()))
    made = dict.fromkeys(before[x] for x in program.statements if x in before)
    return ChosenBefore(
        Loop(loop.size, left, loop.inits, loop.frees), tuple(dict.fromkeys(choices.values())), tuple(made)
    )
