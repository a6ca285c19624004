"""Choices that are made of what the steps of an earlier recurrence store: these steps make them, and store the places.

    H = Loop(.. l = gen i, j. s[j] + A[j, i] ..);  K = gen t, i. argmax j. H.l[t, i, j]
        ->  H = Loop(.. k = gen i. argmax j. l[i, j] ..);  K = H.k

where all readers of H.l choose along its last axis, under the same conditions. A step that takes greatest values has
their places at hand, and an array of places is smaller by an axis than what they are chosen from. Adjoints of dynamic
programs read nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.function import Parameter, unused_name
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, Predicate, conjuncts, free_atoms, lookups, substitute
from tensorlang.language.types import R, array, shape
from tensorlang.normal.contraction import inner_solution, only_moves
from tensorlang.normal.pattern import axes, renamed
from tensorlang.normal.recurrences import choices_of, made_step, step_ssa
from tensorlang.normal.ssa import (
    Contraction,
    Input,
    Loop,
    Selection,
    Statement,
    States,
    Whole,
    factor_indices,
    integers,
    operands,
    own_indices,
)
from tensorlang.normal.tidy import with_operands
from tensorlang.simplification.compact_choices import Element, looking_up


@dataclass(frozen=True, eq=False)
class ChoiceOfSteps:
    """The index array of `choice`, one for all times, which steps give as the places `var`."""

    choice: Selection
    var: Var


class StoredChoices:
    """The `statements` of a program, its `loops` and what they `read`, of which some look up choices `made` by steps;
    these are `looked_up` by the steps of some loops. `given` are the results of loops, `wanted` those statements that
    others than statements and loops read, `taken` the names that there are, to which new ones are added, and `params`
    the parameters of the program."""

    def __init__(
        self,
        statements: Sequence[Statement],
        loops: Sequence[Whole],
        read: Sequence[Sequence[Statement]],
        given: Mapping[Var, tuple[int, int, str]],
        wanted: Iterable[Statement],
        taken: set[str],
        params: Iterable[Parameter],
    ) -> None:
        self.statements, self.loops, self.read = list(statements), list(loops), [list(xs) for xs in read]
        self.made: dict[Var, ChoiceOfSteps] = {}
        self.looked_up: dict[int, list[Selection]] = {}
        self.new: dict[Statement, Statement] = {x: x for x in statements}
        self._wanted, self._taken, self._params = set(wanted), taken, set(params)
        results = [(k, place) for k, place, _ in given.values()]
        for v, (k, place, word) in given.items():
            if word == "scan" and results.count((k, place)) == 1:
                self._store(v, k, place)

    def _store(self, v: Var, k: int, place: int) -> None:
        """Let the steps of the k-th loop make the choices among the states in this place, if these are only read so."""
        x = next((x for x in self.statements if isinstance(x, Input) and x.param is v), None)
        loop = self.loops[k]
        if x is None or x in self._wanted or not isinstance(loop, Loop) or not _is_only_stored(loop, place):
            return
        seen = {*self._wanted, *(y for xs in self.read for y in xs)} - {x}
        found = self._chosen_from(x, self.statements, seen)
        inside = {
            j: self._chosen_in(other, xs, x) for j, (other, xs) in enumerate(zip(self.loops, self.read, strict=True))
        }
        if found is None or None in inside.values():
            return
        every = {**found, **{c: how for made in inside.values() for c, how in (made or {}).items()}}
        kinds = {(c.sign, how.guard, how.pred) for c, how in every.items()}
        if len(kinds) != 1:
            return
        (kind,) = kinds
        name = unused_name(next(iter(every)).array.name, self._taken)
        self._taken.add(name)
        choice = _choice(name, x, *kind, along=1)
        self.made[v] = ChoiceOfSteps(choice, Var(name, array(x.shape[:-1], R)))
        self.loops[k] = _choosing(loop, place, name, *kind)
        self._replace(x, choice, _elements(found, choice))
        for j, made in inside.items():
            if made:
                self._read_in(j, x, _elements(made, choice))
                self.looked_up.setdefault(j, []).append(choice)

    def _chosen_in(self, loop: Whole, read: Sequence[Statement], x: Statement) -> _Choices | None:
        """The choices among elements of `x` that steps make, if they and the loop read it for nothing else."""
        if x not in read:
            return {}
        if not isinstance(loop, Loop) or x in read[: len(loop.inits)]:
            return None
        found: dict[Selection, _Chosen] = {}
        statements = step_ssa(loop.step).statements
        for v, y in zip(loop.step.frees, read[len(loop.inits) :], strict=True):
            if y is x:
                made = self._chosen_from(Input(v, (), x.shape), statements, set(loop.step.outputs))
                if made is None:
                    return None
                found.update(made)
        return found

    def _chosen_from(self, x: Statement, statements: Iterable[Statement], wanted: set[Statement]) -> _Choices | None:
        """The choices along the last axis of `x`, or of views of it, if `statements` read it for nothing else, and
        `wanted` are no such views."""
        statements = list(statements)
        found: dict[Selection, _Chosen] = {}
        for y in statements:
            if x not in operands(y):
                continue
            readers: list[Statement]
            there: Predicate
            if isinstance(y, Selection):
                readers, at, there = [y], tuple(map(atom_affine, own_indices(x)[:-1])), TRUE
            elif (view := _view_of(y, x)) is not None and y not in wanted:
                readers, (at, there) = [z for z in statements if y in operands(z)], view
            else:
                return None
            for c in readers:
                how = self._how(c, at, there) if isinstance(c, Selection) else None
                if how is None or not isinstance(c, Selection):
                    return None
                found[c] = how
        return found

    def _how(self, c: Selection, at: tuple[Affine, ...], there: Predicate) -> _Chosen | None:
        """The choice `c` at these places, if its conditions are on axes other than the time, and parameters, and
        include `there`."""
        if not {*conjuncts(there)} <= {*conjuncts(c.guard), *conjuncts(c.pred)}:
            return None
        if c.guard is TRUE and c.pred is TRUE:
            return _Chosen(at, TRUE, TRUE)
        own = own_indices(c.operand)
        asked = {*lookups(c.guard), *lookups(c.pred)}
        others = dict(zip((*at[1:], atom_affine(own[-1])), map(atom_affine, axes(0, len(at))), strict=True))
        moved: dict[Atom, Affine] = {i: others[atom_affine(i)] for i in own if atom_affine(i) in others}
        free = {i for p in (c.guard, c.pred) for i in free_atoms(p) if isinstance(i, Index)}
        if len(moved) < len(others) or not free <= moved.keys() or any(x.array not in self._params for x in asked):
            return None
        return _Chosen(at, substitute(c.guard, moved), substitute(c.pred, moved))

    def _replace(self, x: Statement, choice: Selection, elements: Mapping[IndexArray, Element]) -> None:
        """Let the statements look up elements of `choice`, which follows its operand `x`."""
        change: dict[Statement, Statement] = {}
        listed: dict[Statement, None] = {}
        for y in self.statements:
            if isinstance(y, Selection) and y.array in elements:
                change[y] = choice
                continue
            change[y] = looking_up(with_operands(y, change), elements)
            listed[change[y]] = None
            if y is x:
                listed[choice] = None
        self.statements = list(listed)
        self.new = {y: change.get(z, z) for y, z in self.new.items()}
        self.read = [[change.get(y, y) for y in xs] for xs in self.read]

    def _read_in(self, j: int, x: Statement, elements: Mapping[IndexArray, Element]) -> None:
        """Let the steps of the j-th loop look up elements outside, instead of reading `x`."""
        loop = self.loops[j]
        assert isinstance(loop, Loop)
        step, count = loop.step, len(loop.inits)
        new: dict[Statement, Statement] = {}
        for y in step_ssa(step).statements:
            if not (isinstance(y, Selection) and y.array in elements):
                new[y] = looking_up(with_operands(y, new), elements)
        kept = [n for n, y in enumerate(self.read[j][count:]) if y is not x]
        made = made_step(
            step.states,
            [step.frees[n] for n in kept],
            step.time,
            [new[y] for y in step.outputs],
            choices_of(new.values()),
        )
        self.loops[j] = Loop(loop.size, made, loop.inits, tuple(loop.frees[n] for n in kept))
        self.read[j] = [*self.read[j][:count], *(self.read[j][count + n] for n in kept)]


def _is_only_stored(loop: Loop, place: int) -> bool:
    """Whether steps give the state in this place without reading it, and without recurrences."""
    step = loop.step
    statements = step_ssa(step).statements
    state = Input(step.states[place], (), shape(step.states[place].type)[0])
    made = step.outputs[place]
    return (
        state not in step.outputs
        and not any(state in operands(y) for y in statements)
        and not any(isinstance(y, States) for y in statements)
        and len(made.shape) > 0
        and not isinstance(made, Input)
    )


def _choice(name: str, x: Statement, sign: int, guard: Predicate, pred: Predicate, along: int = 0) -> Selection:
    """The choice along the last axis of `x`, which is apart from others of the same. The conditions are over its axes
    from place `along` on."""
    old, new = axes(0, len(x.shape) - along), axes(along, len(x.shape) - along)
    index_array = IndexArray(name, x.shape[:-1], x.shape[-1], partial=guard is not TRUE)
    return Selection(index_array, sign, renamed(guard, old[:-1], new[:-1]), renamed(pred, old, new), x)


def _choosing(loop: Loop, place: int, name: str, sign: int, guard: Predicate, pred: Predicate) -> Loop:
    """`loop`, whose steps give the places chosen along the last axis of the state in this place instead of it."""
    step = loop.step
    outputs = list(step.outputs)
    made = outputs[place]
    # one that the step has already is left for greatest values, which are found without their places
    chosen = _choice(name, made, sign, guard, pred)
    own = tuple(map(atom_affine, axes(0, len(made.shape) - 1)))
    outputs[place] = integers(atom_affine(Lookup(chosen.array, own)), made.shape[:-1])
    choices = choices_of((*step_ssa(step).statements, chosen))
    return Loop(loop.size, made_step(step.states, step.frees, step.time, outputs, choices), loop.inits, loop.frees)


@dataclass(frozen=True)
class _Chosen:
    """A choice among elements of an array over the time: at the places `at` of its axes except the last, under
    conditions on its axes except the first."""

    at: tuple[Affine, ...]
    guard: Predicate
    pred: Predicate


_Choices = Mapping[Selection, _Chosen]


def _view_of(y: Statement, x: Statement) -> tuple[tuple[Affine, ...], Predicate] | None:
    """The places along the axes of `x`, except the last, at which the view `y` has its elements, if its last axis is
    that of `x`; and the condition outside of which it is zero instead."""
    if not isinstance(y, Contraction) or not only_moves(y) or not y.shape:
        return None
    solution = inner_solution(y)
    *places, last = (solution.values.get(i, atom_affine(i)) for i in factor_indices(y)[0])
    own = own_indices(y)[-1]
    if last is not atom_affine(own) or y.shape[-1] is not x.shape[-1] or any(own in a.free for a in places):
        return None
    return tuple(places), solution.rest


def _elements(found: _Choices, choice: Selection) -> dict[IndexArray, Element]:
    """What the elements of these choices are of `choice`."""
    return {c.array: Element(own_indices(c), atom_affine(Lookup(choice.array, how.at))) for c, how in found.items()}
