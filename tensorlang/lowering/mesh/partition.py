"""How parameters and results lie on a mesh, for programs whose statements XLA's partitioner distributes.

These are programs that have more than statements with reads at affine places: those with recurrences, with numbers of
indices, and with functions from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlang.errors import ArgumentError, NormalFormError
from tensorlang.language.affine import Affine, Index
from tensorlang.language.census import expressions
from tensorlang.language.function import Function
from tensorlang.language.grammar import (
    Access,
    Choice,
    Expr,
    Extremum,
    Gen,
    Let,
    MakePair,
    Proj,
    Recur,
    Sum,
    Var,
    children,
)
from tensorlang.language.types import leaves, shape
from tensorlang.lowering.mesh.asked import Along, Asked, Layouts
from tensorlang.lowering.mesh.statements import parts
from tensorlang.lowering.plan.dependence import Key, read_by

Ranges = Mapping[Index, Affine]
"""What indices run over."""


@dataclass(frozen=True)
class Partition:
    """The axes of the mesh along which the axes of parameters, by name and part, and of the results are laid out."""

    parameters: Mapping[tuple[str, tuple[int, ...]], tuple[Along, ...]]
    results: Sequence[tuple[Along, ...]]


def partition(f: Function, asked: Asked) -> Partition:
    """How the parameters and results of `f` lie.

    Raises `ArgumentError` if a size is to be cut that is a number of steps alone.
    """
    _require_whole_times(f, asked)
    shapes = {(p, path): sizes for p in f.params for path, sizes in parts(p)}
    layouts = Layouts(asked, shapes)
    layouts.read(_reads(f.body, shapes))
    layouts.fill(shapes)
    found = {(p.name, path): tuple(layouts.found[p, path]) for p, path in shapes}
    return Partition(found, list(_results(f.body, asked)))


def _require_whole_times(f: Function, asked: Asked) -> None:
    """Raise `ArgumentError` if a size is to be cut that is a number of steps and nothing else."""
    of_space = {e.size for e in expressions(f.body) if isinstance(e, Gen | Sum | Extremum | Choice)}
    for e in expressions(f.body):
        if isinstance(e, Recur) and e.size not in of_space and (along := asked.of_size(e.size)):
            said = f"{e.index} of {e.word} {e.index}:{e.size} would be cut along {', '.join(along)}"
            hint = "name sizes that are no times: examples, channels, points of space"
            raise ArgumentError(f"the steps of a recurrence come one after the other; {said}", hint=hint)


def _reads(root: Expr, arrays: Mapping[Key, Any]) -> Iterator[tuple[Key, tuple[Affine, ...], Ranges]]:
    """Where `arrays` are read, with the ranges of the indices there."""
    inner: dict[tuple[int, Index, Affine | None], Ranges] = {}
    seen: set[tuple[Expr, int]] = set()
    nothing: Ranges = {}
    stack: list[tuple[Expr, Ranges]] = [(root, nothing)]
    while stack:
        e, ranges = stack.pop()
        if (e, id(ranges)) in seen:
            continue
        seen.add((e, id(ranges)))
        match e:
            case Var() | Access() | Proj():
                read = _read(e)
                if read is not None:
                    if read[0] in arrays:
                        yield *read, ranges
                    continue
            case Gen(i, n) | Sum(i, n) | Extremum(index=i, size=n) | Choice(index=i, size=n):
                ranges = inner.setdefault((id(ranges), i, n), {**ranges, i: n})
            case Recur(index=t):
                ranges = inner.setdefault((id(ranges), t, None), {i: n for i, n in ranges.items() if i is not t})
            case _:
                pass
        stack += [(child, ranges) for child in children(e)]


def _read(e: Expr) -> tuple[Key, tuple[Affine, ...]] | None:
    """The array that an access reads, and where; None if it reads something that is computed."""
    try:
        return read_by(e)
    except NormalFormError:
        return None


def _results(e: Expr, asked: Asked) -> Iterator[tuple[Along, ...]]:
    """How each array of a value lies: as the indices that make it, or as its sizes say."""
    bound: dict[Var, Expr] = {}
    stack = [e]
    while stack:
        e = stack.pop()
        while True:
            if isinstance(e, Let):
                if isinstance(e.var, Var):
                    bound[e.var] = e.value
                e = e.body
            elif isinstance(e, Var) and e in bound:
                e = bound[e]
            else:
                break
        if isinstance(e, MakePair):
            stack += [e.second, e.first]
            continue
        made_by: list[Gen] = []
        part: Expr = e
        while isinstance(part, Gen):
            made_by.append(part)
            part = part.body
        for _, kind in leaves(e.type):
            axes: list[Along] = []
            for k, size in enumerate(shape(kind)[0]):
                along = asked.of_index(made_by[k].index, size) if k < len(made_by) else asked.of_size(size)
                axes.append(() if any(set(along) & set(other) for other in axes) else along)
            yield tuple(axes)
