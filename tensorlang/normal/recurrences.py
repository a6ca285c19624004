"""Recurrences in tensor SSA, separated for passes that don't know them.

A program without its recurrences has their results as further parameters, and their operands as further outputs. Passes
see that program: for SSA, `apart` makes it and `Apart.joined` undoes it; `take_recurrences` comes from the core
language, and `put_together` goes back there. A step is a program, too: of the state before, of values that don't
change, and of the time, an index that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.errors import NormalFormError
from tensorlang.interning import shared
from tensorlang.language.affine import Affine, IndexArray
from tensorlang.language.function import Function, Parameter, unused_name
from tensorlang.language.grammar import Apply, Recur, Var
from tensorlang.language.predicates import relations
from tensorlang.language.types import R, Type, array, shape
from tensorlang.normal.ssa import (
    SSA,
    Application,
    Defining,
    Input,
    Loop,
    LoopStep,
    Outputs,
    Result,
    Statement,
    States,
    Whole,
    live,
    looked_up,
    needs,
    operands,
    output_list,
    part_of,
    predicates,
    selections,
    states,
    whole_of,
)
from tensorlang.normal.tidy import map_outputs, with_operands

Normal = Callable[[Function], SSA]


# canonical variables


@shared
def canonical_variable(name: str, kind: Type, place: int, role: str) -> Var:
    """The variable of a step in this place and role; steps of the same form share it."""
    return Var(name, kind)


@shared
def canonical_time(name: str, size: Affine, height: int) -> IndexArray:
    """The time of a step of this height; steps of the same form share it."""
    return IndexArray(name, (), size)


def depth(statements: Sequence[Statement]) -> int:
    """How deeply recurrences are nested in statements."""
    steps = {x.loop.step for x in statements if isinstance(x, States)}
    return max((1 + depth(step_ssa(step).statements) for step in steps), default=0)


def has_recurrences(f: Function) -> bool:
    """Whether there is a recurrence or a call of a routine in `f`: these are computed as a whole, and set apart for
    passes."""
    return f.census.has(Recur, Apply)


# steps as programs


def step_ssa(step: LoopStep) -> SSA:
    """A step as a program of its frees, its states, and then the time."""
    listed: dict[Statement, None] = {}
    stack = list(reversed((*step.choices, *step.outputs)))
    while stack:
        x = stack[-1]
        missing = [y for y in operands(x) if y not in listed]
        if missing and x not in listed:
            stack += missing
        else:
            listed[stack.pop()] = None
    params: dict[Parameter, None] = dict.fromkeys((*step.frees, *step.states, step.time))
    for x in listed:
        params.update(dict.fromkeys(looked_up(x)))
        params.update((r, None) for p in predicates(x) for r in relations(p))
        if isinstance(x, States):
            inner = x.loop.step
            own = {*inner.frees, *inner.states, inner.time}
            params.update((p, None) for p in step_ssa(inner).params if p not in own)
    outputs: Outputs = step.outputs[-1]
    for y in reversed(step.outputs[:-1]):
        outputs = (y, outputs)
    statements = tuple(listed)
    defined = selections(statements)
    known = tuple(p for p in params if p not in defined)
    return live(SSA("step", known, statements, outputs))


def made_step(
    own_states: Sequence[Var],
    frees: Sequence[Var],
    time: IndexArray,
    outputs: Sequence[Statement],
    choices: Iterable[Statement],
) -> LoopStep:
    """The step that computes `outputs` from these variables, which stand for arrays and numbers, looking up
    `choices`."""
    s = step_ssa(LoopStep(tuple(own_states), tuple(frees), time, tuple(outputs), tuple(choices)))
    level = depth(s.statements)
    count = len(frees)
    named = [
        canonical_variable(v.name, v.type, k, f"{level} {k >= count}") for k, v in enumerate((*frees, *own_states))
    ]
    change: dict[Statement, Statement] = {}
    for old, new in zip((*frees, *own_states), named, strict=True):
        change[Input(old, (), shape(old.type)[0])] = Input(new, (), shape(new.type)[0])
    moved: dict[Statement, Statement] = {}
    for x in s.statements:
        moved[x] = change.get(x) or with_operands(x, moved)
    made = tuple(moved[x] for x in outputs)
    return LoopStep(tuple(named[count:]), tuple(named[:count]), time, made, choices_of(moved.values()))


def choices_of(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """The statements that define index arrays."""
    return tuple(dict.fromkeys(x for x in statements if isinstance(x, Defining)))


def with_outputs(step: LoopStep, s: SSA) -> LoopStep:
    """`step` with the outputs of `s`, a program of the same parameters."""
    return LoopStep(step.states, step.frees, step.time, tuple(output_list(s.outputs)), choices_of(s.statements))


# SSA


Maker = tuple[int, Callable[[Sequence[Statement]], Whole]]
"""The number of statements that a recurrence or an application reads, and a function that makes it from these."""


@dataclass(frozen=True, eq=False)
class Apart:
    """A program without its recurrences and applications: `s` has their results as parameters, and their operands as
    outputs; `given` says which parameter is which result."""

    s: SSA
    loops: tuple[Whole, ...]
    given: Mapping[Input, tuple[int, int, str]]

    def joined(self, s: SSA, change: Callable[[LoopStep], LoopStep] = lambda step: step) -> SSA:
        """`s`, the transformed program, with the recurrences put back and their steps changed."""
        if not self.loops:
            return s
        outputs = s.outputs
        assert isinstance(outputs, tuple)
        return with_loops(
            replace(s, outputs=outputs[0]),
            outputs[1],
            [self._maker(k, change) for k in range(len(self.loops))],
            self.given,
        )

    def _maker(self, k: int, change: Callable[[LoopStep], LoopStep]) -> Maker:
        whole = self.loops[k]

        def make(read: Sequence[Statement]) -> Whole:
            if isinstance(whole, Application):
                return Application(whole.routine, whole.batch, whole.mapped, tuple(read))
            count = len(whole.inits)
            return Loop(whole.size, change(whole.step), tuple(read[:count]), tuple(read[count:]))

        return len(whole.operands), make


def apart(s: SSA) -> Apart:
    """`s` without its recurrences and applications."""
    s = live(s)
    loops = tuple(dict.fromkeys(whole for whole in map(whole_of, s.statements) if whole is not None))
    if not loops:
        return Apart(s, (), {})
    given: dict[Input, tuple[int, int, str]] = {}
    new: dict[Statement, Statement] = {}
    taken = {p.name for p in s.params}
    for x in s.statements:
        if isinstance(x, States | Result):
            wanted = x.loop.step.states[x.place].name if isinstance(x, States) else x.application.routine.name
            name = unused_name(wanted, taken)
            taken.add(name)
            stands = new[x] = Input(Var(name, array(x.shape, R)), (), x.shape)
            whole = x.loop if isinstance(x, States) else x.application
            given[stands] = (loops.index(whole), x.place, x.word if isinstance(x, States) else "fold")
        else:
            new[x] = with_operands(x, new)
    read = [new[y] for loop in loops for y in loop.operands]
    statements = tuple(dict.fromkeys((*given, *new.values())))
    params = tuple(p for p in s.params if p not in {x.param for x in given}) + tuple(x.param for x in given)
    outputs = (map_outputs(s.outputs, new), _right(read))
    names = {new[x]: name for x, name in s.names.items()}
    return Apart(replace(s, params=params, statements=statements, outputs=outputs, names=names), loops, given)


def with_loops(
    s: SSA,
    read: Outputs,
    makers: Sequence[Maker],
    given: Mapping[Input, tuple[int, int, str]],
) -> SSA:
    """`s` with recurrences and applications: each of `makers` makes one from the next statements in `read`, as many as
    its number says. For an input that stands for states, `given` has the number of the recurrence, the place of the
    state, and whether it is the fold, scan or prescan."""
    every = output_list(read)
    parts: list[list[Statement]] = []
    for count, _ in makers:
        parts.append(every[:count])
        every = every[count:]
    new: dict[Statement, Statement] = {}
    loops: dict[int, Whole] = {}
    left = list(dict.fromkeys(s.statements))
    defined = selections(left)
    waiting = dict(enumerate(parts))
    while left or waiting:
        later: list[Statement] = []
        for x in left:
            stands = given.get(x) if isinstance(x, Input) else None
            if stands is not None and stands[0] in loops:
                new[x] = part_of(loops[stands[0]], stands[1], stands[2])
            elif stands is None and all(y in new for y in needs(x, defined)):
                new[x] = with_operands(x, new)
            else:
                later.append(x)
        ready = [k for k, part in waiting.items() if all(y in new for y in part)]
        for k in ready:
            loops[k] = makers[k][1]([new[y] for y in waiting.pop(k)])
        if len(later) == len(left) and not ready:
            raise NormalFormError("a recurrence depends on itself")
        left = later
    names = {new[x]: name for x, name in s.names.items() if x in new}
    params = tuple(p for p in s.params if p not in {x.param for x in given})
    made = replace(s, params=params, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new), names=names)
    return live(made)


def _right(read: Sequence[Statement]) -> Outputs:
    result: Outputs = read[-1]
    for x in reversed(read[:-1]):
        result = (x, result)
    return result


def merged(
    statements: Iterable[Statement], loops: Mapping[Loop, Loop], change: Mapping[Statement, Statement] = {}
) -> dict[Statement, Statement]:
    """The new statements when recurrences are replaced by `loops`, which start with the same states, and statements by
    those of the same shapes in `change`."""
    new: dict[Statement, Statement] = {}

    def target(x: Statement) -> Statement:
        x = change.get(x, x)
        return states(loops[x.loop], x.place, x.word) if isinstance(x, States) and x.loop in loops else x

    for start in statements:
        stack = [start]
        while stack:
            x = stack[-1]
            y = target(x)
            missing = [z for z in operands(y) if z not in new]
            if missing and x not in new:
                stack += missing
            else:
                new[x] = with_operands(y, new)
                stack.pop()
    return new


# core language
