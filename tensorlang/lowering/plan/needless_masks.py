"""Masks of the time that hide nothing but zeros, left out of the steps of recurrences.

    Y = gen i. [p] * e;  X = gen i. [p] * Y[i] * Z[i]                      ->      X = gen i. Y[i] * Z[i]
    Y as above;  Z = gen i. [p] * tanh(W[i]);  X = gen i. Y[i] * Z[i]      ->      Z = gen i. tanh(W[i])

where p depends on the time, as the supports of cotangents do. Such a mask saves nothing: it can't restrict a range, and
evaluating p for each element takes longer than multiplying. Z must be finite where the data are, since 0 times nan or
inf is not 0.

A state is 0 where p, a condition under which its steps read it, is false, if that is so initially and each step
preserves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import (
    TRUE,
    Equal,
    Exists,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    disjunction,
    free_atoms,
    less,
    lookups,
    relations,
    substitute,
)
from tensorlang.normal.contraction import inner_solution, shadow
from tensorlang.normal.pattern import Pattern, renamed
from tensorlang.normal.recurrences import merged, step_ssa, with_outputs
from tensorlang.normal.ssa import (
    SSA,
    Addend,
    Addition,
    Contraction,
    Input,
    Loop,
    Map,
    Result,
    Statement,
    States,
    factor_indices,
    operands,
    own_indices,
    own_ranges,
    predicates,
    selections,
)
from tensorlang.normal.tidy import is_index_only, map_outputs, support, with_operands
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate, simplify_in
from tensorlang.simplification.supports import is_zero_at_zero

_MOST = 6
"""The most alternatives of a support; one with more is ignored."""

_NAMES = (
    "abs asinh atan atan2 ceil cos erf erfc floor logaddexp max min relu round sigmoid sign sin softplus tanh "
    "where_ge where_gt"
)
TOTAL = frozenset(_NAMES.split())
"""Functions that are finite wherever their arguments are."""


Supports = tuple[Predicate, ...]
"""For each output of a step, a condition on its indices and the time without which it is 0."""


def without_needless_masks(s: SSA) -> tuple[SSA, dict[Loop, Supports]]:
    """`s`, its recurrences testing the time only where finite numbers depend on it, and supports of changed ones."""
    finite = finite_ones(s.statements)
    loops = dict.fromkeys(x.loop for x in s.statements if isinstance(x, States))
    chosen = selections(s.statements).keys()
    found = {loop: made for loop in loops if (made := _unmasked(loop, finite, chosen)) is not None}
    if not found:
        return s, {}
    new = merged(s.statements, {loop: made for loop, (made, _) in found.items()})
    names = {new[x]: name for x, name in s.names.items()}
    pairs = ((x, new[x]) for x in s.statements if isinstance(x, States) and x.loop in found)
    supports = {y.loop: found[x.loop][1] for x, y in pairs if isinstance(y, States)}
    statements = tuple(dict.fromkeys(new.values()))
    return replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names), supports


def unmasked_windows(
    statements: Iterable[Statement],
    start: IndexArray,
    supports: Mapping[Statement, Predicate],
    known: Collection[Statement],
) -> dict[Statement, Statement]:
    """The replacements, without needless masks, of `statements` over the times of a window, which begins at `start`.

    Windows of states are 0 outside of their `supports`. Statements from outside of the window are included; those that
    are `known` are finite.
    """
    finite = finite_ones(statements, (), known)
    new: dict[Statement, Statement] = {}
    zeros: dict[Statement, Predicate] = {}
    for x in statements:
        made = x
        if all(y in new for y in operands(x)):
            made = _shown(with_operands(x, new), start, zeros, finite.issuperset(operands(x)))
        new[x] = made
        zeros[made] = supports.get(x) or (_support(made, zeros) if zeros.keys() >= set(operands(made)) else TRUE)
    return new


def finite_ones(
    statements: Iterable[Statement], others: Collection[Var] = (), known: Collection[Statement] = ()
) -> set[Statement]:
    """The statements that are finite where the data are, overflow aside, given that those `known` are, and all
    variables except the `others`."""
    found = set(known)
    for x in statements:
        match x:
            case States(loop=loop):
                is_finite = found.issuperset(loop.operands) and has_finite_steps(loop)
            case Map(_, f, _, _):
                is_finite = f.name in TOTAL and found.issuperset(operands(x))
            case Input(param, _, _):
                is_finite = not isinstance(x, Result) and param not in others
            case _:
                is_finite = found.issuperset(operands(x))
        if is_finite:
            found.add(x)
    return found


def has_finite_steps(loop: Loop) -> bool:
    """Whether all that a recurrence computes is finite if what it reads is."""
    statements = step_ssa(loop.step).statements
    return len(finite_ones(statements)) == len(statements)


def _unmasked(loop: Loop, known: Collection[Statement], chosen: Collection[IndexArray]) -> tuple[Loop, Supports] | None:
    """`loop` without needless masks, and its supports, where `known` ones of its operands are finite, and the index
    arrays that the program has `chosen` are unknown to its steps.

    None if it never tests the time.
    """
    step = loop.step
    s = step_ssa(step)
    if not any(_is_of_time(q, step.time) for x in s.statements for p in predicates(x) for q in conjuncts(p)):
        return None
    others = {v for v, x in zip(step.frees, loop.frees, strict=True) if x not in known}
    all_finite = all(x in known for x in loop.operands) and has_finite_steps(loop)
    finite = finite_ones(s.statements, others if all_finite else others | set(step.states))
    states = _supports_of_states(loop, s)
    states |= {
        Input(v, (), x.shape): p
        for v, x in zip(step.frees, loop.frees, strict=True)
        if (p := _short(support(x))) is not TRUE and not any(read.array in chosen for read in lookups(p))
    }
    new: dict[Statement, Statement] = {}
    whole: dict[Statement, Statement] = {}
    supports: dict[Statement, Predicate] = {}
    for x in s.statements:
        reads_finite = finite.issuperset(operands(x))
        made = _shown(with_operands(x, new), step.time, supports, reads_finite)
        if isinstance(made, Contraction) and reads_finite:
            made = _of_whole(made, whole, step.time, supports)
        masks = _masks(made, step.time) if x in finite else []
        if isinstance(made, Map | Contraction) and masks:
            y = whole[made] = _under(made, conjunction(q for q in conjuncts(made.pred) if q not in masks))
            supports[y] = _support(y, supports)
        new[x] = made
        supports[made] = states.get(x) or _support(made, supports)
    shown = with_outputs(step, replace(s, statements=tuple(new.values()), outputs=map_outputs(s.outputs, new)))
    return Loop(loop.size, shown, loop.inits, loop.frees), tuple(supports[new[x]] for x in step.outputs)


def _supports_of_states(loop: Loop, s: SSA) -> dict[Statement, Predicate]:
    """For states read in the step `s` under conditions on the time: conditions that hold wherever the state is not 0.

    By induction: conditions that fail at first, or that a step does not preserve, are dropped until nothing changes.
    """
    step = loop.step
    now = Lookup(step.time, ())
    at_first: dict[Atom, Affine] = {now: constant(0)}
    at_next: dict[Atom, Affine] = {now: atom_affine(now) + 1}
    goes_on = less(atom_affine(now) + 1, loop.size)
    states: dict[Statement, int] = {
        Input(v, (), y.shape): k for k, (v, y) in enumerate(zip(step.states, loop.inits, strict=True))
    }
    asked: dict[Statement, dict[Predicate, None]] = {}
    for x in s.statements:
        for y, p in _read_in_place(x):
            if y in states:
                asked.setdefault(y, {}).update((q, None) for q in conjuncts(p) if _is_of_time(q, step.time))
    for y, conditions in asked.items():
        first = loop.inits[states[y]]
        inside = conjunction([ranges_predicate(own_ranges(y)), _support(first, dict.fromkeys(operands(first), TRUE))])
        asked[y] = {q: None for q in conditions if implies(inside, substitute(q, at_first))}
    while any(asked.values()):
        supports: dict[Statement, Predicate] = {}
        for x in s.statements:
            supports[x] = conjunction(asked[x]) if x in asked else _support(x, supports)
        kept: dict[Statement, dict[Predicate, None]] = {}
        for y, conditions in asked.items():
            after = supports[step.outputs[states[y]]]
            inside = conjunction([ranges_predicate(own_ranges(y)), goes_on, after])
            kept[y] = {q: None for q in conditions if implies(inside, substitute(q, at_next))}
        if kept == asked:
            break
        asked = kept
    return {y: conjunction(conditions) for y, conditions in asked.items() if conditions}


def _read_in_place(x: Statement) -> Iterator[tuple[Statement, Predicate]]:
    """The operands that `x` reads at its own indices, each with the condition under which it does."""
    match x:
        case Addition(terms, _):
            yield from ((t.operand, t.pred) for t in terms)
        case Map(p, _, arguments, _):
            yield from ((y, p) for y in arguments)
        case Contraction(p, _, _, _):
            own, solved = own_indices(x), inner_solution(x).values
            for y, at in zip(x.factors, factor_indices(x), strict=True):
                if [solved.get(i) for i in at] == [*map(atom_affine, own)]:
                    yield y, conjunction(q for q in conjuncts(p) if free_atoms(q).isdisjoint(x.pattern.inner))


def _is_of_time(q: Predicate, time: IndexArray) -> bool:
    """Whether `q` tests the time, and no other data unless it asks for a place in them. An equality doesn't count: it
    gives a place, at no cost."""
    found = () if isinstance(q, Equal) else lookups(q)
    own = [lookup for lookup in found if lookup.array is time]
    return bool(own) and (len(own) == len(found) or isinstance(q, Exists)) and not relations(q)


def _shown(x: Statement, time: IndexArray, supports: Mapping[Statement, Predicate], finite: bool) -> Statement:
    """`x` without the conditions on the time that hold anyway wherever it would not be 0 without them."""
    match x:
        case Addition(terms, shape):
            ranges = own_ranges(x)
            shown = [Addend(t.sign, _left(t.pred, supports[t.operand], ranges, time), t.operand) for t in terms]
            return Addition(tuple(shown), shape)
        case Map(p, f, arguments, _) if is_zero_at_zero(f):
            inside = disjunction(supports[y] for y in arguments)
            return _under(x, _left(p, inside, own_ranges(x), time))
        case Contraction(p, factors, _, _) if finite or len(factors) == 1:
            ranges = {**x.pattern.outer, **x.pattern.inner}
            return _under(x, _left(p, _read(x, supports), ranges, time))
        case _:
            return x


def _under(x: Map | Contraction, p: Predicate) -> Map | Contraction:
    """`x` with another predicate."""
    if isinstance(x, Map):
        return Map(p, x.function, x.arguments, x.shape)
    return Contraction(p, x.factors, x.summed, x.shape)


def _of_whole(
    x: Contraction, whole: Mapping[Statement, Statement], time: IndexArray, supports: Mapping[Statement, Predicate]
) -> Contraction:
    """`x` with factors read without their masks, one after the other, where these hide only terms that are 0 anyway."""
    for k, (y, at) in enumerate(zip(x.factors, factor_indices(x), strict=True)):
        if y not in whole:
            continue
        factors = (*x.factors[:k], whole[y], *x.factors[k + 1 :])
        masks = [renamed(q, own_indices(y), at) for q in _masks(y, time)]
        opened = Contraction(conjunction([*conjuncts(x.pred), *masks]), factors, x.summed, x.shape)
        shown = _shown(opened, time, supports, True)
        if isinstance(shown, Contraction) and set(conjuncts(x.pred)).issuperset(conjuncts(shown.pred)):
            x = shown
    return x


def _masks(x: Statement, time: IndexArray) -> list[Predicate]:
    """The conditions on the time under which a map, or a copy, has elements."""
    match x:
        case Map(p, _, _, _):
            return [q for q in conjuncts(p) if _is_of_time(q, time)]
        case Contraction(p, _, _, _) if is_index_only(x):  # others say where it reads
            return [q for q in conjuncts(p) if _is_of_time(q, time) and free_atoms(q).isdisjoint(x.pattern.inner)]
        case _:
            return []


def _left(p: Predicate, inside: Predicate, ranges: Mapping[Index, Affine], time: IndexArray) -> Predicate:
    """The conditions in `p` except those on the time that the others and `inside` imply."""
    kept = list(conjuncts(p))
    for q in conjuncts(p):
        if _is_of_time(q, time):
            others = [other for other in kept if other is not q]
            if implies(conjunction([ranges_predicate(ranges), inside, *others]), q):
                kept = others
    return conjunction(kept)


def _read(x: Contraction, supports: Mapping[Statement, Predicate]) -> Predicate:
    """Where none of the factors is 0."""
    places = zip(x.factors, factor_indices(x), strict=True)
    return conjunction(renamed(supports[y], own_indices(y), at) for y, at in places)


def _support(x: Statement, supports: Mapping[Statement, Predicate]) -> Predicate:
    """A condition on the indices of `x` without which it is 0."""
    match x:
        case Addition(terms, _):
            p = disjunction(conjunction([t.pred, supports[t.operand]]) for t in terms)
        case Map(p, f, arguments, _):
            inside = disjunction(supports[y] for y in arguments) if is_zero_at_zero(f) else TRUE
            p = conjunction([p, inside])
        case Contraction(p, _, summed, shape):
            shapes = tuple(y.shape for y in x.factors)
            p = shadow(Pattern(conjunction([p, _read(x, supports)]), shapes, summed, shape))
        case _:
            return TRUE
    return _short(simplify_in(p, own_ranges(x)))


def _short(p: Predicate) -> Predicate:
    """`p`, or TRUE if it has many alternatives."""
    return TRUE if any(isinstance(q, Or) and len(q.parts) > _MOST for q in conjuncts(p)) else p
