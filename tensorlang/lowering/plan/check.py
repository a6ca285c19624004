"""Whether a plan is well formed, and if not, why."""

from __future__ import annotations

from collections.abc import Collection

from tensorlang.language.affine import Index, IndexArray, Size, atom_affine
from tensorlang.language.grammar import Expr, Gen, Let, MakePair, Recur, Sum, Var, access, children, type_of
from tensorlang.language.names import Named, free_names
from tensorlang.lowering.plan.ir import AtPoints, FusedSums, Plan, RowBlocks, Storage, StoredArray


def why_not(plan: Plan) -> str | None:
    """Why `plan` is no plan; None if it is one.

    Each array must be made once, before it is read, by gens around a scalar. The relation at whose points it is stored
    must be one of its axes; blocks must be of its own rows; and what is added up in one pass must be sums of the arrays
    that they are paired with.
    """
    there: set[Named] = set(plan.function.params)
    for given in plan.given:
        if given.variable in there:
            return f"{given.variable.name}: it is made twice"
        there.add(given.variable)
    for step in plan.steps:
        for x, e, fault in _assigned(step) if isinstance(step, StoredArray) else _added_up(step):
            found = "it is made twice" if x in there else _fault_of_value(x, e, there) or fault
            if found is not None:
                return f"{x.name}: {found}"
        there.update(step.variables)
    leaves = [plan.outputs]
    while leaves:
        e = leaves.pop()
        if isinstance(e, MakePair):
            leaves += [e.second, e.first]
        elif (found := _unread(e, there) or _nested(e)) is not None:
            return f"the outputs: {found}"
    return None


def _assigned(step: StoredArray) -> list[tuple[Var | IndexArray, Expr, str | None]]:
    return [(step.variable, step.value, _fault_of_storage(step.value, step.storage))]


def _added_up(step: FusedSums) -> list[tuple[Var | IndexArray, Expr, str | None]]:
    """The sums, each with what is wrong with it."""
    found: list[tuple[Var | IndexArray, Expr, str | None]] = []
    for (x, y), e in zip(step.pairs, step.values, strict=True):
        adds = isinstance(e, Sum) and e.body is access(y, atom_affine(e.index))
        found.append((x, e, None if adds else f"it is added up in one pass, but is no sum of {y.name}"))
    return found


def _fault_of_value(x: Var | IndexArray, e: Expr, there: Collection[Named]) -> str | None:
    if e.type != type_of(x):
        return f"it is of type {type_of(x)}, and its expression of type {e.type}"
    return _unread(e, there) or _nested(e)


def _unread(e: Expr, there: Collection[Named]) -> str | None:
    """Why `e` reads what is not `there`."""
    for x in free_names(e):
        if isinstance(x, Index):
            return f"the index {x.name} has no range"
        if not isinstance(x, Size) and x not in there:
            return f"{x.name} is read before it is made"
    return None


def _nested(e: Expr) -> str | None:
    """Why `e` is no gens around a scalar."""
    _, scalar = _taken_apart(e)
    seen, stack = {scalar}, [scalar]
    while stack:
        part = stack.pop()
        if isinstance(part, Gen | Let | Recur | MakePair):
            return f"a {type(part).__name__} is inside an expression"
        fresh = [c for c in children(part) if c not in seen]
        seen.update(fresh)
        stack += fresh
    return None


def _fault_of_storage(e: Expr, storage: Storage) -> str | None:
    axes, _ = _taken_apart(e)
    match storage:
        case AtPoints(related):
            own = {atom_affine(i) for i in axes}
            if len({a for a in related.arguments if a in own}) < len(related.arguments):
                return f"it is stored {storage}, whose arguments are not axes of it"
        case RowBlocks(cut):
            if tuple(axes) != cut.axes:
                return f"it is stored {storage}, and has the axes {', '.join(i.name for i in axes)}"
        case _:
            pass
    return None


def _taken_apart(e: Expr) -> tuple[list[Index], Expr]:
    """The indices of the gens around `e`, and what is under them."""
    axes = []
    while isinstance(e, Gen):
        axes.append(e.index)
        e = e.body
    return axes, e
