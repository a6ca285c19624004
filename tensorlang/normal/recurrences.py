"""Recurrences between the core language and tensor SSA, and out of the way of passes that know nothing of them.

    let h = fold t:n with s = e0 . e1 in ..    <->    H = States(Loop(n, Step, S(e0), frees))
    let y = gen b. r(e0, ..) in ..             <->    Y = Result(Application(r, b, S(gen b. e0), ..))

A program without its recurrences is one of further parameters, what they give, and of further outputs, what they read.
Passes see that program: `apart` makes it and `Apart.joined` undoes it for SSA; `normal_with_recurrences` comes from the
core language, and `put_together` goes back there. A step is a program, too: of the state before, of values that don't
change, and of the time, an index that is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.errors import NormalFormError
from tensorlang.interning import shared
from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.function import Function, Parameter, taken_names, unused_name
from tensorlang.language.grammar import (
    Access,
    Apply,
    Expr,
    Gen,
    Let,
    MakePair,
    Proj,
    Recur,
    Var,
    access,
    gen,
)
from tensorlang.language.lets import Binding, bindings, under
from tensorlang.language.names import free_names
from tensorlang.language.predicates import Predicate, Relation, conjunction, equal, less, relations, substitute
from tensorlang.language.rebuilt import height, is_staged, rewrite, with_atoms, with_values
from tensorlang.language.recurrence import paired, parted
from tensorlang.language.types import Pair, R, Type, array, leaves, shape
from tensorlang.normal.contraction import contraction, inner_solution
from tensorlang.normal.ssa import (
    SSA,
    Application,
    Contraction,
    Defining,
    Input,
    Loop,
    Outputs,
    Result,
    Statement,
    States,
    Step,
    Whole,
    factor_indices,
    inner_ranges,
    live,
    looked_up,
    needs,
    operands,
    output_list,
    own_indices,
    own_ranges,
    part_of,
    predicates,
    selections,
    states,
    summed_indices,
    whole_of,
)
from tensorlang.normal.tidy import map_outputs, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate

Normal = Callable[[Function], SSA]


# canonical variables


@shared
def _variable(name: str, kind: Type, place: int, role: str) -> Var:
    return Var(name, kind)


@shared
def _time(name: str, size: Affine, height: int) -> IndexArray:
    return IndexArray(name, (), size)


def depth(statements: Sequence[Statement]) -> int:
    """How deeply recurrences are nested in statements."""
    steps = {x.loop.step for x in statements if isinstance(x, States)}
    return max((1 + depth(step_ssa(step).statements) for step in steps), default=0)


def has_recurrences(f: Function) -> bool:
    """Whether there is a recurrence in `f`, or a call of a routine: what passes set apart, since it is computed as a
    whole."""
    return is_staged(f.body)


# steps as programs


def step_ssa(step: Step) -> SSA:
    """What a step computes, a program of its frees, its states, and then the time."""
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
) -> Step:
    """The step that makes `outputs` of these variables, which stand for arrays and numbers, looking up `choices`."""
    s = step_ssa(Step(tuple(own_states), tuple(frees), time, tuple(outputs), tuple(choices)))
    level = depth(s.statements)
    count = len(frees)
    named = [_variable(v.name, v.type, k, f"{level} {k >= count}") for k, v in enumerate((*frees, *own_states))]
    change: dict[Statement, Statement] = {}
    for old, new in zip((*frees, *own_states), named, strict=True):
        change[Input(old, (), shape(old.type)[0])] = Input(new, (), shape(new.type)[0])
    moved: dict[Statement, Statement] = {}
    for x in s.statements:
        moved[x] = change.get(x) or with_operands(x, moved)
    made = tuple(moved[x] for x in outputs)
    return Step(tuple(named[count:]), tuple(named[:count]), time, made, choices_of(moved.values()))


def choices_of(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Those of the statements that define index arrays."""
    return tuple(dict.fromkeys(x for x in statements if isinstance(x, Defining)))


def with_outputs(step: Step, s: SSA) -> Step:
    """`step` as `s`, a program of the same parameters, computes it."""
    return Step(step.states, step.frees, step.time, tuple(output_list(s.outputs)), choices_of(s.statements))


# SSA


Maker = tuple[int, Callable[[Sequence[Statement]], Whole]]
"""How many statements a recurrence or an application reads, and what it is, reading these."""


