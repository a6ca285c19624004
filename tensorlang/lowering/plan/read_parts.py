"""States of which only a part is kept over the time: the elements that are read.

    H = Loop(.. s ..);  .. H.s[t, g, a(t)] ..    ->    H = Loop(.. s, p = gen g. s[g, a(now)] ..);  .. H.p[t, g] ..

where the states over the time are only read at places a(t): a size plus or minus t, a fixed place, one that data give
for each time and the other axes, or a short window that starts there. The adjoint of an elimination reads a row and a
column of the matrix before each step, that of a walk the place where it is. There is a part for each of these places;
it takes no arithmetic, and is smaller.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Atom, Index, IndexArray, Lookup, atom_affine, constant, is_long
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import (
    TRUE,
    Predicate,
    at_most,
    conjunction,
    equal,
    less,
)
from tensorlang.language.types import R, array
from tensorlang.lowering.plan.in_step import FactorReplacement, Parts, read_as, reading, rebuilt
from tensorlang.lowering.plan.short_windows import short_windows
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
    """Some axes of states over the time, with the `fixed` place on each: a function of the time, of the other axes and
    of `further` ones of these sizes."""

    fixed: tuple[tuple[int, Affine], ...]
    further: tuple[Affine, ...] = ()

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are gone where only these places are read."""
        return tuple(axis for axis, _ in self.fixed)


def read_parts(s: SSA) -> SSA:
    """`s`, whose recurrences return only the parts of their states over the time that are read."""
    tried: set[Statement] = set()
    while (x := next((x for x in s.statements if x not in tried and _is_over_time(x)), None)) is not None:
        tried.add(x)
        assert isinstance(x, States)
        s = _in_part(s, x)
    return s


def _is_over_time(x: Statement) -> bool:
    return isinstance(x, States) and x.word in ("scan", "prescan") and len(x.shape) > 1


