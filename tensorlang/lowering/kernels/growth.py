"""Where kernels take no more than `jax.numpy` does for the same, up to a factor.

A kernel computes all elements of the tiles that it visits. Running sums, sums with one term, windows that are cut to
what is read and parts that are 0 take less than that elsewhere: then the statement is no kernel, or one only for sizes
at which it takes no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tensorlang.budget import limits
from tensorlang.costs.counting import Cell
from tensorlang.costs.growth import in_terms, order, outgrown
from tensorlang.errors import CountingError, LimitError
from tensorlang.language.affine import Size, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import TRUE, Predicate, at_most, conjunction
from tensorlang.lowering.arrays.cost import ArrayCost, Repeated, storing
from tensorlang.lowering.arrays.work import Work
from tensorlang.lowering.kernels.ir import Kernel, Plain, Recurrence, Step, TileAxis
from tensorlang.lowering.kernels.roles import Unfit
from tensorlang.lowering.kernels.work import cost_of_tiles, work_of_kernel, work_of_steps

Counted = Callable[[Function], ArrayCost]
"""What `jax.numpy` takes for a function."""

_STEPS = 5_000_000
"""A limit on what it takes to compare."""


def where_worth(kernel: Kernel, f: Function, counted: Counted) -> Predicate:
    """The comparisons of sizes with one another that must hold for the kernel of `f` to take no more than `jax.numpy`.

    It is TRUE, too, if that is not known. Raises `Unfit` if there are none.
    """
    return _compared(work_of_kernel(kernel), kernel.axes, f, counted, None)


def is_worth(f: Function, steps: Sequence[Step], counted: Counted) -> bool:
    """Whether some of the steps of `f` are kernels that add something up, and all steps take no more than `jax.numpy`
    does for the whole, where it may share work between statements that stand apart here."""
    kernels = [step for step in steps if isinstance(step, Kernel)]
    if not any(kernel.accumulators for kernel in kernels):
        return False
    try:
        with limits(steps=_STEPS):
            parts = [Repeated(work_of_kernel(kernel)) for kernel in kernels]
            for step in steps:
                parts += counted(step.function).parts if isinstance(step, Plain) else ()
            other, own = counted(f), cost_of_tiles(f, parts, [axis for kernel in kernels for axis in kernel.axes])
            bound = [*other.operations.cells, *other.given.cells]
            return not outgrown(own.operations.cells, bound, own.operations.context)
    except (CountingError, LimitError):
        return False


def check_steps(r: Recurrence, f: Function, counted: Counted) -> None:
    """Raise `Unfit` if steps of `r` take more than `jax.numpy` does for the step `f`, at some sizes."""
    each, _ = work_of_steps(r)
    given = [*(x.var for x in r.slices), *(x.var for x in r.states), *(x.var for x in r.step.outputs)]
    if _compared(each, r.step.axes, f, counted, given) is not TRUE:
        raise Unfit("at some sizes its steps take more in tiles than by jax.numpy")


def _compared(
    work: Work, axes: Sequence[TileAxis], f: Function, counted: Counted, given: Sequence[Var] | None
) -> Predicate:
    """`given` are inputs and outputs; if it is None, those of `f`."""
    try:
        with limits(steps=_STEPS):
            other, own = counted(f), cost_of_tiles(f, (Repeated(work),), axes)
            taken = [*own.operations.cells, *own.read.cells]
            moved = other.given if given is None else cost_of_tiles(f, (Repeated(storing(given)),), axes).written
            bound = [*other.operations.cells, *moved.cells]
            return _where(taken, bound, own.operations.context, f.sizes)
    except (CountingError, LimitError):
        return TRUE


def _where(taken: Sequence[Cell], bound: Sequence[Cell], present: Predicate, sizes: Sequence[Size]) -> Predicate:
    """The comparisons of sizes under which `bound` bounds `taken`, up to a factor. Raises `Unfit`."""
    first = beyond = outgrown(taken, bound, present)
    most = Counter[object]()
    for m in order(bound, present):
        most |= Counter(m)
    where: Predicate = TRUE
    while beyond:
        long = [s for s in sizes if any(m.count(s) > most[s] for m in beyond)]
        pairs = [at_most(atom_affine(m), atom_affine(n)) for m in long for n in sizes if m is not n]
        tried = [(outgrown(taken, bound, conjunction([present, where, p])), p) for p in pairs]
        fewest, best = min(tried, key=lambda pair: len(pair[0]), default=(beyond, TRUE))
        if len(fewest) >= len(beyond):
            raise Unfit(f"in tiles it takes {in_terms(first)}, which jax.numpy does not")
        beyond, where = fewest, conjunction([where, best])
    return where