@dataclass(frozen=True, eq=False)
class Apart:
    """A program without its recurrences and applications, `s`: what these give, and what they read."""

    s: SSA
    loops: tuple[Whole, ...]
    given: Mapping[Input, tuple[int, int, str]]

    def joined(self, s: SSA, change: Callable[[Step], Step] = lambda step: step) -> SSA:
        """`s`, which is what has become of the program, with the recurrences again, and their steps changed."""
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

    def _maker(self, k: int, change: Callable[[Step], Step]) -> Maker:
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
    """`s` with recurrences and applications: each of `makers` makes one of the next of the statements `read`, as many
    as its number, and `given` says which inputs are the states of which, in which place, and whether they are its fold,
    scan or prescan."""
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
    """What becomes of statements when other recurrences, whose first states are theirs, are in the place of some, and
    other statements, of the same shapes, in that of those to `change`."""
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


@dataclass(frozen=True, eq=False)
class Taken:
    """The recurrence, or the call of a routine, that the let of `var` names: what it reads, of a recurrence the first
    states and then its `frees`."""

    var: Var
    value: Expr
    frees: tuple[Var, ...]
    read: tuple[Expr, ...]


def normal_with_recurrences(f: Function, normal: Normal, flat: Normal) -> SSA:
    """The SSA of `f`, whose lets are outermost. `normal` makes SSA of steps, and `flat` of what has no recurrences."""
    lets, body = bindings(f.body)
    taken = [_taken(x, e, lets) for x, e in lets if _is_whole(e) and isinstance(x, Var)]
    read = [e for t in taken for e in t.read]
    outer = under([(x, e) for x, e in lets if not _is_whole(e)], MakePair(body, paired(read)))
    known = [p for p in f.params if p not in {t.var for t in taken}]
    s = flat(Function(f.name, (*known, *(t.var for t in taken)), outer, None))
    held = s.params[len(known) :]
    given: dict[Input, tuple[int, int, str]] = {}
    makers: list[Maker] = []
    for k, (t, var) in enumerate(zip(taken, held, strict=True)):
        assert isinstance(var, Var)
        for place, (path, kind) in enumerate(leaves(var.type)):
            word = t.value.word if isinstance(t.value, Recur) else "fold"
            given[Input(var, path, shape(kind)[0])] = (k, place, word)
        makers.append(_maker(t, normal))
    assert isinstance(s.outputs, tuple)
    made = without_traces(with_loops(replace(s, outputs=s.outputs[0]), s.outputs[1], makers, given))
    return replace(made, params=tuple(s.params[: len(known)]), results=f.results)


def without_traces(s: SSA) -> SSA:
    """`s`, where what is read of a trace at places that are its last one, or all but that, or all but the first one, is
    read of a fold, a prescan or a scan. In the steps of recurrences, too."""
    if not any(isinstance(x, States) and x.word == "states" for x in s.statements):
        return s
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        y = with_operands(x, new)
        new[x] = _with_step_without_traces(y) if isinstance(y, States) else _without_trace(y, _trace, {})
    names = {new[x]: name for x, name in s.names.items()}
    listed: dict[Statement, None] = {}
    for x in new.values():
        listed.update(dict.fromkeys(operands(x)))
        listed[x] = None
    return live(replace(s, statements=tuple(listed), outputs=map_outputs(s.outputs, new), names=names))


Trace = tuple[Affine, Callable[[str], Statement]]
"""The number of steps of a recurrence, and what its fold, scan or prescan is."""


def _trace(x: Statement) -> Trace | None:
    if not (isinstance(x, States) and x.word == "states"):
        return None
    return x.loop.size, lambda word: states(x.loop, x.place, word)


def _with_step_without_traces(x: States) -> States:
    """`x`, whose steps read folds, scans and prescans of what they read as a trace."""
    loop, step = x.loop, x.loop.step
    traces = {Input(v, (), y.shape): y for v, y in zip(step.frees, loop.frees, strict=True) if _trace(y) is not None}
    if not traces:
        return x
    further: dict[Var, Statement] = {}
    made: dict[tuple[Statement, str], Input] = {}

    def trace(y: Statement) -> Trace | None:
        known = _trace(traces[y]) if isinstance(y, Input) and y in traces else None
        if known is None or not isinstance(y, Input):
            return None
        (size, of), name = known, y.param.name

        def read(word: str) -> Statement:
            if (y, word) not in made:
                whole = of(word)
                v = Var(name, array(whole.shape, R))
                further[v] = whole
                made[y, word] = Input(v, (), whole.shape)
            return made[y, word]

        return size, read

    now = Index("t")
    new: dict[Statement, Statement] = {}
    for y in step_ssa(step).statements:
        new[y] = _without_trace(with_operands(y, new), trace, {Lookup(step.time, ()): (now, loop.size)})
    if not further:
        return x
    whole = Step(step.states, step.frees, step.time, tuple(new[y] for y in step.outputs), choices_of(new.values()))
    read_there = {y.param for y in step_ssa(whole).statements if isinstance(y, Input)}
    frees = {v: y for v, y in zip(step.frees, loop.frees, strict=True) if v in read_there} | further
    again = made_step(step.states, tuple(frees), step.time, whole.outputs, whole.choices)
    return states(Loop(loop.size, again, loop.inits, tuple(frees.values())), x.place, x.word)