def _in_part(s: SSA, x: States) -> SSA:
    """`s` with only parts of the states `x` kept for all times, if no more of them is read."""
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
    found = list(dict.fromkeys(one.at for some in places for one in some.values()))
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
            own = {k: found.part(parts[found.at]) for k, found in _places(y, x, given).items()}
            changed[y] = reading(y, own, {z: z for z in operands(y)})
    # the other states come from the recurrence with the parts, too
    now = {x.loop: whole, **{loop: _reading_parts(loop, x, z, parts, given) for loop, z in loops.items()}}
    new = merged(s.statements, now, changed)
    names = {new[y]: name for y, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return live(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _is_smaller(x: Statement, at: Places) -> bool:
    """Whether a part is smaller by more than a fixed factor."""
    return not any(map(is_long, at.further)) and any(is_long(x.shape[axis]) for axis in at.axes)


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
    """The part of a state at these places, at the time `now`; a state's axes are numbered from 1, after the time."""
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
    """`loop`, whose steps read these parts of `x` in place of `inside`."""
    frees = dict(zip(loop.frees, loop.step.frees, strict=True))
    v = frees.pop(x)
    used = {found.at for y in step_ssa(loop.step).statements for found in _places(y, inside, given).values()}
    own: dict[Places, Statement] = {}
    for at, part in parts.items():
        if at in used:
            frees[part] = Var(v.name, array(part.shape, R))
            own[at] = Input(frees[part], (), part.shape)

    def read(y: Statement) -> Parts:
        return {k: found.part(own[found.at]) for k, found in _places(y, inside, given).items()}

    return rebuilt(loop, frees, inside, read)


@dataclass(frozen=True)
class _Found:
    """The places at which an operand is read, and the indices of its reader that go `along` their further axes.
    `windows` has the widths of those that are new, and `where` says which elements are in the windows."""

    at: Places
    along: tuple[Index, ...] = ()
    windows: Mapping[Index, Affine] = field(default_factory=dict)
    where: Predicate = TRUE

    def part(self, x: Statement) -> FactorReplacement:
        """`x`, read in place of the operand."""
        return FactorReplacement(x, self.at.axes, self.along, self.windows, self.where)


def _places(y: Statement, x: Statement, given: Collection[IndexArray]) -> dict[int, _Found]:
    """The places at which `y` reads `x`, by operand; they may look up the arrays `given`."""
    found: dict[int, _Found] = {}
    for k, z in enumerate(operands(y)):
        if z is x:
            found[k] = _Read(y, k, given).found() if isinstance(y, Contraction) else _Found(Places(()))
    return found


class _Read:
    """How the k-th factor of a contraction, states over the time, is read at a time and at places of the other axes."""

    def __init__(self, y: Contraction, k: int, given: Collection[IndexArray]) -> None:
        solved = inner_solution(y).values
        self.time, *self.others = (solved.get(i, atom_affine(i)) for i in factor_indices(y)[k])
        shape = y.factors[k].shape
        self.y, self.rank, self.given = y, len(shape), given
        self.ranges = {**own_ranges(y), **y.pattern.inner}
        self.sizes = {_TIME: shape[0], **{axis_index(k): shape[k] for k in range(1, len(shape))}}
        self.further: list[Index] = []
        self.windows: dict[Index, Affine] = {}
        self.where: list[Predicate] = []
        self.moved: dict[Atom, Affine] = {}
        """Values of atoms of a place in terms of the time and of axes."""
        atom = self.time.atoms[0] if len(self.time.terms) == 1 else None
        for a in self.time.atoms:
            if isinstance(a, Index) or (isinstance(a, Lookup) and not a.at):
                atom = a
        if atom is not None and abs(self.time.coefficient(atom)) == 1:
            by = self.time.coefficient(atom)
            rest = self.time - atom_affine(atom) * by
            if not rest.indices and not rest.lookups:
                self.moved[atom] = (atom_affine(_TIME) - rest) * by
        for axis, place in enumerate(self.others, 1):
            if len(place.terms) == 1 and isinstance(place.atoms[0], Index) and place is atom_affine(place.atoms[0]):
                self.moved.setdefault(place.atoms[0], atom_affine(axis_index(axis)))

    def found(self) -> _Found:
        """Where it is read."""
        at = [(axis, self._at(axis, place)) for axis, place in enumerate(self.others, 1)]
        sizes = tuple(self.windows.get(i) or self.ranges[i] for i in self.further)
        fixed = tuple((axis, a) for axis, a in at if a is not None)
        return _Found(Places(fixed, sizes), tuple(self.further), self.windows, conjunction(self.where))

    def _at(self, axis: int, place: Affine) -> Affine | None:
        """The `place` on this axis as the time plus or minus a size, or one number at all times, or another function of
        the time and of other axes; None if it is nothing like that."""
        for by in (1, -1, 0):
            rest = place - self.time * by
            if not rest.indices and not rest.lookups:
                return atom_affine(_TIME) * by + rest
        inside = [i for i in place.free if isinstance(i, Index) and i not in self.moved]
        if inside and (not place.lookups or len(inside) > 1 or self.further):
            return None
        if any(place.coefficient(i) and is_long(self.ranges[i]) for i in inside):
            return None  # as many places as the axis has
        further: dict[Atom, Affine] = dict.fromkeys(inside, atom_affine(axis_index(self.rank)))
        a = place.substitute({**self.moved, **further})
        if axis_index(axis) in a.free:
            return self._in_window(axis, place)
        if not self._is_there(a, {axis_index(self.rank): self.ranges[i] for i in inside}):
            return None
        self.moved.update(further)
        self.further += inside
        return a

    def _in_window(self, axis: int, place: Affine) -> Affine | None:
        """The places on this axis as a start plus an index of few values, if there are terms only at these."""
        (i,) = place.indices
        if not self.further and is_long(self.sizes[axis_index(axis)]):
            for low, width in short_windows(self.y, i):
                start = low.substitute(self.moved)
                known = all(j in self.moved for j in low.indices) and axis_index(axis) not in start.free
                if known and self._is_there(start, {}):
                    step = Index(i.name)
                    self.further, self.windows = [step], {step: width}
                    self.where.append(equal(place, low + atom_affine(step)))
                    return start + atom_affine(axis_index(self.rank))
        return None

    def _is_there(self, a: Affine, further: Mapping[Index, Affine]) -> bool:
        """Whether all that `a` looks up is given as data, and within bounds at all times and places."""
        inside: list[Predicate] = []
        stack = list(a.lookups)
        for lookup in stack:
            for place, size in zip(lookup.at, lookup.array.sizes, strict=True):
                inside += [at_most(_ZERO, place), less(place, size)]
                stack += place.lookups
        known = [q for x in stack for q in (at_most(_ZERO, atom_affine(x)), less(atom_affine(x), x.array.size))]
        there = implies(conjunction([ranges_predicate({**self.sizes, **further}), *known]), conjunction(inside))
        return there and all(x.array in self.given for x in stack)
