"""States of which only a part is kept over the time: the elements that are read.

    H = Loop(.. s ..);  .. H.s[t, g, a(t)] ..    ->    H = Loop(.. s, p = gen g. s[g, a(now)] ..);  .. H.p[t, g] ..

where all that reads the states over the time reads them at places a(t), a size plus or minus t, or at fixed ones, or
those that data give for each time and the other axes: the adjoint of an elimination reads a row and a column of the
matrix before each step, that of a walk the place where it is. There is a part for each of these places, which is no
arithmetic, and has fewer axes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Predicate, at_most, conjunction, equal, less
from tensorlang.language.types import R, array
from tensorlang.lower.plan.in_step import Part, Parts, read_as, reading, rebuilt
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
    own_ranges,
    states,
)
from tensorlang.normal.tidy import map_outputs
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate

_TIME, _ZERO = Index("t"), constant(0)


@dataclass(frozen=True)
class Places:
    """Some axes of states over the time, and the `fixed` places on them, as functions of the time, of the other axes
    and of `further` ones of these sizes."""

    fixed: tuple[tuple[int, Affine], ...]
    further: tuple[Affine, ...] = ()

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are gone where only these places are read."""
        return tuple(axis for axis, _ in self.fixed)


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
    found = list(dict.fromkeys(at for some in places for at, _ in some.values()))
    if (
        not found
        or not all(at.fixed for at in found)
        or (len(found) > 1 and not all(_is_smaller(x, at) for at in found))
    ):
        return s
    whole, count = _with_parts(x, found), len(x.loop.inits)
    parts = {at: states(whole, count + k, "scan") for k, at in enumerate(found)}
    changed: dict[Statement, Statement] = {}
    for y in readers:
        if not isinstance(y, States):
            own = {k: Part(parts[at], at.axes, along) for k, (at, along) in _places(y, x, given).items()}
            changed[y] = reading(y, own, {z: z for z in operands(y)})
    # its other states are those of the recurrence that gives the parts, too
    now = {x.loop: whole, **{loop: _reading_parts(loop, x, z, parts, given) for loop, z in loops.items()}}
    new = merged(s.statements, now, changed)
    names = {new[y]: name for y, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return live(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _is_smaller(x: Statement, at: Places) -> bool:
    """Whether a part is smaller by more than a fixed factor."""
    return not at.further and any(not x.shape[axis].is_constant for axis in at.axes)


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
    along = [Index("a") for _ in at.further]
    moved: dict[Atom, Affine] = {axis_index(k): atom_affine(i) for k, i in enumerate((*places, *along), 1)}
    fixed = {places[axis - 1]: a.substitute({_TIME: now, **moved}) for axis, a in at.fixed}
    own = tuple(i for i in places if i not in fixed)
    shape = tuple(size for i, size in zip(places, whole.shape, strict=True) if i not in fixed)
    fresh = tuple(Index(i.name) for i in own)
    alike = (equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, fresh, strict=True))
    there = conjunction([*(equal(atom_affine(i), a) for i, a in fixed.items()), *alike])
    return contraction((*at.further, *shape), (*along, *fresh), [(whole, tuple(places))], {}, there)


def _reading_parts(
    loop: Loop,
    x: Statement,
    inside: Input,
    parts: Mapping[Places, Statement],
    given: Collection[IndexArray],
) -> Loop:
    """`loop`, which reads these parts of `x`, where it reads what is `inside`."""
    frees = dict(zip(loop.frees, loop.step.frees, strict=True))
    v = frees.pop(x)
    used = {at for y in step_ssa(loop.step).statements for at, _ in _places(y, inside, given).values()}
    own: dict[Places, Statement] = {}
    for at, part in parts.items():
        if at in used:
            frees[part] = Var(v.name, array(part.shape, R))
            own[at] = Input(frees[part], (), part.shape)

    def read(y: Statement) -> Parts:
        return {k: Part(own[at], at.axes, along) for k, (at, along) in _places(y, inside, given).items()}

    return rebuilt(loop, frees, inside, read)


def _places(y: Statement, x: Statement, given: Collection[IndexArray]) -> dict[int, tuple[Places, tuple[Index, ...]]]:
    """For each operand of `y` that is `x`, at which places it is read, which may look up the arrays that are `given`,
    and the indices of `y` that are its further axes."""
    found: dict[int, tuple[Places, tuple[Index, ...]]] = {}
    for k, z in enumerate(operands(y)):
        if z is x:
            found[k] = Places(()), ()
            if isinstance(y, Contraction):
                solved = inner_solution(y).values
                time, *others = (solved.get(i, atom_affine(i)) for i in factor_indices(y)[k])
                read = _Read(time, others, x.shape, {**own_ranges(y), **y.pattern.inner}, given)
                at = [(axis, read.at(axis, place)) for axis, place in enumerate(others, 1)]
                fixed = tuple((axis, a) for axis, a in at if a is not None)
                found[k] = Places(fixed, tuple(map(read.ranges.__getitem__, read.further))), tuple(read.further)
    return found


class _Read:
    """How states over the time, of this shape, are read at a time and at places of the other axes."""

    def __init__(
        self,
        time: Affine,
        others: Sequence[Affine],
        shape: Sequence[Affine],
        ranges: Mapping[Index, Affine],
        given: Collection[IndexArray],
    ) -> None:
        self.time, self.rank, self.ranges, self.given = time, len(shape), ranges, given
        self.sizes = {_TIME: shape[0], **{axis_index(k): shape[k] for k in range(1, len(shape))}}
        self.further: list[Index] = []
        self.moved: dict[Atom, Affine] = {}
        """What the time and the axes are, for which atoms of a place."""
        atom = time.atoms[0] if len(time.terms) == 1 else None
        for a in time.atoms:
            if isinstance(a, Index) or (isinstance(a, Lookup) and not a.at):
                atom = a
        if atom is not None and abs(time.coefficient(atom)) == 1:
            by = time.coefficient(atom)
            rest = time - atom_affine(atom) * by
            if not rest.indices and not rest.lookups:
                self.moved[atom] = (atom_affine(_TIME) - rest) * by
        for axis, place in enumerate(others, 1):
            if len(place.terms) == 1 and isinstance(place.atoms[0], Index) and place is atom_affine(place.atoms[0]):
                self.moved.setdefault(place.atoms[0], atom_affine(axis_index(axis)))

    def at(self, axis: int, place: Affine) -> Affine | None:
        """The `place` on this axis as the time plus or minus a size, or one number at all times, or another function of
        the time and of other axes; None if it is none."""
        for by in (1, -1, 0):
            rest = place - self.time * by
            if not rest.indices and not rest.lookups:
                return atom_affine(_TIME) * by + rest
        inside = [i for i in place.free if isinstance(i, Index) and i not in self.moved]
        if inside and (not place.lookups or len(inside) > 1 or self.further):
            return None
        further: dict[Atom, Affine] = dict.fromkeys(inside, atom_affine(axis_index(self.rank)))
        a = place.substitute({**self.moved, **further})
        if axis_index(axis) in a.free or not self._is_there(a, {axis_index(self.rank): self.ranges[i] for i in inside}):
            return None
        self.moved.update(further)
        self.further += inside
        return a

    def _is_there(self, a: Affine, further: Mapping[Index, Affine]) -> bool:
        """Whether what `a` looks up is data, and there at all times and places."""
        inside: list[Predicate] = []
        stack = list(a.lookups)
        for lookup in stack:
            for place, size in zip(lookup.at, lookup.array.sizes, strict=True):
                inside += [at_most(_ZERO, place), less(place, size)]
                stack += place.lookups
        known = [q for x in stack for q in (at_most(_ZERO, atom_affine(x)), less(atom_affine(x), x.array.size))]
        there = implies(conjunction([ranges_predicate({**self.sizes, **further}), *known]), conjunction(inside))
        return there and all(x.array in self.given for x in stack)
