"""A simplified program as statements, each a scalar under the binders of an array's axes, and its results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang.language.affine import Affine, Index, IndexArray, atom_affine
from tensorlang.language.function import Function
from tensorlang.language.grammar import Bracket, Expr, Gen, MakePair, Proj, Var, access
from tensorlang.language.lets import bindings
from tensorlang.language.types import Pair, shape, struct_of_arrays
from tensorlang.lowering.plan.dependence import Key, read_by
from tensorlang.recursion import Deep, call, run


@dataclass(frozen=True)
class ProgramResult:
    """An array that a program returns."""

    key: Key


Results = ProgramResult | tuple["Results", "Results"]
"""Arrays in pairs, as a function's value is."""

Bound = tuple[Var | IndexArray, tuple[tuple[Index, Affine], ...], Expr]
"""variable := gen axes. scalar"""


def statements_of(f: Function) -> tuple[list[Bound], Results]:
    """The statements of `f`, whose lets must be outermost, and gens outermost in each right-hand side.

    Results that are not arrays of it become statements, too.
    """
    bound, body = bindings(f.body)
    found = [(x, *_taken_apart(e)) for x, e in bound]
    return found, run(_results(body, found))


def leaves_of(results: Results) -> Iterator[Key]:
    """The arrays in a program's results, from left to right."""
    stack = [results]
    while stack:
        part = stack.pop()
        if isinstance(part, ProgramResult):
            yield part.key
        else:
            stack += reversed(part)


def _results(e: Expr, found: list[Bound]) -> Deep[Results]:
    if isinstance(e, MakePair):
        first = yield from call(_results(e.first, found))
        return first, (yield from call(_results(e.second, found)))
    if isinstance(struct_of_arrays(e.type), Pair):
        first = yield from call(_results(Proj(0, e), found))
        return first, (yield from call(_results(Proj(1, e), found)))
    if isinstance(e, Var | Proj):
        return ProgramResult(read_by(e)[0])
    x = Var("result", e.type)
    found.append((x, *_taken_apart(e)))
    return ProgramResult((x, ()))


def _taken_apart(e: Expr) -> tuple[tuple[tuple[Index, Affine], ...], Expr]:
    binders, scalar = eta(e)
    return tuple(binders), scalar


def eta(e: Expr) -> tuple[list[tuple[Index, Affine]], Expr]:
    """The binders of an array's axes and the scalar under them: an array that is no gen is one of its elements."""
    binders: list[tuple[Index, Affine]] = []
    while isinstance(e, Gen):
        binders.append((e.index, e.size))
        e = e.body
    sizes, _ = shape(e.type)
    further = [(Index(f"k{k}"), n) for k, n in enumerate(sizes)]
    at = [atom_affine(i) for i, _ in further]
    scalar = Bracket(e.pred, access(e.body, *at)) if isinstance(e, Bracket) else access(e, *at)
    return [*binders, *further], scalar
