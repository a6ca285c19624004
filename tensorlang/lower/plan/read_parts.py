"""States of which only a part is kept over the time: the elements that are read.

    H = Loop(.. s ..);  .. H.s[t, g, a(t)] ..    ->    H = Loop(.. s, p = gen g. s[g, a(now)] ..);  .. H.p[t, g] ..

where all that reads the states over the time reads them at places a(t), a size plus or minus t, or at fixed ones, or
those that data give for each time and the other axes: the adjoint of an elimination reads a row and a column of the
matrix before each step, that of a walk the place where it is. There is a part for each of these places, which is no
arithmetic, and has fewer axes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Predicate, at_most, conjunction, equal, less
from tensorlang.language.types import R, array
from tensorlang.lower.plan.in_step import read_as, reading, rebuilt
from tensorlang.normal.contraction import contraction, inner_solution
from tensorlang.normal.pattern import axis as axis_index
from tensorlang.normal.recurrences import made_step, merged, step_ssa
from tensorlang.normal.ssa import (
    SSA,
    Constant,
    Contraction,
    Input,
    Loop,
    Statement,
    States,
    factor_indices,
    live,
    operands,
    output_list,
    own_indices,
    states,
)
from tensorlang.normal.tidy import map_outputs
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate

_TIME, _ZERO = Index("t"), constant(0)

Places = tuple[tuple[int, Affine], ...]
"""Some axes of states over the time, and the places on them, as functions of the time."""


def read_parts(s: SSA) -> SSA:
    """`s`, whose recurrences give of their states over the time only what is read."""
    tried: set[Statement] = set()
    while (x := next((x for x in s.statements if x not in tried and _is_over_time(x)), None)) is not None:
        tried.add(x)
        assert isinstance(x, States)
        s = _in_part(s, x)
    return s


def _is_over_time(x: Statement) -> bool:
    return isinstance(x, States) and x.word in ("scan", "prescan") and len(x.shape) > 1


def _in_part(s: SSA, x: States) -> SSA:
    """`s`, where only a part of the states `x` is there for all times, if that is what is read of them."""
    readers = [y for y in s.statements if x in operands(y)]
    loops: dict[Loop, Input] = {}
    for y in readers:
        if isinstance(y, States):
            inside = read_as(y.loop, x)
            if inside is None:
                return s
            loops[y.loop] = inside
    if x in output_list(s.outputs):
        return s
    read: list[tuple[Statement, Input]] = [(y, x) for y in readers if not isinstance(y, States)]
    read += [(y, z) for loop, z in loops.items() for y in step_ssa(loop.step).statements if z in operands(y)]
    given = {p for p in s.params if isinstance(p, IndexArray)}
    places = [_places(y, z, given) for y, z in read]
    found = list(dict.fromkeys(at for some in places for at in some.values()))
    if not found or not all(found) or (len(found) > 1 and not all(_is_smaller(x, at) for at in found)):
        return s
    whole, count = _with_parts(x, found), len(x.loop.inits)
    parts = {at: (states(whole, count + k, "scan"), tuple(axis for axis, _ in at)) for k, at in enumerate(found)}
    changed: dict[Statement, Statement] = {}
    for y in readers:
        if not isinstance(y, States):
            own = {k: parts[at] for k, at in _places(y, x, given).items()}
            changed[y] = reading(y, own, {z: z for z in operands(y)})
    # its other states are those of the recurrence that gives the parts, too
    now = {x.loop: whole, **{loop: _reading_parts(loop, x, z, parts, given) for loop, z in loops.items()}}
    new = merged(s.statements, now, changed)
    names = {new[y]: name for y, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return live(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _is_smaller(x: Statement, at: Places) -> bool:
    """Whether a part is smaller by more than a fixed factor."""
    return any(not x.shape[axis].is_constant for axis, _ in at)


def _with_parts(x: States, found: Sequence[Places]) -> Loop:
    """The recurrence of `x` with further states, the parts of `x` at these places."""
    loop, step = x.loop, x.loop.step
    whole = Input(step.states[x.place], (), x.shape[1:]) if x.word == "prescan" else step.outputs[x.place]
    parts = [_part(whole, at, atom_affine(Lookup(step.time, ()))) for at in found]
    further = [Var(step.states[x.place].name, array(part.shape, R)) for part in parts]
    own = (*step.states, *further)
    made = made_step(own, step.frees, step.time, [*step.outputs, *parts], step.choices)
    return Loop(loop.size, made, (*loop.inits, *(Constant(Fraction(0), part.shape) for part in parts)), loop.frees)


def _part(whole: Statement, at: Places, now: Affine) -> Statement:
    """The part of a state at these places, which are functions of the time, and are of the axes after it."""
    places = [Index(i.name) for i in own_indices(whole)]
    axes_now: dict[Atom, Affine] = {axis_index(axis): atom_affine(i) for axis, i in enumerate(places, 1)}
    fixed = {places[axis - 1]: a.substitute({_TIME: now, **axes_now}) for axis, a in at}
    own = tuple(i for i in places if i not in fixed)
    shape = tuple(size for i, size in zip(places, whole.shape, strict=True) if i not in fixed)
    fresh = tuple(Index(i.name) for i in own)
    alike = (equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, fresh, strict=True))
    there = conjunction([*(equal(atom_affine(i), a) for i, a in fixed.items()), *alike])
    return contraction(shape, fresh, [(whole, tuple(places))], {}, there)


def _reading_parts(
    loop: Loop,
    x: Statement,
    inside: Input,
    parts: Mapping[Places, tuple[Statement, tuple[int, ...]]],
    given: Collection[IndexArray],
) -> Loop:
    """`loop`, which reads these parts of `x`, where it reads what is `inside`."""
    frees = dict(zip(loop.frees, loop.step.frees, strict=True))
    v = frees.pop(x)
    used = {at for y in step_ssa(loop.step).statements for at in _places(y, inside, given).values()}
    own: dict[Places, tuple[Statement, tuple[int, ...]]] = {}
    for at, (part, axes) in parts.items():
        if at in used:
            frees[part] = Var(v.name, array(part.shape, R))
            own[at] = (Input(frees[part], (), part.shape), axes)
    return rebuilt(loop, frees, inside, lambda y: {k: own[at] for k, at in _places(y, inside, given).items()})


def _places(y: Statement, x: Statement, given: Collection[IndexArray]) -> dict[int, Places]:
    """For each operand of `y` that is `x`, on which axes it is read at functions of the time and of the other axes, and
    at which; these may look up the arrays that are `given`."""
    found: dict[int, Places] = {}
    for k, z in enumerate(operands(y)):
        if z is x:
            found[k] = ()
            if isinstance(y, Contraction):
                solved = inner_solution(y).values
                time, *others = (solved.get(i, atom_affine(i)) for i in factor_indices(y)[k])
                read = _Read(time, dict(enumerate(others, 1)), x.shape, given)
                at = ((axis, read.at(axis, place)) for axis, place in read.others.items())
                found[k] = tuple((axis, a) for axis, a in at if a is not None)
    return found


class _Read:
    """How states over the time, of this shape, are read at a time and at places of the other axes."""

    def __init__(
        self, time: Affine, others: Mapping[int, Affine], sizes: Sequence[Affine], given: Collection[IndexArray]
    ) -> None:
        self.time, self.others, self.given = time, others, given
        self.sizes: dict[Index, Affine] = {_TIME: sizes[0], **{axis_index(k): sizes[k] for k in others}}
        self.moved: dict[Atom, Affine] = {}
        """What the time and the other axes are, for which atoms of a place."""
        atom = time.atoms[0] if len(time.terms) == 1 else None
        for a in time.atoms:
            if isinstance(a, Index) or (isinstance(a, Lookup) and not a.at):
                atom = a
        if atom is not None and abs(time.coefficient(atom)) == 1:
            by = time.coefficient(atom)
            rest = time - atom_affine(atom) * by
            if not rest.indices and not rest.lookups:
                self.moved[atom] = (atom_affine(_TIME) - rest) * by
        for axis, place in others.items():
            if len(place.terms) == 1 and isinstance(place.atoms[0], Index) and place is atom_affine(place.atoms[0]):
                self.moved.setdefault(place.atoms[0], atom_affine(axis_index(axis)))

    def at(self, axis: int, place: Affine) -> Affine | None:
        """The `place` on this axis as the time plus or minus a size, or one number at all times, or another function of
        the time and of other axes; None if it is none."""
        for by in (1, -1, 0):
            rest = place - self.time * by
            if not rest.indices and not rest.lookups:
                return atom_affine(_TIME) * by + rest
        known = all(i in self.moved for i in place.free if isinstance(i, Index))
        a = place.substitute(self.moved)
        return a if known and axis_index(axis) not in a.free and self._is_there(a) else None

    def _is_there(self, a: Affine) -> bool:
        """Whether what `a` looks up is data, and there at all times and places."""
        inside: list[Predicate] = []
        stack = list(a.lookups)
        for lookup in stack:
            for place, size in zip(lookup.at, lookup.array.sizes, strict=True):
                inside += [at_most(_ZERO, place), less(place, size)]
                stack += place.lookups
        known = [q for x in stack for q in (at_most(_ZERO, atom_affine(x)), less(atom_affine(x), x.array.size))]
        there = implies(conjunction([ranges_predicate(self.sizes), *known]), conjunction(inside))
        return there and all(x.array in self.given for x in stack)
