"""Recurrences within a step that need not run unless a condition holds: they are read, or not zero, only where it does.

    r = Loop(n, [t = 0] * tanh(W r), r = [t = 0] * s)    ->    if t = 0: r = Loop(n, tanh(W r), r = s), else 0

Conditions are truth values for the step as a whole. Both sides of an `if` are such recurrences, and so are those that
their adjoints have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tensorlang.language.affine import Affine, Atom, Lookup, atom_affine
from tensorlang.language.predicates import TRUE, Predicate, conjunction, conjuncts, substitute
from tensorlang.language.types import shape
from tensorlang.lowering.plan.asked_first import is_of_step
from tensorlang.normal.invariant import invariant
from tensorlang.normal.recurrences import choices_of, made_step, step_ssa
from tensorlang.normal.ssa import (
    Addition,
    Comparison,
    Constant,
    Contraction,
    Defining,
    Input,
    Loop,
    LoopStep,
    Map,
    Statement,
    States,
    Whole,
    operands,
)
from tensorlang.normal.tidy import with_operands, with_predicates
from tensorlang.simplification.supports import is_zero_at_zero

Due = frozenset[Predicate] | None
"""Conditions without any of which a value is zero, or isn't read; None if that is so in any case."""

Outcomes = Mapping[Atom, Affine]
"""Truth values of a step, each as that of a statement around its recurrence."""

_ALWAYS: Due = frozenset()


def due_of_all(
    order: Sequence[int],
    loops: Sequence[Whole],
    read: Sequence[Sequence[Statement]],
    results: Mapping[int, Sequence[Statement]],
    statements: Sequence[Statement],
    outputs: Iterable[Statement],
) -> dict[int, frozenset[Predicate]]:
    """The conditions that the `loops` of a step may ask before they run, by number, for those that have any. Each comes
    in `order` after those whose `results` it has `read`; `outputs` are the statements that others read."""
    under: dict[Statement, Due] = dict.fromkeys(outputs, _ALWAYS)
    wanted: dict[int, Due] = {}
    for k in reversed(order):
        found = read_under(statements, under)
        wanted[k] = common(found[x] for x in results[k])
        under.update((x, common([under.get(x), wanted[k]])) for x in read[k])
    asked: dict[int, frozenset[Predicate]] = {}
    given: dict[Statement, Due] = {}
    for k in order:
        loop = loops[k]
        if isinstance(loop, Loop):
            found_here = due(loop, read[k], zero_unless(statements, given))
            if found_here is not None:
                found_here |= wanted[k] or frozenset()
                if found_here:
                    asked[k] = found_here
            given.update((x, found_here) for x in results[k])
    return asked


def due(loop: Loop, read: Sequence[Statement], outside: Mapping[Statement, Due]) -> Due:
    """The conditions without which all states of `loop` are zero, given those of the statements around it, among them
    the ones that it has `read`."""
    step, count = loop.step, len(loop.inits)
    program = step_ssa(step)
    found = common(outside.get(x, _ALWAYS) for x in read[:count])
    frees: dict[Statement, Due] = {
        Input(v, (), x.shape): outside.get(x, _ALWAYS) for v, x in zip(step.frees, read[count:], strict=True)
    }
    known = known_outside(loop, read, outside)
    while found is None or found:  # zeros at first need not stay so
        states: dict[Statement, Due] = {Input(v, (), shape(v.type)[0]): found for v in step.states}
        made = zero_unless(program.statements, {**frees, **states}, known)
        left = common([found, *(made.get(x, _ALWAYS) for x in step.outputs)])
        if left == found:
            break
        found = left
    return found


