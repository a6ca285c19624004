"""What an array program costs at given sizes, beside what the model says of the program that it was made of.

It is counted by running the array program in NumPy (`interpret`). Where it grows faster with the sizes than the
model's count does, inputs and outputs included, lowering has lost the bound of the derivative's cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorlang.cost.cost import cost
from tensorlang.errors import ArgumentError
from tensorlang.language.affine import IndexArray, Size
from tensorlang.language.arguments import Bound, bind
from tensorlang.language.function import Function
from tensorlang.language.grammar import Var
from tensorlang.language.predicates import Relation
from tensorlang.language.types import Pair, Type, shape, struct_of_arrays
from tensorlang.lower.arrays.interpret import interpret
from tensorlang.lower.arrays.program import ArrayProgram

EXCESS = 1.25
"""By how much more operations may grow than the model's when sizes are doubled, since small terms weigh, too."""


@dataclass(frozen=True)
class Counted:
    """Operations of an array program, and of its steps by name, bytes of the arrays that it names, and what the model
    counts for the program together with its inputs and outputs."""

    operations: int
    written: int
    model: int
    by_step: Mapping[str, int] = field(default_factory=dict)


def counted(f: Function, program: ArrayProgram, arguments: Mapping[str, Any]) -> Counted:
    """The cost of `program`, which `f` was lowered to with relations as boolean arrays, for these arguments.

    Raises `ArgumentError` if they don't fit `f`.
    """
    bound = bind(f, (), dict(arguments))
    given = [_dense(p, bound.values[p]) for p in f.params]
    results, found = interpret(program.definition, given, {name: bound.sizes[s] for s, name in program.told.items()})
    read = sum(a.size for value in given for a in _leaves(value)) + sum(np.size(a) for a in _leaves(results))
    return Counted(found.operations, found.written, _model(f, bound) + read, found.by_step)


def at_sizes(f: Function, program: ArrayProgram, sizes: Mapping[str, int]) -> Counted:
    """The same for arrays of random numbers at these sizes, relations that hold everywhere, and random indices.

    Raises `ArgumentError` if a size is missing.
    """
    missing = [s.name for s in f.sizes if s.name not in sizes]
    if missing:
        raise ArgumentError(f"the cost depends on {missing[0]}", hint=f"explain({missing[0]}=..)")
    values = {s: sizes[s.name] for s in f.sizes}
    rng = np.random.default_rng(0)
    arguments = {p.name: _drawn(p, values, rng) for p in f.params}
    undetermined = {s.name: n for s, n in values.items() if s in program.told}
    return counted(f, program, {**arguments, **undetermined})


def excess(small: Counted, large: Counted) -> float | None:
    """By which factor more the operations grow from `small` to `large` than the model's count; None if they don't."""
    growth = large.operations / max(small.operations, 1)
    allowed = EXCESS * large.model / max(small.model, 1)
    return growth / allowed * EXCESS if small.operations and growth > allowed else None


def _model(f: Function, bound: Bound) -> int:
    sizes = {s.name: n for s, n in bound.sizes.items()}
    data = {p.name: bound.values[p] for p in f.params if not isinstance(p, Var)}
    try:
        return cost(f, {**sizes, **data})
    except ArgumentError:  # it depends on which points are chosen
        return cost(f, {**sizes, **{p.name: bound.values[p] for p in f.params}})


def _dense(p: Var | Relation | IndexArray, value: Any) -> Any:
    if isinstance(p, Relation):
        return np.asarray(value.toarray() if hasattr(value, "toarray") else value, bool)
    if isinstance(value, tuple):
        return tuple(_dense(p, part) for part in value)
    return np.asarray(value, np.int64 if isinstance(p, IndexArray) else np.float64)


def _leaves(value: Any) -> Sequence[Any]:
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in _leaves(part)]
    return [np.asarray(value)]


def _drawn(p: Var | Relation | IndexArray, sizes: Mapping[Size, int], rng: np.random.Generator) -> Any:
    def dims(several: Sequence[Any]) -> list[int]:
        return [a.value(sizes) for a in several]

    def of(kind: Type) -> Any:
        if isinstance(kind, Pair):
            return of(kind.first), of(kind.second)
        return rng.uniform(0.5, 1.5, dims(shape(kind)[0]))

    match p:
        case Relation():
            return np.ones(dims(p.sizes), bool)
        case IndexArray():
            return rng.integers(0, max(1, p.size.value(sizes)), dims(p.sizes))  # type: ignore[arg-type]
        case Var():
            return of(struct_of_arrays(p.type))


def cost_notes(sizes: Mapping[str, int], small: Counted, large: Counted) -> list[str]:
    """What is said of the cost of a whole program at `sizes`, and of its growth to `large`, at twice these."""
    where = ", ".join(f"{name} = {n}" for name, n in sizes.items())
    grown, allowed = large.operations / max(small.operations, 1), large.model / max(small.model, 1)
    notes = [
        f"At {where} all of it takes {small.operations:,} operations and writes {small.written:,} bytes; "
        f"the model counts {small.model:,}, inputs and outputs included.",
        f"When the sizes double, operations grow {grown:.1f} times, the model's count {allowed:.1f} times.",
    ]
    if excess(small, large) is not None:
        notes.append("Operations grow faster than the model's count: the bound does not hold in what runs.")
    return notes
