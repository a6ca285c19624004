"""Sums over axes of what a step gives, computed in the step rather than of an array that has it for all times.

    H = Loop(.. x = gen a, b. .. ..)                        H = Loop(.. z = gen b. sum a. x[a, b] * u(r)[a, b] ..)
    .. sum t, a. H.x[t, a, b] * u[t, a, b] ..         ->    .. sum t. H.z[t, b] ..

where x is read in such sums alone, u is read by the steps anyway, and z has fewer axes than x, as in the adjoint of
steps that sum over pairs of bodies. So x, the largest of these arrays, is not kept, and nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from tensorlang.language.affine import Affine, Index, IndexArray, Lookup, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import conjunction, equal, substitute
from tensorlang.language.types import R, array
from tensorlang.normal.contraction import Factor, contraction, inner_solution
from tensorlang.normal.recurrences import made_step, merged, step_ssa, with_outputs
from tensorlang.normal.ssa import (
    SSA,
    Constant,
    Contraction,
    Input,
    Integers,
    Loop,
    Statement,
    States,
    factor_indices,
    looked_up,
    operands,
    output_list,
    own_indices,
    own_ranges,
    selections,
    states,
    summed_indices,
)
from tensorlang.normal.tidy import map_outputs
from tensorlang.sets.isl import implies
from tensorlang.sets.solve import ranges_predicate
from tensorlang.simplification import simplify_ssa
from tensorlang.simplification.recurrences import tidy_recurrences


def sums_in_steps(s: SSA) -> SSA:
    """`s`, whose recurrences sum what their steps give over axes that nothing else needs."""
    outputs = set(output_list(s.outputs))
    made = selections(s.statements).keys()  # a step knows none of these
    for x in s.statements:
        if isinstance(x, States) and x.word == "scan" and len(x.shape) > 2 and x not in outputs:
            readers = [y for y in s.statements if x in operands(y)]
            parts = {y: part for y in readers if (part := _part(y, x, made)) is not None}
            if readers and len(parts) == len(readers):
                return sums_in_steps(_moved(s, x.loop, parts))
    return s


@dataclass(frozen=True, eq=False)
class _Part:
    """What a step computes of a sum, and how the sum reads it: at `own`, its axes, and at the time `then`, or at all
    times."""

    summed: Statement
    own: tuple[Index, ...]
    then: Affine | None


def _part(y: Statement, x: States, made: Collection[IndexArray]) -> _Part | None:
    """The part of `y` that a step computes in place of `x`; None if there is none with fewer axes, or if `y` looks up
    index arrays that the program has `made`."""
    if not isinstance(y, Contraction) or y.factors.count(x) != 1 or any(array in made for array in looked_up(y)):
        return None
    places = factor_indices(y)
    t = places[y.factors.index(x)][0]
    then = inner_solution(y).values.get(t)
    own, summed = own_indices(y), dict(zip(summed_indices(y), y.summed, strict=True))
    if then is None or set(then.indices).isdisjoint(own):
        then = None
    else:
        at_time = then.indices[0]
        if len(then.indices) != 1 or then.lookups:
            return None
        summed[at_time] = own_ranges(y)[at_time]
        own = tuple(i for i in own if i is not at_time)
    shape = tuple(own_ranges(y)[i] for i in own)
    if not Counter(shape) < Counter(x.shape[1:]):
        return None
    loop, now = x.loop, atom_affine(Lookup(x.loop.step.time, ()))
    where = [substitute(y.pattern.pred, {t: now})]
    known = conjunction([ranges_predicate({**own_ranges(y), **y.pattern.inner}), y.pattern.pred])
    factors: list[Factor] = []
    for z, at in zip(y.factors, places, strict=True):
        if isinstance(z, States) and z.loop is loop and z.word in ("scan", "prescan"):
            v, init = loop.step.states[z.place], loop.inits[z.place]
            factors.append((loop.step.outputs[z.place] if z.word == "scan" else Input(v, (), init.shape), at[1:]))
            if at[0] is not t:
                if not implies(known, equal(atom_affine(at[0]), atom_affine(t))):
                    return None
                where.append(equal(atom_affine(at[0]), now))
                summed[at[0]] = loop.size
        elif isinstance(z, Constant | Integers):
            factors.append((z, at))
        elif z in loop.frees:
            factors.append((Input(loop.step.frees[loop.frees.index(z)], (), z.shape), at))
        else:
            return None
    return _Part(contraction(shape, own, factors, summed, conjunction(where)), own, then)


def _moved(s: SSA, loop: Loop, parts: Mapping[Statement, _Part]) -> SSA:
    """`s`, whose `loop` computes these parts of statements."""
    step, count = loop.step, len(loop.inits)
    further = [part.summed for part in parts.values()]
    own = (*step.states, *(Var("part", array(z.shape, R)) for z in further))
    again = made_step(own, step.frees, step.time, (*step.outputs, *further), step.choices)
    inits = (*loop.inits, *(Constant(Fraction(0), z.shape) for z in further))
    made = Loop(loop.size, with_outputs(again, simplify_ssa(step_ssa(again))), inits, loop.frees)
    change: dict[Statement, Statement] = {}
    for k, (y, part) in enumerate(parts.items()):
        t, at = Index("t"), tuple(Index(i.name) for i in part.own)
        where = [equal(atom_affine(i), atom_affine(j)) for i, j in zip(part.own, at, strict=True)]
        if part.then is not None:
            where.append(equal(atom_affine(t), part.then))
        change[y] = contraction(
            y.shape, own_indices(y), [(states(made, count + k, "scan"), (t, *at))], {}, conjunction(where)
        )
    new = merged(s.statements, {loop: made}, change)
    names = {new[y]: name for y, name in s.names.items()}
    statements = tuple(dict.fromkeys(new.values()))
    return tidy_recurrences(replace(s, statements=statements, outputs=map_outputs(s.outputs, new), names=names))