def known_outside(loop: Loop, read: Sequence[Statement], around: Iterable[Statement]) -> Outcomes:
    """The outcomes that steps of `loop` compute for themselves, though statements `around` it have them."""
    around = tuple(around)
    if not any(isinstance(x, Comparison) and not x.shape for x in loop.step.choices):
        return {}
    program, count = step_ssa(loop.step), len(loop.inits)
    given: dict[Statement, Statement] = {
        Input(v, (), x.shape): x for v, x in zip(loop.step.frees, read[count:], strict=True)
    }
    same = invariant(program, loop.step.time, given, TRUE, around)
    return {
        Lookup(x.array, ()): atom_affine(Lookup(y.array, ()))
        for x, y in same.items()
        if isinstance(x, Comparison) and isinstance(y, Comparison) and not x.shape and y in around
    }


def where_due(loop: Loop, asked: Collection[Predicate], known: Outcomes) -> LoopStep:
    """The step of `loop`, which only runs where the conditions that are `asked` hold."""

    def left(p: Predicate) -> Predicate:
        return conjunction(q for q in conjuncts(p) if substitute(q, known) not in asked)

    step = loop.step
    new: dict[Statement, Statement] = {}
    for x in step_ssa(step).statements:
        new[x] = with_predicates(with_operands(x, new), left)
    outputs = [new[x] for x in step.outputs]
    return made_step(step.states, step.frees, step.time, outputs, choices_of(new.values()))


def zero_unless(
    statements: Iterable[Statement], given: Mapping[Statement, Due], known: Outcomes | None = None
) -> dict[Statement, Due]:
    """For each of the statements, operands first, the conditions without which it is zero, given those of some, and
    what outcomes are `known` as."""

    def asked(found: Due, p: Predicate) -> Due:
        return _with(found, substitute(p, known) if known else p)

    found: dict[Statement, Due] = {}
    for x in statements:
        if x in given:
            found[x] = given[x]
            continue
        parts = [found.get(y, _ALWAYS) for y in operands(x)]
        match x:
            case Constant(value, _):
                found[x] = None if value == 0 else _ALWAYS
            case Addition(terms, _):
                found[x] = common(asked(part, t.pred) for t, part in zip(terms, parts, strict=True))
            case Contraction():
                found[x] = asked(_in_any(parts), x.pattern.pred)
            case Map(p, f, _, _):
                found[x] = asked(common(parts) if is_zero_at_zero(f) else _ALWAYS, p)
            case States(loop=loop):
                inner = due(loop, loop.operands, found)
                found[x] = None if inner is None else frozenset(substitute(q, known or {}) for q in inner)
            case _:
                found[x] = _ALWAYS
    return found


def read_under(statements: Sequence[Statement], read: Mapping[Statement, Due]) -> dict[Statement, Due]:
    """For each of the statements, operands first, the conditions without any of which it isn't read, None if it is
    never read. `read` has those under which others than statements read some."""
    found: dict[Statement, list[Due]] = {x: [read[x]] if x in read else [] for x in statements}
    for x in reversed(statements):
        here = common(found[x]) if not isinstance(x, Defining) else _ALWAYS
        parts: list[Predicate] = [TRUE] * len(operands(x))
        match x:
            case Addition(terms, _):
                parts = [t.pred for t in terms]
            case Contraction():
                parts = [x.pattern.pred] * len(parts)
            case Map(p, _, _, _):
                parts = [p] * len(parts)
        for y, p in zip(operands(x), parts, strict=True):
            found[y].append(_with(here, p))
    return {x: common(several) for x, several in found.items()}


def _asked(p: Predicate) -> frozenset[Predicate]:
    return frozenset(filter(is_of_step, conjuncts(p)))


def _with(found: Due, p: Predicate) -> Due:
    return None if found is None else found | _asked(p)


def common(several: Iterable[Due]) -> Due:
    """The conditions without which all of these are zero."""
    kept = [found for found in several if found is not None]
    return frozenset.intersection(*kept) if kept else None


def _in_any(several: Iterable[Due]) -> Due:
    """The conditions without any of which at least one of these is zero."""
    every = list(several)
    kept = [found for found in every if found is not None]
    return frozenset[Predicate]().union(*kept) if len(kept) == len(every) else None
