"""Loops without a bound in kernels: they run where their values count, and nowhere else.

    [p] * f(x[i])   ->   [p] * f(x[i], p and i < n)

A tile may reach beyond the end of an axis, and a condition may hide an element. Values there are no arguments of the
program, so a loop might not end for them. Elements for which it is not to run are frozen before its first trip.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang.language.affine import atom_affine
from tensorlang.language.functions import running_where
from tensorlang.language.grammar import Call, Expr
from tensorlang.language.predicates import Related, conjunction, conjuncts, less
from tensorlang.language.rebuilt import rewrite
from tensorlang.language.scalar_code import Shared
from tensorlang.lowering.kernels.ir import Kernel
from tensorlang.lowering.kernels.masks import Mask, both, either, mask_of
from tensorlang.lowering.kernels.operands import expressions_of
from tensorlang.lowering.kernels.terms import free, nodes, paths_to
from tensorlang.lowering.plan.dependence import variable

_Key = tuple[Shared, tuple[Expr, ...]]


def with_ends(kernel: Kernel) -> Kernel:
    """`kernel` with a further argument for each loop without a bound: where it is to run."""
    calls = {e: key for e in nodes(*expressions_of(kernel)) if (key := _key(e)) is not None}
    if not calls:
        return kernel
    counts: dict[_Key, Mask] = dict.fromkeys(calls.values(), False)
    for e, key in calls.items():
        for acc in kernel.accumulators:
            pred = conjunction(p for p in conjuncts(acc.pred) if not isinstance(p, Related))
            counts[key] = either(counts[key], _counts(e, acc.value, mask_of(pred)))
        for output in kernel.outputs:
            counts[key] = either(counts[key], _counts(e, output.value, True))
    for e, key in calls.items():
        for axis in kernel.axes:
            if axis.index in free(e) and not axis.is_number:
                counts[key] = both(mask_of(less(atom_affine(axis.index), axis.extent)), counts[key])

    def made(old: Expr, new: Expr) -> Expr:
        key = calls.get(old)
        where = counts[key] if key is not None else True
        if key is None or isinstance(where, bool) or not isinstance(new, Call):
            return new
        arity = key[0].arity
        return Call(running_where(new.function), (*new.arguments[:arity], ended(where), *new.arguments[arity:]))

    def ended(e: Expr) -> Expr:
        return rewrite(e, lambda old: old if variable(old) is not None else None, made)

    return replace(
        kernel,
        accumulators=tuple(
            replace(acc, value=ended(acc.value), tests=tuple(map(ended, acc.tests))) for acc in kernel.accumulators
        ),
        outputs=tuple(replace(output, value=ended(output.value)) for output in kernel.outputs),
    )


def _key(e: Expr) -> _Key | None:
    """The shared computation of a call with a loop without a bound, and its arguments; None for other expressions."""
    if not isinstance(e, Call) or e.function.loops is None or e.function.loops.bounded or e.function.shared is None:
        return None
    of, _ = e.function.shared
    return of, e.arguments[: of.arity]


def _counts(e: Expr, root: Expr, around: Mask) -> Mask:
    """Where `root`, which counts where `around` holds, needs `e`, as far as the indices of `e` tell."""
    counts: Mask = False
    for path in paths_to(e, root):
        masks: Mask = True
        for m in (around, *path):
            masks = both(masks, m) if isinstance(m, bool) or free(m) <= free(e) else masks
        counts = either(counts, masks)
    return counts