def _without_trace(
    x: Statement, trace: Callable[[Statement], Trace | None], given: Mapping[Lookup, tuple[Index, Affine]]
) -> Statement:
    if not (isinstance(x, Contraction) and any(trace(y) is not None for y in x.factors)):
        return x
    found = inner_solution(x)
    ranges = {**own_ranges(x), **inner_ranges(x), **dict(given.values())}
    as_indices: dict[Atom, Affine] = {lookup: atom_affine(i) for lookup, (i, _) in given.items()}
    known = conjunction([ranges_predicate(ranges), substitute(x.pattern.pred, as_indices)])
    factors: list[tuple[Statement, tuple[Index, ...]]] = []
    moved: dict[Atom, Affine] = {}
    for y, at in zip(x.factors, factor_indices(x), strict=True):
        whole = trace(y)
        if whole is None:
            factors.append((y, at))
            continue
        size, of = whole
        value = found.values.get(at[0])
        times = [i for i, n in ranges.items() if n is size]
        word = _read_as(at[0], value.substitute(as_indices) if value is not None else None, size, known, times)
        if word is None:
            factors.append((y, at))
        elif word == "fold":
            moved[at[0]] = size
            factors.append((of(word), at[1:]))
        else:
            place = Index(at[0].name)
            moved[at[0]] = atom_affine(place) + (1 if word == "scan" else 0)
            factors.append((of(word), (place, *at[1:])))
    if not moved:
        return x
    summed = dict(zip(summed_indices(x), x.summed, strict=True))
    return contraction(x.shape, own_indices(x), factors, summed, substitute(x.pattern.pred, moved))


def _read_as(i: Index, value: Affine | None, last: Affine, known: Predicate, times: Sequence[Index]) -> str | None:
    """The word that says what is read of a trace at i, which is `value` if that is known; None if none does.

    Of two words it is the one by which a state of one of the `times`, counted from either end, is read at that time.
    """
    at = atom_affine(i)
    if value is not None and implies(known, equal(value, last)):
        return "fold"
    words = ["prescan", "scan"]
    if any(value is now + 1 or value is last - now for now in map(atom_affine, times)):
        words.reverse()
    for word in words:
        if implies(known, less(at, last) if word == "prescan" else less(constant(0), at)):
            return word
    return None


def _is_whole(e: Expr) -> bool:
    """Whether a let binds a recurrence, or calls of a routine at all indices of gens."""
    while isinstance(e, Gen):
        e = e.body
    return isinstance(e, Recur | Apply)


def _called(e: Expr) -> tuple[list[tuple[Index, Affine]], Apply]:
    """The gens around a call of a routine, and the call."""
    binders: list[tuple[Index, Affine]] = []
    while isinstance(e, Gen):
        binders.append((e.index, e.size))
        e = e.body
    assert isinstance(e, Apply)
    return binders, e


def _is_mapped(e: Expr, binders: Sequence[tuple[Index, Affine]]) -> bool:
    own = set(free_names(e))
    return any(index in own for index, _ in binders)


def _taken(x: Var, e: Expr, lets: Sequence[Binding]) -> Taken:
    if not isinstance(e, Recur):
        binders, call = _called(e)
        read = [gen(binders, part) if _is_mapped(part, binders) else part for part in call.arguments]
        return Taken(x, e, (), tuple(read))
    chosen = {y: value for y, value in lets if isinstance(y, IndexArray)}
    step = e.step
    while arrays := [y for y in free_names(step) if isinstance(y, IndexArray) and y in chosen]:
        own = IndexArray(arrays[0].name, arrays[0].sizes, arrays[0].size)
        at = Lookup(arrays[0], ())
        step = Let(own, chosen[arrays[0]], with_atoms(step, {at: atom_affine(Lookup(own, ()))}))
    e = Recur(e.word, e.index, e.size, e.state, e.init, step)
    frees = tuple(y for y in free_names(step) if isinstance(y, Var) and y is not e.state)
    return Taken(x, e, frees, (e.init, *frees))


