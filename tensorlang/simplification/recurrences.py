"""Recurrences without the parts of them that nothing reads.

fold t:n with s = .. e ..  where e depends on neither t nor s    ->  let y = [0 < n] * e in ..          (5.R1)
fold t with s, r = .. where no step that s needs reads r, nor anything else    ->  fold t with s = ..       (5.R2)
a view of another value that a step reads is formed within the step: no copy is made
a value that only steps read, and only in windows, is computed only there
a state that no step changes, or of a recurrence without steps, is a value that the steps read              (5.R4)
a state that no step reads, or that steps only add to, leaves the recurrence                         (5.R5, 5.R6)
two recurrences are merged if one has all states of the other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.language.affine import Index, IndexArray, atom_affine, is_long
from tensorlang.language.affine import constant as constant_size
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Predicate, conjunction, conjuncts, equal, less, lookups
from tensorlang.language.types import R, array
from tensorlang.normal.contraction import contraction, inner_solution, only_moves
from tensorlang.normal.invariant import invariant
from tensorlang.normal.pattern import axes
from tensorlang.normal.recurrences import choices_of, made_step, merged, step_ssa
from tensorlang.normal.ssa import (
    SSA,
    Addition,
    Constant,
    Contraction,
    Defining,
    Input,
    Loop,
    Map,
    Outputs,
    Statement,
    States,
    in_order,
    live,
    looked_up,
    needs,
    operands,
    output_list,
    own_indices,
    own_ranges,
    selections,
    states,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, support, with_operands
from tensorlang.simplification.compact import chart
from tensorlang.simplification.leaving import left
from tensorlang.simplification.narrow import places_read
from tensorlang.simplification.supports import common, telling


def tidy_recurrences(s: SSA) -> SSA:
    """`s` with recurrences that keep only states that are read, and read only what they need."""
    s = _rebuilt(live(s))
    return _joined(s)


def _rebuilt(s: SSA) -> SSA:
    read: dict[Loop, dict[int, set[str]]] = {}
    for x in s.statements:
        if isinstance(x, States):
            read.setdefault(x.loop, {}).setdefault(x.place, set()).add(x.word)
    seen, chosen = _seen(s), selections(s.statements).keys()
    made: dict[Loop, _Tidied] = {}
    gone: dict[Loop, dict[tuple[int, str], Statement]] = {}
    new: dict[Statement, Statement] = {}
    for x in s.statements:
        if not isinstance(x, States):
            new[x] = with_operands(x, new)
            continue
        if x.loop not in made:
            inits, frees = (tuple(new[y] for y in part) for part in (x.loop.inits, x.loop.frees))
            loop = Loop(x.loop.size, x.loop.step, inits, frees)
            gone[x.loop] = left(loop, read[x.loop])
            needed = read[x.loop].keys() - {place for place, _ in gone[x.loop]}
            made[x.loop] = _tidied(loop, needed, {new[y]: p for y, p in seen.items() if y in new}, chosen)
        t = made[x.loop]
        if x.place in t.constant:
            new[x] = _unchanged(x, t.constant[x.place])
        else:
            new[x] = gone[x.loop].get((x.place, x.word)) or states(t.loop, t.places[x.place], x.word)
    listed: dict[Statement, None] = {}
    for x in (*(y for t in made.values() for y in t.choices), *new.values()):
        stack = [x]
        while stack:
            y = stack[-1]
            missing = [z for z in operands(y) if z not in listed]
            if missing and y not in listed:
                stack += missing
            else:
                listed[stack.pop()] = None
    names = {new[x]: name for x, name in s.names.items()}
    return live(replace(s, statements=tuple(listed), outputs=map_outputs(s.outputs, new), names=names))


def _seen(s: SSA) -> dict[Statement, Predicate]:
    """The windows in which steps read values that only they read, if more is computed now."""
    loops = dict.fromkeys(x.loop for x in s.statements if isinstance(x, States))
    others = {y for x in s.statements if not isinstance(x, States) for y in operands(x)}
    others |= {*output_list(s.outputs), *(x for loop in loops for x in loop.inits)}
    found: dict[Statement, list[Predicate]] = {}
    for loop in loops:
        for v, x in zip(loop.step.frees, loop.frees, strict=True):
            if x not in others and isinstance(x, Map | Addition | Contraction) and not is_index_only(x):
                found.setdefault(x, []).append(_read_in(loop, Input(v, (), x.shape)))
    seen: dict[Statement, Predicate] = {}
    for x, places in found.items():
        where = telling(common(places), own_ranges(x))
        if not set(where) <= set(conjuncts(support(x))) and chart(x, where) is not None:
            seen[x] = conjunction(where)
    return seen


def _read_in(loop: Loop, x: Input) -> Predicate:
    """A condition on the indices at which a step reads `x`, at any time and for any choices of the step."""
    statements = step_ssa(loop.step).statements
    known = {loop.step.time, *selections(statements)}
    read = [p for y in statements for z, p in places_read(y) if z is x]
    return common(conjunction(q for q in conjuncts(p) if known.isdisjoint(a.array for a in lookups(q))) for p in read)


@dataclass(frozen=True)
class _Tidied:
    """A recurrence, with the new `places` of states that it still has, and those that are `constant`. The values that
    it reads look up `choices`."""

    loop: Loop
    places: Mapping[int, int]
    constant: Mapping[int, Statement]
    choices: Sequence[Statement] = ()


def _tidied(loop: Loop, read: set[int], seen: Mapping[Statement, Predicate], chosen: Collection[IndexArray]) -> _Tidied:
    """The recurrence of the states in the places that are `read`. Values that it reads are restricted to what is
    `seen`. `chosen` are index arrays that the program defines."""
    step = loop.step
    s = step_ssa(step)
    inputs = [Input(v, (), x.shape) for v, x in zip(step.states, loop.inits, strict=True)]
    never = loop.size is constant_size(0)
    constant = {k: loop.inits[k] for k, x in enumerate(step.outputs) if x is inputs[k] or never}
    for k, (x, init) in enumerate(zip(step.outputs, loop.inits, strict=True)):
        if isinstance(x, Constant) and x is init:
            constant[k] = init
    needed = set(read) - set(constant)
    while True:
        kept = [step.outputs[k] for k in sorted(needed)]
        reached = _reached(s, kept)
        more = needed | {k for k, x in enumerate(inputs) if x in reached and k not in constant}
        if more == needed:
            break
        needed = more
    places = sorted(needed)
    if not places:
        return _Tidied(loop, {}, constant)
    change: dict[Statement, Statement] = {}
    frees: dict[Var, Statement] = {}
    given = [*zip(step.frees, loop.frees, strict=True), *((step.states[k], x) for k, x in constant.items())]
    for v, x in given:
        if Input(v, (), x.shape) in reached:
            change[Input(v, (), x.shape)] = _read_inside(v, x, frees, chosen)
    leaving = _leaving(loop, s, {Input(v, (), x.shape): x for v, x in given}, kept)
    for x, (outside, _) in leaving.items():
        v = Var("once", array(x.shape, R))
        change[x], frees[v] = Input(v, (), x.shape), outside
    inside: dict[Statement, Statement] = {}
    for x in s.statements:
        if x in reached:
            inside[x] = change[x] if x in change else with_operands(x, inside)
    outputs = [inside[step.outputs[k]] for k in places]
    variables = [step.states[k] for k in places]
    made = made_step(variables, tuple(frees), step.time, outputs, choices_of(inside.values()))
    values = (_hidden(x, seen[x]) if x in seen else x for x in frees.values())
    again = Loop(loop.size, made, tuple(loop.inits[k] for k in places), tuple(values))
    choices = [y for _, chosen in leaving.values() for y in chosen]
    return _Tidied(again, {k: place for place, k in enumerate(places)}, constant, choices)


def _leaving(
    loop: Loop, s: SSA, given: Mapping[Statement, Statement], kept: Sequence[Statement]
) -> dict[Statement, tuple[Statement, list[Statement]]]:
    """The statements that leave the step `s`, with what they are outside, and the choices that are looked up there.

    They are the same at all times, the rest of the step reads them, and they are no larger than what it reads anyway:
    the elements of a larger one are computed where they are read, in less memory.
    """
    same = invariant(s, loop.step.time, given, less(constant_size(0), loop.size))
    if len(same) == len(given):
        return {}
    defined, outside = selections(s.statements), selections(same.values())
    stay = (x for x in s.statements if x not in same or isinstance(x, Defining))
    read = {y for x in stay for y in needs(x, defined)} | set(kept)
    sizes = [Counter(x.shape) for x in loop.operands]
    found: dict[Statement, tuple[Statement, list[Statement]]] = {}
    for x in s.statements:
        computes = not is_index_only(x) or not defined.keys().isdisjoint(looked_up(x))
        if x in same and x in read and isinstance(x, Map | Addition | Contraction) and computes:
            long = Counter(a for a in x.shape if is_long(a))
            if any(long <= size for size in sizes):
                needed = in_order([same[x]], lambda y: needs(y, outside))
                found[x] = same[x], [y for y in needed if isinstance(y, Defining)]
    return found


def _hidden(x: Statement, p: Predicate) -> Statement:
    """[p] * x."""
    own, at = own_ranges(x), tuple(Index(i.name) for i in own_indices(x))
    there = conjunction([p, *(equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, at, strict=True))])
    return contraction(x.shape, tuple(own), [(x, at)], {}, there)


def _reached(s: SSA, kept: list[Statement]) -> set[Statement]:
    """The statements of a step that some of its outputs need."""
    return set(live(replace(s, outputs=_right(kept))).statements) if kept else set()


def _right(kept: list[Statement]) -> Outputs:
    whole: Outputs = kept[-1]
    for x in reversed(kept[:-1]):
        whole = (x, whole)
    return whole


def _read_inside(v: Var, x: Statement, frees: dict[Var, Statement], chosen: Collection[IndexArray]) -> Statement:
    """The replacement in a step for the value `x`, read there as `v`: a view of another value is formed in the step."""
    if isinstance(x, Constant):
        return x
    if isinstance(x, Contraction) and len(x.factors) == 1 and only_moves(x) and _may_move(x, chosen):
        moved = Var(v.name, array(x.factors[0].shape, R))
        return Contraction(x.pattern.pred, (_read_inside(moved, x.factors[0], frees, chosen),), x.summed, x.shape)
    frees[v] = x
    return Input(v, (), x.shape)


def _may_move(x: Contraction, chosen: Collection[IndexArray]) -> bool:
    """Whether steps may form the view `x`: not if places in the array that it views have to be looked for, nor if it
    looks up what the program has `chosen`, and with other index arrays only if `x` is 0 in most of its box, so that it
    is larger than the array that it views."""
    if not inner_solution(x).values.keys() >= set(x.pattern.inner):
        return False
    arrays = looked_up(x)
    return not arrays or (
        not any(array in chosen for array in arrays) and bool(telling(common([support(x)]), own_ranges(x)))
    )


def _unchanged(x: States, init: Statement) -> Statement:
    """The states in a place that no step changes."""
    if x.word == "fold":
        return init
    own = axes(0, len(x.shape))
    at = axes(len(x.shape), len(init.shape))
    p = conjunction(equal(atom_affine(i), atom_affine(j)) for i, j in zip(own[1:], at, strict=True))
    return Contraction(p, (init,), (), x.shape)


def _joined(s: SSA) -> SSA:
    """Merge recurrences of which one has all states of the other, at the same places."""
    loops = list(dict.fromkeys(x.loop for x in s.statements if isinstance(x, States)))
    found: dict[Loop, Loop] = {}
    for small in loops:
        for large in loops:
            if large is not small and large not in found and _has_all(large, small):
                found[small] = large
                break
    if not found:
        return s
    new = merged(s.statements, found)
    names = {new[x]: name for x, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return live(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _has_all(large: Loop, small: Loop) -> bool:
    count = len(small.inits)
    return (
        large.size is small.size
        and large.step.time is small.step.time
        and len(large.inits) >= count
        and large.inits[:count] == small.inits
        and large.frees == small.frees
        and large.step.frees == small.step.frees
        and large.step.states[:count] == small.step.states
        and large.step.outputs[:count] == small.step.outputs
    )
