"""States of which only a part is kept over the time: the elements that are read.

    H = Loop(.. s ..);  .. H.s[t, g, a(t)] ..    ->    H = Loop(.. s, p = gen g. s[g, a(now)] ..);  .. H.p[t, g] ..

where all that reads the states over the time reads them at a(t), a size plus or minus t, or at a fixed place: the
adjoint of an elimination reads a column of the matrix before each step. The part is no arithmetic, and has fewer axes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Index, Lookup, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import conjunction, equal
from tensorlang.language.types import R, array
from tensorlang.lower.plan.in_step import read_as, reading, rebuilt
from tensorlang.normal.contraction import contraction, inner_solution
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

_TIME = Index("t")


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
    at = {k: a for k in range(1, len(x.shape)) if (a := _place(read, k)) is not None}
    if not at:
        return s
    thin = states(_with_part(x, at), len(x.loop.inits), "scan")
    axes = tuple(at)
    changed = {y: reading(y, x, axes, thin, {z: z for z in operands(y)}) for y in readers if not isinstance(y, States)}
    # its other states are those of the recurrence that gives the part, too
    given = {x.loop: thin.loop, **{loop: _reading_part(loop, x, thin, axes) for loop in loops}}
    new = merged(s.statements, given, changed)
    names = {new[y]: name for y, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return live(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))


def _with_part(x: States, at: Mapping[int, Affine]) -> Loop:
    """The recurrence of `x` with a further state, the part of `x` at these places on its axes."""
    loop, step = x.loop, x.loop.step
    whole = Input(step.states[x.place], (), x.shape[1:]) if x.word == "prescan" else step.outputs[x.place]
    now = atom_affine(Lookup(step.time, ()))
    places = [Index(i.name) for i in own_indices(whole)]
    fixed = {places[k - 1]: a.substitute({_TIME: now}) for k, a in at.items()}
    own = tuple(i for i in places if i not in fixed)
    shape = tuple(size for i, size in zip(places, whole.shape, strict=True) if i not in fixed)
    fresh = tuple(Index(i.name) for i in own)
    alike = (equal(atom_affine(i), atom_affine(j)) for i, j in zip(own, fresh, strict=True))
    there = conjunction([*(equal(atom_affine(i), a) for i, a in fixed.items()), *alike])
    part = contraction(shape, fresh, [(whole, tuple(places))], {}, there)
    v = Var(step.states[x.place].name, array(shape, R))
    outputs = (*step.outputs, part)
    made = made_step((*step.states, v), step.frees, step.time, outputs, step.choices)
    return Loop(loop.size, made, (*loop.inits, Constant(Fraction(0), shape)), loop.frees)


def _reading_part(loop: Loop, x: Statement, thin: Statement, axes: Collection[int]) -> Loop:
    """`loop`, which reads the part `thin` of `x`."""
    frees = dict(zip(loop.frees, loop.step.frees, strict=True))
    v = frees.pop(x)
    frees[thin] = Var(v.name, array(thin.shape, R))
    return rebuilt(loop, frees, Input(v, (), x.shape), axes, Input(frees[thin], (), thin.shape))


def _place(read: Iterable[tuple[Statement, Statement]], axis: int) -> Affine | None:
    """Where on this axis all these statements read the states, as a function of the time; None if it is not one."""
    found: set[Affine | None] = set()
    for y, x in read:
        if not isinstance(y, Contraction):
            return None
        solved = inner_solution(y).values
        for z, at in zip(y.factors, factor_indices(y), strict=True):
            if z is x:
                time, place = (solved.get(i, atom_affine(i)) for i in (at[0], at[axis]))
                found.add(_of_time(time, place))
    return found.pop() if len(found) == 1 else None


def _of_time(time: Affine, place: Affine) -> Affine | None:
    """`place` as the time plus or minus a size, or as one number at all times."""
    for by in (1, -1, 0):
        rest = place - time * by
        if not rest.indices and not rest.lookups:
            return atom_affine(_TIME) * by + rest
    return None