def _maker(taken: Taken, normal: Normal) -> Maker:
    e = taken.value
    if not isinstance(e, Recur):
        binders, call = _called(e)
        batch = tuple(size for _, size in binders)
        mapped = tuple(_is_mapped(part, binders) for part in call.arguments)
        return len(mapped), lambda read: Application(call.routine, batch, mapped, tuple(read))
    counts = [len(leaves(part.type)) for part in taken.read]

    def make(read: Sequence[Statement]) -> Loop:
        step = step_of(e, taken.frees, normal)
        return Loop(e.size, step, tuple(read[: counts[0]]), tuple(read[counts[0] :]))

    return sum(counts), make


def step_of(e: Recur, frees: Sequence[Var], normal: Normal) -> Step:
    """The step of `e` as SSA, of canonical variables: one for each part of the state, and of each of `frees`."""
    level = height(e.step)
    time = _time(e.index.name, e.size, level)
    held: dict[Var, list[Var]] = {}
    values: dict[Var, Expr] = {}
    count = 0
    for x in (*frees, e.state):
        parts: list[Var] = []
        for _, kind in leaves(x.type):
            name = x.name if len(leaves(x.type)) == 1 else f"{x.name}_{len(parts)}"
            parts.append(_variable(name, kind, count, f"{level} {x is e.state}"))
            count += 1
        held[x] = parts
        values[x] = _gathered(x.type, parts)
    body = with_values(e.step, values)
    body = with_atoms(body, {e.index: atom_affine(Lookup(time, ()))})
    others = [y for y in free_names(body) if isinstance(y, Relation | IndexArray) and y is not time]
    own = tuple(part for x in frees for part in held[x])
    params = (*own, *held[e.state], time, *others)
    s = normal(Function("step", params, body))
    return Step(tuple(held[e.state]), own, time, tuple(output_list(s.outputs)), choices_of(s.statements))


def _gathered(kind: Type, parts: Sequence[Var]) -> Expr:
    """The value of type `kind` whose arrays and numbers, pairs being outermost, are these."""
    left = iter(parts)

    def build(kind: Type, at: tuple[Affine, ...]) -> Expr:
        sizes, element = shape(kind)
        if not isinstance(element, Pair):
            return access(next(left), *at)
        binders = [(Index(f"p{k}"), n) for k, n in enumerate(sizes)]
        here = (*at, *(atom_affine(i) for i, _ in binders))
        first = build(element.first, here)
        return gen(binders, MakePair(first, build(element.second, here)))

    return build(kind, ())


def put_together(g: Function, d: Apart, program: Callable[[SSA], Function]) -> Function:
    """`g`, a program that `d.s` has become, with the recurrences again; `program` makes programs of their steps.

    A recurrence of which more is read than one word says is a trace.
    """
    if not d.loops:
        return g
    bound, body = bindings(g.body)
    assert isinstance(body, MakePair)
    held = {x.name: x for x in g.params if isinstance(x, Var)}
    read = _leaves(body.second, sum(len(loop.operands) for loop in d.loops))
    words: dict[int, set[str]] = {}
    for k, _, word in d.given.values():
        words.setdefault(k, set()).add(word)
    taken = taken_names(g) | {x.name for x, _ in bound}
    named: list[tuple[Var, Expr]] = []
    for k, loop in enumerate(d.loops):
        own, read = read[: len(loop.operands)], read[len(loop.operands) :]
        if isinstance(loop, Application):
            value, lets = _application(loop, own)
            x = Var(unused_name(loop.routine.name, taken), value.type)
            taken.add(x.name)
            named.append((x, value))
            bound += [*lets, (x, value)]
            continue
        word = next(iter(words[k])) if len(words[k]) == 1 else "states"
        recur, lets = _recur(loop, word, own, program)
        x = Var(unused_name(recur.state.name, taken), recur.type)
        taken.add(x.name)
        named.append((x, recur))
        bound += [*lets, (x, recur)]
    values: dict[Var, Expr] = {}
    for stands, (k, place, word) in d.given.items():
        x, value = named[k]
        whole = d.loops[k]
        if isinstance(whole, Loop):
            assert isinstance(value, Recur)
            values[held[stands.param.name]] = _states_of(x, value, place, word, len(whole.inits))
        else:
            values[held[stands.param.name]] = _result_of(x, whole, place)
    memo: dict[Expr, Expr] = {}
    ordered = in_order([(x, _reading(e, values, memo)) for x, e in bound])
    result = under(ordered, _reading(body.first, values, memo))
    return replace(g, params=tuple(p for p in g.params if p not in values), body=result)


