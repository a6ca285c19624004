"""Which parts of a program are computed between its recurrences and calls of routines, and what these pass on.

    S1; H = Loop(Step, inits, frees); S2      ->      Stage S1 gives inits, frees, and what S2 and Step read of S1
                                                      Turn H: a loop over the program of its step, or
                                                      Called H: a routine on what S1 gives
                                                      Stage S2

A stage is a program without recurrences, and so is a step unless it has recurrences, which are staged in turn. What has
no arithmetic is not passed on but read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Function, Parameter, derived, taken_names, unused_name
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, Predicate, conjunction, relations, substitute
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.choices_before import chosen_before
from tensorlang.lowering.plan.due import due_of_all, known_outside, where_due
from tensorlang.lowering.plan.in_step import in_steps
from tensorlang.lowering.plan.needless_masks import (
    Supports,
    finite_ones,
    has_finite_steps,
    unmasked_windows,
    without_needless_masks,
)
from tensorlang.lowering.plan.read_parts import read_parts
from tensorlang.lowering.plan.read_products import read_products
from tensorlang.lowering.plan.read_states import read_states
from tensorlang.lowering.plan.stages import Called, Rest, Stage, Staged, Turn
from tensorlang.lowering.plan.stored_choices import ChoiceOfSteps, StoredChoices
from tensorlang.lowering.plan.sums_in_step import sums_in_steps
from tensorlang.lowering.plan.until import end_of
from tensorlang.lowering.plan.windows import WINDOW, Sweep, found_sweep
from tensorlang.normal import normal_ssa
from tensorlang.normal.pattern import axes
from tensorlang.normal.recurrences import apart, has_recurrences, step_ssa, with_outputs
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Application,
    Constant,
    Contraction,
    Defining,
    Input,
    Integers,
    Loop,
    LoopStep,
    Outputs,
    Selection,
    Statement,
    States,
    Whole,
    integers,
    live,
    looked_up,
    needs,
    operands,
    output_list,
    predicates,
    selections,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, tidy, with_operands
from tensorlang.simplification.assemble import assemble
from tensorlang.simplification.read_back import read_back
from tensorlang.simplification.recurrences import tidy_recurrences


def staged(
    f: Function,
    windows: bool = True,
    strict: bool = False,
    store: str = "needed",
    in_step: bool = False,
    chooses: bool = True,
) -> Staged:
    """The stages and turns of `f`, a simplified program, which is a step of another one if `in_step`; with `windows`,
    turns go window by window of their times.

    If `strict`, what brackets hide has no influence, even if it is nan or inf. Unless `chooses`, no step gives places
    that it chooses.
    """
    s = thinner(normal_ssa(f), store)
    s, supports = (s, {}) if strict else without_needless_masks(s)
    d = apart(s)
    if not d.loops:  # none is left if no step changes a state
        return Staged(f, (Stage(derived(read_back(s), f) if has_recurrences(f) else f, ()),))
    given = {x.param: place for x, place in d.given.items()}
    known = {k: supports[x] for k, x in enumerate(d.loops) if x in supports}
    return _Staging(f, d.s, d.loops, given, windows, known, in_step, chooses and store == "needed").result()


def thinner(s: SSA, store: str = "needed") -> SSA:
    """`s` with less stored for all times by its recurrences, which keep what `store` says of their steps."""
    if not any(isinstance(x, States) for x in s.statements):
        return s
    s = tidy_recurrences(s)  # those that read a part of what another one gives read nothing of the rest
    d = apart(s)
    # in the core language sums are of two terms, and a recurrence in a step reads all parts of its state or none
    s = d.joined(assemble(d.s), lambda step: with_outputs(step, assemble(tidy_recurrences(step_ssa(step)))))
    d = apart(s)
    tidied = d.joined(tidy(d.s), lambda step: with_outputs(step, tidy(step_ssa(step))))
    made = sums_in_steps(read_parts(in_steps(tidied)))
    if store == "needed":  # other ones compute again what is not a state
        made = read_products(read_states(made))
    return s if made is tidied else made


Passed = Var | IndexArray
"""What is passed on: an array of numbers or of indices."""


class _Staging:
    def __init__(
        self,
        f: Function,
        s: SSA,
        loops: Sequence[Whole],
        given: dict[Var, tuple[int, int, str]],
        windows: bool,
        supports: Mapping[int, Supports],
        in_step: bool,
        chooses: bool,
    ) -> None:
        assert isinstance(s.outputs, tuple)
        self.f, self.loops, self.given = f, list(loops), given
        self.outputs, read = s.outputs[0], output_list(s.outputs[1])
        self.read: list[list[Statement]] = []
        for loop in loops:
            self.read.append(read[: len(loop.operands)])
            read = read[len(loop.operands) :]
        self.taken = taken_names(f) | {v.name for v in given}
        self.made: dict[Var, ChoiceOfSteps] = {}
        self.chosen: dict[int, tuple[Selection, ...]] = {}
        self.s = self._with_choices_before(self._with_choices_of_steps(s) if chooses else s)
        self.defined = selections(self.s.statements)
        self.inputs = {x.param: x for x in s.statements if isinstance(x, Input) and x.param in given}
        self.needed = self._needed()
        self.order = self._order()
        self.due: dict[int, Addition] = self._due() if in_step else {}
        added = dict.fromkeys(x for asked in self.due.values() for x in (*operands(asked), asked))
        self.s = replace(self.s, statements=tuple(dict.fromkeys((*self.s.statements, *added))))
        self.sweeps: dict[int, Sweep] = {}
        for k in self.order if windows else ():
            sweep = self._sweep(k)
            if sweep is not None:
                self.sweeps[k] = self._unmasked(sweep, supports) if supports else sweep
        self.swept = {x for sweep in self.sweeps.values() for x in (*sweep.sums, *sweep.rows)}
        self.swept |= {c.choice for c in self.made.values()}

    def result(self) -> Staged:
        order = self.order
        # what is needed before each recurrence, and in its windows; and in the end
        roots = [([*self._operands(k), *self.chosen.get(k, ())], self._rest_needs(k)) for k in order]
        roots.append((output_list(self.outputs), []))
        first: dict[Statement, int] = {}
        for stage, wanted in enumerate(roots):
            stack = [x for xs in wanted for x in xs]
            while stack:
                x = stack.pop()
                if x not in first and x not in self.swept:
                    first[x] = stage
                    stack += needs(x, self.defined)
        passed: dict[Statement, Passed] = {}
        wanted_of: list[dict[Statement, None]] = [{} for _ in roots]
        for stage, wanted in enumerate(roots):
            for late, xs in enumerate(wanted):
                seen: set[Statement] = set()
                stack = list(xs)
                while stack:
                    x = stack.pop()
                    if x in seen or x in self.swept:
                        continue
                    seen.add(x)
                    if first[x] < stage + late and self._is_passed(x):
                        wanted_of[first[x]].setdefault(x)
                    else:
                        stack += needs(x, self.defined)
        parts: list[Stage | Turn | Called] = []
        for stage, k in enumerate(order):
            names = {x: self._name(x, name) for x, name in self._operands(k).items()}
            every = (*names, *self.chosen.get(k, ()), *wanted_of[stage])
            gives = {x: names.get(x) or self._passed(x) for x in every}
            passed.update((x, x.param) for x in gives if isinstance(x, Input) and not x.path and _is_given(x))
            fresh = {x: v for x, v in gives.items() if x not in passed}
            if fresh:
                parts.append(self._stage(f"{self.f.name}_part{stage}", tuple(fresh), fresh, passed))
            passed |= fresh
            whole = self.loops[k]
            if isinstance(whole, Application):
                parts.append(self._call(k, whole, passed))
                continue
            turn = self._turn(k, whole, passed)
            parts.append(turn)
            passed.update((c.choice, c.choice.array) for c in self.made.values() if c.var in turn.chosen)
            if turn.rest is not None:
                outputs = (*self.sweeps[k].sums, *self.sweeps[k].rows)
                passed.update(zip(outputs, (*turn.rest.sums, *turn.rest.rows), strict=True))
        parts.append(Stage(self._program(self.f.name, self.outputs, passed), ()))
        return Staged(self.f, tuple(parts))

    def _with_choices_of_steps(self, s: SSA) -> SSA:
        """`s`, looking up choices that steps of its recurrences make."""
        wanted = output_list(self.outputs)
        found = StoredChoices(s.statements, self.loops, self.read, self.given, wanted, self.taken, s.params)
        if not found.made:
            return s
        self.made, self.loops, self.read = found.made, found.loops, found.read
        self.chosen = {k: tuple(choices) for k, choices in found.looked_up.items()}
        self.outputs = map_outputs(self.outputs, found.new)
        names = {found.new[x]: name for x, name in s.names.items() if x in found.new}
        return replace(s, statements=tuple(found.statements), names=names)

    def _with_choices_before(self, s: SSA) -> SSA:
        """`s`, making choices that are the same in all steps of a recurrence; the recurrence is given these."""
        statements = dict.fromkeys(s.statements)
        for k, loop in enumerate(self.loops):
            if isinstance(loop, Loop):
                made = chosen_before(loop, self.read[k], tuple(statements))
                self.loops[k] = made.loop
                self.chosen[k] = (*self.chosen.get(k, ()), *made.choices)
                statements.update(dict.fromkeys(made.statements))
        return replace(s, statements=tuple(statements))

    def _is_passed(self, x: Statement) -> bool:
        """Whether later parts are given `x`, rather than what it is made of."""
        if isinstance(x, Selection):
            return True
        # an element at a chosen place may be a greatest value
        chosen = (self.defined.get(array) for array in looked_up(x))
        return _has_arithmetic(x) or (isinstance(x, Contraction) and any(isinstance(y, Selection) for y in chosen))

    def _needed(self) -> list[set[int]]:
        """For each recurrence those that it depends on."""
        return [self._loops_of((*wanted, *self.chosen.get(k, ()))) for k, wanted in enumerate(self.read)]

    def _loops_of(self, wanted: Iterable[Statement]) -> set[int]:
        """The recurrences on which these statements depend."""
        seen: set[Statement] = set()
        stack = list(wanted)
        while stack:
            x = stack.pop()
            if x not in seen:
                seen.add(x)
                stack += needs(x, self.defined)
        return {self.given[x.param][0] for x in seen if isinstance(x, Input) and x.param in self.given}

    def _order(self) -> list[int]:
        """The recurrences, each after those that it depends on."""
        order: list[int] = []
        while len(order) < len(self.loops):
            order.append(next(k for k in range(len(self.loops)) if k not in order and self.needed[k] <= set(order)))
        return order

    def _due(self) -> dict[int, Addition]:
        """The truth values, as numbers, of conditions without which recurrences give nothing that is read. Steps of
        these don't ask them again."""
        results = {k: [x for v, x in self.inputs.items() if self.given[v][0] == k] for k in self.order}
        asked = due_of_all(self.order, self.loops, self.read, results, self.s.statements, output_list(self.outputs))
        found: dict[int, Addition] = {}
        for k, conditions in asked.items():
            loop = self.loops[k]
            assert isinstance(loop, Loop)
            known = known_outside(loop, self.read[k], self.s.statements)
            self.loops[k] = Loop(loop.size, where_due(loop, conditions, known), loop.inits, loop.frees)
            p = conjunction(sorted(conditions, key=str))
            found[k] = Addition((Addend(1, p, Constant(Fraction(1), ())),), ())
        return found

    def _sequences(self, k: int) -> list[Input]:
        """The states of a recurrence over the time."""
        own = (v for v, (own, _, word) in self.given.items() if own == k and word in ("scan", "prescan"))
        return [self.inputs[v] for v in own if v not in self.made]

    def _sweep(self, k: int) -> Sweep | None:
        earlier = self.order[: self.order.index(k)]
        known: dict[Statement, bool] = {}

        def is_known(x: Statement) -> bool:
            if x not in known:
                known[x] = self._loops_of([x]) <= set(earlier)
            return known[x]

        loop = self.loops[k]
        if isinstance(loop, Application):
            return None
        count = len(loop.inits)
        others = [x for j in range(len(self.loops)) if j != k for x in (*self.read[j], *self.chosen.get(j, ()))]
        there = {c.choice for c in self.made.values() if is_known(c.choice)}
        return found_sweep(
            loop,
            tuple(self.read[k][count:]),
            self._sequences(k),
            [x for j in earlier for x in self._sequences(j)],
            is_known,
            [x for x in self.s.statements if x not in there],
            [*output_list(self.outputs), *others],
            {array: x for array, x in self.defined.items() if x not in there},
        )

    def _unmasked(self, sweep: Sweep, supports: Mapping[int, Supports]) -> Sweep:
        """`sweep` without the conditions on the time that hide nothing but zeros of states and finite numbers."""
        zeros: dict[Statement, Predicate] = {}
        for x, v in sweep.windows.items():
            k, place, word = self.given[x.param]
            if word == "scan" and k in supports:
                zeros[Input(v, (), (atom_affine(WINDOW), *x.shape[1:]))] = self._in_window(
                    supports[k][place], len(x.shape), self.loops[k], sweep, sweep.along[x].turned
                )
        new = unmasked_windows(self._in_windows(sweep), sweep.start, zeros, self._finite())
        return replace(
            sweep,
            sums={x: new[y] for x, y in sweep.sums.items()},
            rows={x: new[y] for x, y in sweep.rows.items()},
            choices=tuple(y for x in sweep.choices if isinstance(y := new.get(x), Defining)),  # those that are read
        )

    @staticmethod
    def _in_window(p: Predicate, rank: int, loop: Whole, sweep: Sweep, turned: bool) -> Predicate:
        """A condition on a state and the time of its step, as one on the indices of a window of that state."""
        assert isinstance(loop, Loop)
        first, *others = map(atom_affine, axes(0, rank))
        tau = atom_affine(Lookup(sweep.start, ())) + first
        moved: dict[Atom, Affine] = dict(zip(axes(0, rank - 1), others, strict=True))
        moved[Lookup(loop.step.time, ())] = loop.size - 1 - tau if turned else tau
        return substitute(p, moved)

    def _finite(self) -> set[Statement]:
        """The statements that are finite where the data are."""
        others = set(self.given)
        for k in self.order:
            loop = self.loops[k]
            if (
                isinstance(loop, Loop)
                and has_finite_steps(loop)
                and finite_ones(self.s.statements, others).issuperset(self.read[k])
            ):
                others -= {v for v, (own, _, _) in self.given.items() if own == k}
        return finite_ones(self.s.statements, others)

    def _operands(self, k: int) -> dict[Statement, str]:
        """What must exist before a recurrence, each with its name in there."""
        loop = self.loops[k]
        if isinstance(loop, Application):
            return {x: p.name for x, p in zip(self.read[k], loop.routine.params, strict=True)}
        count = len(loop.inits)
        sweep = self.sweeps.get(k)
        frees = sweep.frees if sweep is not None else tuple(self.read[k][count:])
        names = dict(
            zip(self.read[k], [*(v.name for v in loop.step.states), *(v.name for v in loop.step.frees)], strict=True)
        )
        asked = {self.due[k]: "due"} if k in self.due else {}
        return {x: names[x] for x in (*self.read[k][:count], *frees)} | asked

    def _rest_needs(self, k: int) -> list[Statement]:
        """The statements of the program that those in windows read."""
        if k not in self.sweeps:
            return []
        program = set(self.s.statements)
        return [x for x in self._in_windows(self.sweeps[k]) if x in program]

    def _in_windows(self, sweep: Sweep) -> list[Statement]:
        """The statements that are computed in windows, and those of the program that they read, operands first."""
        program = set(self.s.statements)
        defined = {**self.defined, **selections(sweep.choices)}
        found: dict[Statement, None] = {}
        stack = list(reversed([*sweep.sums.values(), *sweep.rows.values()]))
        while stack:
            x = stack[-1]
            missing = [] if x in program else [y for y in needs(x, defined) if y not in found]
            if missing and x not in found:
                stack += missing
            else:
                found[stack.pop()] = None
        return list(found)

    def _passed(self, x: Statement) -> Passed:
        return x.array if isinstance(x, Selection) else self._name(x, "v")

    def _name(self, x: Statement, wanted: str) -> Var:
        name = unused_name(self.s.names.get(x, wanted), self.taken)
        self.taken.add(name)
        return Var(name, array(x.shape, R))

    def _stage(
        self, name: str, wanted: tuple[Statement, ...], gives: dict[Statement, Passed], passed: dict[Statement, Passed]
    ) -> Stage:
        given = [_elements(x) if isinstance(x, Selection) else x for x in wanted]
        outputs: Outputs = given[-1]
        for x in reversed(given[:-1]):
            outputs = (x, outputs)
        f = self._program(name, outputs, passed, given)
        results = None if len(wanted) == 1 else (None,) * len(wanted)
        return Stage(replace(f, results=results), tuple(gives[x] for x in wanted))

    def _program(
        self, name: str, outputs: Outputs, passed: dict[Statement, Passed], further: Sequence[Statement] = ()
    ) -> Function:
        """The program of `outputs`, which reads what is passed on as inputs; `further` are statements of it."""
        change = {x: Input(v, (), x.shape) for x, v in passed.items() if isinstance(v, Var)}
        new: dict[Statement, Statement] = {}
        for x in dict.fromkeys((*self.s.statements, *further)):
            if x in change or x not in passed:
                new[x] = change[x] if x in change else with_operands(x, new)
        names = {new[x]: name for x, name in self.s.names.items() if x in new}
        s = SSA(
            name, self.s.params, tuple(dict.fromkeys(new.values())), map_outputs(outputs, new), names, self.f.results
        )
        s = live(s)
        return read_back(replace(s, params=_parameters(s, self.f.params)))

    def _call(self, k: int, a: Application, passed: dict[Statement, Passed]) -> Called:
        gives = tuple((v, place) for v, (own, place, _) in self.given.items() if own == k)
        return Called(a.routine, tuple(_array(passed, x) for x in self.read[k]), len(a.batch), a.mapped, gives)

    def _turn(self, k: int, loop: Loop, passed: dict[Statement, Passed]) -> Turn:
        sweep = self.sweeps.get(k)
        step = sweep.step if sweep is not None else loop.step
        operands = sweep.frees if sweep is not None else self.read[k][len(loop.inits) :]
        slices = sweep.slices if sweep is not None else ()
        folded = sweep is None and all(own != k or word == "fold" for own, _, word in self.given.values())
        until = end_of(step) if folded else None
        if until is not None:
            step = LoopStep(step.states, step.frees, step.time, (*step.outputs, until), step.choices)
        program = step_ssa(step)
        f = read_back(program)
        here = [(v, place, word) for v, (own, place, word) in self.given.items() if own == k]
        gives = tuple((self.made[v].var if v in self.made else v, place, word) for v, place, word in here)
        chosen = {c.var: c.choice.array for v, _, _ in here if (c := self.made.get(v)) is not None}
        read = {x.param for x in program.statements if isinstance(x, Input)}
        carried = tuple(
            place
            for place, v in enumerate(step.states)
            if v in read or any(p == place and word in ("fold", "prescan", "states") for _, p, word in gives)
        )
        held = {*step.states, *step.frees, step.time}
        others = tuple(p for p in program.params if p not in held)
        results = None if len(step.outputs) == 1 else (None,) * len(step.outputs)
        plain = step.frees[: len(operands)]
        used = [v for v in plain if v in read]
        own = (*used, *slices, *step.states, step.time, *others)
        names = dict(zip(plain, operands, strict=True))
        sequences = {x.param for x in self._sequences(k)}
        stored = frozenset(v for v, _, _ in gives if v not in sequences or self._is_stored(k, v))
        again = frozenset(
            v for v in sequences - stored if any(v in s.windows_read for j, s in self.sweeps.items() if j != k)
        )
        return Turn(
            loop.size,
            replace(f, name=f"{self.f.name}_step{k}", params=own, results=results),
            tuple(_array(passed, x) for x in self.read[k][: len(loop.inits)]),
            tuple(_array(passed, names[v]) for v in used),
            others,
            carried,
            gives,
            stored,
            again,
            tuple(x.param for x in sweep.local) if sweep is not None else (),
            sweep is not None and sweep.turned,
            self._rest(k, sweep, passed) if sweep is not None else None,
            until is not None,
            chosen,
            self.due[k].terms[0].pred if k in self.due else TRUE,
            _array(passed, self.due[k]) if k in self.due else None,
        )

    def _is_stored(self, k: int, v: Var) -> bool:
        """Whether the states of the k-th recurrence that `v` stands for are read other than by windows."""
        readers = [(j, sweep) for j, sweep in self.sweeps.items() if j != k and v in sweep.windows_read]
        # steps that read windows themselves can't be run again, and those that go forwards can't wait for that
        if readers and (any(not s.turned for _, s in readers) or (k in self.sweeps and self.sweeps[k].local)):
            return True
        if any(self.inputs[v] in self._in_windows(sweep) for sweep in self.sweeps.values()):
            return True  # windows of other times read all of it
        whole = set(output_list(self.outputs))
        for j, wanted in enumerate(self.read):
            loop = self.loops[j]
            count = len(loop.inits) if isinstance(loop, Loop) else len(wanted)
            whole.update(wanted[:count])
            whole.update(self.sweeps[j].frees if j in self.sweeps else wanted[count:])
        stack: list[Statement] = [self.inputs[v]]
        while stack:
            x = stack.pop()
            if x in whole:
                return True
            for y in self.s.statements:
                if x not in needs(y, self.defined):
                    continue
                if not any(y in sweep.inside and x in sweep.along for sweep in self.sweeps.values()):
                    if not is_index_only(y):
                        return True
                    stack.append(y)
        return False

    def _rest(self, k: int, sweep: Sweep, passed: dict[Statement, Passed]) -> Rest | None:
        if not sweep.sums and not sweep.rows:
            return None
        wanted = [*sweep.sums.values(), *sweep.rows.values()]
        outputs: Outputs = wanted[-1]
        for x in reversed(wanted[:-1]):
            outputs = (x, outputs)
        f = self._program(f"{self.f.name}_rest{k}", outputs, passed, self._in_windows(sweep))
        results = None if len(wanted) == 1 else (None,) * len(wanted)
        names = [self._name(x, "v") for x in (*sweep.sums, *sweep.rows)]
        return Rest(
            replace(f, results=results),
            sweep.start,
            {x.param: v for x, v in sweep.windows.items()},
            tuple(names[: len(sweep.sums)]),
            tuple(names[len(sweep.sums) :]),
            tuple(sweep.along[x] for x in sweep.rows),
        )


def _array(passed: Mapping[Statement, Passed], x: Statement) -> Var:
    v = passed[x]
    assert isinstance(v, Var)
    return v


def _elements(x: Selection) -> Statement:
    """The elements of its array as numbers."""
    return integers(atom_affine(Lookup(x.array, tuple(map(atom_affine, axes(0, len(x.shape)))))), x.shape)


def _parameters(s: SSA, params: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """The parameters that `s` reads: first those of the whole program, in order, then what is passed on."""
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
