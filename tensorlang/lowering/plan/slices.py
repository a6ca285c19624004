"""Steps that read elements of sequences at their own time, as slices that they are given.

H = Loop(.. x[n - 1 - t, i] ..)    ->    H = Loop(.. x'[i] ..), where each step is given x' = x[n - 1 - t]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Atom, Lookup, atom_affine
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import substitute
from tensorlang.language.types import R, array
from tensorlang.normal.contraction import Factor, contraction, inner_solution
from tensorlang.normal.recurrences import choices_of, made_step, step_ssa
from tensorlang.normal.ssa import (
    Contraction,
    Input,
    Loop,
    LoopStep,
    Statement,
    States,
    factor_indices,
    operands,
    own_indices,
    summed_indices,
)
from tensorlang.normal.tidy import with_operands


@dataclass(frozen=True, eq=False)
class SlicedStep:
    """A `step` that reads the sequences `local` as `slices`, at its own time, which runs backwards if `turned`; `frees`
    are the other values that it reads."""

    step: LoopStep
    frees: tuple[Statement, ...]
    local: tuple[Input, ...]
    slices: tuple[Var, ...]
    turned: bool


def sliced_step(
    loop: Loop, read: Sequence[Statement], sequences: Collection[Statement], turned: bool = False
) -> SlicedStep:
    """The step of `loop` that reads slices of the `sequences` among what it has `read`, against the time if `turned` or
    if it reads some so."""
    step = loop.step
    program = step_ssa(step)
    now = atom_affine(Lookup(step.time, ()))
    last = loop.size - 1 - now
    at: dict[Statement, set[Affine | None]] = {}
    earlier: dict[Statement, Statement] = {
        Input(v, (), x.shape): x for v, x in zip(step.frees, read, strict=True) if x in sequences
    }
    for y in program.statements:
        for k, x in enumerate(operands(y)):
            if x in earlier:
                at.setdefault(x, set()).add(_first_place(y, k))
    for x in step.outputs:
        if x in earlier:
            at.setdefault(x, set()).add(None)
    turned = turned or any(places == {last} for places in at.values())
    when = last if turned else now
    sliced = {x: earlier[x] for x, places in at.items() if places == {when}}
    if not sliced:
        return SlicedStep(step, tuple(read), (), (), turned)
    new: dict[Statement, Statement] = {}
    names = {Input(v, (), x.shape): v.name for v, x in zip(step.frees, read, strict=True)}
    slices = {x: Input(Var(names[x], array(x.shape[1:], R)), (), x.shape[1:]) for x in names if x in sliced}
    for y in program.statements:
        new[y] = _sliced(y, slices, new)
    kept = [(v, x) for v, x in zip(step.frees, read, strict=True) if Input(v, (), x.shape) not in sliced]
    frees = tuple(v for v, _ in kept)
    variables = tuple(x.param for x in slices.values())
    again = made_step(
        step.states,
        (*frees, *variables),
        step.time,
        [new[x] for x in step.outputs],
        choices_of(new.values()),
    )
    return SlicedStep(
        again,
        tuple(x for _, x in kept),
        tuple(y for y in (sliced[x] for x in slices) if isinstance(y, Input)),
        again.frees[len(kept) :],
        turned,
    )


def _first_place(y: Statement, k: int) -> Affine | None:
    """The place along the first axis at which `y` reads its k-th operand, if it is one."""
    if not isinstance(y, Contraction) or isinstance(y, States):
        return None
    i = factor_indices(y)[k][0]
    return inner_solution(y).values.get(i)


def _sliced(y: Statement, slices: Mapping[Input, Input], new: Mapping[Statement, Statement]) -> Statement:
    """`y`, which reads `slices` instead of elements of arrays."""
    if isinstance(y, Input) and y in slices:
        return slices[y]
    if not isinstance(y, Contraction) or not any(x in slices for x in y.factors):
        return with_operands(y, new)
    solved = inner_solution(y).values
    factors: list[Factor] = []
    moved: dict[Atom, Affine] = {}
    for x, at in zip(y.factors, factor_indices(y), strict=True):
        if isinstance(x, Input) and x in slices:
            moved[at[0]] = solved[at[0]]
            factors.append((slices[x], at[1:]))
        else:
            factors.append((new[x], at))
    summed = dict(zip(summed_indices(y), y.summed, strict=True))
    return contraction(y.shape, own_indices(y), factors, summed, substitute(y.pattern.pred, moved))
