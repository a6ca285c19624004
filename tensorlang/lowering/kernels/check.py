"""Whether a program of kernels is well formed, and if not, why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tensorlang.language.affine import Index, atom_affine
from tensorlang.language.function import Parameter
from tensorlang.language.grammar import Add, Bracket, Call, Const, Expr, Extremum, Mul, Sum, Var
from tensorlang.language.predicates import And, Exists, Or, Predicate
from tensorlang.language.types import shape
from tensorlang.lowering.kernels.ir import Kernel, KernelProgram, Kind, Output, Recurrence, Role, leaves_of
from tensorlang.lowering.kernels.operands import expressions_of
from tensorlang.lowering.kernels.terms import conditions, free, nodes, over
from tensorlang.lowering.plan.dependence import places, variable


def why_not(program: KernelProgram) -> str | None:
    """Why `program` is no program of kernels; None if it is one.

    Each array must be made once, before it is read, and each kernel must be well formed by itself.
    """
    made = {x.var if isinstance(x, Output) else x for step in program.steps for x in step.outputs}
    there: set[Parameter] = {*program.parts, *(p for p in program.function.params if isinstance(p, Var))}
    for step in program.steps:
        if isinstance(step, Kernel):
            fault = kernel_fault(step, there) or _fault_of_passes(step, there)
            if fault is not None:
                return f"{step.name}: {fault}"
            outputs: Sequence[Parameter] = [output.var for output in step.outputs]
        else:
            outputs = step.outputs
            early = [p.name for p in step.function.params if p in made and p not in there]
            if early:
                return f"{early[0]} is read before it is made"
        twice = [x.name for x in outputs if x in there]
        if twice:
            return f"{twice[0]} is made twice"
        there.update(outputs)
    lost = [x.name for x in leaves_of(program.results) if x not in there]
    return f"the result {lost[0]} is not made" if lost else None


def _fault_of_passes(kernel: Kernel, there: Collection[Parameter]) -> str | None:
    """Why the passes of a kernel don't make what it makes."""
    known = set(there)
    for each in kernel.passes:
        fault = kernel_fault(each, known)
        if fault is not None:
            return f"in passes, {each.name}: {fault}"
        known.update(output.var for output in each.outputs)
    lost = [output.var.name for output in kernel.outputs if kernel.passes and output.var not in known]
    return f"{lost[0]} is not made in passes" if lost else None


def kernel_fault(kernel: Kernel, there: Collection[Parameter]) -> str | None:
    """Why `kernel` is not well formed, where the arrays `there` can be read; None if it is.

    Every index must be one of its axes. Those of outputs and accumulators are not reduced, and what is summed in a tile
    is whole or unrolled. Accumulators are read at their own axes: by outputs, and by the sums that a maximum scales.
    Expressions are scalar, and conditions have no quantifiers.
    """
    if len({axis.index for axis in kernel.axes}) < len(kernel.axes):
        return "an index has two axes"
    for axis in kernel.axes:
        if axis.is_tiled != bool(axis.block):
            return f"{axis.index} is {axis.role.value}, in tiles of {axis.block}"
    if any(map(_has_quantifier, [acc.pred for acc in kernel.accumulators] + conditions(*expressions_of(kernel)))):
        return "a condition has a quantifier"
    reduced = {axis.index for axis in kernel.of_role(Role.REDUCED)}
    complete: dict[Var, tuple[Index, ...]] = {}
    for acc in kernel.accumulators:
        if acc.shift is not None and acc.shift not in {a.var for a in kernel.accumulators if a.kind is Kind.MAX}:
            return f"{acc.var.name} is scaled by {acc.shift.name}, which is no maximum of the kernel"
        if acc.shift is not None and acc.shift not in complete:
            return f"{acc.var.name} is scaled before {acc.shift.name} is taken in"
        depends = free(acc.value) | over(acc.pred)
        known = {x: axes for x, axes in complete.items() if x is acc.shift}
        fault = _Place(kernel, acc.var, acc.axes, depends - reduced).fault(acc.value, [*there, *known], known)
        if fault is not None:
            return fault
        complete[acc.var] = acc.axes
    for output in kernel.outputs:
        place = _Place(kernel, output.var, output.axes, free(output.value))
        fault = place.fault(output.value, [*there, *complete], complete)
        if fault is not None:
            return fault
    return None


def recurrence_fault(r: Recurrence) -> str | None:
    """Why `r` is not well formed; None if it is.

    Its step is a kernel without accumulators and reduced axes; it reads the states, slices and arrays of the
    recurrence, and earlier outputs of its own. The next value of each state is one of these outputs, of the same shape.
    """
    step = r.step
    if step.accumulators or step.of_role(Role.REDUCED):
        return "something is accumulated in a step"
    if any(_has_quantifier(p) for p in conditions(*expressions_of(step))):
        return "a condition has a quantifier"
    there = {*(x.var for x in r.states), *(s.var for s in r.slices), *(x for x, _ in r.frees)}
    for output in step.outputs:
        fault = _Place(step, output.var, output.axes, free(output.value)).fault(output.value, there, {})
        if fault is not None:
            return fault
        there.add(output.var)
    made = {output.var for output in step.outputs}
    for x in r.states:
        if x.after not in made:
            return f"{x.after.name}, which {x.var.name} becomes, is not made"
        if len({shape(v.type) for v in (x.var, x.first, x.after)}) > 1:
            return f"{x.var.name} changes its shape"
    return None


@dataclass(frozen=True)
class _Place:
    """An array that a kernel makes at `axes`, from values that depend on the indices `depends`."""

    kernel: Kernel
    array: Var
    axes: tuple[Index, ...]
    depends: frozenset[Index]

    def fault(self, value: Expr, there: Collection[Parameter], complete: Mapping[Var, tuple[Index, ...]]) -> str | None:
        """Why it can't be `value`, which may read the arrays `there`, the `complete` accumulators among them."""
        roles = {axis.index: axis.role for axis in self.kernel.axes}
        if any(roles.get(i, Role.REDUCED) is Role.REDUCED for i in self.axes):
            return f"{self.array.name} has an axis that is reduced"
        for i in self.depends.difference(self.axes):
            return f"{self.array.name} depends on {i}"
        for e in nodes(value):
            x = variable(e)
            if isinstance(e, Sum | Extremum):
                if roles.get(e.index) not in (Role.WHOLE, Role.UNROLLED):
                    return f"{e.index} is summed in a tile, and is not whole or unrolled"
            elif x is None and not isinstance(e, Const | Add | Mul | Call | Bracket):
                return f"a {type(e).__name__.lower()} is in a scalar expression"
            elif x is not None and x not in there:
                return f"{x.name} is read before it is made"
            elif x is not None and x in complete and places(e) != [atom_affine(i) for i in complete[x]]:
                return f"{x.name} is read of another tile"
        return None


def _has_quantifier(p: Predicate) -> bool:
    return isinstance(p, Exists) or any(map(_has_quantifier, p.parts if isinstance(p, And | Or) else ()))