def _recur(
    loop: Loop, word: str, read: Sequence[Expr], program: Callable[[SSA], Function]
) -> tuple[Recur, list[tuple[Var, Expr]]]:
    """The recurrence, and what is to be named before it."""
    step = loop.step
    count = len(loop.inits)
    init = paired(read[:count])
    stems = dict.fromkeys(re.sub(r"_\d+$", "", x.name) for x in step.states)
    state = Var("_".join(stems), init.type)
    lets: list[tuple[Var, Expr]] = []
    values: dict[Var, Expr] = dict(zip(step.states, parted(state, count), strict=True))
    for x, e in zip(step.frees, read[count:], strict=True):
        values[x] = e
        if not _is_name(e):
            values[x] = named = Var(x.name, e.type)
            lets.append((named, e))
    index = Index(step.time.name)
    body = with_values(program(step_ssa(step)).body, values)
    body = with_atoms(body, {Lookup(step.time, ()): atom_affine(index)})
    return Recur(word, index, loop.size, state, init, body), lets


def _application(a: Application, read: Sequence[Expr]) -> tuple[Expr, list[tuple[Var, Expr]]]:
    """gen b. r(x0[b], x1, ..), and what is to be named before it."""
    binders = [(Index(f"b{k}" if k else "b"), size) for k, size in enumerate(a.batch)]
    places = [atom_affine(index) for index, _ in binders]
    lets: list[tuple[Var, Expr]] = []
    arguments: list[Expr] = []
    for p, e, along in zip(a.routine.params, read, a.mapped, strict=True):
        held = e
        if along and not _is_name(e):
            held = Var(p.name, e.type)
            lets.append((held, e))
        arguments.append(access(held, *places) if along else e)
    return gen(binders, Apply(a.routine, tuple(arguments))), lets


def _result_of(x: Var, a: Application, place: int) -> Expr:
    """The array in one `place` of what the application that `x` names gives."""
    binders = [(Index(f"b{k}" if k else "b"), size) for k, size in enumerate(a.batch)]
    path, _ = leaves(a.type)[place]
    if not path:
        return x
    part = access(x, *(atom_affine(index) for index, _ in binders))
    for which in path:
        part = Proj(which, part)
    return gen(binders, part)


def _is_name(e: Expr) -> bool:
    while isinstance(e, Proj):
        e = e.body
    return isinstance(e, Var)


def _leaves(e: Expr, count: int) -> list[Expr]:
    found: list[Expr] = []
    for _ in range(count - 1):
        assert isinstance(e, MakePair)
        found.append(e.first)
        e = e.second
    return [*found, e]


def _states_of(x: Var, recur: Recur, place: int, word: str, count: int) -> Expr:
    """The states in one `place` of the recurrence that `x` names, read as `word` says: a gen where there are many."""
    if word == "fold":
        return parted(access(x, recur.size) if recur.word == "states" else x, count)[place]
    if recur.word == word and count == 1:
        return x
    t = Index(recur.index.name)
    at = atom_affine(t) + (1 if recur.word == "states" and word == "scan" else 0)
    size = recur.size + 1 if word == "states" else recur.size
    return Gen(t, size, parted(access(x, at), count)[place])


def _reading(e: Expr, values: Mapping[Var, Expr], memo: dict[Expr, Expr]) -> Expr:
    """`e` with these values in place of variables, where an element of a gen is what the gen says it is."""

    def made(old: Expr, new: Expr) -> Expr:
        if new is not old and isinstance(new, Access) and isinstance(new.body, Gen):
            return with_atoms(new.body.body, {new.body.index: new.at})
        return new

    return rewrite(e, lambda old: values.get(old) if isinstance(old, Var) else None, made, memo)


def in_order(lets: Sequence[Binding]) -> list[Binding]:
    """The bindings, each after those that it reads, and otherwise as they are."""
    bound = {x for x, _ in lets}
    found: list[tuple[Var | IndexArray, Expr]] = []
    done: set[object] = set()
    left = [(x, e, [y for y in free_names(e) if y in bound]) for x, e in lets]
    while left:
        later = []
        for x, e, before in left:
            if all(y in done for y in before):
                found.append((x, e))
                done.add(x)
            else:
                later.append((x, e, before))
        if len(later) == len(left):
            raise NormalFormError("a value depends on itself")
        left = later
    return found
