"""Which parts of a program are computed between its recurrences and calls of routines, and what these pass on.

    S1; H = Loop(Step, inits, frees); S2      ->      Stage S1 gives inits, frees and what S2 reads of S1
                                                      Turn H: a loop over the program of its step, or
                                                      Called H: a routine on what S1 gives
                                                      Stage S2

A stage is a program without recurrences, and so is a step unless there are recurrences in it, which are staged in
their turn. What has no arithmetic is not passed on but read anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Affine
from tensorlang.language.function import Function, Parameter, taken_names, unused_name
from tensorlang.language.grammar import Routine, Var
from tensorlang.language.predicates import relations
from tensorlang.language.types import R, array
from tensorlang.normal import normal_ssa
from tensorlang.normal.recurrences import apart, step_ssa
from tensorlang.normal.ssa import (
    SSA,
    Application,
    Constant,
    Defining,
    Input,
    Integers,
    Loop,
    Outputs,
    Statement,
    Whole,
    live,
    looked_up,
    needs,
    output_list,
    predicates,
    selections,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, with_operands
from tensorlang.simplify.read_back import read_back


@dataclass(frozen=True, eq=False)
class Stage:
    """`function` computes the arrays `gives`, or the result of the whole if there are none."""

    function: Function
    gives: tuple[Var, ...]


@dataclass(frozen=True, eq=False)
class Turn:
    """A recurrence of `size` steps: `step` is a program of `frees`, then the states, then the time.

    The states begin as `inits`. `carried` are the places of those that steps or folds read; `gives` tells which
    variable is the fold, scan, prescan or states of the state in which place.
    """

    size: Affine
    step: Function
    inits: tuple[Var, ...]
    frees: tuple[Var, ...]
    others: tuple[Parameter, ...]
    carried: tuple[int, ...]
    gives: tuple[tuple[Var, int, str], ...]


@dataclass(frozen=True, eq=False)
class Called:
    """Calls of a `routine` on `arguments`, of which those that are `mapped` have `batch` axes more, and so has its
    value. `gives` tells which variable is the array in which place of that."""

    routine: Routine
    arguments: tuple[Var, ...]
    batch: int
    mapped: tuple[bool, ...]
    gives: tuple[tuple[Var, int], ...]


@dataclass(frozen=True, eq=False)
class Staged:
    """A program as stages, turns and calls, in the order in which they run; the last one gives its result."""

    function: Function
    parts: tuple[Stage | Turn | Called, ...]


def staged(f: Function) -> Staged:
    """The stages and turns of `f`, a simplified program."""
    s = normal_ssa(f)
    d = apart(s)
    if not d.loops:
        return Staged(f, (Stage(f, ()),))
    return _Staging(f, d.s, d.loops, {x.param: place for x, place in d.given.items()}).result()


class _Staging:
    def __init__(self, f: Function, s: SSA, loops: Sequence[Whole], given: dict[Var, tuple[int, int, str]]) -> None:
        assert isinstance(s.outputs, tuple)
        self.f, self.s, self.loops, self.given = f, s, loops, given
        self.defined = selections(s.statements)
        self.outputs, read = s.outputs[0], output_list(s.outputs[1])
        self.read: list[list[Statement]] = []
        for loop in loops:
            self.read.append(read[: len(loop.operands)])
            read = read[len(loop.operands) :]
        self.taken = taken_names(f) | {v.name for v in given}

    def result(self) -> Staged:
        order = self._order()
        roots = [*(self.read[k] for k in order), output_list(self.outputs)]
        first: dict[Statement, int] = {}
        for stage, wanted in enumerate(roots):
            stack = list(wanted)
            while stack:
                x = stack.pop()
                if x not in first:
                    first[x] = stage
                    stack += needs(x, self.defined)
        passed: dict[Statement, Var] = {}
        wanted_of: list[dict[Statement, None]] = [{} for _ in roots]
        for stage, wanted in enumerate(roots):
            seen: set[Statement] = set()
            stack = list(wanted)
            while stack:
                x = stack.pop()
                if x in seen:
                    continue
                seen.add(x)
                if first[x] < stage and _has_arithmetic(x):
                    wanted_of[first[x]].setdefault(x)
                else:
                    stack += needs(x, self.defined)
        parts: list[Stage | Turn | Called] = []
        for stage, k in enumerate(order):
            names = {x: self._name(x, loop_name) for x, loop_name in self._operands(k)}
            gives = {x: names.get(x) or self._name(x, "v") for x in (*self.read[k], *wanted_of[stage])}
            passed.update((x, x.param) for x in gives if isinstance(x, Input) and not x.path and _is_given(x))
            fresh = {x: v for x, v in gives.items() if x not in passed}
            if fresh:
                parts.append(self._stage(f"{self.f.name}_part{stage}", tuple(fresh), fresh, passed))
            passed |= fresh
            whole = self.loops[k]
            parts.append(self._turn(k, whole, passed) if isinstance(whole, Loop) else self._call(k, whole, passed))
        parts.append(Stage(self._program(self.f.name, self.outputs, passed), ()))
        return Staged(self.f, tuple(parts))

    def _order(self) -> list[int]:
        """The recurrences, each after those that it depends on."""
        needed: list[set[int]] = []
        for wanted in self.read:
            seen: set[Statement] = set()
            stack = list(wanted)
            while stack:
                x = stack.pop()
                if x not in seen:
                    seen.add(x)
                    stack += needs(x, self.defined)
            needed.append({self.given[x.param][0] for x in seen if isinstance(x, Input) and x.param in self.given})
        order: list[int] = []
        while len(order) < len(self.loops):
            order.append(next(k for k in range(len(self.loops)) if k not in order and needed[k] <= set(order)))
        return order

    def _operands(self, k: int) -> list[tuple[Statement, str]]:
        loop = self.loops[k]
        if isinstance(loop, Application):
            return [(x, p.name) for x, p in zip(self.read[k], loop.routine.params, strict=True)]
        names = [*(v.name for v in loop.step.states), *(v.name for v in loop.step.frees)]
        return list(zip(self.read[k], names, strict=True))

    def _name(self, x: Statement, wanted: str) -> Var:
        name = unused_name(self.s.names.get(x, wanted), self.taken)
        self.taken.add(name)
        return Var(name, array(x.shape, R))

    def _stage(
        self, name: str, wanted: tuple[Statement, ...], gives: dict[Statement, Var], passed: dict[Statement, Var]
    ) -> Stage:
        outputs: Outputs = wanted[-1]
        for x in reversed(wanted[:-1]):
            outputs = (x, outputs)
        f = self._program(name, outputs, passed)
        results = None if len(wanted) == 1 else (None,) * len(wanted)
        return Stage(replace(f, results=results), tuple(gives[x] for x in wanted))

    def _program(self, name: str, outputs: Outputs, passed: dict[Statement, Var]) -> Function:
        """The program of `outputs`, where what is passed on is read as an input."""
        change: dict[Statement, Statement] = {x: Input(v, (), x.shape) for x, v in passed.items()}
        new: dict[Statement, Statement] = {}
        for x in self.s.statements:
            new[x] = change[x] if x in change else with_operands(x, new)
        names = {new[x]: name for x, name in self.s.names.items()}
        s = SSA(
            name, self.s.params, tuple(dict.fromkeys(new.values())), map_outputs(outputs, new), names, self.f.results
        )
        s = live(s)
        return read_back(replace(s, params=_parameters(s, self.f.params)))

    def _call(self, k: int, a: Application, passed: dict[Statement, Var]) -> Called:
        gives = tuple((v, place) for v, (own, place, _) in self.given.items() if own == k)
        return Called(a.routine, tuple(passed[x] for x in self.read[k]), len(a.batch), a.mapped, gives)

    def _turn(self, k: int, loop: Loop, passed: dict[Statement, Var]) -> Turn:
        step = loop.step
        program = step_ssa(step)
        f = read_back(program)
        gives = tuple((v, place, word) for v, (own, place, word) in self.given.items() if own == k)
        read = {x.param for x in program.statements if isinstance(x, Input)}
        carried = tuple(
            place
            for place, v in enumerate(step.states)
            if v in read or any(p == place and word in ("fold", "prescan") for _, p, word in gives)
        )
        held = {*step.states, *step.frees, step.time}
        others = tuple(p for p in program.params if p not in held)
        results = None if len(step.outputs) == 1 else (None,) * len(step.outputs)
        used = [v for v in step.frees if v in read]
        own = (*used, *step.states, step.time, *others)
        names = dict(zip(step.frees, self.read[k][len(loop.inits) :], strict=True))
        return Turn(
            loop.size,
            replace(f, name=f"{self.f.name}_step{k}", params=own, results=results),
            tuple(passed[x] for x in self.read[k][: len(loop.inits)]),
            tuple(passed[names[v]] for v in used),
            others,
            carried,
            gives,
        )


def _parameters(s: SSA, params: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """The parameters that `s` reads: of those of the whole program first, in order, then of what is passed on."""
    read: dict[Parameter, None] = {}
    defined = selections(s.statements)
    for x in s.statements:
        if isinstance(x, Input) and not isinstance(x, Integers):
            read[x.param] = None
        read.update((array, None) for array in looked_up(x) if array not in defined)
        read.update((r, None) for p in predicates(x) for r in relations(p))
    own = [p for p in params if p in read]
    return (*own, *(p for p in read if p not in own))


def _is_given(x: Input) -> bool:
    return not isinstance(x, Integers)


def _has_arithmetic(x: Statement) -> bool:
    return not isinstance(x, Input | Constant | Defining) and not is_index_only(x)
