"""Products that a step computes itself, rather than read them from an array that has them for all times.

    x = gen t, g. e(t, g);  H = Loop(.. x[a(r)] ..)    ->    H = Loop(.. z = gen g. e(a(r), g) in z ..)

where e is an outer product: it takes one operation for each element, and its arrays have some of the axes of x. Steps
read x at one place a(r), a different one at each time r, and any other reader, such as the first state, reads a single
place that no step reads. So each element is computed at most once, as before, and x, the largest of these arrays, is
not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    conjunction,
    equal,
    relations,
    substitute,
    within,
)
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.short_windows import short_windows
from tensorlang.normal.contraction import Factor, contraction, inner_solution, is_determined
from tensorlang.normal.pattern import axis as axis_index
from tensorlang.normal.recurrences import choices_of, made_step, merged, step_ssa, with_outputs
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Constant,
    Contraction,
    Input,
    Integers,
    Loop,
    Map,
    Statement,
    States,
    factor_indices,
    live,
    looked_up,
    operands,
    output_list,
    own_indices,
    own_ranges,
    summed_indices,
)
from tensorlang.normal.tidy import addition, map_outputs, support, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate
from tensorlang.simplification import simplify_ssa
from tensorlang.simplification.supports import common, telling


class FactorReplacement(NamedTuple):
    """A statement that is read in place of a factor. It lacks the factor's axes `gone`, and has `further` axes after
    its first one; `summed` has those that are new and summed over, and `where` says where it equals the factor."""

    statement: Statement
    gone: Collection[int]
    further: tuple[Index, ...] = ()
    summed: Mapping[Index, Affine] = {}
    where: Predicate = TRUE


Parts = Mapping[int, FactorReplacement]
"""The replacements of some factors, by number."""


def in_steps(s: SSA) -> SSA:
    """`s`, whose recurrences compute the products that their steps read, each at its own time."""
    tried: set[Statement] = set()
    given = {p for p in s.params if isinstance(p, IndexArray)}
    # readers before what they read
    while x := next((x for x in reversed(s.statements) if x not in tried and _may_be_made(x, given)), None):
        tried.add(x)
        for axis in range(len(x.shape)):
            s = _moved(s, x, axis)
    return s


def _may_be_made(x: Statement, given: Collection[IndexArray]) -> bool:
    """Whether `x` is larger than what it is made of: an outer product, or scattered by the index arrays `given`."""
    return _is_product(x) or _is_scattered(x, given)


def _is_scattered(x: Statement, given: Collection[IndexArray]) -> bool:
    """Whether `x` is zero except at places that data determine, and each element the sum of at most a few values."""
    if len(x.shape) < 2 or not (isinstance(x, Addition | Map) or (isinstance(x, Contraction) and _is_short(x))):
        return False
    where = [t.pred for t in x.terms] if isinstance(x, Addition) else [support(x)]
    arrays, ranges = set(looked_up(x)), own_ranges(x)
    return bool(
        arrays
        and arrays <= set(given)
        and not any(map(relations, where))
        and all(telling(common([p]), ranges) for p in where)
    )


def _is_short(x: Contraction) -> bool:
    """Whether each element is the sum of few values."""
    solved = inner_solution(x).values
    return all(i in solved or any(short_windows(x, i)) for i in x.pattern.inner)


def _is_product(x: Statement) -> bool:
    """Whether `x` takes one operation for each element, of arrays that have some of its axes."""
    if not (isinstance(x, Contraction) and len(x.factors) > 1 and is_determined(x.pattern)):
        return False
    own = Counter(x.shape)
    smaller = all(Counter(y.shape) < own for y in x.factors)
    return smaller and not looked_up(x) and not relations(x.pred)


def _moved(s: SSA, x: Statement, axis: int) -> SSA:
    """`s` with `x` computed by the steps of the one recurrence that reads it, at one place on this axis; `s` itself if
    that is impossible."""
    readers = [y for y in s.statements if x in operands(y)]
    loops = {y.loop for y in readers if isinstance(y, States)}
    if len(loops) != 1 or x in output_list(s.outputs):
        return s
    (loop,) = loops
    inside, now = read_as(loop, x), Lookup(loop.step.time, ())
    own = place_read(step_ssa(loop.step).statements, inside, axis) if inside is not None else None
    if own is None or own.lookups != (now,) or abs(own.coefficient(now)) != 1:
        return s
    t = Index("t")
    then = own.substitute({now: atom_affine(t)})
    changed: dict[Statement, Statement] = {}
    for y in readers:
        if not isinstance(y, States):
            at = place_read([y], x, axis)
            if (
                at is None
                or at.lookups
                or not _is_never(conjunction([ranges_predicate({t: loop.size}), equal(then, at)]))
            ):
                return s
            part = _at(x, axis, at, {z: z for z in operands(x)})
            changed[y] = reading(y, _all(y, x, part, axis), {z: z for z in operands(y)})
    new = merged(s.statements, {loop: _making(loop, x, axis, own)}, changed)
    names = {new[x]: name for x, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return live(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _is_never(p: Predicate) -> bool:
    return implies(p, FALSE)


def _making(loop: Loop, x: Statement, axis: int, at: Affine) -> Loop:
    """`loop`, whose steps compute the part of `x` that they read, at this place of the axis."""
    frees = dict(zip(loop.frees, loop.step.frees, strict=True))
    inside = Input(frees.pop(x), (), x.shape)
    own: dict[Statement, Statement] = {}
    for y in operands(x):
        if isinstance(y, Constant | Integers):
            own[y] = y
        else:
            v = frees.setdefault(y, Var(y.param.name if isinstance(y, Input) else "v", array(y.shape, R)))
            own[y] = Input(v, (), y.shape)
    made = _at(x, axis, at, own)
    return rebuilt(loop, frees, inside, lambda y: _all(y, inside, made, axis))


def read_as(loop: Loop, x: Statement) -> Input | None:
    """The input that stands for `x` in the steps of a recurrence; None if that also reads `x` otherwise."""
    if x in loop.inits or len(set(loop.frees)) < len(loop.frees):
        return None
    inside = Input(loop.step.frees[loop.frees.index(x)], (), x.shape)
    return None if inside in loop.step.outputs else inside


def rebuilt(loop: Loop, frees: Mapping[Statement, Var], inside: Input, parts: Callable[[Statement], Parts]) -> Loop:
    """`loop`, whose steps have these `frees`, and in which each statement y reads `parts(y)` in place of `inside`."""
    step = loop.step
    new: dict[Statement, Statement] = {}
    for y in step_ssa(step).statements:
        new[y] = reading(y, parts(y), new) if inside in operands(y) else with_operands(y, new)
    outputs = [new[y] for y in step.outputs]
    again = made_step(step.states, tuple(frees.values()), step.time, outputs, choices_of(new.values()))
    return Loop(loop.size, with_outputs(again, simplify_ssa(step_ssa(again))), loop.inits, tuple(frees))


def _at(x: Statement, axis: int, at: Affine, operand: Mapping[Statement, Statement]) -> Statement:
    """The slice of `x` at this place of an axis, computed from these operands."""
    there = within(at, x.shape[axis])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    moved: dict[Atom, Affine] = {axis_index(axis): at}
    moved |= {axis_index(k): atom_affine(axis_index(k - 1)) for k in range(axis + 1, len(x.shape))}
    match x:
        case Addition(terms):
            rows = [_row(operand[t.operand], axis, at) for t in terms]
            return addition(
                [Addend(t.sign, substitute(t.pred, moved), row) for t, row in zip(terms, rows, strict=True)], shape
            )
        case Map(pred, f, arguments):
            where = conjunction([there, substitute(pred, moved)])
            return Map(where, f, tuple(_row(operand[y], axis, at) for y in arguments), shape)
    assert isinstance(x, Contraction)
    old = own_indices(x)
    read = [(operand[y], places) for y, places in zip(x.factors, factor_indices(x), strict=True)]
    summed = dict(zip(summed_indices(x), x.summed, strict=True))
    where = substitute(conjunction([there, x.pattern.pred]), {old[axis]: at})
    return contraction(shape, (*old[:axis], *old[axis + 1 :]), read, summed, where)


def _row(x: Statement, axis: int, at: Affine) -> Statement:
    """The slice of `x` at this place of an axis, read from `x`."""
    places = own_indices(x)
    own = tuple(Index(i.name) for k, i in enumerate(places) if k != axis)
    left = (i for k, i in enumerate(places) if k != axis)
    alike = [equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, left, strict=True)]
    where = conjunction([equal(atom_affine(places[axis]), at), *alike])
    return contraction((*x.shape[:axis], *x.shape[axis + 1 :]), own, [(x, places)], {}, where)


def reading(y: Statement, parts: Parts, new: Mapping[Statement, Statement]) -> Statement:
    """`y`, reading `parts` in place of some factors and `new` statements in place of the others."""
    assert isinstance(y, Contraction)
    summed = dict(zip(summed_indices(y), y.summed, strict=True))
    where = [y.pattern.pred]
    factors: list[Factor] = []
    for k, (z, at) in enumerate(zip(y.factors, factor_indices(y), strict=True)):
        if k not in parts:
            factors.append((new[z], at))
            continue
        part = parts[k]
        summed.update((at[axis], z.shape[axis]) for axis in part.gone)  # equalities determine them
        summed.update(part.summed)
        where.append(part.where)
        fresh = tuple(Index(i.name) for i in part.further)
        where += [equal(atom_affine(i), atom_affine(j)) for i, j in zip(part.further, fresh, strict=True)]
        kept = tuple(i for axis, i in enumerate(at) if axis not in part.gone)
        factors.append((part.statement, (*kept[:1], *fresh, *kept[1:])))
    return contraction(y.shape, own_indices(y), factors, summed, conjunction(where))


def _all(y: Statement, x: Statement, made: Statement, axis: int) -> Parts:
    """Parts with which `y` reads what was `made` of `x` wherever it reads `x`."""
    return {k: FactorReplacement(made, (axis,)) for k, z in enumerate(operands(y)) if z is x}


def place_read(readers: Collection[Statement], x: Statement, axis: int) -> Affine | None:
    """The one place on this axis where all readers read `x`, depending on no index; None if there is no such place."""
    found: set[Affine | None] = set()
    for y in readers:
        for k, z in enumerate(operands(y)):
            if z is x:
                at = inner_solution(y).values.get(factor_indices(y)[k][axis]) if isinstance(y, Contraction) else None
                found.add(at if at is not None and not at.indices else None)
    return found.pop() if len(found) == 1 else None
