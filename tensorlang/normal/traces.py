"""Traces of recurrences, replaced by a fold, prescan or scan where that has all states that are read.

    states t:n with ..  read at n, below n, or above 0   ->   fold, prescan or scan

This also applies within the steps of recurrences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, Lookup, atom_affine, constant
from tensorlang.language.grammar import (
    Var,
)
from tensorlang.language.predicates import Predicate, conjunction, equal, less, substitute
from tensorlang.language.types import R, array
from tensorlang.normal.contraction import contraction, inner_solution
from tensorlang.normal.recurrences import (
    choices_of,
    made_step,
    step_ssa,
)
from tensorlang.normal.ssa import (
    SSA,
    Contraction,
    Input,
    Loop,
    LoopStep,
    Statement,
    States,
    factor_indices,
    inner_ranges,
    live,
    operands,
    own_indices,
    own_ranges,
    states,
    summed_indices,
)
from tensorlang.normal.tidy import map_outputs, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate


def without_traces(s: SSA) -> SSA:
    """`s`, reading a fold, prescan or scan instead of a trace where it reads only the last state, never the last, or
    never the first one; in the steps of recurrences, too."""
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
"""The number of steps of a recurrence, and a function from a word to its fold, scan or prescan."""


def _trace(x: Statement) -> Trace | None:
    if not (isinstance(x, States) and x.word == "states"):
        return None
    return x.loop.size, lambda word: states(x.loop, x.place, word)


def _with_step_without_traces(x: States) -> States:
    """`x`, with steps that read folds, scans and prescans in place of traces."""
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
    whole = LoopStep(step.states, step.frees, step.time, tuple(new[y] for y in step.outputs), choices_of(new.values()))
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
    """The word for the states read of a trace at i, which equals `value` unless that is None; None if no word fits.

    If two words fit, it is the one by which a state at one of the `times`, counted from either end, is read at that
    time.
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
