"""What differs from one kind of accelerator to another before anything is written: lengths of tiles, what a kernel may
be made of, and which of its axes are cut into tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.grammar import Call, Expr, Extremum, Sum
from tensorlang.language.predicates import TRUE
from tensorlang.language.types import shape
from tensorlang.lowering.kernels.functions import beyond_triton, for_gpus
from tensorlang.lowering.kernels.ir import Accumulator, Kernel, Kind, Recurrence, Role, TileAxis
from tensorlang.lowering.kernels.operands import expressions_of, lookups_of, relations_of
from tensorlang.lowering.kernels.terms import free, nodes, over, product, reads, rebuilt, reduction, vanishes


@dataclass(frozen=True)
class Tiling:
    """The length of an axis' tiles, given whether conditions rule anything out; a kernel as the target has it; and why
    the target can't have a kernel, or None. Then for recurrences: the length of tiles of examples, given whether steps
    sum something; a step as the target has it; and why it can't have a recurrence, or None. Last, whether long rows are
    taken in passes."""

    length: Callable[[TileAxis, bool], int]
    adapted: Callable[[Kernel], Kernel]
    unfit: Callable[[Kernel], str | None]
    examples: Callable[[TileAxis, bool], int]
    step: Callable[[Kernel], Kernel]
    unfit_over_time: Callable[[Recurrence], str | None]
    has_passes: bool = False


def _length_on_tpus(axis: TileAxis, ruled_out: bool) -> int:
    """512, at which the matrix unit is busy while blocks of bfloat16 are fetched, but 256 where conditions rule tiles
    out, since half of each tile at a border is masked. Both leave most of the VMEM free: masked products take much of
    it."""
    return 256 if ruled_out else 512


def _unfit_for_tpus(kernel: Kernel) -> str | None:
    axes = {axis.index: axis for axis in kernel.axes}
    made = [*(acc.axes for acc in kernel.accumulators), *(output.axes for output in kernel.outputs)]
    made += [tuple(i for a in at for i in a.indices) for _, at in reads(*expressions_of(kernel))]
    values = [[i for i in at if not axes[i].is_number] for at in made]
    values += [[i for a in p.arguments for i in a.indices if not axes[i].is_number] for p in relations_of(kernel)]
    asked = [a for p in relations_of(kernel) for a in p.arguments]
    if any(a.lookups for a in asked):
        return "it asks a relation at places that data choose"
    if any(len(a.indices) > 1 or a.coefficient(i) != 1 for a in asked for i in a.indices if not axes[i].is_number):
        return "it asks a relation in steps, or at windows"
    if any(a.lookups for x in lookups_of(kernel) for a in x.at):
        return "it asks for elements at places that data choose"
    if any(len(set(at)) < len(at) for at in values):
        return "it reads along a diagonal of a tile"
    if any(len(at) > 2 for at in values):
        return "its tiles have more than two axes"
    extrema = [{*free(acc.value), *over(acc.pred)} for acc in kernel.accumulators if acc.kind is not Kind.SUM]
    extrema += [{*free(e.body), *over(e.pred)} for e in nodes(*expressions_of(kernel)) if isinstance(e, Extremum)]
    if any(sum(i in axes and not axes[i].is_number for i in taken) > 2 for taken in extrema):
        return "an extremum is taken of tiles with three axes"
    if any(map(_has_three_sides, kernel.accumulators)):
        return "three tiles are multiplied, of which values choose elements"
    return None


def _unfit_over_time_for_tpus(r: Recurrence) -> str | None:
    reason = _unfit_for_tpus(r.step)
    if reason is not None:
        return reason
    if any(a.lookups for x in lookups_of(r.step) for a in x.at):
        return "it reads places at the time, or at places that data choose"
    lengths = {axis.index: axis.extent for axis in r.step.axes}
    made = {x.var for x in r.states} | {output.var for output in r.step.outputs}
    for x, at in reads(*expressions_of(r.step)):
        for a, n in zip(at, shape(x.type)[0], strict=True):
            for i in a.indices:
                rest = a - atom_affine(i)
                if not rest.is_constant or (x in made and not (rest + lengths[i] - n).is_constant):
                    return f"{x.name} is read at {a}, which is no shift by a number"
    for p in relations_of(r.step):
        for a in p.arguments:
            if any(not (a - atom_affine(i)).is_constant for i in a.indices):
                return f"{p.relation.name} is asked at {a}, which is no shift by a number"
    return None


def _has_three_sides(acc: Accumulator) -> bool:
    """Whether a product under masks of values has more than two sides, and so is no product of two matrices."""
    _, masks, factors = product(acc.value.body if isinstance(acc.value, Sum) else acc.value)
    sides = [free(factor) for factor in factors]
    sides += [free(m) for m in masks if not free(m) <= set(acc.axes)]
    return bool(masks) and sum(not any(side < other for other in sides) for side in dict.fromkeys(sides)) > 2


def _unfit_for_gpus(kernel: Kernel) -> str | None:
    for e in nodes(*expressions_of(kernel)):
        lacks = beyond_triton(e.function) if isinstance(e, Call) else None
        if lacks is not None:
            return f"Triton has no {lacks}"
        if isinstance(e, Call) and e.function.shared is not None and e.function.shared[0].stores:
            return f'Triton stores nothing for each trip of {e.function.name}, which mode="dual" does not need'
    return None


def _unfit_over_time_for_gpus(r: Recurrence) -> str | None:
    reason = _unfit_for_gpus(r.step)
    if reason is not None:
        return reason
    lengths = {axis.index: axis.extent for axis in r.step.axes}
    made = {x.var for x in r.states} | {output.var for output in r.step.outputs}
    for x, at in reads(*expressions_of(r.step)):
        for a, n in zip(at, shape(x.type)[0], strict=True) if x in made else ():
            if not a.indices or a is not atom_affine(a.indices[0]) or lengths[a.indices[0]] is not n:
                return f"{x.name} is read at {a}, and registers are read as a whole"
        if x in made and len(set(at)) < len(at):
            return f"{x.name} is read along a diagonal"
    return None


def _cut_for_gpus(kernel: Kernel, lengths: Mapping[Role, int]) -> Kernel:
    """`kernel` with more axes cut into tiles, since on GPUs values may have any axes, and be read at any places.

    These are axes of outputs and accumulators over which nothing is summed and, if all tiles are visited, axes over
    which all accumulators sum.
    """
    expressions = expressions_of(kernel)
    own = {i for output in kernel.outputs for i in output.axes} | {i for acc in kernel.accumulators for i in acc.axes}
    bound = {e.index for e in nodes(*expressions) if isinstance(e, Sum | Extremum)}
    alone = own - bound
    summed = _summed_by_all(kernel) if kernel.tiles is None and not own & bound else frozenset()
    axes = []
    for axis in kernel.axes:
        role = Role.PARALLEL if axis.index in alone else Role.REDUCED if axis.index in summed else None
        if role is None or axis.is_tiled:
            axes.append(axis)
        else:
            block = 1 if axis.role is Role.UNROLLED else lengths[role]
            axes.append(replace(axis, role=role, block=block))
    accumulators = tuple(replace(a, value=_without_sums(a.value, summed)) for a in kernel.accumulators)
    return replace(kernel, axes=tuple(axes), accumulators=accumulators)


def _summed_by_all(kernel: Kernel) -> frozenset[Index]:
    """The indices that all accumulators sum over, and nothing else, of products that are 0 beyond their ends."""
    found: list[frozenset[Index]] = []
    elsewhere = frozenset().union(*(free(output.value) for output in kernel.outputs))
    elsewhere |= {e.index for e in nodes(*(o.value for o in kernel.outputs)) if isinstance(e, Sum | Extremum)}
    for acc in kernel.accumulators:
        sums: frozenset[Index] = frozenset()
        if acc.kind is Kind.SUM and isinstance(acc.value, Sum):
            r = reduction(acc.value)
            inner = {e.index for e in nodes(*r.parts) if isinstance(e, Sum | Extremum)}
            if r.pred is TRUE:
                sums = frozenset(i for i in r.indices if i not in inner and vanishes(r.factors, i))
        found.append(sums)
    return frozenset.intersection(*found) - elsewhere if found else frozenset()


def _without_sums(e: Expr, indices: frozenset[Index]) -> Expr:
    """`e` without its sums over `indices`; those over others stay."""
    if not indices or not isinstance(e, Sum):
        return e
    r = reduction(e)
    return rebuilt(replace(r, binders=tuple((i, n) for i, n in r.binders if i not in indices)))


def _for_gpus(lengths: Mapping[Role, int]) -> Tiling:
    return Tiling(
        lambda axis, _: lengths[axis.role],
        lambda kernel: _cut_for_gpus(for_gpus(kernel), lengths),
        _unfit_for_gpus,
        lambda _, sums: 16 if sums else 128,
        for_gpus,
        _unfit_over_time_for_gpus,
    )


TPU = Tiling(
    _length_on_tpus,
    lambda kernel: kernel,
    _unfit_for_tpus,
    lambda _, sums: 256 if sums else 512,
    lambda kernel: kernel,
    _unfit_over_time_for_tpus,
)
GPU = _for_gpus({Role.PARALLEL: 128, Role.REDUCED: 64})
MOSAIC_GPU = replace(_for_gpus({Role.PARALLEL: 64, Role.REDUCED: 64}), has_passes=True)
"""With 64 elements on each side a warpgroup has the accumulators of two products of matrices in its registers."""
